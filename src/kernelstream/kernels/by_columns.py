"""Kernels on groups of columns, selected by name or pattern; kernel for categorical columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from kernelstream.arrays.draws import evenly_spaced
from kernelstream.arrays.namespaces import (
    Array,
    as_dense,
    like,
    namespace_of,
    take_columns,
    to_host,
)
from kernelstream.kernels.base import (
    Kernel,
    Rounding,
    inner_kernels,
    require,
)
from kernelstream.kernels.composite import Composite
from kernelstream.kernels.rounding import LinearRounding
from kernelstream.kernels.stationary import ByMedian
from kernelstream.serialization import stored


@stored
class On(Composite):
    """A kernel of some of the columns; sums and products of such kernels join groups of them.

    Widths are taken from the columns of each group, so that none drowns another.

    Parameters
    ----------
    columns : sequence of int or str, or str
        Numbers, names or patterns of columns (``"sensor_*"``); names need data with names. A
        column that became several, a category or a date, is called by its own name.
    kernel : Kernel
        The kernel of these columns; ``kernel__gamma`` reaches a parameter.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.kernels import RBF, Categorical, On
    >>> kernel = On([0, 1], RBF(gamma=0.5)) * On([2], Categorical(gamma=1.0))
    >>> kernel([[0.0, 1.0, 7.0]], [[0.0, 1.0, 7.0], [0.0, 1.0, 8.0]]).round(3)
    array([[1.   , 0.368]])
    >>> kernel.get_params()["left__kernel__gamma"]
    0.5
    """

    isotropic = False

    def __init__(self, columns: Any, kernel: Kernel) -> None:
        self.columns = columns
        self.kernel = kernel

    def check(self) -> None:
        """Refuse anything but columns and a kernel that passes its own check."""
        super().check()
        listed = self._listed
        fine = len(listed) > 0 and all(
            isinstance(c, str) or (_is_index(c) and int(c) >= 0) for c in listed
        )
        require(self, "columns", fine, "names, or numbers from 0 on, of at least one column")

    @property
    def _listed(self) -> list[Any]:
        if isinstance(self.columns, str):
            return [self.columns]
        return list(self.columns) if isinstance(self.columns, Sequence | np.ndarray) else []

    def _numbered(self, names: Sequence[str] | None) -> On:
        """The same with numbers for names; the kernel stays as it is."""
        found: dict[int, None] = {}
        for column in self._listed:
            if not isinstance(column, str):
                found[int(column)] = None
                continue
            if names is None:
                raise ValueError(
                    f"{self!r} names columns, and the rows have no names: give a data frame, or "
                    "numbers of columns."
                )
            hits = [i for i, name in enumerate(names) if _is_called(name, column)]
            if not hits:
                some = ", ".join(map(str, names[:20])) + (", …" if len(names) > 20 else "")
                raise ValueError(f"There is no column {column!r} for {self!r}; there are {some}.")
            found |= dict.fromkeys(hits)
        return On(tuple(found), self.kernel)

    @property
    def fixed(self) -> bool:
        """If the kernel is, and columns are numbers."""
        listed = self.columns if isinstance(self.columns, tuple) else ("",)
        return self.kernel.fixed and all(type(c) is int for c in listed)

    def fix(self, X: Array, weights: Array | None = None) -> Kernel:
        """The kernel decides its numbers by its own columns."""
        self.check()
        if self.fixed:
            return self
        place = self._numbered(None)
        return On(place.columns, self.kernel.fix(place.of(X), weights))

    def of(self, X: Array) -> Array:
        """The columns of this kernel."""
        if max(self.columns) >= int(X.shape[1]):
            raise ValueError(f"{self!r} wants column {max(self.columns)} of {X.shape[1]} columns.")
        return take_columns(X, self.columns)

    @property
    def max_squared_norm(self) -> float:
        """That of the kernel."""
        return self.kernel.max_squared_norm

    @property
    def rounding(self) -> Rounding:
        """That of the kernel, for the columns."""
        return ColumnRounding(self)

    def block(self, X: Array, Y: Array) -> Array:
        """The block of the kernel."""
        return self.kernel.block(self.of(X), self.of(Y))

    def diag(self, X: Array) -> Array:
        """The diagonal of the kernel."""
        return self.kernel.diag(self.of(X))

    def gradient_of_sum(self, X: Array, D: Array, W: Array, block: Array | None = None) -> Array:
        """That of the kernel in its columns, zero in the others."""
        return self._spread(self.kernel.gradient_of_sum(self.of(X), self.of(D), W, block), X)

    def gradient_of_diagonal(self, X: Array) -> Array:
        """That of the kernel in its columns, zero in the others."""
        return self._spread(self.kernel.gradient_of_diagonal(self.of(X)), X)

    def _spread(self, gradient: Array, X: Array) -> Array:
        """A gradient with respect to some columns as one with respect to all columns of X."""
        place = np.zeros((len(self.columns), int(X.shape[1])))
        place[np.arange(len(self.columns)), list(self.columns)] = 1.0
        return gradient @ like(place, gradient, gradient.dtype)


@dataclass(frozen=True)
class ColumnRounding(Rounding):
    """The error of a kernel of some columns."""

    kernel: On

    def extent(self, points: Array, shifted: bool = True) -> float:
        """That of the columns."""
        return self.kernel.kernel.rounding.extent(self.kernel.of(points), shifted)

    def worst(self, extent: float, d: int) -> float:
        """That of the kernel, for so many columns."""
        return self.kernel.kernel.rounding.worst(extent, min(d, len(self.kernel.columns)))

    def in_float32(self, extent: float) -> float:
        """That of the kernel."""
        return self.kernel.kernel.rounding.in_float32(extent)


def with_numbers(kernel: Kernel, names: Sequence[str] | None) -> Kernel:
    """The kernel with the numbers of columns in place of their names.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    names : sequence of str or None
        Names of the columns; None: they have none.

    Examples
    --------
    >>> from kernelstream.kernels import RBF, On, with_numbers
    >>> with_numbers(2.0 * On("t_*", RBF()), ["p", "t_1", "t_2"])
    Product(left=Constant(value=2.0),
            right=On(columns=(1, 2), kernel=RBF()))
    """
    inner = {name: with_numbers(k, names) for name, k in inner_kernels(kernel).items()}
    return (kernel.copy().set_params(**inner) if inner else kernel)._numbered(names)


def _is_index(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_called(name: str, wanted: str) -> bool:
    """Whether a feature has this name, or comes from the column of this name, or fits a pattern."""
    column = name.partition("=")[0], name.rpartition(".")[0].rpartition(".")[0]
    return name == wanted or wanted in column or fnmatchcase(name, wanted)


@stored
class Categorical(ByMedian):
    """``exp(−gamma · columns in which x and y differ)``: for codes, or any columns of few values.

    Parameters
    ----------
    gamma : float or "median"
        ``"median"`` is one over the usual number of columns in which two different rows differ.

    Notes
    -----
    The product over columns of 1 where two values are equal and ``e^−gamma`` where they are not:
    each factor is positive semidefinite. Values are compared, not measured: a mean of codes is no
    code, so that points of a model are rows.

    Examples
    --------
    >>> from kernelstream.kernels import Categorical
    >>> Categorical(gamma=1.0)([[1.0, 2.0]], [[1.0, 2.0], [1.0, 5.0], [0.0, 0.0]]).round(3)
    array([[1.   , 0.368, 0.135]])
    """

    takes_means = False
    rounding = LinearRounding(0.0, 4.0)  # of counts, which are exact: a product, an exponential

    def decide(self, rule: str | None, X: Array, weights: np.ndarray) -> float:
        """One over the median number of differences of rows that differ; 1 where none do."""
        rows = to_host(as_dense(X[evenly_spaced(int(X.shape[0]), 500), :]))
        differ = pdist(rows, "hamming") * rows.shape[1]
        return 1.0 / float(np.median(differ[differ > 0])) if np.any(differ) else 1.0

    def block(self, X: Array, Y: Array) -> Array:
        """By comparing column after column."""
        X = as_dense(X)
        xp, differ = namespace_of(Y), differences(X, Y)
        return xp.exp(-float(self.gamma) * differ)


def differences(X: Array, Y: Array) -> Array:
    """In how many columns rows and points differ, (n, m), in the type of X."""
    xp = namespace_of(Y)
    total = like(np.zeros((int(X.shape[0]), int(Y.shape[0]))), X, X.dtype)
    Y = xp.astype(Y, X.dtype, copy=False)
    for j in range(int(X.shape[1])):
        total = total + xp.astype(X[:, j][:, None] != Y[:, j][None, :], X.dtype)
    return total
