"""Wiener filtering in principal directions, learned from the start of a stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelstream.backends.arrays import Array, like
from kernelstream.checks import check_count, check_number
from kernelstream.part import Part


@dataclass(frozen=True)
class LinearMap:
    """A map to fewer dimensions from the start of the stream, frozen: x ← (x − mean) P."""

    mean: np.ndarray  # (d,)
    matrix: np.ndarray  # P, (d, q)
    noise_variance: float  # of each entry of x, as it was given or measured

    def apply(self, X: Array) -> Array:
        """Map rows."""
        return (X - like(self.mean, X, X.dtype)) @ like(self.matrix, X, X.dtype)


class Wiener(Part):
    """Principal directions with the share of their variance that is not noise.

    With the covariance ``Σ ω v vᵀ`` of rows that carry white noise of variance s, a row becomes
    ``a = ((ω − s)₊/ω · vᵀ(x − mean))`` over the first directions v: distances between such rows
    are distances between what is left when the noise is gone.

    Parameters
    ----------
    n_directions : int
        Directions kept.
    noise_variance : float or None
        Of each entry; None measures it as the mean of the lower half of the spectrum, where rows
        of images have little but noise.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.wiener import Wiener
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 1)) * np.ones(20) + 0.5 * rng.normal(size=(2000, 20))
    >>> found = Wiener(1).measure(X, None)
    >>> round(found.noise_variance, 2)
    0.23
    """

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

    def measure(self, X: np.ndarray, weights: np.ndarray | None) -> LinearMap:
        """Directions and shares from rows."""
        X = X.astype(np.float64)
        mean = np.average(X, axis=0, weights=weights)
        X -= mean
        w = np.ones(len(X)) if weights is None else weights
        omega, V = np.linalg.eigh((X * w[:, None]).T @ X / w.sum())
        omega, V = np.maximum(omega[::-1], 0.0), V[:, ::-1]
        noise = self.noise_variance
        if noise is None:
            noise = float(omega[len(omega) // 2 :].mean())
        omega, V = omega[: self.n_directions], V[:, : self.n_directions]
        floor = np.finfo(float).tiny
        share = np.maximum(omega - noise, 0.0) / np.maximum(omega, floor)
        signs = np.where(V.max(axis=0) >= -V.min(axis=0), 1.0, -1.0)  # libraries differ in the sign
        return LinearMap(mean, V * (signs * share), float(noise))
