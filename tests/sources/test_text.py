"""CSV and NDJSON: names, kept columns, and rows that are bad."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kernelstream.sources import BadRowError, Position, Source
from tests.sources.conftest import joined

BAD_CSV = "t,a,b\nmon,1,2\ntue,3\nwed,5,six\nthu,,8\nfri,9,inf\nsat,10,11,12\nsun,13,14\n"
BAD_ROWS = [
    (2, None, "2 cells, but the file has 3 columns"),
    (3, "b", "'six' is not a number"),
    (4, "a", "the value is missing"),
    (5, "b", "inf is infinite"),
    (6, None, "4 cells, but the file has 3 columns"),
]


def test_bad_rows_of_csv(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(BAD_CSV)
    with pytest.raises(BadRowError, match=r"bad\.csv, row 2: 2 cells, .* --on-bad-rows skip"):
        joined(Source(path))
    blocks = list(Source(path, on_bad_rows="skip", keep=["t"]))
    assert np.concatenate([b.X for b in blocks]).tolist() == [[1, 2], [13, 14]]
    assert [n for b in blocks for n in b.rows] == [1, 7]
    assert [(b.row, b.column, b.reason) for block in blocks for b in block.bad] == BAD_ROWS
    assert [t for b in blocks for t in b.carried.column("t").to_pylist()] == ["mon", "sun"]


@pytest.mark.parametrize("skip", range(8))
def test_bad_rows_after_a_position(tmp_path: Path, skip: int) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(BAD_CSV)
    blocks = list(Source(path, on_bad_rows="skip").blocks(Position(0, skip)))
    assert [n for b in blocks for n in b.rows] == [n for n in (1, 7) if n > skip]
    assert [b.row for block in blocks for b in block.bad] == [r for r, *_ in BAD_ROWS if r > skip]


def test_bad_rows_of_ndjson(tmp_path: Path) -> None:
    path = tmp_path / "bad.ndjson"
    lines = ['{"a": 1, "b": 2}', '{"a": "x", "b": 2}', "[1, 2]", '{"a": 1}', '{"a": 3, "b": 4.5}']
    path.write_text("\n".join(lines))
    with pytest.raises(BadRowError, match=r"bad\.ndjson, row 2, column 'a': 'x' is not a number"):
        joined(Source(path))
    blocks = list(Source(path, on_bad_rows="skip"))
    assert np.concatenate([b.X for b in blocks]).tolist() == [[1, 2], [3, 4.5]]
    assert [(b.row, b.column) for block in blocks for b in block.bad] == [
        (2, "a"),
        (3, None),
        (4, "b"),
    ]


def test_a_line_nested_without_end_is_a_bad_row(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_bytes(b'{"a": 1}\n' + b"[" * 100_000 + b'\n{"a": 2}\n')
    source = Source(tmp_path / "a.ndjson", on_bad_rows="skip")
    blocks = list(source)
    assert [x for block in blocks for x in block.X[:, 0].tolist()] == [1.0, 2.0]
    assert [bad.row for block in blocks for bad in block.bad] == [2]


def test_a_csv_without_names(tmp_path: Path) -> None:
    (tmp_path / "plain.csv").write_text("1,2\n3,4\n")
    source = Source(tmp_path / "plain.csv")
    assert source.names == ("x0", "x1") and not source.named
    assert joined(source).tolist() == [[1, 2], [3, 4]]
    assert Source(tmp_path / "plain.csv", header=True).names == ("1", "2")


def test_kept_columns_keep_leading_zeros(tmp_path: Path) -> None:
    (tmp_path / "id.csv").write_text("id,n,a\n007,1,1.5\n010,2,2.5\n")
    (block,) = Source(tmp_path / "id.csv", columns=["a"], keep=["id", "n"])
    assert block.carried.to_pydict() == {"id": ["007", "010"], "n": [1, 2]}
