"""Uniform sample of the rows of all files, for schema inference; independent of their format.

A row is drawn by a number that belongs to its place in its file. So the same rows in another format
give the same sample. The seed is 0 in every run, whatever else is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from kernelstream.arrays import uniforms
from kernelstream.tables.arrays import ArrayReader
from kernelstream.tables.files import File, SourceError
from kernelstream.tables.formats import open_reader
from kernelstream.tables.readers import UNREADABLE, Batch, Reader, ReadOptions, Selection
from kernelstream.tables.schema import few
from kernelstream.tables.text import TextReader

ROWS = 10_000  # of a sample, and no more numbers in them than …
NUMBERS = 4_000_000
FEWEST = 500  # rows of one file, if it has so many


@dataclass(frozen=True)
class TableSample:
    """Rows as they are stored, in their order.

    Attributes
    ----------
    batch : Batch
        The rows.
    whole : bool
        Whether they come from everywhere, and not from the head of a pipe.
    remarks : tuple of str
        What is unusual about the files.
    columns : dict of str to tuple of str
        The columns of each file, by its name.
    """

    batch: Batch
    whole: bool = True
    remarks: tuple[str, ...] = ()
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)


def sample_rows(
    files: Sequence[File], first: Reader, columns: Selection, options: ReadOptions
) -> TableSample:
    """A uniform sample of the rows of all files, or the first rows of a pipe.

    Parameters
    ----------
    files : sequence of File
        The files.
    first : Reader
        The reader of the first file.
    columns : Selection
        The columns that are sampled.
    options : ReadOptions
        With a limit, the rows are sampled from those that will be read.

    Returns
    -------
    TableSample
    """
    # A named pipe can be read only once: it is left for the reader.
    files = [file for file in files if not file.is_passing and Path(file.path).is_file()]
    if first.file not in files:
        return TableSample(first.head(columns, ROWS), False, first.remarks)
    size = int(np.clip(NUMBERS // max(len(first.names), 1), FEWEST, ROWS))
    total = sum(file.size for file in files) or 1
    parts: list[Batch] = []
    # Arrays are parts of a matrix; next to text, they are columns of a table as that is.
    are_mixed = len({file.format == "npy" for file in files}) > 1
    remarks: dict[str, None] = {}
    found = {}
    for file in files:
        n = max(size * file.size // total, min(FEWEST, size) // len(files), 1)
        reader = open_reader(file, options)
        remarks |= dict.fromkeys(reader.remarks)
        found[file.name] = reader.names
        if more := [name for name in reader.names if name not in first.names]:
            remark = f"{file.name} has columns that {first.file.name} has not"
            remarks[f"{remark}, and that are left out: {few(more, 20)}."] = None
        features, carried = (
            tuple(name for name in names if name in reader.names)
            for names in (columns.features, columns.carried)
        )
        here = replace(columns, features=features, carried=carried)
        if are_mixed and isinstance(reader, ArrayReader):
            here = replace(here, features=(), carried=(*features, *carried))
        try:
            parts.append(sample_file(reader, here, size if len(files) == 1 else n, options.limit))
        except UNREADABLE as problem:
            raise SourceError(f"{file.name} cannot be read to its end: {problem}") from problem
        finally:
            reader.close()
        if options.limit is not None:
            break  # its first rows are in the first files
    return TableSample(joined(parts), True, tuple(remarks), found)


def sample_file(reader: Reader, columns: Selection, size: int, limit: int | None) -> Batch:
    """A uniform sample of the rows of one file, of the first ``limit`` rows if there is one."""
    if isinstance(reader, TextReader) and limit is None:
        lines = lowest(lines_of(reader), size)
        text = b"".join(line for line in lines["line"].to_pylist() if line.count(b'"') % 2 == 0)
        return Batch.of(reader.parse(text, columns.wanted)[0])
    if isinstance(reader, ArrayReader):
        drawn = uniforms(0, "survey", 0, min(limit or reader.n_rows, reader.n_rows))
        return reader.take(columns, np.sort(np.argsort(drawn, kind="stable")[:size]))
    return Batch.of(lowest((batch.table for batch in reader.batches(columns)), size, limit))


def lines_of(reader: TextReader) -> Iterator[pa.RecordBatch]:
    """The lines of a text that are not empty, as a column that shares the bytes of the text."""
    yield pa.record_batch([pa.array([], pa.binary())], ["line"])
    for chunk in reader.all_chunks():
        ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n")) + 1
        offsets = np.concatenate([[0], ends]).astype(np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(chunk)]
        lines = pa.Array.from_buffers(pa.binary(), len(ends), buffers)
        is_row = np.diff(offsets) > 1
        lines = lines if is_row.all() else lines.filter(pa.array(is_row))
        yield pa.record_batch([lines], ["line"])


def lowest(batches: Iterable[pa.RecordBatch], size: int, limit: int | None = None) -> pa.Table:
    """The rows with the lowest random numbers, in their order."""
    kept: list[pa.Table] = []
    numbers, row, below = np.zeros(0), 0, 1.0
    for batch in batches:
        drawn = uniforms(0, "survey", row, batch.num_rows)
        drawn = drawn if limit is None else drawn[: max(limit - row, 0)]
        row += batch.num_rows
        places = np.flatnonzero(drawn < below)
        kept.append(pa.Table.from_batches([batch.take(pa.array(places))]))
        numbers = np.concatenate([numbers, drawn[places]])
        if len(numbers) > 2 * size:
            kept, numbers = lowest_of(kept, numbers, size)
            below = float(numbers.max())
        if limit is not None and row >= limit:
            break
    if not kept:
        raise SourceError("The source holds no row.")
    return lowest_of(kept, numbers, size)[0][0]


def lowest_of(
    tables: list[pa.Table], numbers: np.ndarray, size: int
) -> tuple[list[pa.Table], np.ndarray]:
    """The rows of several tables with the lowest numbers, and these."""
    table = pa.concat_tables(tables, promote_options="permissive")
    places = np.sort(np.argsort(numbers, kind="stable")[:size])
    return [table.take(pa.array(places))], numbers[places]


def joined(parts: list[Batch]) -> Batch:
    """The samples of several files as one; text if a column has different types in them."""
    tables = [pa.Table.from_batches([part.table]) for part in parts]
    matrices = [part.matrix for part in parts if part.matrix is not None]
    if len(matrices) == len(parts):
        numbers = np.arange(1, sum(map(len, matrices)) + 1)
        table = Batch.of(pa.concat_tables(tables))
        return replace(table, numbers=numbers, matrix=np.concatenate(matrices))
    tables = [table for table in tables if table.num_rows] or tables[:1]
    try:
        return Batch.of(pa.concat_tables(tables, promote_options="permissive"))
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # numbers here, text there
        texts = [
            table.cast(pa.schema([(name, pa.string()) for name in table.column_names]))
            for table in tables
        ]
        return Batch.of(pa.concat_tables(texts, promote_options="permissive"))
