"""Stationary kernels: RBF, exponential, Laplacian, Matérn; gamma by the median heuristic.

All have ``k(x, x) = 1``, and all but the Laplacian depend on ``|x − y|²`` alone, which one matrix
product gives for a whole block:

    |x − y|² = |x|² + |y|² − 2 x·y.
"""

# Four kernels on one base: a third of the file is docstring, and they are read side by side.

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelstream.arrays.namespaces import (
    Array,
    cast,
    like,
    namespace_of,
    ones,
    overwrite,
    row_norms_squared,
    to_float64,
    to_host,
)
from kernelstream.arrays.threads import by_rows
from kernelstream.kernels.base import (
    U32,
    Kernel,
    Rounding,
    Smoothness,
    mirrored,
    require,
    require_positive,
    scale_gamma,
)
from kernelstream.kernels.distances import (
    Points,
    manhattan_distances,
    median_distance,
    scaled_distances,
    shift,
)
from kernelstream.kernels.rounding import LinearRounding
from kernelstream.serialization import as_number, stored

GRAM_ROWS = 64  # of a Gram matrix, at least, that a thread computes
LARGEST_BLOCK = 4_000_000  # numbers held at once by the gradient that is no matrix product
AT_REST = 1e-6  # of the spread of the landmarks: a row nearer to one than that has met it


class Stationary(Kernel):
    """A kernel of the difference x − y, 1 where that is 0."""

    unit_norm = True
    stationary = True

    def diag(self, X: Array) -> Array:
        """All 1."""
        return ones(int(X.shape[0]), X, X.dtype)


class ByMedian(Stationary):
    """A stationary kernel with one parameter, ``gamma``: one over the median distance of rows."""

    #: The rules that gamma may be given as; None is the first one.
    rules: tuple[str, ...] = ("median",)
    metric = "euclidean"

    def __init__(self, gamma: float | str | None = "median") -> None:
        self.gamma: Any = gamma  # a float once the kernel is fixed

    def check(self) -> None:
        """Refuse a gamma that is neither positive nor a rule."""
        require_positive(self, "gamma", *self.rules)

    def decide(self, rule: str | None, X: Array, weights: np.ndarray) -> float:
        """One over the median distance; 1 if all rows are equal."""
        median = median_distance(X, weights, self.metric)
        return 1.0 if median is None else 1.0 / median


class Euclidean(Stationary):
    """A kernel of the squared Euclidean distance.

    ``block`` is ``of_scaled_distances(scaled_distances(X, Y))``. A basis that needs the distances
    as well (k-means) calls the two itself and shares the one product.
    """

    isotropic = True
    invertible = True

    @property
    def smoothness(self) -> Smoothness:
        """Smooth if the class has a ``slope``; a kernel with a cusp writes ``smoothness`` too."""
        return Smoothness.UNKNOWN if type(self).slope is Kernel.slope else Smoothness.SMOOTH

    @property
    def distance_scale(self) -> float:
        """What squared distances are multiplied by on the way: a factor of the exponent, say."""
        return 1.0

    @property
    def resolution(self) -> float:
        """One over the squared distance at which the kernel has fallen to about 1/e."""
        raise NotImplementedError

    @property
    def in_float64(self) -> bool:
        """Whether float32 rows need float64 distances, because the kernel has a kink at 0.

        There ``k ≈ 1 − c|x − y|``: an error of 1e-7 in the square is one of 3e-4 in the kernel
        (of rows that nearly coincide), and the 1e-16 of float64 is one of 1e-8.
        """
        return False

    def scaled_distances(self, X: Array, Y: Array) -> Array:
        """``distance_scale · |x_i − y_j|²``, as exactly as this kernel needs it.

        Rounding may leave equal rows a little on the wrong side of zero.
        """
        rows = to_float64(X) if self.in_float64 else X
        if isinstance(Y, Points):
            return Y.scaled_distances(rows)
        return scaled_distances(rows, Y, self.resolution, self.distance_scale)

    def prepared(self, Y: Array) -> Any:
        """Norms and scaled points, computed once; for dense rows where Y lives, in its type."""
        if type(self).block is not Euclidean.block:  # another block may not know the form
            return Y
        points = to_float64(Y) if self.in_float64 else Y
        return Points(points, self.resolution, self.distance_scale)

    def of_scaled_distances(self, t: Array) -> Array:
        """The kernel from scaled distances, in the memory of ``t`` where possible."""
        raise NotImplementedError

    def nearest(self, t: Array) -> Array:
        """Index of the nearest point of each row, from scaled distances."""
        xp = namespace_of(t)
        return xp.argmin(t, axis=1) if self.distance_scale > 0 else xp.argmax(t, axis=1)

    @property
    def largest_slope(self) -> float:
        """Largest ``|dk/d|x−y|²|``; infinite for a kernel with a cusp at zero."""
        return self.resolution

    @property
    def rounding(self) -> Rounding:
        """That of the distances, times the slope."""
        return DistanceRounding(self)

    def gradient_of_sum(self, X: Array, D: Array, W: Array, block: Array | None = None) -> Array:
        """``∇κ(|x − d|²) = 2 κ' (x − d)``, for all landmarks by one matrix product."""
        W = W * (-2.0 * self.slope(X, D, block))
        return namespace_of(X).sum(W, axis=1)[:, None] * X - W @ D

    def inverse(self, values: Array, own: Array, Y: Array) -> Array:
        """From ``k(x, y) = 1 − |φ(x) − φ(y)|²/2`` (Kwok and Tsang 2004, eq. 9)."""
        value = to_host(values + 0.5 * (1.0 - own[:, None]))
        return like(self.squared_distance(np.clip(value, 1e-12, 1.0)), Y)

    def squared_distance(self, value: np.ndarray) -> np.ndarray:
        """The squared distance at which the kernel has a value in (0, 1], by interpolation."""
        # Up to 1e20: a kernel with heavy tails has values above the least one, 1e-12, far away.
        squared = np.concatenate([[0.0], np.geomspace(1e-12, 1e20, 40001)]) / self.resolution
        values = self.of_scaled_distances(self.distance_scale * squared)
        return np.interp(-value, -values, squared)

    def gram(self, Y: Array) -> Array:
        """``k(y_i, y_j)`` in float64, exactly symmetric, with exactly ``diag(Y)`` inside."""
        Y = to_float64(Y)
        points = self.prepared(Y) if isinstance(Y, np.ndarray) else Y
        K = by_rows(lambda rows: self.block(rows, points), Y, int(Y.shape[0]), GRAM_ROWS)
        return mirrored(K, self.diag(Y))

    def block(self, X: Array, Y: Array) -> Array:
        """The two steps one after the other."""
        return cast(self.of_scaled_distances(self.scaled_distances(X, Y)), X.dtype)


