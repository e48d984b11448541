"""Paper-exact reduced set (Chin and Suter 2006): fixed-point pre-images of every stored vector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from kernelstream import kernels, landmarks
from kernelstream.arrays import Array, like, to_float64, to_host
from kernelstream.serialization import check_choice, check_count, stored

STEPS = 200  # of the fixed-point iteration, at most
WORSE = 1e-12  # share by which a step may lose: that is rounding
AT_REST = 1e-13  # share of its largest entry by which a pre-image moves at the end
DISTINCT = 1e-6  # share of its energy by which an input must leave the span of the others


@stored
class IteratedPreimages(landmarks.Everything):
    """The rows of a block become points; at its end every vector held is written in pre-images.

    The vectors are the r components and the mean (Chin and Suter 2006, sections 5.1 and 5.2). Each
    is approximated by ``n_preimages`` inputs, found one by one on what is left over (eqs. 19–20),
    and these at most ``(r + 1) n′`` inputs take the place of all points, as soon as there are more
    points than that. For comparison with the paper: :class:`~kernelstream.landmarks.ReducedSet`
    looks at the scatter of the rows in the place of the components, serves every tracker, and as a
    rule holds a little more of the variance with as many points.

    Parameters
    ----------
    n_preimages : int
        n′, pre-images a vector.
    sharing : "separate", "shared" or "second pass"
        Whether a vector is written in its own pre-images only (the paper's figure 1a), in those of
        the vectors before it as well (1b, eq. 21), or whether, in a second pass of coefficients,
        every vector is written in all of them (1c), which is what the paper proposes.

    Notes
    -----
    A pre-image of ρ is an input y with the largest ``⟨ρ, φ(y)⟩²/k(y, y)``: from the best point
    that is there by ``y ← Σ_i w_i x_i / Σ_i w_i``, ``w_i = γ_i k(x_i, y)``, taken back where it
    does not help: the iteration of the reduced-set method for Gaussians; with other kernels the
    answer is never worse than the best point. The paper does not say in which order it compresses;
    here the components come first, in their order, and the mean last. The basis needs a tracker
    that holds vectors: ``IncrementalSVD`` with a number of components, or a sequential rule.

    References
    ----------
    Chin, Suter, "Incremental kernel PCA for efficient non-linear feature extraction", BMVC 2006;
    Schölkopf et al., "Input space versus feature space in kernel-based methods", IEEE Transactions
    on Neural Networks 10, 1999.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA, papers, trackers
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = StreamingKernelPCA(
    ...     2, gamma=0.2, basis=papers.IteratedPreimages(4), tracker=trackers.IncrementalSVD(),
    ...     batch_size=30)
    >>> model.partial_fit(X).basis_points_.shape  # (2 + 1) · 4 points
    (12, 2)
    """

    kind: landmarks.Kind = "reduced"
    start = None
    # which refuses: the components of two models are not merged
    merge = landmarks.LandmarkStrategy.merge

    def __init__(self, n_preimages: int = 3, sharing: str = "second pass"):
        self.n_preimages = n_preimages
        self.sharing = sharing

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""
        check_count("IteratedPreimages", "n_preimages", self.n_preimages, none_allowed=False)
        ways = ("separate", "shared", "second pass")
        check_choice("IteratedPreimages: sharing", self.sharing, ways)

    def suits(
        self, kernel: kernels.Kernel, n_features: int, tracker: Any = None, n_components: Any = None
    ) -> None:
        """Raise unless the tracker holds a fixed number of vectors."""
        held = isinstance(n_components, int) and getattr(tracker, "kind", "") in (
            "blocks",
            "sequential",
        )
        if tracker is not None and not held:
            raise ValueError(
                f"{self} compresses a fixed number of components and the mean, and the tracker "
                f"{tracker} with n_components={n_components!r} holds none such: give n_components "
                "as an integer with trackers.IncrementalSVD(), or use landmarks.ReducedSet."
            )

    def revise(
        self,
        kernel: kernels.Kernel,
        state: Any,
        clock: landmarks.Clock,
        vectors: Callable[[], Array] | None = None,
    ) -> tuple[Any, Array | None] | None:
        """Write the vectors that the tracker holds in pre-images, if there are many landmarks."""
        change = super().revise(kernel, state, clock)
        state, T = change or (state, None)
        if vectors is None:
            return change
        compressed = self.compress(kernel, state, vectors() if T is None else T @ vectors())
        if compressed is None:
            return change
        return compressed[0], compressed[1] if T is None else compressed[1] @ T

    def compress(
        self, kernel: kernels.Kernel, state: Any, vectors: Array
    ) -> tuple[Any, Array] | None:
        """Write the vectors, columns in coordinates, in pre-images; None while points are few.

        The matrix carries each vector to its approximation.
        """
        k = int(vectors.shape[1])
        if state.span.rank <= self.n_preimages * k:
            return None
        D = to_host(to_float64(state.span.points))
        C = to_host(state.span.factor @ vectors)
        found = preimages_of(kernel, D, C, self.n_preimages, self.sharing == "separate")
        inputs = like(np.vstack([one.inputs for one in found]), state.span.points)
        empty = self.begin(kernel, landmarks.Start(state.span.points))
        new, _ = self.offer(kernel, empty, inputs, 0)
        old, xp = state.span, array_namespace(vectors)
        if self.sharing == "second pass":
            K = kernel.block(to_float64(new.span.points), to_float64(old.points))
            return new, xp.matrix_transpose(new.span.factor) @ (K @ old.factor)
        written = coordinates_of(kernel, new.span, found, self.sharing == "separate")
        return new, like(written, vectors) @ xp.linalg.pinv(vectors)


@dataclass
class Written:
    """A vector in pre-images: its own inputs, and coefficients over all that it may use."""

    inputs: np.ndarray  # (n′, d) found for this vector
    coefficients: np.ndarray = field(default_factory=lambda: np.zeros(0))


def preimages_of(
    kernel: kernels.Kernel, D: np.ndarray, C: np.ndarray, n: int, separate: bool
) -> list[Written]:
    """Pre-images of the vectors ``Σ_i C_ij φ(d_i)``, one after the other."""
    found: list[Written] = []
    used = D[:0]
    for c in C.T:
        used = used[:0] if separate else used
        own, coefficients = D[:0], expand(kernel, D, c, used)
        for _ in range(n):
            y = preimage(kernel, np.vstack([D, used]), np.concatenate([c, -coefficients]))
            if not is_new(kernel, used, y):
                break
            own, used = np.vstack([own, y]), np.vstack([used, y])
            coefficients = expand(kernel, D, c, used)
        found.append(Written(own, coefficients))
    return found


def expand(kernel: kernels.Kernel, D: np.ndarray, c: np.ndarray, used: np.ndarray) -> np.ndarray:
    """The coefficients over the inputs that leave least of ``Σ_i c_i φ(d_i)``."""
    if len(used) == 0:
        return np.zeros(0)
    return np.linalg.lstsq(kernel.gram(used), kernel.block(used, D) @ c, rcond=1e-13)[0]


def preimage(kernel: kernels.Kernel, support: np.ndarray, gamma: np.ndarray) -> np.ndarray:
    """The input with the largest ``⟨ρ, φ(y)⟩²/k(y,y)`` that the iteration finds, (1, d)."""

    def held(k: np.ndarray, own: np.ndarray) -> np.ndarray:
        return np.divide((k @ gamma) ** 2, own, out=np.zeros(len(own)), where=own > 0)

    best = int(np.argmax(held(kernel.gram(support), kernel.diag(support))))
    y = support[best : best + 1]
    k = kernel.block(y, support)
    value = float(held(k, kernel.diag(y))[0])
    for _ in range(STEPS):
        w = gamma * k[0]
        if not abs(w.sum()) > 0:
            break
        moved = (w @ support)[None, :] / w.sum()
        k_moved = kernel.block(moved, support)
        better = float(held(k_moved, kernel.diag(moved))[0])
        if better < value * (1.0 - WORSE):
            break
        way, y = float(np.abs(moved - y).max()), moved
        k, value = k_moved, better
        if way <= AT_REST * float(np.abs(y).max()):
            break
    return y


def is_new(kernel: kernels.Kernel, used: np.ndarray, y: np.ndarray) -> bool:
    """Whether φ(y) leaves the span of the images of other inputs."""
    own = float(kernel.diag(y)[0])
    if len(used) == 0:
        return own > 0
    k = kernel.block(used, y)[:, 0]
    beta = np.linalg.lstsq(kernel.gram(used), k, rcond=1e-13)[0]
    return own - float(k @ beta) > DISTINCT * own


def coordinates_of(
    kernel: kernels.Kernel, span: landmarks.Span, found: list[Written], separate: bool
) -> np.ndarray:
    """The approximations in the coordinates of the new span, as columns."""
    columns, used = [], found[0].inputs[:0]
    for one in found:
        used = one.inputs if separate else np.vstack([used, one.inputs])
        images = to_host(span.coordinates(kernel, like(used, span.factor)))
        columns.append(images.T @ one.coefficients)
    return np.stack(columns, axis=1)
