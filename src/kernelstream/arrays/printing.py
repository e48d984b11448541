"""Short representations of records: rounded numbers, array shapes, omitted empty fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, TypeVar

import numpy as np

Kind = TypeVar("Kind", bound=type)

FEW = 6  # entries of an array or a sequence that are shown
LONG = 60  # letters of anything else


def prints_short(kind: Kind) -> Kind:
    """Make the values of a data class print in a line or two.

    Parameters
    ----------
    kind : type
        Data class to decorate.

    Returns
    -------
    type
        The same class with a short ``repr``.

    Examples
    --------
    >>> @prints_short
    ... @dataclasses.dataclass
    ... class Found:
    ...     share: float
    ...     rows: np.ndarray
    ...     reason: str | None = None
    >>> Found(2 / 3, np.zeros((800, 6)))
    Found(share=0.6667, rows=<800 × 6 numbers>)
    """
    kind.__repr__ = _of_record  # type: ignore[assignment, method-assign]
    return kind


def _of_record(record: Any) -> str:
    shown = []
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        absent = value is None or value is False or (isinstance(value, tuple) and not value)
        if field.repr and not absent:
            shown.append(f"{field.name}={short(value)}")
    return f"{type(record).__name__}({', '.join(shown)})"


def short(value: Any, inside: bool = False) -> str:
    """A value in a few letters; records inside of records by their names.

    Examples
    --------
    >>> short(1 / 3), short([1, 2.25]), short(range(100)), short({"a": 1})
    ('0.3333', '[1, 2.25]', '<100 entries>', '<1 entry>')
    """
    if isinstance(value, str):
        return repr(value if len(value) <= LONG else value[: LONG - 1] + "…")
    if isinstance(value, bool | np.bool_) or value is None:
        return str(value)
    if isinstance(value, Real):
        return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        if isinstance(value, np.ndarray) and value.ndim == 1 and len(value) <= FEW:
            return f"[{', '.join(short(entry) for entry in value)}]"
        return f"<{' × '.join(map(str, value.shape))} numbers>"
    if dataclasses.is_dataclass(value):
        return f"{type(value).__name__}(…)"
    if isinstance(value, Mapping) or (isinstance(value, Sequence) and (inside or len(value) > FEW)):
        return f"<{len(value)} {'entry' if len(value) == 1 else 'entries'}>"
    if isinstance(value, tuple | list):
        entries = ", ".join(short(entry, inside=True) for entry in value)
        comma = "," if len(value) == 1 else ""
        return f"[{entries}]" if isinstance(value, list) else f"({entries}{comma})"
    text = repr(value)
    return text if len(text) <= LONG else f"{text[: LONG - 1]}…"
