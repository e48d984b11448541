"""Schema: the type of each column (number, boolean, category), its encoding as numbers and back."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kernelstream.tables.dialect import as_number
from kernelstream.tables.files import SourceError
from kernelstream.tables.readers import Batch

NUMBER, BOOLEAN, CATEGORY, CODES = "number", "boolean", "category", "codes"
KINDS = (NUMBER, BOOLEAN, CATEGORY, CODES)  # of columns that are learned
EXCLUDED = "left out"
# What people write for a missing value, besides an empty cell and the NaN of floats.
MISSING = frozenset(
    ["", "-", "--", "?", ".", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "missing", "-nan"]
) | frozenset(["<na>", "#na", "nat", "#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!"])
TRUE = ("true", "yes", "y", "t", "on", "1")
FALSE = ("false", "no", "n", "f", "off", "0")


@dataclass(frozen=True)
class InvalidCell:
    """A cell that makes its row invalid: where it stands in the batch, and why."""

    place: int
    column: str
    reason: str


@dataclass(frozen=True)
class ColumnSchema:
    """A column of a table: its type, how it is written, and why it is so.

    Attributes
    ----------
    name : str
        Name in the table.
    use : str
        ``"number"``, ``"boolean"`` (0 and 1), ``"category"`` (one column of 0 and 1 for each
        level), ``"codes"`` (the number of the level, for a kernel of categories) or
        ``"left out"``.
    reason : str
        Why, in words.
    levels : tuple of str
        Levels of a category.
    decimal, thousands : str
        Decimal mark of numbers in text, and the characters between their digits.
    missing : float
        Fraction of the sampled rows in which the value is missing.
    """

    name: str
    use: str = NUMBER
    reason: str = "numbers"
    levels: tuple[str, ...] = ()
    decimal: str = "."
    thousands: str = ""
    missing: float = 0.0

    @property
    def learned(self) -> bool:
        """Whether it is learned."""
        return self.use != EXCLUDED

    @property
    def is_plain(self) -> bool:
        """Whether its values are numbers as every reader has them."""
        return self.use == NUMBER and self.decimal == "." and not self.thousands

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        if self.use == CATEGORY:
            return tuple(f"{self.name}={level}" for level in self.levels)
        return (self.name,) if self.learned else ()

    @property
    def done(self) -> str:
        """Its encoding in a few words."""
        words = {
            NUMBER: "learned",
            BOOLEAN: "learned as 0 and 1",
            CATEGORY: f"one-hot, {len(self.levels)} columns",
            CODES: f"codes of {len(self.levels)} levels",
        }
        filled = f", {self.missing:.1%} missing: filled" if self.missing and self.learned else ""
        return words.get(self.use, self.use) + filled

    @classmethod
    def from_facts(cls, facts: Any) -> Self:
        """A column as a file describes it; ``ValueError`` for what no release has written."""
        column = cls(**{**facts, "levels": tuple(facts["levels"])})
        texts = (column.name, column.use, column.reason, column.decimal, column.thousands)
        if (
            not all(isinstance(text, str) for text in (*texts, *column.levels))
            or column.use not in (*KINDS, EXCLUDED)
            or (column.use in (CATEGORY, CODES) and not column.levels)
            or not 0 <= column.missing <= 1
        ):
            raise ValueError(f"the column {facts}")
        return column

    # -- cells to numbers

    def encode(self, cells: pa.Array) -> np.ndarray:
        """Numbers (n, features); NaN for a value that is missing or invalid.

        Parameters
        ----------
        cells : Arrow array of length n
            The column of a table.
        """
        cells = plain_array(cells)
        if self.use == NUMBER:
            return as_numbers(cells, self.name, self.decimal, self.thousands)[:, None]
        if self.use == BOOLEAN:
            return self._booleans(cells)[:, None]
        return self._codes(cells)[:, None] if self.use == CODES else self._one_hot(cells)

    def _booleans(self, cells: pa.Array) -> np.ndarray:
        if not is_text(cells.type):
            return as_numbers(cells, self.name)
        place = pc.index_in(lowered(cells), pa.array([*FALSE, *TRUE]))
        values = np.repeat([0.0, 1.0, np.nan], [len(FALSE), len(TRUE), 1])
        return values[pc.fill_null(place, len(values) - 1).to_numpy(zero_copy_only=False)]

    def _codes(self, cells: pa.Array) -> np.ndarray:
        """The number of each level; one more for an unknown level, or none at all."""
        place = pc.index_in(as_words(cells), pa.array(self.levels, pa.string()))
        codes = pc.fill_null(place, len(self.levels))
        return np.asarray(codes.to_numpy(zero_copy_only=False), dtype=float)

    def _one_hot(self, cells: pa.Array) -> np.ndarray:
        """One column for each level; a row of zeros for an unknown level."""
        hot = np.eye(len(self.levels) + 1, len(self.levels))[self._codes(cells).astype(int)]
        hot[is_missing(cells)] = np.nan
        return hot

    def why_invalid(self, cell: Any, dtype: str) -> str:
        """What is wrong with a cell that is not missing and became NaN or infinite.

        Parameters
        ----------
        cell : object
            The value as it was read.
        dtype : str
            The type of the encoded rows.
        """
        if self.use == BOOLEAN and isinstance(cell, str):
            return f"{cell!r} is neither true nor false"
        number = as_number(cell)
        if number is None:
            return f"{cell!r} is not a number"
        return f"{cell} is " + ("infinite" if math.isinf(number) else f"too large for {dtype}")

    # -- numbers to cells

    def decode(self, X: np.ndarray) -> pa.Array:
        """Cells like those of the table, from its features: the likeliest level of a category.

        Parameters
        ----------
        X : array of shape (n, features)
            The features of this column.
        """
        if self.use == CATEGORY:
            return pa.array(np.array(self.levels, dtype=object)[X.argmax(axis=1)], pa.string())
        if self.use == BOOLEAN:
            return pa.array(X[:, 0] > 0.5)
        if self.use == CODES:
            words = np.array([*self.levels, None], dtype=object)
            return pa.array(words[np.clip(np.rint(X[:, 0]), 0, len(self.levels)).astype(int)])
        return pa.array(np.ascontiguousarray(X[:, 0]))


@dataclass(frozen=True)
class Target(ColumnSchema):
    """What a model predicts: a number, or a class of those that the sample had.

    Its levels are the classes: whole numbers of a column of numbers, words of a category. Without
    levels, numbers are predicted.
    """

    @property
    def is_class(self) -> bool:
        """Whether classes are predicted, and not numbers."""
        return bool(self.levels)

    @property
    def classes(self) -> np.ndarray:
        """The classes, sorted: whole numbers or words."""
        if self.use == NUMBER:
            return np.array(sorted(map(int, self.levels)))
        return np.array(sorted(self.levels), dtype=object)

    def __str__(self) -> str:
        if not self.is_class:
            return f"{self.name}, a number"
        return f"{self.name}, {len(self.classes)} classes ({few(list(map(str, self.classes)))})"

    def values(self, cells: Any) -> tuple[np.ndarray, list[InvalidCell]]:
        """Targets of rows, and the cells that are none.

        Parameters
        ----------
        cells : pyarrow.Array
            The column of the targets.

        Returns
        -------
        numpy.ndarray
            A target for each row; any one for an invalid cell.
        list of InvalidCell
            The cells that are no target, with the reason.
        """
        cells = plain_array(cells)
        if self.use == CATEGORY:
            place = pc.index_in(as_words(cells), pa.array(self.classes, pa.string()))
            codes = pc.fill_null(place, -1).to_numpy(zero_copy_only=False)
            values, invalid = self.classes[codes], codes < 0
        else:
            values = np.asarray(self.encode(cells)[:, 0], dtype=float)
            invalid = ~np.isfinite(values)
            if self.is_class:
                invalid |= ~np.isin(values, self.classes)
                values = np.where(invalid, self.classes[0], values).astype(self.classes.dtype)
        missing = is_missing(cells)
        return values, [
            InvalidCell(place, self.name, self._why_invalid(cells[place].as_py(), missing[place]))
            for place in np.flatnonzero(invalid).tolist()
        ]

    def _why_invalid(self, cell: Any, missing: bool) -> str:
        if missing:
            return "the value is missing"
        if not self.is_class:
            return self.why_invalid(cell, "float64")
        n = len(self.levels)
        return f"{cell!r} is none of the {n} classes that a sample of all rows had"

    # -- files

    def to_facts(self) -> dict[str, Any]:
        """As plain values, for a model file."""
        return asdict(self)

    @classmethod
    def from_facts(cls, facts: Any) -> Self:
        """Read what ``to_facts`` wrote; anything else is an error.

        Parameters
        ----------
        facts : dict
            As it comes from the header of a model file.

        Returns
        -------
        Target
            The target that was stored.
        """
        target = super().from_facts(facts)
        if target.use not in (NUMBER, CATEGORY):
            raise ValueError(f"the target {facts}")
        _ = target.classes
        return target


def is_text(type: pa.DataType) -> bool:
    """Whether a column holds text."""
    return pa.types.is_string(type) or pa.types.is_large_string(type)


def plain_array(cells: Any) -> pa.Array:
    """One array, without a dictionary."""
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.combine_chunks()
        cells = cells.chunk(0) if isinstance(cells, pa.ChunkedArray) else cells
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if pa.types.is_string_view(cells.type):
        cells = cells.cast(pa.string())
    return cells


def as_words(cells: pa.Array) -> pa.Array:
    """Cells as trimmed text: 3 and 3.0 are the same word."""
    if pa.types.is_floating(cells.type):
        whole = pc.all(pc.equal(pc.floor(cells), cells)).as_py()
        cells = cells.cast(pa.int64()) if whole else cells
    return pc.utf8_trim_whitespace(cells.cast(pa.string()))


def lowered(cells: pa.Array) -> pa.Array:
    """Text without blanks around it, in lower case."""
    return pc.utf8_lower(pc.utf8_trim_whitespace(cells))


def is_missing(cells: pa.Array) -> np.ndarray:
    """Which cells are missing: null, NaN, or text that stands for it."""
    missing = pc.is_null(cells, nan_is_null=True)
    if is_text(cells.type):
        missing = pc.or_(missing, pc.is_in(lowered(cells), pa.array(sorted(MISSING))))
    return np.asarray(missing.to_numpy(zero_copy_only=False), dtype=bool)


def as_numbers(cells: pa.Array, name: str, decimal: str = ".", thousands: str = "") -> np.ndarray:
    """A column as floating-point numbers; NaN for a value that is missing or no number."""
    if not is_text(cells.type):
        try:
            return cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        except pa.ArrowNotImplementedError as problem:
            raise SourceError(
                f"The column {name!r} holds {cells.type}, not numbers: leave it out."
            ) from problem
    for separator in thousands:
        cells = pc.replace_substring(cells, separator, "")
    cells = cells if decimal == "." else pc.replace_substring(cells, decimal, ".")
    try:
        return cells.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return np.array([as_number(cell) for cell in cells.to_pylist()], dtype=float)


@dataclass(frozen=True)
class Schema:
    """The types of all columns of a table, and with them the encoding of its rows.

    Attributes
    ----------
    columns : tuple of ColumnSchema
        In the order of the table.
    fills : bool
        Whether missing values are filled by the model; else such a row is invalid.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from kernelstream.tables import infer_schema
    >>> rows = {"id": range(30), "kg": [2.5, 3.5, 4.0] * 10, "color": ["red", "blue", None] * 10}
    >>> schema = infer_schema(pa.table(rows))
    >>> for column in schema.columns:
    ...     print(f"{column.name}: {column.done} ({column.reason})")
    id: left out (counts the rows)
    kg: learned (numbers)
    color: one-hot, 2 columns, 33.3% missing: filled (2 levels)
    >>> schema.features
    ('kg', 'color=blue', 'color=red')
    """

    columns: tuple[ColumnSchema, ...]
    fills: bool = True

    @classmethod
    def of_numbers(cls, names: Sequence[str]) -> Schema:
        """The schema of columns of numbers, of which none may be missing.

        Parameters
        ----------
        names : sequence of str
            Names of the columns.
        """
        return cls(tuple(ColumnSchema(str(name)) for name in names), fills=False)

    @cached_property
    def learned(self) -> tuple[ColumnSchema, ...]:
        """The columns that are learned."""
        return tuple(column for column in self.columns if column.learned)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names of the columns that are learned, as the table has them."""
        return tuple(column.name for column in self.learned)

    @cached_property
    def features(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return tuple(name for column in self.learned for name in column.features)

    @property
    def is_plain(self) -> bool:
        """Whether every feature is a column of numbers, as it is stored."""
        return all(column.is_plain for column in self.learned)

    @property
    def is_nameless(self) -> bool:
        """Whether nothing but the order of columns of numbers is known."""
        names = tuple(f"x{i}" for i in range(len(self.inputs)))
        plain = self.is_plain and all(c.learned and not c.missing for c in self.columns)
        return plain and self.inputs == names

    def __str__(self) -> str:
        width = max((len(column.name) for column in self.columns), default=0)
        return "\n".join(f"{c.name:<{width}}  {c.done} ({c.reason})" for c in self.columns)

    def lines(self) -> list[str]:
        """The short form: a line for each encoding, with the columns that have it."""
        titles = {
            NUMBER: "Numbers with decimal commas or thousands",
            BOOLEAN: "Booleans, as 0 and 1",
            CATEGORY: "Categories, one-hot",
            CODES: "Categories, as codes",
        }
        requested = ("not asked for", "the weight of the rows", "the target")
        titled: dict[str, list[str]] = {}
        for column in self.columns:
            if not (column.is_plain or column.reason in requested):
                title = titles.get(column.use, f"Left out, {column.reason}")
                titled.setdefault(title, []).append(column.name)
        if missing := [column.name for column in self.learned if column.missing]:
            done = "filled by the model" if self.fills else "such rows are bad ones"
            titled[f"Missing values, {done}"] = missing
        return [f"{title}: {few(names)}." for title, names in titled.items()]

    # -- rows

    def encode(self, batch: Batch, dtype: str) -> tuple[np.ndarray, list[InvalidCell]]:
        """Rows as numbers, NaN for missing values, and the first invalid cell of invalid rows.

        Parameters
        ----------
        batch : Batch
            Rows as they are stored.
        dtype : str
            Type of the numbers.
        """
        with np.errstate(over="ignore"):
            if batch.matrix is not None:
                X = np.ascontiguousarray(batch.matrix, dtype=dtype)
            else:
                X = np.empty((batch.table.num_rows, len(self.features)), dtype=dtype)
                index = {name: i for i, name in enumerate(batch.table.schema.names)}
                for column, at in self._places():
                    X[:, at] = column.encode(batch.table.column(index[column.name]))
        return X, [] if np.isfinite(X).all() else self._invalid(X, batch, dtype)

    def _places(self) -> Iterator[tuple[ColumnSchema, slice]]:
        """The columns that are learned, and where their features are."""
        at = 0
        for column in self.learned:
            width = len(column.features)
            yield column, slice(at, at + width)
            at += width

    def _invalid(self, X: np.ndarray, batch: Batch, dtype: str) -> list[InvalidCell]:
        invalid: dict[int, InvalidCell] = {}
        for j, (column, at) in enumerate(self._places()):
            strange = ~np.isfinite(X[:, at]).all(axis=1)
            if not strange.any():
                continue
            if batch.matrix is not None:
                missing = np.isnan(batch.matrix[:, j])
            else:
                missing = is_missing(plain_array(batch.table.column(column.name)))
            for place in np.flatnonzero(strange & ~missing if self.fills else strange).tolist():
                reason = "the value is missing"
                if not missing[place]:
                    reason = column.why_invalid(batch.cell(place, j, column.name), dtype)
                invalid.setdefault(place, InvalidCell(place, column.name, reason))
        return list(invalid.values())

    def rows_of(self, table: pa.Table) -> np.ndarray:
        """Rows of a table that must all be valid; NaN for missing values.

        Parameters
        ----------
        table : Arrow table
            With all columns that were learned.
        """
        require(self.inputs, table.column_names, "The table")
        X, invalid = self.encode(Batch.of(table.select(list(self.inputs))), "float64")
        if invalid:
            first = min(invalid, key=lambda cell: cell.place)
            raise SourceError(
                f"The table, row {first.place}, column {first.column!r}: {first.reason}."
            )
        return X

    def decode(self, X: np.ndarray) -> dict[str, pa.Array]:
        """Columns like those of the table, from encoded rows.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows as the model has them.
        """
        return {column.name: column.decode(X[:, at]) for column, at in self._places()}

    # -- files

    def to_text(self) -> str:
        """The schema as JSON, for a model file."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> Schema:
        """Read what ``to_text`` wrote; any other text is a ``ValueError``.

        Parameters
        ----------
        text : str
            The text.
        """
        try:
            values = json.loads(text)
            columns = tuple(map(ColumnSchema.from_facts, values["columns"]))
            return cls(columns, bool(values["fills"]))
        except (TypeError, KeyError, AttributeError, ValueError, RecursionError) as problem:
            raise ValueError(
                f"the file treats columns in a way that no release has written ({problem})."
            ) from problem


def require(wanted: Sequence[str], names: Sequence[str], where: str) -> None:
    """Raise unless all columns are there."""
    known = set(names)
    missing = [name for name in wanted if name not in known]
    if missing:
        raise SourceError(
            f"{where} has no column {', '.join(map(repr, missing))}; its columns: {few(names, 20)}."
        )


def column_means(rows: np.ndarray) -> np.ndarray:
    """Means of the values that are not missing; 0 for a column without any."""
    means: np.ndarray = np.ma.masked_invalid(rows).mean(axis=0).filled(0.0)
    return means


def few(names: Sequence[str], most: int = 8) -> str:
    """The first of some names."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(name or "(no name)" for name in names[:most]) + more
