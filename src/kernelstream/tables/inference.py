"""Inference from a sample: types of columns, columns to exclude with reasons, the target."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kernelstream.tables.dialect import is_number
from kernelstream.tables.files import SourceError
from kernelstream.tables.readers import ReadOptions
from kernelstream.tables.schema import (
    BOOLEAN,
    CATEGORY,
    EXCLUDED,
    FALSE,
    KINDS,
    MISSING,
    NUMBER,
    TRUE,
    ColumnSchema,
    Schema,
    Target,
    as_words,
    few,
    is_missing,
    is_text,
    plain_array,
    require,
)
from kernelstream.tables.text import FIRST_ROWS

MOST_LEVELS = 50  # of a category; a column with more different words is text
REPEATED = 5  # rows a level, on average: text of fewer is names
FEWEST_ROWS = 20  # from which an order of the rows is no accident
MOST_CLASSES = 20  # different whole numbers up to which they are classes, if they repeat
DATE = re.compile(r"\d{4}[-/]\d\d?[-/]\d\d?|\d\d?[-./ ](\d\d?|[A-Za-z]{3})[-./ ]\d{4}|\d\d?:\d\d")
# Names of columns that count or name the rows.
KEY_NAME = re.compile(
    r"(index|id|rowid|rownum|row|no|nr|uuid|guid|key)$|.*[_\s.-](id|uuid|guid|key|nr|no)$|.*(Id|ID)$"
)
# Decimal mark and thousands separators of numbers in text; the first of those that fit best is
# taken: 1,234 in all cells is a number with a decimal comma.
SPELLINGS = ((".", ""), (",", ""), (".", ", '\u00a0\u202f"), (",", ". '\u00a0\u202f"))


@dataclass(frozen=True)
class SchemaOptions:
    """What the user says about columns.

    Attributes
    ----------
    treat : mapping of str to str
        Names or patterns, and their types: one of ``KINDS``, or ``"out"``.
    decimal, thousands : str or None
        Marks of numbers in text; None infers them.
    missing : "fill" or "bad"
        Whether a missing value is filled, or makes its row invalid.
    """

    treat: Mapping[str, str] = field(default_factory=dict)
    decimal: str | None = None
    thousands: str | None = None
    missing: str = "fill"

    def __post_init__(self) -> None:
        for name, use in self.treat.items():
            if use not in (*KINDS, "out"):
                raise ValueError(
                    f"{name!r} cannot be treated as {use!r}: choose one of "
                    f"{', '.join(KINDS)} or out."
                )
        if self.missing not in ("fill", "bad"):
            raise ValueError(f"missing must be 'fill' or 'bad'; got {self.missing!r}.")
        if self.decimal not in (None, ".", ","):
            raise ValueError(f"decimal must be '.' or ','; got {self.decimal!r}.")

    def use_of(self, name: str) -> str | None:
        """The type that the user gives to a column; an exact name precedes a pattern.

        Parameters
        ----------
        name : str
            Name of the column.
        """
        if name in self.treat:
            return self.treat[name]
        return next((use for p, use in self.treat.items() if fnmatchcase(name, p)), None)


def infer_schema(
    table: pa.Table,
    options: SchemaOptions | None = None,
    read: ReadOptions | None = None,
    *,
    target: str | None = None,
    index: Sequence[str] = (),
    named: bool = True,
    whole: bool = True,
    where: str = "The table",
) -> Schema:
    """Infer the type of each column of a table from a sample of its rows.

    Parameters
    ----------
    table : pyarrow.Table
        The sample, in the order of the rows.
    options : SchemaOptions, optional
        What the user says about columns.
    read : ReadOptions, optional
        Which columns are to be learned, whatever they hold, and which are excluded.
    target : str or None
        The column that is to be predicted.
    index : sequence of str
        Columns that are the index of a data frame.
    named : bool
        Whether the names are the table's own.
    whole : bool
        False if later rows may be unlike these: then no column is excluded for its values.
    where : str
        Name of the table in messages.

    Returns
    -------
    Schema

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"x": ["1,5", "2,5", "0,1"], "ok": ["yes", "no", "yes"]})
    >>> print(infer_schema(table))
    x   learned (numbers with decimal commas)
    ok  learned as 0 and 1 (booleans)
    """
    options, read = options or SchemaOptions(), read or ReadOptions()
    names = table.column_names
    require([] if read.weight_column is None else [read.weight_column], names, where)
    matching(list(options.treat), names, where)
    asked = names if read.columns is None else matching(read.columns, names, where)
    learned = set(asked) - set(matching(read.exclude, names, where))
    columns: list[ColumnSchema] = []
    for name in dict.fromkeys([*asked, *names]):
        if name in (read.weight_column, target):
            reason = "the target" if name == target else "the weight of the rows"
            column = ColumnSchema(name, EXCLUDED, reason)
        elif name not in learned:
            column = ColumnSchema(name, EXCLUDED, "not asked for")
        else:
            column = infer_column(table, name, options)
            if column.learned and read.columns is None and options.use_of(name) is None:
                reason = why_excluded(table, column, index, named, whole)
                if reason:
                    column = ColumnSchema(name, EXCLUDED, reason, missing=column.missing)
        columns.append(column)
    schema = Schema(tuple(columns), options.missing == "fill")
    if not table.num_rows and not schema.inputs:
        raise SourceError(f"{where} has no rows below the names of its columns, {few(names, 20)}.")
    if not schema.inputs:
        reasons = "; ".join(f"{c.name or '(no name)'}: {c.reason}" for c in columns[:8])
        raise SourceError(
            f"{where} has no column of numbers to learn; its columns: {few(names, 20)} "
            f"({reasons}). Choose some with --columns (columns=...)."
        )
    return schema


def infer_column(table: pa.Table, name: str, options: SchemaOptions) -> ColumnSchema:
    """Infer a column from its stored type or its words, unless the user gives its type."""
    stored, use = table.column(name).type, options.use_of(name)
    cells = plain_array(table.column(name))
    if use == "out":
        return ColumnSchema(name, EXCLUDED, "not asked for")
    missing = is_missing(cells)
    fraction = round(float(missing.mean()), 6) if len(missing) else 0.0
    if use is not None:
        column = requested_column(name, cells, use, options)
    elif fraction == 1.0:
        column = ColumnSchema(name, EXCLUDED, "empty")
    elif is_text(cells.type):
        column = text_column(name, cells, options)
    else:
        column = typed_column(name, cells, stored)
    return replace(column, missing=fraction)


def requested_column(name: str, cells: pa.Array, use: str, options: SchemaOptions) -> ColumnSchema:
    """A column of the type that the user gives."""
    if use == NUMBER:
        column = column_of_numbers(name, words_of(cells), options) if is_text(cells.type) else None
        return column or ColumnSchema(name, NUMBER, "numbers, as asked")
    if use == BOOLEAN:
        return ColumnSchema(name, BOOLEAN, "booleans, as asked")
    levels = levels_of(cells)
    return ColumnSchema(name, use, f"{len(levels)} levels, as asked", levels)


def typed_column(name: str, cells: pa.Array, stored: pa.DataType) -> ColumnSchema:
    """A column of the type that is stored with it."""
    type = cells.type
    if pa.types.is_boolean(type):
        return ColumnSchema(name, BOOLEAN, "booleans")
    if pa.types.is_dictionary(stored) and pa.types.is_integer(type):
        levels = levels_of(cells)
        if len(levels) <= MOST_LEVELS:
            return ColumnSchema(name, CATEGORY, f"{len(levels)} levels", levels)
    if pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_decimal(type):
        return ColumnSchema(name)
    if pa.types.is_temporal(type) and not pa.types.is_duration(type):
        return ColumnSchema(name, EXCLUDED, "dates or times")
    return ColumnSchema(name, EXCLUDED, f"not numbers ({type})")


def text_column(name: str, cells: pa.Array, options: SchemaOptions) -> ColumnSchema:
    """A column of the type that its words look like."""
    words = words_of(cells)
    if not words:
        return ColumnSchema(name, EXCLUDED, "empty")
    lower = {word.lower() for word in words}
    if lower <= {*TRUE, *FALSE} and not lower <= {"0", "1"}:
        return ColumnSchema(name, BOOLEAN, "booleans")
    numbers = column_of_numbers(name, words, options)
    if numbers is not None:
        return numbers
    if sum(DATE.match(word) is not None for word in words) >= 0.9 * len(words):
        return ColumnSchema(name, EXCLUDED, "dates or times")
    levels = levels_of(cells)
    if len(levels) <= MOST_LEVELS and len(levels) * REPEATED <= np.sum(~is_missing(cells)):
        reason = f"{len(levels)} level" + "s" * (len(levels) > 1)
        return ColumnSchema(name, CATEGORY, reason, levels)
    n = pc.count_distinct(as_words(cells)).as_py()
    return ColumnSchema(name, EXCLUDED, f"not numbers (text, {n:,} different in the sample)")


def words_of(cells: pa.Array) -> list[str]:
    """The first different words of a column, without those for missing values."""
    words = pc.drop_null(pc.unique(pc.utf8_trim_whitespace(cells))).slice(0, FIRST_ROWS)
    return [word for word in words.to_pylist() if word.lower() not in MISSING]


def levels_of(cells: pa.Array) -> tuple[str, ...]:
    """The most frequent levels of a category, sorted; one more than ``MOST_LEVELS`` if there are.

    A category has no more: so many say that the column is text.
    """
    counts = pc.value_counts(pc.drop_null(as_words(cells))).to_pylist()
    counts = [c for c in counts if c["values"].lower() not in MISSING]
    counts.sort(key=lambda c: (-c["counts"], c["values"]))
    return tuple(sorted(c["values"] for c in counts[: MOST_LEVELS + 1]))


def column_of_numbers(name: str, words: list[str], options: SchemaOptions) -> ColumnSchema | None:
    """A column of text as numbers if at least half of its words are numbers of one spelling."""
    best, most = None, 0.0
    for decimal, thousands in SPELLINGS:
        if most == 1.0:
            break
        if options.thousands is not None:
            thousands = options.thousands
        if options.decimal in (None, decimal) and decimal not in thousands:
            fits = is_number if (decimal, thousands) == (".", "") else spelled(decimal, thousands)
            fraction = sum(bool(fits(word)) for word in words) / max(len(words), 1)
            if fraction > most:
                best, most = (decimal, thousands), fraction
    if best is None or most < 0.5:
        return None
    marks = ["decimal commas"] * (best[0] == ",") + ["thousands"] * (best[1] != "")
    reason = "numbers with " + " and ".join(marks) if marks else "numbers"
    return ColumnSchema(name, NUMBER, reason, decimal=best[0], thousands=best[1])


def spelled(decimal: str, thousands: str) -> Callable[[str], object]:
    """Whether a word is a number with these marks, such as 1.234,5 or 12,34,567.8."""
    digits = r"\d+"
    if thousands:
        digits = rf"(\d+|\d{{1,3}}([{re.escape(thousands)}])(\d{{2,3}}\2)*\d{{3}})"
    number = rf"[+\-\u2212]?{digits}({re.escape(decimal)}\d+)?([eE][+-]?\d+)?"
    return re.compile(number).fullmatch


def infer_target(table: pa.Table, name: str, options: SchemaOptions) -> Target:
    """What a column to be predicted is, by a sample of its rows.

    Words and a few whole numbers that repeat are classes, other numbers are numbers;
    ``options.treat`` says otherwise (``number`` or ``category``).

    Parameters
    ----------
    table : pyarrow.Table
        The sample.
    name : str
        The column.
    options : SchemaOptions
        What the user says about columns.

    Examples
    --------
    >>> rows = pa.table({"kg": [1.5, 2.5, 9.0], "colour": ["red", "blue", "red"]})
    >>> print(infer_target(rows, "kg", SchemaOptions()))
    kg, a number
    >>> print(infer_target(rows, "colour", SchemaOptions(treat={"colour": "category"})))
    colour, 2 classes (blue, red)
    """
    cells = plain_array(table.column(name))
    column = infer_column(table, name, options)
    levels = levels_of(cells)
    if column.use == NUMBER:
        levels = () if options.use_of(name) == NUMBER else classes_of(column.encode(cells)[:, 0])
    elif column.use == EXCLUDED or not levels:
        raise SourceError(
            f"The target {name!r} cannot be predicted: {column.reason}. Say what it is with "
            f"--treat '{name}=number' or '{name}=category' (columns=...)."
        )
    elif all(word.removeprefix("-").isdecimal() and len(word) < 16 for word in levels):
        column = ColumnSchema(name)  # whole numbers that are to be classes
    else:
        column = replace(column, use=CATEGORY)
    if len(levels) == 1:
        raise SourceError(
            f"The target {name!r} is {levels[0]} in all rows of the sample: there is nothing to "
            "predict."
        )
    reason = f"{len(levels)} classes" if levels else column.reason
    return Target(**{**vars(column), "levels": levels, "reason": reason})


def classes_of(values: np.ndarray) -> tuple[str, ...]:
    """The whole numbers that are classes, because they are few and repeat; else none."""
    values = values[np.isfinite(values)]
    different = np.unique(values)
    repeat = len(different) <= MOST_CLASSES and len(different) * REPEATED <= len(values)
    if repeat and not np.mod(different, 1.0).any():
        return tuple(f"{value:.17g}" for value in different)
    return ()


def why_excluded(
    table: pa.Table, column: ColumnSchema, index: Sequence[str], named: bool, whole: bool
) -> str:
    """Why a column is not learned: an index, a counter, a key, a label; empty if it is."""
    name, low = column.name.strip(), column.name.strip().lower()
    if column.name in index:
        return "the index of a data frame"
    if named and low in ("label", "labels", "target", "class") and whole:
        return "a label, by its name"
    if not whole or table.num_rows < FEWEST_ROWS or column.use != NUMBER:
        return ""
    cells = plain_array(table.column(column.name))
    values = column.encode(cells)[:, 0]
    if not np.isfinite(values).all() or np.mod(values, 1.0).any():
        return ""
    if named and (low == "" or low.startswith("unnamed:")):
        return "an unnamed counter"
    steps = np.diff(values)
    if (steps > 0).all() or (steps < 0).all():
        return "counts the rows"
    # Beyond 2⁵³ a float loses digits: two integers may become one number.
    exact = pa.types.is_integer(cells.type)
    exact |= is_text(cells.type) and pc.all(pc.utf8_is_decimal(cells)).as_py()
    is_long = exact and np.abs(values).max() > 2**53
    is_range = np.ptp(values) + 1 == len(values)
    is_key = named and (KEY_NAME.match(name) or KEY_NAME.match(low) or is_range)
    if (is_key or is_long) and len(pc.unique(cells)) == len(cells):
        return "a key: another number in every row"
    return ""


def matching(patterns: Sequence[str], names: Sequence[str], where: str) -> list[str]:
    """Names that match, in the order of the patterns; one that matches nothing is an error."""
    matches: dict[str, None] = {}
    known = set(names)
    for pattern in patterns:
        hits = [pattern] if pattern in known else [n for n in names if fnmatchcase(n, pattern)]
        if not hits:
            require([pattern], names, where)
        matches |= dict.fromkeys(hits)
    return list(matches)
