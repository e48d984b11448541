"""Declared storable classes and field types: array shapes, data types, ranges; ``@stored``.

A class is a part (with parameters), a state (a dataclass) or an estimator. Its name in files is its
own, for a part with the name of its family in front; the module it is defined in has no influence.

The types of its fields say what they are, and a text beside the type says
more where that is needed::

    points: Annotated[Array, "float (points, features)"]
    mass: Annotated[np.ndarray, "float64 (points), not negative"]
    n: int
    next_signs: Annotated[int, "of any size"]
    reference: Annotated[Normal, "apart"]

*Arrays*: the kind of number (``float64``; ``float``, single or double precision; ``rows``, that or
CSR; ``int64``) and the dimensions. A name stands for the same number wherever it is used in a
model; with a dot in front, in this value alone. ``<=rank`` is at most the number that ``rank``
stands for, ``?`` any. Numbers are finite, unless ``or NaN`` follows; ``not negative`` and
``positive`` are bounds; ``or empty`` allows an array without entries.

*Numbers*: an ``int`` is a count, from 0 to 2**53, unless it is ``of any size`` (below 2**63); a
``float`` is finite, unless it is ``or infinite``. ``= columns`` says that a dimension is this
number. Other bounds as for arrays.

*States in states*: ``apart`` are those whose dimensions have nothing to do with those around them.

What no declaration can say, a state checks itself: its method ``check`` is called with the sizes
that names stand for once its fields are what they should be, and raises ``ValueError``.
"""

from __future__ import annotations

import dataclasses
import math
import re
import sys
import types
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from kernelstream.arrays.namespaces import is_sparse
from kernelstream.serialization.part import Part

_T = TypeVar("_T")

STORED: dict[str, type] = {}

LARGEST_COUNT = 2**53
LARGEST_EMPTY = 2**16  # of a dimension of any size, where there are no entries that take room
_ARRAY = re.compile(r"(\w+) \((.*?)\)(.*)")  # such as "float64 (points, rank), not negative"
_KINDS = {
    "float64": ("float64",),
    "float": ("float64", "float32"),
    "rows": ("float64", "float32"),
    "int64": ("int64",),
}
_WORDS = {"not negative", "positive", "or NaN", "or infinite", "or empty", "of any size", "apart"}


def stored(cls: type[_T]) -> type[_T]:
    """Let files hold values of a class, a part, a state or an estimator: used as a decorator."""
    name = stored_name(cls)
    other = STORED.setdefault(name, cls)
    if other is not cls:
        raise ValueError(
            f"Two classes are called {name!r} in model files, of {other.__module__} and of "
            f"{cls.__module__}: rename one of them."
        )
    return cls


def stored_name(cls: type) -> str:
    """Name of a class in files: ``kernels.RBF`` for a part, else its own, such as ``LMSState``."""
    return f"{cls._family}.{cls.__name__}" if issubclass(cls, Part) else cls.__name__


def is_state(cls: type) -> bool:
    """Whether a stored class is a state: neither a part nor an estimator."""
    return dataclasses.is_dataclass(cls)


@dataclass(frozen=True)
class Declaration:
    """What a value has to be: one of some types, and what the text beside them says."""

    types: tuple[Any, ...]
    text: str = ""
    items: Declaration | tuple[Declaration, ...] | None = None  # of a tuple: all alike, or each
    kind: str = ""
    dimensions: tuple[str, ...] = ()
    names: str = ""  # the dimension that this number is
    words: frozenset[str] = frozenset()

    def __str__(self) -> str:
        if self.items is not None:
            inside = self.items if isinstance(self.items, tuple) else (self.items,)
            more = "" if isinstance(self.items, tuple) else ", …"
            return f"tuple of ({', '.join(map(str, inside))}{more})" + self._or_none
        shown = [self.text] if self.kind else [_type_name(t) for t in self.types if t is not None]
        text = " or ".join(shown) + self._or_none
        return text if self.kind or not self.text else f"{text}, {self.text}"

    @property
    def _or_none(self) -> str:
        return " or null" if None in self.types else ""

    def allows(self, value: Any) -> bool:
        """Whether a part or a state is of one of the types; a part has to be named by its type."""
        if Any in self.types and not self.kind and not isinstance(value, Part):
            return True
        return isinstance(value, tuple(kind for kind in self.types if isinstance(kind, type)))


def _type_name(kind: Any) -> str:
    names = {bool: "boolean", str: "text", int: "integer", float: "number", Any: "any"}
    if kind in names:
        return names[kind]
    return f"a part of {kind._family}" if issubclass(kind, Part) else kind.__name__


