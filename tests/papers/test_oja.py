"""The linear neuron: what the lecture notes state, in their order."""

from __future__ import annotations

import numpy as np
import pytest

from kernelstream.papers import oja, schedules

LAM = np.array([3.0, 1.5, 0.5])
Q = np.linalg.qr(np.random.default_rng(5).normal(size=(3, 3)))[0]
R = Q @ np.diag(LAM) @ Q.T
START = Q @ np.array([0.1, 0.7, -0.7])


def rows(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 3)) * np.sqrt(LAM) @ Q.T


def test_plain_hebb_diverges() -> None:
    path = oja.learn(oja.hebb, rows(4000, 0), START, schedules.ConstantRate(0.01))
    lengths = np.linalg.norm(path, axis=1)
    assert lengths[-1] > 1e20
    # in the mean like exp(λ₁ t), and along q₁
    grown = np.log(np.abs(path[-1] @ Q[:, 0]) / np.abs(path[0] @ Q[:, 0])) / (4000 * 0.01)
    assert grown == pytest.approx(LAM[0], rel=0.1)
    assert abs(path[-1] @ Q[:, 0]) > 0.99 * lengths[-1]


@pytest.mark.parametrize("rule", [oja.normalised, oja.oja, oja.limited(oja.oja, 1.5)])
@pytest.mark.parametrize("seed", range(3))
def test_weights_stay_bounded_and_reach_the_first_eigenvector(rule: oja.Rule, seed: int) -> None:
    X = rows(20000, seed)
    path = oja.learn(rule, X, START, schedules.SearchThenConverge(0.05, tau=200))
    w = path[-1]
    assert np.abs(path).max() < 10
    assert abs(w @ Q[:, 0]) > 0.995
    assert np.linalg.norm(w) == pytest.approx(1.0, abs=0.01)
    assert np.var(rows(20000, seed + 50) @ w) == pytest.approx(LAM[0], rel=0.03)


def test_both_signs_are_reached() -> None:
    schedule = schedules.ConstantRate(0.005)
    there = oja.learn(oja.oja, rows(5000, 1), START, schedule)[-1]
    back = oja.learn(oja.oja, rows(5000, 1), -START, schedule)[-1]
    np.testing.assert_allclose(there, -back)  # the rule is odd in w


def test_oja_is_the_normalised_rule_to_first_order() -> None:
    rng = np.random.default_rng(3)
    w = rng.normal(size=4)
    w /= np.linalg.norm(w)
    x = rng.normal(size=4)
    errors = [
        np.linalg.norm(oja.oja(w, x, eta) - oja.normalised(w, x, eta)) for eta in (1e-2, 1e-3, 1e-4)
    ]
    # the difference is O(η²): a tenth of the step, a hundredth of the difference
    assert 80 < errors[0] / errors[1] < 120
    assert 95 < errors[1] / errors[2] < 105


def test_oja_has_unit_length_as_its_only_rest() -> None:
    for length in (0.05, 3.0):
        w = oja.flow(R, length * Q[:, 0], 10.0)
        np.testing.assert_allclose(np.linalg.norm(w), 1.0, atol=1e-12)
        before = (length**2 - 1) ** 2
        for t in (0.05, 0.2, 0.5, 1.0):  # the notes' Lyapunov function (θ₁² − 1)² falls
            after = float(((oja.flow(R, length * Q[:, 0], t) @ Q[:, 0]) ** 2 - 1) ** 2)
            assert after < before
            before = after


def test_flow_solves_the_differential_equation() -> None:
    h = 1e-6
    for t in (0.0, 0.4, 2.0):
        w = oja.flow(R, START, t)
        slope = (oja.flow(R, START, t + h) - oja.flow(R, START, t - h)) / (2 * h)
        np.testing.assert_allclose(slope, R @ w - (w @ R @ w) * w, atol=1e-8)


def test_modes_of_the_flow_die_at_the_stated_rate() -> None:
    t = np.linspace(0, 4, 9)
    theta = np.array([Q.T @ oja.flow(R, START, time) for time in t])
    for k in (1, 2):
        rate = np.polyfit(t, np.log(np.abs(theta[:, k] / theta[:, 0])), 1)[0]
        assert rate == pytest.approx(-(LAM[0] - LAM[k]), rel=1e-6)


def test_the_rule_follows_the_flow_at_that_rate() -> None:
    """Small steps: the mean path over streams is the solution of the ODE at time Ση."""
    eta, n = 1e-3, 1500
    paths = np.array(
        [
            oja.learn(oja.oja, rows(n, seed), START, schedules.ConstantRate(eta))
            for seed in range(60)
        ]
    ).mean(axis=0)
    for t in (300, 700, 1500):
        np.testing.assert_allclose(paths[t], oja.flow(R, START, eta * t), atol=0.05)
    ratio = np.log(np.abs(paths @ Q[:, 1] / (paths @ Q[:, 0])))
    rate = np.polyfit(eta * np.arange(600), ratio[:600], 1)[0]
    assert rate == pytest.approx(-(LAM[0] - LAM[1]), rel=0.15)


def test_hard_limit_bounds_every_weight() -> None:
    path = oja.learn(oja.limited(oja.hebb, 2.0), rows(5000, 0), START, schedules.ConstantRate(0.02))
    assert np.abs(path).max() == 2.0
    # plain Hebb ends in a corner of the box, not at the eigenvector
    assert np.sum(np.abs(path[-1]) == 2.0) >= 2


def test_a_step_for_each_component_is_refused() -> None:
    with pytest.raises(ValueError, match="a single neuron takes a common one"):
        oja.learn(oja.oja, rows(5, 0), START, schedules.AutomaticRate())
