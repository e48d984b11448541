"""Models of normal operation of a monitor: the fitted reference, the present model, accepted ones.

The present model adapts. The reference and the models of accepted events are frozen: whatever they
find normal stays normal, however long it was away. A row counts by the model that finds it the
most normal; where that is another than the present one for some time, adaptation continues from
that model. The one that it leaves is kept until the next such switch: the process may return.

No rule that adapts to drift can distinguish a slow fault from it. So the distance of the present
model from the reference is charted as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from kernelstream.anomaly.monitor.contributions import (
    Contributions,
    contributions,
    slopes,
    stiffness,
)
from kernelstream.anomaly.monitor.limits import Limits, smooth_all
from kernelstream.anomaly.monitor.normal import Normal, Product, Scores, rows_times
from kernelstream.arrays import prints_short
from kernelstream.serialization import stored
from kernelstream.stream import Standardisation


@dataclass(frozen=True)
class ModelScores:
    """Scores of rows, each by the model that finds it the most normal.

    ``log_index`` is comparable with the limits. ``number`` is that of the model, 0 for the present
    one. ``present`` and ``ewma`` are the log index by the present model alone and its moving
    average.
    """

    scores: Scores
    log_index: np.ndarray
    number: np.ndarray
    residuals: np.ndarray
    present: np.ndarray
    ewma: np.ndarray


@prints_short
@stored
@dataclass(frozen=True, eq=False)
class Drift:
    """Where normal operation is now, seen from where it was when the model was fitted.

    Attributes
    ----------
    centre : array of shape (d,)
        Shift of each variable's mean, in deviations of the reference.
    scale : array of shape (d,)
        Deviation of each variable over that of the reference.
    overlap : float
        Share of the leading directions of the reference that are still leading directions, 1 at
        the start.
    novelty : float
        Mean log index of the rows learned last under the frozen model, in deviations from its
        mean in calibration.
    rows : int
        Rows learned since ``fit``.
    """

    centre: Annotated[np.ndarray, "float64 (columns)"]
    scale: Annotated[np.ndarray, "float64 (columns), positive"]
    overlap: float
    novelty: float
    rows: int

    @property
    def largest_shift(self) -> float:
        """The largest shift of a mean, in deviations of the reference."""
        return float(np.abs(self.centre).max())

    @property
    def largest_scale(self) -> float:
        """The largest change of a deviation, as a factor of at least one."""
        return float(np.exp(np.abs(np.log(self.scale)).max()))

    @classmethod
    def between(
        cls, reference: Normal, present: Normal, limits: Limits, R: np.ndarray, rows: int
    ) -> Drift:
        """Compare two models of normal operation; ``R`` are the rows learned last.

        Parameters
        ----------
        reference, present : Normal
            The fitted model, and the adapted one.
        limits : Limits
            The limits of the fitted model.
        R : array of shape (n, features)
            Lagged rows.
        rows : int
            Rows learned since ``fit``.
        """
        was, now = reference.whitening, present.whitening
        d = reference.n_features  # of a lagged row, the present values come first
        leading = max(was.axes.shape[1], 1)
        log_index = reference.score(R, np.matmul).log_index
        return cls(
            centre=(now.mean[:d] - was.mean[:d]) / was.deviation[:d],
            scale=now.deviation[:d] / was.deviation[:d],
            overlap=float(np.sum((was.axes.T @ now.axes) ** 2) / leading) if was.axes.size else 1.0,
            novelty=float((log_index.mean() - limits.index.mean) / limits.index.deviation),
            rows=rows,
        )


@stored
@dataclass(frozen=True, eq=False)
class NormalModels:
    """All that is known of normal operation: models of lagged rows, and their limits."""

    standard: Standardisation  # units of the reference
    reference: Annotated[Normal, "apart"]  # as fitted
    present: Annotated[Normal, "apart"]  # as adapted
    limits: Limits
    curvature: Annotated[np.ndarray, "float64 (lagged, lagged)"]  # mean second derivative of M
    drift: Drift
    ewma: float  # of the log index by the present model alone
    # The one before the last switch: without it, a switch on a chance in a slow drift is final, and
    # then half of all rows raise alarms (test_false_alarms_of_100000_rows).
    previous: Annotated[Normal, "apart"] | None = None
    accepted: tuple[Annotated[Normal, "apart"], ...] = ()
    knows_reference: bool = True  # until an event is accepted in place of all before

    def check(self, sizes: dict[str, int]) -> None:
        """Raise unless all models are of lagged rows of one width."""
        widths = {sizes["lagged"], len(self.standard.mean) * (self.reference.setting.lags + 1)}
        for model in (self.reference, self.present, *self.accepted, self.previous or self.present):
            widths |= {len(model.whitening.mean), int(model.index.span.points.shape[1])}
        if len(widths) > 1 or 0 in widths:
            raise ValueError(f"models of rows of {sorted(widths)} values")

    @classmethod
    def of(
        cls, standard: Standardisation, fitted: Normal, limits: Limits, curvature: np.ndarray
    ) -> NormalModels:
        """The fitted model alone, before the stream."""
        d = fitted.n_features
        drift = Drift(np.zeros(d), np.ones(d), 1.0, 0.0, 0)
        return cls(standard, fitted, fitted, limits, curvature, drift, limits.index.mean)

    @property
    def others(self) -> tuple[Normal, ...]:
        """Models other than the present one, which is the reference until rows are learned."""
        if not self.drift.rows:
            return ()
        reference = (self.reference,) if self.knows_reference else ()
        return (*reference, *self.accepted, *(() if self.previous is None else (self.previous,)))

    @property
    def excess(self) -> float:
        """What the number of rows learned adds to the log index, compared with calibration."""
        return self.limits.excess(self.present.rows.n_effective)

    def score(self, R: np.ndarray, product: Product = rows_times) -> ModelScores:
        """Score lagged rows by every model; the one that finds a row the most normal counts.

        Models other than the present one are evaluated only on rows that it does not find ordinary,
        and when it finds the last rows, taken together, less ordinary than it should.
        """
        limits = self.limits
        scores = self.present.score(R, product)
        present = scores.log_index - self.excess
        ewma = smooth_all(self.ewma, present, limits.index, limits.smoothing)
        residuals = self.present.residuals(R, product)
        best, number = present.copy(), np.zeros(len(R), dtype=np.int64)
        high = np.flatnonzero(limits.index.is_high(present) | limits.smoothed.is_high(ewma))
        for which, model in enumerate(self.others if len(high) else (), 1):
            found = model.score(R[high], product)
            log_index = found.log_index - limits.excess(model.rows.n_effective)
            better = log_index < best[high]
            rows = high[better]
            best[rows], number[rows] = log_index[better], which
            scores.t2[rows], scores.spe[rows] = found.t2[better], found.spe[better]
            residuals[rows] = model.residuals(R[rows], product)
        index = np.where(number == 0, scores.index, np.exp(best + self.excess))
        return ModelScores(replace(scores, index=index), best, number, residuals, present, ewma)

    def slopes(
        self, R: np.ndarray, number: np.ndarray, rows: np.ndarray
    ) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """Slope and mean curvature of the index along each variable, for some of the rows R."""
        known: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        for which, model in enumerate((self.present, *self.others)):
            own = rows[number[rows] == which]
            if len(own):
                h = stiffness(model, self.curvature)
                found = slopes(model, self.curvature, R[own])
                known |= {int(t): (slope, h) for t, slope in zip(own, found, strict=True)}
        return known

    def explain(self, slope: np.ndarray, names: tuple[str, ...]) -> Contributions:
        """Contributions by the present model, from a slope of the index."""
        h = stiffness(self.present, self.curvature)
        return contributions(slope, h, self.standard.deviation, names)

    def learn(self, R: np.ndarray, forgetting: float) -> NormalModels:
        """The present model adapts to rows."""
        return self._with_present(self.present.adapt(R, forgetting), R)

    def switch(self, number: int) -> NormalModels:
        """Adaptation continues from another model."""
        there = self.others[number - 1]
        return replace(self, present=there, previous=self.present, ewma=self.limits.index.mean)

    def accept(self, model: Normal, R: np.ndarray, instead: bool) -> NormalModels:
        """The model of an accepted event, of the rows R, becomes the present one.

        What was normal before stays so, the present model as it is now included, unless the event
        takes its place ``instead``.
        """
        before = (*self.accepted, self.present) if self.drift.rows else self.accepted
        after = self._with_present(model, R)
        return replace(
            after,
            previous=None if instead else self.previous,
            accepted=(model,) if instead else (*before, model),
            knows_reference=self.knows_reference and not instead,
            ewma=self.limits.index.mean,
        )

    def _with_present(self, model: Normal, R: np.ndarray) -> NormalModels:
        """The models with another present one, which has learned the rows R."""
        n = self.drift.rows + len(R)
        drift = Drift.between(self.reference, model, self.limits, R, n)
        return replace(self, present=model, drift=drift)
