"""Random Fourier features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, bases, kernels


@pytest.mark.parametrize(
    "kernel",
    [
        kernels.RBF(gamma=0.3),
        kernels.Laplacian(gamma=0.2),
        kernels.Exponential(gamma=0.4),
        kernels.Matern(nu=1.5, length_scale=2.0),
    ],
    ids=lambda kernel: type(kernel).__name__,
)
def test_fourier_features_approximate_the_kernel(kernel):
    X = np.random.default_rng(0).normal(size=(40, 3))
    K = kernel(X)
    for n in (200, 20_000):
        basis, squares = bases.Fourier(n), []
        for seed in range(4):
            state = basis.begin(kernel, X, None, seed)
            Z = basis.coordinates(kernel, state, X)
            np.testing.assert_allclose(np.sum(Z**2, axis=1), 1.0, rtol=1e-12)
            squares.append(np.mean((Z @ Z.T - K) ** 2))
        # A mean of n/2 cosines has the variance (1 + k(2δ) − 2k(δ)²)/n, at most 2/n. The pairs
        # share their frequencies, so the average over pairs and four seeds still varies: 2.
        assert np.mean(squares) < 2 * 2 / n


@pytest.mark.parametrize("kernel", ["linear", "poly", kernels.RBF() + kernels.Linear()])
def test_fourier_needs_a_kernel_with_a_spectrum(kernel: Any):
    """Told at once, and not when enough rows have come to decide the kernel's numbers."""
    with pytest.raises(ValueError, match="shift-invariant"):
        StreamingKernelPCA(2, kernel=kernel, basis="fourier").partial_fit(np.ones((5, 2)))
