"""Incremental SVD and reduced sets: against Chin and Suter's equations, Covariance and batch."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import KernelPCA

from kernelstream import StreamingKernelPCA, kernels, landmarks, trackers
from kernelstream.landmarks.nystroem import transition
from kernelstream.landmarks.reduced_set import compress
from kernelstream.papers import IncrementalKernelPCA
from tests.naive import papers as naive_papers


def parabola(n: int, seed: int = 0) -> np.ndarray:
    """The paper's synthetic problem."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=n)
    return np.stack([x, x**2 + 0.2 * rng.normal(size=n)], axis=1)


def align(ours: np.ndarray, other: np.ndarray) -> np.ndarray:
    return other * np.sign(np.sum(ours * other, axis=0))


@pytest.mark.parametrize("block", [1, 7, 30, 200])
@pytest.mark.parametrize(
    ("kernel", "name", "options"),
    [
        (kernels.RBF(0.5), "rbf", dict(gamma=0.5)),
        (kernels.Polynomial(2, 1.0, 1.0), "poly", dict(gamma=1.0, degree=2, coef0=1.0)),
        (kernels.Linear(), "linear", {}),
    ],
    ids=["rbf", "poly", "linear"],
)
def test_equals_batch(
    kernel: kernels.Kernel, name: str, options: dict[str, Any], block: int
) -> None:
    X = np.random.default_rng(0).normal(size=(120, 3)) + 1.0
    model = IncrementalKernelPCA(kernel=kernel, batch_size=block).fit(X)
    batch = KernelPCA(kernel=name, **options).fit(X)
    r = min(model.n_components_, 8)
    largest = batch.eigenvalues_[0]
    np.testing.assert_allclose(
        model.eigenvalues_[:r], batch.eigenvalues_[:r], rtol=0, atol=1e-8 * largest
    )
    query = np.random.default_rng(1).normal(size=(20, 3))
    ours, exact = model.transform(query)[:, :r], batch.transform(query)[:, :r]
    np.testing.assert_allclose(ours, align(ours, exact), rtol=0, atol=1e-8 * np.sqrt(largest))


@pytest.mark.parametrize("r", [1, 3, 12])
@pytest.mark.parametrize("block", [10, 30, 64])
def test_truncated_equals_the_papers_equations(r: int, block: int) -> None:
    # A kernel so narrow that no row is left out as dependent
    X, kernel = np.random.default_rng(0).normal(size=(200, 3)), kernels.RBF(0.7)
    r = min(r, block - 1)
    model = IncrementalKernelPCA(r, kernel=kernel, batch_size=block).fit(X)
    assert len(model.basis_points_) == 200
    alpha, values, v, _ = naive_papers.chin_suter(kernel, X, r, block)
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-10)
    K = kernel(X, X)
    twin = K @ alpha - v @ K @ alpha
    ours = model.transform(X)
    np.testing.assert_allclose(ours, align(ours, twin), rtol=0, atol=1e-9)


def test_truncation_is_not_batch() -> None:
    """What is cut off at early blocks is lost: the twin above is the only truth there is."""
    X, kernel = parabola(200), kernels.RBF(20.0)
    model = IncrementalKernelPCA(2, kernel=kernel, batch_size=10).fit(X)
    batch = KernelPCA(2, kernel="rbf", gamma=20.0).fit(X)
    assert np.all(model.eigenvalues_ < 0.999 * batch.eigenvalues_)


