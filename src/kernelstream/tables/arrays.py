"""NumPy files (``.npy``, ``.npz``): sequential reader without memory mapping.

Nothing is memory-mapped: a file that is cut while it is read would end the process.
"""

from __future__ import annotations

import contextlib
import math
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from kernelstream.tables.files import ByteStream, File, SourceError
from kernelstream.tables.readers import Batch, Reader, Selection, rows_in_batch

WIDEST = 10_000_000  # numbers in a row: a batch holds one row at least
# Types that float32 holds exactly.
SINGLE = ("float32", "float16", "int8", "uint8", "int16", "uint16", "bool")


class Member:
    """An array in a stream of bytes, read from front to back; a file may go to any place."""

    def __init__(self, stream: BinaryIO, name: str, is_file: bool = False):
        self.stream, self.name, self.is_file = stream, name, is_file
        try:
            version = np.lib.format.read_magic(stream)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            self.shape, self.by_columns, self.dtype = read(stream)
        except OSError:
            raise
        except Exception as problem:  # a header is Python's syntax: a broken one may raise anything
            raise SourceError(f"{name} is not a NumPy array: {problem}") from problem
        if any(n < 0 for n in self.shape):
            raise SourceError(f"{name} is not a NumPy array: its shape is {self.shape}.")
        self.by_columns = self.by_columns and len(self.shape) > 1
        if self.by_columns and not is_file:
            raise SourceError(
                f"{name} is stored column by column and cannot be streamed by rows: save it with "
                "np.save(path, np.ascontiguousarray(array))."
            )
        self.width = math.prod(self.shape[1:])
        self.at = 0  # rows that were read
        self.start = stream.tell() if is_file else 0

    def read(self, rows: int) -> np.ndarray:
        """The next rows."""
        if self.by_columns:
            return self._read_columns(rows)
        self.at += rows
        return self._numbers(rows * self.width).reshape(rows, *self.shape[1:])

    def _read_columns(self, rows: int) -> np.ndarray:
        """A piece of each column: the first index is the one that runs fastest."""
        pieces = []
        for column in range(self.width):
            self.stream.seek(self.start + (column * self.shape[0] + self.at) * self.dtype.itemsize)
            pieces.append(self._numbers(rows))
        self.at += rows
        return np.concatenate(pieces).reshape(*self.shape[:0:-1], rows).T

    def _numbers(self, n: int) -> np.ndarray:
        wanted = n * self.dtype.itemsize
        data = self.stream.read(wanted)
        if len(data) < wanted:
            raise SourceError(f"{self.name} is truncated.")
        return np.frombuffer(data, self.dtype)

    def read_at(self, row: int) -> np.ndarray:
        """One row of a file."""
        self.stream.seek(self.start + row * self.width * self.dtype.itemsize)
        return self.read(1)

    def skip(self, rows: int) -> None:
        """Pass over rows: a file goes to the place, a stream is read a megabyte at a time."""
        self.at += rows
        left = rows * self.width * self.dtype.itemsize
        if self.is_file:
            self.stream.seek(self.start + left)
            return
        while left > 0 and (piece := self.stream.read(min(left, 1 << 20))):
            left -= len(piece)


