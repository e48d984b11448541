"""Command ``demo``: fit, info, score and report on handwritten digits."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import typer

from kernelstream.cli.arguments import DemoArguments
from kernelstream.cli.failures import CommandError
from kernelstream.cli.terminal import Screen


def demo(given: DemoArguments, screen: Screen) -> None:
    """Write the digits as a table, and run the commands on it."""
    from kernelstream.cli.app import app  # it holds this command, too: not at the top

    folder = given.folder
    folder.mkdir(parents=True, exist_ok=True)
    rows, model = folder / "digits.csv", folder / "digits.safetensors"
    scores, page = folder / "errors.csv", folder / "report.html"
    write_digits(rows)
    fit = ["fit", rows, "-o", model, "--exclude", "digit", "--components", "10"]
    fit += ["--force"] if model.exists() else []  # of the demonstration before this one
    steps = [
        [*fit, "--basis", "300", "--set", "certify=tight"],
        ["info", model, "--components", "5"],
        ["score", model, rows, "-o", scores, "--keep", "digit"],
        ["report", model, rows, "-o", page, "--color", "digit", "--image-shape", "8x8"],
    ]
    for step in steps:
        words = [str(word) for word in step]
        screen.out.print(f"\n$ kernelstream {shlex.join(words)}", style="bold", soft_wrap=True)
        code = typer.main.get_command(app).main(words, standalone_mode=False)
        if code:
            raise CommandError(code, f"'kernelstream {words[0]}' did not succeed.")


def write_digits(path: Path) -> None:
    """Write scikit-learn's digits as a CSV file, in random order."""
    from sklearn.datasets import load_digits

    images, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    table = np.column_stack([digits[order], images[order] / 16])
    names = ["digit", *(f"p{i}{j}" for i in range(8) for j in range(8))]
    np.savetxt(path, table, delimiter=",", header=",".join(names), comments="", fmt="%g")
