"""R's kernlab, a public implementation of the kernel Hebbian algorithm, beside ours.

Needs R: ``apt-get install -y --no-install-recommends r-base-core r-cran-kernlab``.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

from benchmarks import kernlab
from kernelstream import kernels
from kernelstream.papers import KernelHebbianPCA, schedules
from kernelstream.papers.kim_2003 import epochs
from kernelstream.papers.kim_2003.gram import KernelMatrix

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(kernlab.version() is None, reason=kernlab.missing() or "kernlab is there"),
]

ETA = 0.03  # constant, as kernlab has it: shorter steps need more epochs, longer ones stay apart


def banana(n: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, n)
    return np.column_stack([x, x**2 + 0.1 * rng.normal(size=n)])


def standardised(X: np.ndarray) -> np.ndarray:
    return StandardScaler().fit_transform(X)


# Rows, γ: two components whose variances are at least a third apart, so that both come to rest
SETS: dict[str, tuple[np.ndarray, float]] = {
    "banana": (banana(60), 1.0),
    "iris": (standardised(load_iris().data)[::3], 0.1),
    "wine": (standardised(load_wine().data)[::3], 0.03),
    "digits 0 to 2": (load_digits(n_class=3).data[:60] / 16.0, 0.02),
}


def cosines(A: np.ndarray, B: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Between Σ_k a_ik φ̃(x_k) and Σ_k b_ik φ̃(x_k), for each i."""
    K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    lengths = np.sqrt(np.sum(A @ K * A, axis=1) * np.sum(B @ K * B, axis=1))
    return np.abs(np.sum(A @ K * B, axis=1)) / lengths


@pytest.mark.parametrize("name", SETS)
def test_both_come_to_rest_at_the_same_components(name: str) -> None:
    """The least cosines are 0.99993, 0.9996, 0.9995, 0.9999; kernlab's step stays, ours falls."""
    X, gamma = SETS[name]
    theirs = kernlab.kha(X, gamma, 2, epochs=200, eta=ETA)
    ours = KernelHebbianPCA(2, gamma=gamma, n_epochs=500, random_state=0).fit(X)
    assert ours.converged_
    found = cosines(ours.dual_coef_.T, theirs.coefficients, kernels.RBF(gamma=gamma)(X))
    assert found.min() >= 0.999


@pytest.mark.parametrize("name", SETS)
def test_from_the_same_start_every_step_is_the_same(name: str) -> None:
    """Five components, near ones too: nothing has come to rest, and all are the same."""
    X, gamma = SETS[name]
    theirs = kernlab.kha(X, gamma, 5, epochs=20, eta=ETA)
    data = KernelMatrix(kernels.RBF(gamma=gamma), X, n_components=5)
    state, means = epochs.given(data, theirs.start)
    for _ in range(20):
        state, _ = epochs.sample_epoch(
            data, means, state, schedules.ConstantRate(ETA), np.arange(len(X)), guard=False
        )
    start, ours, found = (
        A / np.linalg.norm(A, axis=1, keepdims=True)
        for A in (theirs.start, np.asarray(state.A), theirs.coefficients)
    )
    np.testing.assert_allclose(ours, found, atol=1e-10)
    assert np.abs(start - found).max() > 0.1  # else nothing was learned
