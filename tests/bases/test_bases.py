"""Bases: orthonormal coordinates, true residuals, the policies, and hard input."""

from __future__ import annotations

import itertools
from typing import Any

import array_api_strict
import numpy as np
import pytest
import scipy.sparse
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from kernelstream import StreamingKernelPCA, bases, kernels, trackers
from kernelstream.backends.draws import pick
from kernelstream.bases.base import Clock, factorise, refactorise, transition
from kernelstream.bases.centroids.kmeans import lloyd, lloyd_pass, nearest
from kernelstream.bases.centroids.sample import Reservoir, last
from tests.conftest import CHAINS, settled_state, state_of
from tests.naive import chain as naive

WITH_POINTS = [c for c in CHAINS if c.has_points and not c.sequential]


def span_of(model):
    return settled_state(model).basis.span


# -- the law of every basis: Fᵀ K(D,D) F = I, and |z|² + ε = k(x,x)


@pytest.mark.parametrize("chain", WITH_POINTS, ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_coordinates_are_orthonormal_and_residuals_are_true(chain, dtype):
    X = chain.rows().astype(dtype)
    model = chain.estimator().partial_fit(X)
    span, k = span_of(model), naive.rbf(0.4)
    assert span.points.dtype == dtype
    assert span.factor.dtype == np.float64
    D = span.points.astype(float)
    K = naive.gram(k, D, D)
    # F has entries up to 1/√(smallest eigenvalue kept), so the product rounds at 1e-16 · cond(K).
    # Everything keeps pivots down to 1e-8 of the energy.
    loose = isinstance(chain.basis(), bases.Everything)
    np.testing.assert_allclose(
        span.factor.T @ K @ span.factor, np.eye(span.rank), atol=0.05 if loose else 1e-6
    )
    rows = X[::17].astype(float)
    Z = span.coordinates(model.kernel_, rows)
    missed = naive.missed_energies(k, D, rows)
    # directions below 1e-10 (float32 rows: 1e-8) of the largest eigenvalue are dropped
    accuracy = 1e-7 if dtype is np.float64 else 1e-5
    np.testing.assert_allclose(1.0 - np.sum(Z**2, axis=1), missed, rtol=0, atol=accuracy)
    if not loose:
        assert missed.max() > 1e-4  # there is something to miss


@given(seed=st.integers(0, 10_000), m=st.integers(1, 8))
def test_a_change_of_basis_is_one_matrix(seed, m):
    """T = F'ᵀ K(D',D) F maps coordinates to the projection on the new span."""
    rng = np.random.default_rng(seed)
    kernel = kernels.Laplacian(gamma=0.5)  # its matrices are well-conditioned
    old, new = (factorise(kernel, rng.normal(size=(n, 3)) * 2) for n in (m, 9))
    T = transition(kernel, old, new)
    assert np.linalg.norm(T, 2) <= 1 + 1e-10  # a projection between orthonormal frames
    # onto a larger span that contains the old one nothing is lost, and the way back undoes it
    both = factorise(kernel, np.concatenate([old.points, new.points]))
    there, back = transition(kernel, old, both), transition(kernel, both, old)
    np.testing.assert_allclose(there.T @ there, np.eye(old.rank), atol=1e-10)
    np.testing.assert_allclose(back @ there, np.eye(old.rank), atol=1e-10)


def test_factorise_drops_what_is_dependent():
    kernel = kernels.RBF(gamma=0.5)
    D = np.random.default_rng(0).normal(size=(6, 2)) * 3
    twice = factorise(kernel, np.concatenate([D, D]))
    assert twice.rank == factorise(kernel, D).rank == 6
    assert factorise(kernels.Linear(), D).rank == 2
    assert factorise(kernels.Linear(), np.zeros((3, 2))).rank == 0


# -- growing bases admit what the papers admit


@pytest.mark.parametrize("seed", range(3))
def test_growing_bases_admit_what_the_naive_criteria_admit(seed):
    X = np.random.default_rng(seed).normal(size=(120, 2)) * [2.0, 1.0]
    rbf, poly = kernels.RBF(gamma=0.5), kernels.Polynomial(2, gamma=0.5, coef0=1.0)
    for kernel, k in ((rbf, naive.rbf(0.5)), (poly, naive.polynomial(2, 0.5, 1.0))):
        cases = [
            (bases.Distance(nu=0.3), naive.distance_criterion(0.3), None),
            (bases.Distance(nu=0.01, max_points=5), naive.distance_criterion(0.01), 5),
            (bases.Coherence(delta=0.7), naive.coherence_criterion(0.7), None),
            (bases.Coherence(delta=0.9, max_points=9), naive.coherence_criterion(0.9), 9),
        ]
        for basis, criterion, most in cases:
            expected = naive.dictionary_of(k, X, criterion, most)
            for batch_size in (1, 50, 500):
                model = StreamingKernelPCA(2, kernel=kernel, basis=basis, batch_size=batch_size)
                points = model.partial_fit(X).basis_points_
                np.testing.assert_array_equal(points, expected)
            if most is not None and kernel is rbf:  # this polynomial has six features only
                assert len(expected) == most


def test_distance_leaves_no_row_further_away_than_nu():
    X = np.random.default_rng(1).normal(size=(400, 2))
    model = StreamingKernelPCA(2, gamma=0.5, basis=bases.Distance(nu=0.07)).partial_fit(X)
    missed = naive.missed_energies(naive.rbf(0.5), model.basis_points_, X)
    assert missed.max() <= 0.07
    K = model.kernel_(model.basis_points_)
    assert np.linalg.eigvalsh(K)[0] > 0  # pivots above ν make the dictionary independent


def test_coherence_keeps_points_apart():
    X = np.random.default_rng(1).normal(size=(400, 2))
    model = StreamingKernelPCA(2, gamma=0.5, basis=bases.Coherence(delta=0.6)).partial_fit(X)
    D = model.basis_points_
    K = np.abs(model.kernel_(D) - np.eye(len(D)))
    assert K.max() <= 0.6
    assert np.all(model.kernel_(X, D).max(axis=1) > 0.6 - 1e-12)  # no row is left unlike all points


@pytest.mark.parametrize(
    "layout",
    ["plain", "on axes", "grid", "line", "clusters", "sorted"],
)
@pytest.mark.parametrize("gamma", [0.4, 0.1])
def test_everything_survives_the_smoothest_kernels(layout, gamma):
    """K(D,D) of an RBF kernel in the plane is singular to rounding after some fifty rows.

    Residuals must stay above −1e-8 (they are squared distances), or the error is taken for a
    kernel that is not positive semidefinite, and the model must stay as exact as the account says:
    singular values move by no more than the norm of what is missed, |√λ − √λ̂| ≤ √missed.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2)) * [1.0, 0.5]
    if layout == "on axes":
        X *= rng.random(X.shape) < 0.7
    elif layout == "grid":
        X = np.round(X, 1)
    elif layout == "line":
        X[:, 1] = 0.0
    elif layout == "sorted":
        X = np.linspace(-1.0, 1.0, 80)[:, None] * 2
    elif layout == "clusters":
        X = np.repeat(X[:25], 20, axis=0) + 1e-3 * rng.normal(size=X.shape)
    model = StreamingKernelPCA(4, gamma=gamma, basis=bases.Everything()).partial_fit(X)
    span, kernel = span_of(model), model.kernel_
    missed = 1.0 - np.sum(span.coordinates(kernel, X) ** 2, axis=1)
    assert missed.min() > -1e-8
    account = settled_state(model).ledger
    assert missed.max() < (1e-6 if account.rounding else 2e-8)
    values, _ = naive.kernel_pca(kernel(X), 4)
    # Taking the points in a better order costs the account an allowance for rounding.
    assert account.missed < (1e-3 if account.rounding else 1e-8) * account.energy
    moved = np.abs(np.sqrt(model.eigenvalues_) - np.sqrt(values))
    assert np.all(moved <= np.sqrt(account.missed))
    # Rows in random order miss in random directions: much better than the bound.
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=0, atol=1e-5 * values[0])


def test_points_in_a_better_order_keep_their_energies():
    """Points are given up and permuted; what is known of each must go with it."""
    X = np.linspace(0.2, 6.0, 200)[:, None]
    kernel = kernels.RBF(2.0) * kernels.Polynomial(degree=2, gamma=1.0)
    model = StreamingKernelPCA(2, kernel=kernel, basis=bases.Everything()).partial_fit(X)
    state = settled_state(model)
    assert state.ledger.rounding > 0  # the order was changed
    span = state.basis.span
    energies = model.kernel_.diag(span.points)
    assert energies.max() > 100 * energies.min()
    np.testing.assert_allclose(state.basis.energies, energies, rtol=1e-12)
    gram = span.factor.T @ model.kernel_(span.points) @ span.factor
    np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-4)


# -- hard input


HARD = {
    "duplicates": np.repeat([[1.0, 2.0], [3.0, -1.0]], 40, axis=0),
    "constant": np.full((60, 2), 0.7),
    "zeros": np.zeros((60, 2)),
    "one row": np.array([[1.0, -2.0]]),
    "one feature": np.linspace(-1.0, 1.0, 80)[:, None],
    "rank one": np.linspace(-1.0, 1.0, 80)[:, None] * [1.0, 2.0],
}


@pytest.mark.parametrize("basis", ["centroids", "distance", "coherence", "everything", "landmarks"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "cosine"])
@pytest.mark.parametrize("name", HARD)
def test_hard_rows_give_the_exact_answer(name, kernel, basis):
    X = HARD[name]
    settings: dict[str, Any] = dict(gamma=0.3) if kernel in ("rbf", "poly") else {}
    if basis == "distance":
        basis = bases.Distance(nu=1e-6)
    if basis == "coherence":
        basis = bases.Coherence(delta=0.99999)
    model = StreamingKernelPCA(3, kernel=kernel, basis=basis, random_state=0, **settings)
    for learn in (model.partial_fit, model.fit):
        learn(X)
        exact = np.linalg.eigvalsh(naive_centred(model.kernel_(X)))[::-1][:3]
        expected = np.zeros(3)
        expected[: len(exact)] = np.maximum(exact, 0.0)
        scale = max(1.0, float(np.trace(model.kernel_(X))))
        # Coherence and Distance may leave out rows of energy 1e-5, the others 1e-8.
        np.testing.assert_allclose(model.eigenvalues_, expected, rtol=0, atol=3e-4 * scale)
        scores = model.transform(X)
        assert scores.shape == (len(X), 3)
        assert np.all(np.isfinite(scores))
        total = np.sum((scores - scores.mean(axis=0)) ** 2, axis=0)
        np.testing.assert_allclose(total, expected, rtol=0, atol=3e-4 * scale)


def naive_centred(K):
    H = np.eye(len(K)) - 1.0 / len(K)
    return H @ K @ H


@pytest.mark.parametrize("basis", ["centroids", "everything", "landmarks", bases.Distance(nu=0.01)])
@pytest.mark.parametrize("scale", [1e-150, 1e-75, 1.0, 1e75, 1e150])
def test_the_scale_of_the_rows_does_not_matter_to_an_rbf_kernel_of_median_width(basis, scale):
    """1e-150² and 1e150² are still numbers, but hardly anything beyond them is."""
    X = np.random.default_rng(0).normal(size=(150, 3))
    settings = dict(n_components=3, basis=basis, random_state=0)
    plain = StreamingKernelPCA(**settings).partial_fit(X)
    model = StreamingKernelPCA(**settings).partial_fit(X * scale)
    np.testing.assert_allclose(model.explained_variance_, plain.explained_variance_, rtol=1e-8)
    np.testing.assert_allclose(model.transform(X * scale), plain.transform(X), rtol=0, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-70, 1e70])
def test_the_scale_of_the_rows_scales_a_linear_kernel(scale):
    X = np.random.default_rng(0).normal(size=(150, 3))
    for basis in ("centroids", "everything", "landmarks"):
        model = StreamingKernelPCA(3, kernel="linear", basis=basis, random_state=0)
        plain = model.partial_fit(X).explained_variance_
        scaled = StreamingKernelPCA(3, kernel="linear", basis=basis, random_state=0)
        scaled.partial_fit(X * scale)
        np.testing.assert_allclose(scaled.explained_variance_, plain * scale * scale, rtol=1e-8)


# -- centroids


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
        state = model._model.state
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


# -- the reservoir


def filled(size, n, seed, weights=None, cuts=(), beta=1.0):
    """Rows 0 … n−1 offered in the given pieces; their indices come back."""
    held = Reservoir(size)
    X = np.arange(n, dtype=float)[:, None]
    edges = [0, *cuts, n]
    for a, b in itertools.pairwise(edges):
        clock = Clock(seed, a, beta ** (b - a), np.log(beta))
        w = None if weights is None else weights[a:b]
        if beta < 1.0:
            faded = beta ** np.arange(b - a - 1.0, -1.0, -1.0)
            w = faded if w is None else w * faded
        held = held.offer(X[a:b], X[a:b], w, clock)
    return np.sort(held.sample()[0][:, 0]).astype(int)


def test_the_reservoir_is_uniform():
    counts = np.zeros(200)
    for seed in range(400):
        counts[filled(20, 200, seed)] += 1
    # 400 samples of 20 of 200: 40 of each. Drawn without replacement the counts vary by 0.9 of
    # the multinomial variance, so the test is on the safe side; fixed seeds, no flakes.
    assert counts.sum() == 400 * 20
    assert scipy.stats.chisquare(counts).pvalue > 0.01
    thirds = counts.reshape(4, 50).sum(axis=1)  # no part of the stream is favoured
    assert scipy.stats.chisquare(thirds).pvalue > 0.01


def test_the_reservoir_follows_the_weights():
    weights = np.repeat([1.0, 3.0], 300)
    heavy = sum(np.sum(filled(10, 600, seed, weights) >= 300) for seed in range(300))
    # 10 of 600 is nearly with replacement: three quarters of 3,000 draws, deviation 24.
    assert abs(heavy - 2250) < 4 * 24


def weighted_sample(size, n, seed, weights):
    """The rows drawn and the weight that each stands for, of all the weight."""
    held = Reservoir(size)
    X = np.arange(n, dtype=float)[:, None]
    for a, b in itertools.pairwise([0, n // 3, n]):
        held = held.offer(X[a:b], X[a:b], weights[a:b], Clock(seed, a))
    stands_for = held.stands_for()
    assert stands_for is not None
    assert stands_for.mean() == pytest.approx(1.0)
    return held.sample()[0][:, 0].astype(int), stands_for / len(held) * weights.sum()


def test_heavy_rows_of_the_reservoir_stand_for_their_weight():
    """Drawn once, a row of a million once counted like any other."""
    weights = np.ones(400)
    weights[[7, 300]] = 1e6, 50.0
    totals = np.zeros(400)
    for seed in range(300):
        rows, stand_for = weighted_sample(40, 400, seed, weights)
        totals[rows] += stand_for / 300
    assert totals[7] == pytest.approx(1e6, rel=1e-3)
    assert totals[300] == pytest.approx(50.0, rel=0.1)
    light = np.delete(totals, [7, 300])
    assert light.mean() == pytest.approx(1.0, rel=0.02)
    # a reservoir with room for all rows has their weights exactly
    rows, stand_for = weighted_sample(500, 400, 0, weights)
    np.testing.assert_allclose(stand_for, weights[rows], rtol=1e-9)


def test_merged_reservoirs_stand_for_all_rows():
    weights = np.random.default_rng(0).gamma(0.3, size=600) + 0.01
    X = np.arange(600.0)[:, None]
    totals = np.zeros(600)
    for seed in range(400):
        ours, theirs = (
            Reservoir(30).offer(X[part], X[part], weights[part], Clock(seed + offset, 0))
            for part, offset in ((slice(0, 200), 0), (slice(200, 600), 10_000))
        )
        both = ours.merge(theirs)
        stands_for = both.stands_for()
        assert stands_for is not None
        rows = both.sample()[0][:, 0].astype(int)
        totals[rows] += stands_for / 30 * weights.sum() / 400
    for part in (slice(0, 200), slice(200, 600)):
        assert totals[part].sum() == pytest.approx(weights[part].sum(), rel=0.03)


@pytest.mark.parametrize(("ratio", "count"), [(20.0, 900), (1e4, 3), (1e6, 1)])
def test_weights_of_any_ratio_give_the_variances_of_the_weighted_rows(ratio: float, count: int):
    """Points that moved are corrected by a sample, which has to know what its rows weigh."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 3))
    weights = np.ones(2000)
    weights[rng.choice(2000, count, replace=False) if count < 10 else X[:, 0] > 0.5] = ratio
    model = StreamingKernelPCA(4, gamma=0.2, basis=40, random_state=0, batch_size=256)
    model.partial_fit(X, sample_weight=weights)
    exact, _ = naive.kernel_pca(kernels.RBF(gamma=0.2)(X), 4, weights)
    np.testing.assert_allclose(model.eigenvalues_, exact, rtol=0.01)


@pytest.mark.parametrize("beta", [0.99, 0.9])
@pytest.mark.parametrize("weighted", [False, True])
def test_forgetting_is_in_what_sampled_rows_stand_for(beta: float, weighted: bool):
    """With room for all rows that count, the sample has their weights, also after a merge."""
    w = np.random.default_rng(0).gamma(1.0, size=900) + 0.1 if weighted else np.ones(900)

    def held(first, last, seed):
        reservoir = Reservoir(800)
        X = np.arange(first, last, dtype=float)[:, None]
        for a, b in itertools.pairwise([0, 70, 200, last - first]):
            faded = w[first + a : first + b] * beta ** np.arange(b - a - 1.0, -1.0, -1.0)
            clock = Clock(seed, a, beta ** (b - a), np.log(beta))
            reservoir = reservoir.offer(X[a:b], X[a:b], faded, clock)
        return reservoir

    def check(reservoir, expected):
        rows, stands_for = reservoir.sample()[0][:, 0].astype(int), reservoir.stands_for()
        share = np.zeros(900)
        share[rows] = stands_for / stands_for.sum()
        np.testing.assert_allclose(share, expected / expected.sum(), atol=1e-3)

    # two streams of 300 and 600 rows: both end now
    ours, theirs = held(0, 300, 0), held(300, 900, 1)
    expected = w * np.concatenate(
        [naive.forgetting_weights(beta, 300), naive.forgetting_weights(beta, 600)]
    )
    check(ours, np.where(np.arange(900) < 300, expected, 0.0))
    both = ours.merge(theirs)
    check(both, expected)
    # and it goes on from there: 50 more rows, of which the first 50 play the part
    X = np.arange(50.0)[:, None]
    faded = beta ** np.arange(49.0, -1.0, -1.0)
    more = both.offer(X, X, faded, Clock(2, 900, beta**50, np.log(beta)))
    expected = expected * beta**50
    expected[:50] += faded
    rows, stands_for = more.sample()[0][:, 0].astype(int), more.stands_for()
    share = np.zeros(900)
    np.add.at(share, rows, stands_for / stands_for.sum())
    np.testing.assert_allclose(share, expected / expected.sum(), atol=1e-3)


@pytest.mark.parametrize("beta", [0.998, 0.99, 0.9])
def test_points_that_moved_are_corrected_under_forgetting_too(beta: float):
    """Rows in sorted order, of which the last count: up to half was lost without the sample."""
    X = np.random.default_rng(0).normal(size=(1500, 3))
    X = X[np.argsort(X[:, 0])]
    model = StreamingKernelPCA(
        3, gamma=0.2, basis=60, tracker=trackers.Covariance(beta), random_state=0, batch_size=256
    )
    model.partial_fit(X)
    exact, _ = naive.kernel_pca(kernels.RBF(gamma=0.2)(X), 3, naive.forgetting_weights(beta, 1500))
    np.testing.assert_allclose(model.eigenvalues_, exact, rtol=0.04)


def test_the_reservoir_forgets():
    """With β = 0.99 a row that is 100 rows older is drawn e^-1 times as often."""
    beta = 0.99
    counts = np.zeros(600)
    for seed in range(300):
        counts[filled(5, 600, seed, beta=beta, cuts=(100, 350))] += 1
    expected = naive.forgetting_weights(beta, 600)
    expected *= counts.sum() / expected.sum()
    groups = [slice(0, 400), slice(400, 500), slice(500, 550), slice(550, 600)]
    seen = np.array([counts[g].sum() for g in groups])
    share = np.array([expected[g].sum() for g in groups])
    # without replacement old rows get slightly more: 5 of an effective 100 rows, a few per cent
    np.testing.assert_allclose(seen, share, rtol=0.15)


@given(
    cuts=st.lists(st.integers(1, 299), unique=True, max_size=12).map(sorted),
    weighted=st.booleans(),
    beta=st.sampled_from([1.0, 0.97]),
)
def test_the_reservoir_does_not_depend_on_the_cuts(cuts, weighted, beta):
    weights = np.random.default_rng(0).uniform(0.1, 3.0, size=300) if weighted else None
    whole = filled(15, 300, 7, weights, beta=beta)
    np.testing.assert_array_equal(filled(15, 300, 7, weights, cuts, beta), whole)


def test_pick_draws_without_replacement_in_proportion():
    rng = np.random.default_rng(0)
    weights = np.array([0.0, 1.0, 2.0, 4.0, 0.0])
    first = np.zeros(5)
    for _ in range(3000):
        drawn = pick(rng, weights, 1)
        first[drawn] += 1
    assert first[0] == first[4] == 0
    assert scipy.stats.chisquare(first[1:4], 3000 * weights[1:4] / 7).pvalue > 0.01
    np.testing.assert_array_equal(pick(rng, weights, 4), [1, 2, 3])  # no more than there are
    assert len(pick(rng, weights, 0)) == 0


# -- Fourier features


@pytest.mark.parametrize(
    "kernel",
    [
        kernels.RBF(gamma=0.3),
        kernels.Laplacian(gamma=0.2),
        kernels.Exponential(gamma=0.4),
        kernels.Matern(nu=1.5, length_scale=2.0),
    ],
    ids=lambda kernel: type(kernel).__name__,
)
def test_fourier_features_approximate_the_kernel(kernel):
    X = np.random.default_rng(0).normal(size=(40, 3))
    K = kernel(X)
    for n in (200, 20_000):
        basis, squares = bases.Fourier(n), []
        for seed in range(4):
            state = basis.begin(kernel, X, None, seed)
            Z = basis.coordinates(kernel, state, X)
            np.testing.assert_allclose(np.sum(Z**2, axis=1), 1.0, rtol=1e-12)
            squares.append(np.mean((Z @ Z.T - K) ** 2))
        # A mean of n/2 cosines has the variance (1 + k(2δ) − 2k(δ)²)/n, at most 2/n. The pairs
        # share their frequencies, so the average over pairs and four seeds still varies: 2.
        assert np.mean(squares) < 2 * 2 / n


@pytest.mark.parametrize("kernel", ["linear", "poly", kernels.RBF() + kernels.Linear()])
def test_fourier_needs_a_kernel_with_a_spectrum(kernel: Any):
    """Told at once, and not when enough rows have come to decide the kernel's numbers."""
    with pytest.raises(ValueError, match="shift-invariant"):
        StreamingKernelPCA(2, kernel=kernel, basis="fourier").partial_fit(np.ones((5, 2)))


@pytest.mark.parametrize(
    "basis",
    [bases.Everything(), bases.Distance(), bases.Coherence(), bases.ReducedSet(20)],
    ids=str,
)
def test_growing_bases_take_sparse_rows_with_the_laplacian_kernel(basis: bases.Basis):
    """scikit-learn's distances refuse a basis that has no points yet."""
    X = np.round(np.random.default_rng(0).normal(size=(60, 4)))
    dense, sparse = (
        StreamingKernelPCA(3, kernel="laplacian", gamma=0.3, basis=basis).partial_fit(rows)
        for rows in (X, scipy.sparse.csr_array(X))
    )
    np.testing.assert_allclose(dense.transform(X), sparse.transform(X), atol=1e-10)


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


@pytest.mark.parametrize("apart, weak", [(1.0, False), (1e-2, False), (3e-6, True), (0.0, True)])
def test_points_that_moved_are_factorised_as_before(apart: float, weak: bool):
    """By Cholesky where no direction is weak; else by eigenvectors, which drop it."""
    rng = np.random.default_rng(0)
    kernel = kernels.RBF(gamma=0.5)
    points = 3.0 * rng.normal(size=(12, 3))
    points[1] = points[0] + apart * np.array([1.0, 0.0, 0.0])
    span, before = refactorise(kernel, points), factorise(kernel, points)
    assert span.rank == before.rank == (11 if weak else 12)
    assert np.array_equal(span.factor, np.triu(span.factor)) != weak
    gram = kernel.gram(points)
    np.testing.assert_allclose(span.factor.T @ gram @ span.factor, np.eye(span.rank), atol=1e-5)
    # the same projection on the span, in other coordinates
    X = rng.normal(size=(50, 3))
    np.testing.assert_allclose(
        np.sum(span.coordinates(kernel, X) ** 2, axis=1),
        np.sum(before.coordinates(kernel, X) ** 2, axis=1),
        rtol=1e-9,
    )


@pytest.mark.parametrize("batch_size", [1, 2, 3, 4])
def test_a_block_in_which_the_first_points_are_complete_equals_single_rows(batch_size):
    """The last row is too near the span to be one of the first, and apart enough to come later."""
    X = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [1, 1, 0.005, 0]])
    model = StreamingKernelPCA(
        2,
        kernel="linear",
        basis=bases.Coherence(0.95, first=3),
        center=False,
        batch_size=batch_size,
    )
    np.testing.assert_array_equal(model.partial_fit(X).basis_points_, X)
