"""NumPy arrays and archives as sources."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest

from kernelstream.tables import Source, SourceError, SourcePosition
from tests.tables.conftest import joined


def test_images_are_flattened(tmp_path: Path) -> None:
    images = np.arange(24, dtype=np.uint8).reshape(3, 2, 4)
    np.save(tmp_path / "images.npy", images)
    source = Source(tmp_path / "images.npy", keep=["x1"])
    (block,) = source
    assert source.dtype == "float32" and source.image_shape == (2, 4)
    assert np.array_equal(block.X, images.reshape(3, 8))
    assert block.carried.to_pydict() == {"x1": [1, 9, 17]}


def test_an_archive_names_the_remedy(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", first=np.zeros((3, 2)), second=np.ones((4, 5)))
    with pytest.raises(SourceError, match=r"is an archive or a spreadsheet: .* or \.npy"):
        Source(tmp_path / "two.npz")


@pytest.mark.parametrize("shape", [(1000,), (1000, 3), (1000, 2, 3), (1000, 2, 3, 2), (1000, 0)])
def test_arrays_stored_by_columns_are_those_stored_by_rows(
    shape: tuple[int, ...], tmp_path: Path
) -> None:
    A = np.random.default_rng(0).normal(size=shape)
    np.save(tmp_path / "rows.npy", A)
    np.save(tmp_path / "columns.npy", np.asfortranarray(A))
    if not A.size:
        with pytest.raises(SourceError, match="no column of numbers"):
            Source(tmp_path / "rows.npy")
        return
    for name in ("rows.npy", "columns.npy"):
        assert np.array_equal(joined(Source(tmp_path / name)), A.reshape(1000, -1))
        after = joined(Source(tmp_path / name), SourcePosition(0, 700))
        assert np.array_equal(after, A.reshape(1000, -1)[700:])


def header(shape: str, descr: str = "'<f8'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (header("(1152921504606846976, 3)"), "truncated"),
        (header("(3, 1152921504606846976)"), "numbers a row; at most"),
        (header("(2, 4294967296, 4294967296)"), "numbers a row; at most"),
        (header("(-1, 3)"), "not a NumPy array"),
        (header("(10, 3)", "'|O'"), "holds object, not numbers"),
        (header("(10, 3)", "'<zz'"), "not a NumPy array"),
        (header("(" * 90), "not a NumPy array"),
        (header("(10, 3)")[:30], "not a NumPy array"),
    ],
)
@pytest.mark.parametrize("name", ["a.npy", "a.npy.gz"])
def test_headers_that_promise_what_is_not_there(
    start: bytes, message: str, name: str, tmp_path: Path
) -> None:
    content = start + bytes(100)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    with pytest.raises(SourceError, match=message):
        joined(Source(tmp_path / name))


# --- files that change while they are read


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("format", ["npy", "arrow"])
def test_a_file_that_is_truncated_while_it_is_read(format: str, order: str, tmp_path: Path) -> None:
    """A writer begins it anew: an error, not a signal."""
    X = np.random.default_rng(0).normal(size=(200_000, 5))
    path = tmp_path / f"t.{format}"
    if format == "npy":
        np.save(path, np.asfortranarray(X) if order == "F" else X)
    else:
        table = pa.table({f"c{i}": X[:, i] for i in range(5)})
        pyarrow.feather.write_feather(table, path, compression="uncompressed")
    blocks = iter(Source(path))
    np.testing.assert_array_equal(next(blocks).X[:100], X[:100])
    os.truncate(path, path.stat().st_size // 3)
    with pytest.raises(SourceError, match=r"truncated|cannot be read to its end"):
        list(blocks)
