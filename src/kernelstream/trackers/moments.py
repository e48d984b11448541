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
    """Weight W, sum Σ w z and squared norms Σ w k(x,x) of the rows: mean and total variance."""

    weight: Annotated[float, "not negative"]
    total: Annotated[Array, "float64 (rank)"]
    squared_norm: Annotated[float, "not negative"] = 0.0

    @property
    def mean(self) -> Array:
        """Mean of the coordinates (zero before the first row)."""
        return self.total / self.weight if self.weight > 0 else self.total

    def decay(self, factor: float) -> Moments:
        """Old rows lose weight."""
        return Moments(self.weight * factor, self.total * factor, self.squared_norm * factor)

    def rebase(self, T: Array) -> Moments:
        """The same rows in other coordinates."""
        return Moments(self.weight, T @ self.total, self.squared_norm)

    def merge(self, other: Moments) -> Moments:
        """The rows of both, in one span."""
        return Moments(
            self.weight + other.weight,
            self.total + other.total,
            self.squared_norm + other.squared_norm,
        )


@stored
@dataclass(frozen=True)
class CrossMoments:
    """Σ w z (y − o)ᵀ, Σ w (y − o) and Σ w (y − o)², float64.

    ``o`` is the target of the first row: targets far from zero keep their digits, and a constant
    target is exactly zero. Targets may be the rows themselves, which may be CSR; then o = 0.

    Attributes
    ----------
    origin : array of shape (t,)
        The origin ``o``.
    cross : array of shape (q, t)
        Cross moments of coordinates and targets.
    total : array of shape (t,)
        Sum of the targets.
    square : array of shape (t,)
        Sum of the squared targets.
    """

    origin: Annotated[Array, "float64 (targets)"]
    cross: Annotated[Array, "float64 (<=rank, targets)"]
    total: Annotated[Array, "float64 (targets)"]
    square: Annotated[Array, "float64 (targets)"]

    @classmethod
    def begin(cls, rank: int, targets: Array) -> CrossMoments:
        """Nothing is learned yet; the first target becomes the origin.

        Parameters
        ----------
        rank : int
            Number of coordinates.
        targets : array of shape (n, t)
            Targets of the first block.
        """
        first = to_float64(as_dense(targets[:1, :]))[0, :]
        zero = 0.0 * first
        cross = like(np.zeros((rank, int(zero.shape[0]))), zero)
        return cls(zero if is_sparse(targets) else first, cross, zero, zero)

    def update(self, Z: Array, targets: Array, weights: Array | None) -> CrossMoments:
        """Add a block; the product runs in the type of the coordinates.

        Parameters
        ----------
        Z : array of shape (n, q)
            Coordinates of the rows.
        targets : array of shape (n, t)
            Targets of the rows.
        weights : array of shape (n,) or None
            Weights of the rows; None means that all are 1.
        """
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
        """Take a block back.

        Parameters
        ----------
        Z : array of shape (n, q)
            Coordinates of the rows.
        targets : array of shape (n, t)
            Targets of the rows.
        weights : array of shape (n,) or None
            Weights of the rows; None means that all are 1.
        """
        nothing = self.decay(0.0)
        gone = nothing.update(Z, targets, weights)
        return CrossMoments(
            self.origin, self.cross - gone.cross, self.total - gone.total, self.square - gone.square
        )

    def rebase(self, T: Array) -> CrossMoments:
        """Σ w (Tz) yᵀ = T Σ w z yᵀ, with zeros for coordinates that were appended meanwhile.

        Parameters
        ----------
        T : array of shape (q_new, q)
            Matrix from old to new coordinates.
        """
        cross = padded(self.cross, (int(T.shape[1]), int(self.cross.shape[1])))
        return replace(self, cross=T @ cross)

    def decay(self, factor: float) -> CrossMoments:
        """Old rows lose weight.

        Parameters
        ----------
        factor : float
            Factor by which all weights are multiplied.
        """
        return replace(
            self,
            cross=self.cross * factor,
            total=self.total * factor,
            square=self.square * factor,
        )

    def about(self, origin: Array, weight: float, sum_of_z: Array) -> CrossMoments:
        """The same rows with another origin, given Σ w and Σ w z.

        Parameters
        ----------
        origin : array of shape (t,)
            The new origin.
        weight : float
            Sum of the weights of the rows.
        sum_of_z : array of shape (q,)
            Weighted sum of the coordinates.
        """
        step = self.origin - origin
        return CrossMoments(
            origin=origin,
            cross=self.cross + sum_of_z[:, None] * step[None, :],
            total=self.total + weight * step,
            square=self.square + step * (2.0 * self.total + weight * step),
        )

    def merge(self, other: CrossMoments) -> CrossMoments:
        """Sums in the same basis and about the same origin add.

        Parameters
        ----------
        other : CrossMoments
            Moments of other rows.
        """
        return CrossMoments(
            self.origin,
            self.cross + other.cross,
            self.total + other.total,
            self.square + other.square,
        )
