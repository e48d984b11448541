"""History database (SQLite): rows, aggregates thinned by age, events, log, command queue.

Rows are thinned by age. The latest are kept as they are; older ones as seconds, minutes and hours,
each with the lowest, the highest and the mean value, so that an extreme is never lost. Everything
has a bound: rows in memory, rows of every table on disk. The file is one of SQLite, which a killed
process leaves whole and which other processes may read, and write commands into, meanwhile.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from kernelstream.anomaly import Record
from kernelstream.arrays import evenly_spaced

FILE = "history.sqlite"
BEFORE = "history-before.sqlite"  # of the model that was there earlier
RAW_ROWS = 20_000
SECOND, MINUTE, HOUR = 1.0, 60.0, 3600.0
KEPT = {SECOND: 7_200, MINUTE: 30 * 1_440, HOUR: 2 * 8_766}  # stretches: two hours, 30 d, two years
LOG_LINES, EVENTS = 20_000, 10_000
FLUSH_EVERY = 1.0  # seconds: what a killed process may lose of the rows
ALARM, LEARNED = 1, 2  # bits of the flags of a row

TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, n INTEGER NOT NULL, at BLOB NOT NULL,
  event BLOB NOT NULL, flags BLOB NOT NULL, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS stretches (id INTEGER PRIMARY KEY, width REAL NOT NULL, at REAL NOT NULL,
  n INTEGER NOT NULL, alarms INTEGER NOT NULL, lone INTEGER NOT NULL, event INTEGER NOT NULL,
  data BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS stretches_by_width ON stretches (width, id);
CREATE TABLE IF NOT EXISTS log (id INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL,
  event INTEGER, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, facts TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS commands (id INTEGER PRIMARY KEY, at REAL NOT NULL, verb TEXT NOT NULL,
  arguments TEXT NOT NULL, state TEXT NOT NULL, answer TEXT NOT NULL DEFAULT '');
"""

CHANNELS = tuple(f.name for f in fields(Record) if f.type in ("float", "float | None"))
DRIFT = ("largest_shift", "novelty")
COLUMNS = (*CHANNELS, *(f"drift_{name}" for name in DRIFT))


def channel_values(record: Record) -> list[float]:
    """Every number of a record, in the order of ``COLUMNS``."""
    known = [getattr(record, name) for name in CHANNELS]
    drift = [getattr(record.drift, name) for name in DRIFT]
    return [np.nan if value is None else value for value in (*known, *drift)]


class Ring:
    """The last ``keep`` entries of some columns, each a contiguous array.

    Examples
    --------
    >>> ring = Ring(2, {"a": (np.int64, ())})
    >>> for a in range(5):
    ...     ring.append(a=a)
    >>> ring["a"], ring.total
    (array([3, 4]), 5)
    """

    def __init__(self, keep: int, columns: dict[str, tuple[Any, tuple[int, ...]]]):
        self.keep, self.total = keep, 0
        self.first = self.last = 0
        room = min(2 * keep, 256)
        self.columns = {
            name: np.zeros((room, *shape), dtype=t) for name, (t, shape) in columns.items()
        }

    def __len__(self) -> int:
        return self.last - self.first

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name][self.first : self.last]

    def append(self, **values: Any) -> None:
        """One more entry; the oldest goes where there are too many."""
        if self.last == len(next(iter(self.columns.values()))):
            self._make_room()
        for name, value in values.items():
            self.columns[name][self.last] = value
        self.last += 1
        self.total += 1
        self.first = max(self.first, self.last - self.keep)

    def _make_room(self) -> None:
        kept, n = slice(self.first, self.last), self.last - self.first
        room = min(2 * self.keep, 4 * n)
        for name, column in self.columns.items():
            fresh = np.zeros((max(room, n + 1), *column.shape[1:]), dtype=column.dtype)
            fresh[:n] = column[kept]
            self.columns[name] = fresh
        self.first, self.last = 0, n

    def since(self, total: int, most: int) -> slice:
        """Entries after the first ``total`` of all, at most ``most``; for ``ring[name][slice]``."""
        n = len(self)
        return slice(max(n - min(self.total - total, most), 0), n)


