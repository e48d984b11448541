"""State of optimized landmarks: sample with coordinates, change detection, cost of an update."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, ClassVar

import numpy as np

from kernelstream.arrays.namespaces import (
    Array,
    namespace_of,
    take_rows,
    to_float64,
    to_host,
)
from kernelstream.kernels import Kernel
from kernelstream.landmarks.base import Clock, Correction, LandmarkState
from kernelstream.landmarks.nystroem import Span, residual_energy
from kernelstream.landmarks.sample import UniformSample
from kernelstream.serialization import stored

UPDATE_FACTOR = 3  # an update follows when the rows are this many times those at the last one
HELD_BACK = 4  # one row of this many evaluates landmarks that are chosen with the others
GAIN = 1e-3  # fraction of the variance below which nothing is gained


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

    def correction(self, kernel: Kernel, span: Span) -> Correction | None:
        """The sample in this basis, beside the coordinates with which it was folded."""
        if len(self) == 0:
            return None
        rows, old = self.held()
        present = to_float64(span.many_coordinates(kernel, rows))
        return Correction(rows, to_float64(old), present, self.stands_for())

    def residual(self, kernel: Kernel, span: Span, unit: float) -> float:
        """Mean squared residual of the held-out rows, in a unit."""
        few = len(self) < HELD_BACK
        chosen = np.arange(0 if few else HELD_BACK - 1, len(self), 1 if few else HELD_BACK)
        rows, weights = take_rows(self.held()[0], chosen), self.stands_for()
        Z = span.many_coordinates(kernel, rows)
        residuals = to_host(residual_energy(kernel.diag(span.rows(rows)), Z)).astype(float)
        weights = None if weights is None else weights[chosen]
        return float(np.average(residuals, weights=weights)) / unit


@stored
@dataclass(frozen=True)
class CentroidsState(LandmarkState):
    """Span, sample and what the policy watches. Residuals are in units of the variance."""

    span: Span
    sample: Reservoir
    wanted: int  # components for which points are polished
    n: int  # rows seen
    updated_at: int  # rows seen when landmarks were last chosen
    optimized: bool  # whether they were optimized for a sample, or are centers of the first rows
    missed: Annotated[float, "not negative"]  # Σ w ε/energy of the rows since …
    weight: Annotated[float, "not negative"]  # … and their weight
    reference: Annotated[float, "not negative"]  # the residual that is normal for these points
    unit: Annotated[float, "not negative"]  # variance of the start in feature space
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
        """Rows compete for the sample; their coordinates are computed at the end of the pass."""
        xp, zero = namespace_of(self.span.projector), 0.0 * self.span.projector[:1, :]
        offered = [
            (X, xp.broadcast_to(zero, (int(X.shape[0]), self.span.rank)), weights)
            for X, weights in blocks
        ]
        sample, rank = self.sample.offer(offered, clock), self.span.rank
        zeros = [xp.broadcast_to(zero, (int(rows.shape[0]), rank)) for rows in sample.rows]
        n = self.n + sum(int(X.shape[0]) for X, _ in blocks)
        return replace(self, sample=replace(sample, coordinates=tuple(zeros)), n=n)

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
        """Whether landmarks miss more of the variance than is worth an update."""
        return max(self.reference, self.missed / (self.weight or 1.0)) > GAIN
