"""The dialect of a CSV file as a function of its first bytes: a table of cases."""

from __future__ import annotations

import pytest

from kernelstream.tables import SourceError
from kernelstream.tables.dialect import Dialect, infer_dialect, preamble

AB = Dialect(",", ("a", "b"), True, 1)
CASES: dict[str, tuple[bytes, Dialect]] = {
    "header": (b"a,b\n1,2\n3,4\n", AB),
    "semicolons": (b"a;b\n1,5;2\n", Dialect(";", ("a", "b"), True, 1)),
    "tabs": (b"a\tb\n1\t2\n", Dialect("\t", ("a", "b"), True, 1)),
    "bars": (b"a|b\n1|2\n", Dialect("|", ("a", "b"), True, 1)),
    "comma in a name": (b"t, C;p\n1,5;2,5\n3,5;4,5\n", Dialect(";", ("t, C", "p"), True, 1)),
    "no header": (b"1,2\n3,4\n", Dialect(",", ("x0", "x1"))),
    "decimal commas": (b"1,5;2,5\n3,5;4,5\n", Dialect(";", ("x0", "x1"))),
    "one column of decimal commas": (b"w\n1,5\n2,5\n", Dialect(";", ("w",), True, 1)),
    "counted columns": (b"0,1,2\n5,6,7\n", Dialect(",", ("0", "1", "2"), True, 1)),
    "byte order mark": (b"\xef\xbb\xbfa,b\r\n1,2\r\n", AB),
    "sep=": (b"sep=;\r\na;b\r\n1;2\r\n", Dialect(";", ("a", "b"), True, 2)),
    "empty lines": (b"\n\na,b\n\n1,2\n", Dialect(",", ("a", "b"), True, 3)),
    "quoted header": (b'"a","b, c"\n1,2\n', Dialect(",", ("a", "b, c"), True, 1)),
    "header of two lines": (b'"a\nb",c\n1,2\n3,4\n', Dialect(",", ("a\nb", "c"), True, 2)),
    "units": (
        b"a,b\nm/s,kg\n1,2\n3,4\n",
        Dialect(",", ("a", "b"), True, 2, remarks=("its second row has units, m/s, kg.",)),
    ),
    "other text": (
        b"Made by X\n\na,b\n1,2\n3,4\n",
        Dialect(
            ",",
            ("a", "b"),
            True,
            3,
            remarks=("the table begins after a line of other text.",),
        ),
    ),
    "comments": (
        b"# 2024\na,b\n1,2\n",
        Dialect(
            ",", ("a", "b"), True, 2, comments=True,
            remarks=("lines that begin with # are comments.",),
        ),
    ),
    "numpy.savetxt": (
        b"# a,b\n1,2\n3,4\n",
        Dialect(
            ",", ("a", "b"), True, 1, comments=True,
            remarks=("lines that begin with # are comments.",),
        ),
    ),
    "aligned": (b"  a    b\n 1.5  2\n 3.5  4\n", Dialect(" ", ("a", "b"), True, 1, aligned=True)),
    "names of rows": (b"a,b\nr1,1,2\nr2,3,4\n", Dialect(",", ("", "a", "b"), True, 1)),
    "a delimiter at the end": (b"a,b\n1,2,\n3,4,\n", Dialect(",", ("a", "b", ""), True, 1)),
    "names twice": (
        b"a,a\n1,2\n",
        Dialect(
            ",", ("a", "a.1"), True, 1,
            remarks=("it has several columns called 'a': the others are a.1.",),
        ),
    ),
    "UTF-16": (
        "a;b\n1;2\n".encode("utf-16-le"),
        Dialect(
            ";", ("a", "b"), True, 1, encoding="utf-16-le",
            remarks=("it is text in utf-16-le.",),
        ),
    ),
    "Latin-1": (
        "gr\u00f6\u00dfe,b\n1,2\n".encode("latin-1"),
        Dialect(
            ",", ("gr\u00f6\u00dfe", "b"), True, 1, encoding="latin-1",
            remarks=("it is text in latin-1.",),
        ),
    ),
    "carriage returns": (b"a,b\r1,2\r3,4\r", Dialect(",", ("a", "b"), True, 1, returns=True)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_infer_dialect_of_first_bytes_is_as_expected(name: str) -> None:
    start, expected = CASES[name]
    assert infer_dialect(start) == expected


def test_infer_dialect_with_options_follows_them() -> None:
    assert infer_dialect(b"a;b,c\n1;2,3\n", delimiter=";").names == ("a", "b,c")
    assert infer_dialect(b"1,2\n3,4\n", header=True).names == ("1", "2")
    assert infer_dialect(b"a,b\n1,2\n", header=False).names == ("x0", "x1")
    with pytest.raises(SourceError, match="no encoding 'latin-99'"):
        infer_dialect(b"a\n1\n", encoding="latin-99")


def test_infer_dialect_of_an_open_quote_is_refused() -> None:
    with pytest.raises(SourceError, match="opens a quote that is not closed"):
        infer_dialect(b'a,"b\n1,2\n')


@pytest.mark.parametrize(
    "lines",
    [
        ["a,b", "1,2", "3,4", "5,6"],
        ["a", "row 1,2", "row 2,4", "row 3,5"],  # rows with names, as R writes them
        ["a,b", "1,2,3", "2,4,5", "3,5,6"],
        ["a,b", "1,2,", "2,4,", "3,5,"],
        ["a,b", "1,2", "3,4,5", "6,7", "8,9", "9,8", "1,2"],  # a row of the wrong length
        ["1,2,3", "4,5,6", "1,2", "3,4", "5,6", "7,8"],  # rows of another length: no other text
        ['"temp', '(C)","b","c"', "1,2,3", "4,5,6", "7,8,9"],  # a name of two lines
        ["temp, my pressure", "1, 2", "3, 4", "5, 6"],
        ["wert", "1,5", "2,5", "3,5"],
    ],
    ids=lambda lines: "|".join(lines),
)
def test_nothing_of_a_table_is_taken_for_other_text(lines: list[str]) -> None:
    assert preamble(lines, ",;\t| ") == 0
