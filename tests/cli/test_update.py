"""``update`` goes on as if the stream had never stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kernelstream.cli.failures import DATA
from kernelstream.tables import Run, addresses
from tests.cli.conftest import NAMES, OPTIONS, fitted, learned, outcome, run, said


def test_update_goes_on_like_one_stream(data: Path, X: np.ndarray) -> None:
    table = pd.DataFrame(X, columns=NAMES)
    table[:900].to_parquet("first.parquet")
    table[900:][["c", "a", "b"]].to_parquet("second.parquet")  # by name, not by place
    fitted("--passes", 1, output="whole.safetensors")
    fitted("--passes", 1, source="first.parquet")
    assert outcome("update", "m.safetensors", "second.parquet")["rows_seen"] == 1500
    whole, parts = learned("whole.safetensors"), learned("m.safetensors")
    assert np.array_equal(whole.dual_coef_, parts.dual_coef_)
    told = run("info", "m.safetensors").stdout
    assert "900 rows of first.parquet" in told and "600 rows of second.parquet" in told


def test_update_elsewhere_leaves_the_model(data: Path) -> None:
    fitted()
    before = Path("m.safetensors").read_bytes()
    run("update", "m.safetensors", "x.parquet", "-o", "n.safetensors")
    assert Path("m.safetensors").read_bytes() == before
    assert learned("n.safetensors").n_samples_seen_ == 3000


def test_update_with_resume_does_not_learn_twice(data: Path) -> None:
    fitted()
    for _ in range(2):
        run("update", "m.safetensors", "x.parquet", "--resume")
    assert learned("m.safetensors").n_samples_seen_ == 3000


def test_update_of_an_address_goes_on_where_it_stopped(data: Path, X: np.ndarray) -> None:
    """The position is in the model: each row of a query is learned once, however often it runs."""
    pytest.importorskip("duckdb", reason="needs duckdb")
    table = pd.DataFrame(X, columns=NAMES).assign(t=np.arange(len(X)))
    query = "sql:SELECT a, b, c FROM 'day*.parquet' ORDER BY t"
    table[:600].to_parquet("day1.parquet")
    fitted(source=query)
    wrong = run("update", "m.safetensors", query, code=DATA)
    assert "none after those that were read before" in said(wrong)
    table[600:1100].to_parquet("day2.parquet")
    assert outcome("update", "m.safetensors", query, "--limit", 200)["rows_seen"] == 800
    run("update", "m.safetensors", "sql:SELECT a, b, c FROM 'day1.parquet' ORDER BY t DESC LIMIT 1")
    table[1100:].to_parquet("day3.parquet")
    assert outcome("update", "m.safetensors", query, "--resume")["rows_seen"] == 1501
    places = [entry["position"]["row"] for entry in outcome("info", "m.safetensors")["history"]]
    assert places == [600, 800, 1, 1500]
    run("score", "m.safetensors", query, "-o", "scores.csv")
    assert len(pd.read_csv("scores.csv")) == 1500


def test_a_checkpoint_of_an_address_has_its_position(
    data: Path, X: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was stopped goes on there, and ends with the bytes of one that was not."""
    pytest.importorskip("duckdb", reason="needs duckdb")
    query = "sql:SELECT a, b, c, id FROM 'x.parquet' ORDER BY id"
    words = (query, *OPTIONS, "--checkpoint-every", "0s", "--treat", "id=out")
    monkeypatch.setattr(addresses, "rows_in_batch", lambda n: 100)
    run("fit", "-o", "whole.safetensors", *words)
    learn, calls = Run._learn, iter(range(100))

    def stopped(self: Run, block: Any) -> None:
        if next(calls) == 7:
            raise KeyboardInterrupt
        learn(self, block)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "_learn", stopped)
        run("fit", "-o", "m.safetensors", *words, code=130)
    assert "Going on after 700 rows" in said(run("fit", "-o", "m.safetensors", *words, "--resume"))
    assert Path("m.safetensors").read_bytes() == Path("whole.safetensors").read_bytes()
    told = said(run("fit", "-o", "m.safetensors", *words, "--resume"))
    assert "Already complete" in told
