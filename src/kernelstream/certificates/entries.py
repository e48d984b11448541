"""Ledger entries: squared residual of a block, cost of a landmark change, ``certify="tight"``.

With ``certify="tight"`` the missed parts of a block are looked at together: the eigenvalues of
their Gram matrix say how much of the missed energy can lie in one direction, in two, in three,
which is far less than all of it. Statements 2 to 4 of docs/proofs.md say why these are the entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kernelstream.arrays.namespaces import (
    Array,
    as_dense,
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
from kernelstream.certificates.ledger import Ledger
from kernelstream.certificates.rounding import in_float32
from kernelstream.kernels import Kernel
from kernelstream.landmarks import LandmarkStrategy, Projection, Span
from kernelstream.landmarks.block import Measured
from kernelstream.landmarks.nystroem import weighted_total
from kernelstream.trackers import Moments, Tracker

# Rows whose missed parts are looked at together: more is tighter and dearer. As many as there are
# points, so that the work for a row stays in proportion to that of the fold.
FEWEST_ROWS, MOST_ROWS = 128, 512
# The error of float32 coordinates is measured in the first blocks, then now and then.
FIRST_MEASURED, MEASURED_EVERY = 4, 16


def blank_ledger(certify: str | bool, n_components: int | None) -> Ledger:
    """A ledger with as many orders as the certificate will ask for: r components and the mean."""
    if certify != "tight":
        return Ledger()
    r = 20 if n_components is None else n_components
    return Ledger(fresh_orders=np.zeros(r + 1), stale_orders=np.zeros(r + 1))


@dataclass(frozen=True)
class Accumulated:
    """What a stream has accumulated, as plain values: all that the certificate reads of it."""

    kernel: Kernel
    basis: LandmarkStrategy
    tracker: Tracker
    center: bool
    certify: str | bool
    span: Span
    ledger: Ledger
    moments: Moments
    scatter: Array | None  # Σ w z zᵀ, where the tracker keeps it

    @property
    def trace(self) -> float:
        """Σ w |z|² of all rows, where the tracker keeps it."""
        return np.inf if self.scatter is None else float(np.trace(to_host(self.scatter)))

    def enter(
        self,
        X: Array,
        block: Projection,
        weights: np.ndarray | None,
        coordinates: Callable[[Array], Array],
    ) -> Ledger:
        """Enter the energies of a block; rows before the last admitted point become stale with it.

        ``coordinates`` expresses rows in the present basis.
        """
        n = int(block.Z.shape[0])
        n_orders = len(self.ledger.fresh_orders)
        w = weights
        if w is None:  # wanted row by row, or not at all
            w = np.ones(n if n_orders or block.admitted else 0)
        # added up where the rows are: a device hands over sums, not rows
        on_device = None if weights is None else like(weights, block.residual)
        ledger = replace(
            self.ledger,
            blocks=self.ledger.blocks + 1,
            longest=max(self.ledger.longest, n),
        )
        if self.certify:
            own_extent = self.span.extent(self.kernel, shifted=not is_sparse(X))
            deviation = 0.0
            if in_float32(block.Z):
                seen, known = self.ledger.blocks, self.ledger.deviation
                deviation = self.measured_deviation(X, block, seen, known)
            ledger = replace(
                ledger,
                extent=max(ledger.extent, block.extent, own_extent),
                deviation=max(ledger.deviation, deviation),
            )
        for rows in (slice(0, block.fresh_from), slice(block.fresh_from, n)):
            if rows.stop > rows.start:
                orders, part = None, None if on_device is None else on_device[rows]
                if n_orders:
                    orders = self.spectrum(X[rows, :], block, rows, w, n_orders, coordinates)
                points = [i for i in block.admitted if rows.start <= i < rows.stop]
                ledger = ledger.fold(
                    weighted_total(block.energy[rows], part),
                    weighted_total(block.residual[rows], part),
                    orders,
                    exact=float((w[points] * to_host(take_rows(block.energy, points))).sum())
                    if points
                    else 0.0,
                )
            if block.admitted and rows.start == 0:
                ledger = self.grow(ledger, block, w)
        return ledger

    def enter_sums(self, blocks: Sequence[Measured]) -> Ledger:
        """Enter the energies of blocks in which nothing but sums changes, as ``enter`` does."""
        ledger = self.ledger
        energy, fresh, deviation = ledger.energy, ledger.fresh, ledger.deviation
        for seen, block in enumerate(blocks, ledger.blocks):
            if block.clock.decay != 1.0:
                ledger = replace(ledger, energy=energy, fresh=fresh).decay(block.clock.decay)
                energy, fresh = ledger.energy, ledger.fresh
            energy += block.energy
            fresh += max(block.missed, 0.0)
            if self.certify and in_float32(block.block.Z):
                off = self.measured_deviation(block.X, block.block, seen, deviation)
                deviation = max(deviation, off)
        extent = 0.0
        if self.certify:
            extent = self.span.extent(self.kernel, shifted=not is_sparse(blocks[0].X))
        return replace(
            ledger,
            energy=energy,
            fresh=fresh,
            blocks=ledger.blocks + len(blocks),
            longest=max(ledger.longest, *map(len, blocks)),
            extent=max(ledger.extent, extent),
            deviation=deviation,
        )

    def grow(self, ledger: Ledger, block: Projection, w: np.ndarray) -> Ledger:
        """Everything up to the last admitted row is stale, and this is what is held of it.

        Statement 3 of docs/proofs.md.
        """
        early = slice(0, block.fresh_from)
        z = to_host(block.Z[early, :]).astype(float)
        v = w[early]
        trace = self.trace + float(v @ row_norms_squared(z))
        rank = int(block.Z.shape[1])
        total = to_host(padded(self.moments.total, (rank,))) + v @ z
        scatter = None
        if len(ledger.fresh_orders) and self.scatter is not None:
            scatter = to_host(padded(self.scatter, (rank, rank))) + z.T @ (z * v[:, None])
        return ledger.grow(self.moments.weight + float(v.sum()), trace, total, scatter)

    def spectrum(
        self,
        X: Array,
        block: Projection,
        rows: slice,
        weights: np.ndarray,
        n_orders: int,
        coordinates: Callable[[Array], Array],
    ) -> np.ndarray:
        """κ_1 … κ_K of the missed parts of some rows, added over pieces of them.

        κ_k is subadditive, so the sum over pieces bounds κ_k of the whole. The missed part of a row
        that was expressed before the last point was admitted also has a part inside the span, h − z
        with h the coordinates it would have now: the Gram matrix is k(X,X) − HHᵀ + (H−Z)(H−Z)ᵀ.
        (Statement 2 of docs/proofs.md.) Kernel values of two rows are rounded by as much as the
        rows lie apart, which the points do not tell: that is entered here, row by row.
        """
        orders = np.zeros(n_orders)
        roots_of_k = np.sqrt(np.arange(1.0, n_orders + 1.0))
        Z, w = to_float64(block.Z[rows, :]), weights[rows]
        early = bool(block.admitted) and rows.start < block.fresh_from
        length = min(max(int(Z.shape[1]), FEWEST_ROWS), MOST_ROWS)
        for start in range(0, int(X.shape[0]), length):
            piece = slice(start, min(start + length, int(X.shape[0])))
            x, z = to_float64(as_dense(X[piece, :])), Z[piece, :]
            root = np.sqrt(w[piece])
            h = to_float64(coordinates(x)) if early else z
            transposed = namespace_of(z).matrix_transpose
            gram = self.kernel.gram(x) - h @ transposed(h)
            if early:
                gram += (h - z) @ transposed(h - z)
            values = np.linalg.eigvalsh(to_host(gram) * root[:, None] * root[None, :])[::-1]
            sums = np.cumsum(np.maximum(values, 0.0))
            orders += sums[np.minimum(np.arange(n_orders), len(sums) - 1)]
            energy = float(w[piece] @ to_host(self.kernel.diag(x)))
            orders += roots_of_k * rounding.gram_error(self.kernel, x) * energy
        return orders

    def measured_deviation(self, X: Array, block: Projection, seen: int, known: float) -> float:
        """Error of float32 coordinates and energies, measured: not a proof, and labelled so.

        On the first row of a block and on the one with the largest numbers among those that the
        basis holds: far from all points kernel values are 0, and so are their errors. Where points
        were admitted, coordinates were computed in float64.
        """
        span = self.span
        enough = known > 0.0 and seen >= FIRST_MEASURED and seen % MEASURED_EVERY
        if block.admitted or enough:
            return 0.0
        norms = row_norms_squared(X)
        norms = norms * (to_float64(block.energy) - to_float64(block.residual))
        largest = int(namespace_of(norms).argmax(norms))
        chosen = np.array([0, largest])
        rows = to_float64(as_dense(take_rows(X, chosen)))
        exact = to_host(self.kernel.block(rows, to_float64(span.points)) @ span.factor)
        energy = to_host(self.kernel.diag(rows))
        error = np.linalg.norm(exact - to_host(take_rows(block.Z, chosen)), axis=1)
        off = np.abs(energy - to_host(take_rows(block.energy, chosen)))
        some = energy > 0
        error, off, energy = error[some], off[some], energy[some]
        return float(np.maximum(error / np.sqrt(energy), off / energy).max(initial=0.0))

    def change(
        self,
        new: Span,
        new_scatter: Array | None,
        T: Array,
        loss: float | None,
        lost_orders: Callable[[int], np.ndarray | None],
    ) -> Ledger:
        """The ledger after a change of basis by T that lost the energy ``loss``.

        These are the values before it; ``new`` and ``new_scatter`` are those afterwards, and
        ``lost_orders`` gives κ_1 … κ_K of what was lost. (Statements 4 and 14 of docs/proofs.md.)
        """
        old, ledger, moments = self.span, self.ledger, self.moments
        if loss is None or not self.certify:
            return ledger.rebase(moments.weight, loss)
        total = to_host(T @ moments.total)
        if is_padding(T) and is_extension(old, new):
            if new.rank == old.rank:
                return ledger
            scatter = to_host(new_scatter) if len(ledger.fresh_orders) else None
            return ledger.grow(moments.weight, self.trace, total, scatter)
        orders = lost_orders(len(ledger.fresh_orders))
        S, S_new = to_host(self.scatter), to_host(new_scatter)
        carried, lost, off = rounding.change(self.kernel, ledger, old, new, T, S, S_new)
        hidden = rounding.slack(self.kernel, ledger, old, S, off) * (ledger.energy - ledger.exact)
        lost *= ledger.energy
        return ledger.widen(hidden).rebase(
            moments.weight,
            loss + lost,
            None if orders is None else orders + lost,
            trace=self.trace,
            total=total,
            scatter=None if orders is None else S_new,
            rounding=carried,
        )


def is_padding(T: Array) -> bool:
    """Whether coordinates are only extended by zeros."""
    T = to_host(T)
    return bool(np.array_equal(T, np.eye(*T.shape)))


def is_extension(old: Span, new: Span) -> bool:
    """Whether the new points and their factor begin with the old ones."""
    m, q = (int(n) for n in old.factor.shape)
    points, factor = to_host(new.points), to_host(new.factor)
    return (
        len(points) >= m
        and np.array_equal(points[:m], to_host(old.points))
        and np.array_equal(factor[:m, :q], to_host(old.factor))
        and not factor[m:, :q].any()
    )
