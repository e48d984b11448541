"""Lagged rows, and the running standardisation and whitening that comes before the kernel.

On standardised variables every method stalls: neighbouring variables carry the same noise, and a
fault that breaks their agreement is small in each of them. So rows are whitened first. The matrix
is ``diag(1/σ) P^{-1/2}`` with σ the deviations and P the correlations (ZCA): unlike principal axes
it moves continuously when the covariance moves, and a change of scale alone leaves the whitened
rows as they were. So the points of the kernel model may stay where they are while the process
drifts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernelstream.backends.arrays import symmetric_eigen, weighted_sum
from kernelstream.files import stored
from kernelstream.monitor.products import rows_times
from kernelstream.stream.chain import forget
from kernelstream.trackers import Covariance, Moments
from kernelstream.trackers.covariance import CovarianceState

Product = Callable[[np.ndarray, np.ndarray], np.ndarray]
TRACKER = Covariance()
NO_SPREAD = 1e-12  # variance, in units of the reference, below which a column is constant


@stored
@dataclass(frozen=True)
class Gathered:
    """Weight, sum and scatter of rows: mean and covariance, with forgetting."""

    moments: Moments
    scatter: CovarianceState
    squares: float  # Σ w², for the number of rows that the weights are worth

    @classmethod
    def of(cls, rows: np.ndarray) -> Gathered:
        """The moments of a set of rows."""
        width = rows.shape[1]
        nothing = Moments(0.0, np.zeros(width))
        return cls(nothing, TRACKER.begin(width, None, rows), 0.0).learn(rows, 1.0)

    def learn(self, rows: np.ndarray, forgetting: float) -> Gathered:
        """Add rows; what is older fades by ``forgetting`` a row."""
        clock, faded = forget(forgetting, len(rows), None, 0, 0)
        added = float(len(rows)) if faded is None else float(faded.sum())
        moments = Moments(
            self.moments.weight * clock.decay + added,
            self.moments.total * clock.decay + weighted_sum(rows, faded),
        )
        older = TRACKER.decay(self.scatter, clock.decay)
        squares = self.squares * clock.decay**2
        squares += float(len(rows)) if faded is None else float((faded**2).sum())
        return Gathered(moments, TRACKER.update(older, rows, faded, ()), squares)

    def moved_to(self, mean: np.ndarray) -> Gathered:
        """The same covariance about another mean."""
        weight = self.moments.weight
        scatter = weight * (self.covariance + np.outer(mean, mean))
        return Gathered(Moments(weight, weight * mean), CovarianceState(scatter), self.squares)

    @property
    def n_effective(self) -> float:
        """Rows of equal weight that would know as much, (Σw)²/Σw² (Kish)."""
        return self.moments.weight**2 / self.squares

    @property
    def mean(self) -> np.ndarray:
        """Mean of the rows."""
        return self.moments.mean

    @property
    def covariance(self) -> np.ndarray:
        """Covariance of the rows."""
        mean = self.mean
        C = self.scatter.scatter / self.moments.weight - np.outer(mean, mean)
        return (C + C.T) / 2


@stored
@dataclass(frozen=True)
class Scaling:
    """``u = (r − mean) W``: how a lagged row reaches the kernel.

    ``axes`` are the leading directions of the correlations (those above the average eigenvalue),
    kept to compare a later subspace with.
    """

    mean: np.ndarray  # (D,)
    deviation: np.ndarray  # (D,)
    whitener: np.ndarray  # (D, D), diag(1/σ) P^{-1/2}
    axes: np.ndarray  # (D, k)

    @classmethod
    def of(cls, gathered: Gathered, whiten: bool, floor: float) -> Scaling:
        """Whitening from moments; eigenvalues below ``floor`` (their mean is 1) are raised."""
        C = gathered.covariance
        variance = np.diag(C)
        deviation = np.sqrt(np.where(variance > NO_SPREAD, variance, 1.0))
        P = C / np.outer(deviation, deviation)
        np.fill_diagonal(P, 1.0)  # a constant column keeps its unit
        values, vectors = symmetric_eigen(P)
        axes = vectors[:, values > 1.0]
        if whiten:
            root = (vectors / np.sqrt(np.maximum(values, floor))) @ vectors.T
        else:
            root = np.eye(len(values))
        whitener = np.ascontiguousarray(root / deviation[:, None])
        return cls(gathered.mean, deviation, whitener, np.ascontiguousarray(axes))

    def apply(self, R: np.ndarray, product: Product = rows_times) -> np.ndarray:
        """Whitened rows."""
        return product(R - self.mean, self.whitener)

    def pull_back(self, G: np.ndarray, product: Product = rows_times) -> np.ndarray:
        """Gradients with respect to whitened rows as gradients with respect to lagged rows."""
        return product(G, self.whitener.T)


def lagged(before: np.ndarray, Z: np.ndarray, lags: int) -> np.ndarray:
    """Each row followed by the ``lags`` rows before it: ``[z_t, z_{t-1}, …]``.

    ``before`` holds the rows that came earlier, the latest last; where there are none, the first
    row of ``Z`` stands in for them.

    Examples
    --------
    >>> import numpy as np
    >>> lagged(np.empty((0, 1)), np.array([[1.0], [2.0], [3.0]]), 1)
    array([[1., 1.],
           [2., 1.],
           [3., 2.]])
    """
    if lags == 0:
        return np.ascontiguousarray(Z)
    first = before[:1] if len(before) else Z[:1]
    filled = np.repeat(first, max(lags - len(before), 0), axis=0)
    P = np.vstack([filled, before[-lags:], Z])
    return np.hstack([P[lags - lag : lags - lag + len(Z)] for lag in range(lags + 1)])
