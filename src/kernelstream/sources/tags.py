"""Tags with rates of their own become rows: the last value of each on a grid of times.

Every ``interval`` seconds there is a row. A tag that has sent nothing for longer than
``tolerance`` is missing in it, and one that is silent for ``dead`` seconds is named, once, and once
more when it is back. Times are those of the values where they have any, so a replay gives the same
rows; a row is given when a value from after its time has come, plus ``patience`` for those that are
late, or when the clock says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernelstream.sources.files import SourceError

INTERVAL, TOLERANCE, DEAD = 1.0, 10.0, 60.0
LONGEST_GAP = 3600  # rows without any value that are given; a longer pause is skipped


@dataclass
class Tag:
    """One tag: its values that wait for a row, and the last that went into one."""

    waiting: list[tuple[float, float]] = field(default_factory=list)
    value: float = math.nan
    at: float = -math.inf
    silent: bool = False


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
        self.unknown = self.late = 0
        self.newest = -math.inf
        self.next: float | None = None  # the time of the next row

    def put(self, name: str, value: float, at: float) -> None:
        """A value of a tag; one that is too late for its row is counted and left out.

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
            self.late += 1
            return
        tag.waiting.append((at, value))
        if len(tag.waiting) > 1 and at < tag.waiting[-2][0]:
            tag.waiting.sort()
        self.newest = max(self.newest, at)
        if self.next is None:
            self.next = (math.floor(at / self.interval) + 1) * self.interval

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
        raise SourceError(
            "Tags are joined by their names, and this model knows none: fit it to a table with "
            "column names, those of the tags."
        )
    numbers: dict[str, Any] = {}
    for name in ("interval", "tolerance", "dead", "patience"):
        if name in options:
            try:
                numbers[name] = float(options.pop(name))
            except ValueError as problem:
                raise SourceError(f"{name} must be a number of seconds.") from problem
    return TagJoin(names, **numbers, tell=tell)
