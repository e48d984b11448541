"""Sensor faults: missing values and their imputation, dead and silent sensors, glitches.

A sensor that has not moved, or not come, for long is out of service: an event of its own. From
then on its values are taken for missing: the others are scored and learned without it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Annotated, Any

import numpy as np

from kernelstream.anomaly.monitor.normal import FLOOR, Normal, lag_rows, row_dots
from kernelstream.arrays import generator, prints_short, symmetric_eigen
from kernelstream.serialization import stored

LEAST_RUN = 20  # equal values in a row before a sensor can be called dead
RUN_FACTOR = 3  # … and times the longest such run in normal operation
GLITCH = 10.0  # times the usual distance of the other rows: a value that far out is none of them
KEPT_EVENTS = 100  # of sensors, the last ones
NEAR_POINTS = 16  # of the model, that may lend a row what it misses


def fill_gaps(normal: Normal, before: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Rows with their missing values imputed; ``before`` are the rows that came earlier.

    An imputed row is part of the lags of the next one, so rows are filled in order.
    """
    gaps = np.flatnonzero(np.isnan(Z).any(axis=1))
    if not len(gaps):
        return Z
    Z, lags, points = Z.copy(), normal.setting.lags, normal.points
    for t in gaps:
        past = np.vstack([before, Z[max(t - lags, 0) : t]])[-max(lags, 1) :]
        row = lag_rows(past, Z[t : t + 1], lags)[0]
        filled = ConditionalLaw(np.isnan(row), normal.rows.mean, normal.rows.covariance).expect(row)
        Z[t] = most_normal(normal, points, row, filled)[: Z.shape[1]]
    return Z


@dataclass(frozen=True)
class ConditionalLaw:
    """The normal law of some values of a lagged row given its others.

    ``μ_m + C_mp (C_pp + floor·diag)⁻¹ (r_p − μ_p)`` is the mean of the missing values m, given the
    present ones p.

    Examples
    --------
    >>> import numpy as np
    >>> C = np.array([[1.0, 0.9], [0.9, 1.0]])
    >>> law = ConditionalLaw(np.array([False, True]), np.zeros(2), C)
    >>> law.expect(np.array([2.0, np.nan])).round(2)
    array([2. , 1.8])
    """

    missing: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray

    @cached_property
    def weights(self) -> np.ndarray:
        """``C_mp (C_pp + floor·diag)⁻¹``, transposed: (present, missing)."""
        present = ~self.missing
        C = self.covariance[np.ix_(present, present)]
        variance = np.diag(C)
        C = C + np.diag(FLOOR * variance + np.where(variance > 0, 0.0, 1.0))
        return np.linalg.solve(C, self.covariance[np.ix_(present, self.missing)])

    @cached_property
    def root(self) -> np.ndarray:
        """A matrix root of the conditional covariance, (missing, missing)."""
        C, present = self.covariance, ~self.missing
        left = C[np.ix_(self.missing, self.missing)]
        left = left - C[np.ix_(self.missing, present)] @ self.weights
        values, vectors = symmetric_eigen((left + left.T) / 2)
        return vectors * np.sqrt(np.maximum(values, 0.0))

    def expect(self, row: np.ndarray) -> np.ndarray:
        """The row with its missing values at their conditional mean."""
        present, filled = ~self.missing, row.copy()
        expected = (row[present] - self.mean[present]) @ self.weights
        filled[self.missing] = self.mean[self.missing] + expected
        return filled

    def draw(self, row: np.ndarray, seed: int, number: int) -> np.ndarray:
        """The row with a random draw of its missing values; the same draw for the same number."""
        drawn = self.expect(row)
        noise = generator(seed, "sensors out of service", number).normal(size=len(self.root))
        drawn[self.missing] += self.root @ noise
        return drawn


def draw_disabled(
    normal: Normal, R: np.ndarray, disabled: np.ndarray, learned: np.ndarray, first: int
) -> np.ndarray:
    """Lagged rows that will be learned, with draws for the values of disabled sensors.

    With values at their conditional mean a sensor would seem to have hardly any variance of its
    own. A draw teaches nothing about it, and of the others what they say.
    """
    drawn, rows, laws = R.copy(), normal.rows, dict[bytes, ConditionalLaw]()
    for t in np.flatnonzero(learned & disabled.any(axis=1)):
        pattern = np.tile(disabled[t], normal.setting.lags + 1)
        law = ConditionalLaw(pattern, rows.mean, rows.covariance)
        law = laws.setdefault(pattern.tobytes(), law)  # its root is computed once
        drawn[t] = law.draw(R[t], normal.setting.seed, first + int(t))
    return drawn


