"""Landmarks sampled by randomly pivoted Cholesky."""

from __future__ import annotations

from typing import Any

import array_api_strict
import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_digits

from kernelstream import StreamingKernelPCA, kernels, landmarks, metrics
from kernelstream.arrays.draws import generator
from kernelstream.landmarks.pivoted_cholesky import draw_pivots
from tests import samples
from tests.naive import pivoted_cholesky as naive

RBF = kernels.RBF(gamma=0.5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "kernel", [RBF, kernels.Laplacian(0.5), kernels.Polynomial(2, 1.0, 1.0)], ids=str
)
def test_pivots_are_those_of_the_paper(kernel: Any, weighted: bool) -> None:
    X = samples.rows(300, 3)
    w = np.random.default_rng(1).uniform(0.2, 3.0, size=300) if weighted else None
    chosen = draw_pivots(kernel, X, 25, np.random.default_rng(2), w)
    draws = np.random.default_rng(2).random(25)
    expected = naive.pivots(kernel(X), 25, draws, np.ones(300) if w is None else w)
    np.testing.assert_array_equal(chosen, expected)


def test_first_pivots_are_drawn_by_weight_and_squared_norm() -> None:
    X, w = np.array([[1.0], [2.0], [3.0]]), np.array([4.0, 1.0, 0.0])
    first = [
        int(draw_pivots(kernels.Linear(), X, 1, np.random.default_rng(s), w)[0])
        for s in range(2000)
    ]
    # 4 · 1², 1 · 2², 0 · 3²; the standard error of a half is 0.011
    np.testing.assert_allclose(np.bincount(first, minlength=3) / 2000, [0.5, 0.5, 0.0], atol=0.04)


def test_no_more_landmarks_than_directions() -> None:
    X = samples.rows(200, 3)
    assert len(draw_pivots(kernels.Linear(), X, 50, np.random.default_rng(0))) == 3
    far = np.concatenate([np.repeat(X[:4], 50, axis=0), X[4:8]])
    chosen = draw_pivots(RBF, far, 20, np.random.default_rng(0))
    assert len(chosen) == 8 and len(np.unique(far[chosen], axis=0)) == 8
    np.testing.assert_array_equal(
        draw_pivots(kernels.Linear(), np.zeros((30, 2)), 5, np.random.default_rng(0)), [0]
    )


def test_landmarks_are_rows_of_the_start_drawn_by_pivots() -> None:
    X = samples.rows(900, 3)
    w = np.linspace(0.5, 2.0, 900)
    state = landmarks.PivotedCholesky(12).begin(RBF, landmarks.Start(X[:500], w[:500], seed=7))
    chosen = draw_pivots(RBF, X[:500], 12, generator(7, "landmarks"), w[:500])
    np.testing.assert_array_equal(state.span.points, X[chosen])
    few = landmarks.PivotedCholesky(12).begin(RBF, landmarks.Start(np.repeat(X[:5], 20, axis=0)))
    np.testing.assert_array_equal(few.span.points, X[:5])


@pytest.mark.parametrize(("m", "n"), [(5, 500), (50, 500), (51, 510)])
def test_rows_of_the_start(m: int, n: int) -> None:
    assert landmarks.PivotedCholesky(m).start_rows() == n


# A function may not be positive semidefinite, so the strategy checks some of the rows.
@pytest.mark.parametrize("kernel", [RBF, lambda X, Y: (X @ Y.T) ** 2], ids=["rbf", "function"])
def test_sparse_and_foreign_rows_have_the_landmarks_of_dense_rows(kernel: Any) -> None:
    X = np.where(np.abs(samples.rows(700, 6)) > 1.0, samples.rows(700, 6), 0.0)
    basis = landmarks.PivotedCholesky(15)
    model = StreamingKernelPCA(2, kernel=kernel, basis=basis, random_state=0)
    dense = model.fit(X).basis_points_
    sparse = model.fit(scipy.sparse.csr_array(X)).basis_points_
    np.testing.assert_array_equal(sparse, dense)
    foreign = model.fit(array_api_strict.asarray(X)).basis_points_
    np.testing.assert_array_equal(np.asarray(foreign), dense)


def test_pivots_capture_more_than_a_uniform_sample() -> None:
    """Rows of two kinds, one of them rare: a uniform sample spends its landmarks on the other."""
    X = load_digits().data / 16.0
    X = np.concatenate([0.05 * X, X[:60]])

    def captured(strategy: Any) -> float:
        found = [
            metrics.captured_variance(
                StreamingKernelPCA(10, gamma=0.05, basis=strategy, random_state=seed).fit(X), X
            )
            for seed in range(3)
        ]
        return float(np.mean(found))

    assert captured(landmarks.PivotedCholesky(40)) > captured(landmarks.Landmarks(40)) + 0.1


def test_values_that_are_not_finite_raise() -> None:
    X = 1e200 * samples.rows(600, 3)
    with pytest.raises(ValueError, match=r"[Ss]cale"):
        StreamingKernelPCA(2, kernel=kernels.Polynomial(3, 1.0), basis="pivoted_cholesky").fit(X)
