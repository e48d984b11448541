"""Target column: number or class, inferred from a sample; labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kernelstream.tables.files import SourceError
from kernelstream.tables.inference import (
    MOST_LEVELS,
    REPEATED,
    SchemaOptions,
    infer_column,
    levels_of,
)
from kernelstream.tables.schema import (
    BOOLEAN,
    CALENDAR,
    CATEGORY,
    CODES,
    EXCLUDED,
    MISSING,
    NUMBER,
    ColumnSchema,
    InvalidCell,
    as_words,
    few,
    is_text,
    plain_array,
)

MOST_CLASSES = 20  # different whole numbers up to which they are classes, if they repeat
INTEGER, TRUTH, TEXT = "whole numbers", "true and false", "words"


@dataclass(frozen=True)
class Target:
    """What a model predicts: a number, or a class of those that the sample had.

    Attributes
    ----------
    column : ColumnSchema
        The column, and how its cells are read; its levels are the classes.
    labels : str
        What classes are called by: ``"whole numbers"``, ``"true and false"`` or ``"words"``; empty
        where numbers are predicted.
    """

    column: ColumnSchema
    labels: str = ""

    @property
    def name(self) -> str:
        """The column's name."""
        return self.column.name

    @property
    def is_class(self) -> bool:
        """Whether classes are predicted, and not numbers."""
        return bool(self.labels)

    @property
    def classes(self) -> np.ndarray:
        """The classes, sorted: whole numbers, truths or words."""
        if self.labels == INTEGER:
            return np.array(sorted(map(int, self.column.levels)))
        if self.labels == TRUTH:
            return np.array([False, True])
        return np.array(sorted(self.column.levels), dtype=object)

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
        if self.labels in (TRUTH, TEXT):
            levels = np.array(self.column.levels, dtype=object)
            place = pc.index_in(as_words(cells), pa.array(self.column.levels, pa.string()))
            codes = pc.fill_null(place, -1).to_numpy(zero_copy_only=False)
            invalid = codes < 0
            values = levels[codes] == "true" if self.labels == TRUTH else levels[codes]
        else:
            values = np.asarray(self.column.encode(cells)[:, 0], dtype=float)
            invalid = ~np.isfinite(values)
            if self.is_class:
                invalid |= ~np.isin(values, self.classes)
                values = np.where(invalid, self.classes[0], values).astype(self.classes.dtype)
        return values, [
            InvalidCell(place, self.name, self._why_invalid(cells[place].as_py()))
            for place in np.flatnonzero(invalid).tolist()
        ]

    def _why_invalid(self, cell: Any) -> str:
        reason = self.column.why_invalid(cell, "float64")
        if cell is None or str(cell).strip().lower() in MISSING or reason is None:
            return "the value is missing"
        if not self.is_class:
            return reason
        return (
            f"{cell!r} is none of the {len(self.column.levels)} classes that a sample of all rows "
            "had"
        )

    # -- files

    def to_facts(self) -> dict[str, Any]:
        """As plain values, for a model file."""
        return asdict(self)

    @classmethod
    def from_facts(cls, facts: Any) -> Target:
        """Read what ``to_facts`` wrote; anything else is a ``ValueError``.

        Parameters
        ----------
        facts : dict
            As it comes from the header of a model file.

        Returns
        -------
        Target
            The target that was stored.
        """
        try:
            column = facts["column"]
            found = cls(ColumnSchema.from_facts(column), facts["labels"])
            if found.labels not in ("", INTEGER, TRUTH, TEXT):
                raise ValueError(f"classes called by {found.labels!r}")
            _ = found.classes if found.is_class else None
        except (TypeError, KeyError, AttributeError, ValueError) as problem:
            raise ValueError(
                f"the file has a target that no release has written ({problem})."
            ) from problem
        return found


def infer_target(table: pa.Table, name: str, options: SchemaOptions) -> Target:
    """What a column to be predicted is, by a sample of its rows.

    Words, truths and a few whole numbers that repeat are classes, other numbers are numbers;
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
    column, use = infer_column(table, name, options), options.use_of(name)
    choice = f"Say what it is with --treat '{name}=number' or '{name}=category' (columns=...)."
    if column.use == EXCLUDED and is_text(cells.type):
        levels = levels_of(cells)  # text that is to be predicted is a class if it repeats at all
        if "dates" not in column.reason and 0 < len(levels) <= min(MOST_LEVELS, len(cells) // 2):
            column = with_classes(replace(column, use=CATEGORY), levels)
    if column.use in (EXCLUDED, CALENDAR):
        reason = "dates or times" if "dates" in column.reason else column.reason
        raise SourceError(f"The target {name!r} cannot be predicted: {reason}. {choice}")
    if column.use == NUMBER:
        target = target_of_numbers(column, column.encode(cells)[:, 0], use)
    elif column.use == BOOLEAN and pa.types.is_boolean(cells.type):
        levels = tuple(sorted(set(as_words(cells).drop_null().to_pylist())))
        target = Target(with_classes(column, levels), TRUTH)
    else:
        levels = column.levels or levels_of(cells)
        is_whole = column.use in (CATEGORY, CODES) and all(
            word.removeprefix("-").isdecimal() and len(word) < 16 for word in levels
        )
        column = ColumnSchema(name) if is_whole else replace(column, use=CATEGORY)
        target = Target(with_classes(column, levels), INTEGER if is_whole else TEXT)
    if target.is_class and len(target.column.levels) < 2:
        raise SourceError(
            f"The target {name!r} is {''.join(target.column.levels)} in all rows of the sample: "
            "there is nothing to predict."
        )
    return target


def target_of_numbers(column: ColumnSchema, values: np.ndarray, use: str | None) -> Target:
    """Numbers to be predicted, or classes if they are a few whole numbers that repeat."""
    values = values[np.isfinite(values)]
    different = np.unique(values)
    if len(different) == 0:
        raise SourceError(f"The target {column.name!r} has no value in any row that was sampled.")
    repeat = len(different) <= MOST_CLASSES and len(different) * REPEATED <= len(values)
    is_whole = bool(np.all(np.mod(different, 1.0) == 0))
    if len(different) == 1 or (use is None and repeat and is_whole):
        return Target(with_classes(column, [f"{value:.17g}" for value in different]), INTEGER)
    return Target(replace(column, levels=()))


def with_classes(column: ColumnSchema, levels: Sequence[str]) -> ColumnSchema:
    """A column with these levels as classes."""
    return replace(column, levels=tuple(levels), reason=f"{len(levels)} classes")
