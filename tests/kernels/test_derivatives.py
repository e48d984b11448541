"""Gradients of kernels: against finite differences, and which kernels have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelstream import kernels
from kernelstream.kernels.derivatives import (
    gradient_of_diagonal,
    gradient_of_sum,
    is_smooth,
    require_differentiable,
    slope,
)

RBF, LINEAR = kernels.RBF(gamma=0.4), kernels.Linear()
WITH_A_CUSP = [
    kernels.Exponential(gamma=0.7),
    kernels.Matern(nu=0.5, length_scale=1.3),
    kernels.Laplacian(gamma=0.5),
]
SMOOTH = [
    RBF,
    LINEAR,
    kernels.Matern(nu=1.5, length_scale=1.3),
    kernels.Matern(nu=3.3, length_scale=1.3),
    kernels.Matern(nu=float("inf"), length_scale=1.3),
    kernels.Polynomial(degree=3, gamma=0.5, coef0=1.0),
    kernels.Sigmoid(gamma=0.2, coef0=0.5),
    kernels.Cosine(),
    RBF + LINEAR,
    2.0 * RBF,
    RBF * kernels.Polynomial(degree=2, gamma=0.3, coef0=1.0) + 0.5,
]


@pytest.mark.parametrize("kernel", SMOOTH + WITH_A_CUSP, ids=str)
@pytest.mark.parametrize("known", [False, True], ids=["alone", "with its block"])
def test_gradients_are_those_of_finite_differences(kernel: Any, known: bool) -> None:
    rng = np.random.default_rng(5)
    points, W, X = rng.normal(size=(12, 3)), rng.normal(size=(7, 12)), rng.normal(size=(7, 3))
    block = kernel.block(X, points) if known else None
    found, diagonal = gradient_of_sum(kernel, X, points, W, block), gradient_of_diagonal(kernel, X)
    h = 1e-6
    for axis in range(3):
        e = h * np.eye(3)[axis]
        up, down = kernel.block(X + e, points), kernel.block(X - e, points)
        expected = np.sum(W * (up - down), axis=1) / (2 * h)
        np.testing.assert_allclose(found[:, axis], expected, rtol=1e-5, atol=1e-6)
        expected = (kernel.diag(X + e) - kernel.diag(X - e)) / (2 * h)
        np.testing.assert_allclose(diagonal[:, axis], expected, atol=1e-6)


@pytest.mark.parametrize("kernel", SMOOTH, ids=str)
def test_kernels_that_are_smooth(kernel: Any) -> None:
    assert is_smooth(kernel)
    require_differentiable(kernel, "A method")


def a_function(x: Any, y: Any) -> float:
    return float(x @ y)


@pytest.mark.parametrize(
    "kernel",
    [*WITH_A_CUSP, RBF + WITH_A_CUSP[0], kernels.FromCallable(a_function)],
    ids=lambda kernel: type(kernel).__name__,
)
def test_kernels_with_a_cusp_are_not(kernel: Any) -> None:
    assert not is_smooth(kernel)


def test_a_row_that_is_zero_has_a_cosine_gradient_of_zero() -> None:
    found = gradient_of_sum(kernels.Cosine(), np.zeros((1, 2)), np.eye(2), np.ones((1, 2)))
    assert np.isfinite(found).all()


def test_a_kernel_without_a_gradient_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match=r"Steps needs a kernel whose gradient is known.*Ridge"):
        require_differentiable(kernels.FromCallable(a_function), "Steps")


def test_points_out_of_sight_pull_nobody() -> None:
    """Their kernel value is zero, and has no logarithm."""
    x, D = np.zeros((1, 2)), np.array([[1.0, 0.0], [1e3, 0.0], [0.0, 0.0]])
    for kernel in (kernels.Exponential(gamma=2.0), kernels.Matern(nu=0.5, length_scale=0.5)):
        found = slope(kernel, kernel.block(x, D), x, D)
        np.testing.assert_allclose(found, [[np.exp(-2.0), 0.0, 0.0]], rtol=1e-6)
