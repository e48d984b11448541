"""Kernel base class: block, Gram matrix, derivatives, ``+`` and ``*``, rounding, ``gamma="scale"``.

To add a kernel, write a subclass with its parameters in ``__init__`` and

- ``block(X, Y)`` and ``diag(X)``, the mathematics;
- ``check()``, which refuses parameters that make no sense;
- ``decide(rule, X, weights)``, if a parameter may be a rule such as ``"median"``;
- the properties ``psd``, ``unit_norm``, ``stationary``, ``isotropic``, ``takes_means`` and
  ``max_squared_norm``, where they differ from the defaults below;
- ``smoothness``, ``gradient_of_sum`` and ``gradient_of_diagonal``, for landmarks to be optimized
  and pre-images to be found by gradients;
- ``rounding``, the error of a computed value; without it there is no certificate.

A kernel of the Euclidean distance derives from ``stationary.Euclidean`` and writes
``of_scaled_distances``, ``resolution`` and ``slope``; a function of the inner product derives from
``dot_product.DotProduct`` and writes ``of_products`` and ``derivative``. The rest follows. No other
module tests the class of a kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from numbers import Integral, Real
from typing import Any

import array_api_compat
import numpy as np

from kernelstream.arrays.namespaces import (
    Array,
    all_finite,
    as_csr,
    as_dense,
    cast,
    is_foreign,
    is_sparse,
    namespace_of,
    to_float64,
    to_host,
)
from kernelstream.serialization.part import Part, as_number

U32 = float(np.finfo(np.float32).eps) / 2  # unit roundoff of single precision


class Smoothness(IntEnum):
    """What is known of the gradient of a kernel; that of two kernels together is the smaller one.

    Examples
    --------
    >>> from kernelstream.kernels import RBF, Laplacian, Smoothness
    >>> (RBF() + Laplacian()).smoothness is Smoothness.CUSP
    True
    """

    UNKNOWN = 0  #: Nothing.
    CUSP = 1  #: It is known, and jumps where two rows meet.
    SMOOTH = 2  #: It is known, and continuous.


class Rounding:
    """Rounding error of the values ``k(x, y)``; this class stands for an unknown one.

    Errors are in units of u·√(k(x,x) k(y,y)), where u is the unit roundoff, x any row and y a
    landmark. docs/proofs.md has the bounds in one table, with their derivations.
    """

    def extent(self, points: Array, shifted: bool = True) -> float:
        """The size of the landmarks, as far as errors depend on it; 0 if they do not.

        ``shifted`` says whether distances to them may be taken from their mean, as those of dense
        rows are.
        """
        return 0.0

    def worst(self, extent: float, d: int) -> float:
        """Bound on the error, to first order, for d columns; infinite: there is no certificate.

        ``extent`` is the largest of all landmarks so far.
        """
        return math.inf

    def in_float32(self, extent: float) -> float:
        """Estimate of the error in single precision, in units of √(k(x,x) k(y,y)).

        The worst case would be useless: products are added up in many partial sums, so that an
        error does not grow with their number, and is an eighth of its bound.
        """
        worst = self.worst(extent, 0)
        return U32 * (2.0 + (worst / 8.0 if math.isfinite(worst) else 4.0))


class Kernel(Part):
    """A kernel ``k(x, y)``, evaluated on blocks of rows.

    A kernel is used in two steps. ``fix`` turns the parameters that are left to the data
    (``gamma="median"``) into plain numbers, once, at the start of the stream. The fixed kernel then
    works on blocks without looking at its arguments again. Calling the kernel does both, with
    checks: that is the form for interactive use.

    Examples
    --------
    >>> from kernelstream.kernels import RBF
    >>> kernel = RBF(gamma=0.5)
    >>> kernel([[0.0], [1.0]], [[0.0], [2.0]]).round(3)
    array([[1.   , 0.135],
           [0.607, 0.607]])
    """

    _family = "kernels"

    # NumPy scalars leave ``np.float64(2) * kernel`` to ``__rmul__`` below.
    __array_ufunc__ = None

    psd: bool = True  # whether every Gram matrix is positive semidefinite, up to rounding

    @property
    def unit_norm(self) -> bool:
        """Whether ``k(x, x) = 1`` for every x."""
        return False

    @property
    def takes_means(self) -> bool:
        """Whether a mean of rows is a row: not where values are codes."""
        return True

    @property
    def stationary(self) -> bool:
        """Whether k(x, y) depends on x − y only."""
        return False

    @property
    def isotropic(self) -> bool:
        """Whether k(x, y) stays the same when x and y are rotated."""
        return False

    @property
    def max_squared_norm(self) -> float:
        """A number that ``|k(x, x)|`` never exceeds; infinite if it may be of any size."""
        return 1.0 if self.unit_norm else math.inf

    @property
    def smoothness(self) -> Smoothness:
        """Whether the gradient is known, and continuous."""
        return Smoothness.UNKNOWN

    @property
    def invertible(self) -> bool:
        """Whether ``inverse`` is known."""
        return False

    @property
    def rounding(self) -> Rounding:
        """The error of a computed value; unknown, there is no certificate."""
        return Rounding()

    @property
    def fixed(self) -> bool:
        """Whether every parameter is a plain Python number: nothing left to decide."""
        inner = inner_kernels(self)
        return all(
            inner[name].fixed if name in inner else type(value) in (int, float)
            for name, value in self.get_params(deep=False).items()
        )

    def fix(self, X: Array, weights: Array | None = None) -> Kernel:
        """A copy whose parameters are plain Python numbers, decided from the rows X.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)
            The start of the stream.
        weights : array of shape (n,), optional
            Positive weights of the rows. A row of weight 2 counts like the same row twice.

        Returns
        -------
        Kernel
            ``self`` if there is nothing to decide.
        """
        self.check()
        if self.fixed:
            return self
        X = as_rows(X, "X")
        weights = _as_weights(weights, X.shape[0])
        inner = inner_kernels(self)
        numbers: dict[str, Any] = {}
        for name, value in self.get_params(deep=False).items():
            if name in inner:
                numbers[name] = inner[name].fix(X, weights)
            elif isinstance(value, Integral):
                numbers[name] = int(value)
            elif isinstance(value, Real):
                # A NumPy scalar would turn float32 blocks into float64 ones.
                numbers[name] = float(value)
            else:
                numbers[name] = self.decide(value, X, weights)
        return type(self)(**numbers)

    def decide(self, rule: str | None, X: Array, weights: np.ndarray) -> float:
        """The number that a rule such as ``"median"`` stands for, given the rows X."""
        raise NotImplementedError(f"{type(self).__name__} has no parameter that the data decide.")

    def _numbered(self, names: Sequence[str] | None) -> Kernel:
        """The same with numbers of columns in place of their names."""
        return self

    def block(self, X: Array, Y: Array) -> Array:
        """``k(x_i, y_j)``: rows X (B, d), dense or CSR, against dense points Y (m, d).

        This is the hot path: the kernel is fixed, the arguments are valid, nothing is checked.
        The result is a new array (B, m) in the dtype of X.
        """
        raise NotImplementedError

    def prepared(self, Y: Array) -> Any:
        """Points that ``block`` will meet again and again, in the form that suits it best.

        The points themselves, where nothing of the work is theirs alone. What is returned can be
        cut, ``[:m, :]``, as points can.
        """
        return Y

    def diag(self, X: Array) -> Array:
        """``k(x_i, x_i)`` of every row, in the dtype of X, without the matrix."""
        raise NotImplementedError

    def gram(self, Y: Array) -> Array:
        """``k(y_i, y_j)`` in float64, exactly symmetric, with exactly ``diag(Y)`` inside."""
        Y = to_float64(Y)
        return mirrored(self.block(Y, Y), self.diag(Y))

    def gradient_of_sum(self, X: Array, D: Array, W: Array, block: Array | None = None) -> Array:
        """``Σ_j W_ij ∇k(x_i, d_j)`` with respect to x_i, (n, d): matrix products where possible.

        Parameters
        ----------
        X : array of shape (n, d)
            Dense rows.
        D : array of shape (m, d)
            Landmarks.
        W : array of shape (n, m)
            Weights.
        block : array of shape (n, m), optional
            k(X, D), if the caller has it. It is not changed.
        """
        raise unknown(self, "gradient", "`gradient_of_sum` and `smoothness`")

    def gradient_of_diagonal(self, X: Array) -> Array:
        """``∇ k(x_i, x_i)``, (n, d); zero if ``k(x, x)`` is constant."""
        if not self.unit_norm:
            raise unknown(self, "gradient", "`gradient_of_diagonal`")
        return 0 * X

    def slope(self, X: Array, D: Array, block: Array | None = None) -> Array:
        """``−κ'(|x_i − d_j|²)``, (n, m), of a kernel ``κ(|x − d|²)``; arguments as above."""
        raise unknown(self, "derivative with respect to the squared distance", "`slope`")

    def inverse(self, values: Array, own: Array, Y: Array) -> Array:
        """``|x_i − y_j|²``, (n, m), from ``k(x_i, y_j)`` and ``k(x_i, x_i)``, without the rows x_i.

        Parameters
        ----------
        values : array of shape (n, m)
            Inner products of n vectors of the feature space with the images of Y.
        own : array of shape (n,)
            Their squared norms. They need not be images of rows.
        Y : array of shape (m, d)
            Landmarks.
        """
        raise unknown(self, "inverse", "`inverse` and `invertible`")

    def __call__(self, X: Array, Y: Array | None = None) -> Array:
        """The matrix ``k(x_i, y_j)``, with arguments and result checked.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_X, d)
            A kernel that is not fixed decides its numbers from these rows.
        Y : array or CSR matrix of shape (n_Y, d), optional
            X itself when left out.

        Returns
        -------
        array of shape (n_X, n_Y)
        """
        X = as_rows(X, "X")
        kernel = self.fix(X)
        with np.errstate(over="ignore", invalid="ignore"):
            if Y is None:
                K = cast(kernel.gram(as_dense(X)), X.dtype)
            else:
                Y = as_dense(as_rows(Y, "Y"))
                if X.shape[1] != Y.shape[1]:
                    raise ValueError(
                        f"X has {X.shape[1]} columns and Y has {Y.shape[1]}: "
                        "give both the same features."
                    )
                dtype = namespace_of(X, Y).result_type(X.dtype, Y.dtype)
                K = kernel.block(cast(X, dtype), Y)
        if not all_finite(K):
            raise ValueError(
                f"{kernel!r} overflows {K.dtype} on these rows: rescale the data"
                " (to unit variance, say) or choose smaller kernel parameters."
            )
        return K

    # Sums, products and multiples of kernels are kernels. ``composite`` is built on this file, so
    # its names can only be looked up when an operator is used.

    def __add__(self, other: Kernel | float) -> Kernel:
        from kernelstream.kernels.composite import Sum

        return Sum.of(self, other)

    def __radd__(self, other: float) -> Kernel:
        from kernelstream.kernels.composite import Sum

        return Sum.of(other, self)

    def __mul__(self, other: Kernel | float) -> Kernel:
        from kernelstream.kernels.composite import Product

        return Product.of(self, other)

    def __rmul__(self, other: float) -> Kernel:
        from kernelstream.kernels.composite import Product

        return Product.of(other, self)


