"""The papers' chain: never farther than its start, and the chain that one would write by hand."""

from __future__ import annotations

import numpy as np
import pytest

from kernelstream import kernels, preimages
from kernelstream.papers import KernelHebbianPCA, OnlineKernelPCA


@pytest.mark.parametrize(
    "kernel",
    [kernels.RBF(gamma=0.3), kernels.Matern(2.5, 1.0), kernels.Polynomial(3, 0.5, 1.0)],
    ids=str,
)
def test_it_is_the_chain_by_hand(kernel: kernels.Kernel) -> None:
    rng = np.random.default_rng(0)
    points, G = rng.normal(size=(40, 3)), rng.dirichlet(np.ones(40), size=8)
    start, before = preimages.Neighbours(6).solve(kernel, points, G)
    by_hand = preimages.Gradient(50).report(kernel, points, G, start)
    found = preimages.NeighboursThenGradient(6, 50).report(kernel, points, G)
    np.testing.assert_array_equal(found.X, by_hand.X)
    assert np.all(found.distance <= before + 1e-12) and found.n_iter.max() > 0


def test_never_farther_than_the_nearest_point() -> None:
    """Narrow kernel: distances to neighbours say nothing, and descent ends where it got to."""
    rng = np.random.default_rng(0)
    points, G = rng.uniform(size=(60, 20)), 1 / 60 + 0.05 * rng.normal(size=(15, 60))
    kernel = kernels.RBF(gamma=2.5)
    start, _ = preimages.Neighbours().solve(kernel, points, G)
    by_hand = preimages.Gradient().report(kernel, points, G, start)
    K = kernel(points)
    of_points = 1.0 - 2.0 * G @ K + np.einsum("ij,jk,ik->i", G, K, G)[:, None]
    astray = by_hand.distance > of_points.min(axis=1) + 1e-6
    found = preimages.NeighboursThenGradient().report(kernel, points, G)
    assert 0 < astray.sum() < len(G)
    assert np.all(found.distance <= of_points.min(axis=1))
    np.testing.assert_array_equal(found.X[~astray], by_hand.X[~astray])


def test_a_start_that_is_given_is_taken() -> None:
    points = np.random.default_rng(0).normal(size=(20, 2))
    G = np.full((1, 20), 1 / 20)
    method = preimages.NeighboursThenGradient(max_iter=0)
    X, _ = method.solve(kernels.RBF(gamma=0.3), points, G, start=np.array([[5.0, 5.0]]))
    np.testing.assert_array_equal(X, [[5.0, 5.0]])


def test_what_one_part_refuses_the_chain_refuses() -> None:
    for bad in ({"n_neighbours": 0}, {"max_iter": -1}, {"tol": -1.0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            preimages.NeighboursThenGradient(**bad).check()
    with pytest.raises(ValueError, match=r"preimages\.Neighbours needs a kernel"):
        preimages.resolve("neighbours_then_gradient", kernels.Cosine())


def test_the_papers_estimators_take_it_by_name() -> None:
    X = np.random.default_rng(0).normal(size=(150, 2))
    for model in (
        KernelHebbianPCA(2, gamma=0.3, preimage="neighbours_then_gradient", random_state=0),
        OnlineKernelPCA(2, gamma=0.3, preimage="conformal"),
        OnlineKernelPCA(2, gamma=0.3, preimage=preimages.Gradient(1, step=0.1, non_negative=True)),
    ):
        back = model.fit(X).inverse_transform(model.transform(X[:5]))
        by_hand = preimages.resolve(model.preimage, model.kernel_).solve(
            model.kernel_,
            model.basis_points_,
            (
                model.transform(X[:5])
                @ np.linalg.pinv(
                    model.dual_coef_.T @ model.kernel_(model.basis_points_) @ model.dual_coef_
                )
            )
            @ model.dual_coef_.T
            + model.mean_coef_,
        )[0]
        np.testing.assert_allclose(back, by_hand, atol=1e-6)