class Stretch:
    """Lowest, highest and mean of the rows of a second, a minute or an hour."""

    def __init__(self, at: float, low: np.ndarray, high: np.ndarray, total: np.ndarray, n: int):
        self.at, self.low, self.high, self.total, self.n = at, low, high, total, n
        self.known = np.isfinite(total).astype(np.float64) * n
        self.total = np.where(np.isfinite(total), total, 0.0)
        self.alarms = self.lone = self.event = 0

    def join(self, other: Stretch) -> None:
        """A later stretch, in this one."""
        np.fmin(self.low, other.low, out=self.low)
        np.fmax(self.high, other.high, out=self.high)
        self.total += other.total
        self.known += other.known
        self.n += other.n
        self.alarms += other.alarms
        self.lone += other.lone
        self.event = max(self.event, other.event)

    def copy(self) -> Stretch:
        """The same, to be added to."""
        fresh = Stretch(self.at, self.low.copy(), self.high.copy(), self.total.copy(), self.n)
        fresh.known = self.known.copy()
        fresh.alarms, fresh.lone, fresh.event = self.alarms, self.lone, self.event
        return fresh

    @property
    def mean(self) -> np.ndarray:
        """NaN where nothing is known."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.total / self.known)


@dataclass(frozen=True)
class Line:
    """One line of the log."""

    at: float
    kind: str
    event: int | None
    text: str


class History:
    """Rows, stretches, events and the log of one monitored stream.

    Parameters
    ----------
    names : sequence of str
        The variables of a row.
    folder : path-like, optional
        Where the history is kept; without one it is in memory only.
    model : str
        What tells this model from another: a folder begins anew with another model.

    Examples
    --------
    >>> history = History(["a", "b"])
    >>> history.write("note", "all is well", at=0.0)
    >>> [line.text for line in history.log()]
    ['all is well']
    """

    def __init__(
        self, names: Sequence[str], folder: str | os.PathLike[str] | None = None, model: str = ""
    ):
        self.names = tuple(names)
        self.columns = (*COLUMNS, *self.names)
        self.n_channels = len(COLUMNS)
        self.folder = None if folder is None else Path(folder)
        self.turn = threading.RLock()
        wide = (self.n_channels,)
        self.raw = Ring(
            RAW_ROWS,
            {
                "at": (np.float64, ()),
                "event": (np.int32, ()),
                "flags": (np.uint8, ()),
                "data": (np.float32, (len(self.columns),)),
            },
        )
        bins: dict[str, tuple[Any, tuple[int, ...]]] = {
            **dict.fromkeys(("at", "n", "alarms", "lone", "event"), (np.float64, ())),
            **dict.fromkeys(("low", "high", "mean"), (np.float32, wide)),
        }
        self.stretches = {width: Ring(keep, bins) for width, keep in KEPT.items()}
        self._open: dict[float, Stretch] = {}
        self._flushed, self._flushed_rows = time.monotonic(), 0
        self._closed: list[tuple[Any, ...]] = []
        self._base = self._connect(model)
        self._load()

    @classmethod
    def copy_of(cls, folder: str | os.PathLike[str]) -> History:
        """The history of a folder as it is now, in memory: its owner is not disturbed.

        Parameters
        ----------
        folder : path-like
            Of the history.
        """
        with existing(folder) as base:
            columns = json.loads(dict(base.execute("SELECT name, value FROM facts"))["columns"])
            if tuple(columns[: len(COLUMNS)]) != COLUMNS:
                raise ValueError(f"The history in {folder} was kept by another release.")
            history = cls(columns[len(COLUMNS) :])
            base.backup(history._base)
        history._load()
        return history

    # -- the file

    def _connect(self, model: str) -> sqlite3.Connection:
        if self.folder is None:
            base = sqlite3.connect(":memory:", check_same_thread=False)
            base.executescript(TABLES)
            return base
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / FILE
        facts = {"columns": json.dumps(self.columns), "model": model}
        base = open_base(path)
        known = dict(base.execute("SELECT name, value FROM facts"))
        if known and any(known.get(name) != value for name, value in facts.items()):
            base.close()  # of another model: its events have the same numbers
            for ending in ("", "-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.replace(f"{path}{ending}", f"{self.folder / BEFORE}{ending}")
            base = open_base(path)
        with base:
            base.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())
            base.execute("UPDATE commands SET state = 'expired' WHERE state = 'waiting'")
        return base

    def _load(self) -> None:
        """What an earlier run left."""
        d = len(self.columns)
        for _, n, at, event, flags, data in self._base.execute("SELECT * FROM rows ORDER BY id"):
            columns = (
                np.frombuffer(at, np.float64),
                np.frombuffer(event, np.int32),
                np.frombuffer(flags, np.uint8),
                np.frombuffer(data, np.float32).reshape(n, d),
            )
            for values in zip(*columns, strict=True):
                self.raw.append(at=values[0], event=values[1], flags=values[2], data=values[3])
        self._flushed_rows = self.raw.total
        wanted = (
            "SELECT at, n, alarms, lone, event, data FROM stretches WHERE width = ? ORDER BY id"
        )
        for width, ring in self.stretches.items():
            for at, n, alarms, lone, event, blob in self._base.execute(wanted, (width,)):
                low, high, mean = np.frombuffer(blob, np.float32).reshape(3, d)[
                    :, : self.n_channels
                ]
                ring.append(
                    at=at, n=n, alarms=alarms, lone=lone, event=event, low=low, high=high, mean=mean
                )

    def close(self) -> None:
        """Write what is left, and the stretches that are not over."""
        with self.turn:
            for width in list(self._open):
                self._shut(width, self._open.pop(width))
            self.flush()
            self._base.close()

    def flush(self) -> None:
        """Write what came since the last time; drop what is too old."""
        with self.turn:
            new = self.raw.since(self._flushed_rows, RAW_ROWS)
            n = new.stop - new.start
            with self._base as base:
                if n:
                    chunk = [self.raw[c][new].tobytes() for c in ("at", "event", "flags", "data")]
                    base.execute(
                        "INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)",
                        (self._next_row(), n, *chunk),
                    )
                    base.execute(
                        "DELETE FROM rows WHERE id + n <= ?", (self._next_row() - RAW_ROWS,)
                    )
                base.executemany(
                    "INSERT INTO stretches (width, at, n, alarms, lone, event, data) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?)",
                    self._closed,
                )
                for width in {entry[0] for entry in self._closed}:
                    oldest = (
                        "SELECT id FROM stretches WHERE width = ? ORDER BY id DESC LIMIT 1 OFFSET ?"
                    )
                    base.execute(
                        f"DELETE FROM stretches WHERE width = ? AND id <= ({oldest})",
                        (width, width, KEPT[width]),
                    )
            self._closed.clear()
            self._flushed, self._flushed_rows = time.monotonic(), self.raw.total

    def _next_row(self) -> int:
        """The number under which the next chunk of rows is kept: that of its last row."""
        last = self._base.execute("SELECT max(id), n FROM rows").fetchone()
        return 1 if last[0] is None else int(last[0]) + int(last[1])

    # -- rows

    def add(self, at: float, record: Record, x: np.ndarray) -> None:
        """One more row, as the monitor saw it.

        Parameters
        ----------
        at : float
            When, in seconds since 1970.
        record : Record
            What the monitor said of it.
        x : array of shape (d,)
            Its values.
        """
        with self.turn:
            values = np.concatenate([channel_values(record), x])
            event = record.event or 0
            flags = ALARM * bool(record.alarm) + LEARNED * bool(record.learned)
            self.raw.append(at=at, event=event, flags=flags, data=values)
            row = Stretch(at, values.copy(), values.copy(), values, 1)
            row.alarms, row.event = int(record.alarm), event
            row.lone = int(record.alarm and not event)
            self._join(SECOND, row)
            if time.monotonic() - self._flushed > FLUSH_EVERY:
                self.flush()

    def _join(self, width: float, part: Stretch) -> None:
        """A part of a stretch; the one before it is over where the part is of another."""
        at = np.floor(part.at / width) * width
        present = self._open.get(width)
        if present is not None and present.at == at:
            present.join(part)
            return
        if present is not None:
            self._shut(width, present)
        fresh = part.copy()
        fresh.at = float(at)
        self._open[width] = fresh

    def _shut(self, width: float, over: Stretch) -> None:
        k, mean = self.n_channels, over.mean
        self.stretches[width].append(
            at=over.at,
            n=over.n,
            alarms=over.alarms,
            lone=over.lone,
            event=over.event,
            low=over.low[:k],
            high=over.high[:k],
            mean=mean[:k],
        )
        blob = np.stack([over.low, over.high, mean]).astype(np.float32).tobytes()
        self._closed.append((width, over.at, over.n, over.alarms, over.lone, int(over.event), blob))
        coarser = {SECOND: MINUTE, MINUTE: HOUR}.get(width)
        if coarser is not None:
            self._join(coarser, over)

    def rows_between(
        self, begin: float, end: float, most: int, must: float | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Times and values of rows; where they are no longer kept, means of seconds or minutes.

        Parameters
        ----------
        begin, end : float
            In seconds.
        most : int
            So many are spread over the time where there are more.
        must : float, optional
            The time from which they are needed; earlier ones are welcome. ``begin`` by default.
        """
        must = begin if must is None else must
        with self.turn:
            at = self.raw["at"]
            wanted = np.flatnonzero((at >= begin) & (at <= end))
            wanted = wanted[evenly_spaced(len(wanted), most)]
            rows = at[wanted], self.raw["data"][wanted].astype(np.float64)
            if len(at) and at[0] <= must:
                return rows
            self.flush()
            for width in KEPT:
                first = self._base.execute(
                    "SELECT at FROM stretches WHERE width = ? ORDER BY id LIMIT 1", (width,)
                ).fetchone()
                if first is not None and first[0] <= must:
                    found = self._base.execute(
                        "SELECT at, data FROM stretches WHERE width = ? AND at > ? AND at <= ?",
                        (width, begin - width, end),
                    ).fetchall()
                    break
            else:
                return rows  # nothing reaches back so far
        found = [found[i] for i in evenly_spaced(len(found), most)]
        d = len(self.columns)
        means = [np.frombuffer(blob, np.float32).reshape(3, d)[2] for _, blob in found]
        return np.array([a for a, _ in found]), np.array(means, dtype=np.float64).reshape(-1, d)

    def usual_interval(self) -> float:
        """Seconds from row to row, of late."""
        with self.turn:
            steps = np.diff(self.raw["at"][-500:])
        return float(np.median(np.abs(steps))) if len(steps) else 1.0

    def totals(self, since: float) -> tuple[int, int, int]:
        """Rows, alarms, and alarms outside events, of the minutes since a time.

        Parameters
        ----------
        since : float
            In seconds since 1970.
        """
        with self.turn:
            minutes = self.stretches[MINUTE]
            recent = minutes["at"] >= since
            sums = [int(minutes[name][recent].sum()) for name in ("n", "alarms", "lone")]
            for width in (SECOND, MINUTE):
                part = self._open.get(width)
                if part is not None:
                    sums = [
                        a + b for a, b in zip(sums, (part.n, part.alarms, part.lone), strict=True)
                    ]
            return sums[0], sums[1], sums[2]

    # -- the log, events, facts

    def write(self, kind: str, text: str, at: float, event: int | None = None) -> None:
        """One more line of the log.

        Parameters
        ----------
        kind : str
            One word: begin, end, start and so on.
        text : str
            What happened.
        at : float
            When, in seconds since 1970.
        event : int, optional
            The event that it is about.
        """
        with self.turn, self._base as base:
            base.execute(
                "INSERT INTO log (at, kind, event, text) VALUES (?, ?, ?, ?)",
                (at, kind, event, text),
            )
            base.execute("DELETE FROM log WHERE id <= (SELECT max(id) FROM log) - ?", (LOG_LINES,))

    def log(self, most: int = 1000) -> list[Line]:
        """The last lines, the newest first.

        Parameters
        ----------
        most : int
            How many at most.
        """
        with self.turn:
            found = self._base.execute(
                "SELECT at, kind, event, text FROM log ORDER BY id DESC LIMIT ?", (most,)
            )
            return [Line(*entry) for entry in found]

    def keep_event(self, id: int, **facts: Any) -> None:
        """Facts about an event, beside those that are known.

        Parameters
        ----------
        id : int
            The number of the event.
        **facts
            What is to be known, as JSON has it.
        """
        with self.turn, self._base as base:
            known = self.event(id) or {}
            base.execute(
                "INSERT OR REPLACE INTO events VALUES (?, ?)", (id, json.dumps({**known, **facts}))
            )
            base.execute("DELETE FROM events WHERE id <= ?", (id - EVENTS,))

    def event(self, id: int) -> dict[str, Any] | None:
        """What is known about one event.

        Parameters
        ----------
        id : int
            Its number.
        """
        with self.turn:
            found = self._base.execute("SELECT facts FROM events WHERE id = ?", (id,)).fetchone()
            return None if found is None else {"id": id, **json.loads(found[0])}

    def events(self, most: int = 1000) -> list[dict[str, Any]]:
        """The last events, the newest first.

        Parameters
        ----------
        most : int
            How many at most.
        """
        with self.turn:
            found = self._base.execute(
                "SELECT id, facts FROM events ORDER BY id DESC LIMIT ?", (most,)
            )
            return [{"id": id, **json.loads(facts)} for id, facts in found]

    def fact(self, name: str, default: Any = None) -> Any:
        """Something to remember, as it was last kept.

        Parameters
        ----------
        name : str
            What it was kept as.
        default : object
            What to return where nothing was kept.
        """
        with self.turn:
            found = self._base.execute(
                "SELECT value FROM facts WHERE name = ?", (f"own {name}",)
            ).fetchone()
            return default if found is None else json.loads(found[0])

    def keep_fact(self, name: str, value: Any) -> None:
        """Remember something over a restart.

        Parameters
        ----------
        name : str
            What to keep it as.
        value : object
            As JSON has it.
        """
        with self.turn, self._base as base:
            base.execute(
                "INSERT OR REPLACE INTO facts VALUES (?, ?)", (f"own {name}", json.dumps(value))
            )

    # -- commands of other processes

    def waiting(self) -> list[tuple[int, str, dict[str, Any]]]:
        """Commands of other processes that nobody has answered: id, verb, arguments."""
        if self.folder is None:
            return []
        with self.turn:
            found = self._base.execute(
                "SELECT id, verb, arguments FROM commands WHERE state = 'waiting' ORDER BY id"
            )
            return [(id, verb, json.loads(arguments)) for id, verb, arguments in found]

    def answer(self, id: int, state: str, text: str) -> None:
        """What became of a command of another process.

        Parameters
        ----------
        id : int
            The command.
        state : str
            ``done`` or ``refused``.
        text : str
            What the process is told.
        """
        with self.turn, self._base as base:
            base.execute(
                "UPDATE commands SET state = ?, answer = ? WHERE id = ?", (state, text, id)
            )
            base.execute("DELETE FROM commands WHERE id <= ?", (id - LOG_LINES,))


