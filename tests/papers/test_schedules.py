"""Step sizes: the formulas, the floor, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from kernelstream.papers import schedules

FORMULAS = {
    "constant": (schedules.ConstantRate(0.3), lambda t: 0.3),
    "inverse-time": (schedules.InverseTime(0.7), lambda t: 0.7 / t),
    "inverse-time-floor": (schedules.InverseTime(0.7, floor=0.02), lambda t: max(0.7 / t, 0.02)),
    "search-then-converge": (schedules.SearchThenConverge(0.4, 30), lambda t: 0.4 / (1 + t / 30)),
    "search-floor": (
        schedules.SearchThenConverge(0.4, 30, floor=0.1),
        lambda t: max(0.4 / (1 + t / 30), 0.1),
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
@given(first=st.integers(1, 10_000), count=st.integers(0, 50))
def test_steps_follow_their_formula_wherever_they_are_asked_for(name, first, count):
    schedule, formula = FORMULAS[name]
    steps = schedule.steps(first, count)
    assert steps.shape == (count,)
    expected = [formula(t) for t in range(first, first + count)]
    np.testing.assert_allclose(steps, expected, rtol=1e-14)  # a division or two
    # any part of the sequence is the same numbers, so blocks can be cut anywhere
    np.testing.assert_array_equal(steps[1:], schedule.steps(first + 1, max(count - 1, 0)))


@pytest.mark.parametrize("name", FORMULAS)
def test_steps_never_rise_and_respect_the_floor(name):
    schedule, _ = FORMULAS[name]
    steps = schedule.steps(1, 100_000)
    assert np.all(np.diff(steps) <= 0)
    assert steps[-1] >= schedule.floor
    if schedule.floor > 0:
        assert steps[-1] == schedule.floor


def test_robbins_monro():
    """Σ η diverges and Σ η² converges for the schedules that promise convergence."""
    for schedule in (schedules.InverseTime(1.0), schedules.SearchThenConverge(0.5, 100)):
        t = np.array([1e6, 1e7])
        steps = np.array([schedule.steps(int(s), 1)[0] for s in t])
        np.testing.assert_allclose(steps[1] / steps[0], 0.1, rtol=1e-3)  # like 1/t in the end


def test_only_the_automatic_schedule_has_a_step_for_each_component():
    plain = (schedules.ConstantRate, schedules.InverseTime, schedules.SearchThenConverge)
    assert not any(kind.relative for kind in plain)
    assert schedules.AutomaticRate.relative


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), "fast", None, True])
@pytest.mark.parametrize("kind", [schedules.InverseTime, schedules.SearchThenConverge])
def test_a_step_that_makes_no_sense_is_refused_in_words(kind, value):
    with pytest.raises(ValueError, match="eta0 must be a number above 0"):
        kind(eta0=value).check()
    with pytest.raises(ValueError, match="eta must be a number above 0"):
        schedules.ConstantRate(value).check()


def test_numbers_of_numpy_are_numbers():
    """A search over np.arange hands over integers of NumPy."""
    taken: Any = schedules.SearchThenConverge
    of_numpy = taken(np.float32(0.5), np.int64(1000), floor=np.float64(0.0))
    of_numpy.check()
    plain = schedules.SearchThenConverge(0.5, 1000, floor=0.0)
    np.testing.assert_array_equal(of_numpy.steps(1, 5), plain.steps(1, 5))
    with pytest.raises(ValueError, match="eta must be a number above 0, got True"):
        schedules.ConstantRate(True).check()


def test_the_floor_may_be_zero_but_not_negative():
    schedules.InverseTime(floor=0.0).check()
    with pytest.raises(ValueError, match="floor must be a number above 0"):
        schedules.InverseTime(floor=-0.1).check()


def test_schedules_are_parts():
    schedule = clone(schedules.SearchThenConverge(0.4, 30)).set_params(tau=60)
    assert schedule.get_params() == {"eta0": 0.4, "tau": 60, "floor": 0.0}
