"""Trackers in R^m: no kernel, no basis, only rows z."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelstream import StreamingKernelPCA, bases, schedules, trackers
from kernelstream.stream.chain import less_running_mean
from kernelstream.stream.stream import caught_up
from kernelstream.trackers import Moments
from kernelstream.trackers.covariance import CovarianceState, orthonormal
from kernelstream.trackers.hebbian import HebbianState
from tests.conftest import settled_state

REFERENCE = np.zeros(0)
shapes = st.tuples(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 25))


def rows(seed, m, n):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, m)), rng.uniform(0.1, 3.0, size=n), rng


def scatter_of(Z, w=None):
    """Σ w z zᵀ, one row at a time."""
    S = np.zeros((Z.shape[1], Z.shape[1]))
    for i, z in enumerate(Z):
        S += (1.0 if w is None else w[i]) * np.outer(z, z)
    return S


def covariance_of(Z, w=None):
    tracker = trackers.Covariance()
    return tracker, tracker.update(tracker.begin(Z.shape[1], None, REFERENCE), Z, w, ())


@pytest.mark.parametrize("columns", ["apart", "one nearly the sum of others", "one zero", "none"])
def test_orthonormal_columns_of_the_same_span(columns):
    V = np.random.default_rng(0).normal(size=(30, 5)) * [1e3, 1.0, 1.0, 1e-2, 1.0]
    if columns == "one nearly the sum of others":
        V[:, 4] = V[:, 1] + V[:, 2] + 1e-9 * V[:, 4]
    elif columns == "one zero":
        V[:, 4] = 0.0
    elif columns == "none":
        V = V[:, :0]
    Q = orthonormal(V)
    # (1e-5)⁻² of rounding at the most: above, reflections are used
    np.testing.assert_allclose(Q.T @ Q, np.eye(V.shape[1]), atol=1e-5)
    np.testing.assert_allclose(Q @ (Q.T @ V), V, atol=1e-9 * np.abs(V).max(initial=1.0))


# -- the running mean


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("beta", [1.0, 0.9])
@pytest.mark.parametrize("before", [0, 12])
def test_each_row_less_the_mean_up_to_it(weighted, beta, before):
    """Row by row on the host, in pieces on a device: both are the definition."""
    Z, w, _ = rows(3, 4, 12 + 700)
    w = w if weighted else np.ones(len(Z))
    age = np.arange(len(Z))
    expected = []
    for t in range(before, len(Z)):
        v = w[: t + 1] * beta ** (t - age[: t + 1])
        expected.append(Z[t] - v @ Z[: t + 1] / v.sum())
    v = w[:before] * beta ** (before - 1.0 - age[:before])
    for array in (np.asarray, array_api_strict.asarray):
        moments = Moments(float(v.sum()), array(v @ Z[:before]))
        given_weights = array(w[before:]) if weighted else None
        found = less_running_mean(array(Z[before:]), given_weights, moments, beta)
        np.testing.assert_allclose(np.asarray(found), expected, rtol=0, atol=1e-13)


def test_equal_rows_are_at_their_mean_exactly():
    """What rounding would leave of them would start components."""
    z = np.random.default_rng(0).normal(size=5)
    w = np.random.default_rng(1).uniform(0.1, 3.0, size=40)
    for weights in (None, w):
        found = less_running_mean(np.tile(z, (40, 1)), weights, Moments(0.0, np.zeros(5)), 1.0)
        assert not found.any()


# -- Covariance


@given(shapes)
def test_covariance_accumulates_the_scatter(shape):
    Z, w, _ = rows(*shape)
    for weights in (None, w):
        tracker, state = covariance_of(Z, weights)
        np.testing.assert_allclose(state.scatter, scatter_of(Z, weights), atol=1e-11)
        again = tracker.update(state, Z, weights, ())
        np.testing.assert_allclose(again.scatter, 2 * state.scatter, atol=1e-11)
        assert again is not state


@given(shapes, st.integers(1, 8))
def test_rebase_is_the_scatter_of_the_moved_rows(shape, new):
    Z, w, rng = rows(*shape)
    tracker, state = covariance_of(Z, w)
    T = rng.normal(size=(new, Z.shape[1]))
    T /= np.linalg.norm(T, 2)  # a projection loses, it never adds
    moved, loss = tracker.rebase(state, T)
    expected = scatter_of(Z @ T.T, w)
    np.testing.assert_allclose(moved.scatter, expected, atol=1e-11)
    np.testing.assert_array_equal(moved.scatter, moved.scatter.T)
    np.testing.assert_allclose(loss, np.trace(state.scatter) - np.trace(expected), atol=1e-10)
    assert loss >= 0
    # two changes are one
    U = rng.normal(size=(3, new))
    twice, _ = tracker.rebase(moved, U)
    once, _ = tracker.rebase(state, U @ T)
    np.testing.assert_allclose(twice.scatter, once.scatter, atol=1e-9)


def test_a_rotation_loses_nothing():
    Z, _, rng = rows(0, 5, 20)
    tracker, state = covariance_of(Z)
    turned, loss = tracker.rebase(state, np.linalg.qr(rng.normal(size=(5, 5)))[0])
    assert loss < 1e-12
    before = np.linalg.eigvalsh(state.scatter)
    np.testing.assert_allclose(np.linalg.eigvalsh(turned.scatter), before, rtol=1e-10)


@given(shapes, st.integers(0, 4))
def test_padding_is_rows_with_zeros_appended(shape, more):
    Z, w, _ = rows(*shape)
    tracker, state = covariance_of(Z, w)
    wide = tracker.pad(state, Z.shape[1] + more)
    _, expected = covariance_of(np.pad(Z, ((0, 0), (0, more))), w)
    np.testing.assert_allclose(wide.scatter, expected.scatter, atol=1e-12)


@given(shapes, st.floats(0.0, 1.0))
def test_decay_is_a_smaller_weight(shape, factor):
    Z, w, _ = rows(*shape)
    tracker, state = covariance_of(Z, w)
    _, expected = covariance_of(Z, factor * w)
    np.testing.assert_allclose(
        tracker.decay(state, factor).scatter, expected.scatter, rtol=1e-10, atol=1e-12
    )


@given(shapes)
def test_components_are_those_of_the_covariance_matrix(shape):
    Z, w, _ = rows(*shape)
    tracker, state = covariance_of(Z, w)
    moments = Moments(w.sum(), w @ Z)
    for center in (True, False):
        values, vectors, mean = tracker.components(state, moments, center)
        expected = w @ Z / w.sum() if center else np.zeros(Z.shape[1])
        np.testing.assert_allclose(mean, expected, atol=1e-12)
        C = scatter_of(Z - expected, w) / w.sum()
        np.testing.assert_allclose(values, np.linalg.eigvalsh(C)[::-1].clip(0), atol=1e-10)
        assert np.all(np.diff(values) <= 0)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(Z.shape[1]), atol=1e-10)
        np.testing.assert_allclose(C @ vectors, vectors * values, atol=1e-9)


def test_float32_blocks_have_float64_accumulators():
    Z = np.full((10, 2), 1.0, dtype=np.float32)
    tracker = trackers.Covariance()
    state = CovarianceState(np.full((2, 2), 1e9))
    for _ in range(100):
        state = tracker.update(state, Z, None, ())
    assert state.scatter.dtype == np.float64
    assert state.scatter[0, 0] == 1e9 + 1000  # float32 would have lost every block of 10


# -- Hebbian


def learned(rule, Z, r, start=None, weights=None):
    state = rule.begin(Z.shape[1], r, REFERENCE)
    if start is not None:
        state = HebbianState(start, 0, np.zeros(r))
    return rule.update(state, Z, weights, ())


@pytest.mark.parametrize(
    "schedule",
    [
        schedules.SearchThenConverge(0.5, 1000),
        schedules.EigenvalueAnnealed(0.1, 200),
        schedules.InverseTime(100.0),
    ],
    ids=lambda schedule: type(schedule).__name__,
)
@pytest.mark.filterwarnings("ignore:Hebbian. the step was too long:RuntimeWarning")
def test_hebbian_converges_to_the_eigenvectors(schedule):
    rng = np.random.default_rng(0)
    deviations = np.array([1.0, 0.7, 0.4, 0.1, 0.1])
    Q = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    Z = (rng.normal(size=(6000, 5)) * deviations) @ Q.T
    Z /= 3.0  # eigenvalues 0.11, 0.05 and 0.02: Σ η λ is above 10 for the last
    state = learned(trackers.Hebbian(schedule), Z, 3)
    values, vectors, _ = trackers.Hebbian(schedule).components(
        state, Moments(6000.0, Z.sum(axis=0)), True
    )
    cosines = np.abs(np.sum(vectors * Q[:, :3], axis=0))
    # noise of the rule ~ √(η/2 · …): a few degrees with the steps at the end of these schedules
    assert np.all(cosines > 0.98)
    np.testing.assert_allclose(values, (deviations[:3] / 3) ** 2, rtol=0.15)
    np.testing.assert_allclose(np.linalg.norm(state.V, axis=0), 1.0, atol=0.05)


@given(
    st.integers(0, 10_000),
    st.floats(1e-3, 1e12),
    st.sampled_from([1e-150, 1e-8, 1.0, 1e8, 1e70]),
)
def test_hebbian_never_diverges(seed, eta, scale):
    """A step that is too long is shortened to the stable length, counted and reported."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(150, 4)) * scale
    rule = trackers.Hebbian(schedules.Constant(eta))
    largest = eta * float(np.max(np.sum(Z**2, axis=1)))
    if largest > 1:
        with pytest.warns(RuntimeWarning, match="too long"):
            state = learned(rule, Z, 3)
        assert 0 < state.tamed <= 150
    else:
        state = learned(rule, Z, 3)
    assert np.all(np.isfinite(state.V))
    assert np.all(np.isfinite(state.variances))
    # η y² ≤ 1 keeps each column in the convex hull of itself and what it is drawn to
    assert np.linalg.norm(state.V, axis=0).max() < 10


