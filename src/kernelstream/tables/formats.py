"""Choice of the reader for a file, by its name or its first bytes."""

from __future__ import annotations

from typing import BinaryIO

from kernelstream.tables.arrays import open_npy, open_npz
from kernelstream.tables.columnar import ParquetReader, open_arrow
from kernelstream.tables.files import (
    ARCHIVE,
    NEEDS_FILE,
    UNPACK,
    ByteStream,
    File,
    SourceError,
    ends_lines_by_return,
    guess_encoding,
    guess_format,
    open_bytes,
    recode,
)
from kernelstream.tables.readers import UNREADABLE, Reader, Reading
from kernelstream.tables.text import CsvReader, NdjsonReader

GUESSED_BY = 1 << 16  # first bytes of a text that tell its encoding


def open_reader(file: File, reading: Reading, stdin: BinaryIO | None) -> Reader:
    """Open one file; its format is that of its name, or else of its first bytes."""
    if file.is_address:
        from kernelstream.tables.addresses import AddressReader  # which opens files, too

        return AddressReader(file, reading)
    format, on_disk = file.format, not file.is_stdin and file.compression is None
    opened = None
    try:
        if format not in NEEDS_FILE or not on_disk:
            opened = open_bytes(file, stdin)
            start = opened.stream.peek(64)[:64]
            format = format or guess_format(start, file.name)
            if format not in NEEDS_FILE:
                return open_stream(file, format, opened, start, reading)
            if not on_disk:
                raise SourceError(
                    f"{file.name}: {format} can only be read from a file on the disk that is not "
                    "compressed as a whole; save it first, or send CSV, NDJSON or an Arrow stream."
                )
            opened.stream.close()
        return ParquetReader(file) if format == "parquet" else open_npz(file, reading)
    except BaseException as problem:
        if opened is not None and not file.is_stdin:
            opened.stream.close()
        if isinstance(problem, UNREADABLE):
            raise SourceError(f"{file.name} cannot be read as {format}: {problem}") from problem
        raise


def open_stream(
    file: File, format: str, opened: ByteStream, start: bytes, reading: Reading
) -> Reader:
    """Open what can be read from front to back; ``start`` are its first bytes."""
    encoding = None
    if not start:
        raise SourceError(f"{file.name} is empty.")
    if format in ("csv", "ndjson") and start.startswith(ARCHIVE):
        raise SourceError(f"{file.name} is no text but an archive or a spreadsheet: {UNPACK}.")
    if format in ("csv", "ndjson"):
        encoding = reading.encoding or guess_encoding(opened.stream.peek()[:GUESSED_BY])
        # Single bytes that are no UTF-8 make their row a bad one, unless guesses are wanted.
        if reading.encoding is None and not (reading.guesses or str(encoding).startswith("utf-16")):
            encoding = None
        if encoding is not None and encoding.lower() not in ("utf-8", "utf8"):
            opened = recode(opened, encoding)
        elif ends_lines_by_return(opened.stream.peek()):
            encoding = "utf-8"
            opened = recode(opened, encoding)
        else:
            encoding = None
    if format in ("csv", "ndjson"):
        reader: Reader = (
            CsvReader(file, opened, reading) if format == "csv" else NdjsonReader(file, opened)
        )
        if encoding is not None:
            reader.encoding = encoding
            if encoding != "utf-8":
                reader.remarks = (f"{file.name} is text in {encoding}.", *reader.remarks)
        return reader
    if format == "npy":
        return open_npy(file, opened)
    return open_arrow(file, opened, start)
