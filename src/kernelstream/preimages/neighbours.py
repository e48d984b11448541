"""Pre-images from distances to nearest landmarks (Kwok and Tsang 2004)."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelstream import kernels
from kernelstream.arrays.namespaces import (
    Array,
    concatenate_rows,
    like,
    namespace_of,
    row_norms_squared,
    take_rows,
    to_host,
)
from kernelstream.kernels.stationary import Euclidean
from kernelstream.preimages.base import Preimage, Report, remaining
from kernelstream.serialization import stored
from kernelstream.serialization.part import check_count

LARGEST_BLOCK = 4_000_000  # numbers of gathered neighbours that are held at once
RANK_FLOOR = 1e-3  # of the largest variance: directions below say more about noise than about place


@stored
class Neighbours(Preimage):
    """Distances in input space to the nearest points, from those in feature space, then a place.

    For a kernel of the distance, ``|P − φ(d_j)|²`` tells what ``|x − d_j|²`` would be; for a
    polynomial of odd degree, ``⟨P, φ(d_j)⟩`` tells ``x·d_j``. With these distances to the nearest
    points, x is found by classical multidimensional scaling: in the space of the n neighbours,
    centred, ``x = x̄ + Xᵀ (X Xᵀ)⁺ ½ (d₀² − d²)`` (Kwok and Tsang, eq. 14), where ``d₀²`` are the
    squared distances of the neighbours to their mean.

    Parameters
    ----------
    n_neighbours : int, default=10
        Number of basis points that are used.

    Notes
    -----
    Works with RBF, Exponential, Matern, Linear, and Polynomial of odd degree. One product of (n, m)
    by m, then a small eigenvalue problem a row.

    References
    ----------
    Kwok, Tsang, "The pre-image problem in kernel methods", IEEE Transactions on Neural Networks 15,
    2004.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import kernels, preimages
    >>> points = np.random.default_rng(0).normal(size=(20, 2))
    >>> X, distance = preimages.Neighbours(5).solve(kernels.RBF(gamma=0.5), points, np.eye(20))
    >>> bool(np.allclose(X, points))
    True
    """

    def __init__(self, n_neighbours: int = 10):
        self.n_neighbours = n_neighbours

    def check(self) -> None:
        """Neighbours are counted."""
        check_count("Neighbours", "n_neighbours", self.n_neighbours, none_allowed=False)

    def check_kernel(self, kernel: Any) -> None:
        """Only kernels that tell the distance or the inner product of their arguments."""
        odd = isinstance(kernel, kernels.Polynomial) and kernel.degree % 2 == 1
        if not (odd or isinstance(kernel, Euclidean | kernels.Linear)):
            raise ValueError(
                "preimages.Neighbours needs a kernel whose value tells the distance of its "
                "arguments (RBF, Exponential, Matern, Linear, Polynomial of odd degree) and got "
                f"{kernel!r}; use preimages.Ridge(), which works with every kernel."
            )

    def _solve(self, kernel: Any, D: Array, G: Array, start: Array | None) -> Report:
        xp = namespace_of(D)
        GK = G @ kernel.gram(D)
        energy = xp.sum(GK * G, axis=1)
        squared = squared_input_distances(kernel, D, GK, energy)
        count = min(self.n_neighbours, int(D.shape[0]))
        nearest = np.argsort(to_host(squared), axis=1, kind="stable")[:, :count]
        size = max(1, LARGEST_BLOCK // max(1, count * int(D.shape[1])))
        pieces = [
            self._place(D, take_along(squared, nearest, rows), nearest[rows])
            for rows in (slice(i, i + size) for i in range(0, len(nearest), size))
        ]
        X = concatenate_rows(pieces) if pieces else G @ D
        return Report.without_search(X, remaining(kernel, X, D, G, energy))

    def _place(self, D: Array, squared: Array, nearest: np.ndarray) -> Array:
        """Multidimensional scaling of each row among its neighbours."""
        xp = namespace_of(D)
        n, count = nearest.shape
        near = xp.reshape(take_rows(D, nearest.ravel()), (n, count, int(D.shape[1])))
        mean = xp.mean(near, axis=1)
        near = near - mean[:, None, :]
        gram = near @ xp.matrix_transpose(near)
        lam, U = xp.linalg.eigh(gram)
        floor = RANK_FLOOR * xp.max(lam, axis=1)[:, None]
        kept = lam > xp.where(floor > 0, floor, xp.ones_like(floor))
        inverse = xp.where(kept, 1 / xp.where(kept, lam, xp.ones_like(lam)), 0 * lam)
        difference = 0.5 * (xp.linalg.diagonal(gram) - squared)
        weights = xp.matrix_transpose(U) @ difference[:, :, None]
        weights = U @ (inverse[:, :, None] * weights)
        return mean + (xp.matrix_transpose(near) @ weights)[:, :, 0]


def squared_input_distances(kernel: Any, D: Array, GK: Array, energy: Array) -> Array:
    """``|x − d_j|²`` of an x with ``k(x, d_j)`` as P has it, (n, m)."""
    xp = namespace_of(D)
    if isinstance(kernel, kernels.Linear | kernels.Polynomial):
        inner, own = _inner_product(kernel, GK), _inner_product(kernel, energy)
        squared = own[:, None] + row_norms_squared(D)[None, :] - 2 * inner
        return xp.where(squared > 0, squared, 0 * squared)
    # k(x, d) = 1 − |φ(x) − φ(d)|²/2, with P in the place of φ(x) (Kwok and Tsang, eq. 9)
    value = to_host(GK + 0.5 * (1.0 - energy[:, None]))
    return like(_inverse(kernel, np.clip(value, 1e-12, 1.0)), D)


def _inner_product(kernel: Any, value: Array) -> Array:
    """``x·y`` from the kernel's value."""
    if isinstance(kernel, kernels.Linear):
        return value
    xp = namespace_of(value)
    root = xp.sign(value) * xp.abs(value) ** (1.0 / kernel.degree)
    return (root - kernel.coef0) / kernel.gamma


def _inverse(kernel: Any, value: np.ndarray) -> np.ndarray:
    """The squared distance at which a kernel of the distance has a value in (0, 1]."""
    if isinstance(kernel, kernels.RBF):
        return -np.log(value) / kernel.gamma
    if isinstance(kernel, kernels.Exponential):
        return (np.log(value) / kernel.gamma) ** 2
    # monotone, without a closed form: between values on a fine grid
    squared = np.concatenate([[0.0], np.geomspace(1e-12, 1e4, 20001)]) / kernel.resolution
    values = kernel.of_scaled_distances(kernel.distance_scale * squared)
    return np.interp(-value, -values, squared)


def take_along(squared: Array, nearest: np.ndarray, rows: slice) -> Array:
    """The entries of some rows at the places of their neighbours, (n, k)."""
    return like(np.take_along_axis(to_host(squared)[rows], nearest[rows], axis=1), squared)
