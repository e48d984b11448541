"""Command ``compress``: reduces the number of landmarks of a fitted model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kernelstream.cli import options as opt
from kernelstream.cli.failures import USAGE, CommandError, report_failures
from kernelstream.cli.modelfile import Stored, lock, read_kernel_pca, require_new
from kernelstream.cli.terminal import Screen, facts_table


def compress(
    model: Annotated[Path, typer.Argument(help="A model that 'fit' has written.")],
    output: opt.Output,
    points: Annotated[
        int | None, typer.Option(min=1, help="How many. Default: half of those that it has.")
    ] = None,
    force: opt.Force = False,
    as_json: opt.Json = False,
) -> None:
    """Fewer points: a smaller file, and scores in a fraction of the time.

    No row is needed, and none is in the new file. It says what was lost, as does the certificate
    ('kernelstream info'). The model goes on learning ('update'), but its points stay.

    Examples
    --------
      kernelstream compress model.safetensors -o small.safetensors

      kernelstream compress model.safetensors -o small.safetensors --points 64
    """
    screen = Screen(as_json)
    with report_failures(as_json):
        with lock(output):
            require_new(output, force)
            stored = read_kernel_pca(model)
            before = told(stored)
            wanted = points or max(1, before["points"] // 2)
            try:
                smaller = stored.estimator.compress(wanted)
            except ValueError as problem:
                raise CommandError(USAGE, f"{model}: {problem}") from problem
            small = Stored(smaller, stored.names, stored.schema, stored.origin)
            after, large = told(small), model.stat().st_size  # it may be the file that is written
            small.save(output)
        sizes = large, output.stat().st_size
        facts = {"model": str(output), "before": before, "after": after, "bytes": sizes}
        shown = [
            ("points", f"{before['points']} → {after['points']}"),
            ("explained variance", f"{before['explained']:.4f} → {after['explained']:.4f}"),
            ("file", f"{sizes[0]:,} → {sizes[1]:,} bytes"),
            ("model", str(output)),
        ]
        screen.result(facts, facts_table(shown), output=output)


def told(stored: Stored) -> dict[str, Any]:
    """What is said of a model before and after."""
    shown = stored.components
    ratio = stored.estimator.explained_variance_ratio_
    return {"points": int(shown.points.shape[0]), "explained": float(ratio.sum())}
