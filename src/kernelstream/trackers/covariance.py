"""Covariance tracker (default): scatter matrix, eigendecomposition, forgetting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from kernelstream.arrays.namespaces import (
    Array,
    like,
    namespace_of,
    padded,
    symmetric_eigen,
    to_host,
    weighted_gram,
)
from kernelstream.arrays.threads import in_turn
from kernelstream.serialization import stored
from kernelstream.serialization.part import Value
from kernelstream.trackers.base import Shift, Tracker
from kernelstream.trackers.moments import Moments


@stored
@dataclass(frozen=True)
class CovarianceState(Value):
    """S = Σ w z zᵀ, float64.

    Attributes
    ----------
    scatter : array of shape (q, q)
        Scatter matrix of the coordinates.
    """

    scatter: Annotated[Array, "float64 (rank, rank)"]

    @cached_property
    def solved(self) -> dict[str, Any]:
        """What was last asked for: ``fit`` takes signs from the components, and shows them."""
        return {}


@stored
class Covariance(Tracker[CovarianceState]):
    """Exact PCA of the coordinates: ``S ← S + ZᵀZ``, components from ``S/W − μμᵀ``.

    Nothing is approximated beyond the basis, nothing has to be tuned, the order of the rows does
    not matter, and models can be merged. Components are computed when asked for, not on every
    update.

    Parameters
    ----------
    forgetting : float
        Share of the weight of old rows left after each new row, in (0, 1]. 1 weighs all rows
        alike; 0.999 remembers about the last 1,000.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA, trackers
    >>> X = np.random.default_rng(0).normal(size=(400, 3)) * [1, 2, 3]
    >>> model = StreamingKernelPCA(2, kernel="linear", tracker=trackers.Covariance()).fit(X)
    >>> bool(np.allclose(model.explained_variance_, np.linalg.eigvalsh(np.cov(X.T, ddof=0))[:0:-1]))
    True
    """

    kind = "sums"

    def __init__(self, forgetting: float = 1.0):
        self.forgetting = forgetting

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""
        self._check_forgetting()

    def begin(self, rank: int, n_components: int | None, reference: Array) -> CovarianceState:
        """Start with an empty scatter matrix."""
        return CovarianceState(like(np.zeros((rank, rank)), reference))

    def update(
        self, state: CovarianceState, Z: Array, weights: Array | None, admitted: tuple[int, ...]
    ) -> CovarianceState:
        """S ← S + Σ w z zᵀ."""
        return self.add(state, [weighted_gram(Z, weights)], [1.0])

    def add(
        self, state: CovarianceState, scatters: Sequence[Array], decays: Sequence[float]
    ) -> CovarianceState:
        """Add the scatter matrices of blocks in turn, S ← decay · S + Σ w z zᵀ."""
        first = padded(state.scatter, tuple(scatters[0].shape))  # old rows have no new coordinates
        return CovarianceState(in_turn(first, scatters, decays))

    def rebase(self, state: CovarianceState, T: Array) -> tuple[CovarianceState, float]:
        """S ← T S Tᵀ; what leaves the trace is lost."""
        xp = namespace_of(T)
        moved = T @ state.scatter @ xp.matrix_transpose(T)
        loss = float(xp.linalg.trace(state.scatter)) - float(xp.linalg.trace(moved))
        return CovarianceState((moved + xp.matrix_transpose(moved)) / 2), max(loss, 0.0)

    def merge(self, one: CovarianceState, two: CovarianceState) -> CovarianceState:
        """Scatter matrices add."""
        return CovarianceState(one.scatter + two.scatter)

    def decay(self, state: CovarianceState, factor: float) -> CovarianceState:
        """S ← factor · S."""
        return CovarianceState(state.scatter * factor)

    def components(
        self, state: CovarianceState, moments: Moments, center: bool, correction: Shift = None
    ) -> tuple[Array, Array, Array]:
        """Eigenvectors of the covariance of all rows."""
        scatter, total = state.scatter, moments.total
        if correction is not None:
            scatter, total = scatter + correction[0], total + correction[1]
        elif state.solved and state.solved["of"] is moments and state.solved["center"] == center:
            return state.solved["components"]
        C, mean = covariance(scatter, Moments(moments.weight, total), center)
        values, vectors = symmetric_eigen(C)
        found = namespace_of(C).clip(values, min=0.0), vectors, mean
        if correction is None:
            state.solved.update(of=moments, center=center, components=found)
        return found


def covariance(scatter: Array, moments: Moments, center: bool) -> tuple[Array, Array]:
    """S/W − μμᵀ and the mean μ (zero when not centred)."""
    weight = moments.weight if moments.weight > 0 else 1.0  # before the first row
    mean = moments.total / weight if center else 0.0 * moments.total
    return scatter / weight - mean[:, None] * mean[None, :], mean


def lost_orders(scatter: Array, T: Array, n_orders: int) -> np.ndarray | None:
    """Sums of the 1, 2, … largest eigenvalues of ``S^{1/2} (I − TᵀT) S^{1/2}``; None for none."""
    if n_orders == 0:
        return None
    T, S = to_host(T), to_host(scatter)
    values, vectors = np.linalg.eigh(S)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    lost = np.linalg.eigvalsh(root.T @ (root - T.T @ (T @ root)))[::-1]
    sums = np.cumsum(np.maximum(lost, 0.0))
    return sums[np.minimum(np.arange(n_orders), len(sums) - 1)]
