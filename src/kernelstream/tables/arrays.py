"""NumPy files (``.npy``, ``.npz``): sequential reader without memory mapping.

Nothing is memory-mapped: a file that is truncated while it is read would end the process.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from kernelstream.tables.files import ByteStream, File, SourceError
from kernelstream.tables.readers import Batch, Reader, Selection, rows_in_batch

WIDEST = 10_000_000  # numbers in a row: a batch holds one row at least


def read_header(source: Any, name: str) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape of an array, whether it is stored column by column, and the type of its numbers."""
    try:
        version = np.lib.format.read_magic(source)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, by_columns, dtype = read(source)
        if any(n < 0 for n in shape):
            raise ValueError(f"its shape is {shape}")
    except OSError:
        raise
    except Exception as problem:  # a header is Python's syntax: a broken one may raise anything
        raise SourceError(f"{name} is not a NumPy array: {problem}") from problem
    return shape, by_columns and len(shape) > 1, dtype


class ArrayReader(Reader):
    """The rows of an array, read from front to back; in a file also at any place.

    Parameters
    ----------
    file : File
        The file.
    source : binary stream
        The stream with the array.
    stream : ByteStream, optional
        The open file, if it holds nothing else. Unless it is compressed or a pipe, it can be read
        at any place.
    """

    def __init__(self, file: File, source: Any, stream: ByteStream | None = None):
        self.file, self.source, self.stream = file, source, stream
        self.is_file = is_file = stream is not None and stream.is_stored and not file.is_stdin
        shape, self.by_columns, self.dtype = read_header(source, file.name)
        if self.by_columns and not is_file:
            raise SourceError(
                f"{file.name} is stored column by column and cannot be streamed by rows: save it "
                "with np.save(path, np.ascontiguousarray(array))."
            )
        if self.dtype.kind not in "fiub":
            raise SourceError(f"{file.name} holds {self.dtype}, not numbers.")
        if len(shape) == 0 or shape[0] == 0:
            raise SourceError(f"{file.name} holds no rows (its shape is {shape}).")
        self.n_rows, self.width = int(shape[0]), math.prod(shape[1:])
        if self.width > WIDEST:
            raise SourceError(
                f"{file.name} has {self.width:,} numbers a row; at most {WIDEST:,} can be read."
            )
        self.shape, self.named = shape, False
        self.columns = {f"x{i}": i for i in range(self.width)}
        self.names = tuple(self.columns)
        if len(shape) == 3:
            self.image_shape = shape[1], shape[2]
        self.start = source.tell() if is_file else 0
        self.done = 0

    @property
    def numeric(self) -> frozenset[str]:
        """All columns of the array."""
        return frozenset(self.columns)

    def batches(self, columns: Selection, skip: int = 0) -> Iterator[Batch]:
        """Slices of the array; what has more than two dimensions is flattened row by row."""
        self.done = skip if self.is_file else 0
        size = rows_in_batch(self.width, least=1)
        while self.done < self.n_rows:
            rows = self._read(min(size, self.n_rows - self.done))
            self.done += len(rows)
            if self.done > skip:
                numbers = np.arange(self.done - len(rows) + 1, self.done + 1)
                yield self._batch(columns, numbers, rows).after(skip)

    def _read(self, n: int) -> np.ndarray:
        """The next rows."""
        if not self.by_columns:
            if self.is_file:
                self._seek(self.done * self.width)
            return self._numbers(n * self.width).reshape(n, self.width)
        pieces = []  # of each column, of which the first index changes fastest
        for column in range(self.width):
            self._seek(column * self.n_rows + self.done)
            pieces.append(self._numbers(n))
        return np.concatenate(pieces).reshape(*self.shape[:0:-1], n).T.reshape(n, self.width)

    def _seek(self, number: int) -> None:
        self.source.seek(self.start + number * self.dtype.itemsize)

    def _numbers(self, n: int) -> np.ndarray:
        wanted = n * self.dtype.itemsize
        data = self.source.read(wanted)
        if len(data) < wanted:
            raise SourceError(f"{self.file.name} is truncated.")
        return np.frombuffer(data, self.dtype)

    def _batch(self, columns: Selection, numbers: np.ndarray, rows: np.ndarray) -> Batch:
        others = [n for n in (*columns.carried, columns.weight, columns.target) if n is not None]
        table = {name: pa.array(rows[:, self.columns[name]].copy()) for name in others}
        features = [self.columns[name] for name in columns.features]
        return Batch(
            numbers,
            pa.RecordBatch.from_pydict(table),
            int(numbers[-1]),
            rows if features == list(range(self.width)) else rows[:, features],
        )

    def head(self, columns: Selection, most: int) -> Batch:
        """No rows: an array in a pipe cannot be sampled before it is read."""
        return replace(super().head(columns, most), matrix=np.empty((0, len(columns.features))))

    def take(self, columns: Selection, places: np.ndarray) -> Batch:
        """Some rows; a file is read at their places only."""
        pieces = []
        if self.is_file and not self.by_columns:
            for place in places.tolist():
                self.done = place
                pieces.append(self._read(1))
        else:
            for batch in self.batches(Selection(self.names)):
                assert batch.matrix is not None
                pieces.append(batch.matrix[np.isin(batch.numbers - 1, places)])
        return self._batch(columns, places + 1, np.concatenate(pieces))

    def is_single(self, names: Sequence[str]) -> bool:
        """Whether float32 holds these columns exactly."""
        return bool(np.can_cast(self.dtype, np.float32))

    def fraction(self) -> float:
        """By rows."""
        return self.done / self.n_rows

    def close(self) -> None:
        """Close the file."""
        self.source.close()
        super().close()


def open_npz(file: File, name: str | None) -> ArrayReader:
    """The array of an ``.npz`` archive that is named, or the only one that is a table."""
    try:
        archive = zipfile.ZipFile(file.path)
        members = {n.removesuffix(".npy"): n for n in archive.namelist() if n.endswith(".npy")}
        shapes = {
            n: read_header(archive.open(member), f"{file.name}, array {n!r}")[0]
            for n, member in members.items()
        }
    except (zipfile.BadZipFile, RuntimeError) as problem:
        raise SourceError(f"{file.name} is not an archive of NumPy arrays: {problem}") from problem
    if not members:
        raise SourceError(
            f"{file.name} is an archive or a spreadsheet (with "
            f"{', '.join(archive.namelist()[:3])}): unpack it, or save it as CSV or Parquet (gzip "
            "may pack that)."
        )
    tables = [n for n, shape in shapes.items() if len(shape) > 1]
    tables = tables or [n for n, shape in shapes.items() if len(shape) == 1]
    if name is None and len(tables) > 1:
        listed = ", ".join(f"{n} {shape}" for n, shape in shapes.items())
        raise SourceError(
            f"{file.name} holds several arrays: choose one with --read array=NAME (array=...), "
            f"{listed}."
        )
    if name is None and not tables:
        raise SourceError(f"{file.name} holds no array with rows.")
    name = name or tables[0]
    if name not in members:
        raise SourceError(f"{file.name} has no array {name!r}; it has {', '.join(members)}.")
    return ArrayReader(file, archive.open(members[name]))
