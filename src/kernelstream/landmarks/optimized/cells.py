"""Cells of files that version 0.1 wrote: its points were the means of the rows nearest to them.

Such a model answers as it did then, with its points moved to the present means. It has cells until
points are looked for once in the way of this release.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np

from kernelstream.arrays.namespaces import Array, cast, like, namespace_of, sum_by_label, to_float64
from kernelstream.landmarks.base import Measured
from kernelstream.landmarks.optimized.kmeans import nearest
from kernelstream.serialization import stored


@stored
@dataclass(frozen=True)
class Cells:
    """Mass and sum Σ w x of the rows nearest to each point."""

    ON_HOST: ClassVar[frozenset[str]] = frozenset({"mass"})

    mass: Annotated[np.ndarray, "float64 (points), not negative"]
    sums: Annotated[Array, "float64 (points, features)"]

    def enter(self, block: Measured, points: Array) -> Cells:
        """Add the rows of a block to their cells; further points may have joined."""
        m, d = (int(size) for size in points.shape)
        labels, _ = nearest(block.X, points)
        mass, sums = np.zeros(m), like(np.zeros((m, d)), self.sums)
        mass[: len(self.mass)] += self.mass * block.clock.decay
        sums[: len(self.mass), :] += self.sums * block.clock.decay
        return replace(
            self,
            mass=mass + np.bincount(labels, block.left, minlength=m),
            sums=sums + sum_by_label(block.X, labels, m, block.left),
        )

    def means(self, points: Array) -> Array:
        """Present means of the cells; one that is empty, or as good as forgotten, keeps its point.

        A mass that forgetting has left below the normal numbers has lost its digits.
        """
        xp = namespace_of(self.sums)
        least = np.finfo(float).tiny
        counted = np.maximum(self.mass, least)
        means = xp.where(
            like(self.mass > least, self.sums)[:, None],
            self.sums / like(counted, self.sums)[:, None],
            to_float64(points),
        )
        return cast(means, points.dtype)
