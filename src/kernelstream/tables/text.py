"""CSV and NDJSON readers: dialect sniffing, header, decimal comma, quotes, invalid rows."""

from __future__ import annotations

import atexit
import codecs
import contextlib
import csv
import json
import math
import os
import re
import weakref
from collections import Counter, deque
from collections.abc import Iterator
from itertools import islice
from threading import Thread
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from kernelstream.tables.files import ByteStream, File, SourceError
from kernelstream.tables.readers import (
    BLOCK_BYTES,
    LONGEST_LINE,
    UNREADABLE,
    BadRow,
    Batch,
    Reader,
    Reading,
    require_few,
)

LOOKED_AT = 1000  # rows at the start that decide which columns hold numbers
PEEKED = 20  # lines by which delimiter and units are told
BEFORE_TABLE = 100  # lines among which the table begins
COMMENT = "a comment"
GRACE = 1.0  # seconds that are waited for what nobody wants any more
SUBSTITUTE = "\x1a"  # of ASCII, for a byte that is no text
# Arrow reads 32 pieces ahead: they are small, and as many as make a block become a batch. Each
# costs time for every column, which is worth it for so many rows.
SMALLEST_PIECE, ROWS_OF_PIECE = 1 << 16, 256
DELIMITERS = ",;\t|"  # that are guessed, in this order
NULL_LINE = re.compile(rb"(?:\A|\n)\s*null")  # of JSON: no object, and no row
DECIMAL_COMMA = re.compile(r"\A\s*[+-]?\d+,\d+\s*\Z")
BLANKS_AROUND, BLANKS = re.compile(rb"(?m)^[ \t]+|[ \t]+(?=\r?$)"), re.compile(rb"[ \t]+")
_TO_CLOSING_QUOTE = re.compile(rb'[^"]*+(?:""[^"]*+)*+"')


