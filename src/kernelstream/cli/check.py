"""Command ``check``: inferred column types, invalid rows, and options for ``fit`` (``--tune``)."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import fields
from itertools import groupby
from typing import Any

from rich.table import Table

from kernelstream import StreamingKernelPCA, Suggestion, suggest
from kernelstream.cli.arguments import CheckArguments, FitArguments
from kernelstream.cli.failures import DATA, CommandError
from kernelstream.cli.intake import open_table, prepare_estimator, require_sample, scale_line
from kernelstream.cli.kinds import scale_of
from kernelstream.cli.terminal import Screen, facts_table, headed_table
from kernelstream.cli.wording import option_of
from kernelstream.tables import Schema, Source
from kernelstream.tables.schema import InvalidCell


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
            random_state=given.seed,
        )
    except ValueError as problem:
        raise CommandError(DATA, str(problem)) from problem
    command = shlex.join(fit_command(given, suggestion))
    names = ("gamma", "n_components", "n_points", "criterion", "curve")
    facts = {name: getattr(suggestion, name) for name in names}
    facts |= {"rows": len(X), "command": command}
    screen.result(facts, f"{suggestion}\nfrom a sample of {len(X):,} rows", command)


def fit_command(given: CheckArguments, suggestion: Suggestion) -> list[str]:
    """The words of ``fit`` with the suggested options, and with those that chose the rows."""
    excluded = [name for name in (given.exclude, given.target) if name is not None]
    options = {
        "gamma": f"{suggestion.gamma:.4g}",
        "components": suggestion.n_components,
        "basis": suggestion.n_points,
        **vars(given),
        "exclude": ",".join(excluded) or None,
    }
    defaults = {field.name: field.default for field in fields(FitArguments)}
    words = ["kernelstream", "fit", *given.sources]
    for name, value in options.items():
        if name in ("sources", "target", "as_json") or value == defaults.get(name, value):
            continue
        if isinstance(value, bool):
            words.append(option_of(name if value else f"no_{name}"))
            continue
        for text in value if isinstance(value, list) else [value]:
            words += [option_of(name), str(text)]
    return words


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
    """Every column, how it is handled, and why; more than 12 of one kind in a row are one line."""
    names = ("column", "what is done", "why")
    table = headed_table(title, names, text=names)
    for words, group in groupby(schema.columns, lambda column: (column.done, column.reason)):
        run = [column.name or "(no name)" for column in group]
        lines = run if len(run) <= 12 else [f"{run[0]} … {run[-1]} ({len(run):,})"]
        for line in lines:
            table.add_row(line, *words)
    return table
