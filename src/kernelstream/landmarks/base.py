"""Landmark strategy base class: interface, state, and the values of a block and its correction.

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
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar

import numpy as np

from kernelstream.arrays.namespaces import (
    Array,
    as_dense,
    cast,
    like,
    namespace_of,
    to_float64,
    weighted_gram,
    weighted_sum,
)
from kernelstream.arrays.threads import cut, in_threads, in_turn
from kernelstream.kernels import Kernel
from kernelstream.landmarks.nystroem import Span, residual_energy, sum_of
from kernelstream.serialization import stored
from kernelstream.serialization.part import Part

if TYPE_CHECKING:
    from kernelstream.landmarks.sample import UniformSample

Vectors = Callable[[], Array]
Kind = Literal["fixed", "adaptive", "growing", "reduced"]


@dataclass(frozen=True)
class Clock:
    """Where in the stream a block stands: the seed, its first row, and what forgetting leaves.

    ``decay`` is the factor by which the weight of everything older shrinks over the block;
    ``log_forgetting`` is log β per row.
    """

    seed: int
    row: int
    decay: float = 1.0
    log_forgetting: float = 0.0
    query: bool = False  # no block has ended: a query asks for the components

    def fading(self, n: int) -> np.ndarray:
        """What forgetting leaves at the end of a block of the weight of each of its n rows.

        Never zero: a weight that underflows would look like a row that never was.
        """
        left = np.exp(self.log_forgetting * np.arange(n - 1.0, -1.0, -1.0))
        return np.maximum(left, np.finfo(float).tiny)


@dataclass(frozen=True)
class Projection:
    """A block in coordinates.

    ``energy`` is k(x,x) of each row. Rows before
    ``fresh_from`` were expressed before the last point was admitted; ``admitted`` are the rows of
    the block that became points, in order. It may end before the block does, when the basis must be
    revised before it can go on. ``extent`` is that of other rows than the points with which the
    kernel was taken on the way: it tells how far values were rounded.
    """

    Z: Array
    energy: Array
    missed: Array | None = None  # what is known of the residual; None: all that Z has not
    fresh_from: int = 0
    admitted: tuple[int, ...] = ()
    extent: float = 0.0

    @cached_property
    def residual(self) -> Array:
        """What is missed of each row, where somebody asks: most want the sum alone."""
        return residual_energy(self.energy, self.Z) if self.missed is None else self.missed


@dataclass(frozen=True)
class Measured:
    """What a block says about itself in a basis: a function of basis and rows alone."""

    X: Array
    weights: np.ndarray | None  # as they were given; None: all 1
    left: np.ndarray | None  # what forgetting leaves of them at the end of the block
    clock: Clock
    block: Projection
    weight: float  # Σ w
    total: Array  # Σ w z
    scatter: Array | None  # Σ w z zᵀ, where it is wanted
    # The sums below, of no dimension, where the rows are: a device is asked for them once the host
    # has nothing else to do.
    energies: Array
    residuals: Array

    @cached_property
    def energy(self) -> float:
        """Σ w k(x,x)."""
        return float(self.energies)

    @cached_property
    def missed(self) -> float:
        """Σ w ε, of which rounding may leave less than nothing."""
        missed = float(self.residuals)
        return 0.0 if missed < 0.0 else missed  # and what is no number stays none

    @classmethod
    def of(
        cls,
        X: Array,
        weights: np.ndarray | None,
        left: np.ndarray | None,
        clock: Clock,
        block: Projection,
        scatter: bool,
    ) -> Measured:
        """Add up a block."""
        w = None if left is None else like(left, block.Z)
        energies = sum_of(block.energy, w)
        moments = weighted_gram(block.Z, w) if scatter else None
        if moments is None or block.missed is not None:
            residuals = sum_of(block.residual, w)
        else:  # Σ w (k(x,x) − |z|²)
            xp = namespace_of(moments)
            residuals = energies - xp.sum(xp.linalg.diagonal(moments))
        return cls(
            X,
            weights,
            left,
            clock,
            block,
            float(X.shape[0]) if left is None else float(left.sum()),
            weighted_sum(block.Z, w),
            moments,
            energies,
            residuals,
        )

    def __len__(self) -> int:
        return int(self.X.shape[0])


@dataclass(frozen=True)
class Correction:
    """A sample of all rows that shows what was lost by folding them in older bases.

    Sums over the sample, in which each row stands for a weight of mean 1 (None: all alike).
    """

    rows: Array
    folded: Array  # the coordinates c that the rows had when they were folded, float64
    present: Array  # the coordinates z that they have in the present basis, float64
    stands_for: np.ndarray | None

    def moments(self, weight: float) -> tuple[Array, Array]:
        """Σ(zzᵀ − ccᵀ) and Σ(z − c), for rows that weigh so much together."""
        Z, C = self.present, self.folded
        w = None if self.stands_for is None else like(self.stands_for, Z)

        def part(at: slice) -> Array:
            some = None if w is None else w[at]
            return weighted_gram(Z[at, :], some) - weighted_gram(C[at, :], some)

        first, *others = in_threads(part, cut(Z, int(Z.shape[1])))
        scatter, share = in_turn(first, others), weight / int(Z.shape[0])
        return scatter * share, (weighted_sum(Z, w) - weighted_sum(C, w)) * share

    def cross(self, origin: Array, weight: float) -> Array:
        """Mean of (z − c)(x − o)ᵀ over rows of such weight, for the moments of z with rows x."""
        step = self.present - self.folded
        if self.stands_for is not None:
            step = step * like(self.stands_for, step)[:, None]
        xp = namespace_of(step)
        cross = xp.matrix_transpose(step) @ (to_float64(as_dense(self.rows)) - origin[None, :])
        return cross / int(step.shape[0])


@stored
@dataclass(frozen=True)
class KeptCorrection:
    """A correction as sums, of a model that has given up its sample."""

    scatter: Annotated[Array, "float64 (rank, rank)"]
    total: Annotated[Array, "float64 (rank)"]
    # with the rows, about an origin, where a regression wants it
    products: Annotated[Array | None, "float64 (rank, targets)"] = None
    origin: Annotated[Array | None, "float64 (targets)"] = None

    @classmethod
    def of(
        cls, given: Correction | KeptCorrection, weight: float, T: Array, origin: Array | None
    ) -> KeptCorrection:
        """What corrects the moments of rows of such weight, in a basis into which T carries."""
        scatter, total = given.moments(weight)
        turned = namespace_of(T).matrix_transpose(T)
        products = None if origin is None else T @ given.cross(origin, weight) * weight
        return cls(T @ scatter @ turned, T @ total, products, origin)

    def moments(self, weight: float) -> tuple[Array, Array]:
        """The sums, whatever came later: rows folded since need no correction."""
        return self.scatter, self.total

    def cross(self, origin: Array, weight: float) -> Array:
        """The products about another origin, over rows of such weight."""
        assert self.products is not None and self.origin is not None
        return (self.products + self.total[:, None] * (self.origin - origin)[None, :]) / weight

    def decay(self, factor: float) -> KeptCorrection:
        """Old rows lose weight, and what corrects them with them."""
        products = None if self.products is None else self.products * factor
        return KeptCorrection(self.scatter * factor, self.total * factor, products, self.origin)


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

    def __len__(self) -> int:
        """Number of rows of ``X``; CSR matrices and arrays of other namespaces have no ``len``."""
        return int(self.X.shape[0])


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
