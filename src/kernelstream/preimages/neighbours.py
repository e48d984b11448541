"""Pre-images from distances to nearest landmarks (Kwok and Tsang 2004)."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelstream.arrays.namespaces import (
    Array,
    concatenate_rows,
    like,
    namespace_of,
    take_rows,
    to_host,
)
from kernelstream.preimages.base import Preimage, Report, remaining
from kernelstream.serialization import stored
from kernelstream.serialization.part import check_count

LARGEST_BLOCK = 4_000_000  # numbers of gathered neighbours that are held at once
RANK_FLOOR = 1e-3  # of the largest variance: directions below say more about noise than about place


@stored
class Neighbours(Preimage):
    """Distances in input space to the nearest points, from those in feature space, then a place.

    For a kernel of the distance, ``|P − φ(d_j)|²`` determines what ``|x − d_j|²`` would be. With
    these distances to the nearest points, x is found by classical multidimensional scaling: in the
    space of the n neighbours, centered, ``x = x̄ + Xᵀ (X Xᵀ)⁺ ½ (d₀² − d²)`` (Kwok and Tsang,
    eq. 14), where ``d₀²`` are the squared distances of the neighbours to their mean.

    Parameters
    ----------
    n_neighbours : int, default=10
        Number of basis points that are used.

    Notes
    -----
    Works with RBF, Exponential and Matern. One product of (n, m) by m, then a small eigenvalue
    problem for each row.

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
        """Only kernels whose value determines the distance of their arguments."""
        if not kernel.invertible:
            raise ValueError(
                "preimages.Neighbours needs a kernel whose value tells the distance of its "
                f"arguments (RBF, Exponential, Matern) and got {kernel!r}; use preimages.Ridge(), "
                "which works with every kernel."
            )

    def _solve(self, kernel: Any, D: Array, G: Array, start: Array | None) -> Report:
        xp = namespace_of(D)
        GK = G @ kernel.gram(D)
        energy = xp.sum(GK * G, axis=1)
        squared = kernel.inverse(GK, energy, D)
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


def take_along(squared: Array, nearest: np.ndarray, rows: slice) -> Array:
    """The entries of some rows at the places of their neighbours, (n, k)."""
    return like(np.take_along_axis(to_host(squared)[rows], nearest[rows], axis=1), squared)
