"""NumPy arrays and archives as sources."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest

from kernelstream.sources import Source, SourceError, columnar
from tests.sources.conftest import joined


def test_images_are_flattened(tmp_path: Path) -> None:
    images = np.arange(24, dtype=np.uint8).reshape(3, 2, 4)
    np.savez(tmp_path / "images.npz", images=images, label=np.array([7, 8, 9]))
    source = Source(tmp_path / "images.npz", keep=["label"])
    (block,) = source
    assert source.dtype == "float32" and source.image_shape == (2, 4)
    assert np.array_equal(block.X, images.reshape(3, 8))
    assert block.carried.to_pydict() == {"label": [7, 8, 9]}


def test_several_arrays_ask_for_a_choice(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", first=np.zeros((3, 2)), second=np.ones((4, 5)))
    with pytest.raises(SourceError, match=r"--array: first \(3, 2\), second \(4, 5\)"):
        Source(tmp_path / "two.npz")
    assert joined(Source(tmp_path / "two.npz", array="second")).shape == (4, 5)
    with pytest.raises(SourceError, match="no array 'third'"):
        Source(tmp_path / "two.npz", array="third")


def test_an_archive_without_rows_says_so(tmp_path: Path) -> None:
    path = tmp_path / "number.npz"
    np.savez(path, answer=np.float64(42.0))
    with pytest.raises(SourceError, match="holds no array with rows"):
        Source(path)


# --- files that change while they are read


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("format", ["npy", "arrow", "mapped"])
def test_a_file_that_is_truncated_while_it_is_read(
    format: str, order: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer begins it anew: an error, not a signal."""
    X = np.random.default_rng(0).normal(size=(200_000, 5))
    path = tmp_path / f"t.{format.replace('mapped', 'arrow')}"
    if format == "npy":
        np.save(path, np.asfortranarray(X) if order == "F" else X)
    else:
        monkeypatch.setattr(columnar, "LARGEST_BATCH", 1 if format == "mapped" else 2**26)
        table = pa.table({f"c{i}": X[:, i] for i in range(5)})
        pyarrow.feather.write_feather(table, path, compression="uncompressed")
    blocks = iter(Source(path))
    np.testing.assert_array_equal(next(blocks).X[:100], X[:100])
    os.truncate(path, path.stat().st_size // 3)
    with pytest.raises(SourceError, match=r"truncated while it was read|cannot be read to its end"):
        list(blocks)


def test_an_array_of_three_dimensions_stored_by_columns(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(900, 3, 4))
    np.save(tmp_path / "f.npy", np.asfortranarray(X))
    found = np.concatenate([block.X for block in Source(tmp_path / "f.npy")])
    np.testing.assert_array_equal(found, X.reshape(900, 12))
