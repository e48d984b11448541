"""CSV and NDJSON readers: chunks of whole rows, which Arrow parses; invalid rows."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from kernelstream.tables.dialect import (
    Dialect,
    decoder_of,
    infer_dialect,
    infer_encoding,
    squeezed,
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
    array_of,
    check_names,
    chunk_bytes,
)

FIRST_ROWS = 1000  # or different words of a column, that decide what it holds

# What a chunk is parsed to: its valid rows, and for each other row its number in the chunk, the
# reason and its text.
Parsed = tuple[pa.Table, dict[int, tuple[str, str]]]


class ChunkReader(Reader):
    """Rows that come in chunks, which are parsed one after the other."""

    first: Any  # the first chunk, until it is read
    rest: Iterator[Any]

    def parse(self, chunk: Any, names: list[str]) -> Parsed:
        """These columns of a chunk, and its invalid rows."""
        raise NotImplementedError

    def head(self, columns: Selection, most: int) -> Batch:
        """At most so many rows of the first chunk, which is read again."""
        return Batch.of(self.parse(self.first, columns.wanted)[0].slice(0, most))

    def batches(self, columns: Selection) -> Iterator[Batch]:
        """One batch for each chunk; they can be read once."""
        first, self.first = self.first, None
        end = 0
        for chunk in chain([first] if first else [], self.rest):
            table, found = self.parse(chunk, columns.wanted)
            start, end = end, end + table.num_rows + len(found)
            numbers = np.delete(np.arange(start + 1, end + 1), [row - 1 for row in found])
            invalid = tuple(
                BadRow(self.file.name, start + row, None, reason, text)
                for row, (reason, text) in found.items()
            )
            yield replace(Batch.of(table), numbers=numbers, end=end, invalid=invalid)


class TextReader(ChunkReader):
    """A text that is split into chunks of whole rows, as UTF-8."""

    stream: ByteStream

    def __init__(self, file: File, stream: ByteStream, options: ReadOptions):
        self.file, self.stream = file, stream
        start = self.read(chunk_bytes())
        while b"\n" not in start and len(start) < LONGEST_LINE and (more := self.read(1 << 20)):
            start += more
        try:
            if len(start) >= LONGEST_LINE and not re.search(rb"[\r\n]", start):
                raise SourceError(f"its first row does not end within {LONGEST_LINE >> 20} MiB")
            self.dialect = self.infer_dialect(start, options)
        except SourceError as problem:
            raise SourceError(f"{file.name} cannot be read as text: {problem}.") from problem
        if self.dialect.encoding != "utf-8":
            self.remarks = (f"{file.name}: it is text in {self.dialect.encoding}.",)
        self.rest = self.chunks(start)
        self.first = next(self.rest, b"")

    def infer_dialect(self, start: bytes, options: ReadOptions) -> Dialect:
        """The dialect of the text, by its first bytes."""
        raise NotImplementedError

    def read(self, size: int) -> bytes:
        """The next bytes; fewer only at the end."""
        return bytes(self.stream.bytes.read(size))

    def chunks(self, start: bytes) -> Iterator[bytes]:
        """Chunks of whole rows, the first of them from bytes that were read already."""
        decoder = decoder_of(self.dialect.encoding)
        piece, n_lines = start, self.dialect.skip
        lines = decoder.decode(start, not start).removeprefix("\ufeff").split("\n")
        data = "\n".join(lines[n_lines:]).encode()
        del start, lines
        while True:
            if not piece and not data.endswith(b"\n"):
                data += b"\n"
            end = self.end_of_rows(data)
            chunk, rest = data[:end], data[end:]
            n_lines += int(np.sum(np.frombuffer(chunk, np.uint8) == ord("\n")))
            if chunk and not chunk.isspace():
                yield chunk
            if rest and (not piece or len(rest) > LONGEST_LINE):
                rest = self.shortened(rest, n_lines + 1)
            if not piece:
                return
            piece = self.read(chunk_bytes())
            data = rest + decoder.decode(piece, not piece).encode()

    def end_of_rows(self, data: bytes) -> int:
        """Where the last whole row ends."""
        return data.rfind(b"\n") + 1

    def shortened(self, row: bytes, line: int) -> bytes:
        """What is kept of a row that is too long, or has no end."""
        raise NotImplementedError


class CsvReader(TextReader):
    """A CSV file, read as text: whether a cell is a number is decided where it can be named."""

    def __init__(self, file: File, stream: ByteStream, options: ReadOptions):
        super().__init__(file, stream, options)
        self.names, self.named = self.dialect.names, self.dialect.named
        check_names(self.names, file)

    def infer_dialect(self, start: bytes, options: ReadOptions) -> Dialect:
        """Delimiter, header and encoding, unless the user specifies them."""
        dialect = infer_dialect(start, options.delimiter, options.header, options.encoding)
        self.rows = whole_rows(dialect.delimiter)
        return dialect

    def end_of_rows(self, data: bytes) -> int:
        """Where the last whole row ends; quotes may hold line ends."""
        found = self.rows.match(data) if b'"' in data else None
        return super().end_of_rows(data) if found is None else found.end()

    def shortened(self, row: bytes, line: int) -> bytes:
        """An error: all that follows would be in one cell."""
        raise SourceError(
            f"{self.file.name}, line {line}: a quote is opened and not closed, or the row is "
            f"longer than {LONGEST_LINE >> 20} MiB."
        )

    def parse(self, chunk: bytes, names: list[str]) -> Parsed:
        """These columns of a chunk as text, and its rows of the wrong length."""
        invalid = {}

        def note(row: Any) -> str:
            reason = f"{row.actual_columns} cells, but the file has {row.expected_columns} columns"
            invalid[row.number] = reason, row.text
            return "skip"

        schema = pa.schema([(name, pa.string()) for name in names])
        if self.dialect.delimiter == " ":
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


class NdjsonReader(TextReader):
    """One JSON object a line: whole chunks by Arrow, those with an invalid row line by line."""

    def __init__(self, file: File, stream: ByteStream, options: ReadOptions):
        super().__init__(file, stream, options)
        lines = self.first.decode().split("\n", FIRST_ROWS)[:FIRST_ROWS]
        rows = [row for row in map(parse_json, lines) if isinstance(row, dict)]
        self.names = tuple(dict.fromkeys(chain.from_iterable(rows)))
        if not self.names and self.first.lstrip().startswith(b"["):
            raise SourceError(
                f"{file.name} is one JSON array. Write an object a line: jq -c '.[]', or "
                "to_json(path, orient='records', lines=True) of pandas."
            )
        if not self.names:
            raise SourceError(f"{file.name} has no JSON object in its first lines.")
        check_names(self.names, file)
        # Without types, Arrow would parse text that looks like a date. Integers may become floats.
        self.types = {
            field.name: field.type
            for field in columns_of(rows, self.names).schema
            if not (pa.types.is_null(field.type) or pa.types.is_integer(field.type))
        }

    def infer_dialect(self, start: bytes, options: ReadOptions) -> Dialect:
        """JSON has an encoding only."""
        return Dialect(encoding=infer_encoding(start, options.encoding))

    def read(self, size: int) -> bytes:
        """The next bytes; fewer when a pipe has no more at the moment."""
        if os.path.isfile(self.file.path):
            return super().read(size)
        return bytes(self.stream.bytes.read1(size))

    def shortened(self, row: bytes, line: int) -> bytes:
        """The beginning of a row and a byte that no JSON has: the row is invalid."""
        return row[:LONGEST_LINE] + b"\0"

    def parse(self, chunk: bytes, names: list[str]) -> Parsed:
        """These columns of a chunk with their types, or as text where a value has another."""
        table = self._parsed_by_arrow(chunk, names)
        if table is not None:
            return table, {}
        rows, invalid = [], {}
        lines = [line for line in chunk.decode(errors="replace").split("\n") if line.strip()]
        for number, line in enumerate(lines, 1):
            row = parse_json(line)
            if isinstance(row, dict):
                rows.append(row)
            else:
                invalid[number] = "not a JSON object", line
        return columns_of(rows, names, self.types), invalid

    def _parsed_by_arrow(self, chunk: bytes, names: list[str]) -> pa.Table | None:
        """A chunk by Arrow; None if it is not sure of every row."""
        if re.search(rb"\n\s*null", b"\n" + chunk):  # such a line ends Arrow by a signal
            return None
        types = [(name, self.types[name]) for name in names if name in self.types]
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


def columns_of(
    rows: list[dict[str, Any]], names: Sequence[str], types: Mapping[str, pa.DataType] = {}
) -> pa.Table:
    """Rows as columns; a column with values of several kinds is text."""
    return pa.table(
        {name: array_of([row.get(name) for row in rows], types.get(name)) for name in names}
    )


def parse_json(line: str) -> Any:
    """The JSON value of a line; None if there is none that can be stored as UTF-8."""
    try:
        value = json.loads(line)
        if "\\u" in line:  # which may be half of a pair of surrogates
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value
