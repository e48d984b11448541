"""``transform``, ``denoise`` and ``score``: tables in every format, or no file at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from kernelstream import load
from kernelstream.cli.failures import DATA
from tests.cli.conftest import BAD, NAMES, fitted, outcome, run, said


@pytest.mark.parametrize("name", ["o.parquet", "o.csv", "o.ndjson", "o.npy", "o.feather"])
def test_transform_to_every_format(data: Path, X: np.ndarray, name: str) -> None:
    fitted()
    keep = [] if name == "o.npy" else ["--keep", "id"]
    facts = outcome("transform", "m.safetensors", "x.parquet", "-o", name, *keep)
    assert facts == {"rows": 1500, "bad_rows": 0, "output": name}
    scores = load("m.safetensors").transform(pd.DataFrame(X, columns=NAMES))
    if name == "o.npy":
        assert np.allclose(np.load(name), scores, atol=1e-12)
        return
    reading: dict[str, Any] = {
        "o.parquet": pd.read_parquet,
        "o.feather": pd.read_feather,
        "o.ndjson": lambda path: pd.read_json(path, lines=True),
    }
    table = reading.get(name, pd.read_csv)(name)
    assert list(table.columns) == ["id", "pc1", "pc2", "pc3"]
    assert np.allclose(table[["pc1", "pc2", "pc3"]], scores, atol=1e-9)
    assert table["id"].tolist()[:2] == ["r0", "r1"]


def test_output_on_the_terminal(data: Path, X: np.ndarray) -> None:
    fitted()
    lines = run("transform", "m.safetensors", "x.parquet", "--limit", 2).stdout.splitlines()
    assert list(json.loads(lines[1])) == ["pc1", "pc2", "pc3"] and len(lines) == 2
    text = run("score", "m.safetensors", "x.parquet", "--limit", 2, "--to", "csv", "--keep", "all")
    assert text.stdout.splitlines()[0] == "id,reconstruction_error,t2"


def test_denoise_and_score_are_the_librarys(data: Path, X: np.ndarray) -> None:
    fitted()
    run("transform", "m.safetensors", "x.parquet", "--denoise", "-o", "clean.parquet")
    run("score", "m.safetensors", "x.parquet", "-o", "score.parquet")
    model, rows = load("m.safetensors"), pd.DataFrame(X, columns=NAMES)
    clean = pq.read_table("clean.parquet").to_pandas()
    assert list(clean.columns) == NAMES
    assert np.allclose(clean, model.inverse_transform(model.transform(rows)).to_pandas(), atol=1e-6)
    score = pq.read_table("score.parquet").to_pandas()
    assert np.allclose(score["reconstruction_error"], model.reconstruction_error(rows), atol=1e-12)
    t2 = (model.transform(rows) ** 2 / model.estimator_.explained_variance_).sum(axis=1)
    assert np.allclose(score["t2"], t2)


def test_csv_cells_that_need_quotes(data: Path) -> None:
    fitted()
    Path("q.csv").write_text('note,a,b,c\n"one, ""two""",1,2,3\nplain,1,2,3\n')
    run("score", "m.safetensors", "q.csv", "-o", "o.csv", "--keep", "note")
    assert pd.read_csv("o.csv")["note"].tolist() == ['one, "two"', "plain"]


def test_queries_that_fail_leave_no_file(data: Path) -> None:
    fitted()
    Path("bad.csv").write_text(BAD)
    Path("o.csv").write_text("old")
    assert "row 601" in said(run("score", "m.safetensors", "bad.csv", "-o", "o.csv", code=DATA))
    assert Path("o.csv").read_text() == "old" and not list(data.glob(".o.csv*"))
    few = run("transform", "m.safetensors", "x.parquet", "-o", "what", code=2)
    assert "name the format with --to" in said(few)
    packed = run("transform", "m.safetensors", "x.parquet", "-o", "o.csv.gz", code=2)
    assert "name the format with --to" in said(packed)
    Path("few.csv").write_text("a,b\n1,2\n")
    assert "no column 'c'" in said(run("score", "m.safetensors", "few.csv", code=DATA))
    same = run("score", "m.safetensors", "bad.csv", "-o", "bad.csv", code=2)
    assert "is also a source" in said(same)


def test_models_without_names_take_columns_by_place(data: Path, X: np.ndarray) -> None:
    np.save("x.npy", X)
    fitted(source="x.npy")
    assert not hasattr(load("m.safetensors"), "feature_names_in_")
    assert len(run("score", "m.safetensors", "x.parquet").stdout.splitlines()) == 1500
    Path("wide.csv").write_text("a,b,c,d\n1,2,3,4\n")
    wide = run("score", "m.safetensors", "wide.csv", code=DATA)
    assert "4 columns of numbers and the model wants 3" in said(wide)
