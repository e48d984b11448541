"""Growing landmark sets: blocked admission of rows, Cholesky update, maximum number.

For a block of rows, one kernel product and one product with the factor give all coordinates and
residuals. Rows that pass the criterion are admitted in order. Each admission adds one coordinate
to the later rows of the block, a left-looking Cholesky step, and leaves the earlier ones zero:
exactly what happens when rows come one at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from kernelstream.arrays.namespaces import (
    Array,
    as_dense,
    cast,
    concatenate_rows,
    is_sparse,
    like,
    namespace_of,
    padded,
    row_norms_squared,
    take_rows,
    to_float64,
    to_host,
)
from kernelstream.arrays.threads import by_rows
from kernelstream.kernels import Kernel
from kernelstream.landmarks.base import (
    Clock,
    Kind,
    LandmarkState,
    LandmarkStrategy,
    Projection,
    Start,
    Vectors,
)
from kernelstream.landmarks.nystroem import (
    FACTOR_ROWS,
    NEGATIVE_SHARE,
    Span,
    factorise,
    finite,
    independent,
    require_semidefinite,
    same_points,
    transition,
)
from kernelstream.serialization import stored
from kernelstream.serialization.part import check_count

# A point is never admitted when its residual is below this share of its energy: the factor's
# entries grow like 1/√residual, and with them the rounding error of every coordinate. Smooth
# kernels fill the spectrum of K(D,D) down to rounding: at 1e-10 residuals of −0.5 came out of RBF
# rows in the plane, at 1e-8 they are right to 1e-11 when the rows come in random order.
DEPENDENT = 1e-8
# The same for the first rows, which no criterion keeps apart.
DISTINCT = 1e-4
# Rows in sorted order continue each other: every pivot is fine, and yet the factor grows without
# bound, since each point is nearly a combination of those before it. Rounding moves a coordinate by
# about 1e-16 times the largest entry of the factor (in units of 1/√k(d,d)), so at 1e6 residuals are
# still good to a hundredth of `DEPENDENT`; beyond, the points are taken in a better order.
STRAINED = 1e6


@stored
@dataclass(frozen=True)
class GrowingState(LandmarkState):
    """The span and the squared norms k(d, d) of its landmarks."""

    ON_HOST: ClassVar[frozenset[str]] = frozenset({"energies"})

    span: Span
    energies: Annotated[np.ndarray, "float64 (points), not negative"]


class Growing(LandmarkStrategy[GrowingState]):
    """Common to the criteria: everything but the decision whether a row becomes a landmark.

    Coordinates are computed in float64 whatever the rows' type: the decisions are exact, and a
    Cholesky factor in float32 would not survive long.
    """

    kind: Kind = "growing"
    #: The first rows become landmarks whatever the criterion says, if they are independent.
    first: int = 0
    max_points: int | None = None

    @abstractmethod
    def admissible(
        self, residual: np.ndarray, energy: np.ndarray, similarity: np.ndarray | None
    ) -> np.ndarray:
        """Whether the criterion would admit each row, given the present landmarks."""

    def similarities(
        self, K: Array, energy: np.ndarray, energies: np.ndarray | float
    ) -> np.ndarray | None:
        """Similarity of rows and landmarks, of which a criterion sees the largest of each row."""
        return None

    def check(self) -> None:
        """Raise unless the maximum number of landmarks is a positive integer or None."""
        check_count(type(self).__name__, "max_points", self.max_points)

    def begin(self, kernel: Kernel, start: Start) -> GrowingState:
        """Start with no landmarks."""
        X = start.X
        nothing = like(np.zeros((0, X.shape[1])), X, X.dtype)
        factor = like(np.zeros((0, 0)), X, namespace_of(X).float64)
        return GrowingState(Span(nothing, factor, factor), np.zeros(0))

    def holding(self, kernel: Kernel, span: Span) -> GrowingState:
        """The state with these landmarks, in the coordinates of their factor."""
        return GrowingState(span, to_host(to_float64(kernel.diag(to_float64(span.points)))))

    def coordinates(self, kernel: Kernel, state: GrowingState, X: Array) -> Array:
        """Coordinates of rows, in float64."""
        return state.span.coordinates(kernel, to_float64(X))

    def admits(self, state: GrowingState) -> bool:
        """Rows become landmarks while they are read."""
        return True

    def admit(
        self,
        kernel: Kernel,
        state: GrowingState,
        X: Array,
        weights: np.ndarray | None,
        clock: Clock,
    ) -> tuple[GrowingState, Projection]:
        """Project a block and admit its new landmarks in order.

        The projection ends early, with the row that strained the factor: ``revise`` must come
        before the next one.
        """
        rows = to_float64(X)
        points = state.span.prepared(kernel, rows)
        n_points, m = int(state.span.points.shape[0]), state.span.rank
        K = finite(by_rows(lambda x: kernel.block(x, points), rows, n_points, FACTOR_ROWS), kernel)
        Z = by_rows(lambda k: k @ state.span.factor, K, n_points, FACTOR_ROWS)
        energy = finite(kernel.diag(rows), kernel)
        block = _Block(Z, energy, energy - row_norms_squared(Z), state.span.factor, m)
        host_energy = to_host(energy)
        block.similarity = _largest(self.similarities(K, host_energy[:, None], state.energies))
        now = self._passes(kernel, block, m)
        if m < self.first:  # the criterion takes over in this block, maybe
            now |= self._passes(kernel, block, self.first)
        candidates = np.flatnonzero(now)
        room = len(candidates) if self.max_points is None else self.max_points - n_points
        if m == 0 and len(candidates) == 0:
            # No row has energy. Then they are all zero in feature space, or the kernel (a distance
            # taken for one, say) is not semidefinite, which no residual would ever show.
            factorise(kernel, as_dense(rows))
        if len(candidates) == 0 or room == 0:
            return state, Projection(Z, energy, _clip(block.residual))
        return self._grow(kernel, state, X, block, candidates, room)

    def _grow(
        self,
        kernel: Kernel,
        state: GrowingState,
        X: Array,
        block: _Block,
        candidates: np.ndarray,
        room: int,
    ) -> tuple[GrowingState, Projection]:
        """Admit candidates in order; one coordinate more for this row and the later ones each."""
        n, most = int(X.shape[0]), block.rank + min(room, len(candidates))
        # Residuals only fall and similarities only rise while landmarks are admitted, so no row
        # outside `candidates` can join.
        rows = to_float64(X)
        chosen = to_float64(as_dense(take_rows(rows, candidates)))
        columns = finite(kernel.block(rows, chosen), kernel)  # k(x, candidate)
        block.reserve(most)
        energy, energies = to_host(block.energy), state.energies
        admitted: list[int] = []
        for number, row in enumerate(map(int, candidates)):
            if block.rank == most:
                break
            if not self._passes(kernel, block, block.rank)[row]:
                continue
            column = columns[:, number]
            block.append(row, column)
            new = self.similarities(column[:, None], energy[:, None], energy[row : row + 1])
            if new is not None and block.similarity is not None:
                block.similarity = np.maximum(block.similarity, new[:, 0])
            admitted.append(row)
            energies = np.append(energies, energy[row])
            if _strained(to_host(block.last_column), energies):
                n = row + 1
                break
        found = cast(as_dense(take_rows(X, admitted)), state.span.points.dtype)
        points, factor = concatenate_rows([state.span.points, found]), block.grown_factor
        return GrowingState(Span(points, factor, factor), energies), Projection(
            block.Z[:n, : block.rank],
            block.energy[:n],
            _clip(block.residual[:n]),
            admitted[-1] if admitted else 0,
            tuple(admitted),
            kernel.rounding.extent(chosen, shifted=not is_sparse(rows)),
        )

    def _passes(self, kernel: Kernel, block: _Block, n_points: int) -> np.ndarray:
        """Whether each row would be admitted now; raise if a residual is below zero."""
        residual, energy = to_host(block.residual), to_host(block.energy)
        if len(energy):
            worst = int(np.argmin(residual + NEGATIVE_SHARE * energy))
            # rows of a smooth kernel in sorted order: each adds a little, all are dependent
            cure = "Shuffle the rows, use a narrower kernel, or landmarks.Centroids."
            require_semidefinite(kernel, float(residual[worst]), float(energy[worst]), cure)
        if n_points < self.first:
            return residual > DISTINCT * energy
        return self.admissible(residual, energy, block.similarity) & (residual > DEPENDENT * energy)

    def revise(
        self, kernel: Kernel, state: GrowingState, clock: Clock, vectors: Vectors | None = None
    ) -> tuple[GrowingState, Array] | None:
        """Take the landmarks in a better order if the factor is strained.

        Landmarks that depend on the others in that order are given up: what is lost of each is
        below `DEPENDENT` of its squared norm, as if it had never been admitted.
        """
        if not _strained(to_host(state.span.factor), state.energies):
            return None
        span, kept = independent(kernel, state.span.points, state.energies, DEPENDENT)
        return GrowingState(span, state.energies[kept]), transition(kernel, state.span, span)

    def merge(
        self, kernel: Kernel, a: GrowingState, b: GrowingState, seed: int
    ) -> tuple[GrowingState, Array | None, Array | None]:
        """Offer the points of one model to the other, by the same criterion as rows."""
        if same_points(a.span, b.span):
            return a, None, None
        joint, carry = self.offer(kernel, a, b.span.points, seed)
        return joint, carry, transition(kernel, b.span, joint.span)

    def offer(
        self, kernel: Kernel, state: GrowingState, points: Array, seed: int
    ) -> tuple[GrowingState, Array]:
        """The state that has seen some points, and the matrix that carries old coordinates there.

        That matrix is an identity padded with zeros unless the factor was strained on the way.
        """
        clock = Clock(seed, 0)
        carry = like(np.eye(state.span.rank), state.span.factor)
        start = 0
        while start < points.shape[0]:
            state, block = self.admit(kernel, state, points[start:, :], None, clock)
            start += int(block.Z.shape[0])
            carry = padded(carry, (state.span.rank, int(carry.shape[1])))
            change = self.revise(kernel, state, clock)
            if change is not None:
                state, carry = change[0], change[1] @ carry
        return state, carry


@dataclass
class _Block:
    """Rows of a block and the factor, while landmarks are appended to it one by one."""

    Z: Array
    energy: Array
    residual: Array
    factor: Array
    rank: int
    similarity: np.ndarray | None = None  # the largest of each row with a landmark
    surplus: int = 0  # a factor from eigenvectors may have more landmarks than coordinates

    def reserve(self, most: int) -> None:
        """Make room for this number of coordinates."""
        self.surplus = int(self.factor.shape[0]) - self.rank
        self.Z = padded(self.Z, (int(self.Z.shape[0]), most))
        self.factor = padded(self.factor, (most + self.surplus, most))

    def append(self, row: int, column: Array) -> None:
        """Append a row as a landmark, given its kernel values with all rows."""
        m, end = self.rank, self.rank + self.surplus
        z, pivot = self.Z[row, :m], float(self.residual[row]) ** 0.5
        # z_new(x) = (k(x, x_i) − z(x)·z_i)/√ε_i for this row and the later ones
        self.Z[row:, m] = (column[row:] - self.Z[row:, :m] @ z) / pivot
        self.Z[row, m] = pivot
        # F' = [[F, −F z_i/√ε_i], [0, 1/√ε_i]]: the inverse Cholesky factor, appended to
        self.factor[:end, m] = -(self.factor[:end, :m] @ z) / pivot
        self.factor[end, m] = 1.0 / pivot
        self.residual = self.residual - self.Z[:, m] ** 2
        self.rank += 1

    @property
    def last_column(self) -> Array:
        """The last column of the factor."""
        return self.factor[: self.rank + self.surplus, self.rank - 1 : self.rank]

    @property
    def grown_factor(self) -> Array:
        """The factor of the landmarks so far."""
        grown = self.factor[: self.rank + self.surplus, : self.rank]
        return namespace_of(grown).asarray(grown, copy=True)


def _largest(similarities: np.ndarray | None) -> np.ndarray | None:
    return None if similarities is None else similarities.max(axis=1, initial=-np.inf)


def _strained(factor: np.ndarray, energies: np.ndarray) -> bool:
    """Whether rounding, which the factor amplifies, would be seen in a residual."""
    return bool(np.abs(factor * np.sqrt(energies)[:, None]).max(initial=0.0) > STRAINED)


def _clip(residual: Array) -> Array:
    return namespace_of(residual).clip(residual, min=0.0)
