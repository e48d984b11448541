"""SubKHA, LMS and RLS in R^m against a slow twin: every number of the state, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelstream import landmarks, papers
from kernelstream.papers import schedules
from kernelstream.papers.tanaka_2012.rls import RLSState
from kernelstream.trackers import Moments
from tests import samples
from tests.naive.trackers import Tanaka
from tests.trackers.test_covariance import REFERENCE

CONSTANT, FALLING = schedules.ConstantRate(0.03), schedules.SearchThenConverge(0.05, 30)


def rule_and_twin(
    method: str,
    r: int = 3,
    forgetting: float = 1.0,
    schedule: schedules.Schedule = CONSTANT,
    omega: Any = None,
) -> tuple[Any, Tanaka]:
    given: dict[str, Any] = dict(weights=omega, forgetting=forgetting)
    rules = {"lms": papers.LMS, "subset_hebbian": papers.SubsetHebbian}
    rule = papers.RLS(**given) if method == "rls" else rules[method](schedule, **given)
    weights = np.linspace(1.0, 0.5, r) if omega is None else np.array(omega)
    return rule, Tanaka(method, weights, schedule, forgetting)


def updated(rule: Any, state: Any, Z: np.ndarray, weights: Any = None, points: Any = None) -> Any:
    return rule.update(state, Z, weights, (), np.eye(Z.shape[1]) if points is None else points)


def assert_same(state: Any, twin: Tanaka) -> None:
    np.testing.assert_allclose(state.V, twin.V, rtol=0, atol=1e-11)
    np.testing.assert_allclose(state.variances, twin.variances, rtol=1e-9, atol=1e-12)
    assert (state.time, state.n_shortened, state.reseeded) == (twin.time, twin.n_shortened, 0)
    if isinstance(state, RLSState):
        np.testing.assert_allclose(state.Q, twin.Q, rtol=1e-8, atol=1e-8 * np.abs(twin.Q).max())
        assert state.ceiling == pytest.approx(twin.ceiling, rel=1e-14)


METHODS = ["subset_hebbian", "lms", "rls"]


@samples.grid("weighted, forgetting, method", [False, True], [1.0, 0.9], METHODS)
def test_every_row_is_that_of_the_twin(method: str, forgetting: float, weighted: bool) -> None:
    """Nothing, twice the same and a combination come first: they start no component."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(150, 5)) * [0.5, 0.4, 0.3, 0.2, 0.1]
    Z[0], Z[2], Z[4] = 0.0, 2.0 * Z[1], Z[1] - 3.0 * Z[3]
    w = rng.uniform(0.2, 2.0, size=150) if weighted else np.ones(150)
    points = rng.normal(size=(6, 5)) * 0.5
    rule, twin = rule_and_twin(method, 3, forgetting, FALLING)
    state = rule.begin(5, 3, REFERENCE)
    for start, stop in ((0, 3), (3, 4), (4, 100), (100, 150)):
        weights = w[start:stop] if weighted else None
        state = updated(rule, state, Z[start:stop], weights, points)
        for z, weight in zip(Z[start:stop], w[start:stop], strict=True):
            twin.row(z, weight, points if method == "lms" else None)
        assert_same(state, twin)
    assert state.time == 150 - 4


@pytest.mark.parametrize("method", METHODS)
def test_given_weights_and_one_component(method: str) -> None:
    Z = np.random.default_rng(1).normal(size=(90, 3))
    for omega in ([0.7], [2.0, 2.0, 0.3]):
        rule, twin = rule_and_twin(method, omega=omega, forgetting=0.95)
        rule.check()
        state = updated(rule, rule.begin(3, len(omega), REFERENCE), Z)
        for z in Z:
            twin.row(z)
        assert_same(state, twin)


@pytest.mark.parametrize("method", ["subset_hebbian", "lms"])
@pytest.mark.parametrize("eta", [0.3, 40.0])
def test_steps_that_are_too_long_are_those_of_the_twin(method: str, eta: float) -> None:
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(150, 4))
    rule, twin = rule_and_twin(method, 2, schedule=schedules.ConstantRate(eta))
    for z in Z:
        twin.row(z)
    with pytest.warns(RuntimeWarning, match="too long") as caught:
        state = updated(rule, rule.begin(4, 2, REFERENCE), Z)
    assert_same(state, twin)
    assert len(caught) == 1 and 0 < state.n_shortened <= 148
    assert (state.n_shortened == 148) == (eta > 1.0)
    state = updated(rule, state, Z)  # warnings are errors here: none comes
    for z in Z:
        twin.row(z)
    assert_same(state, twin)


@pytest.mark.parametrize("method", ["subset_hebbian", "lms"])
def test_a_step_of_just_the_stable_length_is_no_long_one(method: str) -> None:
    """ω₁ |z|² and |c|² are 4 here: 1/4 is as long as a step may be."""
    Z = np.array([[2.0, 0.0]] * 4)
    for eta, shortened in ((0.25, 0), (np.nextafter(0.25, 1.0), 3)):
        rule = rule_and_twin(method, 1, schedule=schedules.ConstantRate(eta), omega=[1.0])[0]
        if shortened:
            with pytest.warns(RuntimeWarning, match="too long"):
                state = updated(rule, rule.begin(2, 1, REFERENCE), Z)
        else:
            state = updated(rule, rule.begin(2, 1, REFERENCE), Z)
        assert state.n_shortened == shortened


