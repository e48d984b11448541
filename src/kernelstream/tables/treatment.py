"""Schema: type and encoding of each column (one-hot, date cycles, missing values), with reasons.

A *treatment* is made by ``survey`` from a sample of all rows. It turns columns as they are stored
(numbers, text, dates, gaps) into a matrix of numbers, and features back into such columns.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kernelstream.tables.columns import Bad, as_numbers, why
from kernelstream.tables.files import SourceError
from kernelstream.tables.readers import Batch

NUMBER, BOOLEAN, CATEGORY, CODES, CALENDAR = "number", "boolean", "category", "codes", "calendar"
LEFT_OUT = "left out"
MINUS = "\u2212"
UNITS = "%\u2030$\u20ac\u00a3\u00a5\u20b9"  # signs of shares and of money
BRACKETS = r"^\s*\((.*)\)\s*$"  # around negative numbers
KINDS = (NUMBER, BOOLEAN, CATEGORY, CODES, CALENDAR)  # of columns that are learned
# What people write where nothing was measured, beside an empty cell and the NaN of floats.
MISSING = frozenset(
    ["", "-", "--", "?", ".", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "missing", "-nan"]
) | frozenset(["<na>", "#na", "nat", "#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!"])
TRUE = frozenset(("true", "yes", "y", "t", "on", "ja", "oui", "si", "sí", "1"))
FALSE = frozenset(("false", "no", "n", "f", "off", "nein", "non", "0"))
DATE_FORMATS = (
    "%d.%m.%Y %H:%M:%S",
    "%d.%m.%Y %H:%M",
    "%d.%m.%Y",
    "%m/%d/%Y %I:%M:%S %p",
    "%m/%d/%Y %I:%M %p",
    "%m/%d/%Y %H:%M:%S",
    "%m/%d/%Y %H:%M",
    "%m/%d/%Y",
    "%d/%m/%Y %H:%M:%S",
    "%d/%m/%Y %H:%M",
    "%d/%m/%Y",
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d",
    "%d-%b-%Y %H:%M:%S",
    "%d-%b-%Y",
    "%d %b %Y",
    "%H:%M:%S",
    "%H:%M",
)
ISO = "ISO 8601"
# Reasons that nobody has to be told.
ASKED = ("not asked for", "the weight of the rows", "the target")
# Calendar features: what goes round, and how long that takes (seconds, or days of the year).
CYCLES = ("hour", "weekday", "yearday")


@dataclass(frozen=True)
class Column:
    """A column of a table: what is done with it, and why.

    Attributes
    ----------
    name : str
        As the table has it.
    use : str
        ``"number"``, ``"boolean"`` (0 and 1), ``"category"`` (one column of 0 and 1 for each
        level), ``"codes"`` (the number of the level, for a kernel of categories), ``"calendar"``
        (hour, weekday and day of the year as points of circles) or ``"left out"``.
    reason : str
        Why, in words.
    levels : tuple of str
        Of a category, or the cycles of a calendar that vary.
    decimal, thousands : str
        How numbers are written in it.
    dates : str
        How dates are written in it.
    missing : float
        Share of the sampled rows in which its value is missing.
    """

    name: str
    use: str = NUMBER
    reason: str = "numbers"
    levels: tuple[str, ...] = ()
    decimal: str = "."
    thousands: str = ""
    dates: str = ""
    missing: float = 0.0

    @property
    def learned(self) -> bool:
        """Whether it is learned."""
        return self.use != LEFT_OUT

    @property
    def is_plain(self) -> bool:
        """Whether its values are learned as any reader gives them."""
        return self.use == NUMBER and self.decimal == "." and not self.thousands

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the columns of numbers that it becomes."""
        if self.use == CATEGORY:
            return tuple(f"{self.name}={level}" for level in self.levels)
        if self.use == CALENDAR:
            return tuple(f"{self.name}.{c}.{part}" for c in self.levels for part in ("sin", "cos"))
        return (self.name,) if self.learned else ()

    @property
    def done(self) -> str:
        """What is done with it, in a few words."""
        words = {
            NUMBER: "learned",
            BOOLEAN: "learned as 0 and 1",
            CATEGORY: f"one-hot, {len(self.levels)} columns",
            CODES: f"codes of {len(self.levels)} levels",
            CALENDAR: f"calendar, {2 * len(self.levels)} columns",
        }
        gaps = f", {self.missing:.1%} missing: filled" if self.missing and self.learned else ""
        return words.get(self.use, self.use) + gaps

    def check(self) -> None:
        """Raise ``ValueError`` where a file says what no release has written."""
        texts = (self.name, self.use, self.reason, self.decimal, self.thousands, self.dates)
        if not all(isinstance(text, str) for text in (*texts, *self.levels)):
            raise ValueError("a column described by what is no text")
        if self.use not in (*KINDS, LEFT_OUT):
            raise ValueError(f"a column that is {self.use!r}")
        if not isinstance(self.missing, int | float) or not 0 <= self.missing <= 1:
            raise ValueError(f"a share of {self.missing!r} missing values")
        if self.use in (CATEGORY, CODES) and not self.levels:
            raise ValueError("a category without levels")
        if self.use == CALENDAR and (not self.levels or set(self.levels) - set(CYCLES)):
            raise ValueError("a calendar without cycles")

    # -- cells to numbers

    def encode(self, cells: pa.Array) -> np.ndarray:
        """Numbers (n, features); NaN where a value is missing or is not what it should be.

        Parameters
        ----------
        cells : Arrow array of length n
            The column of a table.
        """
        cells = plain_array(cells)
        if self.use == NUMBER:
            return self._numbers(cells)[:, None]
        if self.use == BOOLEAN:
            return self._booleans(cells)[:, None]
        if self.use == CODES:
            return self._codes(cells)[:, None]
        return self._one_hot(cells) if self.use == CATEGORY else self._calendar(cells)

    def _numbers(self, cells: pa.Array) -> np.ndarray:
        if is_text(cells.type) and not self.is_plain:
            cells = spelt_plainly(cells, self.decimal, self.thousands)
        return as_numbers(cells, self.name)

    def _booleans(self, cells: pa.Array) -> np.ndarray:
        if not is_text(cells.type):
            return as_numbers(cells, self.name)
        words = pc.utf8_lower(pc.utf8_trim_whitespace(cells))
        values = np.full(len(words), np.nan)
        values[_among(words, FALSE)], values[_among(words, TRUE)] = 0.0, 1.0
        return values

    def _codes(self, cells: pa.Array) -> np.ndarray:
        """The number of each level; one more for a level that nobody has seen, or none at all."""
        place = pc.index_in(as_words(cells), pa.array(self.levels, pa.string()))
        return np.asarray(
            pc.fill_null(place, len(self.levels)).to_numpy(zero_copy_only=False), dtype=float
        )

    def _one_hot(self, cells: pa.Array) -> np.ndarray:
        """A row of zeros for a level that nobody has seen."""
        words = as_words(cells)
        hot = np.eye(len(self.levels) + 1, len(self.levels))[self._codes(cells).astype(int)]
        hot[_among(pc.utf8_lower(words), MISSING)] = np.nan
        hot[pc.is_null(words).to_numpy(zero_copy_only=False)] = np.nan
        return hot

    def _calendar(self, cells: pa.Array) -> np.ndarray:
        turns = cycles(seconds_of(cells, self.dates))
        angles = [2.0 * np.pi * turns[cycle] for cycle in self.levels]
        return np.column_stack([f(angle) for angle in angles for f in (np.sin, np.cos)])

    def why(self, cell: Any, dtype: str) -> str | None:
        """What is wrong with a cell that became NaN or infinite; None where it is missing.

        Parameters
        ----------
        cell : object
            As it was read.
        dtype : str
            What the numbers were to be.
        """
        if cell is None or cell != cell:
            return None
        if isinstance(cell, str):
            if cell.strip().lower() in MISSING:
                return None
            if self.use == CALENDAR:
                return f"{cell!r} is not a date like the others ({self.dates})"
            if self.use == BOOLEAN:
                return f"{cell!r} is neither true nor false"
        return why(cell, dtype)

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
    string_view = getattr(pa.types, "is_string_view", None)
    if string_view is not None and string_view(cells.type):
        cells = cells.cast(pa.string())
    return cells


