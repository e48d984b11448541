"""Data frames (pandas, polars) and arrays as Arrow tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kernelstream.tables.schema import few


def as_table(X: Any, names: Sequence[str] = ()) -> pa.Table:
    """A frame of pandas or polars, an Arrow table or batch, or an array, as an Arrow table.

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
    if hasattr(X, "iloc"):  # of pandas
        columns = [_column(X.iloc[:, j]) for j in range(X.shape[1])]
        X = pa.Table.from_arrays(columns, names=list(map(str, X.columns)))
    elif hasattr(X, "to_arrow"):
        X = X.to_arrow()
    elif hasattr(X, "__arrow_c_stream__") or hasattr(X, "__arrow_c_array__"):
        X = pa.table(X)
    else:
        X = _of_array(X, names)
    repeated = sorted(name for name, n in Counter(X.column_names).items() if n > 1)
    if repeated:
        raise ValueError(f"The table has several columns called {few(repeated)}: rename them.")
    return X


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
