"""Averages of components in R^m: those of rows 64, 128 and so on, weighed 1, 2, 3 …"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from kernelstream import landmarks, papers, trackers
from kernelstream.papers import schedules
from kernelstream.papers.honeine_2012.averaged import AveragedState
from kernelstream.papers.sequential import SequentialState
from kernelstream.trackers import Moments
from tests.naive.trackers import averaged
from tests.trackers.test_covariance import REFERENCE

RULES: dict[str, Any] = {
    "hebbian": papers.Hebbian(schedules.ConstantRate(0.02)),
    "rls": papers.RLS(0.97),
    "lms": papers.LMS(0.01),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", RULES)
def test_the_average_is_that_of_every_64th_row(name: str, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    Z, w = rng.normal(size=(260, 4)) * 0.5, rng.uniform(0.5, 1.5, size=260)
    rule = RULES[name]
    tracker = papers.Averaged(rule)
    tracker.check()
    assert tracker.forgetting == rule.forgetting and tracker.needs_points == rule.needs_points
    assert tracker.kind == "sequential"
    state, alone = tracker.begin(4, 2, REFERENCE), rule.begin(4, 2, REFERENCE)
    snapshots: list[np.ndarray] = []
    moments = Moments(1.0, np.ones(4))
    edges = [0, 10, 63, 64, 65, 200, 256, 260]
    for start, stop in itertools.pairwise(edges):
        given = w[start:stop] if weighted else None
        state = tracker.update(state, Z[start:stop], given, (), np.eye(4))
        for row in range(start, stop):
            one = w[row : row + 1] if weighted else None
            alone = rule.update(alone, Z[row : row + 1], one, (), np.eye(4))
            if (row + 1) % 64 == 0:
                snapshots.append(alone.V)
        assert state.time == stop
        np.testing.assert_allclose(state.rule.V, alone.V, atol=1e-12)
        mean = averaged(snapshots) if snapshots else np.zeros((4, 2))
        np.testing.assert_allclose(state.mean, mean, atol=1e-12)
        # shown are the averages from row 64 on
        shown = tracker.components(state, moments, True)[1]
        V = mean if snapshots else alone.V
        order = np.argsort(-alone.variances / (1.0 if name == "hebbian" else np.sum(V**2, axis=0)))
        lengths = np.linalg.norm(V, axis=0)
        expected = np.divide(V, lengths, out=np.zeros_like(V), where=lengths > 0)[:, order]
        np.testing.assert_allclose(shown, expected, atol=1e-11)


@pytest.mark.parametrize("name", ["hebbian", "lms"])
def test_coordinates_that_come_within_a_block(name: str) -> None:
    """A block with admissions is the same rows one by one."""
    rng = np.random.default_rng(1)
    admitted = (0, 2, 63, 64, 100)
    Z = np.zeros((140, 5))
    for i in range(140):
        known = sum(a <= i for a in admitted)
        Z[i, :known] = rng.normal(size=known) * 0.4
    # two points more than coordinates: in the span of the others
    points = np.vstack([np.zeros((2, 5)), np.tril(rng.normal(size=(5, 5)))])
    rule = RULES[name]
    tracker = papers.Averaged(rule)
    whole, single = tracker.begin(0, 3, REFERENCE), tracker.begin(0, 3, REFERENCE)
    whole = tracker.update(whole, Z, None, admitted, points)
    for i in range(140):
        known = sum(a <= i for a in admitted)
        new, there = (0,) if i in admitted else (), points[: 2 + known, :known]
        single = tracker.update(single, Z[i : i + 1, :known], None, new, there)
    np.testing.assert_allclose(whole.rule.V, single.rule.V, atol=1e-12)
    np.testing.assert_allclose(whole.mean, single.mean, atol=1e-12)
    assert whole.time == single.time == 140 and whole.mean.shape == (5, 3)


def test_the_average_follows_a_change_of_basis() -> None:
    rng = np.random.default_rng(2)
    tracker = papers.Averaged(papers.Hebbian(schedules.ConstantRate(0.02)))
    state = tracker.update(tracker.begin(4, 2, REFERENCE), rng.normal(size=(130, 4)), None, ())
    T = rng.normal(size=(3, 4))
    moved, loss = tracker.rebase(state, T)
    assert loss is None and moved.time == 130
    np.testing.assert_allclose(moved.mean, T @ state.mean)
    np.testing.assert_allclose(moved.rule.V, T @ state.rule.V)
    wide = tracker.pad(state, 6)
    np.testing.assert_array_equal(wide.mean, np.pad(state.mean, ((0, 2), (0, 0))))
    np.testing.assert_array_equal(wide.rule.V, np.pad(state.rule.V, ((0, 2), (0, 0))))
    faded = tracker.decay(state, 0.5)
    assert faded.time == 130 and faded.mean is state.mean and faded.rule is state.rule
    shortened = SequentialState(np.eye(2), 3, np.ones(2), n_shortened=7)
    assert AveragedState(shortened, np.eye(2), 3).n_shortened == 7


def test_what_can_be_averaged() -> None:
    for rule in ("hebbian", trackers.Covariance(), trackers.IncrementalSVD(), None):
        with pytest.raises(ValueError, match="Averaged: rule must be a tracker that learns row"):
            papers.Averaged(rule).check()  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Hebbian: forgetting must be a number between 0 and 1"):
        papers.Averaged(papers.Hebbian(forgetting=2.0)).check()
    with pytest.raises(ValueError, match="1 weights were given for 2 components"):
        papers.Averaged(papers.RLS(weights=[1.0])).suits(landmarks.Everything(), 2)
