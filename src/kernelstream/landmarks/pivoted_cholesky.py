"""Landmarks sampled by randomly pivoted Cholesky: by the residual given the landmarks so far."""

from __future__ import annotations

import math

import numpy as np

from kernelstream.arrays.draws import evenly_spaced, generator
from kernelstream.arrays.namespaces import Array, as_dense, take_rows, to_float64, to_host
from kernelstream.kernels import Kernel
from kernelstream.landmarks.base import Start
from kernelstream.landmarks.fixed import FixedLandmarks, FixedState
from kernelstream.landmarks.nystroem import distinct_rows, factorise, finite
from kernelstream.serialization import stored
from kernelstream.serialization.part import check_count

LEAST_RESIDUAL = 1e-9  # relative to k(x, x): below it a residual is rounding


@stored
class PivotedCholesky(FixedLandmarks):
    """Fixed landmarks, sampled from rows by randomly pivoted Cholesky.

    One row after the other is drawn with a probability proportional to its squared residual, the
    part of ``φ(x)`` outside the span of the landmarks drawn so far. This is Algorithm 1 of Chen,
    Epperly, Tropp and Webber (2024), "Randomly pivoted Cholesky: Practical approximation of a
    kernel matrix with few entry evaluations", Communications on Pure and Applied Mathematics.

    Parameters
    ----------
    n_landmarks : int
        Number of landmarks m. Fewer are taken if they span all rows of the sample.

    Notes
    -----
    In ``fit`` the sample is ``max(10 m, 500)`` rows drawn from all rows, in ``partial_fit`` it is
    that many rows at the start of the stream. Drawing takes ``m`` kernel evaluations and ``O(m)``
    multiplications for each of its rows. Weights of rows multiply the probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA, landmarks
    >>> X = np.random.default_rng(0).normal(size=(900, 2))
    >>> strategy = landmarks.PivotedCholesky(30)
    >>> model = StreamingKernelPCA(2, gamma=0.5, basis=strategy, random_state=0).fit(X)
    >>> model.basis_points_.shape
    (30, 2)
    """

    def __init__(self, n_landmarks: int = 256):
        self.n_landmarks = n_landmarks

    def check(self) -> None:
        """Raise ``ValueError`` if the number of landmarks is not a positive integer."""
        check_count("PivotedCholesky", "n_landmarks", self.n_landmarks, none_allowed=False)

    @property
    def size(self) -> int:
        """Number of landmarks."""
        return int(self.n_landmarks)

    def start_rows(self, of_all: bool = False) -> int:
        """Ten rows for each landmark, at least 500."""
        return max(10 * self.size, 500)

    def begin(self, kernel: Kernel, start: Start) -> FixedState:
        """Draw the landmarks from the rows; all different rows if there are few."""
        X = start.X
        chosen = distinct_rows(X, self.size)
        if chosen is None:
            if not kernel.psd:  # the Gram matrix of the pivots would not show it
                factorise(kernel, as_dense(take_rows(X, evenly_spaced(len(start), self.size))))
            rng = generator(start.seed, "landmarks")
            chosen = draw_pivots(kernel, X, self.size, rng, start.weights)
        return FixedState(factorise(kernel, as_dense(take_rows(X, chosen))))


def draw_pivots(
    kernel: Kernel,
    X: Array,
    count: int,
    rng: np.random.Generator,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Indices of rows drawn one by one, in proportion to weight times squared residual.

    With the partial factor L, whose rows belong to the rows of X, the residuals are
    ``k(x, x) − |l|²``, and the pivot s appends the column ``(k(x, s) − L l_s)/√ε_s``.
    """
    squared_norms = to_host(finite(to_float64(kernel.diag(X)), kernel))
    w = np.ones(len(squared_norms)) if weights is None else weights
    residuals, floor = np.maximum(squared_norms, 0.0), LEAST_RESIDUAL * squared_norms
    factor = np.zeros((count, len(squared_norms)))  # Lᵀ: a pivot is a row of it
    pivots: list[int] = []
    for j in range(count):
        cumulative = np.cumsum(np.where(residuals > floor, w * residuals, 0.0))
        if not cumulative[-1] > 0.0:
            break
        pivot = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
        pivot = min(pivot, int(np.searchsorted(cumulative, cumulative[-1])))
        K = finite(kernel.block(X, as_dense(take_rows(X, [pivot]))), kernel)
        column = to_host(to_float64(K))[:, 0] - factor[:j, pivot] @ factor[:j]
        factor[j] = column / math.sqrt(residuals[pivot])
        residuals = np.maximum(residuals - factor[j] ** 2, 0.0)
        residuals[pivot] = 0.0
        pivots.append(pivot)
    return np.array(pivots or [0], dtype=np.intp)
