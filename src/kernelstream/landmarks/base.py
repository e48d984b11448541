"""Landmark strategy base class: how landmarks are chosen, updated and merged; the state they have.

The life of a strategy, from the first rows of a stream to a query::

    suits, size ──► start_rows ──► begin ──► state
                                               │
            ┌──────────────────────────────────┤
            ▼                                  │
    block ──► project ──► update ──► revise ──►┤     rows are projected, landmarks may be updated
            └ admit (if `admits`) ─┘           │     rows become landmarks while they are read
                                               │
    query ──► revise, coordinates ◄────────────┤     on a copy of the state
    two streams ──► merge ◄────────────────────┘

``kind`` declares which of these steps change the landmarks. A strategy has no state of its own:
each method returns the new state, of the type S.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import numpy as np

from kernelstream.arrays.namespaces import Array, cast
from kernelstream.kernels import Kernel
from kernelstream.landmarks.block import Clock, Correction, KeptCorrection, Measured, Projection
from kernelstream.landmarks.nystroem import Span
from kernelstream.serialization.part import Part

if TYPE_CHECKING:
    from kernelstream.landmarks.sample import UniformSample

Vectors = Callable[[], Array]
Kind = Literal["fixed", "adaptive", "growing", "reduced"]


@dataclass(frozen=True)
class Start:
    """The rows that a strategy chooses its first landmarks from."""

    X: Array
    weights: np.ndarray | None = None
    seed: int = 0
    wanted: int = 0  # number of components that will be computed; 0: unknown
    # The uniform sample whose rows X are, and how many rows it represents; None: X are the first
    # rows of a stream.
    sample: UniformSample | None = None
    n_rows: int = 0


class LandmarkState:
    """What every state of a strategy has: landmarks with their factor, and perhaps a sample."""

    if TYPE_CHECKING:

        @property
        def span(self) -> Span:
            """Landmarks and factor."""

    #: The number of rows at which the landmarks are likely to change next: a guess, for the speed.
    next_update: float = math.inf

    @property
    def row_sample(self) -> UniformSample | None:
        """A uniform sample of the rows so far; None if the strategy keeps none."""
        return None

    def correction(self, kernel: Kernel) -> Correction | KeptCorrection | None:
        """Correction of the sums of rows that were projected on earlier landmarks; None if none."""
        return None


S = TypeVar("S", bound=LandmarkState)


class LandmarkStrategy(Part, Generic[S]):
    """Which m landmarks span the model."""

    _family = "landmarks"
    #: When landmarks change. ``"fixed"``: never after ``begin``. ``"adaptive"``: at the end of a
    #: block (``revise``). ``"growing"``: ``begin`` gives none, and rows become landmarks as they
    #: come (``admit``). ``"reduced"``: as growing, and at the end of a block they are replaced by
    #: fewer, so that what was lost depends on the order of the rows.
    kind: Kind = "fixed"

    @property
    def size(self) -> int:
        """Number of landmarks, or a guess at it: for the choice of the block size."""
        return 1024

    def suits(
        self, kernel: Kernel, n_features: int, tracker: Any = None, n_components: Any = None
    ) -> None:
        """Raise ``ValueError`` in one sentence if a neighbor in the model is incompatible."""

    def start_rows(self, of_all: bool = False) -> int:
        """Number of rows for ``begin``: the first of a stream, or a sample of all rows."""
        return 1

    @abstractmethod
    def begin(self, kernel: Kernel, start: Start) -> S:
        """Return the state before the first row, with landmarks for the rows of ``start``."""

    def coordinates(self, kernel: Kernel, state: S, X: Array) -> Array:
        """Coordinates of rows."""
        return state.span.coordinates(kernel, X)

    def project(self, kernel: Kernel, state: S, X: Array) -> Projection:
        """Coordinates and squared norms of a block; the landmarks stay as they are."""
        Z = self.coordinates(kernel, state, X)
        return Projection(Z, kernel.diag(cast(X, Z.dtype)))

    def admits(self, state: S) -> bool:
        """Whether rows of the next block may become landmarks, so that ``admit`` has to read it."""
        return False

    def admit(
        self, kernel: Kernel, state: S, X: Array, weights: np.ndarray | None, clock: Clock
    ) -> tuple[S, Projection]:
        """Project a block whose rows may become landmarks on the way."""
        raise NotImplementedError

    def update(self, kernel: Kernel, state: S, blocks: Sequence[Measured]) -> tuple[S, int]:
        """Learn projected blocks, up to one after which the landmarks may change.

        Returns the state and the number of blocks that it has learned.
        """
        return state, len(blocks)

    def revise(
        self, kernel: Kernel, state: S, clock: Clock, vectors: Vectors | None = None
    ) -> tuple[S, Array | None] | None:
        """Change the landmarks at the end of a block, or (`Clock.query`) for a query.

        Returns the new state and ``T = F'ᵀ K(D',D) F``, or None if nothing changes; T is None if
        the coordinates stay the same.
        ``vectors`` computes the columns that the tracker holds, and the mean, in coordinates.
        """
        return None

    def merge(self, kernel: Kernel, a: S, b: S, seed: int) -> tuple[S, Array | None, Array | None]:
        """One state for two, and the matrices that carry each into it (None: unchanged)."""
        raise ValueError(f"Models with the basis {self} cannot be merged.")
