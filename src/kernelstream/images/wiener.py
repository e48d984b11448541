"""Wiener filter in principal directions, with a noise variance that is given or measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from kernelstream.arrays import Array, like, to_host
from kernelstream.images.base import STRIP
from kernelstream.images.noise import noise_level
from kernelstream.serialization import check_count, check_number, stored
from kernelstream.stream import Rows, Scaling


@stored
@dataclass(frozen=True)
class WienerMap:
    """A map to fewer dimensions from the start of the stream, frozen: x ← (x − mean) P."""

    mean: Annotated[np.ndarray, "float64 (columns)"]
    matrix: Annotated[np.ndarray, "float64 (columns, features)"]  # P
    # of each entry of x, as it was given or measured
    noise_variance: Annotated[float, "not negative"]

    def apply(self, X: Array) -> Array:
        """Map rows."""
        return (X - like(self.mean, X, X.dtype)) @ like(self.matrix, X, X.dtype)


@stored
class Wiener(Scaling[WienerMap]):
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
        have little but noise (see :func:`~kernelstream.images.noise.noise_level`).

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

    def measure(self, rows: Rows) -> WienerMap:
        """Directions and shares from rows."""
        X, weights = to_host(rows.X), rows.weights
        w = np.ones(len(X)) if weights is None else weights
        # In pieces: all rows in double precision would be the largest thing that fit holds.
        pieces = [slice(start, start + STRIP) for start in range(0, len(X), STRIP)]
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
        return WienerMap(mean, V * (signs * share), float(noise))
