"""Cells to numbers and back, and schemas in files."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from kernelstream.tables import ColumnSchema, Schema, infer_schema
from kernelstream.tables.readers import Batch

TABLE = pa.table(
    {
        "n": pa.array(["1.234,5", "-0,5", None, "7"] * 10),
        "ok": pa.array(["yes", "no", "?", "yes"] * 10),
        "kind": pa.array(["a", "b", "", "a"] * 10),
    }
)
TREATMENT = infer_schema(TABLE)


def batch(table: pa.Table) -> Batch:
    (rows,) = table.combine_chunks().to_batches()
    return Batch(np.arange(1, len(table) + 1), rows, len(table))


def test_rows() -> None:
    X = TREATMENT.rows_of(TABLE.slice(0, 4))
    assert TREATMENT.features == ("n", "ok", "kind=a", "kind=b")
    nan = math.nan
    expected = np.array([[1234.5, 1, 1, 0], [-0.5, 0, 0, 1], [nan] * 4, [7, 1, 1, 0]])
    assert np.array_equal(X, expected, equal_nan=True)


def test_bad_cells_are_named_and_gaps_are_not() -> None:
    table = TABLE.slice(0, 4).set_column(0, "n", pa.array(["1,5", "x", None, "1e999"]))
    _, bad = TREATMENT.encode(batch(table), "float64")
    assert [(cell.place, cell.column) for cell in bad] == [(1, "n"), (3, "n")]
    assert "'x' is not a number" in bad[0].reason and "infinite" in bad[1].reason
    strict = replace(TREATMENT, fills=False)
    _, bad = strict.encode(batch(TABLE.slice(0, 4)), "float64")
    assert [(cell.place, cell.reason) for cell in bad] == [(2, "the value is missing")]
    wrong = TABLE.slice(0, 1).set_column(1, "ok", pa.array(["perhaps"]))
    _, bad = TREATMENT.encode(batch(wrong), "float64")
    assert "neither true nor false" in bad[0].reason


def test_and_back() -> None:
    X = TREATMENT.rows_of(TABLE.slice(0, 2))
    back = TREATMENT.decode(X)
    assert back["n"].to_pylist() == [1234.5, -0.5] and back["kind"].to_pylist() == ["a", "b"]
    assert back["ok"].to_pylist() == [True, False]


def test_codes() -> None:
    column = ColumnSchema("kind", "codes", "as asked", ("a", "b"))
    cells = pa.array(["b", " a", "new", None])
    assert column.encode(cells).ravel().tolist() == [1, 0, 2, 2]
    assert column.decode(np.array([[0.2], [0.9], [2.0]])).to_pylist() == ["a", "b", None]
    assert ColumnSchema("z", "codes", "", ("1", "3")).encode(
        pa.array([3.0, 1.0])
    ).ravel().tolist() == [
        1,
        0,
    ]


def test_text_of_a_file() -> None:
    assert Schema.from_text(TREATMENT.to_text()) == TREATMENT
    good = TREATMENT.to_text()
    for wrong in (
        "[]",
        "{",
        good.replace('"category"', '"word"'),
        good.replace('"levels": ["a", "b"]', '"levels": []'),
        good.replace('"missing": 0.25', '"missing": 7'),
        good.replace('"name": "ok"', '"name": 3'),
        good.replace('"reason"', '"purpose"'),
    ):
        with pytest.raises(ValueError, match="no release has written"):
            Schema.from_text(wrong)
