"""File discovery: folders, globs, format and compression, encoding detection, fingerprint."""

from __future__ import annotations

import bz2
import codecs
import glob
import gzip
import io
import lzma
import os
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import pyarrow as pa

FORMATS: dict[str, str] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "ndjson",
    ".npy": "npy",
    ".npz": "npz",
}
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".br")
NEEDS_FILE = ("parquet", "npz")  # formats whose directory stands at the end of the file
STDIN = "-"
# Addresses are opened by another distribution: entry points of a group, by their scheme. These are
# the schemes of the one that is known, and its extras, so that a message can name them.
PLANT, SOURCES = "kernelstream-plant", "kernelstream.sources"
SCHEMES = {"kafka": "kafka", "mqtt": "mqtt", "mqtts": "mqtt", "opcua": "opcua", "sql": "sql"}
_BUFFER = 1 << 20
ARCHIVE = b"PK\x03\x04"
UNPACK = "unpack it, or save it as CSV or Parquet (gzip may pack that)"
_MAGIC = (
    (b"PAR1", "parquet"),
    (b"ARROW1", "arrow"),
    (b"\xff\xff\xff\xff", "arrow"),
    (b"\x93NUMPY", "npy"),
    (ARCHIVE, "npz"),
)
_COMPRESSED_MAGIC = (
    (b"\x1f\x8b", ".gz"),
    (b"BZh", ".bz2"),
    (b"\xfd7zXZ", ".xz"),
    (b"\x28\xb5\x2f\xfd", ".zst"),
    (b"\x04\x22\x4d\x18", ".lz4"),
)


class SourceError(ValueError):
    """A source that cannot be read as asked; the message says why and what to do."""


def is_address(source: str) -> bool:
    """Whether a source is the address of a broker, a server or a query, and no file.

    Parameters
    ----------
    source : str
        The source.

    Examples
    --------
    >>> [is_address(s) for s in ("kafka://broker/topic", "sql:SELECT 1", "rows.csv", "C:/x.csv")]
    [True, True, False, False]
    """
    scheme, colon, _ = source.lower().partition(":")
    if not colon or len(scheme) == 1 or not scheme.isalpha():
        return False
    return scheme in SCHEMES or bool(entry_points(group=SOURCES, name=scheme))


@dataclass(frozen=True)
class File:
    """One file of a source, the standard input (``-``), or an address.

    Attributes
    ----------
    path : str
        Its path.
    format : str or None
        ``"csv"`` and so on; None where its first bytes have to tell.
    compression : str or None
        ``".gz"`` and so on.
    """

    path: str
    format: str | None
    compression: str | None

    @property
    def name(self) -> str:
        """What messages call it."""
        return "standard input" if self.is_stdin else self.path

    @property
    def is_stdin(self) -> bool:
        """Whether this is the standard input."""
        return self.path == STDIN

    @property
    def is_address(self) -> bool:
        """Whether this is the address of a broker, a server or a query."""
        return is_address(self.path)

    @property
    def is_passing(self) -> bool:
        """Whether its rows come once, from somewhere that is no file."""
        return self.is_stdin or self.is_address

    @property
    def size(self) -> int:
        """Bytes on the disk, as they are stored."""
        return 0 if self.is_passing else os.stat(self.path).st_size


