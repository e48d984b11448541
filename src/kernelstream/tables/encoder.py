"""Table encoder (transformer) of data frames and arrays: columns as numbers, and back."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from kernelstream.tables.inference import SchemaOptions, infer_schema
from kernelstream.tables.readers import Batch, array_of
from kernelstream.tables.sample import ROWS
from kernelstream.tables.schema import Schema, column_means, few


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode the columns of a table as numbers.

    Numbers are kept, and categories become one column of 0 and 1 for each level. Columns that
    carry nothing to learn (counters, keys, dates, free text) are excluded. The first table decides
    all of it; later ones may have their columns in another order, more of them, and levels that
    are new. An array has no names: its columns are those that are encoded, in their order.

    Parameters
    ----------
    columns : dict, default=None
        Column types by name or pattern, where they are not inferred as they should be: "number",
        "boolean", "category" (one column for each level), "codes" (the number of the level, for
        :class:`kernelstream.kernels.Categorical`), or "out" to exclude a column.
    missing : {"fill", "keep", "error"}, default="fill"
        "fill" replaces missing values by the mean of their column, "keep" leaves NaN for a later
        step, "error" rejects rows with missing values. Inside a :class:`TableModel`, "fill" is done
        by the model, from the other columns.
    decimal : {".", ","}, default=None
        Decimal separator of numbers that are stored as text; None infers it.
    thousands : str, default=None
        Separator of thousands in numbers that are stored as text; None infers it.

    Attributes
    ----------
    schema_ : Schema
        The type of each column, and why.
    feature_names_in_ : array of str
        The columns that are encoded.
    n_features_in_ : int
        Number of columns that are encoded.
    fill_values_ : array of shape (n_features,)
        Means of the encoded columns.

    See Also
    --------
    TableModel : An estimator together with the encoder of its tables.

    Notes
    -----
    To define the encoding of each column yourself, use ``sklearn.compose.ColumnTransformer``.

    Examples
    --------
    >>> import pandas as pd
    >>> from kernelstream.tables import TableEncoder
    >>> rows = {"kg": [2.5, 3.0, None, 4.5], "color": ["red", "blue", "red", "red"]}
    >>> frame = pd.concat([pd.DataFrame(rows)] * 10, ignore_index=True)
    >>> encoder = TableEncoder().fit(frame)
    >>> encoder.get_feature_names_out()
    array(['kg', 'color=blue', 'color=red'], dtype=object)
    >>> encoder.transform(frame[:3]).round(2)
    array([[2.5 , 0.  , 1.  ],
           [3.  , 1.  , 0.  ],
           [3.33, 0.  , 1.  ]])
    """

    schema_: Schema

    def __init__(
        self,
        columns: Mapping[str, str] | None = None,
        *,
        missing: str = "fill",
        decimal: str | None = None,
        thousands: str | None = None,
    ):
        self.columns = columns
        self.missing = missing
        self.decimal = decimal
        self.thousands = thousands

    @classmethod
    def of(
        cls, schema: Schema, fill_values: np.ndarray | None = None, **params: Any
    ) -> TableEncoder:
        """A fitted encoder with a schema, such as that of a :class:`Source`.

        Parameters
        ----------
        schema : Schema
            The type of each column.
        fill_values : array of shape (n_features,), default=None
            Means of the encoded columns; None: zeros.
        **params : dict
            Parameters of the encoder.
        """
        fill_values = np.zeros(len(schema.features)) if fill_values is None else fill_values
        return cls(**params)._fitted(schema, fill_values)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Infer column types from a table.

        Parameters
        ----------
        X : data frame, Arrow table or array
            The table.
        y : ignored

        Returns
        -------
        self
        """
        return self.infer(X)

    def transform(self, X: Any) -> np.ndarray:
        """Encode the rows of a table.

        Parameters
        ----------
        X : data frame, Arrow table or array
            The table, with all columns that are encoded.

        Returns
        -------
        array of shape (n, n_features)
        """
        rows = self.encode(X)
        return self.filled(rows) if self.missing == "fill" else rows

    def inverse_transform(self, X: Any) -> pa.Table:
        """Decode rows: numbers, and the likeliest level of each category.

        Parameters
        ----------
        X : array of shape (n, n_features)
            Encoded rows.

        Returns
        -------
        pyarrow.Table
            With ``to_pandas()``.
        """
        check_is_fitted(self, "schema_")
        return pa.table(self.schema_.decode(np.asarray(X)))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the encoded columns.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        array of str
        """
        check_is_fitted(self, "schema_")
        return np.array(self.schema_.features, dtype=object)

    # -- for TableModel

    def encode(self, X: Any) -> np.ndarray:
        """Encoded rows with NaN where values are missing.

        Parameters
        ----------
        X : data frame, Arrow table or array
            The table, with all columns that are encoded.
        """
        check_is_fitted(self, "schema_")
        return self.schema_.rows_of(as_table(X, self.schema_.inputs))

    def filled(self, rows: np.ndarray) -> np.ndarray:
        """Rows with missing values replaced by the means of their columns.

        Parameters
        ----------
        rows : array of shape (n, n_features)
            Encoded rows.
        """
        return np.where(np.isnan(rows), self.fill_values_, rows)

    # -- inside

    def schema_options(self) -> SchemaOptions:
        """What the parameters say about columns."""
        if self.missing not in ("fill", "keep", "error"):
            raise ValueError(
                f"missing must be one of 'fill', 'keep', 'error'; got {self.missing!r}."
            )
        return SchemaOptions(
            treat=dict(self.columns or {}),
            decimal=self.decimal,
            thousands=self.thousands,
            missing="bad" if self.missing == "error" else "fill",
        )

    def infer(self, X: Any, whole: bool = True) -> Self:
        """Infer column types from a table, or from the first of several.

        Parameters
        ----------
        X : data frame, Arrow table or array
            The table.
        whole : bool
            False if later tables may be unlike it: then no column is excluded for its values.
        """
        table = as_table(X)
        if not len(table):
            raise ValueError("The table has no rows: column types are inferred from some.")
        sample = table.take(np.arange(0, len(table), max(1, len(table) // ROWS)))
        schema = infer_schema(sample, self.schema_options(), whole=whole)
        warn_of_excluded(schema)
        rows, _ = schema.encode(Batch.of(sample), "float64")
        return self._fitted(schema, column_means(rows))

    def _fitted(self, schema: Schema, fill_values: np.ndarray) -> Self:
        self.schema_ = schema
        self.fill_values_ = fill_values
        self.feature_names_in_ = np.array(schema.inputs, dtype=object)
        self.n_features_in_ = len(schema.inputs)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def warn_of_excluded(schema: Schema) -> None:
    """Warn of columns that are excluded although nobody asked for it."""
    out = [c for c in schema.columns if not c.learned and c.reason != "not asked for"]
    if out:
        reasons = [f"{column.name!r} ({column.reason})" for column in out]
        warnings.warn(
            f"Columns that are not learned: {few(reasons, 5)}. columns={{{out[0].name!r}: KIND}} "
            "learns the first all the same (KIND is 'number' or 'category'); 'out' excludes it "
            "without this warning.",
            stacklevel=4,
        )


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
        columns = [array_of(X.iloc[:, j]) for j in range(X.shape[1])]
        X = pa.Table.from_arrays(columns, names=list(map(str, X.columns)))
    elif hasattr(X, "to_arrow"):  # of polars
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
    return pa.Table.from_arrays([array_of(X[:, j]) for j in range(X.shape[1])], names=list(names))
