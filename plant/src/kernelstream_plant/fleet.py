"""Fleet: one monitor per machine; fit from one stream of rows, save and load."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np

from kernelstream import load
from kernelstream.anomaly import Event, KernelMonitor

ENDING = ".safetensors"
SHARED = f"shared by all{ENDING}"  # no machine has that file: a blank in its name is written %20


class MonitorFleet(dict[str, KernelMonitor]):
    """The monitors of machines, by name.

    Each is a :class:`~kernelstream.KernelMonitor` with limits, lags and events of its own, and
    adapts on its own.

    Parameters
    ----------
    monitors : mapping of name to KernelMonitor, optional
        Of the machines that are known.
    shared : KernelMonitor, optional
        A new machine begins with a copy of it. Without it, a new machine raises ValueError.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import KernelMonitor
    >>> from kernelstream_plant import MonitorFleet
    >>> rng = np.random.default_rng(0)
    >>> machine = np.tile(["press", "mill"], 400)  # their rows take turns
    >>> X = rng.normal(size=(800, 3)) + 9.0 * (machine == "mill")[:, None]
    >>> monitor = KernelMonitor(basis=30, random_state=0)
    >>> fleet = MonitorFleet.fit(monitor, X[:600], machine[:600])
    >>> X[700:, 1] += 6.0 * (machine[700:] == "mill")  # a sensor of the mill breaks
    >>> for x, name in zip(X[600:], machine[600:]):
    ...     record = fleet[name].update(x)
    >>> [(name, event.first_row) for name, event in fleet.events]
    [('mill', 50)]
    """

    def __init__(
        self,
        monitors: Mapping[str, KernelMonitor] | None = None,
        shared: KernelMonitor | None = None,
    ):
        super().__init__(monitors or {})
        self.shared = shared

    @classmethod
    def fit(
        cls, monitor: KernelMonitor, X: Any, machines: Iterable[Any], shared: bool = False
    ) -> MonitorFleet:
        """Learn normal operation of every machine.

        Parameters
        ----------
        monitor : KernelMonitor
            Whose parameters the monitors have.
        X : array or DataFrame of shape (n, d)
            Rows of normal operation in the order of time, those of the machines among each other.
        machines : iterable of length n
            The machine of each row.
        shared : bool
            Whether normal operation is learned once, from the rows of all machines. Otherwise each
            machine has a model of its own rows.
        """
        names = np.array([str(machine) for machine in machines], dtype=object)
        if len(names) != len(X):
            raise ValueError(f"There are {len(names)} machines for {len(X)} rows.")
        rows = {}
        for name in dict.fromkeys(names):
            own = np.flatnonzero(names == name)
            rows[name] = X.iloc[own] if hasattr(X, "iloc") else np.asarray(X)[own]
        if shared:
            one = copy.deepcopy(monitor).fit(_separated(list(rows.values())))
            if hasattr(X, "columns"):
                one.feature_names_in_ = np.array([str(name) for name in X.columns], dtype=object)
            return cls({name: copy.copy(one) for name in rows}, one)
        fleet = cls()
        for name, own_rows in rows.items():
            try:
                fleet[name] = copy.deepcopy(monitor).fit(own_rows)
            except ValueError as problem:
                raise ValueError(f"The rows of {name!r}: {problem}") from problem
        return fleet

    def __missing__(self, machine: str) -> KernelMonitor:
        if self.shared is None:
            known = ", ".join(map(repr, list(self)[:8])) or "none"
            raise ValueError(
                f"There is no monitor of {machine!r}; known are {known}. With shared=True a new "
                "machine begins with what all have in common."
            )
        self[machine] = copy.copy(self.shared)
        return self[machine]

    @property
    def events(self) -> list[tuple[str, Event]]:
        """Machines and events in the order in which these began, also those that go on."""
        found = []
        for name, monitor in self.items():
            present = () if monitor.event_ is None else (monitor.event_,)
            found += [(name, event) for event in (*monitor.events_, *present)]
        # Time stamps that are texts come after numbers.
        return sorted(found, key=lambda e: (isinstance(e[1].first_time, str), e[1].first_time))

    def save(self, folder: Any) -> None:
        """Write a model file for each machine, and one for the shared model.

        Parameters
        ----------
        folder : path
            Made where it is not there.
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        for name, monitor in self.items():
            monitor.save(place / f"{quote(name, safe='')}{ENDING}")
        if self.shared is not None:
            self.shared.save(place / SHARED)

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
        fleet = cls()
        for file in files:
            monitor = load(file)
            if not isinstance(monitor, KernelMonitor):
                raise ValueError(f"{file} holds a {type(monitor).__name__}, and no monitor.")
            if file.name == SHARED:
                fleet.shared = monitor
            else:
                fleet[unquote(file.name.removesuffix(ENDING))] = monitor
        return fleet


def _separated(runs: list[Any]) -> np.ndarray:
    """Sequences one after the other, a row of missing values between: lags do not cross."""
    parts: list[np.ndarray] = []
    for run in runs:
        rows = np.asarray(run, dtype=np.float64)
        parts += [rows, np.full((1, rows.shape[1]), np.nan)]
    return np.vstack(parts[:-1])
