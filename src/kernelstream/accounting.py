"""Entries into the ledger: what a block misses, and what a change of basis costs.

With ``certify="tight"`` the missed parts of a block are looked at together: the eigenvalues of
their Gram matrix ``k(X,X) − ZZᵀ`` say how much of the missed energy can lie in one direction, in
two, in three, which is far less than all of it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kernelstream.backends.arrays import (
    Array,
    as_dense,
    namespace_of,
    to_float64,
    to_host,
)
from kernelstream.bases import Projection, Span
from kernelstream.kernels import Kernel
from kernelstream.ledger import Ledger
from kernelstream.model import Parts, State

SPECTRAL_ROWS = 512  # rows whose missed parts are looked at together: more is tighter and dearer
CALIBRATED_ROWS = 2  # rows of each float32 block that are computed again in float64


def blank_ledger(parts: Parts) -> Ledger:
    """A ledger with as many orders as the certificate will ask for: r components and the mean."""
    if parts.certify != "tight":
        return Ledger()
    r = parts.n_components if isinstance(parts.n_components, int) else 20
    return Ledger(fresh_orders=np.zeros(r + 1), stale_orders=np.zeros(r + 1))


def enter(parts: Parts, state: State, X: Array, block: Projection, weights: np.ndarray | None):
    """Enter the energies of a block; rows before the last admitted point become stale with it."""
    n = int(block.Z.shape[0])
    w = np.ones(n) if weights is None else weights
    energy = w * to_host(block.energy).astype(float)
    missed = w * to_host(block.residual).astype(float)
    ledger = replace(
        state.ledger,
        blocks=state.ledger.blocks + 1,
        longest=max(state.ledger.longest, n),
    )
    if parts.certify:
        ledger = replace(
            ledger,
            extent=max(ledger.extent, parts.kernel.extent(X, parts.basis.span(state.basis))),
            deviation=max(ledger.deviation, measured_deviation(parts, state, X, block)),
        )
    for rows in (slice(0, block.fresh_from), slice(block.fresh_from, n)):
        if rows.stop > rows.start:
            orders, total = spectrum(parts.kernel, X[rows], block.Z[rows, :], w[rows], ledger)
            ledger = ledger.fold(
                float(energy[rows].sum()), max(float(missed[rows].sum()), total), orders
            )
        if block.admitted and rows.start == 0:
            ledger = ledger.grow(state.moments.weight + float(w[rows].sum()))
    return ledger


def spectrum(
    kernel: Kernel, X: Array, Z: Array, weights: np.ndarray, ledger: Ledger
) -> tuple[np.ndarray | None, float]:
    """κ_1 … κ_K of the missed parts of a block, added over pieces of it, and their trace.

    κ_k is subadditive, so the sum over pieces bounds κ_k of the whole.
    """
    K = len(ledger.fresh_orders)
    if K == 0:
        return None, 0.0
    orders, total = np.zeros(K), 0.0
    for start in range(0, int(X.shape[0]), SPECTRAL_ROWS):
        stop = min(start + SPECTRAL_ROWS, int(X.shape[0]))
        rows, z = to_float64(as_dense(X[start:stop])), to_float64(Z[start:stop, :])
        root = np.sqrt(weights[start:stop])
        gram = kernel.gram(rows) - z @ namespace_of(z).matrix_transpose(z)
        values = np.linalg.eigvalsh(to_host(gram) * root[:, None] * root[None, :])[::-1]
        sums = np.cumsum(np.maximum(values, 0.0))
        orders += sums[np.minimum(np.arange(K), len(sums) - 1)]
        total += float(sums[-1])
    return orders, total


def measured_deviation(parts: Parts, state: State, X: Array, block: Projection) -> float:
    """Error of float32 coordinates, measured on a few rows: not a proof, and labelled so."""
    span = parts.basis.span(state.basis)
    if span is None or block.admitted or str(block.Z.dtype).rsplit(".", 1)[-1] != "float32":
        return 0.0
    n = min(CALIBRATED_ROWS, int(X.shape[0]))
    rows = to_float64(X[:n])
    exact = parts.kernel.block(rows, to_float64(span.points)) @ span.factor
    xp = namespace_of(exact)
    error = xp.sqrt(xp.sum((exact - to_float64(block.Z[:n, :])) ** 2, axis=1))
    norm = xp.sqrt(to_float64(block.energy[:n]))
    return float(xp.max(xp.where(norm > 0, error / xp.where(norm > 0, norm, 1.0), 0.0 * norm)))


def after_change(parts: Parts, state: State, new: Span | None, T: Array, loss: float | None):
    """The ledger after a change of basis by T that lost the energy ``loss``."""
    old = parts.basis.span(state.basis)
    ledger = state.ledger
    orders = parts.tracker.lost_orders(state.tracker, T, len(ledger.fresh_orders))
    if parts.certify and old is not None and new is not None:
        rounding = ledger.rounding + rounding_of_change(parts.kernel, old, new, ledger.extent)
        ledger = replace(ledger, rounding=rounding)
    return ledger.rebase(state.moments.weight, loss, orders)


def rounding_of_change(kernel: Kernel, old: Span, new: Span, extent: float) -> float:
    """Relative error of coordinates that were carried from one basis to another.

    The coordinates in the old basis had their own error, and T = F'ᵀ K(D',D) F has one more.
    """
    u = float(np.finfo(np.float64).eps) / 2
    m = max(old.points.shape[0], new.points.shape[0])
    c = kernel.rounding(extent, int(old.points.shape[1]))
    largest = largest_energy(kernel, old) ** 0.5 * largest_energy(kernel, new) ** 0.5
    transfer = factor_norm(old) * factor_norm(new) * m * largest * (c + m) * u
    return coordinate_rounding(kernel, old, extent) + transfer


def coordinate_rounding(kernel: Kernel, span: Span, extent: float) -> float:
    """ω and η: |z_computed − z| ≤ ω √k(x,x) and FᵀKF ≤ 1 + η, to first order in the roundoff u."""
    m, d = (int(n) for n in span.points.shape)
    if m == 0:
        return 0.0
    rows_u, u = unit_roundoff(span), float(np.finfo(np.float64).eps) / 2
    c = kernel.rounding(extent, d)
    largest, norm = largest_energy(kernel, span), factor_norm(span)
    omega = norm * (m * largest) ** 0.5 * (c + m + 2) * rows_u
    xp = namespace_of(span.factor)
    K = kernel.gram(to_float64(span.points))
    defect = xp.matrix_transpose(span.factor) @ K @ span.factor
    defect = to_host(defect) - np.eye(span.rank)
    eta = float(np.linalg.norm(defect))
    eta += norm * norm * (float(np.linalg.norm(to_host(K))) * m * 2 * u + m * c * largest * u)
    return 4 * omega + eta


def unit_roundoff(span: Span) -> float:
    """U of the type in which coordinates are computed."""
    single = str(span.projector.dtype).rsplit(".", 1)[-1] == "float32"
    return float(np.finfo(np.float32 if single else np.float64).eps) / 2


def largest_energy(kernel: Kernel, span: Span) -> float:
    """Max k(d, d) over the points."""
    return float(to_host(kernel.diag(to_float64(span.points))).max(initial=0.0))


def factor_norm(span: Span) -> float:
    """|F|₂."""
    return float(np.linalg.norm(to_host(span.factor), 2))
