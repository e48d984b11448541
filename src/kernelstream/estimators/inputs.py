"""Input validation: shape, type, feature names, NaN and infinity, sample weights, overflow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from array_api_compat import is_torch_array
from sklearn.base import BaseEstimator
from sklearn.utils.validation import assert_all_finite, check_array, validate_data

from kernelstream.arrays.namespaces import (
    Array,
    all_finite,
    as_csr,
    as_dense,
    cast,
    dtype_name,
    is_foreign,
    is_sparse,
    like,
    namespace_of,
    on_accelerator,
    row_norms_squared,
    take_rows,
    to_float64,
    to_host,
)
from kernelstream.serialization.part import check_choice
from kernelstream.stream.imputation import Imputation
from kernelstream.stream.state import MOST_OF_A_ROW, Rows
from kernelstream.stream.stream import Stream

NO_WEIGHT = "All rows have weight zero: there is nothing to learn from."
NOT_FINITE = "Input X contains NaN or infinity; give finite numbers."
TABLES = "kernelstream.tables.TableModel(estimator) encodes categories, and fills missing values."
_ROWS: dict[str, Any] = dict(accept_sparse="csr", dtype=[np.float64, np.float32])


def first_rows(
    estimator: BaseEstimator,
    X: Any,
    weights: Any = None,
    on_bad_rows: str = "error",
    targets: np.ndarray | None = None,
) -> Rows:
    """The first rows that an estimator learns: it notes their number of features and names.

    ``targets`` (n, t) go with their rows.
    """
    if is_foreign(X):
        X = _foreign_rows(X, check_finite=False)
        estimator.n_features_in_ = int(X.shape[1])
        vars(estimator).pop("feature_names_in_", None)
    else:
        X = _validated(estimator, X, reset=True)
    return _rows_to_learn(X, weights, fills(estimator), estimator, on_bad_rows, targets)


def check_rows(
    stream: Stream,
    X: Any,
    weights: Any = None,
    targets: np.ndarray | None = None,
    estimator: BaseEstimator | None = None,
    on_bad_rows: str = "error",
) -> Rows:
    """Rows to learn, checked against a stream and cast to its type.

    Rows of weight zero are left out.

    Parameters
    ----------
    stream : Stream
        The stream that is to learn them.
    X : array of shape (n, d)
        The rows.
    weights : array of shape (n,), optional
        Non-negative weights.
    targets : array of shape (n, t), optional
        Targets of a regression.
    estimator : estimator, optional
        The estimator whose feature names the rows must have.
    on_bad_rows : {"error", "skip"}, default="error"
        What to do with rows that have numbers that are not finite.

    Returns
    -------
    Rows

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA
    >>> from kernelstream.estimators import check_rows
    >>> stream = StreamingKernelPCA(2).new_stream(np.empty((0, 3)))
    >>> len(check_rows(stream, np.ones((4, 3)), [1.0, 0.0, 2.0, 1.0]))
    3
    """
    X = query_rows(stream, X, estimator, check_finite=False)
    if dtype_name(X) != stream.dtype:
        with np.errstate(over="ignore"):  # a row that overflows is refused below
            X = cast(X, getattr(namespace_of(X), stream.dtype))
    return _rows_to_learn(X, weights, stream.fills, estimator, on_bad_rows, targets)


def query_rows(
    stream: Stream, X: Any, estimator: BaseEstimator | None = None, check_finite: bool = True
) -> Array:
    """Rows of a query: as many features as the stream has, and the names that an estimator has."""
    name = type(estimator).__name__ if estimator is not None else "StreamingKernelPCA"
    if is_foreign(X):
        X = _foreign_rows(X, check_finite)
    else:
        if estimator is None:
            X = check_array(X, ensure_all_finite=False, estimator=name, **_ROWS)
            X = as_csr(X) if is_sparse(X) else X
        elif not _is_plain(X, estimator):
            X = _validated(estimator, X, reset=False)
        if check_finite and not all_finite(X):
            with np.errstate(invalid="ignore"):
                assert_all_finite(X, allow_nan=stream.fills, estimator_name=name, input_name="X")
    if X.shape[1] != stream.n_features:
        raise ValueError(
            f"X has {X.shape[1]} features, but {name} is expecting {stream.n_features} features "
            "as input."
        )
    return _of_same_kind(stream, X)


def _is_plain(X: Any, estimator: BaseEstimator) -> bool:
    """Whether scikit-learn has nothing to check or to convert."""
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.dtype in (np.float64, np.float32)
        and X.size > 0
        and not hasattr(estimator, "feature_names_in_")
    )


def fills(estimator: BaseEstimator) -> bool:
    """Whether the estimator fills missing values."""
    return isinstance(getattr(estimator, "scale", None), Imputation)


def _validated(estimator: BaseEstimator, X: Any, reset: bool) -> Array:
    """Rows by scikit-learn's checks of shape, type and names, but for numbers that are not finite.

    Tables of Arrow, and frames that are handed over as one, count as data frames.
    """
    X = collected(X)
    try:
        X = validate_data(estimator, X, reset=reset, ensure_all_finite=False, **_ROWS)
    except (ValueError, TypeError):
        require_numbers(X, type(estimator).__name__)
        raise
    return as_csr(X) if is_sparse(X) else X


def collected(X: Any) -> Any:
    """A frame that is here: lazy ones are computed, Arrow streams become tables."""
    if hasattr(X, "collect") and hasattr(X, "collect_schema"):  # a lazy frame of polars
        return X.collect()
    is_batch = hasattr(X, "__arrow_c_array__") and hasattr(X, "schema")
    is_frame = hasattr(X, "shape") and hasattr(X, "columns")
    if is_batch or (hasattr(X, "__arrow_c_stream__") and not is_frame):
        import pyarrow as pa

        return pa.table(X)
    return X


def require_numbers(X: Any, taker: str) -> None:
    """Raise for a data frame with columns that hold anything but numbers."""
    if words := columns_of_words(X):
        listed = ", ".join(map(repr, words[:5]))
        more = f" and {len(words) - 5} more" if len(words) > 5 else ""
        what = f"Columns {listed}{more} hold" if len(words) > 1 else f"Column {listed} holds"
        raise ValueError(f"{what} no numbers, and {taker} takes numbers only: {TABLES}")


def columns_of_words(X: Any) -> list[str]:
    """Names of the columns of a data frame that hold anything but numbers."""
    if hasattr(X, "iloc"):
        return [str(n) for n, t in zip(X.columns, X.dtypes, strict=True) if t.kind not in "biufc"]
    if not (hasattr(X, "to_arrow") or hasattr(X, "column_names")):
        return []
    import pyarrow as pa

    schema = (X.to_arrow() if hasattr(X, "to_arrow") else X).schema
    plain = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    return [field.name for field in schema if not any(is_kind(field.type) for is_kind in plain)]


def given_scores(stream: Stream, X: Any) -> Array:
    """Scores given by the user, checked."""
    if not is_foreign(X):
        X = real_numbers(as_dense(X))
        X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
    r = int(stream.components.variances.shape[0])
    if X.ndim != 2 or X.shape[0] < 1 or X.shape[1] != r:
        raise ValueError(
            f"Expected scores of shape (n, {r}), one column for each component, got an array "
            f"of shape {tuple(X.shape)}."
        )
    if not all_finite(X):
        raise ValueError("The scores contain NaN or infinity; give finite numbers.")
    return _of_same_kind(stream, X)


def _rows_to_learn(
    X: Array,
    weights: Any,
    gaps: bool,
    estimator: BaseEstimator | None,
    on_bad_rows: str,
    targets: np.ndarray | None,
) -> Rows:
    """Rows with weights and targets, without those of weight zero, and invalid ones on request.

    ``gaps`` says whether missing values will be filled.
    """
    if on_bad_rows != "error":
        check_choice("on_bad_rows", on_bad_rows, ("error", "skip"))
        good = good_rows(X, gaps)
        if weights is not None:
            weights = checked_weights(weights, len(good))[good]
        targets = targets if targets is None else targets[good]
        X = take_rows(X, np.flatnonzero(good)) if not good.all() else X
    if not on_accelerator(X):  # there this costs a pass, and the step finds it out itself
        # the square of a number that is not finite is not finite: one pass for both
        X = require_summable(X, gaps, getattr(estimator, "feature_names_in_", None))
    rows = Rows(X, targets=targets)
    if weights is not None:
        host = checked_weights(weights, int(X.shape[0]))
        kept = np.flatnonzero(host)
        rows = Rows(X, host, targets)
        rows = rows.take(kept) if len(kept) < len(host) else rows
    return rows if targets is None else with_summable_targets(rows)


def _of_same_kind(stream: Stream, X: Array) -> Array:
    """An array of the namespace that the stream lives in, or an error."""
    if not stream.n_rows:  # nothing is held yet (a cluster checks its chunks)
        return X
    held = stream.held_array
    if isinstance(held, np.ndarray) and isinstance(X, np.ndarray):
        return X
    ours, given = namespace_of(held), namespace_of(X)
    sent = stream.device is not None and (not is_foreign(X) or is_torch_array(X))
    if ours is not given and not sent:
        raise ValueError(
            f"The model was learned from rows of {ours.__name__} and was given an array of "
            f"{given.__name__}: convert it first."
        )
    return X


def _foreign_rows(X: Array, check_finite: bool) -> Array:
    """The checks of scikit-learn for arrays of other namespaces, which it would convert."""
    xp = namespace_of(X)
    if X.ndim != 2 or X.shape[0] < 1 or X.shape[1] < 1:
        raise ValueError(f"Expected rows of shape (n, d), got an array of shape {X.shape}.")
    if xp.isdtype(X.dtype, "complex floating"):
        raise ValueError("Complex data not supported: give real numbers.")
    if X.dtype not in (xp.float32, xp.float64):
        X = to_float64(X)
    if check_finite and not all_finite(X):
        raise ValueError(NOT_FINITE)
    return X


def real_numbers(x: Any) -> np.ndarray:
    """The argument as an array, refused where a conversion would drop the imaginary part."""
    x = np.asarray(x)
    if x.dtype.kind == "c":
        raise ValueError("Complex data not supported: give real numbers.")
    return x


def checked_weights(weights: Any, n: int) -> np.ndarray:
    """Weights of n rows as float64; one number stands for all."""
    w = real_numbers(to_host(weights) if is_foreign(weights) else weights).astype(np.float64)
    w = np.full(n, float(w)) if w.ndim == 0 else w
    if w.shape != (n,):
        raise ValueError(
            f"sample_weight has shape {w.shape}: expected ({n},), one number for each row."
        )
    if not all_finite(w):
        raise ValueError("sample_weight contains NaN or infinity; give finite numbers.")
    if np.any(w < 0):
        raise ValueError("sample_weight has negative numbers; a weight is zero or more.")
    return w


def good_rows(X: Array, gaps: bool = False) -> np.ndarray:
    """Which rows can be learned: those of finite numbers, or with gaps that will be filled."""
    if is_sparse(X):
        X = abs(X).max(axis=1).toarray()
    host = to_host(X)
    return np.asarray((np.isfinite(host) | (np.isnan(host) & gaps)).all(axis=1))


def require_summable(X: Array, gaps: bool = False, names: Any = None) -> Array:
    """Rows whose squared distances are finite numbers in their type, or an error.

    A row may wait for its block to be complete: what no kernel could take must be refused now,
    while the caller knows it, and not when the block is folded.

    Parameters
    ----------
    X : array of shape (n, d), dense or CSR
        The rows.
    gaps : bool, default=False
        Whether missing values (NaN) are allowed.
    names : sequence of str, optional
        Names of the columns, for the error message.

    Returns
    -------
    array of shape (n, d)
        The same rows.
    """
    if gaps and isinstance(X, np.ndarray) and not all_finite(X):
        require_summable(np.nan_to_num(X, nan=0.0, posinf=np.inf, neginf=-np.inf), names=names)
        return X
    fine = False
    if isinstance(X, np.ndarray) and X.flags.c_contiguous:
        # The sum of all squares is above that of every row, and is a product of BLAS.
        fine = float(np.vdot(X, X)) < np.finfo(X.dtype).max / 4.0
    if not fine:
        with np.errstate(over="ignore", invalid="ignore"):
            fine = all_finite(4.0 * row_norms_squared(X))
    if not fine:
        if not all_finite(X):
            raise ValueError(bad_cell(X, names) if isinstance(X, np.ndarray) else NOT_FINITE)
        raise ValueError(
            f"X has rows so large that their squared norm overflows {X.dtype}: scale the data"
            " (to unit variance, say), or leave these rows out."
        )
    return X


def with_summable_targets(rows: Rows) -> Rows:
    """Rows with their targets as an array of the same namespace; overflow raises an error."""
    if len(rows) == 0:
        return rows
    targets, weights = np.asarray(rows.targets), rows.weights
    weighted = targets if weights is None else targets * weights[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        largest = np.max(np.abs(weighted * targets))
    if not largest < MOST_OF_A_ROW:
        raise ValueError(
            "y has numbers so large that the sum of their squares overflows: scale the targets."
        )
    return replace(rows, targets=to_float64(like(np.ascontiguousarray(targets), rows.X)))


def bad_cell(X: np.ndarray, names: Any = None) -> str:
    """Where the first number stands that is not finite, and what to do about it."""
    row, j = (int(i) for i in np.argwhere(~np.isfinite(X))[0])
    where = f"row {row}, column {j} (both counted from 0)"
    if names is not None and len(names) == X.shape[1]:
        where = f"row {row} (counted from 0), column {str(names[j])!r}"
    if np.isnan(X[row, j]):
        return (
            f"Input X contains NaN: {where}. {TABLES} partial_fit(X, on_bad_rows='skip') skips "
            "such rows."
        )
    return f"Input X contains infinity: {where}. Give finite numbers."
