"""What regressor and classifier share: a stream whose rows come with targets."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_consistent_length

from kernelstream import bases, trackers
from kernelstream.backends.arrays import Array, cast, like, to_float64
from kernelstream.blocks import advance, learn_all, settled
from kernelstream.estimator import StreamingKernelPCA
from kernelstream.least_squares import NormalEquations, Prediction
from kernelstream.model import Model
from kernelstream.validation import checked_weights


class OnePassRidge(StreamingKernelPCA):
    """Ridge regression on the coordinates of a stream, from moments that one pass accumulates.

    It is the chain of :class:`StreamingKernelPCA` with the exact covariance: beside the scatter of
    the coordinates it keeps their cross moments with the targets, which a change of basis carries
    along (``Σ w (Tz) yᵀ = T Σ w z yᵀ``) and which add when two models are merged.

    Centroids that are asked for by number or name stay where the first rows (in ``fit``: all rows)
    put them, unless old rows are forgotten: a weak ridge divides by variances so small that
    moments which were carried through a move of the points spoil them.
    """

    n_components: Any = None
    preimage: Any = "auto"
    certify: Any = False
    device: Any = None

    def __init__(
        self,
        alpha: float | str = "gcv",
        *,
        kernel: Any = "rbf",
        gamma: float | str | None = None,
        basis: Any = "centroids",
        fit_intercept: bool = True,
        forgetting: float = 1.0,
        scale: str | None = None,
        batch_size: int | str = "auto",
        random_state: Any = None,
        verbose: bool = False,
    ):
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.basis = basis
        self.fit_intercept = fit_intercept
        self.forgetting = forgetting
        self.scale = scale
        self.batch_size = batch_size
        self.random_state = random_state
        self.verbose = verbose

    @property
    def center(self) -> Any:  # type: ignore[override]
        """The feature-space mean is taken out where there is an intercept."""
        return self.fit_intercept

    def _basis_and_tracker(self) -> tuple[bases.Basis, trackers.Tracker]:
        tracker = trackers.resolve(trackers.Covariance(forgetting=self.forgetting))
        basis = bases.resolve(self.basis)
        if self._stays(basis):
            basis = bases.resolve(clone(basis).set_params(follows=False))
        return basis, tracker

    def _stays(self, basis: bases.Basis) -> bool:
        """Whether the library chooses how centroids behave, and keeps them where they are."""
        chosen_here = not isinstance(self.basis, bases.Basis)
        return chosen_here and isinstance(basis, bases.Centroids) and self.forgetting == 1.0

    def _new_model(self, X: Array) -> Model:
        checked_alpha(self.alpha)
        return super()._new_model(X)

    # -- learning

    def _learn(self, X: Any, targets: np.ndarray, sample_weight: Any, anew: bool) -> Self:
        """Fold rows with their targets (n, t), or change nothing."""
        check_consistent_length(X, targets)
        first = anew or not self._is_fitted()
        X, weights = self._learnable(X, sample_weight, reset=first)
        if X.shape[0] < targets.shape[0]:  # rows of weight zero were dropped
            targets = targets[np.flatnonzero(checked_weights(sample_weight, len(targets)))]
        if X.shape[0] == 0:
            if first:
                raise ValueError("All rows have weight zero: there is nothing to learn from.")
            return self
        if not first:
            self._same_columns(targets)
        weighted = targets if weights is None else targets * weights[:, None]
        if not np.isfinite(4.0 * np.sum(np.abs(weighted * targets))):
            raise ValueError(
                "y has numbers so large that the sum of their squares overflows: scale the targets."
            )
        Y = to_float64(like(np.ascontiguousarray(targets), X))
        if anew:
            self._model = self._learned_from_all(X, weights, Y)
        else:
            model = self._new_model(X) if first else self._model
            self._model = advance(model, X, weights, Y)
        return self

    def _learned_from_all(self, X: Array, weights: np.ndarray | None, Y: Array) -> Model:
        """Two passes: points may follow the rows in the first, and stay from then on."""
        model = self._new_model(X)
        basis = model.parts.basis
        if self._stays(basis):
            free = clone(basis).set_params(follows=True)
            model = replace(model, parts=replace(model.parts, basis=free))
        found = learn_all(model, X, weights, Y)
        return replace(found, parts=replace(found.parts, basis=basis))

    def _same_columns(self, targets: np.ndarray) -> None:
        state, waiting = self._model.state, self._model.waiting
        learned = None if state is None or state.targets is None else state.targets.total
        known = int(waiting.targets[0].shape[1] if learned is None else learned.shape[0])
        if known != targets.shape[1]:
            raise ValueError(
                f"y has {targets.shape[1]} columns, and the rows learned so far had {known}: give "
                "targets of the same shape."
            )

    # -- queries

    def _predicted(self, X: Any) -> Array:
        """Predictions (n, t) of rows, in their type."""
        X = self._queryable(X)
        return self._in_pieces(self._solution().predict, X)

    def _solution(self) -> Regression:
        """The regression of all rows seen; computed once for a model and a strength."""
        self._view_exists()
        wanted = (checked_alpha(self.alpha), bool(self.fit_intercept))
        kept = self._model.__dict__  # a view of the value that is no part of it, as in blocks.view
        if kept.get("solution", (None,))[0] != wanted:
            kept["solution"] = (wanted, solved(self._model, *wanted))
        return kept["solution"][1]

    @property
    def alpha_(self) -> float:
        """The strength in use."""
        return self._solution().prediction.alpha

    @property
    def target_coef_(self) -> Array:
        """Coefficients of the predictions over the basis points, (m, t)."""
        return self._solution().over_points

    @property
    def target_intercept_(self) -> Array:
        """The predictions where the kernel with every point is zero, (t,)."""
        return self._solution().prediction.intercept


@dataclass(frozen=True)
class Regression:
    """Predictions as functions on input space: ``k(X, D) F B + b``, or through the features."""

    kernel: Any
    basis: bases.Basis
    basis_state: Any
    prediction: Prediction

    @cached_property
    def over_points(self) -> Array:
        """F B, the coefficients over the points, float64."""
        span = self.basis.span(self.basis_state)
        if span is None:
            raise AttributeError(
                f"{self.basis} has explicit features instead of points; use a basis of points, "
                "for example bases.Centroids."
            )
        return span.factor @ self.prediction.coefficients

    def predict(self, X: Array) -> Array:
        """Predictions of rows.

        The coefficients over the points of an ill-conditioned basis are large and alternate in
        sign: their products with kernel values are summed in float64.
        """
        span = self.basis.span(self.basis_state)
        if span is None:
            Z = self.basis.coordinates(self.kernel, self.basis_state, X)
            return self.prediction.of_coordinates(to_float64(Z))
        K = self.kernel.block(X, cast(span.points, X.dtype))
        return to_float64(K) @ self.over_points + self.prediction.intercept


def solved(model: Model, alpha: float | None, center: bool) -> Regression:
    """The regression that a model has learned, those rows that wait included."""
    whole = settled(model)
    state = whole.state
    assert state is not None and state.targets is not None
    equations = NormalEquations.of(state.moments, state.tracker.scatter, state.targets, center)
    kernel, basis = whole.parts.kernel, whole.parts.basis
    return Regression(kernel, basis, state.basis, Prediction.of(equations, alpha))


def checked_alpha(alpha: Any) -> float | None:
    """A strength as a number, None for generalised cross-validation, or an error in words."""
    if isinstance(alpha, str) and alpha == "gcv":
        return None
    is_number = isinstance(alpha, numbers.Real) and not isinstance(alpha, bool)
    if is_number and 0.0 <= float(alpha) < float("inf"):
        return float(alpha)
    raise ValueError(
        "alpha must be a number that is not negative, or 'gcv' to choose it by generalised "
        f"cross-validation; got {alpha!r}."
    )
