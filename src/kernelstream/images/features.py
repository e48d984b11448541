"""Patch features for super-resolution: odd kernel features, directions by k-means, contrast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from kernelstream import kernels, landmarks
from kernelstream.arrays import Array, generator
from kernelstream.serialization import check_count, check_number, stored


@stored
@dataclass(frozen=True)
class PatchFeaturesState(landmarks.LandmarkState):
    """Directions D, one a row."""

    ON_HOST: ClassVar[frozenset[str]] = frozenset({"directions"})

    directions: Annotated[np.ndarray, "float64 (?, features)"]

    @property
    def span(self) -> landmarks.Span:
        """An empty span: the features are no combinations of landmarks."""
        nothing = np.zeros((0, sum(self.directions.shape)))
        return landmarks.Span(self.directions[:0], nothing, nothing)


@stored
class PatchFeatures(landmarks.LandmarkStrategy[PatchFeaturesState]):
    """Kernel features of square patches whose mean was taken out, and the patches themselves.

    With the contrast ``c = √(|x|² + floor²)`` and the direction ``u = w∘x/c`` (w a window),

        ``φ_j(x) = c [exp(−|u − d_j|²/2σ²) − exp(−|u + d_j|²/2σ²)]``

    for m centroids ``d_j`` of the directions: features of the positive definite kernel
    ``c c' [k(u, u') − k(u, −u')]``. A patch that is turned into its negative has the negative
    features, one of twice the contrast nearly twice the features: what was learned from one edge
    serves for all edges like it, as with twice as many points.

    Parameters
    ----------
    n_points : int
        Number of centroids m.
    width : float
        σ.
    floor : float
        Contrast below which a patch counts as flat, in units of the pixels.
    window : float
        Deviation of the Gaussian window, in pixels.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import landmarks
    >>> from kernelstream.images.features import PatchFeatures
    >>> X = np.random.default_rng(0).normal(size=(500, 25))
    >>> basis = PatchFeatures(10)
    >>> state = basis.begin(None, landmarks.Start(X))
    >>> Z = basis.coordinates(None, state, X)
    >>> Z.shape, bool(np.allclose(basis.coordinates(None, state, -X), -Z))
    ((500, 35), True)
    """

    def __init__(
        self,
        n_points: int = 500,
        width: float = 0.2,
        floor: float = 10.0 / 255.0,
        window: float = 1.2,
    ):
        self.n_points = n_points
        self.width = width
        self.floor = floor
        self.window = window

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""
        check_count("PatchFeatures", "n_points", self.n_points, none_allowed=False)
        for name in ("width", "floor", "window"):
            check_number("PatchFeatures", name, getattr(self, name))

    def start_rows(self, of_all: bool = False) -> int:
        """Twenty patches a point, of which the flat ones are left out."""
        return max(20 * self.n_points, 500)

    def begin(self, kernel: kernels.Kernel | None, start: landmarks.Start) -> PatchFeaturesState:
        """k-means of the directions of patches, without the 30% of least contrast."""
        contrast, U = self.contrast_and_directions(start.X)
        U = U[contrast >= np.quantile(contrast, 0.3)]
        rng, m = generator(start.seed, "directions"), min(self.n_points, len(U))
        return PatchFeaturesState(landmarks.kmeans(U, m, 8, rng))

    def coordinates(
        self, kernel: kernels.Kernel | None, state: PatchFeaturesState, X: Array
    ) -> Array:
        """The features of patches, and the patches themselves.

        ``exp(−|u−d|²/2σ²) − exp(−|u+d|²/2σ²) = 2 exp(−(|u|²+|d|²)/2σ²) sinh(u·d/σ²)``: one product
        and one hyperbolic sine a feature.
        """
        contrast, U = self.contrast_and_directions(X)
        D = state.directions.astype(X.dtype, copy=False)
        scale = X.dtype.type(1.0 / self.width**2)
        near = U @ (D.T * scale)
        np.sinh(near, out=near)
        near *= 2.0 * np.exp(-0.5 * scale * np.einsum("ij,ij->i", D, D))
        near *= (contrast * np.exp(-0.5 * scale * np.einsum("ij,ij->i", U, U)))[:, None]
        return np.concatenate([near, X], axis=1)

    def project(
        self, kernel: kernels.Kernel, state: PatchFeaturesState, X: Array
    ) -> landmarks.Projection:
        """Express a block; the features are all there is."""
        Z = self.coordinates(kernel, state, X)
        energy = np.einsum("ij,ij->i", Z, Z)
        return landmarks.Projection(Z, energy, 0.0 * energy)

    def merge(
        self, kernel: kernels.Kernel, a: PatchFeaturesState, b: PatchFeaturesState, seed: int
    ) -> tuple[PatchFeaturesState, Array | None, Array | None]:
        """Take the directions as they are; they have to be the same."""
        if not np.array_equal(a.directions, b.directions):
            raise ValueError(
                "Models with different directions of patches cannot be merged: they are found in "
                "the first images, so give both the same first image."
            )
        return a, None, None

    def contrast_and_directions(self, X: Array) -> tuple[np.ndarray, np.ndarray]:
        """Contrast and windowed direction of each patch."""
        side = round(X.shape[1] ** 0.5)
        place = np.arange(side) - (side - 1) / 2
        bell = np.exp(-0.5 * (place / self.window) ** 2)
        window = np.outer(bell, bell).ravel().astype(X.dtype)
        contrast = np.sqrt(np.einsum("ij,ij->i", X, X) + X.dtype.type(self.floor**2))
        return contrast, X * window / contrast[:, None]
