"""Cell means that follow the stream: the default basis.

k-means centroids span kernel PCA far better than sampled points do: averaging removes the noise of
single rows, and the distances that a stationary kernel needs are the distances that k-means needs.
What is needed beyond k-means is a policy for streams: the points are the means of all rows in their
cells so far, refreshed each time the rows have doubled; when the residual rises, the stream
has moved, and a quarter of the points moves with it; a reservoir of rows corrects the statistics
that were gathered in older bases.
"""

# Long because a basis has many verbs: each is short, and what they work with has its own module
# (state, cells, kmeans, tolerance, sample).

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from kernelstream.backends.arrays import (
    Array,
    as_dense,
    cast,
    concatenate_rows,
    like,
    sum_by_label,
    take_rows,
    to_float64,
    to_host,
)
from kernelstream.backends.draws import generator
from kernelstream.bases.base import (
    Basis,
    Clock,
    Correction,
    Projection,
    Span,
    distinct_rows,
    factorise,
    finite,
    onto,
    refactorise,
    residual_energy,
    same_points,
    transition,
)
from kernelstream.bases.centroids.cells import joint_points, new_points, sums_of
from kernelstream.bases.centroids.kmeans import assign, lloyd, lloyd_pass, nearest, seed_points
from kernelstream.bases.centroids.sample import Reservoir, detach, last, with_recent
from kernelstream.bases.centroids.state import CentroidsState
from kernelstream.bases.centroids.tolerance import Growth, missed_most
from kernelstream.bases.distance import Distance
from kernelstream.bases.growing import GrowingState
from kernelstream.files import stored
from kernelstream.kernels import Kernel
from kernelstream.part import check_count, check_number

# The constants of the policy, found on MNIST, Elec2, Frey faces and Adult streams; what each is
# worth, beside smaller and larger values: docs/centroids.md.
START_STEPS = 3  # Lloyd steps on the start buffer; the stream moves the points further
MOVED_SHARE = 0.25  # points replaced when the stream has moved
REFRESH_FACTOR = 2.0  # points are refreshed each time the rows have grown by this factor
RELOCATED_SHARE = 0.02  # points replaced at such a refresh
SETTLED = 1000  # rows a point after which these refreshes stop: the means have converged
GROWN_FROM = 32  # points at the start when there is a tolerance
GROWTH_ROWS = 1000  # sampled rows that measure what is missed then
JOINS = 1e-6  # share of its energy that is missed of a row that becomes a point while there is room
QUERY_SHARE = 0.10  # a query refreshes a copy when this share of the rows came since the last


