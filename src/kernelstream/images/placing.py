"""Optimization of patch directions for super-resolution: variable projection, L-BFGS.

k-means puts directions where patches are. What is asked of them is that the detail Y of patches is
nearly a linear function of their features Z (``images.features.PatchFeatures``):

    E(D) = min_B |Y − Z B|² + ρ |B|².

Its gradient is that with the best B held (variable projection, Golub and Pereyra 1973),
``dE = −2 ⟨(Y − Z B) Bᵀ, dZ⟩``, and with ``e∓ = exp(−|u ∓ d_j|²/2σ²)``

    dφ_j/dd_j = c/σ² [u (e₋ + e₊) − d_j (e₋ − e₊)].

Some quasi-Newton steps down are worth twice as many directions. Features are in single precision,
where half of the time is spent; sums are in double, since the ridge is far below what single shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from kernelstream.arrays import cores, in_threads
from kernelstream.images.base import STRIP
from kernelstream.images.features import PatchFeatures, PatchFeaturesState

PATCHES = 120  # a direction that are wanted, of which …
STEEP = 0.4  # … this share is looked at: those of most contrast have most of the error
FEWEST = 20  # of them a direction, at least: of fewer only noise is learned
RIDGE = 1e-4  # share of the mean second moment: more than for regression, whose patches are more
# Evaluations of E; the share of |Y|² that a step has to gain for another one; steps remembered.
OPTIONS = {"maxfun": 6, "ftol": 1e-4, "maxcor": 8}
UNIT = 10.0  # widths: how far all directions together are moved by the first step


def placed(
    basis: PatchFeatures, state: PatchFeaturesState, X: np.ndarray, Y: np.ndarray
) -> PatchFeaturesState:
    """Directions from which more of the detail Y (n, q) of the patches X (n, p) can be predicted.

    Those that are there where patches are few.
    """
    contrast, _ = basis.contrast_and_directions(X)
    steep = contrast >= np.quantile(contrast, 1.0 - STEEP)
    D, unit = state.directions, UNIT * basis.width
    if np.count_nonzero(steep) < FEWEST * len(D):
        return state
    error = RegressionError.of(basis, X[steep], Y[steep])
    energy = float(np.vdot(error.Y, error.Y)) or 1.0

    def downhill(flat: np.ndarray) -> tuple[float, np.ndarray]:
        with np.errstate(all="ignore"):  # a step so long that features are no numbers
            value, gradient = error.at(flat.reshape(D.shape) * unit)
        return value / energy, gradient.ravel() * (unit / energy)

    with cores():
        found = minimize(downhill, (D / unit).ravel(), jac=True, method="L-BFGS-B", options=OPTIONS)
    return PatchFeaturesState(found.x.reshape(D.shape) * unit)


@dataclass(frozen=True)
class RegressionError:
    """E and its gradient as functions of the directions."""

    X: np.ndarray  # (n, p) patches, float32
    Y: np.ndarray  # (n, q) their detail, float32
    U: np.ndarray  # (n, p) their directions
    height: np.ndarray  # (n,) c exp(−|u|²/2σ²)
    sharpness: np.float32  # 1/σ²

    @classmethod
    def of(cls, basis: PatchFeatures, X: np.ndarray, Y: np.ndarray) -> RegressionError:
        """For some patches."""
        X, Y = X.astype(np.float32), Y.astype(np.float32)
        contrast, U = basis.contrast_and_directions(X)
        sharpness = np.float32(1.0 / basis.width**2)
        height = contrast * np.exp(-0.5 * sharpness * np.vecdot(U, U))
        return cls(X, Y, U, height, sharpness)

    def at(self, D: np.ndarray) -> tuple[float, np.ndarray]:
        """The value, and the gradient (m, p), float64; ρ counts as a constant."""
        B, value = self.regression(D)
        B, m, depth = B.astype(np.float32), len(D), self.depth(D)
        back = np.ascontiguousarray(-2.0 * B[:m].T)

        def slopes(at: slice) -> np.ndarray:
            odd, even = self.waves(D, at)
            pull = (self.Y[at] - odd @ B[:m] - self.X[at] @ B[m:]) @ back
            along = np.einsum("ij,ij->j", pull, odd)
            even *= pull
            towards = even.T @ (self.U[at] * self.height[at, None])
            return towards * depth[:, None] - along[:, None] * D

        return value, self.sum_of(slopes, D.shape) * float(self.sharpness)

    def regression(self, D: np.ndarray) -> tuple[np.ndarray, float]:
        """B (m + p, q), and E."""
        k = len(D) + self.X.shape[1]

        def moments(at: slice) -> np.ndarray:
            parts = [self.waves(D, at)[0], self.X[at], self.Y[at]]
            both = np.concatenate(parts, axis=1, dtype=np.float64)
            return both.T @ both

        sums = self.sum_of(moments, 2 * (k + self.Y.shape[1],))
        S, T = sums[:k, :k], sums[:k, k:]
        S += (RIDGE * np.trace(S) / k or 1.0) * np.eye(k)
        B = np.linalg.solve(S, T)
        return B, float(np.trace(sums[k:, k:]) - np.sum(B * T))

    def depth(self, D: np.ndarray) -> np.ndarray:
        """``exp(−|d|²/2σ²)``, float32."""
        return np.exp(-0.5 * self.sharpness * np.vecdot(D, D)).astype(np.float32)

    def waves(self, D: np.ndarray, at: slice) -> tuple[np.ndarray, np.ndarray]:
        """``φ = c (e₋ − e₊)``, and ``(e₋ + e₊) exp((|u|² + |d|²)/2σ²)``, float32."""
        rising = np.exp(self.U[at] @ (D.T * self.sharpness).astype(np.float32))
        falling = 1.0 / rising
        odd = rising - falling
        odd *= self.depth(D)
        odd *= self.height[at, None]
        return odd, np.add(rising, falling, out=rising)

    def sum_of(self, function: Callable[[slice], np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """The sum of a function of strips, float64: as many at a time as there are threads."""
        total, starts = np.zeros(shape), range(0, len(self.X), STRIP)
        with cores() as n:
            for i in range(0, len(starts), n):
                group = [slice(at, at + STRIP) for at in starts[i : i + n]]
                for part in in_threads(function, group):
                    total += part
        return total
