"""Dialect of a CSV text: encoding, delimiter and header, inferred from its first bytes."""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
from dataclasses import dataclass
from typing import Any

from kernelstream.tables.files import SourceError

# In the order in which they are tried. A comma may be a decimal mark, and blanks may be anything.
DELIMITERS = ";\t|, "
FIRST_ROWS = 20  # rows that the delimiter has to split into equally many cells


@dataclass(frozen=True)
class Dialect:
    r"""How a CSV file is written.

    Attributes
    ----------
    delimiter : str
        Character between cells; a blank stands for any number of blanks.
    names : tuple of str
        Names of the columns; x0, x1 and so on without a header.
    named : bool
        Whether these are the file's own names.
    skip : int
        Number of lines before the first row.
    encoding : str
        Encoding of the bytes.

    Examples
    --------
    >>> found = infer_dialect(b"t;p\n1,5;2\n2,5;3\n3,5;4\n")
    >>> found.delimiter, found.names, found.skip
    (';', ('t', 'p'), 1)
    """

    delimiter: str = ","
    names: tuple[str, ...] = ()
    named: bool = False
    skip: int = 0
    encoding: str = "utf-8"


def infer_dialect(
    start: bytes,
    delimiter: str | None = None,
    header: bool | None = None,
    encoding: str | None = None,
) -> Dialect:
    """The dialect of a CSV file, a function of its first bytes alone.

    Parameters
    ----------
    start : bytes
        First bytes of the file; the last of several lines may be incomplete.
    delimiter, header, encoding : str, bool and str, optional
        What the user specifies instead of inferring it.

    Returns
    -------
    Dialect
        How the file is written.
    """
    encoding = infer_encoding(start, encoding)
    lines = first_lines(start, encoding)
    # Above the table, empty lines, comments, and the delimiter for a spreadsheet are skipped.
    no_row = [not line.strip() or line.startswith(("# ", "sep=")) for line in lines]
    skip = no_row.index(False) if False in no_row else 0
    first, n = first_row(lines[skip:], delimiter or DELIMITERS)
    below = [line for line in lines[skip + n :] if line.strip()][:FIRST_ROWS]
    delimiter = delimiter or infer_delimiter(first, below)
    cells = split_cells(first, delimiter)
    named = is_header(cells) if header is None else header
    if named:
        names, skip = [cell.strip() for cell in cells], skip + n
        rows = [split_cells(line, delimiter) for line in below]
        if rows and all(len(row) == len(names) + 1 for row in rows):
            if not any(row[-1].strip() for row in rows):
                names.append("")  # all rows end with a delimiter
            elif delimiter != "," or not all(is_number_like(line.split(",")[0]) for line in below):
                names.insert(0, "")  # R leaves row names without one; but 1,5,2 may be 1.5 and 2
    else:
        names = [f"x{i}" for i in range(len(cells))]
    if names.count("") > 1:
        names = [name or f"Unnamed: {i}" for i, name in enumerate(names)]
    return Dialect(delimiter, tuple(names), named, skip, encoding)


def infer_encoding(start: bytes, encoding: str | None = None) -> str:
    """The encoding that the user specifies, or that of the first bytes of a text.

    Examples
    --------
    >>> infer_encoding("Größe".encode("latin-1")), infer_encoding("Größe".encode())
    ('latin-1', 'utf-8')
    """
    if encoding is not None:
        try:
            return codecs.lookup(encoding).name
        except LookupError as problem:
            raise SourceError(
                f"There is no encoding {encoding!r}: utf-8, utf-16 and latin-1 are some"
            ) from problem
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in start[:2]:
        raise SourceError("it has zero bytes: name its encoding (--read encoding=utf-16-le)")
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(start)
    broken, others = text.count("\ufffd"), len(text) - len(text.encode("ascii", "ignore"))
    # A file in UTF-8 may be damaged in places; one in Latin-1 has no letter that is UTF-8.
    return "latin-1" if 2 * broken > others else "utf-8"


def decoder_of(encoding: str) -> io.IncrementalNewlineDecoder:
    r"""A decoder that spells out invalid bytes, as ``\xb0``, and makes all line ends newlines."""
    decoder = codecs.getincrementaldecoder(encoding)("backslashreplace")
    return io.IncrementalNewlineDecoder(decoder, translate=True)