@given(seed=st.integers(0, 1000), batch=st.integers(1, 60), weighted=st.booleans())
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("forgetting", [1.0, 0.99])
@pytest.mark.parametrize(
    "basis",
    [landmarks.Landmarks(parabola(6, 99)), landmarks.Distance(0.1)],
    ids=["fixed", "growing"],
)
def test_exact_equals_covariance(
    basis: landmarks.LandmarkStrategy,
    forgetting: float,
    center: bool,
    seed: int,
    batch: int,
    weighted: bool,
) -> None:
    X = parabola(150, seed)
    weights = np.random.default_rng(seed).uniform(0.1, 3.0, size=150) if weighted else None

    def fitted(tracker: trackers.Tracker) -> StreamingKernelPCA:
        model = StreamingKernelPCA(
            gamma=2.0, basis=basis, tracker=tracker, center=center, batch_size=batch
        )
        return model.partial_fit(X, sample_weight=weights)

    svd, exact = (
        fitted(trackers.IncrementalSVD(forgetting)),
        fitted(trackers.Covariance(forgetting)),
    )
    r = min(svd.n_components_, exact.n_components_)
    largest = exact.explained_variance_[0]
    np.testing.assert_allclose(
        svd.explained_variance_[:r], exact.explained_variance_[:r], rtol=0, atol=1e-10 * largest
    )
    np.testing.assert_allclose(svd.mean_coef_, exact.mean_coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        svd.reconstruction_error(X), exact.reconstruction_error(X), atol=1e-8
    )


@pytest.mark.parametrize("center", [True, False])
def test_exact_equals_covariance_while_the_centroids_move(center: bool) -> None:
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(3000, 2)), rng.normal(size=(2000, 2)) + 5.0])
    models = [
        StreamingKernelPCA(
            gamma=0.5, basis=12, tracker=tracker, center=center, random_state=0
        ).partial_fit(X)
        for tracker in ("incremental_svd", "covariance")
    ]
    np.testing.assert_allclose(
        models[0].explained_variance_, models[1].explained_variance_, rtol=1e-8
    )


def test_share_of_the_variance() -> None:
    X = parabola(300)
    model = IncrementalKernelPCA(0.9, gamma=2.0).fit(X)
    ratio = model.explained_variance_ratio_
    assert ratio.sum() >= 0.9 > ratio[:-1].sum()


def test_merged_factors_are_those_of_all_rows() -> None:
    X, points = parabola(200), parabola(8, 5)
    whole, a, b = (
        StreamingKernelPCA(
            gamma=2.0, basis=landmarks.Landmarks(points), tracker="incremental_svd"
        ).partial_fit(rows)
        for rows in (X, X[:70], X[70:])
    )
    both = a.merge(b)
    np.testing.assert_allclose(both.explained_variance_, whole.explained_variance_, rtol=1e-9)


def test_rebase_keeps_the_scatter_and_tells_the_loss() -> None:
    rng = np.random.default_rng(0)
    tracker = trackers.IncrementalSVD()
    state = tracker.update(tracker.begin(5, None, np.zeros(0)), rng.normal(size=(40, 5)), None, ())
    T = np.linalg.qr(rng.normal(size=(5, 5)))[0][:3]
    moved, loss = tracker.rebase(state, T)
    np.testing.assert_allclose(moved.scatter, T @ state.scatter @ T.T, atol=1e-10)
    assert loss == pytest.approx(np.trace(state.scatter) - np.trace(moved.scatter))
    np.testing.assert_allclose(moved.U.T @ moved.U, np.eye(3), atol=1e-12)
    cut = tracker.update(tracker.begin(5, 2, np.zeros(0)), rng.normal(size=(40, 5)), None, ())
    assert cut.truncated and tracker.rebase(cut, T)[1] is None
    assert not hasattr(cut, "scatter")


# -- reduced sets


def test_without_compression_it_is_everything() -> None:
    X = parabola(150)
    plain = StreamingKernelPCA(3, gamma=0.5, basis="everything", batch_size=30).partial_fit(X)
    ours = StreamingKernelPCA(
        3, gamma=0.5, basis=landmarks.ReducedSet(None), batch_size=30
    ).partial_fit(X)
    np.testing.assert_array_equal(ours.transform(X), plain.transform(X))


@pytest.mark.parametrize("gamma", [0.5, 5.0])
def test_compressed_stays_near_batch(gamma: float) -> None:
    X = parabola(1500)
    model = IncrementalKernelPCA(5, gamma=gamma, n_points=30, batch_size=30).fit(X)
    assert 20 < len(model.basis_points_) <= 30
    batch = KernelPCA(5, kernel="rbf", gamma=gamma).fit(X)
    captured = model.transform(X).var(axis=0).sum() * len(X)
    assert captured > 0.99 * batch.eigenvalues_.sum()