def test_the_warning_comes_once():
    Z = np.random.default_rng(0).normal(size=(200, 3))
    rule = trackers.Hebbian(schedules.Constant(50.0))
    with pytest.warns(RuntimeWarning, match="too long"):
        state = learned(rule, Z, 2)
    before = state.tamed
    state = rule.update(state, Z, None, ())  # warnings are errors here: none comes
    assert state.tamed > before


def test_a_weight_scales_the_step():
    Z, w, _ = rows(3, 4, 60)
    a = learned(trackers.Hebbian(schedules.Constant(0.01)), Z, 2, weights=np.full(60, 3.0))
    b = learned(trackers.Hebbian(schedules.Constant(0.03)), Z, 2)
    np.testing.assert_allclose(a.V, b.V, rtol=1e-12)
    assert w.shape == (60,)


def test_hebbian_rebase_moves_the_components_and_reseeds_the_dead():
    rule = trackers.Hebbian()
    V = np.linalg.qr(np.random.default_rng(1).normal(size=(5, 3)))[0]
    state = HebbianState(V, 100, np.array([3.0, 2.0, 1.0]))
    T = np.linalg.qr(np.random.default_rng(2).normal(size=(5, 5)))[0]
    turned, loss = rule.rebase(state, T)
    assert loss is None
    np.testing.assert_allclose(turned.V, T @ V)
    assert turned.reseeded == 0
    # a basis without the direction of the first component
    first = V[:, 0]
    without = np.eye(5) - np.outer(first, first)
    reborn, _ = rule.rebase(state, without)
    assert reborn.reseeded == 1
    np.testing.assert_allclose(np.linalg.norm(reborn.V, axis=0), 1.0, atol=1e-12)
    np.testing.assert_allclose(reborn.V[:, 1:], V[:, 1:], atol=1e-12)
    assert set(np.unique(reborn.V[:, 0])) == {0.0, 1.0}


