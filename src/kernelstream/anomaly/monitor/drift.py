"""Drift of normal operation: shift and scale of the adapted model relative to the fitted one.

No rule that adapts to drift can distinguish a slow fault from it. So the distance from the
model of ``fit`` is charted as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from kernelstream.anomaly.monitor.limits import Limits
from kernelstream.anomaly.monitor.normal import Normal
from kernelstream.arrays import prints_short
from kernelstream.serialization import stored


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


def no_drift(n_features: int) -> Drift:
    """At the start."""
    return Drift(np.zeros(n_features), np.ones(n_features), 1.0, 0.0, 0)


def measure_drift(
    reference: Normal, present: Normal, limits: Limits, R: np.ndarray, rows: int
) -> Drift:
    """Compare two models of normal operation; ``R`` are the rows learned last."""
    was, now = reference.whitening, present.whitening
    d = reference.n_features  # of a lagged row, the present values come first
    leading = max(was.axes.shape[1], 1)
    log_index = reference.score(R, np.matmul).log_index
    return Drift(
        centre=(now.mean[:d] - was.mean[:d]) / was.deviation[:d],
        scale=now.deviation[:d] / was.deviation[:d],
        overlap=float(np.sum((was.axes.T @ now.axes) ** 2) / leading) if was.axes.size else 1.0,
        novelty=float((log_index.mean() - limits.index.mean) / limits.index.deviation),
        rows=rows,
    )
