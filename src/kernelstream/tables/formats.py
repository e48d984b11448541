"""Choice of the reader for a file, by its name or its first bytes."""

from __future__ import annotations

from kernelstream.tables.arrays import ArrayReader
from kernelstream.tables.columnar import ArrowReader, ParquetReader
from kernelstream.tables.files import ByteStream, File, SourceError, guess_format
from kernelstream.tables.readers import UNREADABLE, Reader, ReadOptions
from kernelstream.tables.text import CsvReader, NdjsonReader


def open_reader(file: File, options: ReadOptions) -> Reader:
    """Open one file; its format is that of its name, or else of its first bytes."""
    if file.is_address:
        from kernelstream.tables.addresses import AddressReader  # which imports this module

        return AddressReader(file, options)
    stream = ByteStream(file, options.stdin)
    format = file.format
    try:
        start = stream.bytes.peek(64)[:64]
        if not start:
            raise SourceError(f"{file.name} is empty.")
        if start.startswith(b"PK\x03\x04"):
            raise SourceError(
                f"{file.name} is an archive or a spreadsheet: unpack it, or save it as CSV, "
                "Parquet or .npy (gzip may pack CSV)."
            )
        format = format or guess_format(start, file.name)
        if format == "parquet":  # whose directory is at the end of the file
            if file.is_stdin or not stream.is_stored:
                raise SourceError(
                    f"{file.name}: Parquet can only be read from a file on the disk that is not "
                    "compressed as a whole; save it first, or send CSV, NDJSON or an Arrow stream."
                )
            stream.close()
            return ParquetReader(file)
        if format == "npy":
            return ArrayReader(file, stream)
        if format == "arrow":
            return ArrowReader(file, stream, start)
        return (CsvReader if format == "csv" else NdjsonReader)(file, stream, options)
    except BaseException as problem:
        stream.close()
        if isinstance(problem, UNREADABLE):
            raise SourceError(f"{file.name} cannot be read as {format}: {problem}") from problem
        raise
