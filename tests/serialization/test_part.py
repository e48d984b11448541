"""Parts: copies with parameters of their own, and the checks of arguments."""

from __future__ import annotations

import math
import pickle
import sys
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from kernelstream import kernels, landmarks, papers
from kernelstream.papers import schedules
from kernelstream.serialization.part import (
    Value,
    as_number,
    check_choice,
    check_count,
    check_number,
    checked_seed,
)


def test_a_copy_has_parameters_of_its_own() -> None:
    points = np.zeros((2, 3))
    given = landmarks.Landmarks(points)
    points[0, 0] = 1.0
    copy = given.copy()
    points[1, 1] = 5.0
    assert copy is not given and copy.points[0, 0] == 1.0 and copy.points[1, 1] == 0.0


def test_parts_inside_are_copied_too() -> None:
    rule = papers.Hebbian(schedules.SearchThenConverge(0.5, 100.0))
    copy = rule.copy()
    rule.set_params(schedule__tau=7.0)
    assert copy.get_params()["schedule__tau"] == 100.0
    both = kernels.RBF(gamma=0.1) + kernels.Linear()
    assert both.copy().get_params() != {} and both.copy() is not both


@dataclass(frozen=True)
class Doubled(Value):
    number: int

    @cached_property
    def twice(self) -> int:
        return 2 * self.number


def test_what_was_computed_is_no_part_of_a_value() -> None:
    fresh, asked = Doubled(3), Doubled(3)
    assert asked.twice == 6
    assert pickle.dumps(asked) == pickle.dumps(fresh)
    assert pickle.loads(pickle.dumps(asked)).twice == 6


@pytest.mark.parametrize("value", [0.0, -1, math.nan, "1", None, True, 5.0, 10**400])
def test_numbers(value: Any) -> None:
    check_number("Part", "width", 1, above=0.0, below=5.0)
    with pytest.raises(ValueError, match=r"Part: width must be a number between 0 and 5, got"):
        check_number("Part", "width", value, above=0.0, below=5.0)
    with pytest.raises(ValueError, match=r"above 0, got nan"):
        check_number("Part", "width", math.nan)


@pytest.mark.parametrize("value", [0, -3, 1.0, "2", False])
def test_counts(value: Any) -> None:
    check_count("Part", "n", np.int64(3))
    check_count("Part", "n", None)
    with pytest.raises(ValueError, match=r"integer of at least 1 or None, got"):
        check_count("Part", "n", value)
    with pytest.raises(ValueError, match=r"integer of at least 1, got None"):
        check_count("Part", "n", None, none_allowed=False)


def test_counts_that_no_memory_holds() -> None:
    check_count("Part", "n", sys.maxsize)
    for value in (sys.maxsize + 1, 10**400, 10**5000):  # Python does not write 5000 digits
        with pytest.raises(ValueError, match=rf"n must be at most {sys.maxsize}, .* bits; None is"):
            check_count("Part", "n", value)


@pytest.mark.parametrize("value", [True, "1", None, 1j, 10**400, -(10**400), math.nan])
def test_what_is_no_number(value: Any) -> None:
    assert math.isnan(as_number(value))


@pytest.mark.parametrize("value", [0, -2.5, Fraction(1, 4), np.float32(0.5), np.int8(3), math.inf])
def test_numbers_as_floats(value: Any) -> None:
    assert as_number(value) == value and type(as_number(value)) is float


def test_choices() -> None:
    check_choice("scale", None, (None, "standard"))
    check_choice("certify", False, ("auto", "tight", False))
    for value in ("other", 0, True):
        with pytest.raises(ValueError, match=r"certify must be one of 'auto', 'tight', False; got"):
            check_choice("certify", value, ("auto", "tight", False))


def test_seeds() -> None:
    assert checked_seed(7) == 7
    assert checked_seed(np.random.RandomState(0)) == checked_seed(np.random.RandomState(0))
    for value in (-1, 2**32):
        with pytest.raises(ValueError, match=r"from 0 to 2\*\*32 - 1"):
            checked_seed(value)
