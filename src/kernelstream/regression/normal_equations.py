"""Normal equations: ridge coefficients; choice of the ridge strength by cross-validation (GCV).

Everything is a function of the moments that a stream keeps: the weight W, the sums of z and y, the
scatter Σ w z zᵀ and the cross moments Σ w z yᵀ. No row is needed again, so any strength can be
tried after the stream has passed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace

from kernelstream import trackers
from kernelstream.arrays import Array, like, symmetric_eigen, to_host

# Directions whose variance is below this share of the largest are rounding, not data.
NOTHING = 1e-13
# Strengths that cross-validation looks at, as shares of the largest variance of a direction.
WEAKEST, STRONGEST, STEPS = 1e-12, 1e2, 113
# Degrees of freedom that must be left, as a share of the rows: below, the criterion is a quotient
# of two roundings. Strengths whose criterion is this near to the best are as good as it.
FREEDOM_LEFT, AS_GOOD = 1e-4, 1e-3
HILL = 0.05  # by how much the criterion has to rise before a further fall is not believed
UNEXPLAINED = 1e-10  # share of the variance of the targets below which a residual is rounding


@dataclass(frozen=True)
class NormalEquations:
    """The normal equations in the directions of the covariance, where they are diagonal.

    ``values`` λ and ``vectors`` U are the eigensystem of cov(z) and ``moments`` is Uᵀ cov(z, y), so
    that the regression with strength α is ``B = U (Λ + α/W)⁻¹ Uᵀ cov(z, y)``.
    """

    weight: float
    values: Array  # (q,) descending
    vectors: Array  # (q, q)
    moments: Array  # (q, t)
    mean: Array  # (q,) of the coordinates
    target_mean: Array  # (t,)
    target_variance: Array  # (t,)
    centred: bool

    @classmethod
    def of(
        cls, moments: trackers.Moments, scatter: Array, targets: trackers.CrossMoments, center: bool
    ) -> NormalEquations:
        """Centre the moments (both sides, or neither) and diagonalise."""
        xp = array_namespace(scatter)
        weight = moments.weight if moments.weight > 0 else 1.0
        if not center:  # the origin of the targets is taken out again
            targets = targets.about(0.0 * targets.origin, moments.weight, moments.total)
        mean, offset = moments.total / weight, targets.total / weight
        mean, offset = (mean, offset) if center else (0.0 * mean, 0.0 * offset)
        values, vectors = symmetric_eigen(scatter / weight - mean[:, None] * mean[None, :])
        covariance = targets.cross / weight - mean[:, None] * offset[None, :]
        return cls(
            weight=weight,
            values=xp.clip(values, min=0.0),
            vectors=vectors,
            moments=xp.matrix_transpose(vectors) @ covariance,
            mean=mean,
            target_mean=targets.origin + offset,
            target_variance=xp.clip(targets.square / weight - offset**2, min=0.0),
            centred=center,
        )

    def coefficients(self, alpha: float) -> Array:
        """B (q, t) of least Σ w |y − ȳ − Bᵀ(z − μ)|² + α |B|²; α = 0: of least norm as well."""
        xp = array_namespace(self.values)
        if self.values.shape[0] == 0:
            return self.vectors @ self.moments
        kept = self.values > NOTHING * float(self.values[0])
        safe = xp.where(kept, self.values, xp.ones_like(self.values)) + alpha / self.weight
        shrunk = xp.where(kept[:, None], self.moments / safe[:, None], 0.0 * self.moments)
        return self.vectors @ shrunk

    def generalised_cross_validation(self, alphas: np.ndarray) -> np.ndarray:
        """``n RSS / (n − df)²`` for each strength, in units of the variance of each target.

        Golub, Heath and Wahba (1979), with n = W, the weight of all rows: leave-one-out with the
        leverage of each row replaced by their mean, which is all that moments know. Infinite where
        the degrees of freedom ``df = Σ λ/(λ + α/W)`` (and one for the mean) all but reach n.
        """
        n = self.weight
        lam = to_host(self.values)[:, None]
        largest = float(lam.max(initial=0.0)) or 1.0  # the unit: squares of λ may be no numbers
        shift = np.asarray(alphas, dtype=float)[None, :] / n / largest
        lam = lam / largest
        some = np.maximum(lam + shift, np.finfo(float).tiny)
        freedom = np.sum(lam / some, axis=0) + float(self.centred)
        variance = to_host(self.target_variance)
        varies = variance > 0
        unit = np.sqrt(np.where(varies, variance, 1.0)) * np.sqrt(largest)
        energy = np.sum(np.where(varies, to_host(self.moments) / unit, 0.0) ** 2, axis=1)[:, None]
        explained = np.sum(energy * (lam + 2.0 * shift) / some**2, axis=0)
        there = float(np.sum(varies))
        left = np.maximum(there - explained, UNEXPLAINED * max(there, 1.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            value = n * n * left / (n - freedom) ** 2
        return np.where(n - freedom > FREEDOM_LEFT * n, value, np.inf)

    def best_strength(self) -> float:
        """The largest strength whose generalised cross-validation is as good as the best.

        0 where no coordinate varies.
        """
        largest = float(self.values[0]) if self.values.shape[0] else 0.0
        if not largest > 0.0:
            return 0.0
        grid = np.geomspace(WEAKEST, STRONGEST, STEPS) * largest * self.weight
        criterion = self.generalised_cross_validation(grid)
        return strongest_of_the_best(*this_side_of_the_hill(grid, criterion))


def this_side_of_the_hill(grid: np.ndarray, criterion: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Strengths from the strongest down to where the criterion has risen again.

    Generalised cross-validation puts the mean leverage in the place of each. Where degrees of
    freedom are nearly as many as rows, that says nothing about the rows with the largest (of two
    equal rows, each has little), and the criterion may fall a second time, towards interpolation,
    while the error of rows left out explodes. With many rows a degree of freedom there is no hill.
    """
    least = np.minimum.accumulate(criterion[::-1])[::-1]  # of all strengths from here on
    with np.errstate(invalid="ignore"):
        beyond = np.flatnonzero((criterion > (1.0 + HILL) * least) & np.isfinite(least))
    first = int(beyond[-1]) + 1 if len(beyond) else 0
    return grid[first:], criterion[first:]


def strongest_of_the_best(grid: np.ndarray, criterion: np.ndarray) -> float:
    """The largest strength whose criterion is as good as the best."""
    known = criterion[np.isfinite(criterion)]  # not where a strength, or what it leaves, overflows
    if len(known) == 0:
        return float(grid[-1])
    return float(grid[np.flatnonzero(criterion <= (1.0 + AS_GOOD) * known.min())[-1]])


@dataclass(frozen=True)
class Prediction:
    """A regression ready for use: ``y = (z − μ)ᵀ B + ȳ`` in coordinates of a basis."""

    coefficients: Array  # (q, t)
    intercept: Array  # (t,)
    alpha: float

    @classmethod
    def of(cls, equations: NormalEquations, alpha: float | None) -> Prediction:
        """The regression of a given strength, or of the best one (None)."""
        strength = equations.best_strength() if alpha is None else float(alpha)
        B = equations.coefficients(strength)
        offset = equations.target_mean - equations.mean @ B
        return cls(B, offset, strength)

    def of_coordinates(self, Z: Array) -> Array:
        """Predictions from coordinates, in their type."""
        return Z @ like(self.coefficients, Z, Z.dtype) + like(self.intercept, Z, Z.dtype)
