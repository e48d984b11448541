"""What every format gives: named columns, batches of rows with their numbers, how far it got."""

from __future__ import annotations

import csv
import lzma
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from kernelstream.sources.files import NEEDS_FILE, File, SourceError, guess_format, open_bytes

# What a damaged file, or one that is not what its name says, may raise while it is read.
UNREADABLE = (
    pa.ArrowException,
    OSError,
    EOFError,
    UnicodeDecodeError,
    csv.Error,
    zlib.error,
    lzma.LZMAError,
)
BLOCK_BYTES = 4 << 20  # of rows as float64 in one batch: memory stays bounded


@dataclass(frozen=True)
class Broken:
    """A row that could not even be parsed, or held text where a number was wanted."""

    row: int
    column: str | None
    reason: str
    text: str


@dataclass(frozen=True)
class Batch:
    """Rows as they are stored.

    ``numbers`` are the numbers of the rows in the file, from 1; ``end`` is how many rows of the
    file, broken ones included, have gone by. Arrays give ``matrix``, tables do not.
    """

    numbers: np.ndarray
    table: pa.RecordBatch
    end: int
    matrix: np.ndarray | None = None
    broken: tuple[Broken, ...] = ()


@dataclass(frozen=True)
class Reading:
    """How files are to be read, as far as the format leaves a choice."""

    delimiter: str | None = None
    header: bool | None = None
    array: str | None = None
    features: tuple[str, ...] = field(default=())  # columns that must be numbers, once known
    carried_as_text: bool = False


class Reader:
    """A file that is being read. ``fields`` says of each column whether it holds numbers."""

    fields: dict[str, bool]
    single: bool = False  # whether all columns are small enough for float32 to hold them exactly
    named: bool = True  # whether the names are the file's own

    def batches(self, wanted: list[str], skip: int, reading: Reading) -> Iterator[Batch]:
        """The rows after the first ``skip``, with the wanted columns."""
        raise NotImplementedError

    def fraction(self) -> float:
        """How much of the file has been read, between 0 and 1."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the file."""


def open_reader(file: File, reading: Reading, stdin: BinaryIO | None) -> Reader:
    """Open one file; its format is that of its name, or else of its first bytes."""
    from kernelstream.sources import arrays, columnar, text

    format = file.format
    try:
        indexed = {"parquet": columnar.ParquetReader, "npz": lambda file: arrays.npz(file, reading)}
        if format in NEEDS_FILE and not file.is_stdin and file.compression is None:
            return indexed[format](file)
        opened = open_bytes(file, stdin)
        start = opened.stream.peek(64)[:64]  # type: ignore[attr-defined]
        if not start:
            raise SourceError(f"{file.name} is empty.")
        format = format or guess_format(start, file.name)
        if format in NEEDS_FILE:
            if file.is_stdin or file.compression is not None:
                raise SourceError(
                    f"{file.name}: {format} can only be read from a file on the disk that is not "
                    "compressed as a whole; save it first, or send CSV, NDJSON or an Arrow stream."
                )
            opened.stream.close()
            return indexed[format](file)
        if format == "csv":
            return text.CsvReader(file, opened, reading)
        if format == "ndjson":
            return text.NdjsonReader(file, opened)
        if format == "npy":
            return arrays.npy(file, opened)
        return columnar.arrow(file, opened, start)
    except UNREADABLE as problem:
        raise SourceError(f"{file.name} cannot be read as {format}: {problem}") from problem


def rows_in_batch(n_columns: int) -> int:
    """Rows that make a batch of bounded size."""
    return int(np.clip(BLOCK_BYTES // (8 * max(n_columns, 1)), 64, 8192))
