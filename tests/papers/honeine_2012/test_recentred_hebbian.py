"""Sanger's rule with functions that move with the mean, row by row as the formulas say it."""

from __future__ import annotations

import numpy as np
import pytest

from kernelstream import papers
from kernelstream.papers import schedules
from kernelstream.papers.honeine_2012.recentred_hebbian import RecentredState, coefficient_sums
from tests.trackers.test_covariance import REFERENCE

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(150, 4)) * [1.0, 0.8, 0.5, 0.2]
POINTS = RNG.normal(size=(6, 4))


def rule() -> papers.RecentredHebbian:
    return papers.RecentredHebbian(schedules.SearchThenConverge(0.05, 100.0), guard=False)


def begun(rank: int = 4, r: int = 2) -> RecentredState:
    return rule().begin(rank, r, REFERENCE)


@pytest.mark.parametrize("weighted", [False, True])
def test_every_row_is_that_of_the_formulas(weighted: bool) -> None:
    w = RNG.uniform(0.5, 2.0, size=150) if weighted else np.ones(150)
    found = rule().update(begun(), Z, w if weighted else None, (), POINTS)
    f = coefficient_sums(POINTS)
    V, s, mean, weight = np.eye(4)[:, :2], f[:2].copy(), np.zeros(4), 0.0
    for t, (z, own) in enumerate(zip(Z, w, strict=True)):
        weight += own
        mean = mean + (z - mean) * own / weight
        y = (V - np.outer(mean, s)).T @ (z - mean)
        eta = own * 0.05 / (1.0 + (t + 1) / 100.0)
        upper = np.triu(np.outer(y, y))
        V = V + eta * (np.outer(z, y) - V @ upper)
        s = s + eta * (f @ z * y - upper.T @ s)
    np.testing.assert_allclose(found.V, V, atol=1e-12)
    np.testing.assert_allclose(found.sums, s, atol=1e-12)
    np.testing.assert_allclose(found.mean, mean, atol=1e-12)
    assert found.weight == pytest.approx(w.sum()) and found.time == 150
    np.testing.assert_allclose(rule().raw(found, mean), V - np.outer(mean, s), atol=1e-12)


def test_it_does_not_matter_how_rows_are_cut() -> None:
    whole, cut = rule().update(begun(), Z, None, (), POINTS), begun()
    for piece in np.split(Z, [1, 70, 71]):
        cut = rule().update(cut, piece, None, (), POINTS)
    assert np.all(whole.variances > 0.0)
    for name in ("V", "sums", "mean", "variances"):
        np.testing.assert_allclose(getattr(cut, name), getattr(whole, name), atol=1e-12)


def test_before_the_first_row_components_are_coordinates() -> None:
    state = begun()
    np.testing.assert_array_equal(rule().raw(state, np.ones(4)), np.eye(4)[:, :2])
    assert state.sums.shape == (2,) and state.mean.shape == (4,)


def test_a_change_of_basis_carries_components_and_mean() -> None:
    state = rule().update(begun(), Z, None, (), POINTS)
    T = np.linalg.qr(RNG.normal(size=(4, 4)))[0]
    moved, _ = rule().rebase(state, T)
    np.testing.assert_allclose(moved.mean, T @ state.mean, atol=1e-12)
    np.testing.assert_array_equal(moved.sums, state.sums)
    np.testing.assert_allclose(
        rule().raw(moved, T @ state.mean), T @ rule().raw(state, state.mean), atol=1e-12
    )


def test_new_coordinates_know_nothing_of_the_rows_before() -> None:
    state = rule().update(begun(), Z, None, (), POINTS)
    wide = rule().pad(state, 6)
    np.testing.assert_array_equal(wide.mean, np.r_[state.mean, 0.0, 0.0])
    np.testing.assert_array_equal(wide.V, np.r_[state.V, np.zeros((2, 2))])


@pytest.mark.parametrize("m", [4, 6])
def test_sums_of_the_coefficients_of_a_coordinate(m: int) -> None:
    """Whether there are as many points as coordinates, or some depend on others."""
    points = POINTS[:m]
    np.testing.assert_allclose(
        coefficient_sums(points), np.linalg.lstsq(points, np.ones(m), rcond=None)[0], atol=1e-12
    )


def test_components_start_with_coordinates_that_join() -> None:
    """Of a basis that grows: with the sums of the coefficients of the new coordinate."""
    state = begun(rank=1, r=2)
    state = rule().update(
        state, np.pad(Z[:5, :2], ((0, 0), (0, 2))) * [1, 0, 0, 0], None, (), POINTS
    )
    assert not state.V[:, 1].any() and state.sums[1] == 0.0
    grown = begun(rank=1)
    # the second coordinate is there from the first row on
    grown = rule().update(grown, Z[:1], None, (0,), POINTS)
    same = rule().update(begun(), Z[:1], None, (), POINTS)
    np.testing.assert_allclose(grown.V, same.V, atol=1e-12)
    np.testing.assert_allclose(grown.sums, same.sums, atol=1e-12)


def test_coordinates_beyond_the_components_start_none() -> None:
    state = rule().update(begun(rank=1, r=1), Z[:20], None, (0, 3), POINTS)
    same = rule().update(begun(r=1), Z[:20], None, (), POINTS)
    np.testing.assert_allclose(state.V, same.V, atol=1e-12)
    assert rule().memory == np.inf  # and no row is forgotten


def test_steps_that_were_shortened_are_counted_and_told_once() -> None:
    long = papers.RecentredHebbian(schedules.ConstantRate(50.0))
    with pytest.warns(RuntimeWarning, match="too long"):
        state = long.update(begun(), Z, None, (), POINTS)
    assert state.n_shortened > 0
    again = long.update(state, Z, None, (), POINTS)  # warnings are errors
    assert again.n_shortened > state.n_shortened
