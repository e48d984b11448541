"""What a tracker is: ordinary PCA of the coordinates z, block by block. It never sees a kernel."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelstream.backends.arrays import Array, like, namespace_of, to_host
from kernelstream.files import stored
from kernelstream.part import Part


@stored
@dataclass(frozen=True)
class Moments:
    """Weight W and sum Σ w z of the rows: the running mean in coordinates."""

    weight: float
    total: Array

    @property
    def mean(self) -> Array:
        """Mean of the coordinates (zero before the first row)."""
        return self.total / self.weight if self.weight > 0 else self.total


class Tracker(Part):
    """PCA in R^m, updated block by block.

    The verbs are ``begin``, ``update`` (a block of coordinates), ``pad`` (coordinates were
    appended), ``rebase`` (the basis changed by the matrix T), ``decay`` (old rows lose weight) and
    ``components``. Each returns a value; the tracker itself is configuration.
    """

    #: Whether rows are learned one by one, centred with the running mean (else as raw moments).
    sequential = False
    #: Share of the weight of old rows that is left after each new row.
    forgetting: float = 1.0
    #: Whether rows may come in blocks of any size: what is learned is the same, to rounding.
    any_blocks = False
    #: Whether the tracker wants to be told the coordinates of the basis points before ``update``.
    needs_points = False

    def suits(self, basis: Any, n_components: int | float | None) -> None:
        """Raise ``ValueError`` in one sentence when basis or number of components do not fit."""
        if self.needs_points and not basis.has_points:
            raise ValueError(
                f"The tracker {self} needs the coordinates of the basis points, and {basis} has no "
                "points; use a basis of points such as bases.Centroids, or another tracker."
            )

    @abstractmethod
    def begin(self, rank: int, n_components: int | None, reference: Array) -> Any:
        """Return the state before the first row."""

    def told(self, state: Any, points: Array) -> Any:
        """Return the state that knows the basis points, one a row, in their own coordinates."""
        return state

    @abstractmethod
    def update(
        self,
        state: Any,
        Z: Array,
        weights: Array | None,
        admitted: tuple[int, ...],
    ) -> Any:
        """Learn a block. ``admitted`` are its rows that added a coordinate, in order."""

    @abstractmethod
    def pad(self, state: Any, rank: int) -> Any:
        """Points were appended: old coordinates are extended by zeros."""

    @abstractmethod
    def rebase(self, state: Any, T: Array) -> tuple[Any, float | None]:
        """Change the basis, z ← T z. Return the state and the scatter lost (None if unknown)."""

    def merge(self, one: Any, two: Any) -> Any:
        """Two states in the same basis into one."""
        raise ValueError(f"The tracker {self} cannot be merged; use trackers.Covariance.")

    def lost_orders(self, state: Any, T: Array, n_orders: int) -> np.ndarray | None:
        """κ_1 … κ_K of the scatter that a change of basis loses; None if unknown."""
        return None

    @abstractmethod
    def decay(self, state: Any, factor: float) -> Any:
        """Shrink the weight of everything learned."""

    @abstractmethod
    def components(
        self,
        state: Any,
        moments: Moments,
        center: bool,
        correction: tuple[Array, Array] | None = None,
    ) -> tuple[Array, Array, Array]:
        """Variances in descending order, unit vectors as columns, and the mean they refer to."""

    def followed(
        self, state: Any, moments: Moments, center: bool, start: Array
    ) -> tuple[Array, Array]:
        """Components near those of ``start``, and their mean: good enough to read signs off."""
        _, vectors, mean = self.components(state, moments, center)
        return vectors[:, : min(int(start.shape[1]), int(vectors.shape[1]))], mean


def padded(array: Array, shape: tuple[int, ...]) -> Array:
    """``array`` with zeros appended up to ``shape``."""
    if tuple(array.shape) == shape:
        return array
    whole = like(np.zeros(shape), array)
    whole[tuple(slice(0, n) for n in array.shape)] = array
    return whole


def column_norms(V: Array) -> np.ndarray:
    """Lengths of the columns, on the host."""
    xp = namespace_of(V)
    return to_host(xp.sqrt(xp.sum(V * V, axis=0)))


def unit_columns(V: Array) -> tuple[Array, np.ndarray]:
    """The columns at unit length, and the factors that make them so; zeros stay zeros."""
    norms = column_norms(V)
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    return V * like(scale, V)[None, :], scale
