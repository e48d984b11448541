"""Steps of k-means."""

from __future__ import annotations

import numpy as np

from kernelstream import kernels, landmarks
from kernelstream.landmarks.optimized.kmeans import lloyd, nearest


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
    points = landmarks.Centroids(150).begin(kernels.RBF(gamma=1e-4), landmarks.Start(X)).span.points
    labels, _ = nearest(X, points)
    alone = [cell for cell in range(150) if np.sum(labels == cell) == 10]  # one centre each
    assert len(alone) > 50
    for cell in alone:
        np.testing.assert_allclose(points[cell], X[labels == cell].mean(axis=0), atol=1e-8)
