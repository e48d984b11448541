"""Sanger's rule in R^m: no kernel, no basis, only rows z."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelstream import StreamingKernelPCA, papers
from kernelstream.papers import schedules
from kernelstream.papers.sequential import SequentialState
from kernelstream.trackers import Moments
from tests.conftest import settled_state
from tests.naive.hebbian import Steps, gha
from tests.trackers.test_covariance import REFERENCE, rows


def learned(rule, Z, r, start=None, weights=None):
    state = rule.begin(Z.shape[1], r, REFERENCE)
    if start is not None:
        state = SequentialState(start, 0, np.zeros(r))
    return rule.update(state, Z, weights, ())


@pytest.mark.parametrize(
    "schedule",
    [
        schedules.SearchThenConverge(0.5, 1000),
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
    state = learned(papers.Hebbian(schedule), Z, 3)
    values, vectors, _ = papers.Hebbian(schedule).components(
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
    rule = papers.Hebbian(schedules.ConstantRate(eta))
    largest = eta * float(np.max(np.sum(Z**2, axis=1)))
    if largest > 1:
        with pytest.warns(RuntimeWarning, match="too long"):
            state = learned(rule, Z, 3)
        assert 0 < state.n_shortened <= 150
    else:
        state = learned(rule, Z, 3)
    assert np.all(np.isfinite(state.V))
    assert np.all(np.isfinite(state.variances))
    # η y² ≤ 1 keeps each column in the convex hull of itself and what it is drawn to
    assert np.linalg.norm(state.V, axis=0).max() < 10


def test_the_warning_comes_once():
    Z = np.random.default_rng(0).normal(size=(200, 3))
    rule = papers.Hebbian(schedules.ConstantRate(50.0))
    with pytest.warns(RuntimeWarning, match="too long"):
        state = learned(rule, Z, 2)
    before = state.n_shortened
    state = rule.update(state, Z, None, ())  # warnings are errors here: none comes
    assert state.n_shortened > before


def test_a_weight_scales_the_step():
    Z, w, _ = rows(3, 4, 60)
    a = learned(papers.Hebbian(schedules.ConstantRate(0.01)), Z, 2, weights=np.full(60, 3.0))
    b = learned(papers.Hebbian(schedules.ConstantRate(0.03)), Z, 2)
    np.testing.assert_allclose(a.V, b.V, rtol=1e-12)
    assert w.shape == (60,)


def test_hebbian_rebase_moves_the_components_and_reseeds_the_dead():
    rule = papers.Hebbian()
    V = np.linalg.qr(np.random.default_rng(1).normal(size=(5, 3)))[0]
    state = SequentialState(V, 100, np.array([3.0, 2.0, 1.0]))
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
    rule = papers.Hebbian()
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
        tracker=papers.Hebbian(schedules.SearchThenConverge(0.5, 500)),
        random_state=0,
    ).partial_fit(X)
    assert np.all(model.explained_variance_ > 1e-3)
    assert np.all(np.linalg.norm(settled_state(model).tracker.V, axis=0) > 0.1)


def test_admissions_start_components_one_by_one():
    """Rows before an admission know nothing of the new coordinate."""
    rule = papers.Hebbian(schedules.ConstantRate(0.1))
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


SCHEDULES = {
    "constant": schedules.ConstantRate(0.03),
    "too long": schedules.ConstantRate(0.4),
    "falling": schedules.SearchThenConverge(0.1, 50),
    "automatic": schedules.AutomaticRate(),
}


@pytest.mark.filterwarnings("ignore:Hebbian. the step was too long:RuntimeWarning")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", SCHEDULES)
def test_every_number_is_that_of_the_twin(name, weighted):
    """Over several compiled passes, cut anywhere; a row without energy moves nothing."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(150, 4)) * [0.9, 0.7, 0.5, 0.1]
    Z[70] = 0.0
    w = rng.uniform(0.3, 2.0, size=150) if weighted else np.ones(150)
    rule, steps = papers.Hebbian(SCHEDULES[name]), Steps(SCHEDULES[name], 3)
    state, V, shortened = rule.begin(4, 3, REFERENCE), np.eye(3, 4), 0
    for start, stop in ((0, 1), (1, 100), (100, 150)):
        state = rule.update(state, Z[start:stop], w[start:stop] if weighted else None, ())
        for z, weight in zip(Z[start:stop], w[start:stop], strict=True):
            y = V @ z
            eta = steps(y, float(z @ z), weight)
            asked = weight * float(SCHEDULES[name].steps(steps.time, 1)[0])
            relative = SCHEDULES[name].relative
            shortened += bool(z.any() and not relative and np.any(eta < asked))
            V = V + eta[:, None] * (np.outer(y, z) - np.tril(np.outer(y, y)) @ V)
        np.testing.assert_allclose(state.V, V.T, rtol=0, atol=1e-12)
        np.testing.assert_allclose(state.variances, steps.variances, rtol=1e-10, atol=1e-15)
        assert (state.time, state.n_shortened, state.reseeded) == (stop, shortened, 0)
    assert (state.n_shortened > 0) == (name == "too long")


