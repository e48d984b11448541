"""State of optimized landmarks: sample with coordinates, change detection, cost of an update."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, ClassVar

import numpy as np

from kernelstream.arrays.namespaces import (
    Array,
    as_dense,
    like,
    namespace_of,
    row_norms_squared,
    take_rows,
    to_float64,
    to_host,
    weighted_sum,
)
from kernelstream.kernels import Kernel
from kernelstream.landmarks.base import Clock, Correction, LandmarkState
from kernelstream.landmarks.nystroem import Span, residual_energy, weighted_total
from kernelstream.landmarks.optimized.polish import n_directions
from kernelstream.landmarks.sample import UniformSample
from kernelstream.serialization import stored

# Found on MNIST, Elec2, Frey faces and Adult streams; docs/centroids.md has other values.
RISE = 1.25  # the stream has moved when the residual is this much above its reference …
SIGMAS = 5.0  # … and by this many standard errors
# Work of looking for points, as a share of that of the rows: of a stream so far, of all in ``fit``.
STREAM_SHARE, FIT_SHARE = 0.5, 3.0
CREDIT = 2  # looks beyond that when the stream has moved
# A kernel value and the passes over it, and a row as such, cost as much as so many multiplications.
ENTRY, ROW = 30.0, 2000.0
STEPS = 3  # of Lloyd's, where points are looked for anew
FEWEST, MOST = 4, 12  # evaluations of the captured variance a look
HELD_BACK = 4  # one row of so many judges points that are chosen with the others


@stored
@dataclass(frozen=True)
class Reservoir(UniformSample):
    """A sample of all rows, beside the coordinates with which they were folded."""

    LOGS: ClassVar[tuple[str, ...]] = ("rows", "coordinates")

    coordinates: tuple[Annotated[Array, "float (?, rank)"], ...] = ()

    @classmethod
    def of(cls, sample: UniformSample, Z: Array) -> Reservoir:
        """A sample whose rows are projected with these coordinates."""
        kept = sample.compact()
        values = {field.name: getattr(kept, field.name) for field in fields(UniformSample)}
        return cls(**values, coordinates=(Z,))

    def rebase(self, T: Array) -> Reservoir:
        """Carry the old coordinates along: c ← T c, as the scatter matrix is carried."""
        if len(self) == 0:
            return self
        rows, coordinates = self.held()
        xp = namespace_of(T)
        carried = coordinates @ xp.astype(xp.matrix_transpose(T), coordinates.dtype, copy=False)
        return replace(self, rows=(rows,), coordinates=(carried,), position=np.arange(len(self)))

    def without_coordinates(self) -> Reservoir:
        """The same sample, of whose rows only they themselves are kept."""
        return replace(self, coordinates=tuple(map(no_coordinates, self.rows)))

    def with_unknown(self, like_one: Array) -> Reservoir:
        """The same sample with zeros like a row of coordinates; they take no memory."""
        xp, zero = namespace_of(like_one), 0.0 * like_one
        shapes = [(int(rows.shape[0]), int(zero.shape[1])) for rows in self.rows]
        return replace(self, coordinates=tuple(xp.broadcast_to(zero, shape) for shape in shapes))

    def correction(self, kernel: Kernel, span: Span) -> Correction | None:
        """The sample in this basis, beside the coordinates with which it was folded."""
        if len(self) == 0:
            return None
        rows, old = self.held()
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
        missed, _, weights = self.judged(kernel, span)
        missed = missed / unit
        mean = float(np.average(missed, weights=weights))
        return mean, float(np.average((missed - mean) ** 2, weights=weights))

    def missed_share(self, kernel: Kernel, span: Span) -> float:
        """What a basis misses of the rows held back, relative to the variance that it holds."""
        missed, Z, weights = self.judged(kernel, span)
        w = None if weights is None else like(weights / weights.mean(), Z)
        n, total = len(missed), to_host(weighted_sum(Z, w))
        held = weighted_total(row_norms_squared(Z), w) / n - float(total @ total) / n**2
        mean = float(np.average(missed, weights=weights))
        return mean / held if held > 0.0 else math.inf

    def judged(self, kernel: Kernel, span: Span) -> tuple[np.ndarray, Array, np.ndarray | None]:
        """Of the rows held back what a basis misses, their coordinates, what they stand for."""
        chosen = self.held_back() if len(self) >= HELD_BACK else np.arange(len(self))
        rows = take_rows(self.held()[0], chosen)
        Z = span.many_coordinates(kernel, rows)
        missed = to_host(residual_energy(kernel.diag(span.rows(rows)), Z)).astype(float)
        stands_for = self.stands_for()
        return missed, Z, None if stands_for is None else stands_for[chosen]


def no_coordinates(rows: Array) -> Array:
    """Coordinates of rows that have none yet: (n, 0)."""
    return like(np.zeros((int(rows.shape[0]), 0)), as_dense(rows[:1, :]), rows.dtype)


@dataclass(frozen=True)
class Work:
    """What rows of a stream and looks for points cost, in multiplications."""

    m: int  # points
    d: int  # columns
    wanted: int  # components
    rows: int  # sampled rows that are looked at

    @property
    def row(self) -> float:
        """A row of a block."""
        return self.m * (self.d + 2.0 * self.m + ENTRY) + ROW

    @property
    def evaluation(self) -> float:
        """One evaluation of the captured variance and its gradient."""
        p = n_directions(self.d) or self.d
        one = self.m * (2.0 * p + self.m + 2.0 * min(self.wanted, self.m) + 2.0 * ENTRY)
        return self.rows * one + 10.0 * self.m**3

    @property
    def look(self) -> float:
        """What a look takes beside: directions, k-means, what is held back, a change of basis."""
        p = n_directions(self.d)
        turned = 0.0 if p is None else self.rows * self.d * p * 2.0
        means = STEPS * self.m * ((p or self.d) + ENTRY)
        return turned + self.rows * (means + self.row) + 20.0 * self.m**3

    def evaluations(self, n: int, share: float, spent: float = 0.0) -> int:
        """How many evaluations a look may take that n rows are to repay."""
        left = share * n * self.row - spent - self.look
        return max(0, min(MOST, int(left / self.evaluation)))

    @property
    def short_look(self) -> float:
        """A look of few evaluations."""
        return self.look + FEWEST * self.evaluation


@stored
@dataclass(frozen=True)
class CentroidsState(LandmarkState):
    """Span, sample and what the policy watches. Residuals are in units of the mean energy."""

    span: Span
    sample: Reservoir
    wanted: int  # components for which points are polished
    n: int  # rows seen
    looked_at: int  # rows seen when points were last looked for
    next_look: int  # rows at which they are looked for next; 0: only if the stream moves
    spent: Annotated[float, "not negative"]  # multiplications that looking has taken
    missed: Annotated[float, "not negative"]  # Σ w ε/energy of the rows since …
    weight: Annotated[float, "not negative"]  # … and their weight
    residual: Annotated[float, "not negative"]  # moving average of ε/energy
    variance: Annotated[float, "not negative"]  # of ε/energy of single rows
    reference: Annotated[float, "not negative"]  # the residual that is normal for these points
    unit: Annotated[float, "not negative"]  # mean energy k(x,x) of the start
    carried: bool = False  # whether rows were folded in another basis and carried here

    @property
    def row_sample(self) -> Reservoir:
        """The sample from which landmarks are chosen."""
        return self.sample

    @property
    def next_update(self) -> float:  # type: ignore[override]
        """Where the next look is due; one that is overdue waits for the rows that repay it."""
        return self.next_look if self.next_look > self.n else math.inf

    def correction(self, kernel: Kernel) -> Correction | None:
        """The sampled rows, in the present basis and as they were folded."""
        return self.sample.correction(kernel, self.span) if self.carried else None

    def draw(
        self, blocks: Sequence[tuple[Array, np.ndarray | None]], clock: Clock
    ) -> CentroidsState:
        """Rows compete for the sample; coordinates that they will have are not known yet."""
        sample = self.sample.without_coordinates()
        offered = [(X, no_coordinates(X), weights) for X, weights in blocks]
        sample = sample.offer(offered, clock).with_unknown(self.span.projector[:1, :])
        n = self.n + sum(int(X.shape[0]) for X, _ in blocks)
        return replace(self, sample=sample, n=n)

    def reprojected(self, kernel: Kernel) -> CentroidsState:
        """The state for rows that will all be projected on its landmarks, as the sample is now."""
        Z = self.span.many_coordinates(kernel, self.sample.held()[0])
        sample = Reservoir.of(self.sample, Z)
        residual, variance = sample.residual(kernel, self.span, self.unit)
        return replace(
            self,
            sample=sample,
            residual=residual,
            reference=residual,
            variance=variance,
            carried=False,
        )

    def has_moved(self, window: int) -> bool:
        """Whether the stream has left the points behind; ``window`` rows are averaged."""
        rise = self.residual - self.reference
        noise = math.sqrt(self.variance / window)
        rises = self.residual > RISE * self.reference and rise > SIGMAS * noise
        return rises and self.can_gain  # above a reference of zero, rounding alone is a rise

    @property
    def can_gain(self) -> bool:
        """Nothing to gain where the points hold everything, as with few different rows."""
        return self.residual > 1e-9

    @property
    def work(self) -> Work:
        """What rows and looks cost."""
        m, d = (int(k) for k in self.span.points.shape)
        return Work(m, d, self.wanted, len(self.sample))
