"""``kernelstream explain``: components, and the strangest rows."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kernelstream.cli.failures import DATA
from tests.cli.conftest import run, said


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Rows on a curve, of which one has a wrong column."""
    rng = np.random.default_rng(0)
    t = rng.uniform(-2, 2, 400)
    X = np.column_stack([t, t**2, np.sin(t)]) + 0.02 * rng.normal(size=(400, 3))
    X[123, 1] += 3.0
    lines = [f"r{i},{','.join(f'{v:.6f}' for v in row)}" for i, row in enumerate(X)]
    path = tmp_path / "rows.csv"
    path.write_text("id,speed,load,heat\n" + "\n".join(lines) + "\n")
    return path


def test_components_and_strange_rows(table: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.safetensors"
    run("fit", table, "-o", model, "--exclude", "id", "--basis", "80", "--components", "6")
    told = json.loads(run("explain", model, "--json").stdout)["components"]
    assert len(told) == 6 and told[0]["component"] == 1
    assert {c["name"] for c in told[0]["columns"]} <= {"speed", "load", "heat"}
    assert 0 < sum(c["share"] for c in told[0]["columns"]) <= 1 + 1e-9
    rows = json.loads(run("explain", model, table, "--keep", "id", "--top", "3", "--json").stdout)
    first = rows["rows"][0]
    assert first["id"] == "r123" and first["rank"] == 1 and first["row"] == 124
    assert first["p_value"] < 0.01 and first["causes"][0]["name"] == "load"
    assert first["causes"][0]["expected"] < first["causes"][0]["actual"]
    errors = [row["error"] for row in rows["rows"]]
    assert len(errors) == 3 and errors == sorted(errors, reverse=True)


def test_tables_for_people(table: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.safetensors"
    run("fit", table, "-o", model, "--exclude", "id", "--basis", "80", "--components", "6")
    shown = run("explain", model, "--top", "2", "--by", "1").stdout
    assert "Components" in shown and "shape" in shown and ("rises" in shown or "dips" in shown)
    shown = run("explain", model, table, "--top", "1").stdout
    assert "Rows with the largest error" in shown and "load is" in shown and "expected" in shown


@pytest.mark.parametrize("kind", [[], ["--detector", "novelty"]])
def test_rows_with_the_largest_error_are_those_of_score(
    table: Path, tmp_path: Path, kind: list[str]
) -> None:
    model = tmp_path / "m.safetensors"
    run("fit", table, "-o", model, "--exclude", "id", "--basis", "80", "--components", "6", *kind)
    every = pd.read_csv(
        io.StringIO(run("score", model, table, "--to", "csv", "--keep", "id").stdout)
    )
    name = "error" if kind else "reconstruction_error"
    told = json.loads(run("explain", model, table, "--top", 4, "--keep", "all", "--json").stdout)[
        "rows"
    ]
    strangest = every.sort_values(name, ascending=False, kind="stable").head(4)
    assert [row["id"] for row in told] == strangest["id"].tolist()
    assert [row["rank"] for row in told] == [1, 2, 3, 4]
    assert [row["error"] for row in told] == pytest.approx(strangest[name].tolist())
    assert told[0]["id"] == "r123" and told[0]["causes"][0]["name"] == "load"
    if kind:  # against rows that were held back, as in score
        assert [row["p_value"] for row in told] == pytest.approx(strangest["p_value"].tolist())
    else:  # against the sample that the model keeps, which holds all of so few rows
        assert told[0]["p_value"] == pytest.approx(2 / 401)


def test_a_kept_column_whose_name_is_taken_is_marked(table: Path, tmp_path: Path) -> None:
    model, marked = tmp_path / "m.safetensors", tmp_path / "marked.csv"
    run("fit", table, "-o", model, "--exclude", "id", "--basis", "80", "--components", "6")
    pd.read_csv(table).rename(columns={"id": "error"}).to_csv(marked, index=False)
    words = ["explain", model, marked, "--keep", "error", "--top", 1, "--json"]
    (row,) = json.loads(run(*words).stdout)["rows"]
    assert row["error_kept"] == "r123" and row["error"] > 0


def test_a_model_that_keeps_no_rows_cannot_say_what_is_usual(table: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.safetensors"
    one = ["--basis", "landmarks(points=1)", "--components", "1"]
    run("fit", table, "-o", model, "--exclude", "id", *one)
    assert "kept no rows to compare with: fit one with" in said(
        run("explain", model, table, code=DATA)
    )
