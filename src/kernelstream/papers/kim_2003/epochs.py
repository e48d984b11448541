"""Kernel Hebbian algorithm in epochs over a finite set: dual coefficients, convergence.

Kim, Franz and Schölkopf, "Kernel Hebbian algorithm for iterative kernel principal component
analysis" (MPI technical report 109, 2003). Components are expanded in the l mapped rows,
``w_i = Σ_k a_ik φ̃(x_k)`` (eq. 8), and Sanger's rule becomes, for the row x_j (eqs. 10–12)::

    y = A k̃_j,      A ← A + η (y e_jᵀ − LT[y yᵀ] A)

with LT the lower triangle and its diagonal and ``φ̃ = φ − φ̄`` when centred. Nothing of size l × l
is needed. Written so, a row costs O(r l); over a block with the indices J,

    A_t = T_t A_0 + S_t E_Jᵀ,      y_t = T G[:, t] + S K̃_JJ[:, t],      G = A_0 K̃(X, X_J)

with T (r × r) lower triangular and S (r × B): one kernel block and two products a block, and
between them the recursion of the Hebbian tracker (``hebbian.py``), which sees inner
products only. The result is that of the loop over rows, to rounding, for any block size.

Centring (eq. 13, where the second bracket must have a minus: ``k(x(t), x_k) − k̄(x_k)``) is
``K̃_b = H (K_b − k̄ 1ᵀ)``. With the sums ``s = A 1`` and ``q = A k̄``, which a block changes like A
itself, ``G = A K_b − s k̄_Jᵀ − (q − s k̄̄) 1ᵀ``, and no centred matrix is ever formed.

The rows and their kernel matrix are in ``gram.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import array_api_compat
import numpy as np
from array_api_compat import array_namespace

from kernelstream import landmarks
from kernelstream.arrays import (
    Array,
    generator,
    in_threads,
    like,
    to_float64,
    to_host,
)
from kernelstream.papers.kim_2003.gram import KernelMatrix, Means, tiles
from kernelstream.papers.kim_2003.hebbian import recursion
from kernelstream.papers.schedules import Schedule
from kernelstream.papers.sequential import require_bounded, warn_of_shortened

_LOOK_EVERY = 5  # epochs between two looks at how far the components moved
# A residual |Cv − λv| leaves an angle of sin θ ≤ |Cv − λv| / gap to the eigenvector (Davis and
# Kahan). Components are said to have converged when none can be a degree off whose eigenvalue
# differs from the others by more than 5% of itself.
TOLERATED = 0.05 * math.sin(math.radians(1.0))
NO_VARIANCE = 1e-12  # variance of a component, relative to the first, that is rounding only
# Directions whose squared length is below this share of the longest are rounding.
_RANK_FLOOR, _RANK_FLOOR_IN_FLOAT32 = 1e-10, 1e-6


@dataclass(frozen=True)
class Expansion:
    """Components over the rows of a finite set: ``w_i = Σ_k a_ik φ̃(x_k)``.

    ``A`` (r, l) is float64 whatever the rows are; ``variances`` are running estimates of the
    variances of the outputs, ``time`` counts updates and ``n_shortened`` those that were shortened.
    """

    A: Array
    variances: np.ndarray
    time: int = 0
    n_shortened: int = 0


def given(data: KernelMatrix, A: np.ndarray) -> tuple[Expansion, Means]:
    """Components that start at given coefficients A(0) (r, l), as they are, and the means."""
    start = like(A, data.points)
    product, means = data.measured(start)
    landmarks.finite(product, data.kernel)
    return Expansion(start, np.zeros(len(A))), means


def begin(data: KernelMatrix, n_components: int, seed: int) -> tuple[Expansion, Means]:
    """Random orthonormal components in the span of the rows, and the means.

    Normal coefficients are in general position with probability 1, as Theorem 1 asks. They are
    made orthonormal in feature space: a start that is too long would diverge and one that is too
    short would first have to grow, and coefficients alone do not say which, for k or 100·k.
    """
    A = generator(seed, "dual start").normal(size=(n_components, data.n_rows))
    if data.center:
        A -= A.mean(axis=1, keepdims=True)  # a part along the mean has nothing to say
    A = like(A, data.points)
    product, means = data.measured(A)
    landmarks.finite(product, data.kernel)
    inner = to_host(means.centred(A, product) @ array_namespace(A).matrix_transpose(A))
    transform, _ = orthonormal(data, inner)
    return Expansion(like(transform, A) @ A, np.zeros(n_components)), means


def orthonormal(data: KernelMatrix, inner: np.ndarray) -> tuple[np.ndarray, int]:
    """Rows that turn functions with these inner products into orthonormal ones, and their number.

    Where the functions are dependent, the last rows are zero.
    """
    lam, U = np.linalg.eigh((inner + inner.T) / 2)
    lam, U = lam[::-1], U[:, ::-1]
    landmarks.require_semidefinite(data.kernel, float(lam[-1]), float(lam[0]))
    double = data.points.dtype == array_namespace(data.points).float64
    floor = _RANK_FLOOR if double else _RANK_FLOOR_IN_FLOAT32
    # the mean energy of a row, so that rounding is not taken for a direction when all are zero
    scale = max(float(lam[0]), floor * float(np.abs(to_host(data.kernel.diag(data.X))).mean()))
    kept = lam > floor * scale
    return (U * np.where(kept, 1.0 / np.sqrt(np.where(kept, lam, 1.0)), 0.0)).T, int(kept.sum())


def sample_epoch(
    data: KernelMatrix,
    means: Means,
    state: Expansion,
    schedule: Schedule,
    order: np.ndarray,
    watched: Array | None = None,
    guard: bool = True,
) -> tuple[Expansion, np.ndarray | None]:
    """One pass over the rows in the given order, every row an update (eqs. 10–13).

    The squared lengths ``Δ K̃ Δᵀ`` of other functions may be measured on the way: ``watched`` are
    their coefficients, and the kernel blocks are there anyway.
    """
    xp = array_namespace(state.A)
    A = state.A
    variances, time, n_shortened = state.variances.copy(), state.time, state.n_shortened
    k, grand = means.column, means.grand
    s, q = sums(A, means)
    lengths = np.zeros(len(s))
    blocks = [order[i : i + data.batch_size] for i in range(0, len(order), data.batch_size)]
    r = int(A.shape[0])
    for J in blocks:
        G, inner = data.outputs(A if watched is None else xp.concat([A, watched], axis=0), J)
        G, looked_at = G[:r], G[r:]
        if data.center:
            G -= np.outer(s, k[J]) + (q - s * grand)[:, None]
            inner -= k[J][:, None]
            inner -= k[J][None, :] - grand
        if watched is not None:
            lengths += np.sum(looked_at * to_host(xp.take(watched, like(J, A), axis=1)), axis=1)
        steps = schedule.steps(time + 1, len(J)) * data.weights[J]
        T, S, shortened = recursion(G, inner, steps, time, variances, schedule, guard)
        A = turned(like(T, A), A)
        add_to_columns(A, J, like(S, A))
        s, q = T @ s + S.sum(axis=1), T @ q + S @ k[J]
        time, n_shortened = time + len(J), n_shortened + shortened
    after = Expansion(A, variances, time, n_shortened)
    return after, None if watched is None else centred_lengths(watched, means, lengths)


def add_to_columns(A: Array, J: np.ndarray, values: Array) -> None:
    """Add ``values`` to the columns J, all different, of A, in place."""
    if (
        isinstance(A, np.ndarray)
        or array_api_compat.is_torch_array(A)
        or array_api_compat.is_cupy_array(A)
    ):
        A[:, like(J, A)] += values
        return
    for i, column in enumerate(J):  # the standard has no assignment to an array of indices
        A[:, int(column)] += values[:, i]


def turned(T: Array, A: Array) -> Array:
    """``T A``, columns of A by threads."""
    cuts = tiles(A.shape[1], A.shape[0]) if isinstance(A, np.ndarray) else []
    if len(cuts) < 2:
        return T @ A
    found = np.empty_like(A)

    def write(at: slice) -> None:
        found[:, at] = T @ A[:, at]

    in_threads(write, cuts)
    return found


def centred_lengths(A: Array, means: Means, lengths: np.ndarray) -> np.ndarray:
    """The diagonal of ``A K̃ Aᵀ`` from that of ``A K Aᵀ``."""
    s, q = sums(A, means)
    return lengths - 2.0 * s * q + s * s * means.grand


def sums(A: Array, means: Means) -> tuple[np.ndarray, np.ndarray]:
    """``s = A 1`` and ``q = A k̄``, on the host."""
    return to_host(array_namespace(A).sum(A, axis=1)), to_host(A @ like(means.column, A))


def learn(
    data: KernelMatrix,
    state: Expansion,
    means: Means,
    schedule: Schedule,
    n_epochs: int,
    tol: float,
    seed: int,
    guard: bool = True,
    ritz: bool = True,
) -> tuple[Expansion, int, Solution]:
    """Epochs until the components come to rest and are right: expansion, number, solution.

    At rest means that the squared change of every component over an epoch, in feature space, is
    smaller than ``tol``; components have unit length, so that is the same for every kernel. The
    coefficients would say less: most of their change may be in directions that the kernel hardly
    sees. The change is measured in the epoch after it, and every fifth time only, for it costs a
    product. (Section 5 of the paper stops when the change is *larger* than the threshold.) Steps
    that fall make every rule come to rest somewhere, so then the residuals are looked at, and where
    they are too large, epochs go on. With ``ritz=False``, for those who want the paper's rule to
    the letter, the change alone decides.

    Each epoch has its own random order, a function of the seed.
    """
    schedule = schedule.repeated(data.n_rows)
    change, epoch, before = np.inf, 0, state.A
    found: Solution | None = None
    while epoch < n_epochs:
        if change < tol:
            found = solution(data, means, state, ritz)
            if not ritz or found.converged:
                break
            found, change = None, np.inf
        watched = state.A - before if epoch > 0 and epoch % _LOOK_EVERY == 0 else None
        before = state.A
        order = generator(seed, "epoch", epoch).permutation(data.n_rows)
        state, moved = sample_epoch(data, means, state, schedule, order, watched, guard)
        require_bounded("KernelHebbianPCA", state.A)
        change = change if moved is None else float(moved.max())
        epoch += 1
    warn_of_shortened("KernelHebbianPCA", 0, state.n_shortened)
    if found is None:
        found = solution(data, means, state, ritz)
    if not ritz:
        found = replace(found, converged=bool(change < tol) and found.converged)
    return state, epoch, found


@dataclass(frozen=True)
class Solution:
    """A finished expansion in orthonormal coordinates of its own small span.

    The span is that of the components and the mean, r + 1 functions over the l rows: everything a
    query needs, without a matrix of size l × l.
    """

    span: landmarks.Span
    V: Array  # (q, r) unit columns
    total: Array  # (q,) Σ w z
    variances: np.ndarray  # (r,) exact variances of the outputs
    energy: float  # Σ w k(x, x)
    missed: float  # what the span misses of it
    residuals: np.ndarray  # (r,) |C v − λ v| / λ
    converged: bool  # whether no residual leaves room for an angle of a degree


def solution(data: KernelMatrix, means: Means, state: Expansion, ritz: bool = True) -> Solution:
    """Exact variances and residuals of the components: four passes over the kernel matrix.

    With ``ritz`` they are the best components in the span that was found, with fixed signs.
    Without, in two passes, they are those of the rule, at its length and with its sign.
    """
    state = finished(data, means, state) if ritz else state
    xp = array_namespace(state.A)
    # components (and mean) as functions of the raw φ: Σ a (φ − φ̄) = Σ (a − s w/l) φ
    share = like(data.weights / data.n_rows, state.A)[None, :]
    C = state.A
    if data.center:
        C = C - xp.sum(C, axis=1)[:, None] * share
        C = xp.concat([C, share], axis=0)
    Y = data.products(C)
    if data.center:
        # the last function is the mean itself: its inner products are known to full precision
        Y[-1, :] = like(means.column, Y)
    inner = to_host(Y @ xp.matrix_transpose(C))
    transform, rank = orthonormal(data, inner)
    transform = transform[:rank]
    factor = xp.matrix_transpose(like(transform, C) @ C)
    Z = xp.matrix_transpose(like(transform, Y) @ Y)  # coordinates of all rows, (l, q)
    w = like(data.weights, Z)
    total = xp.matrix_transpose(Z) @ w
    r = int(state.A.shape[0])
    raw = transform @ inner[:, :r]
    centred = Z - (total / data.n_rows)[None, :] if data.center else Z
    if ritz:
        shown = factor @ like(raw, factor)
        positive = to_host(xp.max(shown, axis=0) >= -xp.min(shown, axis=0))
        raw *= np.where(positive, 1.0, -1.0)[None, :]  # the largest coefficient is positive
    norms = np.linalg.norm(raw, axis=0)
    V = raw / np.where(norms > 0, norms, 1.0)[None, :]
    outputs = centred @ like(V, Z)
    variances = to_host(w @ outputs**2) / data.n_rows
    residuals = residuals_of(data, means, outputs, variances)
    energy = float(data.weights @ to_host(to_float64(data.kernel.diag(data.X))))
    held = float(xp.sum(w[:, None] * Z**2))
    return Solution(
        span=landmarks.Span(data.points, factor, xp.astype(factor, data.points.dtype, copy=False)),
        V=like(raw, factor),
        total=total,
        variances=variances,
        energy=energy,
        missed=max(energy - held, 0.0),
        residuals=residuals,
        converged=bool(np.all(residuals <= TOLERATED)),
    )


def finished(data: KernelMatrix, means: Means, state: Expansion) -> Expansion:
    """A finish by Rayleigh and Ritz: the best r components in the span of w_i and C w_i.

    Sanger's rule finds the span long before it has turned two components of nearly the same
    variance apart. With the outputs Y of the components, ``C w_i = Σ_j (w_j/l) y_ij φ̃_j``; these
    and the w_i span a space whose principal directions need no more than their outputs.
    """
    xp = array_namespace(state.A)
    share = like(data.weights / data.n_rows, state.A)[None, :]
    Y = means.centred(state.A, data.products(state.A))
    # at unit length: a kernel times 100 has images 100 times as long
    images = Y * share
    outputs = means.centred(images, data.products(images))
    both, seen = xp.concat([state.A, images], axis=0), xp.concat([Y, outputs], axis=0)
    inner = to_host(seen @ xp.matrix_transpose(both))
    lengths = np.sqrt(np.maximum(np.diag(inner), 0.0))
    unit = np.divide(1.0, lengths, out=np.zeros(len(lengths)), where=lengths > 0)
    transform, rank = orthonormal(data, inner * unit[:, None] * unit[None, :])
    transform = transform[:rank] * unit[None, :]
    scatter = transform @ to_host((seen * share) @ xp.matrix_transpose(seen)) @ transform.T
    _, vectors = np.linalg.eigh((scatter + scatter.T) / 2)
    r = int(state.A.shape[0])
    best = np.zeros((r, 2 * r))
    best[: min(r, rank)] = vectors[:, ::-1][:, :r].T @ transform
    return replace(state, A=like(best, both) @ both)


def residuals_of(
    data: KernelMatrix, means: Means, outputs: Array, variances: np.ndarray
) -> np.ndarray:
    """``|C v − λ v| / λ`` of unit components, C the covariance: how far from an eigenvector.

    ``C v = Σ_j (w_j/l) y_j φ̃_j`` has the coefficients ``w y/l``, and its squared length less λ² is
    that of the residual: λ = ⟨v, C v⟩.
    """
    xp = array_namespace(outputs)
    B = xp.matrix_transpose(outputs * like(data.weights / data.n_rows, outputs)[:, None])
    image = means.centred(B, data.products(B))
    squared = to_host(xp.sum(image * B, axis=1))
    rest = np.sqrt(np.maximum(squared - variances**2, 0.0))
    some = variances > NO_VARIANCE * variances.max(initial=0.0)
    return np.divide(rest, variances, out=np.zeros(len(rest)), where=some)
