"""Uniform sample of the rows of all files, for schema inference; independent of file order.

A row is drawn by a number that belongs to its place in its file. So the same rows in another format
give the same sample.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv

from kernelstream.arrays import uniforms
from kernelstream.tables.arrays import ArrayReader
from kernelstream.tables.columnar import ParquetReader
from kernelstream.tables.columns import name_list
from kernelstream.tables.files import ByteStream, File, SourceError, open_bytes, recode
from kernelstream.tables.formats import open_reader
from kernelstream.tables.readers import UNREADABLE, Batch, Reader, Reading
from kernelstream.tables.text import CsvReader, NdjsonReader, parse_json, squeezed, texts

ROWS = 10_000  # of a sample, and no more numbers in them than …
NUMBERS = 4_000_000
FEWEST = 500  # rows of one file, where it has so many
SEED = 0  # the sample is the same whatever is drawn later
PIECE = 1 << 20  # bytes of text that are cut into lines at a time


@dataclass(frozen=True)
class Sample:
    """Rows as they are stored, in their order: a table, or the matrix of arrays.

    ``whole`` says that they come from everywhere, and not from the head of a pipe.
    """

    table: pa.Table
    matrix: np.ndarray | None = None
    whole: bool = True
    remarks: tuple[str, ...] = ()
    lacking: tuple[tuple[str, tuple[str, ...]], ...] = ()  # files, and columns they have not
    numbers: tuple[np.ndarray, ...] = ()  # of arrays: the rows of each file, from 0

    @property
    def batch(self) -> Batch:
        """All of it."""
        n = self.table.num_rows if self.matrix is None else len(self.matrix)
        whole = self.table.combine_chunks().to_batches()
        table = whole[0] if whole else pa.RecordBatch.from_pylist([], self.table.schema)
        return Batch(np.arange(1, n + 1), table, n, self.matrix)


def sampled(
    files: Sequence[File],
    first: Reader,
    reading: Reading,
    stdin: BinaryIO | None,
    limit: int | None,
) -> Sample:
    """A sample of all files; of a pipe its first rows. ``first`` is the reader of the first file.

    With a limit, the rows are those that will be read.
    """
    size = int(np.clip(NUMBERS // max(len(first.fields), 1), FEWEST, ROWS))
    # What a named pipe gives can be read once: it is left for the reader.
    files = [file for file in files if not file.is_passing and Path(file.path).is_file()]
    if first.file not in files:
        return head_of(first, reading)
    total = sum(file.size for file in files) or 1
    parts: list[pa.Table | tuple[np.ndarray, np.ndarray]] = []
    remarks: dict[str, None] = {}
    lacking = []
    for file in files:
        share = max(size * file.size // total, min(FEWEST, size) // len(files), 1)
        # The lines of a text are read anew, whoever has parsed the first of them.
        known = file == first.file and isinstance(first, CsvReader) and limit is None
        reader = first if known else open_reader(file, reading, stdin)
        remarks |= dict.fromkeys(reader.remarks)
        lacking.append((file.name, tuple(n for n in first.fields if n not in reader.fields)))
        if more := [name for name in reader.fields if name not in first.fields]:
            said = f"{file.name} has columns that {first.file.name} has not, and that are left out"
            remarks[f"{said}: {name_list(more)}."] = None
        try:
            parts.append(_sample(reader, reading, size if len(files) == 1 else share, limit))
        except UNREADABLE as problem:
            raise SourceError(f"{file.name} cannot be read to its end: {problem}") from problem
        finally:
            if reader is not first:
                reader.close()
        if limit is not None:
            break  # its first rows are in the first files
    arrays = [part for part in parts if isinstance(part, tuple)]
    if arrays:
        numbers, matrices = zip(*arrays, strict=True)
        matrix = np.concatenate(matrices)
        return Sample(pa.table({}), matrix, remarks=tuple(remarks), numbers=numbers)
    return Sample(
        joined([part for part in parts if isinstance(part, pa.Table)], list(first.fields)),
        remarks=tuple(remarks),
        lacking=tuple(lacking),
    )


def joined(tables: list[pa.Table], names: list[str]) -> pa.Table:
    """Tables of one kind in one; where types differ between files, the first that takes both."""
    known = [set(table.column_names) for table in tables]
    tables = [
        table.select([name for name in names if name in here])
        for table, here in zip(tables, known, strict=True)
    ]
    tables = [table for table in tables if table.num_rows] or tables[:1]
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # numbers here, text there: all of it is text
        return pa.concat_tables(
            [
                table.cast(pa.schema([(field.name, pa.string()) for field in table.schema]))
                for table in tables
            ],
            promote_options="permissive",
        )


def head_of(first: Reader, reading: Reading) -> Sample:
    """The first rows of a pipe, which stay to be read."""
    remarks = first.remarks
    if isinstance(first, CsvReader) and first.head is not None:
        table = pa.Table.from_batches([first.head]).rename_columns(first.names)
        return Sample(table.slice(0, ROWS), whole=False, remarks=remarks)
    if isinstance(first, NdjsonReader):
        lines = first.head.split(b"\n")[:ROWS]
        return Sample(json_table(lines, list(first.fields)), whole=False, remarks=remarks)
    if isinstance(first, ArrayReader):
        return Sample(pa.table({}), np.empty((0, len(reading.features))), whole=False)
    types = getattr(first, "types", {})
    schema = pa.schema([(name, types.get(name, pa.string())) for name in first.fields])
    return Sample(schema.empty_table(), whole=False, remarks=remarks)


def _sample(
    reader: Reader, reading: Reading, n: int, limit: int | None
) -> pa.Table | tuple[np.ndarray, np.ndarray]:
    if isinstance(reader, ArrayReader):
        return _of_array(reader, reading, n if limit is None else min(n, limit), limit)
    if limit is None and isinstance(reader, CsvReader):
        lines = sampled_lines(reader, n)
        return csv_table(reader, [line for line in lines if line.count(b'"') % 2 == 0])
    if limit is None and isinstance(reader, NdjsonReader):
        return json_table(sampled_lines(reader, n), list(reader.fields))
    names = list(reader.fields)
    rows = reader.n_rows if isinstance(reader, ParquetReader) else 0
    batches = (batch.table for batch in reader.batches(names, 0, reading))
    likely = 1.0 if not rows or limit is not None else min(1.0, (1.5 * n + 50) / rows)
    return sampled_table(batches, n, likely, limit)


def sampled_table(
    batches: Iterable[pa.RecordBatch], n: int, likely: float = 1.0, limit: int | None = None
) -> pa.Table:
    """Some rows of batches, in their order; those with numbers above ``likely`` are passed over."""
    kept: list[pa.Table] = []
    numbers = np.zeros(0)
    row, below = 0, likely
    for batch in batches:
        drawn = uniforms(SEED, "survey", row, batch.num_rows)
        if limit is not None:
            drawn = drawn[: max(limit - row, 0)]
        row += batch.num_rows
        places = np.flatnonzero(drawn < below)
        if len(places) or not kept:
            kept.append(pa.Table.from_batches([batch.take(pa.array(places))]))
            numbers = np.concatenate([numbers, drawn[places]])
        if len(numbers) > 4 * n:
            kept, numbers = _lowest(kept, numbers, n)
            below = float(numbers.max())
        if limit is not None and row >= limit:
            break
    if not kept:
        raise SourceError("The source holds no row.")
    return _lowest(kept, numbers, n)[0][0]


def _lowest(
    tables: list[pa.Table], numbers: np.ndarray, n: int
) -> tuple[list[pa.Table], np.ndarray]:
    table = pa.concat_tables(tables, promote_options="permissive")
    places = np.sort(np.argsort(numbers, kind="stable")[:n])
    return [table.take(pa.array(places))], numbers[places]


def _of_array(
    reader: ArrayReader, reading: Reading, n: int, limit: int | None
) -> tuple[np.ndarray, np.ndarray]:
    rows = reader.n_rows if limit is None else min(limit, reader.n_rows)
    drawn = uniforms(SEED, "survey", 0, rows)
    places = np.sort(np.argsort(drawn, kind="stable")[:n])
    index = {name: i for i, name in enumerate(reader.columns)}
    features = [index[name] for name in reading.features]
    main = reader.main
    if main.is_file and not main.by_columns:
        width = main.width * main.dtype.itemsize
        found = []
        for place in places.tolist():
            main.stream.seek(main.start + place * width)
            found.append(main.read(1).reshape(-1)[features])
        return places, np.array(found)
    found, at = [], 0
    for batch in reader.batches(list(reading.features), 0, reading):
        assert batch.matrix is not None
        wanted = places[(places >= at) & (places < at + len(batch.matrix))] - at
        found.append(np.array(batch.matrix[wanted]))
        at += len(batch.matrix)
        if at >= rows:
            break
    return places, np.concatenate(found)


# -- lines of text


def rows_of_text(reader: CsvReader | NdjsonReader) -> ByteStream:
    """The text of a file once more, as UTF-8, from its first row on."""
    opened = open_bytes(reader.file, None)
    if reader.encoding is not None:
        opened = recode(opened, reader.encoding)
    for _ in range(getattr(reader, "header_lines", 0)):
        opened.stream.readline()
    return opened


def pieces_of(stream: BinaryIO) -> Iterator[list[bytes]]:
    """All lines, some thousand at a time; empty ones are none."""
    rest = b""
    while True:
        data = stream.read(PIECE)
        lines = (rest + data).split(b"\n")
        rest = lines.pop() if data else b""
        yield [line for line in lines if line.strip()]
        if not data:
            return


def sampled_lines(reader: CsvReader | NdjsonReader, n: int) -> list[bytes]:
    """N of all lines, in their order."""
    opened = rows_of_text(reader)
    try:
        return lowest_lines(opened.stream, n)
    finally:
        opened.stream.close()


def lowest_lines(stream: BinaryIO, n: int) -> list[bytes]:
    """The n lines with the lowest numbers, in their order."""
    kept: list[tuple[float, int, bytes]] = []
    row, below = 0, 1.0
    for piece in pieces_of(stream):
        piece = [line.removeprefix(codecs.BOM_UTF8) for line in piece[:1]] + piece[1:]
        drawn = uniforms(SEED, "survey", row, len(piece))
        kept += [(drawn[i], row + i, piece[i]) for i in np.flatnonzero(drawn < below).tolist()]
        row += len(piece)
        if len(kept) > 4 * n:
            kept = sorted(kept)[:n]
            below = kept[-1][0]
    return [line for _, _, line in sorted(sorted(kept)[:n], key=lambda entry: entry[1])]


def csv_table(reader: CsvReader, lines: list[bytes]) -> pa.Table:
    """Lines of a CSV file as columns of text; those of the wrong length are left out."""
    schema = pa.schema([(name, pa.string()) for name in reader.names])
    if not lines:
        return schema.empty_table()
    text = b"\n".join(lines).decode(errors="replace").encode()
    text = squeezed(text) if reader.aligned else text
    return pyarrow.csv.read_csv(
        io.BytesIO(text + b"\n"),
        read_options=pyarrow.csv.ReadOptions(
            use_threads=False, column_names=reader.names, block_size=len(text) + 2
        ),
        parse_options=pyarrow.csv.ParseOptions(
            delimiter=reader.delimiter, invalid_row_handler=lambda row: "skip"
        ),
        convert_options=pyarrow.csv.ConvertOptions(column_types=schema, strings_can_be_null=True),
    )


def json_table(lines: Iterable[bytes], names: Sequence[str]) -> pa.Table:
    """Lines of NDJSON as columns; values of several kinds in one column are text."""
    rows = [row for row in map(parse_json, lines) if isinstance(row, dict)]

    def column(name: str) -> pa.Array:
        values: list[Any] = [row.get(name) for row in rows]
        try:
            return pa.array(values)
        except (pa.ArrowException, OverflowError, UnicodeError):
            return texts(values)

    return pa.table({name: column(name) for name in names})
