"""Growing landmark sets: blocked admission of rows, Cholesky update, exchange, maximum number.

For a block of rows, one kernel product and one product with the factor give all coordinates and
residuals. Rows that pass the criterion are admitted in order. Each admission adds one coordinate
to the later rows of the block, a left-looking Cholesky step, and leaves the earlier ones zero:
exactly what happens when rows come one at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

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
    NEGATIVE_SHARE,
    Basis,
    Clock,
    Projection,
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
TILE_ROWS = 64  # of a block, at least, that a thread computes kernel values of

# Rows of a smooth kernel in sorted order: each adds a little, all are dependent.
_CURE = (
    "Shuffle the rows, use a narrower kernel, or a basis for rows in any order: "
    "landmarks.Centroids."
)


@stored
@dataclass(frozen=True)
class GrowingState:
    """The span and the energies k(d, d) of its points."""

    ON_HOST: ClassVar[frozenset[str]] = frozenset({"energies", "usage"})

    span: Span
    energies: Annotated[np.ndarray, "float64 (points), not negative"]
    # where points may be exchanged: the recent squared coefficients of the rows over each point
    usage: Annotated[np.ndarray | None, "float64 (points), not negative"] = None
    # rows of the block that found no room, until its end
    waiting: Annotated[Array | None, "float (?, features)"] = None


class Growing(Basis[GrowingState]):
    """Common to the criteria: everything but the decision whether a row becomes a point.

    Coordinates are computed in float64 whatever the rows' type: the decisions are exact, and a
    Cholesky factor in float32 would not survive long.
    """

    preferred_batch = 256
    starts_empty = True
    #: Whether the criterion looks at the coherence of a row with the points.
    uses_coherence = False
    #: The first so many rows become points whatever the criterion says, if they are independent.
    first: int = 0
    max_points: int | None = None
    #: Rows after which a point that no row needs any more may be exchanged; None: never.
    exchange: int | None = None

    @abstractmethod
    def admissible(
        self, residual: np.ndarray, energy: np.ndarray, coherence: np.ndarray | None
    ) -> np.ndarray:
        """Which rows the criterion would admit, given the present points."""

    def begin(
        self, kernel: Kernel, X: Array, weights: np.ndarray | None, seed: int, wanted: int = 0
    ) -> GrowingState:
        """Start with no points."""
        xp = namespace_of(X)
        nothing = like(np.zeros((0, X.shape[1])), X, X.dtype)
        factor = like(np.zeros((0, 0)), X, xp.float64)
        usage = None if self.exchange is None else np.zeros(0)
        return GrowingState(Span(nothing, factor, factor), np.zeros(0), usage)

    def holding(self, kernel: Kernel, span: Span) -> GrowingState:
        """The state with these points, in the coordinates that their factor gives."""
        energies = to_host(to_float64(kernel.diag(to_float64(span.points))))
        usage = None if self.exchange is None else np.zeros(len(energies))
        return GrowingState(span, energies, usage)

    def revise(
        self, kernel: Kernel, state: GrowingState, clock: Clock
    ) -> tuple[GrowingState, Array] | None:
        """Exchange points where that is wanted; take them in a better order when need be.

        Points that depend on the others in that order are given up: what is lost of each is below
        `DEPENDENT` of its energy, as if it had never been admitted.
        """
        if state.waiting is not None:
            return self._exchange(kernel, state, clock)
        if not _strained(to_host(state.span.factor), state.energies):
            return None
        kept_state = _keep(kernel, state, np.arange(len(state.energies)))
        return kept_state, transition(kernel, state.span, kept_state.span)

    def _exchange(
        self, kernel: Kernel, state: GrowingState, clock: Clock
    ) -> tuple[GrowingState, Array | None]:
        """Rows that found no room take the places of points that recent rows needed less.

        Without the point k the squared distance of a row to the span grows by ``β_k²/(K⁻¹)_kk``, β
        its coefficients over the points. A point is given up where all recent rows together would
        lose less than the waiting row, alone, would gain: its own squared distance.
        """
        assert state.waiting is not None and state.usage is not None
        settled = replace(state, waiting=None)
        F = to_host(state.span.factor)
        losses = state.usage / np.maximum(row_norms_squared(F), np.finfo(float).tiny)
        waiting = to_float64(state.waiting)
        Z = state.span.coordinates(kernel, waiting)
        gains = to_host(kernel.diag(waiting) - row_norms_squared(Z))
        victims = np.argsort(losses, kind="stable")[: len(gains)]
        best = np.argsort(-gains, kind="stable")[: len(victims)]
        n_out = int(np.sum(np.cumprod(losses[victims] < gains[best])))
        if n_out == 0:
            return settled, None
        newcomers = take_rows(state.waiting, np.sort(best[:n_out]))
        while n_out:
            left = np.setdiff1d(np.arange(len(losses)), victims[:n_out])
            fewer = _keep(kernel, settled, left)
            # by the criterion, as ever: rows that wait may resemble each other
            joined, _ = self.offer(kernel, fewer, newcomers, clock.seed)
            n_in = len(joined.energies) - len(fewer.energies)
            if n_in >= n_out:
                joined = replace(joined, waiting=None)
                return joined, transition(kernel, state.span, joined.span)
            n_out = n_in  # as many points go as rows come
        return settled, None

    def coordinates(self, kernel: Kernel, state: GrowingState, X: Array) -> Array:
        """Coordinates of rows, in float64."""
        return state.span.coordinates(kernel, to_float64(X))

    def measures(self, state: GrowingState) -> bool:
        """Rows become points while they are read."""
        return False

    def project(
        self,
        kernel: Kernel,
        state: GrowingState,
        X: Array,
        weights: np.ndarray | None,
        clock: Clock,
    ) -> tuple[GrowingState, Projection]:
        """Express a block and admit its new points in order.

        The projection ends early, with the row that strained the factor: ``revise`` must come
        before the next one.
        """
        rows = to_float64(X)
        points = state.span.prepared(kernel, rows)
        size = int(state.span.points.shape[0])
        K = finite(by_rows(lambda x: kernel.block(x, points), rows, size, TILE_ROWS), kernel)
        Z = by_rows(lambda k: k @ state.span.factor, K, size, TILE_ROWS)
        energy = finite(kernel.diag(rows), kernel)
        residual = energy - row_norms_squared(Z)
        host_energy = to_host(energy)
        coherence = self._coherence(K, host_energy, state.energies)
        m = state.span.rank
        now = self._admits(kernel, m, to_host(residual), host_energy, coherence)
        if m < self.first:  # the criterion takes over in this block, maybe
            now |= self._admits(kernel, self.first, to_host(residual), host_energy, coherence)
        candidates = np.flatnonzero(now)
        n_points = int(state.span.points.shape[0])
        room = None if self.max_points is None else self.max_points - n_points
        if m == 0 and len(candidates) == 0:
            # No row has energy. Then they are all zero in feature space, or the kernel (a distance
            # taken for one, say) is not semidefinite, which no residual would ever show.
            factorise(kernel, as_dense(rows))
        if len(candidates) and room == 0 and state.usage is not None:
            found = as_dense(take_rows(X, candidates))
            state = replace(state, waiting=cast(found, state.span.points.dtype))
        if len(candidates) == 0 or room == 0:
            return self._used(state, Z), Projection(Z, energy, _clip(residual))
        grown, block = self._admit(
            kernel, state, X, rows, Z, energy, residual, coherence, candidates, room
        )
        return self._used(grown, block.Z), block

    def _used(self, state: GrowingState, Z: Array) -> GrowingState:
        """Add how much a block needed each point to what is remembered of earlier ones."""
        if state.usage is None or self.exchange is None:
            return state
        beta = to_host(Z) @ to_host(state.span.factor).T
        faded = (1.0 - 1.0 / self.exchange) ** np.arange(len(beta) - 1.0, -1.0, -1.0)
        old = np.zeros(beta.shape[1])
        old[: len(state.usage)] = state.usage
        left = (1.0 - 1.0 / self.exchange) ** len(beta)
        return replace(state, usage=left * old + faded @ beta**2)

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
            state, block = self.project(kernel, state, points[start:, :], None, clock)
            start += int(block.Z.shape[0])
            carry = padded(carry, (state.span.rank, int(carry.shape[1])))
            change = self.revise(kernel, state, clock)
            if change is not None:
                state, carry = change[0], change[1] @ carry
        return state, carry

    def _admit(
        self,
        kernel: Kernel,
        state: GrowingState,
        X: Array,
        rows: Array,
        Z: Array,
        energy: Array,
        residual: Array,
        coherence: np.ndarray | None,
        candidates: np.ndarray,
        room: int | None,
    ) -> tuple[GrowingState, Projection]:
        """Admit candidates in order; one coordinate more for this row and the later ones each."""
        xp = namespace_of(Z)
        n, m = Z.shape
        most = m + (len(candidates) if room is None else min(room, len(candidates)))
        # A factor from eigenvectors may have more points than coordinates.
        surplus = int(state.span.points.shape[0]) - m
        # Residuals only fall and coherences only rise while points are admitted, so no row outside
        # `candidates` can join.
        chosen = to_float64(as_dense(take_rows(rows, candidates)))
        columns = finite(kernel.block(rows, chosen), kernel)  # k(x, candidate)
        Zg = padded(Z, (n, most))
        F = padded(state.span.factor, (most + surplus, most))
        host_energy = to_host(energy)
        admitted: list[int] = []
        for column, i in enumerate(candidates):
            if m == most:
                break
            now = self._admits(kernel, m, to_host(residual), host_energy, coherence)
            if not now[i]:
                continue
            pivot = float(residual[i]) ** 0.5
            z = Zg[i, :m]
            # z_new(x) = (k(x, x_i) − z(x)·z_i)/√ε_i for this row and the later ones
            Zg[i:, m] = (columns[i:, column] - Zg[i:, :m] @ z) / pivot
            Zg[i, m] = pivot
            # F' = [[F, −F z_i/√ε_i], [0, 1/√ε_i]]: the inverse Cholesky factor, appended to
            F[: m + surplus, m] = -(F[: m + surplus, :m] @ z) / pivot
            F[m + surplus, m] = 1.0 / pivot
            residual = residual - Zg[:, m] ** 2
            if coherence is not None:
                new = self.resemblance(to_host(columns[:, column]), host_energy, host_energy[i])
                coherence = np.maximum(coherence, new)
            admitted.append(int(i))
            m += 1
            energies = np.concatenate([state.energies, host_energy[admitted]])
            if _strained(to_host(F[: m + surplus, m - 1 : m]), energies):
                n = int(i) + 1
                break
        points = concatenate_rows(
            [state.span.points, cast(as_dense(take_rows(X, admitted)), state.span.points.dtype)]
        )
        factor = xp.asarray(F[: m + surplus, :m], copy=True)
        grown = GrowingState(
            Span(points, factor, factor),
            np.concatenate([state.energies, host_energy[admitted]]),
            None if state.usage is None else np.append(state.usage, np.zeros(len(admitted))),
        )
        last = admitted[-1] if admitted else 0
        return grown, Projection(
            Zg[:n, :m],
            energy[:n],
            _clip(residual[:n]),
            last,
            tuple(admitted),
            kernel.rounding.extent(chosen, shifted=not is_sparse(rows)),
        )

    def _admits(
        self,
        kernel: Kernel,
        n_points: int,
        residual: np.ndarray,
        energy: np.ndarray,
        coherence: np.ndarray | None,
    ) -> np.ndarray:
        """Which rows would be admitted now; raise where a residual is negative beyond rounding."""
        if len(energy):
            worst = int(np.argmin(residual + NEGATIVE_SHARE * energy))
            require_semidefinite(kernel, float(residual[worst]), float(energy[worst]), _CURE)
        if n_points < self.first:
            return residual > DISTINCT * energy
        return self.admissible(residual, energy, coherence) & (residual > DEPENDENT * energy)

    def _coherence(self, K: Array, energy: np.ndarray, energies: np.ndarray) -> np.ndarray | None:
        if not self.uses_coherence:
            return None
        if len(energies) == 0:
            return np.full(len(energy), -np.inf)
        return self.resemblance(to_host(K), energy[:, None], energies[None, :]).max(axis=1)

    def resemblance(
        self, K: np.ndarray, energy: np.ndarray, energies: np.ndarray | float
    ) -> np.ndarray:
        """How much rows resemble points: |k(x,d)| / √(k(x,x) k(d,d)).

        Rows without energy resemble everything.
        """
        # the root of each factor: the product of two energies may leave the range of float64
        norms = np.sqrt(energy) * np.sqrt(energies)
        return np.divide(np.abs(K), norms, out=np.ones_like(K), where=norms > 0)


def _keep(kernel: Kernel, state: GrowingState, left: np.ndarray) -> GrowingState:
    """Some of the points, in the order of a pivoted Cholesky factor."""
    points = take_rows(state.span.points, left)
    span, order = independent(kernel, points, state.energies[left], DEPENDENT)
    kept = left[order]
    usage = None if state.usage is None else state.usage[kept]
    return replace(state, span=span, energies=state.energies[kept], usage=usage)


def check_exchange(name: str, exchange: Any, max_points: Any) -> None:
    """Raise unless exchange is None or a memory in rows, and there is a bound that it serves."""
    check_count(name, "exchange", exchange)
    if exchange is not None and max_points is None:
        raise ValueError(
            f"{name}: points are exchanged once there are max_points of them; give max_points, or "
            "exchange=None."
        )


def _strained(factor: np.ndarray, energies: np.ndarray) -> bool:
    """Whether rounding, which the factor amplifies, would be seen in a residual."""
    return bool(np.abs(factor * np.sqrt(energies)[:, None]).max(initial=0.0) > STRAINED)


def _clip(residual: Array) -> Array:
    return namespace_of(residual).clip(residual, min=0.0)
