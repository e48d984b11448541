"""Gradients of kernels: against finite differences, and which kernels have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, kernels, preimages
from kernelstream.kernels import Smoothness
from kernelstream.metrics import captured_variance

RBF, LINEAR = kernels.RBF(gamma=0.4), kernels.Linear()
WITH_A_CUSP = [
    kernels.Exponential(gamma=0.7),
    kernels.Matern(nu=0.5, length_scale=1.3),
    kernels.Laplacian(gamma=0.5),
]
SMOOTH: list[Any] = [
    RBF,
    LINEAR,
    kernels.Matern(nu=1.5, length_scale=1.3),
    kernels.Matern(nu=2.5, length_scale=1.3),
    kernels.Polynomial(degree=3, gamma=0.5, coef0=1.0),
    kernels.Sigmoid(gamma=0.2, coef0=0.5),
    kernels.Cosine(),
    kernels.Normalised(kernels.Polynomial(degree=2, gamma=0.3, coef0=1.0)),
    RBF + LINEAR,
    2.0 * RBF,
    RBF * kernels.Polynomial(degree=2, gamma=0.3, coef0=1.0) + 0.5,
    kernels.On([0, 2], RBF) * kernels.On([1], LINEAR),
]
UNKNOWN = [
    kernels.FromCallable(lambda X, Y: X @ Y.T),
    kernels.Categorical(gamma=0.5),
    kernels.Normalised(kernels.Categorical(gamma=0.5)),
]
ROWS = np.random.default_rng(3).normal(size=(50, 3))
NAMED = [kind().fix(ROWS) for kind in kernels.NAMES.values()]


def kind_of(kernel: Any) -> str:
    return type(kernel).__name__


@pytest.mark.parametrize("kernel", SMOOTH + WITH_A_CUSP + NAMED, ids=kind_of)
@pytest.mark.parametrize("known", [False, True], ids=["alone", "with its block"])
def test_gradients_are_those_of_finite_differences(kernel: Any, known: bool) -> None:
    if kernel.smoothness is Smoothness.UNKNOWN:
        pytest.skip("its gradient is not known")
    rng = np.random.default_rng(5)
    points, W, X = rng.normal(size=(12, 3)), rng.normal(size=(7, 12)), rng.normal(size=(7, 3))
    block = kernel.block(X, points) if known else None
    copy = np.array(block)
    found, diagonal = kernel.gradient_of_sum(X, points, W, block), kernel.gradient_of_diagonal(X)
    assert block is None or np.array_equal(np.array(block), copy)
    h = 1e-6
    for axis in range(3):
        e = h * np.eye(3)[axis]
        up, down = kernel.block(X + e, points), kernel.block(X - e, points)
        expected = np.sum(W * (up - down), axis=1) / (2 * h)
        np.testing.assert_allclose(found[:, axis], expected, rtol=1e-5, atol=1e-6)
        expected = (kernel.diag(X + e) - kernel.diag(X - e)) / (2 * h)
        np.testing.assert_allclose(diagonal[:, axis], expected, atol=1e-6)


RADIAL: list[Any] = [
    RBF,
    *WITH_A_CUSP[:2],
    *SMOOTH[2:4],
    RBF * SMOOTH[2],
]


@pytest.mark.parametrize("kernel", RADIAL, ids=kind_of)
@pytest.mark.parametrize("known", [False, True], ids=["alone", "with its block"])
def test_slopes_are_those_of_finite_differences(kernel: Any, known: bool) -> None:
    r, h = np.linspace(0.1, 3.0, 20), 1e-6
    origin = np.zeros((1, 2))

    def at(squared: np.ndarray) -> Any:
        return kernel.block(np.column_stack([np.sqrt(squared), 0 * r]), origin)

    X = np.column_stack([r, 0 * r])
    found = kernel.slope(X, origin, kernel.block(X, origin) if known else None)
    np.testing.assert_allclose(found, (at(r**2 - h) - at(r**2 + h)) / (2 * h), rtol=1e-5)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        *((kernel, Smoothness.SMOOTH) for kernel in SMOOTH),
        *((kernel, Smoothness.CUSP) for kernel in [*WITH_A_CUSP, RBF + WITH_A_CUSP[0]]),
        *((kernel, Smoothness.UNKNOWN) for kernel in [*UNKNOWN, RBF * UNKNOWN[0]]),
    ],
    ids=lambda value: getattr(value, "name", kind_of(value)),
)
def test_what_is_known_of_gradients(kernel: Any, expected: Smoothness) -> None:
    assert kernel.smoothness is expected
    if expected is Smoothness.UNKNOWN:
        with pytest.raises(ValueError, match=r"is not known: write .*(gradient_of_sum|slope)"):
            kernel.gradient_of_sum(np.ones((2, 3)), np.ones((4, 3)), np.ones((2, 4)))
        with pytest.raises(ValueError, match=r"(?s)Gradient needs a kernel whose gradient.*Ridge"):
            preimages.resolve("gradient", kernel)


@pytest.mark.parametrize("kernel", NAMED, ids=kind_of)
def test_named_kernels_before_their_numbers_are_decided(kernel: Any) -> None:
    """What a kernel says of itself is asked for before the first rows."""
    kind = type(kernel)()
    for name in ("smoothness", "stationary", "isotropic", "invertible", "takes_means"):
        assert getattr(kind, name) == getattr(kernel, name)


def test_a_row_that_is_zero_has_a_cosine_gradient_of_zero() -> None:
    found = kernels.Cosine().gradient_of_sum(np.zeros((1, 2)), np.eye(2), np.ones((1, 2)))
    assert np.isfinite(found).all()


def test_points_out_of_sight_pull_nobody() -> None:
    """Their kernel value is zero, and has no logarithm."""
    x, D = np.zeros((1, 2)), np.array([[1.0, 0.0], [1e3, 0.0], [0.0, 0.0]])
    for kernel in (kernels.Exponential(gamma=2.0), kernels.Matern(nu=0.5, length_scale=0.5)):
        found = kernel.slope(x, D, kernel.block(x, D))
        np.testing.assert_allclose(found, [[np.exp(-2.0), 0.0, 0.0]], rtol=1e-6)


class InverseQuadratic(kernels.Euclidean):
    """A kernel of one's own: four methods, and no other module has heard of it."""

    def __init__(self, length_scale: float = 1.0) -> None:
        self.length_scale = length_scale

    @property
    def resolution(self) -> float:
        return 1.0 / self.length_scale**2

    def of_scaled_distances(self, t: Any) -> Any:
        return 1.0 / (1.0 + self.resolution * t)

    def slope(self, X: Any, D: Any, block: Any = None) -> Any:
        return self.resolution * (self.block(X, D) if block is None else block) ** 2


def test_a_kernel_of_ones_own_is_first_class() -> None:
    """Landmarks are optimized for it, pre-images use its gradient, there is a certificate."""
    X = np.random.default_rng(0).normal(size=(3000, 5)) * [2.0, 1.5, 1.0, 0.7, 0.5]
    kernel = InverseQuadratic(2.0)
    optimized = StreamingKernelPCA(10, kernel=kernel, basis=30, random_state=0).fit(X)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InverseQuadratic, "smoothness", Smoothness.UNKNOWN)
        means = StreamingKernelPCA(10, kernel=kernel, basis=30, random_state=0).fit(X)
    assert captured_variance(optimized, X[:500]) > captured_variance(means, X[:500]) + 0.01
    assert optimized.certificate_.kind != "none"
    assert isinstance(preimages.resolve("auto", kernel), preimages.FixedPoint)
    for method in ("auto", "gradient", "neighbours"):
        found = preimages.resolve(method, kernel).solve(kernel, X[:20], np.eye(20)[:5])[0]
        np.testing.assert_allclose(found, X[:5], atol=1e-3)
