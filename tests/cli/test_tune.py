"""``tune``: options for ``fit``, and the curve behind them; ``fit`` that chooses for itself."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pandas as pd

from tests.cli.conftest import learned, outcome, run, said


def test_tune(data: Path) -> None:
    found = outcome("tune", "x.parquet", "--rows", 300)
    assert found["rows"] == 300 and len(found["curve"]) == 12
    assert found["gamma"] in [line["gamma"] for line in found["curve"]]
    # what it says can be typed
    run(*shlex.split(found["command"])[1:])
    model = learned("model.safetensors")
    assert model.n_components_ == found["n_components"]
    text = run("tune", "x.parquet", "--rows", 300).stdout
    assert "kernelstream fit x.parquet --gamma" in " ".join(text.split())


def test_tune_with_a_target(data: Path, X: np.ndarray) -> None:
    table = pd.DataFrame(X[:300], columns=["a", "b", "c"]).assign(kind=(X[:300, 0] > 0).astype(int))
    table.to_csv("t.csv", index=False)
    found = outcome("tune", "t.csv", "--target", "kind")
    assert max(line["score"] for line in found["curve"]) > 0.9
    assert "--exclude kind" in found["command"]
    text = run("tune", "t.csv", "--target", "kind", "--probe", "neighbours").stdout
    assert "5 components" in text
    assert "no column" in said(run("tune", "t.csv", "--target", "no", code=2))
    run("tune", "t.csv", "--kernel", "poly", code=3)


def test_fit_chooses_for_itself(data: Path) -> None:
    options = ("--components", "auto", "--gamma", "auto", "--basis", "auto")
    run("fit", "x.parquet", "-o", "m.safetensors", *options)
    model = learned("m.safetensors")
    assert model.n_components == "auto" and isinstance(model.kernel_.gamma, float)
    run("fit", "x.parquet", "-o", "m.safetensors", "--gamma", "wide", code=2)
    run("fit", "x.parquet", "-o", "m.safetensors", "--gamma", "auto", "--kernel", "poly", code=2)
    run("fit", "x.parquet", "-o", "r.safetensors", "--components", 2, "--robust")
    assert learned("r.safetensors").robust
