"""Uniform sample of the rows of all files, for schema inference; independent of their format.

A row is drawn by a number that belongs to its place in the files, so the same rows in another
format give the same sample. The seed is 0 in every run, whatever else is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from kernelstream.arrays import uniforms
from kernelstream.tables.arrays import ArrayReader
from kernelstream.tables.files import File, SourceError
from kernelstream.tables.formats import open_reader
from kernelstream.tables.readers import UNREADABLE, Batch, Reader, ReadOptions, Selection
from kernelstream.tables.schema import few

ROWS = 10_000  # of a sample


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
    whole: bool
    remarks: tuple[str, ...]
    columns: dict[str, tuple[str, ...]]


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
    if not all(Path(file.path).is_file() for file in files):  # a pipe can be read only once
        return TableSample(first.head(columns, ROWS), False, first.remarks, {})
    # Of wide tables fewer rows: at most four million cells.
    size = int(np.clip(4_000_000 // max(len(first.names), 1), 500, ROWS))
    # Arrays are parts of a matrix; next to text, they are columns of a table as that is.
    are_mixed = len({file.format in ("npy", "npz") for file in files}) > 1
    known, parts = set(first.names), list[Batch]()
    draws, n_rows = np.zeros(0), 0
    remarks, names = dict[str, None](), dict[str, tuple[str, ...]]()
    for file in files:
        reader = open_reader(file, options)
        remarks |= dict.fromkeys(reader.remarks)
        names[file.name], here = reader.names, set(reader.names)
        features = tuple(name for name in columns.features if name in here)
        wanted = replace(columns, features=features)
        if are_mixed and isinstance(reader, ArrayReader):
            wanted = replace(columns, features=(), carried=features)
        if more := [name for name in reader.names if name not in known]:
            remark = f"{file.name} has columns that {first.file.name} has not"
            remarks[f"{remark}, and that are left out: {few(more, 20)}."] = None
        try:
            for n, batch, drawn in drawn_batches(reader, wanted, n_rows, size, options.limit):
                n_rows += n
                kept = np.flatnonzero(drawn > (draws.min() if len(draws) >= size else 0.0))
                parts.append(rows_at(batch, kept))
                draws = np.concatenate([draws, drawn[kept]])
                if len(draws) > 2 * size:
                    kept = highest_draws(draws, size)
                    parts, draws = [rows_at(joined(parts), kept)], draws[kept]
        except UNREADABLE as problem:
            raise SourceError(f"{file.name} cannot be read to its end: {problem}") from problem
        finally:
            reader.close()
        if n_rows == options.limit:
            break
    sample = (
        rows_at(joined(parts), highest_draws(draws, size)) if parts else first.head(columns, ROWS)
    )
    return TableSample(sample, True, tuple(remarks), names)


def drawn_batches(
    reader: Reader, columns: Selection, n_before: int, size: int, limit: int | None
) -> Iterator[tuple[int, Batch, np.ndarray]]:
    """The rows of a file, up to a limit, with the random numbers by which they are drawn.

    Of an array only the rows with the highest numbers are read.

    Parameters
    ----------
    reader : Reader
        The reader of the file.
    columns : Selection
        The columns that are sampled.
    n_before : int
        Rows of the files before it.
    size : int
        Rows that will be sampled.
    limit : int or None
        Rows of all files that may be drawn.

    Yields
    ------
    tuple of int, Batch and array
        How many rows were passed, those that may be sampled, and their numbers.
    """
    if isinstance(reader, ArrayReader):
        n = reader.n_rows if limit is None else min(reader.n_rows, limit - n_before)
        drawn = uniforms(0, "survey", n_before, n)
        places = highest_draws(drawn, size)
        batch = reader.take(columns, places)
        yield n, batch if columns.features else replace(batch, matrix=None), drawn[places]
        return
    for batch in reader.batches(columns):
        n = len(batch.numbers) if limit is None else min(len(batch.numbers), limit - n_before)
        yield n, batch, uniforms(0, "survey", n_before, n)
        n_before += n
        if n_before == limit:
            return


def rows_at(batch: Batch, places: np.ndarray) -> Batch:
    """Some rows of a batch."""
    table = batch.table.take(pa.array(places)) if batch.table.num_columns else batch.table
    matrix = None if batch.matrix is None else batch.matrix[places]
    return replace(batch, numbers=batch.numbers[places], table=table, matrix=matrix)


def joined(parts: list[Batch]) -> Batch:
    """Several batches as one; a column that has different types in them becomes text."""
    tables = [pa.Table.from_batches([part.table]) for part in parts]
    tables = [table for table in tables if len(table)] or tables[:1]
    try:
        table = pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # numbers here, text there
        words = [pa.schema([(name, pa.string()) for name in t.column_names]) for t in tables]
        tables = [table.cast(schema) for table, schema in zip(tables, words, strict=True)]
        table = pa.concat_tables(tables, promote_options="permissive")
    numbers = np.concatenate([part.numbers for part in parts])
    matrices = [part.matrix for part in parts if part.matrix is not None]
    matrix = np.concatenate(matrices) if len(matrices) == len(parts) else None
    return replace(Batch.of(table), numbers=numbers, matrix=matrix)


def highest_draws(draws: np.ndarray, size: int) -> np.ndarray:
    """Indices of the highest numbers, in their order."""
    return np.sort(np.argsort(draws)[-size:])