def as_words(cells: pa.Array) -> pa.Array:
    """Cells as trimmed text: 3 and 3.0 are the same word."""
    if pa.types.is_floating(cells.type):
        whole = pc.all(pc.equal(pc.floor(cells), cells)).as_py()
        cells = cells.cast(pa.int64()) if whole else cells
    return pc.utf8_trim_whitespace(cells.cast(pa.string()))


def spelt_plainly(cells: pa.Array, decimal: str, thousands: str) -> pa.Array:
    """Text of numbers with a decimal point and nothing between or around their digits."""
    if "(" in thousands:
        cells = pc.replace_substring_regex(cells, BRACKETS, r"-\1")
    if MINUS in thousands:
        cells = pc.replace_substring(cells, MINUS, "-")
    apart = " \u00a0\u202f" if any(sign in thousands for sign in UNITS) else ""
    for separator in thousands + apart:
        if separator != "(":
            cells = pc.replace_substring(cells, separator, "")
    return cells if decimal == "." else pc.replace_substring(cells, decimal, ".")


def _among(words: pa.Array, known: frozenset[str]) -> np.ndarray:
    found = pc.is_in(words, pa.array(sorted(known), pa.string()))
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=bool)


def seconds_of(cells: pa.Array, dates: str) -> np.ndarray:
    """Seconds since 1970 by the clock of the place; NaN where there is no date."""
    type = cells.type
    if pa.types.is_time(type):
        return cells.cast(pa.time64("us")).cast(pa.int64()).to_numpy(zero_copy_only=False) / 1e6
    if pa.types.is_date(type) or pa.types.is_timestamp(type):
        if pa.types.is_timestamp(type) and type.tz:
            cells = pc.local_timestamp(cells)
        stamps = cells.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        return np.asarray(stamps.to_numpy(zero_copy_only=False), dtype=float) / 1e6
    return np.array([parse_date(cell, dates) for cell in cells.to_pylist()], dtype=float)


