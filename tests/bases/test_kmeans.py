"""k-means steps, and further looks for points."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
import scipy.sparse
import scipy.stats

from kernelstream import StreamingKernelPCA, bases
from kernelstream.bases.centroids.kmeans import lloyd, nearest


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


# --- further looks for points in fit


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_refined_points_miss_less(dtype):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(2500, 40)) * np.geomspace(4.0, 0.2, 40)).astype(dtype)

    def missed(**options):
        basis = bases.Centroids(80, **options)
        model = StreamingKernelPCA(20, gamma=0.01, basis=basis, random_state=0).fit(X)
        assert model.n_samples_seen_ == 2500 and model.basis_points_.shape == (80, 40)
        return float(model.reconstruction_error(X).mean()), model

    error, _ = missed()
    less, refined = missed(refinements=4)
    assert less < error
    assert refined.certificate_.reconstruction_error == pytest.approx(less, rel=1e-3)
    again = missed(refinements=4)[1]
    np.testing.assert_array_equal(again.basis_points_, refined.basis_points_)


def test_refinements_are_for_fit_only_and_need_something_to_gain():
    X = np.random.default_rng(0).normal(size=(900, 3))
    plain, refined = (
        StreamingKernelPCA(3, gamma=0.4, basis=bases.Centroids(12, refinements=n), random_state=0)
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
        3, gamma=0.4, basis=bases.Centroids(12, refinements=3), random_state=0
    )
    dense = model.fit(X).basis_points_
    sparse = model.fit(scipy.sparse.csr_array(X)).basis_points_
    np.testing.assert_allclose(sparse, dense, atol=1e-10)
    foreign = model.fit(array_api_strict.asarray(X)).basis_points_
    assert isinstance(foreign, type(array_api_strict.asarray(X)))
    np.testing.assert_allclose(np.asarray(foreign), dense, atol=1e-10)
