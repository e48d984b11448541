"""k-means steps, and further looks for points."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
import scipy.sparse
import scipy.stats

from kernelstream import StreamingKernelPCA, kernels, landmarks
from kernelstream.landmarks.optimized.kmeans import lloyd, means_of_cells, nearest


def test_lloyd_steps_reduce_the_error_and_fill_empty_cells():
    rng = np.random.default_rng(4)
    X, w = rng.normal(size=(300, 2)), rng.uniform(0.5, 2.0, size=300)
    points = np.concatenate([X[:5], np.full((2, 2), 99.0)])  # two cells that nobody is near
    errors = []
    for steps in range(5):
        found = lloyd(X, w, points, steps, np.random.default_rng(0))
        errors.append(float(w @ nearest(X, found)[1]))
    assert np.all(np.diff(errors) <= 1e-9)
    assert errors[-1] < 0.8 * errors[0]
    found = lloyd(X, w, points, 3, np.random.default_rng(0))
    assert np.abs(found).max() < 10  # the empty cells were given rows
    few = lloyd(np.zeros((5, 2)), np.ones(5), np.zeros((3, 2)), 2, np.random.default_rng(0))
    assert len(few) == 1  # one different row: one cell


def test_the_first_points_of_wide_rows_are_means_of_whole_rows():
    """Not of what a hundred directions show of them: a classifier of faces missed the rest."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(150, 300)) * 10
    X = centres[np.arange(1500) % 150] + rng.normal(size=(1500, 300))
    points = landmarks.Centroids(150).begin(kernels.RBF(gamma=1e-4), X, None, 0).span.points
    labels, _ = nearest(X, points)
    alone = [cell for cell in range(150) if np.sum(labels == cell) == 10]  # one centre each
    assert len(alone) > 50
    for cell in alone:
        np.testing.assert_allclose(points[cell], X[labels == cell].mean(axis=0), atol=1e-8)


# --- passes of fit that move points to the means of all rows


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_refined_points_are_means_of_all_rows_near_them(dtype, weighted):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(5, 6))[rng.integers(5, size=9000)] * 5).astype(dtype)
    X += rng.normal(size=X.shape).astype(dtype)
    w = rng.uniform(0.5, 2.0, size=len(X)) if weighted else None

    def points(n):
        basis = landmarks.Centroids(20, refinements=n)
        model = StreamingKernelPCA(4, gamma=0.02, basis=basis, random_state=0)
        return model.fit(X, sample_weight=w).basis_points_

    once, twice = points(1), points(2)
    labels, _ = nearest(X, once)
    for cell in range(20):
        rows = labels == cell
        mean = np.average(X[rows].astype(float), axis=0, weights=None if w is None else w[rows])
        np.testing.assert_allclose(twice[cell], mean, rtol=1e-4, atol=1e-4)
    given = np.ones(len(X)) if w is None else w
    errors = [float(given @ nearest(X, points(n))[1]) for n in (1, 2, 8)]
    assert errors[0] > errors[1] > errors[2]


def test_a_point_that_no_row_is_near_to_stays():
    X = np.array([[0.0], [1.0], [9.0], [11.0]])
    found = means_of_cells(
        lambda: [(X[:2], None), (X[2:], None)], np.array([[0.0], [10.0], [99.0]]), 2
    )
    np.testing.assert_array_equal(found, [[0.5], [10.0], [99.0]])


def test_means_of_noisy_rows_denoise():
    """What points that capture more of the noisy rows do not."""
    rng = np.random.default_rng(1)
    clean = rng.normal(size=(8, 30))[rng.integers(8, size=6000)] * 2
    noisy = clean + rng.normal(size=clean.shape)

    def error(n):
        basis = landmarks.Centroids(40, refinements=n)
        model = StreamingKernelPCA(
            15, gamma=0.005, basis=basis, random_state=0, preimage="fixed_point"
        )
        return float(
            np.mean((model.fit(noisy).inverse_transform(model.transform(noisy)) - clean) ** 2)
        )

    assert error(5) < 0.9 * error(0)


def test_refinements_are_for_fit_only_and_need_something_to_gain():
    X = np.random.default_rng(0).normal(size=(900, 3))
    plain, refined = (
        StreamingKernelPCA(
            3, gamma=0.4, basis=landmarks.Centroids(12, refinements=n), random_state=0
        )
        for n in (0, 3)
    )
    np.testing.assert_array_equal(
        plain.partial_fit(X).basis_points_, refined.partial_fit(X).basis_points_
    )
    few = np.repeat(X[:5], 200, axis=0)  # the points are the rows: nothing to gain
    np.testing.assert_array_equal(plain.fit(few).basis_points_, refined.fit(few).basis_points_)


def test_refined_points_of_sparse_and_foreign_rows_are_those_of_dense_rows():
    X = np.random.default_rng(0).normal(size=(900, 6))
    X[np.abs(X) < 1.0] = 0.0
    model = StreamingKernelPCA(
        3, gamma=0.4, basis=landmarks.Centroids(12, refinements=3), random_state=0
    )
    dense = model.fit(X).basis_points_
    sparse = model.fit(scipy.sparse.csr_array(X)).basis_points_
    np.testing.assert_allclose(sparse, dense, atol=1e-10)
    foreign = model.fit(array_api_strict.asarray(X)).basis_points_
    assert isinstance(foreign, type(array_api_strict.asarray(X)))
    np.testing.assert_allclose(np.asarray(foreign), dense, atol=1e-10)
