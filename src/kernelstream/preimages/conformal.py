"""Conformal map pre-images (Honeine and Richard 2011), closed form for any kernel."""

from __future__ import annotations

from typing import Any

from kernelstream.arrays.namespaces import Array, namespace_of, symmetric_eigen
from kernelstream.preimages.base import Preimage, Report, remaining
from kernelstream.serialization import stored
from kernelstream.serialization.part import as_number


@stored
class Conformal(Preimage):
    """Inner products with the points, as a map learned on the points gives them, then an input.

    A linear map of the feature space is learned whose inner products on the points are those of the
    inputs, ``D Dᵀ``, with a ridge of strength η on its coefficients. For ``P = Σ_k γ_k φ(d_k)`` it
    gives ``D x = (D Dᵀ − η K⁻¹) γ``, and x is the least-squares solution. There is no search and
    nothing that depends on the form of the kernel; with η = 0 the answer is ``Σ_k γ_k d_k``.

    Parameters
    ----------
    eta : float, default=0.0
        The ridge. Above zero it needs points that are far apart in feature space (those of
        ``landmarks.Distance``): on others K⁻¹ is large.

    References
    ----------
    Honeine, Richard, "A closed-form solution for the pre-image problem in kernel-based machines",
    Journal of Signal Processing Systems 65, 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import kernels, preimages
    >>> points = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]])
    >>> P = np.array([[0.5, 0.5, 0.0]])
    >>> preimages.Conformal().solve(kernels.RBF(gamma=0.1), points, P)[0]
    array([[0.5, 0.5]])
    """

    # Directions of the Gram matrix below this share of the largest are rounding.
    _EPSILON = 1e-10

    def __init__(self, eta: float = 0.0):
        self.eta = eta

    def check(self) -> None:
        """The ridge is not negative."""
        if not as_number(self.eta) >= 0:
            raise ValueError(f"eta={self.eta!r}; expected a number that is not negative.")

    def _solve(self, kernel: Any, D: Array, G: Array, start: Array | None) -> Report:
        xp = namespace_of(D)
        K = kernel.gram(D)
        products = (G @ D) @ xp.matrix_transpose(D)
        if self.eta > 0:
            lam, U = symmetric_eigen(K)
            kept = lam > self._EPSILON * lam[0]
            inverse = xp.where(kept, 1 / xp.where(kept, lam, xp.ones_like(lam)), 0 * lam)
            products = products - self.eta * ((G @ U) * inverse) @ xp.matrix_transpose(U)
        X = products @ xp.matrix_transpose(xp.linalg.pinv(D))
        return Report.without_search(X, remaining(kernel, X, D, G, xp.sum((G @ K) * G, axis=1)))
