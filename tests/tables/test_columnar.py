"""Columns in Arrow's formats: what is stored is looked at before it is used."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pyarrow as pa
import pytest

from kernelstream.tables import Source, SourceError


@pytest.mark.parametrize("kind", ["arrows", "arrow"])
@pytest.mark.parametrize("offset", [2**30, -1, 5])
def test_texts_that_would_lead_out_of_the_memory(tmp_path: Path, kind: str, offset: int) -> None:
    """Arrow reads offsets as they stand there: these ended the process by a signal."""
    table = pa.record_batch({"c": pa.array([1.0, 2.0, 3.0]), "t": pa.array(["r0", "r1", "r2"])})
    out = io.BytesIO()
    new = pa.ipc.new_stream if kind == "arrows" else pa.ipc.new_file
    with new(out, table.schema) as writer:
        writer.write_batch(table)
    good = out.getvalue()
    before, damaged = struct.pack("<4i", 0, 2, 4, 6), struct.pack("<4i", 0, offset, 4, 6)
    assert good.count(before) == 1
    path = tmp_path / f"a.{kind}"
    path.write_bytes(good.replace(before, damaged))
    with pytest.raises(SourceError, match=path.name):
        list(Source([str(path)], keep=["t"]).blocks())
    path.write_bytes(good)
    (block,) = Source([str(path)], keep=["t"]).blocks()
    assert block.carried.column("t").to_pylist() == ["r0", "r1", "r2"]
