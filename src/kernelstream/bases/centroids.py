"""Cell means that follow the stream: the default basis.

k-means centroids span kernel PCA far better than sampled points do: averaging removes the noise of
single rows, and the distances that a stationary kernel needs are the distances that k-means needs.
What is needed beyond k-means is a policy for streams: the points are the means of all rows in their
cells so far, refreshed each time the rows have grown by half; when the residual rises, the stream
has moved, and a quarter of the points moves with it; a reservoir of rows corrects the statistics
that were gathered in older bases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from kernelstream.backends.arrays import (
    Array,
    as_dense,
    cast,
    concatenate_rows,
    like,
    namespace_of,
    sum_by_label,
    take_rows,
    to_float64,
    to_host,
    weighted_gram,
    weighted_sum,
)
from kernelstream.backends.draws import generator
from kernelstream.bases.base import (
    Basis,
    Clock,
    Projection,
    Span,
    distinct_rows,
    factorise,
    finite,
    residual_energy,
    same_points,
    transition,
)
from kernelstream.bases.lloyd import draw_far, lloyd, nearest, seed_points
from kernelstream.bases.reservoir import Reservoir
from kernelstream.checks import check_count
from kernelstream.kernels import Kernel
from kernelstream.kernels.stationary import Euclidean

# The constants of the policy, found on MNIST, Elec2, Frey faces and Adult streams.
START_STEPS = 5  # Lloyd steps on the start buffer
RISE = 1.25  # the stream has moved when the residual is this much above its reference …
SIGMAS = 5.0  # … and by this many standard errors
MOVED_SHARE = 0.25  # points replaced when the stream has moved
REFRESH_FACTOR = 1.5  # points are refreshed each time the rows have grown by this factor
RELOCATED_SHARE = 0.02  # points replaced at such a refresh
RECENT_MASS = 0.10  # share of all rows that the recent ones count for when the stream has moved
MERGE_STEPS = 10  # weighted Lloyd steps on the points of two models
MOVED_STEPS = 3  # Lloyd steps when the stream has moved
WORK_SHARE = 0.05  # of the stream's work may go into refreshes …
WORK_CREDIT = 16.0  # … beyond this many at the start
SETTLED = 1000  # rows a point after which these refreshes stop: the means have converged
QUERY_SHARE = 0.10  # a query refreshes a copy when this share of the rows came since the last
REFERENCE_ROWS = 1000  # rows of the reservoir that measure the residual after a refresh


@dataclass(frozen=True)
class CentroidsState:
    """Span, cells and what the policy watches. Residuals are in units of the mean energy."""

    span: Span
    mass: np.ndarray  # (m,) weight of each cell
    sums: Array  # (m, d) Σ w x of each cell, float64
    reservoir: Reservoir
    recent: tuple[Array, ...]  # the last rows, block by block
    n: int  # rows seen
    refreshed_at: int  # rows seen at the last refresh
    next_refresh: int  # rows at which the next refresh is due
    residual: float  # moving average of ε/energy
    variance: float  # of ε/energy of single rows
    reference: float  # the residual that is normal for this basis
    unit: float  # mean energy k(x,x) of the start
    work: float  # multiplications spent on blocks
    work_refreshing: float
    patience: int = 1  # grows while moving the points does not help
    judged_at: int = 0  # rows at which the last move is judged (0: none is)
    residual_before: float = 0.0  # residual that caused the last move


class Centroids(Basis):
    """k-means centroids that follow the stream.

    Parameters
    ----------
    n_points : int
        Number of points m. Memory is O(m² + m d), work per row O(m d + m²).

    Notes
    -----
    The first ``max(10 m, 500)`` rows are kept as they are and give the first centroids; then one
    pass, in blocks. Centroids live in input space and serve every kernel that is smooth there; the
    cells are Euclidean whatever the kernel. With at most ``n_points`` different rows the points are
    those rows and the model is exact.

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

    def __init__(self, n_points: int = 256):
        self.n_points = n_points

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""
        check_count("Centroids", "n_points", self.n_points, none_allowed=False)

    # -- sizes that follow from the number of points

    def start_rows(self) -> int:
        """Ten rows a point, at least 500."""
        return max(10 * self.n_points, 500)

    @property
    def _recent_rows(self) -> int:
        return 4 * self.n_points

    @property
    def _window(self) -> int:
        """Rows over which the residual is averaged."""
        return max(500, 2 * self.n_points)

    @property
    def _pause(self) -> int:
        """Rows between two moves of the points."""
        return max(5 * self.n_points, 1000)

    # -- verbs

    def begin(
        self, kernel: Kernel, X: Array, weights: np.ndarray | None, seed: int
    ) -> CentroidsState:
        """k-means on the first rows; cells start with the masses found there, not yet counted."""
        w = np.ones(X.shape[0]) if weights is None else weights
        chosen = distinct_rows(X, self.n_points)
        rng = generator(seed, "start")
        if chosen is not None:
            points = as_dense(take_rows(X, chosen))
        else:
            points, _ = lloyd(X, w, seed_points(X, w, self.n_points, rng), START_STEPS, rng)
        span = factorise(kernel, points)
        labels, _ = nearest(X, points)
        mass = np.bincount(labels, w, minlength=points.shape[0])
        Z = span.coordinates(kernel, X)
        energy = kernel.diag(X)
        unit = float(np.average(to_host(energy).astype(float), weights=w)) or 1.0
        missed = to_host(residual_energy(energy, Z)).astype(float) / unit
        residual = float(np.average(missed, weights=w))
        n = X.shape[0]
        reference = 1.15 * residual  # in-sample residuals are too small
        return CentroidsState(
            span=span,
            # The start buffer is folded again as the first blocks: its rows are counted there.
            mass=np.zeros(len(mass)),
            sums=like(np.zeros(tuple(points.shape)), points),
            reservoir=Reservoir(5 * self.n_points),
            recent=(),
            n=0,
            refreshed_at=n,
            next_refresh=math.ceil(REFRESH_FACTOR * n),
            residual=reference,
            variance=float(np.average((missed - residual) ** 2, weights=w)),
            reference=reference,
            unit=unit,
            work=0.0,
            work_refreshing=0.0,
        )

    def rank(self, state: CentroidsState) -> int:
        """Return the rank of K(D, D)."""
        return state.span.rank

    def coordinates(self, kernel: Kernel, state: CentroidsState, X: Array) -> Array:
        """Coordinates of rows."""
        return state.span.coordinates(kernel, X)

    def project(
        self,
        kernel: Kernel,
        state: CentroidsState,
        X: Array,
        weights: np.ndarray | None,
        clock: Clock,
    ) -> tuple[CentroidsState, Projection]:
        """Express a block, add its rows to their cells, and watch the residual."""
        labels, K = self._assign(kernel, state.span.points, X)
        Z = finite(K, kernel) @ state.span.projector
        energy = finite(kernel.diag(X), kernel)
        missed = residual_energy(energy, Z)
        m = state.span.points.shape[0]
        n = X.shape[0]
        sums = sum_by_label(X, labels, m, weights)
        sums += state.sums * clock.decay
        watched = to_host(missed).astype(float) / state.unit
        residual = float(np.average(watched, weights=weights))
        spread = float(np.average((watched - residual) ** 2, weights=weights))
        pace = min(1.0, n / self._window)
        state = replace(
            state,
            mass=state.mass * clock.decay + np.bincount(labels, weights, minlength=m),
            sums=sums,
            reservoir=state.reservoir.offer(X, Z, weights, clock),
            recent=self._keep_recent(state.recent, X),
            n=state.n + n,
            residual=state.residual + pace * (residual - state.residual),
            work=state.work + n * self._row_work(state),
        )
        if not self._has_moved(state):
            variance = state.variance + pace * (spread - state.variance)
            state = replace(state, variance=variance)
        return state, Projection(Z, energy, missed)

    def revise(
        self, kernel: Kernel, state: CentroidsState, clock: Clock
    ) -> tuple[CentroidsState, Array] | None:
        """Refresh the points now and then, move them when the stream has moved."""
        if state.judged_at and state.n >= state.judged_at:
            helped = state.residual <= 0.9 * state.residual_before
            patience = 1 if helped else min(2 * state.patience, 64)
            state = replace(state, patience=patience, judged_at=0)
        if not self._affordable(state):
            return None
        due = state.n >= state.next_refresh and state.n <= SETTLED * self.n_points
        waited = state.n - state.refreshed_at >= self._pause * state.patience
        if due and self._can_gain(state):
            changed, T = self._refresh(kernel, state, clock, RELOCATED_SHARE)
            return replace(changed, next_refresh=math.ceil(REFRESH_FACTOR * state.n)), T
        if self._has_moved(state) and waited:
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
        time to fill it.
        """
        came = state.n - state.refreshed_at
        if came <= QUERY_SHARE * state.n or not self._can_gain(state):
            return None
        return self._refresh(kernel, state, clock, 0.0)

    def correction(
        self, kernel: Kernel, state: CentroidsState
    ) -> tuple[Array, Array, float] | None:
        """What the sampled rows say about statistics that were gathered in older bases."""
        if len(state.reservoir) == 0:
            return None
        rows, old = state.reservoir.sample()
        Z, C = to_float64(state.span.coordinates(kernel, rows)), to_float64(old)
        scatter = weighted_gram(Z, None) - weighted_gram(C, None)
        return scatter, weighted_sum(Z, None) - weighted_sum(C, None), float(len(state.reservoir))

    def refreshed(self, kernel: Kernel, state: CentroidsState) -> CentroidsState:
        """Return the state whose reservoir was folded in the present basis."""
        rows, _ = state.reservoir.sample()
        Z = state.span.coordinates(kernel, rows)
        return replace(state, reservoir=state.reservoir.with_coordinates(Z))

    def merge(
        self, kernel: Kernel, a: CentroidsState, b: CentroidsState, seed: int
    ) -> tuple[CentroidsState, Array | None, Array | None]:
        """All points of both, and weighted k-means back to the larger size."""
        shared = same_points(a.span, b.span)
        if shared:
            span, to_a, to_b = a.span, None, None
            mass, sums = a.mass + b.mass, a.sums + b.sums
            ours, theirs = a.reservoir, b.reservoir
        else:
            points, mass = self._joint_points(a, b, seed)
            span = factorise(kernel, points)
            to_a, to_b = transition(kernel, a.span, span), transition(kernel, b.span, span)
            sums = to_float64(points) * like(mass, to_float64(points))[:, None]
            ours, theirs = a.reservoir.rebase(to_a), b.reservoir.rebase(to_b)
        reservoir = ours.merge(theirs)
        residual, variance = self._measure(kernel, span, reservoir, a.unit)
        n = a.n + b.n
        joint = replace(
            a,
            span=span,
            mass=mass,
            sums=sums,
            reservoir=reservoir,
            recent=self._keep_recent(a.recent, self._recent(b)),
            n=n,
            refreshed_at=n,
            next_refresh=math.ceil(REFRESH_FACTOR * n),
            residual=residual,
            variance=variance,
            reference=residual,
            work=a.work + b.work,
            work_refreshing=a.work_refreshing + b.work_refreshing,
            patience=1,
            judged_at=0,
        )
        return joint, to_a, to_b

    def _joint_points(
        self, a: CentroidsState, b: CentroidsState, seed: int
    ) -> tuple[Array, np.ndarray]:
        means = concatenate_rows([self._means(a), cast(self._means(b), a.span.points.dtype)])
        mass = np.concatenate([a.mass, b.mass])
        most = max(a.span.points.shape[0], b.span.points.shape[0], self.n_points)
        few = distinct_rows(means, most)
        if few is not None:
            points = take_rows(means, few)
        else:
            rng = generator(seed, "merge", a.n + b.n)
            heavy = np.sort(np.argsort(-mass, kind="stable")[:most])
            weights = np.maximum(mass, np.finfo(float).tiny)
            points, _ = lloyd(means, weights, take_rows(means, heavy), MERGE_STEPS, rng)
        labels, _ = nearest(means, points)
        return points, np.bincount(labels, mass, minlength=points.shape[0])

    # -- the policy's steps

    def _assign(self, kernel: Kernel, points: Array, X: Array) -> tuple[np.ndarray, Array]:
        """Nearest point of each row and the kernel block; one product where they share it."""
        xp = namespace_of(points)
        if isinstance(kernel, Euclidean):
            squared = kernel.squared_distances(X, points)
            labels = to_host(xp.argmin(squared, axis=1))
            return labels, cast(kernel.of_squared_distances(squared), X.dtype)
        return nearest(X, points)[0], kernel.block(X, points)

    def _keep_recent(self, recent: tuple[Array, ...], X: Array) -> tuple[Array, ...]:
        n = X.shape[0]
        keep = (*recent, take_rows(X, np.arange(max(0, n - self._recent_rows), n)))
        surplus = sum(int(block.shape[0]) for block in keep) - self._recent_rows
        while surplus >= keep[0].shape[0]:
            surplus -= int(keep[0].shape[0])
            keep = keep[1:]
        # Many tiny blocks (single rows) are joined so that their number stays small.
        return keep if len(keep) <= 32 else (concatenate_rows(list(keep)),)

    def _recent(self, state: CentroidsState) -> Array:
        rows = concatenate_rows(list(state.recent))
        first = max(0, rows.shape[0] - self._recent_rows)
        return rows[first:]

    def _has_moved(self, state: CentroidsState) -> bool:
        rise = state.residual - state.reference
        noise = math.sqrt(state.variance / self._window)
        return state.residual > RISE * state.reference and rise > SIGMAS * noise

    def _can_gain(self, state: CentroidsState) -> bool:
        """Nothing to gain where the points hold everything, as with few different rows."""
        return state.residual > 1e-9

    def _row_work(self, state: CentroidsState) -> float:
        m, d = state.span.points.shape
        return float(m * d + 2 * m * m)

    def _refresh_work(self, state: CentroidsState) -> float:
        m, d = state.span.points.shape
        spectral = 15.0 * m**3  # an eigenvalue problem and four products
        return spectral + 2.0 * m * m * d + REFERENCE_ROWS * self._row_work(state)

    def _affordable(self, state: CentroidsState) -> bool:
        cost = self._refresh_work(state)
        return state.work_refreshing + cost <= WORK_SHARE * state.work + WORK_CREDIT * cost

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
        recent = self._recent(state)
        points, mass = self._new_points(state, recent, rng, share, moved)
        span = factorise(kernel, points)
        T = transition(kernel, state.span, span)
        reservoir = state.reservoir.rebase(T)
        residual, variance = self._measure(kernel, span, reservoir, state.unit)
        return (
            replace(
                state,
                span=span,
                mass=mass,
                sums=to_float64(points) * like(mass, to_float64(points))[:, None],
                reservoir=reservoir,
                refreshed_at=state.n,
                residual=residual,
                reference=residual,
                variance=variance,
                work_refreshing=state.work_refreshing + self._refresh_work(state),
            ),
            T,
        )

    def _means(self, state: CentroidsState) -> Array:
        """Present means of the cells; an empty cell keeps its point."""
        xp = namespace_of(state.sums)
        counted = np.maximum(state.mass, np.finfo(float).tiny)
        means = xp.where(
            like(state.mass > 0, state.sums)[:, None],
            state.sums / like(counted, state.sums)[:, None],
            to_float64(state.span.points),
        )
        return cast(means, state.span.points.dtype)

    def _new_points(
        self,
        state: CentroidsState,
        recent: Array,
        rng: np.random.Generator,
        share: float,
        moved: bool,
    ) -> tuple[Array, np.ndarray]:
        m = self.n_points
        means = self._means(state)
        # A cell's use is its mass times the squared distance of its point to the span of the
        # others, 1/(K⁻¹)_jj = 1/Σ_l F_jl²: rare cells far from the rest are kept.
        use = state.mass / to_host(namespace_of(means).sum(state.span.factor**2, axis=1))
        kept = np.sort(np.argsort(-use, kind="stable")[: m - math.ceil(share * m)])
        ones = np.ones(recent.shape[0])
        near = nearest(recent, take_rows(means, kept))[1] if len(kept) else ones
        fresh = cast(draw_far(recent, ones, near, m - len(kept), rng), means.dtype)
        points = concatenate_rows([take_rows(means, kept), fresh])
        if not moved:
            labels, _ = nearest(recent, points)
            return self._relocate(recent, points, labels, state.mass[kept])
        everything = concatenate_rows([means, as_dense(recent)])
        total = float(state.mass.sum())
        heavy = max(1.0, RECENT_MASS * total / recent.shape[0])
        weights = np.concatenate([state.mass, np.full(recent.shape[0], heavy)])
        present = np.flatnonzero(weights > 0)
        everything, weights = take_rows(everything, present), weights[present]
        points, _ = lloyd(everything, weights, points, MOVED_STEPS, rng)
        labels, _ = nearest(everything, points)
        once = np.concatenate([state.mass, ones])[present]
        return points, np.bincount(labels, once, minlength=points.shape[0])

    def _relocate(
        self, recent: Array, points: Array, labels: np.ndarray, mass: np.ndarray
    ) -> tuple[Array, np.ndarray]:
        """Give each new point the mean and the number of the recent rows nearest to it."""
        kept = len(mass)
        m = points.shape[0]
        count = np.bincount(labels, minlength=m).astype(float)
        sums = sum_by_label(recent, labels, m)
        filled = np.flatnonzero(count[kept:] > 0) + kept  # a row drawn twice leaves one cell empty
        moved = cast(take_rows(sums, filled) / like(count[filled], sums)[:, None], points.dtype)
        return (
            concatenate_rows([points[:kept, :], moved]),
            np.concatenate([mass, count[filled]]),
        )

    def _measure(
        self, kernel: Kernel, span: Span, reservoir: Reservoir, unit: float
    ) -> tuple[float, float]:
        """Mean and variance of the residual over rows of the reservoir."""
        rows, _ = reservoir.sample()
        spread = np.linspace(0, rows.shape[0] - 1, min(REFERENCE_ROWS, rows.shape[0]))
        rows = take_rows(rows, spread.astype(np.intp))
        energy = kernel.diag(rows)
        missed = residual_energy(energy, span.coordinates(kernel, rows))
        watched = to_host(missed).astype(float) / unit
        return float(watched.mean()), float(watched.var())