class ArrayReader(Reader):
    """The rows of one array, and arrays of the same length beside it as further columns."""

    def __init__(
        self,
        file: File,
        main: Member,
        beside: dict[str, Member],
        stream: ByteStream | None = None,
    ):
        self.file, self.main, self.beside, self.stream = file, main, beside, stream
        if main.dtype.kind not in "fiub":
            raise SourceError(f"{file.name} holds {main.dtype}, not numbers.")
        if len(main.shape) == 0 or main.shape[0] == 0:
            raise SourceError(f"{file.name} holds no rows (its shape is {main.shape}).")
        self.n_rows = int(main.shape[0])
        self.width = main.width
        if self.width > WIDEST:
            raise SourceError(
                f"{file.name} has {self.width:,} numbers a row; at most {WIDEST:,} can be read."
            )
        self.columns = {f"x{i}": i for i in range(self.width)}
        # Labels and times are no features unless they are requested.
        self.names = (*self.columns, *(name for name in beside if name not in self.columns))
        self.named = False
        if len(main.shape) == 3:
            self.image_shape = main.shape[1], main.shape[2]
        self.done = 0

    @property
    def numeric(self) -> frozenset[str]:
        """All columns of the array."""
        return frozenset(self.columns)

    def batches(self, columns: Selection, skip: int = 0) -> Iterator[Batch]:
        """Slices of the array; what has more than two dimensions is flattened row by row."""
        beside = {name: self.beside[name] for name in columns.wanted if name in self.beside}
        for array in (self.main, *beside.values()):
            array.skip(skip)
        size = rows_in_batch(self.width, least=1)
        for start in range(skip, self.n_rows, size):
            self.done = min(start + size, self.n_rows)
            n = self.done - start
            others = {name: array.read(n) for name, array in beside.items()}
            yield self._batch(
                columns, np.arange(start + 1, self.done + 1), self.main.read(n), others
            )

    def _batch(
        self,
        columns: Selection,
        numbers: np.ndarray,
        rows: np.ndarray,
        others: dict[str, np.ndarray],
    ) -> Batch:
        rows = rows.reshape(len(numbers), self.width)
        for name in (*columns.carried, columns.weight, columns.target):
            if name in self.columns:
                others[name] = rows[:, self.columns[name]].copy()
        features = [self.columns[name] for name in columns.features]
        return Batch(
            numbers,
            pa.RecordBatch.from_pydict({name: pa.array(array) for name, array in others.items()}),
            int(numbers[-1]),
            rows if features == list(range(self.width)) else rows[:, features],
        )

    def head(self, columns: Selection, most: int) -> Batch:
        """No rows: an array in a pipe cannot be looked at before it is read."""
        return replace(super().head(columns, most), matrix=np.empty((0, len(columns.features))))

    def take(self, columns: Selection, places: np.ndarray) -> Batch:
        """Some rows; a file is read at their places only."""
        if self.main.is_file and not self.main.by_columns:
            rows = np.concatenate([self.main.read_at(place) for place in places.tolist()])
            return self._batch(columns, places + 1, rows, {})
        parts = []
        for batch in self.batches(columns):
            found = np.flatnonzero(np.isin(batch.numbers - 1, places))
            assert batch.matrix is not None
            parts.append((batch.table.take(pa.array(found)), batch.matrix[found]))
            if batch.end > places[-1]:
                break
        tables, matrices = zip(*parts, strict=True)
        table = Batch.of(pa.Table.from_batches(tables))
        return replace(table, numbers=places + 1, matrix=np.concatenate(matrices))

    def is_single(self, names: Sequence[str]) -> bool:
        """Whether float32 holds these columns exactly."""
        return str(self.main.dtype) in SINGLE

    def fraction(self) -> float:
        """By rows."""
        return self.done / self.n_rows

    def close(self) -> None:
        """Close the file."""
        for array in (self.main, *self.beside.values()):
            array.stream.close()
        super().close()


def open_npy(file: File, stream: ByteStream) -> ArrayReader:
    """An ``.npy`` file; one that is compressed, or comes from a pipe, is read in one go."""
    is_file = stream.is_stored and not file.is_stdin
    return ArrayReader(file, Member(stream.bytes, file.name, is_file), {}, stream)


@contextlib.contextmanager
def report_no_archive(file: File) -> Iterator[None]:
    """A damaged archive, or an encrypted one (RuntimeError), as a failure of the source."""
    try:
        yield
    except (zipfile.BadZipFile, RuntimeError) as problem:
        raise SourceError(f"{file.name} is not an archive of NumPy arrays: {problem}") from problem


def open_npz(file: File, name: str | None) -> ArrayReader:
    """An ``.npz`` archive: the array that was named, or the only one with rows of numbers."""
    with report_no_archive(file):
        archive = zipfile.ZipFile(file.path)
    members = {name.removesuffix(".npy"): name for name in archive.namelist()}
    if not any(name.endswith(".npy") for name in members.values()):
        what = "a spreadsheet" if any(n.startswith("xl/") for n in members) else "an archive"
        inside = ", ".join(sorted(members)[:3]) or "nothing"
        raise SourceError(
            f"{file.name} is {what} (with {inside}): unpack it, or save it as CSV or Parquet "
            "(gzip may pack that)."
        )

    def open_member(name: str) -> Member:
        with report_no_archive(file):
            stream = archive.open(members[name])
        return Member(stream, f"{file.name}, array {name!r}")  # type: ignore[arg-type]

    arrays = {name: open_member(name) for name in members}
    chosen = name
    if chosen is None:
        tables = [name for name, array in arrays.items() if len(array.shape) > 1]
        tables = tables or [name for name, array in arrays.items() if len(array.shape) == 1]
        if not tables:
            raise SourceError(f"{file.name} holds no array with rows.")
        if len(tables) > 1:
            listed = ", ".join(f"{n} {array.shape}" for n, array in arrays.items())
            raise SourceError(
                f"{file.name} holds several arrays: choose one with --read array=NAME (array=...), "
                f"{listed}."
            )
        chosen = tables[0]
    elif chosen not in members:
        raise SourceError(
            f"{file.name} has no array {chosen!r}; it has {', '.join(sorted(members))}."
        )
    n = arrays[chosen].shape[:1]
    beside = {
        name: open_member(name)
        for name, array in arrays.items()
        if name != chosen and array.shape == n and array.dtype.kind in "fiubU"
    }
    return ArrayReader(file, open_member(chosen), beside)
