"""Data frames (pandas, polars) and arrays as Arrow tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kernelstream.tables.schema import few


def as_table(X: Any, names: Sequence[str] = ()) -> pa.Table:
    """A frame of pandas or polars, an Arrow table or stream, or an array, as an Arrow table.

    Columns of mixed kinds become text. Columns of an array have no names: they get ``names`` if
    there are as many of them, and x0, x1 and so on otherwise.

    Parameters
    ----------
    X : data frame, Arrow table or array of shape (n, d)
        The table.
    names : sequence of str
        Names for the columns of an array.

    Examples
    --------
    >>> as_table([[1, "red"], [2, "blue"]]).schema.names
    ['x0', 'x1']
    """
    if hasattr(X, "collect") and hasattr(X, "collect_schema"):  # a lazy frame of polars
        X = X.collect()
    if isinstance(X, pa.RecordBatch):
        X = pa.Table.from_batches([X])
    elif hasattr(X, "to_arrow"):
        X = X.to_arrow()
    elif hasattr(X, "iloc"):
        X = _of_pandas(X)
    elif hasattr(X, "__arrow_c_stream__"):
        X = pa.table(X)
    elif not isinstance(X, pa.Table):
        X = _of_array(X, names)
    repeated = sorted(name for name, n in Counter(X.column_names).items() if n > 1)
    if repeated:
        raise ValueError(f"The table has several columns called {few(repeated)}: rename them.")
    return X


def _of_pandas(X: Any) -> pa.Table:
    columns = []
    for j in range(X.shape[1]):
        values = X.iloc[:, j]
        if hasattr(values, "cat") and values.cat.categories.dtype == "interval":
            values = values.cat.rename_categories(str)  # of pandas.cut
        columns.append(_column(values))
    return pa.Table.from_arrays(columns, names=list(map(str, X.columns)))


def _of_array(X: Any, names: Sequence[str]) -> pa.Table:
    X = np.asarray(X, dtype=None if hasattr(X, "dtype") else object)
    if X.ndim != 2 or X.shape[1] < 1:
        raise ValueError(f"Expected a table of shape (n, d), got an array of shape {X.shape}.")
    if len(names) != X.shape[1]:
        names = [f"x{j}" for j in range(X.shape[1])]
    return pa.Table.from_arrays([_column(X[:, j]) for j in range(X.shape[1])], names=list(names))


def _column(values: Any) -> pa.Array:
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, OverflowError):
        words = [None if v is None or v != v else str(v) for v in values]
        return pa.array(words, pa.string())
