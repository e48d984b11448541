"""Tracker base class: PCA of coordinates block by block, compatibility check of parts."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np

from kernelstream.arrays.namespaces import Array
from kernelstream.serialization.part import Part, check_number
from kernelstream.trackers.moments import Moments

S = TypeVar("S")  # the state of a tracker

Shift = tuple[Array, Array] | None  # what corrects scatter and sum of the coordinates


class Tracker(Part, Generic[S]):
    """PCA in R^m, updated block by block.

    The verbs are ``begin``, ``update`` (a block of coordinates), ``pad`` (coordinates were
    appended), ``rebase`` (the basis changed by the matrix T), ``decay`` (old rows lose weight) and
    ``components``. Each returns a value; the tracker itself is configuration. S is the type of the
    state.
    """

    _family = "trackers"
    #: Whether rows are learned one by one, by ``learn`` (else blocks of them, by ``update``).
    sequential = False
    #: Share of the weight of old rows that is left after each new row.
    forgetting: float = 1.0
    #: Rows after which one is no longer in the sums; None: never.
    window: int | None = None
    #: Whether rows may come in blocks of any size: what is learned is the same, to rounding.
    any_blocks = False
    #: Whether the state is the sum ``scatter`` of what blocks say, and nothing else.
    adds_up = False
    #: Whether what it has learned is a fixed number of vectors, which ``raw`` returns.
    holds_vectors = False

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
        """Learn a block. ``admitted`` are its rows that added a coordinate, in order."""

    def learn(
        self,
        state: S,
        Z: Array,
        weights: Array | None,
        admitted: tuple[int, ...],
        before: Moments | None,
        points: Callable[[], Array],
    ) -> S:
        """Learn a block row by row, where that is how the tracker learns.

        ``before`` is what the rows before the block sum up to; None: rows are not centered.
        ``points`` returns the points in their own coordinates, one a row.
        """
        raise NotImplementedError

    @abstractmethod
    def pad(self, state: S, rank: int) -> S:
        """Points were appended: old coordinates are extended by zeros."""

    @abstractmethod
    def rebase(self, state: S, T: Array) -> tuple[S, float | None]:
        """Change the basis, z ← T z. Return the state and the scatter lost (None if unknown)."""

    def most_components(self, state: S) -> int | None:
        """How many components can be shown; None: any number."""
        return None

    def slide(self, state: S, Z: Array, energy: Array, missed: Array, weights: Array | None) -> Any:
        """Let rows with these energies into a window, and older ones out of it."""
        raise NotImplementedError

    def merge(self, one: S, two: S) -> S:
        """Two states in the same basis into one."""
        raise ValueError(f"The tracker {self} cannot be merged; use trackers.Covariance.")

    def lost_orders(self, state: S, T: Array, n_orders: int) -> np.ndarray | None:
        """κ_1 … κ_K of the scatter that a change of basis loses; None if unknown."""
        return None

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

    def follow(self, state: S, moments: Moments, center: bool, start: Array) -> tuple[Array, Array]:
        """Components near those of ``start``, and their mean: good enough to read signs off."""
        _, vectors, mean = self.components(state, moments, center)
        return vectors[:, : min(int(start.shape[1]), int(vectors.shape[1]))], mean
