"""EWMA statistic for persistent small shifts: multivariate average of prediction residuals.

The index of a row, also smoothed, grows with the *square* of a deviation: a shift of a fraction of
the noise hardly moves it, however long it lasts. Averaging the deviations themselves, with their
signs, lets the noise cancel and leaves the shift (a multivariate EWMA, Lowry et al. 1992).

What is averaged must not be correlated in time, or slow normal variation looks like a shift. So it
is the residual of a row given the rows before it, ``e = (z_t − E[z_t | z_{t−1}, …]) Σ^{-1/2}``,
with expectation and Σ from the moments that the model has anyway. Without lags it is the whitened
row.
Then ``w ← w + λ(e − w)``, and ``Q = |w|² (2 − λ)/λ`` has the law of |e|² in normal operation. Its
cube root is nearly normal whatever the number of sensors (Wilson and Hilferty 1931), and is what
limits are taken of.

Q pays for faults in any direction with the noise of all d of them: of thirty independent sensors it
finds a deviation of one after 28 rows, where a chart of each sensor needs 20 with as many false
alarms. Most faults are of one sensor, so w is also looked at along what a lasting step of each
sensor would leave (without lags Hawkins' regression-adjusted variables, 1991): d more coordinates
of e, of variance 1. The largest of them counts as the Q that is as rare, and the larger of the two
is the size of a moving average.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from kernelstream.arrays import symmetric_eigen

PACE = 0.7  # of the smoothing of the index: a deviation of one sensor needs some 20 rows to show
MOST_LENGTH = 3.0  # above √d, where a residual is clipped: one gross error is no persistent shift


def residual_weights(covariance: np.ndarray, n_features: int, floor: float) -> np.ndarray:
    """``V`` with ``e = (r − mean) V`` for lagged rows r whose covariance is given, (D, 2d).

    The first d columns are of the residual as a whole, column d + j is of its part along what a
    lasting step of sensor j leaves.

    Examples
    --------
    >>> import numpy as np
    >>> residual_weights(np.diag([4.0, 0.25]), 2, 0.0)
    array([[0.5, 0. , 0.5, 0. ],
           [0. , 2. , 0. , 2. ]])
    """
    d = n_features
    spread = np.sqrt(np.where(np.diag(covariance) > 0, np.diag(covariance), 1.0))
    P = covariance / np.outer(spread, spread)
    values, vectors = symmetric_eigen(P[d:, d:])
    before = (vectors / np.maximum(values, floor)) @ vectors.T @ P[d:, :d]  # (D − d, d)
    unexpected = P[:d, :d] - P[:d, d:] @ before
    values, vectors = symmetric_eigen((unexpected + unexpected.T) / 2)
    root = (vectors / np.sqrt(np.maximum(values, floor))) @ vectors.T
    whole = np.vstack([root, -before @ root]) / spread[:, None]
    steps = whole.reshape(-1, d, d).sum(axis=0)  # row j: a step of sensor j is in all its lags
    length = np.sqrt(np.sum(steps**2, axis=1, keepdims=True))
    along = steps / np.where(length > 0, length, 1.0)
    return np.ascontiguousarray(np.hstack([whole, whole @ along.T]))


def clip_residuals(residuals: np.ndarray) -> np.ndarray:
    """Residuals, as a whole none longer than √d + 3, and along a sensor than 1 + 3."""
    d = residuals.shape[1] // 2
    whole, sensors = residuals[:, :d], residuals[:, d:]
    longest = np.sqrt(d) + MOST_LENGTH
    length = np.sqrt(np.sum(whole**2, axis=1, keepdims=True))
    whole = whole * (longest / np.maximum(length, longest))
    return np.hstack([whole, np.clip(sensors, -1.0 - MOST_LENGTH, 1.0 + MOST_LENGTH)])


def advance(average: np.ndarray, residual: np.ndarray, smoothing: float) -> np.ndarray:
    """The moving average after one more residual; ``smoothing`` is that of the index."""
    return average + PACE * smoothing * (residual - average)


def root_sizes(residuals: np.ndarray, smoothing: float) -> np.ndarray:
    """The root sizes of the averages after each row of a run, from nothing before the first."""
    average, path = np.zeros(residuals.shape[1]), np.empty_like(residuals)
    for t, residual in enumerate(residuals):
        path[t] = average = advance(average, residual, smoothing)
    return root_size(path, smoothing)


def root_size(averages: np.ndarray, smoothing: float) -> np.ndarray:
    """The cube root of the size of a moving average, or of several."""
    weight = PACE * smoothing
    grown = averages * np.sqrt((2.0 - weight) / weight)  # as large as residuals are
    d = averages.shape[-1] // 2
    whole = np.cbrt(np.sum(grown[..., :d] ** 2, axis=-1))
    return np.maximum(whole, _as_rare(np.max(np.abs(grown[..., d:]), axis=-1), d))


def _as_rare(largest: np.ndarray, d: int) -> np.ndarray:
    """The cube root of a χ² of d degrees that is as rare as the largest of d normal values."""
    log_p = np.minimum(np.log(2.0 * d) + log_ndtr(-largest), 0.0)  # Bonferroni
    variance = 2.0 / (9.0 * d)
    return np.cbrt(d) * (1.0 - variance - ndtri_exp(log_p) * np.sqrt(variance))
