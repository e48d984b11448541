"""Dask ``fit`` and ``partial_fit``: sample, landmarks, sums of all chunks, held-out rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from dask.delayed import Delayed, delayed
from distributed import Client
from sklearn.utils.validation import validate_data

from kernelstream import landmarks
from kernelstream.anomaly import KernelNovelty
from kernelstream.anomaly.novelty.estimator import held_back_of
from kernelstream.anomaly.novelty.estimator import hold as hold_both
from kernelstream.distributed.dask.chunks import Chunks, chunks_of
from kernelstream.distributed.dask.graph import computed, held, quiet, sent_once, tree
from kernelstream.distributed.dask.worker import (
    Holding,
    add_sums,
    chosen_rows,
    decide,
    end_first_pass,
    end_second_pass,
    is_chosen_once,
    join_held,
    join_samples,
    learn,
    merge_all,
    require_parallel,
    require_rows,
    sample,
    stays,
    sum_chunk,
    without_sums,
)
from kernelstream.estimators import KernelEstimator
from kernelstream.regression import StreamingKernelClassifier
from kernelstream.regression.base import (
    OnePassRidge,
    require_same_columns,
    with_moving_points,
)
from kernelstream.regression.classifier import announce_classes, set_classes
from kernelstream.stream import HeldBack, Stream

Fitted = TypeVar("Fitted", bound=KernelEstimator)


def fit(
    model: Fitted,
    X: Any,
    y: Any = None,
    client: Client | None = None,
    passes: int = 2,
    sample_weight: Any = None,
) -> Fitted:
    """Learn from all chunks, forgetting what was learned before.

    Parameters
    ----------
    model : StreamingKernelPCA, KernelNovelty, StreamingKernelRidge or StreamingKernelClassifier
        With a tracker and a basis that can be merged (the defaults can). Refinements of centroids
        are left out, with a warning.
    X : Dask array of shape (n, d), or Dask dataframe
        Row chunks of any size, known or not; empty ones are skipped. Column chunks are joined.
    y : Dask array, series or dataframe of shape (n,) or (n, t), or array
        Targets of a regression or labels of a classifier, in chunks like those of X (where their
        sizes are known, y is cut anew to fit). Nothing otherwise.
    client : distributed.Client, optional
        None is the current client if there is one, else Dask's default scheduler.
    passes : 1 or 2
        1 is the tree of merged models alone. 2 passes over the rows again in the final basis: as
        accurate as ``model.fit`` on one machine. A weak ridge needs 2: it notices moments that
        were carried into another basis.
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
    if passes not in (1, 2):
        raise ValueError(f"passes must be 1 or 2, got {passes!r}.")
    _require_known(model)
    with model.transaction() as draft, quiet():
        chunks = chunks_of(draft, X, y, sample_weight)
        if isinstance(draft, StreamingKernelClassifier):
            set_classes(draft, chunks.labels(client))
        _fit(draft, chunks, client, passes)
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
    """Go on learning from the next chunks, in one pass.

    The chunks become one model, which is merged with what was learned before; where the points of
    the basis stay, their sums are added. The first call of a regression passes twice: its points
    stay from then on.

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
    regression = isinstance(model, OnePassRidge)
    with model.transaction() as draft, quiet():
        chunks = chunks_of(draft, X, y, sample_weight)
        if isinstance(draft, StreamingKernelClassifier):
            announce_classes(draft, classes)
        if not draft.__sklearn_is_fitted__():
            _fit(draft, chunks, client, 2 if regression else 1)
        else:
            _go_on(draft, chunks, client)
    model.report_progress()
    return model


def _require_known(model: Any) -> None:
    """Raise in words where an estimator is none that chunks can be put together for."""
    if not isinstance(model, KernelEstimator):
        raise TypeError(
            f"{type(model).__name__} cannot learn on a cluster: use StreamingKernelPCA, "
            "KernelNovelty, StreamingKernelRidge or StreamingKernelClassifier."
        )


def _fit(model: KernelEstimator, chunks: Chunks, client: Client | None, passes: int) -> None:
    validate_data(model, chunks.meta, reset=True, skip_check_array=True)
    begun = looking = model.new_stream(np.empty((0, model.n_features_in_), chunks.dtype))
    require_parallel(begun)
    apart = None
    if isinstance(model, KernelNovelty):
        apart, chunks = _hold_back(begun, chunks, client)
    if isinstance(model, OnePassRidge):
        looking = with_moving_points(model, begun, True)
    # `shared` is held to the end: should the basis be lost, Dask makes it again from this.
    root = shared = _decide(looking, chunks, client)
    chosen = is_chosen_once(begun.chain.basis)
    if not chosen:
        models = tree(merge_all, chunks.each(learn, shared, targets=passes == 1))
        root = delayed(end_first_pass)(sent_once(begun), models, passes)
    if passes == 2 or chosen:
        root = held(root, client)  # the chunks of one pass are gone before the next begins
        root = delayed(end_second_pass)(sent_once(begun), root, _statistics(root, chunks))
    learned = computed(root, client)
    hold(model, learned.with_chain(basis=begun.chain.basis), apart)


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
    rows = chunks.each(chosen_rows, sent_once(stream), holding=holding)
    found = require_rows(computed(tree(join_held, rows), client))
    return found, chunks.with_weights(holding.weights_to_learn)


def _go_on(model: KernelEstimator, chunks: Chunks, client: Client | None) -> None:
    validate_data(model, chunks.meta, reset=False, skip_check_array=True)
    given = model.stream_
    require_parallel(given)
    if chunks.n_targets is not None:
        require_same_columns(given, chunks.n_targets)
    before = given.caught_up
    apart = None
    if isinstance(model, KernelNovelty):
        more, chunks = _hold_back(given, chunks, client, model.n_samples_seen_)
        apart = held_back_of(model).join(more)
    basis = before.chain.basis
    has_begun = given.state is not None or is_chosen_once(basis)
    if has_begun and stays(basis):
        new = computed(_statistics(sent_once(before), chunks), client)
        if new is not None:
            hold(model, before.add(new), apart)
    else:
        empty = replace(before.with_state(None), scaling=None)
        models = chunks.each(learn, sent_once(empty), targets=True, n_before=before.n_rows)
        both = merge_all([before, computed(tree(merge_all, models), client)])
        hold(model, require_rows(both), apart)


def _decide(begun: Stream, chunks: Chunks, client: Client | None) -> Delayed:
    """The model with all that the data decide for every chunk alike, as one task."""
    basis, kernel = begun.chain.basis, begun.chain.kernel
    shared = sent_once(begun)
    given = isinstance(basis, landmarks.Landmarks) and np.ndim(basis.points) > 0
    draws = is_chosen_once(basis) and not given
    if kernel.fixed and begun.scaling is None and not draws:
        return delayed(decide)(shared, None)
    joint = tree(join_samples, chunks.each(sample, shared), begun.start_rows)
    return held(delayed(decide)(shared, joint), client)


def _statistics(root: Delayed, chunks: Chunks) -> Delayed:
    """The sums of all chunks in the basis of the model ``root``, as one task."""
    reader = delayed(without_sums)(root)
    return tree(add_sums, chunks.each(sum_chunk, reader, targets=True), reader)
