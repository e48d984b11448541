"""Command ``tune``: suggests bandwidth, number of components and number of landmarks."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

import kernelstream
from kernelstream.cli import completion
from kernelstream.cli import options as opt
from kernelstream.cli.failures import DATA, USAGE, CommandError, report_failures
from kernelstream.cli.terminal import Screen, facts_table
from kernelstream.tables import Source

ROWS = 20_000


def tune(
    sources: opt.Sources,
    columns: opt.Columns = None,
    exclude: opt.Exclude = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="A column of numbers: what scores are to tell. It is no feature then.",
            autocompletion=completion.column,
        ),
    ] = None,
    kernel: Annotated[
        str,
        typer.Option(
            help="rbf, laplacian or exponential.",
            autocompletion=completion.names("rbf", "laplacian", "exponential"),
        ),
    ] = "rbf",
    probe: Annotated[
        str, typer.Option(help="With a target: linear, or neighbours (the five nearest).")
    ] = "linear",
    standardize: Annotated[
        bool, typer.Option("--standardize", help="Compare standardised columns.")
    ] = False,
    rows: Annotated[int, typer.Option(min=10, help="Rows to read, from the first on.")] = ROWS,
    seed: Annotated[int, typer.Option(help="Of everything drawn.")] = 0,
    reading: opt.Reading = opt.AS_IT_COMES,
    as_json: opt.Json = False,
) -> None:
    """Suggest options for 'fit', with the curve behind them.

    Without a target: the width from whose scores rows are reconstructed best, and the components
    that have more variance than chance gives them. With one: those that tell it best.

    Examples
    --------
      kernelstream tune data/*.parquet --standardize

      kernelstream tune digits.csv --target digit --probe neighbours
    """
    screen = Screen(as_json)
    with report_failures(as_json):
        read_options = reading.of_source(columns, exclude, None)
        source = Source(sources, **read_options)
        X = first_rows(source, rows)
        names, y = list(source.names), None
        if target is not None:
            if target not in names:
                raise CommandError(
                    USAGE, f"--target {target!r} is no column of numbers; there are {names}."
                )
            y = X[:, names.index(target)]
            X = np.delete(X, names.index(target), axis=1)
        try:
            found = kernelstream.suggest(
                X,
                y,
                kernel=kernel,
                probe=probe,
                scale="standard" if standardize else None,
                random_state=seed,
            )
        except ValueError as problem:
            raise CommandError(DATA, str(problem)) from problem
        words = ["kernelstream", "fit", *sources]
        words += ["--exclude", target] if target is not None else []
        words += [] if kernel == "rbf" else ["--kernel", kernel]
        words += ["--gamma", f"{found.gamma:.4g}", "--components", str(found.n_components)]
        words += ["--basis", str(found.n_points)]
        words += ["--standardize"] if standardize else []
        command = shlex.join([*words, "-o", "model.safetensors"])
        facts: dict[str, Any] = {
            "gamma": found.gamma,
            "n_components": found.n_components,
            "n_points": found.n_points,
            "rows": len(X),
            "criterion": found.criterion,
            "curve": found.curve,
            "command": command,
        }
        shown = [
            ("gamma", f"{found.gamma:.4g}"),
            ("components", str(found.n_components)),
            ("points", str(found.n_points)),
            ("from", f"{len(X):,} rows"),
        ]
        screen.result(facts, facts_table(shown), found.criterion, curve_table(found.curve), command)


def first_rows(source: Source, most: int) -> np.ndarray:
    """The first rows of a source, at most so many."""
    blocks, n = [], 0
    for block in source:
        blocks.append(np.asarray(block.X, dtype=np.float64)[: most - n])
        n += len(blocks[-1])
        if n >= most:
            break
    if n < 10:
        raise CommandError(DATA, f"There are {n} rows, and at least 10 are needed.")
    return np.concatenate(blocks)


def curve_table(curve: list[dict[str, Any]]) -> Table:
    """Widths as lines; with a target, numbers of components as columns."""
    table = Table(box=None)
    if "n_components" not in curve[0]:
        for name in ("gamma", "error"):
            table.add_column(name, justify="right")
        for line in curve:
            table.add_row(f"{line['gamma']:.4g}", f"{line['error']:.4f}")
        return table
    numbers = sorted({line["n_components"] for line in curve})
    for name in ("gamma", *(f"{r} components" for r in numbers)):
        table.add_column(name, justify="right")
    for gamma in dict.fromkeys(line["gamma"] for line in curve):
        scores = {line["n_components"]: line["score"] for line in curve if line["gamma"] == gamma}
        table.add_row(f"{gamma:.4g}", *(f"{scores[r]:.3f}" for r in numbers))
    return table
