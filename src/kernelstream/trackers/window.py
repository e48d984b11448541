"""Sliding-window tracker: exact PCA of the last n rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from kernelstream.arrays.namespaces import (
    Array,
    like,
    namespace_of,
    row_norms_squared,
    symmetric_eigen,
    to_float64,
    weighted_gram,
    weighted_sum,
)
from kernelstream.serialization import stored
from kernelstream.serialization.part import check_count
from kernelstream.trackers.base import CoordinateBlock, Shift, Tracker
from kernelstream.trackers.covariance import covariance
from kernelstream.trackers.moments import Moments


@stored
@dataclass(frozen=True)
class WindowState:
    """The rows of the window in coordinates, the last one last, with what their sums need."""

    Z: Annotated[Array, "float64 (.held, rank)"]
    weights: Annotated[Array, "float64 (.held), positive"]
    energy: Annotated[Array, "float64 (.held), not negative"]  # k(x,x)
    missed: Annotated[Array, "float64 (.held), not negative"]  # of it, by the basis

    @cached_property
    def scatter(self) -> Array:
        """S = Σ w z zᵀ, added up anew: nothing was ever subtracted."""
        if not int(self.Z.shape[0]):
            rank = int(self.Z.shape[1])
            return like(np.zeros((rank, rank)), self.Z)
        return weighted_gram(self.Z, self.weights)

    @cached_property
    def moments(self) -> Moments:
        """Weight and sum of the rows."""
        xp = namespace_of(self.weights)
        total = weighted_sum(self.Z, self.weights)
        return Moments(float(xp.sum(self.weights)), total, self.energies[0])

    @property
    def energies(self) -> tuple[float, float]:
        """Σ w k(x,x), and what the basis misses of it."""
        return float(self.weights @ self.energy), float(self.weights @ self.missed)


@stored
class Window(Tracker[WindowState]):
    """Exact PCA of the last ``n`` rows: older ones leave no trace.

    The window holds the coordinates of its rows, O(n m) numbers, and adds them up when components
    are asked for. So nothing is subtracted and no rounding gathers, however long the stream: the
    model is that of the last n rows by themselves.

    Parameters
    ----------
    n : int
        Number of rows. Rows of weight zero do not count.

    Notes
    -----
    For points that stay: ``Landmarks`` or ``Centroids(follows=False)``. Rows are in
    the window as soon as they are learned; ``n_samples_seen_`` counts all that ever were.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA, landmarks, trackers
    >>> X = np.random.default_rng(0).normal(size=(900, 2))
    >>> options = dict(gamma=0.5, basis=landmarks.Landmarks(X[:20]))
    >>> window = StreamingKernelPCA(2, tracker=trackers.Window(300), **options).partial_fit(X)
    >>> last = StreamingKernelPCA(2, **options).partial_fit(X[600:])
    >>> bool(np.allclose(window.explained_variance_, last.explained_variance_))
    True
    """

    kind = "window"

    def __init__(self, n: int = 1000):
        self.n = n

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""
        check_count("Window", "n", self.n, none_allowed=False)

    @property
    def memory(self) -> float:
        """Rows of the window."""
        return float(self.n)

    def suits(self, basis: Any, n_components: int | float | None, center: bool = True) -> None:
        """Points have to stay: rows are held in their coordinates."""
        super().suits(basis, n_components, center)
        if basis.kind != "fixed":
            raise ValueError(
                f"The tracker {self} holds rows in the coordinates of points that stay, and those "
                f"of {basis} may change: use landmarks.Landmarks, or Centroids(…, follows=False)."
            )

    def begin(self, rank: int, n_components: int | None, reference: Array) -> WindowState:
        """Start with an empty window."""
        nothing = like(np.zeros(0), reference)
        return WindowState(like(np.zeros((0, rank)), reference), nothing, nothing, nothing)

    def update(
        self, state: WindowState, Z: Array, weights: Array | None, admitted: tuple[int, ...]
    ) -> WindowState:
        """Rows without residuals join the window."""
        squared_norms = row_norms_squared(to_float64(Z))
        return self._slide(state, Z, squared_norms, 0.0 * squared_norms, weights)

    def learn(
        self,
        state: WindowState,
        block: CoordinateBlock,
        weights: Array | None,
        before: Moments | None,
        landmarks: Callable[[], Array],
    ) -> WindowState:
        """Rows join the window with their squared norms and residuals."""
        return self._slide(state, block.Z, block.energy, block.residual, weights)

    def _slide(
        self, state: WindowState, Z: Array, energy: Array, missed: Array, weights: Array | None
    ) -> WindowState:
        """Rows join the window, and as many older ones leave it."""
        xp = namespace_of(state.Z)
        w = xp.ones_like(to_float64(energy)) if weights is None else weights
        # only what stays is copied
        kept = max(0, int(state.Z.shape[0]) + int(Z.shape[0]) - self.n)
        Z, energy, missed, w = (part[-self.n :, ...] for part in (Z, energy, missed, w))
        return WindowState(
            xp.concat([state.Z[kept:, :], to_float64(Z)], axis=0),
            xp.concat([state.weights[kept:], to_float64(w)]),
            xp.concat([state.energy[kept:], to_float64(energy)]),
            xp.concat([state.missed[kept:], to_float64(missed)]),
        )

    def rebase(self, state: WindowState, T: Array) -> tuple[WindowState, float | None]:
        """Not for windows."""
        raise ValueError(
            f"The tracker {self} holds rows in the coordinates of points that stay: the model "
            "cannot be given other points."
        )

    def components(
        self, state: WindowState, moments: Moments, center: bool, correction: Shift = None
    ) -> tuple[Array, Array, Array]:
        """Eigenvectors of the covariance of the rows in the window."""
        C, mean = covariance(state.scatter, state.moments, center)
        values, vectors = symmetric_eigen(C)
        return namespace_of(C).clip(values, min=0.0), vectors, mean
