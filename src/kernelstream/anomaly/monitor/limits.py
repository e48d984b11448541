"""Control limits and p-values of the monitor; EWMA of the score, cross-validation folds.

Limits from the rows that were learned (F, χ², kernel density or quantile alike) give 12 to 67 %
false alarms where 1 % is meant. So scores come from a calibration run, or from contiguous folds:
each fold is scored by a model of the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from kernelstream.anomaly.monitor.lasting import root_sizes
from kernelstream.anomaly.monitor.normal import TINIEST, Normal, Scores, Setting, learn_normal
from kernelstream.estimators import ConformalScores
from kernelstream.serialization import stored

CLIP = 6.0  # the log index is clipped this many deviations above its mean before it is smoothed
ANCHOR = 0.01  # scores are put on one scale by their means and by their limits of this share
OFTEN = 0.05  # a share whose limit few scores determine: of alarms per event, of pseudo-faults
EVENT_SHARE = 0.1  # of alpha: a score that normal rows reach so rarely makes an event at once
ALARMS, WINDOW = 3, 5  # alarms among the last rows that make an event
AWAY_DEVIATIONS = 2.0  # the smoothed index at which another model that fits better takes over
GROSS_DEVIATIONS = 3.5  # the index from which a single row is not learned, at least …
SATURATED = 0.5  # … and at most this share of the index far away, where all sizes have one index
ENOUGH = 4.0  # a quantile needs this many over alpha scores, else a log-normal law is assumed
MOST_BURDEN = 0.95  # of the rows may be spent on what is estimated
# Folds where models are only compared: of settings, of lags, and of fewer rows for the burden.
FEW_FOLDS = 3


def correlation_time(scores: np.ndarray) -> float:
    """How many scores of a run are worth one: 1 + 2 Σ ρ_k, up to the first that is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> noise = np.random.default_rng(0).normal(size=4000)
    >>> round(correlation_time(noise)), round(correlation_time(np.repeat(noise, 5)))
    (1, 5)
    """
    n = len(scores)
    apart = scores - np.mean(scores)
    energy = np.abs(np.fft.rfft(apart, 2 * n)) ** 2
    together = np.fft.irfft(energy, 2 * n)[:n]
    if together[0] <= 0.0:
        return 1.0
    correlation = together / together[0]
    ends = np.flatnonzero(correlation <= 0.0)
    return float(1.0 + 2.0 * correlation[1 : ends[0] if len(ends) else n].sum())


@stored
@dataclass(frozen=True)
class Reference:
    """Scores of normal rows, as logarithms: what the next score is compared with."""

    ordered: Annotated[np.ndarray, "float64 (.scores)"]  # ascending
    mean: float
    deviation: Annotated[float, "positive"]
    n_independent: Annotated[float, "positive"]  # independent scores that would know as much

    def check(self, sizes: dict[str, int]) -> None:
        """Raise unless there are scores, in order."""
        if not len(self.ordered) or bool(np.any(np.diff(self.ordered) < 0)):
            raise ValueError("scores that are not in order")

    @classmethod
    def of(cls, scores: np.ndarray) -> Reference:
        """From scores of rows that were not learned, in time order."""
        deviation = max(float(np.std(scores)), 1e-12)
        n_independent = len(scores) / correlation_time(scores)
        return cls(np.sort(scores), float(np.mean(scores)), deviation, n_independent)

    def limit(self, alpha: float) -> float:
        """The score that a normal row exceeds with probability ``alpha``, at most.

        With scores worth at least 4/α independent ones the conformal quantile, the
        ⌈(n+1)(1−α)⌉-th smallest; with fewer the quantile of a normal law of the log scores, but
        never below the conformal one or, where there is none, the largest score: the upper tail may
        be heavier than that law.
        """
        conformal = self.conformal.limit(alpha)
        if self.n_independent >= ENOUGH / alpha:
            return conformal
        return max(self.mean - self.deviation * float(ndtri(alpha)), conformal)

    @cached_property
    def conformal(self) -> ConformalScores:
        """The scores as a reference of conformal p-values."""
        return ConformalScores.of(self.ordered)

    @cached_property
    def reach(self) -> float:
        """From the mean to the limit of a fixed share: what scores of two kinds are compared by."""
        return max(self.limit(ANCHOR) - self.mean, 1e-12)

    def is_high(self, scores: np.ndarray) -> np.ndarray:
        """Which scores are a deviation or more above their mean."""
        return scores > self.mean + self.deviation

    def p_value(self, score: float, alpha: float) -> float:
        """Share of normal rows at least as far out, by the rule that ``limit`` uses."""
        conformal = float(self.conformal.p_values(score))
        if self.n_independent >= ENOUGH / alpha:
            return conformal
        assumed = float(ndtr((self.mean - score) / self.deviation))
        # above all scores, the law alone
        return max(assumed, conformal) if score <= self.ordered[-1] else assumed


@stored
@dataclass(frozen=True)
class Limits:
    """References of the index, its smoothed version, T² and SPE, and of what raises alarms.

    ``lasting`` is the reference of small faults that last, and ``joint`` that of the highest of
    index, smoothed index and ``lasting``: any of them raises an alarm, and their limits are set
    together so that a share α of normal rows raises one.
    """

    index: Reference
    smoothed: Reference
    t2: Reference
    spe: Reference
    lasting: Reference
    joint: Reference
    smoothing: float
    burden: Annotated[float, "not negative"] = 0.0
    learned: Annotated[float, "positive"] = 1.0  # rows that the model had learned at ``fit``
    burst: Annotated[float, "positive"] = 1.0  # false alarms for each false event

    def check(self, sizes: dict[str, int]) -> None:
        """Raise unless the logarithms in ``excess`` are of positive numbers."""
        if self.burden >= self.learned or not 0.0 <= self.smoothing <= 1.0:
            raise ValueError(f"a burden of {self.burden} for {self.learned} rows")

    def join(self, log_index: Any, level: Any, lasting: Any) -> Any:
        """The highest of index, smoothed index and ``lasting``, on the scale of the second."""
        highest = np.maximum(level, rescale(lasting, self.lasting, self.smoothed))
        return np.maximum(highest, rescale(log_index, self.index, self.smoothed))

    def index_limit(self, limit: float) -> float:
        """What a limit of the joint score is for the index of a single row."""
        return rescale(limit, self.smoothed, self.index)

    def lasting_limit(self, limit: float) -> float:
        """What a limit of the joint score is for ``lasting``."""
        return rescale(limit, self.smoothed, self.lasting)

    def excess(self, n_effective: float) -> float:
        """How much higher, or lower, the log index is under a model of another number of rows.

        An index of D estimated directions is larger on new rows by n/(n − D): their spread was
        estimated from n rows. The burden b, found at ``fit``, takes the place of D, and the log
        index is a − log(1 − b/n). Without this, limits of a model of few rows would be far too high
        for the same model when it has learned more.
        """
        worth = max(n_effective, self.burden / MOST_BURDEN)
        return math.log1p(-self.burden / self.learned) - math.log1p(-self.burden / worth)

    def elsewhere(self, away: float, level: float) -> bool:
        """Whether one model is not the one for the latest rows: all models together do better.

        ``away`` is the index by that model alone, smoothed, and ``level`` that by all of them.
        """
        deviation = self.smoothed.deviation
        return away > self.smoothed.mean + AWAY_DEVIATIONS * deviation and level < away - deviation

    def learning_threshold(self, limit: float, shift: float, saturation: float) -> float:
        """The log index over which a row is not learned, even if it is alone and thus no event.

        Otherwise one gross error would become the variance of its sensor. The threshold lies above
        all rows of calibration, and below ``saturation``, the log index far away from all rows.
        It is never below ``limit``, that of the index with its ``shift``: a gate at every alarm
        would let only small scores in.
        """
        index = self.index
        highest = max(float(index.ordered[-1]), index.mean + GROSS_DEVIATIONS * index.deviation)
        return max(min(highest + max(shift, 0.0), saturation + math.log(SATURATED)), limit)

    @classmethod
    def of(cls, scores: Scores, smoothing: float, residuals: np.ndarray) -> Limits:
        """From scores and residuals of normal rows in time order."""
        log_index = scores.log_index
        index = Reference.of(log_index)
        path = smooth_all(index.mean, log_index, index, smoothing)
        smoothed = Reference.of(path)
        t2, spe = (Reference.of(np.log(np.maximum(s, TINIEST))) for s in (scores.t2, scores.spe))
        sizes = root_sizes(residuals, smoothing)
        lasting = Reference.of(sizes)
        limits = cls(index, smoothed, t2, spe, lasting, smoothed, smoothing)
        highest = limits.join(log_index, path, sizes)
        joint = Reference.of(highest)
        alarms, high = highest > joint.limit(OFTEN), highest > joint.limit(EVENT_SHARE * OFTEN)
        burst = alarms_an_event(alarms, high)
        return replace(limits, joint=joint, burst=burst)


def alarms_an_event(alarms: np.ndarray, high: np.ndarray) -> float:
    """How many alarms there are for each event: three alarms in five rows, or one that is high.

    Examples
    --------
    >>> alarms = np.array([1, 0, 0, 0, 0, 0, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0, 1], dtype=bool)
    >>> alarms_an_event(alarms, high=np.zeros(17, dtype=bool))
    6.0
    """
    event = (np.convolve(alarms, np.ones(WINDOW))[: len(alarms)] >= ALARMS) | high
    begins = int(event[:1].sum()) + int(np.sum(event[1:] & ~event[:-1]))
    return max(float(alarms.sum()) / max(begins, 1), 1.0)


def rescale(score: Any, of: Reference, to: Reference) -> Any:
    """A score as far above the mean of another reference as above its own, by their reach."""
    return to.mean + (score - of.mean) * (to.reach / of.reach)


def smooth(level: float, log_index: float, reference: Reference, smoothing: float) -> float:
    """Advance the moving average by one clipped log index: a gross error hardly moves it."""
    clipped = min(log_index, reference.mean + CLIP * reference.deviation)
    return level + smoothing * (clipped - level)


def smooth_all(
    level: float, log_index: np.ndarray, reference: Reference, smoothing: float
) -> np.ndarray:
    """The moving average after each row, from ``level`` before the first."""
    path = np.empty_like(log_index)
    for t, value in enumerate(log_index):
        path[t] = level = smooth(level, float(value), reference, smoothing)
    return path


def n_folds(n_rows: int, width: int) -> int:
    """Five folds, 20 where there are fewer than ten rows a column; never more than rows / 2."""
    return min(20 if n_rows < 10 * width else 5, n_rows // 2)


def folds_of(n_rows: int, lags: int, folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Contiguous folds: the rows to learn and the rows held out, for each.

    Rows whose lags reach into a fold are not learned either: neighbours in time are nearly the same
    row, and would make the scores too small.
    """
    edges = np.linspace(0, n_rows, folds + 1).astype(int)
    pairs = []
    for start, stop in pairwise(edges):
        others = np.r_[0 : max(start - lags, 0), min(stop + lags, n_rows) : n_rows]
        pairs.append((others, np.arange(start, stop)))
    return pairs


