"""Kernel base class: block, diagonal, Gram matrix, ``+`` and ``*``, rounding, ``gamma="scale"``.

To add a kernel, write a subclass with its parameters in ``__init__`` and

- ``block(X, Y)`` and ``diag(X)``, the mathematics;
- ``check()``, which refuses parameters that make no sense;
- ``decide(rule, X, weights)``, if a parameter may be a rule such as ``"median"``;
- ``psd`` and ``unit_norm``, where they differ from the defaults below;
- ``rounding(extent, d)``, how far a computed value may be off; without it no certificate.

Kernels of the distance derive from ``stationary.Euclidean`` and write ``of_scaled_distances`` and
``resolution`` instead: ``block``, ``diag`` and ``rounding`` follow from them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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

    @property
    def psd(self) -> bool:
        """Whether every Gram matrix is positive semidefinite, up to rounding."""
        return True

    @property
    def unit_norm(self) -> bool:
        """Whether ``k(x, x) = 1`` for every x."""
        return False

    @property
    def takes_means(self) -> bool:
        """Whether a mean of rows is a row: not where values are codes."""
        return True

    @property
    def isotropic(self) -> bool:
        """Whether columns may be mixed, as a rotation does, without a change of the values."""
        return True

    def named(self, names: Sequence[str] | None) -> Kernel:
        """The kernel with numbers for names of columns, where it is one of columns."""
        inside = {
            name: value.named(names)
            for name, value in self.get_params(deep=False).items()
            if isinstance(value, Kernel) and value.needs_names
        }
        return type(self)(**(self.get_params(deep=False) | inside)) if inside else self

    @property
    def needs_names(self) -> bool:
        """Whether it speaks of columns by their names."""
        values = self.get_params(deep=False).values()
        return any(isinstance(value, Kernel) and value.needs_names for value in values)

    @property
    def fixed(self) -> bool:
        """Whether every parameter is a plain Python number: nothing left to decide."""
        return all(
            value.fixed if isinstance(value, Kernel) else type(value) in (int, float)
            for value in self.get_params(deep=False).values()
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
        numbers: dict[str, Any] = {}
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, Kernel):
                numbers[name] = value.fix(X, weights)
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

    def energy_limit(self, norm: float) -> float:
        """A number that ``|k(x, x)|`` does not exceed while ``|x|² ≤ norm``; infinite if unknown.

        Rows below it need no look at their energy before they wait for their block.
        """
        return 1.0 if self.unit_norm else math.inf

    def gram(self, Y: Array) -> Array:
        """``k(y_i, y_j)`` in float64, exactly symmetric, with exactly ``diag(Y)`` inside."""
        Y = to_float64(Y)
        return mirrored(self.block(Y, Y), self.diag(Y))

    def rounding(self, extent: float, d: int) -> float:
        """Bound on the error of a computed value, in units of u·√(k(x,x) k(y,y)).

        u is the unit roundoff, x any row and y a point; ``extent`` is that of all points so far.
        First order, worst case: the certificate adds it to every statement. Infinite where nobody
        has bounded it: then there is no certificate.
        """
        return math.inf

    def rounding_in_float32(self, extent: float) -> float:
        """Error that a value in single precision may well have, in units of √(k(x,x) k(y,y)).

        No worst case, which would be of no use: products are added up in many partial sums, so
        that an error does not grow with their number, and it is an eighth of what it could be.
        """
        worst = self.rounding(extent, 0)
        return U32 * (2.0 + (worst / 8.0 if math.isfinite(worst) else 4.0))

    def extent(self, points: Array, shifted: bool = True) -> float:
        """What of the points' size matters for ``rounding``: nothing, unless distances are taken.

        ``shifted`` says whether distances to them may be taken from their mean, as those of dense
        rows are.
        """
        return 0.0

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
        from kernelstream.kernels.composite import Sum, as_kernel

        return Sum(self, as_kernel(other)) if isinstance(other, Kernel | Real) else NotImplemented

    def __radd__(self, other: float) -> Kernel:
        from kernelstream.kernels.composite import Sum, as_kernel

        return Sum(as_kernel(other), self) if isinstance(other, Real) else NotImplemented

    def __mul__(self, other: Kernel | float) -> Kernel:
        from kernelstream.kernels.composite import Product, as_kernel

        is_factor = isinstance(other, Kernel | Real)
        return Product(self, as_kernel(other)) if is_factor else NotImplemented

    def __rmul__(self, other: float) -> Kernel:
        from kernelstream.kernels.composite import Product, as_kernel

        return Product(as_kernel(other), self) if isinstance(other, Real) else NotImplemented


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
        values = to_host(X).ravel()
        stored, first = np.full(n, d), float(values[0])
    # Variance does not change with an offset: taken from the first entry, it is exactly zero for
    # constant data and does not cancel for data far from the origin.
    values = values.astype(np.float64) - first
    size = float(max(np.abs(values).max(initial=0.0), abs(first) * bool(np.any(stored < d))))
    if size == 0.0:
        return 1.0
    values, absent = values / size, -first / size  # entries of order 1, whatever their scale
    of_values, of_absent = np.repeat(weights, stored), float(weights @ (d - stored))
    total = d * float(weights.sum())
    mean = (float(of_values @ values) + of_absent * absent) / total
    spread = float(of_values @ (values - mean) ** 2) + of_absent * (absent - mean) ** 2
    # Divided one by one: size² alone may overflow where gamma does not.
    gamma = total / spread / d / size / size
    return representable(gamma, X, "gamma='scale', 1 / (n_features * variance),")
