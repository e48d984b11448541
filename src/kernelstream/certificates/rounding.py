"""Rounding error analysis: float32 and float64 error bounds added to every guaranteed bound.

With the points D and the factor F as they are stored, a row is held as φ̂ = Φ_D F z: exactly a
vector of the span, whatever errors F and z have. Two things then differ from the theory, and both
are weighed by the rows that were seen, since a large error in a direction that no row uses is none:

- the factor is orthonormal up to a *defect* Δ = FᵀKF − I, so the scatter of the φ̂ is not S but
  S + S^½ΔS^½. With A = F S^½, the coefficients of the rows, Δ S^½ = FᵀKA − S^½ can be computed with
  an error of |F||A|u only, where FᵀKF itself would have |F|²u;
- what is missed is orthogonal to the span up to g = Uᵀ(φ − φ̂), U = Φ_D F: the rounding error of
  z and once more the defect.

Constants are first order and worst case, u is the unit roundoff. All results are relative to the
energy E = Σ w k(x,x): an error |g| of coordinates moves eigenvalues by 2|g||z|, the defect by
|Δz||z|, and the missed energy k(x,x) − |z|² by both.
"""

from __future__ import annotations

import numpy as np

from kernelstream.arrays.namespaces import Array, to_float64, to_host
from kernelstream.certificates.ledger import Ledger
from kernelstream.kernels import Kernel
from kernelstream.landmarks import Span

U64 = float(np.finfo(np.float64).eps) / 2


def slack(
    kernel: Kernel, ledger: Ledger, span: Span, S: np.ndarray, off: float | None = None
) -> float:
    """Allowance for rounding, relative to the energy, in a state with the scatter S.

    ``off`` is the defect of the factor where it is known already. (Statement 13 of docs/proofs.md,
    which also tells where each constant comes from.)
    """
    m = int(span.points.shape[0])
    c = value_error(kernel, ledger, span)
    if off is None:
        off = defect(kernel, span, S, c, ledger) if m else 0.0
    additions = (ledger.longest + m + 8 + 2 * (ledger.blocks + 4 * m + 8)) * U64
    return (
        2 * coordinate_error(kernel, span, c) + 3 * off + 2 * ledger.rounding + c * U64 + additions
    )


def value_error(kernel: Kernel, ledger: Ledger, *spans: Span) -> float:
    """Error of the kernel's values with the points of these spans and of all before them, in u."""
    extent = max([ledger.extent, *(span.extent(kernel) for span in spans)])
    return kernel.rounding.worst(extent, int(spans[0].points.shape[1]))


def gram_error(kernel: Kernel, X: Array) -> float:
    """ε with |ΔK|_F ≤ ε Σ k(x,x) for the computed Gram matrix of the rows X.

    Each value is off by c u √(k(x,x)k(y,y)), where c knows how far the *rows* lie apart. Weights
    change nothing: √w k √w is a Gram matrix as well. (Statement 13 of docs/proofs.md.)
    """
    return kernel.rounding.worst(kernel.rounding.extent(X), int(X.shape[1])) * U64


def coordinate_error(kernel: Kernel, span: Span, c: float) -> float:
    """ω with |z_computed − z| ≤ ω √k(x,x): errors of the kernel and of the product with F."""
    m = int(span.points.shape[0])
    return (m * largest_energy(kernel, span)) ** 0.5 * factor_norm(span) * (c + m + 2) * U64


def defect(kernel: Kernel, span: Span, S: np.ndarray, c: float, ledger: Ledger) -> float:
    """θ with |Δ S^½| ≤ θ √E: measured, plus the rounding error of the measurement."""
    m, norm = int(span.points.shape[0]), factor_norm(span)
    F, K = to_host(span.factor), to_host(span.gram(kernel))
    root = root_above(S, ledger)
    A = F @ root
    KA = K @ A
    found = float(np.linalg.norm(F.T @ KA - root))
    energy = largest_energy(kernel, span)
    lengths = float(np.linalg.norm(A)), float(np.linalg.norm(root)), float(np.linalg.norm(KA))
    error = norm * m * energy * (c + m) * lengths[0]  # K, and its product with A
    error += (m * energy) ** 0.5 * m * norm * lengths[1]  # A
    error += m * norm * lengths[2]  # the last product
    return relative(found + error * U64, ledger.energy)


def change(
    kernel: Kernel,
    ledger: Ledger,
    old: Span,
    new: Span,
    T: Array,
    S: np.ndarray,
    S_new: np.ndarray,
) -> tuple[float, float, float]:
    """Errors of a change of basis by T: of carried coordinates, of the energy lost, of the factor.

    S and S' = TSTᵀ are the scatter before and after. T = F'ᵀK(D',D)F itself has an error of
    |F'||F|u; what it does to the rows is compared with F'ᵀK(D',D)A, whose error is |F'||A|u.
    (Statement 14 of docs/proofs.md.) That takes nine products of m × m matrices, 20 ms for 256
    landmarks. A bound from norms of columns takes two products, but it left nothing to say about
    merged models that miss next to nothing: 0.04 became 0.7 in the explained variance ratio.
    """
    c = value_error(kernel, ledger, old, new)
    before = defect(kernel, old, S, c, ledger)
    T = to_host(T)
    after = defect(kernel, new, S_new, c, ledger)
    cross = to_host(kernel.block(to_float64(new.points), to_float64(old.points)))
    root = root_above(S, ledger)
    A = to_host(old.factor) @ root
    KA = cross @ A
    found = float(np.linalg.norm(T @ root - to_host(new.factor).T @ KA))
    m, m_new = int(old.points.shape[0]), int(new.points.shape[0])
    energy, energy_new = largest_energy(kernel, old), largest_energy(kernel, new)
    pairs = (m * m_new * energy * energy_new) ** 0.5
    error = factor_norm(new) * pairs * (c + m) * float(np.linalg.norm(A))
    rooted = float(np.linalg.norm(root))
    error += (m_new * energy_new) ** 0.5 * m * factor_norm(old) * rooted
    error += m_new * factor_norm(new) * float(np.linalg.norm(KA))
    error += 2 * m * float(np.linalg.norm(T)) * rooted  # T S Tᵀ
    carried = relative(found + error * U64, ledger.energy) + after
    return carried, before + after + 2 * carried, before


def root_above(S: np.ndarray, ledger: Ledger) -> np.ndarray:
    """A matrix B with BBᵀ ≥ S, whatever rounding S has from being added up."""
    m = len(S)
    trace = max(float(np.trace(S)), 0.0)
    if not np.all(np.isfinite(S)):
        return np.full_like(S, np.nan)
    # S was added up block by block.
    jitter = (ledger.longest + ledger.blocks + 8 * m + 8) * U64 * trace
    while True:
        try:
            return np.linalg.cholesky(S + jitter * np.eye(m))
        except np.linalg.LinAlgError:
            jitter = 10 * jitter + np.finfo(float).tiny


def largest_energy(kernel: Kernel, span: Span) -> float:
    """Max k(d, d) over the points."""
    return float(to_host(kernel.diag(to_float64(span.points))).max(initial=0.0))


def factor_norm(span: Span) -> float:
    """|F| (Frobenius), above the spectral norm."""
    return float(np.linalg.norm(to_host(span.factor)))


def relative(error: float, energy: float) -> float:
    """``error``/√E; nothing was seen: nothing is wrong."""
    return error / energy**0.5 if energy > 0 else 0.0
