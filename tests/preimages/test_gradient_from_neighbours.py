"""Descent from the answer of `Neighbours`, as Kim et al. have it: never farther than any start."""

from __future__ import annotations

import numpy as np
import pytest

from kernelstream import kernels, preimages
from kernelstream.papers import KernelHebbianPCA


@pytest.mark.parametrize("kernel", [kernels.RBF(gamma=0.3), kernels.Matern(2.5, 1.0)], ids=str)
def test_it_is_never_farther_than_the_search_by_hand(kernel: kernels.Kernel) -> None:
    rng = np.random.default_rng(0)
    points, G = rng.normal(size=(40, 3)), rng.dirichlet(np.ones(40), size=8)
    start, before = preimages.Neighbours(6).solve(kernel, points, G)
    by_hand = preimages.Gradient(50).report(kernel, points, G, start)
    from_landmark = preimages.Gradient(50).report(kernel, points, G)
    found = preimages.Gradient(50, n_neighbours=6).report(kernel, points, G)
    np.testing.assert_array_equal(
        found.distance, np.minimum(by_hand.distance, from_landmark.distance)
    )
    same = by_hand.distance <= from_landmark.distance
    assert same.any()
    np.testing.assert_array_equal(found.X[same], by_hand.X[same])
    assert np.all(found.distance <= before + 1e-12) and found.n_iter.max() > 0


def test_never_farther_than_the_nearest_landmark() -> None:
    """Narrow kernel: distances to neighbors say nothing, and descent ends where it got to."""
    rng = np.random.default_rng(0)
    points, G = rng.uniform(size=(60, 20)), 1 / 60 + 0.05 * rng.normal(size=(15, 60))
    kernel = kernels.RBF(gamma=2.5)
    start, _ = preimages.Neighbours().solve(kernel, points, G)
    by_hand = preimages.Gradient().report(kernel, points, G, start)
    K = kernel(points)
    of_points = 1.0 - 2.0 * G @ K + np.einsum("ij,jk,ik->i", G, K, G)[:, None]
    astray = by_hand.distance > of_points.min(axis=1) + 1e-6
    found = preimages.Gradient(n_neighbours=10).report(kernel, points, G)
    assert 0 < astray.sum() < len(G)
    assert np.all(found.distance <= of_points.min(axis=1) + 1e-12)


def test_a_start_that_is_given_is_taken() -> None:
    points = np.random.default_rng(0).normal(size=(20, 2))
    G = np.full((1, 20), 1 / 20)
    method = preimages.Gradient(max_iter=0, n_neighbours=10)
    X, _ = method.solve(kernels.RBF(gamma=0.3), points, G, start=np.array([[5.0, 5.0]]))
    np.testing.assert_array_equal(X, [[5.0, 5.0]])


def test_it_needs_a_kernel_that_both_methods_know() -> None:
    with pytest.raises(ValueError, match=r"preimages\.Neighbours needs a kernel"):
        preimages.resolve(preimages.Gradient(n_neighbours=10), kernels.Cosine())


def test_the_papers_estimators_take_it() -> None:
    X = np.random.default_rng(0).normal(size=(150, 2))
    method = preimages.Gradient(n_neighbours=10)
    model = KernelHebbianPCA(2, gamma=0.3, preimage=method, random_state=0).fit(X)
    back = model.inverse_transform(model.transform(X[:5]))
    A, K = model.dual_coef_, model.kernel_(model.basis_points_)
    G = model.transform(X[:5]) @ np.linalg.pinv(A.T @ K @ A) @ A.T + model.mean_coef_
    by_hand = method.solve(model.kernel_, model.basis_points_, G)[0]
    np.testing.assert_allclose(back, by_hand, atol=1e-6)
