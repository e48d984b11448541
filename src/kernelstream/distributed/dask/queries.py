"""Lazy Dask queries: ``transform``, ``predict``, ``score_samples``, ``reconstruction_error``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from dask import array as da
from sklearn.utils.validation import check_array, validate_data

from kernelstream.anomaly import KernelNovelty
from kernelstream.arrays import Array
from kernelstream.distributed.dask.chunks import as_array, chunk_name, float_type
from kernelstream.distributed.dask.graph import sent_once
from kernelstream.distributed.dask.worker import align, naming
from kernelstream.estimators import KernelEstimator, StreamingKernelPCA
from kernelstream.regression import StreamingKernelClassifier
from kernelstream.regression.base import OnePassRidge, Regression, solution_of
from kernelstream.regression.ridge import in_shape
from kernelstream.stream import Components

QUERY_ROWS = 4096  # rows that are worked on at a time, so that memory stays bounded


def transform(model: StreamingKernelPCA, X: Any) -> da.Array:
    """Scores of rows on the components, lazily.

    Parameters
    ----------
    model : StreamingKernelPCA
        Fitted.
    X : Dask array of shape (n, d), or Dask dataframe

    Returns
    -------
    Dask array of shape (n, r)
        In row chunks like those of X; nothing is computed before it is asked for.

    Examples
    --------
    >>> import dask.array as da
    >>> from kernelstream.distributed import dask
    >>> from kernelstream import StreamingKernelPCA
    >>> X = da.random.default_rng(0).normal(size=(3000, 4), chunks=(1000, 4))
    >>> model = dask.fit(StreamingKernelPCA(2, basis=50, random_state=0), X)
    >>> dask.transform(model, X).chunks
    ((1000, 1000, 1000), (2,))
    """
    return _query(model, X, "scores", model.n_components_)


def predict(model: OnePassRidge | KernelNovelty, X: Any) -> da.Array:
    """Predictions of a regression, labels of a classifier, or 1 and −1 of a detector, lazily.

    Parameters
    ----------
    model : StreamingKernelRidge, StreamingKernelClassifier or KernelNovelty
        Fitted.
    X : Dask array of shape (n, d), or Dask dataframe

    Returns
    -------
    Dask array of shape (n,) or (n, t)
        In row chunks like those of X; flat where the targets were.

    Examples
    --------
    >>> import dask.array as da
    >>> from kernelstream.distributed import dask
    >>> from kernelstream import StreamingKernelRidge
    >>> X = da.random.default_rng(0).uniform(-3, 3, size=(3000, 1), chunks=(1000, 1))
    >>> y = da.sin(X[:, 0])
    >>> model = StreamingKernelRidge(gamma=1.0, basis=20, random_state=0)
    >>> found = dask.predict(dask.fit(model, X, y), X)
    >>> found.chunks
    ((1000, 1000, 1000),)
    >>> bool(abs(found - y).max().compute() < 0.02)
    True
    """
    if isinstance(model, KernelNovelty):
        scores, offset = score_samples(model, X), model.offset_
        return da.map_blocks(_fits, scores, offset=offset, dtype=np.int64)
    if not isinstance(model, OnePassRidge):
        raise TypeError(
            f"{type(model).__name__} predicts nothing: use StreamingKernelRidge, "
            "StreamingKernelClassifier or KernelNovelty."
        )
    n_columns = int(solution_of(model).prediction.intercept.shape[0])
    found = _query(model, X, "predict", n_columns)
    if isinstance(model, StreamingKernelClassifier):
        classes = model.classes_
        return da.map_blocks(_labels, found, classes=classes, drop_axis=1, dtype=classes.dtype)
    return in_shape(model, found)


def score_samples(model: KernelNovelty, X: Any) -> da.Array:
    """How well rows fit, by a detector, lazily; higher fits better.

    Parameters
    ----------
    model : KernelNovelty
        Fitted.
    X : Dask array of shape (n, d), or Dask dataframe

    Returns
    -------
    Dask array of shape (n,)

    Examples
    --------
    >>> import dask.array as da
    >>> from kernelstream.distributed import dask
    >>> from kernelstream import KernelNovelty
    >>> X = da.random.default_rng(0).normal(size=(3000, 4), chunks=(1000, 4))
    >>> model = dask.fit(KernelNovelty(basis=50, random_state=0), X)
    >>> dask.score_samples(model, X).shape
    (3000,)
    """
    if not isinstance(model, KernelNovelty):
        raise TypeError(f"{type(model).__name__} is no detector: use KernelNovelty.")
    return -_query(model, X, "unexplained", None)


def _fits(scores: np.ndarray, offset: float) -> np.ndarray:
    return np.where(scores < offset, -1, 1)


def reconstruction_error(model: StreamingKernelPCA, X: Any) -> da.Array:
    """Squared distance in feature space between each row and its projection, lazily.

    Parameters
    ----------
    model : StreamingKernelPCA
        Fitted.
    X : Dask array of shape (n, d), or Dask dataframe

    Returns
    -------
    Dask array of shape (n,)

    Examples
    --------
    >>> import dask.array as da
    >>> from kernelstream.distributed import dask
    >>> from kernelstream import StreamingKernelPCA
    >>> X = da.random.default_rng(0).normal(size=(3000, 4), chunks=(1000, 4))
    >>> model = dask.fit(StreamingKernelPCA(2, basis=50, random_state=0), X)
    >>> dask.reconstruction_error(model, X).chunks
    ((1000, 1000, 1000),)
    """
    return _query(model, X, "reconstruction_error", None)


def _labels(found: np.ndarray, classes: np.ndarray) -> np.ndarray:
    return classes[found.argmax(axis=1)]


def _query(model: KernelEstimator, X: Any, what: str, n_columns: int | None) -> da.Array:
    """``what`` of every chunk, as a Dask array with or without columns."""
    rows, meta, word = as_array(X)
    validate_data(model, meta, reset=False, skip_check_array=True)
    dtype = float_type(rows)
    columns = () if n_columns is None else (n_columns,)
    return da.map_blocks(
        _answer,
        rows,
        sent_once(_reading(model, what)),
        what=what,
        word=word,
        empty=np.empty((0, *columns), dtype),
        dtype=dtype,
        chunks=(rows.chunks[0], *((n,) for n in columns)),
        drop_axis=[] if columns else 1,
        meta=np.empty((0,) * (1 + len(columns)), dtype),
    )


@dataclass(frozen=True)
class _Reading:
    """What a query needs of a model, and how rows are scaled."""

    answers: Components | Regression
    scaler: Any

    def ask(self, what: str, X: Array) -> Array:
        """``what`` of rows, checked and worked on in pieces."""
        X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
        rows = X if self.scaler is None else self.scaler.apply(X)
        question, starts = getattr(self.answers, what), range(0, rows.shape[0], QUERY_ROWS)
        found = np.concatenate([question(rows[start : start + QUERY_ROWS]) for start in starts])
        if not np.isfinite(found).all():
            raise ValueError(
                f"The kernel {self.answers.kernel} gave values that are not finite on these rows. "
                "Scale the data or choose other kernel parameters."
            )
        return found.astype(X.dtype, copy=False)


def _reading(model: KernelEstimator, what: str) -> _Reading:
    """What answers, with the points of the basis and nothing more, and how rows are scaled."""
    stream = model.stream_
    scaler = (stream if stream.knows_units else stream.caught_up).scaler
    if isinstance(model, OnePassRidge) and what == "predict":
        points = stream.settled.for_sums().begun.basis
        return _Reading(replace(solution_of(model), basis_state=points), scaler)
    return _Reading(stream.components.without_sample(), scaler)


def _answer(
    block: Any, reading: _Reading, what: str, word: str, empty: np.ndarray, block_info: Any = None
) -> Array:
    if block.shape[0] == 0:
        return empty
    with naming(chunk_name(word, block_info)):
        return reading.ask(what, align(block))