def parse_date(cell: Any, dates: str) -> float:
    """Seconds since 1970 of a date as text; NaN where it is none.

    Examples
    --------
    >>> parse_date("1970-01-02T00:00:01", "ISO 8601"), parse_date("2.1.1970", "%d.%m.%Y")
    (86401.0, 86400.0)
    """
    if not isinstance(cell, str):
        return math.nan
    text = cell.strip()
    try:
        if dates == ISO:
            moment = datetime.datetime.fromisoformat(text)
        else:
            moment = datetime.datetime.strptime(text, dates)
    except ValueError:
        return math.nan
    since = moment.replace(tzinfo=None) - datetime.datetime(1970, 1, 1)
    return since.total_seconds()


def cycles(seconds: np.ndarray) -> dict[str, np.ndarray]:
    """How far round the day, the week and the year moments are, from 0 to 1."""
    days = seconds / 86400.0
    day = np.floor(days)
    stamps = np.where(np.isfinite(day), day, 0).astype("int64").astype("datetime64[D]")
    of_year = (stamps - stamps.astype("datetime64[Y]")).astype(float)
    of_year[~np.isfinite(day)] = np.nan
    return {
        "hour": days - day,
        "weekday": np.mod(day + 3.0, 7.0) / 7.0,  # 1 January 1970 was a Thursday
        "yearday": of_year / 366.0,
    }


