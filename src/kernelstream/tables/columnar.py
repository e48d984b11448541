"""Parquet and Arrow readers: typed columns, batches of bounded size, index columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kernelstream.tables.files import ByteStream, File, SourceError
from kernelstream.tables.readers import Batch, Reader, Selection, check_names, rows_in_batch


def index_columns(schema: pa.Schema) -> tuple[str, ...]:
    """Columns that are no data but the index of the data frame that was stored."""
    try:
        stored = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
        indices = [name for name in stored.get("index_columns", ()) if isinstance(name, str)]
    except (ValueError, AttributeError, TypeError, RecursionError):
        indices = []
    return tuple(
        name for name in schema.names if name in indices or name.startswith("__index_level_")
    )


class ColumnarReader(Reader):
    """What Parquet and Arrow share: a schema with types."""

    def __init__(self, file: File, schema: pa.Schema):
        self.file, self.names = file, tuple(schema.names)
        check_names(self.names, file)
        self.types = {field.name: field.type for field in schema}
        self.index_columns = index_columns(schema)

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
        self.done = 0

    def batches(self, columns: Selection) -> Iterator[Batch]:
        """Pieces of row groups."""
        wanted = columns.wanted
        for rows in self.stored.iter_batches(
            batch_size=rows_in_batch(len(wanted)), columns=wanted, use_threads=False
        ):
            self.done += rows.num_rows
            yield numbered(rows, self.done)

    def fraction(self) -> float:
        """By rows."""
        return self.done / max(self.stored.metadata.num_rows, 1)

    def close(self) -> None:
        """Close the file."""
        self.stored.close()


class ArrowReader(ColumnarReader):
    """An Arrow stream, or an Arrow (Feather) file, which is a stream in a frame of a few bytes."""

    def __init__(self, file: File, stream: ByteStream, start: bytes):
        self.stream = stream
        if start.startswith(b"FEA1"):
            raise SourceError(f"{file.name} is Feather version 1: write it again as version 2.")
        if start.startswith(b"ARROW1"):
            stream.bytes.read(8)
        self.stored = pa.ipc.open_stream(pa.PythonFile(stream.bytes, mode="r"))
        super().__init__(file, self.stored.schema)

    def batches(self, columns: Selection) -> Iterator[Batch]:
        """The wanted columns of stored batches, in pieces of bounded size."""
        end, size = 0, rows_in_batch(len(columns.wanted))
        for stored in self.stored:
            wanted = stored.select(columns.wanted)
            for start in range(0, wanted.num_rows, size):
                rows = wanted.slice(start, size)
                # Arrow takes what is stored as it is: a damaged offset would leave the memory.
                rows.validate(full=True)
                end += rows.num_rows
                yield numbered(rows, end)


def numbered(rows: pa.RecordBatch, end: int) -> Batch:
    """A batch that ends with a row of this number."""
    return Batch(np.arange(end - rows.num_rows + 1, end + 1), rows, end)
