"""Fixed landmarks: user-supplied or sampled once at the start (Nyström method)."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernelstream.arrays.draws import generator, pick
from kernelstream.arrays.namespaces import Array, as_dense, like, take_rows, to_host
from kernelstream.kernels import Kernel
from kernelstream.landmarks.base import (
    KeptCorrection,
    LandmarkState,
    LandmarkStrategy,
    Measured,
    Start,
)
from kernelstream.landmarks.nystroem import Span, distinct_rows, factorise, onto, same_points
from kernelstream.serialization import stored
from kernelstream.serialization.part import check_count


@stored
@dataclass(frozen=True)
class FixedState(LandmarkState):
    """A span that never changes, and the correction of the sums of rows that came before it."""

    span: Span
    older: KeptCorrection | None = None

    def correction(self, kernel: Kernel) -> KeptCorrection | None:
        """The correction of a model that had more landmarks."""
        return self.older


class FixedLandmarks(LandmarkStrategy[FixedState]):
    """A strategy whose landmarks never change after the start of the stream."""

    kind = "fixed"

    def update(
        self, kernel: Kernel, state: FixedState, blocks: Sequence[Measured]
    ) -> tuple[FixedState, int]:
        """Landmarks stay; the correction of older rows loses weight as they do."""
        older = state.older
        for block in blocks:
            if older is not None and block.clock.decay != 1.0:
                older = older.decay(block.clock.decay)
        return (state if older is state.older else replace(state, older=older)), len(blocks)

    def merge(
        self, kernel: Kernel, a: FixedState, b: FixedState, seed: int
    ) -> tuple[FixedState, Array | None, Array | None]:
        """Take the points as they are; they have to be the same."""
        if not same_points(a.span, b.span):
            raise ValueError(
                "Models with different landmarks cannot be merged: give the same points to both."
            )
        if a.older is not None or b.older is not None:
            raise ValueError(
                "Models that were compressed cannot be merged: merge them first, and compress then."
            )
        return a, None, onto(kernel, b.span, a.span)


@stored
class Landmarks(FixedLandmarks):
    """A fixed set of points.

    The model is Nyström kernel PCA on these points: exact in their span. Given points cost nothing
    to choose and make a stream exactly reproducible; sampled points are the textbook method, but a
    basis drawn from the first rows is poor when the order of the stream is not random.

    Parameters
    ----------
    points : int or array of shape (m, d)
        The points, in the units of the data (``scale="standard"`` applies to them too), or how
        many rows to sample: from all rows in ``fit``, from the start of the stream (ten times as
        many rows, at least 500) in ``partial_fit``.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA, landmarks
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = StreamingKernelPCA(2, gamma=0.5, basis=landmarks.Landmarks(X[:20])).fit(X)
    >>> model.basis_points_.shape
    (20, 2)
    """

    def __init__(self, points: Any = 256):
        self.points = points

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""
        points = to_host(self.points)
        if points.ndim == 0:
            check_count("Landmarks", "points", self.points, none_allowed=False)
        elif points.ndim != 2:
            raise ValueError(
                "Landmarks: points must be an integer or an array of shape (n_points, n_features), "
                f"got an array with {points.ndim} dimension(s)."
            )
        elif points.shape[0] == 0:
            raise ValueError("Landmarks: points must have at least one row, got an empty array.")
        elif points.dtype.kind not in "fiub":
            raise ValueError(
                f"Landmarks: points must be real numbers, got an array of {points.dtype}."
            )
        elif not np.all(np.isfinite(points)):
            raise ValueError("Landmarks: points must be finite numbers, got NaN or infinity.")

    @property
    def size(self) -> int:
        """Number of points."""
        return int(self.points) if isinstance(self.points, numbers.Integral) else len(self.points)

    def start_rows(self, of_all: bool = False) -> int:
        """Ten rows for each landmark, at least 500; one if the landmarks are given."""
        if isinstance(self.points, numbers.Integral):
            return max(10 * int(self.points), 500)
        return 1

    def suits(
        self, kernel: Kernel, n_features: int, tracker: Any = None, n_components: Any = None
    ) -> None:
        """Raise unless given landmarks have as many features as the rows."""
        width = (
            n_features if isinstance(self.points, numbers.Integral) else np.shape(self.points)[1]
        )
        if width != n_features:
            raise ValueError(
                f"Landmarks: the points have {width} features, the rows have {n_features}."
            )

    def in_units(self, scaled: Callable[[Array], Array]) -> Landmarks:
        """The strategy with given landmarks scaled as the rows are."""
        if isinstance(self.points, numbers.Integral):
            return self
        return Landmarks(scaled(to_host(self.points).astype(np.float64)))

    def holding(self, kernel: Kernel, span: Span) -> FixedState:
        """The state with these points, in the coordinates that their factor gives."""
        return FixedState(span)

    def begin(self, kernel: Kernel, start: Start) -> FixedState:
        """Take the given landmarks, or sample rows in proportion to their weights."""
        if not isinstance(self.points, numbers.Integral):
            return FixedState(factorise(kernel, like(to_host(self.points), start.X, start.X.dtype)))
        # With room for all different rows the sample is all of them, and weights don't matter.
        chosen = distinct_rows(start.X, int(self.points))
        if chosen is None:
            w = np.ones(start.X.shape[0]) if start.weights is None else start.weights
            chosen = pick(generator(start.seed, "landmarks"), w, int(self.points))
        return FixedState(factorise(kernel, as_dense(take_rows(start.X, chosen))))
