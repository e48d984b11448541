"""Fit on a cluster: Dask arrays and dataframes, chunk by chunk.

Chunks never move; what moves is the size of a model, O(m² + m d), whatever the number of rows.

1. *Look.* What the data decide (a ``"median"`` width, the scaling, sampled landmarks) is decided
   once, from a sample of all chunks. Left out when there is nothing to decide.
2. *Basis.* Each chunk becomes a model of its own; models are merged in a tree.
3. *Statistics.* The final basis goes out once; each chunk returns its sums in that basis, and sums
   are added in a tree. Every row is seen in the final basis, as in ``fit`` on one machine. The sums
   of a regression have the cross moments with the targets among them.

The tree follows the order of the chunks and every draw is a function of the seed and the chunk's
number: the same chunks give the same model, whatever the scheduling. Between two stages the result
stays on the cluster together with its recipe, so a lost worker costs time, not the fit; and each
stage reads the chunks anew, so none has to be held (``X.persist()`` first, where they fit).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, TypeVar

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
    stays,
    summed,
    with_final_basis,
)
from kernelstream.regression import StreamingKernelClassifier, StreamingKernelRidge
from kernelstream.regression.base import OnePassRidge, Regression, checked_alpha, with_basis
from kernelstream.view import View

__all__ = ["fit", "partial_fit", "predict", "transform", "reconstruction_error"]

Fitted = TypeVar("Fitted", bound=StreamingKernelPCA)
FAN_IN = 8  # results that one task of a tree takes together


# -- the five verbs


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
    model : StreamingKernelPCA, StreamingKernelRidge or StreamingKernelClassifier
        With a tracker and a basis that can be merged (the defaults can).
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
    >>> import kernelstream.dask
    >>> from kernelstream import StreamingKernelPCA
    >>> X = da.random.default_rng(0).normal(size=(5000, 4), chunks=(1000, 4))
    >>> model = StreamingKernelPCA(n_components=2, basis=50, random_state=0)
    >>> kernelstream.dask.fit(model, X).n_samples_seen_
    5000
    """
    if passes not in (1, 2):
        raise ValueError(f"passes must be 1 or 2, got {passes!r}.")
    with model._all_or_nothing(), _quiet():
        chunks = _chunks(model, X, y, sample_weight)
        if isinstance(model, StreamingKernelClassifier):
            model._learned_classes(chunks.labels(client))
        _fit(model, chunks, client, passes)
    model._report()
    return model


def _fit(model: StreamingKernelPCA, chunks: _Chunks, client: Client | None, passes: int) -> None:
    validate_data(model, chunks.meta, reset=True, skip_check_array=True)
    begun = looking = model._new_model(np.empty((0, model.n_features_in_), chunks.dtype))
    require_parallel(begun)
    if isinstance(model, OnePassRidge):
        looking, model._left_out = model._looking(begun), None
    # `shared` is held to the end: should the basis be lost, Dask makes it again from this.
    root = shared = _decided(looking, chunks, client)
    chosen = is_chosen_once(begun.parts.basis)
    if not chosen:
        models = _tree(merged_together, chunks.each(learned, shared, targets=passes == 1))
        root = delayed(with_final_basis)(_task(begun), models, passes)
    if passes == 2 or chosen:
        root = _held(root, client)  # the chunks of one pass are gone before the next begins
        root = delayed(finished)(_task(begun), root, _statistics(root, chunks))
    found = _computed(root, client)
    model._model = with_basis(found, begun.parts.basis) if looking is not begun else found


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
    model : StreamingKernelPCA, StreamingKernelRidge or StreamingKernelClassifier
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
    regression = isinstance(model, OnePassRidge)
    with model._all_or_nothing(), _quiet():
        chunks = _chunks(model, X, y, sample_weight)
        if isinstance(model, StreamingKernelClassifier):
            model._announced_classes(classes)
        if not model._is_fitted():
            _fit(model, chunks, client, 2 if regression else 1)
        else:
            _go_on(model, chunks, client)
    model._report()
    return model


def _go_on(model: StreamingKernelPCA, chunks: _Chunks, client: Client | None) -> None:
    validate_data(model, chunks.meta, reset=False, skip_check_array=True)
    require_parallel(model._model)
    if isinstance(model, OnePassRidge) and chunks.n_targets is not None:
        model._same_columns(chunks.n_targets)
        model._left_out = None
    before = caught_up(model._model)
    assert before.state is not None
    has_begun = model._model.state is not None or is_chosen_once(before.parts.basis)
    if has_begun and stays(before.parts.basis):
        new = _computed(_statistics(_task(before), chunks), client)
        if new is not None:
            both = added(before.parts, before.state, new, before.state.basis)
            model._model = replace(before, state=both)
    else:
        empty = replace(before, state=None, standardise=False)
        more = chunks.each(learned, _task(empty), targets=True, n_before=before.n_rows)
        merged = merged_together([before, _computed(_tree(merged_together, more), client)])
        model._model = something(merged)


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


