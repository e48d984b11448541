"""Command ``check``: inferred column types, invalid rows, and options for ``fit`` (``--tune``)."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from rich.table import Table

from kernelstream import StreamingKernelPCA, Suggestion, suggest
from kernelstream.cli.arguments import CheckArguments
from kernelstream.cli.failures import DATA, CommandError
from kernelstream.cli.intake import open_table, prepare_estimator, require_sample, scale_line
from kernelstream.cli.kinds import scale_of
from kernelstream.cli.terminal import Screen, facts_table
from kernelstream.tables import ColumnSchema, Schema, Source
from kernelstream.tables.schema import InvalidCell

GROUPED = 12  # columns in a row that are handled the same way are shown as one line


def check(given: CheckArguments, screen: Screen) -> None:
    """Show how columns would be handled, or suggest options for ``fit``."""
    source = open_table(given, target=given.target)
    estimator = StreamingKernelPCA(scale=scale_of(given.standardize), random_state=given.seed)
    prepare_estimator(estimator, source)
    if given.tune:
        show_suggestion(given, source, estimator, screen)
        return
    schema, X = source.schema, source.sampled_rows
    assert X is not None
    scale = scale_line(source, estimator)
    bad = source.sampled_bad
    facts = {
        "files": [file.path for file in source.files],
        "rows_sampled": len(X),
        "bad_rows_sampled": len(bad),
        "features": len(source.names),
        "dtype": source.dtype,
        "remarks": list(source.remarks),
        "scale": scale or None,
        "columns": column_facts(schema),
    }
    shown = [
        ("rows in the sample", f"{len(X):,}"),
        ("columns", f"{len(schema.learned):,} of {len(schema.columns):,} are learned"),
        ("features", f"{len(source.names):,} ({source.dtype})"),
        *[("found", line) for line in source.remarks],
        *([("scale", scale)] if scale else []),
        *([("bad rows", bad_line(bad))] if bad else []),
    ]
    screen.result(facts, column_table(schema), facts_table(shown))


# -- options for fit


def show_suggestion(
    given: CheckArguments, source: Source, estimator: StreamingKernelPCA, screen: Screen
) -> None:
    """Suggest options by the sample of all rows, encoded and scaled as ``fit`` would do it."""
    require_sample(source)
    scaler, X = estimator.stream_.scaler, source.filled_sample
    try:
        suggestion = suggest(
            X if scaler is None else scaler.apply(X),
            source.sampled_targets,
            kernel=given.kernel,
            probe=given.probe.value,
            random_state=given.seed,
        )
    except ValueError as problem:
        raise CommandError(DATA, str(problem)) from problem
    command = shlex.join(fit_command(given, suggestion))
    facts = {
        "gamma": suggestion.gamma,
        "n_components": suggestion.n_components,
        "n_points": suggestion.n_points,
        "rows": len(X),
        "criterion": suggestion.criterion,
        "curve": suggestion.curve,
        "command": command,
    }
    shown = [
        ("gamma", f"{suggestion.gamma:.4g}"),
        ("components", str(suggestion.n_components)),
        ("points", str(suggestion.n_points)),
        ("from", f"a sample of {len(X):,} rows"),
    ]
    curve = curve_table(suggestion.curve)
    screen.result(facts, facts_table(shown), suggestion.criterion, curve, command)


def fit_command(given: CheckArguments, suggestion: Suggestion) -> list[str]:
    """The words of ``fit`` with the suggested options, and with those that chose the rows."""
    excluded = [name for name in (given.exclude, given.target) if name is not None]
    options = {
        "--columns": given.columns,
        "--exclude": ",".join(excluded) or None,
        "--treat": given.treat,
        "--missing": None if given.missing.value == "fill" else given.missing.value,
        "--limit": given.limit,
        "--on-bad-rows": None if given.on_bad_rows.value == "error" else given.on_bad_rows.value,
        "--format": None if given.format is None else given.format.value,
        "--kernel": None if given.kernel == "rbf" else given.kernel,
        "--gamma": f"{suggestion.gamma:.4g}",
        "--components": suggestion.n_components,
        "--basis": suggestion.n_points,
        "--seed": given.seed or None,
    }
    words = ["kernelstream", "fit", *given.sources]
    for option, value in options.items():
        words += [] if value is None else [option, str(value)]
    for setting in given.read or ():
        words += ["--read", setting]
    if given.standardize is not None:
        words.append("--standardize" if given.standardize else "--no-standardize")
    return words


def curve_table(curve: list[dict[str, Any]]) -> Table:
    """Bandwidths as lines; with a target, numbers of components as columns."""
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


# -- columns


def bad_line(bad: Sequence[InvalidCell]) -> str:
    """What is wrong with rows of the sample, by the first of them."""
    return (
        f"{len(bad):,} in the sample, such as column {bad[0].column!r}: {bad[0].reason}. fit stops "
        "there, or passes over them with --on-bad-rows skip."
    )


def column_facts(schema: Schema) -> list[dict[str, Any]]:
    """Every column, for machines."""
    return [
        {
            "name": column.name,
            "use": column.use,
            "done": column.done,
            "reason": column.reason,
            "features": list(column.features),
            "missing": column.missing,
        }
        for column in schema.columns
    ]


def column_table(schema: Schema, title: str | None = None) -> Table:
    """Every column, how it is handled, and why; many in a row of one kind are one line."""
    table = Table(title=title, title_style="bold", title_justify="left", box=None)
    for name in ("column", "what is done", "why"):
        table.add_column(name, overflow="fold")

    def alike(column: ColumnSchema) -> tuple[str, str]:
        return column.done, column.reason

    for (done, reason), group in groupby(schema.columns, alike):
        run = list(group)
        if len(run) > GROUPED:
            table.add_row(f"{run[0].name} … {run[-1].name} ({len(run):,})", done, reason)
            continue
        for column in run:
            table.add_row(column.name or "(no name)", done, reason)
    return table
