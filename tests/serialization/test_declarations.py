"""What files hold is declared, and does not change unnoticed."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Annotated, Any

import numpy as np
import pytest

from kernelstream import kernels
from kernelstream.papers import schedules
from kernelstream.serialization import STORED, stored, stored_name
from kernelstream.serialization.declarations import (
    Declaration,
    Sizes,
    check_array,
    check_scalar,
    declarations,
    declare,
    is_state,
)
from tests.registry import classes

# --- names


def test_names_in_files_are_unique() -> None:
    names = [stored_name(cls) for cls in STORED.values()]
    assert len(set(names)) == len(names) and names == list(STORED)


def test_homonyms_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class RBF(kernels.Kernel):
        """Another one."""

    class Moments:
        """Another one."""

    RBF.__module__ = Moments.__module__ = "kernelstream.elsewhere"
    for cls, name in ((RBF, "kernels.RBF"), (Moments, "Moments")):
        held = STORED[name]
        words = f"Two classes are called '{name}' in model files, of {held.__module__} and of "
        with pytest.raises(ValueError, match=f"{words}kernelstream.elsewhere: rename one of them"):
            stored(cls)
        assert STORED[name] is held and stored(held) is held  # a class may be declared twice
    assert stored_name(kernels.Constant) != stored_name(schedules.ConstantRate)


PROGRAM = """
import json
from kernelstream import estimators, serialization
estimators.base.import_classes({"a class of nobody"})
print(json.dumps(sorted(serialization.STORED)))
"""


def test_loading_can_import_all_stored_classes() -> None:
    """In a new process, where nothing but the estimators is imported."""
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert set(classes()) <= set(json.loads(result.stdout))


def test_every_array_is_declared() -> None:
    """A field that is an array without dimensions could hold anything."""
    states = [kind for kind in STORED.values() if is_state(kind)]
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


class Holder(kernels.Kernel):
    """A part that no file holds."""


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
    assert what.words == {"not negative", "or NaN"} and what.names == ""
    assert declare(Annotated[Sizes, "apart"]).words == {"apart"}
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
