"""Fixed-point iteration (Mika et al. 1998) for pre-images of distance-based kernels."""

from __future__ import annotations

from dataclasses import replace
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
from kernelstream.preimages.base import Preimage, Report, check_search
from kernelstream.preimages.gradient import Gradient
from kernelstream.serialization import stored


def is_radial(kernel: Any) -> bool:
    """Whether ``k(x, y) = κ(|x − y|²)`` with ``κ(0) = 1``."""
    return kernel.stationary and kernel.isotropic and kernel.unit_norm


@stored
class FixedPoint(Preimage):
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
    Works with ``RBF``, ``Exponential`` and ``Matern`` (``nu`` = 0.5 or above 1). Two matrix
    products of (n, m) with m points a step; finished rows leave.

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

    searches = True

    def __init__(self, max_iter: int = 100, tol: float = 1e-6, n_starts: int = 3):
        self.max_iter = max_iter
        self.tol = tol
        self.n_starts = n_starts

    def check(self) -> None:
        """Steps are counted, the tolerance is not negative."""
        check_search(self)

    def check_kernel(self, kernel: Any) -> None:
        """Only kernels of the distance whose slope is known."""
        if not (is_radial(kernel) and kernel.smoothness > Smoothness.UNKNOWN):
            raise ValueError(
                "preimages.FixedPoint needs a kernel of the distance whose slope is known (RBF, "
                f"Exponential, Matern with nu = 0.5 or above 1) and got {kernel!r}; "
                "use preimages.Ridge(), which works with every kernel."
            )

    def _solve(self, kernel: Any, D: Array, G: Array, start: Array | None) -> Report:
        xp = namespace_of(D)
        # These kernels do not see a shift; centred points keep the digits of their distances.
        mean = xp.mean(D, axis=0)
        D = D - mean
        K = kernel.gram(D)
        GK = G @ K
        energy = xp.sum(GK * G, axis=1)  # |P|²
        order = np.argsort(-to_host(GK), axis=1, kind="stable")  # nearest basis points first
        if start is None:  # rows of the Gram matrix: exactly 1 at the point itself
            x, k = take_rows(D, order[:, 0]), take_rows(K, order[:, 0])
        else:
            x = start - mean
            k = kernel.block(x, D)
        x, f, converged, n_iter = self._climb(kernel, D, G, x, k)
        distance = 1 - 2 * f + energy
        distance = xp.where(distance > 0, distance, 0 * distance)
        found = Report(x, distance, converged, n_iter)
        stuck = np.flatnonzero(~converged & (n_iter < self.max_iter))
        if stuck.size:
            descent = Gradient(self.max_iter, self.tol, n_starts=self.n_starts)
            other = descent.report(kernel, D, take_rows(G, stuck))
            found = found.improve(stuck, other)
        return replace(found, X=found.X + mean)

    def _climb(
        self, kernel: Any, D: Array, G: Array, x: Array, k: Array
    ) -> tuple[Array, Array, np.ndarray, np.ndarray]:
        """The iteration from the places x, where k(x, D) = k.

        Returns where it ends, f there, whether it came to rest, and the steps.
        """
        xp = namespace_of(D)
        n = int(G.shape[0])
        spread = float(xp.mean(row_norms_squared(D))) ** 0.5
        converged, n_iter = np.zeros(n, dtype=bool), np.full(n, self.max_iter, dtype=np.intp)
        # The rows still under way: place, image of the place, f, share of the full step to try.
        rows = np.arange(n)
        f = xp.sum(G * k, axis=1)
        step = xp.ones_like(f)
        finished = []
        for iteration in range(self.max_iter):
            w = G * kernel.slope(x, D, k)
            total = xp.sum(w, axis=1)
            uphill = total > self._EPSILON * xp.sum(xp.abs(w), axis=1)
            total = xp.where(uphill, total, xp.ones_like(total))
            move = step[:, None] * ((w @ D) / total[:, None] - x)
            x_new = x + move
            k_new = kernel.block(x_new, D)
            f_new = xp.sum(G * k_new, axis=1)
            better = uphill & (f_new > f)
            x = xp.where(better[:, None], x_new, x)
            k = xp.where(better[:, None], k_new, k)
            f = xp.where(better, f_new, f)
            step = xp.where(better, xp.ones_like(step), step / 2)
            far = row_norms_squared(move) > (self.tol * spread) ** 2
            going = to_host(uphill & far)
            if not np.all(going):
                done, on = np.flatnonzero(~going), np.flatnonzero(going)
                finished.append((rows[done], take_rows(x, done), take_rows(f, done)))
                converged[rows[done]] = to_host(uphill)[done]
                n_iter[rows[done]] = iteration
                rows = rows[on]
                x, k, f, step, G = (take_rows(a, on) for a in (x, k, f, step, G))
            if rows.size == 0:
                break
        finished.append((rows, x, f))
        order = np.argsort(np.concatenate([rows for rows, _, _ in finished]))
        x = take_rows(concatenate_rows([x for _, x, _ in finished]), order)
        f = take_rows(concatenate_rows([f for _, _, f in finished]), order)
        return x, f, converged, n_iter