def inner_kernels(kernel: Kernel) -> dict[str, Kernel]:
    """The parameters of a kernel that are kernels, such as the terms of a sum."""
    parameters = kernel.get_params(deep=False)
    return {name: value for name, value in parameters.items() if isinstance(value, Kernel)}


def check_inner_kernel(kernel: Kernel, name: str) -> None:
    """Raise ``ValueError`` unless a parameter is a kernel that passes its own check."""
    expected = "a kernel object such as RBF() (FromCallable(f) for a function)"
    require(kernel, name, name in inner_kernels(kernel), expected)
    inner_kernels(kernel)[name].check()


def unknown(kernel: Kernel, what: str, methods: str) -> ValueError:
    """The error that a method of the base class raises."""
    return ValueError(
        f"The {what} of {kernel!r} is not known: write {methods} in {type(kernel).__name__}, or "
        "choose a method that does not need it, such as preimages.Ridge()."
    )


def mirrored(K: Array, diagonal: Array) -> Array:
    """The symmetric matrix with the lower triangle of K and the given diagonal.

    The upper triangle of a computed Gram matrix differs from the lower one in the last bits, and
    its diagonal from ``diag``; ``eigh`` and Cholesky would each read another matrix.
    """
    xp = namespace_of(K)
    below = xp.tril(K, k=-1)
    on = xp.eye(K.shape[0], dtype=xp.bool, device=array_api_compat.device(K))
    return xp.where(on, diagonal[:, None], below + xp.matrix_transpose(below))