def declare(hint: Any, nothing_allowed: bool = False) -> Declaration:
    """The declaration that a type stands for."""
    members, text = _members(hint)
    if nothing_allowed and None not in members:
        members.append(None)
    for inside in (get_args(member) for member in members if get_origin(member) is tuple):
        repeated = len(inside) == 2 and inside[1] is Ellipsis
        items = declare(inside[0]) if repeated else tuple(map(declare, inside))
        return Declaration((tuple, *(m for m in members if m is None)), text, items)
    array, rest = _ARRAY.fullmatch(text), text
    kind = listed = ""
    if array:
        kind, listed, rest = array.groups()
        if kind not in _KINDS:
            raise TypeError(f"{text!r}: an array is one of {', '.join(_KINDS)}.")
    words = frozenset(_split(rest))
    named = {word for word in words if word.startswith("= ")}
    if unknown := words - named - _WORDS:
        raise TypeError(f"{text!r} says {sorted(unknown)}, which no declaration can.")
    size = next((word[2:] for word in named), "")
    return Declaration(tuple(members), text, None, kind, tuple(_split(listed)), size, words)


def _members(hint: Any) -> tuple[list[Any], str]:
    """The types that a type allows, None for nothing, and the text of ``Annotated``."""
    if get_origin(hint) is Annotated:
        hint, text = get_args(hint)
        return _members(hint)[0], text
    if get_origin(hint) in (Union, types.UnionType):
        allowed = [_members(member) for member in get_args(hint)]
        return [m for members, _ in allowed for m in members], "".join(text for _, text in allowed)
    return [None if hint is type(None) else hint], ""


def _split(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


@cache
def declarations(cls: Any) -> dict[str, Declaration]:
    """What the fields of a state have to be."""
    # Names that a module imports for type checkers only are those of other states.
    known: dict[str, Any] = {name: kind for name, kind in STORED.items() if is_state(kind)}
    for base in reversed(cls.__mro__):
        known |= vars(sys.modules[base.__module__])
    hints = get_type_hints(cls, known, include_extras=True)
    return {
        field.name: declare(hints[field.name], field.default is None)
        for field in dataclasses.fields(cls)
        if field.init
    }


def described() -> dict[str, dict[str, str]]:
    """Every state that was imported, with its fields as they are declared, in words."""
    return {
        name: {field: str(what) for field, what in declarations(cls).items()}
        for name, cls in sorted(STORED.items())
        if is_state(cls)
    }


class Sizes(dict[str, int]):
    """The numbers that names of dimensions stand for, as the first array has them."""

    def take(self, name: str, size: int) -> None:
        """Let a name stand for a number, or find that it stands for another."""
        if self.setdefault(name, size) != size:
            raise ValueError(f"{size} {name} here, {self[name]} elsewhere in the file")


def check_array(what: Declaration, array: Any, sizes: Sizes, own: Sizes) -> None:
    """Raise unless an array has the type, the dimensions and the numbers that were declared."""
    if not what.kind or (is_sparse(array) and what.kind != "rows"):
        raise ValueError(f"an array in the place of {what}")
    numbers = array.data if is_sparse(array) else array
    if numbers.dtype.name not in _KINDS[what.kind]:
        raise ValueError(f"numbers of the type {numbers.dtype}, not {what}")
    if "or empty" in what.words and array.shape == (0,):
        return
    if array.ndim != len(what.dimensions):
        raise ValueError(f"an array of shape {array.shape}, not {what}")
    for name, size in zip(what.dimensions, array.shape, strict=True):
        if name.startswith("<="):
            if size > sizes[name[2:]]:
                raise ValueError(f"an array of shape {array.shape}: more than {name[2:]}")
        elif name.startswith("."):
            own.take(name[1:], size)
        elif name != "?":
            sizes.take(name, size)
        elif not array.size and size > LARGEST_EMPTY:
            raise ValueError(f"an array of shape {array.shape}")
    if numbers.dtype.kind != "f" and "not negative" not in what.words:
        return
    finite = ~np.isinf(numbers) if "or NaN" in what.words else np.isfinite(numbers)
    if not bool(np.all(finite)):
        raise ValueError("an array with numbers that are not finite")
    if "not negative" in what.words and bool(np.any(numbers < 0)):
        raise ValueError("an array with negative numbers")
    if "positive" in what.words and not bool(np.all(numbers > 0)):
        raise ValueError("an array with numbers that are not positive")


def check_scalar(what: Declaration, value: Any, sizes: Sizes) -> None:
    """Raise unless a number, a text or nothing is what was declared."""
    kinds: tuple[Any, ...] = (None,) if value is None else (type(value),)
    if type(value) is int:
        kinds = (int, float)
    anything = Any in what.types and not what.kind
    if not anything and not any(kind in what.types for kind in kinds):
        raise ValueError(f"{value!r} in the place of {what}")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if isinstance(value, int) and int in what.types:
        largest = 2**63 - 1 if "of any size" in what.words else LARGEST_COUNT
        if not 0 <= value <= largest:
            raise ValueError(f"{value}, which is no count")
        if what.names:
            sizes.take(what.names, value)
    elif isinstance(value, int) and abs(value) > LARGEST_COUNT:
        raise ValueError(f"a number of {value.bit_length()} bits")
    unbounded = anything or ("or infinite" in what.words and not math.isnan(value))
    if isinstance(value, float) and not math.isfinite(value) and not unbounded:
        raise ValueError(f"{value} in the place of {what}")
    if "positive" in what.words and not value > 0:
        raise ValueError(f"{value}, which is not positive")
    if "not negative" in what.words and value < 0:
        raise ValueError(f"{value}, which is negative")
