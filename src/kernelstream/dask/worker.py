"""A fit in pieces: what a worker does with a chunk of rows, and how the pieces become one model.

Nothing here knows what runs it: every function takes values and returns one, and what it returns
weighs O(m² + m d) whatever the number of rows. ``kernelstream.dask`` strings them together. A chunk
without rows, or without weight, gives None, and None adds nothing.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import reduce, wraps
from typing import Any

import numpy as np

from kernelstream.backends.arrays import to_host
from kernelstream.backends.draws import generator, highest
from kernelstream.bases import Basis, Centroids, Fourier, Landmarks
from kernelstream.bases.landmarks import FixedState
from kernelstream.estimators.pca import StreamingKernelPCA
from kernelstream.part import Part
from kernelstream.regression.base import require_summable
from kernelstream.stream.chain import blank
from kernelstream.stream.merge import added, merged
from kernelstream.stream.state import Model, Rows, Standard, State, Waiting
from kernelstream.stream.stream import (
    advance,
    begun,
    caught_up,
    folded,
    picked,
    signed_anew,
    start_rows,
    with_finished_basis,
)
from kernelstream.trackers import Tracker


def require_parallel(model: Model) -> None:
    """Raise in words, before any work, where the parts cannot work on chunks apart."""
    basis, tracker = model.parts.basis, model.parts.tracker
    if tracker.sequential or type(tracker).merge is Tracker.merge:
        raise ValueError(
            f"The tracker {tracker} learns rows one after another and cannot be merged: it cannot "
            "run on a cluster. Use trackers.Covariance()."
        )
    if tracker.forgetting != 1.0:
        raise ValueError(
            f"The tracker {tracker} forgets old rows, and chunks on a cluster come in no order. "
            "Use forgetting=1.0, or stream the rows on one machine with model.partial_fit."
        )
    if type(basis).merge is Basis.merge:
        raise ValueError(
            f"The basis {basis} cannot be merged: it cannot run on a cluster. Use "
            "bases.Centroids, or give points with bases.Landmarks."
        )


def is_chosen_once(basis: Basis) -> bool:
    """Whether the start of the stream decides the basis for ever: one for all chunks."""
    return isinstance(basis, Landmarks | Fourier)


def stays(basis: Basis) -> bool:
    """Whether rows that come later leave a basis that exists as it is."""
    return is_chosen_once(basis) or (isinstance(basis, Centroids) and not basis.follows)


def aligned(value: Any) -> Any:
    """The same value with every array in one piece that begins where the processor likes it.

    What came over the wire may begin at any byte. NumPy then takes other paths, which are slower
    and round differently: the model would depend on which results happened to travel.
    """
    if isinstance(value, np.ndarray):
        return value if value.flags.aligned and value.flags.forc else value.copy()
    if isinstance(value, tuple | list):
        return type(value)(map(aligned, value))
    if isinstance(value, Part):
        return type(value)(**{k: aligned(v) for k, v in value.get_params(deep=False).items()})
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: aligned(getattr(value, f.name)) for f in fields(value)})
    return value


def on_worker(function: Callable[..., Any]) -> Callable[..., Any]:
    """A task: its arguments may have travelled."""

    @wraps(function)
    def run(*arguments: Any, **options: Any) -> Any:
        return function(
            *map(aligned, arguments), **{name: aligned(value) for name, value in options.items()}
        )

    return run


@contextlib.contextmanager
def naming(chunk: str) -> Iterator[None]:
    """Put the name of the chunk in front of what went wrong there."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except (TypeError, ValueError) as problem:  # a missing value of pandas is no number: TypeError
        raise ValueError(f"{chunk}: {problem}") from problem


def rows_of(model: Model, block: Any, weights: Any, targets: Any = None) -> Rows | None:
    """A chunk as checked rows; None where there is nothing to learn from."""
    if block.shape[0] == 0 or (weights is not None and not np.any(weights)):
        return None
    checker = StreamingKernelPCA()
    checker._model, checker.n_features_in_ = model, model.n_features
    X, heavy = checker._learnable(block, weights, reset=False)
    if targets is not None:
        if heavy is not None:  # rows of weight zero were dropped
            targets = targets[np.flatnonzero(weights)]
        require_summable(targets, heavy)
    rows = Rows(X, heavy, targets)
    return rows if len(rows) else None


def seed_of(model: Model, index: int, n_before: int = 0) -> int:
    """A seed of its own for every chunk: draws depend on the row's index in its chunk."""
    return int(generator(model.parts.seed, f"chunk after {n_before}", index).integers(2**31 - 1))


@dataclass(frozen=True)
class Sample:
    """Rows of highest priority, in the order of the data, and moments of all rows."""

    priority: np.ndarray
    rows: Rows
    moments: tuple[float, np.ndarray, np.ndarray] | None  # W, mean, Σ w (x − mean)²


@on_worker
def sampled(model: Model, index: int, chunk: str, block: Any, weights: Any) -> Sample | None:
    """At most ``start_rows`` rows of a chunk, all rows alike."""
    with naming(chunk):
        rows = rows_of(model, block, weights)
        if rows is None:
            return None
        priority = generator(seed_of(model, index), "sample").random(len(rows))
        kept = highest(priority, start_rows(model))
        size = model.batch_size
        pieces = (rows[start : start + size] for start in range(0, len(rows), size))
        moments = reduce(pooled, map(moments_of, pieces)) if model.standardise else None
        return Sample(priority[kept], picked(rows, kept), moments)


