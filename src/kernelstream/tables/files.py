"""Files of a source: folders, globs, format and compression, bytes, fingerprint."""

from __future__ import annotations

import bz2
import glob
import gzip
import io
import lzma
import os
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa

FORMATS = {
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
}
# Compressions by suffix: the first bytes of such a file, and what opens it. Not Arrow where the
# standard library can: its bz2 reads a truncated file without an error, and it has no xz.
COMPRESSIONS: dict[str, tuple[bytes, Callable[[Any], Any]]] = {
    ".gz": (b"\x1f\x8b", gzip.open),
    ".bz2": (b"BZh", bz2.open),
    ".xz": (b"\xfd7zXZ", lzma.open),
    ".zst": (b"\x28\xb5\x2f\xfd", lambda stored: pa.CompressedInputStream(stored, "zstd")),
    ".lz4": (b"\x04\x22\x4d\x18", lambda stored: pa.CompressedInputStream(stored, "lz4")),
}
# Addresses are opened by another distribution: entry points of this group, by their scheme.
SOURCES = "kernelstream.sources"
# Schemes of the one that is known, and its extras, so that a message can name them.
SCHEMES = {"kafka": "kafka", "mqtt": "mqtt", "mqtts": "mqtt", "opcua": "opcua", "sql": "sql"}


class SourceError(ValueError):
    """A source that cannot be read as requested; the message has the cause and the remedy."""


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
        ``"csv"`` and so on; None to infer it from the first bytes.
    """

    path: str
    format: str | None

    @classmethod
    def of(cls, path: str, format: str | None) -> File:
        """A file with the format of its name."""
        stem, suffix = os.path.splitext(path.lower())
        if suffix in COMPRESSIONS:
            suffix = os.path.splitext(stem)[1]
        return cls(path, format or FORMATS.get(suffix))

    @property
    def name(self) -> str:
        """Its name in messages."""
        return "standard input" if self.is_stdin else self.path

    @property
    def is_stdin(self) -> bool:
        """Whether this is the standard input."""
        return self.path == "-"

    @property
    def is_address(self) -> bool:
        """Whether this is the address of a broker, a server or a query."""
        return is_address(self.path)

    @property
    def is_passing(self) -> bool:
        """Whether its rows can be read only once, because it is no file."""
        return self.is_stdin or self.is_address

    @property
    def size(self) -> int:
        """Stored bytes."""
        return 0 if self.is_passing else os.stat(self.path).st_size


def find_files(given: Iterable[str | os.PathLike[str]], format: str | None = None) -> list[File]:
    """The files that paths, folders and globs stand for, in a fixed order.

    Folders are searched to any depth for files of a known format; hidden files and those whose
    name begins with an underscore (``_SUCCESS``) are skipped.

    Parameters
    ----------
    given : iterable of path-like
        Files, folders, globs, or ``-`` for the standard input.
    format : str, optional
        Format of all of them, if it cannot be inferred from their names.

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
        if text == "-":
            files.append(File(text, format))
        elif is_address(text):
            files.append(File(text, "ndjson"))
        else:
            files += [File.of(path, format) for path in _paths_of(text, format)]
    if not files:
        raise SourceError("No source was given: name files, folders or globs, or - for a pipe.")
    if sum(file.is_stdin for file in files) > 1:
        raise SourceError("The standard input (-) can be read only once.")
    if len(files) > 1 and any(file.is_address for file in files):
        raise SourceError("An address stands alone: give one, and no files beside it.")
    return files


def _paths_of(text: str, format: str | None) -> list[str]:
    """The files of a path, a folder or a glob."""
    if os.path.exists(text) and not os.path.isdir(text):
        return [text]
    if not os.path.isdir(text):
        paths = sorted(path for path in glob.glob(text, recursive=True) if os.path.isfile(path))
        if not paths:
            nothing = "No file matches" if glob.has_magic(text) else "There is no file or folder"
            raise SourceError(f"{nothing} {text!r}.")
        return paths
    found = sorted(path for path in Path(text).rglob("*") if path.is_file())
    shown = [p for p in found if not re.search(r"(^|/)[._]", p.relative_to(text).as_posix())]
    paths = [str(path) for path in shown if File.of(str(path), format).format is not None]
    if not paths:
        raise SourceError(
            f"The folder {text} holds no file of a known format ({', '.join(sorted(FORMATS))}); "
            "or name the format with --format."
        )
    return paths


def fingerprint(files: list[File]) -> tuple[tuple[str, int, int], ...]:
    """Path, bytes and time of modification of each file: equal as long as none is modified.

    Parameters
    ----------
    files : list of File
        Files of a source.

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
    return tuple(
        (file.path, 0, 0)
        if file.is_passing
        else (os.path.abspath(file.path), file.size, os.stat(file.path).st_mtime_ns)
        for file in files
    )


def standard_input() -> BinaryIO:
    """The standard input as bytes; a process may have been started without any."""
    if sys.stdin is None:
        raise SourceError("The standard input is closed: send rows to it, or name files.")
    return sys.stdin.buffer


class ByteStream:
    """A file or the standard input as decompressed bytes, which can be peeked at.

    Parameters
    ----------
    file : File
        The file.
    stdin : binary stream, optional
        The standard input, if the file is that.
    """

    def __init__(self, file: File, stdin: BinaryIO | None = None):
        self.size = max(file.size, 1)
        if file.is_stdin:  # in larger pieces than its own buffer holds
            raw = getattr(stdin, "raw", stdin)
        else:
            raw = open(file.path, "rb", buffering=0)  # noqa: SIM115 (closed by the reader)
        self.stored = self.bytes = io.BufferedReader(cast(Any, raw), 1 << 20)
        start = self.stored.peek(8)
        for magic, decompressed in COMPRESSIONS.values():
            if start.startswith(magic):
                self.bytes = io.BufferedReader(decompressed(self.stored), 1 << 20)
        self.is_stored = self.bytes is self.stored

    def fraction(self) -> float:
        """How much has been read, between 0 and 1, by stored bytes."""
        return min(1.0, self.stored.tell() / self.size) if self.stored.seekable() else 0.0

    def close(self) -> None:
        """Close the file."""
        self.bytes.close()
        self.stored.close()


def guess_format(start: bytes, name: str) -> str:
    """The format of a stream by its first bytes."""
    beginnings = {
        b"PAR1": "parquet",
        b"ARROW1": "arrow",
        b"\xff\xff\xff\xff": "arrow",
        b"\x93NUMPY": "npy",
    }
    for beginning, format in beginnings.items():
        if start.startswith(beginning):
            return format
    if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return "ndjson"
    if b"\0" in start:
        raise SourceError(
            f"The format of {name} cannot be told from its name or its first bytes: give --format "
            f"({', '.join(sorted(set(FORMATS.values())))})."
        )
    return "csv"
