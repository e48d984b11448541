"""Tracker base class: PCA of coordinates block by block, compatibility check of parts."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Literal, Protocol, TypeVar

from kernelstream.arrays.namespaces import Array
from kernelstream.serialization.part import Part, check_number
from kernelstream.trackers.moments import Moments

S = TypeVar("S")  # the state of a tracker

Shift = tuple[Array, Array] | None  # what corrects scatter and sum of the coordinates


Kind = Literal["sums", "window", "blocks", "sequential"]


class CoordinateBlock(Protocol):
    """A block of rows in coordinates, as a landmark strategy projects it."""

    @property
    def Z(self) -> Array:
        """Coordinates, one row each."""

    @property
    def energy(self) -> Array:
        """Squared norms k(x, x)."""

    @property
    def residual(self) -> Array:
        """Squared residuals."""

    @property
    def admitted(self) -> tuple[int, ...]:
        """Rows that became landmarks, in order: each added a coordinate."""


class Tracker(Part, Generic[S]):
    """PCA in R^q, updated block by block.

    The methods are ``begin``, ``update`` (a block of coordinates), ``rebase`` (the landmarks
    changed by the matrix T), ``decay`` (old rows lose weight), ``merge`` and ``components``. Each
    returns a value; the tracker itself is configuration. S is the type of the state.
    """

    _family = "trackers"
    #: How rows are learned: ``"sums"`` adds scatter matrices, ``"window"`` holds rows, ``"blocks"``
    #: depends on how rows are cut into blocks, ``"sequential"`` learns row by row.
    kind: Kind = "blocks"
    #: Fraction of the weight of old rows that is left after each new row.
    forgetting: float = 1.0

    @property
    def memory(self) -> float:
        """Rows that are remembered; infinite where nothing is forgotten."""
        return math.inf if self.forgetting == 1.0 else math.ceil(1.0 / (1.0 - self.forgetting))

    def suits(self, basis: Any, n_components: int | float | None, center: bool = True) -> None:
        """Raise ``ValueError`` in one sentence when basis or number of components do not fit."""

    def _check_forgetting(self) -> None:
        if self.forgetting != 1:
            check_number(type(self).__name__, "forgetting", self.forgetting, above=0, below=1)

    @abstractmethod
    def begin(self, rank: int, n_components: int | None, reference: Array) -> S:
        """Return the state before the first row."""

    @abstractmethod
    def update(self, state: S, Z: Array, weights: Array | None, admitted: tuple[int, ...]) -> S:
        """Learn coordinates; rows in ``admitted`` added a coordinate each, in order."""

    def learn(
        self,
        state: S,
        block: CoordinateBlock,
        weights: Array | None,
        before: Moments | None,
        landmarks: Callable[[], Array],
    ) -> S:
        """Learn a block: its coordinates, or what else the tracker needs of it.

        ``before`` are the moments of the rows before the block; None if rows are not centered.
        ``landmarks`` computes the landmarks in their own coordinates, one a row.
        """
        return self.update(state, block.Z, weights, block.admitted)

    @abstractmethod
    def rebase(self, state: S, T: Array) -> tuple[S, float | None]:
        """Change the basis, z ← T z. Return the state and the scatter lost (None if unknown)."""

    def merge(self, one: S, two: S) -> S:
        """Two states in the same basis into one."""
        raise ValueError(f"The tracker {self} cannot be merged; use trackers.Covariance.")

    def decay(self, state: S, factor: float) -> S:
        """Shrink the weight of everything learned; rules that forget row by row have done so."""
        return state

    @abstractmethod
    def components(
        self, state: S, moments: Moments, center: bool, correction: Shift = None
    ) -> tuple[Array, Array, Array]:
        """Variances in descending order, unit vectors as columns, and the mean they refer to."""

    def raw(self, state: Any, mean: Array) -> Array:
        """The components by the rule's own index and at their own length, as columns.

        ``mean`` is the one that ``components`` would refer to.
        """
        return state.V
