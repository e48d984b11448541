"""k-means steps, and the passes in which points are refined."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
import scipy.sparse
import scipy.stats

from kernelstream import StreamingKernelPCA, bases
from kernelstream.bases.centroids.kmeans import lloyd, lloyd_pass, nearest
from tests.naive import chain as naive


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


# --- centroids that are refined in further passes


def in_blocks(X, weights, size):
    for start in range(0, len(X), size):
        rows = slice(start, start + size)
        yield X[rows], None if weights is None else weights[rows]


@pytest.mark.parametrize("weighted", [False, True])
def test_a_refinement_is_a_lloyd_step_over_all_rows(weighted):
    rng = np.random.default_rng(1)
    X, points = rng.normal(size=(300, 3)), rng.normal(size=(7, 3))
    points[3] = 50.0  # nobody's nearest
    weights = rng.integers(1, 4, size=300).astype(float) if weighted else None
    found, mass = lloyd_pass(points, in_blocks(X, weights, 64), divide=False)
    expected, masses = naive.lloyd_step(X, weights, points)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(mass, masses)
    assert np.array_equal(found[3], points[3]) and mass[3] == 0.0


def test_a_useless_point_divides_the_largest_cell_and_a_rare_far_one_stays():
    rng = np.random.default_rng(2)
    large, small = rng.normal(size=(800, 2)), rng.normal((12.0, 0.0), size=(200, 2))
    far, odd = np.array([[300.0, 0.0]]), np.array([[12.5, 4.5]])
    X = np.concatenate([large, small, far, odd])
    points = np.concatenate([[[0.0, 0.0], [12.0, 0.0]], far, odd])
    found, _ = lloyd_pass(points, in_blocks(X, None, 100), divide=True)
    np.testing.assert_array_equal(found[2], far[0])
    assert np.linalg.norm(found[3] - large.mean(axis=0)) < 0.5
    for _ in range(3):
        found, mass = lloyd_pass(found, in_blocks(X, None, 100), divide=False)
    assert mass[0] + mass[3] == 800 and min(mass[0], mass[3]) > 200


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_refined_points_miss_less(dtype):
    """Noise in many dimensions: points of single rows win no others, and are moved."""
    rng = np.random.default_rng(0)
    clean = rng.normal(size=(40, 200))[rng.integers(40, size=2500)]
    X = (clean + 1.5 * rng.normal(size=clean.shape)).astype(dtype)

    def missed(**options):
        basis = bases.Centroids(80, **options)
        model = StreamingKernelPCA(20, gamma=0.001, basis=basis, random_state=0).fit(X)
        assert model.n_samples_seen_ == 2500 and model.basis_points_.shape == (80, 200)
        _, squared = nearest(X, model.basis_points_)
        return squared.mean(), float(model.reconstruction_error(X).mean()), model

    distance, error, _ = missed()
    closer, less, refined = missed(refinements=4)
    assert closer < 0.99 * distance and less < error
    assert refined.certificate_.reconstruction_error == pytest.approx(less, rel=1e-3)
    again = missed(refinements=4)[2]
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
