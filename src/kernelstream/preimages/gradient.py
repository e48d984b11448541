"""Steepest descent for pre-images of differentiable kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelstream.arrays.namespaces import (
    Array,
    concatenate_rows,
    namespace_of,
    row_norms_squared,
    take_rows,
    to_host,
)
from kernelstream.kernels import Smoothness
from kernelstream.preimages.base import Preimage, Report, non_negative
from kernelstream.preimages.neighbours import Neighbours
from kernelstream.serialization import stored
from kernelstream.serialization.part import as_number, check_count


@stored
class Gradient(Preimage):
    """The input whose image is nearest to ``P = Σ_k γ_k φ(d_k)``, by steepest descent.

    ``J(x) = k(x, x) − 2 Σ_k γ_k k(x, d_k)`` is the squared distance up to a constant. Each row has
    its own step, from the last two gradients (Barzilai and Borwein 1988), shortened until J falls.

    Parameters
    ----------
    max_iter : int, default=200
        Most steps for a row.
    tol : float, default=1e-6
        A row is finished when it moves by less than ``tol`` times the root mean square distance of
        the landmarks from their mean.
    n_starts : int, default=1
        Landmarks that each row is started from, nearest first; the best end is kept.
    n_neighbours : int or None, default=None
        With a number, each row is started from the answer of ``Neighbours(n_neighbours)`` as well
        (Kim, Franz and Schölkopf 2003, section 4.2), for the kernels that both methods know.

    Notes
    -----
    Works with every kernel of :mod:`kernelstream.kernels` but callables and ``Categorical``, with
    sums and products. Where :class:`FixedPoint` works, it needs fewer steps.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import kernels, preimages
    >>> points = np.random.default_rng(0).normal(size=(30, 2))
    >>> kernel = kernels.Polynomial(degree=2, gamma=1.0, coef0=1.0)
    >>> P = np.array([[0.5, 0.5, *[0.0] * 28]])  # half way between two points, in feature space
    >>> X, distance = preimages.Gradient().solve(kernel, points, P)
    >>> X.shape, bool(distance[0] < kernel(X, X)[0, 0])
    ((1, 2), True)
    """

    searches = True

    def __init__(
        self,
        max_iter: int = 200,
        tol: float = 1e-6,
        n_starts: int = 1,
        n_neighbours: int | None = None,
    ):
        self.max_iter = max_iter
        self.tol = tol
        self.n_starts = n_starts
        self.n_neighbours = n_neighbours

    def check(self) -> None:
        """Raise ``ValueError`` unless steps and starts are counts and the tolerance is a number."""
        if not (isinstance(self.max_iter, int | np.integer) and self.max_iter >= 0):
            raise ValueError(f"max_iter={self.max_iter!r}; expected a whole number, 0 or more.")
        if not as_number(self.tol) >= 0:
            raise ValueError(f"tol={self.tol!r}; expected a number that is not negative.")
        check_count(type(self).__name__, "n_starts", self.n_starts, none_allowed=False)
        check_count(type(self).__name__, "n_neighbours", self.n_neighbours)

    def check_kernel(self, kernel: Any) -> None:
        """Only kernels whose gradient is known."""
        if kernel.smoothness == Smoothness.UNKNOWN:
            raise ValueError(
                "preimages.Gradient needs a kernel whose gradient is known (all of "
                f"kernelstream.kernels but callables and Categorical) and got {kernel!r}; use "
                "preimages.Ridge(), which works with every kernel."
            )
        if self.n_neighbours is not None:
            Neighbours(self.n_neighbours).check_kernel(kernel)

    def _solve(self, kernel: Any, D: Array, G: Array, start: Array | None) -> Report:
        K = kernel.gram(D)
        GK = G @ K
        energy = namespace_of(D).sum(GK * G, axis=1)
        # |φ(d_j) − P|² = k(d_j, d_j) − 2 ⟨P, φ(d_j)⟩ + |P|²
        order = np.argsort(to_host(kernel.diag(D)[None, :] - 2 * GK), axis=1, kind="stable")
        starts = [take_rows(D, nearest) for nearest in order[:, : self.n_starts].T]
        if start is not None:
            starts[0] = start
        elif self.n_neighbours is not None:
            starts.insert(0, Neighbours(self.n_neighbours).solve(kernel, D, G)[0])
        found, *others = (self._search(kernel, D, G, x, energy) for x in starts)
        for other in others:
            found = found.improve(np.arange(len(found.converged)), other)
        return found

    def _search(self, kernel: Any, D: Array, G: Array, x: Array, energy: Array) -> Report:
        """Steps from the places x, all rows together; a row that is finished leaves."""
        xp = namespace_of(D)
        spread = float(xp.mean(row_norms_squared(D - xp.mean(D, axis=0)))) ** 0.5
        n = int(G.shape[0])
        converged, n_iter = np.zeros(n, dtype=bool), np.full(n, self.max_iter, dtype=np.intp)
        rows, finished = np.arange(n), []
        k = kernel.block(x, D)
        J = objective(kernel, G, x, k)
        with np.errstate(over="ignore", invalid="ignore"):  # a step to infinity does not help
            way, sure = self._way(kernel, D, G, x, k)
            step = self._first_step(way, spread)
            for iteration in range(self.max_iter):
                move = step[:, None] * way
                k_new = kernel.block(x + move, D)
                J_new = objective(kernel, G, x + move, k_new)
                better = sure & (J_new < J)
                squared = row_norms_squared(move)
                move = xp.where(better[:, None], move, 0 * x)
                x, k = x + move, xp.where(better[:, None], k_new, k)
                J = xp.where(better, J_new, J)
                going = to_host(sure & (squared > (self.tol * spread) ** 2))
                if not np.all(going):
                    done, on = np.flatnonzero(~going), np.flatnonzero(going)
                    finished.append((rows[done], take_rows(x, done), take_rows(J, done)))
                    converged[rows[done]] = to_host(sure & xp.isfinite(squared))[done]
                    n_iter[rows[done]] = iteration
                    rows, kept = rows[on], (x, k, J, step, way, G, better, move)
                    x, k, J, step, way, G, better, move = (take_rows(a, on) for a in kept)
                if rows.size == 0:
                    break
                before = way
                way, sure = self._way(kernel, D, G, x, k)
                step = self._next_step(step, better, move, before - way)
        finished.append((rows, x, J))
        order = np.argsort(np.concatenate([rows for rows, _, _ in finished]))
        x = take_rows(concatenate_rows([x for _, x, _ in finished]), order)
        J = take_rows(concatenate_rows([J for _, _, J in finished]), order)
        return Report(x, non_negative(J + energy), converged, n_iter)

    def _way(self, kernel: Any, D: Array, G: Array, x: Array, k: Array) -> tuple[Array, Array]:
        """Where to go from x, and whether that is known: against the gradient of J."""
        way = 2.0 * kernel.gradient_of_sum(x, D, G, k) - kernel.gradient_of_diagonal(x)
        return way, namespace_of(k).isfinite(k[:, 0])

    def _first_step(self, way: Array, spread: float) -> Array:
        """A tenth of the spread of the landmarks."""
        xp = namespace_of(way)
        length = xp.sqrt(row_norms_squared(way))
        return 0.1 * (spread or 1.0) / xp.where(length > 0, length, xp.ones_like(length))

    def _next_step(self, step: Array, better: Array, move: Array, turn: Array) -> Array:
        """The step of Barzilai and Borwein; ``turn`` is the change of the gradient."""
        xp = namespace_of(step)
        curvature = xp.sum(move * turn, axis=1)
        curved = xp.where(curvature > 0, curvature, xp.ones_like(step))
        otherwise = xp.where(better, 2.0 * step, 0.25 * step)
        return xp.where(curvature > 0, row_norms_squared(move) / curved, otherwise)


def objective(kernel: Any, G: Array, x: Array, k: Array) -> Array:
    """``|φ(x) − P|²`` less ``|P|²``, where k = k(x, D)."""
    return kernel.diag(x) - 2.0 * namespace_of(x).sum(G * k, axis=1)