class CsvReader(Reader):
    """A CSV file, read as text: whether a cell is a number is decided where it can be named.

    Without a header (a first line of numbers only) the columns are called x0, x1, and so on.
    """

    def __init__(self, file: File, opened: ByteStream, reading: Reading):
        self.file, self.opened, self.stream = file, opened, opened.stream
        self.skips_comments = reading.guesses
        self.substitutes = False  # whether one stands in what was read
        self.aligned = False  # by as many blanks between cells as it takes
        self.unclosed = False  # whether the file ends within a quote
        self.header_lines = 0  # of text before the first row
        comments = self._comments() if reading.guesses else []
        named = self._named_delimiter() if reading.guesses else None
        if reading.guesses and reading.header is None:
            self._pass_preamble(reading.delimiter or named or f"{DELIMITERS} ")
        line = self._first_row(reading.delimiter or named or DELIMITERS)
        text = readable(line.removeprefix(codecs.BOM_UTF8)).strip("\r\n")
        self.delimiter = reading.delimiter or named or self._likely_delimiter(text, reading.guesses)
        first = csv_cells(self.squeezed(text), self.delimiter)
        names = header_names(first, reading.header)
        data = line if names is None else b""  # a first line that was a row is read once more
        self.header_lines -= names is None
        if names is None and reading.header is None and comments:  # as numpy.savetxt writes names
            cells = csv_cells(comments[-1].lstrip("# "), self.delimiter)
            names = header_names(cells, None) if len(cells) == len(first) > 1 else None
        if comments:
            self.remarks += (f"{file.name}: lines that begin with # are comments.",)
        if names is not None and not data and reading.guesses and self._has_units():
            self.header_lines += 1
            unit_row = readable(self.stream.readline()).strip("\r\n")
            units = csv_cells(self.squeezed(unit_row), self.delimiter)
            self.remarks += (f"{file.name}: its second row has units, {', '.join(units[:8])}.",)
        if names is not None and not data and reading.guesses:
            names = self._one_more_name(names)
        self.named = names is not None
        self.names = [f"x{i}" for i in range(len(first))] if names is None else names
        require_few(len(self.names), file)
        self._tell_names_apart(reading.guesses)
        self.broken: deque[BadRow] = deque()  # Arrow may parse ahead, on a thread of its own
        self.block_size = max(LONGEST_LINE, 32 * len(line))
        self.piece = piece_size(len(line))
        self.replayed = Replayed(data, self.stream, self, self.piece)
        self.stored = self._open(data)
        UNREAD.add(self)
        self.head = next(self.stored, None)
        # Where the survey of a source looks at its columns, nobody asks which hold numbers.
        self.fields = {
            name: reading.guesses or self._holds_numbers(i) for i, name in enumerate(self.names)
        }

    def _first_row(self, delimiters: str) -> bytes:
        """The first row that is not empty; quotes may hold line ends."""
        lines: list[bytes] = []
        left, in_quotes = LONGEST_LINE, False
        while True:
            line = self.stream.readline(left)
            left -= len(line)
            in_quotes = ends_in_quotes(line, in_quotes, delimiters)
            if not left or (in_quotes and not line):
                raise SourceError(
                    f"{self.file.name} cannot be read as CSV: its first row "
                    + ("opens a quote that is not closed" if in_quotes else "does not end")
                    + (f" within {LONGEST_LINE >> 20} MiB." if not left else ".")
                )
            lines.append(line)
            self.header_lines += 1
            if not line or (line.strip() and not in_quotes):
                return b"".join(lines)

    def _comments(self) -> list[str]:
        """Lines before the first row that begin with #, which are passed over."""
        comments = []
        while self.stream.peek(4).lstrip(codecs.BOM_UTF8).startswith(b"#"):
            comments.append(readable(self.stream.readline(LONGEST_LINE)).strip())
            self.header_lines += 1
        return comments

    def _pass_preamble(self, delimiters: str) -> None:
        """Pass over lines before the table that are no part of it: who wrote it, and when."""
        lines = [readable(line).strip("\r") for line in self.stream.peek(1).split(b"\n")]
        n = preamble(lines[:BEFORE_TABLE][:-1], delimiters)
        if n:
            lines_of = "a line" if n == 1 else f"{n} lines"
            self.remarks += (f"{self.file.name}: the table begins after {lines_of} of other text.",)
        for _ in range(n):
            self.stream.readline()
        self.header_lines += n

    def _tell_names_apart(self, guesses: bool) -> None:
        """Give further columns of one name a number, as pandas does; or refuse them."""
        seen: Counter[str] = Counter()
        renamed = []
        for i, name in enumerate(self.names):
            if seen[name]:
                self.names[i] = f"{name}.{seen[name]}" if name else f"Unnamed: {i}"
                renamed.append(self.names[i])
            seen[name] += 1
        if not renamed:
            return
        twice = ", ".join(repr(name) for name, n in list(seen.items()) if n > 1)
        if not guesses or len(set(self.names)) < len(self.names):
            raise SourceError(f"{self.file.name} has several columns called {twice}: rename them.")
        if any(name for name, n in seen.items() if n > 1):  # else they have no names at all
            self.remarks += (
                f"{self.file.name} has several columns called {twice}: the others are "
                f"{', '.join(renamed[:8])}.",
            )

    def _named_delimiter(self) -> str | None:
        """What a first line such as ``sep=;`` says, which spreadsheets write; it is passed over."""
        found = re.match(rb"(?:\xef\xbb\xbf)?sep=(.)\r?\n", self.stream.peek(10))
        if found is None:
            return None
        self.stream.readline()
        self.header_lines += 1
        return readable(found[1])

    def _one_more_name(self, names: list[str]) -> list[str]:
        """A name, which is empty, for cells that all rows have beside those that are named.

        Where each row ends with a delimiter, or begins with its name, as R writes tables.
        """
        rows = [csv_cells(self.squeezed(text), self.delimiter) for text in self._next_texts()]
        if not rows or any(len(row) != len(names) + 1 for row in rows):
            return names
        return [*names, ""] if not any(row[-1].strip() for row in rows) else ["", *names]

    def _next_texts(self) -> list[str]:
        """The next lines as far as they are there already: a look that takes nothing."""
        lines = self.stream.peek(1).split(b"\n")
        return [readable(line).strip("\r") for line in lines[: PEEKED + 1][:-1] if line.strip()]

    def _likely_delimiter(self, first: str, guesses: bool) -> str:
        """What cuts all of the first lines into as many cells; else what the first line has."""
        usual = guess_delimiter(first)
        if not guesses:
            return usual
        lines = [first, *(t for t in self._next_texts() if not t.startswith("#"))]
        counts: dict[str, int] = {}
        for delimiter in (usual, *DELIMITERS, " "):
            numbers = {len(csv_cells(line, delimiter)) for line in lines}
            if len(numbers) == 1 and (n := numbers.pop()) > 1:
                counts.setdefault(delimiter, n)
        if len(lines) < 2:
            return usual
        if not any(sign in first for sign in DELIMITERS) and all(
            DECIMAL_COMMA.fullmatch(line) for line in lines[1:]
        ):
            return ";"  # one column of numbers with decimal commas
        if not counts or next(iter(counts)) == " ":
            narrow = [squeezed(line.encode()).decode() for line in lines]
            numbers = {len(csv_cells(line, " ")) for line in narrow}
            self.aligned = narrow != lines and len(numbers) == 1 and numbers != {1}
            return " " if self.aligned or counts else usual
        # A comma may stand within the numbers of all cells: a semicolon beside it decides.
        return ";" if ";" in counts else next(iter(counts))

    def squeezed(self, text: str) -> str:
        """A line as it is parsed: of cells that blanks align, with one blank between them."""
        return squeezed(text.encode()).decode() if self.aligned else text

    def _has_units(self) -> bool:
        """Whether the row below the names has text where the rows after it have numbers."""
        rows = [csv_cells(self.squeezed(text), self.delimiter) for text in self._next_texts()]
        units, rest = (rows[0], rows[1:]) if rows else ([], [])

        def is_number(cell: str) -> bool:
            return looks_like_number(cell.replace(",", "."))

        if not rest or all(map(is_number, units)) or any(len(r) != len(units) for r in rest):
            return False

        numbers = [i for i in range(len(units)) if all(is_number(row[i]) for row in rest)]
        named = [i for i in numbers if units[i].strip() and not is_number(units[i])]
        empty = [i for i in numbers if not units[i].strip()]
        return 2 * len(named) >= len(numbers) > 0 and len(named) + len(empty) == len(numbers)

    def _open(self, line: bytes) -> Iterator[pa.RecordBatch]:
        """Batches of text columns; a first line that was data is read once more."""
        if not line and not self.stream.peek(1):
            return
        try:
            blocks = pyarrow.csv.open_csv(
                pa.PythonFile(self.replayed, mode="r"),
                read_options=pyarrow.csv.ReadOptions(
                    use_threads=False, block_size=self.block_size, column_names=self.names
                ),
                parse_options=pyarrow.csv.ParseOptions(
                    delimiter=self.delimiter,
                    invalid_row_handler=self._note,
                    newlines_in_values=True,
                ),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(self.names, pa.string()), strings_can_be_null=True
                ),
            )
            while together := list(islice(blocks, max(1, LONGEST_LINE // self.piece))):
                yield from pa.Table.from_batches(together).combine_chunks().to_batches()
        except pa.ArrowInvalid as problem:
            if "straddl" not in str(problem):
                raise
            raise SourceError(
                f"{self.file.name} cannot be read to its end: a row is longer than "
                f"{self.block_size >> 20} MiB. Is a quote not closed?"
            ) from problem

    def close(self) -> None:
        """Let go of the file, once Arrow, which reads ahead on a thread of its own, has ended.

        A pipe may keep that thread waiting: then it is left alone.
        """
        self.replayed.ended = True
        if os.path.isfile(self.file.path):
            self._end()
            super().close()
            return
        ending = Thread(target=self._end, name="kernelstream ends", daemon=True)
        with contextlib.suppress(RuntimeError):  # no thread begins while the interpreter ends
            ending.start()
            ending.join(GRACE)
            if not ending.is_alive():
                super().close()

    def _end(self) -> None:
        with contextlib.suppress(*UNREADABLE, SourceError, ValueError):
            deque(self.stored, maxlen=0)

    def _note(self, row: Any) -> str:
        if self.skips_comments and row.text.startswith("#"):
            self.broken.append(BadRow(self.file.name, row.number, None, COMMENT, row.text))
            return "skip"
        reason = f"{row.actual_columns} cells, but the file has {row.expected_columns} columns"
        self.broken.append(BadRow(self.file.name, row.number, None, reason, row.text))
        return "skip"

    def _holds_numbers(self, place: int) -> bool:
        if self.head is None:
            return True
        cells = self.head.column(place).slice(0, LOOKED_AT).drop_null().to_pylist()
        return 2 * sum(map(looks_like_number, cells)) >= len(cells)

    def batches(self, wanted: list[str], skip: int, reading: Reading) -> Iterator[Batch]:
        """Text columns with the numbers of their rows.

        Rows of the wrong length, and those whose bytes are no text, are broken.
        """
        done = 0
        types: dict[str, pa.DataType] = {}
        features = {*reading.features, *reading.encoded}
        carried = [n for n in wanted if n not in features]
        index = {name: i for i, name in enumerate(self.names)}
        places = [index[name] for name in wanted]
        while self.head is not None:
            batch, self.head = self.head, None
            self.handed_out += text_size(batch)
            if self.unclosed:
                self.head = next(self.stored, None)
                if self.head is None:
                    batch = self._without_unclosed(batch, done)
            numbers, end = self._numbers(done, batch.num_rows)
            broken = []
            while self.broken and self.broken[0].row <= end:
                broken.append(self.broken.popleft())
            chosen, numbers, unreadable = self._readable(batch.select(places), numbers)
            broken += unreadable
            if not reading.carried_as_text:
                chosen = self._typed(chosen, carried, types, numbers)
            keep = numbers > skip
            if end > skip:
                yield Batch(
                    numbers[keep],
                    chosen.slice(len(numbers) - int(keep.sum())),
                    end,
                    broken=tuple(b for b in broken if b.row > skip and b.reason != COMMENT),
                )
            done = end
            self.head = next(self.stored, None) if self.head is None else self.head
        if self.broken:  # after the last good row
            end = max(b.row for b in self.broken)
            left = tuple(b for b in self.broken if b.row > skip and b.reason != COMMENT)
            nothing = pa.RecordBatch.from_pydict({n: pa.array([], pa.string()) for n in wanted})
            yield Batch(np.arange(0), nothing, end, broken=left)

    def _without_unclosed(self, batch: pa.RecordBatch, done: int) -> pa.RecordBatch:
        """The last rows without the very last one, in which a quote is opened and not closed."""
        numbers, _ = self._numbers(done, batch.num_rows)
        reason = "a quote is opened and never closed, and all that follows is within it"
        self.broken.append(BadRow(self.file.name, int(numbers[-1]), None, reason, ""))
        return batch.slice(0, batch.num_rows - 1)

    def _numbers(self, done: int, n: int) -> tuple[np.ndarray, int]:
        """Numbers of the next n good rows, given which rows after ``done`` were broken."""
        broken = {b.row for b in list(self.broken)}
        numbers = np.empty(n, dtype=np.int64)
        if not broken:
            numbers[:] = np.arange(done + 1, done + n + 1)
            return numbers, done + n
        at = done
        for i in range(n):
            at += 1
            while at in broken:
                at += 1
            numbers[i] = at
        while at + 1 in broken:
            at += 1
        return numbers, at

    def _readable(
        self, batch: pa.RecordBatch, numbers: np.ndarray
    ) -> tuple[pa.RecordBatch, np.ndarray, list[BadRow]]:
        """The rows whose wanted columns are text, and the others as bad ones."""
        if not self.substitutes:
            return batch, numbers, []
        broken: dict[int, BadRow] = {}
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            found = pc.fill_null(pc.match_substring(column, SUBSTITUTE), False)
            for place in np.flatnonzero(found.to_numpy(zero_copy_only=False)).tolist():
                cell, row = column[place].as_py(), int(numbers[place])
                reason = f"{cell!r} is not text in UTF-8"
                broken.setdefault(place, BadRow(self.file.name, row, name, reason, cell))
        if not broken:
            return batch, numbers, []
        good = np.ones(len(numbers), dtype=bool)
        good[list(broken)] = False
        return batch.filter(pa.array(good)), numbers[good], list(broken.values())

    def _typed(
        self, batch: pa.RecordBatch, carried: list[str], types: dict[str, Any], numbers: np.ndarray
    ) -> pa.RecordBatch:
        """Carried columns as numbers where the first batch has numbers only, else as text."""
        for name in carried:
            column = batch.column(name)
            if name not in types:
                types[name] = next(
                    (t for t in (pa.int64(), pa.float64()) if castable(column, t)), pa.string()
                )
            if not castable(column, types[name]):
                place = next(
                    i for i in range(len(column)) if not castable(column.slice(i, 1), types[name])
                )
                raise SourceError(
                    f"{self.file.name}, row {numbers[place]}, column {name!r}: the column began "
                    f"with numbers and has {column[place].as_py()!r} here. Write CSV, in which "
                    "kept columns stay as they are, or leave the column out of --keep."
                )
            at = batch.schema.get_field_index(name)
            batch = batch.set_column(at, name, column.cast(types[name]))
        return batch


def piece_size(row: int) -> int:
    """Bytes of text that are parsed at a time, where rows have so many."""
    return min(max(SMALLEST_PIECE, ROWS_OF_PIECE * row), max(LONGEST_LINE // 4, 32 * row))


def text_size(batch: pa.RecordBatch) -> int:
    """About as many bytes as rows of text take in a file: their cells, and a sign after each."""
    return int(batch.nbytes) - 3 * batch.num_rows * batch.num_columns  # four bytes for each place


def _substitute(problem: UnicodeError) -> tuple[str, int]:
    assert isinstance(problem, UnicodeDecodeError)
    return SUBSTITUTE * (problem.end - problem.start), problem.end


codecs.register_error("kernelstream.substitute", _substitute)


class Replayed:
    """A stream of text whose first bytes were read already and come once more.

    Bytes that are no UTF-8 become substitutes: Arrow would give up, also where they stand in a
    column that nobody wants or in a row that is passed over.
    """

    closed = False
    ended = False  # nobody wants what is left

    def __init__(
        self,
        start: bytes,
        stream: BinaryIO,
        reader: CsvReader | None = None,
        piece: int = SMALLEST_PIECE,
    ):
        self.start, self.stream, self.reader, self.piece = start, stream, reader, piece
        self.decoder = codecs.getincrementaldecoder("utf-8")("kernelstream.substitute")

    def read(self, size: int) -> bytes:
        """The first bytes, then the stream's."""
        while not self.ended:  # the decoder may keep three bytes of a character that goes on
            data, self.start = self.start[: size - 3], self.start[size - 3 :]
            data = data or self._rows(size - 3)
            if self.reader is not None:
                data = squeezed(data) if self.reader.aligned else data
                self.reader.text_read += len(data)
            text = self.decoder.decode(data, final=not data)
            if self.reader is not None and SUBSTITUTE in text:
                self.reader.substitutes = True
            if text or not data:
                return text.encode()
        return b""

    def _rows(self, most: int) -> bytes:
        """A part of as many bytes, to the end of a row; more where a quote is still open there."""
        data = b""
        while len(data) < most:
            piece = self.stream.read(min(self.piece, most - len(data)))
            data += piece
            if not data.endswith(b"\n"):
                data += self.stream.readline(most - len(data))
            if not piece or data.count(b'"') % 2 == 0:
                break
        if self.reader is not None and b'"' in data and not piece:
            self.reader.unclosed = ends_in_quotes(data, False, f"{self.reader.delimiter}\n")
        return data

    def close(self) -> None:
        """The stream is closed by its owner."""


UNREAD: weakref.WeakSet[CsvReader] = weakref.WeakSet()


@atexit.register
def let_go() -> None:
    """Close what was not read to its end.

    A thread of Arrow's that asks Python for more bytes while the interpreter ends would abort the
    process, or keep it for ever.
    """
    for reader in list(UNREAD):
        reader.close()


def castable(column: pa.Array, type: pa.DataType) -> bool:
    """Whether every cell of a text column can be of a type; "007" is a name, not a number."""
    try:
        column.cast(type)
    except pa.ArrowInvalid:
        return False
    leading_zero = pc.match_substring_regex(column, "^[+-]?0[0-9]")
    return type == pa.string() or not pc.any(leading_zero).as_py()


class NdjsonReader(Reader):
    """One JSON object a line: whole blocks go through Arrow, those with a bad row line by line."""

    def __init__(self, file: File, opened: ByteStream):
        self.file, self.opened, self.stream = file, opened, opened.stream
        self.rest = b""
        self.types: dict[str, pa.DataType] = {}
        self.head = self._next_lines().removeprefix(codecs.BOM_UTF8)
        counts: dict[str, list[int]] = {}
        for line in self.head.split(b"\n", LOOKED_AT)[:LOOKED_AT]:
            row = parse_json(line)
            for name, value in row.items() if isinstance(row, dict) else ():
                numbers = counts.setdefault(name, [0, 0])
                numbers[0] += is_json_number(value) or value is None
                numbers[1] += 1
            require_few(len(counts), file)
        if not counts and self.head.lstrip().startswith(b"["):
            raise SourceError(
                f"{file.name} is one JSON array. Write an object a line: jq -c '.[]', or "
                "to_json(path, orient='records', lines=True) of pandas."
            )
        if not counts:
            raise SourceError(f"{file.name} has no JSON object in its first lines.")
        self.fields = {
            readable(name): 2 * numbers >= seen and can_be_written(name)
            for name, (numbers, seen) in counts.items()
        }

    def _next_lines(self) -> bytes:
        """Whole lines of some megabytes; less when a pipe has no more at the moment.

        What is too long for a line is left out, and a byte that no JSON has stands in its place:
        the row is a bad one.
        """
        data = self.rest
        while True:
            piece = self.stream.read1(BLOCK_BYTES // 4)
            cut = piece.rfind(b"\n") + 1
            if cut or not piece:
                self.rest = piece[cut:]
                return data + piece[:cut]
            data += piece
            if len(data) > LONGEST_LINE:
                data = data[:LONGEST_LINE] + b"\0"

    def batches(self, wanted: list[str], skip: int, reading: Reading) -> Iterator[Batch]:
        """Typed columns; lines that are no object, or have text for a number, are broken."""
        done = 0
        while self.head:
            lines, self.head = self.head, b""
            self.handed_out += len(lines)
            self.text_read = self.handed_out + len(self.rest)
            n = lines.count(b"\n") + (not lines.endswith(b"\n"))
            if done + n > skip:
                batch = self._fast(lines, n, wanted, reading) if done >= skip else None
                if batch is not None:
                    yield Batch(np.arange(done + 1, done + n + 1), batch, done + n)
                else:
                    yield self._slow(lines, done, skip, wanted, reading)
            done += n
            self.head = self._next_lines()

    def _fast(
        self, lines: bytes, n: int, wanted: list[str], reading: Reading
    ) -> pa.RecordBatch | None:
        """A block through Arrow; None when it is not sure of every row."""
        if NULL_LINE.search(lines):  # ends Arrow 26 by a signal in front, and is a row elsewhere
            return None
        numbers = [name for name in reading.features if self.fields.get(name, True)]
        known = dict.fromkeys(numbers, pa.float64()) | self.types
        others = "ignore" if known.keys() >= set(wanted) else "infer"
        try:
            table = pyarrow.json.read_json(
                pa.BufferReader(lines),
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
                parse_options=pyarrow.json.ParseOptions(
                    explicit_schema=pa.schema(known), unexpected_field_behavior=others
                ),
            )
            table.validate(full=True)  # text may be anything but UTF-8
            names = set(table.column_names)
        except (pa.ArrowException, UnicodeDecodeError):
            return None
        if table.num_rows != n or not names >= set(wanted):
            return None
        batch = table.select(wanted).combine_chunks().to_batches()[0]
        features = set(numbers)
        self.types |= {
            f.name: f.type
            for f in batch.schema
            if f.name not in features and not pa.types.is_null(f.type)
        }
        return batch

    def _slow(
        self, lines: bytes, done: int, skip: int, wanted: list[str], reading: Reading
    ) -> Batch:
        columns: dict[str, list[Any]] = {name: [] for name in wanted}
        numbers: list[int] = []
        broken: list[BadRow] = []
        end = done
        features = {name for name in reading.features if self.fields.get(name, True)}
        as_text = {*reading.features, *reading.encoded} - features
        # Where a treatment reads text, numbers in quotes are text, as those of CSV are.
        strict = () if reading.guesses else tuple(features)
        carried = [name for name in wanted if name not in features]
        for end, line in enumerate(lines.removesuffix(b"\n").split(b"\n"), done + 1):
            if end <= skip or not line.strip():
                continue
            row = parse_json(line)
            text = line.decode(errors="replace")
            if not isinstance(row, dict):
                broken.append(BadRow(self.file.name, end, None, self.why_broken(end), text))
                continue
            wrong = next(
                (name for name in strict if is_no_number(row.get(name))),
                None,
            )
            if wrong is not None:
                reason = f"{row[wrong]!r} is not a number"
                broken.append(BadRow(self.file.name, end, wrong, reason, text))
                continue
            wrong = next((name for name in carried if not can_be_written(row.get(name))), None)
            if wrong is not None:
                reason = "the value is not text in UTF-8"
                broken.append(BadRow(self.file.name, end, wrong, reason, text))
                continue
            numbers.append(end)
            for name, values in columns.items():
                values.append(row.get(name))
        arrays = {
            name: (texts(values) if any(map(is_no_number, values)) else numbers_of(values))
            if name in features
            else self._carried(name, values, name in as_text)
            for name, values in columns.items()
        }
        table = pa.RecordBatch.from_pydict(arrays)
        return Batch(np.array(numbers, dtype=np.int64), table, end, broken=tuple(broken))

    def why_broken(self, row: int) -> str:
        """Why a line is no row."""
        return "not a JSON object"

    def _carried(self, name: str, values: list[Any], as_text: bool) -> pa.Array:
        try:
            column = pa.array(values, self.types.get(name))
        except (pa.ArrowException, OverflowError) as problem:  # of integers of many digits
            if as_text:
                return texts(values)
            raise SourceError(
                f"{self.file.name}, column {name!r}: the kind of its values changes "
                f"({problem}); leave the column out of --keep."
            ) from problem
        if not pa.types.is_null(column.type):
            self.types[name] = column.type
        return column


def squeezed(text: bytes) -> bytes:
    r"""Lines with one blank between cells, and none around them.

    Examples
    --------
    >>> squeezed(b"  a   b \n 1.5  2")
    b'a b\n1.5 2'
    """
    return BLANKS.sub(b" ", BLANKS_AROUND.sub(b"", text))


def preamble(lines: list[str], delimiters: str) -> int:
    """How many lines stand before a table: those that are cut into other numbers of cells.

    The table begins with names, or with numbers only, and has numbers in each further row.

    Examples
    --------
    >>> preamble(["Made by X", "", "a,b", "1,2", "3,4"], ","), preamble(["a,b", "1,2", "3,4"], ",")
    (1, 0)
    """

    def is_number(cell: str) -> bool:
        return bool(cell.strip()) and looks_like_number(cell.replace(",", "."))

    for delimiter in delimiters:
        texts = [squeezed(t.encode()).decode() for t in lines] if delimiter == " " else lines
        rows = [csv_cells(text, delimiter) for text in texts]
        width = len(rows[-1]) if rows else 0
        begin = len(rows)
        while begin and len(rows[begin - 1]) in (0, width):
            begin -= 1
        if width > 1 and not any(rows[:begin]):
            return 0
        before, table = [row for row in rows[:begin] if row], [row for row in rows[begin:] if row]
        numbers = [sum(map(is_number, row)) for row in table]
        if width < 2 or len(table) < 3 or not min(numbers[1:]):
            continue
        # Rows of other lengths are no other text, nor is a cell of several lines.
        other = not any(len(row) == width or sum(map(is_number, row)) > 1 for row in before)
        if not other or any(line.count('"') % 2 for line in lines[:begin]):
            continue
        # One cell less than rows of numbers have: names of columns, beside rows that have names.
        names = numbers[0] == width and [len(row) for row in before] == [width - 1]
        if numbers[0] in (0, width) and not names:
            return begin
    return 0


def guess_delimiter(line: str) -> str:
    """What the first line of a CSV has of comma, semicolon, tab and bar, in this order.

    Commas of decimals stand between no cells.

    Examples
    --------
    >>> guess_delimiter("a,b;c"), guess_delimiter("1,5;2,7")
    (',', ';')
    """
    numbers = line.replace(",", ".").split(";")
    if len(numbers) > 1 and all(map(looks_like_number, numbers)):
        return ";"
    return next((c for c in DELIMITERS if c in line), ",")


def ends_in_quotes(line: bytes, in_quotes: bool, delimiters: str) -> bool:
    """Whether a cell in quotes goes on in the next line; quotes open at the start of a cell only.

    Examples
    --------
    >>> ends_in_quotes(b'a,"b', False, ","), ends_in_quotes(b'5",b', False, ",")
    (True, False)
    """
    opening = re.compile(b'(?:^|(?<=[%s]))"' % re.escape(delimiters.encode()))
    at = 0
    while True:
        found = _TO_CLOSING_QUOTE.match(line, at) if in_quotes else opening.search(line, at)
        if found is None:
            return in_quotes
        in_quotes, at = not in_quotes, found.end()


def readable(text: bytes | str) -> str:
    r"""Text for people; what is not UTF-8 is spelt out, as ``\xb0``."""
    if isinstance(text, bytes):
        return text.decode(errors="backslashreplace")
    return text.encode(errors="backslashreplace").decode()


def is_no_number(value: Any) -> bool:
    """Whether a JSON value is something else than a number, and not missing."""
    return value is not None and not is_json_number(value)


def numbers_of(values: list[Any]) -> pa.Array:
    """JSON numbers as floats."""
    return pa.array(map(as_number, values), pa.float64())


def texts(values: list[Any]) -> pa.Array:
    """Values of several kinds as text."""
    return pa.array([v if v is None or isinstance(v, str) else str(v) for v in values], pa.string())


def can_be_written(value: Any) -> bool:
    """Whether a JSON value holds no text beyond Unicode, such as half of a pair of surrogates."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def csv_cells(line: str, delimiter: str) -> list[str]:
    """The cells of one row of CSV."""
    return next(csv.reader([line], delimiter=delimiter), [])


def header_names(cells: list[str], header: bool | None) -> list[str] | None:
    """Names of columns in the first row of a CSV; None where it is data.

    Unless ``header`` says so, it is data where it is all numbers, other than 0, 1, 2 and so on:
    these are the names of columns that had none.
    """
    if header is None:
        counted = len(cells) > 2 and cells == [str(i) for i in range(len(cells))]
        plain = [DECIMAL_COMMA.sub("0", cell) for cell in cells]
        header = counted or not all(map(looks_like_number, plain))
    return [cell.strip() for cell in cells] if header else None


def parse_json(line: bytes | str) -> Any:
    """The JSON value of a line, or None; bytes that are no text become halves of pairs."""
    try:
        return json.loads(line if isinstance(line, str) else line.decode(errors="surrogateescape"))
    except (ValueError, RecursionError):
        return None


def as_number(value: Any) -> float | None:
    """A JSON value or a cell of CSV as a number; NaN where it is missing, None where it is text.

    Parameters
    ----------
    value : object
        The value.

    Examples
    --------
    >>> as_number(" 1.5"), as_number(""), as_number("x"), as_number(True)
    (1.5, nan, None, None)
    """
    if value is None:
        return math.nan
    if is_json_number(value):
        try:
            return float(value)
        except OverflowError:  # an integer of hundreds of digits
            return math.inf
    if not isinstance(value, str):
        return None
    try:
        return float(value.strip() or "nan")
    except ValueError:
        return None


def looks_like_number(cell: str) -> bool:
    """Whether a cell of text is a number, an empty one included."""
    return as_number(cell) is not None


def is_json_number(value: Any) -> bool:
    """Whether a JSON value is a number (true and false are not)."""
    return isinstance(value, int | float) and not isinstance(value, bool)
