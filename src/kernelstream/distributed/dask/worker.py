"""Worker tasks of a distributed fit: sample of a chunk, landmarks, sums of a chunk.

No function here depends on Dask: each takes values and returns one, whose size is O(m² + m d) for
any number of rows. ``learning.py`` connects them. A chunk without rows, or without weight, gives
None, and None adds nothing.
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

Sampled = tuple[landmarks.UniformSample, int]  # a sample, and how many rows it represents


def require_parallel(stream: Stream) -> None:
    """Raise in words, before any work, where the parts cannot work on chunks apart."""
    basis, tracker = stream.chain.basis, stream.chain.tracker
    if type(tracker).merge is trackers.Tracker.merge:
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
    if basis.kind not in ("fixed", "adaptive"):
        raise ValueError(
            f"The basis {basis} grows with the rows, and chunks on a cluster come in no order. Use "
            "landmarks.Centroids, or give points with landmarks.Landmarks."
        )


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


def chunk_seed(seed: int, index: int, n_before: int) -> int:
    """The seed of a chunk after ``n_before`` rows: its draws depend on the rows' indices in it."""
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


def rows_of(
    stream: Stream,
    index: int,
    block: Any,
    weights: Any,
    holding: Holding | None = None,
    targets: Any = None,
) -> Rows | None:
    """The checked rows of a chunk that are learned; None if there are none."""
    if block.shape[0] == 0 or (weights is not None and not np.any(weights)):
        return None
    rows = check_rows(stream, block, weights, targets)
    if holding is not None:
        rows = rows.take(np.flatnonzero(~holding.of_chunk(index, len(rows))[0]))
    return rows if len(rows) else None


def joined(join: Callable[[list[Any]], Any], results: list[Any]) -> Any:
    """The results of several chunks as one; None if no chunk had a row."""
    present = [result for result in results if result is not None]
    return join(present) if present else None


@on_worker
def hold_out(
    stream: Stream, index: int, block: Any, weights: Any, holding: Holding
) -> HeldBack | None:
    """The held-out rows of a chunk."""
    rows = rows_of(stream, index, block, weights)
    if rows is None:
        return None
    chosen, seed = holding.of_chunk(index, len(rows))
    held = HeldBack.nothing(stream.n_features, stream.dtype)
    return held.add(rows.X, rows.weights, chosen, seed).thin()


@on_worker
def join_held(found: list[HeldBack | None]) -> HeldBack | None:
    """The held-out rows of several chunks, thinned to those of a stream of their length."""
    return joined(lambda held: reduce(HeldBack.join, held).thin(), found)


@on_worker
def sample(
    stream: Stream, index: int, block: Any, weights: Any, holding: Holding | None, n_before: int
) -> Sampled | None:
    """A uniform sample of a chunk."""
    rows = rows_of(stream, index, block, weights, holding)
    if rows is None:
        return None
    size = max(stream.start_rows, stream.chain.basis.start_rows(of_all=True))
    clock = landmarks.Clock(chunk_seed(stream.chain.seed, index, n_before), 0)
    return landmarks.UniformSample(size).offer_all((rows.X,), rows.weights, clock), len(rows)


@on_worker
def join_samples(found: list[Sampled | None]) -> Sampled | None:
    """A uniform sample of several chunks."""
    return joined(
        lambda all_: (
            reduce(landmarks.UniformSample.merge, [s for s, _ in all_]),
            sum(n for _, n in all_),
        ),
        found,
    )


@on_worker
def choose_landmarks(stream: Stream, sampled: Sampled | None) -> Stream:
    """Decide scaling, kernel and landmarks by a sample of all chunks, as ``fit`` does."""
    return stream.start_from(*require_rows(sampled))


@on_worker
def without_sums(stream: Stream) -> Stream:
    """The stream for the sums of a chunk: landmarks and factor, and nothing else to send."""
    return stream.for_sums()


@on_worker
def sum_chunk(reader: Stream, *chunk: Any, **options: Any) -> State | None:
    """The sums of a chunk, without the landmarks, which every worker has."""
    rows = rows_of(reader, *chunk, **options)
    return None if rows is None else replace(reader.fold(rows, frozen=True).begun, basis=None)


@on_worker
def add_sums(reader: Stream, found: list[State | None]) -> State | None:
    """The sums of several chunks, all with the landmarks of the reader."""
    return joined(
        lambda states: reduce(Stream.add, states[1:], reader.with_state(states[0])).state, found
    )


@on_worker
def finish(begun: Stream, sums: State | None) -> Stream:
    """The stream with its landmarks and the sums of all chunks."""
    return begun.with_state(replace(require_rows(sums), basis=begun.begun.basis)).finish()


def require_rows(result: Any) -> Any:
    """Return a result, or raise: no chunk had a row."""
    if result is None:
        raise ValueError("No chunk has a row of positive weight: there is nothing to learn from.")
    return result