def test_points_are_new_inputs_that_hold_more_than_sampled_rows() -> None:
    X, kernel = parabola(200), kernels.RBF(5.0)
    full = landmarks.Everything()
    start = full.begin(kernel, landmarks.Start(X))
    state, _ = full.admit(kernel, start, X[:60], None, landmarks.Clock(0, 0))
    Z = full.coordinates(kernel, state, X)
    S = Z.T @ Z

    def held(points: np.ndarray) -> float:
        new, _ = full.admit(kernel, start, points, None, landmarks.Clock(0, 0))
        T = transition(kernel, state.span, new.span)
        return float(np.trace(T @ S @ T.T) / np.trace(S))

    found = compress(kernel, state.span, S, 20).span.points
    assert len(found) == 20
    moved = [not np.any(np.all(np.isclose(X, y), axis=1)) for y in found]
    assert any(moved)
    sampled = max(held(X[i : i + 20]) for i in range(0, 180, 20))
    assert held(found) > 0.96 > sampled


@given(cuts=st.lists(st.integers(0, 150), max_size=4))
def test_cuts_change_nothing(cuts: list[int]) -> None:
    X = parabola(150)
    whole = IncrementalKernelPCA(3, gamma=0.5, n_points=10, batch_size=20).partial_fit(X)
    pieces = IncrementalKernelPCA(3, gamma=0.5, n_points=10, batch_size=20)
    edges = [0, *sorted(cuts), len(X)]
    for start, stop in itertools.pairwise(edges):
        if stop > start:
            pieces.partial_fit(X[start:stop])
    np.testing.assert_array_equal(pieces.transform(X), whole.transform(X))


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear", "laplacian", "cosine"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_works_with_every_kernel(kernel: str, dtype: Any) -> None:
    X = np.random.default_rng(0).normal(size=(300, 4)).astype(dtype)
    model = IncrementalKernelPCA(3, kernel=kernel, n_points=12, batch_size=40).fit(X)
    assert model.basis_points_.dtype == dtype and len(model.basis_points_) <= 12
    assert np.all(np.isfinite(model.transform(X)))
    if kernel == "linear":  # four directions: nothing is lost
        model = IncrementalKernelPCA(kernel=kernel, n_points=12, batch_size=40).fit(X)
        exact = np.linalg.eigvalsh(np.cov(X.T.astype(float), ddof=0))[::-1]
        np.testing.assert_allclose(model.explained_variance_, exact, rtol=1e-5)


def test_forgetting_reaches_the_reduced_set() -> None:
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(500, 2)), rng.normal(size=(500, 2)) + 20.0])
    model = StreamingKernelPCA(
        2,
        gamma=0.5,
        basis=landmarks.ReducedSet(15),
        tracker=trackers.Covariance(0.98),
        batch_size=50,
    ).partial_fit(X)
    assert np.mean(model.basis_points_[:, 0] > 10) > 0.8


def test_the_old_state_is_left_alone() -> None:
    X, kernel = parabola(100), kernels.RBF(0.5)
    basis = landmarks.ReducedSet(10)
    state = basis.begin(kernel, landmarks.Start(X))
    state, _ = basis.admit(kernel, state, X[:50], None, landmarks.Clock(0, 0))
    scatter, points = state.scatter.copy(), state.span.points.copy()
    changed = basis.revise(kernel, state, landmarks.Clock(0, 50))
    assert changed is not None and changed[0].span.rank == 10
    basis.admit(kernel, state, X[50:], None, landmarks.Clock(0, 50))
    np.testing.assert_array_equal(state.scatter, scatter)
    np.testing.assert_array_equal(state.span.points, points)


def test_scatter_of_the_basis_is_the_trackers() -> None:
    X = parabola(200)
    model = StreamingKernelPCA(2, gamma=2.0, basis=landmarks.ReducedSet(12), batch_size=25)
    state: Any = model.partial_fit(X).stream_.settled.state
    np.testing.assert_allclose(state.basis.scatter, state.tracker.scatter, atol=1e-9)
