"""Rows of a live stream, CSV or NDJSON, one by one as they come."""

from __future__ import annotations

import codecs
import csv
import math
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from kernelstream.sources.text import (
    as_number,
    csv_cells,
    guess_delimiter,
    header_names,
    parse_json,
)


class LiveRow(NamedTuple):
    """One row: its features, its time stamp, and the values to repeat in an answer."""

    x: np.ndarray
    time: Any
    kept: dict[str, Any]


class LiveRows:
    r"""Rows of a pipe, each as soon as its line is complete; a bad one is its reason in words.

    Parameters
    ----------
    stream : binary stream
    n_features : int
        So many values make a row.
    names : sequence of str, optional
        Names of the features; without any, those of the first good row count.
    takes_missing : bool
        Whether a row may have missing values.
    format : "auto", "ndjson" or "csv"
    delimiter, header : str and bool, optional
        Of CSV, as for :class:`Source`.
    time_column : str, optional
    keep : sequence of str
        Further values to take along.

    Examples
    --------
    >>> import io
    >>> for row in LiveRows(io.BytesIO(b"t,a,b\n7,1,2\n8,3\n"), 2, ["a", "b"], time_column="t"):
    ...     print(row)
    LiveRow(x=array([1., 2.]), time='7', kept={})
    2 cells, but there are 3 columns
    """

    def __init__(
        self,
        stream: BinaryIO,
        n_features: int,
        names: Sequence[str] | None = None,
        *,
        takes_missing: bool = False,
        format: str = "auto",
        delimiter: str | None = None,
        header: bool | None = None,
        time_column: str | None = None,
        keep: Sequence[str] = (),
    ):
        self.stream, self.n_features, self.names = stream, n_features, names
        self.takes_missing, self.format = takes_missing, format
        self.delimiter, self.header = delimiter, header
        self.time_column, self.keep = time_column, keep
        self.columns: list[str] | None = None  # of CSV
        self.n_good = 0

    def __iter__(self) -> Iterator[LiveRow | str]:
        # readline returns as soon as a line is there: nothing waits for a buffer to be full
        for place, line in enumerate(iter(self.stream.readline, b"")):
            line = line if place else line.removeprefix(codecs.BOM_UTF8)
            if not line.strip(b" \r\n"):
                continue
            if self.format == "auto":
                self.format = "ndjson" if line.lstrip()[:1] in (b"{", b"[") else "csv"
            text = line.decode("utf-8", errors="replace").strip(" \r\n")
            cells = self._of_json(text) if self.format == "ndjson" else self._of_csv(text)
            if cells is None:
                continue
            row = cells if isinstance(cells, str) else self._row(cells)
            self.n_good += not isinstance(row, str)
            yield row

    def _of_json(self, text: str) -> dict[str, Any] | str:
        """A line of NDJSON as named values."""
        value = parse_json(text)
        if isinstance(value, list):
            return dict(zip(self._positions(len(value)), value, strict=True))
        return value if isinstance(value, dict) else "not a JSON object"

    def _of_csv(self, text: str) -> dict[str, Any] | str | None:
        """A line of CSV as named values; None for a header."""
        if self.delimiter is None:
            self.delimiter = guess_delimiter(text)
        try:
            cells = csv_cells(text, self.delimiter)
        except csv.Error as problem:
            return f"not a row of CSV: {problem}"
        if self.columns is None:
            self.columns = header_names(cells, self.header)
            if self.columns is not None:
                return None
            self.columns = self._positions(len(cells))
        if len(cells) != len(self.columns):
            return f"{len(cells)} cells, but there are {len(self.columns)} columns"
        return dict(zip(self.columns, cells, strict=True))

    def _positions(self, n: int) -> list[str]:
        """Names for values that come without: the model's where the number fits."""
        if self.names is not None and len(self.names) == n:
            return list(self.names)
        return [f"x{i}" for i in range(n)]

    def _row(self, cells: dict[str, Any]) -> LiveRow | str:
        names = self.names
        if names is None:
            names = tuple(n for n in cells if n not in {self.time_column, *self.keep})
            if len(names) != self.n_features:
                return (
                    f"{len(names)} values, but the model wants {self.n_features}: name "
                    "the others with --time-column or --keep"
                )
        x = np.empty(len(names))
        if self.takes_missing and not any(name in cells for name in names):
            return f"there is no value for any of {', '.join(map(repr, names))}"
        for i, name in enumerate(names):
            if name not in cells:
                if not self.takes_missing:
                    return f"there is no value for {name!r}"
                x[i] = math.nan
                continue
            value = as_number(cells[name])
            if value is None:
                return f"column {name!r}: {cells[name]!r} is not a number"
            if math.isinf(value) or (math.isnan(value) and not self.takes_missing):
                return f"column {name!r}: the value is missing or infinite"
            x[i] = value
        self.names = names  # of the first good row, where the model knows none
        kept = {name: cells.get(name) for name in self.keep}
        return LiveRow(x, cells.get(self.time_column) if self.time_column else None, kept)
