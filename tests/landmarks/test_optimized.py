"""Centroids: the policy that lets points follow a stream."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import scipy.stats
from sklearn.base import clone

from kernelstream import StreamingKernelPCA, kernels, landmarks, papers, trackers
from kernelstream.landmarks.optimized.kmeans import lloyd, seed_points
from kernelstream.landmarks.optimized.polish import Sampled, captured, polish, slope
from tests import samples
from tests.conftest import settled_state, state_of
from tests.landmarks.test_base import span_of
from tests.naive import chain as naive


def two_regions(n_before=4000, n_after=2500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_before + n_after, 2))
    X[n_before:] = 0.7 * X[n_before:] + [8.0, 5.0]
    return X


def test_centroids_follow_a_jump():
    X = two_regions()
    old, new = X[:500], X[-500:]
    model = StreamingKernelPCA(5, gamma=0.4, basis=12, batch_size=128, random_state=0)
    model.partial_fit(X[:4000])
    points = settled_state(model).basis.span.points
    at_home = np.mean(naive.missed_energies(naive.rbf(0.4), points, old))
    assert np.mean(naive.missed_energies(naive.rbf(0.4), points, new)) > 0.9  # an unknown region
    updated_at = state_of(model).basis.updated_at
    model.partial_fit(X[4000:])
    assert state_of(model).basis.updated_at > max(updated_at, 4000)  # before anybody asks
    points = span_of(model).points
    found = np.mean(naive.missed_energies(naive.rbf(0.4), points, new))
    kept = np.mean(naive.missed_energies(naive.rbf(0.4), points, old))
    # Both regions are served as their rows count; the old one lends points.
    assert found < 0.2
    assert kept < at_home + 0.25


def test_a_stationary_stream_comes_to_rest():
    """Looks at doublings of the rows, and none once nothing is gained."""
    X = np.random.default_rng(1).normal(size=(40_000, 2))
    model = StreamingKernelPCA(5, gamma=0.4, basis=12, batch_size=128, random_state=0)
    looks, points = set(), []
    for start in range(0, len(X), 1000):
        model.partial_fit(X[start : start + 1000])
        state = state_of(model)
        if state is not None:
            looks.add(state.basis.updated_at)
            points.append(state.basis.span.points)
    assert 2 <= len(looks) <= 7
    np.testing.assert_array_equal(points[-1], points[-15])


def test_update_moving_stream_is_seldom(monkeypatch):
    """Each update needs three times as many rows as the one before, however fast they move."""
    updates, original = [], landmarks.Centroids._update_landmarks

    def counted(self, kernel, state, clock):
        updates.append(state.n)
        return original(self, kernel, state, clock)

    monkeypatch.setattr(landmarks.Centroids, "_update_landmarks", counted)
    X = np.random.default_rng(1).normal(size=(30_000, 4))
    X += np.arange(30_000)[:, None] / 2000  # a stream that never stops to move
    model = StreamingKernelPCA(5, gamma=0.1, basis=20, random_state=0).partial_fit(X)
    basis = state_of(model).basis
    assert basis.updated_at > 10_000
    assert 2 <= len(updates) <= 4 and min(np.diff(np.log(updates))) > np.log(2.9)


@samples.grid(
    "kernel, columns, weighted",
    [
        kernels.RBF(gamma=0.02),
        kernels.Matern(nu=2.5, length_scale=6.0),
        kernels.Polynomial(degree=2, gamma=0.05, coef0=1.0),
        kernels.Cosine(),
        kernels.RBF(gamma=0.02) + kernels.Linear(),
    ],
    [6, 200],
    [False, True],
)
def test_the_gradient_of_the_captured_variance(kernel, columns, weighted):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, columns)) * np.linspace(2.0, 0.1, columns) + 0.5
    weights = rng.uniform(0.5, 2.0, size=300) if weighted else None
    sample = Sampled.of(kernel, X, weights, rng)
    assert (sample.directions is None) == (columns == 6)
    points = sample.inside(X[:7])
    step = 1e-5 * rng.normal(size=points.shape)
    here = slope(kernel, points, sample, 3)
    further, back = (slope(kernel, points + s, sample, 3).value for s in (step, -step))
    np.testing.assert_allclose(
        (further - back) / 2, np.sum(here.gradient * step), rtol=1e-4, atol=1e-12 * here.value
    )


def test_directions_keep_the_kernel_values_of_points_inside():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 300)) * np.linspace(3.0, 0.1, 300) + 2.0
    for kernel in (kernels.RBF(gamma=0.001), kernels.Polynomial(2, 0.01, 1.0), kernels.Cosine()):
        sample = Sampled.of(kernel, X, None, rng)
        points = sample.inside(X[:9])
        assert points.shape[1] <= 100 + 11
        lifted = sample.lift(points)
        np.testing.assert_allclose(
            kernel.block(sample.rows, sample.beside(points)), kernel.block(X, lifted), rtol=1e-9
        )
    turned = Sampled.of(kernels.Laplacian(0.1), X, None, rng)
    assert turned.directions is None  # a kernel that sees how rows are turned


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_polish_captures_more_of_rows_it_has_not_seen(dtype):
    rng = np.random.default_rng(2)
    X = np.concatenate([rng.normal(size=(3000, 40)) @ np.diag(np.geomspace(4, 0.2, 40))])
    X = X.astype(dtype)
    kernel = kernels.RBF(gamma=0.01)
    sample = Sampled.of(kernel, X[:1500], None, rng)
    held = Sampled.of(kernel, X[1500:], None, rng)
    w = np.ones(1500)
    start = lloyd(X[:1500], w, seed_points(X[:1500], w, 30, rng), 3, rng)
    moved = polish(kernel, start, sample, 10)
    assert moved.dtype == dtype and moved.shape == start.shape
    before, after = (captured(kernel, points, sample, 10, held) for points in (start, moved))
    exact = np.sort(np.linalg.eigvalsh(centred(kernel(X[1500:].astype(float)))))[::-1][:10].sum()
    assert before < after <= 1.001 * exact / 1500
    assert exact / 1500 - after < 0.8 * (exact / 1500 - before)


def test_optimize_rows_of_large_units_raises_nothing():
    """A line search in Python floats overflowed on this stream."""
    rng = np.random.default_rng(24)
    X = rng.normal(size=(3300, 1)) * 1e6 * (rng.random((3300, 1)) > 0.3)
    model = StreamingKernelPCA(3, kernel=kernels.RBF(0.3), basis=20, random_state=24).partial_fit(X)
    assert np.isfinite(model.transform(X[:9])).all()


def centred(K):
    K = K - K.mean(axis=0)
    return K - K.mean(axis=1)[:, None]


def test_the_order_of_the_rows_hardly_matters():
    """A stream sorted along its first column captures what the shuffled one does."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 5))[rng.integers(40, size=20_000)] * 2 + rng.normal(size=(20_000, 5))
    unseen = rng.normal(size=(40, 5))[rng.integers(40, size=1)]
    unseen = X[::20]
    share = {}
    for name, rows in (("shuffled", X), ("sorted", X[np.argsort(X[:, 0])])):
        model = StreamingKernelPCA(10, gamma=0.05, basis=40, random_state=0)
        for start in range(0, len(rows), 5000):
            model.partial_fit(rows[start : start + 5000])
        share[name] = model.transform(unseen).var(axis=0).sum()
    assert share["sorted"] > 0.99 * share["shuffled"]


