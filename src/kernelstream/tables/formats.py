"""Choice of the reader for a file, by its name or its first bytes."""

from __future__ import annotations

from kernelstream.tables.arrays import open_npy, open_npz
from kernelstream.tables.columnar import ParquetReader, open_arrow
from kernelstream.tables.files import ByteStream, File, SourceError, guess_format
from kernelstream.tables.readers import UNREADABLE, Reader, ReadOptions
from kernelstream.tables.text import CsvReader, NdjsonReader


def open_reader(file: File, options: ReadOptions) -> Reader:
    """Open one file; its format is that of its name, or else of its first bytes."""
    if file.is_address:
        from kernelstream.tables.addresses import AddressReader  # which reads NDJSON, too

        return AddressReader(file, options)
    stream = ByteStream(file, options.stdin)
    format = file.format
    try:
        start = stream.bytes.peek(64)[:64]
        format = format or guess_format(start, file.name)
        if format in ("parquet", "npz"):  # whose directory is at the end of the file
            if file.is_stdin or not stream.is_stored:
                raise SourceError(
                    f"{file.name}: {format} can only be read from a file on the disk that is not "
                    "compressed as a whole; save it first, or send CSV, NDJSON or an Arrow stream."
                )
            stream.close()
            return ParquetReader(file) if format == "parquet" else open_npz(file, options.array)
        return open_stream(file, format, stream, start, options)
    except BaseException as problem:
        stream.close()
        if isinstance(problem, UNREADABLE):
            raise SourceError(f"{file.name} cannot be read as {format}: {problem}") from problem
        raise


def open_stream(
    file: File, format: str, stream: ByteStream, start: bytes, options: ReadOptions
) -> Reader:
    """Open a file that can be read from front to back; ``start`` are its first bytes."""
    if not start:
        raise SourceError(f"{file.name} is empty.")
    if format == "npy":
        return open_npy(file, stream)
    if format == "arrow":
        return open_arrow(file, stream, start)
    if start.startswith(b"PK\x03\x04"):
        raise SourceError(
            f"{file.name} is no text but an archive or a spreadsheet: unpack it, or save it as CSV "
            "or Parquet (gzip may pack that)."
        )
    return (CsvReader if format == "csv" else NdjsonReader)(file, stream, options)
