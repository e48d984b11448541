"""Join of tags with different rates into rows: time grid, tolerance, late and dead tags.

Every ``interval`` seconds there is a row. A tag that has sent nothing for longer than
``tolerance`` is missing in it, and one that is silent for ``dead`` seconds is named, once, and once
more when it is back. Times are those of the values where they have any, so a replay gives the same
rows; a row is given when a value from after its time has come, plus ``patience`` for those that are
late, or when the clock says so.
"""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernelstream.tables import Feed, LiveRow, LiveRows, SourceError

INTERVAL, TOLERANCE, DEAD = 1.0, 10.0, 60.0
ON_ITS_WAY = 2.0  # seconds that a value may take, where an address says nothing else
MOST_WAITING = 100_000  # messages that were received and not yet read
CATCHING_UP = 5.0  # seconds after a return in which what was kept meanwhile begins to come
LONGEST_GAP = 3600  # rows without any value that are given; a longer pause is skipped


NAMELESS = (
    "Tags are joined by their names: a model knows those of the columns that it was fitted to, and "
    "fit is told them with --columns"
)


@dataclass
class Tag:
    """One tag: its values that wait for a row, and the last that went into one."""

    waiting: list[tuple[float, float]] = field(default_factory=list)
    value: float = math.nan
    at: float = -math.inf
    silent: bool = False
    late: int = 0  # values that came after their row


class TagJoin:
    """Joins tags into rows.

    Parameters
    ----------
    names : sequence of str
        The tags that make a row; others are counted and left out.
    interval : float
        Seconds from row to row.
    tolerance : float
        Seconds for which a value stands.
    dead : float
        Seconds of silence after which a tag is named.
    patience : float
        Seconds to wait for values that are late.
    tell : callable
        Is given sentences about tags that stop or are back.

    Examples
    --------
    >>> join = TagJoin(["a", "b"], interval=1.0, tolerance=2.5)
    >>> join.put("a", 1.0, at=10.0)
    >>> join.put("b", 5.0, at=10.2)
    >>> join.put("a", 2.0, at=13.0)
    >>> for at, row in join.rows():
    ...     print(at, row)
    11.0 {'a': 1.0, 'b': 5.0}
    12.0 {'a': 1.0, 'b': 5.0}
    13.0 {'a': 2.0, 'b': nan}
    """

    def __init__(
        self,
        names: Sequence[str],
        interval: float = INTERVAL,
        tolerance: float = TOLERANCE,
        dead: float = DEAD,
        patience: float = 0.0,
        tell: Callable[[str], None] = lambda text: None,
    ):
        for name, value in (("interval", interval), ("tolerance", tolerance), ("dead", dead)):
            if not (value > 0 and math.isfinite(value)):
                raise SourceError(f"{name}={value} of a join must be a number of seconds above 0.")
        self.interval, self.tolerance, self.dead = interval, tolerance, dead
        self.patience, self.tell = patience, tell
        self.tags = {name: Tag() for name in names}
        self.unknown = 0
        self.newest = -math.inf
        self.next: float | None = None  # the time of the next row

    def put(self, name: str, value: float, at: float) -> None:
        """A value of a tag; one that is too late for its row is counted, told and left out.

        Parameters
        ----------
        name : str
            The tag.
        value : float
            NaN where its sensor says that it is none.
        at : float
            Its time in seconds.
        """
        tag = self.tags.get(name)
        if tag is None:
            self.unknown += 1
            return
        if not math.isfinite(at):
            raise SourceError(f"{name}: the time {at} is none.")
        if at <= tag.at or (self.next is not None and at <= self.next - self.interval):
            tag.late += 1
            if tag.late == 1:
                self.tell(
                    f"{name}: a value of {self._behind(at):.1f} s ago came after its row, and was "
                    f"left out; rows wait {self.patience:g} s for such values, with &patience= "
                    "longer"
                )
            return
        tag.waiting.append((at, value))
        if len(tag.waiting) > 1 and at < tag.waiting[-2][0]:
            tag.waiting.sort()
        self.newest = max(self.newest, at)
        if self.next is None:
            self.next = (math.floor(at / self.interval) + 1) * self.interval

    @property
    def late(self) -> int:
        """Values that came after their row."""
        return sum(tag.late for tag in self.tags.values())

    def _behind(self, at: float) -> float:
        """Seconds from a time to the newest that is known."""
        return max(self.newest, self.next or at) - at

    def rows(self, now: float | None = None) -> Iterator[tuple[float, dict[str, float]]]:
        """The rows that are due: their time, and the value of each tag.

        Parameters
        ----------
        now : float, optional
            The clock: rows before it are due also where no value came. Without it, rows up to the
            newest value.
        """
        if self.next is None:
            return
        until = (self.newest if now is None else max(self.newest, now)) - self.patience
        while self.next <= until:
            at = self.next
            row = {name: self._value(name, tag, at) for name, tag in self.tags.items()}
            self.next += self.interval
            if all(map(math.isnan, row.values())):
                self._skip(until)
            yield at, row

    def _skip(self, until: float) -> None:
        """Where no tag has a value, and none is near: on to the next that has."""
        assert self.next is not None
        waiting = [tag.waiting[0][0] for tag in self.tags.values() if tag.waiting]
        target = min(waiting, default=until)
        if target - self.next > LONGEST_GAP * self.interval:
            self.next = math.floor(target / self.interval) * self.interval

    def _value(self, name: str, tag: Tag, at: float) -> float:
        while tag.waiting and tag.waiting[0][0] <= at:
            tag.at, tag.value = tag.waiting.pop(0)
        age = at - tag.at
        if tag.silent and age <= self.dead:
            tag.silent = False
            self.tell(f"{name} is back")
        elif not tag.silent and age > self.dead and math.isfinite(tag.at):
            tag.silent = True
            self.tell(f"{name} has sent nothing for {age:.0f} s")
        return tag.value if age <= self.tolerance else math.nan


