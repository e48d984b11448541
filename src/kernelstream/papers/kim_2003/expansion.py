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
from kernelstream.papers.kim_2003.hebbian import Hebbian
from kernelstream.papers.sequential import (
    column_norms,
    extended,
    require_bounded,
    warn_of_shortened,
)
from kernelstream.serialization import stored
from kernelstream.stream import Chain, Rows, State

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
        self, state: State, blocks: Sequence[Rows], frozen: bool
    ) -> tuple[State, Sequence[Rows]]:
        """Learn a block: rows of the start as in any chain, all others over the expansion."""
        block = blocks[0]
        rank, r = (int(size) for size in state.tracker.V.shape)
        if np.all(column_norms(state.tracker.V) > 0):
            return self.expand(state, block.X, block.weights), blocks[1:]
        few = min(max(r - rank, 1), len(block))
        after, _ = super().step(state, [block[:few]], frozen)
        n_read = after.n_rows - state.n_rows
        if int(after.tracker.V.shape[0]) == rank and n_read < len(block):
            return super().step(state, blocks, frozen)  # nothing new in sight: all rows
        return after, [block[n_read:]] if n_read < len(block) else []

    def expand(self, state: State, X: Array, weights: np.ndarray | None) -> State:
        """Sanger's rule over a block; its rows join the expansion."""
        rule, known, moments = self.tracker, state.tracker, state.moments
        assert isinstance(rule, Hebbian)
        block = ExpansionBlock.of(self.kernel, state.basis.span, X)
        w = np.ones(block.n_rows) if weights is None else weights
        V, mu = to_host(known.V), np.zeros(state.basis.span.rank)
        H, a = np.eye(block.n_rows), np.zeros(block.n_rows)
        if self.center:
            mu = to_host(moments.mean)
            a, B = mean_shares(moments.weight, w, isinstance(rule, SemiOnlineHebbian))
            H = H - B
        G, K = block.centered(V, mu, H, a)
        learned, T, S = rule.advance(known, G, K, w, schedules.resolve(rule.schedule))
        for coefficients in (T, S):
            require_bounded("KernelHebbianPCA", coefficients)
        warn_of_shortened("KernelHebbianPCA", known.n_shortened, learned.n_shortened)
        # the components and the mean, over the old functions (Q) and over the rows (R)
        weight = moments.weight + float(w.sum())
        old_share = moments.weight / weight if self.center else 0.0
        new = w[:, None] / weight if self.center else np.zeros((block.n_rows, 1))
        Q = np.hstack([V @ T.T - np.outer(mu, S @ a), old_share * mu[:, None]])
        R = np.hstack([H.T @ S.T, new])
        span, coordinates = block.joined(self.kernel, state.basis.span, Q, R)
        energies = np.concatenate([state.basis.energies, block.squared_norms])
        r = V.shape[1]
        after = replace(
            state,
            n_rows=state.n_rows + block.n_rows,
            basis=replace(state.basis, span=span, energies=energies),
            tracker=replace(learned, V=like(coordinates[:, :r], span.factor)),
            moments=trackers.Moments(
                weight,
                like(weight * coordinates[:, r], span.factor),
                state.moments.squared_norm + float(w @ block.squared_norms),
            ),
        )
        self.require_finite(after)
        return after


@dataclass(frozen=True)
class ExpansionBlock:
    """Rows that join an expansion, and their inner products."""

    rows: Array  # dense, in the type they came in
    Z: np.ndarray  # with the functions of the expansion
    inner: np.ndarray  # among themselves
    squared_norms: np.ndarray

    @classmethod
    def of(cls, kernel: Any, span: landmarks.Span, X: Array) -> ExpansionBlock:
        """Inner products of some rows with the functions of a span."""
        dense = X.toarray() if issparse(X) else X
        rows = to_float64(dense)
        K = landmarks.finite(kernel.block(rows, span.prepared(kernel, rows)), kernel)
        inner = to_host(landmarks.finite(kernel.gram(rows), kernel))
        squared_norms = to_host(landmarks.finite(kernel.diag(rows), kernel))
        return cls(dense, to_host(K @ span.factor), inner, squared_norms)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.squared_norms)

    def centered(
        self, V: np.ndarray, mu: np.ndarray, H: np.ndarray, a: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Inner products of ``p = H φ − a μ`` with the components, ⟨w_i, p_t⟩, and ⟨p_s, p_t⟩."""
        at_mean = H @ (self.Z @ mu)
        G = (H @ (self.Z @ V) - np.outer(a, mu @ V)).T
        K = H @ self.inner @ H.T - np.outer(at_mean, a) - np.outer(a, at_mean)
        K += np.outer(a, a) * (mu @ mu)
        return np.ascontiguousarray(G), np.ascontiguousarray(K)

    def joined(
        self, kernel: Any, span: landmarks.Span, Q: np.ndarray, R: np.ndarray
    ) -> tuple[landmarks.Span, np.ndarray]:
        """The span of new functions, with the rows among its points.

        The functions have the coefficients Q over those of the old span and R over the rows.
        Returns the span, and the coordinates of the functions in it as columns.
        """
        xp = array_namespace(span.factor)
        products = self.Z @ Q + self.inner @ R  # ⟨φ_t, function⟩
        gram = Q.T @ Q + (self.Z @ Q).T @ R + R.T @ products
        basis, coordinates = orthonormal(kernel, (gram + gram.T) / 2)
        old = span.factor @ like(Q @ basis, span.factor)
        factor = xp.concat([old, like(R @ basis, span.factor)], axis=0)
        new = xp.astype(self.rows, span.points.dtype, copy=False)
        points = xp.concat([span.points, new], axis=0)
        return landmarks.Span(points, factor, factor), coordinates


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
