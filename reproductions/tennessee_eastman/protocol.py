"""How the Tennessee Eastman runs are scored: the same protocol for our monitor and for its peers.

Train on ``d00``; limits from ``d00_te`` where nothing else is said; detection (FDR) on rows 161 to
960 of ``d01_te`` … ``d21_te``, false alarms (FAR) on the first 160 rows of each. "18" leaves out
the faults 3, 9 and 15, which nobody detects. The delay is the number of rows from the fault's start
to the first of three alarms in a row.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from kernelstream import KernelMonitor
from kernelstream.anomaly.monitor.limits import Reference, smooth_all

Rows = np.ndarray
Runs = dict[str, np.ndarray]
START = 160  # rows before the fault
FAULTS = range(1, 22)
DETECTABLE = [fault for fault in FAULTS if fault not in (3, 9, 15)]
SHOWN = (5, 19, 16, 10, 11, 20, 21)  # faults on which methods differ
IN_A_ROW = 3


def runs_of(archive: dict[str, np.ndarray], faults: range = FAULTS) -> Runs:
    """The runs in float64."""
    names = ["d00", "d00_te", *(f"d{fault:02d}_te" for fault in faults)]
    return {name: archive[name].astype(float) for name in names}


def faulty(runs: Runs) -> dict[int, np.ndarray]:
    """The test runs with a fault, by its number."""
    return {
        int(name[1:3]): X for name, X in runs.items() if name.endswith("_te") and name != "d00_te"
    }


def rates(alarms_of: Callable[[Rows], np.ndarray], runs: Runs) -> dict[str, Any]:
    """Detection, false alarms and delays, from the alarms of every run."""
    detection, false_alarms, delays = {}, [], {}
    for fault, X in faulty(runs).items():
        alarms = np.asarray(alarms_of(X), dtype=bool)
        false_alarms.append(alarms[:START].mean())
        after = alarms[START:]
        detection[fault] = 100 * float(after.mean())
        lasting = np.flatnonzero(np.convolve(after, np.ones(IN_A_ROW), "valid") == IN_A_ROW)
        delays[fault] = int(lasting[0]) if len(lasting) else len(after)
    judged = [fault for fault in detection if fault in DETECTABLE]
    waits = [delays[fault] for fault in judged]
    return {
        "fdr": float(np.mean([detection[fault] for fault in judged])),
        "far": 100 * float(np.mean(false_alarms)),
        "delay_mean": float(np.mean(waits)),
        "delay_median": float(np.median(waits)),
        "missed": int(sum(delays[fault] == len(runs["d00_te"]) - START for fault in judged)),
        "by_fault": {str(fault): value for fault, value in detection.items()},
    }


def over_limit(
    score: Callable[[Rows], np.ndarray], runs: Runs, smoothing: float = 1.0, alpha: float = 0.01
) -> Callable[[Rows], np.ndarray]:
    """Alarms of a peer: scores, perhaps smoothed, over a limit of ``d00_te``, as for our index."""
    plain = score(runs["d00_te"])
    known = Reference.of(plain)

    def path(values: np.ndarray) -> np.ndarray:
        if smoothing == 1.0:
            return values
        return smooth_all(known.mean, values, known, smoothing)

    limit = Reference.of(path(plain)).limit(alpha)
    return lambda X: path(score(X)) > limit


def by_index(monitor: KernelMonitor) -> Callable[[Rows], np.ndarray]:
    """Alarms of the plain index of a frozen monitor, each row by itself."""
    plain = copy.copy(monitor).set_params(smooth=None)
    return lambda X: plain.predict(X) == -1


def by_stream(monitor: KernelMonitor) -> Callable[[Rows], np.ndarray]:
    """Alarms of the records: each run is followed by a fresh copy of the monitor."""
    return lambda X: copy.copy(monitor).update_many(X).column("alarm")
