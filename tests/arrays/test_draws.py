"""Random numbers are a function of where they are used, not of when."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelstream.arrays.draws import evenly_spaced, generator, pick, uniforms


@given(
    seed=st.integers(0, 2**32 - 1),
    first=st.integers(0, 2**40),
    cuts=st.lists(st.integers(0, 40), max_size=6),
)
def test_rows_have_their_numbers_however_they_are_cut(
    seed: int, first: int, cuts: list[int]
) -> None:
    whole = uniforms(seed, "reservoir", first, sum(cuts))
    start, pieces = first, [np.zeros(0)]
    for count in cuts:
        pieces.append(uniforms(seed, "reservoir", start, count))
        start += count
    np.testing.assert_array_equal(np.concatenate(pieces), whole)
    assert np.all((whole > 0) & (whole < 1))


def test_numbers_are_uniform_and_differ() -> None:
    numbers = uniforms(0, "reservoir", 0, 100_000)
    assert len(np.unique(numbers)) == 100_000
    # a Kolmogorov–Smirnov distance above 2/√n has probability 7e-4
    distance = np.abs(np.sort(numbers) - np.arange(100_000) / 100_000).max()
    assert distance < 2 / np.sqrt(100_000)
    for seed, purpose in ((1, "reservoir"), (0, "order")):
        other = uniforms(seed, purpose, 0, 100_000)
        assert abs(np.corrcoef(numbers, other)[0, 1]) < 0.02


def test_generators_are_their_purpose_and_place() -> None:
    def draw(*place: object) -> float:
        return float(generator(*place).random())  # type: ignore[arg-type]

    assert draw(1, "start") == draw(1, "start")
    others = {draw(1, "start"), draw(2, "start"), draw(1, "order"), draw(1, "start", 1)}
    assert len(others) == 4


def test_pick_draws_in_proportion() -> None:
    weights = np.array([0.0, 1.0, 2.0, 7.0])
    counts = np.zeros(4)
    for i in range(4000):
        (chosen,) = pick(np.random.default_rng(i), weights, 1)
        counts[chosen] += 1
    assert counts[0] == 0
    # three standard deviations of a share of 0.7 in 4,000 draws are 0.022
    np.testing.assert_allclose(counts / 4000, weights / 10, atol=0.025)


@pytest.mark.parametrize(("count", "expected"), [(0, 0), (1, 1), (3, 3), (4, 3), (9, 3)])
def test_pick_returns_different_indices_that_have_weight(count: int, expected: int) -> None:
    weights = np.array([1.0, 0.0, 1e-300, 1e300, 0.0])
    for seed in range(20):
        chosen = pick(np.random.default_rng(seed), weights, count)
        assert len(chosen) == len(set(chosen)) == expected
        assert set(chosen) <= {0, 2, 3}
        assert np.all(np.diff(chosen) > 0)


def test_a_weight_of_rounding_size_does_not_change_the_other_draws() -> None:
    weights = np.random.default_rng(0).random(50)
    weights[10] = 0.0
    nearly = weights.copy()
    nearly[10] = 1e-300
    for seed in range(20):
        first, second = (pick(np.random.default_rng(seed), w, 8) for w in (weights, nearly))
        np.testing.assert_array_equal(first, second)


def test_evenly_spaced_rows_have_both_ends_and_no_row_twice() -> None:
    assert evenly_spaced(0, 4).tolist() == [] and evenly_spaced(1, 4).tolist() == [0]
    assert evenly_spaced(5, 9).tolist() == evenly_spaced(5, 5).tolist() == [0, 1, 2, 3, 4]
    assert evenly_spaced(9, 3).tolist() == [0, 4, 8]
    assert evenly_spaced(8, 3).tolist() == [0, 3, 7]
    assert evenly_spaced(9, 4, nearest=True).tolist() == [0, 3, 5, 8]


@given(n=st.integers(2, 5000), most=st.integers(2, 600), nearest=st.booleans())
def test_evenly_spaced_rows_are_in_order(n: int, most: int, nearest: bool) -> None:
    rows = evenly_spaced(n, most, nearest=nearest)
    assert len(rows) == min(n, most) and rows[0] == 0 and rows[-1] == n - 1
    assert np.all(np.diff(rows) > 0) and np.ptp(np.diff(rows)) <= 2
