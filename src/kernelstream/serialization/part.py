"""Base of kernels, landmark strategies and trackers: parameters, argument checks, seed."""

from __future__ import annotations

import math
import numbers
import sys
from dataclasses import fields
from typing import Any, ClassVar, Self, get_args

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state


class Value:
    """A dataclass that is pickled as its fields: what was computed from them is no part of it."""

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


def state_class(part: type[Part]) -> Any:
    """State of a strategy or tracker: the S of ``LandmarkStrategy[S]``; None if undeclared."""
    for cls in part.__mro__:
        for base in vars(cls).get("__orig_bases__", ()):
            for argument in get_args(base):
                if isinstance(argument, type):
                    return argument
    return None


class Part(BaseEstimator):
    """A piece of the chain: immutable numbers in, no state inside.

    Parts have ``get_params`` and ``set_params`` like estimators, so that grid search reaches
    them (``tracker__forgetting``). What they learn is returned as a value, never kept in them.
    Parameters are checked by ``check``, which is called before the first row is read.
    """

    #: The first half of its name in model files, as in ``kernels.RBF``; set by the base class of
    #: the family.
    _family: ClassVar[str]

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""

    def check_state(self, state: Any) -> None:
        """Raise ``ValueError`` unless ``state`` is what this part learns.

        Parameters
        ----------
        state : object
            The state to check.
        """
        if type(state) is not state_class(type(self)):
            raise ValueError(f"a {type(state).__name__} for {self}")

    def copy(self) -> Self:
        """The same part with parameters of its own, those of parts inside it included.

        A stream learns with the parameters it began with. The object that the user holds may get
        others (``set_params(kernel__gamma=…)`` for the next ``fit``), or serve another estimator.
        """
        return type(self)(
            **{name: _copy(value) for name, value in self.get_params(deep=False).items()}
        )


def _copy(value: Any) -> Any:
    if isinstance(value, Part):
        return value.copy()
    return value.copy() if isinstance(value, np.ndarray | list) else value


def as_number(value: object) -> float:
    """A real number as a float; NaN for what is none: True, False, and integers beyond floats.

    Parameters
    ----------
    value : object
        The value to convert.

    Returns
    -------
    float
        The number, or NaN.
    """
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def check_number(
    part: str, name: str, value: object, above: float = 0.0, below: float = math.inf
) -> None:
    """Raise unless ``value`` is a number strictly between ``above`` and ``below``.

    Parameters
    ----------
    part : str
        Name of the class, for the error message.
    name : str
        Name of the parameter, for the error message.
    value : object
        The value to check.
    above : float, default=0.0
        Lower limit, which is excluded.
    below : float, default=inf
        Upper limit, which is excluded.
    """
    if not above < as_number(value) < below:
        limits = f"above {above:g}" if below == math.inf else f"between {above:g} and {below:g}"
        raise ValueError(f"{part}: {name} must be a number {limits}, got {value!r}.")


def check_count(part: str, name: str, value: object, none_allowed: bool = True) -> None:
    """Raise unless ``value`` is an integer of at least 1, or None where that means no limit.

    Parameters
    ----------
    part : str
        Name of the class, for the error message.
    name : str
        Name of the parameter, for the error message.
    value : object
        The value to check.
    none_allowed : bool, default=True
        Whether None is allowed.
    """
    if value is None and none_allowed:
        return
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or int(value) < 1:
        limit = " or None" if none_allowed else ""
        raise ValueError(f"{part}: {name} must be an integer of at least 1{limit}, got {value!r}.")
    if int(value) > sys.maxsize:  # said without its digits, of which Python may refuse to write any
        limit = "; None is no limit" if none_allowed else ""
        raise ValueError(
            f"{part}: {name} must be at most {sys.maxsize}, got an integer of "
            f"{int(value).bit_length()} bits{limit}."
        )


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raise unless ``value`` is one of ``choices``.

    Parameters
    ----------
    name : str
        Name of the parameter, for the error message.
    value : object
        The value to check.
    choices : tuple
        Allowed values; only strings are compared by value, all others by identity.
    """
    if not any(value is c or (isinstance(c, str) and value == c) for c in choices):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}.")


def checked_seed(random_state: object) -> int:
    """The seed of all draws: an integer as it is, anything else draws one."""
    if isinstance(random_state, numbers.Integral):
        if not 0 <= int(random_state) < 2**32:
            raise ValueError(
                f"random_state must be an integer from 0 to 2**32 - 1, a RandomState or None; got "
                f"{int(random_state)}."
            )
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
