"""CSV and NDJSON readers: chunks of whole rows, which Arrow parses; invalid rows."""

from __future__ import annotations

import codecs
import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from kernelstream.tables.dialect import (
    ends_lines_by_return,
    infer_dialect,
    is_number,
    readable,
    squeezed,
    text_encoding,
    whole_rows,
)
from kernelstream.tables.files import ByteStream, File, SourceError
from kernelstream.tables.readers import (
    LONGEST_LINE,
    BadRow,
    Batch,
    Reader,
    ReadOptions,
    Selection,
    chunk_bytes,
    require_few,
)

FIRST_ROWS = 1000  # or different words of a column, that decide what it holds

# What a chunk of text is parsed to: its valid rows, and for each other row its number in the chunk,
# the reason (none for a comment) and its text.
Parsed = tuple[pa.Table, dict[int, tuple[str, str]]]


class TextReader(Reader):
    """A text that is cut into chunks of whole rows, as UTF-8."""

    stream: ByteStream | None
    first: bytes  # the first chunk, until it is read
    rest: Iterator[bytes]
    encoding: str | None = None
    returns: bool = False
    skip: int = 0  # lines before the first row
    longest_row = LONGEST_LINE
    has_replaced = False  # whether bytes that are no text were replaced
    has_open_quote = False  # whether the file ends within a quote

    def chunks(self, start: bytes) -> Iterator[bytes]:
        """Chunks of whole rows, the first of them from bytes that were read already."""
        codec = codecs.getincrementaldecoder(self.encoding or "utf-8")("replace")
        piece, rest, is_first = start, b"", True
        del start
        while True:
            data = piece if self.encoding is None else codec.decode(piece, not piece).encode()
            data = data.replace(b"\r", b"\n") if self.returns else data
            if is_first:
                data = data.removeprefix(codecs.BOM_UTF8)
                data = (data.split(b"\n", self.skip) + [b""] * self.skip)[self.skip]
                is_first = False
            data = rest + data
            if not piece and not data.endswith(b"\n"):
                data += b"\n"
            end = self.end_of_rows(data)
            rest = data[end:]
            if len(rest) > self.longest_row:
                rest = self.shortened(rest)
            chunk = data[:end]
            if chunk and not chunk.isspace():
                yield self.valid(chunk)
            if not piece:
                self.has_open_quote = bool(rest)
                return
            piece = self.read(chunk_bytes())

    def read(self, size: int) -> bytes:
        """The next bytes; fewer only at the end."""
        assert self.stream is not None
        return bytes(self.stream.bytes.read(size))

    def end_of_rows(self, data: bytes) -> int:
        """Where the last whole row ends."""
        return data.rfind(b"\n") + 1

    def shortened(self, row: bytes) -> bytes:
        """What is kept of the beginning of a row that is too long."""
        raise NotImplementedError

    def valid(self, chunk: bytes) -> bytes:
        """Text in UTF-8, with other bytes replaced."""
        try:
            if not chunk.isascii():
                chunk.decode()
        except UnicodeDecodeError:
            self.has_replaced = True
            return chunk.decode(errors="replace").encode()
        return chunk

    def parse(self, chunk: bytes, names: list[str]) -> Parsed:
        """These columns of a chunk, and its invalid rows."""
        raise NotImplementedError

    def all_chunks(self) -> Iterator[bytes]:
        """All chunks, the first of which was read with the dialect; they can be read once."""
        first, self.first = self.first, b""
        return chain([first] if first else [], self.rest)

    def head(self, columns: Selection, most: int) -> Batch:
        """At most so many first rows, as far as they have come; they stay to be read."""
        return Batch.of(self.parse(self.first, columns.wanted)[0].slice(0, most))

    @cached_property
    def numeric(self) -> frozenset[str]:
        """Columns most of whose first cells are numbers."""
        head = self.head(Selection(self.names), FIRST_ROWS).table
        return frozenset(name for name in self.names if holds_numbers(head.column(name)))

    def batches(self, columns: Selection, skip: int = 0) -> Iterator[Batch]:
        """Rows with their numbers; those with bytes that are no text are invalid."""
        done = 0
        types: dict[str, pa.DataType] = {}
        for chunk in self.all_chunks():
            table, found = self.parse(chunk, columns.wanted)
            end = done + table.num_rows + len(found)
            numbers = np.delete(np.arange(done + 1, end + 1), [row - 1 for row in found])
            invalid = tuple(
                BadRow(self.file.name, done + row, None, reason, text)
                for row, (reason, text) in found.items()
                if reason
            )
            batch = replace(Batch.of(table), numbers=numbers, end=end, invalid=invalid)
            if self.has_replaced:
                batch = self.without_replaced(batch)
            batch = self.with_types(batch, columns.only_carried, types)
            done = end
            if end > skip:
                yield batch.after(skip)
        if self.has_open_quote:
            reason = "a quote is opened and never closed, and all that follows is within it"
            row = BadRow(self.file.name, done + 1, None, reason, "")
            nothing = pa.table({name: pa.array([], pa.string()) for name in columns.wanted})
            yield replace(Batch.of(nothing), end=done + 1, invalid=(row,))

    def without_replaced(self, batch: Batch) -> Batch:
        """A batch whose rows with replaced bytes, which are U+FFFD, are invalid."""
        invalid: dict[int, BadRow] = {}
        for name, column in zip(batch.table.schema.names, batch.table.columns, strict=True):
            if pa.types.is_string(column.type):
                found = pc.fill_null(pc.match_substring(column, "\ufffd"), False)
                for place in np.flatnonzero(found.to_numpy(zero_copy_only=False)).tolist():
                    cell, row = column[place].as_py(), int(batch.numbers[place])
                    reason = f"{cell!r} is not text in UTF-8"
                    invalid.setdefault(place, BadRow(self.file.name, row, name, reason, cell))
        valid = np.ones(len(batch.numbers), dtype=bool)
        valid[list(invalid)] = False
        return replace(
            batch,
            numbers=batch.numbers[valid],
            table=batch.table.filter(pa.array(valid)),
            invalid=(*batch.invalid, *invalid.values()),
        )

    def with_types(self, batch: Batch, carried: list[str], types: dict[str, pa.DataType]) -> Batch:
        """A batch with carried columns in the types that the first batch has."""
        table = batch.table
        for name in carried:
            place = table.schema.get_field_index(name)
            column = table.column(place)
            if pa.types.is_null(column.type):
                continue
            type = types.setdefault(name, self.carried_type(column))
            if not castable(column, type):
                row = next(i for i in range(len(column)) if not castable(column.slice(i, 1), type))
                raise SourceError(
                    f"{self.file.name}, row {batch.numbers[row]}, column {name!r}: the column "
                    f"began with {type} and has {column[row].as_py()!r} here. Write CSV, in which "
                    "kept columns stay as they are, or leave the column out of --keep."
                )
            table = table.set_column(place, name, column.cast(type))
        return replace(batch, table=table)

    def carried_type(self, column: pa.Array) -> pa.DataType:
        """The type in which a column is carried through."""
        return column.type


