"""What files hold is declared, and does not change unnoticed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pytest

from kernelstream.files import VERSION
from kernelstream.files.declarations import (
    Sizes,
    check_array,
    check_scalar,
    declarations,
    declare,
)
from tests.golden.declarations import KEPT, PAGE, declared, with_tables

WHAT_TO_DO = f"""
What model files hold is no longer what {KEPT.name} says: a state, a part or an estimator has got
other fields or parameters, or another name. Files that were written before are read for ever, so:

1. If a release has written version {VERSION} (see CHANGELOG.md): raise VERSION in
   files/migrations.py, and write the function from the tree of version {VERSION} to the next into
   MIGRATIONS. If none has: let the function that leads to version {VERSION} make what is new.
2. python -m pytest tests/golden, which reads files of all earlier versions.
3. python -m tests.golden.declarations, which writes down what files hold now, here and in
   docs/model-files.md.
"""


def test_what_files_hold_is_what_was_written_down() -> None:
    assert KEPT.exists(), WHAT_TO_DO
    kept, now = json.loads(KEPT.read_text(encoding="utf-8")), declared()
    for kind in kept:
        for name in {*kept[kind], *now[kind]}:
            assert now[kind].get(name) == kept[kind].get(name), f"{name}: {WHAT_TO_DO}"
    assert now.keys() == kept.keys(), WHAT_TO_DO


def test_the_page_shows_what_files_hold() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_tables(page) == page, "run python -m tests.golden.declarations"
    for name in declared()["states"]:
        assert f"**{name}**" in page
    assert f"an integer; {VERSION} now" in page


def test_every_array_is_declared() -> None:
    """A field that is an array without dimensions could hold anything."""
    from kernelstream.files import STORED
    from kernelstream.part import Part

    states = [kind for name, kind in STORED.items() if not issubclass(kind, Part)]
    for state in states:
        for name, what in declarations(state).items():
            for each in (what, *(what.items if isinstance(what.items, tuple) else (what.items,))):
                if each is not None and not each.kind:
                    assert np.ndarray not in each.types, f"{state.__name__}.{name}"


# --- the words of declarations


def refuses(hint: Any, value: Any, sizes: dict[str, int] | None = None) -> str:
    what, known = declare(hint), Sizes(sizes or {})
    with pytest.raises(ValueError) as refusal:
        if isinstance(value, np.ndarray):
            check_array(what, value, known, Sizes())
        else:
            check_scalar(what, value, known)
    return str(refusal.value)


def accepts(hint: Any, value: Any, sizes: dict[str, int] | None = None) -> Sizes:
    what, known = declare(hint), Sizes(sizes or {})
    if isinstance(value, np.ndarray):
        check_array(what, value, known, Sizes())
    else:
        check_scalar(what, value, known)
    return known


MATRIX = Annotated[np.ndarray, "float64 (points, rank)"]


def test_dimensions_stand_for_one_number() -> None:
    assert accepts(MATRIX, np.zeros((3, 2))) == {"points": 3, "rank": 2}
    assert "3 points here, 4 elsewhere" in refuses(MATRIX, np.zeros((3, 2)), {"points": 4})
    assert "shape" in refuses(MATRIX, np.zeros(3))
    assert "more than rank" in refuses(
        Annotated[np.ndarray, "float64 (<=rank)"], np.zeros(3), {"rank": 2}
    )
    assert accepts(Annotated[np.ndarray, "float64 (<=rank)"], np.zeros(1), {"rank": 2})
    assert accepts(Annotated[np.ndarray, "float64 (?, .own)"], np.zeros((1, 9))) == {}
    assert "neither" not in refuses(Annotated[np.ndarray, "float64 (same, same)"], np.zeros((1, 2)))
    accepts(Annotated[np.ndarray, "float64 (m, m), or empty"], np.zeros(0))


def test_types_of_numbers() -> None:
    assert "float32" in refuses(MATRIX, np.zeros((1, 1), dtype="float32"))
    accepts(Annotated[np.ndarray, "float (n)"], np.zeros(1, dtype="float32"))
    assert "int64" in refuses(MATRIX, np.zeros((1, 1), dtype=int))
    assert "an array in the place of" in refuses(float, np.zeros(1))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_are_finite(bad: float) -> None:
    refuses(MATRIX, np.full((1, 1), bad))
    refuses(float, bad)
    accepts(Annotated[np.ndarray, "float64 (n), or NaN"], np.array([np.nan]))
    refuses(Annotated[np.ndarray, "float64 (n), or NaN"], np.array([np.inf]))
    accepts(Annotated[float, "or infinite"], -np.inf)
    refuses(Annotated[float, "or infinite"], np.nan)


def test_bounds() -> None:
    refuses(Annotated[np.ndarray, "int64 (n), not negative"], np.array([-1]))
    refuses(Annotated[np.ndarray, "float64 (n), positive"], np.array([0.0]))
    refuses(Annotated[float, "not negative"], -1.0)
    refuses(Annotated[float, "positive"], 0)
    for bad in (-1, 2**53 + 1, 1.0, True, "1", None):
        refuses(int, bad)
    refuses(float, 2**60)
    refuses(bool, 1)
    accepts(float, 3)
    accepts(int | None, None)
    accepts(Annotated[int, "of any size"], 2**63 - 1)
    refuses(Annotated[int, "of any size"], 2**63)
    assert accepts(Annotated[int | float | None, "= components"], 4) == {"components": 4}
    assert accepts(Annotated[int | float | None, "= components"], 0.5) == {}


@pytest.mark.parametrize("text", ["float64 (n), posittive", "double (n)", "negativ"])
def test_a_declaration_that_says_nothing_is_an_error(text: str) -> None:
    with pytest.raises(TypeError, match=text.split("(")[0].split()[0]):
        declare(Annotated[np.ndarray, text])


def test_a_field_that_is_added_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above fails, and says what to do, where a state changes."""
    from kernelstream.files import STORED

    @dataclass(frozen=True)
    class Moments:
        weight: float
        total: Annotated[np.ndarray, "float64 (rank)"]
        more: float = 0.0

    Moments.__module__ = "kernelstream.trackers.moments"
    monkeypatch.setitem(STORED, "Moments", Moments)
    with pytest.raises(AssertionError, match=r"Moments: (?s:.*)MIGRATIONS"):
        test_what_files_hold_is_what_was_written_down()
