"""Small faults that last: a moving average of what the linear model of the rows did not expect.

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
finds a deviation of one after 28 rows at best, where a chart of each sensor needs 18 with as many
false alarms. Most faults are of one sensor, so e is also summed along what a lasting step of each
sensor would leave (without lags Hawkins' regression-adjusted variables, 1991): y, of variance 1,
upwards ``s ← max(s + y − 1/2, 0)`` and downwards (CUSUM, Page 1954, for a step of one deviation).
In normal operation a sum is above h with probability e^−(h + 0.583) (Siegmund 1985). The largest of
all counts as the Q that is as rare, and the larger of the two is the size of what lasts.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri_exp

from kernelstream.backends.arrays import symmetric_eigen

SLACK = 0.5  # half of the step that sums are to find first
MOST_SUM = 25.0  # so rare that more says nothing more, and back at rest 50 rows after a fault
OVERSHOOT = 0.583  # of a walk over a limit, in the mean
MOST_LENGTH = 3.0  # above √d, where a residual is cut: one wild row is no lasting fault
MOST_ALONG = 2.5  # along a sensor: a few wild rows are none either, their sums are soon back


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


def cut(residuals: np.ndarray) -> np.ndarray:
    """Residuals, as a whole none longer than √d + 3, and along a sensor than 2.5."""
    d = residuals.shape[1] // 2
    whole, sensors = residuals[:, :d], residuals[:, d:]
    longest = np.sqrt(d) + MOST_LENGTH
    length = np.sqrt(np.sum(whole**2, axis=1, keepdims=True))
    whole = whole * (longest / np.maximum(length, longest))
    return np.hstack([whole, np.clip(sensors, -MOST_ALONG, MOST_ALONG)])


def at_rest(n_features: int) -> np.ndarray:
    """The moving average, (d,), and the sums up and down, before the first residual."""
    return np.zeros(3 * n_features)


def advance(standing: np.ndarray, residual: np.ndarray, smoothing: float) -> np.ndarray:
    """The moving average and the sums after one more residual."""
    d = len(residual) // 2
    average, sensors = standing[:d], residual[d:]
    average = average + smoothing * (residual[:d] - average)
    sums = standing[d:] + np.concatenate([sensors, -sensors]) - SLACK
    return np.concatenate([average, np.clip(sums, 0.0, MOST_SUM)])


def root_size(standing: np.ndarray, smoothing: float) -> float:
    """The cube root of the size of what lasts."""
    return float(_roots(standing, smoothing))


def root_sizes(residuals: np.ndarray, smoothing: float) -> np.ndarray:
    """The same after each row of a run, from nothing before the first."""
    standing = at_rest(residuals.shape[1] // 2)
    path = np.empty((len(residuals), len(standing)))
    for t, residual in enumerate(residuals):
        path[t] = standing = advance(standing, residual, smoothing)
    return _roots(path, smoothing)


def _roots(standing: np.ndarray, smoothing: float) -> np.ndarray:
    d = standing.shape[-1] // 3
    squares = np.sum(standing[..., :d] ** 2, axis=-1)
    whole = np.cbrt(squares * (2.0 - smoothing) / smoothing)
    return np.maximum(whole, _as_rare(np.max(standing[..., d:], axis=-1), d))


def _as_rare(largest: np.ndarray, d: int) -> np.ndarray:
    """The cube root of a χ² of d degrees that is as rare as the largest of 2d sums."""
    log_p = np.minimum(np.log(2.0 * d) - largest - OVERSHOOT, 0.0)  # Bonferroni
    variance = 2.0 / (9.0 * d)
    return np.cbrt(d) * (1.0 - variance - ndtri_exp(log_p) * np.sqrt(variance))
