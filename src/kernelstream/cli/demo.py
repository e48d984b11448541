"""Command ``demo``: fit, info, score and report on handwritten digits."""

from __future__ import annotations

import contextlib
import io
import shlex
import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from kernelstream.cli import options as opt
from kernelstream.cli.failures import CommandError, report_failures
from kernelstream.cli.terminal import Screen


def demo(
    folder: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for what it writes.")
    ] = Path("kernelstream-demo"),
    as_json: opt.Json = False,
) -> None:
    """Handwritten digits through every step: fit, info, score, report. Shows each command."""
    screen = Screen(as_json)
    with report_failures(as_json):
        from sklearn.datasets import load_digits

        from kernelstream.cli.app import app  # it holds this command, too: not at the top

        folder.mkdir(parents=True, exist_ok=True)
        images, digits = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(images))
        table = np.column_stack([digits[order], images[order] / 16])
        names = ["digit", *(f"p{i}{j}" for i in range(8) for j in range(8))]
        rows = folder / "digits.csv"
        np.savetxt(rows, table, delimiter=",", header=",".join(names), comments="", fmt="%g")
        model, page = folder / "digits.safetensors", folder / "report.html"
        scores = folder / "errors.csv"
        fit = ["fit", rows, "-o", model, "--exclude", "digit", "--components", "10"]
        fit += ["--force"] if model.exists() else []  # of the demonstration before this one
        look = ["report", model, rows, "-o", page, "--color", "digit", "--image-shape", "8x8"]
        steps = [
            [*fit, "--basis", "300", "--certify", "tight"],
            ["info", model, "--components", "5"],
            ["score", model, rows, "-o", scores, "--keep", "digit"],
            look,
        ]
        for step in steps:
            words = [str(word) for word in step]
            if not as_json:
                screen.out.print(
                    f"\n$ kernelstream {shlex.join(words)}", style="bold", soft_wrap=True
                )
            options = ["--quiet"] if as_json and words[0] != "info" else []
            application = typer.main.get_command(app)
            with contextlib.redirect_stdout(io.StringIO() if as_json else sys.stdout):
                code = application.main([*words, *options], standalone_mode=False)
            if code:
                raise CommandError(code, f"'kernelstream {words[0]}' did not succeed.")
        if as_json:
            files = [rows, model, scores, page]
            screen.result({"folder": str(folder), "files": [str(path) for path in files]})
