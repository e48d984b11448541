"""Certificate observer: ledger and audit sample of a stream, updated after every block.

The step passes each block to the observer of its stream, which enters the squared residuals into
the ledger and offers the rows to the audit sample. Nothing that is learned depends on it: without a
certificate there is no observer.

With ``certify="tight"`` the residuals of a block are evaluated together: the eigenvalues of their
Gram matrix bound how much squared residual can lie in one direction, in two, in three, which is far
less than all of it. Statements 2 to 4 of docs/proofs.md say why these are the entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from kernelstream.arrays.namespaces import (
    Array,
    as_dense,
    dtype_name,
    is_sparse,
    like,
    namespace_of,
    padded,
    row_norms_squared,
    take_rows,
    to_float64,
    to_host,
)
from kernelstream.certificates import rounding
from kernelstream.certificates.confidence import ConfidenceBounds
from kernelstream.certificates.evaluation import EvaluatedModel
from kernelstream.certificates.ledger import Ledger
from kernelstream.certificates.sample import AuditSample
from kernelstream.kernels import Kernel
from kernelstream.landmarks import Span
from kernelstream.landmarks.base import Measured
from kernelstream.landmarks.nystroem import weighted_total
from kernelstream.serialization import stored
from kernelstream.trackers import Moments, Tracker

# Rows whose residuals are evaluated together: more is tighter and slower. As many as there are
# landmarks, so that the work for a row stays in proportion to that of the step.
FEWEST_ROWS, MOST_ROWS = 128, 512


@dataclass(frozen=True)
class Accumulated:
    """Sums of the rows so far, in the present span: all that the certificate reads of a stream."""

    kernel: Kernel
    tracker: Tracker
    center: bool
    span: Span
    moments: Moments
    scatter: Array | None  # Σ w z zᵀ, where the tracker keeps it

    @property
    def trace(self) -> float:
        """Σ w |z|² of all rows, where the tracker keeps it."""
        return np.inf if self.scatter is None else float(np.trace(to_host(self.scatter)))


@stored
@dataclass(frozen=True)
class DrawnBounds:
    """Bounds from independent draws of all rows, and the model that they are about."""

    bounds: ConfidenceBounds
    n_learned: int
    n_components: int


@stored
@dataclass(frozen=True)
class CertificateObserver:
    """What the certificate of a stream has accumulated, as an immutable value.

    Attributes
    ----------
    ledger : Ledger
        Squared residuals of the rows.
    sample : AuditSample or None
        Uniform sample of the rows; None where rows have left the stream.
    drawn : DrawnBounds or None
        Bounds of a model that was fitted with ``until``.
    """

    ON_HOST: ClassVar[frozenset[str]] = frozenset({"ledger"})

    ledger: Ledger
    sample: AuditSample | None = None
    drawn: DrawnBounds | None = None

    @classmethod
    def begin(
        cls, certify: str | bool, n_components: int | None, sampled: bool
    ) -> CertificateObserver:
        """The observer of a stream without rows.

        ``certify="tight"`` keeps a sum for each order that the bounds need: r components and the
        mean. Without ``sampled`` there is no sample: rows will leave the stream again.
        """
        n_orders = 0
        if certify == "tight":
            n_orders = 21 if n_components is None else n_components + 1
        ledger = Ledger(fresh_orders=np.zeros(n_orders), stale_orders=np.zeros(n_orders))
        return cls(ledger, AuditSample.empty() if sampled else None)

    def bounds_of(self, model: EvaluatedModel) -> ConfidenceBounds | None:
        """The bounds from draws, if they are about this model: one that learns on is another."""
        drawn, now = self.drawn, (model.n_rows, model.r)
        if drawn is None or (drawn.n_learned, drawn.n_components) != now:
            return None
        return drawn.bounds

    def without_sample(self) -> CertificateObserver:
        """The same ledger; which of the sampled rows still count is unknown."""
        return CertificateObserver(self.ledger)

    def on_blocks(self, before: Accumulated, blocks: Sequence[Measured]) -> CertificateObserver:
        """Enter blocks of rows that were just learned, one after the other.

        ``before`` has the sums of the rows before them and the span in which they were expressed.
        A block in which rows became landmarks comes alone.
        """
        ledger = self.ledger
        for block in blocks:
            ledger = enter(before, ledger, block)
        extent = before.span.extent(before.kernel, shifted=not is_sparse(blocks[0].X))
        sample = None if self.sample is None else self.sample.observe(before.kernel, blocks)
        return replace(
            self, ledger=replace(ledger, extent=max(ledger.extent, extent)), sample=sample
        )

    def on_window(self, squared_norm: float, residual: float, n: int) -> CertificateObserver:
        """Keep the sums of the last n rows only, added up again."""
        return replace(self, ledger=self.ledger.window(squared_norm, residual, n))

    def on_rebase(
        self,
        before: Accumulated,
        new: Span,
        new_scatter: Array | None,
        T: Array,
        loss: float | None,
        lost_orders: Callable[[int], np.ndarray | None],
    ) -> CertificateObserver:
        """Enter a change of landmarks by T that lost the squared norm ``loss``.

        ``before`` has the sums and the span before the change, ``new`` and ``new_scatter`` are
        those after it, and ``lost_orders`` gives κ_1 … κ_K of what was lost.
        """
        ledger = rebased(before, self.ledger, new, new_scatter, T, loss, lost_orders)
        return replace(self, ledger=ledger)

    def merge(self, other: CertificateObserver) -> CertificateObserver:
        """The observer of the rows of two streams, in one span."""
        sample = None
        if self.sample is not None and other.sample is not None:
            sample = self.sample.join(other.sample)
        return CertificateObserver(self.ledger.merge(other.ledger), sample)


def enter(before: Accumulated, ledger: Ledger, block: Measured) -> Ledger:
    """Enter the squared norms and residuals of a block.

    Rows before the last one that became a landmark become stale with it.
    """
    if block.clock.decay != 1.0:
        ledger = ledger.decay(block.clock.decay)
    projection, n = block.block, len(block)
    ledger = replace(
        ledger,
        blocks=ledger.blocks + 1,
        longest=max(ledger.longest, n),
        extent=max(ledger.extent, projection.extent),
        complete=ledger.complete and dtype_name(projection.Z) != "float32",
    )
    if not projection.admitted:
        orders = spectrum(before, ledger, block, slice(0, n))
        return ledger.fold(block.energy, block.missed, orders)
    early, late = slice(0, projection.fresh_from), slice(projection.fresh_from, n)
    ledger = grown(before, enter_rows(before, ledger, block, early), block)
    return enter_rows(before, ledger, block, late) if late.stop > late.start else ledger


def enter_rows(before: Accumulated, ledger: Ledger, block: Measured, rows: slice) -> Ledger:
    """Enter some rows of a block in which rows became landmarks."""
    projection = block.block
    w = None if block.left is None else like(block.left[rows], projection.residual)
    landmarks = [i for i in projection.admitted if rows.start <= i < rows.stop]
    norms = to_host(take_rows(projection.energy, landmarks)) if landmarks else np.zeros(0)
    return ledger.fold(
        weighted_total(projection.energy[rows], w),
        weighted_total(projection.residual[rows], w),
        spectrum(before, ledger, block, rows),
        exact=float(weights_of(block)[landmarks] @ norms),
    )


def weights_of(block: Measured) -> np.ndarray:
    """Weights of the rows at the end of their block."""
    return np.ones(len(block)) if block.left is None else block.left


def grown(before: Accumulated, ledger: Ledger, block: Measured) -> Ledger:
    """Everything up to the last row that became a landmark is stale.

    What was held of these rows is entered with them (statement 3 of docs/proofs.md).
    """
    early = slice(0, block.block.fresh_from)
    z = to_host(block.block.Z[early, :]).astype(float)
    w = weights_of(block)[early]
    trace = before.trace + float(w @ row_norms_squared(z))
    rank = int(block.block.Z.shape[1])
    total = to_host(padded(before.moments.total, (rank,))) + w @ z
    scatter = None
    if len(ledger.fresh_orders) and before.scatter is not None:
        scatter = to_host(padded(before.scatter, (rank, rank))) + z.T @ (z * w[:, None])
    return ledger.grow(before.moments.weight + float(w.sum()), trace, total, scatter)


def spectrum(
    before: Accumulated, ledger: Ledger, block: Measured, rows: slice
) -> np.ndarray | None:
    """κ_1 … κ_K of the residuals of some rows, added over pieces of them; None without orders.

    κ_k is subadditive, so the sum over pieces bounds κ_k of the whole. The residual of a row that
    was expressed before the last landmark was admitted also has a part inside the span, h − z with
    h the coordinates it would have now: the Gram matrix is k(X,X) − HHᵀ + (H−Z)(H−Z)ᵀ. (Statement 2
    of docs/proofs.md.) Kernel values of two rows are rounded by as much as the rows lie apart,
    which the landmarks do not show: that is entered here, row by row.
    """
    n_orders = len(ledger.fresh_orders)
    if not n_orders or not ledger.complete:
        return None
    orders, kernel = np.zeros(n_orders), before.kernel
    roots_of_k = np.sqrt(np.arange(1.0, n_orders + 1.0))
    X, Z, w = block.X[rows, :], to_float64(block.block.Z[rows, :]), weights_of(block)[rows]
    early = bool(block.block.admitted) and rows.start < block.block.fresh_from
    length = min(max(int(Z.shape[1]), FEWEST_ROWS), MOST_ROWS)
    for start in range(0, int(X.shape[0]), length):
        piece = slice(start, min(start + length, int(X.shape[0])))
        x, z = to_float64(as_dense(X[piece, :])), Z[piece, :]
        root = np.sqrt(w[piece])
        h = to_float64(before.span.coordinates(kernel, x)) if early else z
        transposed = namespace_of(z).matrix_transpose
        gram = kernel.gram(x) - h @ transposed(h)
        if early:
            gram += (h - z) @ transposed(h - z)
        values = np.linalg.eigvalsh(to_host(gram) * root[:, None] * root[None, :])[::-1]
        sums = np.cumsum(np.maximum(values, 0.0))
        orders += sums[np.minimum(np.arange(n_orders), len(sums) - 1)]
        squared_norm = float(w[piece] @ to_host(kernel.diag(x)))
        orders += roots_of_k * rounding.gram_error(kernel, x) * squared_norm
    return orders


def rebased(
    before: Accumulated,
    ledger: Ledger,
    new: Span,
    new_scatter: Array | None,
    T: Array,
    loss: float | None,
    lost_orders: Callable[[int], np.ndarray | None],
) -> Ledger:
    """The ledger after a change of landmarks (statements 4 and 14 of docs/proofs.md)."""
    old, moments, n_orders = before.span, before.moments, len(ledger.fresh_orders)
    if loss is None or not ledger.complete:
        return ledger.rebase(moments.weight, loss)
    total = to_host(T @ moments.total)
    if is_padding(T) and is_extension(old, new):
        if new.rank == old.rank:
            return ledger
        scatter = to_host(new_scatter) if n_orders else None
        return ledger.grow(moments.weight, before.trace, total, scatter)
    orders = lost_orders(n_orders)
    S, S_new = to_host(before.scatter), to_host(new_scatter)
    carried, lost, off = rounding.change(before.kernel, ledger, old, new, T, S, S_new)
    hidden = rounding.slack(before.kernel, ledger, old, S, off) * ledger.inexact
    lost *= ledger.energy
    return ledger.widen(hidden).rebase(
        moments.weight,
        loss + lost,
        None if orders is None else orders + lost,
        trace=before.trace,
        total=total,
        scatter=None if orders is None else S_new,
        rounding=carried,
    )


def is_padding(T: Array) -> bool:
    """Whether coordinates are only extended by zeros."""
    T = to_host(T)
    return bool(np.array_equal(T, np.eye(*T.shape)))


def is_extension(old: Span, new: Span) -> bool:
    """Whether the new landmarks and their factor begin with the old ones."""
    m, q = (int(n) for n in old.factor.shape)
    points, factor = to_host(new.points), to_host(new.factor)
    return (
        len(points) >= m
        and np.array_equal(points[:m], to_host(old.points))
        and np.array_equal(factor[:m, :q], to_host(old.factor))
        and not factor[m:, :q].any()
    )
