"""Live rows are read as those of files are, and a bad one is its reason in words."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelstream.tables import Source
from kernelstream.tables.feeds import PipeFeed
from kernelstream.tables.live import LiveRow, LiveRows
from kernelstream.tables.readers import LONGEST_LINE
from tests import samples

CSV = "t;a;b\nmon;1;2\ntue;3;4.5\n"
TEXTS = {
    "named.csv": CSV,
    "bom.csv": "\ufeff" + CSV.replace("\n", "\r\n"),
    "plain.csv": "1,2\n3,4.5\n",
    "quoted.csv": '"a","b"\n"1","2"\n" 3 ",4.5\n',
    "x.ndjson": '{"a": 1, "b": 2}\n{"b": 4.5, "a": 3}\n',
}


def live_rows(text: bytes, parse: LiveRows) -> list[Any]:
    """The rows of a pipe with this text."""
    return list(PipeFeed(io.BytesIO(text), parse).rows())


@pytest.mark.parametrize("name", TEXTS)
def test_live_rows_are_those_of_files(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(TEXTS[name].encode())
    source = Source(path)
    live = live_rows(path.read_bytes(), LiveRows(2, source.names))
    assert all(isinstance(row, LiveRow) for row in live)
    assert [row.x.tolist() for row in live] == [[1, 2], [3, 4.5]]
    assert np.concatenate([block.X for block in source]).tolist() == [[1, 2], [3, 4.5]]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not a JSON object"),
        ("7", "there is no value for 'a'"),
        ("[1]", "there is no value for 'a'"),
        ('{"a": 1, "b": true}', "column 'b': True is not a number"),
        ('{"a": 1, "b": null}', "column 'b': the value is missing or infinite"),
        ('{"a": 1, "b": 1e999}', "column 'b': the value is missing or infinite"),
    ],
)
def test_a_bad_row_is_its_reason(line: str, reason: str) -> None:
    parse = LiveRows(2, "ab")
    bad, good = live_rows(f'{line}\n{{"a": 1, "b": 2}}\n'.encode(), parse)
    assert bad == reason and isinstance(good, LiveRow) and parse.has_rows


ROWS = {"csv": "1,2\n3,4.5\n", "named": "b,a\n2,1\n4.5,3\n", "ndjson": TEXTS["x.ndjson"]}
FIRST = {
    "banner": "starting sensor daemon\n",
    "several": "one\ntwo\n|\n",
    "cut row": '"b":0.2}\n',
    "cut number": "1.23}\n",
    "cut object": '{"a": 1, "b"\n',
    "other object": '{"event": "start"}\n',
    "other list": "[1, 2, 3]\n",
    "wide": "a banner, of, many, cells, 7\n",
    "no text": "\udcff\udcfe\udcb0\n",
    "no end": "x" * (LONGEST_LINE + 7) + "\n",
}


@samples.grid("names, first, rows", ["ab", None], FIRST, ROWS)
def test_a_broken_first_line_blinds_nobody(first: str, rows: str, names: str | None) -> None:
    """A line cut by a rotation, the banner of a program: rows after it are read all the same."""
    text = (FIRST[first] + ROWS[rows]).encode(errors="surrogateescape")
    lines = live_rows(text, LiveRows(2, names))
    good = [line.x.tolist() for line in lines if isinstance(line, LiveRow)]
    in_order = [[1, 2], [3, 4.5]]
    if names is None and rows == "named":  # a model without names takes them as they come
        in_order = [[2, 1], [4.5, 3]]
    assert good == in_order
    assert all(isinstance(line, str) for line in lines[:-2])


def test_names_of_other_columns_are_not_taken_for_a_banner() -> None:
    """Rows below another header would be judged by the wrong sensors' limits."""
    found = live_rows(b"p,q\n1,2\n3,4\na,b\n5,6\n", LiveRows(2, "ab"))
    assert [isinstance(row, str) for row in found] == [True, True, True, False]
    assert "--read header=false" in found[1] and "'p,q'" in found[1]
    told = live_rows(b"p,q\n1,2\n", LiveRows(2, "ab", header=False))
    assert isinstance(told[0], str) and isinstance(told[1], LiveRow)


def test_a_header_without_the_time_column_is_none() -> None:
    text = b"a,b\nt,a,b\n7,1,2\n"
    bad, good = live_rows(text, LiveRows(2, time_column="t"))
    assert isinstance(bad, str) and isinstance(good, LiveRow) and good.time == "7"


def test_a_header_that_no_row_fits_was_none() -> None:
    """Any line of two words would do for a model without names."""
    text = b"hello\nstarting; now\na,b\n1,2\n3,4.5\n"
    _, *rows = live_rows(text, LiveRows(2))
    assert [row.x.tolist() for row in rows] == [[1, 2], [3, 4.5]]


def test_an_absent_value_is_a_missing_one_where_those_are_taken() -> None:
    """A key that is not there; a row that has none of them is no row of these sensors."""
    text = '{"a": 1, "c": 5}\n{"c": 5}\n'
    first, second = live_rows(text.encode(), LiveRows(2, "ab", takes_missing=True))
    assert isinstance(first, LiveRow) and first.x[0] == 1 and np.isnan(first.x[1])
    assert second == "there is no value for any of 'a', 'b'"
    (row,) = live_rows(b"a\n3\n", LiveRows(2, "ab", takes_missing=True))
    assert isinstance(row, LiveRow) and row.x[0] == 3 and np.isnan(row.x[1])