def test_a_component_that_waits_for_a_coordinate_gets_one_when_the_basis_grows():
    """Rank one at the start, three components asked for, then a basis of rank three."""
    rule = trackers.Hebbian()
    state = rule.begin(1, 3, REFERENCE)
    assert np.count_nonzero(np.linalg.norm(state.V, axis=0)) == 1
    T = np.array([[1.0], [0.0], [0.0]])
    grown, _ = rule.rebase(state, T)
    assert np.linalg.matrix_rank(grown.V) == 3
    lost, _ = rule.rebase(grown, np.array([[1.0, 0.0, 0.0]]))
    assert np.count_nonzero(np.linalg.norm(lost.V, axis=0) > 1e-8) == 1  # no room for the others


def test_hebbian_follows_centroids_that_gain_rank():
    """The stream starts with two different rows only; later there is plenty to learn."""
    rng = np.random.default_rng(0)
    X = np.concatenate(
        [np.repeat([[0.0, 0.0], [1.0, 0.0]], 300, axis=0), rng.normal(size=(3000, 2))]
    )
    model = StreamingKernelPCA(
        3,
        gamma=0.5,
        basis=8,
        tracker=trackers.Hebbian(schedules.SearchThenConverge(0.5, 500)),
        random_state=0,
    ).partial_fit(X)
    assert np.all(model.explained_variance_ > 1e-3)
    assert np.all(np.linalg.norm(settled_state(model).tracker.V, axis=0) > 0.1)