class CsvReader(TextReader):
    """A CSV file, read as text: whether a cell is a number is decided where it can be named."""

    def __init__(self, file: File, stream: ByteStream, options: ReadOptions):
        self.file, self.stream, self.options = file, stream, options
        start = self.read(chunk_bytes())
        while b"\n" not in start and len(start) < LONGEST_LINE and (more := self.read(1 << 20)):
            start += more
        if len(start) >= LONGEST_LINE and not re.search(rb"[\r\n]", start):
            raise SourceError(
                f"{file.name} cannot be read as CSV: its first row does not end within "
                f"{LONGEST_LINE >> 20} MiB."
            )
        try:
            self.dialect = infer_dialect(start, options.delimiter, options.header, options.encoding)
        except SourceError as problem:
            raise SourceError(f"{file.name} cannot be read as CSV: {problem}.") from problem
        self.names, self.named = self.dialect.names, self.dialect.named
        require_few(len(self.names), file)
        self.remarks = tuple(f"{file.name}: {remark}" for remark in self.dialect.remarks)
        self.encoding, self.returns = self.dialect.encoding, self.dialect.returns
        self.skip, self.rows = self.dialect.skip, whole_rows(self.dialect.delimiter)
        # A row of numbers may be longer than the names of its columns.
        self.longest_row = max(LONGEST_LINE, 32 * (start.find(b"\n") + 1))
        self.rest = self.chunks(start)
        self.first = next(self.rest, b"")

    def end_of_rows(self, data: bytes) -> int:
        """Where the last whole row ends; quotes may hold line ends."""
        end = super().end_of_rows(data)
        found = self.rows.match(data) if b'"' in data else None
        return end if found is None else found.end()

    def shortened(self, row: bytes) -> bytes:
        """No row of CSV may be too long."""
        raise SourceError(
            f"{self.file.name} cannot be read to its end: a row is longer than "
            f"{self.longest_row >> 20} MiB. Is a quote not closed?"
        )

    def parse(self, chunk: bytes, names: list[str]) -> Parsed:
        """These columns of a chunk as text, and its rows of the wrong length."""
        invalid = {}

        def note(row: Any) -> str:
            is_comment = self.dialect.comments and row.text.startswith("#")
            cells = f"{row.actual_columns} cells, but the file has {row.expected_columns} columns"
            invalid[row.number] = ("" if is_comment else cells, row.text)
            return "skip"

        schema = pa.schema([(name, pa.string()) for name in names])
        if self.dialect.aligned:
            chunk = squeezed(chunk.decode()).encode()
        if not chunk or chunk.isspace():
            return schema.empty_table(), {}
        table = pyarrow.csv.read_csv(
            pa.BufferReader(chunk),
            read_options=pyarrow.csv.ReadOptions(
                use_threads=False, block_size=len(chunk) + 1, column_names=self.names
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self.dialect.delimiter, invalid_row_handler=note, newlines_in_values=True
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=schema, include_columns=names, strings_can_be_null=True
            ),
        )
        return table, invalid

    def carried_type(self, column: pa.Array) -> pa.DataType:
        """Numbers if the first batch has numbers only, else text."""
        numbers = () if self.options.carried_as_text else (pa.int64(), pa.float64())
        return next((type for type in numbers if castable(column, type)), pa.string())


