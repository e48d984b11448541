"""NumPy arrays as sources: ``.npy`` is memory-mapped, ``.npz`` is streamed out of its archive."""

from __future__ import annotations

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


class Mapped:
    """An array on the disk, memory-mapped: in any order, and nothing is read to skip rows."""

    def __init__(self, path: str):
        try:
            self.array = np.load(path, mmap_mode="r", allow_pickle=False)
        except ValueError as problem:
            raise SourceError(f"{path} cannot be read as a NumPy array: {problem}") from problem
        self.shape, self.dtype, self.at = self.array.shape, self.array.dtype, 0

    def read(self, rows: int) -> np.ndarray:
        """The next rows, as a copy: pages that were read can be dropped again."""
        self.at += rows
        return np.array(self.array[self.at - rows : self.at])

    def skip(self, rows: int) -> None:
        """Pass over rows."""
        self.at += rows


class ArrayReader(Reader):
    """The rows of one array, and arrays of the same length beside it as further columns."""

    def __init__(self, file: File, main: Member | Mapped, beside: dict[str, Member]):
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


def open_npy(file: File, opened: ByteStream) -> ArrayReader:
    """An ``.npy`` file, memory-mapped, or streamed when it is compressed or comes from a pipe."""
    if file.is_stdin or not _starts_like_array(file):
        return ArrayReader(file, Member(opened.stream, file.name), {})
    opened.stream.close()
    return ArrayReader(file, Mapped(file.path), {})


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
