"""Chin and Suter's reduced sets: rows are appended, then compressed to a few pre-images."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelstream.backends.arrays import (
    Array,
    cast,
    concatenate_rows,
    like,
    namespace_of,
    symmetric_eigen,
    take_rows,
    to_float64,
    to_host,
    weighted_gram,
)
from kernelstream.bases.base import Basis, Clock, Projection, Span, transition
from kernelstream.bases.everything import Everything
from kernelstream.bases.growing import GrowingState
from kernelstream.checks import check_count
from kernelstream.kernels import Kernel

ROUNDS = 8  # pre-images are found in so many groups; each group approximates what is left
STEPS = 20  # of the fixed-point iteration, or until no point moves by more than …
STILL = 1e-6  # … this share of the spread of the points
CAPTURED = 1e-12  # share of the scatter that is not worth another point


@dataclass(frozen=True)
class ReducedSetState:
    """Points with their factor, and what the rows weigh in these coordinates."""

    grown: GrowingState
    scatter: Array  # Σ w z zᵀ of all rows, float64; empty when nothing is ever compressed

    @property
    def span(self) -> Span:
        """Points and factor."""
        return self.grown.span


class ReducedSet(Basis):
    """A fixed number of pre-images that span the leading directions of all rows so far.

    The rows of a block become points, as in :class:`Everything`; at its end, when there are more
    than ``n_points``, the model is compressed to ``n_points`` new inputs.

    *From the paper*: vectors of the feature space are approximated by iterated pre-images (section
    5.1), each found on what the earlier ones leave over (eq. 21); pre-images of one vector serve
    the others, and a second pass gives every vector its best coefficients over all of them (section
    5.2). In coordinates that second pass is the change of basis ``T = F'ᵀ K(D',D) F``, for every
    tracker, and the re-orthogonalisation of section 5.3 is what the trackers do with it.

    *Ours*: the vectors are the eigenvectors of Σ w z zᵀ times the roots of the eigenvalues, which
    the basis keeps by itself, so that it serves every tracker (the mean is in their span); always
    those that are approximated worst are next, a few at a time. The number of points is a budget
    (the paper's ``(r+1) n'`` does not fit its own experiment). The iteration is Mika's,
    ``y ← Σ w_i x_i / Σ w_i`` with ``w_i = γ_i k(x_i, y)``, started at the best point that is there
    and taken back where it does not help: exact for the RBF kernel, and for any other kernel never
    worse than choosing among the points.

    Parameters
    ----------
    n_points : int or None
        Points after each block; None compresses nothing (then this is :class:`Everything`).

    Notes
    -----
    A compression costs about as much as the kernel between n_points and n_points + batch_size rows
    a hundred times: choose ``batch_size`` of the order of ``n_points``. Each one loses a little,
    and losses add up along the stream; :class:`Centroids` averages rows instead and does better on
    most streams.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA, bases
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> model = StreamingKernelPCA(2, gamma=0.2, basis=bases.ReducedSet(20), batch_size=100)
    >>> model.partial_fit(X).basis_points_.shape
    (20, 2)
    """

    settles_late = False
    preferred_batch = 256

    def __init__(self, n_points: int | None = 256):
        self.n_points = n_points

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""
        check_count("ReducedSet", "n_points", self.n_points)

    def begin(
        self, kernel: Kernel, X: Array, weights: np.ndarray | None, seed: int
    ) -> ReducedSetState:
        """Start with no points."""
        grown = Everything().begin(kernel, X, weights, seed)
        return ReducedSetState(grown, 0.0 * grown.span.factor)

    def rank(self, state: ReducedSetState) -> int:
        """Return the number of points."""
        return state.span.rank

    def coordinates(self, kernel: Kernel, state: ReducedSetState, X: Array) -> Array:
        """Coordinates of rows, in float64."""
        return Everything().coordinates(kernel, state.grown, X)

    def project(
        self,
        kernel: Kernel,
        state: ReducedSetState,
        X: Array,
        weights: np.ndarray | None,
        clock: Clock,
    ) -> tuple[ReducedSetState, Projection]:
        """Append the rows, express the block, and add it to the scatter."""
        grown, block = Everything().project(kernel, state.grown, X, weights, clock)
        if self.n_points is None:
            return ReducedSetState(grown, state.scatter), block
        scatter = weighted_gram(block.Z, None if weights is None else like(weights, block.Z))
        q = int(state.scatter.shape[0])
        scatter[:q, :q] += state.scatter * clock.decay  # a new array: the old state stays valid
        return ReducedSetState(grown, scatter), block

    def revise(
        self, kernel: Kernel, state: ReducedSetState, clock: Clock
    ) -> tuple[ReducedSetState, Array] | None:
        """Compress when there are too many points."""
        if self.n_points is None or state.span.rank <= self.n_points:
            return None
        grown = compressed(kernel, state.span, state.scatter, self.n_points)
        T = transition(kernel, state.span, grown.span)
        moved = T @ state.scatter @ namespace_of(T).matrix_transpose(T)
        return ReducedSetState(grown, moved), T


def compressed(kernel: Kernel, span: Span, scatter: Array, n_points: int) -> GrowingState:
    """At most ``n_points`` pre-images whose span holds as much of the scatter as possible."""
    xp = namespace_of(scatter)
    values, vectors = symmetric_eigen(scatter)
    r = min(n_points, int(np.sum(to_host(values) > CAPTURED * float(values[0]))))
    targets = vectors[:, :r] * xp.sqrt(values[:r])[None, :]
    over_points = span.factor @ targets  # (m, r), expansions of the targets
    total = float(xp.sum(values[:r]))
    points = to_float64(span.points)
    chosen = Everything().begin(kernel, span.points, None, 0)
    group = -(-n_points // ROUNDS)
    while (room := n_points - chosen.span.rank) > 0:
        # What the chosen points leave of each target, over all points: b − P b.
        known = to_float64(chosen.span.points)
        held = xp.matrix_transpose(chosen.span.factor) @ kernel.block(known, points) @ over_points
        left = to_host(xp.sum(targets**2, axis=0) - xp.sum(held**2, axis=0))
        if left.sum() <= CAPTURED * total:
            break
        worst = like(np.argsort(-left, kind="stable")[: min(group, room)], targets)
        coefficients = concatenate_rows([over_points, -(chosen.span.factor @ held)])
        coefficients = xp.matrix_transpose(xp.take(coefficients, worst, axis=1))
        start, found = preimages(kernel, points, concatenate_rows([points, known]), coefficients)
        before = chosen.span.rank
        for rows in (found, start, points):  # the later ones only if the earlier bring nothing
            rows = cast(rows, span.points.dtype)[:room, :]
            if chosen.span.rank == before:
                chosen, _ = Everything().project(kernel, chosen, rows, None, Clock(0, 0))
        if chosen.span.rank == before:
            break
    return chosen


def preimages(
    kernel: Kernel, points: Array, support: Array, coefficients: Array
) -> tuple[Array, Array]:
    """Inputs y whose images point along ``Σ γ_i φ(x_i)``, x the support, γ a row of coefficients.

    Maximises ``f(y)²/k(y,y)`` with ``f(y) = Σ γ_i k(x_i, y)``, so that φ(y) times the best
    coefficient is nearest. Returns the best of the points, and where the iteration leads from it.
    """
    xp = namespace_of(points)
    f = coefficients @ kernel.block(support, points)
    gain = f**2 / xp.clip(kernel.diag(points), min=np.finfo(float).tiny)[None, :]
    best = to_host(xp.argmax(gain, axis=1))
    start = y = take_rows(points, best)
    rows = np.arange(len(best))
    sign = xp.sign(like(to_host(f)[rows, best], points))
    gain = like(to_host(gain)[rows, best], points)
    gamma = coefficients * sign[:, None]
    k = kernel.block(y, support)
    step = xp.ones_like(gain)
    spread = float(xp.mean(xp.var(points, axis=0))) ** 0.5
    for _ in range(STEPS):
        w = gamma * k
        weight = xp.sum(w, axis=1)
        uphill = weight > 0
        weight = xp.where(uphill, weight, xp.ones_like(weight))
        move = step[:, None] * ((w @ support) / weight[:, None] - y)
        y_new = y + xp.where(uphill[:, None], move, 0.0 * move)
        k_new = kernel.block(y_new, support)
        f_new = xp.sum(gamma * k_new, axis=1)
        gain_new = f_new**2 / xp.clip(kernel.diag(y_new), min=np.finfo(float).tiny)
        better = (f_new > 0) & (gain_new > gain)
        y = xp.where(better[:, None], y_new, y)
        k = xp.where(better[:, None], k_new, k)
        gain = xp.where(better, gain_new, gain)
        step = xp.where(better, xp.ones_like(step), step / 2)
        if float(xp.max(xp.abs(move))) <= STILL * spread:
            break
    return start, y