def first_lines(start: bytes, encoding: str) -> list[str]:
    """Complete lines at the start of a file, without their ends."""
    lines = decoder_of(encoding).decode(start).removeprefix("\ufeff").split("\n", 5 * FIRST_ROWS)
    return lines[:-1] if len(lines) > 1 else lines


def first_row(lines: list[str], delimiters: str) -> tuple[str, int]:
    """The first row, and its number of lines: quoted cells may contain line ends."""
    rows = whole_rows(delimiters)
    for n in range(1, len(lines) + 1):
        row = "\n".join(lines[:n])
        if rows.fullmatch(row.encode() + b"\n"):
            return row, n
    raise SourceError("its first row opens a quote that is not closed")


def whole_rows(delimiters: str) -> re.Pattern[bytes]:
    """Rows without an open quote at the end; a quote opens at the start of a cell only."""
    opening = b'(?:^|(?<=[\n%s]))"' % re.escape(delimiters.encode())
    cells = b'[^"\n]++|%s[^"]*+(?:""[^"]*+)*+"|(?!%s)"' % (opening, opening)
    return re.compile(b"(?:(?:%s)*+\n)*+" % cells)


def infer_delimiter(first: str, below: list[str]) -> str:
    """The delimiter that splits the rows below the first one into equally many cells.

    The first row may have one cell less than the others, because R does not name row names.
    Without a delimiter that fits, rows of different lengths have the one of the first row.

    Examples
    --------
    >>> infer_delimiter("t, C;p", ["1,5;2,5", "3,5;4,5"]), infer_delimiter("w", ["1,5", "2,5"])
    (';', ';')
    """
    found = [sign for sign in DELIMITERS if sign in first.strip()]
    for sign in found:
        n = len(split_cells(first, sign))
        lengths = {len(split_cells(line, sign)) for line in below}
        if n > 1 and (lengths <= {n} or lengths == {n + 1}):
            return sign
    if found and found[0] != " ":
        return found[0]
    if any(sign in line for line in below for sign in DELIMITERS[:-1]):
        if not all(map(is_number_like, below)):
            raise SourceError("its first line has no delimiter: remove what precedes the table")
        return ";"  # one column of decimal commas
    return ","


def is_header(cells: list[str]) -> bool:
    """Whether the first row has names: it has text, or the numbers 0, 1, 2 of unnamed columns."""
    counted = cells[1:] if cells[:1] == [""] else cells  # pandas writes no name above an index
    if len(counted) > 2 and counted == [str(i) for i in range(len(counted))]:
        return True
    return not all(map(is_number_like, cells))


def is_number_like(cell: str) -> bool:
    """Whether a cell is a number, maybe with a decimal comma or thousands, or a date."""
    return is_number(cell) or not cell.strip("+-.,' 0123456789")


def split_cells(line: str, delimiter: str) -> list[str]:
    """The cells of one row of CSV."""
    line = squeezed(line) if delimiter == " " else line
    return next(csv.reader(io.StringIO(line), delimiter=delimiter), [])


def squeezed(text: str) -> str:
    r"""Lines with one blank between cells, and none around them.

    Examples
    --------
    >>> squeezed("  a   b \n 1.5  2")
    'a b\n1.5 2'
    """
    return re.sub(r"[ \t]+", " ", re.sub(r"(?m)^[ \t]+|[ \t]+$", "", text))


def as_number(value: Any) -> float | None:
    """A JSON value or a cell of CSV as a number; NaN if it is missing, None if it is text.

    Parameters
    ----------
    value : object
        The value.

    Examples
    --------
    >>> as_number(" 1.5"), as_number("\u22122"), as_number(""), as_number("x"), as_number(True)
    (1.5, -2.0, nan, None, None)
    """
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str):
        if "_" in value:  # which Python takes for a thousands separator
            return None
        value = value.replace("\u2212", "-").strip() or "nan"
    try:
        return float(value)
    except OverflowError:  # an integer of hundreds of digits
        return math.inf
    except ValueError:
        return None


def is_number(cell: str) -> bool:
    """Whether a cell of text is a number with a decimal point, an empty one included."""
    return as_number(cell) is not None
