"""Sensor faults: missing values and their imputation, dead and silent sensors, glitches.

A sensor that has not moved, or not come, for long is out of service: an event of its own. From
then on its values are taken for missing: the others are judged without it, and learned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from scipy.linalg import solve

from kernelstream.anomaly.monitor.normal import Normal, lag_rows, row_dots
from kernelstream.arrays import generator, prints_short, symmetric_eigen
from kernelstream.serialization import stored

LEAST_RUN = 20  # equal values in a row before a sensor can be called dead
RUN_FACTOR = 3  # … and times the longest such run in normal operation
GLITCH_FACTOR = 10.0  # by which a few rows may raise the deviation of a sensor
GLITCH = 10.0  # times the median distance: a row of an event that far out is none of its kind
KEPT_EVENTS = 100  # of sensors, the last ones
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


@prints_short
@stored
@dataclass(frozen=True)
class SensorEvent:
    """A sensor that is out of service: an event of its own, beside those of the process.

    Attributes
    ----------
    sensor : str
        Its name.
    kind : "dead" or "silent"
        Whether its values no longer move, or no longer come.
    first_row, last_row : int
        The row in which that was noticed, and the last one so far.
    first_time, last_time : int, float or str
        The time stamps there.
    over : bool
        Whether the sensor is back.
    """

    sensor: str
    kind: str
    first_row: int
    last_row: int
    first_time: Any
    last_time: Any
    over: bool = False

    def check(self, sizes: dict[str, int]) -> None:
        """Raise unless it has rows.

        Parameters
        ----------
        sizes : dict
            The lengths that the file has named so far.
        """
        if self.last_row < self.first_row or self.kind not in ("dead", "silent"):
            raise ValueError(f"a {self.kind} sensor from row {self.first_row} to {self.last_row}")


@dataclass(frozen=True)
class Service:
    """Which sensors are dead, and which are silent."""

    dead: np.ndarray
    silent: np.ndarray

    @property
    def out(self) -> np.ndarray:
        """Those whose values count no more."""
        return self.dead | self.silent

    def log(
        self, events: tuple[SensorEvent, ...], names: tuple[str, ...], row: int, time: Any
    ) -> tuple[SensorEvent, ...]:
        """Events of sensors after a row: those that go on are extended, new ones begin."""
        if not self.out.any() and all(event.over for event in events):
            return events
        now = {
            (names[j], kind)
            for kind, which in (("dead", self.dead), ("silent", self.silent))
            for j in np.flatnonzero(which)
        }
        after = []
        for event in events:
            if not event.over and (event.sensor, event.kind) in now:
                event = replace(event, last_row=row, last_time=time)
                now.discard((event.sensor, event.kind))
            elif not event.over:
                event = replace(event, over=True)
            after.append(event)
        after += [SensorEvent(name, kind, row, row, time, time) for name, kind in sorted(now)]
        return tuple(after[-KEPT_EVENTS:])


@stored
@dataclass(frozen=True)
class Sensors:
    """The last value of each sensor, for how many rows it has not moved, or has not come."""

    last: Annotated[np.ndarray, "float64 (columns), or NaN"]  # NaN before the first value
    run: Annotated[np.ndarray, "int64 (columns), not negative"]  # rows with this value
    # the longest run in normal operation; 0 for a constant column
    longest: Annotated[np.ndarray, "int64 (columns), not negative"]
    # rows without a value, and the most of them in normal operation
    absent: Annotated[np.ndarray, "int64 (columns), not negative"]
    longest_gap: Annotated[np.ndarray, "int64 (columns), not negative"]

    @classmethod
    def of(cls, X: np.ndarray, constant: np.ndarray) -> Sensors:
        """Learn from normal rows how long each sensor may stand still, or say nothing."""
        d = X.shape[1]
        nothing = np.zeros(d, dtype=np.int64)
        longest, run, gap, absent, last = *(nothing,) * 4, X[0] * np.nan
        for row in X:
            last, run = _advance(last, run, row)
            absent = np.where(np.isnan(row), absent + 1, 0)
            longest, gap = np.maximum(longest, run), np.maximum(gap, absent)
        return cls(X[0] * np.nan, nothing, np.where(constant, 0, longest), nothing, gap)

    def see(self, row: np.ndarray) -> tuple[Sensors, Service]:
        """The sensors after one more row, and which are dead or silent.

        Columns that were constant in normal operation are not watched for standing still.
        """
        last, run = _advance(self.last, self.run, row)
        dead = (self.longest > 0) & (run > np.maximum(LEAST_RUN, RUN_FACTOR * self.longest))
        absent = np.where(np.isnan(row), self.absent + 1, 0)
        silent = absent > np.maximum(LEAST_RUN, RUN_FACTOR * self.longest_gap)
        after = replace(self, last=last, run=run, absent=absent)
        return after, Service(dead & ~silent, silent)

    @property
    def anew(self) -> Sensors:
        """Before the first row of a run."""
        still = np.zeros_like(self.run)
        return replace(self, last=np.full_like(self.last, np.nan), run=still, absent=still)

    def see_all(self, X: np.ndarray) -> tuple[list[Sensors], list[Service]]:
        """The same after each of several rows."""
        sensors, states, services = self, [], []
        for row in X:
            sensors, service = sensors.see(row)
            states.append(sensors)
            services.append(service)
        return states, services


def _advance(last: np.ndarray, run: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    present = ~np.isnan(row)
    run = np.where(present, np.where(row == last, run + 1, 1), run)
    return np.where(present, row, last), run


@dataclass(frozen=True)
class Expectation:
    """What the other columns of a lagged row expect of those that are out of service.

    A row whose gaps hold their mean would teach that the sensor has hardly any variance of its own.
    A draw from its law given the others teaches nothing about it, and of the others what they say.
    """

    out: np.ndarray
    mean: np.ndarray
    weights: np.ndarray  # of the others, (present, out)
    root: np.ndarray  # of the covariance that they leave, (out, out)

    @classmethod
    def of(cls, normal: Normal, out: np.ndarray) -> Expectation:
        """For the columns ``out`` of rows of normal operation."""
        C, here = normal.rows.covariance, ~out
        spread = np.diag(C)[here]
        known = C[np.ix_(here, here)] + np.diag(
            normal.setting.floor * spread + np.where(spread > 0, 0.0, 1.0)
        )
        weights = np.linalg.solve(known, C[np.ix_(here, out)])
        left = C[np.ix_(out, out)] - C[np.ix_(out, here)] @ weights
        values, vectors = symmetric_eigen((left + left.T) / 2)
        return cls(out, normal.rows.mean, weights, vectors * np.sqrt(np.maximum(values, 0.0)))

    def draw(self, row: np.ndarray, seed: int, number: int) -> np.ndarray:
        """The row with a draw for what is out of service; the same for the same number."""
        here, drawn = ~self.out, row.copy()
        noise = generator(seed, "sensors out of service", number).normal(size=len(self.root))
        expected = self.mean[self.out] + (row[here] - self.mean[here]) @ self.weights
        drawn[self.out] = expected + self.root @ noise
        return drawn
