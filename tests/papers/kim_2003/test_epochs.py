"""The kernel Hebbian algorithm over a finite set: equal to the naive loop, whatever the blocks."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from kernelstream import kernels
from kernelstream.papers import schedules
from kernelstream.papers.kim_2003 import epochs
from kernelstream.papers.kim_2003.gram import KernelMatrix
from tests.naive import hebbian as naive

SCHEDULES: list[schedules.Schedule] = [
    schedules.ConstantRate(0.05),
    schedules.InverseTime(0.5, floor=0.01),
    schedules.SearchThenConverge(0.2, tau=30),
    schedules.AutomaticRate(),
    schedules.AutomaticRate(floor=0.02),
]


def rows(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    return np.stack([x, -(x**2) + 0.2 * rng.normal(size=n)], axis=1)


def effective(A: np.ndarray, center: bool) -> np.ndarray:
    """Coefficients over the raw φ: those over φ − φ̄ are fixed up to a constant only."""
    return A - A.mean(axis=1, keepdims=True) if center else A


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("center", [True, False])
@given(batch_size=st.integers(1, 50), seed=st.integers(0, 10**6))
def test_blocks_equal_the_loop(
    schedule: schedules.Schedule, center: bool, batch_size: int, seed: int
) -> None:
    X, r = rows(40, seed), 3
    kernel = kernels.RBF(gamma=2.0)
    data = KernelMatrix(kernel, X, center, batch_size=batch_size)
    start, means = epochs.begin(data, r, seed)
    steps = naive.Steps(schedule, r)
    state, A = start, start.A
    K = kernel(X)
    for epoch in range(3):
        order = np.random.default_rng(seed + epoch).permutation(len(X))
        state, _ = epochs.sample_epoch(data, means, state, schedule, order)
        A = naive.kha(A, K, order, steps, center)
    np.testing.assert_allclose(
        effective(state.A, center), effective(A, center), rtol=0, atol=1e-10 * np.abs(A).max()
    )
    np.testing.assert_allclose(state.variances, steps.variances, rtol=1e-9)


@pytest.mark.parametrize("batch_size", [1, 7, 40])
def test_weights_equal_the_loop(batch_size: int) -> None:
    X = rows(40)
    w = np.random.default_rng(1).uniform(0.5, 2, size=40)
    kernel, schedule = kernels.Polynomial(degree=2, gamma=1.0), schedules.AutomaticRate()
    data = KernelMatrix(kernel, X, True, w, batch_size=batch_size)
    start, means = epochs.begin(data, 3, 0)
    order = np.random.default_rng(0).permutation(40)
    state, _ = epochs.sample_epoch(data, means, start, schedule, order)
    A = naive.kha(start.A, kernel(X), order, naive.Steps(schedule, 3), True, w)
    np.testing.assert_allclose(state.A, A, rtol=0, atol=1e-10 * np.abs(A).max())


KEPT: list[kernels.Kernel] = [
    kernels.RBF(gamma=2.0),
    kernels.Matern(1.5, 0.7),
    kernels.Laplacian(gamma=1.0),
    kernels.Polynomial(degree=3, gamma=1.0),
    kernels.Sigmoid(gamma=0.1, coef0=0.3),  # nobody promises that it is positive semidefinite
    kernels.FromCallable(lambda X, Y: (X @ Y.T) ** 2),
]


@pytest.mark.parametrize("kernel", KEPT, ids=lambda k: type(k).__name__)
@pytest.mark.parametrize("batch_size", [1, 7, 50, 64])
def test_the_matrix_that_is_kept_is_the_kernel_matrix(
    kernel: kernels.Kernel, batch_size: int
) -> None:
    X = rows(50) + 3.0
    data = KernelMatrix(kernel, X, batch_size=batch_size)
    expected = kernel.block(X, X)
    assert data.matrix is not None
    np.testing.assert_allclose(data.matrix, expected, rtol=0, atol=1e-12 * expected.max())
    A = np.random.default_rng(0).normal(size=(3, 50))
    anew = KernelMatrix(kernel, X, batch_size=batch_size, cache_bytes=0)
    for measured in (data, anew):
        product, means = measured.measured(A)
        np.testing.assert_allclose(product, A @ expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(means.column, expected.mean(axis=0), rtol=1e-12)


def test_an_epoch_leaves_the_coefficients_it_was_given() -> None:
    data = KernelMatrix(kernels.RBF(gamma=2.0), rows(40), batch_size=9)
    start, means = epochs.begin(data, 3, 0)
    A, variances = start.A.copy(), start.variances.copy()
    epochs.sample_epoch(data, means, start, schedules.ConstantRate(0.1), np.arange(40))
    np.testing.assert_array_equal(start.A, A)
    np.testing.assert_array_equal(start.variances, variances)


@pytest.mark.parametrize("cache_bytes", [0, 5000, 2**30])
@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_matrix])
def test_cache_and_sparse_rows_change_nothing(cache_bytes: int, make: Any) -> None:
    X = rows(50)
    kernel, schedule = kernels.RBF(gamma=2.0), schedules.AutomaticRate()
    expected = None
    for size in (50, 7):
        data = KernelMatrix(kernel, make(X), batch_size=size, cache_bytes=cache_bytes)
        assert (data.matrix is None) == (cache_bytes == 0)
        start, means = epochs.begin(data, 2, 0)
        A = epochs.sample_epoch(data, means, start, schedule, np.arange(50))[0].A
        expected = A if expected is None else expected
        np.testing.assert_allclose(A, expected, rtol=0, atol=1e-11)


def test_single_precision_keeps_double_coefficients() -> None:
    X = rows(200).astype(np.float32)
    kernel, schedule = kernels.RBF(gamma=2.0), schedules.AutomaticRate()
    found = []
    for rows_ in (X, X.astype(np.float64)):
        data = KernelMatrix(kernel, rows_)
        start, means = epochs.begin(data, 3, 0)
        assert data.block(np.array([3])).dtype == rows_.dtype
        assert start.A.dtype == np.float64
        found.append(epochs.sample_epoch(data, means, start, schedule, np.arange(200))[0].A)
    np.testing.assert_allclose(found[0], found[1], atol=1e-3 * np.abs(found[1]).max())


def test_start_is_orthonormal_for_every_scale_of_the_kernel() -> None:
    X = rows(60)
    for scale in (1e-6, 1.0, 1e6):
        kernel = kernels.Constant(scale) * kernels.RBF(gamma=2.0)
        data = KernelMatrix(kernel, X)
        start, means = epochs.begin(data, 4, 0)
        inner = means.centred(start.A, data.products(start.A)) @ start.A.T
        np.testing.assert_allclose(inner, np.eye(4), atol=1e-9)


def test_automatic_steps_do_not_see_the_scale_of_the_kernel() -> None:
    X, order = rows(60), np.arange(60)
    found = []
    for scale in (1.0, 100.0):
        data = KernelMatrix(kernels.Constant(scale) * kernels.RBF(gamma=2.0), X)
        start, means = epochs.begin(data, 3, 0)
        state, _ = epochs.sample_epoch(data, means, start, schedules.AutomaticRate(), order)
        found.append(state.A * np.sqrt(scale))
    np.testing.assert_allclose(found[0], found[1], atol=1e-10 * np.abs(found[0]).max())


def test_watched_change_is_the_change_in_feature_space() -> None:
    X, kernel = rows(40), kernels.RBF(gamma=2.0)
    data = KernelMatrix(kernel, X, batch_size=9)
    start, means = epochs.begin(data, 3, 0)
    watched = np.random.default_rng(0).normal(size=(3, 40))
    H = np.eye(40) - 1 / 40
    exact = np.diag(watched @ H @ kernel(X) @ H @ watched.T)
    order = np.random.default_rng(1).permutation(40)
    _, found = epochs.sample_epoch(data, means, start, schedules.AutomaticRate(), order, watched)
    assert found is not None
    np.testing.assert_allclose(found, exact, rtol=1e-9)


def test_learning_stops_when_the_change_is_smaller_than_tol() -> None:
    data = KernelMatrix(kernels.RBF(gamma=2.0), rows(100))
    start, means = epochs.begin(data, 2, 0)
    schedule = schedules.AutomaticRate()
    state, n_epochs, found = epochs.learn(data, start, means, schedule, 200, 1e-5, 0)
    assert found.converged and 1 < n_epochs < 200
    _, few, early = epochs.learn(data, start, means, schedule, 3, 1e-5, 0)
    assert few == 3 and early.residuals.max() > found.residuals.max()
    longer, more, _ = epochs.learn(data, start, means, schedule, 200, 1e-7, 0)
    assert more > n_epochs
    change = longer.A - state.A
    assert np.max(np.sum(means.centred(change, data.products(change)) * change, axis=1)) < 1e-3


def test_memory_is_linear_in_the_rows() -> None:
    """No array of size l × l: with 4,000 rows it would have 128 MB."""
    X = rows(4000)
    tracemalloc.start()
    data = KernelMatrix(kernels.RBF(gamma=2.0), X, batch_size=64, cache_bytes=0)
    start, means = epochs.begin(data, 3, 0)
    state, *_ = epochs.learn(data, start, means, schedules.AutomaticRate(), 1, 0.0, 0)
    epochs.solution(data, means, state)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20e6


def test_a_step_that_diverges_is_shortened_and_said() -> None:
    data = KernelMatrix(kernels.RBF(gamma=2.0), rows(50))
    start, means = epochs.begin(data, 2, 0)
    with pytest.warns(RuntimeWarning, match="might diverge"):
        state, *_ = epochs.learn(data, start, means, schedules.ConstantRate(50.0), 2, 1e-6, 0)
    assert np.all(np.isfinite(state.A)) and state.n_shortened > 0


def test_another_array_namespace_gives_the_same() -> None:
    xp = pytest.importorskip("array_api_strict")
    X, found = rows(40), []
    for data_rows in (X, xp.asarray(X)):
        data = KernelMatrix(kernels.RBF(gamma=2.0), data_rows, batch_size=9)
        start, means = epochs.begin(data, 3, 0)
        state, *_ = epochs.learn(data, start, means, schedules.AutomaticRate(), 7, 0.0, 0)
        found.append(epochs.solution(data, means, state))
    assert type(found[1].V) is type(xp.asarray(X))
    factor = np.asarray(found[1].span.factor)
    np.testing.assert_allclose(
        factor @ np.asarray(found[1].V), found[0].span.factor @ found[0].V, atol=1e-9
    )
    np.testing.assert_allclose(found[1].variances, found[0].variances, rtol=1e-9)


def test_part_of_the_matrix_is_kept() -> None:
    """``cache_bytes`` are bytes: so many rows are never computed again, and no others kept."""
    X = rows(60)
    data = KernelMatrix(kernels.RBF(gamma=2.0), X, batch_size=16, cache_bytes=20 * 60 * 8 + 7)
    assert data.n_kept == 20
    assert data.matrix is not None and data.matrix.nbytes == 20 * 60 * 8
    J = np.random.default_rng(0).permutation(60)
    np.testing.assert_allclose(data.block(J), kernels.RBF(gamma=2.0)(X)[J], atol=1e-14)
    A = np.random.default_rng(1).normal(size=(3, 60))
    np.testing.assert_allclose(data.products(A), A @ kernels.RBF(gamma=2.0)(X), atol=1e-12)


def test_residuals_are_those_of_the_definition() -> None:
    X, kernel = rows(50), kernels.RBF(gamma=2.0)
    data = KernelMatrix(kernel, X)
    start, means = epochs.begin(data, 3, 0)
    for ritz in (True, False):
        found = epochs.solution(data, means, start, ritz)
        H = np.eye(50) - 1 / 50
        K = H @ kernel(X) @ H
        A = H @ np.asarray(found.span.factor @ found.V)
        A = A / np.sqrt(np.einsum("ki,ki->i", A, K @ A))
        lam = np.einsum("ki,ki->i", K @ A, K @ A) / 50
        left = K @ A / 50 - A * lam  # coefficients of Cv − λv
        lengths = np.sqrt(np.einsum("ki,ki->i", left, K @ left))
        np.testing.assert_allclose(found.residuals, lengths / lam, atol=1e-7)
        np.testing.assert_allclose(found.variances, lam, rtol=1e-9)


def test_the_finish_is_the_best_in_the_span_of_w_and_its_image() -> None:
    X, kernel = rows(50), kernels.RBF(gamma=2.0)
    data = KernelMatrix(kernel, X)
    start, means = epochs.begin(data, 3, 0)
    H = np.eye(50) - 1 / 50
    K = H @ kernel(X) @ H
    both = np.linalg.qr(scipy.linalg.sqrtm(K).real @ np.hstack([start.A.T, K @ start.A.T]))[0]
    best = np.linalg.eigvalsh(both.T @ K @ both / 50)[::-1][:3]
    np.testing.assert_allclose(epochs.solution(data, means, start).variances, best, rtol=1e-6)
