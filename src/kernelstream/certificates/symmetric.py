"""Large symmetric matrices in half of the memory; leading eigenvalues by Lanczos.

NumPy's BLAS does the work, unless many eigenvalues of many rows are needed: SciPy has a BLAS of its
own, which allocates further buffers and does not return if there is no memory for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import scipy.linalg

from kernelstream.arrays.draws import generator
from kernelstream.arrays.threads import in_threads

STRIP = 128  # rows of a strip: it is read twice for a product, and stays in the cache meanwhile
FEW = 1024  # rows of which all eigenvalues are computed
MANY = 64  # eigenvalues from which on, too
CONVERGED = 1e-4  # of an eigenvalue, that the iteration may miss: it is added
NOTHING = 1e-6  # of the trace: where no more is left, it is added
TOGETHER = 16  # steps between two looks at what was found

Block = Callable[[slice, slice], np.ndarray]  # entries of some rows in some columns


class Symmetric:
    """A symmetric matrix as strips of its rows, each from the diagonal on.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> G = Symmetric.of(lambda rows, columns: A[rows, columns], np.diag(A))
    >>> G @ np.array([1.0, -1.0]), leading_values(G, np.ones(2), 1).round(3)
    (array([ 1., -2.]), array([3.618]))
    """

    def __init__(self, strips: list[np.ndarray]):
        self.strips = strips

    @classmethod
    def of(cls, block: Block, diagonal: np.ndarray, dtype: type = np.float64) -> Symmetric:
        """The matrix with such entries; ``block`` is asked for those on and right of the diagonal.

        What the diagonal has is known better than by ``block``.
        """
        n = len(diagonal)

        def strip(start: int) -> np.ndarray:
            rows = slice(start, min(start + STRIP, n))
            found: np.ndarray = np.array(block(rows, slice(start, n)), dtype, order="C")
            at = np.arange(len(found))
            found[at, at] = diagonal[rows]
            return found

        return cls(in_threads(strip, range(0, n, STRIP)))

    def __len__(self) -> int:
        return sum(map(len, self.strips))

    @property
    def dtype(self) -> np.dtype:
        """Type of the entries."""
        return self.strips[0].dtype

    def _placed(self) -> Iterator[tuple[int, int, np.ndarray]]:
        """Strips, with their first row and the one behind them."""
        start = 0
        for strip in self.strips:
            yield start, start + len(strip), strip
            start += len(strip)

    def __matmul__(self, vector: np.ndarray) -> np.ndarray:
        """The product with a vector, in float64 as far as strips are added up."""
        v, found = vector.astype(self.dtype, copy=False), np.zeros(len(vector))
        for start, end, strip in self._placed():
            found[start:end] += strip @ v[start:]
            found[end:] += v[start:end] @ strip[:, end - start :]
        return found

    def shift(self, by: np.ndarray) -> None:
        """Add ``by[i] + by[j]`` to every entry, in place."""
        for start, end, strip in self._placed():
            strip += by[start:end, None]
            strip += by[None, start:]

    def diagonal(self) -> np.ndarray:
        """The diagonal, in float64."""
        return np.concatenate([np.diagonal(strip) for strip in self.strips]).astype(float)

    def dense(self, root: np.ndarray) -> np.ndarray:
        """root·G·root as one array, without rows and columns of zeros."""
        some = np.flatnonzero(root)
        places = np.searchsorted(some, np.arange(len(self) + 1))
        whole, root = np.empty((len(some), len(some)), self.dtype), root[some].astype(self.dtype)
        for start, end, strip in self._placed():
            a, b = places[start], places[end]
            whole[a:b, a:] = strip[np.ix_(some[a:b] - start, some[a:] - start)]
            whole[a:b, a:] *= root[a:b, None]
            whole[a:b, a:] *= root[None, a:]
            whole[b:, a:b] = whole[a:b, b:].T
        return whole


def leading_values(G: Symmetric, root: np.ndarray, r: int) -> np.ndarray:
    """The r largest eigenvalues of root·G·root, largest first: no sum of them is too small."""
    n = len(G)
    if r >= n or n <= FEW or r > MANY:
        found = all_values(G.dense(root))[:r].astype(float)
        values = np.concatenate([found, np.zeros(min(r, n) - len(found))])
    else:
        trace = float(root**2 @ G.diagonal())
        found = by_lanczos(lambda v: root * (G @ (root * v)), root, trace, G.dtype, r)
        values = (1.0 + CONVERGED) * found
    return np.maximum(values, 0.0)


def all_values(A: np.ndarray) -> np.ndarray:
    """Eigenvalues, largest first; of a large matrix in its place, which SciPy can and NumPy not."""
    if len(A) <= FEW:
        return np.linalg.eigvalsh(A)[::-1]
    return scipy.linalg.eigvalsh(A.T, overwrite_a=True, check_finite=False)[::-1]


def by_lanczos(
    product: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    trace: float,
    dtype: np.dtype,
    r: int,
) -> np.ndarray:
    """The r largest eigenvalues of a semidefinite operator, by Lanczos from a vector.

    Steps are taken until residuals are small beside the eigenvalues, or beside a small share of the
    largest; or until nothing is left of the trace: what is left bounds what any eigenvalues outside
    can add. All earlier vectors are taken out of a new one, twice; where rounding is all that is
    left of it, the iteration goes on with a random one, and ends where that is lost as well.
    """
    n, rng, rounding = len(start), generator(0, "Lanczos"), np.finfo(dtype).eps
    least = max(CONVERGED**2, 10.0 * rounding)
    blocks: list[np.ndarray] = []  # of orthonormal vectors, TOGETHER rows each
    T = np.zeros((0, 0))  # the operator between these
    largest, lost, w = 0.0, 0, start

    def left_of(w: np.ndarray, m: int) -> np.ndarray:
        for _ in range(2):
            for i, block in enumerate(blocks):
                known = block[: m - TOGETHER * i]
                w = w - known.T @ (known @ w.astype(dtype))
        return w

    for m in range(n):
        norm = float(np.linalg.norm(w))
        if norm <= rounding * largest:
            norm, lost, w = 0.0, lost + 1, left_of(rng.normal(size=n), m)
        if m % TOGETHER == 0:
            values, vectors = np.linalg.eigh(T[:m, :m])
            if trace - values.sum() <= NOTHING * trace:
                break
            enough = np.maximum(CONVERGED * values[-r:], least * largest)
            is_known = m >= r and np.all(norm * np.abs(vectors[-1, -r:]) <= enough)
            if is_known and (norm > 0.0 or lost > 1):
                break
            T = np.pad(T, (0, TOGETHER))
            blocks.append(np.empty((TOGETHER, n), dtype))
        w = w / np.linalg.norm(w)
        blocks[-1][m % TOGETHER] = w
        if m:
            T[m, m - 1] = T[m - 1, m] = norm
        image = product(w)
        T[m, m] = w @ image
        largest = max(largest, T[m, m], norm)
        w = left_of(image, m + 1)
    else:
        values = np.linalg.eigvalsh(T[:n, :n])
    rest = max(0.0, trace - values.sum())
    values = values[::-1][:r]
    values = np.concatenate([values, np.zeros(r - len(values))])
    if rest <= NOTHING * trace:
        values[0] += rest
    return values
