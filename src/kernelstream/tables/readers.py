"""Reader interface of all formats: options, batches, row numbers, invalid rows, size limits."""

from __future__ import annotations

import csv
import lzma
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from kernelstream.tables.files import ByteStream, File, SourceError

# What a damaged file, or one of another format than its name says, may raise while it is read.
UNREADABLE = (
    pa.ArrowException,
    OSError,
    MemoryError,  # a damaged length asks for more than there is
    EOFError,
    UnicodeError,
    csv.Error,
    zlib.error,
    lzma.LZMAError,
)
BLOCK_BYTES = 8 << 20  # of rows as float64 in one batch: memory stays bounded
# Rows in one batch: two blocks of a stream for each core, and as many as memory is worth.
MOST_ROWS = 1024 * min(max(8, 2 * (os.cpu_count() or 1)), 32)
LONGEST_LINE = 4 << 20  # bytes of a line of text; what is longer is no row but something else
MOST_COLUMNS = 100_000  # of a table: Arrow takes about 10 kB for each


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be learned, and where it stands (rows are counted from 1).

    Attributes
    ----------
    file : str
        Name of the file.
    row : int
        Number of the row.
    column : str or None
        Name of the column with the invalid value, if there is one.
    reason : str
        What is wrong.
    text : str
        The row as it stands in the file, if that is text.
    """

    file: str
    row: int
    column: str | None
    reason: str
    text: str

    def __str__(self) -> str:
        column = "" if self.column is None else f", column {self.column!r}"
        return f"{self.file}, row {self.row}{column}: {self.reason}"


@dataclass(frozen=True)
class Batch:
    """Rows as they are stored.

    ``numbers`` are the numbers of the rows in the file, from 1; ``end`` is how many rows of the
    file, invalid ones included, precede the next batch. Arrays have a ``matrix`` of the features.
    """

    numbers: np.ndarray
    table: pa.RecordBatch
    end: int
    matrix: np.ndarray | None = None
    invalid: tuple[BadRow, ...] = ()

    @classmethod
    def of(cls, table: pa.Table) -> Batch:
        """All rows of a table."""
        batches = table.combine_chunks().to_batches()
        rows = batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)
        return cls(np.arange(1, len(table) + 1), rows, len(table))

    def after(self, skip: int) -> Batch:
        """The part of it after the first rows of the file."""
        first = int(np.searchsorted(self.numbers, skip, side="right"))
        invalid = tuple(row for row in self.invalid if row.row > skip)
        matrix = None if self.matrix is None else self.matrix[first:]
        return Batch(self.numbers[first:], self.table.slice(first), self.end, matrix, invalid)

    def cell(self, place: int, j: int, name: str) -> Any:
        """A value of a row as it is stored: the j-th feature, of this name."""
        if self.matrix is not None:
            return self.matrix[place, j].item()
        return self.table.column(name)[place].as_py()


@dataclass(frozen=True)
class Connection:
    """How an address is reached, and from where it is read.

    Attributes
    ----------
    settings : mapping
        Users, passwords and certificates, by name.
    database : str or None
        The database of a query.
    position : dict or None
        Where to continue: what :meth:`Source.place` gave after the rows of an earlier run.
    tell : callable
        Is called with sentences: about a broker that is gone, a query without an order.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    database: str | None = None
    position: dict[str, Any] | None = None
    tell: Callable[[str], None] = lambda text: None


@dataclass(frozen=True)
class Selection:
    """The columns of a source that are read: features, weight, target, and carried ones."""

    features: tuple[str, ...]
    weight: str | None = None
    carried: tuple[str, ...] = ()
    target: str | None = None

    @property
    def wanted(self) -> list[str]:
        """Every column that must be read, once."""
        beside = [name for name in (self.weight, self.target) if name is not None]
        return list(dict.fromkeys((*self.features, *beside, *self.carried)))


@dataclass(frozen=True)
class ReadOptions:
    """How files are read, and which of their columns: see :class:`Source`."""

    columns: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    weight_column: str | None = None
    keep: Sequence[str] | None = ()
    on_bad_rows: str = "error"
    limit: int | None = None
    format: str | None = None
    delimiter: str | None = None
    header: bool | None = None
    dtype: str = "auto"
    encoding: str | None = None
    connection: Connection = field(default_factory=Connection)
    stdin: BinaryIO | None = None

    def __post_init__(self) -> None:
        if self.on_bad_rows not in ("error", "skip"):
            raise ValueError(f"on_bad_rows must be 'error' or 'skip'; got {self.on_bad_rows!r}.")
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit must be at least 1; got {self.limit}.")


class Reader:
    """A file that is being read."""

    file: File
    names: tuple[str, ...]
    named: bool = True  # whether the names are the file's own
    image_shape: tuple[int, int] | None = None  # of rows that were images
    index_columns: tuple[str, ...] = ()  # columns that are the index of a data frame
    remarks: tuple[str, ...] = ()  # what is unusual about the file
    stream: ByteStream | None = None  # if the file is read from front to back

    def batches(self, columns: Selection) -> Iterator[Batch]:
        """The rows, with these columns."""
        raise NotImplementedError

    def head(self, columns: Selection, most: int) -> Batch:
        """At most so many first rows, as far as they have come; they stay to be read."""
        raise NotImplementedError

    def is_single(self, names: Sequence[str]) -> bool:
        """Whether float32 holds these columns exactly."""
        return False

    def fraction(self) -> float:
        """How much of the file has been read, between 0 and 1."""
        return 0.0 if self.stream is None else self.stream.fraction()

    def place(self, row: int) -> dict[str, Any] | None:
        """Where an address is continued after so many rows; files are counted by rows."""
        return None

    def commit(self, position: dict[str, Any]) -> None:
        """All rows before a place were saved."""

    def close(self) -> None:
        """Close the file."""
        if self.stream is not None:
            self.stream.close()


def array_of(values: Any, type: pa.DataType | None = None) -> pa.Array:
    """Values as a column; those of several kinds are text."""
    try:
        return pa.array(values, type, from_pandas=True)
    except (pa.ArrowException, OverflowError):
        words = [None if v is None or v != v else str(v) for v in values]
        return pa.array(words, pa.string())


def rows_in_batch(n_columns: int, least: int = 64) -> int:
    """Rows that make a batch of bounded size."""
    return int(np.clip(BLOCK_BYTES // (8 * max(n_columns, 1)), least, MOST_ROWS))


def check_names(names: Sequence[str], file: File) -> None:
    """Raise for columns of one name, or for so many that reading them would take all memory."""
    if len(names) > MOST_COLUMNS:
        raise SourceError(
            f"{file.name} has {len(names):,} columns, and a table may have {MOST_COLUMNS:,}: store "
            "the numbers as an array (numpy.save), which may be wider."
        )
    repeated = [name for name, n in Counter(names).items() if n > 1]
    if repeated:
        raise SourceError(
            f"{file.name} has several columns called {', '.join(map(repr, repeated[:8]))}: rename "
            "them."
        )


def chunk_bytes() -> int:
    """Bytes of text that make a batch of bounded size: a number has two of them at least."""
    return BLOCK_BYTES // 4
