"""Evaluation of a model on rows: squared residuals, distances from the mean, further directions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernelstream.arrays.namespaces import Array, as_dense, to_float64, to_host
from kernelstream.certificates.sample import AuditSample
from kernelstream.kernels import Kernel

ROUNDING = 1e-7  # relative to the largest squared norm: what float64 may lose on the way
STRIP = 2048  # rows that are evaluated together
MOST_DIRECTIONS = 128  # that rows add to a span, those of largest squared norm
# Rows that add less than this fraction of the largest squared norm to a span add nothing.
FLAT = 1e-6


def strips(n: int) -> Iterator[slice]:
    """Consecutive pieces of n rows."""
    return (slice(start, min(start + STRIP, n)) for start in range(0, n, STRIP))


@dataclass(frozen=True)
class EvaluatedModel:
    """A model as its audit sample sees it: an affine subspace of the feature space."""

    kernel: Kernel
    center: bool
    certify: str | bool
    sample: AuditSample | None
    weight: float  # of all rows
    n_rows: int
    log_forgetting: float
    seed: int
    coordinates: Callable[[Array], Array]  # of rows, less the mean
    vectors: Array  # the components in coordinates
    mean: Array

    @property
    def r(self) -> int:
        """Number of components, those without variance among them."""
        return int(self.vectors.shape[1])

    @cached_property
    def complete(self) -> bool:
        """Whether the sample is all rows, but for some without weight."""
        if self.sample is None or not len(self.sample):
            return False
        if len(self.sample) == self.n_rows:
            return True
        weights = self.sample.in_order(self.log_forgetting)[1]
        return float(weights.sum()) >= self.weight * (1 - ROUNDING)

    @cached_property
    def origin(self) -> np.ndarray:
        """The mean in coordinates."""
        return to_host(self.mean).astype(float)

    @cached_property
    def basis(self) -> np.ndarray:
        """Orthonormal vectors of the span of the components, in coordinates."""
        V = to_host(self.vectors).astype(float)
        V = V[:, np.linalg.norm(V, axis=0) > 0.5]  # zero columns fill up missing rank
        return np.linalg.svd(V, full_matrices=False)[0] if V.size else V

    def centered(self, X: Array) -> np.ndarray:
        """Coordinates of rows, less the mean."""
        return to_host(self.coordinates(X)).astype(float)

    def evaluate(self, X: Array) -> RowResiduals:
        """Evaluate the model on rows in float64."""
        Z, squared_norm = self.centered(X), to_host(self.kernel.diag(X)).astype(float)
        residual = np.maximum(squared_norm - ((Z + self.origin) ** 2).sum(axis=1), 0.0)
        left = Z - (Z @ self.basis) @ self.basis.T
        distance = residual + (Z**2).sum(axis=1)
        return RowResiduals(Z, residual, residual + (left**2).sum(axis=1), distance)

    def farthest(self, bound: float) -> float:
        """Upper limit of squared distances from the mean; ``bound`` is that of squared norms."""
        return float((np.sqrt(bound) + np.linalg.norm(self.origin)) ** 2)


@dataclass(frozen=True)
class RowResiduals:
    """What a model leaves of each of some rows."""

    Z: np.ndarray  # coordinates less the mean
    residual: np.ndarray  # squared, outside of the span of the landmarks
    error: np.ndarray  # |φ − Pφ|², P the affine projection on the model
    distance: np.ndarray  # |φ − μ|²


@dataclass(frozen=True)
class AugmentedSpan:
    """The span of a model and some directions that rows add to it, with orthonormal coordinates."""

    model: EvaluatedModel
    rows: Array
    factor: np.ndarray  # of the Gram matrix of the rows outside of the span of the model
    held: np.ndarray  # coordinates of the directions in the model, to be subtracted

    @classmethod
    def of(cls, model: EvaluatedModel, rows: Array) -> AugmentedSpan:
        """Add the directions in which rows have the largest squared residuals."""
        rows = as_dense(to_float64(rows))
        held = model.centered(rows) + model.origin
        outside = to_host(model.kernel.block(rows, rows)) - held @ held.T
        values, vectors = np.linalg.eigh(0.5 * (outside + outside.T))
        values, vectors = values[-MOST_DIRECTIONS:], vectors[:, -MOST_DIRECTIONS:]
        kept = values > FLAT * model.kernel.max_squared_norm
        factor = vectors[:, kept] / np.sqrt(values[kept])
        return cls(model, rows, factor, held.T @ factor)

    def directions(self, X: Array, Z: np.ndarray) -> np.ndarray:
        """Coordinates of rows along the added directions; Z are those in the model."""
        if not self.factor.shape[1]:
            return np.zeros((len(Z), 0))
        cross = to_host(self.model.kernel.block(X, self.rows)).astype(float)
        return cross @ self.factor - (Z + self.model.origin) @ self.held