def test_a_laplacian_kernel_gets_rows_where_means_are_worse():
    """k-means serves smooth kernels; the others take what captures more."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(4000, 12))
    model = StreamingKernelPCA(10, kernel=kernels.Laplacian(0.2), basis=60, random_state=0).fit(X)
    exact = np.linalg.eigvalsh(centred(kernels.Laplacian(0.2)(X[:800])))[::-1][:10].sum() / 800
    got = model.transform(X[:800]).var(axis=0).sum()
    assert got > 0.5 * exact


def test_m_equals_n():
    X = np.random.default_rng(5).normal(size=(40, 2))
    model = StreamingKernelPCA(2, gamma=0.5, basis=40, random_state=0).partial_fit(X)
    np.testing.assert_array_equal(np.sort(model.basis_points_, axis=0), np.sort(X, axis=0))


ORDERS = {
    "sorted": np.repeat(np.arange(30), 100),
    "all but one late": np.repeat(np.arange(30), [4000] + 29 * [1]),
    "some rare": np.random.default_rng(1).permutation(np.repeat(np.arange(30), [4000] + 29 * [1])),
    "half late": np.concatenate([np.arange(3000) % 15, np.arange(600) % 30]),
}


@samples.grid(
    "learn, order, kernel",
    ["fit", "partial_fit"],
    ORDERS,
    [kernels.RBF(gamma=0.5), kernels.Linear(), kernels.Polynomial(2, 1.0), kernels.Laplacian(0.3)],
)
def test_few_different_rows_give_the_exact_answer_in_any_order(kernel, order, learn):
    """Those that the start of the stream did not have were once lost: variances of zero."""
    X = np.random.default_rng(0).normal(size=(30, 3))[ORDERS[order]]
    model = StreamingKernelPCA(3, kernel=kernel, basis=30, random_state=0)
    getattr(model, learn)(X)
    different, counts = np.unique(X, axis=0, return_counts=True)
    exact, _ = naive.kernel_pca(kernel(different), 3, counts.astype(float))
    np.testing.assert_allclose(model.eigenvalues_, exact, rtol=1e-8)
    assert len(model.basis_points_) <= 30


@pytest.mark.parametrize(
    "tracker",
    [
        trackers.Covariance(),
        trackers.Covariance(0.999),
        trackers.IncrementalSVD(),
        papers.Hebbian(),
        papers.RLS(),
        papers.LMS(0.001),
        papers.SubsetHebbian(),
    ],
    ids=str,
)
@pytest.mark.parametrize("rows", [np.asarray, scipy.sparse.csr_array, np.float32])
def test_a_stream_that_begins_at_rest(tracker, rows):
    """Rows become points when they come, however the stream is cut."""
    rng = np.random.default_rng(0)
    X = rows(np.concatenate([np.zeros((700, 3)), rng.normal(size=(900, 3)).round(1)]))
    model = StreamingKernelPCA(
        2,
        gamma=0.3,
        basis=landmarks.Centroids(40),
        tracker=tracker,
        batch_size=128,
        random_state=0,
    )
    whole, pieces = clone(model).partial_fit(X), clone(model)
    for start in range(0, 1600, 90):
        pieces.partial_fit(X[start : start + 90])
        pieces.transform(X[:2])
    np.testing.assert_array_equal(whole.transform(X), pieces.transform(X))
    assert len(whole.basis_points_) == 40
    moving = X[700:]
    missed = whole.reconstruction_error(moving).mean()
    assert missed < 1.1 * clone(model).fit(moving).reconstruction_error(moving).mean() + 0.1


def test_points_that_stay_are_not_added_to():
    X = np.concatenate([np.zeros((600, 2)), np.random.default_rng(0).normal(size=(600, 2))])
    basis = landmarks.Centroids(20, follows=False)
    assert len(StreamingKernelPCA(2, gamma=1.0, basis=basis).partial_fit(X).basis_points_) == 1


# --- centroids that stay


def test_centroids_that_stay_are_those_of_the_first_rows():
    X = np.random.default_rng(0).normal(size=(4000, 2))
    X[2000:] += 4.0
    model = StreamingKernelPCA(
        3, gamma=0.4, basis=landmarks.Centroids(8, follows=False), random_state=0
    )
    first = model.partial_fit(X[:600]).basis_points_
    np.testing.assert_array_equal(model.partial_fit(X[600:]).basis_points_, first)
    moved = StreamingKernelPCA(3, gamma=0.4, basis=8, random_state=0).partial_fit(X)
    assert np.abs(moved.basis_points_ - first).max() > 1.0


def test_follows_is_true_or_false():
    with pytest.raises(ValueError, match="follows must be True or False"):
        landmarks.resolve(landmarks.Centroids(8, follows="yes"))  # type: ignore[arg-type]
