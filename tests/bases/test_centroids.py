"""Centroids: the policy that lets points follow a stream."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import scipy.stats
from sklearn.base import clone

from kernelstream import StreamingKernelPCA, bases, kernels, trackers
from kernelstream.bases.centroids.sample import last
from tests.bases.test_base import span_of
from tests.conftest import settled_state, state_of
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
    state = settled_state(model).basis
    at_home = np.mean(naive.missed_energies(naive.rbf(0.4), state.span.points, old))
    lost = np.mean(naive.missed_energies(naive.rbf(0.4), state.span.points, new))
    assert lost > 0.9  # the new region is unknown
    moves, last = 0, 0
    for start in range(4000, len(X), 128):
        model.partial_fit(X[start : start + 128])
        basis = state_of(model).basis
        if basis.judged_at and basis.refreshed_at != last:
            moves, last = moves + 1, basis.refreshed_at
    assert moves >= 1
    points = span_of(model).points
    found = np.mean(naive.missed_energies(naive.rbf(0.4), points, new))
    kept = np.mean(naive.missed_energies(naive.rbf(0.4), points, old))
    # A quarter of the points serves the new region; the old one lends them.
    assert found < 0.2
    assert kept < at_home + 0.25


def test_a_stationary_stream_never_moves_its_points():
    X = np.random.default_rng(1).normal(size=(8000, 2))
    model = StreamingKernelPCA(5, gamma=0.4, basis=12, batch_size=128, random_state=0)
    for start in range(0, len(X), 128):
        model.partial_fit(X[start : start + 128])
        state = state_of(model)
        assert state is None or state.basis.judged_at == 0


def test_cells_keep_their_mass_and_their_means():
    """mass and sums are those of the rows: nothing gets lost in plain refreshes, but new cells
    start with the recent rows near them, which were counted before."""
    X = np.random.default_rng(2).normal(size=(700, 2))
    w = np.random.default_rng(3).uniform(0.5, 2.0, size=700)
    model = StreamingKernelPCA(2, gamma=0.4, basis=10, batch_size=100, random_state=0)
    model.partial_fit(X, sample_weight=w)
    state = state_of(model).basis
    assert state.refreshed_at == 500  # not yet refreshed: the cells hold exactly the rows
    np.testing.assert_allclose(state.mass.sum(), w.sum(), rtol=1e-12)
    np.testing.assert_allclose(state.sums.sum(axis=0), w @ X, rtol=1e-10, atol=1e-10)
    labels = np.argmin(np.sum((X[:, None] - state.span.points[None]) ** 2, axis=2), axis=1)
    for cell in range(10):
        np.testing.assert_allclose(state.mass[cell], w[labels == cell].sum(), rtol=1e-10)


def test_a_forgotten_cell_keeps_its_point():
    """Where mass and sum were no normal numbers any more, the mean once went to the origin."""
    X = np.array([[5.0, -3.0], [20.0, 8.0]])
    model = StreamingKernelPCA(
        1, gamma=0.1, basis=2, tracker=trackers.Covariance(0.5), batch_size=16, random_state=0
    )
    model.partial_fit(np.repeat(X, 300, axis=0)[::-1])
    for _ in range(4):
        model.partial_fit(np.repeat(X[:1], 256, axis=0))
        state = model.stream_.state
        assert state is not None
        means = state.basis.cells.means
        np.testing.assert_allclose(means[np.argsort(means[:, 0])], X, rtol=1e-6)


def test_cells_forget_as_the_tracker_does():
    X = np.random.default_rng(2).normal(size=(700, 2))
    model = StreamingKernelPCA(
        2, gamma=0.4, basis=10, batch_size=100, tracker=trackers.Covariance(0.99), random_state=0
    ).partial_fit(X)
    state = state_of(model)
    weights = naive.forgetting_weights(0.99, 700)
    np.testing.assert_allclose(state.basis.mass.sum(), weights.sum(), rtol=1e-10)
    np.testing.assert_allclose(state.basis.sums.sum(axis=0), weights @ X, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(state.moments.weight, weights.sum(), rtol=1e-12)


@pytest.mark.parametrize("batch_size", [16, 256, 1000])
def test_recent_rows_are_copies_when_the_call_is_over(batch_size):
    X = np.random.default_rng(5).normal(size=(1000, 3))
    buffer = X.copy()
    model = StreamingKernelPCA(3, gamma=0.2, basis=20, batch_size=batch_size, random_state=0)
    model.partial_fit(buffer[:600])
    model.partial_fit(buffer[600:])
    buffer[:] = np.nan
    state = state_of(model)
    recent = last(state.basis.recent, 80)
    np.testing.assert_array_equal(recent, X[state.n_rows - 80 : state.n_rows])


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


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "kernel",
    [kernels.RBF(gamma=0.5), kernels.Linear(), kernels.Polynomial(2, 1.0), kernels.Laplacian(0.3)],
    ids=str,
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
        trackers.Hebbian(),
        trackers.RLS(),
        trackers.LMS(0.001),
        trackers.Averaged(trackers.SubsetHebbian()),
    ],
    ids=str,
)
@pytest.mark.parametrize("tolerance", [None, 0.1])
@pytest.mark.parametrize("rows", [np.asarray, scipy.sparse.csr_array, np.float32])
def test_a_stream_that_begins_at_rest(tracker, tolerance, rows):
    """Rows become points when they come, however the stream is cut."""
    rng = np.random.default_rng(0)
    X = rows(np.concatenate([np.zeros((700, 3)), rng.normal(size=(900, 3)).round(1)]))
    model = StreamingKernelPCA(
        2,
        gamma=0.3,
        basis=bases.Centroids(40, tolerance=tolerance),
        tracker=tracker,
        batch_size=128,
        random_state=0,
    )
    whole, pieces = clone(model).partial_fit(X), clone(model)
    for start in range(0, 1600, 90):
        pieces.partial_fit(X[start : start + 90])
        pieces.transform(X[:2])
    np.testing.assert_array_equal(whole.transform(X), pieces.transform(X))
    assert 32 <= len(whole.basis_points_) <= 40
    moving = X[700:]
    missed = whole.reconstruction_error(moving).mean()
    assert missed < 1.1 * clone(model).fit(moving).reconstruction_error(moving).mean() + 0.1


def test_points_that_stay_are_not_added_to():
    X = np.concatenate([np.zeros((600, 2)), np.random.default_rng(0).normal(size=(600, 2))])
    basis = bases.Centroids(20, follows=False)
    assert len(StreamingKernelPCA(2, gamma=1.0, basis=basis).partial_fit(X).basis_points_) == 1


# --- centroids that stay


def test_centroids_that_stay_are_those_of_the_first_rows():
    X = np.random.default_rng(0).normal(size=(4000, 2))
    X[2000:] += 4.0
    model = StreamingKernelPCA(
        3, gamma=0.4, basis=bases.Centroids(8, follows=False), random_state=0
    )
    first = model.partial_fit(X[:600]).basis_points_
    np.testing.assert_array_equal(model.partial_fit(X[600:]).basis_points_, first)
    moved = StreamingKernelPCA(3, gamma=0.4, basis=8, random_state=0).partial_fit(X)
    assert np.abs(moved.basis_points_ - first).max() > 1.0


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"follows": "yes"}, "follows must be True or False"),
        ({"follows": False, "tolerance": 0.1}, "has to follow the rows"),
        ({"follows": False, "refinements": 2}, "have to follow the rows"),
        ({"refinements": -1}, "whole number of passes, 0 or more, got -1"),
        ({"refinements": True}, "whole number of passes, 0 or more, got True"),
    ],
)
def test_centroids_that_stay_refuse_in_words(parameters, words):
    with pytest.raises(ValueError, match=words):
        bases.resolve(bases.Centroids(8, **parameters))
