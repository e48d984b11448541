"""``compress``: a model with fewer points."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kernelstream import load
from tests.cli.conftest import NAMES, fitted, learned, outcome, run, said


def test_compress(data: Path, X: np.ndarray) -> None:
    fitted()
    facts = outcome("compress", "m.safetensors", "-o", "s.safetensors")
    assert facts["before"]["points"] == 30 and facts["after"]["points"] == 15
    assert facts["after"]["explained"] > 0.95 * facts["before"]["explained"]
    assert facts["bytes"] == [
        Path(name).stat().st_size for name in ("m.safetensors", facts["model"])
    ]
    small = load("s.safetensors")
    assert list(small.feature_names_in_) == NAMES
    assert small.estimator_.basis_points_.shape == (15, 3)
    assert outcome("update", "s.safetensors", "x.parquet")["rows_seen"] == 3000
    text = run("compress", "m.safetensors", "-o", "m.safetensors", "--points", 9, "--force").stdout
    assert "30 → 9" in text and learned("m.safetensors").basis_points_.shape == (9, 3)


def test_what_cannot_be_compressed_is_said(data: Path) -> None:
    fitted()
    result = run("compress", "m.safetensors", "-o", "s.safetensors", "--points", 30, code=2)
    assert "to 29" in said(result) and not Path("s.safetensors").exists()
