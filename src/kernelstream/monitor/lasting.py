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
"""

from __future__ import annotations

import numpy as np

from kernelstream.backends.arrays import symmetric_eigen

MOST_LENGTH = (
    3.0  # above √d, the length to which a residual is cut: one wild row is no lasting fault
)


def residual_weights(covariance: np.ndarray, n_features: int, floor: float) -> np.ndarray:
    """``V`` with ``e = (r − mean) V`` for lagged rows r whose covariance is given, (D, d).

    Examples
    --------
    >>> import numpy as np
    >>> residual_weights(np.diag([4.0, 0.25]), 2, 0.0)
    array([[0.5, 0. ],
           [0. , 2. ]])
    """
    d = n_features
    spread = np.sqrt(np.where(np.diag(covariance) > 0, np.diag(covariance), 1.0))
    P = covariance / np.outer(spread, spread)
    values, vectors = symmetric_eigen(P[d:, d:])
    before = (vectors / np.maximum(values, floor)) @ vectors.T @ P[d:, :d]  # (D − d, d)
    unexpected = P[:d, :d] - P[:d, d:] @ before
    values, vectors = symmetric_eigen((unexpected + unexpected.T) / 2)
    root = (vectors / np.sqrt(np.maximum(values, floor))) @ vectors.T
    return np.ascontiguousarray(np.vstack([root, -before @ root]) / spread[:, None])


def cut(residuals: np.ndarray) -> np.ndarray:
    """Residuals, none longer than √d + 3."""
    longest = np.sqrt(residuals.shape[1]) + MOST_LENGTH
    length = np.sqrt(np.sum(residuals**2, axis=1, keepdims=True))
    return residuals * (longest / np.maximum(length, longest))


def advance(average: np.ndarray, residual: np.ndarray, smoothing: float) -> np.ndarray:
    """The moving average after one more residual."""
    return average + smoothing * (residual - average)


def root_size(average: np.ndarray, smoothing: float) -> float:
    """The cube root of Q of a moving average."""
    return float(np.cbrt(average @ average * (2.0 - smoothing) / smoothing))


def root_sizes(residuals: np.ndarray, smoothing: float) -> np.ndarray:
    """The same after each row of a run, from nothing before the first."""
    average, path = np.zeros(residuals.shape[1]), np.empty(len(residuals))
    for t, residual in enumerate(residuals):
        average = advance(average, residual, smoothing)
        path[t] = root_size(average, smoothing)
    return path