def join_of(
    options: dict[str, str], names: Sequence[str] | None, tell: Callable[[str], None]
) -> TagJoin:
    """The join that the options of an address ask for.

    Parameters
    ----------
    options : dict
        ``interval``, ``tolerance``, ``dead`` and ``patience`` in seconds.
    names : sequence of str or None
        The tags.
    tell : callable
        Is given sentences about tags.
    """
    if not names:
        raise SourceError(NAMELESS)
    numbers: dict[str, Any] = {"patience": ON_ITS_WAY}
    for name in ("interval", "tolerance", "dead", "patience"):
        if name in options:
            try:
                numbers[name] = float(options.pop(name))
            except ValueError as problem:
                raise SourceError(f"{name} must be a number of seconds.") from problem
    return TagJoin(names, **numbers, tell=tell)


class TagFeed(Feed):
    """Rows of what a client receives in a thread of its own: whole ones, or tags that are joined.

    The thread puts into ``messages`` what came, sentences about the connection, or the error that
    ends it. While the connection is gone no row is due by the clock: what the other side keeps
    meanwhile would come too late for it.

    Parameters
    ----------
    parse : LiveRows
        What makes rows.
    join : TagJoin or None
        What makes rows of tags, where they have names.
    """

    def __init__(self, parse: LiveRows, join: TagJoin | None):
        self.parse, self.join = parse, join
        self.messages: queue.Queue[Any] = queue.Queue(MOST_WAITING)
        self.away, self.returned = False, -math.inf

    def lose(self, text: str) -> None:
        """The connection is gone; told once.

        Parameters
        ----------
        text : str
            What is known about it.
        """
        if not self.away:
            self.away = True
            self.messages.put(text)

    def find(self, text: str) -> None:
        """The connection is there again; told once.

        Parameters
        ----------
        text : str
            What to say.
        """
        if self.away:
            self.returned, self.away = time.monotonic(), False
            self.messages.put(text)

    def take(self, *message: Any) -> LiveRow | str | None:
        """A message: the row that it is, a reason in words, or None for a value of a tag.

        Parameters
        ----------
        *message : object
            As the thread has put it.
        """
        raise NotImplementedError

    def rows(self) -> Iterator[LiveRow | str | None]:
        """Rows of messages, and rows that tags are joined into."""
        while True:
            try:
                message = self.messages.get(timeout=self.PATIENCE)
            except queue.Empty:
                reachable = not self.away and time.monotonic() - self.returned > CATCHING_UP
                yield from self._due(time.time() if reachable else None)
                yield None
                continue
            if isinstance(message, Exception):
                raise message
            if isinstance(message, str):
                self.tell(message)
                continue
            row = self.take(*message)
            if row is not None:
                yield row
            yield from self._due(None)

    def _due(self, now: float | None) -> Iterator[LiveRow | str]:
        if self.join is None:
            return
        for at, cells in self.join.rows(now):
            if all(math.isnan(v) for v in cells.values()):
                continue  # silence is told by the one who watches
            row = self.parse.row_of(dict(cells))
            yield row if isinstance(row, str) else LiveRow(row.x, at, row.kept)
