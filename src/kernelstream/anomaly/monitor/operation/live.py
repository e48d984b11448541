"""A monitor in operation: rows and commands one after the other, and what they did in a history."""

from __future__ import annotations

import hashlib
import os
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from kernelstream.anomaly import Contributions, Event, KernelMonitor, Record, Records
from kernelstream.anomaly.monitor.operation import words
from kernelstream.anomaly.monitor.operation.history import HOUR, History
from kernelstream.arrays import prints_short

AT_ONCE = 64  # rows between which commands are executed, where many are given at once
LOOK_EVERY = 0.2  # seconds between two looks for commands of other processes
SILENT_FACTOR, SILENT_LEAST = 5.0, 5.0  # usual intervals, and seconds, after which silence is told
CAUSES_AFTER = 10  # rows of an event before other causes are news, and between two such news
DAYS = 7  # over which false alarms are counted
LONGEST_NOTE = 2000
VERBS = ("acknowledge", "accept", "interrupt", "pause", "resume", "service", "note")


@dataclass(frozen=True)
class Notice:
    """Something that happened.

    Attributes
    ----------
    kind : str
        ``"begin"``, ``"change"`` and ``"end"`` of an event; ``"command"``, ``"silence"``,
        ``"data"``, ``"save"``, ``"bad"``, ``"problem"``, ``"start"``, ``"stop"``.
    at : float
        When, in seconds since 1970.
    text : str
        In words.
    event : int or None
        The event that it belongs to.
    facts : dict
        For programs.
    """

    kind: str
    at: float
    text: str
    event: int | None
    facts: dict[str, Any]


@prints_short
@dataclass(frozen=True)
class Status:
    """How a monitored stream is at the moment.

    Attributes
    ----------
    word : str
        ``"normal"``, ``"alarm"``, ``"event"``, ``"no data"``, ``"ended"`` or ``"waiting"``.
    text : str
        The same in a few words: ``event 7 since 12:04``.
    learning : str
        ``"learning"``, or why nothing is learned.
    rows, bad : int
        Rows judged, and rows that were refused, since the start.
    rate : float
        Rows a second, of late.
    lag : float
        Seconds between the time stamp of the last row and its arrival; NaN where rows have none.
    saved : float or None
        When the model was last saved.
    alarms_expected, alarms_seen : float, int
        Of seven days: what alpha allows, and alarms outside events.
    record : Record or None
        The last row.
    event : Event or None
        The event that goes on.
    causes : Contributions or None
        Of the event, or of the last alarm while it lasts.
    dead, missing, out_of_service : tuple of str
        Variables that are not as they should be.
    paused : bool
        Whether learning was paused by a command.
    """

    word: str
    text: str
    learning: str
    rows: int
    bad: int
    rate: float
    lag: float
    saved: float | None
    alarms_expected: float
    alarms_seen: int
    record: Record | None
    event: Event | None
    causes: Contributions | None
    dead: tuple[str, ...]
    missing: tuple[str, ...]
    out_of_service: tuple[str, ...]
    paused: bool


