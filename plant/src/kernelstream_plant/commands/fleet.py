"""Option ``--by``: one monitor per machine from a key column, combined log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kernelstream import KernelMonitor
from kernelstream.cli import MODEL, USAGE, CommandError, RowScorer, read_monitor
from kernelstream.tables import LiveRow
from kernelstream_plant.fleet import MonitorFleet


def open_fleet(path: Path) -> MonitorFleet:
    """The fleet in a folder, or one that shares the monitor in a file."""
    if path.is_dir():
        try:
            return MonitorFleet.load(path)
        except ValueError as problem:
            raise CommandError(MODEL, str(problem)) from problem
    return MonitorFleet(shared=read_monitor(path))


class FleetScorer(RowScorer):
    """One scorer for each machine, and the log of all in one stream of lines."""

    takes_missing = True

    def __init__(self, fleet: MonitorFleet, by: str, make: Callable[[KernelMonitor], Any]):
        self.fleet, self.by, self.make = fleet, by, make
        self.scorers = {name: make(monitor) for name, monitor in fleet.items()}
        any_one = fleet.shared or next(iter(fleet.values()))
        names = getattr(any_one, "feature_names_in_", None)
        self.names = None if names is None else tuple(map(str, names))
        self.n_features = int(any_one.n_features_in_)

    def score(self, row: LiveRow) -> dict[str, Any]:
        """The score of a row by the monitor of its machine."""
        machine = row.kept.get(self.by)
        if machine is None or machine == "":
            raise ValueError(f"there is no value for {self.by!r}, which names the machine")
        name = str(machine)
        if name not in self.scorers:
            self.scorers[name] = self.make(self.fleet[name])
        score: dict[str, Any] = self.scorers[name].score(row)
        return score

    def save(self, path: Path, position: dict[str, Any] | None = None) -> None:
        """Write the monitors with their adaptive states."""
        self.fleet.save(path)


def require_folder(path: Path) -> None:
    """Raise where a fleet is to be written over a file, or over another fleet."""
    if path.is_dir():
        raise CommandError(USAGE, f"{path} is there already: name another folder with -o.")
    if path.is_file():
        raise CommandError(
            USAGE, f"A fleet is saved as a folder, and {path} is a file: name one with -o."
        )


def fit_fleet(
    monitor: KernelMonitor, rows: np.ndarray, keys: list[Any], shared: bool
) -> MonitorFleet:
    """Learn normal operation; a bad row, of nobody knows which machine, is a gap in all of them."""
    machines = list(dict.fromkeys(str(key) for key in keys if key is not None))
    if not machines:
        raise ValueError("no row says which machine it is from")
    which, names = [], []
    for i, key in enumerate(keys):
        own = machines if key is None else [str(key)]
        which += [i] * len(own)
        names += own
    return MonitorFleet.fit(monitor, rows[which], names, shared)
