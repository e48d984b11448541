"""The examples run, and what they show is true."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def decibels(output: str) -> dict[str, float]:
    """The lines "name  12.34 dB"."""
    lines = [line.split() for line in output.splitlines() if line.endswith(" dB")]
    return {" ".join(words[:-2]): float(words[-2]) for words in lines}


def run(name: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plt.switch_backend("Agg")
    monkeypatch.setattr(plt, "show", plt.close)
    monkeypatch.setattr(sys, "argv", [name, str(path)])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert path.stat().st_size > 10_000


def test_denoising_digits(tmp_path, monkeypatch, capsys):
    run("plot_denoise_digits.py", tmp_path / "picture.png", monkeypatch)
    found = decibels(capsys.readouterr().out)
    assert len(found) == 4
    assert found["Denoiser"] == max(found.values())


def test_super_resolution(tmp_path, monkeypatch, capsys):
    run("plot_super_resolution.py", tmp_path / "picture.png", monkeypatch)
    found = decibels(capsys.readouterr().out)
    assert found["SuperResolver"] > found["bicubic"] + 1 > found["pixels repeated"] + 1
