"""Compression to a few inputs, where rounding decides: dependent points, rows far from all."""

from __future__ import annotations

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, bases, kernels

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
        basis = bases.ReducedSet(int(rng.integers(1, 5)))
        try:
            model = StreamingKernelPCA(2, kernel=kernel, basis=basis, batch_size=7).partial_fit(X)
        except ValueError as refused:
            assert "rounding spoiled the basis" in str(refused)  # hopeless, and it says so
            continue
        variances = model.explained_variance_
        assert variances.dtype == np.float64 and np.all(np.isfinite(variances))
        assert 0.0 < variances.sum() <= np.mean(kernel.diag(X)) * (1 + 1e-9)


def test_one_far_row_and_a_narrow_kernel():
    far = 9999999.600487188
    X = np.array([[0.6110614288207943], [far], [0.010328567811335955], [0.9452739095855766]])
    basis, gamma = bases.ReducedSet(3), 2241.3193963392387
    model = StreamingKernelPCA(2, gamma=gamma, basis=basis, batch_size=7).partial_fit(X)
    # four rows that see nothing of each other: a tetrahedron, of which three corners are held
    np.testing.assert_allclose(model.explained_variance_, [0.25, 0.25], rtol=1e-9)