class NdjsonReader(TextReader):
    """One JSON object a line: whole chunks by Arrow, those with an invalid row line by line."""

    def __init__(self, file: File, stream: ByteStream | None, options: ReadOptions):
        self.file, self.stream = file, stream
        start = self.read(chunk_bytes())
        self.encoding = text_encoding(start, options.encoding)
        self.returns = ends_lines_by_return(start)
        self.rest = self.chunks(start)
        self.first = next(self.rest, b"")
        head = [parse_json(line) for line in self.first.split(b"\n", FIRST_ROWS)[:FIRST_ROWS]]
        rows = [row for row in head if isinstance(row, dict)]
        self.names = tuple(readable(name) for name in dict.fromkeys(chain.from_iterable(rows)))
        if not self.names and self.first.lstrip().startswith(b"["):
            raise SourceError(
                f"{file.name} is one JSON array. Write an object a line: jq -c '.[]', or "
                "to_json(path, orient='records', lines=True) of pandas."
            )
        if not self.names:
            raise SourceError(f"{file.name} has no JSON object in its first lines.")
        require_few(len(self.names), file)
        # Without types, Arrow would take text that looks like a date for one.
        self.types = dict[str, pa.DataType]()
        self.types = {f.name: f.type for f in self.table(rows, list(self.names)).schema}

    def read(self, size: int) -> bytes:
        """The next bytes; fewer when a pipe has no more at the moment."""
        assert self.stream is not None
        if os.path.isfile(self.file.path):
            return super().read(size)
        return bytes(self.stream.bytes.read1(size))

    def shortened(self, row: bytes) -> bytes:
        """The beginning of a row and a byte that no JSON has: the row is invalid."""
        return row[: self.longest_row] + b"\0"

    def batches(self, columns: Selection, skip: int = 0) -> Iterator[Batch]:
        """Typed columns; a column of integers may have other numbers later."""
        integers = [
            n for n in columns.features if pa.types.is_integer(self.types.get(n, pa.null()))
        ]
        self.types |= dict.fromkeys(integers, pa.float64())
        return super().batches(columns, skip)

    def parse(self, chunk: bytes, names: list[str]) -> Parsed:
        """These columns of a chunk with their types, or as text where a value has another."""
        table = self._parsed_by_arrow(chunk, names)
        if table is not None:
            return table, {}
        rows, invalid = [], {}
        lines = [line for line in chunk.split(b"\n") if line.strip()]
        for number, line in enumerate(lines, 1):
            row = parse_json(line)
            text = line.decode(errors="replace")
            if not isinstance(row, dict):
                invalid[number] = self.why_invalid(row), text
            elif not can_be_written([row.get(name) for name in names]):
                invalid[number] = "a value is not text in UTF-8", text
            else:
                rows.append(row)
        return self.table(rows, names), invalid

    def why_invalid(self, value: Any) -> str:
        """Why a line is no row."""
        return "not a JSON object"

    def _parsed_by_arrow(self, chunk: bytes, names: list[str]) -> pa.Table | None:
        """A chunk by Arrow; None if it is not sure of every row."""
        # A line of null ends Arrow by a signal.
        if re.match(rb"\s*null", chunk) or re.search(rb"\n\s*null", chunk):
            return None
        types = [(n, t) for n in names if not pa.types.is_null(t := self.types.get(n, pa.null()))]
        try:
            table = pyarrow.json.read_json(
                pa.BufferReader(chunk),
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(chunk) + 1),
                parse_options=pyarrow.json.ParseOptions(
                    explicit_schema=pa.schema(types),
                    unexpected_field_behavior="ignore" if len(types) == len(names) else "infer",
                ),
            )
            table.validate(full=True)  # text may be anything but UTF-8
        except (pa.ArrowException, UnicodeDecodeError):
            return None
        is_whole = table.num_rows == chunk.count(b"\n") and {*table.column_names} >= {*names}
        return table.select(names) if is_whole else None

    def table(self, rows: list[dict[str, Any]], names: list[str]) -> pa.Table:
        """Rows as columns; one with values of several kinds is text."""

        def column(name: str) -> pa.Array:
            values = [row.get(name) for row in rows]
            try:
                return pa.array(values, self.types.get(name))
            except (pa.ArrowException, OverflowError, UnicodeError):
                return pa.array([as_text(value) for value in values], pa.string())

        return pa.table({name: column(name) for name in names})


def holds_numbers(column: pa.Array) -> bool:
    """Whether most cells of a column are numbers; one without values may hold some."""
    if not pa.types.is_string(column.type):
        return not (pa.types.is_boolean(column.type) or pa.types.is_nested(column.type))
    cells = column.drop_null().to_pylist()
    return 2 * sum(map(is_number, cells)) >= len(cells)


def castable(column: pa.Array, type: pa.DataType) -> bool:
    """Whether every cell of a column can be of a type; "007" is a name, not a number."""
    try:
        column.cast(type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    if type == pa.string() or not pa.types.is_string(column.type):
        return True
    return not pc.any(pc.match_substring_regex(column, "^[+-]?0[0-9]")).as_py()


def as_text(value: Any) -> str | None:
    """A JSON value as text that can be stored."""
    return None if value is None else readable(value if isinstance(value, str) else str(value))


def can_be_written(value: Any) -> bool:
    """Whether a JSON value holds no text beyond Unicode, such as half of a pair of surrogates."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def parse_json(line: bytes | str) -> Any:
    """The JSON value of a line, or None."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
