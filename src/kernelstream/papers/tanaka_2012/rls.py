"""RLS tracker (Tanaka et al. 2012): recursive least squares without a step size, Gram-Schmidt.

The rule (Tanaka, Washizawa and Kuh, algorithm 2), in orthonormal coordinates::

    c = Vᵀ z,   g = Q c / (β + cᵀ Q c),   Q ← (Q − g cᵀ Q) / β
    V ← V + z (Q Ω c)ᵀ − (V c) gᵀ,        then Gram–Schmidt

with the new Q in the third step. Three corrections to the paper's table: step 2 has ``c[k−1]`` in
the numerator and needs ``c[k]``; the ĉ of step 6, which is defined nowhere, is ``Ã c``; step 7
orthonormalises in the metric M of the points (it is called "R-orthonormalize"), which in our
coordinates is plain Gram–Schmidt.

Gram–Schmidt is a product with a triangular matrix from the left, so over a block still
``Vᵀ = T Vᵀ₀ + S Z`` with T (r × r) and S (r × B): the triangular factor comes from the Gram matrix
of the components, of which every row knows the change.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from array_api_compat import array_namespace

from kernelstream.arrays import Array, compiled, like, to_host
from kernelstream.papers.sequential import (
    SequentialState,
    column_norms,
    combined,
    passes,
    products,
)
from kernelstream.papers.tanaka_2012.weighted import Weighted, compute_outputs, update_components
from kernelstream.serialization import check_choice, stored

# Gram–Schmidt through the Gram matrix loses digits when a column nearly vanishes: below this share
# of its squared length the pass ends, and the columns are orthonormalised as they are.
_ACCURATE = 1e-6
_VANISHED = 1e-20  # of the squared length: the column was a combination of the earlier ones
_CEILING = 1e8  # growth of Q where nothing excites it
_EXCITED = 1e10  # largest Q c² before an update: it loses so many digits


@stored
@dataclass(frozen=True)
class RLSState(SequentialState):
    """Components, and Q, the inverse of the forgetful second moments of the outputs.

    Entries of Q grow up to ``ceiling`` only.
    """

    ON_HOST: ClassVar[frozenset[str]] = SequentialState.ON_HOST | {"Q"}

    Q: Annotated[np.ndarray, "float64 (components, components)"] = field(
        default_factory=lambda: np.zeros((0, 0))
    )
    ceiling: Annotated[float, "not negative"] = 0.0


@stored
class RLS(Weighted[RLSState]):
    """Recursive least squares on the components (Tanaka, Washizawa and Kuh, algorithm 2).

    With ``c = Vᵀz``: ``g = Qc/(β + cᵀQc)``, ``Q ← (Q − g cᵀQ)/β``, with the new Q
    ``V ← V + z (QΩc)ᵀ − (Vc) gᵀ``, then Gram–Schmidt. There is no step to choose.

    Parameters
    ----------
    forgetting : float
        β, the share of the weight of old rows left after each new row, in (0, 1].
    weights : sequence of float or None
        The diagonal of Ω, positive and not increasing; None is from 1 to 0.5 in equal steps.
    guard : bool
        Whether Q is kept from growing beyond what float64 can hold apart. False lets it grow as the
        paper has it; where the rule diverges, an error says so.

    Notes
    -----
    Q[0] is not given in the paper. Here it is diagonal with ``1/|z|²`` of the row that starts each
    component: the identity for kernels of unit norm, and right for any scale of others. Where
    outputs vanish for long, Q would grow like β^{−t}; it stops at 10⁸ times its start. A component
    that Gram–Schmidt finds to be a combination of the earlier ones starts again with the next row
    outside their span. Rows of weight w enter as √w z.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA, papers
    >>> X = np.random.default_rng(0).normal(size=(2000, 3)) * [0.1, 0.5, 1]
    >>> model = StreamingKernelPCA(2, kernel="linear", tracker=papers.RLS(0.999)).fit(X)
    >>> directions = np.abs(model.transform(np.eye(3)) - model.transform(np.zeros((3, 3))))
    >>> bool(directions[2, 0] > 0.98 and directions[1, 1] > 0.98)
    True
    """

    def __init__(self, forgetting: float = 0.98, weights: Any = None, guard: bool = True):
        self.forgetting = forgetting
        self.weights = weights
        self.guard = guard

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""
        self._check_forgetting()
        self._check_weights()
        check_choice("RLS: guard", self.guard, (True, False))

    def begin(self, rank: int, n_components: int | None, reference: Array) -> RLSState:
        """No component has started, and Q has nothing to say about them."""
        start = super().begin(rank, n_components, reference)
        r = int(start.V.shape[1])
        return RLSState(start.V, 0, start.variances, Q=np.zeros((r, r)))

    def rebase(self, state: RLSState, T: Array) -> tuple[RLSState, None]:
        """V ← T V at unit length and at right angles again."""
        moved, _ = super().rebase(state, T)
        return (self._orthonormalise(moved) if moved.time else moved), None

    def _start(self, state: RLSState, z: Array) -> RLSState:
        column = int(np.flatnonzero(column_norms(state.V) == 0)[0])
        Q = state.Q.copy()
        Q[column, :] = Q[:, column] = 0.0
        Q[column, column] = 1.0 / float(array_namespace(z).sum(z * z))
        ceiling = max(state.ceiling, _CEILING * Q[column, column])
        return replace(super()._start(state, z), Q=Q, ceiling=ceiling)

    def _learn(self, state: RLSState, Z: Array, w: np.ndarray, metric: Array | None) -> RLSState:
        xp = array_namespace(Z)
        roots = np.sqrt(w)
        Z = Z * like(roots, Z)[:, None]
        omega = self._omega(int(state.V.shape[1]))
        position = 0
        while position < int(Z.shape[0]):
            rows, at = next(passes(Z[position:, :], roots[position:]))
            V, variances, Q = state.V, state.variances.copy(), state.Q.copy()
            G, K = products(V, rows)
            gram = np.ascontiguousarray(to_host(xp.matrix_transpose(V) @ V))
            T, S, beta = np.eye(len(G)), np.zeros_like(G), float(self.forgetting)
            ceiling = state.ceiling if self.guard else np.inf
            learned = least_squares_pass(
                G, K, gram, omega, beta, Q, ceiling, T, S, variances, state.time, at, self.guard
            )
            accurate, learned = learned > 0, abs(learned)
            V = combined(V, rows, T, S)
            state = replace(state, V=V, Q=Q, variances=variances, time=state.time + learned)
            state = state if accurate else self._orthonormalise(state)
            position += learned
        return state

    def _orthonormalise(self, state: RLSState) -> RLSState:
        """Gram–Schmidt in the order of the components; what vanishes waits for a new start."""
        V = np.array(to_host(state.V))
        lost = 0
        for j in range(V.shape[1]):
            length = np.linalg.norm(V[:, j])
            for _ in range(2):  # twice is enough
                V[:, j] -= V[:, :j] @ (V[:, :j].T @ V[:, j])
            rest = np.linalg.norm(V[:, j])
            gone = rest**2 <= _VANISHED * length**2
            lost += int(gone and length > 0)
            V[:, j] = 0.0 if gone else V[:, j] / rest
        return replace(state, V=like(V, state.V), reseeded=state.reseeded + lost)


@compiled
def least_squares_pass(
    G: Any,
    K: Any,
    gram: Any,
    omega: Any,
    beta: float,
    Q: Any,
    ceiling: float,
    T: Any,
    S: Any,
    variances: Any,
    time: int,
    roots: Any,
    guard: bool,
) -> int:
    """Sequential part: A_t = T_t A_0 + S_t Z for the components A (r × m), rows t of a block.

    G = A_0 Zᵀ (r × B), K = Z Zᵀ (B × B), gram = A_0 A_0ᵀ. T enters as the identity and S as zero.
    Rows are √w z: ``roots`` are the √w, for the variances are those of the outputs of z.
    Returns the number of rows learned, negative when the last one needs a careful Gram–Schmidt.
    """
    r, n = G.shape
    c, q, g = np.empty(r), np.empty(r), np.empty(r)
    d, u, e = np.empty(r), np.empty(r), np.empty(r)
    R = np.empty((r, r))
    along_c = np.empty(r + n)
    for t in range(n):
        rate = max(2.0 / (time + t + 2.0), 1.0 - beta)
        compute_outputs(G, K, T, S, t, c)
        for j in range(r):
            output = c[j] / roots[t]
            variances[j] += (output * output - variances[j]) * rate
        if guard:
            limit_gain(Q, c)
        update_gain(Q, c, gram, beta, ceiling, q, g, u)
        for j in range(r):  # d = Q Ω c
            d[j] = 0.0
            for i in range(r):
                d[j] += Q[j, i] * omega[i] * c[i]
        update_components(T, S, c, g, d, t, along_c)
        update_gram(gram, c, g, d, u, e, K[t, t])
        if not factorize(gram, R):
            return -(t + 1)  # the caller orthonormalizes
        orthonormalize(T, S, gram, R, t)
    return n


@compiled
def limit_gain(Q: Any, c: Any) -> None:
    """Scale down a Q so large that it would be all rounding after the update by c.

    It is that large for a component that had no outputs for long, or began with hardly any.
    """
    r = len(c)
    for j in range(r):
        excess = Q[j, j] * c[j] * c[j] / _EXCITED
        if excess > 1.0:
            for i in range(r):
                Q[j, i] /= np.sqrt(excess)
                Q[i, j] /= np.sqrt(excess)


@compiled
def update_gain(
    Q: Any, c: Any, gram: Any, beta: float, ceiling: float, q: Any, g: Any, u: Any
) -> None:
    """Compute q = Q c, g = q / (β + cᵀ q), Q ← (Q − g cᵀ Q) / β, and u = Γ c on the way."""
    r = len(c)
    denominator = beta
    for j in range(r):
        q[j] = 0.0
        u[j] = 0.0
        for i in range(r):
            q[j] += Q[j, i] * c[i]
            u[j] += gram[j, i] * c[i]
        denominator += c[j] * q[j]
    denominator = max(denominator, beta)  # cᵀQc < 0 would be rounding
    largest = 0.0
    for j in range(r):
        g[j] = q[j] / denominator
        for i in range(r):  # g cᵀQ as it is written here is symmetric, which RLS depends on
            Q[j, i] -= q[j] * q[i] / denominator
        largest = max(largest, Q[j, j])
    if largest < ceiling:
        for j in range(r):
            for i in range(r):
                Q[j, i] /= beta


@compiled
def update_gram(gram: Any, c: Any, g: Any, d: Any, u: Any, e: Any, squared_norm: float) -> None:
    """Γ = A Aᵀ of the updated components, from Γ before, c = A z, u = Γ c and |z|².

    ``e`` takes the outputs (I − g cᵀ) A z.
    """
    r = len(c)
    outputs = 0.0  # cᵀ c
    along = 0.0  # cᵀ Γ c
    for j in range(r):
        outputs += c[j] * c[j]
        along += c[j] * u[j]
    for j in range(r):
        e[j] = c[j] - g[j] * outputs
    for j in range(r):
        for i in range(r):
            gram[j, i] += g[j] * g[i] * along - g[j] * u[i] - u[j] * g[i]
            gram[j, i] += e[j] * d[i] + d[j] * e[i] + d[j] * d[i] * squared_norm


@compiled
def factorize(gram: Any, R: Any) -> bool:
    """Γ = R Rᵀ with R lower triangular; whether no pivot lost too many digits."""
    r = len(gram)
    accurate = True
    for j in range(r):
        pivot = gram[j, j]
        for i in range(j):
            value = gram[j, i]
            for k in range(i):
                value -= R[j, k] * R[i, k]
            R[j, i] = value / R[i, i] if R[i, i] > 0.0 else 0.0
            pivot -= R[j, i] * R[j, i]
        if gram[j, j] > 0.0 and not pivot > _ACCURATE * gram[j, j]:
            accurate = False
        R[j, j] = np.sqrt(pivot) if pivot > 0.0 else 0.0
    return accurate


@compiled
def orthonormalize(T: Any, S: Any, gram: Any, R: Any, t: int) -> None:
    """Gram–Schmidt: A ← R⁻¹ A, as T and S, and Γ ← I; rows without length stay zero."""
    r = len(gram)
    for j in range(r):
        scale = 1.0 / R[j, j] if R[j, j] > 0.0 else 0.0
        for i in range(j):
            for k in range(r):
                T[j, k] -= R[j, i] * T[i, k]
            for k in range(t + 1):
                S[j, k] -= R[j, i] * S[i, k]
        for k in range(r):
            T[j, k] *= scale
            gram[j, k] = 0.0
        for k in range(t + 1):
            S[j, k] *= scale
        gram[j, j] = 1.0 if scale > 0.0 else 0.0