@dataclass(frozen=True)
class Treatment:
    """What is done with every column of a table.

    Attributes
    ----------
    columns : tuple of Column
        In the order of the table.
    remarks : tuple of str
        What was found about the files: encoding, comments, a row of units.
    fills : bool
        Whether missing values are filled by the model; else such a row is a bad one.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from kernelstream.tables import treatment_of
    >>> rows = {"id": range(30), "kg": [2.5, 3.5, 4.0] * 10, "colour": ["red", "blue", None] * 10}
    >>> treatment = treatment_of(pa.table(rows))
    >>> for column in treatment.columns:
    ...     print(f"{column.name}: {column.done} ({column.reason})")
    id: left out (counts the rows)
    kg: learned (numbers)
    colour: one-hot, 2 columns, 33.3% missing: filled (2 levels)
    >>> treatment.features
    ('kg', 'colour=blue', 'colour=red')
    """

    columns: tuple[Column, ...]
    remarks: tuple[str, ...] = ()
    fills: bool = True

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    @cached_property
    def learned(self) -> tuple[Column, ...]:
        """The columns that are learned."""
        return tuple(column for column in self.columns if column.learned)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names of the columns that are learned, as the table has them."""
        return tuple(column.name for column in self.learned)

    @cached_property
    def features(self) -> tuple[str, ...]:
        """Names of the columns of numbers that they become."""
        return tuple(name for column in self.learned for name in column.features)

    @property
    def is_plain(self) -> bool:
        """Whether every feature is a column of numbers, as it is stored."""
        return all(column.is_plain for column in self.learned)

    @property
    def is_trivial(self) -> bool:
        """Whether every column is learned as it is, and nothing is missing."""
        return self.is_plain and all(c.learned and not c.missing for c in self.columns)

    @property
    def is_nameless(self) -> bool:
        """Whether nothing but the order of plain numbers is known."""
        return self.is_trivial and self.inputs == tuple(f"x{i}" for i in range(len(self.inputs)))

    def __str__(self) -> str:
        width = max((len(column.name) for column in self.columns), default=0)
        return "\n".join(f"{c.name:<{width}}  {c.done} ({c.reason})" for c in self.columns)

    def lines(self) -> list[str]:
        """The short form: a line for each thing that is done, with the columns it is done to."""
        said = list(self.remarks)
        out: dict[str, list[str]] = {}
        for column in self.columns:
            if not column.learned and column.reason not in ASKED:
                out.setdefault(column.reason, []).append(column.name)
        said += [f"Left out, {reason}: {few(names)}." for reason, names in out.items()]
        words = {
            BOOLEAN: "Booleans, as 0 and 1",
            CATEGORY: "Categories, one-hot",
            CODES: "Categories, as codes",
            CALENDAR: "Dates, as hour, weekday and day of the year",
        }
        for use, what in words.items():
            names = [column.name for column in self.columns if column.use == use]
            said += [f"{what}: {few(names)}."] if names else []
        commas = [c.name for c in self.learned if c.use == NUMBER and not c.is_plain]
        if commas:
            said.append(f"Numbers with decimal commas, thousands or signs: {few(commas)}.")
        gaps = [c.name for c in self.learned if c.missing]
        if gaps:
            done = "filled by the model" if self.fills else "such rows are bad ones"
            said.append(f"Missing values, {done}: {few(gaps)}.")
        return said

    # -- rows

    def encode(self, batch: Batch, dtype: str) -> tuple[np.ndarray, list[Bad]]:
        """Rows as numbers, NaN where they will be filled, and the first bad cell of bad rows.

        Parameters
        ----------
        batch : Batch
            What a reader has read.
        dtype : str
            What the numbers are to be.
        """
        if batch.matrix is not None:
            with np.errstate(over="ignore"):
                X = np.ascontiguousarray(batch.matrix, dtype=dtype)
        else:
            X = self._encoded(batch.table, dtype)
        if np.isfinite(X).all():
            return X, []
        return X, self._bad(X, batch, dtype)

    def _encoded(self, table: pa.RecordBatch | pa.Table, dtype: str) -> np.ndarray:
        X = np.empty((table.num_rows, len(self.features)), dtype=dtype)
        index = {name: i for i, name in enumerate(table.schema.names)}
        at = 0
        with np.errstate(over="ignore"):
            for column in self.learned:
                width = len(column.features)
                X[:, at : at + width] = column.encode(table.column(index[column.name]))
                at += width
        return X

    def _bad(self, X: np.ndarray, batch: Batch, dtype: str) -> list[Bad]:
        bad: dict[int, Bad] = {}
        at = 0
        for j, column in enumerate(self.learned):
            values = X[:, at : at + len(column.features)]
            at += len(column.features)
            strange = ~np.isfinite(values).all(axis=1)
            if batch.matrix is None and self.fills and not np.isinf(values).any():
                strange &= self._present(batch.table.column(column.name))
            for place in np.flatnonzero(strange).tolist():
                reason = column.why(batch.cell(place, j, column.name), dtype)
                if reason is None and not self.fills:
                    reason = "the value is missing"
                if reason is not None:
                    bad.setdefault(place, Bad(place, column.name, reason))
        return list(bad.values())

    @staticmethod
    def _present(cells: Any) -> np.ndarray:
        """Which cells hold something that may be wrong; a NaN among floats is a missing value."""
        if pa.types.is_floating(cells.type):
            return np.zeros(len(cells), dtype=bool)
        return np.asarray(pc.is_valid(cells).to_numpy(zero_copy_only=False), dtype=bool)

    def rows_of(self, table: pa.Table, dtype: str, where: str = "The table") -> np.ndarray:
        """Rows of a table that must all be good ones; NaN where values are missing.

        Parameters
        ----------
        table : Arrow table
            With all columns that were learned.
        dtype : str
            What the numbers are to be.
        where : str
            What an error calls the table.
        """
        missing = [name for name in self.inputs if name not in table.column_names]
        if missing:
            raise SourceError(
                f"{where} has no column {', '.join(map(repr, missing))}, which the model learned; "
                f"its columns: {few(table.column_names)}."
            )
        whole = table.select(list(self.inputs)).combine_chunks().to_batches()
        if not whole:
            return np.empty((0, len(self.features)), dtype=dtype)
        batch = Batch(np.arange(1, table.num_rows + 1), whole[0], table.num_rows)
        X, bad = self.encode(batch, dtype)
        if bad:
            first = min(bad, key=lambda cell: cell.place)
            raise SourceError(
                f"{where}, row {first.place}, column {first.column!r}: {first.reason}."
            )
        return X

    def decode(self, X: np.ndarray) -> dict[str, pa.Array]:
        """Columns like those of the table, from features: what a model makes of rows.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows as the model has them.
        """
        columns: dict[str, pa.Array] = {}
        at = 0
        for column in self.learned:
            part = X[:, at : at + len(column.features)]
            at += len(column.features)
            if column.use == CALENDAR:  # there is no way back to a date
                columns |= {n: pa.array(v) for n, v in zip(column.features, part.T, strict=True)}
            else:
                columns[column.name] = column.decode(part)
        return columns

    # -- files

    def to_text(self) -> str:
        """As JSON, for a model file."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> Treatment:
        """Read what ``to_text`` wrote; a text that it did not write is a ``ValueError``.

        Parameters
        ----------
        text : str
            The text.
        """
        try:
            values = json.loads(text)
            columns = tuple(
                Column(**{**column, "levels": tuple(column["levels"])})
                for column in values.pop("columns")
            )
            for column in columns:
                column.check()
            remarks = tuple(map(str, values.pop("remarks")))
            return cls(columns, remarks, bool(values.pop("fills")))
        except (TypeError, KeyError, AttributeError, ValueError, RecursionError) as problem:
            raise ValueError(
                f"the file treats columns in a way that no release has written ({problem})."
            ) from problem


def column_means(rows: np.ndarray) -> np.ndarray:
    """Means of the values that are not missing; 0 for a column without any."""
    missing = np.isnan(rows)
    present = np.maximum((~missing).sum(axis=0), 1)
    return np.where(missing, 0.0, rows).sum(axis=0) / present


def few(names: Sequence[str], most: int = 8) -> str:
    """The first of some names."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(name or "(no name)" for name in names[:most]) + more