def test_steps_of_a_component_without_variance():
    """A first row at the second coordinate: the variance of the first component is zero."""
    Z = np.array([[0.0, 0.5, 0.0], [0.2, 0.5, 0.1]])
    steps = Steps(schedules.AutomaticRate(), 2)
    state = learned(papers.Hebbian(), Z, 2)
    np.testing.assert_allclose(state.V.T, gha(np.eye(2, 3), Z, steps), atol=1e-14)
    np.testing.assert_allclose(state.variances, steps.variances, atol=1e-16)
    # and rows of no energy at all before any other
    state = learned(papers.Hebbian(), np.zeros((3, 3)), 2)
    np.testing.assert_array_equal(state.V, np.eye(3, 2))
    assert not state.variances.any() and state.time == 3


def test_a_component_is_dead_below_a_hundred_millionth():
    rule = papers.Hebbian()
    state = SequentialState(np.eye(3)[:, :2], 9, np.ones(2), n_shortened=4, reseeded=1)
    for length, dead in ((0.9e-8, 1), (1.1e-8, 0)):
        moved, _ = rule.rebase(state, np.diag([length, 1.0, 1.0]))
        assert moved.reseeded == 1 + dead and moved.n_shortened == 4 and moved.time == 9
        np.testing.assert_array_equal(moved.V[:, 0], [0.0, 0.0, 1.0] if dead else [length, 0, 0])
        np.testing.assert_array_equal(moved.V[:, 1], [0.0, 1.0, 0.0])


def test_a_spread_start_is_orthonormal_and_leaves_no_coordinate_out():
    rule = papers.Hebbian(spread=True)
    for rank, r in ((5, 3), (2, 4), (0, 2)):
        V = rule.begin(rank, r, REFERENCE).V
        n = min(rank, r)
        np.testing.assert_allclose(V[:, :n].T @ V[:, :n], np.eye(n), atol=1e-14)
        assert V.shape == (rank, r) and np.all(np.abs(V[:, :n]) > 1e-3) and not V[:, n:].any()
    angles = np.pi / 5 * np.outer(np.arange(5) + 0.5, np.arange(2) + 0.5)
    np.testing.assert_allclose(rule.begin(5, 2, REFERENCE).V, np.sqrt(0.4) * np.cos(angles))


def test_components_descend():
    rule = papers.Hebbian()
    V = np.array([[2.0, 0.0, 0.0], [0.0, 0.0, 0.5]])
    state = SequentialState(V, 5, np.array([1.0, 0.0, 3.0]))
    moments = Moments(4.0, np.array([4.0, 8.0]))
    for center in (True, False):
        values, vectors, mean = rule.components(state, moments, center)
        np.testing.assert_array_equal(values, [3.0, 1.0, 0.0])
        np.testing.assert_array_equal(vectors, [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
        np.testing.assert_array_equal(mean, [1.0, 2.0] if center else [0.0, 0.0])
    assert rule.decay(state, 0.5) is state


@pytest.mark.parametrize("rule", [papers.Hebbian, papers.RecentredHebbian])
def test_the_bare_rule_needs_steps_of_its_own(rule):
    with pytest.raises(ValueError, match="guard=False runs the bare rule"):
        rule(guard=False).check()
    rule(0.01, guard=False).check()
    rule(guard=True).check()
