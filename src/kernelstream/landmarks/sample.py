"""Uniform weighted sample of a stream (reservoir): Gumbel priorities, forgetting, merging.

Each row has a priority ``log w − i log β + Gumbel noise``, a function of its index alone; the
sample is the rows of highest priority. That is a sample without replacement in proportion to
the current weights, whatever the cutting of the stream and with forgetting too: old weights all
shrink by the same factor, so priorities never have to be touched again.

Without replacement a heavy row is drawn once, however heavy it is. Let τ be the highest priority
that is not in. A row of weight w was drawn with the probability p = 1 − exp(−w e^{−τ}), so in a
mean over the sample it stands for the weight w/p (Horvitz and Thompson): the same for all rows that
are light, its own weight for a row that was certain to be drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from kernelstream.arrays.draws import uniforms
from kernelstream.arrays.namespaces import Array, concatenate_rows, take_rows
from kernelstream.landmarks.base import Clock

AT_ONCE = 2**16  # rows whose priorities are compared at a time, if all are given
MOST_PIECES = 256  # of a log: it is compacted if there are more


@dataclass(frozen=True)
class UniformSample:
    """Sampled rows as a log of accepted rows and a table of those that are in the sample.

    Appending to the log costs the accepted rows only and leaves earlier states valid: nothing is
    written in place. ``LOGS`` names what is kept of a row, each a field of arrays one after the
    other.
    """

    ON_HOST: ClassVar[frozenset[str]] = frozenset({"priority", "position", "log_weight"})
    LOGS: ClassVar[tuple[str, ...]] = ("rows",)

    size: Annotated[int, "positive"]
    rows: tuple[Annotated[Array, "rows (?, features)"], ...] = ()
    priority: Annotated[np.ndarray, "float64 (.kept)"] = field(default_factory=lambda: np.zeros(0))
    # where each row of the sample is in the log, in ascending order
    position: Annotated[np.ndarray, "int64 (.kept), not negative"] = field(
        default_factory=lambda: np.zeros(0, np.intp)
    )
    # of each row of the sample; None: all stand for the same weight
    log_weight: Annotated[np.ndarray | None, "float64 (.kept)"] = None
    threshold: Annotated[float, "or infinite"] = -np.inf  # τ
    now: float = 0.0  # log weight that a row of weight 1 would have if it came next

    def check(self, sizes: dict[str, int]) -> None:
        """Raise unless every row of the sample has its place in the log."""
        lengths = [int(chunk.shape[0]) for chunk in self.rows]
        for name in self.LOGS:
            if lengths != [int(chunk.shape[0]) for chunk in getattr(self, name)]:
                raise ValueError(f"sampled rows without their {name}")
        if len(self) > self.size or bool(self.rows) != bool(len(self)):
            raise ValueError(f"{len(self)} rows in a sample of {self.size}")
        if len(self) and int(self.position.max()) >= sum(lengths):
            raise ValueError("a sampled row that is nowhere")

    def __len__(self) -> int:
        return len(self.priority)

    def noise(self, clock: Clock, n: int) -> np.ndarray:
        """The numbers in (0, 1) by which n rows compete, the first at ``clock``."""
        return uniforms(clock.seed, "reservoir", clock.row, n)

    def offer(self, blocks: Sequence[tuple[Any, ...]], clock: Clock) -> Self:
        """Let rows compete for places: blocks one after the other, the first at ``clock``.

        A block has what is kept of its rows, in the order of ``LOGS``, and behind it the weights
        that they had when they came.
        """
        edges = np.cumsum([0, *(int(block[0].shape[0]) for block in blocks)])
        n = int(edges[-1])
        rows, own = np.arange(n), log_weights(blocks, clock)
        draws, best_of_others = self.noise(clock, n), -np.inf
        if own is None and len(self) == self.size:
            # Rows of equal weight compete by their numbers: few are worth a logarithm. The border
            # is a little below the lowest priority, so that rounding does not decide.
            border = math.exp(-math.exp(-float(self.priority.min()))) * (1.0 - 1e-9)
            rows = np.flatnonzero(draws > border)
            if len(rows) < n:
                best_of_others = float(gumbel(draws[draws <= border].max()))
        priority = gumbel(draws[rows]) + (0.0 if own is None else own)
        whole = np.concatenate([self.priority, priority])
        kept, best = largest(whole, self.size)
        enters = rows[kept[len(self) :]]
        watched = replace(
            self,
            threshold=max(self.threshold, best_of_others, best),
            now=-(clock.row + n) * clock.log_forgetting,
        )
        if not len(enters):
            return watched
        log_weight = self.log_weight
        if own is not None or log_weight is not None:
            before = np.zeros(len(self)) if log_weight is None else log_weight
            after = np.zeros(len(rows)) if own is None else own
            log_weight = np.concatenate([before, after])[kept]
        length = sum(int(piece.shape[0]) for piece in self.rows)
        joined = replace(
            watched,
            **self._with_entries(blocks, edges, enters),
            priority=whole[kept],
            position=np.append(self.position[kept[: len(self)]], length + np.arange(len(enters))),
            log_weight=log_weight,
        )
        is_long = 2 * (length + len(enters)) > 3 * self.size
        return joined.compact() if is_long or len(joined.rows) > MOST_PIECES else joined

    def _with_entries(
        self, blocks: Sequence[tuple[Any, ...]], edges: np.ndarray, rows: np.ndarray
    ) -> dict[str, Any]:
        """The logs with some rows of the blocks appended."""
        ends = np.searchsorted(rows, edges)
        chosen = [
            (block, rows[a:b] - edge)
            for block, edge, a, b in zip(blocks, edges, ends, ends[1:], strict=False)
            if b > a
        ]
        return {
            name: (*getattr(self, name), *(take_rows(block[i], index) for block, index in chosen))
            for i, name in enumerate(self.LOGS)
        }

    def offer_all(self, kept: Sequence[Array], weights: np.ndarray | None, clock: Clock) -> Self:
        """The sample after rows that are all given: their numbers are drawn piece by piece."""
        sample, n = self, int(kept[0].shape[0])
        for start in range(0, n, AT_ONCE):
            at = slice(start, min(start + AT_ONCE, n))
            w = None if weights is None else weights[at]
            block = (*(array[at, :] for array in kept), w)
            sample = sample.offer([block], replace(clock, row=clock.row + start))
        return sample.compact()

    def held(self) -> tuple[Array, ...]:
        """What is kept of the rows of the sample, each in one piece."""
        if len(self.rows) == 1 and int(self.rows[0].shape[0]) == len(self):  # no dead row
            return tuple(getattr(self, name)[0] for name in self.LOGS)
        # Piece by piece: dead rows are not copied.
        edges = np.cumsum([0, *(int(piece.shape[0]) for piece in self.rows)])
        ends = np.searchsorted(self.position, edges)
        alive = [
            (k, self.position[a:b] - edges[k]) for k, (a, b) in enumerate(pairwise(ends)) if b > a
        ]
        return tuple(
            gathered([(getattr(self, name)[k], index) for k, index in alive]) for name in self.LOGS
        )

    def compact(self) -> Self:
        """The same sample without dead rows, in one piece."""
        logs: dict[str, Any] = {
            name: (kept,) for name, kept in zip(self.LOGS, self.held(), strict=True)
        }
        return replace(self, **logs, position=np.arange(len(self)))

    def with_rows(self, rows: Array) -> Self:
        """The same sample with its rows, in one piece, in other units."""
        return replace(self, rows=(rows,), position=np.arange(len(self)))

    def as_stored(self) -> Self:
        """Without dead rows: their number hangs on how many blocks were offered together."""
        return self.compact() if len(self) else self

    def merge(self, other: Self) -> Self:
        """The sample of both streams: the highest priorities of both."""
        if len(self) == 0 or len(other) == 0:
            return other if len(self) == 0 else self
        # Both streams end now, and rows are counted on from the sum of both.
        self, other = self.later(other.now), other.later(self.now)
        priority = np.concatenate([self.priority, other.priority])
        kept, dropped = largest(priority, self.size)
        log_weight = None
        if self.log_weight is not None or other.log_weight is not None:
            log_weight = np.concatenate(
                [np.zeros(len(r)) if r.log_weight is None else r.log_weight for r in (self, other)]
            )[kept]
        logs: dict[str, Any] = {
            name: (take_rows(concatenate_rows([ours, theirs]), np.flatnonzero(kept)),)
            for name, ours, theirs in zip(self.LOGS, self.held(), other.held(), strict=True)
        }
        return replace(
            self,
            **logs,
            priority=priority[kept],
            position=np.arange(int(kept.sum())),
            log_weight=log_weight,
            threshold=max(self.threshold, other.threshold, dropped),
        )

    def later(self, by: float) -> Self:
        """The same sample at another place of the count: all log weights are larger by a number."""
        if by == 0.0:
            return self
        return replace(
            self,
            priority=self.priority + by,
            log_weight=None if self.log_weight is None else self.log_weight + by,
            threshold=self.threshold + by,
            now=self.now + by,
        )

    def stands_for(self) -> np.ndarray | None:
        """The weight that each row stands for in a sum over all rows, their mean 1; None: all 1."""
        if self.log_weight is None:
            return None
        # w/p in units of e^τ, with u = log w − τ; in those of the heaviest row where all are in
        if self.threshold == -np.inf:
            weights = np.exp(self.log_weight - self.log_weight.max())
        else:
            u = np.exp(np.minimum(self.log_weight - self.threshold, 600.0))
            weights = np.where(u > 1e-8, u / -np.expm1(-np.maximum(u, 1e-8)), 1.0)
        return weights / weights.mean()


def log_weights(blocks: Sequence[tuple[Any, ...]], clock: Clock) -> np.ndarray | None:
    """Log weights of the rows of blocks, without forgetting of the later ones; None: all zero."""
    given = any(block[-1] is not None for block in blocks)
    if not given and clock.log_forgetting == 0.0:
        return None
    lengths = [int(block[0].shape[0]) for block in blocks]
    weights = [
        np.ones(n) if block[-1] is None else block[-1]
        for block, n in zip(blocks, lengths, strict=True)
    ]
    return np.log(np.concatenate(weights)) - (
        (clock.row + np.arange(sum(lengths))) * clock.log_forgetting
    )


def gumbel(draws: Any) -> Any:
    """Gumbel's noise, from numbers in (0, 1)."""
    return -np.log(-np.log(draws))


def largest(values: np.ndarray, count: int) -> tuple[np.ndarray, float]:
    """Which values are the ``count`` largest, and the best of the others."""
    kept = np.ones(len(values), dtype=bool)
    if len(values) <= count:
        return kept, -np.inf
    others = np.argpartition(values, -count)[:-count]
    kept[others] = False
    return kept, float(values[others].max())


def gathered(pieces: Sequence[tuple[Array, np.ndarray]]) -> Array:
    """Some rows of each of several arrays, in one piece."""
    kinds = {x.dtype if isinstance(x, np.ndarray) else None for x, _ in pieces}
    if None in kinds or len(kinds) > 1:
        return concatenate_rows([take_rows(x, index) for x, index in pieces])
    ends = np.cumsum([0, *(len(index) for _, index in pieces)])
    found = np.empty((int(ends[-1]), *pieces[0][0].shape[1:]), pieces[0][0].dtype)
    for (x, index), a, b in zip(pieces, ends, ends[1:], strict=False):
        np.take(x, index, axis=0, out=found[a:b], mode="clip")  # "raise" would copy once more
    return found
