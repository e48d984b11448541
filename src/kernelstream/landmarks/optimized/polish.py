"""Landmark optimization: captured variance, its gradient, subspace iteration, gradient ascent.

k-means asks that every row has a point near it. Kernel PCA asks for less: the span of the points
has to hold the first components. Starting from means of cells, some quasi-Newton steps on the
captured variance itself are worth half of the points and more.

Let K = k(R, D) be the kernel block of the sampled rows R with the points D, F a factor with
``Fᵀ K(D,D) F = I``, C the covariance of the coordinates Z = KF, w and U its largest eigenvalues and
their vectors, and A = FU. The captured variance is Σ w, and it moves with the kernel values by

    d Σ w = ⟨2 S Aᵀ/n, dK⟩ − ⟨A diag(w) Aᵀ, dK(D,D)⟩,      S = (Z − mean) U.

Both terms are sums of gradients of the kernel over rows. U is followed from one evaluation to the
next by subspace iteration, and sums over rows are sums over parts of them, which threads share.

Rows of many columns are first turned into the few directions in which most of them differ: what a
point has outside these hardly helps, and a step costs a fraction. What a row has outside is one
more column, its distance from that subspace, in which all points are zero; so the kernel values of
rows and such points are what they were. There single precision will do, in half the time: points
are looked for, and whatever they are, coordinates are computed with them in the type of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.optimize

from kernelstream.arrays.draws import evenly_spaced
from kernelstream.arrays.namespaces import (
    Array,
    as_dense,
    cast,
    dtype_name,
    is_sparse,
    like,
    namespace_of,
    orthonormal,
    row_norms_squared,
    symmetric_eigen,
    take_rows,
    to_float64,
    to_host,
    weighted_gram,
    weighted_sum,
)
from kernelstream.arrays.threads import by_rows, cut, in_threads, in_turn, tiles
from kernelstream.kernels import Kernel, Smoothness
from kernelstream.landmarks.nystroem import (
    FACTOR_ROWS,
    RANK_FLOOR,
    finite,
    inverse_of_cholesky,
    is_semidefinite,
    product_in_tiles,
    require_semidefinite,
    weighted_total,
)
from kernelstream.landmarks.optimized.kmeans import spread

STEPS = 3  # of Lloyd's algorithm from new seeds, and of subspace iteration without a start
EVALUATIONS = 8  # of the captured variance and its gradient
LEAST_GAIN = 5e-4  # fraction of the captured variance that a step has to add for another one
MOST_DIRECTIONS = 100  # of the subspace in which landmarks are optimized: half of the columns
OVERSAMPLED = 10  # additional directions on the way there (Halko, Martinsson, Tropp 2011)


@dataclass(frozen=True)
class RowPart:
    """Some of the rows, and their share of the weight."""

    rows: Array
    weights: np.ndarray | None
    second: Array | None = None  # as in ``Sampled``

    def weighted(self, scores: Array) -> Array:
        """Scores of the rows by what the rows count."""
        if self.second is not None:
            return self.second @ scores
        if self.weights is None:
            return scores
        return scores * like(self.weights, scores, scores.dtype)[:, None]


@dataclass(frozen=True)
class Sampled:
    """Rows to place points for, with their share of the weight, in few directions."""

    rows: Array  # (n, p), with a further column where there are directions
    weights: np.ndarray | None  # (n,) with the mean 1; None: all 1
    directions: Array | None = None  # (d, p) orthonormal; None: the rows have their own columns
    centre: Array | None = None  # (d,) what was taken from the rows; None: nothing
    # (n, n) n times the second moments over the rows, about their mean: those of a model, whose
    # points stand in the place of rows. None: each row counts by its weight.
    second: Array | None = None

    @classmethod
    def of(
        cls, kernel: Kernel, rows: Array, weights: np.ndarray | None, rng: np.random.Generator
    ) -> Sampled:
        """Rows about their mean where the kernel does not see that, in few directions.

        Where rows have few columns they keep them. So they do for a kernel that is not smooth:
        those that are look the same whichever way the rows are turned.
        """
        if kernel.smoothness is not Smoothness.SMOOTH:
            return cls(rows, weights)
        w = None if weights is None else like(weights / weights.mean(), rows)
        mean = cast(weighted_sum(rows, w) / int(rows.shape[0]), rows.dtype)
        centre = mean if kernel.stationary and not is_sparse(rows) else None

        def centred(rows: Array) -> Array:
            return rows if centre is None else rows - centre[None, :]

        p = n_directions(int(rows.shape[1])) if kernel.isotropic else None
        if p is None:
            return cls(as_dense(centred(rows)), weights, None, centre)
        seen = centred(rows) if centre is None else in_single(centred(rows))
        directions = main_directions(seen, weights, p, rng)
        directions = cast(directions, rows.dtype)
        if centre is None:
            whole = namespace_of(mean).concat([mean[:, None], directions], axis=1)
            directions = namespace_of(mean).linalg.qr(whole)[0]

        def turned(rows: Array) -> Array:
            rows = centred(rows)
            inside = rows @ directions
            xp = namespace_of(inside)
            outside = xp.clip(row_norms_squared(rows) - row_norms_squared(inside), min=0.0)
            return xp.concat([inside, xp.sqrt(outside)[:, None]], axis=1)

        return cls(by_rows(turned, rows, p), weights, directions, centre)

    def to_look_at(self) -> Sampled:
        """In single precision, where there are directions and the kernel is bounded."""
        if self.directions is None or self.centre is None:
            return self
        return replace(self, rows=in_single(self.rows))

    def take(self, index: np.ndarray) -> Sampled:
        """Some of the rows."""
        weights = None if self.weights is None else self.weights[index]
        if weights is not None:
            weights = weights / weights.mean()
        return replace(self, rows=take_rows(self.rows, index), weights=weights)

    def parts(self, m: int) -> list[RowPart]:
        """The rows in parts that threads work on, before m points."""
        w = self.weights
        if self.second is not None:  # it ties all rows together
            return [RowPart(self.rows, None, self.second)]
        return [RowPart(self.rows[at, :], None if w is None else w[at]) for at in cut(self.rows, m)]

    @property
    def seen(self) -> Array:
        """The rows without what is outside the directions."""
        return self.rows if self.directions is None else self.rows[:, :-1]

    def inside(self, points: Array) -> Array:
        """Points as they are seen in the directions: (m, p)."""
        points = points if self.centre is None else points - self.centre[None, :]
        if self.directions is None:
            return points
        return cast(points @ self.directions, self.rows.dtype)

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
    return MOST_DIRECTIONS if 2 * d >= 3 * MOST_DIRECTIONS else None


def in_single(rows: Array) -> Array:
    """Dense rows in single precision, unless the squares of their lengths are no numbers there."""
    xp = namespace_of(rows)
    longest = float(xp.max(row_norms_squared(rows)))
    return cast(rows, xp.float32) if 1e-30 < longest < 1e30 else rows


def main_directions(
    rows: Array, weights: np.ndarray | None, p: int, rng: np.random.Generator
) -> Array:
    """About p directions in which the rows are longest, orthonormal columns, float64."""
    V = like(rng.normal(size=(int(rows.shape[1]), p + OVERSAMPLED)), rows)
    parts = Sampled(rows, None if weights is None else weights / weights.mean()).parts(p)
    for _ in range(2):

        def turned(part: RowPart, V: Array = V) -> Array:
            return part.rows.T @ part.weighted(part.rows @ cast(V, rows.dtype))

        V = orthonormal(added_up(in_threads(turned, parts)))
    return V


def captured(
    kernel: Kernel, points: Array, sample: Sampled, wanted: int, held_back: Sampled
) -> float:
    """Variance of rows that were held back along the components that the others show."""
    try:
        shown = leading(kernel, sample.beside(points), sample, wanted)
    except FloatingPointError:
        return 0.0
    if held_back is sample:
        return float(namespace_of(shown.values).sum(shown.values))
    ready, A = shown.ready, shown.components

    def sums(part: RowPart) -> tuple[Array, float]:
        K = kernel.block(part.rows, ready)
        scores = to_float64(K @ cast(A, K.dtype))
        w = None if part.weights is None else like(part.weights, scores)
        return weighted_sum(scores, w), weighted_total(row_norms_squared(scores), w)

    parts = in_threads(sums, held_back.parts(int(points.shape[0])))
    n, mean = int(held_back.rows.shape[0]), added_up([total for total, _ in parts])
    squares = sum(square for _, square in parts)
    return squares / n - float(namespace_of(mean).sum(mean * mean)) / n**2


@dataclass(frozen=True)
class Leading:
    """The leading components of sampled rows in the span of points, as ``Σ_i A_i k(d_i, ·)``."""

    gram: Array  # (m, m), float64
    ready: Any  # the points, as blocks of rows meet them
    A: Array  # (m, r + some), float64: unit vectors, at right angles
    values: Array  # (r,), their variances
    K: list[Array]  # kernel block of each part of the rows, in their type
    along: list[Array]  # each part along the subspace in which the components were found
    turn: Array  # (r + some, r), from there to the components, and …
    centre: Array  # (r,), … what is taken from the scores

    @property
    def components(self) -> Array:
        """(m, r): without those that came along."""
        return self.A[:, : int(self.values.shape[0])]


def leading(
    kernel: Kernel, points: Array, sample: Sampled, wanted: int, start: Array | None = None
) -> Leading:
    """Components by subspace iteration, from those of points near these or from some of the points.

    No eigenvalue problem larger than the components: those of all points would take most of the
    time. What is missed of the last components, whose variances are alike, is no matter where steps
    go uphill. Where most are wanted, all are computed.
    """
    gram = finite(kernel.gram(to_float64(points)), kernel)
    F = loose_factor(kernel, points, gram)
    xp, m, n = namespace_of(F), int(points.shape[0]), int(sample.rows.shape[0])
    ready = kernel.prepared(points) if isinstance(points, np.ndarray) else points
    parts = sample.parts(m)
    blocks: list[Array] = [None] * len(parts)  # kernel values, computed on the way
    # products of kernel values would overflow before the values do: in units of an energy
    unit = 1.0 if kernel.unit_norm else energy_unit(gram)

    def block(number: int) -> Array:
        if blocks[number] is None:
            blocks[number] = kernel.block(parts[number].rows, ready)
        return blocks[number]

    def turned(number: int, B: Array) -> tuple[Array, Array]:
        K, part = block(number), parts[number]
        scores = part.weighted(K @ cast(B / unit, K.dtype))
        return total(K, part), xp.matrix_transpose(K) @ scores

    def along(number: int, B: Array) -> tuple[Array, Array, Array]:
        K, part = block(number), parts[number]
        scores = K @ cast(B, K.dtype)
        if part.second is not None:
            moments = xp.matrix_transpose(scores) @ part.weighted(scores)
        else:
            moments = weighted_gram(scores, weights_of(part, scores))
        return scores, total(scores, part), moments

    kept, B = min(wanted + OVERSAMPLED, int(F.shape[1])), F
    if 2 * kept <= int(F.shape[1]):
        steps = STEPS if start is None else 1
        B = like(np.eye(m)[:, evenly_spaced(m, kept)], F) if steps > 1 else start
        for _ in range(steps):
            totals, images = zip(*in_threads(partial(turned, B=B), range(len(parts))), strict=True)
            mean, Y = finite(added_up(totals), kernel), added_up(images)
            Y -= mean[:, None] * (mean @ B / (unit * n))[None, :]
            B = product_in_tiles(F, orthonormal(product_in_tiles(xp.matrix_transpose(F), Y)))
    seen, totals, products = zip(*in_threads(partial(along, B=B), range(len(parts))), strict=True)
    mean = finite(added_up(totals), kernel) / n
    values, vectors = symmetric_eigen(added_up(products) / n - mean[:, None] * mean[None, :])
    return Leading(
        gram,
        ready,
        product_in_tiles(B, vectors[:, :kept]),
        xp.clip(values[:wanted], min=0.0),  # rounding
        blocks,
        list(seen),
        vectors[:, :wanted],
        mean @ vectors[:, :wanted],
    )


def loose_factor(kernel: Kernel, points: Array, gram: Array) -> Array:
    """F with ``Fᵀ (K(D,D) + a little) F = I``.

    The little is what ``factorise`` calls a weak direction: points that nearly depend on others do
    not count, steps stay smooth, and a Cholesky factor, which takes a tenth of the time of
    eigenvectors, always exists where the kernel is semidefinite.
    """
    xp = namespace_of(gram)
    little = RANK_FLOOR[dtype_name(points)] * float(xp.linalg.trace(gram)) or 1.0
    if isinstance(gram, np.ndarray):
        more = gram.copy()
        more.flat[:: len(more) + 1] += little
        factor = inverse_of_cholesky(more)
        if factor is not None:
            return factor
    values, vectors = symmetric_eigen(gram)
    if kernel.psd and not is_semidefinite(float(values[-1]), float(values[0])):
        raise FloatingPointError("the landmarks are so near that rounding spoils their factor")
    require_semidefinite(kernel, float(values[-1]), float(values[0]))
    return vectors / xp.sqrt(xp.clip(values, min=0.0) + little)[None, :]


def weights_of(part: RowPart, values: Array) -> Array | None:
    """Weights of the rows beside their values."""
    return None if part.weights is None else like(part.weights, values)


def total(values: Array, part: RowPart) -> Array:
    """Weighted sum of values of rows, in float64; second moments are about the mean."""
    summed = weighted_sum(values, weights_of(part, values))
    return summed if part.second is None else 0.0 * summed


def added_up(parts: Sequence[Array]) -> Array:
    """The sum, in float64."""
    return in_turn(parts[0], parts[1:])


def energy_unit(gram: Array) -> float:
    """A power of four about as large as the largest entry."""
    largest = float(namespace_of(gram).max(namespace_of(gram).linalg.diagonal(gram)))
    return 4.0 ** round(math.log(largest, 4.0)) if largest > 0.0 else 1.0


@dataclass(frozen=True)
class Slope:
    """Captured variance and its gradient in the points, and how much it hangs on each of them."""

    value: float
    gradient: Array  # (m, p), float64
    use: Array  # (m,)
    shown: Leading


def slope(
    kernel: Kernel, points: Array, sample: Sampled, wanted: int, start: Array | None = None
) -> Slope:
    """The captured variance at some points, with components found from those of points nearby."""
    seen = sample.beside(points)
    shown = leading(kernel, seen, sample, wanted, start)
    A, xp, n = shown.components, namespace_of(shown.A), int(sample.rows.shape[0])
    wide, narrow = to_float64(seen), shown.K[0].dtype
    along, turn = cast(A, narrow), cast(shown.turn * (2.0 / n), narrow)
    centre = cast(shown.centre * (2.0 / n), narrow)[None, :]

    def of_rows(at: tuple[RowPart, Array, Array]) -> Array:
        part, K, scores = at
        S = part.weighted(scores @ turn - centre)
        W = along @ xp.matrix_transpose(S)
        return kernel.gradient_of_sum(seen, part.rows, W, xp.matrix_transpose(K))

    def of_points(at: slice) -> Array:
        pull = (A[at, :] * (2.0 * shown.values)[None, :]) @ xp.matrix_transpose(A)
        return kernel.gradient_of_sum(wide[at, :], wide, pull, shown.gram[at, :])

    parts = list(zip(sample.parts(int(points.shape[0])), shown.K, shown.along, strict=True))
    gradient = added_up(in_threads(of_rows, parts)) - xp.concat(
        in_threads(of_points, tiles(int(A.shape[0]), int(A.shape[0]), FACTOR_ROWS)), axis=0
    )
    use = xp.sum(A * A * shown.values[None, :], axis=1)
    return Slope(float(xp.sum(shown.values)), gradient[:, : int(points.shape[1])], use, shown)


def polish(kernel: Kernel, points: Array, sample: Sampled, wanted: int) -> Array:
    """Landmarks that capture more of the sample, by L-BFGS-B from the given ones."""
    if kernel.smoothness is not Smoothness.SMOOTH:
        return points
    try:
        first = slope(kernel, points, sample, wanted)
    except FloatingPointError:  # the final factor of these landmarks says so in a warning
        return points
    if not first.value > 0.0:
        return points
    # Points on which much hangs have a steep gradient: in these units all are alike, and the
    # same whatever the rows are measured in.
    use = to_host(first.use)
    unit = 1.0 / np.sqrt(np.maximum(use, 1e-12 * use.max()) / use.mean())[:, None]
    unit *= math.sqrt(spread(to_float64(points))) or 1.0
    shape, begun, known, nearby = tuple(points.shape), first.value, [first], [first.shown.A]
    del first  # and with it, once it is known no more, the kernel values of all rows

    def negative_gain(flat: np.ndarray) -> tuple[float, np.ndarray]:
        moved = like(flat.reshape(shape) * unit, points, points.dtype)
        try:
            with np.errstate(all="ignore"):
                here = known.pop() if known else slope(kernel, moved, sample, wanted, nearby[0])
        # After a step so long that kernel values or the factor are spoiled: a shorter one.
        except (ValueError, FloatingPointError):
            return 0.0, 0.0 * flat
        nearby[0] = here.shown.A
        return -here.value / begun, -(to_host(here.gradient) * unit).ravel() / begun

    start = (to_host(to_float64(points)) / unit).ravel()
    # Measured against an L-BFGS in NumPy, with 6,000 rows of MNIST (100 landmarks) and 10,000
    # normal ones (20 columns, 256 landmarks): same evaluations and values, same time within 1%,
    # no more memory. `cores` limits SciPy's own BLAS to one thread as well.
    options = {"maxfun": EVALUATIONS, "ftol": LEAST_GAIN, "maxls": EVALUATIONS}
    found = scipy.optimize.minimize(
        negative_gain, start, jac=True, method="L-BFGS-B", options=options
    )
    better = found.fun < -1.0 and bool(np.isfinite(found.x).all())
    return like(found.x.reshape(shape) * unit, points, points.dtype) if better else points
