"""NumPy arrays and archives as sources."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kernelstream.sources import Source, SourceError
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
