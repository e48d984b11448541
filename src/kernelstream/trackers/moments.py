"""Moments of coordinates: weight, mean, cross moments with regression targets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from kernelstream.arrays.namespaces import (
    Array,
    as_dense,
    cast,
    in_units,
    is_sparse,
    like,
    namespace_of,
    padded,
    to_float64,
    weighted_sum,
)
from kernelstream.serialization import stored


@stored
@dataclass(frozen=True)
class Moments:
    """Weight W and sum Σ w z of the rows: the running mean in coordinates."""

    weight: Annotated[float, "not negative"]
    total: Annotated[Array, "float64 (rank)"]

    @property
    def mean(self) -> Array:
        """Mean of the coordinates (zero before the first row)."""
        return self.total / self.weight if self.weight > 0 else self.total


@stored
@dataclass(frozen=True)
class CrossMoments:
    """Σ w z (y − o)ᵀ, Σ w (y − o) and Σ w (y − o)², float64.

    ``o`` is the target of the first row: targets far from zero keep their digits, and a constant
    target is exactly zero. Targets may be the rows themselves, which may be CSR; then o = 0.
    """

    origin: Annotated[Array, "float64 (targets)"]
    cross: Annotated[Array, "float64 (<=rank, targets)"]
    total: Annotated[Array, "float64 (targets)"]
    square: Annotated[Array, "float64 (targets)"]

    @classmethod
    def begin(cls, rank: int, targets: Array) -> CrossMoments:
        """Nothing is learned yet; the first target becomes the origin."""
        first = to_float64(as_dense(targets[:1, :]))[0, :]
        zero = 0.0 * first
        cross = like(np.zeros((rank, int(zero.shape[0]))), zero)
        return cls(zero if is_sparse(targets) else first, cross, zero, zero)

    def update(self, Z: Array, targets: Array, weights: Array | None) -> CrossMoments:
        """Add a block; the product runs in the type of the coordinates."""
        xp = namespace_of(Z)
        weighted, unit = Z, None
        if weights is not None:
            w, unit = in_units(weights, Z.dtype)
            weighted = Z * w[:, None]
        if is_sparse(targets):
            Y = cast(targets, Z.dtype)
            cross, squares = to_float64((Y.T @ weighted).T), Y.multiply(Y).tocsr()
        else:
            Y = cast(to_float64(targets) - self.origin[None, :], Z.dtype)
            cross, squares = to_float64(xp.matrix_transpose(weighted) @ Y), Y * Y
        cross = cross if unit is None else cross * unit
        return replace(
            self,
            cross=padded(self.cross, tuple(cross.shape)) + cross,
            total=self.total + weighted_sum(Y, weights),
            square=self.square + weighted_sum(squares, weights),
        )

    def without(self, Z: Array, targets: Array, weights: Array | None) -> CrossMoments:
        """Take a block back."""
        nothing = self.decay(0.0)
        gone = nothing.update(Z, targets, weights)
        return CrossMoments(
            self.origin, self.cross - gone.cross, self.total - gone.total, self.square - gone.square
        )

    def rebase(self, T: Array) -> CrossMoments:
        """Σ w (Tz) yᵀ = T Σ w z yᵀ, with zeros for coordinates that were appended meanwhile."""
        cross = padded(self.cross, (int(T.shape[1]), int(self.cross.shape[1])))
        return replace(self, cross=T @ cross)

    def decay(self, factor: float) -> CrossMoments:
        """Old rows lose weight."""
        return replace(
            self,
            cross=self.cross * factor,
            total=self.total * factor,
            square=self.square * factor,
        )

    def about(self, origin: Array, weight: float, sum_of_z: Array) -> CrossMoments:
        """The same rows with another origin, given Σ w and Σ w z."""
        step = self.origin - origin
        return CrossMoments(
            origin=origin,
            cross=self.cross + sum_of_z[:, None] * step[None, :],
            total=self.total + weight * step,
            square=self.square + step * (2.0 * self.total + weight * step),
        )

    def merge(self, other: CrossMoments) -> CrossMoments:
        """Sums in the same basis and about the same origin add."""
        return CrossMoments(
            self.origin,
            self.cross + other.cross,
            self.total + other.total,
            self.square + other.square,
        )
