"""Components: scores, explained variance, n_components as a fraction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelstream.arrays.namespaces import (
    Array,
    canonical_signs,
    cast,
    dtype_name,
    like,
    namespace_of,
    padded,
    row_norms_squared,
    to_float64,
    to_host,
)
from kernelstream.arrays.threads import cores
from kernelstream.kernels import Kernel
from kernelstream.kernels.rounding import moved_in_float32
from kernelstream.landmarks import Clock, LandmarkStrategy, Span
from kernelstream.landmarks.base import Correction, KeptCorrection
from kernelstream.landmarks.fixed import FixedState
from kernelstream.serialization import stored
from kernelstream.serialization.part import Value
from kernelstream.stream.state import State

if TYPE_CHECKING:
    from kernelstream.stream.step import Chain

VISIBLE = 1e-3  # share of its deviation by which rounding may move a score
NO_VARIANCE = 1e-12  # variance of a component, relative to the first, that is rounding only
KEEPS_SIGN = 0.7  # a component keeps its sign while its cosine to the reference is above this


@dataclass(frozen=True)
class InputMoments:
    """Mean of the rows and their covariance with the scores, as the kernel sees rows."""

    mean: Array  # (d,)
    covariance: Array  # (r, d)


@dataclass(frozen=True)
class Components:
    """The components as functions on input space: what a query sees.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    basis : LandmarkStrategy
        The landmark strategy.
    basis_state : object
        State of the landmark strategy.
    vectors : array of shape (q, r)
        Unit vectors: the components in coordinates.
    variances : array of shape (r,)
        Variances of the components.
    mean : array of shape (q,)
        Mean of the coordinates.
    total_variance : float
        Total variance in feature space.
    weight : float
        Sum of the weights of the rows.
    orthonormal : bool
        Whether the vectors are orthonormal.
    inputs : InputMoments or None
        Moments for the regression of the rows on their scores.
    """

    kernel: Kernel
    basis: LandmarkStrategy
    basis_state: Any
    vectors: Array  # (q, r) unit vectors, the components in coordinates
    variances: Array  # (r,)
    mean: Array  # (q,)
    total_variance: float
    weight: float
    orthonormal: bool  # whether the vectors are at right angles (those of sequential rules tend to)
    inputs: InputMoments | None = None  # for the regression of the rows on their scores

    @property
    def span(self) -> Span:
        """The landmarks with their factor."""
        return self.basis_state.span

    @cached_property
    def lift(self) -> Array:
        """From scores back to coordinates, (q, r); the components, where they are orthonormal."""
        return self.vectors if self.orthonormal else lift(self.vectors)

    @property
    def explained_variance_ratio(self) -> Array:
        """Variances as a share of the total variance in feature space, (r,)."""
        total = self.total_variance
        return self.variances / total if total > 0 else 0.0 * self.variances

    @cached_property
    def dual_coef(self) -> Array:
        """Coefficients of the components over the points, (m, r)."""
        with cores():
            return self.span.factor @ self.vectors

    @cached_property
    def mean_coef(self) -> Array:
        """Coefficients of the mean over the points, (m,)."""
        return self.span.factor @ self.mean

    @cached_property
    def intercept(self) -> Array:
        """Scores of the mean, (r,)."""
        return namespace_of(self.vectors).matrix_transpose(self.vectors) @ self.mean

    @property
    def points(self) -> Array:
        """The points that span the model, (m, d)."""
        return self.span.points

    def without_sample(self) -> Components:
        """The same components without what the basis keeps besides its points: light to send."""
        return replace(self, basis_state=FixedState(self.span))

    def coordinates(self, X: Array) -> Array:
        """Coordinates of rows, less the mean.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows in the units of the kernel.

        Returns
        -------
        array of shape (n, q)
            The centered coordinates.
        """
        Z = self.basis.coordinates(self.kernel, self.basis_state, X)
        return Z - cast(self.mean, Z.dtype)[None, :]

    def scores(self, X: Array) -> Array:
        """Scores on the components: ``k(X, D) A − b``.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows in the units of the kernel.

        Returns
        -------
        array of shape (n, r)
            The scores.
        """
        single = dtype_name(X) == "float32"
        rows = to_float64(X) if single and self._rough else X
        K = self.kernel.block(rows, self.span.prepared(self.kernel, rows))
        scores = K @ cast(self.dual_coef, K.dtype)
        return cast(scores - cast(self.intercept, K.dtype)[None, :], X.dtype)

    @cached_property
    def _rough(self) -> bool:
        """Whether scores need kernel values in float64: components of next to no variance.

        Their coefficients over the points are large and alternate in sign.
        """
        moved = moved_in_float32(self.kernel, self.points, self.dual_coef)
        deviation = np.sqrt(to_host(self.variances))
        return bool(np.any((moved > VISIBLE * deviation) & (deviation > 0.0)))

    def reconstruction_error(self, X: Array) -> Array:
        """``|φ(x) − P φ(x)|²`` for the affine projection P on mean and components.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows in the units of the kernel.

        Returns
        -------
        array of shape (n,)
            The squared residual of each row.
        """
        xp = namespace_of(self.vectors)
        Z = to_float64(self.coordinates(X))
        outside = Z - (Z @ self.vectors) @ xp.matrix_transpose(self.lift)
        missed = to_float64(self.kernel.diag(X)) - row_norms_squared(Z + self.mean[None, :])
        return xp.clip(missed, min=0.0) + row_norms_squared(outside)

    def unexplained(self, X: Array) -> Array:
        """``|φ(x) − μ|² − Σ_i t_i² λ_i/(λ_i + 1/W)`` with scores t, variances λ and weight W.

        The reconstruction error, where a component counts by its variance against that of one row:
        the variance of a Gaussian process that was told the rows. Components are orthonormal.

        ``|φ(x) − μ|² = k(x,x) − 2⟨φ(x), μ⟩ + |μ|²``, and one product gives the scores
        and ``⟨φ(x), μ⟩``.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows in the units of the kernel.

        Returns
        -------
        array of shape (n,)
            The part of each squared distance that the components do not explain.
        """
        xp = namespace_of(self.vectors)
        rows = self.span.rows(X)
        K = self.kernel.block(rows, self.span.prepared(self.kernel, rows))
        found = to_float64(K @ cast(self._weighed_coef_and_mean, K.dtype))
        weighed = found[:, :-1] - (self.intercept * self._root_shares)[None, :]
        apart = to_float64(self.kernel.diag(X)) - 2.0 * found[:, -1] + self.mean @ self.mean
        return xp.clip(apart - row_norms_squared(weighed), min=0.0)

    @cached_property
    def _root_shares(self) -> Array:
        """``√(λ/(λ + 1/W))`` of each component."""
        return namespace_of(self.variances).sqrt(
            self.variances / (self.variances + 1.0 / self.weight)
        )

    @cached_property
    def _weighed_coef_and_mean(self) -> Array:
        """Coefficients over the points of the components, each by its share, and of the mean."""
        xp = namespace_of(self.vectors)
        return xp.concat(
            [self.dual_coef * self._root_shares[None, :], self.mean_coef[:, None]], axis=1
        )


@stored
@dataclass(frozen=True, eq=False)
class Learned(Value):
    """A chain and what it has learned in the finished blocks; None until enough rows have come."""

    chain: Chain
    state: State | None = None

    def check(self, sizes: dict[str, int]) -> None:
        """Raise unless the state is one of this chain."""
        chain, state = self.chain, self.state
        chain.tracker.suits(chain.basis, chain.n_components, chain.center)
        if state is None:
            return
        if not chain.kernel.fixed:
            raise ValueError(f"a stream that has begun with the kernel {chain.kernel}")
        chain.basis.check_state(state.basis)
        chain.tracker.check_state(state.tracker)
        rank = state.basis.span.rank
        if rank != sizes["rank"]:
            raise ValueError(f"{sizes['rank']} coordinates in a basis of {rank}")

    def _state(self) -> State:
        assert self.state is not None
        return self.state

    @cached_property
    def updated(self) -> State | None:
        """The state for a query: the landmarks are updated if they no longer suit the rows."""
        chain, state = self.chain, self.state
        if state is None:
            return None
        clock = Clock(chain.seed, state.n_rows, query=True)
        change = chain.basis.revise(chain.kernel, state.basis, clock)
        return state if change is None else chain.rebase(state, *change)

    @cached_property
    def components(self) -> Components:
        """The components of a state, as many as were asked for."""
        chain, state = self.chain, self._state()
        sample = None
        if chain.tracker.kind != "sequential":
            sample = state.basis.correction(chain.kernel)
        values, vectors, mean = self.solve(sample)
        weight = state.moments.weight
        energy = state.moments.squared_norm / weight if weight > 0 else 0.0
        total_variance = max(energy - float(row_norms_squared(mean[None, :])[0]), 0.0)
        # An estimate from a sample may come out a little above what there is, and so may rounding
        # where there is nothing; the running estimates of sequential rules may come out far above,
        # by rows that they weigh more than the total does, or seen by two components at once.
        total_variance = max(total_variance, float(to_host(values).sum()))
        r = chain.shown or n_shown(chain.n_components, to_host(values), total_variance)
        values, vectors = chosen(values, vectors, r)
        return Components(
            kernel=chain.kernel,
            basis=chain.basis,
            basis_state=state.basis,
            vectors=vectors,
            variances=values,
            mean=mean,
            total_variance=total_variance,
            weight=weight,
            orthonormal=chain.tracker.kind != "sequential",
            inputs=self.input_moments(vectors, mean, sample),
        )

    def input_moments(
        self, vectors: Array, mean: Array, sample: Correction | KeptCorrection | None
    ) -> InputMoments | None:
        """The way back to the rows that was learned with the model, where one was asked for.

        What was gathered in older bases is corrected by the sample, as the components are.
        """
        chain, state = self.chain, self._state()
        if not chain.regress_inputs or state.targets is None:
            return None
        weight, targets = state.moments.weight, state.targets
        if not chain.center:
            targets = targets.about(0.0 * targets.origin, weight, state.moments.total)
        cross, offset = targets.cross / weight, targets.total / weight
        if sample is not None:
            cross = cross + sample.cross(targets.origin, weight)
        if chain.center:
            cross = cross - mean[:, None] * offset[None, :]
        transposed = namespace_of(vectors).matrix_transpose(vectors)
        about = targets.origin + (offset if chain.center else 0.0)
        return InputMoments(about, transposed @ cross)

    def correction(self, sample: Correction | KeptCorrection | None) -> tuple[Array, Array] | None:
        """What corrects moments that were gathered in older bases, from a sample in the present.

        S_c = S + (W/R) Σ v (z zᵀ − c cᵀ): z the sampled rows' coordinates now, c those they were
        folded with, v the weight each stands for (mean 1; weights and forgetting are in it).
        """
        return None if sample is None else sample.moments(self._state().moments.weight)

    def solve(
        self, sample: Correction | KeptCorrection | None = None
    ) -> tuple[Array, Array, Array]:
        """Variances, signed unit vectors and mean; the number of components is not yet chosen."""
        chain, state = self.chain, self._state()
        values, vectors, mean = chain.tracker.components(
            state.tracker, state.moments, chain.center, self.correction(sample)
        )
        if chain.tracker.kind == "sequential":
            return values, vectors, mean
        if isinstance(chain.n_components, int):
            values, vectors = values[: chain.n_components], vectors[:, : chain.n_components]
        return values, oriented(chain, state, vectors, mean, state.signs), mean


def n_shown(n_components: int | float | None, values: np.ndarray, total: float) -> int:
    """Number of components: as asked, all with variance, or enough for a share of the total."""
    if isinstance(n_components, int):
        return n_components
    positive = int(np.sum(values > NO_VARIANCE * values.max(initial=0.0)))
    if n_components is None:
        return max(positive, 1)
    enough = int(np.searchsorted(np.cumsum(values), n_components * total) + 1)
    return max(1, min(enough, positive))


def chosen(values: Array, vectors: Array, r: int) -> tuple[Array, Array]:
    """The first r components; where the data has fewer directions the rest are zero."""
    values, vectors = values[:r], vectors[:, :r]
    # Directions whose variance is rounding of the first are not directions of the data.
    xp = namespace_of(values)
    real = xp.astype(values > NO_VARIANCE * values[:1], vectors.dtype)
    return padded(values * real, (r,)), padded(vectors * real[None, :], (int(vectors.shape[0]), r))


def oriented(
    chain: Chain, state: State, vectors: Array, mean: Array, reference: Array | None
) -> Array:
    """Columns with the sign of the reference component that they are near to.

    Where none is near, the largest score of a landmark becomes positive. It is computed only if one
    of the first components needs it.
    """
    signs = agreement(vectors, reference)
    undecided = to_host(signs) == 0
    r = chain.n_components
    if not undecided[: r if isinstance(r, int) else None].any():
        return vectors * (signs + like(undecided, signs, signs.dtype))[None, :]
    span = state.basis.span
    scores = span.gram(chain.kernel) @ (span.factor @ vectors) - (mean @ vectors)[None, :]
    return vectors * namespace_of(signs).where(signs == 0, canonical_signs(scores), signs)[None, :]


def agreement(vectors: Array, reference: Array | None) -> Array:
    """+1 or −1 where a column is near a reference component or its opposite, else 0."""
    xp = namespace_of(vectors)
    undecided = like(np.zeros(int(vectors.shape[1])), vectors)
    if reference is None or reference.shape[1] == 0 or vectors.shape[1] == 0:
        return undecided
    reference = padded(reference, (int(vectors.shape[0]), int(reference.shape[1])))
    cosines = xp.matrix_transpose(reference) @ vectors
    ones = xp.ones_like(undecided)
    flip = xp.where(xp.max(cosines, axis=0) > KEEPS_SIGN, ones, undecided)
    return xp.where(xp.min(cosines, axis=0) < -KEEPS_SIGN, -ones, flip)


def lift(vectors: Array) -> Array:
    """``V (VᵀV)⁻¹``: from scores to the point of the span that has them, for any unit columns."""
    xp = namespace_of(vectors)
    return xp.matrix_transpose(xp.linalg.pinv(vectors)) if vectors.shape[0] else vectors
