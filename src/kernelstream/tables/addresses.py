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
from kernelstream.tables.files import ByteStream, Counter, File, SourceError
from kernelstream.tables.live import LiveRow, LiveRows
from kernelstream.tables.readers import Reading, rows_in_batch
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
    reading : Reading
        Its ``connection`` says who asks, and where to go on.
    """

    def __init__(self, file: File, reading: Reading):
        asked = reading.connection
        self.connection = asked
        self.feed = feeds.open_address(
            file.path,
            Cells(None if asked.names is None else tuple(n for n in asked.names if n != TIME)),
            asked.position,
            settings=dict(asked.settings),
            database=asked.database,
            ends=asked.limit is None,
        )
        self.feed.tell = asked.tell
        self.coming = self.feed.rows()
        self.row = 0  # lines that were made of what came
        self.last: feeds.Place | None = self.feed.position()  # before the rows of ``places``
        self.places: deque[tuple[int, feeds.Place | None]] = deque()
        self.reasons: dict[int, str] = {}  # of rows that are none
        nothing = Counter(io.BytesIO())
        try:
            super().__init__(file, ByteStream(io.BufferedReader(nothing), nothing))
        except BaseException:
            self.feed.close()
            raise

    def _next_lines(self) -> bytes:
        """What has come until there is a pause; nothing at the end."""
        lines: list[bytes] = []
        most = rows_in_batch(len(getattr(self, "fields", ())))
        most = min(most, self.connection.limit or most)
        for row in self.coming:
            if row is None:
                if lines:
                    break
                continue
            self.row += 1
            self.places.append((self.row, self.feed.position()))
            if isinstance(row, str):
                self.reasons[self.row] = row
                lines.append(" ".join(row.split()).encode())  # no JSON object
            else:
                lines.append(self._line(row))
            if len(lines) >= most:
                break
        if not self.row:
            name = self.connection.name
            raise SourceError(f"{name} has no row, or none after those that were read before.")
        return b"".join(line + b"\n" for line in lines)

    def _line(self, row: LiveRow) -> bytes:
        cells = row.kept
        if TIME in (self.connection.names or ()) and cells.get(TIME) is None:
            cells = {**cells, TIME: row.time}
        gaps = {name: None for name, v in cells.items() if isinstance(v, float) and math.isnan(v)}
        return json.dumps({**cells, **gaps}, default=plain).encode()

    def why_broken(self, row: int) -> str:
        """Why a row is none, as the feed has said it.

        Parameters
        ----------
        row : int
            Its number.
        """
        return self.reasons.pop(row, super().why_broken(row))

    def place(self, row: int) -> feeds.Place | None:
        """Where the address is gone on with after so many rows of this run.

        Parameters
        ----------
        row : int
            Rows that have gone by.
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
