"""Gradient descent for pre-images of differentiable kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernelstream.arrays.namespaces import (
    Array,
    like,
    namespace_of,
    row_norms_squared,
    take_rows,
    to_host,
)
from kernelstream.kernels import Smoothness
from kernelstream.preimages.base import Preimage, Report, check_search, remaining
from kernelstream.serialization import stored
from kernelstream.serialization.part import as_number


@stored
class Gradient(Preimage):
    """The input whose image is nearest to ``P = Σ_k γ_k φ(d_k)``, by steepest descent.

    ``J(x) = k(x, x) − 2 Σ_k γ_k k(x, d_k)`` is the squared distance up to a constant. Each row has
    its own step, from the last two gradients (Barzilai and Borwein 1988), shortened until J falls.
    With ``non_negative`` the step is ``x ← x ∘ (1 − η ∇J)``, cut at zero, as Honeine (2012) does
    for images.

    Parameters
    ----------
    max_iter : int, default=200
        Most steps for a row.
    tol : float, default=1e-6
        A row is finished when it moves by less than ``tol`` times the root mean square distance of
        the basis points from their mean.
    non_negative : bool, default=False
        Whether to keep every entry of x at zero or above. Entries that start at zero stay there.
    step : float or None, default=None
        A fixed step η for ``x ← x − η ∇J/2`` without any test, for comparison with papers. A row
        that it drives beyond all numbers stays at its last place, and has not converged.
    n_starts : int, default=1
        Basis points that each row is started from, nearest first; the best end is kept.

    Notes
    -----
    Works with every kernel of :mod:`kernelstream.kernels` but callables and rough Matérn kernels,
    with sums and products. Where :class:`FixedPoint` works, it needs fewer steps.

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
        non_negative: bool = False,
        step: float | None = None,
        n_starts: int = 1,
    ):
        self.max_iter = max_iter
        self.tol = tol
        self.non_negative = non_negative
        self.step = step
        self.n_starts = n_starts

    def check(self) -> None:
        """Steps are counted, tolerance and step are numbers."""
        check_search(self)
        if self.step is not None and not 0 < as_number(self.step) < math.inf:
            raise ValueError(f"step={self.step!r}; expected a positive number or None.")

    def check_kernel(self, kernel: Any) -> None:
        """Only kernels whose gradient is known."""
        if kernel.smoothness == Smoothness.UNKNOWN:
            raise ValueError(
                "preimages.Gradient needs a kernel whose gradient is known (all of "
                "kernelstream.kernels but callables, Normalised, Categorical and Matern with nu "
                f"up to 1 other than 0.5) and got {kernel!r}; use preimages.Ridge(), which works "
                "with every kernel."
            )

    def _solve(self, kernel: Any, D: Array, G: Array, start: Array | None) -> Report:
        xp = namespace_of(D)
        GK = G @ kernel.gram(D)
        energy = xp.sum(GK * G, axis=1)
        # |φ(d_j) − P|² = k(d_j, d_j) − 2 ⟨P, φ(d_j)⟩ + |P|²
        order = np.argsort(to_host(kernel.diag(D)[None, :] - 2 * GK), axis=1, kind="stable")
        found: Report | None = None
        for attempt in range(min(self.n_starts, int(D.shape[0]))):
            x = take_rows(D, order[:, attempt]) if start is None or attempt else start
            with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is found
                x, converged, n_iter = self._descend(kernel, D, G, x)
            distance = remaining(kernel, x, D, G, energy)
            if found is None:
                found = Report(x, distance, converged, n_iter)
                continue
            better = distance < found.distance
            won = to_host(better)
            found = Report(
                xp.where(better[:, None], x, found.X),
                xp.where(better, distance, found.distance),
                np.where(won, converged, found.converged),
                np.where(won, n_iter, found.n_iter),
            )
        assert found is not None
        return found

    def _descend(
        self, kernel: Any, D: Array, G: Array, x: Array
    ) -> tuple[Array, np.ndarray, np.ndarray]:
        """Steps from the places x, all rows together; finished rows rest."""
        xp = namespace_of(D)
        x = xp.where(x > 0, x, 0 * x) if self.non_negative else x
        spread = float(xp.mean(row_norms_squared(D - xp.mean(D, axis=0)))) ** 0.5
        n = int(G.shape[0])
        n_iter = np.zeros(n, dtype=np.intp)
        J = objective(kernel, D, G, x)
        g = _gradient(kernel, D, G, x)
        length = xp.sqrt(row_norms_squared(g))
        length = xp.where(length > 0, length, xp.ones_like(length))
        eta = 0.1 * (spread or 1.0) / length
        active, at_rest = np.ones(n, dtype=bool), np.zeros(n, dtype=bool)
        for _ in range(self.max_iter):
            if not np.any(active):
                break
            if self.step is not None:
                eta = 0 * eta + 0.5 * self.step
            moved = x - eta[:, None] * g * (x if self.non_negative else xp.ones_like(x))
            moved = xp.where(moved > 0, moved, 0 * moved) if self.non_negative else moved
            J_new = objective(kernel, D, G, moved)
            going = like(active, J)
            better = going & (J_new < J if self.step is None else xp.isfinite(J_new))
            change = xp.where(better[:, None], moved - x, 0 * x)
            way = row_norms_squared(moved - x)
            near = to_host(way <= (self.tol * spread) ** 2)
            x, J = x + change, xp.where(better, J_new, J)
            g_new = _gradient(kernel, D, G, x)
            curvature = xp.sum(change * (g_new - g), axis=1)
            eta = xp.where(
                better & (curvature > 0),
                row_norms_squared(change) / xp.where(curvature > 0, curvature, xp.ones_like(eta)),
                xp.where(better, 2.0 * eta, 0.25 * eta),
            )
            g = g_new
            n_iter[active] += 1
            at_rest |= active & near
            # Beyond all numbers there is no way on: a step that is tested shortens instead.
            hopeless = xp.isnan(way) if self.step is None else ~better
            active &= ~near & ~to_host(hopeless)
        return x, at_rest, n_iter


def objective(kernel: Any, D: Array, G: Array, x: Array) -> Array:
    """``|φ(x) − P|²`` less ``|P|²``."""
    xp = namespace_of(x)
    return kernel.diag(x) - 2.0 * xp.sum(G * kernel.block(x, D), axis=1)


def _gradient(kernel: Any, D: Array, G: Array, x: Array) -> Array:
    return kernel.gradient_of_diagonal(x) - 2.0 * kernel.gradient_of_sum(x, D, G)