def as_rows(X: Array, name: str) -> Array:
    """X as a float32 or float64 matrix (CSR if sparse) of finite numbers, or a ``ValueError``."""
    if is_sparse(X):
        X = as_csr(X)
    elif not is_foreign(X):
        X = np.asarray(X)
    if X.ndim != 2 or X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(
            f"{name} has shape {tuple(X.shape)}: expected (rows, features), at least one of each."
            " A single row is X.reshape(1, -1), a single feature X.reshape(-1, 1)."
        )
    xp = namespace_of(X)
    if X.dtype not in (xp.float32, xp.float64):
        if xp.isdtype(X.dtype, "complex floating"):
            raise ValueError(f"{name} is complex: give real numbers, such as [X.real, X.imag].")
        X = cast(X, xp.float64)
    if not all_finite(X):
        raise ValueError(f"{name} contains NaN or infinity: drop or fill in these rows first.")
    return X


def _as_weights(weights: Array | None, n: int) -> np.ndarray:
    if weights is None:
        return np.ones(n)
    weights = np.asarray(to_host(weights), dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(f"weights have shape {weights.shape}: expected ({n},), one for each row.")
    if not (np.all(weights > 0) and np.all(np.isfinite(weights))):
        raise ValueError("weights must be positive and finite: drop the rows of weight zero first.")
    return weights / weights.max()  # only their ratios matter, and sums and products stay finite


def require(kernel: Kernel, name: str, accepted: bool, expected: str) -> None:
    """Raise ``ValueError`` with what was given and what is expected, unless accepted."""
    if not accepted:
        given = f"{type(kernel).__name__}({name}={getattr(kernel, name)!r})"
        raise ValueError(f"{given}: {name} must be {expected}.")


def require_positive(kernel: Kernel, name: str, *rules: str) -> None:
    """Raise ``ValueError`` unless a parameter is positive, one of the rules, or None."""
    value, words = getattr(kernel, name), ["a positive number such as 0.1", *map(repr, rules)]
    accepted = is_positive(value) or is_rule(value, None, *rules)
    require(kernel, name, accepted, f"{', '.join(words[:-1])}, or {words[-1]}")


def is_number(value: Any) -> bool:
    """Whether the value is a finite real number (True and False are none)."""
    return math.isfinite(as_number(value))


def is_positive(value: Any) -> bool:
    """Whether the value is a finite number that can be divided by."""
    return is_number(value) and value >= np.finfo(np.float64).tiny


def is_rule(value: Any, *rules: str | None) -> bool:
    """Whether the value is one of the rules; never compares with an array."""
    return (value is None or isinstance(value, str)) and value in rules


def representable(value: float, X: Array, what: str) -> float:
    """The value, or a ``ValueError`` if the dtype of X cannot hold it."""
    info = namespace_of(X).finfo(X.dtype)
    if not float(info.smallest_normal) <= value <= float(info.max):
        raise ValueError(
            f"{what} is {value:.3g} on these rows, which {X.dtype} cannot represent:"
            " rescale the data (to unit variance, say)."
        )
    return value


def scale_gamma(X: Array, weights: np.ndarray) -> float:
    """``gamma="scale"``: 1 / (n_features · variance of all entries), as in scikit-learn's SVC.

    1.0 if all entries are equal. The rows of a CSR matrix are not written out.
    """
    n, d = X.shape
    if is_sparse(X):
        values, stored, first = X.data, np.diff(X.indptr), float(X[0, 0])
    else:
        values, stored = to_host(X).ravel(), np.full(n, d)
        first = float(values[0])
    # Variance does not change with an offset: taken from the first entry, it is exactly zero for
    # constant data and does not cancel for data far from the origin.
    values = np.append(values.astype(np.float64) - first, -first)  # the last: of all absent ones
    w = np.append(np.repeat(weights, stored), float(weights @ (d - stored)))
    size = float(np.abs(values[w > 0]).max())
    if size == 0.0:
        return 1.0
    values /= size  # entries of order 1, whatever their scale
    total = float(w.sum())
    spread = float(w @ (values - float(w @ values) / total) ** 2)
    # Divided one by one: size² alone may overflow where gamma does not.
    gamma = total / spread / d / size / size
    return representable(gamma, X, "gamma='scale', 1 / (n_features * variance),")
