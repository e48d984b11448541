"""``kernelstream explain``: components, and the strangest rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import run


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
    assert "Strangest rows" in shown and "load is" in shown and "expected" in shown
