"""Base of SubKHA, LMS and RLS: weighted cost, start, change of landmarks, orthonormalization.

All three follow the weighted cost of the paper's eq. (4), whose diagonal weights Ω (the paper's D)
single out the eigenvectors among all bases of the principal subspace. In orthonormal coordinates,
where a component is ``v = Fᵀ M a`` and the outputs of a row are ``c = Vᵀ z``, the rules are
ordinary linear ones; each subclass is one of them. Here are the start, the change of basis, and
the components as a query sees them.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from array_api_compat import array_namespace

from kernelstream.arrays import Array, compiled, like, to_float64, to_host
from kernelstream.papers.schedules import Schedule, resolve
from kernelstream.papers.sequential import (
    DEAD,
    Sequential,
    SequentialState,
    check_steps,
    column_norms,
    require_bounded,
)

# A row starts a component when this share of its energy is outside the span of the others.
NEW_SHARE = 1e-10
W = TypeVar("W", bound=SequentialState)


class Weighted(Sequential[W]):
    """Weighted rules on a fixed number of components.

    *The start.* In the paper the first r rows are the first points Ψ[0], and A[0] is P^{1/2} with
    P = M⁻¹. So W[0] = Ψ M^{-1/2}, which in coordinates is ``V = Z (ZᵀZ)^{-1/2}`` for the rows as
    the columns of Z: the orthonormal vectors nearest to the first r rows, the polar factor of Z.
    (Proof: v = FᵀMa, Z = FᵀM and ZᵀZ = M give V = FᵀM M^{-1/2} = Z (ZᵀZ)^{-1/2}.) This form needs
    no dictionary and serves every basis. It asks for r independent rows: rows of a growing basis
    may be too few at first, centred rows begin with zero. So a row with a part outside the span of
    the components starts the next one; a row without learns; and a component that starts after
    the first row was learned takes the outside part at unit length.
    """

    weights: Any = None

    def suits(self, basis: Any, n_components: Any, center: bool = True) -> None:
        """One weight for each component."""
        super().suits(basis, n_components, center)
        self._omega(int(n_components))

    def _check_weights(self) -> None:
        if self.weights is None:
            return
        try:
            omega = np.asarray(self.weights, dtype=float)
        except (OverflowError, TypeError, ValueError):
            omega = np.empty(0)
        positive = omega.ndim == 1 and len(omega) and np.all(np.isfinite(omega) & (omega > 0))
        if not positive or np.any(np.diff(omega) > 0):
            raise ValueError(
                f"{type(self).__name__}: weights must be positive numbers, one for each component, "
                f"the first component's the largest; got {self.weights!r}."
            )

    def _omega(self, r: int) -> np.ndarray:
        """Ω: given, or from 1 to 1/2 in equal steps (the paper does not say which it used)."""
        if self.weights is None:
            return np.linspace(1.0, 0.5, r)
        omega = np.asarray(self.weights, dtype=float)
        if len(omega) != r:
            raise ValueError(
                f"{type(self).__name__}: {len(omega)} weights were given for {r} components; give "
                "one for each component, or weights=None."
            )
        return omega

    # -- verbs

    def begin(self, rank: int, n_components: int | None, reference: Array) -> Any:
        """No component has started."""
        assert n_components is not None  # the estimator sees to it
        V = like(np.zeros((rank, n_components)), reference)
        return SequentialState(V, 0, np.zeros(n_components))

    def update(
        self,
        state: W,
        Z: Array,
        weights: Array | None,
        admitted: tuple[int, ...],
        points: Array | None = None,
    ) -> W:
        """Learn rows one after the other.

        Rows before an admission have a zero in the new coordinate, and so have the components:
        the block needs no cut there.
        """
        w = np.ones(Z.shape[0]) if weights is None else to_host(weights)
        return self._fold(self.pad(state, int(Z.shape[1])), to_float64(Z), w)

    def rebase(self, state: W, T: Array) -> tuple[W, None]:
        """V ← T V; a component that dies with the lost rank waits for a row to start it again."""
        before, V = column_norms(state.V), T @ state.V
        dead = (before > 0) & (column_norms(V) <= DEAD * before)
        if np.any(dead):
            V = V * like(np.where(dead, 0.0, 1.0), V)[None, :]
        return replace(state, V=V, reseeded=state.reseeded + int(dead.sum())), None

    def variances_at(self, state: W, scale: np.ndarray) -> np.ndarray:
        """Those of the raw outputs, times the squared factors."""
        return np.asarray(state.variances * scale**2)

    # -- inside

    def _fold(self, state: W, Z: Array, w: np.ndarray, metric: Array | None = None) -> W:
        """Start the components that have not started, learn the other rows."""
        position, n = 0, int(Z.shape[0])
        while position < n:
            stop = position + self._next_start(state, Z[position:, :])
            if stop > position and float(column_norms(state.V).max(initial=0.0)) > 0:
                state = self._learn(
                    self._orient(state), Z[position:stop, :], w[position:stop], metric
                )
            if stop < n:
                state = self._start(state, Z[stop, :])
            position = stop + 1
        require_bounded(type(self).__name__, state.V)
        return state

    @abstractmethod
    def _learn(self, state: W, Z: Array, w: np.ndarray, metric: Array | None) -> W:
        """Apply the rule to rows, one after the other; some components may still be zero."""

    def _next_start(self, state: W, Z: Array) -> int:
        """Index of the first row that starts a component, or the number of rows."""
        started = np.flatnonzero(column_norms(state.V) > 0)
        if len(started) >= min(state.V.shape):
            return int(Z.shape[0])
        # Rows inside the span leave the components inside it: one look at all rows is enough.
        xp = array_namespace(Z)
        inside = Z @ _orthonormal(state.V, started)
        energy = xp.vecdot(Z, Z)
        outside = to_host(energy - xp.vecdot(inside, inside))
        new = np.flatnonzero(outside > NEW_SHARE * to_host(energy))
        return int(new[0]) if len(new) else int(Z.shape[0])

    def _start(self, state: W, z: Array) -> W:
        """Start the first component that waits; the polar factor once nothing waits any more."""
        norms = column_norms(state.V)
        column = int(np.flatnonzero(norms == 0)[0])
        if state.time:  # the others have learned: only what is outside their span is new
            B = _orthonormal(state.V, np.flatnonzero(norms > 0))
            xp = array_namespace(B)
            new = z - B @ (xp.matrix_transpose(B) @ z)
            energy, left = (float(xp.vecdot(v, v)) for v in (z, new))
            if left <= NEW_SHARE * energy:  # the rows learned since then have taken it in
                return state
            z = new / left**0.5
        V = array_namespace(state.V).asarray(state.V, copy=True)
        V[:, column] = z
        state = replace(state, V=V)
        return state if np.any(column_norms(V) == 0) else self._orient(state)

    def _orient(self, state: W) -> W:
        """The rows that started the components become orthonormal before the first row is learned.

        ``V = Z (ZᵀZ)^{-1/2}``, the paper's A[0] = P^{1/2}, from the singular value decomposition.
        """
        started = np.flatnonzero(column_norms(state.V) > 0)
        if state.time or not len(started):
            return state
        xp = array_namespace(state.V)
        columns = xp.take(state.V, like(started, state.V), axis=1)
        left, _, right = xp.linalg.svd(columns, full_matrices=False)
        V = 0.0 * state.V
        for i, column in enumerate(started):
            V[:, int(column)] = left @ right[:, i]
        return replace(state, V=V)


class Stepped(Weighted[W]):
    """Weighted rules with a step, one for all components.

    Parameters
    ----------
    eta : float or Schedule
        The step.
    weights : sequence of float or None
        The diagonal of Ω.
    forgetting : float
        Forgetting of the running mean.
    guard : bool
        Whether steps that are too long are shortened.
    """

    def __init__(
        self,
        eta: float | Schedule = 0.02,
        weights: Any = None,
        forgetting: float = 1.0,
        guard: bool = True,
    ):
        self.eta = eta
        self.weights = weights
        self.forgetting = forgetting
        self.guard = guard

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""
        check_steps(type(self).__name__, self._schedule(), self.guard)
        self._check_weights()
        self._check_forgetting()

    def _schedule(self) -> Schedule:
        """The schedule that ``eta`` stands for."""
        schedule = resolve(self.eta)
        if schedule.relative:
            raise ValueError(
                f"{type(self).__name__}: {self.eta!r} has a step for each component, and this rule "
                "takes one for all (its weights tell the components apart); use "
                "schedules.SearchThenConverge, or papers.Hebbian."
            )
        return schedule


def _orthonormal(V: Array, columns: np.ndarray) -> Array:
    """Orthonormal vectors that span some columns of V."""
    xp = array_namespace(V)
    return xp.linalg.qr(xp.take(V, like(columns, V), axis=1))[0]


@compiled
def compute_outputs(G: Any, K: Any, T: Any, S: Any, t: int, c: Any) -> None:
    """Compute c = A_t z_t = T G[:, t] + S K[:, t]."""
    r = len(c)
    for j in range(r):
        value = 0.0
        for i in range(r):
            value += T[j, i] * G[i, t]
        for i in range(t):
            value += S[j, i] * K[i, t]
        c[j] = value


@compiled
def update_components(T: Any, S: Any, c: Any, g: Any, d: Any, t: int, along_c: Any) -> None:
    """A ← A − g (cᵀ A) + d zᵀ, as T and S; ``along_c`` takes cᵀ T and cᵀ S."""
    r = len(c)
    from_T, from_S = along_c[:r], along_c[r:]
    from_T[:] = 0.0
    from_S[:t] = 0.0
    for j in range(r):
        for i in range(r):
            from_T[i] += c[j] * T[j, i]
        for i in range(t):
            from_S[i] += c[j] * S[j, i]
    for j in range(r):
        for i in range(r):
            T[j, i] -= g[j] * from_T[i]
        for i in range(t):
            S[j, i] -= g[j] * from_S[i]
        S[j, t] = d[j]