def test_admissions_start_components_one_by_one():
    """Rows before an admission know nothing of the new coordinate."""
    rule = trackers.Hebbian(schedules.Constant(0.1))
    Z = np.array([[1.0, 0.0], [0.9, 0.0], [0.3, 0.8], [0.5, 0.6]])
    state = rule.update(rule.begin(0, 2, REFERENCE), Z, None, admitted=(0, 2))
    V = np.zeros((2, 2))
    for t, z in enumerate(Z):
        if t == 0:
            V[0, 0] = 1.0
        if t == 2:
            V[1, 1] = 1.0
        y = V.T @ z
        V = V + 0.1 * (np.outer(z, y) - V @ np.triu(np.outer(y, y)))
    np.testing.assert_allclose(state.V, V, atol=1e-14)


# -- signs


@pytest.mark.parametrize("forgetting", [1.0, 0.99])
def test_components_keep_their_signs_along_a_stream(forgetting):
    """Scores of fixed probes never flip from query to query while a component turns slowly."""
    rng = np.random.default_rng(0)
    probes = rng.normal(size=(60, 3)) * [2.0, 1.0, 0.5]
    X = rng.normal(size=(4000, 3)) * [2.0, 1.0, 0.5]
    model = StreamingKernelPCA(
        3,
        kernel="linear",
        basis=bases.Everything(),
        tracker=trackers.Covariance(forgetting=forgetting),
        batch_size=32,
    )
    last, compared = None, 0
    for start in range(0, len(X), 100):
        turn = np.eye(3)
        angle = start / 4000 * np.pi  # half a turn of the first two axes, a few degrees a query
        turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        model.partial_fit(
            X[start : start + 100] @ turn.T if forgetting < 1 else X[start : start + 100]
        )
        scores = model.transform(probes)
        if last is not None and start >= 500:
            cosines = np.sum(scores * last, axis=0) / (
                np.linalg.norm(scores, axis=0) * np.linalg.norm(last, axis=0)
            )
            clear = np.abs(cosines) > 0.9
            assert np.all(cosines[clear] > 0)
            compared += int(np.count_nonzero(clear))
        last = scores
    assert compared > 60


def test_the_reference_for_signs_follows_the_components():
    """In a basis much larger than the number of components it is turned along, not solved anew."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 5)) * [2.0, 1.5, 1.0, 0.7, 0.5]
    model = StreamingKernelPCA(3, gamma=0.1, basis=bases.Landmarks(X[:80]), batch_size=256)
    probe, last = X[:20], None
    for start in range(0, len(X), 500):
        model.partial_fit(X[start : start + 500])
        scores = model.transform(probe)
        if last is not None:
            assert np.all(np.sum(scores * last, axis=0) > 0)
        last = scores
    state = caught_up(model._model).state
    assert state is not None and state.signs is not None
    assert state.signs.shape == (80, 3 + 8)  # more than are shown, so that the last ones are good
    _, exact, _ = model._model.parts.tracker.components(state.tracker, state.moments, True)
    cosines = np.abs(np.sum(state.signs[:, :3] * exact[:, :3], axis=0))
    assert cosines.min() > 0.99
    np.testing.assert_allclose(np.linalg.norm(state.signs, axis=0), 1.0, rtol=1e-9)


def test_signs_are_the_same_for_every_run():
    X = np.random.default_rng(1).normal(size=(300, 3)) * [3.0, 2.0, 1.0]
    a, b = (StreamingKernelPCA(3, kernel="linear", basis="everything").partial_fit(X) for _ in "ab")
    np.testing.assert_array_equal(a.dual_coef_, b.dual_coef_)
