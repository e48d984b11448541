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
from kernelstream.landmarks.optimized.polish import (
    EVALUATIONS,
    STEPS,
    UPDATE_EVALUATIONS,
    Sampled,
    captured,
    part_of,
    polish,
)
from kernelstream.landmarks.optimized.state import (
    HELD_BACK,
    UPDATE_FACTOR,
    CentroidsState,
    Reservoir,
)
from kernelstream.serialization import stored
from kernelstream.serialization.part import check_count

# The constants of the policy; docs/centroids.md has the results of other values on six streams.
MOST_SAMPLED = 5000  # rows of the sample: 30 for each landmark up to this number, and at least 10
GAIN = 1e-3  # fraction of the captured variance below which nothing is gained
RISE = 1.1  # landmarks are stale when the residual is this many times the expected one
RECENT = (
    0.1  # a query updates stale landmarks if this fraction of the rows came since the last time
)
JOINS = 1e-6  # relative residual of a row that becomes a landmark while there is room


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
            evaluations = 0 if start.sample is None else EVALUATIONS
            points = self._optimized(kernel, X, weights, m, start.wanted, evaluations, rng)
        else:
            points = as_dense(take_rows(X, chosen))
        span = factorise(kernel, points)
        Z, energy = span.many_coordinates(kernel, X), kernel.diag(span.rows(X))
        unit = float(np.average(to_host(energy).astype(float), weights=weights)) or 1.0
        missed = to_host(residual_energy(energy, Z)).astype(float) / unit
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
            reference=float(np.average(missed, weights=weights)),
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
        block = self.project(kernel, state, X)
        joined = self._joined(kernel, state, X, block, clock)
        if joined is not None:
            state, block = joined
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
            due = self._is_stale(state) and state.n - state.updated_at > RECENT * state.n
        return self._update_landmarks(kernel, state, clock) if due else None

    def _update_due(self, state: CentroidsState) -> bool:
        """Whether landmarks are updated at the end of a block: seldom, so that rows repay it."""
        if not (self.follows and state.can_gain and state.n >= UPDATE_FACTOR * state.updated_at):
            return False
        return not state.optimized or self._is_stale(state)

    def _is_stale(self, state: CentroidsState) -> bool:
        """Whether the residual of the rows since the last update is above the expected one."""
        return (
            self.follows and state.can_gain and state.missed > RISE * state.reference * state.weight
        )

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
                UPDATE_EVALUATIONS,
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
        self, kernel: Kernel, state: CentroidsState, X: Array, block: Projection, clock: Clock
    ) -> tuple[CentroidsState, Projection] | None:
        """While there are fewer points than there may be, rows that are no point yet become points.

        The start of the stream had few different rows: a machine at rest, or data of few values,
        of which some come later. None where no row is missed, or there is no room.
        """
        missed, energy = to_host(finite(block.residual, kernel)), to_host(block.energy)
        if not bool(np.any(missed > JOINS * energy)):
            return None
        energies = to_host(to_float64(kernel.diag(state.span.points)))
        span = replace(state.span, projector=state.span.factor)
        rule = Distance(np.finfo(float).tiny, self.n_points)
        grown, wide = rule.admit(kernel, GrowingState(span, energies), X, None, clock)
        if not wide.admitted or wide.Z.shape[0] < X.shape[0]:  # the factor would be strained
            return None
        points, factor = grown.span.points, grown.span.factor
        span = Span.of(kernel, points, factor, kernel.gram(to_float64(points)))
        Z = cast(wide.Z, span.projector.dtype)
        padding = like(np.eye(grown.span.rank, state.span.rank), factor)
        joined = replace(
            state,
            span=span,
            sample=state.sample.rebase(padding),
            carried=True,
        )
        return joined, replace(
            wide,
            Z=Z,
            energy=cast(wide.energy, Z.dtype),
            missed=cast(wide.residual, Z.dtype),
        )

    def _update_landmarks(
        self, kernel: Kernel, state: CentroidsState, clock: Clock
    ) -> tuple[CentroidsState, Array | None]:
        """Look for points in the sample."""
        sample = state.sample.compact()
        state = replace(state, sample=sample, updated_at=state.n, optimized=True)
        points = present = state.span.points
        if sample.missed_share(kernel, state.span) > GAIN:  # more than that cannot be gained
            points = self._optimized(
                kernel,
                sample.held()[0],
                sample.stands_for(),
                max(int(present.shape[0]), self.n_points),
                state.wanted,
                UPDATE_EVALUATIONS,
                generator(clock.seed, "look", clock.row),
                [present],
            )
        return self._changed(kernel, state, points)

    def _optimized(
        self,
        kernel: Kernel,
        rows: Array,
        weights: np.ndarray | None,
        m: int,
        wanted: int,
        evaluations: int,
        rng: np.random.Generator,
        present: Sequence[Array] = (),
    ) -> Array:
        """The best m points for some rows; those that are there unless others are better."""
        n, wanted = int(rows.shape[0]), max(wanted, m // 4)
        smooth = kernel.smoothness is Smoothness.SMOOTH
        judging = np.arange(HELD_BACK - 1, n, HELD_BACK) if present or not smooth else np.arange(0)
        learning = np.setdiff1d(np.arange(n), judging)
        judging = judging if len(judging) else learning  # of very few rows none is held back
        sampled = Sampled.of(kernel, rows, weights, rng).to_look_at().take(learning)
        w = np.ones(len(learning)) if sampled.weights is None else sampled.weights
        anew = kmeans(sampled.seen, m, STEPS, rng, w)
        if evaluations and smooth:
            starts = [anew, *(sampled.inside(points) for points in present)]
            if present:
                some = sampled.take(part_of(np.arange(len(learning))))
                value = [captured(kernel, points, some, wanted, some) for points in starts]
                anew = starts[int(np.argmax(value))]
            anew = polish(kernel, anew, sampled, wanted, evaluations)
            found = [cast(sampled.lift(anew), rows.dtype)]
        elif not kernel.takes_means:  # of codes there are none: the rows nearest to the centres
            found = [rows_near(sampled.seen, anew, take_rows(rows, learning))]
        elif sampled.directions is None:
            found = [cast(sampled.lift(anew), rows.dtype)]
        else:  # means of the rows themselves, and not of what the directions show of them
            found = [means_of_rows(take_rows(rows, learning), w, sampled, anew)]
        if not smooth:  # rows themselves are often better where the kernel has a kink at a point
            found.append(as_dense(take_rows(rows, learning[np.sort(pick(rng, w, m))])))
        if len(found) + len(present) == 1:
            return found[0]
        whole = Sampled(rows, weights)
        ours, theirs = whole.take(part_of(learning)), whole.take(part_of(judging))
        value = [captured(kernel, points, ours, wanted, theirs) for points in (*found, *present)]
        new, old = int(np.argmax(value[: len(found)])), value[len(found) :]
        if present and not value[new] > (1.0 + GAIN) * max(old):
            return present[int(np.argmax(old))]
        return found[new]

    def _changed(
        self, kernel: Kernel, state: CentroidsState, points: Array
    ) -> tuple[CentroidsState, Array | None]:
        """The state with other points, and the matrix that carries coordinates there."""
        span, T, sample = state.span, None, state.sample
        if points is not span.points:
            span = factorise(kernel, points)
            T = transition(kernel, state.span, span)
            sample = sample.rebase(T)
        state = replace(
            state,
            span=span,
            sample=sample,
            missed=0.0,
            weight=0.0,
            reference=sample.residual(kernel, span, state.unit),
            carried=state.carried or T is not None,
        )
        return state, T


def means_of_rows(rows: Array, weights: np.ndarray, sampled: Sampled, points: Array) -> Array:
    """Means of the rows that are nearest to points in the directions of a sample of them."""
    count = int(points.shape[0])
    labels, _ = nearest(sampled.seen, points)
    mass = np.bincount(labels, weights, minlength=count)
    sums = sum_by_label(rows, labels, count, weights)
    means = sums / like(np.where(mass > 0, mass, 1.0), sums)[:, None]
    filled = like(mass > 0, sums)[:, None]
    lifted = to_float64(sampled.lift(points))
    return cast(namespace_of(sums).where(filled, means, lifted), rows.dtype)


def rows_near(seen: Array, centres: Array, rows: Array) -> Array:
    """A row for each centre, the nearest one; fewer where that is the same one."""
    apart = to_host(squared_distances(seen, cast(centres, seen.dtype)))
    return as_dense(take_rows(rows, np.unique(apart.argmin(axis=0))))
