"""Target column: number or class, inferred from a sample; targets of rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Self

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
    CATEGORY,
    EXCLUDED,
    NUMBER,
    ColumnSchema,
    InvalidCell,
    as_words,
    few,
    is_missing,
    is_text,
    plain_array,
)

MOST_CLASSES = 20  # different whole numbers up to which they are classes, if they repeat


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
            target = super().from_facts(facts)
            if target.use not in (NUMBER, CATEGORY):
                raise ValueError(f"the target {facts}")
            _ = target.classes
        except (TypeError, KeyError, AttributeError, ValueError) as problem:
            raise ValueError(
                f"the file has a target that no release has written ({problem})."
            ) from problem
        return target


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
        # Text that is to be predicted is a class if it repeats at all.
        repeats = 0 < len(levels) <= min(MOST_LEVELS, len(cells) // 2)
        if not (column.reason.startswith("not numbers") and is_text(cells.type) and repeats):
            raise SourceError(
                f"The target {name!r} cannot be predicted: {column.reason}. Say what it is with "
                f"--treat '{name}=number' or '{name}=category' (columns=...)."
            )
        column = replace(column, use=CATEGORY)
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