def open_base(path: Path) -> sqlite3.Connection:
    """A history file, made where there is none."""
    base = sqlite3.connect(path, check_same_thread=False, timeout=10.0)
    base.execute("PRAGMA journal_mode = WAL")  # readers and the writer do not wait for each other
    base.execute("PRAGMA synchronous = NORMAL")
    base.executescript(TABLES)
    return base


@contextlib.contextmanager
def existing(folder: str | os.PathLike[str]) -> Iterator[sqlite3.Connection]:
    """The history of a folder, for a process that does not own it."""
    path = Path(folder) / FILE
    if not path.exists():
        raise FileNotFoundError(
            f"There is no history in {folder}: start 'kernelstream plant serve' with --serve "
            "or --history, which keeps one."
        )
    base = sqlite3.connect(path, timeout=10.0)
    try:
        yield base
    finally:
        base.close()


def ask(
    folder: str | os.PathLike[str], verb: str, arguments: dict[str, Any], patience: float = 10.0
) -> str:
    """Have the process that owns a history execute a command; its answer.

    Parameters
    ----------
    folder : path-like
        Of the history.
    verb : str
        Such as ``"accept"``.
    arguments : dict
        Of the verb.
    patience : float
        Seconds to wait; then the command is withdrawn.

    Raises
    ------
    TimeoutError
        Nobody answered.
    ValueError
        The monitor refused it, with the reason.
    """
    with existing(folder) as base:
        with base:
            id = base.execute(
                "INSERT INTO commands (at, verb, arguments, state) VALUES (?, ?, ?, 'waiting')",
                (time.time(), verb, json.dumps(arguments)),
            ).lastrowid
        until = time.monotonic() + patience
        while time.monotonic() < until:
            found = base.execute(
                "SELECT state, answer FROM commands WHERE id = ?", (id,)
            ).fetchone()
            if found is not None and found[0] == "done":
                return str(found[1])
            if found is not None and found[0] != "waiting":
                raise ValueError(found[1] or "The monitor was started anew: say it again.")
            time.sleep(0.05)
        with base:
            left = base.execute(
                "DELETE FROM commands WHERE id = ? AND state = 'waiting'", (id,)
            ).rowcount
    if not left:
        return "done"
    raise TimeoutError(
        f"No monitor answered within {patience:g} s, and the command was withdrawn: is one running "
        f"with the history {folder}?"
    )
