"""Checks of the parameters of bases and trackers, in words."""

from __future__ import annotations

import math
import numbers


def check_number(
    part: str, name: str, value: object, above: float = 0.0, below: float = math.inf
) -> None:
    """Raise unless ``value`` is a number strictly between ``above`` and ``below``."""
    if (
        not isinstance(value, numbers.Real)
        or isinstance(value, bool)
        or not above < float(value) < below
    ):
        limits = f"above {above:g}" if below == math.inf else f"between {above:g} and {below:g}"
        raise ValueError(f"{part}: {name} must be a number {limits}, got {value!r}.")


def check_count(part: str, name: str, value: object, none_allowed: bool = True) -> None:
    """Raise unless ``value`` is an integer of at least 1, or None where that means no limit."""
    if value is None and none_allowed:
        return
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or int(value) < 1:
        limit = " or None" if none_allowed else ""
        raise ValueError(f"{part}: {name} must be an integer of at least 1{limit}, got {value!r}.")
