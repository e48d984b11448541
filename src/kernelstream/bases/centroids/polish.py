"""Points moved uphill: where the variance that they capture of a sample is largest.

k-means asks that every row has a point near it. Kernel PCA asks for less: the span of the points
has to hold the first components. Starting from means of cells, some quasi-Newton steps on the
captured variance itself are worth half of the points and more.

Let K = k(R, D) be the kernel block of the sampled rows R with the points D, F a factor with
``Fᵀ K(D,D) F = I``, C the covariance of the coordinates Z = KF, w and U its largest eigenvalues and
their vectors, and A = FU. The captured variance is Σ w, and it moves with the kernel values by

    d Σ w = ⟨2 S Aᵀ/n, dK⟩ − ⟨A diag(w) Aᵀ, dK(D,D)⟩,      S = (Z − mean) U.

Both terms are sums of gradients of the kernel over rows.

Rows of many columns are first turned into the few directions in which most of them differ: what a
point has outside these hardly helps, and a step costs a fraction. What a row has outside is one
more column, its distance from that subspace, in which all points are zero; so the kernel values of
rows and such points are what they were.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy.optimize

from kernelstream.backends.arrays import (
    Array,
    as_dense,
    cast,
    is_sparse,
    like,
    namespace_of,
    row_norms_squared,
    symmetric_eigen,
    take_rows,
    to_float64,
    to_host,
    weighted_gram,
    weighted_sum,
)
from kernelstream.bases.base import Span, finite, refactorise
from kernelstream.bases.centroids.kmeans import spread
from kernelstream.kernels import Kernel
from kernelstream.kernels.derivatives import gradient_of_sum, is_smooth
from kernelstream.kernels.stationary import Stationary

# Directions of the subspace in which points are looked for: half of the columns, within these.
FEWEST_DIRECTIONS, MOST_DIRECTIONS = 64, 100
DIRECTED = 2000  # rows that show them
OVERSAMPLED = 10  # directions more on the way there (Halko, Martinsson, Tropp 2011)
LEAST_GAIN = 5e-4  # share of the captured variance that a step has to add for another one
CORRECTIONS = 8  # pairs of steps that L-BFGS remembers


@dataclass(frozen=True)
class Sampled:
    """Rows to place points for, with their share of the weight, in few directions."""

    rows: Array  # (n, p), with a further column where there are directions
    weights: np.ndarray | None  # (n,) with the mean 1; None: all 1
    directions: Array | None = None  # (d, p) orthonormal; None: the rows have their own columns
    centre: Array | None = None  # (d,) what was taken from the rows; None: nothing
    # (n, n) second moments over the rows, about their mean: those of a model, whose points stand in
    # the place of rows, and have no weights. None: each row counts by its weight.
    second: Array | None = None

    @classmethod
    def of(
        cls, kernel: Kernel, rows: Array, weights: np.ndarray | None, rng: np.random.Generator
    ) -> Sampled:
        """Rows about their mean where the kernel does not see that, in few directions.

        Where rows have few columns they keep them. So they do for a kernel that is not smooth:
        those that are look the same whichever way the rows are turned.
        """
        if not is_smooth(kernel):
            return cls(rows, weights)
        w = None if weights is None else like(weights / weights.mean(), rows)
        mean = cast(weighted_sum(rows, w) / int(rows.shape[0]), rows.dtype)
        centre = mean if isinstance(kernel, Stationary) and not is_sparse(rows) else None
        if centre is not None:
            rows = rows - mean[None, :]
        p = n_directions(int(rows.shape[1]))
        if p is None:
            return cls(as_dense(rows), weights, None, centre)
        shown = np.arange(0, int(rows.shape[0]), max(1, int(rows.shape[0]) // DIRECTED))
        few = take_rows(rows, shown)
        directions = main_directions(few, None if weights is None else weights[shown], p, rng)
        if centre is None:
            directions = orthonormal(directions, mean)
        inside = rows @ directions
        xp = namespace_of(inside)
        outside = xp.clip(row_norms_squared(rows) - row_norms_squared(inside), min=0.0)
        turned = xp.concat([inside, xp.sqrt(outside)[:, None]], axis=1)
        return cls(turned, weights, directions, centre)

    def covariance(self, k: Array) -> tuple[Array, Array]:
        """Mean and covariance of the rows of a kernel block."""
        if self.second is not None:
            return 0.0 * to_float64(k[0, :]), k.T @ (self.second @ to_float64(k))
        n, w = int(k.shape[0]), None if self.weights is None else like(self.weights, k)
        mean = weighted_sum(k, w) / n
        return mean, weighted_gram(k, w) / n - mean[:, None] * mean[None, :]

    def pulling(self, scores: Array) -> Array:
        """By how much each row draws the captured variance, given its scores: 2 S/n."""
        if self.second is not None:
            return 2.0 * (self.second @ scores)
        scores = scores * (2.0 / int(scores.shape[0]))
        if self.weights is None:
            return scores
        return scores * like(self.weights, scores, scores.dtype)[:, None]

    def take(self, index: np.ndarray) -> Sampled:
        """Some of the rows."""
        weights = None if self.weights is None else self.weights[index]
        if weights is not None:
            weights = weights / weights.mean()
        return replace(self, rows=take_rows(self.rows, index), weights=weights)

    @property
    def seen(self) -> Array:
        """The rows without what is outside the directions."""
        return self.rows if self.directions is None else self.rows[:, :-1]

    def inside(self, points: Array) -> Array:
        """Points as they are seen in the directions: (m, p)."""
        points = points if self.centre is None else points - self.centre[None, :]
        return points if self.directions is None else points @ self.directions

    def lift(self, points: Array) -> Array:
        """Points of the directions as points among the rows."""
        if self.directions is not None:
            points = points @ namespace_of(points).matrix_transpose(self.directions)
        return points if self.centre is None else points + self.centre[None, :]

    def beside(self, points: Array) -> Array:
        """Points with the column that the rows have, in which points are zero."""
        if self.directions is None:
            return points
        xp = namespace_of(points)
        return xp.concat([points, 0.0 * points[:, :1]], axis=1)


def n_directions(d: int) -> int | None:
    """Directions in which to look at rows of d columns; None: as they are."""
    p = min(MOST_DIRECTIONS, max(FEWEST_DIRECTIONS, d // 2))
    return p if 3 * p <= 2 * d else None


def main_directions(
    rows: Array, weights: np.ndarray | None, p: int, rng: np.random.Generator
) -> Array:
    """About p directions in which the rows are longest, orthonormal columns."""
    w = None if weights is None else like(weights / weights.mean(), rows, rows.dtype)[:, None]
    V = like(rng.normal(size=(int(rows.shape[1]), p + OVERSAMPLED)), rows, rows.dtype)
    for _ in range(2):
        along = rows @ V
        V = orthonormal(rows.T @ (along if w is None else w * along))
    return V


def orthonormal(V: Array, further: Array | None = None) -> Array:
    """Orthonormal columns that span those of V, and one more."""
    xp = namespace_of(V)
    V = V if further is None else xp.concat([further[:, None], V], axis=1)
    return xp.linalg.qr(V)[0]


def captured(
    kernel: Kernel, points: Array, sample: Sampled, wanted: int, held_back: Sampled
) -> float:
    """Variance of rows that were held back along the components that the others show."""
    span = refactorise(kernel, sample.beside(points))
    shown = principal(kernel, span, sample, wanted)
    Z = to_float64(span.coordinates(kernel, held_back.rows))
    n, w = int(Z.shape[0]), None if held_back.weights is None else like(held_back.weights, Z)
    mean = weighted_sum(Z, w) / n
    C = weighted_gram(Z, w) / n - mean[:, None] * mean[None, :]
    return float(namespace_of(C).sum((C @ shown.U) * shown.U))


@dataclass(frozen=True)
class Principal:
    """The components of sampled rows in a span: kernel block, its mean, variances and vectors."""

    K: Array  # (n, m), in the type of the rows
    mean: Array  # (m,)
    values: Array  # (r,)
    U: Array  # (rank, r)


def principal(kernel: Kernel, span: Span, sample: Sampled, wanted: int) -> Principal:
    """Components from KᵀK: rounding of its small directions is no matter where steps go uphill."""
    K = kernel.block(sample.rows, span.points)
    # squares of kernel values would overflow before the values do: in units of an energy
    unit = 1.0 if kernel.unit_norm else energy_unit(span.gram(kernel))
    k, F = K if unit == 1.0 else K / unit, span.factor * math.sqrt(unit)
    mean, about = sample.covariance(k)
    mean = finite(mean, kernel)
    values, vectors = symmetric_eigen(namespace_of(F).matrix_transpose(F) @ about @ F)
    values = namespace_of(values).clip(values[:wanted], min=0.0)  # rounding
    return Principal(K, mean * unit, values * unit, vectors[:, :wanted])


def energy_unit(gram: Array) -> float:
    """A power of four about as large as the largest entry."""
    largest = float(namespace_of(gram).max(namespace_of(gram).linalg.diagonal(gram)))
    return 4.0 ** round(math.log(largest, 4.0)) if largest > 0.0 else 1.0


def slope(
    kernel: Kernel, points: Array, sample: Sampled, wanted: int
) -> tuple[float, Array, Array]:
    """Captured variance, its gradient in the points, and how much it hangs on each of them."""
    span = refactorise(kernel, sample.beside(points))
    shown = principal(kernel, span, sample, wanted)
    K, xp = shown.K, namespace_of(shown.K)
    A = span.factor @ shown.U
    pull = (A * shown.values[None, :]) @ xp.matrix_transpose(A)
    A32 = cast(A, K.dtype)
    S = sample.pulling(K @ A32 - cast(shown.mean @ A, K.dtype)[None, :])
    W = xp.matrix_transpose(S @ xp.matrix_transpose(A32))
    gradient = gradient_of_sum(kernel, span.points, sample.rows, W, xp.matrix_transpose(K))
    wide = to_float64(span.points)
    gradient = to_float64(gradient) - gradient_of_sum(
        kernel, wide, wide, 2.0 * pull, span.gram(kernel)
    )
    p = int(points.shape[1])
    return float(xp.sum(shown.values)), gradient[:, :p], xp.linalg.diagonal(pull)


def polish(kernel: Kernel, points: Array, sample: Sampled, wanted: int, evaluations: int) -> Array:
    """Points that capture more of the sample, after at most so many looks at it (L-BFGS)."""
    if evaluations < 1 or not is_smooth(kernel):
        return points
    first = slope(kernel, points, sample, wanted)
    if not first[0] > 0.0:
        return points
    # Points on which much hangs have a steep gradient: in these units all are alike, and the
    # same whatever the rows are measured in.
    use = to_host(first[2])
    unit = 1.0 / np.sqrt(np.maximum(use, 1e-12 * use.max()) / use.mean())[:, None]
    unit *= math.sqrt(spread(to_float64(points))) or 1.0
    shape, known = tuple(points.shape), [first]

    def uphill(flat: np.ndarray) -> tuple[float, np.ndarray]:
        moved = like(flat.reshape(shape) * unit, points, points.dtype)
        try:
            with np.errstate(all="ignore"):
                value, gradient, _ = known.pop() if known else slope(kernel, moved, sample, wanted)
        except ValueError:  # a step so long that kernel values are no numbers: a shorter one
            return 0.0, 0.0 * flat
        return -value / first[0], -(to_host(gradient) * unit).ravel() / first[0]

    result = scipy.optimize.minimize(
        uphill,
        (to_host(to_float64(points)) / unit).ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxfun": evaluations, "ftol": LEAST_GAIN, "maxcor": CORRECTIONS},
    )
    better = result.fun < -1.0 and bool(np.isfinite(result.x).all())
    return like(result.x.reshape(shape) * unit, points, points.dtype) if better else points
