"""Growth to a tolerance: estimated residual, rows to add by randomly pivoted Cholesky."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from kernelstream.arrays.namespaces import Array, row_norms_squared, take_rows, to_float64, to_host
from kernelstream.kernels import Kernel
from kernelstream.landmarks.base import Measured, Span
from kernelstream.serialization import stored

PAUSE = 500  # rows between two changes
SAFETY = 0.9  # the basis grows when more than this share of the tolerance is used up
LEAST = 8  # points added at a time, at least


@stored
@dataclass(frozen=True)
class Growth:
    """The account that decides about growth: estimates over all rows, in the present basis.

    It is cumulative: growing on what the last rows missed overshoots (174 points instead of 48 on
    Elec2 with a tolerance of 0.05).
    """

    missed: Annotated[float, "not negative"]  # Σ w ε
    energy: Annotated[float, "not negative"]  # Σ w k(x,x)
    weight: Annotated[float, "not negative"]
    total: Annotated[Array, "float64 (rank)"]  # Σ w z
    changed_at: int = 0  # rows seen at the last change of the basis

    @classmethod
    def of(cls, nothing: Array) -> Growth:
        """The account before the first row; ``nothing`` is a zero vector of coordinates."""
        return cls(0.0, 0.0, 0.0, nothing)

    def enter(self, block: Measured) -> Growth:
        """Enter a block."""
        decay = block.clock.decay
        return replace(
            self,
            missed=self.missed * decay + block.missed,
            energy=self.energy * decay + block.energy,
            weight=self.weight * decay + block.weight,
            total=self.total * decay + block.total,
        )

    def rebase(self, T: Array, residual: float, n: int) -> Growth:
        """Change the basis; ``residual`` is the mean of ε that was measured in the new one."""
        missed = residual * self.weight
        return replace(self, missed=missed, total=T @ self.total, changed_at=n)

    def merge(self, other: Growth, T: Array | None, T_other: Array | None) -> Growth:
        """Two streams in one basis."""
        ours = self.total if T is None else T @ self.total
        theirs = other.total if T_other is None else T_other @ other.total
        return replace(
            self,
            missed=self.missed + other.missed,
            energy=self.energy + other.energy,
            weight=self.weight + other.weight,
            total=ours + theirs,
        )

    @property
    def missed_share(self) -> float:
        """Estimated share of the variance in feature space that the basis misses."""
        mean = float(row_norms_squared(self.total[None, :])[0]) / self.weight
        variance = self.energy - mean
        return self.missed / variance if variance > 0 else 0.0

    def wanted(self, tolerance: float, m: int, n: int) -> int:
        """How many points to add to a stream, after n rows."""
        return 0 if n - self.changed_at < PAUSE else self.lacking(tolerance, m)

    def lacking(self, tolerance: float, m: int) -> int:
        """How many points to add to m before the next look."""
        if self.weight <= 0:
            return 0
        ratio = self.missed_share / (SAFETY * tolerance)
        if ratio <= 1.0:
            return 0
        return max(LEAST, math.ceil(min(1.0, max(0.1, 0.5 * (ratio - 1.0))) * m))


def missed_most(
    kernel: Kernel, span: Span, rows: Array, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Indices of rows that a randomly pivoted Cholesky factorisation would add to a basis.

    Rows are drawn in proportion to what is missed of them, one after the other, each taking away
    what it explains of the rest (Chen, Epperly, Tropp, Webber 2022).
    """
    Z = to_host(to_float64(span.coordinates(kernel, rows)))
    energy = to_host(to_float64(kernel.diag(rows)))
    missed = np.maximum(energy - row_norms_squared(Z), 0.0)
    floor = 1e-9 * energy
    columns = np.zeros((len(Z), count))
    chosen: list[int] = []
    for j in range(count):
        weights = np.where(missed > floor, missed, 0.0)
        total = weights.sum()
        if not total > 0.0:
            break
        i = int(np.searchsorted(np.cumsum(weights), rng.random() * total, side="right"))
        i = min(i, len(Z) - 1)
        k = to_host(to_float64(kernel.block(rows, take_rows(rows, [i]))))[:, 0]
        column = k - Z @ Z[i] - columns[:, :j] @ columns[i, :j]
        columns[:, j] = column / math.sqrt(missed[i])
        missed = np.maximum(missed - columns[:, j] ** 2, 0.0)
        missed[i] = 0.0
        chosen.append(i)
    return np.array(chosen, dtype=np.intp)
