"""Rows in the units of the kernel, by numbers that the start of a stream decides."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

import numpy as np

from kernelstream.backends.arrays import Array, is_sparse, like, to_host
from kernelstream.files import stored
from kernelstream.part import Part
from kernelstream.stream.state import Rows

S = TypeVar("S")  # the numbers that a scaling measures
START_ROWS = 500  # from which a column's mean and deviation can be relied on


class Scaling(Part, Generic[S]):
    """How rows are scaled: what it measures at the start of a stream is frozen.

    ``measure`` returns the numbers, of the type S: a value with ``apply``, and ``undo`` where there
    is a way back.
    """

    #: Whether rows come out as they went in, but for units (false: fewer dimensions).
    keeps_columns = True

    @abstractmethod
    def start_rows(self, n_features: int) -> int:
        """How many rows ``measure`` wants to see."""

    @abstractmethod
    def measure(self, rows: Rows) -> S:
        """The numbers, from rows."""


@stored
@dataclass(frozen=True)
class Standardisation:
    """Mean and deviation of the start of the stream, frozen: x ← (x − mean) / deviation."""

    mean: Annotated[np.ndarray, "float64 (columns)"]
    deviation: Annotated[np.ndarray, "float64 (columns), positive"]

    def apply(self, X: Array) -> Array:
        """Standardise rows."""
        require_dense(X)
        return (X - like(self.mean, X, X.dtype)) / like(self.deviation, X, X.dtype)

    def undo(self, X: Array) -> Array:
        """Return to the units of the data."""
        return X * like(self.deviation, X, X.dtype) + like(self.mean, X, X.dtype)


@stored
class Standard(Scaling[Standardisation]):
    """Zero mean and unit variance in each column."""

    def start_rows(self, n_features: int) -> int:
        """How many rows ``measure`` wants to see."""
        return START_ROWS

    def measure(self, rows: Rows) -> Standardisation:
        """Mean and deviation of each column; a constant column keeps its unit."""
        return ColumnMoments.of(rows).standardisation()


def require_dense(X: Array) -> None:
    """Raise in words for rows that scaling would fill."""
    if is_sparse(X):
        raise ValueError(
            "scale='standard' needs dense rows: centring would fill a sparse matrix. Scale the "
            "data yourself (for example with sklearn's MaxAbsScaler) and use scale=None."
        )


@dataclass(frozen=True)
class ColumnMoments:
    """Weight of some rows, and mean and deviation of each of their columns."""

    weight: float
    mean: np.ndarray
    deviation: np.ndarray

    @staticmethod
    def of(rows: Rows) -> ColumnMoments:
        """Measure rows."""
        X = to_host(rows.X).astype(float, order="C")
        # From the first row, in units of the largest difference: a constant column is exactly zero,
        # and no square leaves the range of float64.
        first = X[0].copy()
        X -= first
        size = np.abs(X).max(axis=0)
        size[size == 0] = 1.0
        X /= size
        mean = np.average(X, axis=0, weights=rows.weights)
        deviation = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=rows.weights))
        weight = float(len(X)) if rows.weights is None else float(rows.weights.sum())
        return ColumnMoments(weight, first + mean * size, deviation * size)

    def pool(self, other: ColumnMoments) -> ColumnMoments:
        """Moments of the rows of both (Chan, Golub and LeVeque 1983)."""
        total = self.weight + other.weight
        ours, theirs = self.weight / total, other.weight / total
        step = other.mean - self.mean
        between = np.sqrt(ours * theirs) * np.abs(step)
        within = np.hypot(np.sqrt(ours) * self.deviation, np.sqrt(theirs) * other.deviation)
        return ColumnMoments(total, self.mean + step * theirs, np.hypot(within, between))

    def standardisation(self) -> Standardisation:
        """The numbers that standardise such rows; a constant column keeps its unit."""
        return Standardisation(self.mean, np.where(self.deviation > 0, self.deviation, 1.0))
