"""Kernel Hebbian algorithm on a stream: expansion over all rows, running mean (appendix A).

Kim, Franz and Schölkopf keep the coefficients of the components over all rows so far, and the sums
of kernel values that the running mean needs; nothing of size n × n. Here a component and the mean
are written over the points as r + 1 functions, ``F`` (n × (r + 1)) orthonormal, with coordinates
``V`` and ``μ`` in their span. For a block of B rows with ``Z = k(X, D) F``, whose columns are the
inner products of the rows with these functions, the centred patterns are

    p_t = φ_t − c_t,      c_t = a_t μ + Σ_i B_ti φ_i       (the mean of the rows up to t)

so their outputs and inner products need Z and the kernel matrix of the block alone, and Sanger's
recursion (``hebbian.py``) does the rest: ``W ← T W + S P``. The re-centring (16)–(17) is
in it, since w stays the function it was. A block costs one kernel block with all rows, O(n B d),
and products of r + 1 columns, O(n r²); memory is the rows and r + 1 numbers for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy.sparse import issparse

from kernelstream import landmarks, trackers
from kernelstream.arrays import (
    Array,
    like,
    to_float64,
    to_host,
)
from kernelstream.papers import schedules
from kernelstream.papers.kim_2003.hebbian import Hebbian, recursion
from kernelstream.papers.sequential import (
    column_norms,
    extended,
    require_bounded,
)
from kernelstream.serialization import stored
from kernelstream.stream import Chain, State

_RANK_FLOOR = 1e-14  # share of its length by which a function must leave the span of the others


@stored
class SemiOnlineHebbian(Hebbian):
    """Sanger's rule with the mean of appendix A: of the rows before the present one (14).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.papers import KernelHebbianPCA
    >>> model = KernelHebbianPCA(1, gamma=0.1, center="paper")
    >>> X = np.random.default_rng(0).normal(size=(300, 2)) * [2, 1]
    >>> model.partial_fit(X).stream_.chain.tracker
    SemiOnlineHebbian()
    """

    def centered(self, Z: Array, weights: Array | None, before: trackers.Moments) -> Array:
        """Rows less the mean of all rows before each."""
        w = np.ones(int(Z.shape[0])) if weights is None else to_host(weights)
        a, B = mean_shares(before.weight, w, before=True)
        mean = extended(to_host(before.mean), int(Z.shape[1]))
        Z = to_float64(Z)
        return Z - like(B, Z) @ Z - like(np.outer(a, mean), Z)


@stored
@dataclass(frozen=True)
class ExpansionChain(Chain):
    """A chain whose points are all rows and whose coordinates are those of r + 1 functions.

    Until every component has started, which takes r independent rows, rows are read as any growing
    basis reads them.
    """

    @classmethod
    def of(cls, chain: Chain) -> ExpansionChain:
        """The same parts, with an expansion in the place of coordinates for every row."""
        return cls(**{field.name: getattr(chain, field.name) for field in fields(Chain)})

    def step(
        self, state: State, blocks: Sequence[Any], frozen: bool
    ) -> tuple[State, Sequence[Any]]:
        """Learn a block: rows of the start as in any chain, all others over the expansion."""
        X, weights, _ = blocks[0]
        rank, r = (int(size) for size in state.tracker.V.shape)
        n = int(X.shape[0])
        if np.all(column_norms(state.tracker.V) > 0):
            return self.expand(state, X, weights), blocks[1:]
        few = min(max(r - rank, 1), n)
        start = X[:few, :], None if weights is None else weights[:few], None
        after, _ = super().step(state, [start], frozen)
        n_read = after.n_rows - state.n_rows
        if int(after.tracker.V.shape[0]) == rank and n_read < n:
            return super().step(state, blocks, frozen)  # nothing new in sight: all rows
        rest = X[n_read:, :], None if weights is None else weights[n_read:], None
        return after, [rest] if n_read < n else []

    def expand(self, state: State, X: Array, weights: np.ndarray | None) -> State:
        """Sanger's rule over a block; its rows join the expansion."""
        tracker, span, moments = self.tracker, state.basis.span, state.moments
        assert isinstance(tracker, Hebbian)
        dense = X.toarray() if issparse(X) else X
        rows = to_float64(dense)
        xp = array_namespace(rows)
        w = np.ones(int(X.shape[0])) if weights is None else weights
        K = landmarks.finite(self.kernel.block(rows, span.prepared(self.kernel, rows)), self.kernel)
        Z = to_host(K @ span.factor)
        inner = to_host(landmarks.finite(self.kernel.gram(rows), self.kernel))
        energy = to_host(landmarks.finite(self.kernel.diag(rows), self.kernel))
        V, mu = to_host(state.tracker.V), np.zeros(span.rank)
        H, a = np.eye(len(w)), np.zeros(len(w))
        if self.center:
            mu = to_host(moments.mean)
            a, B = mean_shares(moments.weight, w, isinstance(tracker, SemiOnlineHebbian))
            H = H - B
        # G = ⟨w_i, p_t⟩ and K̃ = ⟨p_s, p_t⟩, p = H φ − a μ
        at_mean = H @ (Z @ mu)
        G = (H @ (Z @ V) - np.outer(a, mu @ V)).T
        patterns = H @ inner @ H.T - np.outer(at_mean, a) - np.outer(a, at_mean)
        patterns += np.outer(a, a) * (mu @ mu)
        schedule = schedules.resolve(tracker.schedule)
        known, variances = state.tracker, state.tracker.variances.copy()
        steps = schedule.steps(known.time + 1, len(w)) * w
        T, S, shortened = recursion(
            np.ascontiguousarray(G),
            np.ascontiguousarray(patterns),
            steps,
            known.time,
            variances,
            schedule,
            tracker.guard,
        )
        require_bounded("KernelHebbianPCA", S, tracker.guard)
        require_bounded("KernelHebbianPCA", T, tracker.guard)
        # the components and the mean, over the old functions (Q) and over the rows (R)
        weight = moments.weight + float(w.sum())
        old_share = moments.weight / weight if self.center else 0.0
        new = w[:, None] / weight if self.center else np.zeros((len(w), 1))
        Q = np.hstack([V @ T.T - np.outer(mu, S @ a), old_share * mu[:, None]])
        R = np.hstack([H.T @ S.T, new])
        products = Z @ Q + inner @ R  # ⟨φ_t, function⟩ for the rows of the block
        gram = Q.T @ Q + (Z @ Q).T @ R + R.T @ products
        basis, coordinates = orthonormal(self.kernel, (gram + gram.T) / 2)
        old = span.factor @ like(Q @ basis, span.factor)
        factor = xp.concat([old, like(R @ basis, span.factor)], axis=0)
        new_points = xp.astype(dense, span.points.dtype, copy=False)
        points = xp.concat([span.points, new_points], axis=0)
        r = V.shape[1]
        tracked = replace(
            known,
            V=like(coordinates[:, :r], span.factor),
            time=known.time + len(w),
            variances=variances,
            n_shortened=known.n_shortened + shortened,
        )
        if not known.n_shortened:
            tracker.warn_of(tracked.n_shortened)
        grown = replace(
            state.basis,
            span=landmarks.Span(points, factor, factor),
            energies=np.concatenate([state.basis.energies, energy]),
        )
        after = replace(
            state,
            n_rows=state.n_rows + len(w),
            basis=grown,
            tracker=tracked,
            moments=trackers.Moments(
                weight,
                like(weight * coordinates[:, r], span.factor),
                state.moments.squared_norm + float(w @ energy),
            ),
        )
        self.require_finite(after)
        return after


