"""Broker and database addresses as sources: batches of rows, position, commit.

``fit``, ``update`` and ``score`` read an address as they read a pipe of NDJSON, once and in order.
In addition it has positions, so that the next run continues where this one stopped. A topic ends
with its last message, unless ``limit`` sets the number of rows; tags have no end and need a limit.
"""

from __future__ import annotations

import io
import json
import math
from collections import deque
from decimal import Decimal
from typing import Any

import numpy as np

from kernelstream.tables import feeds
from kernelstream.tables.files import File, SourceError
from kernelstream.tables.live import LiveRow, LiveRows
from kernelstream.tables.readers import ReadOptions, rows_in_batch
from kernelstream.tables.text import NdjsonReader

TIME = "time"  # the column that --keep gets the time of a message or of joined tags by


class Cells(LiveRows):
    """All that a message says, by its names: which of it is learned is decided later.

    Parameters
    ----------
    names : sequence of str, optional
        Names of values that come without, in their order, and of tags.
    """

    def __init__(self, names: tuple[str, ...] | None):
        super().__init__(io.BytesIO(), len(names or ()), names, takes_missing=True)

    def _names_enough(self, names: list[str]) -> bool:
        return True  # whatever a header says

    def _row(self, cells: dict[str, Any]) -> LiveRow | str:
        return LiveRow(np.empty(0), None, cells)


class AddressReader(NdjsonReader):
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
        connection, names = options.connection, options.names
        self.feed = feeds.open_address(
            file.path,
            Cells(None if names is None else tuple(name for name in names if name != TIME)),
            connection.position,
            settings=dict(connection.settings),
            database=connection.database,
            ends=options.limit is None,
        )
        self.feed.tell = connection.tell
        self.live_rows = self.feed.rows()
        self.row = 0  # lines that were made of the rows
        self.last: feeds.Place | None = self.feed.position()  # before the rows of ``places``
        self.places: deque[tuple[int, feeds.Place | None]] = deque()
        try:
            super().__init__(file, None, options)
        except BaseException:
            self.feed.close()
            raise

    def read(self, size: int) -> bytes:
        """The rows that come until there is a pause, as lines; nothing at the end."""
        lines: list[str] = []
        most = rows_in_batch(len(getattr(self, "names", ())))
        most = min(most, self.options.limit or most)
        for row in self.live_rows:
            if row is None and lines:
                break
            if row is None:
                continue
            self.row += 1
            self.places.append((self.row, self.feed.position()))
            # A reason instead of a row is a line that is no JSON object.
            lines.append(json.dumps(row) if isinstance(row, str) else self._line(row))
            if len(lines) >= most:
                break
        if not self.row:
            name = self.file.name
            raise SourceError(f"{name} has no row, or none after those that were read before.")
        return "".join(f"{line}\n" for line in lines).encode()

    def _line(self, row: LiveRow) -> str:
        cells = row.kept
        if TIME in (self.options.names or ()) and cells.get(TIME) is None:
            cells = {**cells, TIME: row.time}
        missing = {n: None for n, v in cells.items() if isinstance(v, float) and math.isnan(v)}
        return json.dumps({**cells, **missing}, default=plain)

    def why_invalid(self, value: Any) -> str:
        """The reason that the feed gave."""
        return value if isinstance(value, str) else super().why_invalid(value)

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

    def fraction(self) -> float:
        """Nobody knows how much is still to come."""
        return 0.0

    def close(self) -> None:
        """Let go of the other side."""
        self.feed.close()


def plain(value: Any) -> Any:
    """What databases have and JSON has not: a number, or its text."""
    return float(value) if isinstance(value, Decimal) else str(value)


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