@dataclass(frozen=True)
class DistanceRounding(Rounding):
    """The error of a kernel of the Euclidean distance."""

    kernel: Euclidean

    def extent(self, points: Array, shifted: bool = True) -> float:
        """Largest squared norm of a landmark, after the shift that the distances make."""
        centre = shift(points, self.kernel.resolution) if shifted else None
        norms = row_norms_squared(points if centre is None else points - centre)
        return float(namespace_of(norms).max(norms)) if norms.shape[0] else 0.0

    def worst(self, extent: float, d: int) -> float:
        """The squared distance t is off by ``(d+4) u (|x| + |y|)² ≤ (d+4) u (6|y|² + 3t)``.

        That is since ``|x| ≤ |y| + √t``: a row far from all points has a large t and a kernel that
        is flat there. The slope ``|k'|`` multiplies the first part. It falls with t (the kernel is
        a mixture of Gaussians), so ``t |k'(t)| ≤ k(0) = 1`` bounds the second; and where it is
        infinite at zero, an error δ of t moves k nowhere by more than there, ``1 − k(δ)``.
        """
        kernel = self.kernel
        far = 4.0 + 3.0 * (d + 4)
        near = 6.0 * (d + 4) * extent
        if math.isfinite(kernel.largest_slope):
            return far + kernel.largest_slope * near
        u = float(np.finfo(np.float64).eps) / 2
        moved = kernel.of_scaled_distances(np.array([kernel.distance_scale * near * u]))
        return far + (1.0 - float(moved[0])) / u

    def in_float32(self, extent: float) -> float:
        """As of any kernel; where distances are in float64, values are only written in float32."""
        if not self.kernel.in_float64:
            return super().in_float32(extent)
        return U32 + self.worst(extent, 0) * float(np.finfo(np.float64).eps) / 2


def slope_of_exponential(c: float, X: Array, D: Array, k: Array) -> Array:
    """``c κ / 2r`` for ``κ = exp(−c r)``, 0 where a row has met a landmark.

    There the kernel has a cusp, and the weight of the landmark is left out as in Weiszfeld's
    method: the others pull, and the test of the step decides whether to leave.
    """
    xp = namespace_of(k)
    spread = float(xp.mean(row_norms_squared(D - xp.mean(D, axis=0)))) ** 0.5
    r = -xp.log(xp.where(k > 0, k, xp.ones_like(k))) / c
    near = xp.where(r > 0, r, xp.ones_like(k))
    return xp.where(r > AT_REST * spread, 0.5 * c * k / near, 0 * k)


