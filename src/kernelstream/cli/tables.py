"""Output tables: Parquet, CSV, Arrow, NDJSON and ``.npy`` writers, format from the file name."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from kernelstream.cli.failures import DATA, USAGE, CommandError
from kernelstream.cli.modelfile import require_writable
from kernelstream.cli.terminal import plain
from kernelstream.serialization import Replacement
from kernelstream.tables.files import FORMATS


def format_of(path: Path | None, to: str | None) -> str:
    """The format to write: as asked, by the name, or NDJSON on the standard output."""
    suffix = "" if path is None else path.suffix.lower()
    format = to or ("ndjson" if path is None else FORMATS.get(suffix))
    if format is None:
        raise CommandError(
            USAGE,
            f"{path}: name the format with --to (parquet, csv, arrow, ndjson, npy), or with the "
            "ending of the file.",
        )
    if path is None and format not in ("ndjson", "csv"):
        raise CommandError(
            USAGE, f"{format} cannot go to the standard output: name a file with -o."
        )
    return format


class Writer:
    """A table that grows batch by batch; the file appears, whole, when it is finished."""

    def __init__(self, path: Path | None, format: str):
        self.path, self.format, self.rows = path, format, 0
        self.begun: Any = None  # what a format knows of its first batch
        self.file: BinaryIO
        if path is None:
            self.file = sys.stdout.buffer
            return
        require_writable(path)
        if format in ("parquet", "arrow", "npy") and not Replacement.is_possible(path):
            raise CommandError(
                USAGE,
                f"{path} is no plain file, and {format} is not written from its first byte to its "
                "last: name a file, or write CSV or NDJSON with --to.",
            )
        self.replacement = Replacement(path)
        self.file = self.replacement.file

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: object, *unused: object) -> None:
        if self.path is None:
            if kind is None:
                self.file.flush()
            return
        try:
            if kind is None:
                self._finish()
                self.replacement.keep()
        finally:
            self.replacement.discard()

    def write(self, batch: pa.RecordBatch) -> None:
        """Write some rows."""
        getattr(self, f"_write_{self.format}")(batch)
        self.rows += batch.num_rows
        if self.path is None:
            self.file.flush()

    def _write_ndjson(self, batch: pa.RecordBatch) -> None:
        lines = [json.dumps(row, default=plain) for row in batch.to_pylist()]
        if lines:
            self.file.write(("\n".join(lines) + "\n").encode())

    def _write_csv(self, batch: pa.RecordBatch) -> None:
        if self.begun is None:
            names = io.StringIO()
            csv.writer(names, lineterminator="\n").writerow(batch.schema.names)
            self.file.write(names.getvalue().encode())
            self.begun = True
        text = io.BytesIO()
        pyarrow.csv.write_csv(batch, text, pyarrow.csv.WriteOptions(include_header=False))
        self.file.write(text.getvalue())

    def _write_parquet(self, batch: pa.RecordBatch) -> None:
        self._write_typed(batch, pq.ParquetWriter)

    def _write_arrow(self, batch: pa.RecordBatch) -> None:
        self._write_typed(batch, pa.ipc.new_file)

    def _write_typed(self, batch: pa.RecordBatch, open_table: Callable[..., Any]) -> None:
        """A batch with the types of the first one."""
        if self.begun is None:
            self.schema, self.begun = batch.schema, open_table(self.file, batch.schema)
        try:
            batch = batch if batch.schema.equals(self.schema) else batch.cast(self.schema)
        except pa.ArrowException as problem:
            raise CommandError(
                DATA, f"A kept column changes its type between files ({problem}); write CSV."
            ) from problem
        self.begun.write_batch(batch)

    def _write_npy(self, batch: pa.RecordBatch) -> None:
        columns = []
        for name in batch.schema.names:
            column = batch.column(name)
            if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
                raise CommandError(
                    USAGE, f"A NumPy file holds numbers only; leave {name!r} out of --keep."
                )
            columns.append(column.to_numpy(zero_copy_only=False))
        rows = np.ascontiguousarray(np.column_stack(columns))
        if self.begun is None:
            self.begun = rows.dtype, rows.shape[1]
            self._write_npy_header()
        self.file.write(rows.astype(self.begun[0], copy=False).tobytes())

    def _finish(self) -> None:
        if self.format in ("parquet", "arrow") and self.begun is not None:
            self.begun.close()
        if self.format == "npy" and self.begun is not None:
            self.file.seek(0)
            self._write_npy_header()

    def _write_npy_header(self) -> None:
        """As many bytes whatever the number of rows: NumPy leaves room for it to grow."""
        dtype, width = self.begun
        described = {"descr": dtype.str, "fortran_order": False, "shape": (self.rows, width)}
        np.lib.format.write_array_header_1_0(self.file, described)
