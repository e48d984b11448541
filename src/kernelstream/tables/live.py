"""Live CSV and NDJSON lines, parsed row by row: time stamp, carried values, invalid rows."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kernelstream.tables.dialect import Dialect, as_number, infer_dialect, is_number, split_cells
from kernelstream.tables.files import SourceError
from kernelstream.tables.readers import LONGEST_LINE
from kernelstream.tables.text import parse_json


class LiveRow(NamedTuple):
    """One row: its features, its time stamp, and the values to repeat in an answer.

    Attributes
    ----------
    x : array of shape (d,)
        The features; NaN for a missing value.
    time : object
        The time stamp, None if there is none.
    kept : dict
        Further values by name.
    """

    x: np.ndarray
    time: Any
    kept: dict[str, Any]


class LiveRows:
    r"""Rows of lines of CSV or JSON, one by one; an invalid one is its reason in words.

    Lines that begin with ``{`` or ``[`` are JSON.

    Parameters
    ----------
    n_features : int
        So many values make a row.
    names : sequence of str, optional
        Names of the features; without any, those of the first good row count.
    takes_missing : bool
        Whether a row may have missing values.
    delimiter, header : str and bool, optional
        Of CSV, as for :class:`Source`.
    time_column : str, optional
    keep : sequence of str
        Further values to take along.

    Examples
    --------
    >>> parse = LiveRows(2, ["a", "b"], time_column="t")
    >>> for line in (b"t,a,b", b"7,1,2", b"8,3"):
    ...     print(parse.read(line))
    None
    LiveRow(x=array([1., 2.]), time='7', kept={})
    2 cells, but there are 3 columns
    """

    def __init__(
        self,
        n_features: int,
        names: Sequence[str] | None = None,
        *,
        takes_missing: bool = False,
        delimiter: str | None = None,
        header: bool | None = None,
        time_column: str | None = None,
        keep: Sequence[str] = (),
    ):
        self.n_features, self.names, self.takes_missing = n_features, names, takes_missing
        self.delimiter, self.header = delimiter, header
        self.time_column, self.keep = time_column, keep
        self.dialect: Dialect | None = None  # of CSV, as soon as a line shows it
        self.other_header: str | None = None  # names of other columns than the model's
        self.has_rows = False

    def read(self, line: bytes) -> LiveRow | str | None:
        """The row of a line, or of a message: its reason in words where it is none.

        Parameters
        ----------
        line : bytes
            CSV or JSON.

        Returns
        -------
        LiveRow, str or None
            None for a line that is no row and no mistake: a header, an empty line.
        """
        text = line.decode(errors="backslashreplace").strip(" \r\n\ufeff")
        if not text:
            return None
        if len(line) >= LONGEST_LINE:
            return f"a line of more than {LONGEST_LINE >> 20} MiB"
        try:
            return self._of_json(text) if text[0] in "{[" else self._of_csv(text)
        except (csv.Error, SourceError) as problem:
            return f"not a row of CSV: {problem}"

    def rows_of(self, table: pa.RecordBatch, named: bool = True) -> Iterator[LiveRow | str]:
        """The rows of a piece of a table; what is null is missing.

        Parameters
        ----------
        table : pyarrow.RecordBatch
            The piece.
        named : bool
            Whether its columns have names of their own.
        """
        for cells in table.to_pylist():
            values = {n: math.nan if v is None else v for n, v in cells.items()}
            yield self.row_of(values if named else self.named(list(values.values())))

    def row_of(self, cells: dict[str, Any]) -> LiveRow | str:
        """The row of values that have names already: of a table, or of tags.

        Parameters
        ----------
        cells : dict
            Values by name.
        """
        names = self.names
        if names is None:
            names = tuple(n for n in cells if n not in {self.time_column, *self.keep})
            if len(names) != self.n_features:
                return (
                    f"{len(names)} values, but the model wants {self.n_features}: name "
                    "the others with --time-column or --keep"
                )
        if self.takes_missing and not any(name in cells for name in names):
            return f"there is no value for any of {', '.join(map(repr, names))}"
        x = np.full(len(names), math.nan)
        for i, name in enumerate(names):
            if name in cells:
                value = as_number(cells[name])
                if value is None:
                    return f"column {name!r}: {cells[name]!r} is not a number"
                if math.isinf(value) or (math.isnan(value) and not self.takes_missing):
                    return f"column {name!r}: the value is missing or infinite"
                x[i] = value
            elif not self.takes_missing:
                return f"there is no value for {name!r}"
        self.names = names  # of the first good row, where the model knows none
        self.has_rows = True
        kept = {name: cells.get(name) for name in self.keep}
        return LiveRow(x, cells.get(self.time_column) if self.time_column else None, kept)

    def _of_json(self, text: str) -> LiveRow | str:
        """A line of NDJSON: an object, or values in the order of the model."""
        value = parse_json(text)
        if isinstance(value, list):
            value = self.named(value)
        return self.row_of(value) if isinstance(value, dict) else "not a JSON object"

    def _of_csv(self, text: str) -> LiveRow | str | None:
        """A line of CSV; None for a header.

        The first line may be anything: the banner of a program, a row that was cut. The first line
        that makes sense as a header or as a row determines the columns.
        """
        if self.dialect is not None:
            row = self._of_cells(text, self.dialect)
            # Any line of the right length is a header for a model without names. It was none if no
            # row fits it.
            if not isinstance(row, str) or self.has_rows or self.names is not None:
                return row
        dialect = infer_dialect(text.encode(), self.delimiter, self.header)
        names = dialect.names
        is_header = dialect.named and dialect.delimiter != " "  # words with blanks are a sentence
        if is_header and self._names_enough(names):
            self.dialect = dialect
            return None
        if dialect.named:
            # Names of other columns, as far as one can tell: rows below are not the model's.
            if is_header and len(names) >= self.n_features and not any(map(is_number, names)):
                self.other_header = text[:80]
            return f"neither a row nor a header with the columns of the model: {text[:80]!r}"
        if self.other_header is not None:
            return (
                f"the header {self.other_header!r} does not name the columns of the model; with "
                "--read header=false, values are taken in the order of the model"
            )
        dialect = replace(dialect, names=self._positions(len(names)))
        row = self._of_cells(text, dialect)
        if isinstance(row, LiveRow):
            self.dialect = dialect
        return row

    def _of_cells(self, text: str, dialect: Dialect) -> LiveRow | str:
        """A line of CSV as a row of these columns."""
        cells = split_cells(text, dialect.delimiter)
        if len(cells) != len(dialect.names):
            return f"{len(cells)} cells, but there are {len(dialect.names)} columns"
        return self.row_of(dict(zip(dialect.names, cells, strict=True)))

    def _names_enough(self, names: Sequence[str]) -> bool:
        if self.names is not None:  # columns that are not there are missing values
            known = set(self.names) & set(names)
            return bool(known) if self.takes_missing else len(known) == len(set(self.names))
        others = {self.time_column, *self.keep} - {None}
        return others <= set(names) and len(names) - len(others) == self.n_features

    def _positions(self, n: int) -> tuple[str, ...]:
        """Names for values that come without: the model's where the number fits."""
        if self.names is not None and len(self.names) == n:
            return tuple(self.names)
        return tuple(f"x{i}" for i in range(n))

    def named(self, values: list[Any]) -> dict[str, Any]:
        """Values that come without names, by those of the model where the number fits.

        Parameters
        ----------
        values : list
            In the order of the model.
        """
        return dict(zip(self._positions(len(values)), values, strict=True))