@stored
class RBF(ByMedian, Euclidean):
    """The Gaussian kernel ``exp(−gamma |x − y|²)``.

    Parameters
    ----------
    gamma : float, "median", "narrow" or "scale", default="median"
        A positive number; or ``"median"`` (None means the same): ``1/(2σ²)`` with σ the median of
        the positive distances between at most 500 rows of the start of the stream; ``"narrow"``:
        four times that, for what is near a row; or ``"scale"``: ``1/(n_features · variance)``, as
        in scikit-learn's SVC.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.kernels import RBF
    >>> X = np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
    >>> RBF().fix(X)  # the distances are 5, 5 and 10
    RBF(gamma=0.02)
    >>> RBF(gamma=0.02)(X).round(3)
    array([[1.   , 0.607, 0.135],
           [0.607, 1.   , 0.607],
           [0.135, 0.607, 1.   ]])
    """

    rules = ("median", "narrow", "scale")

    def decide(self, rule: str | None, X: Array, weights: np.ndarray) -> float:
        """``1/(2σ²)``, ``2/σ²`` or ``1/(n_features · variance)``; 1 if all rows are equal."""
        if rule == "scale":
            return scale_gamma(X, weights)
        sigma = median_distance(X, weights)
        return 1.0 if sigma is None else (2.0 if rule == "narrow" else 0.5) / (sigma * sigma)

    @property
    def resolution(self) -> float:
        """``gamma``."""
        return self.gamma

    @property
    def distance_scale(self) -> float:
        """``−gamma``: the exponent itself."""
        return -self.gamma

    def of_scaled_distances(self, t: Array) -> Array:
        """``exp(t)``."""
        return overwrite("exp", t)

    def slope(self, X: Array, D: Array, block: Array | None = None) -> Array:
        """``gamma · k``."""
        return self.gamma * (self.block(X, D) if block is None else block)

    def gradient_of_sum(self, X: Array, D: Array, W: Array, block: Array | None = None) -> Array:
        """As of any kernel of the distance, with a pass over the block less."""
        W = W * (self.block(X, D) if block is None else block)
        return (namespace_of(X).sum(W, axis=1)[:, None] * X - W @ D) * (-2.0 * self.gamma)

    def squared_distance(self, value: np.ndarray) -> np.ndarray:
        """``−log(k) / gamma``."""
        return -np.log(value) / self.gamma


@stored
class Exponential(ByMedian, Euclidean):
    """The exponential kernel ``exp(−gamma |x − y|)`` of the Euclidean norm.

    Parameters
    ----------
    gamma : float or "median", default="median"
        A positive number; or ``"median"`` (None means the same): one over the median of the
        positive distances between at most 500 rows of the start of the stream.

    Notes
    -----
    The square root turns the rounding of ``|x − y|²`` into an error of about ``1e-8 |x|`` in the
    distance of rows that nearly coincide. Distances are therefore computed in float64, whatever
    the dtype of the rows.

    Examples
    --------
    >>> from kernelstream.kernels import Exponential
    >>> Exponential(gamma=0.2)([[0.0, 0.0]], [[3.0, 4.0]]).round(3)
    array([[0.368]])
    """

    in_float64 = True

    @property
    def resolution(self) -> float:
        """``gamma²``."""
        return self.gamma * self.gamma

    largest_slope = math.inf
    smoothness = Smoothness.CUSP

    def of_scaled_distances(self, t: Array) -> Array:
        """``exp(−gamma √t)``."""
        distances = overwrite("sqrt", overwrite("maximum", t, 0.0))
        distances *= -self.gamma
        return overwrite("exp", distances)

    def slope(self, X: Array, D: Array, block: Array | None = None) -> Array:
        """``gamma κ / 2r``, 0 where a row has met a landmark."""
        block = self.block(X, D) if block is None else block
        return slope_of_exponential(self.gamma, X, D, block)

    def squared_distance(self, value: np.ndarray) -> np.ndarray:
        """``(log(k) / gamma)²``."""
        return (np.log(value) / self.gamma) ** 2


