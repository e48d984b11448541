"""Broker and database addresses as sources: batches of rows, position, commit.

``fit``, ``update`` and ``score`` read an address as they read a pipe of NDJSON, once and in order.
In addition it has positions, so that the next run continues where this one stopped. A topic ends
with its last message, unless ``limit`` sets the number of rows; tags have no end and need a limit.
"""

from __future__ import annotations

import glob
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from kernelstream.tables import feeds
from kernelstream.tables.files import File, SourceError
from kernelstream.tables.live import LiveRow, LiveRows
from kernelstream.tables.readers import ReadOptions, check_names, rows_in_batch
from kernelstream.tables.text import ChunkReader, Parsed, columns_of

TIME = "time"  # the column that --keep gets the time of a message or of joined tags by


class Cells(LiveRows):
    """All that a message says, by its names: which of it is learned is decided later.

    Parameters
    ----------
    names : sequence of str, optional
        Names of values that come without, in their order, and of tags.
    """

    def __init__(self, names: tuple[str, ...] | None):
        super().__init__(len(names or ()), names, takes_missing=True)

    def _names_enough(self, names: Sequence[str]) -> bool:
        return True  # whatever a header says

    def row_of(self, cells: dict[str, Any]) -> LiveRow | str:
        """All values of a row, whatever they are.

        Parameters
        ----------
        cells : dict
            Values by name.
        """
        self.has_rows = True
        return LiveRow(np.empty(0), None, cells)


class AddressReader(ChunkReader):
    """The rows of an address.

    Parameters
    ----------
    file : File
        The address.
    options : ReadOptions
        Its ``connection`` says who asks, and where to continue.
    """

    def __init__(self, file: File, options: ReadOptions):
        self.file, self.options = file, options
        connection, self.wanted = options.connection, requested_names(options)
        self.feed = feeds.open_address(
            file.path,
            Cells(None if self.wanted is None else tuple(n for n in self.wanted if n != TIME)),
            connection.position,
            settings=dict(connection.settings),
            database=connection.database,
            ends=options.limit is None,
        )
        self.feed.tell = connection.tell
        self.last: feeds.Place | None = self.feed.position()  # before the rows of ``places``
        self.places: deque[tuple[int, feeds.Place | None]] = deque()
        self.names, self.rest = (), self.chunks()
        try:
            self.first = next(self.rest, [])
            self.names = tuple(dict.fromkeys(chain.from_iterable(self.cells(self.first))))
            if not self.names:
                raise SourceError(
                    f"{file.name} has no row, or none after those that were read before."
                )
            check_names(self.names, file)
        except BaseException:
            self.feed.close()
            raise

    def chunks(self) -> Iterator[list[LiveRow | str]]:
        """The rows that come until there is a pause."""
        chunk: list[LiveRow | str] = []
        n = 0
        for row in self.feed.rows():
            if row is not None:
                n += 1
                self.places.append((n, self.feed.position()))
                chunk.append(row)
            most = rows_in_batch(len(self.names))
            if chunk and (row is None or len(chunk) >= min(most, self.options.limit or most)):
                yield chunk
                chunk = []
        if chunk:
            yield chunk

    def cells(self, chunk: list[LiveRow | str]) -> list[dict[str, Any]]:
        """The values of the rows of a chunk, by name."""
        rows = [row for row in chunk if isinstance(row, LiveRow)]
        if TIME not in (self.wanted or ()):
            return [row.kept for row in rows]
        return [{**row.kept, TIME: row.kept.get(TIME, row.time)} for row in rows]

    def parse(self, chunk: list[LiveRow | str], names: list[str]) -> Parsed:
        """These columns of a chunk, and the reasons that the feed gave instead of rows."""
        invalid = {n: (row, row) for n, row in enumerate(chunk, 1) if isinstance(row, str)}
        return columns_of(self.cells(chunk), names), invalid

    def place(self, row: int) -> feeds.Place | None:
        """Where the address is continued after so many rows of this run.

        Parameters
        ----------
        row : int
            Number of rows.
        """
        while self.places and self.places[0][0] <= row:
            self.last = self.places.popleft()[1]
        return self.last

    def commit(self, position: feeds.Place) -> None:
        """All rows before this position are done with.

        Parameters
        ----------
        position : dict
            As :meth:`place` gave it.
        """
        self.feed.commit(position)

    def close(self) -> None:
        """Let go of the other side."""
        self.feed.close()


def requested_names(options: ReadOptions) -> tuple[str, ...] | None:
    """The columns that are requested by name; None if any may be read."""
    learned = options.columns
    if learned is None or any(map(glob.has_magic, learned)):
        return None
    weight = [] if options.weight_column is None else [options.weight_column]
    return tuple(dict.fromkeys([*learned, *weight, *(options.keep or ())]))


def same_source(one: str, other: str) -> bool:
    """Whether two addresses are those of the same rows, whatever else their options ask for.

    Examples
    --------
    >>> same_source("kafka://broker/plant?stop=end", "kafka://broker/plant")
    True
    """
    if "://" not in one:  # a query
        return one == other
    return one.split("?")[0] == other.split("?")[0]
