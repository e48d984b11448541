"""LMS tracker (Tanaka et al. 2012): stochastic gradient in the dual coefficients.

The rule (Tanaka, Washizawa and Kuh, algorithm 1)::

    A[k] = Ã[k−1] + η (h cᵀ D − M g cᵀ),   g = Ã c

In orthonormal coordinates, ``V += η N (z cᵀ Ω − V c cᵀ)`` with ``N = Fᵀ M² F``: the direction of
SubKHA, distorted by the metric of the points. Each step multiplies by N, so the components leave
every space of few dimensions and no small recursion replaces the products with V: a row costs
O(m² + m r).
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from kernelstream.arrays import Array, compiled, like, to_float64, to_host
from kernelstream.papers.sequential import SequentialState, warn_of_shortened
from kernelstream.papers.tanaka_2012.weighted import Stepped
from kernelstream.serialization import stored


@stored
class LMS(Stepped[SequentialState]):
    """Stochastic gradient in the coefficients over the points (Tanaka et al., algorithm 1).

    ``V ← V + η N (z cᵀ Ω − V c cᵀ)`` with ``c = Vᵀz`` and ``N = Fᵀ M² F``.

    Here as the paper has it, for comparison: the metric N makes it fast along directions that many
    points share and slow along all others, and the best step depends on the number of points.
    SubKHA is the same rule without the distortion. A step that might diverge is shortened; how
    often is in ``n_shortened_steps_`` of the estimator, and a warning is given once.
    ``guard=False`` runs the bare rule.

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

    Notes
    -----
    ``N = Fᵀ M² F = Σ_d z(d) z(d)ᵀ``, the scatter of the points in their own coordinates
    (``FᵀM`` has the coordinates of the points as columns).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA, landmarks, papers
    >>> X = np.random.default_rng(0).normal(size=(3000, 2))
    >>> model = StreamingKernelPCA(
    ...     1, gamma=0.1, basis=landmarks.Coherence(0.9), tracker=papers.LMS(0.02), center=False)
    >>> float(model.fit(X).explained_variance_ratio_[0].round(1))
    0.7
    """

    needs_points = True

    def update(
        self,
        state: SequentialState,
        Z: Array,
        weights: Array | None,
        admitted: tuple[int, ...],
        points: Array | None = None,
    ) -> SequentialState:
        """Learn rows one after the other; the metric grows with every point that is admitted."""
        assert points is not None  # needs_points
        Z, P = to_float64(Z), to_host(points)
        state = self.pad(state, int(Z.shape[1]))
        w = np.ones(Z.shape[0]) if weights is None else to_host(weights)
        cuts = [0, *admitted, int(Z.shape[0])]
        for i, (start, stop) in enumerate(itertools.pairwise(cuts)):
            # Points are rows of P in the order of their admission; the last ones come later.
            known = P[: len(P) - len(admitted) + i]
            if stop > start:
                state = self._fold(state, Z[start:stop, :], w[start:stop], known.T @ known)
        return state

    def _learn(
        self, state: SequentialState, Z: Array, w: np.ndarray, metric: Array | None
    ) -> SequentialState:
        assert metric is not None
        V = np.array(to_host(state.V), order="C")  # a copy: the pass writes into it
        rows, variances = np.ascontiguousarray(to_host(Z)), state.variances.copy()
        steps = self._schedule().steps(state.time + 1, len(rows)) * w
        N = np.ascontiguousarray(metric)
        omega = self._omega(V.shape[1])
        shortened = gradient_pass(
            V, rows, rows @ N, N, steps, omega, variances, state.time, self.forgetting, self.guard
        )
        warn_of_shortened("LMS", state.n_shortened, state.n_shortened + shortened)
        return replace(
            state,
            V=like(V, state.V),
            time=state.time + len(rows),
            variances=variances,
            n_shortened=state.n_shortened + int(shortened),
        )


@compiled
def gradient_pass(
    V: Any,
    Z: Any,
    ZN: Any,
    N: Any,
    steps: Any,
    omega: Any,
    variances: Any,
    time: int,
    forgetting: float,
    guard: bool,
) -> int:
    """V ← V + η N (z cᵀ Ω − V c cᵀ), row after row, in place. ZN = Z N."""
    m, r = V.shape
    c = np.empty(r)
    w = np.empty(m)
    u = np.empty(m)
    shortened = 0
    for t in range(Z.shape[0]):
        rate = max(2.0 / (time + t + 2.0), 1.0 - forgetting)
        project(V, Z[t], c)
        for j in range(r):
            variances[j] += (c[j] * c[j] - variances[j]) * rate
        limit = multiply(V, N, c, w, u)
        stretched = 0.0  # zᵀ N z
        for i in range(m):
            stretched += Z[t, i] * ZN[t, i]
        # Growth is at most 1 + η ω₁ zᵀNz, and η limit is the share of its length that V c loses.
        limit = max(omega[0] * stretched, limit)
        eta = steps[t]
        if guard and eta * limit > 1.0:
            eta = 1.0 / limit
            shortened += 1
        for i in range(m):
            for j in range(r):
                V[i, j] += eta * c[j] * (ZN[t, i] * omega[j] - u[i])
    return shortened


@compiled
def project(V: Any, z: Any, c: Any) -> None:
    """Compute c = Vᵀ z."""
    m, r = V.shape
    c[:] = 0.0
    for i in range(m):
        for j in range(r):
            c[j] += V[i, j] * z[i]


@compiled
def multiply(V: Any, N: Any, c: Any, w: Any, u: Any) -> float:
    """Compute w = V c and u = N w; returns |c|² |u| / |w|."""
    m, r = V.shape
    output = 0.0
    for j in range(r):
        output += c[j] * c[j]
    length = 0.0
    for i in range(m):
        w[i] = 0.0
        u[i] = 0.0
        for j in range(r):
            w[i] += V[i, j] * c[j]
        length += w[i] * w[i]
    for k in range(m):  # N is symmetric: by rows, so that it vectorizes
        for i in range(m):
            u[i] += N[k, i] * w[k]
    pull = 0.0
    for i in range(m):
        pull += u[i] * u[i]
    return output * np.sqrt(pull / length) if length > 0.0 else 0.0
