"""Hebbian rule with a moving mean: centering of Honeine (2012), section 5.2.

The components are sums over *centred* points, ``ψ_j = Σ_k a_kj (φ(d_k) − μ_t)``, so the same
coefficients are other functions whenever the mean μ_t moves. With ``κ^c`` the paper writes::

    y = Aᵀ κ^c(x),      A ← A + η (β yᵀ − A UT[y yᵀ])

where β are the coefficients of the row over the points, not centred. In orthonormal coordinates
``u = Σ a φ(d)`` has the coordinates V, the sums of the coefficients are ``s = Aᵀ1``, and

    ψ = V − μ sᵀ,   y = ψᵀ (z − μ),   V ← V + η (z yᵀ − V UT[y yᵀ]),   s ← s + η (1ᵀβ y − UTᵀ s)

with ``1ᵀβ = fᵀz`` for ``f = Fᵀ1``. Read by one vector and written by another, these are still inner
products: the compiled pass of Sanger's rule takes a K that is not symmetric.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from array_api_compat import array_namespace

from kernelstream import trackers
from kernelstream.arrays import Array, like, to_host
from kernelstream.papers.kim_2003.hebbian import Hebbian
from kernelstream.papers.schedules import Schedule
from kernelstream.papers.sequential import (
    SequentialState,
    combined,
    extended,
)
from kernelstream.serialization import stored


@stored
@dataclass(frozen=True)
class RecentredState(SequentialState):
    """Raw components, the sums of their coefficients, and the mean of the rows."""

    ON_HOST: ClassVar[frozenset[str]] = SequentialState.ON_HOST | {"sums", "mean"}

    sums: Annotated[np.ndarray, "float64 (components)"] = field(kw_only=True)
    mean: Annotated[np.ndarray, "float64 (rank)"] = field(kw_only=True)
    weight: Annotated[float, "not negative"] = 0.0


@stored
class RecentredHebbian(Hebbian, trackers.Tracker[RecentredState]):
    """Sanger's rule with the centring of Honeine's section 5.2, for comparison with the paper.

    With :class:`Hebbian` a component is a function that stays as it is when the mean moves. Here
    its coefficients stay, and the function moves along: ``ψ_j = Σ_k a_kj (φ(d_k) − μ_t)``. Both end
    at the same components; on the way there they differ, and neither is better on average.

    Parameters
    ----------
    schedule : Schedule, "auto" or float
        Step sizes, as in :class:`Hebbian`.
    guard : bool
        Whether steps that are too long are shortened.

    Notes
    -----
    The paper derives the running mean in an appendix that is not part of the published text we
    have; the mean of all rows up to and including the present one is taken, in the span of the
    points. The tracker needs ``center=True``.

    References
    ----------
    Honeine, "Online kernel principal component analysis: a reduced-order model", IEEE TPAMI 34(9),
    2012, section 5.2.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA, landmarks, papers
    >>> X = np.random.default_rng(0).normal(size=(3000, 2)) * [1, 0.3]
    >>> both = [
    ...     StreamingKernelPCA(1, gamma=0.2, basis=landmarks.Distance(0.01), tracker=tracker)
    ...     for tracker in (papers.Hebbian(), papers.RecentredHebbian())
    ... ]
    >>> one, two = (model.partial_fit(X).transform(X)[:, 0] for model in both)
    >>> bool(abs(np.corrcoef(one, two)[0, 1]) > 0.999)
    True
    """

    needs_points = True
    forgetting = 1.0
    spread = False

    def __init__(self, schedule: Schedule | str | float = "auto", guard: bool = True):
        self.schedule = schedule
        self.guard = guard

    def begin(self, rank: int, n_components: int | None, reference: Array) -> RecentredState:
        """Component i is the i-th coordinate; a basis that grows has none yet."""
        plain = super().begin(rank, n_components, reference)
        r = len(plain.variances)
        return RecentredState(plain.V, 0, plain.variances, sums=np.zeros(r), mean=np.zeros(rank))

    def suits(self, basis: Any, n_components: Any, center: bool = True) -> None:
        """The rule centers with the running mean."""
        super().suits(basis, n_components, center)
        if not center:
            raise ValueError(f"The tracker {self} centres with the running mean: center=True.")

    def centered(self, Z: Array, weights: Array | None, before: trackers.Moments) -> Array:
        """Rows as they are: the rule subtracts the mean itself."""
        return Z

    def update(  # type: ignore[override]
        self,
        state: RecentredState,
        Z: Array,
        weights: Array | None,
        admitted: tuple[int, ...],
        points: Array | None = None,
    ) -> RecentredState:
        """Learn rows as they are, one after the other.

        What the rule needs of the landmarks is ``f``: it takes their place in the calls below.
        """
        f = coefficient_sums(to_host(points))
        if state.time == 0:  # the sums of components that start with the landmarks: Vᵀ f
            known = to_host(state.V)
            state = replace(state, sums=known.T @ f[: len(known)])
        return super().update(state, Z, weights, admitted, f)

    def _start(  # type: ignore[override]
        self, state: RecentredState, coordinate: int, points: Array | None
    ) -> RecentredState:
        assert points is not None
        started, sums = super()._start(state, coordinate, points), state.sums.copy()
        sums[coordinate] = points[coordinate]
        return replace(started, sums=sums)

    def _pass(  # type: ignore[override]
        self,
        state: RecentredState,
        rows: Array,
        w: np.ndarray,
        schedule: Schedule,
        points: Array | None,
    ) -> RecentredState:
        assert points is not None
        xp = array_namespace(rows)
        so_far = state.weight + np.cumsum(w)
        total = like(state.weight * state.mean, rows)[None, :] + xp.cumulative_sum(
            rows * like(w, rows)[:, None], axis=0
        )
        means = total / like(so_far, rows)[:, None]
        read = rows - means
        back = -to_host(xp.sum(means * read, axis=1))  # what the sums s are read with
        written = to_host(rows) @ points[: int(rows.shape[1])]  # 1ᵀβ
        G = to_host(xp.matrix_transpose(state.V) @ xp.matrix_transpose(read))
        K = to_host(read @ xp.matrix_transpose(rows)) + np.outer(back, written)
        learned, T, S = self.advance(state, G + np.outer(state.sums, back), K, w, schedule)
        return replace(
            learned,
            V=combined(state.V, rows, T, S),
            sums=T @ state.sums + S @ written,
            mean=to_host(means[-1, :]).copy(),
            weight=float(so_far[-1]),
        )

    def pad(self, state: RecentredState, rank: int) -> RecentredState:
        """Neither components nor mean have a part in the new coordinates yet."""
        return replace(state, V=extended(state.V, rank), mean=extended(state.mean, rank))

    def rebase(self, state: RecentredState, T: Array) -> tuple[RecentredState, None]:  # type: ignore[override]
        """V ← T V; the sums of the coefficients stay, so that the functions do."""
        moved, _ = super().rebase(state, T)
        assert isinstance(moved, RecentredState)
        return replace(moved, mean=to_host(T) @ state.mean), None

    def raw(self, state: Any, mean: Array) -> Array:
        """``ψ = V − μ sᵀ``, at the length it has."""
        return state.V - mean[:, None] * like(state.sums, state.V)[None, :]


def coefficient_sums(points: np.ndarray) -> np.ndarray:
    """``f = Fᵀ1``: how much each coordinate adds to the sum of the coefficients over the points.

    The points in their own coordinates are P = KF, and ``P f = K F Fᵀ 1 = 1``.
    """
    ones = np.ones(len(points))
    if points.shape[0] == points.shape[1]:
        return np.linalg.solve(points, ones)
    return np.linalg.lstsq(points, ones, rcond=None)[0]
