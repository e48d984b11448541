"""NumPy files (``.npy``): sequential reader without memory mapping.

Nothing is memory-mapped: a file that is truncated while it is read would end the process.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from kernelstream.tables.files import ByteStream, File, SourceError
from kernelstream.tables.readers import Batch, Reader, Selection, rows_in_batch

WIDEST = 10_000_000  # numbers in a row: a batch holds one row at least


class ArrayReader(Reader):
    """The rows of an array, read from front to back; in a file also at any place.

    Parameters
    ----------
    file : File
        The file.
    stream : ByteStream
        The open file. Unless it is compressed or a pipe, it can be read at any place.
    """

    stream: ByteStream

    def __init__(self, file: File, stream: ByteStream):
        self.file, self.stream = file, stream
        self.is_file = stream.is_stored and not file.is_stdin
        try:
            version = np.lib.format.read_magic(stream.bytes)
            if version == (1, 0):
                header = np.lib.format.read_array_header_1_0(stream.bytes)
            else:
                header = np.lib.format.read_array_header_2_0(stream.bytes)
            shape, by_columns, self.dtype = header
            if any(n < 0 for n in shape):
                raise ValueError(f"its shape is {shape}")
        except OSError:
            raise
        except Exception as problem:  # a header is Python's syntax: a broken one may raise anything
            raise SourceError(f"{file.name} is not a NumPy array: {problem}") from problem
        self.by_columns = by_columns and len(shape) > 1
        if self.by_columns and not self.is_file:
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
        self.start = stream.bytes.tell() if self.is_file else 0
        self.done = 0

    def batches(self, columns: Selection) -> Iterator[Batch]:
        """Slices of the array; what has more than two dimensions is flattened row by row."""
        size = rows_in_batch(self.width, least=1)
        while self.done < self.n_rows:
            rows = self._read(min(size, self.n_rows - self.done))
            self.done += len(rows)
            numbers = np.arange(self.done - len(rows) + 1, self.done + 1)
            yield self._batch(columns, numbers, rows)

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
        self.stream.bytes.seek(self.start + number * self.dtype.itemsize)

    def _numbers(self, n: int) -> np.ndarray:
        wanted = n * self.dtype.itemsize
        data = self.stream.bytes.read(wanted)
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
            self.done,
            rows if features == list(range(self.width)) else rows[:, features],
        )

    def head(self, columns: Selection, most: int) -> Batch:
        """No rows: an array in a pipe cannot be sampled before it is read."""
        return self._batch(columns, np.zeros(0, int), np.empty((0, self.width)))

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