def predict(model: OnePassRidge, X: Any) -> da.Array:
    """Predictions of a regression, or the labels of a classifier, lazily.

    Parameters
    ----------
    model : StreamingKernelRidge or StreamingKernelClassifier
        Fitted.
    X : Dask array of shape (n, d), or Dask dataframe

    Returns
    -------
    Dask array of shape (n,) or (n, t)
        In row chunks like those of X; flat where the targets were.

    Examples
    --------
    >>> import dask.array as da
    >>> import kernelstream.dask
    >>> from kernelstream import StreamingKernelRidge
    >>> X = da.random.default_rng(0).uniform(-3, 3, size=(3000, 1), chunks=(1000, 1))
    >>> y = da.sin(X[:, 0])
    >>> model = StreamingKernelRidge(gamma=1.0, basis=20, random_state=0)
    >>> found = kernelstream.dask.predict(kernelstream.dask.fit(model, X, y), X)
    >>> found.chunks
    ((1000, 1000, 1000),)
    >>> bool(abs(found - y).max().compute() < 0.02)
    True
    """
    if not isinstance(model, OnePassRidge):
        raise TypeError(
            f"{type(model).__name__} predicts nothing: use StreamingKernelRidge or "
            "StreamingKernelClassifier."
        )
    model._view_exists()
    n_columns = int(model._solution().prediction.intercept.shape[0])
    found = _query(model, X, "predict", n_columns)
    if isinstance(model, StreamingKernelClassifier):
        classes = model.classes_
        return da.map_blocks(_labels, found, classes=classes, drop_axis=1, dtype=classes.dtype)
    return found[:, 0] if model._flat else found


def _labels(found: np.ndarray, classes: np.ndarray) -> np.ndarray:
    return classes[found.argmax(axis=1)]


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
    """Rows, weights and targets in the same chunks, and what is known without computing them."""

    rows: da.Array
    weights: da.Array | None  # (n, 1)
    targets: da.Array | None  # (n, t) as they were given
    learner: OnePassRidge | None  # knows what becomes of targets
    meta: Any
    word: str
    dtype: Any

    @property
    def n_targets(self) -> int | None:
        """Columns that the targets become, where there are any."""
        if isinstance(self.learner, StreamingKernelClassifier):
            return len(self.learner.classes_)
        return None if self.targets is None else int(self.targets.shape[1])

    def each(
        self, function: Callable[..., Any], model: Any, targets: bool = False, **options: Any
    ) -> list[Delayed]:
        """One task a chunk: ``function(model, chunk's number, name, rows, weights, …)``.

        As blocks of an array, so that Dask fuses each with the making of its chunk: chunks then
        live inside one task, are never moved to another worker, and never wait for one.
        """
        beside = {"weights": self.weights, "y": self.targets if targets else None}
        present = {name: array for name, array in beside.items() if array is not None}
        results = da.map_blocks(
            _of_chunk,
            self.rows,
            *present.values(),
            beside=tuple(present),
            function=function,
            model=model,
            encoder=_encoder(self.learner) if "y" in present else None,
            options=options,
            word=self.word,
            chunks=((1,) * self.rows.numblocks[0], (1,)),
            meta=np.empty((0, 0), dtype=object),
            token=function.__name__,
        )
        return list(results.to_delayed().ravel())

    def labels(self, client: Client | None) -> np.ndarray:
        """All labels that the chunks have, sorted; the targets alone are read."""
        assert self.targets is not None
        found = [delayed(np.unique)(block) for block in self.targets.to_delayed().ravel()]
        return _computed(_tree(_labels_together, found), client)


def _labels_together(labels: list[np.ndarray]) -> np.ndarray:
    return np.unique(np.concatenate(labels))


def _chunks(model: StreamingKernelPCA, X: Any, y: Any, sample_weight: Any) -> _Chunks:
    rows, meta, word = _as_array(X)
    dtype = np.float32 if rows.dtype == np.float32 else np.float64
    targets, learner = _targets(model, y, rows)
    return _Chunks(rows, _weights(sample_weight, rows), targets, learner, meta, word, dtype)


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
    weights = _beside(rows, sample_weight, "sample_weight")
    if weights.ndim != 1:
        raise ValueError(f"sample_weight has {weights.ndim} dimensions, expected one.")
    return weights[:, None]


