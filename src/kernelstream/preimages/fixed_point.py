"""Fixed-point iteration (Mika et al. 1998) for pre-images of distance-based kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kernelstream.arrays.namespaces import (
    Array,
    namespace_of,
    take_rows,
    to_host,
)
from kernelstream.kernels import Smoothness
from kernelstream.preimages.base import Report
from kernelstream.preimages.gradient import Gradient
from kernelstream.serialization import stored


def is_radial(kernel: Any) -> bool:
    """Whether ``k(x, y) = κ(|x − y|²)`` with ``κ(0) = 1``."""
    return kernel.stationary and kernel.isotropic and kernel.unit_norm


@stored
class FixedPoint(Gradient):
    """The input whose image is nearest to ``P = Σ_k γ_k φ(d_k)``, by fixed-point iteration.

    For a kernel ``k(x, y) = κ(|x − y|²)`` with ``κ(0) = 1``, ``|φ(x) − P|² = 1 − 2 f(x) + |P|²``
    with ``f(x) = Σ_k γ_k κ(|x − d_k|²)``. Where the gradient of ``f`` vanishes,

        ``x = Σ_k w_k d_k / Σ_k w_k``,   ``w_k = −γ_k κ'(|x − d_k|²)``,

    (Mika et al., eq. (10), for the RBF kernel, where ``w_k = γ_k k(x, d_k)`` up to a constant),
    and the iteration puts the right-hand side in the place of ``x``. While ``Σ w_k > 0`` the step
    points uphill but may be too long when some ``γ_k`` are negative. Here a step that does not
    raise ``f`` is taken back and halved, so the answer is never further from ``P`` than the start,
    which is the basis point with the largest ``⟨P, φ(d_j)⟩``. A row whose ``Σ w_k`` vanishes or
    turns negative is stuck: it is searched for by steepest descent, from several basis points.

    Parameters
    ----------
    max_iter : int, default=100
        Most steps for a row; a handful is usual.
    tol : float, default=1e-6
        A row is finished when it moves by less than ``tol`` times the root mean square distance of
        the basis points from their mean.
    n_starts : int, default=3
        Basis points from which a row that is stuck is started once more, by :class:`Gradient`;
        the best end is kept.

    Notes
    -----
    Works with ``RBF``, ``Exponential`` and ``Matern``. Two matrix products of (n, m) with m points
    a step; finished rows leave.

    References
    ----------
    Mika, Schölkopf, Smola, Müller, Scholz, Rätsch, "Kernel PCA and de-noising in feature spaces",
    NIPS 1998.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import kernels, preimages
    >>> points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> P = np.array([[0.0, 0.5, 0.5]])  # half way, in feature space, between two points
    >>> X, distance = preimages.FixedPoint().solve(kernels.RBF(gamma=0.1), points, P)
    >>> X.round(3)
    array([[0.5, 0.5]])
    """

    # Σ w below this share of Σ |w| is rounding: the weighted mean has no meaning there.
    _EPSILON = 1e-12

    n_neighbours = None

    def __init__(self, max_iter: int = 100, tol: float = 1e-6, n_starts: int = 3):
        self.max_iter = max_iter
        self.tol = tol
        self.n_starts = n_starts

    def check_kernel(self, kernel: Any) -> None:
        """Only kernels of the distance whose slope is known."""
        if not (is_radial(kernel) and kernel.smoothness > Smoothness.UNKNOWN):
            raise ValueError(
                "preimages.FixedPoint needs a kernel of the distance whose slope is known (RBF, "
                f"Exponential, Matern) and got {kernel!r}; use "
                "preimages.Ridge(), which works with every kernel."
            )

    def _solve(self, kernel: Any, D: Array, G: Array, start: Array | None) -> Report:
        xp = namespace_of(D)
        # These kernels do not see a shift; centered landmarks keep the digits of their distances.
        mean = xp.mean(D, axis=0)
        D = D - mean
        GK = G @ kernel.gram(D)
        nearest = np.argmax(to_host(GK), axis=1)
        x = take_rows(D, nearest) if start is None else start - mean
        found = self._search(kernel, D, G, x, xp.sum(GK * G, axis=1))
        stuck = np.flatnonzero(~found.converged & (found.n_iter < self.max_iter))
        if stuck.size:
            descent = Gradient(self.max_iter, self.tol, self.n_starts)
            found = found.improve(stuck, descent.report(kernel, D, take_rows(G, stuck)))
        return replace(found, X=found.X + mean)

    def _way(self, kernel: Any, D: Array, G: Array, x: Array, k: Array) -> tuple[Array, Array]:
        """To the weighted mean of the landmarks, where the sum of the weights is positive."""
        xp = namespace_of(D)
        w = G * kernel.slope(x, D, k)
        total = xp.sum(w, axis=1)
        uphill = total > self._EPSILON * xp.sum(xp.abs(w), axis=1)
        total = xp.where(uphill, total, xp.ones_like(total))
        return (w @ D) / total[:, None] - x, uphill

    def _first_step(self, way: Array, spread: float) -> Array:
        """The whole way."""
        return namespace_of(way).ones_like(way[:, 0])

    def _next_step(self, step: Array, better: Array, move: Array, turn: Array) -> Array:
        """The whole way again, or half of what did not help."""
        xp = namespace_of(step)
        return xp.where(better, xp.ones_like(step), step / 2)
