"""Live rows are read as those of files are, and a bad one is its reason in words."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from kernelstream.sources import Source
from kernelstream.sources.live import LiveRow, LiveRows

CSV = "t;a;b\nmon;1;2\ntue;3;4.5\n"
TEXTS = {
    "named.csv": CSV,
    "bom.csv": "\ufeff" + CSV.replace("\n", "\r\n"),
    "plain.csv": "1,2\n3,4.5\n",
    "quoted.csv": '"a","b"\n"1","2"\n" 3 ",4.5\n',
    "x.ndjson": '{"a": 1, "b": 2}\n{"b": 4.5, "a": 3}\n',
}


@pytest.mark.parametrize("name", TEXTS)
def test_live_rows_are_those_of_files(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(TEXTS[name].encode())
    source = Source(path)
    live = list(LiveRows(io.BytesIO(path.read_bytes()), 2, source.names))
    assert all(isinstance(row, LiveRow) for row in live)
    assert [row.x.tolist() for row in live] == [[1, 2], [3, 4.5]]  # type: ignore[union-attr]
    assert np.concatenate([block.X for block in source]).tolist() == [[1, 2], [3, 4.5]]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not a JSON object"),
        ("7", "not a JSON object"),
        ("[1]", "there is no value for 'a'"),
        ('{"a": 1, "b": true}', "column 'b': True is not a number"),
        ('{"a": 1, "b": null}', "column 'b': the value is missing or infinite"),
        ('{"a": 1, "b": 1e999}', "column 'b': the value is missing or infinite"),
    ],
)
def test_a_bad_row_is_its_reason(line: str, reason: str) -> None:
    rows = LiveRows(io.BytesIO(f'{line}\n{{"a": 1, "b": 2}}\n'.encode()), 2, "ab", format="ndjson")
    bad, good = rows
    assert bad == reason and isinstance(good, LiveRow) and rows.n_good == 1


def test_an_absent_value_is_a_missing_one_where_those_are_taken() -> None:
    """A key that is not there; a row that has none of them is no row of these sensors."""
    text = '{"a": 1, "c": 5}\n{"c": 5}\n'
    first, second = LiveRows(io.BytesIO(text.encode()), 2, "ab", takes_missing=True)
    assert isinstance(first, LiveRow) and first.x[0] == 1 and np.isnan(first.x[1])
    assert second == "there is no value for any of 'a', 'b'"
    (row,) = LiveRows(io.BytesIO(b"a\n3\n"), 2, "ab", takes_missing=True, format="csv")
    assert isinstance(row, LiveRow) and row.x[0] == 3 and np.isnan(row.x[1])
