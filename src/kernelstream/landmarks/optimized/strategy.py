"""Landmark update policy: when to optimize, sample size, budget, reaction to a changed stream.

A uniform sample of all rows says where the points belong, in whatever order the rows come: k-means
on the sample, and then some steps uphill in the variance that the points capture of it (`polish`).
The first rows give the first points; they are looked for again each time there are four times as
many rows, as long as the rows repay it and something is gained on sampled rows that were held back;
and when the residual rises, for then the stream has moved. The sample also corrects the statistics
that were gathered in older bases.
"""

# Long because a basis has many verbs: each is short, and what they work with has its own module
# (state, kmeans, polish, sample).

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kernelstream.arrays.draws import generator, pick
from kernelstream.arrays.namespaces import (
    Array,
    as_dense,
    cast,
    like,
    namespace_of,
    sum_by_label,
    take_rows,
    to_float64,
    to_host,
)
from kernelstream.kernels import Kernel, Smoothness, squared_distances
from kernelstream.landmarks.base import (
    Clock,
    Kind,
    LandmarkStrategy,
    Measured,
    Projection,
    Start,
    Vectors,
)
from kernelstream.landmarks.criteria import Distance
from kernelstream.landmarks.growing import GrowingState
from kernelstream.landmarks.nystroem import (
    Span,
    distinct_rows,
    factorise,
    finite,
    onto,
    residual_energy,
    same_points,
    transition,
)
from kernelstream.landmarks.optimized.kmeans import kmeans, nearest
from kernelstream.landmarks.optimized.polish import STEPS, Sampled, captured, polish
from kernelstream.landmarks.optimized.state import (
    GAIN,
    HELD_BACK,
    UPDATE_FACTOR,
    CentroidsState,
    Reservoir,
)
from kernelstream.serialization import stored
from kernelstream.serialization.part import check_count

# The constants of the policy; docs/centroids.md has the results of other values on six streams.
MOST_SAMPLED = 5000  # rows of the sample: 30 for each landmark up to this number, and at least 10
# The fraction by which the residual has to be above the expected one before landmarks are updated
# again, and by which the rows have to be more than at the last update before a query updates them.
RISE = 0.1


