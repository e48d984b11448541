"""Who judges the rows of a live stream: a KernelMonitor, or the charts of a plain model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np

import kernelstream
from kernelstream.backends.arrays import to_host
from kernelstream.cli.failures import MODEL, USAGE, CommandError
from kernelstream.cli.modelfile import Stored, kind_of, read
from kernelstream.stream.stream import settled, view

LEAST_REFERENCE = 100  # rows without which a limit would be a guess
Verdict = dict[str, Any]


class Judge(Protocol):
    """Judges one row at a time, before it may be learned."""

    names: tuple[str, ...] | None
    n_features: int
    takes_missing: bool

    def judge(self, x: np.ndarray, time: Any) -> Verdict:
        """What is known about a row, ready for JSON; learns it where that is asked for."""

    def save(self, path: Path) -> None:
        """Write the model as it now is."""


def judge_for(path: Path, alpha: float | None, learn: bool, top: int) -> Judge:
    """The judge that a model file holds."""
    if kind_of(path) == "KernelMonitor":
        if alpha is not None:
            raise CommandError(
                USAGE, "A monitor has its own alpha, given at fit --monitor: leave out --alpha."
            )
        return MonitorJudge(path, learn, top)
    return ChartJudge(read(path), 0.01 if alpha is None else alpha, learn, top)


class MonitorJudge:
    """A KernelMonitor: smoothed index, events, adaptation, causes."""

    takes_missing = True

    def __init__(self, path: Path, learn: bool, top: int):
        self.monitor = kernelstream.KernelMonitor.load(path)
        if not learn:
            self.monitor.set_params(adapt="off")
        self.top = top
        names = getattr(self.monitor, "feature_names_in_", None)
        self.names = None if names is None else tuple(map(str, names))
        self.n_features = int(self.monitor.n_features_in_)

    def judge(self, x: np.ndarray, time: Any) -> Verdict:
        """The monitor's record as plain values."""
        record = self.monitor.update(x, time=time)
        causes = [] if record.contributions is None else record.contributions.ranking()
        fields = ("index", "smoothed", "t2", "spe", "limit", "t2_limit", "spe_limit", "p_value")
        return {
            **{name: float(getattr(record, name)) for name in fields},
            "alarm": bool(record.alarm),
            "event": record.event,
            "learned": bool(record.learned),
            "missing": list(record.missing),
            "dead": list(record.dead),
            "top": [
                {"variable": str(name), "contribution": float(value)}
                for name, value, *_ in causes[: self.top]
            ],
        }

    def save(self, path: Path) -> None:
        """Write the monitor with its adaptive state."""
        self.monitor.save(path)


class ChartJudge:
    """Reconstruction error and T² of a plain model; limits from the sample of rows it keeps.

    The basis of centroids keeps a uniform sample of everything seen. The limits are the upper
    α/2 quantiles of the two statistics over that sample, so that about a share α of rows like
    those learned raises an alarm.
    """

    takes_missing = False

    def __init__(self, stored: Stored, alpha: float, learn: bool, top: int):
        if not 0 < alpha < 1:
            raise CommandError(USAGE, f"--alpha must be between 0 and 1; got {alpha}.")
        self.stored, self.alpha, self.learn, self.top = stored, alpha, learn, top
        self.names = stored.names
        self.n_features = stored.estimator.n_features_in_
        self._take_limits()

    def _take_limits(self) -> None:
        """Limits and deviations, from the sample that the model keeps."""
        estimator = self.stored.estimator
        state: Any = settled(estimator._model).state
        reservoir = getattr(state.basis, "reservoir", None)
        if reservoir is None or len(reservoir) < LEAST_REFERENCE:
            raise CommandError(
                MODEL,
                "A monitor needs a reference, and this model keeps no sample of at least "
                f"{LEAST_REFERENCE} rows ({estimator._model.parts.basis}). Make a monitor from "
                "rows of normal operation: kernelstream fit --monitor.",
            )
        rows, _ = reservoir.sample()
        seen = view(estimator._model)
        self.errors = np.sort(to_host(seen.reconstruction_error(rows)).astype(float))
        self.variances = np.asarray(estimator.explained_variance_, dtype=float)
        self.real = self.variances > 0
        self.t2s = np.sort(self._t2(to_host(seen.scores(rows)).astype(float)))
        standard = estimator._standard()
        units = to_host(rows) if standard is None else standard.undo(to_host(rows))
        self.deviation = np.maximum(np.std(units.astype(float), axis=0), 1e-300)
        level = 1.0 - self.alpha / 2
        self.limits = {
            "reconstruction_error": float(np.quantile(self.errors, level, method="higher")),
            "t2": float(np.quantile(self.t2s, level, method="higher")),
        }

    def _t2(self, scores: np.ndarray) -> np.ndarray:
        return np.square(scores[:, self.real]) @ (1.0 / self.variances[self.real])

    def judge(self, x: np.ndarray, time: Any) -> Verdict:
        """Both statistics, their limits, and the variables that differ from what is expected."""
        estimator = self.stored.estimator
        row = x[None, :].astype(estimator._model.dtype)
        scores = estimator.transform(row)
        error = float(estimator.reconstruction_error(row)[0])
        t2 = float(self._t2(scores.astype(float))[0])
        p_value = 2 * min(upper_share(self.errors, error), upper_share(self.t2s, t2))
        alarm = error > self.limits["reconstruction_error"] or t2 > self.limits["t2"]
        if self.learn and not alarm:
            estimator.learn_one(row[0])
        return {
            "reconstruction_error": error,
            "t2": t2,
            "limit": self.limits["reconstruction_error"],
            "t2_limit": self.limits["t2"],
            "p_value": min(1.0, p_value),
            "alarm": alarm,
            "learned": self.learn and not alarm,
            "top": self._top(x, scores) if alarm else [],
        }

    def _top(self, x: np.ndarray, scores: np.ndarray) -> list[dict[str, Any]]:
        """Variables by the squared difference to the pre-image, in units of their deviation."""
        try:
            expected = self.stored.estimator.inverse_transform(scores)[0].astype(float)
        except ValueError:  # a basis without points has no pre-images, and no causes either
            return []
        apart = np.abs(x - expected) / self.deviation
        parts = np.square(apart / max(apart.max(), 1e-300))  # of any size, and no overflow
        parts = parts / max(parts.sum(), 1e-300)
        names = self.names or tuple(f"x{i}" for i in range(self.n_features))
        largest = np.argsort(parts)[::-1][: self.top]
        return [{"variable": names[i], "contribution": float(parts[i])} for i in largest]

    def save(self, path: Path) -> None:
        """Write the model with what it learned."""
        self.stored.save(path)


def upper_share(reference: np.ndarray, value: float) -> float:
    """Share of sorted reference values that are at least as large, the value itself counted."""
    above = len(reference) - int(np.searchsorted(reference, value, side="left"))
    return (above + 1) / (len(reference) + 1)