def find_files(given: Iterable[str | os.PathLike[str]], format: str | None = None) -> list[File]:
    """The files that paths, folders and globs stand for, in a fixed order.

    Folders are searched to any depth for files of a known format; hidden files and those whose
    name begins with an underscore (``_SUCCESS``) are passed over.

    Parameters
    ----------
    given : iterable of path-like
        Files, folders, globs, or ``-`` for the standard input.
    format : str, optional
        Format of all of them, where the names do not tell.

    Returns
    -------
    list of File

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("b.csv", "a.csv.gz", "_SUCCESS", "notes.md"):
    ...     (folder / name).touch()
    >>> [pathlib.Path(file.path).name for file in find_files([folder])]
    ['a.csv.gz', 'b.csv']
    """
    files: list[File] = []
    for item in given:
        text = os.fspath(item)
        if text == STDIN:
            files.append(File(STDIN, format, None))
        elif is_address(text):
            files.append(File(text, "ndjson", None))  # what its rows are read as
        elif os.path.isdir(text):
            files += _in_folder(Path(text), format)
        elif os.path.exists(text):
            files.append(_file(text, format))
        elif glob.has_magic(text):
            matches = sorted(p for p in glob.glob(text, recursive=True) if os.path.isfile(p))
            if not matches:
                raise SourceError(f"No file matches {text!r}.")
            files += [_file(p, format) for p in matches]
        else:
            raise SourceError(f"There is no file or folder {text!r}.")
    if not files:
        raise SourceError("No source was given: name files, folders or globs, or - for a pipe.")
    if sum(file.is_stdin for file in files) > 1:
        raise SourceError("The standard input (-) can be read only once.")
    if len(files) > 1 and any(file.is_address for file in files):
        raise SourceError("An address stands alone: give one, and no files beside it.")
    return files


def _in_folder(folder: Path, format: str | None) -> list[File]:
    names = []
    for path in folder.rglob("*"):
        inside = path.relative_to(folder).parts
        if path.is_file() and not any(part.startswith((".", "_")) for part in inside):
            names.append(path)
    files = [_file(str(path), format) for path in sorted(names)]
    files = [file for file in files if file.format is not None]
    if not files:
        raise SourceError(
            f"The folder {folder} holds no file of a known format "
            f"({', '.join(sorted(FORMATS))}); or name the format with --format."
        )
    return files


def _file(path: str, format: str | None) -> File:
    stem, suffix = os.path.splitext(path)
    compression = None
    if suffix.lower() in COMPRESSIONS:
        compression = suffix.lower()
        suffix = os.path.splitext(stem)[1]
    return File(path, format or FORMATS.get(suffix.lower()), compression)


def fingerprint(files: list[File]) -> tuple[tuple[str, int, int], ...]:
    """Path, bytes and time of change of each file: equal as long as nobody touched them.

    Parameters
    ----------
    files : list of File
        Of a source.

    Examples
    --------
    >>> import os, tempfile
    >>> from kernelstream.tables import find_files, fingerprint
    >>> path = os.path.join(tempfile.mkdtemp(), "rows.csv")
    >>> with open(path, "w") as file:
    ...     _ = file.write("1,2")
    >>> [(found, n_bytes, _)] = fingerprint(find_files([path]))
    >>> os.path.basename(found), n_bytes
    ('rows.csv', 3)
    """
    entries = []
    for file in files:
        if file.is_passing:
            entries.append((file.path, 0, 0))
        else:
            stat = os.stat(file.path)
            entries.append((os.path.abspath(file.path), stat.st_size, stat.st_mtime_ns))
    return tuple(entries)