@stored
class Centroids(LandmarkStrategy[CentroidsState]):
    """Points that capture most of the variance of a sample of all rows, and follow the stream.

    Parameters
    ----------
    n_points : int
        Number of points m. Memory is O(m² + m d), work per row O(m d + m²).
    follows : bool
        False keeps the points that the first rows gave. No moment is then ever carried into
        another basis, which a regression with a weak ridge would notice; a stream that moves
        leaves such points behind.

    Notes
    -----
    In a stream the first ``max(10 m, 500)`` rows are kept as they are and give the first points, by
    k-means; then one pass, in blocks. A uniform sample of all rows, as a rule 30 a point, tells
    where better points are: centres of k-means, moved uphill in the variance that they capture of
    the sample. ``fit`` looks for them first, and then sees all rows in their span. Points live in
    input space; those for a kernel that has no gradient there (``Laplacian``, ``Exponential``,
    functions) are centres or rows of the sample. With at most ``n_points`` different rows the
    points are those rows and the model is exact. Where the start has fewer (a machine at rest),
    later rows become points as they come, until there are ``n_points``.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA, landmarks
    >>> X = np.random.default_rng(0).normal(size=(2000, 4))
    >>> model = StreamingKernelPCA(2, basis=landmarks.Centroids(50), random_state=0).partial_fit(X)
    >>> model.basis_points_.shape
    (50, 4)
    """

    def __init__(self, n_points: int = 256, follows: bool = True):
        self.n_points = n_points
        self.follows = follows

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        """Adaptive, or fixed if the landmarks of the first rows are kept."""
        return "adaptive" if self.follows else "fixed"

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""
        check_count("Centroids", "n_points", self.n_points, none_allowed=False)
        if not isinstance(self.follows, bool | np.bool_):
            raise ValueError(f"Centroids: follows must be True or False, got {self.follows!r}.")

    # -- sizes that follow from the number of points

    @property
    def size(self) -> int:
        """Number of points."""
        return self.n_points

    def start_rows(self, of_all: bool = False) -> int:
        """Ten rows for each landmark, at least 500; of all rows those of the sample."""
        return self._sample_rows if of_all else max(10 * self.n_points, 500)

    @property
    def _sample_rows(self) -> int:
        return max(self.start_rows(), min(30 * self.n_points, MOST_SAMPLED))

    # -- methods

    def begin(self, kernel: Kernel, start: Start) -> CentroidsState:
        """Choose landmarks by k-means for the first rows, or optimize them for a sample."""
        X, weights, m = start.X, start.weights, self.n_points
        chosen = distinct_rows(X, m)
        if chosen is None:
            rng = generator(start.seed, "start")
            optimize = start.sample is not None
            points = self._optimized(kernel, X, weights, m, start.wanted, rng, optimize=optimize)
        else:
            points = as_dense(take_rows(X, chosen))
        span = factorise(kernel, points)
        Z, energy = span.many_coordinates(kernel, X), kernel.diag(span.rows(X))
        missed = float(np.average(to_host(residual_energy(energy, Z)), weights=weights))
        weights = np.ones(int(X.shape[0])) if weights is None else weights
        deviations = to_host(Z) - weights @ to_host(Z) / weights.sum()
        held = float(weights @ np.vecdot(deviations, deviations) / weights.sum())
        unit = missed + held or 1.0
        sample = start.sample
        return CentroidsState(
            span=span,
            sample=Reservoir(self._sample_rows) if sample is None else Reservoir.of(sample, Z),
            wanted=start.wanted,
            n=start.n_rows,
            updated_at=max(start.n_rows, int(X.shape[0])),
            optimized=sample is not None,
            missed=0.0,
            weight=0.0,
            reference=missed / unit,
            unit=unit,
        )

    def admits(self, state: CentroidsState) -> bool:
        """Whether there are fewer landmarks than there may be."""
        return self.follows and state.span.points.shape[0] < self.n_points

    def admit(
        self,
        kernel: Kernel,
        state: CentroidsState,
        X: Array,
        weights: np.ndarray | None,
        clock: Clock,
    ) -> tuple[CentroidsState, Projection]:
        """Project a block while there is room for more landmarks, and learn it."""
        state, block = self._joined(kernel, state, X, clock)
        given = None if weights is None else weights / clock.fading(len(weights))
        measured = Measured.of(X, given, weights, clock, block, scatter=False)
        return self.update(kernel, state, [measured])[0], block

    def update(
        self, kernel: Kernel, state: CentroidsState, blocks: Sequence[Measured]
    ) -> tuple[CentroidsState, int]:
        """Add up residuals until an update is due; rows compete for the sample."""
        watched, count = state, 0
        for block in blocks:
            if not math.isfinite(block.missed):
                finite(block.block.residual, kernel)
            count, decay = count + 1, block.clock.decay
            watched = replace(
                watched,
                n=watched.n + len(block),
                missed=watched.missed * decay + block.missed / state.unit,
                weight=watched.weight * decay + block.weight,
            )
            if self._update_due(watched):
                break
        sample = state.sample.offer(
            [(block.X, block.block.Z, block.weights) for block in blocks[:count]], blocks[0].clock
        )
        return replace(watched, sample=sample), count

    def revise(
        self, kernel: Kernel, state: CentroidsState, clock: Clock, vectors: Vectors | None = None
    ) -> tuple[CentroidsState, Array | None] | None:
        """Update the landmarks once after the start, then when they are stale, or for a query."""
        if not clock.query:
            due = self._update_due(state)
        else:
            due = self._is_stale(state) and state.n > (1.0 + RISE) * state.updated_at
        return self._update_landmarks(kernel, state, clock) if due else None

    def _update_due(self, state: CentroidsState) -> bool:
        """Whether landmarks are updated at the end of a block: seldom, so that rows repay it."""
        if not (self.follows and state.can_gain and state.n >= UPDATE_FACTOR * state.updated_at):
            return False
        return not state.optimized or self._is_stale(state)

    def _is_stale(self, state: CentroidsState) -> bool:
        """Whether the residual of the rows since the last update is above the expected one."""
        expected = (1.0 + RISE) * state.reference * state.weight
        return self.follows and state.can_gain and state.missed > expected

    def merge(
        self, kernel: Kernel, a: CentroidsState, b: CentroidsState, seed: int
    ) -> tuple[CentroidsState, Array | None, Array | None]:
        """Points for the joint sample."""
        n = a.n + b.n
        if same_points(a.span, b.span):
            span, to_a, to_b = a.span, None, onto(kernel, b.span, a.span)
            sample = a.sample.merge(b.sample if to_b is None else b.sample.rebase(to_b))
        else:
            nothing = [like(np.zeros((0, x.span.rank)), x.span.factor) for x in (a, b)]
            joint = a.sample.rebase(nothing[0]).merge(b.sample.rebase(nothing[1]))
            rows, m = joint.held()[0], max(len(a.span.points), len(b.span.points))
            most = max(m, self.n_points)
            points = self._optimized(
                kernel,
                rows,
                joint.stands_for(),
                most,
                max(a.wanted, b.wanted),
                generator(seed, "merge", n),
                [a.span.points, cast(b.span.points, a.span.points.dtype)],
            )
            span = factorise(kernel, points)
            to_a, to_b = transition(kernel, a.span, span), transition(kernel, b.span, span)
            sample = a.sample.rebase(to_a).merge(b.sample.rebase(to_b))
        joined = replace(
            a,
            span=span,
            sample=sample,
            n=n,
            updated_at=n,
            optimized=True,
            missed=0.0,
            weight=0.0,
            reference=sample.residual(kernel, span, a.unit),
            carried=a.carried or b.carried or to_a is not None or to_b is not None,
        )
        return joined, to_a, to_b

    # -- how the points change

    def _joined(
        self, kernel: Kernel, state: CentroidsState, X: Array, clock: Clock
    ) -> tuple[CentroidsState, Projection]:
        """Project a block; rows outside the span of the landmarks become landmarks.

        The start of the stream had few different rows: a machine at rest, or data of few values,
        of which some come later.
        """
        energies = to_host(to_float64(kernel.diag(state.span.points)))
        narrow = GrowingState(replace(state.span, projector=state.span.factor), energies)
        rule = Distance(np.finfo(float).tiny, self.n_points)
        grown, wide = rule.admit(kernel, narrow, X, None, clock)
        if not wide.admitted or wide.Z.shape[0] < X.shape[0]:  # the factor would be strained
            return state, self.project(kernel, state, X)
        points, factor = grown.span.points, grown.span.factor
        span = Span.of(kernel, points, factor, kernel.gram(to_float64(points)))
        dtype, padding = span.projector.dtype, like(np.eye(span.rank, state.span.rank), factor)
        joined = replace(state, span=span, sample=state.sample.rebase(padding), carried=True)
        block = replace(
            wide,
            Z=cast(wide.Z, dtype),
            energy=cast(wide.energy, dtype),
            missed=cast(wide.residual, dtype),
        )
        return joined, block

    def _update_landmarks(
        self, kernel: Kernel, state: CentroidsState, clock: Clock
    ) -> tuple[CentroidsState, Array | None]:
        """Optimize landmarks for the sample; T carries coordinates to new ones."""
        sample, present, T = state.sample.compact(), state.span.points, None
        points = self._optimized(
            kernel,
            sample.rows[0],
            sample.stands_for(),
            max(int(present.shape[0]), self.n_points),
            state.wanted,
            generator(clock.seed, "look", clock.row),
            [present],
        )
        span = state.span
        if points is not present:
            span = factorise(kernel, points)
            T = transition(kernel, state.span, span)
            sample = sample.rebase(T)
        updated = replace(
            state,
            span=span,
            sample=sample,
            updated_at=state.n,
            optimized=True,
            missed=0.0,
            weight=0.0,
            reference=sample.residual(kernel, span, state.unit),
            carried=state.carried or T is not None,
        )
        return updated, T

    def _optimized(
        self,
        kernel: Kernel,
        rows: Array,
        weights: np.ndarray | None,
        m: int,
        wanted: int,
        rng: np.random.Generator,
        present: Sequence[Array] = (),
        optimize: bool = True,
    ) -> Array:
        """The best m landmarks for some rows; the present ones unless others are better."""
        n, wanted = int(rows.shape[0]), max(wanted, m // 4)
        smooth = kernel.smoothness is Smoothness.SMOOTH
        evaluating = (
            np.arange(HELD_BACK - 1, n, HELD_BACK) if present or not smooth else np.arange(0)
        )
        learning = np.setdiff1d(np.arange(n), evaluating)
        evaluating = evaluating if len(evaluating) else learning  # few rows: none is held out
        sampled = Sampled.of(kernel, rows, weights, rng).to_look_at().take(learning)
        w = np.ones(len(learning)) if sampled.weights is None else sampled.weights
        centers = kmeans(sampled.seen, m, STEPS, rng, w)
        if optimize and smooth:
            starts = [centers, *(sampled.inside(points) for points in present)]
            best = centers
            if present:
                half = sampled.take(np.arange(0, len(learning), 2))  # enough to compare by
                values = [captured(kernel, points, half, wanted, half) for points in starts]
                best = starts[int(np.argmax(values))]
            found = [cast(sampled.lift(polish(kernel, best, sampled, wanted)), rows.dtype)]
        elif not kernel.takes_means:  # of codes there are no means
            found = [rows_near(sampled.seen, centers, take_rows(rows, learning))]
        elif sampled.directions is None:
            found = [cast(sampled.lift(centers), rows.dtype)]
        else:  # of the rows themselves: the directions show a part of them only
            found = [means_of_rows(take_rows(rows, learning), w, sampled, centers)]
        if not smooth:  # rows themselves are often better where the kernel has a kink at a point
            found.append(as_dense(take_rows(rows, learning[np.sort(pick(rng, w, m))])))
        if len(found) + len(present) == 1:
            return found[0]
        whole = Sampled(rows, weights)
        ours, theirs = whole.take(learning[::2]), whole.take(evaluating)
        values = [captured(kernel, points, ours, wanted, theirs) for points in (*found, *present)]
        new, old = int(np.argmax(values[: len(found)])), values[len(found) :]
        if present and not values[new] > (1.0 + GAIN) * max(old):
            return present[int(np.argmax(old))]
        return found[new]


def means_of_rows(rows: Array, weights: np.ndarray, sampled: Sampled, points: Array) -> Array:
    """Means of the rows that are nearest to each point in the directions of a sample of them."""
    count = int(points.shape[0])
    labels, _ = nearest(sampled.seen, points)
    mass = np.bincount(labels, weights, minlength=count)
    sums = sum_by_label(rows, labels, count, weights)
    means = sums / like(np.where(mass > 0, mass, 1.0), sums)[:, None]
    filled, lifted = like(mass > 0, sums)[:, None], to_float64(sampled.lift(points))
    return cast(namespace_of(sums).where(filled, means, lifted), rows.dtype)


def rows_near(seen: Array, centers: Array, rows: Array) -> Array:
    """A row for each center, the nearest one; fewer where that is the same one."""
    apart = to_host(squared_distances(seen, cast(centers, seen.dtype)))
    return as_dense(take_rows(rows, np.unique(apart.argmin(axis=0))))
