"""Composite kernels: sum, product, scaling by a number, normalization, user-defined function."""

from __future__ import annotations

import operator
from collections.abc import Callable
from numbers import Real
from typing import Any

import array_api_compat
import numpy as np

from kernelstream.arrays.namespaces import (
    Array,
    all_finite,
    as_dense,
    cast,
    is_foreign,
    like,
    namespace_of,
    to_float64,
    to_host,
)
from kernelstream.kernels.base import (
    Kernel,
    Rounding,
    Smoothness,
    check_inner_kernel,
    is_positive,
    mirrored,
    require,
)
from kernelstream.kernels.dot_product import Linear
from kernelstream.kernels.rounding import (
    LinearRounding,
    PairRounding,
    RatioRounding,
)
from kernelstream.serialization import stored


class Composite(Kernel):
    """A kernel of other kernels, with the properties that all of them have."""

    #: Parameters that are kernels.
    inner: tuple[str, ...] = ("kernel",)

    @property
    def _kernels(self) -> list[Kernel]:
        return [getattr(self, name) for name in self.inner]

    def check(self) -> None:
        """Refuse anything but kernels that pass their own checks."""
        for name in self.inner:
            check_inner_kernel(self, name)

    @property
    def psd(self) -> bool:  # type: ignore[override]
        """If all are."""
        # Sums of positive semidefinite matrices are, and so are entrywise products (Schur).
        return all(kernel.psd for kernel in self._kernels)

    @property
    def unit_norm(self) -> bool:
        """If all have it."""
        return all(kernel.unit_norm for kernel in self._kernels)

    @property
    def takes_means(self) -> bool:
        """If all do."""
        return all(kernel.takes_means for kernel in self._kernels)

    @property
    def stationary(self) -> bool:
        """If all are."""
        return all(kernel.stationary for kernel in self._kernels)

    @property
    def isotropic(self) -> bool:
        """If all are."""
        return all(kernel.isotropic for kernel in self._kernels)

    @property
    def smoothness(self) -> Smoothness:
        """That of the roughest."""
        return min(kernel.smoothness for kernel in self._kernels)


class Pair(Composite):
    """Two kernels, evaluated on the same rows and combined entry by entry."""

    inner = ("left", "right")

    def __init__(self, left: Kernel, right: Kernel) -> None:
        self.left = left
        self.right = right

    @classmethod
    def of(cls, left: Kernel | float, right: Kernel | float) -> Kernel:
        """The pair of kernels or numbers, as Python's operators need it."""
        both = (left, right)
        terms: list[Any] = [Constant(t) if isinstance(t, Real) else t for t in both]
        return cls(*terms) if all(isinstance(t, Kernel) for t in terms) else NotImplemented

    def combine(self, left: Array, right: Array) -> Array:
        """The values of the pair, in the memory of ``left`` where possible."""
        raise NotImplementedError

    def block(self, X: Array, Y: Array) -> Array:
        """The blocks of both, combined."""
        return self.combine(self.left.block(X, Y), self.right.block(X, Y))

    def diag(self, X: Array) -> Array:
        """The diagonals of both, combined."""
        return self.combine(self.left.diag(X), self.right.diag(X))


@stored
class Sum(Pair):
    """``left + right``: the features of both, side by side.

    Parameters
    ----------
    left, right : Kernel
        The two; ``left__gamma`` reaches a parameter.

    Examples
    --------
    >>> from kernelstream.kernels import Linear, RBF
    >>> kernel = RBF(gamma=0.5) + Linear()
    >>> kernel
    Sum(left=RBF(gamma=0.5), right=Linear())
    >>> kernel([[1.0, 2.0]], [[1.0, 2.0]])
    array([[6.]])
    >>> kernel.get_params()["left__gamma"]
    0.5
    """

    unit_norm = False

    @property
    def rounding(self) -> Rounding:
        """That of the sum."""
        return PairRounding(self.left.rounding, self.right.rounding, max)

    @property
    def max_squared_norm(self) -> float:
        """Squared norms add."""
        return self.left.max_squared_norm + self.right.max_squared_norm

    def combine(self, left: Array, right: Array) -> Array:
        """``left + right``."""
        left += right
        return left

    def gradient_of_sum(self, X: Array, D: Array, W: Array, block: Array | None = None) -> Array:
        """Gradients add."""
        return self.left.gradient_of_sum(X, D, W) + self.right.gradient_of_sum(X, D, W)

    def gradient_of_diagonal(self, X: Array) -> Array:
        """Gradients add."""
        return self.left.gradient_of_diagonal(X) + self.right.gradient_of_diagonal(X)


