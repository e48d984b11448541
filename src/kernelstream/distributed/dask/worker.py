"""Worker tasks of a distributed fit: sample, first pass, merge, second pass, sums of a chunk.

Nothing here knows what runs it: every function takes values and returns one, and what it returns
weighs O(m² + m d) whatever the number of rows. ``kernelstream.distributed.dask`` strings them
together. A chunk without rows, or without weight, gives None, and None adds nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import reduce, wraps
from typing import Any

import numpy as np

from kernelstream import landmarks, trackers
from kernelstream.arrays import cores, generator
from kernelstream.estimators import check_rows
from kernelstream.serialization import Part
from kernelstream.stream import HeldBack, Rows, State, Stream


def require_parallel(stream: Stream) -> None:
    """Raise in words, before any work, where the parts cannot work on chunks apart."""
    basis, tracker = stream.chain.basis, stream.chain.tracker
    if tracker.kind == "sequential" or type(tracker).merge is trackers.Tracker.merge:
        raise ValueError(
            f"The tracker {tracker} learns rows one after another and cannot be merged: it cannot "
            "run on a cluster. Use trackers.Covariance()."
        )
    if tracker.forgetting != 1.0:
        raise ValueError(
            f"The tracker {tracker} forgets old rows, and chunks on a cluster come in no order. "
            "Use forgetting=1.0, or stream the rows on one machine with model.partial_fit."
        )
    if stream.chain.robust:
        raise ValueError(
            "robust=True compares rows with those before them, and chunks on a cluster come in no "
            "order: stream the rows on one machine with model.partial_fit."
        )
    if stream.chain.auto:
        raise ValueError(
            "What is 'auto' is chosen from rows of one machine: kernelstream.suggest(X) with some "
            "of the rows gives numbers for gamma, n_components and basis."
        )
    if type(basis).merge is landmarks.LandmarkStrategy.merge:
        raise ValueError(
            f"The basis {basis} cannot be merged: it cannot run on a cluster. Use "
            "landmarks.Centroids, or give points with landmarks.Landmarks."
        )


def is_chosen_once(basis: landmarks.LandmarkStrategy) -> bool:
    """Whether the start of the stream decides the basis for ever: one for all chunks."""
    return isinstance(basis, landmarks.FixedLandmarks)


def stays(basis: landmarks.LandmarkStrategy) -> bool:
    """Whether rows that come later leave a basis that exists as it is."""
    return basis.kind == "fixed"


def align(value: Any) -> Any:
    """The same value with every array in one piece that begins where the processor likes it.

    What came over the wire may begin at any byte. NumPy then takes other paths, which are slower
    and round differently: the model would depend on which results happened to travel.
    """
    if isinstance(value, np.ndarray):
        return value if value.flags.aligned and value.flags.forc else value.copy()
    if isinstance(value, tuple | list):
        return type(value)(map(align, value))
    if isinstance(value, Part):
        return type(value)(**{k: align(v) for k, v in value.get_params(deep=False).items()})
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: align(getattr(value, f.name)) for f in fields(value)})
    return value


def on_worker(function: Callable[..., Any]) -> Callable[..., Any]:
    """A task: its arguments may have travelled, and workers may have other numbers of threads."""

    @wraps(function)
    def run(*arguments: Any, **options: Any) -> Any:
        with cores(1):
            return function(
                *map(align, arguments), **{name: align(value) for name, value in options.items()}
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


def rows_of(stream: Stream, block: Any, weights: Any, targets: Any = None) -> Rows | None:
    """A chunk as checked rows; None where there is nothing to learn from."""
    if block.shape[0] == 0 or (weights is not None and not np.any(weights)):
        return None
    rows = check_rows(stream, block, weights, targets)
    return rows if len(rows) else None


def seed_of(stream: Stream, index: int, n_before: int = 0) -> int:
    """A seed of its own for every chunk: draws depend on the row's index in its chunk."""
    return chunk_seed(stream.chain.seed, index, n_before)


def chunk_seed(seed: int, index: int, n_before: int = 0) -> int:
    """The seed of a chunk, from that of all of them."""
    return int(generator(seed, f"chunk after {n_before}", index).integers(2**31 - 1))


@dataclass(frozen=True)
class Holding:
    """What decides which rows of a chunk a detector holds back."""

    seed: int
    share: float
    n_before: int  # rows that were seen before these chunks

    def of_chunk(self, index: int, n: int) -> tuple[np.ndarray, int]:
        """Which of n rows, and the seed of the chunk; its first row is learned.

        A chunk may be all there is.
        """
        seed = chunk_seed(self.seed, index, self.n_before)
        held = HeldBack.draws(seed, 0, n) < self.share
        held[:1] = False
        return held, seed

    def weights_to_learn(self, index: int, n: int, weights: np.ndarray | None) -> np.ndarray:
        """Weights of the rows of a chunk, zero for those that are held back."""
        given = np.ones(n) if weights is None else np.array(weights, dtype=float)
        rows = np.flatnonzero(given)  # those without weight are none
        given[rows[self.of_chunk(index, len(rows))[0]]] = 0.0
        return given


@on_worker
def chosen_rows(
    stream: Stream, index: int, chunk: str, block: Any, weights: Any, holding: Holding
) -> HeldBack | None:
    """The rows of a chunk that are held back."""
    with naming(chunk):
        rows = rows_of(stream, block, weights)
        if rows is None:
            return None
        chosen, seed = holding.of_chunk(index, len(rows))
        held = HeldBack.nothing(stream.n_features, stream.dtype)
        return held.add(rows.X, rows.weights, chosen, seed).thin()


