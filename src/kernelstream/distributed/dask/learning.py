"""Dask ``fit`` and ``partial_fit``: sample, landmarks, sums of all chunks, held-out rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from dask.delayed import Delayed, delayed
from distributed import Client
from sklearn.utils.validation import validate_data

from kernelstream.anomaly import KernelNovelty
from kernelstream.anomaly.novelty.estimator import held_back_of
from kernelstream.anomaly.novelty.estimator import hold as hold_both
from kernelstream.distributed.dask.chunks import Chunks, chunks_of
from kernelstream.distributed.dask.graph import computed, held, quiet, sent_once, tree
from kernelstream.distributed.dask.worker import (
    Holding,
    add_sums,
    choose_landmarks,
    finish,
    hold_out,
    join_held,
    join_samples,
    require_parallel,
    require_rows,
    sample,
    sum_chunk,
    without_sums,
)
from kernelstream.estimators import KernelEstimator
from kernelstream.regression import StreamingKernelClassifier
from kernelstream.regression.base import require_same_columns
from kernelstream.regression.classifier import announce_classes, set_classes
from kernelstream.stream import HeldBack, Rows, Stream

Fitted = TypeVar("Fitted", bound=KernelEstimator)


def fit(
    model: Fitted,
    X: Any,
    y: Any = None,
    client: Client | None = None,
    sample_weight: Any = None,
) -> Fitted:
    """Learn from all chunks, forgetting what was learned before.

    Parameters
    ----------
    model : StreamingKernelPCA, KernelNovelty, StreamingKernelRidge or StreamingKernelClassifier
        With fixed or optimized landmarks and a tracker that can be merged (the defaults are).
    X : Dask array of shape (n, d), or Dask dataframe
        Row chunks of any size, known or not; empty ones are skipped. Column chunks are joined.
    y : Dask array, series or dataframe of shape (n,) or (n, t), or array
        Targets of a regression or labels of a classifier, in chunks like those of X (where their
        sizes are known, y is cut anew to fit). Nothing otherwise.
    client : distributed.Client, optional
        None is the current client if there is one, else Dask's default scheduler.
    sample_weight : Dask array or series of shape (n,), or array, optional
        Non-negative weights, in chunks like those of X.

    Returns
    -------
    model
        Fitted; left as it was where an error is raised.

    Examples
    --------
    >>> import dask.array as da
    >>> import kernelstream.distributed.dask
    >>> from kernelstream import StreamingKernelPCA
    >>> X = da.random.default_rng(0).normal(size=(5000, 4), chunks=(1000, 4))
    >>> model = StreamingKernelPCA(n_components=2, basis=50, random_state=0)
    >>> kernelstream.distributed.dask.fit(model, X).n_samples_seen_
    5000
    """
    _require_known(model)
    with model.transaction() as draft, quiet():
        chunks = chunks_of(draft, X, y, sample_weight)
        if isinstance(draft, StreamingKernelClassifier):
            set_classes(draft, chunks.labels(client))
        _fit(draft, chunks, client)
    model.report_progress()
    return model


def partial_fit(
    model: Fitted,
    X: Any,
    y: Any = None,
    client: Client | None = None,
    sample_weight: Any = None,
    classes: Any = None,
) -> Fitted:
    """Learn the next chunks in addition.

    Where landmarks are fixed, the sums of the chunks are added to those of the model. Otherwise the
    chunks become a model of their own, as in :func:`fit`, and the two are merged.

    Parameters
    ----------
    model : StreamingKernelPCA, KernelNovelty, StreamingKernelRidge or StreamingKernelClassifier
        Fitted or not. The first call decides what the data decide.
    X : Dask array of shape (n, d), or Dask dataframe
        The next rows.
    y : Dask array, series or dataframe of shape (n,) or (n, t), or array
        Their targets or labels, as in :func:`fit`.
    client : distributed.Client, optional
        None is the current client if there is one, else Dask's default scheduler.
    sample_weight : Dask array or series of shape (n,), or array, optional
        Non-negative weights.
    classes : array of shape (n_classes,), optional
        All labels that may come; a classifier needs them in the first call.

    Returns
    -------
    model
        Left as it was where an error is raised.

    Examples
    --------
    >>> import dask.array as da
    >>> import kernelstream.distributed.dask
    >>> from kernelstream import StreamingKernelPCA
    >>> rng = da.random.default_rng(0)
    >>> model = StreamingKernelPCA(n_components=2, basis=50, random_state=0)
    >>> for _ in range(3):
    ...     blocks = rng.normal(size=(2000, 4), chunks=(1000, 4))
    ...     model = kernelstream.distributed.dask.partial_fit(model, blocks)
    >>> model.n_samples_seen_
    6000
    """
    _require_known(model)
    with model.transaction() as draft, quiet():
        chunks = chunks_of(draft, X, y, sample_weight)
        if isinstance(draft, StreamingKernelClassifier):
            announce_classes(draft, classes)
        if not draft.__sklearn_is_fitted__():
            _fit(draft, chunks, client)
        else:
            _learn_more(draft, chunks, client)
    model.report_progress()
    return model


def _require_known(model: Any) -> None:
    """Raise in words where an estimator is none that chunks can be put together for."""
    if not isinstance(model, KernelEstimator):
        raise TypeError(
            f"{type(model).__name__} cannot learn on a cluster: use StreamingKernelPCA, "
            "KernelNovelty, StreamingKernelRidge or StreamingKernelClassifier."
        )


def _fit(model: KernelEstimator, chunks: Chunks, client: Client | None) -> None:
    validate_data(model, chunks.meta, reset=True, skip_check_array=True)
    begun = model.new_stream(np.empty((0, model.n_features_in_), chunks.dtype))
    require_parallel(begun)
    apart = None
    if isinstance(model, KernelNovelty):
        apart, chunks = _hold_back(begun, chunks, client)
    hold(model, _learned(begun, chunks, client), apart)


def _learned(begun: Stream, chunks: Chunks, client: Client | None, n_before: int = 0) -> Stream:
    """A stream without rows after all chunks: landmarks for a sample of them, then their sums."""
    if begun.start_rows == 1:  # nothing to decide: only width and type of the rows matter
        blank = Rows(np.zeros((1, begun.n_features), dtype=begun.dtype))
        root = sent_once(begun.start(blank).without_signs())
    else:
        shared = sent_once(begun)
        samples = chunks.each(sample, shared, n_before=n_before)
        # The chunks of one pass are released before the next pass begins.
        root = held(delayed(choose_landmarks)(shared, tree(join_samples, samples)), client)
    return computed(delayed(finish)(root, _sums(root, chunks)), client)


def _sums(root: Delayed, chunks: Chunks) -> Delayed:
    """The sums of all chunks with the landmarks of the model ``root``, as one task."""
    reader = delayed(without_sums)(root)
    return tree(add_sums, chunks.each(sum_chunk, reader, targets=True), reader)


def hold(model: KernelEstimator, stream: Stream, apart: HeldBack | None = None) -> None:
    """Let an estimator go on from a stream, and from the rows that were held back of it."""
    if isinstance(model, KernelNovelty):
        assert apart is not None
        hold_both(model, stream, apart)
    else:
        model.set_stream(stream)


def _hold_back(
    stream: Stream, chunks: Chunks, client: Client | None, n_before: int = 0
) -> tuple[HeldBack, Chunks]:
    """Rows of all chunks that a detector does not learn, and the chunks without them."""
    n = chunks.rows.shape[0]
    share = HeldBack.ROWS.share if np.isnan(n) else float(HeldBack.ROWS.of(float(n_before + n)))
    holding = Holding(stream.chain.seed, share, n_before)
    rows = chunks.each(hold_out, sent_once(stream), holding=holding)
    found = require_rows(computed(tree(join_held, rows), client))
    return found, replace(chunks, holding=holding)


def _learn_more(model: KernelEstimator, chunks: Chunks, client: Client | None) -> None:
    validate_data(model, chunks.meta, reset=False, skip_check_array=True)
    given = model.stream_
    require_parallel(given)
    if chunks.n_targets is not None:
        require_same_columns(given, chunks.n_targets)
    apart = None
    if isinstance(model, KernelNovelty):
        more, chunks = _hold_back(given, chunks, client, model.n_samples_seen_)
        apart = held_back_of(model).join(more)
    if given.state is None:  # its buffered rows, too few to begin with, are learned at the end
        stream = _learned(given, chunks, client, given.n_rows)
    elif given.chain.basis.kind == "fixed":
        before = given.caught_up
        stream = before.add(require_rows(computed(_sums(sent_once(before), chunks), client)))
    else:
        before = given.caught_up
        empty = before.with_state(None)
        stream = before.merge(_learned(empty, chunks, client, before.n_rows))
    hold(model, stream, apart)
