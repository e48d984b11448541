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
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from kernelstream.arrays.draws import highest, uniforms
from kernelstream.arrays.namespaces import Array, concatenate_rows, take_rows
from kernelstream.landmarks.base import Clock

AT_ONCE = 2**20  # rows whose priorities are compared at a time, where all are at hand
# Pieces of a log: more would make every look at it slow. Then those join that have less than a
# share of the sample.
MOST_PIECES, SHORT = 64, 16


@dataclass(frozen=True)
class UniformSample:
    """Sampled rows as a log of accepted rows and a table of those that are still in.

    The log makes an update cost the accepted rows only, and leaves earlier states valid: nothing
    is written in place. Pieces with many dead rows are cut. ``LOGS`` names what is kept of a row,
    each a field of arrays one after the other.
    """

    ON_HOST: ClassVar[frozenset[str]] = frozenset({"priority", "position", "log_weight"})
    LOGS: ClassVar[tuple[str, ...]] = ("rows",)

    size: Annotated[int, "positive"]
    rows: tuple[Annotated[Array, "rows (?, features)"], ...] = ()
    priority: Annotated[np.ndarray, "float64 (.kept)"] = None  # type: ignore[assignment]
    position: Annotated[np.ndarray, "int64 (.kept), not negative"] = None  # type: ignore[assignment]
    # of each row that is in; None: all stand for the same
    log_weight: Annotated[np.ndarray | None, "float64 (.kept)"] = None
    threshold: Annotated[float, "or infinite"] = -np.inf  # τ
    now: float = 0.0  # log weight that a row of weight 1 would have if it came next

    def check(self, sizes: dict[str, int]) -> None:
        """Raise unless every row that is in has its place in the log."""
        lengths = [int(chunk.shape[0]) for chunk in self.rows]
        for name in self.LOGS:
            if lengths != [int(chunk.shape[0]) for chunk in getattr(self, name)]:
                raise ValueError(f"sampled rows without their {name}")
        if (self.priority is None) != (self.position is None) or len(self) > self.size:
            raise ValueError(f"{len(self)} rows in a sample of {self.size}")
        if bool(self.rows) != (self.priority is not None):
            raise ValueError("a sample of nothing")
        if len(self) and int(self.position.max()) >= sum(lengths):
            raise ValueError("a sampled row that is nowhere")

    def __len__(self) -> int:
        return 0 if self.priority is None else len(self.priority)

    def noise(self, clock: Clock, n: int) -> np.ndarray:
        """The numbers in (0, 1) by which n rows compete, the first at ``clock``."""
        return uniforms(clock.seed, "reservoir", clock.row, n)

    def offer(self, blocks: Sequence[tuple[Any, ...]], clock: Clock) -> Self:
        """Let rows compete for places: blocks one after the other, the first at ``clock``.

        A block has what is kept of its rows, in the order of ``LOGS``, and behind it the weights
        that they had when they came.
        """
        edges = np.cumsum([0, *(int(block[0].shape[0]) for block in blocks)])
        now = -(clock.row + int(edges[-1])) * clock.log_forgetting
        rows, priority, own, best_of_others = self.candidates_among(blocks, clock)
        threshold = max(self.threshold, best_of_others)
        old = np.zeros(0) if self.priority is None else self.priority
        # only the best of the new rows may get a place
        enters = priority > old.min() if len(old) == self.size else np.ones(len(rows), dtype=bool)
        threshold = max(threshold, float(priority[~enters].max(initial=-np.inf)))
        if not enters.any():
            return replace(self, threshold=threshold, now=now)
        rows, priority = rows[enters], priority[enters]
        own = None if own is None else own[enters]
        if len(rows) > self.size:
            kept, best = largest(priority, self.size)
            threshold, rows, priority = max(threshold, best), rows[kept], priority[kept]
            own = None if own is None else own[kept]
        joined = self.with_entries(blocks, edges, rows, priority, own)
        if len(joined.priority) > self.size:
            kept, best = largest(joined.priority, self.size)
            threshold = max(threshold, best)
            joined = joined.only(kept)
        return replace(joined, threshold=threshold, now=now).tidied()

    def candidates_among(
        self, blocks: Sequence[tuple[Any, ...]], clock: Clock
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, float]:
        """Rows that may enter, their priorities and log weights, and the best of the others.

        None: all log weights are zero.
        """
        n = sum(int(block[0].shape[0]) for block in blocks)
        draws = self.noise(clock, n)
        given = any(block[-1] is not None for block in blocks)
        if not given and clock.log_forgetting == 0.0:
            rows, draws, best_of_others = self.contenders(draws)
            return rows, gumbel(draws), None, best_of_others
        rows = np.arange(n)
        own = -(clock.row + rows) * clock.log_forgetting
        if given:
            ones = [np.ones(int(b[0].shape[0])) if b[-1] is None else b[-1] for b in blocks]
            own += np.log(np.concatenate(ones))
        return rows, gumbel(draws) + own, own, -np.inf

    def with_entries(
        self,
        blocks: Sequence[tuple[Any, ...]],
        edges: np.ndarray,
        rows: np.ndarray,
        priority: np.ndarray,
        own: np.ndarray | None,
    ) -> Self:
        """The sample with some rows of the blocks more, perhaps more than it has places."""
        old = np.zeros(0) if self.priority is None else self.priority
        log_weight = self.log_weight
        if own is not None or log_weight is not None:
            before = np.zeros(len(old)) if log_weight is None else log_weight
            log_weight = np.concatenate([before, np.zeros(len(rows)) if own is None else own])
        length = sum(int(chunk.shape[0]) for chunk in self.rows)
        places = np.zeros(0, dtype=np.intp) if self.position is None else self.position
        of_block = np.searchsorted(rows, edges)
        chosen = [
            (block, rows[a:b] - edge)
            for block, edge, a, b in zip(blocks, edges, of_block, of_block[1:], strict=False)
            if b > a
        ]
        logs: dict[str, Any] = {
            name: (*getattr(self, name), *(take_rows(block[i], index) for block, index in chosen))
            for i, name in enumerate(self.LOGS)
        }
        return replace(
            self,
            **logs,
            priority=np.concatenate([old, priority]),
            position=np.concatenate([places, length + np.arange(len(rows))]),
            log_weight=log_weight,
        )

    def only(self, kept: np.ndarray) -> Self:
        """Some of the rows that are in; the others are dead rows of the log."""
        log_weight = None if self.log_weight is None else self.log_weight[kept]
        return replace(
            self,
            priority=self.priority[kept],
            position=self.position[kept],
            log_weight=log_weight,
        )

    def offer_all(self, kept: Sequence[Array], weights: np.ndarray | None, clock: Clock) -> Self:
        """The sample after rows that are all at hand: numbers are drawn for so many at a time."""
        sample, n = self, int(kept[0].shape[0])
        for start in range(0, n, AT_ONCE):
            at = slice(start, min(start + AT_ONCE, n))
            w = None if weights is None else weights[at]
            block = (*(array[at, :] for array in kept), w)
            sample = sample.offer([block], replace(clock, row=clock.row + start))
        return sample.compact()

    def contenders(self, draws: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Rows of weight 1 that may enter, their numbers, and the highest priority of the others.

        Only of those that may enter a logarithm is taken, and these become few. ``draws`` are
        used up.
        """
        n = len(draws)
        if n <= self.size - len(self):
            return np.arange(n), draws, -np.inf
        if len(self) == self.size:
            # a little below what decides, so that rounding does not
            border = math.exp(-math.exp(-float(self.priority.min()))) * (1.0 - 1e-9)
        else:  # about twice as many as there are places
            border = 1.0 - 2.0 * self.size / n
        may = np.flatnonzero(draws > border)
        if len(self) < self.size >= len(may):  # as there would be, if half of them came
            return np.arange(n), draws, -np.inf
        found = draws[may]
        draws[may] = np.finfo(float).tiny
        return may, found, float(gumbel(draws.max()))

    def held(self) -> tuple[Array, ...]:
        """What is kept of the rows that are in, each in one piece."""
        logs = [getattr(self, name) for name in self.LOGS]
        if len(self.rows) == 1 and int(self.rows[0].shape[0]) == len(self):  # no dead row
            return tuple(log[0] for log in logs)
        # Piece by piece: dead rows are not copied.
        alive = [(k, index) for k, index in enumerate(self.alive()) if len(index)]
        return tuple(gathered([(log[k], index) for k, index in alive]) for log in logs)

    def alive(self) -> list[np.ndarray]:
        """Which rows of each piece of the log are in."""
        edges = np.cumsum([0, *(int(piece.shape[0]) for piece in self.rows)])
        ends = np.searchsorted(self.position, edges)  # positions rise
        return [self.position[a:b] - edges[k] for k, (a, b) in enumerate(pairwise(ends))]

    def tidied(self) -> Self:
        """The same sample with a log not much longer than it is, and of few pieces.

        A piece that has lost a third of its rows is cut to those that are in, and of too many
        pieces neighbours that are short become one.
        """
        length = sum(int(piece.shape[0]) for piece in self.rows)
        many = len(self.rows) > MOST_PIECES
        if not many and 2 * length <= 3 * self.size:
            return self
        alive, short = self.alive(), self.size // SHORT if many else 0
        runs: list[list[int]] = []
        for k, index in enumerate(alive):
            if runs and max(len(index), len(alive[runs[-1][-1]])) < short:
                runs[-1].append(k)
            elif len(index):
                runs.append([k])
        logs: dict[str, Any] = {name: [] for name in self.LOGS}
        position, length = [], 0
        for run in runs:
            index, n = alive[run[0]], int(self.rows[run[0]].shape[0])
            stays = len(run) == 1 and 3 * len(index) > 2 * n
            if not stays:
                n = sum(len(alive[k]) for k in run)
                index = np.arange(n)
            for name, pieces in logs.items():
                log = getattr(self, name)
                pieces.append(log[run[0]] if stays else gathered([(log[k], alive[k]) for k in run]))
            position.append(length + index)
            length += n
        logs = {name: tuple(pieces) for name, pieces in logs.items()}
        return replace(self, **logs, position=np.concatenate(position))

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
        kept = highest(priority, self.size)
        dropped = float(np.delete(priority, kept).max(initial=-np.inf))
        log_weight = None
        if self.log_weight is not None or other.log_weight is not None:
            log_weight = np.concatenate(
                [np.zeros(len(r)) if r.log_weight is None else r.log_weight for r in (self, other)]
            )[kept]
        logs: dict[str, Any] = {
            name: (take_rows(concatenate_rows(list(both)), kept),)
            for name, both in zip(
                self.LOGS, zip(self.held(), other.held(), strict=True), strict=True
            )
        }
        return replace(
            self,
            **logs,
            priority=priority[kept],
            position=np.arange(len(kept)),
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


def gumbel(draws: Any) -> Any:
    """Gumbel's noise, from numbers in (0, 1)."""
    return -np.log(-np.log(draws))


def largest(values: np.ndarray, count: int) -> tuple[np.ndarray, float]:
    """Which values are the ``count`` largest, and the best of the others."""
    others = np.argpartition(values, -count)[:-count]
    kept = np.ones(len(values), dtype=bool)
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