@pytest.mark.parametrize("method", METHODS)
def test_more_components_than_dimensions_wait_until_there_are_more(method: str) -> None:
    """Coordinates are appended: a row outside the span of what has learned starts the next one."""
    rng = np.random.default_rng(3)
    rule, twin = rule_and_twin(method, 3, 0.97)
    state = rule.begin(1, 3, REFERENCE)
    for rank in (1, 2, 4):
        state = rule.pad(state, rank)
        assert state.V.shape == (rank, 3)
        Z = rng.normal(size=(70, rank))
        state = updated(rule, state, Z)
        for z in Z:
            twin.row(z)
        assert_same(state, twin)
        assert np.count_nonzero(np.linalg.norm(state.V, axis=0)) == min(rank, 3)


def test_the_metric_of_lms_grows_with_the_points_that_are_admitted() -> None:
    """Points are those at the end of the block; those of a row count from that row on."""
    rng = np.random.default_rng(4)
    rule, twin = rule_and_twin("lms", 2)
    first, admitted = rng.normal(size=(3, 3)), (0, 5, 6, 19)
    points = np.zeros((7, 7))
    points[:3, :3] = first
    points[3:] = np.tril(rng.normal(size=(4, 7)), k=3)
    Z = np.zeros((20, 7))
    for i in range(20):
        known = 3 + sum(a <= i for a in admitted)
        Z[i, :known] = rng.normal(size=known) * 0.4
    state = rule.update(rule.begin(3, 2, REFERENCE), Z, None, admitted, points)
    for i, z in enumerate(Z):
        twin.row(z, 1.0, points[: 3 + sum(a <= i for a in admitted)])
    assert_same(state, twin)


@pytest.mark.parametrize("method", METHODS)
def test_components_have_unit_length_and_descend(method: str) -> None:
    rng = np.random.default_rng(5)
    rule, _ = rule_and_twin(method, 3, forgetting=0.98)
    Z = rng.normal(size=(200, 4)) * [0.3, 1.0, 0.1, 0.6]
    state = updated(rule, rule.begin(4, 3, REFERENCE), Z)
    moments = Moments(200.0, Z.sum(axis=0))
    lengths = np.linalg.norm(state.V, axis=0)
    order = np.argsort(-state.variances / lengths**2)
    for center in (True, False):
        values, vectors, mean = rule.components(state, moments, center)
        np.testing.assert_allclose(values, (state.variances / lengths**2)[order], rtol=1e-12)
        np.testing.assert_allclose(vectors, (state.V / lengths)[:, order], rtol=1e-12)
        np.testing.assert_allclose(mean, Z.mean(axis=0) if center else np.zeros(4), rtol=1e-12)
        assert np.all(np.diff(values) < 0)
    assert rule.decay(state, 0.5) is state
    with pytest.raises(ValueError, match=r"cannot be merged; use trackers\.Covariance"):
        rule.merge(state, state)


@pytest.mark.parametrize("method", METHODS)
def test_a_component_is_dead_at_a_hundred_millionth_of_its_length(method: str) -> None:
    rule, _ = rule_and_twin(method, 2)
    state = updated(rule, rule.begin(3, 2, REFERENCE), np.eye(3)[:2] * 4.0)
    for share, dead in ((0.9e-8, 1), (1.1e-8, 0)):
        moved, loss = rule.rebase(state, np.diag([share, 1.0, 1.0]))
        assert loss is None and moved.reseeded == dead
        assert bool(np.any(moved.V[:, 0])) == (not dead)
        np.testing.assert_array_equal(moved.V[:, 1], state.V[:, 1])
        again, _ = rule.rebase(moved, np.diag([1.0, share, 1.0]))
        assert again.reseeded == 2 * dead


@pytest.mark.parametrize("learned", [0, 1])
@pytest.mark.parametrize("method", METHODS)
def test_a_row_is_new_from_a_share_of_its_energy_on(method: str, learned: int) -> None:
    """1e-10 of it outside the span of the others; rounding is 1e-16."""
    rule, _ = rule_and_twin(method, 2)
    first = np.array([[2.0, 0.0]])
    state = updated(rule, rule.begin(2, 2, REFERENCE), np.repeat(first, 1 + learned, axis=0))
    assert state.time == learned
    for outside, new in ((0.9e-5, False), (1.1e-5, True)):
        after = updated(rule, state, np.array([[3.0, 3.0 * outside]]))
        assert after.time == learned + (not new)
        assert bool(np.any(after.V[:, 1])) == new


BAD_WEIGHTS = [[], [[1.0]], [1.0, 0.0], [1.0, np.nan], [np.inf, 1.0], [1.0, -1.0]]


@pytest.mark.parametrize("method", METHODS)
def test_what_weights_may_be(method: str) -> None:
    name = type(rule_and_twin(method)[0]).__name__
    for weights in BAD_WEIGHTS:
        with pytest.raises(ValueError, match=f"{name}: weights must be positive numbers, one for"):
            rule_and_twin(method, omega=weights)[0].check()
    with pytest.raises(ValueError, match=f"{name}: .* the first component's the largest"):
        rule_and_twin(method, omega=[1.0, 1.1])[0].check()
    rule = rule_and_twin(method, omega=[1.0, 1.0])[0]
    rule.check()
    rule.suits(landmarks.Everything(), 2)
    for r in (1, 3):
        with pytest.raises(ValueError, match=f"{name}: 2 weights were given for {r} components"):
            rule.suits(landmarks.Everything(), r)


def test_what_diverges_is_an_error() -> None:
    rule = papers.RLS()
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="RLS: the components have div"):
        updated(rule, rule.begin(2, 1, REFERENCE), np.array([[1.0, 0.0], [np.inf, 1.0]]))
