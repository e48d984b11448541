"""Sensors that are silent: values that are missing, and values that no longer move."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve

from kernelstream.files import stored

LEAST_RUN = 20  # equal values in a row before a sensor can be called dead
GLITCH_FACTOR = 10.0  # by which a few rows may raise the deviation of a sensor
RUN_FACTOR = 3  # … and times the longest such run in normal operation


def fill_missing(row: np.ndarray, mean: np.ndarray, covariance: np.ndarray, floor: float):
    """A lagged row with its missing values at their conditional mean given the present ones.

    ``μ_m + C_mp (C_pp + floor·diag)⁻¹ (r_p − μ_p)``: what a normal row with these present values
    would have had, if normal rows filled an ellipsoid (follow.py: ``most_normal``).

    Examples
    --------
    >>> import numpy as np
    >>> C = np.array([[1.0, 0.9], [0.9, 1.0]])
    >>> fill_missing(np.array([2.0, np.nan]), np.zeros(2), C, 0.0)
    array([2. , 1.8])
    """
    missing = np.isnan(row)
    filled = row.copy()
    present = ~missing
    if not present.any():
        return mean.copy()
    C = covariance[np.ix_(present, present)]
    spread = np.diag(C)
    C = C + np.diag(floor * spread + np.where(spread > 0, 0.0, 1.0))
    weights = solve(C, row[present] - mean[present], assume_a="pos")
    filled[missing] = mean[missing] + covariance[np.ix_(missing, present)] @ weights
    return filled


def glitches(x: np.ndarray) -> int:
    """How many values of a sensor, at most one in a hundred, are most of its deviation.

    Without them it would be a tenth of what it is. None where the others do not move: a valve that
    opens rarely has no glitches.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=500)
    >>> x[7] = -9999.0
    >>> glitches(x)
    1
    """
    apart = np.sort(np.abs(x / 2 - np.median(x) / 2))  # halves: a difference may overflow
    others = _root_mean_square(apart[: -max(1, len(x) // 100)])
    if others == 0.0 or _root_mean_square(apart) < GLITCH_FACTOR * others:
        return 0
    return int(np.sum(apart > GLITCH_FACTOR * others))


def _root_mean_square(values: np.ndarray) -> float:
    largest = float(values.max())  # whose square may be too large, and that of others too small
    return largest * float(np.sqrt(np.mean((values / largest) ** 2))) if largest else 0.0


@stored
@dataclass(frozen=True)
class Sensors:
    """The last value of each sensor, and for how many rows it has not moved."""

    last: np.ndarray  # (d,) NaN before the first value
    run: np.ndarray  # (d,) rows with this value
    longest: np.ndarray  # (d,) the longest run in normal operation; 0 for a constant column

    @classmethod
    def of(cls, X: np.ndarray, constant: np.ndarray) -> Sensors:
        """Learn from normal rows how long each sensor may stand still."""
        d = X.shape[1]
        longest, run, last = np.zeros(d, dtype=np.int64), np.zeros(d, dtype=np.int64), X[0] * np.nan
        for row in X:
            last, run = _advance(last, run, row)
            longest = np.maximum(longest, run)
        still = np.zeros(d, dtype=np.int64)
        return cls(X[0] * np.nan, still, np.where(constant, 0, longest))

    def see(self, row: np.ndarray) -> tuple[Sensors, np.ndarray]:
        """The sensors after one more row, and which of them are dead. Missing values say nothing.

        Columns that were constant in normal operation are not watched.
        """
        last, run = _advance(self.last, self.run, row)
        dead = (self.longest > 0) & (run > np.maximum(LEAST_RUN, RUN_FACTOR * self.longest))
        return Sensors(last, run, self.longest), dead


def _advance(last: np.ndarray, run: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    present = ~np.isnan(row)
    run = np.where(present, np.where(row == last, run + 1, 1), run)
    return np.where(present, row, last), run
