"""SubKHA tracker (Tanaka et al. 2012): weighted subspace rule in blocks, compiled pass.

The rule (Tanaka, Washizawa and Kuh, section 4, algorithm 3; Washizawa's subset KHA)::

    A[k] = Ã[k−1] + η (P[k] h[k] cᵀ D − g cᵀ),   g = Ã c

In orthonormal coordinates P h is the row z itself and the rule is ``V += η (z cᵀ Ω − V c cᵀ)``.
Over a block, ``Vᵀ = T Vᵀ₀ + S Z`` with T (r × r) and S (r × B), as for Sanger's rule.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from kernelstream.arrays import Array, compiled
from kernelstream.papers.sequential import PASS_ROWS, SequentialState, combined, products
from kernelstream.papers.tanaka_2012.weighted import Stepped
from kernelstream.serialization import stored


@stored
class SubsetHebbian(Stepped[SequentialState]):
    """SubKHA, the weighted subspace rule (Tanaka, Washizawa and Kuh, algorithm 3).

    ``V ← V + η (z cᵀ Ω − V c cᵀ)`` with ``c = Vᵀz``.

    All components learn from the same error ``z − V c``; the weights alone tell them apart, and
    the columns of V tend to the eigenvectors at the lengths √ωᵢ. Components are shown at unit
    length. A step that might diverge (``η max(ω₁|z|², |c|²) > 1``) is shortened; how often is in
    ``n_shortened_steps_`` of the estimator, and a warning is given once. ``guard=False`` runs the
    bare rule.

    Parameters
    ----------
    eta : float or Schedule
        The step, constant in the paper.
    weights : sequence of float or None
        The diagonal of Ω, positive and not increasing; None is from 1 to 0.5 in equal steps.
    forgetting : float
        Forgetting of the running mean (1: the mean of all rows).
    guard : bool
        Whether steps that are too long are shortened. False takes η as it is; where the rule
        diverges, an error says so.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA, papers
    >>> X = np.random.default_rng(0).normal(size=(5000, 3)) * [0.1, 0.5, 1]
    >>> model = StreamingKernelPCA(2, kernel="linear", tracker=papers.SubsetHebbian(0.02))
    >>> directions = np.abs(model.fit(X).transform(np.eye(3)) - model.transform(np.zeros((3, 3))))
    >>> bool(directions[2, 0] > 0.98 and directions[1, 1] > 0.98)
    True
    """

    def _learn(
        self, state: SequentialState, Z: Array, w: np.ndarray, metric: Array | None
    ) -> SequentialState:
        V, time, n_shortened = state.V, state.time, state.n_shortened
        schedule, omega = self._schedule(), self._omega(int(V.shape[1]))
        variances = state.variances.copy()
        for start in range(0, int(Z.shape[0]), PASS_ROWS):
            rows = Z[start : min(start + PASS_ROWS, Z.shape[0]), :]
            n = int(rows.shape[0])
            G, K = products(V, rows)
            steps = schedule.steps(time + 1, n) * w[start : start + n]
            T, S = np.eye(len(G)), np.zeros_like(G)
            n_shortened += subspace_pass(
                G, K, steps, omega, T, S, variances, time, self.forgetting, self.guard
            )
            V = combined(V, rows, T, S)
            time += n
        if n_shortened and not state.n_shortened:
            warnings.warn(
                "SubsetHebbian: the step was too long for rows of this energy (it might diverge) "
                "and was shortened. Use a smaller eta, or scale the data.",
                RuntimeWarning,
                stacklevel=2,
            )
        return replace(state, V=V, time=time, variances=variances, n_shortened=n_shortened)


@compiled
def subspace_pass(
    G: Any,
    K: Any,
    steps: Any,
    omega: Any,
    T: Any,
    S: Any,
    variances: Any,
    time: int,
    forgetting: float,
    guard: bool,
) -> int:
    """Sequential part: A_t = T_t A_0 + S_t Z for the components A (r × m), rows t of a block.

    G = A_0 Zᵀ (r × B), K = Z Zᵀ (B × B). T enters as the identity and S as zero.
    """
    r, n = G.shape
    c = np.empty(r)
    from_T = np.empty(r)
    from_S = np.empty(n)
    shortened = 0
    for t in range(n):
        # c = A_t z_t = T G[:, t] + S K[:, t]
        output = 0.0
        rate = max(2.0 / (time + t + 2.0), 1.0 - forgetting)
        for j in range(r):
            value = 0.0
            for i in range(r):
                value += T[j, i] * G[i, t]
            for i in range(t):
                value += S[j, i] * K[i, t]
            c[j] = value
            output += value * value
            variances[j] += (value * value - variances[j]) * rate
        eta = steps[t]
        limit = max(K[t, t] * omega[0], output)
        if guard and eta * limit > 1.0:
            eta = 1.0 / limit
            shortened += 1
        # A ← A + η (Ω c zᵀ − c cᵀ A)
        from_T[:] = 0.0
        from_S[:t] = 0.0
        for j in range(r):
            for i in range(r):
                from_T[i] += c[j] * T[j, i]
            for i in range(t):
                from_S[i] += c[j] * S[j, i]
        for j in range(r):
            for i in range(r):
                T[j, i] -= eta * c[j] * from_T[i]
            for i in range(t):
                S[j, i] -= eta * c[j] * from_S[i]
            S[j, t] = eta * omega[j] * c[j]
    return shortened
