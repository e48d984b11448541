"""Parquet and Arrow readers: typed columns, batches of bounded size, index columns."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kernelstream.tables.files import ByteStream, File, SourceError
from kernelstream.tables.readers import Batch, Reader, Selection, require_few, rows_in_batch


def is_number(type: pa.DataType) -> bool:
    """Whether a column of this type holds numbers."""
    return pa.types.is_floating(type) or pa.types.is_integer(type) or pa.types.is_decimal(type)


def index_columns(schema: pa.Schema) -> tuple[str, ...]:
    """Columns that are no data but the index of the data frame that was stored."""
    try:
        stored = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
        names = [name for name in stored.get("index_columns", ()) if isinstance(name, str)]
    except (ValueError, AttributeError, TypeError, RecursionError):
        names = []
    names += [name for name in schema.names if name.startswith("__index_level_")]
    return tuple(dict.fromkeys(name for name in names if name in schema.names))


class ColumnarReader(Reader):
    """What Parquet and Arrow share: a schema with types."""

    def __init__(self, file: File, schema: pa.Schema):
        self.file = file
        require_few(len(schema), file)
        self.names = tuple(schema.names)
        if len(set(self.names)) < len(self.names):
            twice = sorted(n for n in set(self.names) if self.names.count(n) > 1)
            raise SourceError(
                f"{file.name} has several columns called {', '.join(map(repr, twice))}: "
                "rename them."
            )
        self.types = {f.name: f.type for f in schema}
        self.index_columns = index_columns(schema)

    @property
    def numeric(self) -> frozenset[str]:
        """Columns of a type of numbers."""
        return frozenset(name for name, type in self.types.items() if is_number(type))

    def head(self, columns: Selection, most: int) -> Batch:
        """No rows, with the types of the columns."""
        return Batch.of(pa.schema(self.types.items()).empty_table().select(columns.wanted))

    def is_single(self, names: Sequence[str]) -> bool:
        """Whether float32 holds these columns exactly."""
        small = {pa.float32(), pa.float16(), pa.int8(), pa.uint8(), pa.int16(), pa.uint16()}
        return all(self.types[name] in small for name in names)


class ParquetReader(ColumnarReader):
    """A Parquet file, read through a small buffer: row groups may be of any size."""

    def __init__(self, file: File):
        # Without a buffer size, and with pre_buffer, whole column chunks would be held in memory.
        self.stored = pq.ParquetFile(file.path, buffer_size=1 << 16, pre_buffer=False)
        super().__init__(file, self.stored.schema_arrow)
        self.n_rows = self.stored.metadata.num_rows
        self.done = 0

    def batches(self, columns: Selection, skip: int = 0) -> Iterator[Batch]:
        """Row groups before the position are not read at all."""
        metadata, first, group = self.stored.metadata, 0, 0
        while group < metadata.num_row_groups:
            rows = metadata.row_group(group).num_rows
            if first + rows > skip:
                break
            first, group = first + rows, group + 1
        self.done = first
        for batch in self.stored.iter_batches(
            batch_size=rows_in_batch(len(columns.wanted)),
            row_groups=list(range(group, metadata.num_row_groups)),
            columns=columns.wanted,
            use_threads=False,
        ):
            self.done += batch.num_rows
            if self.done > skip:
                yield numbered(batch, self.done).after(skip)

    def fraction(self) -> float:
        """By rows."""
        return self.done / self.n_rows if self.n_rows else 1.0

    def close(self) -> None:
        """Close the file."""
        self.stored.close()


def open_arrow(file: File, stream: ByteStream, start: bytes) -> ColumnarReader:
    """An Arrow or Feather file, or an Arrow stream."""
    if start.startswith(b"ARROW1"):
        if file.is_stdin or not stream.is_stored:
            raise SourceError(
                f"{file.name}: an Arrow file must lie on the disk uncompressed; a pipe can carry "
                "the Arrow stream format."
            )
        stream.close()
        return ArrowFileReader(file)
    if start.startswith(b"FEA1"):
        raise SourceError(f"{file.name} is Feather version 1: write it again as version 2.")
    return ArrowStreamReader(file, stream)


class ArrowFileReader(ColumnarReader):
    """An Arrow (Feather) file, read batch by batch."""

    def __init__(self, file: File):
        self.source = pa.OSFile(file.path)
        self.stored = pa.ipc.open_file(self.source)
        self.size = os.path.getsize(file.path)
        super().__init__(file, self.stored.schema)
        self.index = 0

    def _stored_batches(self) -> Iterator[pa.RecordBatch]:
        for index in range(self.stored.num_record_batches):
            self.index = index
            if os.path.getsize(self.file.path) < self.size:
                raise SourceError(f"{self.file.name} was truncated while it was read.")
            yield self.stored.get_batch(index)

    def batches(self, columns: Selection, skip: int = 0) -> Iterator[Batch]:
        """Stored batches, cut where they are large."""
        return cut(self._stored_batches(), columns, skip)

    def fraction(self) -> float:
        """By stored batches."""
        return self.index / max(self.stored.num_record_batches, 1)

    def close(self) -> None:
        """Close the file."""
        self.source.close()


class ArrowStreamReader(ColumnarReader):
    """An Arrow stream, from a pipe or a file."""

    def __init__(self, file: File, stream: ByteStream):
        self.stream = stream
        self.stored = pa.ipc.open_stream(pa.PythonFile(stream.bytes, mode="r"))
        super().__init__(file, self.stored.schema)

    def batches(self, columns: Selection, skip: int = 0) -> Iterator[Batch]:
        """Stored batches, cut where they are large."""
        return cut(iter(self.stored), columns, skip)


def cut(stored: Iterator[pa.RecordBatch], columns: Selection, skip: int) -> Iterator[Batch]:
    """The wanted columns of stored batches, in pieces of bounded size."""
    done, size = 0, rows_in_batch(len(columns.wanted))
    for whole in stored:
        wanted = whole.select(columns.wanted)
        for start in range(0, wanted.num_rows, size):
            piece = wanted.slice(start, size)
            # Arrow takes what is stored as it is: a damaged offset would lead out of the memory.
            piece.validate(full=True)
            done += piece.num_rows
            if done > skip:
                yield numbered(piece, done).after(skip)


def numbered(rows: pa.RecordBatch, end: int) -> Batch:
    """A batch that ends with a row of this number."""
    return Batch(np.arange(end - rows.num_rows + 1, end + 1), rows, end)