def mean_shares(weight: float, w: np.ndarray, before: bool) -> tuple[np.ndarray, np.ndarray]:
    """The running mean of each row of a block: ``a_t`` of the old mean, and ``B_ti`` of row i.

    Up to and including the row, or of the rows ``before`` it; the first of all rows has none.
    """
    n = len(w)
    so_far = weight + np.cumsum(w)
    if before:
        so_far = so_far - w
    share = np.divide(1.0, so_far, out=np.zeros(n), where=so_far > 0)
    B = np.tril(np.broadcast_to(w, (n, n)), -1 if before else 0) * share[:, None]
    return weight * share, B


def orthonormal(kernel: Any, gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of orthonormal functions over some with these inner products, and back.

    The second has the coordinates of the given functions as its columns.
    """
    lengths = np.sqrt(np.maximum(np.diag(gram), 0.0))
    scale = np.divide(1.0, lengths, out=np.zeros(len(lengths)), where=lengths > 0)
    values, vectors = np.linalg.eigh(gram * scale[:, None] * scale[None, :])
    landmarks.require_semidefinite(kernel, float(values[0]), float(values[-1]))
    kept = values > _RANK_FLOOR * values[-1]
    basis = scale[:, None] * vectors[:, kept] / np.sqrt(values[kept])
    return basis, basis.T @ gram
