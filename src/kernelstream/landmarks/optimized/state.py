"""State of optimized landmarks: change detection by the residual, cost and budget of an update."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from kernelstream.arrays.namespaces import Array
from kernelstream.kernels import Kernel
from kernelstream.landmarks.base import LandmarkState
from kernelstream.landmarks.block import Clock, Correction
from kernelstream.landmarks.nystroem import Span
from kernelstream.landmarks.optimized.polish import n_directions
from kernelstream.landmarks.optimized.sample import Reservoir, no_coordinates
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
