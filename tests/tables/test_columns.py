"""Which columns are learned, their type, and values that are no finite numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from kernelstream.tables import BadRowError, Source, SourceError
from tests.tables.conftest import WRITERS, joined


def test_columns_by_name_and_pattern(tmp_path: Path, X: np.ndarray) -> None:
    WRITERS["x.parquet"](tmp_path / "x.parquet", X)
    source = Source(tmp_path / "x.parquet", columns=["d", "[ab]"], keep=["name", "a"])
    assert source.names == ("d", "a", "b")
    block = next(iter(source))
    assert np.array_equal(block.X, X[: len(block), [3, 0, 1]])
    assert block.carried.schema.names == ["name", "a"]
    assert Source(tmp_path / "x.parquet", exclude=["a", "c"]).names == ("b", "d")
    with pytest.raises(SourceError, match="no column 'z'; its columns: a, b, c, d, name"):
        Source(tmp_path / "x.parquet", columns=["z"])


@pytest.mark.parametrize("name", ["x.csv", "x.ndjson", "x.parquet"])
def test_text_columns_are_left_out(name: str, tmp_path: Path, X: np.ndarray) -> None:
    WRITERS[name](tmp_path / name, X)
    assert Source(tmp_path / name).names == ("a", "b", "c", "d")


def test_types(tmp_path: Path) -> None:
    columns = {"f": pa.array([1.5], pa.float32()), "u": pa.array([7], pa.uint8())}
    pq.write_table(pa.table(columns), tmp_path / "small.parquet")
    pq.write_table(pa.table({**columns, "i": pa.array([9])}), tmp_path / "large.parquet")
    assert Source(tmp_path / "small.parquet").dtype == "float32"
    assert Source(tmp_path / "large.parquet").dtype == "float64"


@pytest.mark.parametrize("name", ["x.parquet", "x.feather", "x.npy"])
def test_missing_values_of_typed_files(name: str, tmp_path: Path, X: np.ndarray) -> None:
    holed = X.copy()
    holed[1234, 2] = np.nan
    WRITERS[name](tmp_path / name, holed)
    column = "c" if name in ("x.parquet", "x.feather") else "x2"
    with pytest.raises(BadRowError, match=rf"row 1235, column '{column}': the value is missing"):
        joined(Source(tmp_path / name))
    assert np.array_equal(
        joined(Source(tmp_path / name, on_bad_rows="skip")), np.delete(X, 1234, axis=0)
    )


def test_a_number_too_large_for_the_type(tmp_path: Path) -> None:
    np.save(tmp_path / "large.npy", np.array([[1.0, 2.0], [1e300, 2.0]]))
    with pytest.raises(BadRowError, match="1e\\+300 is too large for float32"):
        joined(Source(tmp_path / "large.npy", dtype="float32"))
