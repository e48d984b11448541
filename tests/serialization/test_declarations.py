"""What files hold is declared, and does not change unnoticed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pytest

from kernelstream.serialization import VERSION
from kernelstream.serialization.declarations import (
    Declaration,
    Sizes,
    check_array,
    check_scalar,
    declarations,
    declare,
)
from kernelstream.serialization.part import Part
from tests.golden.declarations import KEPT, PAGE, declared, with_tables

WHAT_TO_DO = f"""
What model files hold is no longer what {KEPT.name} says: a state, a part or an estimator has got
other fields or parameters, or another name. Files that were written before are read for ever, so:

1. If a release has written version {VERSION} (see CHANGELOG.md): raise VERSION in
   serialization/migrations.py, and write the function from the tree of version {VERSION} to
   the next into MIGRATIONS. If none has: let the function that leads to version {VERSION}
   make what is new.
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
    from kernelstream.serialization import STORED
    from kernelstream.serialization.part import Part

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
    from kernelstream.serialization import STORED

    @dataclass(frozen=True)
    class Moments:
        weight: float
        total: Annotated[np.ndarray, "float64 (rank)"]
        more: float = 0.0

    Moments.__module__ = "kernelstream.trackers.moments"
    monkeypatch.setitem(STORED, "Moments", Moments)
    with pytest.raises(AssertionError, match=r"Moments: (?s:.*)MIGRATIONS"):
        test_what_files_hold_is_what_was_written_down()


class Holder(Part):
    """A part of nobody's room."""


Holder.__module__ = "kernelstream.kernels.tests"


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (int, "integer"),
        (float | None, "number or null"),
        (bool, "boolean"),
        (str | None, "text or null"),
        (Any, "any"),
        (Holder, "a part of kernels"),
        (Sizes, "Sizes"),
        (Annotated[float, "not negative"], "number, not negative"),
        (Annotated[int | None, "of any size"], "integer or null, of any size"),
        (Annotated[np.ndarray, "float64 (n), positive"], "float64 (n), positive"),
        (Annotated[np.ndarray | None, "float64 (n)"], "float64 (n) or null"),
        (Annotated[np.ndarray, "float64 (n)"] | None, "float64 (n) or null"),
        (tuple[int, ...], "tuple of (integer, …)"),
        (tuple[int, float], "tuple of (integer, number)"),
        (tuple[str, ...] | None, "tuple of (text, …) or null"),
    ],
)
def test_declarations_in_words(hint: Any, words: str) -> None:
    assert str(declare(hint)) == words
    optional = declare(hint, nothing_allowed=True)
    assert None in optional.types and str(optional).count(" or null") == 1


def test_what_a_declaration_knows() -> None:
    what = declare(Annotated[np.ndarray, "float (points, <=rank), not negative, or NaN"])
    assert (what.kind, what.dimensions) == ("float", ("points", "<=rank"))
    assert what.words == {"not negative", "or NaN"} and not what.apart and what.names == ""
    assert declare(Annotated[Sizes, "apart"]).apart
    assert declare(Annotated[int, "= columns, positive"]).names == "columns"
    pair, many = declare(tuple[int, float]), declare(tuple[int, int])
    assert isinstance(pair.items, tuple) and len(pair.items) == 2
    assert isinstance(many.items, tuple) and isinstance(declare(tuple[int, ...]).items, Declaration)


def test_sizes_stand_for_one_number() -> None:
    sizes = Sizes()
    sizes.take("rank", 3)
    sizes.take("rank", 3)
    with pytest.raises(ValueError, match="4 rank here, 3 elsewhere in the file"):
        sizes.take("rank", 4)
    sizes.same("rank", "points")  # one of them is not used
    sizes.take("points", 3)
    sizes.same("rank", "points")
    sizes.take("columns", 5)
    with pytest.raises(ValueError, match="3 rank, and 5 columns"):
        sizes.same("rank", "columns")


@pytest.mark.parametrize(
    ("hint", "value", "words"),
    [
        (Annotated[np.ndarray, "float64 (n), positive"], np.array([1.0, 0.0]), "not positive"),
        (Annotated[np.ndarray, "float64 (n), not negative"], np.array([-1e-300]), "negative numbe"),
        (Annotated[np.ndarray, "int64 (n), not negative"], np.array([-1]), "negative numbers"),
        (Annotated[np.ndarray, "float64 (?, n)"], np.zeros((2**16 + 1, 0)), "array of shape"),
        (Annotated[np.ndarray, "float64 (<=rank)"], np.zeros(4), "more than rank"),
        (Annotated[float, "positive"], 0.0, "0.0, which is not positive"),
        (Annotated[float, "not negative"], -1e-300, "which is negative"),
        (int, -1, "-1, which is no count"),
        (float, 2**53 + 1, "a number of 54 bits"),
        (float, -(2**53) - 1, "a number of 54 bits"),
        (float, np.inf, "inf in the place of number"),
        (Annotated[float, "or infinite"], np.nan, "nan in the place of number, or infinite"),
        (str, 1, "1 in the place of text"),
    ],
)
def test_what_is_said_of_values_that_do_not_fit(hint: Any, value: Any, words: str) -> None:
    assert words in refuses(hint, value, {"rank": 3})


def test_values_at_the_edge_of_what_fits() -> None:
    accepts(Annotated[np.ndarray, "float64 (n), not negative"], np.array([0.0]))
    accepts(Annotated[np.ndarray, "float64 (n), positive"], np.array([5e-324]))
    accepts(Annotated[np.ndarray, "float64 (?, n)"], np.zeros((2**16, 0)))
    accepts(Annotated[np.ndarray, "float64 (?, n)"], np.zeros((2**16 + 1, 1)))
    accepts(Annotated[np.ndarray, "float64 (<=rank)"], np.zeros(3), {"rank": 3})
    accepts(Annotated[np.ndarray, "int64 (n)"], np.array([-1]))
    accepts(Annotated[float, "not negative"], 0.0)
    accepts(float, 2**53)
    accepts(int, 2**53)
    accepts(int, 0)
    accepts(Any, np.inf)
    accepts(Annotated[float, "or infinite"], np.inf)
