"""Sensors: values that are missing, that no longer move, or that are glitches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from scipy.linalg import solve

from kernelstream.files import stored
from kernelstream.monitor.normal import Normal, lag_rows, row_dots

LEAST_RUN = 20  # equal values in a row before a sensor can be called dead
RUN_FACTOR = 3  # … and times the longest such run in normal operation
GLITCH_FACTOR = 10.0  # by which a few rows may raise the deviation of a sensor
GLITCH = 10.0  # times the median distance: a row of an event that far out is none of its kind
NEAR_POINTS = 16  # of the model, that may lend a row what it misses


def fill_gaps(normal: Normal, before: np.ndarray, Z: np.ndarray, lags: int) -> np.ndarray:
    """Rows with their missing values filled; ``before`` are the rows that came earlier.

    A filled row is part of the lags of the next one, so rows with gaps are filled in order.
    """
    gaps = np.flatnonzero(np.isnan(Z).any(axis=1))
    if not len(gaps):
        return Z
    Z = Z.copy()
    covariance, points = normal.rows.covariance, normal.points
    for t in gaps:
        past = np.vstack([before, Z[max(t - lags, 0) : t]])[-max(lags, 1) :]
        row = lag_rows(past, Z[t : t + 1], lags)[0]
        filled = fill_missing(row, normal.rows.mean, covariance, normal.setting.floor)
        Z[t] = most_normal(normal, points, row, filled)[: Z.shape[1]]
    return Z


def fill_missing(
    row: np.ndarray, mean: np.ndarray, covariance: np.ndarray, floor: float
) -> np.ndarray:
    """A lagged row with its missing values at their conditional mean given the present ones.

    ``μ_m + C_mp (C_pp + floor·diag)⁻¹ (r_p − μ_p)``: what a normal row with these present values
    would have had, if normal rows filled an ellipsoid (see ``most_normal``).

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


def most_normal(
    normal: Normal, points: np.ndarray, row: np.ndarray, filled: np.ndarray
) -> np.ndarray:
    """A row with gaps as normal as its present values allow: by the least index.

    The gaps hold their mean given the present values, as ``filled`` has them, or what a point of
    the model has there that is near in the present values: where normal rows are curved, the mean
    of a value lies between them, where no row ever is.
    """
    missing = np.isnan(row)
    with np.errstate(over="ignore", invalid="ignore"):
        apart = ((points - row) / normal.scaling.deviation)[:, ~missing]
        nearest = np.argsort(row_dots(apart, apart), kind="stable")[:NEAR_POINTS]
        candidates = np.repeat(filled[None, :], 1 + len(nearest), axis=0)
        candidates[1:, missing] = points[nearest][:, missing]
        return candidates[np.argmin(normal.score(candidates).index)]


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


def without_glitches(normal: Normal, R: np.ndarray) -> np.ndarray:
    """Rows that are not many times as far from the middle of the rows as half of them are."""
    U = (R - np.median(R, axis=0)) @ normal.scaling.whitener
    squared = np.sum(U**2, axis=1)
    return R[squared <= GLITCH**2 * np.median(squared)]


@stored
@dataclass(frozen=True)
class Sensors:
    """The last value of each sensor, and for how many rows it has not moved."""

    last: Annotated[np.ndarray, "float64 (columns), or NaN"]  # NaN before the first value
    run: Annotated[np.ndarray, "int64 (columns), not negative"]  # rows with this value
    # the longest run in normal operation; 0 for a constant column
    longest: Annotated[np.ndarray, "int64 (columns), not negative"]

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
