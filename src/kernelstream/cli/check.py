"""Commands ``check`` (inferred column types, invalid rows) and ``plan`` (schema for all parts)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from rich.table import Table

from kernelstream.cli import options as opt
from kernelstream.cli.beginning import begin, kept_schema, say_columns, scale_line
from kernelstream.cli.failures import DATA, CommandError, report_failures
from kernelstream.cli.modelfile import Stored, history, lock, require_apart, require_new
from kernelstream.cli.parts import USUAL, Parts
from kernelstream.cli.terminal import Screen, facts_table
from kernelstream.stream import Rows
from kernelstream.tables import ColumnSchema, Schema, Source
from kernelstream.tables.schema import InvalidCell

ALIKE = 12  # columns in a row that are treated alike are shown as one line


def check(
    sources: opt.Sources,
    columns: opt.Columns = None,
    exclude: opt.Exclude = None,
    understanding: opt.Understanding = opt.AS_IT_LOOKS,
    reading: opt.Reading = opt.AS_IT_COMES,
    as_json: opt.Json = False,
) -> None:
    """What the columns of a table are, what fit would do with each, and why. Nothing is learned.

    Examples
    --------
      kernelstream check data.csv

      kernelstream check parts/*.parquet --treat 'when=calendar,zip=category'
    """
    screen = Screen(as_json)
    with report_failures(as_json):
        read_options = reading.of_source(columns, exclude)
        source = Source(sources, **read_options, schema=understanding.wishes())
        estimator = USUAL.estimator()
        begin(estimator, source)
        treatment, X = source.schema, source.sampled_rows
        assert treatment is not None and X is not None
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
            "columns": column_facts(treatment),
        }
        shown = [
            ("rows in the sample", f"{len(X):,}"),
            ("columns", f"{len(treatment.learned):,} of {len(treatment.columns):,} are learned"),
            ("features", f"{len(source.names):,} ({source.dtype})"),
            *[("found", line) for line in source.remarks],
            *([("scale", scale)] if scale else []),
            *([("bad rows", bad_line(bad))] if bad else []),
        ]
        screen.result(facts, column_table(treatment), facts_table(shown))


def plan(
    sources: opt.Sources,
    output: opt.Output,
    columns: opt.Columns = None,
    exclude: opt.Exclude = None,
    understanding: opt.Understanding = opt.AS_IT_LOOKS,
    parts: Parts = USUAL,
    force: opt.Force = False,
    reading: opt.Reading = opt.AS_IT_COMES,
    quiet: opt.Quiet = False,
    as_json: opt.Json = False,
) -> None:
    """Decide columns, scale and width by a sample of all parts, for models that will be merged.

    The plan is a model of that sample. Fit each part with --like, then merge.

    Examples
    --------
      kernelstream plan monday.csv tuesday.csv -o plan.safetensors

      kernelstream fit monday.csv -o monday.safetensors --like plan.safetensors
    """
    screen = Screen(as_json, quiet)
    with report_failures(as_json):
        estimator = parts.estimator()
        read_options = reading.of_source(columns, exclude)
        with lock(output):
            require_new(output, force)
            source = Source(sources, **read_options, schema=understanding.wishes())
            require_apart([output], [file.path for file in source.files])
            if source.from_pipe:
                raise CommandError(DATA, "A plan needs files: a pipe can be read only once.")
            begin(estimator, source)
            say_columns(source, estimator, screen)
            X = source.sampled_rows
            if X is None or not len(X):
                raise CommandError(DATA, "The sources hold no good row: there is nothing to plan.")
            names = source.names if source.named else None
            stored = Stored(estimator, names, kept_schema(source))
            stored.stream = stored.stream.learn_all(Rows(X))
            entry = history([file.path for file in source.files], len(X), 0, plan=True)
            stored.origin = {"history": [entry]}
            stored.save(output)
        facts = {"model": str(output), "rows": len(X), "features": len(source.names)}
        words = f"A plan by {len(X):,} rows → {output}. Fit each part with --like {output}."
        screen.result(facts, words, output=output)


def bad_line(bad: Sequence[InvalidCell]) -> str:
    """What is wrong with rows of the sample, by the first of them."""
    return (
        f"{len(bad):,} in the sample, such as column {bad[0].column!r}: {bad[0].reason}. fit stops "
        "there, or passes over them with --on-bad-rows skip."
    )


def column_facts(treatment: Schema) -> list[dict[str, Any]]:
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
        for column in treatment.columns
    ]


def column_table(treatment: Schema, title: str | None = None) -> Table:
    """Every column with what is done and why; many in a row that are alike in one line."""
    table = Table(title=title, title_style="bold", title_justify="left", box=None)
    for name in ("column", "what is done", "why"):
        table.add_column(name, overflow="fold")

    def alike(column: ColumnSchema) -> tuple[str, str]:
        return column.done, column.reason

    for (done, reason), group in groupby(treatment.columns, alike):
        run = list(group)
        if len(run) > ALIKE:
            table.add_row(f"{run[0].name} … {run[-1].name} ({len(run):,})", done, reason)
            continue
        for column in run:
            table.add_row(column.name or "(no name)", done, reason)
    return table
