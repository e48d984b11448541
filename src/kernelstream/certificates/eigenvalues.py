"""Lower and upper bounds on sums of the leading eigenvalues of a Gram matrix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import ArpackError, eigsh

from kernelstream.arrays.draws import generator
from kernelstream.arrays.threads import in_threads, tiles

# Of so many rows all eigenvalues are computed, in 0.2 s. Of 5,120 rows that takes a minute; `eigsh`
# takes 0.3 s and 105 MB in float32, or 0.6 s and 210 MB in float64, where the Cholesky factor of
# the proof takes another 0.8 s (one core). A Lanczos iteration of our own on half of the matrix
# took 0.2 s and 53 MB; it measured convergence by the norm of its start vector, and its bounds were
# wrong for rows in small units.
FEW = 1024

Block = Callable[[slice, slice], np.ndarray]  # entries of some rows in some columns
Pair = tuple[np.ndarray, np.ndarray]


def unit_of(diagonal: np.ndarray) -> float:
    """A power of two above the diagonal: divided by it, bounds hold in every unit of the data."""
    return float(2.0 ** np.frexp(diagonal.max(initial=0.0))[1])


def gram_matrix(block: Block, diagonal: np.ndarray, dtype: type) -> np.ndarray:
    """A Gram matrix divided by :func:`unit_of` its diagonal.

    ``block`` is asked for entries on and right of the diagonal only. The diagonal itself is known
    better than by ``block``.
    """
    n, unit = len(diagonal), unit_of(diagonal)
    G: np.ndarray = np.empty((n, n), dtype)

    def strip(rows: slice) -> None:
        later = slice(rows.start, n)
        entries = block(rows, later) / unit
        G[later, rows] = entries.T
        G[rows, later] = entries

    in_threads(strip, tiles(n, n))
    np.fill_diagonal(G, diagonal / unit)
    return G


def leading_sums(G: np.ndarray, k: int) -> Pair:
    """Lower and upper bounds on the sums of the 1, 2, …, k largest eigenvalues; G is overwritten.

    G is positive semidefinite, with a diagonal between 0 and 1. In float64 both are proved, up to
    rounding. In float32 the upper bounds rest on it that the iteration, from a random start, has
    missed none of the leading eigenvalues: for confidence limits, whose doubt is far larger.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.certificates.eigenvalues import leading_sums
    >>> leading_sums(np.diag([0.5, 0.25, 1.0]), 2)
    (array([1. , 1.5]), array([1. , 1.5]))
    """
    n, trace = len(G), float(np.trace(G, dtype=np.float64))
    if n <= FEW or k >= n - 1:
        values = np.maximum(np.linalg.eigvalsh(G.astype(np.float64))[::-1][:k], 0.0)
        sums = np.cumsum(np.append(values, np.zeros(k - len(values))))
        return sums, sums
    if not trace > 0.0:
        return np.zeros(k), np.zeros(k)
    # Rows that are exactly the same end the iteration early, and ARPACK goes on with random numbers
    # of its own. Added to the diagonal, distinct numbers as small as rounding keep it going.
    noise = generator(0, "diagonal").random(n) * 16.0 * float(np.finfo(G.dtype).eps)
    np.fill_diagonal(G, np.diagonal(G) + noise)
    start = generator(0, "eigsh").normal(size=n).astype(G.dtype)
    # Ritz values are lower bounds; the residual says how far off they are.
    tolerance = 1e-4 if G.dtype == np.float32 else 1e-9
    try:
        values, vectors = eigsh(G, k=k, which="LA", v0=start, tol=tolerance)
    except ArpackError:  # not converged: the trace is still true
        return np.zeros(k), np.full(k, trace)
    values, vectors = values[::-1].astype(np.float64), vectors[:, ::-1]
    residual = float(np.linalg.norm(G @ vectors - vectors * values.astype(G.dtype)))
    lower = np.minimum(np.cumsum(np.maximum(values - noise.max(), 0.0)), trace)
    rest = values[-1] + residual
    if G.dtype == np.float64 and not is_below(G, values, vectors, rest):
        return lower, np.full(k, trace)
    # By Weyl's theorem eigenvalues are within the residual of those of the two diagonal blocks of
    # G, in the span of the vectors and outside of it, where they are below ``rest``.
    upper = np.cumsum(np.maximum(values, rest) + residual) + noise.max() * trace
    return lower, np.minimum(upper, trace)


def is_below(G: np.ndarray, values: np.ndarray, vectors: np.ndarray, limit: float) -> bool:
    """Whether G less some of its eigenvalues has all others below a limit; G is overwritten.

    Then the limit times I, less the remaining matrix, has a Cholesky factor.
    """
    n = len(G)
    for rows in tiles(n, n):
        G[rows] = (vectors[rows] * values) @ vectors.T - G[rows]
    # what a factorization of this size may lose to rounding
    G.flat[:: n + 1] += limit + n * n * np.finfo(np.float64).eps * limit
    return bool(scipy.linalg.lapack.dpotrf(G.T, overwrite_a=True, clean=False)[1] == 0)
