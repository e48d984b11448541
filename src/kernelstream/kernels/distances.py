"""Pairwise distances (Euclidean, Manhattan) in blocks; median distance of rows."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist, pdist

from kernelstream.arrays.draws import evenly_spaced
from kernelstream.arrays.namespaces import (
    Array,
    cast,
    dtype_name,
    is_sparse,
    namespace_of,
    ones,
    overwrite,
    product,
    row_norms_squared,
    take_rows,
    to_host,
)
from kernelstream.kernels.base import representable

# Squared norms of points, in units of the squared distance of interest, up to which rounding moves
# an exponent by less than 1e-3 in float32.
_SMALL = 1e4


def squared_distances(X: Array, Y: Array, resolution: float = 0.0) -> Array:
    """``|x_i − y_j|²`` by one matrix product, for rows X (dense or CSR) and dense points Y.

    The sum ``|x|² + |y|² − 2 x·y`` loses about ``eps · |y|²`` to cancellation, which matters when
    the data lie far from the origin compared with the distances of interest. Then both are shifted
    by the mean of Y first, which costs a copy of X; CSR rows are never shifted.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    Y : array of shape (m, d)
    resolution : float, default=0
        One over the square of the smallest distance of interest: ``gamma`` of an RBF kernel.
        Rows are shifted when ``resolution · |mean of Y|² > 16``. With 0 they never are.

    Returns
    -------
    array of shape (n, m)
        In the dtype of X, not negative.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.kernels import squared_distances
    >>> squared_distances(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]))
    array([[25.,  1.]])
    """
    return overwrite("maximum", scaled_distances(X, Y, resolution, 1.0), 0.0)


def scaled_distances(X: Array, Y: Array, resolution: float, factor: float) -> Array:
    """``factor · |x_i − y_j|²``, up to rounding on the wrong side of zero.

    The factor is multiplied into the points, which costs nothing, instead of into the result. That
    is not cut off at zero where rounding can only be small: it would be one more pass over it.
    """
    # CSR rows are not shifted
    points = Points(cast(Y, X.dtype), 0.0 if is_sparse(X) else resolution, factor)
    return points.scaled_distances(X)


class Points:
    """Points ready to be compared with rows of their own type and device.

    What depends on the points alone is computed here. A device has to hand over two numbers for
    it: where many blocks of rows meet the same points, the host waits for them once.

    On the host, where rows are shorter than there are points, norms of float32 rows are part of
    the product: ``f|x − y|² = (x − c, 1, f|x − c|²) · (−2f(y − c), f|y − c|², 1)`` with the shift
    c, which takes a copy of the rows and no pass over the result. Rounding may then be twice what
    is proved for float64.
    """

    def __init__(self, Y: Array, resolution: float, factor: float) -> None:
        self.array, self.resolution, self.factor = Y, resolution, factor
        self.shape = m, d = Y.shape
        self.centre = shift(Y, resolution)
        shifted = Y if self.centre is None else Y - self.centre
        self.columns = shifted * (-2.0 * factor)
        self.norms = factor * row_norms_squared(shifted)
        self.cut_off = resolution * _largest_norm(Y) > _SMALL
        self.longer: np.ndarray | None = None
        if isinstance(Y, np.ndarray) and dtype_name(Y) == "float32" and d + 2 <= m:
            both = self.norms[:, None], np.ones((m, 1), Y.dtype)
            self.longer = np.concatenate([self.columns, *both], axis=1)

    def __getitem__(self, where: tuple[slice, slice]) -> Points:
        return Points(self.array[where], self.resolution, self.factor)

    def scaled_distances(self, X: Array) -> Array:
        """``factor · |x_i − y_j|²``, up to rounding on the wrong side of zero."""
        X = X if self.centre is None else X - self.centre
        norms = self.factor * row_norms_squared(X)
        if self.longer is not None and not is_sparse(X):
            rows = np.empty((X.shape[0], X.shape[1] + 2), X.dtype)
            rows[:, :-2], rows[:, -2], rows[:, -1] = X, 1.0, norms
            scaled = rows @ self.longer.T
        else:
            scaled = product(X, self.columns, self.norms)
            scaled += norms[:, None]
        if self.cut_off:
            scaled = overwrite("maximum" if self.factor > 0 else "minimum", scaled, 0.0)
        return scaled


def shift(Y: Array, resolution: float) -> Array | None:
    """The mean of the points Y where distances need a shift by it, else None.

    The offset counts, not the largest norm: a shift is no help for data spread about 0, and rows
    far away from all points have a kernel of 0 in any case.
    """
    n = int(Y.shape[0])
    if resolution <= 0.0 or n == 0:
        return None
    if isinstance(Y, np.ndarray):
        centre = Y.mean(axis=0)
        squared_norm = float(centre @ centre)
    else:
        centre = ones(n, Y, Y.dtype) @ Y / n  # a GPU is slow at the mean of a long, narrow matrix
        squared_norm = float(namespace_of(Y).sum(centre * centre))
    return centre if resolution * squared_norm > 16.0 else None


def _largest_norm(Y: Array) -> float:
    """Squared norm of the longest point."""
    return float(namespace_of(Y).max(row_norms_squared(Y))) if Y.shape[0] else 0.0


def manhattan_distances(X: Array, Y: Array) -> Array:
    """``Σ_k |x_ik − y_jk|``, by whatever does that best for the kind of X."""
    if is_sparse(X):
        if Y.shape[0] == 0:  # a basis without points yet, which scikit-learn refuses
            return np.zeros((X.shape[0], 0), X.dtype)
        # Imported here: it would double the time that importing this package adds.
        from sklearn.metrics.pairwise import manhattan_distances as of_sparse_rows

        return of_sparse_rows(X, Y)
    if isinstance(X, np.ndarray):
        return cdist(X, Y, "cityblock")
    # Broadcasting needs rows × m × d numbers at a time: about 32 MB, or the size of Y.
    xp, n = namespace_of(X), X.shape[0]
    step = max(1, 2**22 // (Y.shape[0] * Y.shape[1]))
    parts = []
    for start in range(0, n, step):
        differences = X[start : min(start + step, n), None, :] - Y[None, :, :]
        parts.append(xp.sum(xp.abs(differences), axis=2))
    return xp.concat(parts, axis=0)


def median_distance(X: Array, weights: np.ndarray, metric: str = "euclidean") -> float | None:
    """The weighted median of the positive distances between at most 500 rows of X.

    The rows are spread evenly over X, and the pair (i, j) weighs ``w_i w_j``. Distances of zero do
    not count: a row of weight 2 then gives exactly what the same row twice gives, and repeated rows
    do not pull the median to zero. None if all rows are equal.
    """
    chosen = evenly_spaced(int(X.shape[0]), 500, nearest=True)
    rows, w = take_rows(X, chosen), weights[chosen]
    if is_sparse(rows):
        rows = rows[:, np.unique(rows.indices)]  # columns of zeros add nothing to a distance
    points = to_host(rows).astype(np.float64)
    # Differences of order 1, so that no square over- or underflows.
    points -= points[0]
    size = float(np.abs(points).max(initial=0.0))
    if size == 0.0:
        return None
    distances = pdist(points / size, metric)
    pair_weights = np.outer(w, w)[np.triu_indices(len(w), 1)]
    positive = distances > 0.0
    median = _weighted_median(distances[positive], pair_weights[positive]) * size
    # Euclidean kernels compute with the square, which must be a number too.
    needed = median * median if metric == "euclidean" else median
    representable(needed, X, f"the {'squared ' * (metric == 'euclidean')}median distance")
    return median


def _weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    """What ``np.median`` gives when every value is repeated as often as its weight says."""
    order = np.argsort(values)
    # where a product of two tiny weights is no number any more, all of them count alike
    cumulated = np.cumsum(weights[order] if weights.any() else np.ones(len(values)))
    half = cumulated[-1] / 2
    lower = values[order[np.searchsorted(cumulated, half, side="left")]]
    upper = values[order[np.searchsorted(cumulated, half, side="right")]]
    return float(lower + upper) / 2
