"""Random Fourier features as explicit coordinates instead of landmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from kernelstream.arrays.draws import generator
from kernelstream.arrays.namespaces import Array, cast, like, namespace_of, product, to_host
from kernelstream.kernels import Kernel
from kernelstream.landmarks.base import Basis, Projection, finite
from kernelstream.serialization import stored


@stored
@dataclass(frozen=True)
class FourierState:
    """Frequencies drawn from the kernel's spectrum, one a row."""

    frequencies: Annotated[Array, "float (?, features)"]


@stored
class Fourier(Basis[FourierState]):
    """Random features for shift-invariant kernels (Rahimi and Recht 2007).

    ``z(x) = √(2/n) [cos ωᵢ·x, sin ωᵢ·x]`` with ω from the Fourier transform of the kernel, so that
    E z(x)·z(y) = k(x, y). The features do not depend on the data: nothing to learn, nothing to
    move, but they need many more coordinates than points do, and there are no points, no residual
    and no certificate.

    Parameters
    ----------
    n_features : int
        Number of coordinates, even (cosines and sines come in pairs).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA, landmarks
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = StreamingKernelPCA(2, gamma=0.5, basis=landmarks.Fourier(100), random_state=0)
    >>> model.partial_fit(X).transform(X).shape
    (200, 2)
    """

    has_points = False
    settles_late = False
    stays = True
    preferred_on_device = None

    def __init__(self, n_features: int = 512):
        self.n_features = n_features

    @property
    def size(self) -> int:
        """Number of features."""
        return self.n_features

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""
        n = self.n_features
        if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 2 or n % 2:
            raise ValueError(f"Fourier: n_features must be an even integer, got {n!r}.")

    def suits(self, kernel: Kernel, n_features: int) -> None:
        """The kernel needs a spectrum that can be drawn from."""
        if not hasattr(kernel, "sample_frequencies"):
            raise ValueError(
                f"Fourier features need a shift-invariant kernel with a known spectrum (RBF, "
                f"Laplacian, Exponential, Matern), got {kernel}. Use landmarks.Centroids instead."
            )

    def begin(
        self, kernel: Kernel, X: Array, weights: np.ndarray | None, seed: int, wanted: int = 0
    ) -> FourierState:
        """Draw the frequencies."""
        rng = generator(seed, "frequencies")
        omega = kernel.sample_frequencies(rng, self.n_features // 2, X.shape[1])
        return FourierState(like(omega, X, X.dtype))

    def rank(self, state: FourierState) -> int:
        """Return the number of features."""
        return 2 * int(state.frequencies.shape[0])

    def coordinates(self, kernel: Kernel, state: FourierState, X: Array) -> Array:
        """Cosines and sines of the phases, scaled to unit norm."""
        xp = namespace_of(X)
        phase = product(X, cast(state.frequencies, X.dtype))
        return xp.concat([xp.cos(phase), xp.sin(phase)], axis=1) / phase.shape[1] ** 0.5

    def merge(
        self, kernel: Kernel, a: FourierState, b: FourierState, seed: int
    ) -> tuple[FourierState, Array | None, Array | None]:
        """Take the frequencies as they are; they have to be the same."""
        ours, theirs = to_host(a.frequencies), to_host(b.frequencies)
        if not np.array_equal(ours, theirs):
            raise ValueError(
                "Models with different random features cannot be merged: use the same random_state "
                "and n_features."
            )
        return a, None, None

    def express(self, kernel: Kernel, state: FourierState, X: Array) -> Projection:
        """Express a block; the features hold all the energy there is, cos² + sin² = 1."""
        Z = finite(self.coordinates(kernel, state, X), kernel)
        ones = namespace_of(Z).ones_like(Z[:, 0])
        return Projection(Z, ones, 0.0 * ones)