@stored
class Product(Pair):
    """``left * right``: all products of a feature of one and a feature of the other.

    Parameters
    ----------
    left, right : Kernel
        The two; ``left__gamma`` reaches a parameter.

    Examples
    --------
    >>> from kernelstream.kernels import Linear, RBF
    >>> kernel = 2.0 * RBF(gamma=0.5)
    >>> kernel
    Product(left=Constant(value=2.0), right=RBF(gamma=0.5))
    >>> kernel([[1.0, 2.0]], [[1.0, 2.0]])
    array([[2.]])
    >>> (RBF() * RBF()).unit_norm
    True
    """

    @property
    def rounding(self) -> Rounding:
        """That of the product."""
        return PairRounding(self.left.rounding, self.right.rounding, operator.add)

    @property
    def max_squared_norm(self) -> float:
        """Squared norms are multiplied."""
        return self.left.max_squared_norm * self.right.max_squared_norm

    def combine(self, left: Array, right: Array) -> Array:
        """``left * right``."""
        left *= right
        return left

    def gradient_of_sum(self, X: Array, D: Array, W: Array, block: Array | None = None) -> Array:
        """The product rule."""
        left, right = self.left.block(X, D), self.right.block(X, D)
        of_left = self.left.gradient_of_sum(X, D, W * right, left)
        return of_left + self.right.gradient_of_sum(X, D, W * left, right)

    def gradient_of_diagonal(self, X: Array) -> Array:
        """The product rule."""
        left, right = self.left.diag(X)[:, None], self.right.diag(X)[:, None]
        of_left = right * self.left.gradient_of_diagonal(X)
        return of_left + left * self.right.gradient_of_diagonal(X)

    def slope(self, X: Array, D: Array, block: Array | None = None) -> Array:
        """The product rule."""
        left, right = self.left.block(X, D), self.right.block(X, D)
        return right * self.left.slope(X, D, left) + left * self.right.slope(X, D, right)


