"""What centroids remember of a stream, and what follows: has it moved, may points be refreshed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np

from kernelstream.backends.arrays import Array
from kernelstream.bases.base import Span
from kernelstream.bases.centroids.cells import Cells
from kernelstream.bases.centroids.sample import Reservoir
from kernelstream.bases.centroids.tolerance import Growth
from kernelstream.files import stored

# Found on MNIST, Elec2, Frey faces and Adult streams; docs/centroids.md has other values.
RISE = 1.25  # the stream has moved when the residual is this much above its reference …
SIGMAS = 5.0  # … and by this many standard errors
WORK_SHARE = 0.05  # of the stream's work may go into refreshes …
WORK_CREDIT = 16.0  # … beyond this many at the start


@stored
@dataclass(frozen=True)
class CentroidsState:
    """Span, cells and what the policy watches. Residuals are in units of the mean energy."""

    ON_HOST: ClassVar[frozenset[str]] = frozenset({"mass"})

    span: Span
    mass: Annotated[np.ndarray, "float64 (points), not negative"]  # weight of each cell
    sums: Annotated[Array, "float64 (points, features)"]  # Σ w x of each cell
    reservoir: Reservoir
    recent: tuple[Annotated[Array, "rows (?, features)"], ...]  # the last rows, block by block
    n: int  # rows seen
    refreshed_at: int  # rows seen at the last refresh
    next_refresh: int  # rows at which the next refresh is due
    residual: Annotated[float, "not negative"]  # moving average of ε/energy
    variance: Annotated[float, "not negative"]  # of ε/energy of single rows
    reference: Annotated[float, "not negative"]  # the residual that is normal for this basis
    unit: Annotated[float, "not negative"]  # mean energy k(x,x) of the start
    work: Annotated[float, "not negative"]  # multiplications spent on blocks
    work_refreshing: Annotated[float, "not negative"]
    patience: int = 1  # grows while moving the points does not help
    judged_at: int = 0  # rows at which the last move is judged (0: none is)
    residual_before: Annotated[float, "not negative"] = 0.0  # residual that caused the last move
    growth: Growth | None = None  # with a tolerance: what is missed so far

    @property
    def cells(self) -> Cells:
        """Points, masses and sums."""
        return Cells(self.span, self.mass, self.sums)

    # -- what it says about the points

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

    def judged(self) -> CentroidsState:
        """Wait longer before the next move where the last one did not help."""
        if not self.judged_at or self.n < self.judged_at:
            return self
        helped = self.residual <= 0.9 * self.residual_before
        patience = 1 if helped else min(2 * self.patience, 64)
        return replace(self, patience=patience, judged_at=0)

    # -- what a change of points costs, in multiplications

    @property
    def row_work(self) -> float:
        """What a row of a block costs."""
        m, d = self.span.points.shape
        return float(m * d + 2 * m * m)

    def refresh_work(self, window: int) -> float:
        """What other points cost, with the residual of ``window`` rows that is measured then."""
        m, d = self.span.points.shape
        spectral = 15.0 * m**3  # as with an eigenvalue problem; a Cholesky factor takes less
        return spectral + 2.0 * m * m * d + window * self.row_work

    def affords_refresh(self, window: int) -> bool:
        """Whether a refresh stays within the share of the work that it may take."""
        cost = self.refresh_work(window)
        return self.work_refreshing + cost <= WORK_SHARE * self.work + WORK_CREDIT * cost
