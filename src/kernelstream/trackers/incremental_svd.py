"""Incremental SVD with mean update (Lim et al. 2004; Chin and Suter 2006)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from kernelstream.arrays.namespaces import (
    Array,
    all_finite,
    like,
    namespace_of,
    padded,
    symmetric_eigen,
    to_float64,
    to_host,
    weighted_sum,
)
from kernelstream.serialization import stored
from kernelstream.serialization.part import check_choice
from kernelstream.trackers.base import Shift, Tracker
from kernelstream.trackers.moments import Moments

_ROUNDING = 1e-14  # a singular value of this share of the first is rounding


@stored
@dataclass(frozen=True)
class IncrementalSVDState:
    """Â = U Σ Vᵀ of the centred rows without V, their weight and their mean, float64."""

    U: Annotated[Array, "float64 (rank, .kept)"]
    sigma: Annotated[Array, "float64 (.kept), not negative"]
    weight: Annotated[float, "not negative"]
    mean: Annotated[Array, "float64 (rank)"]
    n_components: int  # columns kept after each block; 0 keeps all
    truncated: bool = False  # whether anything was cut off so far

    def check(self, sizes: dict[str, int]) -> None:
        """Raise unless the columns of U can be unit vectors."""
        if bool(np.any(np.abs(self.U) > 1.0 + 1e-6)):
            raise ValueError("singular vectors that are too long")

    @property
    def scatter(self) -> Array:
        """Σ w z zᵀ, for the certificate; no such attribute once something was cut off."""
        if self.truncated:
            raise AttributeError("the scatter of all rows is not known: some of it was cut off")
        xp = namespace_of(self.U)
        root = self.U * self.sigma[None, :]
        mean = self.weight * self.mean[:, None] * self.mean[None, :]
        return root @ xp.matrix_transpose(root) + mean


@stored
class IncrementalSVD(Tracker[IncrementalSVDState]):
    """The factorisation of all rows, updated block by block and cut to r components each time.

    Chin and Suter's section 4 in orthonormal coordinates, where the kernel trick of their section
    4.2 is not needed: with the old factors ``U Σ``, mean μ_A and n rows, and c new rows with mean
    μ_B, the scatter of all rows about their common mean is that of the columns

        ``[U Σ,  B − μ_B,  √(nc/(n+c)) (μ_A − μ_B)]``        (eqs. 10–11)

    and its left singular vectors and values are the new factors. With an integer ``n_components``
    only so many are kept after each block, and memory is O(m r); with None (or a share of the
    variance) nothing is cut, and the components are those of :class:`Covariance`.

    Parameters
    ----------
    forgetting : float
        Share of the weight of old rows left after each new row, in (0, 1].
    reorthogonalise : "exact" or "paper"
        What happens when a change of basis leaves the vectors neither orthogonal nor of unit
        length: ``"exact"`` factors ``T U Σ`` again; ``"paper"`` takes the orthonormal vectors
        nearest to ``T U`` (eqs. 22–24 with their mistake mended) and of the matrix that carries the
        singular values over only the diagonal (eq. 25).

    Notes
    -----
    Eq. (12) takes a QR decomposition of what is new before a smaller SVD; for c ≥ r, the usual
    case, the SVD of all columns costs the same. What is cut off at early blocks is lost: on data
    whose variance is spread over many directions the components depend on the order of the rows.
    With ``center=False`` the mean joins the factors when components are asked for.

    Eq. (24) as it is printed changes nothing: ``P = D^{1/2}Qᵀ``, so that ``Q D^{-1/2} P`` is the
    identity. The vectors nearest to ``T U`` are ``T U Q D^{-1/2} Qᵀ``.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA, trackers
    >>> X = np.random.default_rng(0).normal(size=(400, 3)) * [1, 2, 3]
    >>> model = StreamingKernelPCA(kernel="linear", tracker=trackers.IncrementalSVD()).fit(X)
    >>> bool(np.allclose(model.explained_variance_, np.linalg.eigvalsh(np.cov(X.T, ddof=0))[::-1]))
    True
    """

    def __init__(self, forgetting: float = 1.0, reorthogonalise: str = "exact"):
        self.forgetting = forgetting
        self.reorthogonalise = reorthogonalise

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""
        self._check_forgetting()
        check_choice("IncrementalSVD: reorthogonalise", self.reorthogonalise, ("exact", "paper"))

    def begin(self, rank: int, n_components: int | None, reference: Array) -> IncrementalSVDState:
        """Start without rows."""
        return IncrementalSVDState(
            U=like(np.zeros((rank, 0)), reference),
            sigma=like(np.zeros(0), reference),
            weight=0.0,
            mean=like(np.zeros(rank), reference),
            n_components=n_components or 0,
        )

    def update(
        self, state: IncrementalSVDState, Z: Array, weights: Array | None, admitted: tuple[int, ...]
    ) -> IncrementalSVDState:
        """Join the block to the factors."""
        xp, state = namespace_of(Z), self._padded(state, int(Z.shape[1]))
        B = to_float64(Z)
        n, c = state.weight, float(B.shape[0]) if weights is None else float(xp.sum(weights))
        mean = weighted_sum(B, weights) / c  # (7)
        new = B - mean[None, :]  # (9)
        new = new if weights is None else new * xp.sqrt(weights)[:, None]
        shift = (n * c / (n + c)) ** 0.5 * (state.mean - mean)  # (10)
        state = replace(
            state,
            weight=n + c,
            mean=(n * state.mean + c * mean) / (n + c),  # (8)
        )
        return _factor(state, [xp.matrix_transpose(new), shift[:, None]])

    def _padded(self, state: IncrementalSVDState, rank: int) -> IncrementalSVDState:
        """Old rows have no part in the new coordinates."""
        U = padded(state.U, (rank, int(state.U.shape[1])))
        return replace(state, U=U, mean=padded(state.mean, (rank,)))

    def rebase(
        self, state: IncrementalSVDState, T: Array
    ) -> tuple[IncrementalSVDState, float | None]:
        """U Σ ← T U Σ, factored again; what leaves the trace is lost.

        Chin and Suter's re-orthogonalisation (22)–(25), without its approximation: they keep the
        diagonal of the matrix that carries the singular values over, the factorisation keeps all.
        """
        if self.reorthogonalise == "paper":
            return _nearest(replace(state, U=T @ state.U, mean=T @ state.mean)), None
        moved = _factor(replace(state, U=T @ state.U, mean=T @ state.mean), [])
        loss = _energy(state) - _energy(moved)
        return moved, None if state.truncated else max(loss, 0.0)

    def merge(self, one: IncrementalSVDState, two: IncrementalSVDState) -> IncrementalSVDState:
        """The factors of both, and the distance of their means."""
        n, c = one.weight, two.weight
        shift = (n * c / (n + c)) ** 0.5 * (one.mean - two.mean)
        mean = (n * one.mean + c * two.mean) / (n + c)
        cut = one.truncated or two.truncated
        joined = replace(one, weight=n + c, mean=mean, truncated=cut)
        return _factor(joined, [two.U * two.sigma[None, :], shift[:, None]])

    def decay(self, state: IncrementalSVDState, factor: float) -> IncrementalSVDState:
        """Σ² ← factor · Σ²; the mean of the old rows stays."""
        return replace(state, sigma=state.sigma * factor**0.5, weight=state.weight * factor)

    def raw(self, state: IncrementalSVDState, mean: Array) -> Array:
        """The left singular vectors."""
        return state.U

    def components(
        self, state: IncrementalSVDState, moments: Moments, center: bool, correction: Shift = None
    ) -> tuple[Array, Array, Array]:
        """The factors; with the mean as one more column when nothing is centred."""
        W = state.weight if state.weight > 0 else 1.0
        if correction is not None and not state.truncated:
            return self._correct(state, center, correction)
        if self.reorthogonalise == "paper":  # which leaves the vectors where they are
            order = np.argsort(-to_host(state.sigma), kind="stable")
            take = like(order, state.U)
            U = namespace_of(state.U).take(state.U, take, axis=1)
            state = replace(state, U=U, sigma=state.sigma[take])
        if center or state.weight == 0:
            return state.sigma**2 / W, state.U, state.mean if center else 0.0 * state.mean
        joined = _factor(replace(state, n_components=0), [state.weight**0.5 * state.mean[:, None]])
        return joined.sigma**2 / W, joined.U, 0.0 * state.mean

    def _correct(
        self, state: IncrementalSVDState, center: bool, correction: tuple[Array, Array]
    ) -> tuple[Array, Array, Array]:
        """As in :class:`Covariance`: a sample corrects moments gathered in older bases."""
        xp = namespace_of(state.U)
        scatter = state.scatter + correction[0]
        mean = state.mean + correction[1] / state.weight
        mean = mean if center else 0.0 * mean
        values, vectors = symmetric_eigen(scatter / state.weight - mean[:, None] * mean[None, :])
        return xp.clip(values, min=0.0), vectors, mean


def _factor(state: IncrementalSVDState, more: list[Array]) -> IncrementalSVDState:
    """Left singular vectors and values of U Σ beside more columns, as many as are kept."""
    xp = namespace_of(state.U)
    columns = xp.concat([state.U * state.sigma[None, :], *more], axis=1)
    if not all_finite(columns):  # LAPACK would look for their singular values for ever
        raise ValueError("IncrementalSVD: the rows are so large that sums overflow; scale them.")
    U, sigma, _ = xp.linalg.svd(columns, full_matrices=False)
    host = to_host(sigma)
    real = int(np.sum(host > _ROUNDING * host.max(initial=0.0)))
    kept = real if state.n_components == 0 else min(real, state.n_components)
    return replace(
        state,
        U=U[:, :kept],
        sigma=sigma[:kept],
        truncated=state.truncated or kept < real,
    )


def _nearest(state: IncrementalSVDState) -> IncrementalSVDState:
    """Orthonormal vectors nearest to U, and the diagonal of what carries Σ over (eqs. 22–25)."""
    xp = namespace_of(state.U)
    overlap = to_host(xp.matrix_transpose(state.U) @ state.U)  # M_o = Q D Qᵀ
    D, Q = np.linalg.eigh(overlap)
    inverse = np.where(D > _ROUNDING, 1.0 / np.sqrt(np.maximum(D, _ROUNDING)), 0.0)
    nearest = state.U @ like((Q * inverse) @ Q.T, state.U)
    S = to_host(xp.matrix_transpose(nearest) @ state.U) * to_host(state.sigma)[None, :]
    sigma = np.maximum(np.diag(S), 0.0)
    return replace(state, U=nearest, sigma=like(sigma, state.U), truncated=True)


def _energy(state: IncrementalSVDState) -> float:
    """Trace of the scatter about zero."""
    xp: Any = namespace_of(state.U)
    return float(xp.sum(state.sigma**2)) + state.weight * float(xp.sum(state.mean**2))
