"""What users give, checked in words: rows against a stream, weights, scores."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from array_api_compat import is_torch_array
from sklearn.base import BaseEstimator
from sklearn.utils.validation import assert_all_finite, check_array, validate_data

from kernelstream.backends.arrays import (
    Array,
    all_finite,
    as_csr,
    as_dense,
    cast,
    is_foreign,
    is_sparse,
    namespace_of,
    on_accelerator,
    row_norms_squared,
    to_float64,
    to_host,
)
from kernelstream.backends.threads import cores, in_threads, tiles
from kernelstream.stream.state import Rows
from kernelstream.stream.stream import Stream

T = TypeVar("T")

MANY_NUMBERS = 2**20  # from which on a pass over rows is worth threads
NO_WEIGHT = "All rows have weight zero: there is nothing to learn from."
NOT_FINITE = "Input X contains NaN or infinity; give finite numbers."
_ROWS: dict[str, Any] = dict(accept_sparse="csr", dtype=[np.float64, np.float32])


def first_rows(estimator: BaseEstimator, X: Any, weights: Any = None) -> Rows:
    """The first rows that an estimator learns: it notes their number of features and names."""
    if is_foreign(X):
        X = _foreign_rows(X, check_finite=False)
        estimator.n_features_in_ = int(X.shape[1])
        vars(estimator).pop("feature_names_in_", None)  # of the frame that was learned before
    else:
        X = validate_data(estimator, X, ensure_all_finite=False, **_ROWS)
        X = as_csr(X) if is_sparse(X) else X
    return _weighted_rows(X, weights)


def next_rows(estimator: BaseEstimator, stream: Stream, X: Any, weights: Any = None) -> Rows:
    """Rows that an estimator goes on to learn, in the type of its stream."""
    X = query_rows(estimator, stream, X, check_finite=False)
    return _weighted_rows(cast(X, getattr(namespace_of(X), stream.dtype)), weights)


def query_rows(
    estimator: BaseEstimator, stream: Stream, X: Any, check_finite: bool = True
) -> Array:
    """Rows of a query: the features and names that the estimator has learned."""
    if is_foreign(X):
        return plain_rows(stream, X, check_finite, type(estimator).__name__)
    X = validate_data(estimator, X, reset=False, ensure_all_finite=False, **_ROWS)
    if check_finite and not all(of_tiles(all_finite, X)):
        assert_all_finite(X, estimator_name=type(estimator).__name__, input_name="X")
    return _of_same_kind(stream, as_csr(X) if is_sparse(X) else X)


def plain_rows(
    stream: Stream, X: Any, check_finite: bool = True, name: str = "StreamingKernelPCA"
) -> Array:
    """Rows checked against a stream alone, for those who have no estimator at hand."""
    return _of_same_kind(stream, checked_rows(X, stream.n_features, check_finite, name))


def checked_rows(
    X: Any, n_features: int, check_finite: bool = True, name: str = "StreamingKernelPCA"
) -> Array:
    """Rows of so many features; ``name`` is for the error message."""
    if is_foreign(X):
        X = _foreign_rows(X, check_finite)
    else:
        X = check_array(X, ensure_all_finite=check_finite, estimator=name, **_ROWS)
        X = as_csr(X) if is_sparse(X) else X
    if X.shape[1] != n_features:
        raise ValueError(
            f"X has {X.shape[1]} features, but {name} is expecting {n_features} features as input."
        )
    return X


def plain_next_rows(stream: Stream, X: Any, weights: Any = None) -> Rows:
    """Rows to learn checked against a stream alone, in its type."""
    X = plain_rows(stream, X, check_finite=False)
    return _weighted_rows(cast(X, getattr(namespace_of(X), stream.dtype)), weights)


def one_row(stream: Stream, x: Any, learning: bool = False) -> Array:
    """One row as a block of one, in the type of the stream."""
    if is_sparse(x) or is_foreign(x):
        row = plain_rows(stream, x if x.ndim == 2 else x[None, :])
        row = cast(row, getattr(namespace_of(row), stream.dtype))
        return require_summable(row) if learning else row
    row = np.array(real_numbers(x), dtype=stream.dtype, ndmin=2)  # a copy: it may wait
    if row.shape != (1, stream.n_features):
        raise ValueError(
            f"Expected one row of {stream.n_features} features, got an array of shape "
            f"{np.shape(x)}."
        )
    # one product instead of the passes that a block gets: rows come by the million
    if not row[0] @ row[0] < np.finfo(row.dtype).max / 4.0:
        if not all_finite(row):
            raise ValueError("The row contains NaN or infinity; give finite numbers.")
        row = require_summable(row) if learning else row
    return _of_same_kind(stream, row)


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


def _weighted_rows(X: Array, weights: Any) -> Rows:
    """Rows and their weights; those of weight zero are dropped."""
    if not on_accelerator(X):  # there a look costs a pass, and the fold finds it out itself
        X = require_summable(X)  # of a number that is not finite, no square is: one look for both
    if weights is None:
        return Rows(X)
    host = checked_weights(weights, int(X.shape[0]))
    kept = np.flatnonzero(host)
    rows = Rows(X, host)
    return rows.take(kept) if len(kept) < len(host) else rows


def _of_same_kind(stream: Stream, X: Array) -> Array:
    """An array of the namespace that the stream lives in, or an error."""
    if not stream.n_rows:  # nothing is held yet (a cluster checks its chunks)
        return X
    ours, given = namespace_of(stream.held_array), namespace_of(X)
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


def of_tiles(function: Callable[[Any], T], X: Any) -> list[T]:
    """A look at rows, in pieces: those of many are shared by threads."""
    if is_sparse(X) or X.size < MANY_NUMBERS:
        return [function(X)]
    with cores():
        return in_threads(lambda at: function(X[at, :]), tiles(len(X), X.shape[1]))


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


def require_summable(X: Array) -> Array:
    """Rows whose squared distances are finite numbers in their type, or an error.

    A row may wait for its block to be complete: what no kernel could take must be refused now,
    while the caller knows it, and not when the block is folded.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(X, np.ndarray) and X.flags.c_contiguous:
            # The sum of all squares is above that of every row, and is a product of BLAS.
            total = sum(of_tiles(lambda rows: float(np.vdot(rows, rows)), X))
            fine = bool(np.isfinite(4.0 * X.dtype.type(total)))
            fine = fine or all_finite(4.0 * row_norms_squared(X))
        else:
            fine = all_finite(4.0 * row_norms_squared(X))
    if not fine:
        if not is_foreign(X):
            assert_all_finite(X, input_name="X")
        elif not all_finite(X):
            raise ValueError(NOT_FINITE)
        raise ValueError(
            f"X has rows so large that their squared norm overflows {X.dtype}: scale the data"
            " (to unit variance, say), or leave these rows out."
        )
    return X


@contextlib.contextmanager
def explain_rows(X: Array) -> Iterator[None]:
    """Say what is wrong with the rows themselves where they were not looked at before."""
    try:
        yield
    except ValueError:
        if on_accelerator(X):
            require_summable(X)
        raise
