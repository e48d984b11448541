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
from kernelstream.landmarks.sample import UniformSample
from kernelstream.serialization import stored

UPDATE_FACTOR = 3  # an update follows when the rows are this many times those at the last one
HELD_BACK = 4  # one row of this many evaluates landmarks that are chosen with the others


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

    def residual(self, kernel: Kernel, span: Span, unit: float) -> float:
        """Mean of what a basis misses of the rows held back, in a unit."""
        missed, _, weights = self.judged(kernel, span)
        return float(np.average(missed, weights=weights)) / unit

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


@stored
@dataclass(frozen=True)
class CentroidsState(LandmarkState):
    """Span, sample and what the policy watches. Residuals are in units of the mean energy."""

    span: Span
    sample: Reservoir
    wanted: int  # components for which points are polished
    n: int  # rows seen
    updated_at: int  # rows seen when landmarks were last chosen
    optimized: bool  # whether they were optimized for a sample, or are centers of the first rows
    missed: Annotated[float, "not negative"]  # Σ w ε/energy of the rows since …
    weight: Annotated[float, "not negative"]  # … and their weight
    reference: Annotated[float, "not negative"]  # the residual that is normal for these points
    unit: Annotated[float, "not negative"]  # mean energy k(x,x) of the start
    carried: bool = False  # whether rows were folded in another basis and carried here

    @property
    def row_sample(self) -> Reservoir:
        """The sample from which landmarks are chosen."""
        return self.sample

    @property
    def next_update(self) -> float:  # type: ignore[override]
        """The number of rows at which landmarks of the first rows are optimized."""
        return math.inf if self.optimized else UPDATE_FACTOR * self.updated_at

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
        reference = sample.residual(kernel, self.span, self.unit)
        return replace(
            self, sample=sample, reference=reference, missed=0.0, weight=0.0, carried=False
        )

    @property
    def can_gain(self) -> bool:
        """Nothing to gain where the points hold everything, as with few different rows."""
        return max(self.reference, self.missed / (self.weight or 1.0)) > 1e-9
