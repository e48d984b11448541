"""The kernel Hebbian algorithm over a finite set, in dual coefficients.

Kim, Franz and Schölkopf, "Kernel Hebbian algorithm for iterative kernel principal component
analysis" (MPI technical report 109, 2003). Components are expanded in the l mapped rows,
``w_i = Σ_k a_ik φ̃(x_k)`` (eq. 8), and Sanger's rule becomes, for the row x_j (eqs. 10–12)::

    y = A k̃_j,      A ← A + η (y e_jᵀ − LT[y yᵀ] A)

with LT the lower triangle and its diagonal and ``φ̃ = φ − φ̄`` when centred. Nothing of size l × l
is needed. Written so, a row costs O(r l); over a block with the indices J,

    A_t = T_t A_0 + S_t E_Jᵀ,      y_t = T G[:, t] + S K̃_JJ[:, t],      G = A_0 K̃(X, X_J)

with T (r × r) lower triangular and S (r × B): one kernel block and two products a block, and
between them the recursion of the Hebbian tracker (``trackers/hebbian.py``), which sees inner
products only. The result is that of the loop over rows, to rounding, for any block size.

Centring (eq. 13, where the second bracket must have a minus: ``k(x(t), x_k) − k̄(x_k)``) is
``K̃_b = H (K_b − k̄ 1ᵀ)``. With the sums ``s = A 1`` and ``q = A k̄``, which a block changes like A
itself, ``G = A K_b − s k̄_Jᵀ − (q − s k̄̄) 1ᵀ``, and no centred matrix is ever formed.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import array_api_compat
import numpy as np

from kernelstream.backends.arrays import (
    Array,
    add_to_columns,
    as_dense,
    canonical_signs,
    cast,
    is_sparse,
    like,
    lower_times,
    namespace_of,
    on_accelerator,
    take_rows,
    to_float64,
    to_host,
)
from kernelstream.backends.draws import generator
from kernelstream.bases.base import Span, finite, require_semidefinite
from kernelstream.dual_device import DeviceEpochs, block_rows, runs_on_device
from kernelstream.kernels import Kernel
from kernelstream.schedules import Schedule
from kernelstream.trackers.hebbian import recursion

# Bytes of a kernel block when the block size is left to us: it should stay in reach of the cache.
_BLOCK_BYTES = 2**25
_DEVICE_BLOCK_BYTES = 2**28  # on a GPU
_LOOK_EVERY = 5  # epochs between two looks at how far the components moved
# Directions whose squared length is below this share of the longest are rounding.
_RANK_FLOOR = {"float64": 1e-10, "float32": 1e-6}


class FiniteSet:
    """Rows of data and their kernel matrix, of which blocks of rows are computed when asked for.

    If the whole matrix fits ``cache_bytes``, it is computed once and kept: Kim et al. (section 5)
    note that an epoch then costs O(r l²) instead of O((N + r) l²). ``means`` are the k̄ of
    eq. (13), found in the same pass; zero when not centred.

    Parameters
    ----------
    kernel : Kernel
        With its numbers fixed.
    X : array of shape (l, d)
        The rows, dense or CSR.
    center : bool
        Whether the mapped rows are centred.
    weights : array of shape (l,), optional
        Positive weights: a row of weight two moves the components (and the mean) twice as much.
    n_components : int
        For the choice of the block size: the product with T costs r² a column and block.
    batch_size : int, optional
        Rows in a block.
    cache_bytes : int
        Memory that the kernel matrix may take.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.kernels import RBF
    >>> data = FiniteSet(RBF(gamma=1.0), np.array([[0.0], [1.0], [2.0]]))
    >>> data.block(np.array([2, 0])).round(3)
    array([[0.018, 0.368, 1.   ],
           [1.   , 0.368, 0.018]])
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Array,
        center: bool = True,
        weights: np.ndarray | None = None,
        n_components: int = 1,
        batch_size: int | None = None,
        cache_bytes: int = 2**30,
    ):
        self.kernel = kernel
        self.X = X
        self.points = as_dense(X)
        self._met = self.points if is_sparse(X) else kernel.prepared(X)
        self.center = center
        self.n_rows = int(X.shape[0])
        self.weights = np.ones(self.n_rows) if weights is None else weights / weights.mean()
        row_bytes = self.n_rows * np.dtype(str(X.dtype).rsplit(".", 1)[-1]).itemsize
        if batch_size is None:
            most, wanted = _BLOCK_BYTES, max(128, n_components)
            if on_accelerator(X):
                most, wanted = _DEVICE_BLOCK_BYTES, block_rows(n_components)
            batch_size = max(16, min(most // row_bytes, wanted))
        self.batch_size = batch_size
        self.epochs: DeviceEpochs | None = None  # what the first epoch on a GPU sets up
        self.matrix: Array | None = None
        if self.n_rows * row_bytes <= cache_bytes:
            self.matrix = namespace_of(self.points).empty(
                (self.n_rows, self.n_rows),
                dtype=self.points.dtype,
                device=array_api_compat.device(self.points),
            )
            self._fill(self.matrix)
            self._met = self.points  # the prepared form has done its work

    def _fill(self, matrix: Array) -> None:
        """Compute the kernel matrix: half of it, where the kernel is sure to be symmetric."""
        # a device looks at every new cut of the points anew, and waits for the answer
        half = self.kernel.psd and not on_accelerator(self.points)
        transposed = namespace_of(matrix).matrix_transpose
        for here in self._in_order():
            if not half:
                matrix[here, :] = self._computed(here)
                continue
            before, so_far = slice(0, here.start), slice(0, here.stop)
            K = self.kernel.block(self.X[here, :], self._met[so_far, :])
            matrix[here, so_far] = K
            matrix[before, here] = transposed(K[:, before])

    def _in_order(self) -> Iterator[slice]:
        for start in range(0, self.n_rows, self.batch_size):
            yield slice(start, min(start + self.batch_size, self.n_rows))

    def _computed(self, here: slice) -> Array:
        return self.kernel.block(self.X[here, :], self._met)

    def block(self, J: np.ndarray) -> Array:
        """``k(x_j, x_k)`` for the rows j of a block and all k: (B, l), in the type of the rows."""
        if self.matrix is not None:
            return take_rows(self.matrix, J)
        return self.kernel.block(take_rows(self.X, J), self._met)

    def products(self, A: Array) -> Array:
        """``A K`` (r × l), not centred: one pass over the kernel matrix."""
        return self._pass(A)[0]

    def measured(self, A: Array) -> tuple[Array, Means]:
        """``A K`` and the means k̄ of the columns, in one pass over the kernel matrix."""
        product, sums = self._pass(A, with_sums=self.center)
        column = sums / self.n_rows
        return product, Means(column, float(self.weights @ column) / self.n_rows)

    def _pass(self, A: Array, with_sums: bool = False) -> tuple[Array, np.ndarray]:
        xp = namespace_of(A)
        product, sums = xp.zeros_like(A), np.zeros(self.n_rows)
        narrow, w = cast(A, self.points.dtype), like(self.weights, A)
        for here in self._in_order():
            K = self._computed(here) if self.matrix is None else self.matrix[here, :]
            product[:, here] = to_float64(narrow @ xp.matrix_transpose(K))
            if with_sums:
                sums[here] = to_host(to_float64(K) @ w)
        return product, sums


@dataclass(frozen=True)
class Means:
    """k̄ of every row (l,), and their mean k̄̄: inner products with φ̄. All zero if not centred."""

    column: np.ndarray
    grand: float

    def centred(self, A: Array, product: Array) -> Array:
        """``A K̃`` from ``A K``."""
        xp = namespace_of(A)
        column = like(self.column, A)
        s, q = xp.sum(A, axis=1), A @ column
        return product - s[:, None] * column[None, :] - (q - s * self.grand)[:, None]


@dataclass(frozen=True)
class Expansion:
    """Components over the rows of a finite set: ``w_i = Σ_k a_ik φ̃(x_k)``.

    ``A`` (r, l) is float64 whatever the rows are; ``variances`` are running estimates of the
    variances of the outputs, ``time`` counts updates and ``tamed`` those that were shortened.
    """

    A: Array
    variances: np.ndarray
    time: int = 0
    tamed: int = 0


def begin(data: FiniteSet, n_components: int, seed: int) -> tuple[Expansion, Means]:
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
    finite(product, data.kernel)
    inner = to_host(means.centred(A, product) @ namespace_of(A).matrix_transpose(A))
    transform, _ = orthonormal(data, inner)
    return Expansion(like(transform, A) @ A, np.zeros(n_components)), means


def orthonormal(data: FiniteSet, inner: np.ndarray) -> tuple[np.ndarray, int]:
    """Rows that turn functions with these inner products into orthonormal ones, and their number.

    Where the functions are dependent, the last rows are zero.
    """
    lam, U = np.linalg.eigh((inner + inner.T) / 2)
    lam, U = lam[::-1], U[:, ::-1]
    require_semidefinite(data.kernel, float(lam[-1]), float(lam[0]))
    floor = _RANK_FLOOR[str(data.points.dtype).rsplit(".", 1)[-1]]
    # the mean energy of a row, so that rounding is not taken for a direction when all are zero
    scale = max(float(lam[0]), floor * float(np.abs(to_host(data.kernel.diag(data.X))).mean()))
    kept = lam > floor * scale
    return (U * np.where(kept, 1.0 / np.sqrt(np.where(kept, lam, 1.0)), 0.0)).T, int(kept.sum())


def sample_epoch(
    data: FiniteSet,
    means: Means,
    state: Expansion,
    schedule: Schedule,
    order: np.ndarray,
    watched: Array | None = None,
) -> tuple[Expansion, np.ndarray | None]:
    """One pass over the rows in the given order, every row an update (eqs. 10–13).

    The squared lengths ``Δ K̃ Δᵀ`` of other functions may be measured on the way: ``watched`` are
    their coefficients, and the kernel blocks are there anyway.
    """
    if runs_on_device(state.A):
        if data.epochs is None:
            data.epochs = DeviceEpochs(data, means, int(state.A.shape[0]), schedule)
        A, variances, shortened, found = data.epochs.run(state, order, watched)
        after = Expansion(A, variances, state.time + len(order), state.tamed + shortened)
        return after, None if watched is None else centred_lengths(watched, means, found)
    xp = namespace_of(state.A)
    A = xp.asarray(state.A, copy=True)  # it is changed in place
    variances, time, tamed = state.variances.copy(), state.time, state.tamed
    k, grand = means.column, means.grand
    s, q = sums(A, means)
    lengths = np.zeros(len(s))
    blocks = [order[i : i + data.batch_size] for i in range(0, len(order), data.batch_size)]
    # On a GPU the next kernel block is computed while the host is busy with the recursion.
    early = on_accelerator(A)
    K = data.block(blocks[0])
    for number, J in enumerate(blocks):
        Kt = xp.matrix_transpose(K)
        G = to_host(to_float64(cast(A, K.dtype) @ Kt))
        inner = to_host(to_float64(xp.take(K, like(J, K), axis=1)))
        if data.center:
            G -= np.outer(s, k[J]) + (q - s * grand)[:, None]
            inner -= k[J][:, None]
            inner -= k[J][None, :] - grand
        if watched is not None:
            outputs = to_float64(cast(watched, K.dtype) @ Kt)
            lengths += to_host(xp.sum(outputs * xp.take(watched, like(J, A), axis=1), axis=1))
        following = blocks[number + 1 : number + 2]
        if early and following:
            K = data.block(following[0])
        steps = schedule.steps(time + 1, len(J)) * data.weights[J]
        T, S, shortened = recursion(G, inner, steps, time, variances, schedule)
        A = lower_times(T, A)
        add_to_columns(A, J, like(S, A))
        s, q = T @ s + S.sum(axis=1), T @ q + S @ k[J]
        time, tamed = time + len(J), tamed + shortened
        if not early and following:
            K = data.block(following[0])
    after = Expansion(A, variances, time, tamed)
    return after, None if watched is None else centred_lengths(watched, means, lengths)


def centred_lengths(A: Array, means: Means, lengths: np.ndarray) -> np.ndarray:
    """The diagonal of ``A K̃ Aᵀ`` from that of ``A K Aᵀ``."""
    s, q = sums(A, means)
    return lengths - 2.0 * s * q + s * s * means.grand


def sums(A: Array, means: Means) -> tuple[np.ndarray, np.ndarray]:
    """``s = A 1`` and ``q = A k̄``, on the host."""
    return to_host(namespace_of(A).sum(A, axis=1)), to_host(A @ like(means.column, A))


def batch_update(
    data: FiniteSet,
    means: Means,
    state: Expansion,
    schedule: Schedule,
    watched: Array | None = None,
) -> tuple[Expansion, np.ndarray | None]:
    """The expected update over all rows at once: batch KHA.

    The mean over j of eq. (10) is ``A + η (Y − LT[Y Yᵀ] A) / l`` with ``Y = A K̃``: one product
    with the kernel matrix and no noise, but one update a pass instead of l.
    """
    xp = namespace_of(state.A)
    r = int(state.A.shape[0])
    both = state.A if watched is None else xp.concat([state.A, watched], axis=0)
    outputs = means.centred(both, data.products(both))
    Y = outputs[:r, :]
    weighted = Y * like(data.weights / data.n_rows, Y)[None, :]
    C = to_host(weighted @ xp.matrix_transpose(Y))  # covariance of the outputs
    variances = np.diag(C).copy()
    eta = np.full(r, float(schedule.steps(state.time + 1, 1)[0]))
    # |C| bounds every direction in which the update moves: no longer step can be sure to shorten
    # what is too long.
    longest = 1.0 / max(float(np.linalg.eigvalsh(C)[-1]), np.finfo(float).tiny)
    if schedule.per_component:
        unit = 1.0 if schedule.relative else float(np.linalg.norm(variances))
        eta *= np.divide(unit, variances, out=np.full(r, np.inf), where=variances > 0)
    tamed = state.tamed + int(not schedule.per_component and np.any(eta > longest))
    change = weighted - like(np.tril(C), Y) @ state.A
    A = state.A + like(np.minimum(eta, longest), Y)[:, None] * change
    after = Expansion(A, variances, state.time + 1, tamed)
    return after, None if watched is None else to_host(xp.sum(outputs[r:, :] * watched, axis=1))


def learn(
    data: FiniteSet,
    state: Expansion,
    means: Means,
    schedule: Schedule,
    n_epochs: int,
    tol: float,
    seed: int,
    batch: bool = False,
) -> tuple[Expansion, int, bool]:
    """Epochs until the components come to rest: the expansion, their number, whether they did.

    At rest means that the squared change of every component over an epoch, in feature space, is
    smaller than ``tol``; components have unit length, so that is the same for every kernel. The
    coefficients would say less: most of their change may be in directions that the kernel hardly
    sees. The change is measured in the epoch after it, and every fifth time only, for it costs a
    product. (Section 5 of the paper stops when the change is *larger* than the threshold.)

    Each epoch has its own random order, a function of the seed.
    """
    schedule = schedule.repeated(1 if batch else data.n_rows)
    change, epoch, before = np.inf, 0, state.A
    while epoch < n_epochs and not change < tol:
        watched = state.A - before if epoch > 0 and epoch % _LOOK_EVERY == 0 else None
        before = state.A
        if batch:
            state, moved = batch_update(data, means, state, schedule, watched)
        else:
            order = generator(seed, "epoch", epoch).permutation(data.n_rows)
            state, moved = sample_epoch(data, means, state, schedule, order, watched)
        change = change if moved is None else float(moved.max())
        epoch += 1
    if state.tamed:
        warnings.warn(
            f"The step was too long for the energy of the rows in {state.tamed} updates (the rule "
            "would diverge) and was shortened. Use a smaller step, or schedule='auto'.",
            RuntimeWarning,
            stacklevel=2,
        )
    return state, epoch, change < tol


@dataclass(frozen=True)
class Solution:
    """A finished expansion in orthonormal coordinates of its own small span.

    The span is that of the components and the mean, r + 1 functions over the l rows: everything a
    query needs, without a matrix of size l × l.
    """

    span: Span
    V: Array  # (q, r) unit columns
    total: Array  # (q,) Σ w z
    variances: np.ndarray  # (r,) exact variances of the outputs
    energy: float  # Σ w k(x, x)
    missed: float  # what the span misses of it


def solution(data: FiniteSet, means: Means, state: Expansion) -> Solution:
    """Exact variances and unit components with fixed signs: one pass over the kernel matrix."""
    xp = namespace_of(state.A)
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
    V = transform @ inner[:, :r]
    norms = np.linalg.norm(V, axis=0)
    V = V / np.where(norms > 0, norms, 1.0)[None, :]
    V *= to_host(canonical_signs(factor @ like(V, factor)))[None, :]
    outputs = Z @ like(V, Z)
    if data.center:
        outputs = outputs - (total / data.n_rows @ like(V, Z))[None, :]
    variances = to_host(w @ outputs**2) / data.n_rows
    energy = float(data.weights @ to_host(to_float64(data.kernel.diag(data.X))))
    held = float(xp.sum(w[:, None] * Z**2))
    return Solution(
        span=Span(data.points, factor, cast(factor, data.points.dtype)),
        V=like(V, factor),
        total=total,
        variances=variances,
        energy=energy,
        missed=max(energy - held, 0.0),
    )