class LiveMonitor:
    """A monitor with the verbs of :class:`~kernelstream.KernelMonitor`, a history, and listeners.

    One row or one command at a time, whichever thread it comes from; each command is a line of the
    log. Commands of other processes come through the folder of the history.

    Parameters
    ----------
    monitor : KernelMonitor
        A fitted one. It belongs to this object from now on.
    folder : path-like, optional
        Where the history is kept over restarts.
    history : History, optional
        In the place of ``folder``: a copy of one, to look at.
    units : mapping of name to unit, optional
        Beside units that names have in brackets, ``flow [m³/h]``.
    title : str
        What is monitored.
    clock : callable
        Gives the time in seconds.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import KernelMonitor
    >>> from kernelstream.anomaly.monitor.operation import LiveMonitor
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> live = LiveMonitor(KernelMonitor(basis=30, random_state=0).fit(X[:200]))
    >>> records = live.update_many(X[200:] + np.r_[np.zeros(70), np.full(30, 9.0)][:, None])
    >>> event = live.acknowledge()
    >>> [line.kind for line in live.history.log()][::-1]
    ['start', 'begin', 'command']
    >>> live.status().text[:7]
    'event 1'
    """

    def __init__(
        self,
        monitor: KernelMonitor,
        *,
        folder: str | os.PathLike[str] | None = None,
        history: History | None = None,
        units: Mapping[str, str] | None = None,
        title: str = "monitor",
        clock: Callable[[], float] = time.time,
    ):
        # Rows come as plain arrays here, in the order of fit; a filter for a moment would not be
        # safe in threads.
        warnings.filterwarnings("ignore", "X does not have valid feature names, but KernelMonitor")
        self.monitor, self.title, self.clock = monitor, title, clock
        names = getattr(monitor, "feature_names_in_", None)
        d = monitor.n_features_in_
        self.names = tuple(f"x{j}" for j in range(d)) if names is None else tuple(map(str, names))
        self.units = words.units_of(self.names, units)
        self.history = history or History(self.names, folder, fingerprint(monitor))
        self.turn = threading.RLock()
        self.listeners: list[Callable[[Notice], None]] = []
        self.observers: list[Callable[[Record, float, float], None]] = []  # record, lag, seconds
        self._adapt = monitor.adapt
        self._paused = bool(self.history.fact("paused", False))
        self._resting = {n for n in self.history.fact("out of service", []) if n in self.names}
        self._apply_pause()
        self._said = ""
        self._record: Record | None = None
        self._event = monitor.event_
        self._told: tuple[str, ...] = ()  # causes of the event as they were last told
        self._told_row = 0
        self._bad = self._rows = 0
        self._lag = np.nan
        self._arrived: deque[float] = deque(maxlen=200)
        self._silent, self._ended = False, False
        self._saved: float | None = None
        self._looked = -np.inf
        self._false: tuple[float, tuple[int, int, int]] = (-np.inf, (0, 0, 0))
        if history is None:
            self.tell("start", f"{title}: {monitor.n_samples_seen_:,} rows seen before")

    # -- rows

    def update(self, x: Any, time: Any = None) -> Record:
        """Judge the next row, then learn from it: as :meth:`~kernelstream.KernelMonitor.update`.

        Parameters
        ----------
        x : array of shape (d,)
            NaN where a value is missing.
        time : object, optional
            Its time stamp.
        """
        row = np.array(x, dtype=np.float64)
        return self.update_many(row[None, :], None if time is None else [time])[0]

    def update_many(self, X: Any, time: Sequence[Any] | None = None) -> Records:
        """Judge and learn rows, one after the other; commands are executed between them.

        Parameters
        ----------
        X : array of shape (n, d)
            The next rows.
        time : sequence of length n, optional
            Their time stamps.
        """
        records = Records()
        rows = np.asarray(X, dtype=np.float64)
        for start in range(0, len(rows), AT_ONCE):
            piece = slice(start, start + AT_ONCE)
            with self.turn:
                self.look()
                given = rows[piece]
                if self._resting:
                    given = given.copy()
                    given[:, [self.names.index(name) for name in self._resting]] = np.nan
                made = self._judge(given, None if time is None else list(time[piece]))
                records += made
        return records

    def _judge(self, X: np.ndarray, times: list[Any] | None) -> Records:
        began = time.perf_counter()
        if len(X) == 1:  # words as they are for one row
            made = Records([self.monitor.update(X[0], None if times is None else times[0])])
        else:
            made = self.monitor.update_many(X, times)
        spent = (time.perf_counter() - began) / len(X)
        now = self.clock()
        if self._silent:
            self._silent = False
            self.tell("data", f"data again after {words.duration(now - self._arrived[-1])}")
        for x, record in zip(X, made, strict=True):
            stamp = words.seconds_of(record.time)
            at = now if stamp is None else stamp
            self._lag = np.nan if stamp is None else now - stamp
            self._arrived.append(now)
            self._rows += 1
            self._follow_event(record, at)
            self._record = record
            self.history.add(at, record, x)
            for observe in self.observers:
                observe(record, self._lag, spent)
        return made

    def refuse(self, reason: str) -> None:
        """A row that could not be judged: counted, and told in the log.

        Parameters
        ----------
        reason : str
            In words.
        """
        with self.turn:
            self._bad += 1
            if self._bad & (self._bad - 1) == 0:  # the first, second, fourth … : no flood
                self.tell("bad", f"bad row {self._bad}: {reason}")

    def _follow_event(self, record: Record, at: float) -> None:
        """Tell where an event begins, has other causes, or ends."""
        before = self._event
        if before is not None and record.event != before.id:
            self._end_event(before.id, at)
        if record.event is None:
            self._event = None
            return
        names = tuple(name for name, *_ in words.causes(record.contributions, self.units))
        text = words.in_words(record.contributions, self.units)
        present = self.monitor.event_
        if before is None or record.event != before.id:
            self._event = event_of(self.monitor, record.event) or before
            self._told, self._told_row = names, record.row
            self._keep_event(record, at, begin=at)
            self.tell("begin", f"event {record.event}: {text}", record.event, at, record=record)
            return
        self._event = present if present is not None and present.id == record.event else before
        since = record.row - self._told_row
        if names and set(names) != set(self._told) and since >= CAUSES_AFTER:
            self._told, self._told_row = names, record.row
            text = f"event {record.event}, other causes: {text}"
            self.tell("change", text, record.event, at, record=record)
        if since % 50 == 0 or since < 3:
            self._keep_event(record, at)

    def _keep_event(self, record: Record, at: float, **facts: Any) -> None:
        assert record.event is not None
        event = event_of(self.monitor, record.event)
        if event is not None:
            facts |= dict(first_row=event.first_row, rows=event.n_rows, peak=event.peak)
            facts |= dict(acknowledged=event.acknowledged, accepted=event.accepted)
        if record.contributions is not None:
            facts["top"] = top_of(record.contributions, self.units)
            facts["direction"] = words.signed_roots(record.contributions)
        self.history.keep_event(record.event, last=at, **facts)

    def _end_event(self, id: int, at: float) -> None:
        event = event_of(self.monitor, id)
        facts: dict[str, Any] = {"end": at}
        if event is not None:
            found = self.monitor.event_contributions(event)
            facts |= dict(rows=event.n_rows, peak=event.peak, accepted=event.accepted)
            facts |= dict(top=top_of(found, self.units), direction=words.signed_roots(found))
        self.history.keep_event(id, **facts)
        known = self.history.event(id) or {}
        lasted = words.duration(at - float(known.get("begin", at)))
        rows = facts.get("rows", known.get("rows", 0))
        how = "was accepted" if facts.get("accepted") else "is over"
        counted = "1 row" if rows == 1 else f"{rows:,} rows"
        self.tell("end", f"event {id} {how} after {counted}, {lasted}", id, at)

    # -- verbs; what the page and other processes may say

    def acknowledge(self, by: str = "python") -> Event:
        """Say that the present event was seen: as :meth:`~kernelstream.KernelMonitor.acknowledge`.

        Parameters
        ----------
        by : str
            Who says so.
        """
        with self.turn:
            event = self.monitor.acknowledge()
            self._event = event
            self.history.keep_event(event.id, acknowledged=True)
            self._log_command(f"event {event.id} acknowledged", by, event.id)
        return event

    def accept(self, instead: bool = False, by: str = "python") -> Event:
        """Declare the present event normal: as :meth:`~kernelstream.KernelMonitor.accept`.

        Parameters
        ----------
        instead : bool
            In the place of what was normal before, or as well.
        by : str
            Who says so.
        """
        with self.turn:
            event = self.monitor.accept(instead=instead)
            how = "instead of what was normal" if instead else "as well"
            self.history.keep_event(event.id, accepted=True)
            self._log_command(f"event {event.id} accepted {how}", by, event.id)
            self._end_event(event.id, self._at())
            self._event = None
        return event

    def interrupt(self, by: str = "python") -> None:
        """Begin a new run: as :meth:`~kernelstream.KernelMonitor.interrupt`.

        Parameters
        ----------
        by : str
            Who says so.
        """
        with self.turn:
            self.monitor.interrupt()
            self._log_command("a new run begins", by)

    def pause(self, by: str = "python") -> None:
        """Learn nothing until :meth:`resume`; rows are judged as before.

        Parameters
        ----------
        by : str
            Who says so.
        """
        self._set_paused(True, by)

    def resume(self, by: str = "python") -> None:
        """Learn again, after :meth:`pause`.

        Parameters
        ----------
        by : str
            Who says so.
        """
        self._set_paused(False, by)

    def _set_paused(self, paused: bool, by: str) -> None:
        with self.turn:
            self._paused = paused
            self._apply_pause()
            self.history.keep_fact("paused", paused)
            self._log_command(f"learning {'paused' if paused else 'goes on'}", by)

    def _apply_pause(self) -> None:
        self.monitor.set_params(adapt="off" if self._paused else self._adapt)

    def service(self, variable: str, out: bool = True, by: str = "python") -> None:
        """Take a sensor out of service, or back: meanwhile its values count as missing.

        Parameters
        ----------
        variable : str
            Its name.
        out : bool
            Out of service, or back in it.
        by : str
            Who says so.
        """
        with self.turn:
            if variable not in self.names:
                raise ValueError(
                    f"There is no variable {variable!r}; there are {', '.join(self.names[:20])}."
                )
            (self._resting.add if out else self._resting.discard)(variable)
            self.history.keep_fact("out of service", sorted(self._resting))
            self._log_command(f"{variable} {'out of service' if out else 'back in service'}", by)

    def note(
        self, event: int, kind: str | None = None, comment: str | None = None, by: str = "python"
    ) -> None:
        """Give an event a class and a comment.

        Parameters
        ----------
        event : int
            Its number.
        kind : str, optional
            The class: what kind of event it was.
        comment : str, optional
            Anything to remember.
        by : str
            Who says so.
        """
        with self.turn:
            if self.history.event(int(event)) is None:
                raise ValueError(f"There is no event {event} in the history.")
            given = {"class": kind, "comment": comment}
            facts = {n: str(v)[:LONGEST_NOTE] for n, v in given.items() if v is not None}
            self.history.keep_event(int(event), **facts)
            told = ", ".join(f"{name}: {text}" for name, text in facts.items())
            self._log_command(f"event {event}, {told or 'nothing'} noted", by, int(event))

    def execute(self, verb: str, arguments: Mapping[str, Any], by: str) -> str:
        """A verb by its name, from a page or another process; what it did, in words.

        Parameters
        ----------
        verb : str
            One of ``VERBS``.
        arguments : mapping
            Those of the method.
        by : str
            Who says so.
        """
        if verb not in VERBS:
            raise ValueError(f"There is no command {verb!r}; there are {', '.join(VERBS)}.")
        with self.turn:
            try:
                getattr(self, verb)(**arguments, by=by)
            except TypeError as problem:
                raise ValueError(f"{verb}: {problem}") from problem
            return self._said

    def _log_command(self, text: str, by: str, event: int | None = None) -> None:
        self._said = text
        self.tell("command", f"{text} (by {by})", event)

    # -- beside the rows

    def look(self) -> None:
        """Execute commands of other processes; notice silence. Call it where no rows come."""
        now = time.monotonic()
        if now - self._looked < LOOK_EVERY:
            return
        with self.turn:
            self._looked = now
            for id, verb, arguments in self.history.waiting():
                by = str(arguments.pop("by", "another process"))
                try:
                    self.history.answer(id, "done", self.execute(verb, arguments, by))
                except ValueError as problem:
                    self.history.answer(id, "refused", str(problem))
            self._notice_silence()

    def _notice_silence(self) -> None:
        if self._silent or self._ended or len(self._arrived) < 2:
            return
        silence = self.clock() - self._arrived[-1]
        if silence > max(SILENT_FACTOR * self._usual_interval(), SILENT_LEAST):
            self._silent = True
            since = words.clock(self._arrived[-1], self.clock())
            self.tell("silence", f"no data since {since}")
            self.history.flush()

    def _usual_interval(self) -> float:
        return float(np.median(np.diff(np.array(self._arrived))))

    def tell(
        self,
        kind: str,
        text: str,
        event: int | None = None,
        at: float | None = None,
        record: Record | None = None,
    ) -> None:
        """A line of the log, handed to the listeners.

        Parameters
        ----------
        kind, text : str
            As in :class:`Notice`.
        event : int, optional
            What it belongs to.
        at : float, optional
            When; now, where it is not given.
        record : Record, optional
            The row that it is about.
        """
        at = self._at() if at is None else at
        facts: dict[str, Any] = {"title": self.title}
        if record is not None:
            facts |= dict(row=record.row, time=str(record.time), index=record.index)
            facts["top"] = (
                [] if record.contributions is None else top_of(record.contributions, self.units)
            )
        self.history.write(kind, text, at, event)
        for listen in self.listeners:
            listen(Notice(kind, at, text, event, facts))

    def _at(self) -> float:
        """Now, on the clock of the rows."""
        return self.clock() - (0.0 if np.isnan(self._lag) else self._lag)

    def save(
        self, path: str | os.PathLike[str], write: Callable[[Path], None] | None = None
    ) -> None:
        """Write the model; a pause is not a property of the model, and stays out of it.

        Parameters
        ----------
        path : path-like
            Where to.
        write : callable, optional
            Writes it, in the place of ``monitor.save``.
        """
        with self.turn:
            self.monitor.set_params(adapt=self._adapt)
            try:
                (self.monitor.save if write is None else write)(Path(path))
            finally:
                self._apply_pause()
            self._saved = self.clock()

    def end(self) -> None:
        """The stream has ended: nobody waits for more rows."""
        with self.turn:
            self._ended = True
            self.tell("stop", "the stream has ended")
            self.history.flush()

    def close(self) -> None:
        """Write the rest of the history."""
        self.history.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    # -- how it is

    def status(self) -> Status:
        """How the stream is at the moment."""
        with self.turn:
            now, record, event = self.clock(), self._record, self._event
            rows, _, lone = self._false_alarms(now)
            dead = () if record is None else record.dead
            missing = () if record is None else record.missing
            word, text = self._state(now)
            arrived = list(self._arrived)
            spent = (now if self._silent else arrived[-1]) - arrived[0] if len(arrived) > 1 else 0.0
            return Status(
                word=word,
                text=text,
                learning=self._learning(),
                rows=self._rows,
                bad=self._bad,
                rate=(len(arrived) - 1) / spent if spent > 0 and not self._ended else 0.0,
                lag=self._lag,
                saved=self._saved,
                alarms_expected=self.monitor.alpha_ * rows,
                alarms_seen=lone,
                record=record,
                event=event,
                causes=None if record is None else record.contributions,
                dead=tuple(n for n in dead if n not in self._resting),
                missing=tuple(n for n in missing if n not in self._resting),
                out_of_service=tuple(sorted(self._resting)),
                paused=self._paused,
            )

    def _false_alarms(self, now: float) -> tuple[int, int, int]:
        if now - self._false[0] > 2.0:
            self._false = now, self.history.totals(self._at() - DAYS * 24 * HOUR)
        return self._false[1]

    def _state(self, now: float) -> tuple[str, str]:
        if self._record is None:
            return "waiting", "waiting for the first row"
        if self._silent:
            return "no data", f"no data since {words.clock(self._arrived[-1], now)}"
        if self._event is not None:
            begin = (self.history.event(self._event.id) or {}).get("begin", self._at())
            seen = ", acknowledged" if self._event.acknowledged else ""
            return "event", f"event {self._event.id} since {words.clock(begin, self._at())}{seen}"
        if self._ended:
            return "ended", "the stream has ended"
        return ("alarm", "alarm") if self._record.alarm else ("normal", "normal")

    def _learning(self) -> str:
        if self._adapt == "off":
            return "learning is off"
        if self._paused:
            return "learning paused"
        if self._resting:
            return f"learning paused: {listed(sorted(self._resting))} out of service"
        if self._record is not None and self._record.dead:
            return f"learning paused: {listed(self._record.dead)} dead"
        if self._record is not None and self._record.missing:
            return f"learning paused: {listed(self._record.missing)} missing"
        return "learning paused: event" if self._event is not None else "learning"


def listed(names: Iterable[str]) -> str:
    """A few names, and how many more."""
    names = list(names)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def event_of(monitor: KernelMonitor, id: int) -> Event | None:
    """An event by its number: the present one, or one that is over."""
    present = monitor.event_
    if present is not None and present.id == id:
        return present
    return next((event for event in reversed(monitor.events_) if event.id == id), None)


def top_of(found: Contributions, units: Mapping[str, str]) -> list[dict[str, Any]]:
    """The leading variables, ready for JSON."""
    return [
        {"variable": name, "share": round(share, 4), "size": off, "text": text}
        for name, share, off, text in words.causes(found, units, 5)
    ]


def fingerprint(monitor: KernelMonitor) -> str:
    """What tells one fitted model from another: it does not change along the stream."""
    digest = hashlib.sha256(np.asarray(monitor.mean_).tobytes())
    digest.update(np.asarray(monitor.scale_).tobytes())
    return digest.hexdigest()[:16]
