"""A fleet: one stream with the rows of many machines, a monitor for each, one log of events."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import quote, unquote

import numpy as np

from kernelstream.anomaly.monitor.estimator import KernelMonitor
from kernelstream.anomaly.monitor.records import Event, Record, Records
from kernelstream.anomaly.monitor.sensors import SensorEvent
from kernelstream.estimators import load

ENDING = ".safetensors"
SHARED = f"shared by all{ENDING}"  # no machine has that file: a blank in its name is written %20


class OfMachine(NamedTuple):
    """A record or an event, and the machine that it belongs to.

    Attributes
    ----------
    machine : str
        The key of the machine.
    what : Record, Event or SensorEvent
        What is said of it.
    """

    machine: str
    what: Any


class MonitorFleet:
    """A monitor for each machine, from one stream of rows with their keys.

    Each is a :class:`~kernelstream.KernelMonitor` with limits, lags and events of its own, and
    adapts on its own.

    Parameters
    ----------
    monitor : KernelMonitor, optional
        Whose parameters the monitors have; the defaults where none is given.
    shared : bool
        Whether normal operation is learned once, from the rows of all machines. A machine that is
        new then begins with that. Else each has a model of its own rows, and a new one is refused.

    Attributes
    ----------
    monitors_ : dict
        The monitor of each machine.
    events_ : tuple of (machine, Event)
        One log: the events of all machines in the order in which they began, also those that go on.
    sensor_events_ : tuple of (machine, SensorEvent)
        The same of sensors that were out of service.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import KernelMonitor
    >>> from kernelstream.anomaly import MonitorFleet
    >>> rng = np.random.default_rng(0)
    >>> machine = np.tile(["press", "mill"], 400)  # their rows take turns
    >>> X = rng.normal(size=(800, 3)) + 9.0 * (machine == "mill")[:, None]
    >>> fleet = MonitorFleet(KernelMonitor(basis=30, random_state=0)).fit(X[:600], machine[:600])
    >>> X[700:, 1] += 6.0 * (machine[700:] == "mill")  # a sensor of the mill breaks
    >>> records = fleet.update_many(X[600:], machine[600:])
    >>> [(name, event.first_row) for name, event in fleet.events_]
    [('mill', 50)]
    >>> records[-1].machine, records[-1].what.alarm
    ('mill', True)
    """

    def __init__(self, monitor: KernelMonitor | None = None, *, shared: bool = False):
        self.monitor = KernelMonitor() if monitor is None else monitor
        self.shared = shared
        self.monitors_: dict[str, KernelMonitor] = {}
        self.shared_: KernelMonitor | None = None

    def fit(self, X: Any, machines: Iterable[Any]) -> Self:
        """Learn normal operation of every machine.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            Rows of normal operation in the order of time, those of the machines among each other.
        machines : iterable of length n
            The machine of each row.
        """
        names = _names(machines, len(X))
        kinds = list(dict.fromkeys(names))
        rows = {name: _rows(X, [i for i, n in enumerate(names) if n == name]) for name in kinds}
        if self.shared:
            one = copy.deepcopy(self.monitor).fit(_apart(list(rows.values())))
            _name_columns(one, X)
            self.shared_ = one
            self.monitors_ = {name: copy.copy(one) for name in kinds}
            return self
        monitors = {}
        for name in kinds:
            try:
                monitors[name] = copy.deepcopy(self.monitor).fit(rows[name])
            except ValueError as problem:
                raise ValueError(f"The rows of {name!r}: {problem}") from problem
        self.monitors_, self.shared_ = monitors, None
        return self

    def update(self, x: Any, machine: Any, time: Any = None) -> Record:
        """Judge the next row of a machine, then learn from it.

        Parameters
        ----------
        x : array or Series of shape (d,)
            The row; NaN where a value is missing.
        machine : object
            Its machine.
        time : object, optional
            Its time stamp; the number of the row in the whole stream where none is given.
        """
        monitor = self.of(machine)
        stamp = self.n_samples_seen_ if time is None else time
        record = monitor.update(x, time=stamp)
        self.monitors_[str(machine)] = monitor
        return record

    def update_many(
        self, X: Any, machines: Iterable[Any], time: Sequence[Any] | None = None
    ) -> list[OfMachine]:
        """Judge and learn rows of several machines, as if one after the other.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            The next rows of the stream. If one is refused, none of any machine is learned.
        machines : iterable of length n
            The machine of each row.
        time : sequence of length n, optional
            Their time stamps.

        Returns
        -------
        list of (machine, Record)
            In the order of the rows.
        """
        names = _names(machines, len(X))
        first = self.n_samples_seen_
        stamps = list(range(first, first + len(names))) if time is None else list(time)
        if len(stamps) != len(names):
            raise ValueError(f"There are {len(stamps)} time stamps for {len(names)} rows.")
        after: dict[str, KernelMonitor] = {}
        found: dict[int, OfMachine] = {}
        for name in dict.fromkeys(names):
            own = [i for i, n in enumerate(names) if n == name]
            after[name] = copy.copy(self.of(name))
            made: Records = after[name].update_many(_rows(X, own), [stamps[i] for i in own])
            found |= {i: OfMachine(name, record) for i, record in zip(own, made, strict=True)}
        self.monitors_ |= after
        return [found[i] for i in range(len(names))]

    def of(self, machine: Any) -> KernelMonitor:
        """The monitor of a machine; of a new one a copy of the shared one.

        Parameters
        ----------
        machine : object
            Its name, or what is written as its name.
        """
        name = str(machine)
        if name in self.monitors_:
            return self.monitors_[name]
        if self.shared_ is None:
            known = ", ".join(map(repr, list(self.monitors_)[:8])) or "none: call fit first"
            raise ValueError(
                f"There is no monitor of {name!r}; known are {known}. With shared=True a new "
                "machine begins with what all have in common."
            )
        return copy.copy(self.shared_)

    @property
    def n_samples_seen_(self) -> int:
        """Rows of the stream that were judged, of all machines."""
        return sum(monitor.n_samples_seen_ for monitor in self.monitors_.values())

    @property
    def events_(self) -> tuple[OfMachine, ...]:
        """Events of all machines in the order in which they began, also those that go on."""
        events: list[OfMachine] = []
        for name, monitor in self.monitors_.items():
            present: Event | None = monitor.event_
            own = (*monitor.events_, *(() if present is None else (present,)))
            events += [OfMachine(name, event) for event in own]
        return tuple(sorted(events, key=_beginning))

    @property
    def sensor_events_(self) -> tuple[OfMachine, ...]:
        """Sensors of all machines that are or were out of service, in the order of time."""
        events = [
            OfMachine(name, event)
            for name, monitor in self.monitors_.items()
            for event in monitor.sensor_events_
        ]
        return tuple(sorted(events, key=_beginning))

    def save(self, folder: Any) -> None:
        """Write a model file for each machine, and one for what is shared.

        Parameters
        ----------
        folder : path
            Made where it is not there.
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        for name, monitor in self.monitors_.items():
            monitor.save(place / f"{quote(name, safe='')}{ENDING}")
        if self.shared_ is not None:
            self.shared_.save(place / SHARED)

    @classmethod
    def load(cls, folder: Any) -> MonitorFleet:
        """The fleet in a folder that ``save`` wrote.

        Parameters
        ----------
        folder : path
            With a model file for each machine.
        """
        files = sorted(Path(folder).glob(f"*{ENDING}"))
        if not files:
            raise ValueError(f"{folder} has no file {'*' + ENDING}: no fleet was saved there.")
        fleet = cls(shared=any(file.name == SHARED for file in files))
        for file in files:
            monitor = load(file)
            if not isinstance(monitor, KernelMonitor):
                raise ValueError(f"{file} holds a {type(monitor).__name__}, and no monitor.")
            fleet.monitor = monitor
            if file.name == SHARED:
                fleet.shared_ = monitor
            else:
                fleet.monitors_[unquote(file.name.removesuffix(ENDING))] = monitor
        return fleet


def _names(machines: Iterable[Any], n: int) -> list[str]:
    names = [str(machine) for machine in machines]
    if len(names) != n:
        raise ValueError(f"There are {len(names)} machines for {n} rows.")
    return names


def _rows(X: Any, which: list[int]) -> Any:
    return X.iloc[which] if hasattr(X, "iloc") else np.asarray(X)[which]


def _apart(runs: list[Any]) -> np.ndarray:
    """Runs one after the other, a row of missing values between: no row has another's past."""
    parts: list[np.ndarray] = []
    for run in runs:
        rows = np.asarray(run, dtype=np.float64)
        parts += [rows, np.full((1, rows.shape[1]), np.nan)]
    return np.vstack(parts[:-1])


def _name_columns(monitor: KernelMonitor, X: Any) -> None:
    if hasattr(X, "columns"):
        monitor.feature_names_in_ = np.array([str(name) for name in X.columns], dtype=object)


def _beginning(entry: OfMachine) -> tuple[bool, Any]:
    """Events are in the order of their first time stamps, texts after numbers."""
    first: Event | SensorEvent = entry.what
    return isinstance(first.first_time, str), first.first_time
