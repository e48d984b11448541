"""Command ``merge``: combines models that were fitted on different parts of the rows."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Annotated

import typer

from kernelstream.cli import options as opt
from kernelstream.cli.failures import DATA, USAGE, CommandError, report_failures
from kernelstream.cli.modelfile import Stored, lock, read, require_new
from kernelstream.cli.terminal import Screen


def merge(
    models: Annotated[list[Path], typer.Argument(help="Two or more models of the same kind.")],
    output: opt.Output,
    force: opt.Force = False,
    as_json: opt.Json = False,
) -> None:
    """Models that were fitted apart become the model of all their rows.

    They need the same features and the same kernel with the same numbers (fit with --like).

    Examples
    --------
      kernelstream merge monday.safetensors tuesday.safetensors -o both.safetensors
    """
    screen = Screen(as_json)
    with report_failures(as_json):
        if len(models) < 2:
            raise CommandError(USAGE, "Name at least two models to merge.")
        with lock(output):
            require_new(output, force)
            stored = [read(path) for path in models]
            for path, other in zip(models[1:], stored[1:], strict=True):
                if other.names != stored[0].names:
                    raise CommandError(
                        DATA,
                        f"{models[0]} and {path} have different columns. Fit the parts after one "
                        "model: kernelstream plan PARTS, then fit each with --like.",
                    )
            both = reduce(lambda a, b: a.merge(b), (each.estimator for each in stored))
            entries = [entry for each in stored for entry in each.origin.get("history", [])]
            first = stored[0]
            Stored(both, first.names, first.schema, {"history": entries}).save(output)
            rows = both.n_samples_seen_
        facts = {"model": str(output), "rows_seen": rows, "merged": [str(path) for path in models]}
        words = f"{len(models)} models, {rows:,} rows → {output}"
        screen.result(facts, words, output=output)
