"""A uniform sample of everything seen, with the coordinates each row had when it was folded.

Each row has a priority ``log w − i log β + Gumbel noise``, a function of its index alone; the
reservoir is the rows of highest priority. That is a sample without replacement in proportion to
the current weights, whatever the cutting of the stream and with forgetting too: old weights all
shrink by the same factor, so priorities never have to be touched again.

Without replacement a heavy row is drawn once, however heavy it is. Let τ be the highest priority
that is not in. A row of weight w was drawn with the probability p = 1 − exp(−w e^{−τ}), so in a
mean over the sample it stands for the weight w/p (Horvitz and Thompson): the same for all rows that
are light, its own weight for a row that was certain to be drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np

from kernelstream.backends.arrays import (
    Array,
    concatenate_rows,
    like,
    namespace_of,
    take_rows,
    to_float64,
    to_host,
)
from kernelstream.backends.draws import highest, uniforms
from kernelstream.backends.threads import in_threads, tiles
from kernelstream.bases.base import Clock, Correction, Span, residual_energy
from kernelstream.files import stored
from kernelstream.kernels import Kernel

HELD_BACK = 4  # one row of so many judges points that are chosen with the others


@stored
@dataclass(frozen=True)
class Reservoir:
    """Sampled rows as a log of accepted rows and a table of those that are still in.

    The log makes an update cost the accepted rows only, and leaves earlier states valid: nothing
    is written in place. It is compacted when more than half of it is dead.
    """

    ON_HOST: ClassVar[frozenset[str]] = frozenset({"priority", "position", "log_weight"})

    size: Annotated[int, "positive"]
    rows: tuple[Annotated[Array, "rows (?, features)"], ...] = ()
    coordinates: tuple[Annotated[Array, "float (?, rank)"], ...] = ()
    priority: Annotated[np.ndarray, "float64 (.kept)"] = None  # type: ignore[assignment]
    position: Annotated[np.ndarray, "int64 (.kept), not negative"] = None  # type: ignore[assignment]
    # of each row that is in; None: all stand for the same
    log_weight: Annotated[np.ndarray | None, "float64 (.kept)"] = None
    threshold: Annotated[float, "or infinite"] = -np.inf  # τ
    now: float = 0.0  # log weight that a row of weight 1 would have if it came next

    def check(self, sizes: dict[str, int]) -> None:
        """Raise unless every row that is in has its place in the log."""
        lengths = [int(chunk.shape[0]) for chunk in self.rows]
        if lengths != [int(chunk.shape[0]) for chunk in self.coordinates]:
            raise ValueError("sampled rows without their coordinates")
        if (self.priority is None) != (self.position is None) or len(self) > self.size:
            raise ValueError(f"{len(self)} rows in a sample of {self.size}")
        if bool(self.rows) != (self.priority is not None):
            raise ValueError("a sample of nothing")
        if len(self) and int(self.position.max()) >= sum(lengths):
            raise ValueError("a sampled row that is nowhere")

    def __len__(self) -> int:
        return 0 if self.priority is None else len(self.priority)

    def offer(
        self, blocks: Sequence[tuple[Array, Array, np.ndarray | None]], clock: Clock
    ) -> Reservoir:
        """Let rows compete for places: blocks one after the other, the first at ``clock``.

        Each comes with its coordinates and with the weights its rows had when they came.
        """
        edges = np.cumsum([0, *(int(X.shape[0]) for X, _, _ in blocks)])
        n = int(edges[-1])
        noise = -np.log(-np.log(uniforms(clock.seed, "reservoir", clock.row, n)))
        own = -np.arange(clock.row, clock.row + n) * clock.log_forgetting
        given = any(weights is not None for _, _, weights in blocks)
        weighted = given or clock.log_forgetting != 0.0
        if given:
            ones = [np.ones(int(X.shape[0])) if w is None else w for X, _, w in blocks]
            own = own + np.log(np.concatenate(ones))
        entry = noise + own
        now = -(clock.row + n) * clock.log_forgetting
        old = np.zeros(0) if self.priority is None else self.priority
        threshold, log_weight = self.threshold, self.log_weight
        if len(old) == self.size:
            enters = entry > old.min()
            entering = np.flatnonzero(enters)
            threshold = max(threshold, float(entry[~enters].max(initial=-np.inf)))
            if len(entering) == 0:
                return replace(self, threshold=threshold, now=now)
        else:
            entering = np.arange(n)
            if n > self.size:
                order = np.argpartition(entry, -self.size)
                threshold = max(threshold, float(entry[order[: -self.size]].max()))
                entering = np.sort(order[-self.size :])
        if weighted or log_weight is not None:
            before = np.zeros(len(old)) if log_weight is None else log_weight
            log_weight = np.concatenate([before, own[entering]])
        log_length = sum(int(chunk.shape[0]) for chunk in self.rows)
        priority = np.concatenate([old, entry[entering]])
        position = np.concatenate(
            [
                np.zeros(0, dtype=np.intp) if self.position is None else self.position,
                log_length + np.arange(len(entering)),
            ]
        )
        if len(priority) > self.size:
            order = np.argpartition(priority, -self.size)
            threshold = max(threshold, float(priority[order[: -self.size]].max()))
            kept = np.sort(order[-self.size :])
            priority, position = priority[kept], position[kept]
            log_weight = None if log_weight is None else log_weight[kept]
        of_block = np.searchsorted(entering, edges)
        chosen = [
            (block, entering[a:b] - edge)
            for block, edge, a, b in zip(blocks, edges, of_block, of_block[1:], strict=False)
            if b > a
        ]
        fresh = in_threads(lambda x: (take_rows(x[0][0], x[1]), take_rows(x[0][1], x[1])), chosen)
        grown = replace(
            self,
            rows=(*self.rows, *(rows for rows, _ in fresh)),
            coordinates=(*self.coordinates, *(coordinates for _, coordinates in fresh)),
            priority=priority,
            position=position,
            log_weight=log_weight,
            threshold=threshold,
            now=now,
        )
        too_long = log_length + len(entering) > 2 * self.size
        return grown.compact() if too_long or len(grown.rows) > 64 else grown

    def compact(self) -> Reservoir:
        """The same sample without dead rows, in one piece."""
        rows, coordinates = self.sample()
        return replace(
            self, rows=(rows,), coordinates=(coordinates,), position=np.arange(len(self))
        )

    def as_stored(self) -> Reservoir:
        """Without dead rows: their number hangs on how many blocks were offered together."""
        return self.compact() if len(self) else self

    def sample(self) -> tuple[Array, Array]:
        """The rows and the coordinates they had."""
        if len(self.rows) == 1 and int(self.rows[0].shape[0]) == len(self):  # no dead row
            return self.rows[0], self.coordinates[0]
        return gathered(self.rows, self.position), gathered(self.coordinates, self.position)

    def merge(self, other: Reservoir) -> Reservoir:
        """The sample of both streams: the highest priorities of both, coordinates in one basis."""
        if len(self) == 0 or len(other) == 0:
            return other if len(self) == 0 else self
        # Both streams end now, and rows are counted on from the sum of both.
        self, other = self.later(other.now), other.later(self.now)
        (rows, z), (more_rows, more_z) = self.sample(), other.sample()
        priority = np.concatenate([self.priority, other.priority])
        kept = highest(priority, self.size)
        dropped = float(np.delete(priority, kept).max(initial=-np.inf))
        log_weight = None
        if self.log_weight is not None or other.log_weight is not None:
            log_weight = np.concatenate(
                [np.zeros(len(r)) if r.log_weight is None else r.log_weight for r in (self, other)]
            )[kept]
        return replace(
            self,
            rows=(take_rows(concatenate_rows([rows, more_rows]), kept),),
            coordinates=(take_rows(concatenate_rows([z, more_z]), kept),),
            priority=priority[kept],
            position=np.arange(len(kept)),
            log_weight=log_weight,
            threshold=max(self.threshold, other.threshold, dropped),
        )

    def later(self, by: float) -> Reservoir:
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

    def rebase(self, T: Array) -> Reservoir:
        """Carry the old coordinates along: c ← T c, as the scatter matrix is carried."""
        if len(self) == 0:
            return self
        rows, coordinates = self.sample()
        xp = namespace_of(T)
        carried = coordinates @ xp.astype(xp.matrix_transpose(T), coordinates.dtype, copy=False)
        return replace(self, rows=(rows,), coordinates=(carried,), position=np.arange(len(self)))

    def with_rows(self, rows: Array) -> Reservoir:
        """The same sample with its rows in other units; it has no coordinates yet."""
        nothing = like(np.zeros((len(self), 0)), rows, rows.dtype)
        return replace(self, rows=(rows,), coordinates=(nothing,), position=np.arange(len(self)))

    def folded_as(self, Z: Array) -> Reservoir:
        """The same sample, as if it had been folded with these coordinates."""
        return replace(self.compact(), coordinates=(Z,))

    def correction(self, kernel: Kernel, span: Span) -> Correction | None:
        """The sample in this basis, beside the coordinates with which it was folded."""
        if len(self) == 0:
            return None
        rows, old = self.sample()
        present = to_float64(span.many_coordinates(kernel, rows))
        return Correction(rows, to_float64(old), present, self.stands_for())

    def held_back(self) -> np.ndarray:
        """Which of the rows judge points that were chosen with the others."""
        return np.arange(HELD_BACK - 1, len(self), HELD_BACK)

    def candidates(self) -> np.ndarray:
        """Which of the rows points may be chosen with."""
        return np.setdiff1d(np.arange(len(self)), self.held_back())

    def residual(self, kernel: Kernel, span: Span, unit: float) -> tuple[float, float]:
        """Mean and variance of what a basis misses of the rows held back, in a unit."""
        rows, _ = self.sample()
        chosen = self.held_back() if len(self) >= HELD_BACK else np.arange(len(self))
        rows = take_rows(rows, chosen)
        missed = residual_energy(kernel.diag(span.rows(rows)), span.many_coordinates(kernel, rows))
        watched = to_host(missed).astype(float) / unit
        stands_for = self.stands_for()
        weights = None if stands_for is None else stands_for[chosen]
        mean = float(np.average(watched, weights=weights))
        return mean, float(np.average((watched - mean) ** 2, weights=weights))


def gathered(chunks: Sequence[Array], position: np.ndarray) -> Array:
    """Rows of several chunks, by their place in all of them, one below the other."""
    if not all(isinstance(chunk, np.ndarray) for chunk in chunks):
        return take_rows(concatenate_rows(list(chunks)), position)
    edges = np.cumsum([0, *(len(chunk) for chunk in chunks)])
    rows = np.empty((len(position), chunks[0].shape[1]), chunks[0].dtype)

    def copy(at: slice) -> None:
        places, here = position[at], rows[at]
        of_chunk = np.searchsorted(edges, places, side="right") - 1
        for number in np.unique(of_chunk):
            chosen = np.flatnonzero(of_chunk == number)
            here[chosen] = chunks[number][places[chosen] - edges[number]]

    in_threads(copy, tiles(len(position), rows.shape[1]))
    return rows
