"""Command ``merge``: combines models that were fitted on different parts of the rows."""

from __future__ import annotations

from functools import reduce

from kernelstream.cli.arguments import MergeArguments
from kernelstream.cli.failures import DATA, USAGE, CommandError
from kernelstream.cli.modelfile import SCORES, Stored, lock, read, require_new
from kernelstream.cli.terminal import Screen


def merge(given: MergeArguments, screen: Screen) -> None:
    """Write the model of the rows of all models."""
    models, output = given.models, given.output
    if len(models) < 2:
        raise CommandError(USAGE, "Name at least two models to merge.")
    with lock(output):
        require_new(output, given.force)
        stored = [read(path, *SCORES) for path in models]
        for path, other in zip(models[1:], stored[1:], strict=True):
            if other.names != stored[0].names:
                raise CommandError(
                    DATA,
                    f"{models[0]} and {path} have different columns. Fit the parts like one "
                    "model: kernelstream fit PART --like MODEL.",
                )
        merged = reduce(lambda a, b: a.merge(b), (each.estimator for each in stored))
        entries = [entry for each in stored for entry in each.origin.get("history", [])]
        first = stored[0]
        Stored(merged, first.names, first.schema, {"history": entries}).save(output)
    rows = merged.n_samples_seen_
    facts = {"model": str(output), "rows_seen": rows, "merged": [str(path) for path in models]}
    screen.result(facts, f"{len(models)} models, {rows:,} rows → {output}", output=output)
