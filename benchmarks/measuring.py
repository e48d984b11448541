"""Times and captured variance, measured in the same way for every system."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from sklearn.metrics.pairwise import rbf_kernel

Scores = Callable[[np.ndarray], np.ndarray]

# Threads of BLAS go on looking for work for some 30 ms, on cores that the next one needs.
SETTLED = 0.04


def seconds_of(
    work: Callable[[], Any], clock: Callable[[], float] = time.perf_counter
) -> tuple[float, Any]:
    """How long a piece of work takes, and its result."""
    start = clock()
    result = work()
    return clock() - start, result


def brief_or_once(work: Callable[[], Any], brief: float = 2.0) -> tuple[float, Any]:
    """For curves: the shorter of two runs where a run takes less than ``brief``, else one run."""
    seconds, result = seconds_of(work)
    if seconds < brief:
        seconds = min(seconds, seconds_of(work)[0])
    return seconds, result


def interleaved(
    works: Mapping[str, Callable[[], Any]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Seconds of every repeat of every work, and the last results.

    The works take turns, and every round begins with another one: a machine that slows down for a
    while slows all of them.
    """
    names = list(works)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    results: dict[str, Any] = {}
    for repeat in range(repeats):
        first = repeat % len(names)
        for name in names[first:] + names[:first]:
            results.pop(name, None)  # two results at a time would double the memory
            time.sleep(SETTLED)
            elapsed, results[name] = seconds_of(works[name], clock)
            seconds[name].append(elapsed)
    return seconds, results


class Judge:
    """Exact centred kernel PCA of some rows, and the share of it that a system captures.

    ``captured`` is the variance of the scores over the sum of the leading exact eigenvalues. It is
    right for components that are unit vectors of the kernel's feature space, and at most 1.
    ``explained`` is the share that a regression on the scores recovers, ``tr(Qᵀ K̃ Q) / Σ λ`` with Q
    an orthonormal basis of the centred scores. It needs no feature space, so it also judges random
    features and linear PCA, whose score variances mean nothing here; it is never below
    ``captured`` where both apply, and therefore lenient towards them.
    """

    def __init__(self, rows: np.ndarray, gamma: float, components: int):
        self.rows = rows
        K = rbf_kernel(rows.astype(float), gamma=gamma)
        K -= K.mean(axis=0)
        K -= K.mean(axis=1)[:, None]
        # a fixed start, and not the constant one, which centring has removed
        start = np.random.default_rng(0).normal(size=len(K))
        values = scipy.sparse.linalg.eigsh(K, k=components, v0=start, return_eigenvectors=False)
        self.exact = float(values.sum()) / len(K)
        self._K = K.astype(np.float32)

    def captured(self, scores: Scores) -> float:
        """Variance of the scores relative to the exact one."""
        return float(scores(self.rows).astype(float).var(axis=0).sum()) / self.exact

    def captured_soundly(self, scores: Scores) -> float:
        """The same, refused where rounding has made the components longer than unit vectors."""
        share, most = self.captured(scores), self.explained(scores)
        if share > most + 1e-4:
            raise ValueError(
                f"Scores have {share:.4f} of the variance and explain {most:.4f}: the components "
                "are no unit vectors, and what they capture is not known."
            )
        return share

    def explained(self, scores: Scores) -> float:
        """Exact variance that the scores explain, relative to the best possible."""
        Y = scores(self.rows).astype(float)
        Q = scipy.linalg.orth(Y - Y.mean(axis=0)).astype(np.float32)
        return float(np.sum((self._K @ Q).astype(float) * Q)) / len(Q) / self.exact


@dataclass
class Side:
    """One of the two systems of a comparison."""

    name: str
    seconds: list[float] = field(default_factory=list)
    captured: float | None = None
    size: int | None = None

    @property
    def best(self) -> float:
        """The shortest of the repeats: what is left when nothing else disturbs."""
        return min(self.seconds) if self.seconds else float("nan")


@dataclass
class Outcome:
    """One line of the table.

    ``ratio`` is how many times faster ours is (``sense="at least"``), or how much longer than its
    floor it takes (``"within"``), or a plain value with its unit (``"below"``).
    """

    row: str
    work: str
    ours: Side
    theirs: Side
    ratio: float | None
    asked: float
    sense: str = "at least"
    unit: str = "×"
    note: str = ""

    @property
    def reached(self) -> bool | None:
        """Whether the asked ratio was reached; None when the row was not run."""
        if self.ratio is None:
            return None
        if self.sense == "at least":
            return self.ratio >= self.asked
        return self.ratio <= self.asked


def faster(row: str, work: str, ours: Side, theirs: Side, asked: float, note: str = "") -> Outcome:
    """Ours should be so many times faster."""
    return Outcome(row, work, ours, theirs, theirs.best / ours.best, asked, note=note)


def within(row: str, work: str, ours: Side, floor: Side, asked: float, note: str = "") -> Outcome:
    """Ours should take no longer than so many times its floor."""
    return Outcome(row, work, ours, floor, ours.best / floor.best, asked, "within", note=note)


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Slope of time against size, both logarithmic, over the three largest sizes."""
    return float(np.polyfit(np.log(sizes[-3:]), np.log(seconds[-3:]), 1)[0])
