"""Exact pre-images for the linear kernel."""

from __future__ import annotations

from typing import Any

from kernelstream import kernels
from kernelstream.arrays.namespaces import Array, namespace_of
from kernelstream.preimages.base import Preimage, Report
from kernelstream.serialization import stored


def is_linear(kernel: Any) -> bool:
    """Whether the feature space is the input space; no property of kernels tells that."""
    return isinstance(kernel, kernels.Linear)


@stored
class LinearMap(Preimage):
    """Exact pre-images for the linear kernel: ``φ(x) = x``, so ``x = Σ_k γ_k d_k``.

    With it, ``inverse_transform`` of kernel PCA is that of ordinary PCA.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import kernels, preimages
    >>> points = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> X, distance = preimages.LinearMap().solve(kernels.Linear(), points, np.array([[3.0, 0.5]]))
    >>> X
    array([[3., 1.]])
    >>> distance
    array([0.])
    """

    def check_kernel(self, kernel: Any) -> None:
        """Only the linear kernel."""
        if not is_linear(kernel):
            raise ValueError(
                f"preimages.LinearMap works with the linear kernel only and got {kernel!r}; "
                'use preimage="auto".'
            )

    def _solve(self, kernel: Any, D: Array, G: Array, start: Array | None) -> Report:
        X = G @ D
        return Report.without_search(X, namespace_of(X).zeros_like(X[:, 0]))
