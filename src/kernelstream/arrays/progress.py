"""Progress reports of long calls: rows per second, remaining time, logging."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar

logger = logging.getLogger("kernelstream")

EVERY = 0.2  # seconds between two drawings of a line that is drawn anew
LOG_EVERY = 10.0  # seconds between two lines where none can be drawn anew

_watcher: ContextVar[Callable[[int], None]] = ContextVar("watcher", default=lambda rows: None)


def advance(rows: int) -> None:
    """More rows were worked on; nothing happens where nobody watches."""
    _watcher.get()(rows)


def say(text: str) -> None:
    """A line for the logger ``kernelstream``; on the standard error where no logging was set up."""
    if logger.hasHandlers():
        logger.info(text)
    else:
        _write(f"{text}\n")


def _write(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(text)
        sys.stderr.flush()


def duration(seconds: float) -> str:
    """A time in hours, minutes and seconds.

    Examples
    --------
    >>> duration(3725)
    '1:02:05'
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


class Line:
    """A line about a long call: how much is done, how fast, how long it will take.

    Parameters
    ----------
    title : str
        What is done.
    total : int, callable or None
        Rows in all, or what tells the share that is done; None where nobody knows.
    """

    def __init__(self, title: str, total: int | Callable[[], float] | None):
        self.title, self.total = title, total
        self.rows, self.began = 0, time.monotonic()
        self.looked = self.began, 0.0  # when time left is counted from, and what was done then
        self.shown = self.began
        # A terminal and a notebook draw a line anew; a log gets one now and then.
        self.redraws = not logger.hasHandlers() and (_is_terminal() or "ipykernel" in sys.modules)

    def __call__(self, rows: int) -> None:
        """More rows were worked on."""
        self.rows += rows
        now = time.monotonic()
        if callable(self.total) and self.rows == rows:  # the first: a run may go on from a place
            self.looked = now, self.total()
        if now - self.shown >= (EVERY if self.redraws else LOG_EVERY):
            self.shown = now
            text = self.text(now - self.began)
            if self.redraws:
                _write(f"\r{text}\033[K")
            else:
                say(text)

    def share(self) -> float | None:
        """How much is done, between 0 and 1; None where nobody knows."""
        if callable(self.total):
            return self.total()
        return min(1.0, self.rows / self.total) if self.total else None

    def text(self, seconds: float) -> str:
        """The line, after so many seconds."""
        rate = self.rows / max(seconds, 1e-9)
        share, done = self.share(), ""
        if share is not None:
            then, before = self.looked
            taken, more = self.began + seconds - then, share - before
            left = f"{duration(taken * (1.0 - share) / more)} left, " if more > 0.0 else ""
            done = f"{share:.0%}, {left}"
        return f"{self.title}: {done}{self.rows:,} rows, {rate:,.0f} rows/s"

    def close(self) -> None:
        """Take the line away."""
        if self.redraws and self.shown > self.began:
            _write("\r\033[K")


@contextlib.contextmanager
def shown(wanted: object, title: str, total: int | Callable[[], float] | None) -> Iterator[None]:
    """Show how far what happens inside has come, where that is wanted."""
    if not wanted:
        yield
        return
    line = Line(title, total)
    before = _watcher.set(line)
    try:
        yield
    finally:
        _watcher.reset(before)
        line.close()
