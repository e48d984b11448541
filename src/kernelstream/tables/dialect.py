"""Dialect of a text: encoding, delimiter, header and lines before the rows, by the first bytes."""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from kernelstream.tables.files import SourceError

DELIMITERS = ",;\t|"  # that are inferred, in this order
FIRST_LINES = 100  # in which the table begins
FIRST_ROWS = 20  # of the table, that the delimiter has to cut into as many cells each
DECIMAL_COMMA = re.compile(r"\A\s*[+-]?\d+,\d+\s*\Z")


@dataclass(frozen=True)
class Dialect:
    r"""How a CSV file is written.

    Attributes
    ----------
    delimiter : str
        Character between cells.
    names : tuple of str
        Names of the columns; x0, x1 and so on without a header.
    named : bool
        Whether these are the file's own names.
    skip : int
        Lines before the first row: other text, comments, the header, units.
    aligned : bool
        Whether any number of blanks separates two cells.
    comments : bool
        Whether lines that begin with # are no rows.
    encoding : str or None
        Encoding of the bytes; None for UTF-8.
    returns : bool
        Whether lines end with a carriage return alone.
    remarks : tuple of str
        What is unusual, in sentences without the name of the file.

    Examples
    --------
    >>> found = infer_dialect(b"Made by X\n\nt;p\n1,5;2\n2,5;3\n3,5;4\n")
    >>> found.delimiter, found.names, found.skip
    (';', ('t', 'p'), 3)
    """

    delimiter: str = ","
    names: tuple[str, ...] = ()
    named: bool = False
    skip: int = 0
    aligned: bool = False
    comments: bool = False
    encoding: str | None = None
    returns: bool = False
    remarks: tuple[str, ...] = ()

    def cells(self, line: str) -> list[str]:
        """The cells of one row."""
        return csv_cells(squeezed(line) if self.aligned else line, self.delimiter)


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
        What the user says, where it cannot be inferred.

    Returns
    -------
    Dialect
        How the file is written.
    """
    encoding = text_encoding(start, encoding)
    lines = first_lines(start, encoding)
    at, comments, named, remarks = lines_before(lines, delimiter, header)
    delimiter = delimiter or named
    if encoding is not None:
        remarks.insert(0, f"it is text in {encoding}.")
    first, n = first_row(lines[at:], delimiter or DELIMITERS)
    below = [line for line in lines[at + n :] if line.strip() and not line.startswith("#")]
    below, aligned = below[:FIRST_ROWS], False
    if delimiter is None:
        delimiter, aligned = infer_delimiter(first, below)
    dialect = Dialect(
        delimiter,
        aligned=aligned,
        comments=bool(comments),
        encoding=encoding,
        returns=ends_lines_by_return(start),
    )
    cells, rows = dialect.cells(first), [dialect.cells(line) for line in below]
    names = header_names(cells, header)
    if names is not None:
        at += n
        if has_units(rows):
            remarks.append(f"its second row has units, {', '.join(rows[0][:8])}.")
            at, rows = lines.index(below[0], at) + 1, rows[1:]
        names = with_row_names(names, rows)
    elif header is None and comments:  # numpy.savetxt writes names as the last comment
        last = header_names(csv_cells(comments[-1].lstrip("# "), delimiter), None)
        names = last if last is not None and len(last) == len(cells) > 1 else None
    unique, renamed = unique_names(names or [f"x{i}" for i in range(len(cells))])
    return replace(
        dialect,
        names=tuple(unique),
        named=names is not None,
        skip=at,
        remarks=(*remarks, *renamed),
    )


def lines_before(
    lines: list[str], delimiter: str | None, header: bool | None
) -> tuple[int, list[str], str | None, list[str]]:
    """How many lines precede the table; comments, a delimiter that is named, and remarks."""
    at, comments, remarks = 0, list[str](), list[str]()
    while at < len(lines) and lines[at].startswith("#"):
        comments.append(lines[at])
        at += 1
    if comments:
        remarks.append("lines that begin with # are comments.")
    named = re.fullmatch("sep=(.)", lines[at]) if at < len(lines) else None
    at += named is not None
    known = delimiter or (named and named[1]) or f"{DELIMITERS} "
    if header is None and (n := preamble(lines[at:], known)):
        other = "a line" if n == 1 else f"{n} lines"
        remarks.append(f"the table begins after {other} of other text.")
        at += n
    while at < len(lines) - 1 and not lines[at].strip():
        at += 1
    return at, comments, None if named is None else named[1], remarks


def first_lines(start: bytes, encoding: str | None) -> list[str]:
    """Complete lines at the start of a file, without their ends."""
    start = start.removeprefix(codecs.BOM_UTF8)
    text = readable(start) if encoding is None else start.decode(encoding, errors="replace")
    text = text.replace("\r\n", "\n")
    text = text if "\n" in text else text.replace("\r", "\n")
    lines = text.split("\n", FIRST_LINES)
    return lines[:-1] if len(lines) > 1 else lines


def first_row(lines: list[str], delimiters: str) -> tuple[str, int]:
    """The first row, and of how many lines it is: quotes may hold line ends."""
    for n in range(1, len(lines) + 1):
        row = "\n".join(lines[:n])
        if not opens_quote(row.encode(), delimiters):
            return row, n
    raise SourceError("its first row opens a quote that is not closed")


def opens_quote(text: bytes, delimiters: str) -> bool:
    """Whether a cell in quotes continues after a text, such as one line.

    Examples
    --------
    >>> opens_quote(b'a,"b', ","), opens_quote(b'5" pipe,b', ",")
    (True, False)
    """
    match = whole_rows(delimiters).match(text + b"\n")
    return match is None or match.end() <= len(text)


def whole_rows(delimiters: str) -> re.Pattern[bytes]:
    """Rows up to one with a quote that is not closed; quotes open at the start of cells only."""
    opening = b'(?:^|(?<=[\n%s]))"' % re.escape(delimiters.encode())
    cells = b'[^"\n]++|%s[^"]*+(?:""[^"]*+)*+"|(?!%s)"' % (opening, opening)
    return re.compile(b"(?:(?:%s)*+\n)*+" % cells)


def infer_delimiter(first: str, below: list[str]) -> tuple[str, bool]:
    """The delimiter that gives all of the first lines as many cells; whether blanks align them."""
    usual = guess_delimiter(first)
    if not below:
        return usual, False
    if not any(sign in first for sign in DELIMITERS) and all(
        DECIMAL_COMMA.fullmatch(line) for line in below
    ):
        return ";", False  # one column of numbers with decimal commas
    lines = [first, *below]
    # A long line would be one cell of a delimiter that it lacks, and longer than csv lets one be.
    signs = [sign for sign in (usual, *DELIMITERS, " ") if sign in first]
    fits = [sign for sign in signs if (n := n_cells(lines, sign)) and n > 1]
    if not fits or fits[0] == " ":
        narrow = [squeezed(line) for line in lines]
        aligned = narrow != lines and n_cells(narrow, " ") not in (None, 1)
        return (" " if aligned or fits else usual), aligned
    # A comma may be the decimal mark of all cells: a semicolon that fits as well decides.
    return (";" if ";" in fits else fits[0]), False


def n_cells(lines: list[str], delimiter: str) -> int | None:
    """The number of cells that all lines have, None if they differ."""
    numbers = {len(csv_cells(line, delimiter)) for line in lines}
    return numbers.pop() if len(numbers) == 1 else None


def guess_delimiter(line: str) -> str:
    """The first of comma, semicolon, tab and bar that a line has.

    A decimal comma is no delimiter.

    Examples
    --------
    >>> guess_delimiter("a,b;c"), guess_delimiter("1,5;2,7")
    (',', ';')
    """
    cells = line.split(";")
    if len(cells) > 1 and all(map(is_any_number, cells)):
        return ";"
    return next((c for c in DELIMITERS if c in line), ",")


def preamble(lines: list[str], delimiters: str) -> int:
    """How many lines precede a table: those with another number of cells.

    The table begins with names, or with numbers only, and has numbers in each further row.

    Examples
    --------
    >>> preamble(["Made by X", "", "a,b", "1,2", "3,4"], ","), preamble(["a,b", "1,2", "3,4"], ",")
    (1, 0)
    """
    for delimiter in delimiters:
        texts = [squeezed(text) for text in lines] if delimiter == " " else lines
        rows = [csv_cells(text, delimiter) for text in texts]
        width, begin = len(rows[-1]) if rows else 0, len(rows)
        while begin and len(rows[begin - 1]) in (0, width):
            begin -= 1
        if width > 1 and not any(rows[:begin]):
            return 0
        before, table = [row for row in rows[:begin] if row], [row for row in rows[begin:] if row]
        numbers = [n_numbers(row) for row in table]
        if width < 2 or len(table) < 3 or not min(numbers[1:]):
            continue
        # Rows of other lengths are no other text, nor is a cell of several lines.
        other = not any(len(row) == width or n_numbers(row) > 1 for row in before)
        if not other or any(line.count('"') % 2 for line in lines[:begin]):
            continue
        # One cell less than rows of numbers have: names of columns, beside rows that have names.
        names = numbers[0] == width and [len(row) for row in before] == [width - 1]
        if numbers[0] in (0, width) and not names:
            return begin
    return 0


def n_numbers(cells: list[str]) -> int:
    """How many cells are numbers, with a decimal point or comma."""
    return sum(bool(cell.strip()) and is_any_number(cell) for cell in cells)


def has_units(rows: list[list[str]]) -> bool:
    """Whether the row below the names has text where the rows after it have numbers."""
    units, rest = (rows[0], rows[1:]) if rows else ([], [])
    if not rest or all(map(is_any_number, units)) or any(len(r) != len(units) for r in rest):
        return False
    numbers = [i for i in range(len(units)) if all(is_any_number(row[i]) for row in rest)]
    texts = [units[i] for i in numbers if units[i].strip()]
    named = [text for text in texts if not is_any_number(text)]
    return len(named) == len(texts) and 2 * len(named) >= len(numbers) > 0


def with_row_names(names: list[str], rows: list[list[str]]) -> list[str]:
    """Names, with an empty one for a cell that all rows have beyond those that are named.

    Each row ends with a delimiter, or begins with its name, as R writes tables.
    """
    if not rows or any(len(row) != len(names) + 1 for row in rows):
        return names
    return [*names, ""] if not any(row[-1].strip() for row in rows) else ["", *names]


def unique_names(names: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """Names with a number behind further ones of the same name, as in pandas, and a remark.

    Examples
    --------
    >>> unique_names(["a", "b", "a"])
    (['a', 'b', 'a.1'], ("it has several columns called 'a': the others are a.1.",))
    """
    seen: Counter[str] = Counter()
    unique = []
    for i, name in enumerate(names):
        again = f"{name}.{seen[name]}" if name else f"Unnamed: {i}"
        unique.append(again if seen[name] else name)
        seen[name] += 1
    repeated = ", ".join(repr(name) for name, n in seen.items() if n > 1 and name)
    if len(set(unique)) < len(unique):
        raise SourceError(f"it has several columns called {repeated}: rename them")
    if not repeated:
        return unique, ()
    renamed = ", ".join([name for name in unique if name not in seen][:8])
    return unique, (f"it has several columns called {repeated}: the others are {renamed}.",)


def header_names(cells: list[str], header: bool | None) -> list[str] | None:
    """Names of columns in the first row of a CSV file; None if it is data.

    Unless ``header`` says so, it is data if it has numbers only, other than 0, 1, 2 and so on:
    these are the names of columns that had none.
    """
    if header is None:
        counted = len(cells) > 2 and cells == [str(i) for i in range(len(cells))]
        header = counted or not all(is_number(DECIMAL_COMMA.sub("0", cell)) for cell in cells)
    return [cell.strip() for cell in cells] if header else None


def text_encoding(start: bytes, encoding: str | None) -> str | None:
    """The encoding that the user names, or else that of the first bytes; None for UTF-8."""
    try:
        known = encoding and codecs.lookup(encoding).name
    except LookupError as problem:
        raise SourceError(
            f"There is no encoding {encoding!r}: utf-8, utf-16 and latin-1 are some."
        ) from problem
    return guess_encoding(start) if known is None else None if known == "utf-8" else encoding


def guess_encoding(start: bytes) -> str | None:
    """The encoding of text by its first bytes; None for UTF-8.

    Examples
    --------
    >>> guess_encoding("Größe".encode("latin-1")), guess_encoding("Größe".encode())
    ('latin-1', None)
    """
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if start[1::2].count(0) > len(start) // 4:
        return "utf-16-le"
    if start[::2].count(0) > len(start) // 4:
        return "utf-16-be"
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(start)
    broken = text.count("\ufffd")
    letters = len(text) - len(text.encode("ascii", "ignore")) - broken
    # A file in UTF-8 may be damaged in places; one in Latin-1 has no letter that is UTF-8.
    return "latin-1" if broken > letters else None


def ends_lines_by_return(start: bytes) -> bool:
    """Whether lines end with a carriage return alone, as spreadsheets on a Mac may write them."""
    return b"\r" in start and b"\n" not in start


def squeezed(text: str) -> str:
    r"""Lines with one blank between cells, and none around them.

    Examples
    --------
    >>> squeezed("  a   b \n 1.5  2")
    'a b\n1.5 2'
    """
    return re.sub(r"[ \t]+", " ", re.sub(r"(?m)^[ \t]+|[ \t]+(?=\r?$)", "", text))


def readable(text: bytes | str) -> str:
    r"""Text for people; what is not UTF-8 is spelled out, as ``\xb0``."""
    if isinstance(text, bytes):
        return text.decode(errors="backslashreplace")
    return text.encode(errors="backslashreplace").decode()


def csv_cells(line: str, delimiter: str) -> list[str]:
    """The cells of one row of CSV."""
    return next(csv.reader(io.StringIO(line), delimiter=delimiter), [])


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


def is_any_number(cell: str) -> bool:
    """Whether a cell of text is a number with a decimal point or comma, an empty one included."""
    return is_number(cell.replace(",", "."))