@on_worker
def sampled_together(size: int, samples: list[Sample | None]) -> Sample | None:
    """The sample of several chunks: the highest priorities of all, and their moments pooled."""
    present = [sample for sample in samples if sample is not None]
    if not present:
        return None
    priority = np.concatenate([sample.priority for sample in present])
    kept = highest(priority, size)
    waiting = Waiting(
        tuple(sample.rows.X for sample in present), tuple(s.rows.weights for s in present)
    )
    moments = [sample.moments for sample in present if sample.moments is not None]
    return Sample(
        priority[kept], picked(waiting.join(), kept), reduce(pooled, moments) if moments else None
    )


def moments_of(rows: Rows) -> tuple[float, np.ndarray, np.ndarray]:
    """Weight, mean and Σ w (x − mean)² of rows."""
    X = to_host(rows.X).astype(float)
    w = np.ones(len(X)) if rows.weights is None else rows.weights
    first = X[0].copy()  # taken out, so that a constant column has exactly no variance
    X -= first
    mean = w @ X / w.sum()
    return float(w.sum()), first + mean, w @ (X - mean) ** 2


def pooled(a: tuple, b: tuple) -> tuple[float, np.ndarray, np.ndarray]:
    """Moments of both (Chan, Golub and LeVeque 1983)."""
    total, step = a[0] + b[0], b[1] - a[1]
    return total, a[1] + step * (b[0] / total), a[2] + b[2] + step**2 * (a[0] * b[0] / total)


@on_worker
def decided(model: Model, sample: Sample | None) -> Model:
    """Decide what the data decide; bases that are chosen once are chosen here."""
    if sample is None:  # nothing to decide: only width and type of the rows matter
        rows = Rows(np.zeros((1, model.n_features), dtype=model.dtype), None)
    else:
        rows = sample.rows.canonical()
        if sample.moments is not None:
            weight, mean, squares = sample.moments
            deviation = np.sqrt(squares / weight)
            standard = Standard(mean, np.where(deviation > 0, deviation, 1.0))
            model = replace(model, standard=standard)
        kernel = model.parts.kernel.fix(model.prepared(rows.X), rows.weights)
        model = replace(model, parts=replace(model.parts, kernel=kernel))
    model = replace(model, standardise=False)  # it is done: chunks don't measure for themselves
    if is_chosen_once(model.parts.basis):
        model = begun(model, rows)
    return model


@on_worker
def learned(
    model: Model,
    index: int,
    chunk: str,
    block: Any,
    weights: Any,
    targets: Any = None,
    n_before: int = 0,
) -> Model | None:
    """First pass: a chunk as a stream of its own."""
    with naming(chunk):
        rows = rows_of(model, block, weights, targets)
        if rows is None:
            return None
        seed = seed_of(model, index, n_before)
        model = replace(model, parts=replace(model.parts, seed=seed))
        order = np.arange(len(rows))
        if model.parts.basis.order_free:
            order = generator(seed, "order").permutation(len(rows))
        for start in range(0, len(rows), model.batch_size):
            piece = picked(rows, order[start : start + model.batch_size])
            model = advance(model, piece.X, piece.weights, piece.targets)
        return without_waiting(model)


@on_worker
def merged_together(models: list[Model | None]) -> Model | None:
    """One model of several; those with too few rows to begin hand their rows on."""

    def joined(a: Model, b: Model) -> Model:
        few, other = (a, b) if a.state is None else (b, a)
        if few.state is not None:
            return merged(a, b)
        rows = few.waiting.join()
        return without_waiting(advance(other, rows.X, rows.weights, rows.targets))

    present = [model for model in models if model is not None]
    return reduce(joined, present) if present else None


def without_waiting(model: Model) -> Model:
    """Fold the last rows of a chunk, unless the model has still to begin."""
    return model if model.state is None else caught_up(model)


@on_worker
def with_final_basis(begun: Model, model: Model | None, passes: int) -> Model:
    """The end of the first pass: the model as it stands, or with its basis made up."""
    model = something(model)
    parts = replace(model.parts, seed=begun.parts.seed)
    model = replace(model, parts=parts, standardise=begun.standardise)
    if passes == 1:
        return signed_anew(caught_up(model))
    return with_finished_basis(caught_up(model))


@on_worker
def reader_of(model: Model) -> Model:
    """An empty model that only reads its basis: points and factor, nothing else travels."""
    parts, state = model.parts, model.state
    assert state is not None
    span = parts.basis.span(state.basis)
    basis = state.basis if span is None else FixedState(span)
    empty = replace(blank(parts, basis, state.moments.total), next_signs=sys.maxsize)
    return replace(model, state=empty, waiting=Waiting())


@on_worker
def summed(
    reader: Model, index: int, chunk: str, block: Any, weights: Any, targets: Any = None
) -> State | None:
    """Second pass: the sums of a chunk, without the basis that everybody has."""
    with naming(chunk):
        rows = rows_of(reader, block, weights, targets)
        if rows is None:
            return None
        state = folded(reader, rows, frozen=True).state
        assert state is not None
        return replace(state, basis=None)


@on_worker
def added_together(reader: Model, states: list[State | None]) -> State | None:
    """The sums of several chunks, all in the basis of the reader."""
    present = [state for state in states if state is not None]
    return reduce(lambda a, b: added(reader.parts, a, b, None), present) if present else None


@on_worker
def finished(begun: Model, root: Model, sums: State | None) -> Model:
    """The finished model: the basis of the first pass, the sums of the second."""
    assert root.state is not None
    state = replace(something(sums), basis=root.state.basis)
    return signed_anew(replace(root, state=state, standardise=begun.standardise))


def something(found: Any) -> Any:
    """Return what was found, or raise: no chunk had a row."""
    if found is None:
        raise ValueError("No chunk has a row of positive weight: there is nothing to learn from.")
    return found