class Counter(io.RawIOBase):
    """A stream that counts the bytes that are read from it."""

    def __init__(self, stream: BinaryIO):
        self.stream = stream
        self.count = 0

    def readable(self) -> bool:
        """It is for reading."""
        return True

    def readinto(self, buffer: object) -> int:
        """Read what there is: a pipe may hold less than was asked for."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        data = self.stream.read1(len(view)) if hasattr(self.stream, "read1") else None
        data = self.stream.read(len(view)) if data is None else data
        view[: len(data)] = data
        self.count += len(data)
        return len(data)

    def close(self) -> None:
        """Close the stream below."""
        if not self.closed:
            self.stream.close()
        super().close()


class ByteStream(NamedTuple):
    """A file as a stream of bytes, decompressed, and the counter of its stored bytes."""

    stream: io.BufferedReader
    stored: Counter


def open_bytes(file: File, stdin: BinaryIO | None) -> ByteStream:
    """A file or the standard input as a stream of decompressed bytes that can be peeked at."""
    if file.is_stdin:
        stored_bytes = cast(BinaryIO, stdin)  # a source that reads it has it
    else:
        stored_bytes = open(file.path, "rb")  # noqa: SIM115 (streamed)
    counter = Counter(stored_bytes)
    stored: io.BufferedReader[Any] = io.BufferedReader(counter, _BUFFER)
    compression = file.compression
    if compression is None:
        start = stored.peek(8)
        compression = next((c for magic, c in _COMPRESSED_MAGIC if start.startswith(magic)), None)
    return ByteStream(_decompress(stored, compression), counter)


class Recoded(io.RawIOBase):
    """Text of another encoding, or with other ends of lines, as UTF-8 with those of Unix."""

    def __init__(self, stream: io.BufferedReader, encoding: str):
        self.stream = stream
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        self.decoder = io.IncrementalNewlineDecoder(decoder, translate=True)
        self.ready = b""

    def readable(self) -> bool:
        """It is for reading."""
        return True

    def readinto(self, buffer: object) -> int:
        """Read what there is."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        while not self.ready:
            data = self.stream.read1(_BUFFER)
            self.ready = self.decoder.decode(data, final=not data).encode()
            if not data:
                break
        n = min(len(view), len(self.ready))
        view[:n], self.ready = self.ready[:n], self.ready[n:]
        return n

    def close(self) -> None:
        """Close the stream below."""
        if not self.closed:
            self.stream.close()
        super().close()


def recode(opened: ByteStream, encoding: str) -> ByteStream:
    """A stream of text in UTF-8, whatever it is stored in."""
    try:
        codecs.lookup(encoding)
    except LookupError as problem:
        raise SourceError(
            f"There is no encoding {encoding!r}: utf-8, utf-16 and latin-1 are some."
        ) from problem
    return ByteStream(io.BufferedReader(Recoded(opened.stream, encoding), _BUFFER), opened.stored)


def guess_encoding(start: bytes) -> str | None:
    """The encoding of text by its first bytes; None for UTF-8.

    Examples
    --------
    >>> guess_encoding("Größe".encode("latin-1")), guess_encoding("Größe".encode())
    ('latin-1', None)
    """
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if start[1::2].count(0) > len(start) // 4:
        return "utf-16-le"
    if start[::2].count(0) > len(start) // 4:
        return "utf-16-be"
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(start)
    broken = text.count("\ufffd")
    letters = len(text) - len(text.encode("ascii", "ignore")) - broken
    # A file in UTF-8 may be damaged here and there; one in Latin-1 has no letter that is UTF-8.
    return "latin-1" if broken > letters else None


def ends_lines_by_return(start: bytes) -> bool:
    """Whether lines end with a carriage return alone, as spreadsheets on a Mac may write them."""
    return b"\r" in start and b"\n" not in start


def _decompress(stored: io.BufferedReader, compression: str | None) -> io.BufferedReader:
    if compression is None:
        return stored
    if compression == ".gz":
        raw: Any = gzip.GzipFile(fileobj=stored)
    elif compression == ".bz2":  # not Arrow's: it takes a file that ends too early for an empty one
        raw = bz2.BZ2File(stored)
    elif compression == ".xz":
        raw = lzma.LZMAFile(stored)  # noqa: SIM115 (closed with the stream around it)
    else:
        codec = {".zst": "zstd", ".lz4": "lz4", ".br": "brotli"}[compression]
        raw = pa.CompressedInputStream(pa.PythonFile(stored, mode="r"), codec)
    return io.BufferedReader(raw, _BUFFER)


def guess_format(start: bytes, name: str) -> str:
    """The format of a stream by its first bytes."""
    for magic, format in _MAGIC:
        if start.startswith(magic):
            return format
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith(b"{"):
        return "ndjson"
    if b"\0" in start:
        raise SourceError(
            f"The format of {name} cannot be told from its name or its first bytes: give --format "
            f"({', '.join(sorted(set(FORMATS.values())))})."
        )
    return "csv"
