"""Pre-images by kernel ridge regression from scores to inputs, for any kernel."""

from __future__ import annotations

from typing import Any

from kernelstream.arrays.namespaces import Array, namespace_of, symmetric_eigen
from kernelstream.preimages.base import Preimage, Report, remaining
from kernelstream.serialization import stored
from kernelstream.serialization.part import as_number


@stored
class Ridge(Preimage):
    """Learn the map from feature space to input space by ridge regression.

    In a model the map is learned from the rows: their cross moments ``Σ w z xᵀ`` with the
    coordinates are accumulated in the same pass, one more product of m·d a row, and carried
    through every change of basis. On its own, and where a tracker keeps no scatter matrix, it is
    learned from the pairs ``φ(d_j) → d_j``:

    The map is affine in feature space, ``x = d̄ + Bᵀ (P − φ̄)`` (bars: means over the points), and
    ``B`` minimises ``Σ_j |d_j − d̄ − Bᵀ (φ(d_j) − φ̄)|² + α |B|²``. With ``K̃ = H K H``, the centred
    Gram matrix, its dual form is

        ``x = d̄ + (γ − 1/m)ᵀ K (K̃ + α I)⁻¹ (D − 1 d̄ᵀ)``.

    When the basis is the training set and ``alpha = 0``, this is the least-squares regression of
    the inputs on the scores of kernel PCA. It is the idea of scikit-learn's
    ``KernelPCA(fit_inverse_transform=True)``, which applies the kernel a second time, to the
    scores; the affine map does as well on digits (RBF, polynomial and Laplacian kernels) and has
    no second kernel to tune. Unlike ``FixedPoint`` it may leave the hull of the points.

    Parameters
    ----------
    alpha : float, default=0.01
        Strength of the ridge, in units of the mean variance ``tr(K̃)/m`` of the mapped points, so
        that it means the same for every kernel. Small values reconstruct clean data best, values
        near 1 remove more noise. 0 is least squares of minimum norm. From rows the unit is the
        total variance of the mapped rows, against a sum over all rows: with many rows little is
        shrunk, and little has to be.
    source : "rows" or "points"
        What a model learns the map from; ``"points"`` accumulates nothing.

    Notes
    -----
    One eigendecomposition of an (m, m) matrix for each call, then one product. Directions in
    which an indefinite kernel (sigmoid) has no positive energy are left out.

    References
    ----------
    Bakır, Weston, Schölkopf, "Learning to find pre-images", NIPS 2003.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import kernels, preimages
    >>> points = np.random.default_rng(0).normal(size=(40, 2))
    >>> kernel = kernels.Polynomial(degree=2, gamma=1.0, coef0=1.0)
    >>> X, distance = preimages.Ridge(alpha=0).solve(kernel, points, np.eye(40))
    >>> bool(np.allclose(X, points))
    True
    """

    # A direction below this share of the largest variance is rounding, not data.
    _EPSILON = 1e-12

    def __init__(self, alpha: float = 0.01, source: str = "rows"):
        self.alpha = alpha
        self.source = source

    def check(self) -> None:
        """The strength is not negative."""
        if not as_number(self.alpha) >= 0:
            raise ValueError(f"alpha={self.alpha!r}; expected a number that is not negative.")
        if self.source not in ("rows", "points"):
            raise ValueError(f"source={self.source!r}; expected 'rows' or 'points'.")

    def from_moments(self, covariance: Array, variances: Array, total: float, n: float) -> Array:
        """The linear map from scores to inputs, (r, d), that the moments of n rows give.

        Scores are uncorrelated, so each has its own coefficient: its covariance with the input
        over its variance and the ridge.
        """
        xp = namespace_of(variances)
        some = variances > 0
        ridge = self.alpha * total / max(n, 1.0)
        kept = xp.where(some, variances, xp.ones_like(variances))
        shrink = xp.where(some, 1 / (kept + ridge), 0 * variances)
        return xp.astype(shrink, covariance.dtype)[:, None] * covariance

    def _solve(self, kernel: Any, D: Array, G: Array, start: Array | None) -> Report:
        xp = namespace_of(D)
        K = kernel.gram(D)
        mean = xp.mean(D, axis=0)
        columns = xp.mean(K, axis=0)
        lam, U = symmetric_eigen(K - columns[None, :] - columns[:, None] + xp.mean(K))  # K̃ = H K H
        alpha = self.alpha * xp.mean(lam)
        kept = lam > self._EPSILON * xp.max(xp.abs(lam))
        # 1/(λ + α) on the kept directions, 0 on the others (whose λ is replaced by 1 meanwhile)
        shrink = xp.where(kept, 1 / (xp.where(kept, lam, xp.ones_like(lam)) + alpha), 0 * lam)
        C = (U * shrink) @ (xp.matrix_transpose(U) @ (D - mean))
        GK = G @ K
        X = mean + (GK - columns) @ C
        return Report.without_search(X, remaining(kernel, X, D, G, xp.sum(GK * G, axis=1)))