@stored
class Normalised(Composite):
    """``k(x, y) / √(k(x, x) k(y, y))``: the cosine of two images, for a kernel of any norm.

    Honeine (2012, footnote 3) asks for it where a criterion is stated for kernels of unit norm. The
    cosine of two rows is ``Normalised(Linear())``.

    Parameters
    ----------
    kernel : Kernel
        The kernel; ``kernel__degree`` reaches a parameter.

    Notes
    -----
    Rows with ``k(x, x) = 0`` have the value 0 with every other.

    Examples
    --------
    >>> from kernelstream.kernels import Normalised, Polynomial
    >>> Normalised(Polynomial(degree=2, gamma=1.0))([[1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
    array([[1.  , 0.25]])
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    max_squared_norm = 1.0

    @property
    def rounding(self) -> Rounding:
        """That of the ratio."""
        return RatioRounding(self.kernel.rounding)

    def block(self, X: Array, Y: Array) -> Array:
        """The block of the kernel, divided by both norms."""
        K = self.kernel.block(X, Y)
        K /= _norms(self.kernel.diag(X))[:, None]
        K /= _norms(self.kernel.diag(cast(as_dense(Y), K.dtype)))[None, :]
        return K

    def diag(self, X: Array) -> Array:
        """1, or 0 for rows without energy."""
        own = self.kernel.diag(X)
        return cast(own > 0, own.dtype)

    def gradient_of_sum(self, X: Array, D: Array, W: Array, block: Array | None = None) -> Array:
        """``∇ k(x, d)/√(k(x, x) k(d, d))``, by the quotient rule."""
        block = self.block(X, D) if block is None else block
        own, others = _norms(self.kernel.diag(X)), _norms(self.kernel.diag(D))
        gradient = self.kernel.gradient_of_sum(X, D, W / others[None, :]) / own[:, None]
        shares = namespace_of(X).sum(W * block, axis=1) / (2.0 * own * own)
        return gradient - shares[:, None] * self.kernel.gradient_of_diagonal(X)

    def gradient_of_diagonal(self, X: Array) -> Array:
        """Zero."""
        return 0 * X


@stored
class Cosine(Normalised):
    """The cosine of the angle between two rows, ``x·y / (|x| |y|)``; 0 for a row of zeros.

    Examples
    --------
    >>> from kernelstream.kernels import Cosine
    >>> Cosine()([[1.0, 0.0]], [[3.0, 4.0], [0.0, 0.0]])
    array([[0.6, 0. ]])
    """

    kernel = Linear()
    rounding = LinearRounding(2.0, 10.0)  # two lengths and a product

    def __init__(self) -> None:
        """There is nothing to choose."""

    def check(self) -> None:
        """There is nothing to refuse."""


def _norms(energy: Array) -> Array:
    """Roots, with 1 in the place of 0."""
    xp = namespace_of(energy)
    return xp.sqrt(xp.where(energy > 0, energy, xp.ones_like(energy)))


@stored
class Constant(Kernel):
    """The same positive number for every pair of rows: what 2.0 is in ``2.0 * kernel``.

    Parameters
    ----------
    value : float, default=1

    Examples
    --------
    >>> from kernelstream.kernels import Constant, Linear
    >>> Linear() + 1.0
    Sum(left=Linear(), right=Constant())
    >>> Constant(3.0)([[1.0]], [[5.0], [6.0]])
    array([[3., 3.]])
    """

    def __init__(self, value: float = 1.0) -> None:
        self.value = value

    def check(self) -> None:
        """Refuse a value that is not positive."""
        expected = "a positive number (a negative multiple of a kernel is no kernel)"
        require(self, "value", is_positive(self.value), expected)

    stationary = True
    isotropic = True
    rounding = LinearRounding(0.0, 1.0)  # exact but for its own rounding
    smoothness = Smoothness.SMOOTH

    @property
    def max_squared_norm(self) -> float:
        """The value."""
        return self.value

    def block(self, X: Array, Y: Array) -> Array:
        """The value everywhere."""
        shape, device = (X.shape[0], Y.shape[0]), array_api_compat.device(Y)
        return namespace_of(Y).full(shape, self.value, dtype=X.dtype, device=device)

    def diag(self, X: Array) -> Array:
        """The value everywhere."""
        return like(np.full(X.shape[0], self.value), X, X.dtype)

    def gradient_of_sum(self, X: Array, D: Array, W: Array, block: Array | None = None) -> Array:
        """Zero."""
        return 0 * X

    def gradient_of_diagonal(self, X: Array) -> Array:
        """Zero."""
        return 0 * X


@stored
class FromCallable(Kernel):
    """Any symmetric function of two blocks of rows.

    What it returns is checked each time: shape, real numbers, no NaN or infinity. Nothing is known
    about the function, so ``psd`` is False, and there are no certificates. A model with it can be
    pickled if the function can, but not saved.

    Parameters
    ----------
    function : callable
        ``function(X, Y)`` with dense rows X (n, d) and Y (m, d) returns the matrix (n, m). CSR rows
        are written out for it.

    Notes
    -----
    ``diag`` calls the function on blocks of 64 rows against themselves and keeps the diagonal:
    64 times the evaluations that it needs, yet much faster than a call for each row.

    Examples
    --------
    >>> from kernelstream.kernels import FromCallable
    >>> kernel = FromCallable(lambda X, Y: (X @ Y.T) ** 2)
    >>> kernel([[1.0, 2.0]], [[3.0, 4.0]])
    array([[121.]])
    """

    psd = False
    fixed = True

    def __init__(self, function: Callable[[Array, Array], Array]) -> None:
        self.function = function

    def check(self) -> None:
        """Refuse what cannot be called."""
        expected = "a function of two blocks of rows that returns a matrix"
        require(self, "function", callable(self.function), expected)

    def block(self, X: Array, Y: Array) -> Array:
        """What the function returns, checked."""
        X = as_dense(X)
        K: Any = self.function(X, Y)
        if not (is_foreign(K) and is_foreign(X)):
            K = like(to_host(K), X)
        xp = namespace_of(K)
        if tuple(K.shape) != (X.shape[0], Y.shape[0]):
            raise ValueError(
                f"The kernel function returned shape {tuple(K.shape)} for {X.shape[0]} rows and"
                f" {Y.shape[0]} points: it must return ({X.shape[0]}, {Y.shape[0]}), one value"
                " for each pair."
            )
        if not xp.isdtype(K.dtype, ("real floating", "integral", "bool")):
            raise ValueError(
                f"The kernel function returned values of type {K.dtype}: it must return real"
                " numbers."
            )
        # Always a copy: callers overwrite a block, and the function may keep what it returned.
        with np.errstate(over="ignore"):
            K = xp.astype(K, X.dtype, copy=True)
        if not all_finite(K):
            raise ValueError(
                f"The kernel function returned NaN, infinity, or numbers too large for {X.dtype}:"
                " rescale the data, or look for a division by zero or an overflow in it."
            )
        return K

    def diag(self, X: Array) -> Array:
        """By blocks of 64 rows against themselves."""
        xp, n = namespace_of(X), X.shape[0]
        parts = []
        for start in range(0, n, 64):
            rows = as_dense(X[start : min(start + 64, n), :])
            parts.append(xp.linalg.diagonal(self.block(rows, rows)))
        return xp.concat(parts)

    def gram(self, Y: Array) -> Array:
        """As in every kernel; refuses a function that is not symmetric."""
        Y = to_float64(Y)
        K = self.block(Y, Y)
        xp = namespace_of(K)
        largest = float(xp.max(xp.abs(K)))
        # Room for functions that compute in single precision.
        if float(xp.max(xp.abs(K - xp.matrix_transpose(K)))) > 1e-5 * largest:
            raise ValueError(
                "The kernel function is not symmetric: function(X, Y) must be the transpose of"
                " function(Y, X)."
            )
        return mirrored(K, self.diag(Y))
