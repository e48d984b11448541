"""Conformal p-values and limits of scores."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernelstream.estimators import ConformalScores


def test_p_values_of_errors_like_those_held_back_are_uniform():
    rng = np.random.default_rng(1)
    reference = ConformalScores.of(rng.exponential(size=999), np.ones(999))
    p = reference.p_values(rng.exponential(size=20_000))
    for level in (0.01, 0.05, 0.3):
        assert np.mean(p <= level) == pytest.approx(level, rel=0.5)
    assert p.min() >= 0.001


def test_weights_count_like_repetitions():
    errors = np.array([3.0, 1.0, 2.0, 5.0])
    counts = np.array([1, 3, 2, 2])
    repeated = ConformalScores.of(np.repeat(errors, counts), np.ones(8))
    weighted = ConformalScores.of(errors, 0.1 * counts)
    asked = np.array([0.5, 1.0, 1.5, 3.0, 4.0, 6.0])
    above = (counts * (errors >= asked[:, None])).sum(axis=1)
    np.testing.assert_allclose(repeated.p_values(asked), (above + 1) / 9)
    # Four rows of mean weight 2, so the row that is judged counts like two of the eight.
    np.testing.assert_allclose(weighted.p_values(asked), (above + 2) / 10)


@pytest.mark.parametrize("level", [0.01, 0.1])
def test_the_limit_is_where_the_p_value_reaches_the_level(level):
    errors = np.random.default_rng(2).exponential(size=1000)
    reference = ConformalScores.of(errors, np.ones(1000))
    limit = reference.limit(level)
    assert reference.p_values(np.array([np.nextafter(limit, np.inf)]))[0] <= level
    assert reference.p_values(np.array([limit]))[0] > level


def test_few_errors_give_no_limit_beyond_all_of_them():
    reference = ConformalScores.of(np.array([1.0, 4.0, 2.0]), np.ones(3))
    assert reference.limit(0.01) == pytest.approx(4.0)  # one of four would be beyond by chance
    assert reference.limit(0.6) == pytest.approx(2.0)


@pytest.mark.parametrize("n", [3, 99, 199, 1000])
def test_the_limit_without_weights_is_an_order_statistic(n):
    scores = np.random.default_rng(3).permutation(n) + 1.0
    for alpha in (0.001, 0.01, 0.05, 0.5):
        rank = min(math.ceil(round((n + 1) * (1.0 - alpha), 9)), n)
        assert ConformalScores.of(scores).limit(alpha) == rank
