"""Noise level estimation (Marchenko-Pastur) and Wiener filter in principal directions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from kernelstream.arrays import Array, like, to_host
from kernelstream.serialization import check_count, check_number, stored
from kernelstream.stream import Rows, Scaling

PIECE = 4096  # rows that are worked on at a time


@stored
@dataclass(frozen=True)
class LinearMap:
    """A map to fewer dimensions from the start of the stream, frozen: x ← (x − mean) P."""

    mean: Annotated[np.ndarray, "float64 (columns)"]
    matrix: Annotated[np.ndarray, "float64 (columns, features)"]  # P
    # of each entry of x, as it was given or measured
    noise_variance: Annotated[float, "not negative"]

    def apply(self, X: Array) -> Array:
        """Map rows."""
        return (X - like(self.mean, X, X.dtype)) @ like(self.matrix, X, X.dtype)


@stored
class Wiener(Scaling[LinearMap]):
    """Principal directions with the share of their variance that is not noise.

    With the covariance ``Σ ω v vᵀ`` of rows that carry white noise of variance s, a row becomes
    ``a = ((ω − s)₊/ω · vᵀ(x − mean))`` over the first directions v: distances between such rows
    are distances between what is left when the noise is gone.

    Parameters
    ----------
    n_directions : int
        Directions kept.
    noise_variance : float or None
        Of each entry; None measures it in the lower half of the spectrum, where rows of images
        have little but noise (see :func:`noise_level`).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.images.wiener import Wiener
    >>> from kernelstream.stream import Rows
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 1)) * np.ones(20) + 0.5 * rng.normal(size=(2000, 20))
    >>> round(Wiener(1).measure(Rows(X)).noise_variance, 2)
    0.25
    """

    keeps_columns = False

    def __init__(self, n_directions: int = 80, noise_variance: float | None = None):
        self.n_directions = n_directions
        self.noise_variance = noise_variance

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""
        check_count("Wiener", "n_directions", self.n_directions, none_allowed=False)
        if self.noise_variance is not None:
            check_number("Wiener", "noise_variance", self.noise_variance)

    def start_rows(self, n_features: int) -> int:
        """Four rows a feature, for a covariance that can be relied on; at least 500."""
        return max(500, 4 * n_features)

    def measure(self, rows: Rows) -> LinearMap:
        """Directions and shares from rows."""
        X, weights = to_host(rows.X), rows.weights
        w = np.ones(len(X)) if weights is None else weights
        # In pieces: all rows in double precision would be the largest thing that fit holds.
        pieces = [slice(start, start + PIECE) for start in range(0, len(X), PIECE)]
        mean = sum(w[some] @ X[some].astype(np.float64) for some in pieces) / w.sum()
        scatter = np.zeros((X.shape[1], X.shape[1]))
        for some in pieces:
            centred = X[some].astype(np.float64) - mean
            scatter += (centred * w[some, None]).T @ centred
        omega, V = np.linalg.eigh(scatter / w.sum())
        omega, V = np.maximum(omega[::-1], 0.0), V[:, ::-1]
        noise = self.noise_variance
        if noise is None:
            n = len(X) if weights is None else round(w.sum() ** 2 / (w @ w))  # rows worth counting
            n_varying = int(np.sum(X.max(axis=0) > X.min(axis=0)))
            noise = noise_level(omega[:n_varying], n)
        omega, V = omega[: self.n_directions], V[:, : self.n_directions]
        floor = np.finfo(float).tiny
        share = np.maximum(omega - noise, 0.0) / np.maximum(omega, floor)
        signs = np.where(V.max(axis=0) >= -V.min(axis=0), 1.0, -1.0)  # libraries differ in the sign
        return LinearMap(mean, V * (signs * share), float(noise))


def noise_level(spectrum: np.ndarray, n_rows: int) -> float:
    """Variance of white noise under the signal, from the spectrum of a sampled covariance.

    The lower half of the eigenvalues is taken for noise. Sampling spreads the eigenvalues of noise
    of variance v between ``v (1 − √q)²`` and ``v (1 + √q)²``, q features a degree of freedom
    (Marchenko and Pastur 1967), so that their lower half lies below v: with four rows a feature at
    0.58 v, with one at 0.21 v. Their mean is divided by that of the same eigenvalues of noise of
    variance one. Eigenvalues above the upper edge are signal: they are no part of the law, and each
    has taken a degree of freedom.

    Parameters
    ----------
    spectrum : array of shape (d,)
        Eigenvalues, descending, of the covariance of n rows (about their mean, divided by n).
    n_rows : int
        n, at least 2.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.images.wiener import noise_level
    >>> X = 0.5 * np.random.default_rng(0).normal(size=(200, 100))
    >>> spectrum = np.linalg.eigvalsh(np.cov(X.T, ddof=0))[::-1]
    >>> float(spectrum[50:].mean().round(2)), round(noise_level(spectrum, 200), 2)
    (0.1, 0.25)
    """
    if n_rows < 2:
        raise ValueError("The noise cannot be measured from one row: give noise_variance.")
    there = min(n_rows - 1, len(spectrum))  # the others are zero whatever the noise
    if there == 0:  # nothing varies
        return 0.0
    low = spectrum[there // 2 : there]
    n_signal, found, settled = 0, 0.0, False
    while not settled:  # more signal means less noise, and that more signal: it ends
        features, freedom = len(spectrum) - n_signal, n_rows - 1 - n_signal
        q = features / freedom
        lowest = (np.arange(len(low)) + 0.5) / (there - n_signal)
        unit = freedom / n_rows  # of eigenvalues that were divided by n
        found = float(low.mean()) / (unit * float(marchenko_pastur(q, lowest).mean()))
        above = int(np.sum(spectrum > found * unit * (1.0 + math.sqrt(q)) ** 2))
        above = min(max(above, n_signal), there - len(low))
        n_signal, settled = above, above == n_signal
    return found


def marchenko_pastur(q: float, shares: np.ndarray) -> np.ndarray:
    """Quantiles of the eigenvalues (above zero) of noise of variance one."""
    # With x = 1 + q − 2√q cos t the density √((x₊ − x)(x − x₋))/x dx is that of sin² t/x dt.
    t = np.linspace(0.0, math.pi, 4001)
    x = 1.0 + q - 2.0 * math.sqrt(q) * np.cos(t)
    density = np.sin(t) ** 2 / np.maximum(x, np.finfo(float).tiny)
    below = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    return np.interp(shares, below / below[-1], x)
