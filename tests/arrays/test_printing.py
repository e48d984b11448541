"""Records print short."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import array_api_strict
import numpy as np
import pytest

from kernelstream.arrays.printing import prints_short, short


@prints_short
@dataclass
class Found:
    share: float
    rows: Any = None
    names: tuple[str, ...] = ()
    flag: bool = False
    hidden: int = field(default=0, repr=False)


def test_what_is_not_there_is_not_printed() -> None:
    assert repr(Found(1 / 3)) == "Found(share=0.3333)"
    assert repr(Found(0.0, np.zeros((800, 6)), ("a", "b"), True, 9)) == (
        "Found(share=0, rows=<800 × 6 numbers>, names=('a', 'b'), flag=True)"
    )


def test_records_inside_of_records_are_named() -> None:
    assert repr(Found(1.0, Found(2.0))) == "Found(share=1, rows=Found(…))"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (np.float32(1.23456), "1.235"),
        (12345678, "12345678"),
        (np.array([1, 2]), "[1, 2]"),
        (np.zeros(7), "<7 numbers>"),
        (array_api_strict.zeros((2, 3)), "<2 × 3 numbers>"),
        (("a",), "('a',)"),
        ([(1, 2), (3, 4)], "[<2 entries>, <2 entries>]"),
        ("x" * 100, "'" + "x" * 59 + "…'"),
        (object, "<class 'object'>"),
        (None, "None"),
        (True, "True"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_values(value: Any, told: str) -> None:
    assert short(value) == told
