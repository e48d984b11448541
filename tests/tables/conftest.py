"""The same rows in every format that sources read."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest

from kernelstream.tables import Source, SourcePosition
from kernelstream.tables import readers as readers_module

N, D = 3000, 4
NAMES = ["a", "b", "c", "d"]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of a few hundred rows, so that short files have many of them."""
    monkeypatch.setattr(readers_module, "BLOCK_BYTES", 8 * D * 500)


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(N, D))


def frame(X: np.ndarray) -> pd.DataFrame:
    table = pd.DataFrame(X, columns=NAMES)
    table["name"] = [f"row {i}" for i in range(len(X))]
    return table


def ndjson(table: pd.DataFrame) -> bytes:
    lines = (json.dumps(row) for row in table.to_dict("records"))
    return "".join(line + "\n" for line in lines).encode()


def csv(table: pd.DataFrame) -> bytes:
    return table.to_csv(index=False).encode()


def arrow_stream(path: Path, table: pd.DataFrame) -> None:
    rows = pa.Table.from_pandas(table, preserve_index=False)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, rows.schema) as stream:
        stream.write_table(rows, max_chunksize=700)


def write_zstd(path: Path, data: bytes) -> None:
    with pa.CompressedOutputStream(str(path), "zstd") as stream:
        stream.write(data)


WRITERS: dict[str, Callable[[Path, np.ndarray], Any]] = {
    "x.parquet": lambda p, X: frame(X).to_parquet(p, row_group_size=800),
    "x.csv": lambda p, X: p.write_bytes(csv(frame(X))),
    "x.tsv": lambda p, X: frame(X).to_csv(p, index=False, sep="\t"),
    "x.csv.gz": lambda p, X: p.write_bytes(gzip.compress(csv(frame(X)))),
    "x.csv.bz2": lambda p, X: p.write_bytes(bz2.compress(csv(frame(X)))),
    "x.csv.xz": lambda p, X: p.write_bytes(lzma.compress(csv(frame(X)))),
    "x.ndjson": lambda p, X: p.write_bytes(ndjson(frame(X))),
    "x.jsonl.zst": lambda p, X: write_zstd(p, ndjson(frame(X))),
    "x.feather": lambda p, X: frame(X).to_feather(p),
    "x.arrows": lambda p, X: arrow_stream(p, frame(X)),
    "x.npy": lambda p, X: np.save(p, X),
    "x.npy.gz": lambda p, X: p.write_bytes(gzip.compress(npy_bytes(X))),
}


def npy_bytes(X: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, X)
    return file.getvalue()


def joined(source: Source, start: SourcePosition | None = None) -> np.ndarray:
    blocks = source.blocks() if start is None else source.blocks(start)
    return np.concatenate([block.X for block in blocks])