@on_worker
def join_held(found: list[HeldBack | None]) -> HeldBack | None:
    """The rows that several chunks hold back, thinned to what a stream of their length does."""
    present = [held for held in found if held is not None]
    if not present:
        return None
    return reduce(HeldBack.join, present).thin()


@dataclass(frozen=True)
class ChunkSample:
    """Rows of highest priority, in the order of the data, and moments of all rows."""

    priority: np.ndarray
    rows: Rows
    moments: Any  # None where nothing is scaled


@on_worker
def sample(stream: Stream, index: int, chunk: str, block: Any, weights: Any) -> ChunkSample | None:
    """At most ``start_rows`` rows of a chunk, all rows alike."""
    with naming(chunk):
        rows = rows_of(stream, block, weights)
        if rows is None:
            return None
        priority = generator(seed_of(stream, index), "sample").random(len(rows))
        kept = highest(priority, stream.start_rows)
        return ChunkSample(priority[kept], rows.take(kept), stream.column_moments(rows))


def highest(priority: np.ndarray, size: int) -> np.ndarray:
    """Indices of the ``size`` highest priorities, in their own order; of equals the first."""
    return np.sort(np.argsort(-priority, kind="stable")[:size])


@on_worker
def join_samples(size: int, samples: list[ChunkSample | None]) -> ChunkSample | None:
    """The sample of several chunks: the highest priorities of all, and their moments pooled."""
    present = [sample for sample in samples if sample is not None]
    if not present:
        return None
    priority = np.concatenate([sample.priority for sample in present])
    kept = highest(priority, size)
    rows = Rows.joined([sample.rows for sample in present])
    moments = [sample.moments for sample in present if sample.moments is not None]
    pooled = reduce(lambda a, b: a.pool(b), moments) if moments else None
    return ChunkSample(priority[kept], rows.take(kept), pooled)


@on_worker
def decide(stream: Stream, sample: ChunkSample | None) -> Stream:
    """Decide what the data decide; bases that are chosen once are chosen here."""
    if sample is None:  # nothing to decide: only width and type of the rows matter
        rows = Rows(np.zeros((1, stream.n_features), dtype=stream.dtype))
    else:
        rows = sample.rows.canonical()
        if sample.moments is not None:
            stream = stream.with_units(sample.moments.standardisation())
        stream = stream.decide(rows)
    stream = replace(stream, scaling=None)  # it is done: chunks don't measure for themselves
    return stream.begin(rows) if is_chosen_once(stream.chain.basis) else stream


@on_worker
def learn(
    stream: Stream,
    index: int,
    chunk: str,
    block: Any,
    weights: Any,
    targets: Any = None,
    n_before: int = 0,
) -> Stream | None:
    """First pass: a chunk as a stream of its own."""
    with naming(chunk):
        rows = rows_of(stream, block, weights, targets)
        if rows is None:
            return None
        seed = seed_of(stream, index, n_before)
        stream = stream.with_chain(seed=seed)
        order = np.arange(len(rows))
        if stream.chain.basis.kind in ("fixed", "adaptive"):
            order = generator(seed, "order").permutation(len(rows))
        for start in range(0, len(rows), stream.batch_size):
            stream = stream.learn(rows.take(order[start : start + stream.batch_size]))
        return fold_waiting(stream)


@on_worker
def merge_all(streams: list[Stream | None]) -> Stream | None:
    """One stream of several; those with too few rows to begin hand their rows on."""

    def join(a: Stream, b: Stream) -> Stream:
        few, other = (a, b) if a.state is None else (b, a)
        if few.state is not None:
            return a.merge(b)
        return fold_waiting(other.learn(few.waiting.join()))

    present = [stream for stream in streams if stream is not None]
    return reduce(join, present) if present else None


def fold_waiting(stream: Stream) -> Stream:
    """Fold the last rows of a chunk, unless the stream has still to begin."""
    return stream if stream.state is None else stream.caught_up


@on_worker
def end_first_pass(begun: Stream, stream: Stream | None, passes: int) -> Stream:
    """The stream as it stands, or with its basis made up for a second pass."""
    stream = require_rows(stream).with_chain(seed=begun.chain.seed).caught_up
    stream = stream.finish() if passes == 1 else stream.begin_second_pass()
    return replace(stream, scaling=begun.scaling)


@on_worker
def without_sums(stream: Stream) -> Stream:
    """An empty stream that only reads its basis: points and factor, nothing else travels."""
    return stream.for_sums()


@on_worker
def sum_chunk(
    reader: Stream, index: int, chunk: str, block: Any, weights: Any, targets: Any = None
) -> State | None:
    """Second pass: the sums of a chunk, without the basis that everybody has."""
    with naming(chunk):
        rows = rows_of(reader, block, weights, targets)
        return None if rows is None else replace(reader.fold(rows, frozen=True).begun, basis=None)


@on_worker
def add_sums(reader: Stream, states: list[State | None]) -> State | None:
    """The sums of several chunks, all in the basis of the reader."""
    present = [state for state in states if state is not None]
    if not present:
        return None
    return reduce(Stream.add, present[1:], reader.with_state(present[0])).state


@on_worker
def end_second_pass(begun: Stream, first: Stream, sums: State | None) -> Stream:
    """The finished stream: the basis of the first pass, the sums of the second."""
    state = replace(require_rows(sums), basis=first.begun.basis)
    return replace(first.with_state(state).finish(), scaling=begun.scaling)


def require_rows(result: Any) -> Any:
    """Return a result, or raise: no chunk had a row."""
    if result is None:
        raise ValueError("No chunk has a row of positive weight: there is nothing to learn from.")
    return result
