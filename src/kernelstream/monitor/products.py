"""Matrix products whose rows do not know of each other, bit for bit.

A record must not depend on how the caller cuts the stream into calls. BLAS takes other roads for
one row than for many, and rounds differently on each. Here the order in which an entry is summed
depends on the inner length alone, whatever the number of rows; a tile of rows shares what is read
of the matrix.
"""

from __future__ import annotations

import numpy as np

from kernelstream.backends.jit import compiled


def rows_times(X: np.ndarray, A: np.ndarray) -> np.ndarray:
    """``X @ A``, each row as if it were alone.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, A = rng.normal(size=(9, 5)), rng.normal(size=(5, 4))
    >>> bool(np.allclose(rows_times(X, A), X @ A))
    True
    >>> bool((rows_times(X, A)[3] == rows_times(X[3:4], A)[0]).all())
    True
    """
    return _rows_times(np.ascontiguousarray(X), np.ascontiguousarray(A))


def row_dots(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """``Σ_j X_ij Y_ij`` for each row i, each row as if it were alone.

    Examples
    --------
    >>> import numpy as np
    >>> row_dots(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 1.0], [2.0, 0.0]]))
    array([3., 6.])
    """
    return _row_dots(np.ascontiguousarray(X), np.ascontiguousarray(Y))


@compiled
def _rows_times(X, A):
    n, inner = X.shape
    m = A.shape[1]
    out = np.zeros((n, m))
    for start in range(0, n, 8):
        stop = min(start + 8, n)
        for i in range(inner):
            for row in range(start, stop):
                x = X[row, i]
                for j in range(m):
                    out[row, j] += x * A[i, j]
    return out


@compiled
def _row_dots(X, Y):
    n, d = X.shape
    out = np.zeros(n)
    for row in range(n):
        total = 0.0
        for j in range(d):
            total += X[row, j] * Y[row, j]
        out[row] = total
    return out
