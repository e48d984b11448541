"""Command ``upgrade``: rewrites model files of earlier releases in the current format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kernelstream import serialization
from kernelstream.cli import options as opt
from kernelstream.cli.failures import report_failures
from kernelstream.cli.modelfile import lock, report_unreadable
from kernelstream.cli.terminal import Screen
from kernelstream.estimators.base import build


def upgrade(
    models: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Models, monitors or checkpoints.")
    ],
    as_json: opt.Json = False,
) -> None:
    """Write files of earlier releases in the format of this one, each in its place.

    Every release reads the files of all earlier ones: nothing has to be upgraded. It is for those
    who read files with other programs, or want to be rid of old formats. The model stays the same.

    Examples
    --------
      kernelstream upgrade model.safetensors

      kernelstream upgrade models/*.safetensors
    """
    screen = Screen(as_json)
    with report_failures(as_json):
        done = [upgraded(path) for path in models]
        words = [
            f"{fact['model']}: format version {fact['before']} → {fact['after']}"
            if fact["before"] != fact["after"]
            else f"{fact['model']}: format version {fact['after']}, nothing to be done"
            for fact in done
        ]
        screen.result({"files": done}, *words)


def upgraded(path: Path) -> dict[str, Any]:
    """Write one file anew where it is of an earlier version."""
    with report_unreadable(path), lock(path):
        file = serialization.read(path)
        if file.version != serialization.VERSION:
            estimator, content = build(file, path)
            serialization.save(path, {**content, **estimator._content()})
    return {
        "model": str(path),
        "before": file.version,
        "after": serialization.VERSION,
        "release": file.release,
    }
