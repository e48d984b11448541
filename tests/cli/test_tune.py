"""``check --tune``: options for ``fit``, and the curve behind them; ``fit`` that chooses itself."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pandas as pd

from kernelstream.cli.failures import DATA
from tests.cli.conftest import learned, outcome, run, said


def test_check_tune_prints_a_command_that_can_be_typed(data: Path) -> None:
    found = outcome("check", "x.parquet", "--tune")
    assert found["rows"] == 1500 and len(found["curve"]) >= 12
    assert found["gamma"] in [line["gamma"] for line in found["curve"]]
    run(*shlex.split(found["command"])[1:])
    model = learned("model.safetensors")
    assert model.n_components_ == found["n_components"]
    assert len(model.basis_points_) == found["n_points"]
    text = run("check", "x.parquet", "--tune").stdout
    assert "kernelstream fit x.parquet --gamma" in " ".join(text.split())


def test_check_tune_with_a_target_predicts_it(data: Path, X: np.ndarray) -> None:
    table = pd.DataFrame(X[:300], columns=["a", "b", "c"]).assign(kind=(X[:300, 0] > 0).astype(int))
    table.to_csv("t.csv", index=False)
    found = outcome("check", "t.csv", "--tune", "--target", "kind")
    assert max(line["score"] for line in found["curve"]) > 0.9
    assert "--exclude kind" in found["command"]
    text = run("check", "t.csv", "--tune", "--target", "kind").stdout
    assert "n_components" in text
    assert "no column" in said(run("check", "t.csv", "--tune", "--target", "no", code=DATA))


def test_check_tune_of_mixed_units_scales_as_fit_does(data: Path, X: np.ndarray) -> None:
    """A column in other units made nine tenths of all distances, and the model explained 0.0%."""
    a = X[:, 0]
    columns = dict(a=a, b=a**2 + 0.1 * X[:, 1], c=np.sin(a) + 0.1 * X[:, 2], money=1e6 * a)
    table = pd.DataFrame(columns)
    table.to_csv("units.csv", index=False)
    found = outcome("check", "units.csv", "--tune")
    facts = outcome(*shlex.split(found["command"])[1:])
    assert facts["components"] == found["n_components"]
    assert facts["explained_variance_ratio"] > 0.3


def test_check_tune_takes_words_exclusions_and_a_sample_of_all_rows(
    data: Path, X: np.ndarray
) -> None:
    """The first rows of a sorted file are all alike; words are encoded as ``fit`` encodes them."""
    rows = np.tile(X[np.argsort(X[:, 0])], (20, 1))
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    table = pd.DataFrame(rows, columns=["a", "b", "c"])
    table["color"] = np.where(rows[:, 1] > 0, "red", "blue")
    table.to_parquet("sorted.parquet")
    found = outcome("check", "sorted.parquet", "--tune", "--exclude", "c")
    assert "--exclude c" in found["command"] and found["rows"] < len(table)
    run(*shlex.split(found["command"])[1:])
    model = learned("model.safetensors")
    assert model.n_features_in_ == 4 and model.n_components_ == found["n_components"]
    assert np.ptp(model.basis_points_[:, 0]) > 2.0  # from all of the file


def test_fit_chooses_for_itself(data: Path) -> None:
    options = ("--components", "auto", "--gamma", "auto", "--basis", "auto")
    run("fit", "x.parquet", "-o", "m.safetensors", *options)
    model = learned("m.safetensors")
    assert model.n_components == "auto" and isinstance(model.kernel_.gamma, float)
    run("fit", "x.parquet", "-o", "m.safetensors", "--gamma", "wide", code=2)
    run("fit", "x.parquet", "-o", "m.safetensors", "--gamma", "auto", "--kernel", "poly", code=2)
    run("fit", "x.parquet", "-o", "r.safetensors", "--components", 2, "--set", "robust=true")
    assert learned("r.safetensors").robust
