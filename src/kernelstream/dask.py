"""Fit on a cluster: Dask arrays and dataframes, chunk by chunk.

Chunks never move; what moves is the size of a model, O(m² + m d), whatever the number of rows.

1. *Look.* What the data decide (a ``"median"`` width, the scaling, sampled landmarks) is decided
   once, from a sample of all chunks. Left out when there is nothing to decide.
2. *Basis.* Each chunk becomes a model of its own; models are merged in a tree.
3. *Statistics.* The final basis goes out once; each chunk returns its sums in that basis, and sums
   are added in a tree. Every row is seen in the final basis, as in ``fit`` on one machine.

The tree follows the order of the chunks and every draw is a function of the seed and the chunk's
number: the same chunks give the same model, whatever the scheduling. Between two stages the result
stays on the cluster together with its recipe, so a lost worker costs time, not the fit; and each
stage reads the chunks anew, so none has to be held (``X.persist()`` first, where they fit).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, is_dataclass, replace
from typing import Any

import dask
import numpy as np
from dask import array as da
from dask.delayed import Delayed, delayed
from dask.sizeof import sizeof
from distributed import Client, futures_of
from sklearn.utils.validation import validate_data

from kernelstream.backends.arrays import Array, cast, concatenate_rows
from kernelstream.bases import Landmarks
from kernelstream.bases.base import finite
from kernelstream.bases.landmarks import FixedState
from kernelstream.blocks import caught_up, start_rows, view
from kernelstream.estimator import QUERY_ROWS, StreamingKernelPCA
from kernelstream.merge import added
from kernelstream.model import Model, Standard, State
from kernelstream.parallel import (
    Sample,
    added_together,
    aligned,
    decided,
    finished,
    is_chosen_once,
    learned,
    merged_together,
    naming,
    reader_of,
    require_parallel,
    sampled,
    sampled_together,
    something,
    summed,
    with_final_basis,
)
from kernelstream.view import View

__all__ = ["fit", "partial_fit", "transform", "reconstruction_error"]

FAN_IN = 8  # results that one task of a tree takes together


# -- the four verbs


def fit(
    model: StreamingKernelPCA,
    X: Any,
    client: Client | None = None,
    passes: int = 2,
    sample_weight: Any = None,
) -> StreamingKernelPCA:
    """Learn from all chunks, forgetting what was learned before.

    Parameters
    ----------
    model : StreamingKernelPCA
        With a tracker and a basis that can be merged (the defaults can).
    X : Dask array of shape (n, d), or Dask dataframe
        Row chunks of any size, known or not; empty ones are skipped. Column chunks are joined.
    client : distributed.Client, optional
        None is the current client if there is one, else Dask's default scheduler.
    passes : 1 or 2
        1 is the tree of merged models alone. 2 passes over the rows again in the final basis: as
        accurate as ``model.fit`` on one machine.
    sample_weight : Dask array or series of shape (n,), or array, optional
        Non-negative weights, in chunks like those of X.

    Returns
    -------
    StreamingKernelPCA
        ``model``, fitted; left as it was where an error is raised.

    Examples
    --------
    >>> import dask.array as da
    >>> import kernelstream.dask
    >>> from kernelstream import StreamingKernelPCA
    >>> X = da.random.default_rng(0).normal(size=(5000, 4), chunks=(1000, 4))
    >>> model = StreamingKernelPCA(n_components=2, basis=50, random_state=0)
    >>> kernelstream.dask.fit(model, X).n_samples_seen_
    5000
    """
    if passes not in (1, 2):
        raise ValueError(f"passes must be 1 or 2, got {passes!r}.")
    chunks = _chunks(X, sample_weight)
    with model._all_or_nothing(), _quiet():
        validate_data(model, chunks.meta, reset=True, skip_check_array=True)
        begun = model._new_model(np.empty((0, model.n_features_in_), chunks.dtype))
        require_parallel(begun)
        # `shared` is held to the end: should the basis be lost, Dask makes it again from this.
        root = shared = _decided(begun, chunks, client)
        chosen = is_chosen_once(begun.parts.basis)
        if not chosen:
            models = _tree(merged_together, chunks.each(learned, shared))
            root = delayed(with_final_basis)(_task(begun), models, passes)
        if passes == 2 or chosen:
            root = _held(root, client)  # the chunks of one pass are gone before the next begins
            root = delayed(finished)(_task(begun), root, _statistics(root, chunks))
        model._model = _computed(root, client)
    model._report()
    return model


def partial_fit(
    model: StreamingKernelPCA, X: Any, client: Client | None = None, sample_weight: Any = None
) -> StreamingKernelPCA:
    """Go on learning from the next chunks, in one pass.

    The chunks become one model, which is merged with what was learned before.

    Parameters
    ----------
    model : StreamingKernelPCA
        Fitted or not. The first call decides what the data decide.
    X : Dask array of shape (n, d), or Dask dataframe
        The next rows.
    client : distributed.Client, optional
        None is the current client if there is one, else Dask's default scheduler.
    sample_weight : Dask array or series of shape (n,), or array, optional
        Non-negative weights.

    Returns
    -------
    StreamingKernelPCA
        ``model``; left as it was where an error is raised.

    Examples
    --------
    >>> import dask.array as da
    >>> import kernelstream.dask
    >>> from kernelstream import StreamingKernelPCA
    >>> rng = da.random.default_rng(0)
    >>> model = StreamingKernelPCA(n_components=2, basis=50, random_state=0)
    >>> for _ in range(3):
    ...     blocks = rng.normal(size=(2000, 4), chunks=(1000, 4))
    ...     model = kernelstream.dask.partial_fit(model, blocks)
    >>> model.n_samples_seen_
    6000
    """
    if not model._is_fitted():
        return fit(model, X, client, 1, sample_weight)
    chunks = _chunks(X, sample_weight)
    with model._all_or_nothing(), _quiet():
        validate_data(model, chunks.meta, reset=False, skip_check_array=True)
        require_parallel(model._model)
        before = caught_up(model._model)
        assert before.state is not None
        if is_chosen_once(before.parts.basis):
            new = _computed(_statistics(_task(before), chunks), client)
            if new is not None:
                both = added(before.parts, before.state, new, before.state.basis)
                model._model = replace(before, state=both)
        else:
            empty = replace(before, state=None, standardise=False)
            more = _tree(merged_together, chunks.each(learned, _task(empty), before.n_rows))
            model._model = something(merged_together([before, _computed(more, client)]))
    model._report()
    return model


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
    >>> import kernelstream.dask
    >>> from kernelstream import StreamingKernelPCA
    >>> X = da.random.default_rng(0).normal(size=(3000, 4), chunks=(1000, 4))
    >>> model = kernelstream.dask.fit(StreamingKernelPCA(2, basis=50, random_state=0), X)
    >>> kernelstream.dask.transform(model, X).chunks
    ((1000, 1000, 1000), (2,))
    """
    return _query(model, X, "scores", model.n_components_)


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
    >>> import kernelstream.dask
    >>> from kernelstream import StreamingKernelPCA
    >>> X = da.random.default_rng(0).normal(size=(3000, 4), chunks=(1000, 4))
    >>> model = kernelstream.dask.fit(StreamingKernelPCA(2, basis=50, random_state=0), X)
    >>> kernelstream.dask.reconstruction_error(model, X).chunks
    ((1000, 1000, 1000),)
    """
    return _query(model, X, "reconstruction_error", None)


# -- the graph


@dataclass(frozen=True)
class _Chunks:
    """Rows and weights in the same chunks, and what is known without computing them."""

    rows: da.Array
    weights: da.Array | None  # (n, 1)
    meta: Any
    word: str
    dtype: Any

    def each(self, function: Callable[..., Any], model: Any, *arguments: Any) -> list[Delayed]:
        """One task a chunk: ``function(model, chunk's number, name, rows, weights, …)``.

        As blocks of an array, so that Dask fuses each with the making of its chunk: chunks then
        live inside one task, are never moved to another worker, and never wait for one.
        """
        results = da.map_blocks(
            _of_chunk,
            self.rows,
            *(() if self.weights is None else (self.weights,)),
            function=function,
            model=model,
            arguments=arguments,
            word=self.word,
            chunks=((1,) * self.rows.numblocks[0], (1,)),
            meta=np.empty((0, 0), dtype=object),
            token=function.__name__,
        )
        return list(results.to_delayed().ravel())


def _chunks(X: Any, sample_weight: Any) -> _Chunks:
    rows, meta, word = _as_array(X)
    dtype = np.float32 if rows.dtype == np.float32 else np.float64
    return _Chunks(rows, _weights(sample_weight, rows), meta, word, dtype)


def _as_array(X: Any) -> tuple[da.Array, Any, str]:
    """Rows as an array with one column chunk, what stands for its columns, and Dask's word."""
    if not dask.is_dask_collection(X) or not hasattr(X, "ndim") or X.ndim != 2:
        raise TypeError(
            "Expected a Dask array of shape (n, d) or a Dask dataframe, got "
            f"{type(X).__name__}{getattr(X, 'shape', '')}. Rows in memory go to model.fit."
        )
    if hasattr(X, "to_dask_array"):
        return X.to_dask_array(), X._meta, "partitions"
    return X.rechunk({1: -1}), np.empty((0, X.shape[1])), "blocks"


def _weights(sample_weight: Any, rows: da.Array) -> da.Array | None:
    """Weights as a column in the chunks of the rows."""
    if sample_weight is None:
        return None
    known = not np.isnan(rows.shape[0])
    if hasattr(sample_weight, "to_dask_array"):
        sample_weight = sample_weight.to_dask_array()
    elif not dask.is_dask_collection(sample_weight):
        host = np.asarray(sample_weight)
        sample_weight = da.from_array(host, chunks=max(len(host), 1) if host.ndim else 1)
    if sample_weight.ndim != 1:
        raise ValueError(f"sample_weight has {sample_weight.ndim} dimensions, expected one.")
    if known and not np.isnan(sample_weight.shape[0]):
        if sample_weight.shape[0] != rows.shape[0]:
            raise ValueError(
                f"sample_weight has {sample_weight.shape[0]} entries, X has {rows.shape[0]} rows."
            )
        sample_weight = sample_weight.rechunk((rows.chunks[0],))
    if sample_weight.numblocks[0] != rows.numblocks[0]:
        raise ValueError(
            f"sample_weight has {sample_weight.numblocks[0]} chunks, X has {rows.numblocks[0]}: "
            "where chunk sizes are unknown, weights have to come in the chunks of X."
        )
    return sample_weight[:, None]


def _tree(combine: Callable[..., Any], leaves: list[Delayed], *first: Any) -> Delayed:
    """Combine neighbours, then their results, down to one: the order of the chunks is the shape."""
    task = delayed(combine)
    while True:
        groups = [leaves[i : i + FAN_IN] for i in range(0, len(leaves), FAN_IN)]
        leaves = [task(*first, group) for group in groups]
        if len(leaves) == 1:
            return leaves[0]


def _decided(begun: Model, chunks: _Chunks, client: Client | None) -> Delayed:
    """The model with all that the data decide for every chunk alike, as one task."""
    basis, kernel = begun.parts.basis, begun.parts.kernel
    shared = _task(begun)
    draws = isinstance(basis, Landmarks) and np.ndim(basis.points) == 0
    if kernel.fixed and not begun.standardise and not draws:
        return delayed(decided)(shared, None)
    sample = _tree(sampled_together, chunks.each(sampled, shared), start_rows(begun))
    return _held(delayed(decided)(shared, sample), client)


def _statistics(root: Delayed, chunks: _Chunks) -> Delayed:
    """The sums of all chunks in the basis of the model ``root``, as one task."""
    reader = delayed(reader_of)(root)
    return _tree(added_together, chunks.each(summed, reader), reader)


def _task(value: Any) -> Delayed:
    """A value as a task: sent once, not with every task that needs it."""
    return delayed(value, traverse=False, pure=False)


def _held(task: Delayed, client: Client | None) -> Delayed:
    """Compute a task and leave the result where it is, together with its recipe."""
    task = dask.persist(task)[0] if client is None else client.persist(task)
    for future in futures_of(task):  # none without a cluster: the result is there
        problem = future.exception()  # waits
        if problem is not None:
            raise problem
    return task


def _computed(task: Delayed, client: Client | None) -> Any:
    return task.compute() if client is None else client.compute(task).result()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """No advice to scatter large objects: all that is sent is one model, once."""
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
        yield


def _of_chunk(
    block: Any,
    weights: Any = None,
    *,
    function: Callable[..., Any],
    model: Any,
    arguments: tuple[Any, ...],
    word: str,
    block_info: Any = None,
) -> Any:
    """``function`` of a chunk, with the chunk's number and a name for errors."""
    number = block_info[0]["chunk-location"][0]
    weights = None if weights is None else weights[:, 0]
    return function(model, number, _name(word, block_info), block, weights, *arguments)


def _name(word: str, block_info: Any) -> str:
    """A chunk in words: how to look at it, and its rows where Dask knows them."""
    number = block_info[0]["chunk-location"][0]
    start, stop = block_info[0]["array-location"][0]
    known = "" if np.isnan(stop) else f", rows {start} to {stop - 1}"
    return f"Chunk {number} (X.{word}[{number}]{known})"


@sizeof.register((Model, State, Sample))
def _n_bytes(value: Any) -> int:
    """What a result weighs: Dask places, moves and spills by it, and would take 56 bytes."""
    if is_dataclass(value):
        return sum(map(_n_bytes, vars(value).values()))
    return sum(map(_n_bytes, value)) if isinstance(value, tuple) else sizeof(value)


# -- queries


@dataclass(frozen=True)
class _Reading:
    """What a query needs of a model: the components, and how rows are standardised."""

    view: View
    standard: Standard | None
    n_features: int

    def ask(self, what: str, X: Array) -> Array:
        checker = StreamingKernelPCA()
        checker.n_features_in_ = self.n_features
        X = checker._validated(X, reset=False)
        X = X if self.standard is None else self.standard.apply(X)
        question, starts = getattr(self.view, what), range(0, X.shape[0], QUERY_ROWS)
        pieces = [question(X[start : start + QUERY_ROWS]) for start in starts]
        return finite(cast(concatenate_rows(pieces), X.dtype), self.view.kernel)


def _query(model: StreamingKernelPCA, X: Any, what: str, n_columns: int | None) -> da.Array:
    """``view.what`` of every chunk, as a Dask array with or without columns."""
    rows, meta, word = _as_array(X)
    model._view_exists()
    validate_data(model, meta, reset=False, skip_check_array=True)
    seen = view(model._model)
    if seen.span is not None:
        seen = replace(seen, basis_state=FixedState(seen.span))
    dtype = np.float32 if rows.dtype == np.float32 else np.float64
    columns = () if n_columns is None else (n_columns,)
    return da.map_blocks(
        _answer,
        rows,
        _task(_Reading(seen, model._standard(), model.n_features_in_)),
        what=what,
        word=word,
        empty=np.empty((0, *columns), dtype),
        dtype=dtype,
        chunks=(rows.chunks[0], *((n,) for n in columns)),
        drop_axis=[] if columns else 1,
        meta=np.empty((0,) * (1 + len(columns)), dtype),
    )


def _answer(
    block: Any, reading: _Reading, what: str, word: str, empty: np.ndarray, block_info: Any = None
) -> Array:
    if block.shape[0] == 0:
        return empty
    with naming(_name(word, block_info)):
        return reading.ask(what, aligned(block))
