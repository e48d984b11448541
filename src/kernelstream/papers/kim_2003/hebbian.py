"""Hebbian tracker: Sanger's rule (generalized Hebbian algorithm); the shared compiled pass.

The rule (Honeine 2012, eq. 19, in orthonormal coordinates; Sanger 1989)::

    y = Vᵀ z,      V ← V + η (z yᵀ − V UT[y yᵀ])

with UT the upper triangle and its diagonal. Over a block, ``V_t = V_0 T_tᵀ + Zᵀ S_tᵀ`` with T
(r × r, lower triangular) and S (r × B): the products with V happen once a block, the sequential
part works on small matrices only, and the result is that of the naive loop to rounding.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from array_api_compat import array_namespace

from kernelstream.arrays import Array, compiled, like, to_float64, to_host
from kernelstream.papers import schedules
from kernelstream.papers.schedules import Schedule
from kernelstream.papers.sequential import (
    DEAD,
    Sequential,
    SequentialState,
    check_steps,
    column_norms,
    combined,
    passes,
    products,
    require_bounded,
    warn_of_shortened,
)
from kernelstream.serialization import stored

H = TypeVar("H", bound=SequentialState)


@stored
class Hebbian(Sequential[SequentialState]):
    """Sanger's rule: principal components without any matrix of second moments.

    ``V ← V + η (z yᵀ − V UT[y yᵀ])`` with ``y = Vᵀz`` and UT the upper triangle with its diagonal
    (Sanger 1989; Honeine 2012, eq. 19). Cost per row is O(m r); nothing of size m² is kept.

    A step that might make the rule diverge (``η max(|z|², |y|²) > 1``) is shortened to the
    stable length; how often is in ``n_shortened_steps_`` of the estimator, and a warning is given
    once. ``guard=False`` runs the bare rule.

    Parameters
    ----------
    schedule : Schedule, "auto" or float
        Step sizes; ``"auto"`` is :class:`~kernelstream.papers.schedules.AutomaticRate`, a number
        a constant step.
    forgetting : float
        Forgetting of the running mean (1: the mean of all rows).
    spread : bool
        Component i starts at the i-th coordinate; with ``spread`` it starts as a combination of all
        coordinates that the basis has at the start, none of them left out. Kim et al. (appendix
        A.1) ask for that with very local kernels, where a row has no part in most coordinates.
    guard : bool
        Whether steps that are too long are shortened. False takes the steps of the schedule as they
        are; where the rule diverges, an error says so.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA, papers
    >>> X = np.random.default_rng(0).normal(size=(5000, 3)) * [0.1, 0.3, 1]
    >>> model = StreamingKernelPCA(1, kernel="linear", tracker=papers.Hebbian()).partial_fit(X)
    >>> bool(abs(model.transform([[0, 0, 1.0]]) - model.transform([[0, 0, 0.0]])) > 0.99)
    True
    """

    def __init__(
        self,
        schedule: Schedule | str | float = "auto",
        forgetting: float = 1.0,
        spread: bool = False,
        guard: bool = True,
    ):
        self.schedule = schedule
        self.forgetting = forgetting
        self.spread = spread
        self.guard = guard

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""
        self._check_forgetting()
        check_steps(type(self).__name__, schedules.resolve(self.schedule), self.guard)

    def begin(self, rank: int, n_components: int | None, reference: Array) -> SequentialState:
        """Component i is the i-th coordinate, as far as there are coordinates, or all of them."""
        assert n_components is not None  # the estimator sees to it
        V = np.eye(rank, n_components)
        if self.spread and rank > 0:
            # The orthonormal cosine matrix √(2/m) cos(π (k + ½)(i + ½)/m): no entry is zero,
            # since (2k + 1)(2i + 1) is odd and the zeros of the cosine would make it even.
            odd = np.arange(rank) + 0.5
            r = min(rank, n_components)
            V[:, :r] = np.sqrt(2.0 / rank) * np.cos(np.pi / rank * np.outer(odd, odd[:r]))
        V = like(V, reference)
        return SequentialState(V, 0, np.zeros(n_components))

    def update(
        self,
        state: H,
        Z: Array,
        weights: Array | None,
        admitted: tuple[int, ...],
        points: Array | None = None,
    ) -> H:
        """Learn rows one after the other.

        ``Z`` has the coordinates that the block admitted; rows before an admission have zeros
        there. A component that waits for its first coordinate gets it when the row that brought it
        is reached, so the block is cut there; later coordinates start at zero and need no cut.
        """
        r = int(state.V.shape[1])
        first_new = int(state.V.shape[0])
        Z = to_float64(Z)
        state = self.pad(state, int(Z.shape[1]))
        w = np.ones(Z.shape[0]) if weights is None else to_host(weights)
        start = 0
        for coordinate, row in enumerate(admitted, first_new):
            if coordinate >= r:
                break
            state = self._learn(state, Z[start:row, :], w[start:row], points)
            state, start = self._start(state, coordinate, points), row
        return self._learn(state, Z[start:, :], w[start:], points)

    def _start(self, state: H, coordinate: int, points: Array | None) -> H:
        """Start a component at its coordinate, which is new."""
        V = array_namespace(state.V).asarray(state.V, copy=True)
        V[coordinate, coordinate] = 1.0
        return replace(state, V=V)

    def _learn(self, state: H, Z: Array, weights: np.ndarray, points: Array | None) -> H:
        before, schedule = state.n_shortened, schedules.resolve(self.schedule)
        for rows, w in passes(Z, weights):
            state = self._pass(state, rows, w, schedule, points)
        require_bounded(type(self).__name__, state.V)
        warn_of_shortened(type(self).__name__, before, state.n_shortened)
        return state

    def _pass(
        self, state: H, rows: Array, w: np.ndarray, schedule: Schedule, points: Array | None
    ) -> H:
        """Learn the rows of a compiled pass."""
        G, K = products(state.V, rows)
        learned, T, S = self.advance(state, G, K, w, schedule)
        return replace(learned, V=combined(state.V, rows, T, S))

    def advance(
        self, state: H, G: np.ndarray, K: np.ndarray, w: np.ndarray, schedule: Schedule
    ) -> tuple[H, np.ndarray, np.ndarray]:
        """The state after a compiled pass but for the components, which become T A_0 + S Z."""
        variances, steps = state.variances.copy(), schedule.steps(state.time + 1, len(w)) * w
        T, S, shortened = recursion(G, K, steps, state.time, variances, schedule, self.guard)
        time, n_shortened = state.time + len(w), state.n_shortened + shortened
        return replace(state, time=time, variances=variances, n_shortened=n_shortened), T, S

    def rebase(self, state: H, T: Array) -> tuple[H, None]:
        """V ← T V; a component that has died, or never had a coordinate, starts at a free one."""
        xp = array_namespace(T)
        V = T @ state.V
        norms = column_norms(V)
        dead = np.flatnonzero(norms <= DEAD)
        dead = dead[: max(int(V.shape[0]) - (len(norms) - len(dead)), 0)]  # as far as there is room
        if len(dead):
            V = xp.asarray(V, copy=True)
            free = np.argsort(to_host(xp.sum(V * V, axis=1)), kind="stable")
            for column, coordinate in zip(dead, free, strict=False):
                V[:, int(column)] = 0.0
                V[int(coordinate), int(column)] = 1.0
        return replace(state, V=V, reseeded=state.reseeded + len(dead)), None


def recursion(
    G: np.ndarray,
    K: np.ndarray,
    steps: np.ndarray,
    time: int,
    variances: np.ndarray,
    schedule: Schedule,
    guard: bool = True,
) -> tuple[np.ndarray, np.ndarray, int]:
    """T and S of a block, from the outputs G = A_0 Zᵀ of its start and its inner products K.

    ``A_0 → T A_0 + S Z``; ``variances`` is updated. Only inner products appear, so the rows may
    as well be points of a feature space (``epochs.py``). K need not be symmetric: its rows are
    read by the outputs, its columns written into A.
    """
    T, S = np.eye(G.shape[0]), np.zeros(G.shape)
    outputs, inner = np.ascontiguousarray(G.T), np.ascontiguousarray(K)
    shortened = sanger_pass(outputs, inner, steps, T, S, variances, time, schedule.relative, guard)
    return T, S, int(shortened)


@compiled
def sanger_pass(
    G: Any,
    K: Any,
    steps: Any,
    T: Any,
    S: Any,
    variances: Any,
    time: int,
    relative: bool,
    guard: bool,
) -> int:
    """Sequential part: A_t = T_t A_0 + S_t Z for the components A (r × m), rows t of a block.

    G = Z A_0ᵀ (B × r), K = Z Zᵀ (B × B). T enters as the identity and S as zero.
    """
    n, r = G.shape
    y = np.empty(r)
    following = G[0].copy()  # outputs of the next row: A_0 z_0
    along_y = np.empty(r + n)
    shortened = 0
    for t in range(n):
        output = 0.0
        for j in range(r):
            y[j] = following[j]
            output += y[j] * y[j]
        # weight 2/(t+2) forgets the outputs of components that had not yet converged; relative
        # steps are such weights themselves, with a floor where the stream is to be forgotten
        weight = min(steps[t], 1.0) if relative else 2.0 / (time + t + 2.0)
        for j in range(r):
            variances[j] += (y[j] * y[j] - variances[j]) * weight
        # A row with η·max(|z|², |y|²) > 1 would overshoot: its step is shortened to that length.
        # A row without energy, such as one at the mean, moves nothing.
        limit = max(K[t, t], output)
        longest = 1.0 / limit if limit > 0.0 else 0.0
        if not guard:
            longest = np.inf
        cut = False
        along_y[:r] = 0.0
        along_y[r : r + t] = 0.0
        for j in range(r):
            eta = steps[t]
            if relative:  # η/λ_j, and the limit is part of the rule
                eta = eta / variances[j] if variances[j] * longest > eta else longest
            elif eta > longest:
                eta, cut = longest, limit > 0.0
            following[j] = update_component(G, K, T, S, j, t, y[j], eta, along_y)
        if cut:
            shortened += 1
    return shortened


@compiled
def update_component(
    G: Any, K: Any, T: Any, S: Any, j: int, t: int, y: float, eta: float, along_y: Any
) -> float:
    """A_j += η y_j (z − Σ_{i≤j} y_i A_i), as T and S; returns y_j of the next row.

    The running sums Σ_{i≤j} y_i A_i in ``along_y`` hold the old rows of A. The output of the next
    row, A_t+1 z_t+1 = T G[t+1] + S K[t+1], is computed in the same loops, for T and S do not fit
    the nearest cache.
    """
    n, r = G.shape
    from_T, from_S = along_y[:r], along_y[r:]
    after = min(t + 1, n - 1)
    step = eta * y
    value = 0.0
    for i in range(j + 1):
        from_T[i] += y * T[j, i]
        T[j, i] -= step * from_T[i]
        value += T[j, i] * G[after, i]
    for i in range(t):
        from_S[i] += y * S[j, i]
        S[j, i] -= step * from_S[i]
        value += S[j, i] * K[after, i]
    S[j, t] = step
    return value + step * K[after, t]
