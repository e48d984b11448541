"""Which files a source is: folders, globs, compression, and whether they changed."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kernelstream.tables import Source, SourceError, SourcePosition, find_files, fingerprint
from kernelstream.tables import readers as readers_module
from tests.tables.conftest import joined


def test_folders_and_globs_in_a_fixed_order(tmp_path: Path, X: np.ndarray) -> None:
    (tmp_path / "deep").mkdir()
    np.save(tmp_path / "b.npy", X[1000:2000])
    np.save(tmp_path / "a.npy", X[:1000])
    np.save(tmp_path / "deep" / "c.npy", X[2000:])
    np.save(tmp_path / "_hidden.npy", X)
    (tmp_path / "notes.md").write_text("not data")
    assert np.array_equal(joined(Source(tmp_path)), X)
    assert np.array_equal(joined(Source(str(tmp_path / "**" / "[abc].npy"))), X)
    assert np.array_equal(joined(Source(tmp_path), SourcePosition(1, 500)), X[1500:])


@pytest.mark.parametrize(
    "compress", [gzip.compress, bz2.compress, lzma.compress], ids=["gz", "bz2", "xz"]
)
def test_a_compressed_file_that_is_damaged_in_the_middle(
    compress: Callable[[bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checksum is at the end: rows before it may be invalid, and are read in one piece here."""
    monkeypatch.setattr(readers_module, "BLOCK_BYTES", 8 << 20)
    rows = np.random.default_rng(0).normal(size=(20_000, 2)).tolist()
    stored = compress(("a,b\n" + "".join(f"{a},{b}\n" for a, b in rows)).encode())
    middle = len(stored) // 2
    (tmp_path / "a.csv").write_bytes(stored[:middle] + b"\0\xff" * 40 + stored[middle + 80 :])
    with pytest.raises(SourceError, match=r"a\.csv cannot be read"):
        joined(Source(tmp_path / "a.csv"))


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no file or folder"):
        Source(tmp_path / "no.csv")
    with pytest.raises(SourceError, match="No file matches"):
        Source(str(tmp_path / "*.csv"))
    with pytest.raises(SourceError, match="holds no file of a known format"):
        Source(tmp_path)


def test_the_fingerprint_notices_changes(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n")
    before = fingerprint(find_files([path]))
    assert before == fingerprint(find_files([path]))
    path.write_text("a\n2\n2\n")
    assert before != fingerprint(find_files([path]))