@stored
class Centroids(Basis[CentroidsState]):
    """k-means centroids that follow the stream.

    Parameters
    ----------
    n_points : int
        Number of points m. Memory is O(m² + m d), work per row O(m d + m²).
    tolerance : float or None
        Share of the variance in feature space that may be missed, for example 0.05. The basis then
        starts with 32 points and grows, up to ``n_points``, until the estimated missed share is
        below; the certificate says what is certain.
    follows : bool
        False keeps the points that the first rows gave. No moment is then ever carried into
        another basis, which a regression with a weak ridge would notice; a stream that moves
        leaves such points behind.
    refinements : int
        Further passes of ``fit`` over rows in memory, in which only the points learn: Lloyd steps,
        with points that hardly any row needs moved to where they help. Each costs about as much as
        the kernel values of all rows; five bring most of the gain. Streams, files and clusters,
        whose rows are gone, do without.

    Notes
    -----
    The first ``max(10 m, 500)`` rows are kept as they are and give the first centroids; then one
    pass, in blocks. Centroids live in input space and serve every kernel that is smooth there; the
    cells are Euclidean whatever the kernel. With at most ``n_points`` different rows the points are
    those rows and the model is exact. Where the start has fewer (a machine at rest), later rows
    become points as they come, until there are ``n_points``.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA, bases
    >>> X = np.random.default_rng(0).normal(size=(2000, 4))
    >>> model = StreamingKernelPCA(2, basis=bases.Centroids(50), random_state=0).partial_fit(X)
    >>> model.basis_points_.shape
    (50, 4)
    """

    order_free = True
    preferred_on_device = 16384  # the points are revised at block ends: not too rarely

    def __init__(
        self,
        n_points: int = 256,
        tolerance: float | None = None,
        follows: bool = True,
        refinements: int = 0,
    ):
        self.n_points = n_points
        self.tolerance = tolerance
        self.follows = follows
        self.refinements = refinements

    @property
    def settles_late(self) -> bool:  # type: ignore[override]
        """Points that stay where the first rows put them need no second pass."""
        return bool(self.follows)

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""
        check_count("Centroids", "n_points", self.n_points, none_allowed=False)
        if self.tolerance is not None:
            check_number("Centroids", "tolerance", self.tolerance, above=0, below=1)
        if not isinstance(self.follows, bool | np.bool_):
            raise ValueError(f"Centroids: follows must be True or False, got {self.follows!r}.")
        if self.tolerance is not None and not self.follows:
            raise ValueError("Centroids: a basis that grows to a tolerance has to follow the rows.")
        whole = isinstance(self.refinements, numbers.Integral)
        if not whole or isinstance(self.refinements, bool) or self.refinements < 0:
            raise ValueError(
                "Centroids: refinements must be a whole number of passes, 0 or more, got "
                f"{self.refinements!r}."
            )
        if self.refinements and not self.follows:
            raise ValueError("Centroids: points that are refined have to follow the rows.")

    # -- sizes that follow from the number of points

    @property
    def size(self) -> int:
        """Number of points."""
        return self.n_points

    @property
    def _first_points(self) -> int:
        """Points at the start."""
        return self.n_points if self.tolerance is None else min(self.n_points, GROWN_FROM)

    def start_rows(self) -> int:
        """Ten rows a point, at least 500."""
        return max(10 * self._first_points, 500)

    @property
    def _reservoir_rows(self) -> int:
        return 5 * self.n_points if self.tolerance is None else 2000

    @property
    def _recent_rows(self) -> int:
        return 4 * self.n_points if self.tolerance is None else 1000

    @property
    def _window(self) -> int:
        """Rows over which the residual is averaged."""
        return max(500, 2 * self._first_points)

    @property
    def _pause(self) -> int:
        """Rows between two moves of the points."""
        return max(5 * self._first_points, 1000)

    def _next_refresh(self, n: int) -> int:
        """Rows at which the points are refreshed next, after n rows."""
        return math.ceil(REFRESH_FACTOR * n)

    # -- verbs

    def begin(
        self, kernel: Kernel, X: Array, weights: np.ndarray | None, seed: int
    ) -> CentroidsState:
        """k-means on the first rows, which are not yet counted in their cells."""
        w = np.ones(X.shape[0]) if weights is None else weights
        first = self._first_points
        chosen = distinct_rows(X, first)
        rng = generator(seed, "start")
        if chosen is not None:
            points = as_dense(take_rows(X, chosen))
        else:
            points = lloyd(X, w, seed_points(X, w, first, rng), START_STEPS, rng)
        span = factorise(kernel, points)
        Z = span.coordinates(kernel, X)
        energy = kernel.diag(span.rows(X))
        unit = float(np.average(to_host(energy).astype(float), weights=w)) or 1.0
        missed = to_host(residual_energy(energy, Z)).astype(float) / unit
        residual = float(np.average(missed, weights=w))
        n = X.shape[0]
        reference = 1.15 * residual  # in-sample residuals are too small
        return CentroidsState(
            span=span,
            # The start buffer is folded again as the first blocks: its rows are counted there.
            mass=np.zeros(points.shape[0]),
            sums=like(np.zeros(tuple(points.shape)), points),
            reservoir=Reservoir(self._reservoir_rows),
            recent=(),
            n=0,
            refreshed_at=n,
            next_refresh=self._next_refresh(n),
            residual=reference,
            variance=float(np.average((missed - residual) ** 2, weights=w)),
            reference=reference,
            unit=unit,
            work=0.0,
            work_refreshing=0.0,
            growth=None if self.tolerance is None else Growth.of(like(np.zeros(span.rank), points)),
        )

    def project(
        self,
        kernel: Kernel,
        state: CentroidsState,
        X: Array,
        weights: np.ndarray | None,
        clock: Clock,
    ) -> tuple[CentroidsState, Projection]:
        """Express a block, add its rows to their cells, and watch the residual."""
        labels, K = assign(kernel, X, state.span)
        Z = K @ state.span.projector
        energy = kernel.diag(state.span.rows(X))
        block = Projection(Z, energy, residual_energy(energy, Z))
        joined = self._joined(kernel, state, X, block, clock)
        if joined is not None:
            state, block = joined
            Z, (labels, _) = block.Z, nearest(X, state.span.points)
        missed = block.residual
        m = state.span.points.shape[0]
        n = X.shape[0]
        sums = sum_by_label(X, labels, m, weights)
        sums += state.sums * clock.decay
        watched = to_host(finite(missed, kernel)).astype(float) / state.unit
        residual = float(np.average(watched, weights=weights))
        spread = float(np.average((watched - residual) ** 2, weights=weights))
        pace = min(1.0, n / self._window)
        state = replace(
            state,
            mass=state.mass * clock.decay + np.bincount(labels, weights, minlength=m),
            sums=sums,
            reservoir=state.reservoir.offer(X, Z, weights, clock),
            recent=with_recent(state.recent, X, self._recent_rows),
            n=state.n + n,
            residual=state.residual + pace * (residual - state.residual),
            work=state.work + n * state.row_work,
        )
        if state.growth is not None:
            grown = state.growth.fold(Z, energy, missed, weights, clock.decay)
            state = replace(state, growth=grown)
        if not state.has_moved(self._window):
            state = replace(state, variance=state.variance + pace * (spread - state.variance))
        return state.judged(), block

    def detach(self, state: CentroidsState) -> CentroidsState:
        """Copy the recent rows, which no block replaces now."""
        return replace(state, recent=detach(state.recent))

    def revise(
        self, kernel: Kernel, state: CentroidsState, clock: Clock
    ) -> tuple[CentroidsState, Array] | None:
        """Refresh the points now and then, move or add some when the stream asks for it."""
        if not self.follows:
            return None
        lacking = self._lacking(state, more_rows_come=True)
        if lacking:
            return self._grow(kernel, state, clock, lacking)
        if not state.affords_refresh(self._window):
            return None
        due = state.n >= state.next_refresh and state.n <= SETTLED * state.span.points.shape[0]
        waited = state.n - state.refreshed_at >= self._pause * state.patience
        if due and state.can_gain:
            changed, T = self._refresh(kernel, state, clock, RELOCATED_SHARE)
            return replace(changed, next_refresh=self._next_refresh(state.n)), T
        if state.has_moved(self._window) and waited:
            changed, T = self._refresh(kernel, state, clock, MOVED_SHARE, moved=True)
            return (
                replace(
                    changed,
                    judged_at=state.n + self._pause,
                    residual_before=state.residual,
                ),
                T,
            )
        return None

    def settle(
        self, kernel: Kernel, state: CentroidsState, clock: Clock
    ) -> tuple[CentroidsState, Array] | None:
        """Move the points to the present means of their cells if many rows came since.

        No point is relocated here: a new cell is the mean of a few rows only, and a query has no
        time to fill it. But points are added until the tolerance holds: a stream waits for more
        rows between two steps, and there may be none.
        """
        came = state.n - state.refreshed_at
        T: Array | None = None
        if self.follows and came > QUERY_SHARE * state.n and state.can_gain:
            state, T = self._refresh(kernel, state, clock, 0.0)
        while (lacking := self._lacking(state, more_rows_come=False)) > 0:
            grown = self._grow(kernel, state, clock, lacking)
            if grown is None:
                break
            state, T = grown[0], grown[1] if T is None else grown[1] @ T
        return None if T is None else (state, T)

    def finish(
        self,
        kernel: Kernel,
        state: CentroidsState,
        clock: Clock,
        read: Callable[[], Iterable[tuple[Array, np.ndarray | None]]] | None = None,
    ) -> CentroidsState:
        """Refine and settle the points; the sample counts as folded in the basis they give."""
        for left in reversed(range(self.refinements)):
            if read is not None and state.can_gain:
                points, mass = lloyd_pass(state.span.points, read(), divide=left > 0)
                state, _ = self._changed(kernel, state, points, mass, sums_of(points, mass))
        state, _ = self.settle(kernel, state, clock) or (state, None)
        return replace(state, reservoir=state.reservoir.folded_anew(kernel, state.span))

    def correction(self, kernel: Kernel, state: CentroidsState) -> Correction | None:
        """The sampled rows, in the present basis and as they were folded."""
        return state.reservoir.correction(kernel, state.span)

    def merge(
        self, kernel: Kernel, a: CentroidsState, b: CentroidsState, seed: int
    ) -> tuple[CentroidsState, Array | None, Array | None]:
        """All points of both, and weighted k-means back to the larger size."""
        shared = same_points(a.span, b.span)
        if shared:
            span, to_a, to_b = a.span, None, onto(kernel, b.span, a.span)
            mass, sums = a.mass + b.mass, a.sums + b.sums
            ours = a.reservoir
            theirs = b.reservoir if to_b is None else b.reservoir.rebase(to_b)
        else:
            rng = generator(seed, "merge", a.n + b.n)
            most = max(a.span.points.shape[0], b.span.points.shape[0], self._first_points)
            points, mass = joint_points(a.cells, b.cells, most, rng)
            span = factorise(kernel, points)
            to_a, to_b = transition(kernel, a.span, span), transition(kernel, b.span, span)
            sums = sums_of(points, mass)
            ours, theirs = a.reservoir.rebase(to_a), b.reservoir.rebase(to_b)
        reservoir = ours.merge(theirs)
        residual, variance = reservoir.residual(kernel, span, a.unit, self._window)
        n = a.n + b.n
        growth = None
        if a.growth is not None and b.growth is not None:
            growth = a.growth.merge(b.growth, to_a, to_b)
            growth = replace(growth, missed=growth.weight * residual * a.unit, changed_at=n)
        joint = replace(
            a,
            span=span,
            mass=mass,
            sums=sums,
            reservoir=reservoir,
            recent=with_recent(a.recent, last(b.recent, self._recent_rows), self._recent_rows),
            n=n,
            refreshed_at=n,
            next_refresh=self._next_refresh(n),
            residual=residual,
            variance=variance,
            reference=residual,
            work=a.work + b.work,
            work_refreshing=a.work_refreshing + b.work_refreshing,
            patience=1,
            judged_at=0,
            growth=growth,
        )
        return joint, to_a, to_b

    # -- how the points change

    def _joined(
        self, kernel: Kernel, state: CentroidsState, X: Array, block: Projection, clock: Clock
    ) -> tuple[CentroidsState, Projection] | None:
        """While there are fewer points than there may be, rows that are no point yet become points.

        The start of the stream had few different rows: a machine at rest, or data of few values,
        of which some come later. None where no row is missed, or there is no room.
        """
        if not self.follows or state.span.points.shape[0] >= self._first_points:
            return None
        missed, energy = to_host(finite(block.residual, kernel)), to_host(block.energy)
        if not bool(np.any(missed > JOINS * energy)):
            return None
        energies = to_host(to_float64(kernel.diag(state.span.points)))
        span = replace(state.span, projector=state.span.factor)
        rule = Distance(np.finfo(float).tiny, self._first_points)
        grown, wide = rule.project(kernel, GrowingState(span, energies), X, None, clock)
        if not wide.admitted or wide.Z.shape[0] < X.shape[0]:  # the factor would be strained
            return None
        points, factor = grown.span.points, grown.span.factor
        span = Span.of(kernel, points, factor, kernel.gram(to_float64(points)))
        Z, new = cast(wide.Z, span.projector.dtype), len(wide.admitted)
        padding = like(np.eye(grown.span.rank, state.span.rank), factor)
        growth = state.growth
        joined = replace(
            state,
            span=span,
            mass=np.concatenate([state.mass, np.zeros(new)]),
            sums=concatenate_rows([state.sums, 0.0 * to_float64(points[-new:, :])]),
            reservoir=state.reservoir.rebase(padding),
            growth=None if growth is None else replace(growth, total=padding @ growth.total),
        )
        return joined, replace(
            wide,
            Z=Z,
            energy=cast(wide.energy, Z.dtype),
            residual=cast(wide.residual, Z.dtype),
        )

    def _lacking(self, state: CentroidsState, more_rows_come: bool) -> int:
        """Points to add for the tolerance."""
        if state.growth is None or self.tolerance is None:
            return 0
        growth, m = state.growth, int(state.span.points.shape[0])
        if more_rows_come:
            return min(growth.wanted(self.tolerance, m, state.n), self.n_points - m)
        return min(growth.lacking(self.tolerance, m), self.n_points - m)

    def _grow(
        self, kernel: Kernel, state: CentroidsState, clock: Clock, count: int
    ) -> tuple[CentroidsState, Array] | None:
        """Add rows of which much is missed, from one half of the sample and the recent rows."""
        rows = as_dense(
            concatenate_rows([state.reservoir.candidates(), last(state.recent, self._recent_rows)])
        )
        rng = generator(clock.seed, "growth", state.n)
        chosen = missed_most(kernel, state.span, rows, count, rng)
        if len(chosen) == 0:
            return None
        fresh = cast(take_rows(rows, chosen), state.span.points.dtype)
        points = concatenate_rows([state.span.points, fresh])
        mass = np.concatenate([state.mass, np.zeros(len(chosen))])
        sums = concatenate_rows([state.sums, 0.0 * to_float64(fresh)])
        return self._changed(kernel, state, points, mass, sums)

    def _refresh(
        self,
        kernel: Kernel,
        state: CentroidsState,
        clock: Clock,
        share: float,
        moved: bool = False,
    ) -> tuple[CentroidsState, Array]:
        """Move every point to the mean of its cell, and the least useful share to new places."""
        rng = generator(clock.seed, "refresh", state.n)
        recent = last(state.recent, self._recent_rows)
        m = max(state.span.points.shape[0], self._first_points)
        points, mass = new_points(state.cells, recent, rng, m, share, moved)
        return self._changed(kernel, state, points, mass, sums_of(points, mass))

    def _changed(
        self, kernel: Kernel, state: CentroidsState, points: Array, mass: np.ndarray, sums: Array
    ) -> tuple[CentroidsState, Array]:
        """The state with other points, and the matrix that carries coordinates there."""
        span = refactorise(kernel, points)
        T = transition(kernel, state.span, span)
        reservoir = state.reservoir.rebase(T)
        residual, variance = reservoir.residual(kernel, span, state.unit, self._window)
        growth = state.growth
        if growth is not None:
            # on the rows that were no candidates
            missed, _ = reservoir.residual(kernel, span, 1.0, GROWTH_ROWS, held_back=True)
            growth = growth.rebase(T, missed, state.n)
        return (
            replace(
                state,
                span=span,
                mass=mass,
                sums=sums,
                reservoir=reservoir,
                refreshed_at=state.n,
                residual=residual,
                reference=residual,
                variance=variance,
                work_refreshing=state.work_refreshing + state.refresh_work(self._window),
                growth=growth,
            ),
            T,
        )
