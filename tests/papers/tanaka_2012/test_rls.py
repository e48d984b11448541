"""What RLS does where its recursion would lose its digits: Q that sleeps, columns that vanish."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernelstream import papers
from kernelstream.papers.tanaka_2012.rls import RLSState, least_squares_pass
from tests.naive.trackers import Tanaka
from tests.trackers.test_covariance import REFERENCE


def test_growth_of_q_ends_at_its_ceiling() -> None:
    """1e8 times the largest start; a component that starts later may raise it, never lower it."""
    tracker = papers.RLS(forgetting=0.5)
    state = tracker.begin(2, 2, REFERENCE)
    assert state.Q.shape == (2, 2) and not state.Q.any() and state.ceiling == 0.0
    state = tracker.update(state, np.array([[0.5, 0.0]]), None, ())
    assert state.Q[0, 0] == 4.0 and state.ceiling == 4e8
    state = tracker.update(state, np.zeros((100, 2)), None, ())
    assert state.Q[0, 0] == 4.0 * 2.0**27  # the first at or above 4e8
    later = tracker.update(state, np.array([[0.0, 2.0]]), None, ())
    np.testing.assert_array_equal(later.Q, np.diag([4.0 * 2.0**27, 0.25]))
    assert later.ceiling == 4e8
    raised = tracker.update(state, np.array([[0.0, 0.1]]), None, ())
    assert raised.ceiling == pytest.approx(1e10)


def test_a_q_far_too_large_for_a_row_is_cut_before_it_is_used() -> None:
    """To 1e10 times the inverse square of the output."""
    for start, expected in ((1e8, 1e8), (1e12, 1e10)):
        state = RLSState(np.eye(2)[:, :1], 5, np.zeros(1), Q=np.array([[start]]), ceiling=1e20)
        state = papers.RLS(0.5).update(state, np.array([[1.0, 0.0]]), None, ())
        # (Q − Q²/(β + Q))/β = Q/(β + Q)
        np.testing.assert_allclose(state.Q, [[expected / (0.5 + expected)]], rtol=1e-6)
        loud = state.Q[0, 0]
        assert abs(loud - 1.0) < 1e-7
    # an entry beside the diagonal shrinks with both of its components
    Q = np.array([[4e10, 30.0], [30.0, 2.0]])
    state = RLSState(np.eye(2), 5, np.zeros(2), Q=Q.copy(), ceiling=1e20)
    state = papers.RLS(1.0, weights=[1.0, 1.0]).update(state, np.array([[1.0, 0.0]]), None, ())
    cut = Q / np.outer([2.0, 1.0], [2.0, 1.0])
    gain = cut[:, 0] / (1.0 + cut[0, 0])
    np.testing.assert_allclose(state.Q, cut - np.outer(gain, cut[0]), rtol=1e-5)


@pytest.mark.parametrize("share", [1e-2, 1e-5])
def test_columns_that_nearly_vanish_are_orthonormalised_as_they_are(share: float) -> None:
    """Components all but parallel after the row: digits of the Gram matrix would not do."""
    rng = np.random.default_rng(0)
    V = np.linalg.qr(rng.normal(size=(4, 3)))[0]
    V[:, 2] = V[:, 1] + share * V[:, 2]
    V /= np.linalg.norm(V, axis=0)
    Z = rng.normal(size=(30, 4)) * 0.1
    tracker = papers.RLS(0.99)
    state = RLSState(V, 3, np.zeros(3), Q=np.eye(3), ceiling=1e8)
    learned = tracker.update(state, Z, None, ())
    twin = Tanaka("rls", np.linspace(1.0, 0.5, 3), None, 0.99)
    twin.V, twin.Q, twin.ceiling, twin.time = V.copy(), np.eye(3), 1e8, 3
    for z in Z:
        twin.row(z)
    np.testing.assert_allclose(learned.V, twin.V, atol=1e-9)
    np.testing.assert_allclose(learned.V.T @ learned.V, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(learned.variances, twin.variances, rtol=1e-9)
    assert learned.time == twin.time == 33 and learned.reseeded == 0


@pytest.mark.parametrize(("pivot", "rows"), [(0.9e-6, -1), (1.1e-6, 3)])
def test_a_pass_ends_where_a_pivot_is_below_a_millionth(pivot: float, rows: int) -> None:
    """Of the squared length. A row without energy leaves the Gram matrix alone."""
    cosine = np.sqrt(1.0 - pivot)
    gram = np.array([[1.0, cosine], [cosine, 1.0]])
    T, S = np.eye(2), np.zeros((2, 3))
    nothing = np.zeros((2, 3)), np.zeros((3, 3))
    found = least_squares_pass(
        *nothing, gram, np.ones(2), 1.0, np.eye(2), 1.0, T, S, np.zeros(2), 0, np.ones(3), True
    )
    assert found == rows
    if rows > 0:
        np.testing.assert_allclose(T, [[1.0, 0.0], [-cosine / pivot**0.5, pivot**-0.5]], rtol=1e-6)


def test_a_combination_of_earlier_components_starts_again() -> None:
    tracker = papers.RLS()
    V = np.array([[1.0, 1.0, 0.0], [0.0, 1e-9, 0.0], [0.0, 0.0, 1.0]])
    state = RLSState(V, 3, np.ones(3), reseeded=2, Q=np.eye(3))
    kept, _ = tracker.rebase(state, np.eye(3))
    assert kept.reseeded == 2
    np.testing.assert_allclose(kept.V, np.eye(3), atol=1e-6)
    V[1, 1] = 0.9e-10
    lost, _ = tracker.rebase(replace(state, V=V), np.eye(3))
    assert lost.reseeded == 3
    np.testing.assert_allclose(lost.V, np.diag([1.0, 0.0, 1.0]), atol=1e-12)
    V[:, 1] = 0.0  # one that waits is not lost
    waits, _ = tracker.rebase(replace(state, V=V), np.eye(3))
    assert waits.reseeded == 2 and not waits.V[:, 1].any()
    before, _ = tracker.rebase(replace(state, time=0), np.eye(3))  # rows, not yet oriented
    np.testing.assert_array_equal(before.V, state.V)
