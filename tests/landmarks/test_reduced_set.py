"""Compression to a few inputs, where rounding decides: dependent points, rows far from all."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, kernels, landmarks
from kernelstream.landmarks.base import Clock
from kernelstream.landmarks.nystroem import factorise, transition
from kernelstream.landmarks.reduced_set import _Found, compress, improve
from tests.naive import reduced_set as naive

KERNELS = [
    kernels.RBF(gamma=2000.0),
    kernels.RBF(gamma=1e-3),
    kernels.Matern(nu=1.5, length_scale=0.1),
    kernels.Polynomial(degree=3, gamma=1.0),
    kernels.Polynomial(degree=2, gamma=1.0, coef0=0.0),
    kernels.Linear(),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_points_that_depend_on_each_other_only_after_rounding(kernel: kernels.Kernel):
    """What a point adds comes out below zero there, and has no root."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(int(rng.integers(4, 25)), 1))
        X[rng.integers(len(X))] += 10.0 ** rng.uniform(0, 7 if kernel.unit_norm else 2)
        basis = landmarks.ReducedSet(int(rng.integers(1, 5)))
        model = StreamingKernelPCA(2, kernel=kernel, basis=basis, batch_size=7)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("error", "With the kernel .* rounding spoiled")
                model.partial_fit(X)
        except UserWarning:
            continue
        variances = model.explained_variance_
        assert variances.dtype == np.float64 and np.all(np.isfinite(variances))
        assert 0.0 < variances.sum() <= np.mean(kernel.diag(X)) * (1 + 1e-9)


def test_one_far_row_and_a_narrow_kernel():
    far = 9999999.600487188
    X = np.array([[0.6110614288207943], [far], [0.010328567811335955], [0.9452739095855766]])
    basis, gamma = landmarks.ReducedSet(3), 2241.3193963392387
    model = StreamingKernelPCA(2, gamma=gamma, basis=basis, batch_size=7).partial_fit(X)
    # four rows that see nothing of each other: a tetrahedron, of which three corners are held
    np.testing.assert_allclose(model.explained_variance_, [0.25, 0.25], rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kernel", [kernels.RBF(0.5), kernels.Polynomial(2, 0.5, 1.0)], ids=str)
def test_inputs_are_those_of_the_twin(kernel: kernels.Kernel, seed: int) -> None:
    rng = np.random.default_rng(seed)
    span = factorise(kernel, rng.normal(size=(9, 2)))
    Z = span.coordinates(kernel, rng.normal(size=(40, 2)))
    S = Z.T @ Z
    for n in (1, 3, 5):
        found = compress(kernel, span, S, n)
        expected = naive.compress(kernel, span.points, span.factor @ S @ span.factor.T, n)
        np.testing.assert_allclose(found.span.points, expected, atol=1e-6)
        np.testing.assert_allclose(found.energies, kernel.diag(found.span.points))
    # no scatter that is worth an input
    flat = np.zeros_like(S)
    flat[0, 0] = 1.0
    few = compress(kernel, span, flat, 9)
    held = few.span.coordinates(kernel, span.points)
    assert 1 <= few.span.rank <= 9 and held.shape == (9, few.span.rank)


def test_scatter_and_points_of_a_block() -> None:
    """Weights and forgetting are in it; what is compressed moves with the basis."""
    rng = np.random.default_rng(3)
    X, w = rng.normal(size=(12, 2)), rng.uniform(0.5, 2.0, size=12)
    kernel, basis = kernels.RBF(0.5), landmarks.ReducedSet(8)
    state = basis.begin(kernel, landmarks.Start(X))
    state, block = basis.admit(kernel, state, X[:5], w[:5], Clock(0, 0))
    np.testing.assert_allclose(state.scatter, (block.Z * w[:5, None]).T @ block.Z, atol=1e-12)
    assert basis.revise(kernel, state, Clock(0, 5)) is None  # five points, eight allowed
    before = state.scatter
    state, block = basis.admit(kernel, state, X[5:], w[5:], Clock(0, 5, decay=0.5))
    expected = (block.Z * w[5:, None]).T @ block.Z
    expected[:5, :5] += 0.5 * before
    np.testing.assert_allclose(state.scatter, expected, atol=1e-12)
    assert state.span.rank == 12
    changed = basis.revise(kernel, state, Clock(0, 12))
    assert changed is not None
    smaller, T = changed
    assert T is not None
    assert smaller.span.rank == len(smaller.span.points) == 8
    np.testing.assert_allclose(T, transition(kernel, state.span, smaller.span), atol=1e-10)
    np.testing.assert_allclose(smaller.scatter, T @ state.scatter @ T.T, atol=1e-10)
    exact = landmarks.ReducedSet(12)
    assert exact.revise(kernel, state, Clock(0, 12)) is None
    # None compresses nothing and keeps no scatter
    everything = landmarks.ReducedSet(None)
    start = everything.begin(kernel, landmarks.Start(X))
    grown, _ = everything.admit(kernel, start, X, w, Clock(0, 0))
    assert grown.span.rank == 12 and grown.scatter is start.scatter
    assert everything.revise(kernel, grown, Clock(0, 12)) is None


def test_a_search_that_stands_still_is_over() -> None:
    """One point alone is its own pre-image: the first step gains nothing, and is the last."""
    looks = []

    class Told(kernels.RBF):
        def block(self, X: Any, Y: Any) -> Any:
            looks.append(len(X))
            return super().block(X, Y)

    kernel = Told(gamma=0.5)
    point = np.array([[1.0, 2.0]])
    R = np.ones((1, 1))
    found = _Found(kernel, point, R, np.zeros((0, 0)), np.zeros((0, 1)))
    assert improve(found, point).gain > 0.0
    assert len(looks) == 2
    nothing = _Found(kernel, point, 0.0 * R, np.zeros((0, 0)), np.zeros((0, 1)))
    assert improve(nothing, point).gain == 0.0  # no vector, and no pre-image of it
