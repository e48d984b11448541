"""CSV and NDJSON: names, kept columns, and rows that are bad."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelstream.tables import BadRowError, Source, SourceError, SourcePosition, text
from kernelstream.tables.files import File
from kernelstream.tables.formats import open_reader
from kernelstream.tables.readers import LONGEST_LINE, ReadOptions, chunk_bytes
from tests.tables.conftest import joined

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
    blocks = list(Source(path, on_bad_rows="skip").blocks(SourcePosition(0, skip)))
    assert [n for b in blocks for n in b.rows] == [n for n in (1, 7) if n > skip]
    assert [b.row for block in blocks for b in block.bad] == [r for r, *_ in BAD_ROWS if r > skip]


@pytest.mark.parametrize("before", [0, 1, 3])
def test_a_line_of_null_is_a_bad_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    """At the front of a block it ended Arrow by a signal, elsewhere it was a row without values."""
    monkeypatch.setattr("kernelstream.tables.readers.BLOCK_BYTES", 2 * len('{"a": 1.5}\n'))
    path = tmp_path / "a.ndjson"
    path.write_text('{"a": 1.5}\n' * (4 + before) + ' null\n{"a": 2.5}\n')
    blocks = list(Source(path, on_bad_rows="skip").blocks())
    assert [x for block in blocks for x in block.X[:, 0]] == [1.5] * (4 + before) + [2.5]
    assert sum(len(block.bad) for block in blocks) == 1


@pytest.mark.parametrize("line", ["null", 'null{"a": 1.5}', "\n  null"])
def test_a_file_that_begins_with_null(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.ndjson"
    path.write_text(f'{line}\n{{"a": 2.5}}\n')
    (block,) = Source(path, on_bad_rows="skip").blocks()
    assert block.X.tolist() == [[2.5]] and len(block.bad) == 1


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
    assert block.carried.to_pydict() == {"id": ["007", "010"], "n": ["1", "2"]}


@pytest.mark.parametrize("rows", [0, 300_000], ids=["a short file", "a long one"])
def test_a_quote_that_is_never_closed_is_an_error_at_once(rows: int, tmp_path: Path) -> None:
    """Not one after the whole file was read into memory, in quadratic time."""
    path = tmp_path / "a.csv"
    path.write_text('a,"b,c\n' + "0.123456,-0.123456,1.000000\n" * rows)
    n_read = []

    class Counted(io.FileIO):
        def readinto(self, buffer: Any, /) -> int | None:
            n = super().readinto(buffer)
            n_read.append(n or 0)
            return n

    with pytest.raises(SourceError, match="opens a quote that is not closed"):
        Source("-", stdin=Counted(path), format="csv")
    assert 0 < sum(n_read) < 2 * LONGEST_LINE


def test_source_lines_longer_than_a_cell_may_be_are_rows_of_many_columns(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(9, 10_000))
    np.savetxt(tmp_path / "wide.csv", X, delimiter=",")  # 250,000 bytes a line
    assert np.array_equal(joined(Source(tmp_path / "wide.csv")), X)


def test_a_quote_opens_a_cell_only_where_it_begins(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('5" pipe,"a ""b"",\nc",d\n1,2,3\n')
    source = Source(tmp_path / "a.csv")
    assert source.names == ('5" pipe', 'a "b",\nc', "d")
    assert joined(source).tolist() == [[1, 2, 3]]


def test_a_quote_in_a_row_that_is_never_closed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n" + "1,2\n" * 10 + '3,"4\n' + "5,6\n" * 3_000_000)
    with pytest.raises(
        SourceError, match=r"a\.csv, line 12: a quote is opened and not closed, or .* 4 MiB"
    ):
        joined(Source(tmp_path / "a.csv", on_bad_rows="skip"))


@pytest.mark.parametrize(
    "rows",
    [b"1.5,2.5\n" * 2_000_000, b'1,"a\nb"\n' * 1_500_000, b'5" pipe,2\n' + b"1,2\n" * 2_500_000],
    ids=["plain", "quotes", "a sign"],
)
def test_chunks_are_small_and_of_whole_rows(rows: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"a,b\n" + rows)
    reader = open_reader(File(str(tmp_path / "a.csv"), "csv"), ReadOptions())
    assert isinstance(reader, text.TextReader)
    chunks = [reader.first, *reader.rest]
    reader.close()
    assert b"".join(chunks) == rows
    assert max(map(len, chunks)) < chunk_bytes() + 20
    assert all(chunk.count(b'"') % 2 == 0 for chunk in chunks[1:])


def test_a_row_of_a_few_megabytes_is_a_row(tmp_path: Path) -> None:
    long = "x" * (LONGEST_LINE // 2)
    text = "a,b,name\n" + "1,2,n\n" * 9 + f'3,4,"{long}\n{long[:99]}"\n' + "5,6,n\n" * 9
    (tmp_path / "a.csv").write_text(text)
    assert joined(Source(tmp_path / "a.csv", columns=["a", "b"]))[9].tolist() == [3, 4]


@pytest.mark.parametrize("name", ["a.csv", "a.ndjson"])
def test_a_line_without_end_takes_no_memory(name: str, tmp_path: Path) -> None:
    stream = io.BytesIO(b"{" + b"1" * (3 * LONGEST_LINE))
    with pytest.raises(SourceError, match=r"does not end within|no JSON object"):
        Source("-", stdin=stream, format=name[2:])


def test_a_line_that_is_too_long_is_a_bad_row_of_ndjson(tmp_path: Path) -> None:
    """What was left out of it must not make another row."""
    middle = b"1" * (2 * LONGEST_LINE)
    lines = [b'{"a": 1}', b'{"a": 2, "b": "' + middle + b'"}', b'{"a": ' + middle + b"}"]
    (tmp_path / "a.ndjson").write_bytes(b"\n".join([*lines, b'{"a": 3}']))
    source = Source(tmp_path / "a.ndjson", columns=["a"], on_bad_rows="skip")
    blocks = list(source)
    assert np.concatenate([b.X for b in blocks]).ravel().tolist() == [1, 3]
    assert [bad.row for block in blocks for bad in block.bad] == [2, 3]


LATIN = "°".encode("latin-1")


@pytest.mark.parametrize("broken", [False, True], ids=["whole", "with an invalid row"])
def test_invalid_bytes_of_csv_are_spelled_out(broken: bool, tmp_path: Path) -> None:
    """Different bytes stay different words, and a number with one of them is no number."""
    rows = [b"t" + LATIN + b",note,a", b"1,x,1", b"2," + LATIN + b",2", b"3,\xff,3" + LATIN]
    path = tmp_path / "a.csv"
    path.write_bytes(b"\n".join([*rows, *[b"4,only"] * broken]) + b"\n")
    options: dict[str, Any] = {"encoding": "utf-8", "on_bad_rows": "skip"}
    (block,) = Source(path, columns=["a"], keep=["note"], **options)
    assert block.X.ravel().tolist() == [1, 2]
    assert block.carried.column("note").to_pylist() == ["x", "\\xb0"]
    assert block.bad[0].reason == r"'3\\xb0' is not a number"
    assert Source(path, **options).names == ("t\\xb0", "a")  # names that people can type
    assert Source(path, on_bad_rows="skip").names == ("t°", "a")


def test_a_line_of_ndjson_with_invalid_bytes_is_an_invalid_row(tmp_path: Path) -> None:
    lines = [b'{"note": "x", "a": 1}', b'{"note": "%s", "a": 2}' % LATIN, b'{"note": "z", "a": 3}']
    (tmp_path / "a.ndjson").write_bytes(b"\n".join([*lines, b""]))
    (block,) = Source(tmp_path / "a.ndjson", encoding="utf-8", on_bad_rows="skip")
    assert block.X.ravel().tolist() == [1, 3]
    assert [(bad.row, bad.reason) for bad in block.bad] == [(2, "not a JSON object")]


def test_bytes_that_are_no_text_in_a_row_of_the_wrong_length(tmp_path: Path) -> None:
    rows = b"a,b\n1,2\n3," + LATIN + b",4\n5,6\n7,8," + "°".encode() + b"\n"
    (tmp_path / "a.csv").write_bytes(rows)
    (block,) = Source(tmp_path / "a.csv", on_bad_rows="skip")
    assert block.X.tolist() == [[1, 2], [5, 6]] and block.rows.tolist() == [1, 3]
    assert [bad.row for bad in block.bad] == [2, 4] and block.bad[1].text == "7,8,°"


@pytest.mark.parametrize("size", range(12, 20))
def test_characters_across_chunks_are_whole(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole characters and bytes that are none, wherever a piece of the file ends."""
    monkeypatch.setattr("kernelstream.tables.readers.BLOCK_BYTES", 2 * size)
    content = "a,b\n1,°€😀\n".encode() + b"2," + LATIN + b"\n" + "3,€\n".encode()
    (tmp_path / "a.csv").write_bytes(content)
    source = Source(
        tmp_path / "a.csv", columns=["a"], keep=["b"], encoding="utf-8", on_bad_rows="skip"
    )
    kept = [name for block in source for name in block.carried.column("b").to_pylist()]
    assert kept == ["°€😀", "\\xb0", "€"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_text_in_utf_16_is_read(encoding: str, tmp_path: Path) -> None:
    """Of the order of bytes only a mark tells a plain source; without one it has to be named."""
    (tmp_path / "a.csv").write_bytes("a,größe\n1,2\n3,4\n".encode(encoding))
    named = None if encoding == "utf-16" else encoding
    source = Source(tmp_path / "a.csv", encoding=named)
    assert source.names == ("a", "größe") and source.remarks == (
        f"{tmp_path / 'a.csv'}: it is text in {encoding}.",
    )
    assert np.concatenate([block.X for block in source]).tolist() == [[1, 2], [3, 4]]


def test_an_encoding_that_there_is_not_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    with pytest.raises(SourceError, match="no encoding 'latin-99'"):
        Source(tmp_path / "a.csv", encoding="latin-99")


def test_integers_of_hundreds_of_digits(tmp_path: Path) -> None:
    large = "1" + "0" * 400
    path = tmp_path / "a.ndjson"
    path.write_text(f'{{"a": 1, "id": 1}}\nnot json\n{{"a": {large}, "id": 2}}\n')
    blocks = list(Source(path, columns=["a"], on_bad_rows="skip"))
    assert np.concatenate([b.X for b in blocks]).tolist() == [[1]]
    path.write_text(f'{{"a": 1, "id": {large}}}\nnot json\n')
    (block,) = Source(path, columns=["a"], keep=["id"], on_bad_rows="skip")
    assert block.carried.to_pydict() == {"id": [large]}  # every digit, as text


def test_the_first_thousand_rows_decide_which_columns_hold_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fewer would take ``early`` for numbers, more would take ``late``."""
    monkeypatch.setattr("kernelstream.tables.readers.BLOCK_BYTES", 8 << 20)
    rows = [
        (f"{i}" if i < 300 else f"x{i}", f"x{i}" if i < 501 else f"{i}", f"{i}")
        for i in range(3000)
    ]
    lines = "\n".join(map(",".join, rows))
    (tmp_path / "a.csv").write_text(f"early,late,always\n{lines}\n")
    records = [dict(zip(("early", "late", "always"), row, strict=True)) for row in rows]
    numbers = [{k: int(v) if v.isdecimal() else v for k, v in row.items()} for row in records]
    (tmp_path / "a.ndjson").write_text("\n".join(map(json.dumps, numbers)))
    for name in ("a.csv", "a.ndjson"):
        assert Source(tmp_path / name).names == ("always",)


def test_a_quote_that_is_never_closed_hides_no_rows(tmp_path: Path) -> None:
    """It swallowed the rest of the file, without a word where nobody wanted its column."""
    (tmp_path / "a.csv").write_text("a,b,s\n" + "1,2,n\n" * 50 + '3,4,"n\n' + "5,6,n\n" * 49)
    rows = 0
    with pytest.raises(SourceError, match=r"a\.csv, line 52: a quote is opened and not closed"):
        for block in Source(tmp_path / "a.csv", columns=["a", "b"], on_bad_rows="skip"):
            rows += len(block)
    assert rows == 50
    (tmp_path / "a.csv").write_text('a,b,s\n1,2,"n\nm"\n3,4,5" pipe\n5,6,"n"\n')
    assert joined(Source(tmp_path / "a.csv", columns=["a", "b"])).tolist() == [
        [1, 2],
        [3, 4],
        [5, 6],
    ]
