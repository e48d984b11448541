"""SubKHA tracker (Tanaka et al. 2012): weighted subspace rule in blocks, compiled pass.

The rule (Tanaka, Washizawa and Kuh, section 4, algorithm 3; Washizawa's subset KHA)::

    A[k] = Ã[k−1] + η (P[k] h[k] cᵀ D − g cᵀ),   g = Ã c

In orthonormal coordinates P h is the row z itself and the rule is ``V += η (z cᵀ Ω − V c cᵀ)``.
Over a block, ``Vᵀ = T Vᵀ₀ + S Z`` with T (r × r) and S (r × B), as for Sanger's rule.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kernelstream.arrays import Array, compiled
from kernelstream.papers.sequential import (
    SequentialState,
    combined,
    passes,
    products,
    warn_of_shortened,
)
from kernelstream.papers.tanaka_2012.weighted import Stepped, compute_outputs, update_components
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
        schedule, omega = self._schedule(), self._omega(int(state.V.shape[1]))
        before = state.n_shortened
        for rows, weights in passes(Z, w):
            G, K = products(state.V, rows)
            steps = schedule.steps(state.time + 1, len(K)) * weights
            T, S, variances = np.eye(len(G)), np.zeros_like(G), state.variances.copy()
            shortened = subspace_pass(
                G, K, steps, omega, T, S, variances, state.time, self.forgetting, self.guard
            )
            state = replace(
                state,
                V=combined(state.V, rows, T, S),
                time=state.time + len(K),
                variances=variances,
                n_shortened=state.n_shortened + shortened,
            )
        warn_of_shortened("SubsetHebbian", before, state.n_shortened)
        return state


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
    c, g, d = np.empty(r), np.empty(r), np.empty(r)
    along_c = np.empty(r + n)
    shortened = 0
    for t in range(n):
        compute_outputs(G, K, T, S, t, c)
        output = 0.0
        rate = max(2.0 / (time + t + 2.0), 1.0 - forgetting)
        for j in range(r):
            output += c[j] * c[j]
            variances[j] += (c[j] * c[j] - variances[j]) * rate
        eta = steps[t]
        limit = max(K[t, t] * omega[0], output)
        if guard and eta * limit > 1.0:
            eta = 1.0 / limit
            shortened += 1
        for j in range(r):
            g[j] = eta * c[j]
            d[j] = eta * omega[j] * c[j]
        update_components(T, S, c, g, d, t, along_c)  # A ← A + η (Ω c zᵀ − c cᵀ A)
    return shortened