def most_normal(
    normal: Normal, points: np.ndarray, row: np.ndarray, filled: np.ndarray
) -> np.ndarray:
    """The imputed row of least index.

    The missing values hold their mean given the present ones, as in ``filled``, or the values of a
    landmark that is near in the present values: where normal rows are curved, the mean of a value
    lies between them, where no row ever is.
    """
    missing = np.isnan(row)
    with np.errstate(over="ignore", invalid="ignore"):
        apart = ((points - row) / normal.whitening.deviation)[:, ~missing]
        nearest = np.argsort(row_dots(apart, apart), kind="stable")[:NEAR_POINTS]
        candidates = np.vstack([filled, np.where(missing, points[nearest], row)])
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
    with np.errstate(over="ignore"):  # what overflows is far out as well
        apart = np.sort(np.abs(x - np.median(x)))
        others = np.sqrt(np.mean(apart[: -max(1, len(x) // 100)] ** 2))
        if others == 0.0 or np.sqrt(np.mean(apart**2)) < GLITCH * others:
            return 0
    return int(np.sum(apart > GLITCH * others))


def without_glitches(normal: Normal, R: np.ndarray) -> np.ndarray:
    """Rows that are not many times as far from the middle of the rows as half of them are."""
    U = (R - np.median(R, axis=0)) @ normal.whitening.whitener
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


def log_sensors(
    events: tuple[SensorEvent, ...],
    records: Iterable[Any],
) -> tuple[SensorEvent, ...]:
    """Events of sensors after some records: those that go on are extended, new ones begin."""
    for record in records:
        now = {(name, "dead") for name in record.dead}
        now |= {(name, "silent") for name in record.silent}
        if not now and all(event.over for event in events):
            continue
        row, time = record.row, storable_time(record.time)
        after = []
        for event in events:
            if (event.sensor, event.kind) not in now or event.over:
                after.append(replace(event, over=True))
                continue
            after.append(replace(event, last_row=row, last_time=time))
            now.discard((event.sensor, event.kind))
        after += [SensorEvent(name, kind, row, row, time, time) for name, kind in sorted(now)]
        events = tuple(after[-KEPT_EVENTS:])
    return events


def storable_time(time: Any) -> int | float | str:
    """A time stamp that a file can hold: numbers as they are, the rest as text."""
    if isinstance(time, np.integer | np.floating):
        time = time.item()
    return time if isinstance(time, int | float | str) else str(time)


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
        nothing = np.zeros(X.shape[1], dtype=np.int64)
        sensors = blank = cls(X[0] * np.nan, *(nothing,) * 4)
        longest, gap = nothing, nothing
        for row in X:
            sensors = sensors.see(row)
            longest, gap = np.maximum(longest, sensors.run), np.maximum(gap, sensors.absent)
        return replace(blank, longest=np.where(constant, 0, longest), longest_gap=gap)

    def see(self, row: np.ndarray) -> Sensors:
        """The sensors after one more row."""
        missing = np.isnan(row)
        run = np.where(missing, self.run, np.where(row == self.last, self.run + 1, 1))
        last = np.where(missing, self.last, row)
        return replace(self, last=last, run=run, absent=np.where(missing, self.absent + 1, 0))

    @property
    def silent(self) -> np.ndarray:
        """Which sensors have sent no value for long."""
        return self.absent > np.maximum(LEAST_RUN, RUN_FACTOR * self.longest_gap)

    @property
    def dead(self) -> np.ndarray:
        """Which of the others no longer move; columns constant at ``fit`` are not watched."""
        still = self.run > np.maximum(LEAST_RUN, RUN_FACTOR * self.longest)
        return (self.longest > 0) & still & ~self.silent

    @property
    def restarted(self) -> Sensors:
        """Before the first row of a run."""
        still = np.zeros_like(self.run)
        return replace(self, last=np.full_like(self.last, np.nan), run=still, absent=still)

    def see_all(self, X: np.ndarray) -> tuple[list[Sensors], np.ndarray, np.ndarray]:
        """The sensors after each of several rows, and which are dead and silent there."""
        states = list(accumulate(X, Sensors.see, initial=self))[1:]
        dead, silent = ([getattr(s, kind) for s in states] for kind in ("dead", "silent"))
        return states, np.array(dead), np.array(silent)