def _targets(
    model: StreamingKernelPCA, y: Any, rows: da.Array
) -> tuple[da.Array | None, OnePassRidge | None]:
    """Targets as columns in the chunks of the rows, and who learns them."""
    name = type(model).__name__
    if isinstance(y, Client):
        raise TypeError("y is a distributed.Client; name the argument: client=…")
    if not isinstance(model, OnePassRidge):
        if y is not None:
            raise ValueError(f"{name} learns from rows alone: leave y out.")
        return None, None
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    if checked_alpha(model.alpha) == "loo":
        raise ValueError(
            "alpha='loo' reads the rows once more with the finished model, and a cluster does not: "
            "use alpha='gcv', which needs the sums only."
        )
    targets = _beside(rows, y, "y")
    is_flat = targets.ndim == 1
    if targets.ndim not in (1, 2) or (isinstance(model, StreamingKernelClassifier) and not is_flat):
        raise ValueError(f"y has {targets.ndim} dimensions, which {name} does not take.")
    if isinstance(model, StreamingKernelRidge):
        model._flat = is_flat and (not model._is_fitted() or model._flat)
    return (targets[:, None] if is_flat else targets.rechunk({1: -1})), model


def _beside(rows: da.Array, values: Any, name: str) -> da.Array:
    """What comes with the rows, in their chunks."""
    if hasattr(values, "to_dask_array"):
        values = values.to_dask_array()
    elif not dask.is_dask_collection(values):
        host = np.asarray(values)
        values = da.from_array(host, chunks=tuple(max(n, 1) for n in host.shape) or 1)
    if values.ndim and not np.isnan(rows.shape[0]) and not np.isnan(values.shape[0]):
        if values.shape[0] != rows.shape[0]:
            raise ValueError(f"{name} has {values.shape[0]} entries, X has {rows.shape[0]} rows.")
        values = values.rechunk({0: rows.chunks[0]})
    if values.ndim and values.numblocks[0] != rows.numblocks[0]:
        raise ValueError(
            f"{name} has {values.numblocks[0]} chunks, X has {rows.numblocks[0]}: where chunk "
            f"sizes are unknown, {name} has to come in the chunks of X."
        )
    return values


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
    return _tree(added_together, chunks.each(summed, reader, targets=True), reader)


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
    *arrays: Any,
    beside: tuple[str, ...],
    function: Callable[..., Any],
    model: Any,
    encoder: OnePassRidge | None,
    options: dict[str, Any],
    word: str,
    block_info: Any = None,
) -> Any:
    """``function`` of a chunk, with the chunk's number and a name for errors."""
    number = block_info[0]["chunk-location"][0]
    name = _name(word, block_info)
    given = dict(zip(beside, arrays, strict=True))
    weights = given["weights"][:, 0] if "weights" in given else None
    if "y" in given and encoder is not None and block.shape[0]:
        with naming(name):
            options = {**options, "targets": _numbers(encoder, given["y"], block)}
    return function(model, number, name, block, weights, **options)


def _encoder(learner: OnePassRidge | None) -> OnePassRidge | None:
    """What makes numbers of targets, without all that was learned: it goes with every task."""
    if isinstance(learner, StreamingKernelClassifier):
        light = StreamingKernelClassifier()
        light.classes_ = learner.classes_
        return light
    return None if learner is None else type(learner)()


def _numbers(encoder: OnePassRidge, y: np.ndarray, block: Any) -> np.ndarray:
    """The targets of a chunk as a regression takes them."""
    if y.shape[0] != block.shape[0]:
        raise ValueError(f"y has {y.shape[0]} entries here, X has {block.shape[0]} rows.")
    is_column = isinstance(encoder, StreamingKernelClassifier)
    return encoder._columns(y[:, 0] if is_column else y)


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
    """What a query needs of a model, and how rows are standardised."""

    view: View | Regression
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
    """``what`` of every chunk, as a Dask array with or without columns."""
    rows, meta, word = _as_array(X)
    model._view_exists()
    validate_data(model, meta, reset=False, skip_check_array=True)
    dtype = np.float32 if rows.dtype == np.float32 else np.float64
    columns = () if n_columns is None else (n_columns,)
    return da.map_blocks(
        _answer,
        rows,
        _task(_Reading(_seen(model, what), model._standard(), model.n_features_in_)),
        what=what,
        word=word,
        empty=np.empty((0, *columns), dtype),
        dtype=dtype,
        chunks=(rows.chunks[0], *((n,) for n in columns)),
        drop_axis=[] if columns else 1,
        meta=np.empty((0,) * (1 + len(columns)), dtype),
    )


def _seen(model: StreamingKernelPCA, what: str) -> View | Regression:
    """What answers: components or a regression, with the points of the basis and nothing more."""
    if isinstance(model, OnePassRidge) and what == "predict":
        found = model._solution()
        span = found.basis.span(found.basis_state)
        return found if span is None else replace(found, basis_state=FixedState(span))
    seen = view(model._model)
    return seen if seen.span is None else replace(seen, basis_state=FixedState(seen.span))


def _answer(
    block: Any, reading: _Reading, what: str, word: str, empty: np.ndarray, block_info: Any = None
) -> Array:
    if block.shape[0] == 0:
        return empty
    with naming(_name(word, block_info)):
        return reading.ask(what, aligned(block))
