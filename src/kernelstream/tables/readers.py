"""Reader interface of all formats: batches, row numbers, invalid rows, size limits."""

from __future__ import annotations

import csv
import lzma
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from kernelstream.tables.files import ByteStream, File, SourceError

# What a damaged file, or one that is not what its name says, may raise while it is read.
UNREADABLE = (
    pa.ArrowException,
    OSError,
    MemoryError,  # a damaged length asks for more than there is
    EOFError,
    UnicodeDecodeError,
    csv.Error,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
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
        Name of the column, where one is to blame.
    reason : str
        What is wrong.
    text : str
        The row as it stands in the file, where that is text.
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
    file, broken ones included, have gone by. Arrays give ``matrix``, tables do not.
    """

    numbers: np.ndarray
    table: pa.RecordBatch
    end: int
    matrix: np.ndarray | None = None
    broken: tuple[BadRow, ...] = ()

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
        Where a query is asked.
    position : dict or None
        Where to go on: what :meth:`Source.place` gave after the rows of an earlier run.
    names : tuple of str or None
        Columns that are wanted: the tags of a server, values that come without names.
    limit : int or None
        Good rows that are wanted.
    name : str
        What messages call the address.
    tell : callable
        Is given sentences: about a broker that is gone, a query without an order.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    database: str | None = None
    position: dict[str, Any] | None = None
    names: tuple[str, ...] | None = None
    limit: int | None = None
    name: str = ""
    tell: Callable[[str], None] = lambda text: None


@dataclass(frozen=True)
class Reading:
    """How files are to be read, as far as the format leaves a choice."""

    delimiter: str | None = None
    header: bool | None = None
    array: str | None = None
    features: tuple[str, ...] = field(default=())  # columns that must be numbers, once known
    encoded: tuple[str, ...] = field(default=())  # columns that will be made numbers
    carried_as_text: bool = False
    encoding: str | None = None  # of text; None: UTF-8, or UTF-16 where the file says so
    connection: Connection = Connection()  # of an address
    guesses: bool = False  # encoding, delimiter, comments and a row of units by the first lines


class Reader:
    """A file that is being read. ``fields`` says of each column whether it holds numbers."""

    file: File
    fields: dict[str, bool]
    named: bool = True  # whether the names are the file's own
    image_shape: tuple[int, int] | None = None  # of rows that were images
    index_columns: tuple[str, ...] = ()  # columns that are the index of a data frame
    remarks: tuple[str, ...] = ()  # what was found about the file
    encoding: str | None = None  # of text, where it is not UTF-8
    text_read = 0  # bytes of text that were read …
    handed_out = 0  # … and of the rows among them that were handed out
    opened: ByteStream | None = None  # where the file is read from front to back

    def batches(self, wanted: list[str], skip: int, reading: Reading) -> Iterator[Batch]:
        """The rows after the first ``skip``, with the wanted columns."""
        raise NotImplementedError

    def is_single(self, names: list[str]) -> bool:
        """Whether float32 holds these columns exactly."""
        return False

    def fraction(self) -> float:
        """How much of the file has been read, between 0 and 1: by stored bytes."""
        assert self.opened is not None
        read = min(1.0, self.opened.stored.count / max(self.file.size, 1))
        # Text is read ahead of the rows that were handed out: of what was read, they are a share.
        return read * min(1.0, self.handed_out / self.text_read) if self.text_read else read

    def place(self, row: int) -> dict[str, Any] | None:
        """Where an address is gone on with after so many rows; files are counted by rows."""
        return None

    def commit(self, position: dict[str, Any]) -> None:
        """All rows before a place were saved."""

    def close(self) -> None:
        """Let go of the file."""
        if self.opened is not None:
            self.opened.stream.close()


def rows_in_batch(n_columns: int, least: int = 64) -> int:
    """Rows that make a batch of bounded size."""
    return int(np.clip(BLOCK_BYTES // (8 * max(n_columns, 1)), least, MOST_ROWS))


def require_few(n_columns: int, file: File) -> None:
    """Raise where a table is so wide that reading it would take all memory."""
    if n_columns > MOST_COLUMNS:
        raise SourceError(
            f"{file.name} has {n_columns:,} columns, and a table may have {MOST_COLUMNS:,}: store "
            "the numbers as an array (numpy.save), which may be wider."
        )
