"""The dialect of a CSV file as a function of its first bytes: a table of cases."""

from __future__ import annotations

import pytest

from kernelstream.tables import SourceError
from kernelstream.tables.dialect import Dialect, infer_dialect

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
    "empty lines": (b"\n\na,b\n\n1,2\n", Dialect(",", ("a", "b"), True, 3)),
    "quoted header": (b'"a","b, c"\n1,2\n', Dialect(",", ("a", "b, c"), True, 1)),
    "header of two lines": (b'"a\nb",c\n1,2\n3,4\n', Dialect(",", ("a\nb", "c"), True, 2)),
    "sep=": (b"sep=;\r\na;b\r\n1;2\r\n", Dialect(";", ("a", "b"), True, 2)),
    "comments": (b"# by the lab\n# 2024\na,b\n1,2\n", Dialect(",", ("a", "b"), True, 3)),
    "numpy.savetxt": (b"# a,b\n1,2\n3,4\n", Dialect(",", ("x0", "x1"), False, 1)),
    "a number sign": (b"#,b\n1,2\n3,4\n", Dialect(",", ("#", "b"), True, 1)),
    "blanks": (b"1.0e+00 2.0e+00\n3.0e+00 4.0e+00\n", Dialect(" ", ("x0", "x1"))),
    "aligned": (b"  a    b\n 1.5  2\n 3.5  4\n", Dialect(" ", ("a", "b"), True, 1)),
    "blanks and commas": (b"my t,p\n1 s,2\n3 s,4\n", Dialect(",", ("my t", "p"), True, 1)),
    "R's write.table": (b'"a" "b"\n"1" 1 2\n"2" 3 4\n', Dialect(" ", ("", "a", "b"), True, 1)),
    "decimal commas between commas": (b"a,b\n1,5,2\n3,5,4\n", AB),
    "names of rows": (b"a,b\nr1,1,2\nr2,3,4\n", Dialect(",", ("", "a", "b"), True, 1)),
    "a delimiter at the end": (b"a,b\n1,2,\n3,4,\n", Dialect(",", ("a", "b", ""), True, 1)),
    "several columns without a name": (
        b"a,,\n1,2,3\n", Dialect(",", ("a", "Unnamed: 1", "Unnamed: 2"), True, 1),
    ),
    "one column": (b"a\n1.5\n2.5\n", Dialect(",", ("a",), True, 1)),
    "rows of different lengths": (b"a,b\n1,2\n3,4,5\n", AB),
    "counted, index": (b",0,1,2\n0,5,6,7\n", Dialect(",", ("", "0", "1", "2"), True, 1)),
    "thousands and decimal commas": (b"1.234,5;2\n2.234,5;3\n", Dialect(";", ("x0", "x1"))),
    "dates without names": (b"2024-01-01,1\n2024-01-02,2\n", Dialect(",", ("x0", "x1"))),
    "UTF-16": (
        "a;b\n1;2\n".encode("utf-16"),
        Dialect(";", ("a", "b"), True, 1, encoding="utf-16"),
    ),
    "Latin-1": (
        "gr\u00f6\u00dfe,b\n1,2\n".encode("latin-1"),
        Dialect(",", ("gr\u00f6\u00dfe", "b"), True, 1, encoding="latin-1"),
    ),
    "a damaged letter": (
        "gr\u00f6\u00dfe,b\n1,2\n".encode() + b"3,\xff\n",
        Dialect(",", ("gr\u00f6\u00dfe", "b"), True, 1),
    ),
    "carriage returns": (b"a,b\r1,2\r3,4\r", AB),
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


def test_infer_dialect_of_other_text_above_the_table_is_refused() -> None:
    with pytest.raises(SourceError, match="remove what precedes the table"):
        infer_dialect(b"Made by X\n\na;b\n1,5;2\n3,5;4\n")


def test_infer_dialect_of_utf_16_without_a_mark_names_the_remedy() -> None:
    with pytest.raises(SourceError, match=r"--read encoding=utf-16-le"):
        infer_dialect("a;b\n1;2\n".encode("utf-16-be"))
    found = infer_dialect("a;b\n1;2\n".encode("utf-16-le"), encoding="utf-16-le")
    assert found.names == ("a", "b")
