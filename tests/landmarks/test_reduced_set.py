"""Compression to a few inputs, where rounding decides: dependent points, rows far from all."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, kernels, landmarks
from kernelstream.landmarks.base import Clock
from kernelstream.landmarks.nystroem import transition

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
    everything = landmarks.ReducedSet(None)
    grown, _ = everything.admit(
        kernel, everything.begin(kernel, landmarks.Start(X)), X, w, Clock(0, 0)
    )
    assert grown.span.rank == 12 and everything.revise(kernel, grown, Clock(0, 12)) is None
