"""``update`` goes on as if the stream had never stopped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from kernelstream import load
from tests.cli.conftest import NAMES, fitted, outcome, run


def test_update_goes_on_like_one_stream(data: Path, X: np.ndarray) -> None:
    table = pd.DataFrame(X, columns=NAMES)
    table[:900].to_parquet("first.parquet")
    table[900:][["c", "a", "b"]].to_parquet("second.parquet")  # by name, not by place
    fitted("--passes", 1, output="whole.safetensors")
    fitted("--passes", 1, source="first.parquet")
    assert outcome("update", "m.safetensors", "second.parquet")["rows_seen"] == 1500
    whole, parts = load("whole.safetensors"), load("m.safetensors")
    assert np.array_equal(whole.dual_coef_, parts.dual_coef_)
    told = run("info", "m.safetensors").stdout
    assert "900 rows of first.parquet" in told and "600 rows of second.parquet" in told


def test_update_elsewhere_leaves_the_model(data: Path) -> None:
    fitted()
    before = Path("m.safetensors").read_bytes()
    run("update", "m.safetensors", "x.parquet", "-o", "n.safetensors")
    assert Path("m.safetensors").read_bytes() == before
    assert load("n.safetensors").n_samples_seen_ == 3000


def test_update_with_resume_does_not_learn_twice(data: Path) -> None:
    fitted()
    for _ in range(2):
        run("update", "m.safetensors", "x.parquet", "--resume")
    assert load("m.safetensors").n_samples_seen_ == 3000
