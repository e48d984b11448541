"""Column selection by name or pattern; conversion of cells to numbers, invalid cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pyarrow as pa

from kernelstream.tables.files import SourceError
from kernelstream.tables.readers import Batch, Reader
from kernelstream.tables.text import as_number


@dataclass(frozen=True)
class Chosen:
    """Columns of a source: those to learn, weight and target, and those to carry through."""

    features: tuple[str, ...]
    weight: str | None
    carried: tuple[str, ...]
    left_out: tuple[str, ...]  # columns of text that nobody asked for
    target: str | None = None

    @property
    def wanted(self) -> list[str]:
        """Every column that must be read, once."""
        beside = [name for name in (self.weight, self.target) if name is not None]
        return list(dict.fromkeys((*self.features, *beside, *self.carried)))


def choose(
    reader: Reader,
    where: str,
    columns: Sequence[str] | None,
    exclude: Sequence[str],
    weight: str | None,
    keep: Sequence[str] | None,
) -> Chosen:
    """Choose columns by names and patterns (``sensor_*``); without any, all that hold numbers.

    ``keep=None`` carries all columns through that are not learned.
    """
    names = list(reader.fields)
    if weight is not None:
        require([weight], names, where)
    dropped = set(matching(exclude, names, where)) | ({weight} if weight else set())
    if columns is not None:
        features = [n for n in matching(columns, names, where) if n not in dropped]
        left_out: list[str] = []
    else:
        features = [n for n, is_number in reader.fields.items() if is_number and n not in dropped]
        left_out = [n for n, number in reader.fields.items() if not number and n not in dropped]
    if not features:
        raise SourceError(
            f"{where} has no column of numbers to learn; its columns: {name_list(names)}."
        )
    if keep is None:
        learned = set(features)
        carried = [n for n in names if n not in learned]
    else:
        carried = matching(keep, names, where)
    return Chosen(tuple(features), weight, tuple(carried), tuple(left_out))


def matching(patterns: Sequence[str], names: list[str], where: str) -> list[str]:
    """Names that match, in the order of the patterns; one that matches nothing is an error."""
    chosen: dict[str, None] = {}
    known = set(names)
    for pattern in patterns:
        hits = [pattern] if pattern in known else [n for n in names if fnmatchcase(n, pattern)]
        if not hits:
            require([pattern], names, where)
        chosen |= dict.fromkeys(hits)
    return list(chosen)


def require(wanted: Sequence[str], names: Sequence[str], where: str) -> None:
    """Raise unless all columns are there."""
    known = set(names)
    missing = [n for n in wanted if n not in known]
    if missing:
        raise SourceError(
            f"{where} has no column {', '.join(map(repr, missing))}; its columns: "
            f"{name_list(names)}."
        )


def name_list(names: Sequence[str]) -> str:
    """Names for a message, the first twenty of them."""
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return ", ".join(names[:20]) + more


@dataclass(frozen=True)
class Bad:
    """A cell that makes its row unfit: where it stands in the batch, and why."""

    place: int
    column: str
    reason: str


def matrix(batch: Batch, features: Sequence[str], dtype: str) -> tuple[np.ndarray, list[Bad]]:
    """Columns as a matrix, and the first bad cell of every row that has one."""
    if batch.matrix is not None:
        with np.errstate(over="ignore"):
            X = np.ascontiguousarray(batch.matrix, dtype=dtype)
    else:
        X = np.empty((len(batch.numbers), len(features)), dtype=dtype)
        index = {name: i for i, name in enumerate(batch.table.schema.names)}
        with np.errstate(over="ignore"):
            for j, name in enumerate(features):
                X[:, j] = as_numbers(batch.table.column(index[name]), name)
    if np.isfinite(X).all():
        return X, []
    bad = []
    for place in np.flatnonzero(~np.isfinite(X).all(axis=1)):
        j = int(np.flatnonzero(~np.isfinite(X[place]))[0])
        value = batch.cell(int(place), j, features[j])
        bad.append(Bad(int(place), features[j], why(value, dtype)))
    return X, bad


def why(value: Any, dtype: str) -> str:
    """What is wrong with a cell."""
    if value is None or value != value or (isinstance(value, str) and value.lower() == "nan"):
        return "the value is missing"
    try:
        number = float(value)
    except ValueError:
        return f"{value!r} is not a number"
    return f"{value} is " + ("infinite" if np.isinf(number) else f"too large for {dtype}")


def as_numbers(column: pa.Array, name: str) -> np.ndarray:
    """A column as floating-point numbers; what is missing or no number becomes NaN."""
    type = column.type
    if pa.types.is_dictionary(type):
        column = column.dictionary_decode()
        type = column.type
    if pa.types.is_string(type) or pa.types.is_large_string(type):
        return text_as_numbers(column)
    if pa.types.is_null(type):
        return np.full(len(column), np.nan)
    if pa.types.is_decimal(type) or pa.types.is_boolean(type):
        column = column.cast(pa.float64())
    elif pa.types.is_duration(type):
        seconds = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[type.unit]
        return seconds * column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    elif not (pa.types.is_integer(type) or pa.types.is_floating(type)):
        raise SourceError(f"The column {name!r} holds {type}, not numbers: leave it out.")
    return column.to_numpy(zero_copy_only=False)


def text_as_numbers(column: pa.Array) -> np.ndarray:
    """Text as numbers: at once where all of it is, else cell by cell."""
    try:
        return column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return np.array([as_number(cell) for cell in column.to_pylist()], dtype=float)
