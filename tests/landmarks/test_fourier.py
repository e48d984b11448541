"""Random Fourier features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, kernels, landmarks


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
        basis, squares = landmarks.Fourier(n), []
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


def test_what_a_number_of_features_may_be() -> None:
    good: list[Any] = [2, 512, np.int64(4)]
    for fine in good:
        landmarks.Fourier(fine).check()
    wrong: list[Any] = [0, 1, 3, -2, True, 2.0, "4", None]
    for bad in wrong:
        with pytest.raises(ValueError, match="Fourier: n_features must be an even integer, got"):
            landmarks.Fourier(bad).check()
    assert landmarks.Fourier(6).size == 6


def test_features_are_cosines_and_sines_of_the_drawn_frequencies() -> None:
    kernel, basis = kernels.RBF(0.5), landmarks.Fourier(6)
    X = np.random.default_rng(0).normal(size=(4, 2))
    state = basis.begin(kernel, X, None, 3)
    assert state.frequencies.shape == (3, 2) and basis.rank(state) == 6
    phase = X @ state.frequencies.T
    expected = np.hstack([np.cos(phase), np.sin(phase)]) / np.sqrt(3)
    block = basis.express(kernel, state, X)
    np.testing.assert_allclose(block.Z, expected)
    np.testing.assert_array_equal(block.energy, np.ones(4))
    np.testing.assert_array_equal(block.residual, np.zeros(4))
    single = basis.begin(kernel, X.astype("f4"), None, 3)
    assert single.frequencies.dtype == np.float32
    again = basis.begin(kernel, X[:1], None, 3)
    merged, one, two = basis.merge(kernel, state, again, 0)
    assert merged is state and one is None and two is None
    with pytest.raises(ValueError, match="Models with different random features cannot be merged"):
        basis.merge(kernel, state, basis.begin(kernel, X, None, 4), 0)
