"""Limits that hold with a stated confidence, and the best subspace among unknown ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernelstream.certificates import betting
from kernelstream.certificates.betting import (
    bisected,
    deviation,
    least_ratio,
    mean_limits,
    ratio_limits,
)
from tests import samples

LEVEL = 4.0  # wrong in at most 1.8 % of cases, each


@pytest.mark.parametrize("kind", ["uniform", "skewed", "rare", "constant"])
def test_limits_hold_as_often_as_they_say_and_are_narrow(kind: str) -> None:
    rng = np.random.default_rng(0)
    draw, mean, deviation_of = {
        "uniform": (lambda: rng.random(400), 0.5, 0.29),
        "skewed": (lambda: rng.random(400) ** 4, 0.2, 0.27),
        "rare": (lambda: (rng.random(400) < 0.02).astype(float), 0.02, 0.14),
        "constant": (lambda: np.full(400, 0.3), 0.3, 0.0),
    }[kind]
    outside, widths = 0, []
    for _ in range(200):
        low, high = mean_limits(draw(), 1.0, LEVEL)
        outside += not low <= mean <= high
        widths.append(high - low)
    assert outside <= 12  # 3.6 % of 200 are 7.3, and the limits are on the safe side
    # twice what the central limit theorem would say, and what 400 draws cannot have seen
    assert np.median(widths) < 2 * 2 * deviation_of * np.sqrt(2 * LEVEL / 400) + 4 * LEVEL / 400


def test_limits_of_a_ratio_know_what_numerator_and_denominator_share() -> None:
    rng = np.random.default_rng(1)
    b = rng.random(1000) + 0.01
    low, high = ratio_limits(0.3 * b, b, 1.01, LEVEL)
    assert low <= 0.3 <= high
    assert high - low < 0.03  # b alone is known to 8 % only


def test_limits_of_nothing_are_all_that_is_possible() -> None:
    assert ratio_limits(np.zeros(0), np.zeros(0), 1.0, LEVEL) == (0.0, 1.0)
    assert ratio_limits(np.zeros(40), np.zeros(40), 0.0, LEVEL) == (0.0, 1.0)
    assert mean_limits(np.zeros(3), 2.0, 100.0) == (0.0, 2.0)
    assert mean_limits(np.zeros(3), 0.0, LEVEL) == (0.0, 0.0)
    low, high = mean_limits(np.zeros(1000), 2.0, LEVEL)
    assert low == 0.0 and 0.0 < high < 0.02


def test_the_best_subspace_of_draws_that_say_nothing() -> None:
    """No energy in front, no residual in front, no bound, none at all: warnings are errors."""
    f, b = np.full(200, 0.3), np.ones(200)
    quiet = np.r_[np.zeros(20), np.ones(180)]  # no energy in front
    assert 0.0 < least_ratio(54.0, f * quiet, b * quiet, 20, 1.0, LEVEL) < 0.3
    assert least_ratio(54.0, f * quiet, b, 20, 1.0, LEVEL) == 0.0  # no residual in front
    assert least_ratio(0.0, 0.0 * f, 0.0 * b, 20, 0.0, LEVEL) == 0.0
    assert least_ratio(0.0, f[:20], b[:20], 20, 1.0, LEVEL) == 0.0
    # all of it residual: without variance in front
    assert 0.9 < least_ratio(180.0, b, b, 20, 1.0, LEVEL) < 1.0
    assert 0.0 < least_ratio(200.0, b, b, 0, 1.0, LEVEL) < 1.0


def test_limits_hold_where_the_first_draws_mislead() -> None:
    """The ratio is looked for near that of a few draws in front, and is not there."""
    x = np.concatenate([np.full(40, 0.01), np.full(600, 0.5)])
    assert mean_limits(x, 1.0, LEVEL)[1] > 0.4
    x = np.concatenate([np.full(40, 0.9), np.full(600, 0.05)])
    low, high = mean_limits(x, 1.0, LEVEL)
    assert low <= 0.05 <= high


def test_the_best_subspace_is_not_better_than_the_limit_says() -> None:
    """One of several directions is the best over all rows; on the draws others may look better."""
    rng = np.random.default_rng(2)
    shares = np.array([0.30, 0.29, 0.28, 0.13])  # of the energy, by direction
    wrong, distances = 0, []
    for _ in range(40):
        energy = rng.random(500)
        g = energy[:, None] * rng.dirichlet(20 * shares, size=500)
        best = 0.5 * shares[0] / 0.5
        first = 500 // 16
        total = float((energy[first:, None] - g[first:]).sum(axis=0).min())
        left = least_ratio(total, energy - g[:, 0], energy, first, 1.0, LEVEL)
        wrong += left > 1.0 - best
        distances.append(1.0 - best - left)
    assert wrong <= 3
    assert np.median(distances) < 0.12


def test_bisection_ends_on_the_safe_side() -> None:
    low, high = bisected(lambda c: c < 0.3, 0.0, 1.0)
    assert low < 0.3 <= high and high - low < 1e-12
    assert bisected(lambda c: True, 0.0, 1.0) == (1.0, 1.0)
    assert bisected(lambda c: False, 0.0, 1.0) == (0.0, 0.0)


def test_means_deviate_no_more_than_bernstein_says() -> None:
    rng = np.random.default_rng(3)
    means = rng.random((2000, 100)).mean(axis=1)
    assert np.mean(0.5 - means > deviation(1 / 12, 0.5, 100, LEVEL)) <= np.exp(-LEVEL)
    assert deviation(1 / 12, 0.5, 100, LEVEL) < 0.1


def capital(stakes: list[float], returns: list[float]) -> float:
    """The largest on the way, as a logarithm."""
    so_far, largest = 0.0, 0.0
    for stake, won in zip(stakes, returns, strict=True):
        so_far += math.log(1.0 + stake * won)
        largest = max(largest, so_far)
    return largest


def limits_one_by_one(
    f: np.ndarray, b: np.ndarray, bound: float, level: float
) -> tuple[float, float]:
    """The definition, draw by draw."""
    n, first = len(f), len(f) // 16
    guess = f[:first].sum() / b[:first].sum() if first else 0.0
    least, most = guess / 2.0, min(1.0, 2.0 * guess) if guess > 0 else 1.0
    stakes = []
    for t in range(n):
        earlier = slice(0, t)
        c = f[earlier].sum() / b[earlier].sum() if t else 0.0
        variance = (bound**2 / 4.0 + ((f - c * b)[earlier] ** 2).sum()) / (t + 1)
        stakes.append(math.sqrt(2.0 * level / (n * variance)))
    above = [min(stake, 0.9 / ((1.0 - least) * bound)) for stake in stakes[first:]]
    below = [min(stake, 0.9 / (most * bound)) for stake in stakes[first:]]
    f, b = f[first:], b[first:]

    def excluded(c: float, up: bool) -> bool:
        if up:
            return capital(above, list(c * b - f)) >= level
        return capital(below, list(f - c * b)) >= level

    return (
        bisected(lambda c: excluded(c, False), 0.0, most)[0],
        bisected(lambda c: not excluded(c, True), least, 1.0)[1],
    )


@samples.grid("level, share, bound", [0.5, LEVEL, 20.0], [0.02, 0.4, 0.9], [0.3, 5.0])
def test_limits_are_those_of_bets_placed_one_by_one(
    level: float, share: float, bound: float
) -> None:
    rng = np.random.default_rng(4)
    b = bound * rng.random(64)
    f = b * np.clip(rng.normal(share, 0.05, size=64), 0.0, 1.0)
    found, expected = ratio_limits(f, b, bound, level), limits_one_by_one(f, b, bound, level)
    assert found == pytest.approx(expected, abs=1e-9)
    f[:4] = 0.0  # draws in front that know nothing of it
    for n in (64, 10):  # or none in front
        found = ratio_limits(f[:n], b[:n], bound, level)
        expected = limits_one_by_one(f[:n], b[:n], bound, level)
        assert found == pytest.approx(expected, abs=1e-9)


def test_limits_of_a_mean_are_in_its_units() -> None:
    x = np.random.default_rng(5).random(300)
    low, high = mean_limits(x, 1.0, LEVEL)
    assert mean_limits(5.0 * x, 5.0, LEVEL) == pytest.approx((5.0 * low, 5.0 * high))
    assert (low, high) == ratio_limits(x, np.ones(300), 1.0, LEVEL)


@pytest.mark.parametrize("first", [0, 20])
@pytest.mark.parametrize("bound", [0.5, 2.0])
def test_the_limit_of_the_best_subspace_is_where_the_chords_are(first: int, bound: float) -> None:
    """One θ after the other, and one ratio after the other."""
    rng = np.random.default_rng(6)
    b = bound * rng.random(200)
    f = b * rng.uniform(0.2, 0.5, size=200)
    total = 0.9 * float(f[first:].sum())
    most = min(1.0, 2.0 * f[:first].sum() / b[:first].sum()) if first else 1.0
    variance = np.mean(f[:first] * (b - f)[:first]) if first else bound**2 / 4.0
    stake = min(0.9 / (most * bound), math.sqrt(2.0 * LEVEL / ((200 - first) * variance)))
    rest = b[first:]

    def excluded(c: float) -> bool:
        lost, won = -np.log(1.0 - stake * c * rest), np.log(1.0 + stake * (1.0 - c) * rest)
        thetas = np.linspace(0.0, 4.0 * stake, 4001)
        return any(t * total - np.maximum(lost, t * rest - won).sum() >= LEVEL for t in thetas)

    found = least_ratio(total, f, b, first, bound, LEVEL)
    assert 0.0 < found < 0.5
    assert excluded(found - 1e-4) and not excluded(found + 1e-4)


def test_limits_that_are_not_exact_are_on_the_safe_side(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    f, b = 0.4 * rng.random(64), np.ones(64)
    low, high = ratio_limits(f, b, 1.0, LEVEL)
    least = least_ratio(12.0, f, b, 4, 1.0, LEVEL)
    monkeypatch.setattr(betting, "STEPS", 4)
    coarse = ratio_limits(f, b, 1.0, LEVEL)
    assert coarse[0] < low < high < coarse[1]
    assert 0.0 <= least_ratio(12.0, f, b, 4, 1.0, LEVEL) <= least
