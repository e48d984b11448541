"""Command ``compress``: reduces the number of landmarks of a fitted model."""

from __future__ import annotations

from typing import Any

from kernelstream.cli.arguments import CompressArguments
from kernelstream.cli.failures import USAGE, CommandError
from kernelstream.cli.modelfile import Stored, lock, read, require_new
from kernelstream.cli.terminal import Screen, facts_table


def compress(given: CompressArguments, screen: Screen) -> None:
    """Write the model with fewer landmarks, and print what was lost."""
    model, output = given.model, given.output
    with lock(output):
        require_new(output, given.force)
        stored = read(model, "kernel PCA")
        before = size_facts(stored)
        n_points = given.points or max(1, before["points"] // 2)
        try:
            smaller = stored.estimator.compress(n_points)
        except ValueError as problem:
            raise CommandError(USAGE, f"{model}: {problem}") from problem
        small = Stored(smaller, stored.names, stored.schema, stored.origin)
        large_bytes = model.stat().st_size  # it may be the file that is written
        small.save(output)
    after, sizes = size_facts(small), (large_bytes, output.stat().st_size)
    facts = {"model": str(output), "before": before, "after": after, "bytes": sizes}
    shown = [
        ("points", f"{before['points']} → {after['points']}"),
        ("explained variance", f"{before['explained']:.4f} → {after['explained']:.4f}"),
        ("file", f"{sizes[0]:,} → {sizes[1]:,} bytes"),
        ("model", str(output)),
    ]
    screen.result(facts, facts_table(shown), output=output)


def size_facts(stored: Stored) -> dict[str, Any]:
    """Landmarks and explained variance ratio of a model."""
    n_points = int(stored.components.points.shape[0])
    ratio = stored.estimator.explained_variance_ratio_
    return {"points": n_points, "explained": float(ratio.sum())}
