"""``merge``: models of parts become the model of all rows."""

from __future__ import annotations

from pathlib import Path

from kernelstream import load
from kernelstream.cli.failures import DATA
from tests.cli.conftest import NAMES, fitted, outcome, run, said


def test_merge(data: Path) -> None:
    fitted(output="a.safetensors")
    fitted("--seed", 5, output="b.safetensors")
    assert (
        outcome("merge", "a.safetensors", "b.safetensors", "-o", "c.safetensors")["rows_seen"]
        == 3000
    )
    assert list(load("c.safetensors").feature_names_in_) == NAMES
    fitted("--gamma", 0.3, output="b.safetensors")
    result = run("merge", "a.safetensors", "b.safetensors", "-o", "d.safetensors", code=DATA)
    assert "different kernels" in said(result) and not Path("d.safetensors").exists()
    run("merge", "a.safetensors", "-o", "d.safetensors", code=2)
