"""NumPy arrays as sources: ``.npy`` is read in pieces, ``.npz`` is streamed out of its archive."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from kernelstream.sources.files import ByteStream, File, SourceError
from kernelstream.sources.readers import Batch, Reader, Reading, rows_in_batch

_SINGLE = ("float32", "float16", "int8", "uint8", "int16", "uint16", "bool")


class Member:
    """An array in a stream of bytes, read from front to back in C order."""

    def __init__(self, stream: BinaryIO, name: str):
        self.stream, self.name = stream, name
        try:
            version = np.lib.format.read_magic(stream)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            self.shape, fortran, self.dtype = read(stream)
        except ValueError as problem:
            raise SourceError(f"{name} is not a NumPy array: {problem}") from problem
        if fortran and len(self.shape) > 1:
            raise SourceError(
                f"{name} is stored column by column and cannot be streamed by rows: save it with "
                "np.save(path, np.ascontiguousarray(array))."
            )
        self.row_bytes = int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize

    def read(self, rows: int) -> np.ndarray:
        """The next rows."""
        wanted = rows * self.row_bytes
        data = self.stream.read(wanted)
        if len(data) < wanted:
            raise SourceError(f"{self.name} is truncated.")
        return np.frombuffer(data, self.dtype).reshape(rows, *self.shape[1:])

    def skip(self, rows: int) -> None:
        """Pass over rows, a megabyte at a time."""
        left = rows * self.row_bytes
        while left > 0 and (piece := self.stream.read(min(left, 1 << 20))):
            left -= len(piece)


class OnDisk:
    """An array on the disk, read where rows are asked for: nothing is read to skip rows.

    It is not memory-mapped: a file that a writer begins anew while it is read would end the process
    by a signal. So it ends in an error.
    """

    def __init__(self, path: str):
        self.path = path
        self.file = open(path, "rb")  # noqa: SIM115 (closed by the reader)
        try:
            version = np.lib.format.read_magic(self.file)
            read = {(1, 0): np.lib.format.read_array_header_1_0}
            header = read.get(version, np.lib.format.read_array_header_2_0)(self.file)
        except ValueError as problem:
            self.file.close()
            raise SourceError(f"{path} cannot be read as a NumPy array: {problem}") from problem
        self.shape, self.by_columns, self.dtype = header
        self.by_columns = self.by_columns and len(self.shape) > 1
        self.begin, self.at = self.file.tell(), 0
        self.width = int(np.prod(self.shape[1:], dtype=object))
        size = self.width * self.shape[0] * self.dtype.itemsize if self.shape else 0
        if os.fstat(self.file.fileno()).st_size < self.begin + size:
            self.file.close()
            raise SourceError(f"{path} cannot be read as a NumPy array: it is truncated.")

    def read(self, rows: int) -> np.ndarray:
        """The next rows."""
        start, self.at = self.at, self.at + rows
        inner = self.shape[1:]
        if not self.by_columns:
            return self._values(start * self.width, rows * self.width).reshape(rows, *inner)
        columns = [self._values(j * self.shape[0] + start, rows) for j in range(self.width)]
        return np.stack(columns).reshape(*reversed(inner), rows).T

    def _values(self, first: int, count: int) -> np.ndarray:
        """Numbers as they lie in the file."""
        self.file.seek(self.begin + first * self.dtype.itemsize)
        data = self.file.read(count * self.dtype.itemsize)
        if len(data) < count * self.dtype.itemsize:
            raise SourceError(f"{self.path} was truncated while it was read.")
        return np.frombuffer(data, self.dtype)

    def skip(self, rows: int) -> None:
        """Pass over rows."""
        self.at += rows

    def __del__(self) -> None:
        if hasattr(self, "file"):  # of a source that nobody read to its end
            self.file.close()


class ArrayReader(Reader):
    """The rows of one array, and arrays of the same length beside it as further columns."""

    def __init__(self, file: File, main: Member | OnDisk, beside: dict[str, Member]):
        self.file, self.main, self.beside = file, main, beside
        if main.dtype.kind not in "fiub":
            raise SourceError(f"{file.name} holds {main.dtype}, not numbers.")
        if len(main.shape) == 0 or main.shape[0] == 0:
            raise SourceError(f"{file.name} holds no rows (its shape is {main.shape}).")
        self.n_rows = int(main.shape[0])
        self.width = int(np.prod(main.shape[1:], dtype=np.int64))
        self.columns = [f"x{i}" for i in range(self.width)]
        self.fields = dict.fromkeys(self.columns, True)
        # Labels and times are not features unless they are asked for.
        self.fields |= dict.fromkeys((n for n in beside if n not in self.fields), False)
        self.named = False
        if len(main.shape) == 3:
            self.image_shape = main.shape[1], main.shape[2]
        self.done = 0

    def batches(self, wanted: list[str], skip: int, reading: Reading) -> Iterator[Batch]:
        """Slices of the array; what has more than two dimensions is flattened row by row."""
        beside = {name: self.beside[name] for name in wanted if name in self.beside}
        place = {name: i for i, name in enumerate(self.columns)}
        features = [place[name] for name in reading.features]
        own = [name for name in wanted if name in place and name not in reading.features]
        for array in (self.main, *beside.values()):
            array.skip(skip)
        size = rows_in_batch(self.width)
        for start in range(skip, self.n_rows, size):
            n = min(size, self.n_rows - start)
            rows = self.main.read(n).reshape(n, self.width)
            columns = {name: pa.array(rows[:, place[name]].copy()) for name in own}
            columns |= {name: pa.array(array.read(n)) for name, array in beside.items()}
            self.done = start + n
            yield Batch(
                np.arange(start + 1, start + n + 1),
                pa.RecordBatch.from_pydict(columns),
                start + n,
                rows if features == list(range(self.width)) else rows[:, features],
            )

    def is_single(self, names: list[str]) -> bool:
        """Whether float32 holds these columns exactly."""
        return str(self.main.dtype) in _SINGLE

    def fraction(self) -> float:
        """By rows."""
        return self.done / self.n_rows

    def close(self) -> None:
        """Let go of the file."""
        if isinstance(self.main, OnDisk):
            self.main.file.close()


def open_npy(file: File, opened: ByteStream) -> ArrayReader:
    """An ``.npy`` file, or a stream of one when it is compressed or comes from a pipe."""
    if file.is_stdin or not _starts_like_array(file):
        return ArrayReader(file, Member(opened.stream, file.name), {})
    opened.stream.close()
    return ArrayReader(file, OnDisk(file.path), {})


def _starts_like_array(file: File) -> bool:
    with open(file.path, "rb") as stream:
        return stream.read(6) == b"\x93NUMPY"


def open_npz(file: File, reading: Reading) -> ArrayReader:
    """An ``.npz`` archive: the array that was named, or the only one with rows of numbers."""
    try:
        archive = zipfile.ZipFile(file.path)
    except zipfile.BadZipFile as problem:
        raise SourceError(f"{file.name} is not an archive of NumPy arrays: {problem}") from problem
    members = {name.removesuffix(".npy"): name for name in archive.namelist()}

    def open_member(name: str) -> Member:
        return Member(archive.open(members[name]), f"{file.name}, array {name!r}")  # type: ignore[arg-type]

    arrays = {name: open_member(name) for name in members}
    chosen = reading.array
    if chosen is None:
        tables = [name for name, array in arrays.items() if len(array.shape) > 1]
        tables = tables or [name for name, array in arrays.items() if len(array.shape) == 1]
        if not tables:
            raise SourceError(f"{file.name} holds no array with rows.")
        if len(tables) > 1:
            listed = ", ".join(f"{n} {array.shape}" for n, array in arrays.items())
            raise SourceError(
                f"{file.name} holds several arrays; choose one with array=... or --array: {listed}."
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