@stored
class Laplacian(ByMedian):
    """The Laplacian kernel ``exp(−gamma |x − y|₁)``, as in scikit-learn.

    Parameters
    ----------
    gamma : float or "median", default="median"
        A positive number; or ``"median"`` (None means the same): one over the median of the
        positive L1 distances between at most 500 rows of the start of the stream.

    Notes
    -----
    The L1 distance is no matrix product: this kernel is tens of times slower than the others.

    Examples
    --------
    >>> from kernelstream.kernels import Laplacian
    >>> Laplacian(gamma=0.1)([[0.0, 0.0]], [[3.0, 4.0]]).round(3)
    array([[0.497]])
    """

    metric = "cityblock"
    # Differences are taken one by one: d additions, and γr exp(−γr) is below 1.
    rounding = LinearRounding(1.0, 4.0)
    smoothness = Smoothness.CUSP

    def block(self, X: Array, Y: Array) -> Array:
        """``exp(−gamma |x_i − y_j|₁)``."""
        distances = manhattan_distances(X, cast(Y, X.dtype))
        distances *= -self.gamma
        return cast(overwrite("exp", distances), X.dtype)

    def gradient_of_sum(self, X: Array, D: Array, W: Array, block: Array | None = None) -> Array:
        """``−γ Σ_j W_j k(x, d_j) sign(x − d_j)``: no matrix product, so row by row in blocks."""
        xp = namespace_of(X)
        W = W * (self.block(X, D) if block is None else block)
        size = max(1, LARGEST_BLOCK // max(1, math.prod(D.shape)))
        parts = []
        for start in range(0, int(X.shape[0]), size):
            stop = min(start + size, int(X.shape[0]))
            signs = xp.sign(X[start:stop, None, :] - D[None, :, :])
            parts.append(-self.gamma * xp.sum(W[start:stop, :, None] * signs, axis=1))
        return xp.concat(parts, axis=0) if parts else 0 * X


@stored
class Matern(Euclidean):
    """The Matérn kernel, between the exponential kernel (nu = 1/2) and the RBF kernel.

    With ``t = √(2 nu) |x − y| / length_scale`` it has the closed forms (Rasmussen & Williams,
    2006, eq. 4.17)::

        nu = 1/2: exp(−t),   3/2: (1 + t) exp(−t),   5/2: (1 + t + t²/3) exp(−t).

    The same as ``sklearn.gaussian_process.kernels.Matern``.

    Parameters
    ----------
    nu : float, default=1.5
        Smoothness: 0.5, 1.5 or 2.5.
    length_scale : float or "median", default="median"
        A positive number; or ``"median"`` (None means the same): the median of the positive
        distances between at most 500 rows of the start of the stream.

    Examples
    --------
    >>> from kernelstream.kernels import Matern
    >>> Matern(nu=2.5, length_scale=5.0)([[0.0, 0.0]], [[3.0, 4.0]]).round(3)
    array([[0.524]])
    """

    def __init__(self, nu: float = 1.5, length_scale: float | str | None = "median") -> None:
        self.nu = nu
        self.length_scale: Any = length_scale  # a float once the kernel is fixed

    def check(self) -> None:
        """Refuse a nu out of range, and a length_scale that is neither positive nor a rule."""
        accepted = as_number(self.nu) in (0.5, 1.5, 2.5)
        require(self, "nu", accepted, "0.5, 1.5 or 2.5 (the limit of large nu is the RBF kernel)")
        require_positive(self, "length_scale", "median")

    def decide(self, rule: str | None, X: Array, weights: np.ndarray) -> float:
        """The median distance; 1 if all rows are equal."""
        sigma = median_distance(X, weights)
        return 1.0 if sigma is None else sigma

    @property
    def resolution(self) -> float:
        """``1/length_scale²``."""
        inverse = 1.0 / self.length_scale
        return inverse * inverse

    @property
    def in_float64(self) -> bool:
        """For nu = 1/2."""
        return self.nu == 0.5

    @property
    def smoothness(self) -> Smoothness:
        """A cusp for nu = 1/2, smooth above."""
        return Smoothness.CUSP if self.nu == 0.5 else Smoothness.SMOOTH

    @property
    def largest_slope(self) -> float:
        """Twice ``nu / (2 (nu − 1) length_scale²)``, which is a safe bound; a cusp: ∞."""
        return self.nu / (self.nu - 1) * self.resolution if self.nu > 1 else math.inf

    def of_scaled_distances(self, t: Array) -> Array:
        """The closed form for this nu."""
        t = overwrite("sqrt", overwrite("maximum", t, 0.0))
        t *= math.sqrt(2 * self.nu) / self.length_scale
        # From 746 on exp(−t) is 0 in float64; the factor before it must not overflow.
        t = overwrite("minimum", t, 800.0)
        if self.nu == 0.5:
            factor: Array | float = 1.0
        elif self.nu == 1.5:
            factor = t + 1.0
        else:
            factor = t * (t / 3.0 + 1.0) + 1.0
        t *= -1.0
        K = overwrite("exp", t)
        K *= factor
        return K

    def slope(self, X: Array, D: Array, block: Array | None = None) -> Array:
        """``ν/(2(ν−1)ℓ²)`` times a Matérn kernel of order ν − 1, for ν above 1.

        With r = |x − d| and a = √(2ν) r/ℓ, (d/da)(a^ν K_ν(a)) = −a^ν K_{ν−1}(a), and both kernels
        have the same a.
        """
        nu, ell = self.nu, self.length_scale
        if nu > 0.5:
            lower = Matern(nu=nu - 1, length_scale=ell * ((nu - 1) / nu) ** 0.5)
            return lower.block(X, D) * (nu / (2 * (nu - 1) * ell**2))
        block = self.block(X, D) if block is None else block
        return slope_of_exponential(1 / ell, X, D, block)
