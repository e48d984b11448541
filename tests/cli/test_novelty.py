"""``fit --novelty`` and what ``score``, ``update`` and ``merge`` do with a detector."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kernelstream import KernelNovelty
from kernelstream.cli.failures import USAGE
from tests.cli.conftest import NAMES, learned, outcome, run, said


@pytest.fixture
def detector(data: Path) -> str:
    run(
        "fit",
        "x.parquet",
        "-o",
        "d.safetensors",
        "--detector",
        "novelty",
        "--basis",
        "60",
        "--alpha",
        "0.02",
    )
    return "d.safetensors"


def test_it_is_the_librarys(detector: str, X: np.ndarray) -> None:
    model = learned(detector)
    due = KernelNovelty(0.02, basis=60, random_state=0).partial_fit(X)
    assert isinstance(model, KernelNovelty) and model.get_params() == due.get_params()
    np.testing.assert_array_equal(model.score_samples(X), due.score_samples(X))
    assert model.n_samples_seen_ == 1500 and model.offset_ == due.offset_


def test_score_tells_p_values_and_the_columns_behind_a_row(detector: str, X: np.ndarray) -> None:
    strange = X[:6].copy()
    strange[2, 1] += 30.0
    pd.DataFrame(strange, columns=NAMES).to_csv("new.csv", index=False)
    run("score", detector, "new.csv", "-o", "found.csv")
    table = pd.read_csv("found.csv", keep_default_na=False)
    assert list(table.columns) == ["error", "p_value", "novel", "causes"]
    model = learned(detector)
    np.testing.assert_allclose(table["error"], -model.score_samples(strange), atol=1e-9)
    np.testing.assert_allclose(table["p_value"], model.p_values(strange), atol=1e-9)
    assert table["novel"][2] == 1 and table["causes"][2].startswith(f"{NAMES[1]} ")
    assert all(cause == "" for cause in table["causes"][table["novel"] == 0])


def test_numpy_files_hold_numbers_only(detector: str, X: np.ndarray) -> None:
    run("score", detector, "x.parquet", "-o", "found.npy")
    assert np.load("found.npy").shape == (1500, 3)


def test_it_goes_on_learning_and_merges(detector: str, X: np.ndarray) -> None:
    run("update", detector, "x.parquet", "-o", "more.safetensors")
    due = KernelNovelty(0.02, basis=60, random_state=0).partial_fit(X).partial_fit(X)
    np.testing.assert_array_equal(learned("more.safetensors").p_values(X), due.p_values(X))
    assert outcome("merge", detector, detector, "-o", "both.safetensors")["rows_seen"] == 3000
    assert outcome("info", detector)["kind"] == "KernelNovelty"
    assert outcome("info", detector)["rows_seen"] == 1500


def test_checkpoints_hold_what_is_held_back(data: Path, X: np.ndarray) -> None:
    """A run that goes on from a checkpoint ends with the detector of a run in one go."""
    options = ["--detector", "novelty", "--basis", "40", "--checkpoint-every", "0s", "--quiet"]
    run("fit", "x.parquet", "-o", "a.safetensors", *options)
    run("fit", "x.parquet", "-o", "b.safetensors", "--resume", *options)
    np.testing.assert_array_equal(
        learned("a.safetensors").p_values(X), learned("b.safetensors").p_values(X)
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--detector", "novelty", "--set", "tracker=rls"], "--set tracker"),
        (["--detector", "novelty", "--passes", "2"], "--passes cannot be used"),
        (["--detector", "novelty", "--alpha", "1.5"], "alpha must be a number between 0 and 1"),
        (["--alpha", "0.1"], "--alpha cannot be used"),
    ],
)
def test_what_is_refused(data: Path, options: list[str], says: str) -> None:
    result = run("fit", "x.parquet", "-o", "d.safetensors", *options, code=USAGE)
    assert says in said(result)


def test_rows_as_they_are(data: Path) -> None:
    run("fit", "x.parquet", "-o", "d.safetensors", "--detector", "novelty", "--no-standardize")
    assert learned("d.safetensors").scale is None


def test_lines_of_a_pipe(detector: str) -> None:
    lines = run("score", detector, "x.parquet", "--limit", 2).stdout.splitlines()
    assert list(json.loads(lines[0])) == ["error", "p_value", "novel", "causes"]
