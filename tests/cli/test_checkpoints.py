"""``--resume``, without killing (see test_killed.py)."""

from __future__ import annotations

from pathlib import Path

from kernelstream.cli.failures import CHANGED
from tests.cli.conftest import OPTIONS, fitted, run, said


def test_resume_without_a_checkpoint_starts_afresh_and_says_so(data: Path) -> None:
    result = run("fit", "x.parquet", "-o", "m.safetensors", *OPTIONS, "--resume")
    assert "No checkpoint m.safetensors.checkpoint yet: starting afresh" in said(result)


def test_resume_of_a_finished_fit_says_so(data: Path) -> None:
    fitted()
    before = Path("m.safetensors").stat().st_mtime_ns
    result = run("fit", "x.parquet", "-o", "m.safetensors", *OPTIONS, "--resume")
    assert "Already complete" in said(result)
    assert Path("m.safetensors").stat().st_mtime_ns == before
    other = run("fit", "x.parquet", "-o", "m.safetensors", "--basis", 20, "--resume", code=CHANGED)
    assert "made from other sources or with other options" in said(other)
