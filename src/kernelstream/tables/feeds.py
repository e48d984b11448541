"""Feeds of live rows: pipes, files, brokers; position, commit, settings file, entry points.

A feed gives rows as they come, says where it stands, and is told what was saved:

- ``rows()`` gives a :class:`~kernelstream.tables.LiveRow`, the reason in words for something
  that is no row, or None where nothing came for a moment, so that the caller can do other things;
- ``position()`` is where reading would go on after the row that was given last, ready for JSON, or
  None where there is no such place (a pipe);
- ``commit(position)`` says that all rows before it are done with.

Whoever saves the position *with* what was learned from the rows has learned each row exactly once,
however often the process is killed.
"""

from __future__ import annotations

import heapq
import io
import os
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import entry_points
from operator import itemgetter
from typing import Any, BinaryIO

from kernelstream.tables.files import SCHEMES, SOURCES, SourceError, find_files
from kernelstream.tables.formats import open_reader
from kernelstream.tables.live import LiveRow, LiveRows
from kernelstream.tables.readers import LONGEST_LINE, UNREADABLE, Batch, ReadOptions, Selection

Place = dict[str, Any]  # in a feed, ready for JSON


class Feed:
    """Rows from somewhere, and where in it they are.

    A feed that cannot be read from a place in it overrides :meth:`rows` only.
    """

    #: Seconds after which None says that nothing came.
    PATIENCE = 0.25
    #: Called with sentences: about a broker that is gone, a tag that stopped.
    tell: Callable[[str], None] = staticmethod(lambda text: None)

    def rows(self) -> Iterator[LiveRow | str | None]:
        """Rows as they come; reasons for what is none; None where nothing came for a moment."""
        raise NotImplementedError

    def position(self) -> Place | None:
        """Where reading goes on after the row that was given last; None if there is no place."""
        return None

    def commit(self, position: Place) -> None:
        """All rows before this position are done with.

        Parameters
        ----------
        position : dict
            As :meth:`position` gave it.
        """

    def close(self) -> None:
        """Let go of the connection."""


class PipeFeed(Feed):
    r"""Lines of a pipe; where it is silent, None.

    Parameters
    ----------
    stream : binary stream
        The pipe.
    parse : LiveRows
        What makes rows of lines.

    Examples
    --------
    >>> import io
    >>> list(PipeFeed(io.BytesIO(b"a,b\n1,2\n3\n"), LiveRows(2)).rows())
    [LiveRow(x=array([1., 2.]), time=None, kept={}), '1 cells, but there are 2 columns']
    """

    def __init__(self, stream: BinaryIO, parse: LiveRows):
        self.stream, self.parse = stream, parse

    def rows(self) -> Iterator[LiveRow | str | None]:
        """Rows as soon as their lines are complete."""
        for line in lines_of(self.stream):
            row = None if line is None else self.parse.read(line)
            if row is not None or line is None:
                yield row


def lines_of(stream: BinaryIO) -> Iterator[bytes | None]:
    """Lines of a stream, each as soon as it is complete; None now and then where nothing comes.

    Of a line that is too long, only the beginning is kept.
    """
    try:
        can_wait = stream.fileno() >= 0 and sys.platform != "win32"
    except (OSError, ValueError, AttributeError):
        can_wait = False
    rest = b""
    while True:
        if can_wait and not select.select([stream], [], [], Feed.PATIENCE)[0]:
            yield None
            continue
        block = stream.read1(io.DEFAULT_BUFFER_SIZE)  # type: ignore[attr-defined]
        if not block:
            break
        *lines, rest = (rest + block).split(b"\n")
        yield from lines
        rest = rest[:LONGEST_LINE]
    if rest:
        yield rest


class FileFeed(Feed):
    r"""Files, one after the other, row by row: also rows with missing values.

    Parameters
    ----------
    paths : sequence of str
        Files, folders, globs.
    parse : LiveRows
        What makes rows.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.csv"
    >>> _ = path.write_text("t,a,b\n1,2,3\n2,,5\n3,x,6\n")
    >>> parse = LiveRows(2, ["a", "b"], takes_missing=True, time_column="t")
    >>> for row in FileFeed([str(path)], parse).rows():
    ...     print(row)
    LiveRow(x=array([2., 3.]), time='1', kept={})
    LiveRow(x=array([nan,  5.]), time='2', kept={})
    column 'a': 'x' is not a number
    """

    def __init__(self, paths: Sequence[str], parse: LiveRows):
        self.files, self.parse = find_files(paths), parse

    def rows(self) -> Iterator[LiveRow | str | None]:
        """Rows in the order of the files."""
        for file in self.files:
            reader = open_reader(file, ReadOptions())
            try:
                for batch in reader.batches(Selection((), carried=reader.names)):
                    yield from self._of_batch(batch, reader.named)
            except UNREADABLE as problem:
                raise SourceError(f"{file.name} cannot be read to its end: {problem}") from problem
            finally:
                reader.close()

    def _of_batch(self, batch: Batch, named: bool) -> Iterator[LiveRow | str]:
        """Valid rows and the reasons of the others, in their order."""
        valid = zip(batch.numbers.tolist(), self.parse.rows_of(batch.table, named), strict=True)
        others = ((row.row, row.reason) for row in batch.invalid)
        for _, row in heapq.merge(valid, others, key=itemgetter(0)):
            yield row


def open_address(
    address: str,
    parse: LiveRows,
    position: Place | None = None,
    *,
    settings: dict[str, str] | None = None,
    database: str | None = None,
    ends: bool = False,
) -> Feed:
    """The feed of an address, from the distribution that has an entry point for its scheme.

    Parameters
    ----------
    address : str
        ``kafka://broker/topic``, ``mqtt://host/topic``, ``opcua://host:4840``, ``sql:SELECT …``.
    parse : LiveRows
        Makes rows of messages.
    position : dict, optional
        Where to go on, as :meth:`Feed.position` gave it.
    settings : dict, optional
        Users, passwords and certificates of the connection; see :func:`read_settings`.
    database : str, optional
        The database of a ``sql:`` query.
    ends : bool
        Whether the rows have to end: a topic ends with its last message, and an address without an
        end is refused.
    """
    scheme = address.split(":", 1)[0].lower()
    plant = "kernelstream-plant"
    extra = f"'{plant}[{SCHEMES[scheme]}]'" if scheme in SCHEMES else plant
    entries = tuple(entry_points(group=SOURCES, name=scheme))
    if not entries:
        raise SourceError(f"{scheme}: needs the package {plant}: pip install {extra}")
    try:
        feed: Feed = entries[0].load()(
            address, parse, position, settings=dict(settings or {}), database=database, ends=ends
        )
    except ModuleNotFoundError as problem:
        if (problem.name or "").startswith("kernelstream"):
            raise
        raise SourceError(
            f"{scheme}: needs the package {problem.name}: pip install {extra}"
        ) from problem
    return feed


def read_settings(path: str | os.PathLike[str] | None) -> dict[str, str]:
    """Lines ``name = value`` of a file: what should not stand on a command line.

    Parameters
    ----------
    path : path-like or None
        The file; without one, that which the environment variable ``KERNELSTREAM_SETTINGS`` names.
    """
    path = path or os.environ.get("KERNELSTREAM_SETTINGS")
    if not path:
        return {}
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    for name, equals, _ in pairs:
        if not equals:
            number = lines.index(name) + 1
            raise SourceError(f"{path}, line {number}: write name = value.")
    return {name.strip(): value.strip() for name, _, value in pairs}
