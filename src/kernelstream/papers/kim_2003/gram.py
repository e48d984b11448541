"""Kernel matrix of a finite set: in memory or computed in blocks, row means for centering.

It holds the data of the kernel Hebbian algorithm. Equations and sections are those of the paper
that is cited in ``epochs.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import array_api_compat
import numpy as np
from array_api_compat import array_namespace
from scipy.sparse import issparse

from kernelstream import kernels
from kernelstream.arrays import (
    Array,
    in_threads,
    like,
    to_float64,
    to_host,
)

# Bytes of a kernel block when the block size is left to us: it should stay in reach of the cache.
_BLOCK_BYTES = 2**25
# Columns of a matrix in pieces for threads: so many numbers, or at least so many columns.
_TILE_NUMBERS, _TILE_COLUMNS = 2**17, 256


class KernelMatrix:
    """Rows of data and their kernel matrix, of which blocks of rows are computed when asked for.

    As many of its rows as ``cache_bytes`` holds are computed once and kept, all of them where they
    fit: Kim et al. (section 5) note that an epoch then costs O(r l²) instead of O((N + r) l²).

    Parameters
    ----------
    kernel : Kernel
        With its numbers fixed.
    X : array of shape (l, d)
        The rows, dense or CSR.
    center : bool
        Whether the mapped rows are centred.
    weights : array of shape (l,), optional
        Positive weights: a row of weight two moves the components (and the mean) twice as much.
    n_components : int
        For the choice of the block size: the product with T costs r² a column and block.
    batch_size : int, optional
        Rows in a block.
    cache_bytes : int
        Memory that the rows of the kernel matrix that are kept may take.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.kernels import RBF
    >>> data = KernelMatrix(RBF(gamma=1.0), np.array([[0.0], [1.0], [2.0]]))
    >>> data.block(np.array([2, 0])).round(3)
    array([[0.018, 0.368, 1.   ],
           [1.   , 0.368, 0.018]])
    """

    def __init__(
        self,
        kernel: kernels.Kernel,
        X: Array,
        center: bool = True,
        weights: np.ndarray | None = None,
        n_components: int = 1,
        batch_size: int | None = None,
        cache_bytes: int = 2**30,
    ):
        self.kernel = kernel
        self.X = X
        self.points = X.toarray() if issparse(X) else X
        self._met = self.points if issparse(X) else kernel.prepared(X)
        self.center = center
        self.n_rows = int(X.shape[0])
        self.weights = np.ones(self.n_rows) if weights is None else weights / weights.mean()
        xp = array_namespace(self.points)
        row_bytes = self.n_rows * xp.finfo(self.points.dtype).bits // 8
        if batch_size is None:
            batch_size = max(16, min(_BLOCK_BYTES // row_bytes, max(128, n_components)))
        self.batch_size = batch_size
        self.matrix: Array | None = None  # the first rows, as many as are kept
        self.n_kept = min(self.n_rows, cache_bytes // row_bytes)
        if self.n_kept:
            self.matrix = xp.empty(
                (self.n_kept, self.n_rows),
                dtype=self.points.dtype,
                device=array_api_compat.device(self.points),
            )
            self._fill(self.matrix)
        if self.n_kept == self.n_rows:
            self._met = self.points  # the prepared form has done its work

    def _fill(self, matrix: Array) -> None:
        """Compute the kernel matrix: half of it, where the kernel is sure to be symmetric."""
        half = self.n_kept == self.n_rows and self.kernel.psd
        transposed = array_namespace(matrix).matrix_transpose

        def write(here: slice) -> None:
            if not half:
                kept = slice(here.start, min(here.stop, self.n_kept))
                if kept.stop > kept.start:
                    matrix[kept, :] = self._computed(kept)
                return
            before, so_far = slice(0, here.start), slice(0, here.stop)
            K = self.kernel.block(self.X[here, :], self._met[so_far, :])
            matrix[here, so_far] = K
            matrix[before, here] = transposed(K[:, before])

        in_threads(write, list(self._in_order())[::-1])  # the longest first

    def _in_order(self) -> Iterator[slice]:
        for start in range(0, self.n_rows, self.batch_size):
            yield slice(start, min(start + self.batch_size, self.n_rows))

    def _computed(self, here: slice) -> Array:
        return self.kernel.block(self.X[here, :], self._met)

    def block(self, J: np.ndarray) -> Array:
        """``k(x_j, x_k)`` for the rows j of a block and all k: (B, l), in the type of the rows."""
        if self.matrix is not None and self.n_kept == self.n_rows:
            return rows_at(self.matrix, J)
        known = self.n_kept > J
        if self.matrix is None or not known.any():
            return self.kernel.block(rows_at(self.X, J), self._met)
        # those that are kept first, then the others, and back into the order that was asked for
        both = [rows_at(self.matrix, J[known])]
        if not known.all():
            both.append(self.kernel.block(rows_at(self.X, J[~known]), self._met))
        place = np.argsort(np.argsort(~known, kind="stable"), kind="stable")
        return rows_at(array_namespace(*both).concat(both, axis=0), place)

    def outputs(self, A: Array, J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``A k(X, x_j)`` (r × B) for the rows j of a block, and ``k(x_i, x_j)`` among them.

        In float64, on the host; threads share the columns of the kernel block.
        """
        if not isinstance(self.points, np.ndarray):
            xp, K = array_namespace(A), self.block(J)
            found = to_float64(xp.astype(A, K.dtype, copy=False) @ xp.matrix_transpose(K))
            return to_host(found), to_host(to_float64(xp.take(K, like(J, K), axis=1)))
        known = np.flatnonzero(self.n_kept > J) if self.matrix is not None else np.arange(0)
        others = np.setdiff1d(np.arange(len(J)), known)
        rows = rows_at(self.X, J[others])
        inner = np.empty((len(J), len(J)))

        def of_columns(at: slice) -> np.ndarray:
            K = np.empty((len(J), at.stop - at.start), self.points.dtype)
            if len(known):
                K[known] = self.matrix[J[known], at]  # type: ignore[index]
            if len(others):
                K[others] = self.kernel.block(rows, self._met[at, :])
            among = np.flatnonzero((at.start <= J) & (at.stop > J))
            inner[:, among] = K[:, J[among] - at.start]
            return A[:, at].astype(K.dtype) @ K.T

        first, *more = in_threads(of_columns, tiles(self.n_rows, len(J)))
        total = first.astype(np.float64)
        for part in more:
            total += part
        return total, inner

    def products(self, A: Array) -> Array:
        """``A K`` (r × l), not centred: one pass over the kernel matrix."""
        return self._pass(A)[0]

    def measured(self, A: Array) -> tuple[Array, Means]:
        """``A K`` and the means k̄ of the columns, in one pass over the kernel matrix."""
        product, sums = self._pass(A, with_sums=self.center)
        column = sums / self.n_rows
        return product, Means(column, float(self.weights @ column) / self.n_rows)

    def _pass(self, A: Array, with_sums: bool = False) -> tuple[Array, np.ndarray]:
        xp = array_namespace(A)
        product, sums = xp.zeros_like(A), np.zeros(self.n_rows)
        narrow = xp.astype(A, self.points.dtype, copy=False)
        w = like(self.weights, A)

        def of_rows(here: slice) -> None:
            kept = self.matrix is not None and here.stop <= self.n_kept
            K = self.matrix[here, :] if kept else self._computed(here)  # type: ignore[index]
            product[:, here] = to_float64(narrow @ xp.matrix_transpose(K))
            if with_sums:
                sums[here] = to_host(to_float64(K) @ w)

        in_threads(of_rows, list(self._in_order()))
        return product, sums


@dataclass(frozen=True)
class Means:
    """The k̄ of eq. (13) for every row (l,), and their mean k̄̄; all zero if not centred.

    They are inner products with φ̄, the mean of the mapped rows.
    """

    column: np.ndarray
    grand: float

    def centred(self, A: Array, product: Array) -> Array:
        """``A K̃`` from ``A K``."""
        xp = array_namespace(A)
        column = like(self.column, A)
        s, q = xp.sum(A, axis=1), A @ column
        return product - s[:, None] * column[None, :] - (q - s * self.grand)[:, None]


def rows_at(X: Array, J: np.ndarray) -> Array:
    """The rows with the indices J, dense or CSR: a copy."""
    return X[J] if issparse(X) else array_namespace(X).take(X, like(J, X), axis=0)


def tiles(n: int, height: int) -> list[slice]:
    """Columns 0 … n − 1 of a matrix in pieces for threads, by its height alone.

    So what is added up over them is the same number on every machine.
    """
    size = max(_TILE_COLUMNS, 1 << (_TILE_NUMBERS // max(1, height)).bit_length() - 1)
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]