def held_out_scores(R: np.ndarray, setting: Setting, folds: int) -> tuple[Scores, np.ndarray]:
    """Scores and residuals of every row by a model of the other folds, in time order."""
    parts = []
    for others, held_out in folds_of(len(R), setting.lags, folds):
        normal = learn_normal(R[others], setting)
        found = normal.score(R[held_out], np.matmul)
        residuals = normal.residuals(R[held_out], np.matmul)
        parts.append((found.index, found.t2, found.spe, residuals))
    *scores, all_residuals = map(np.concatenate, zip(*parts, strict=True))
    return Scores(*scores), all_residuals


def calibrate(R: np.ndarray, normal: Normal, run: np.ndarray | None, smoothing: float) -> Limits:
    """Limits from a calibration run, or from folds where there is none."""
    setting, n = normal.setting, len(R)
    folds = n_folds(n, R.shape[1])
    few = folds_of(n, setting.lags, FEW_FOLDS)
    if run is None:
        scores, residuals = held_out_scores(R, setting, folds)
        larger = n * (1.0 - 1.0 / folds)
        smaller = held_out_scores(R, setting, FEW_FOLDS)[0].log_index
    else:
        scores, residuals = normal.score(run, np.matmul), normal.residuals(run, np.matmul)
        larger = float(n)
        models = [learn_normal(R[others], setting) for others, _ in few]
        smaller = np.concatenate([model.score(run, np.matmul).log_index for model in models])
    fewer = float(np.mean([len(others) for others, _ in few]))
    rise = float(np.mean(smaller) - np.mean(scores.log_index))
    limits = Limits.of(scores, smoothing, residuals)
    # Limits of folds, whose models have learned a little less, are taken as they are.
    return replace(limits, burden=burden(rise, fewer, larger), learned=float(n))


def burden(rise: float, fewer: float, more: float) -> float:
    """The b for which log(1 − b/more) − log(1 − b/fewer) is the measured rise.

    Examples
    --------
    >>> round(burden(np.log(1 - 50 / 400) - np.log(1 - 50 / 300), 300, 400), 6)
    50.0
    """
    if fewer >= more or rise <= 0.0:
        return 0.0

    def difference(b: float) -> float:
        return math.log1p(-b / more) - math.log1p(-b / fewer) - rise

    most = MOST_BURDEN * fewer
    return most if difference(most) < 0.0 else float(brentq(difference, 0.0, most))
