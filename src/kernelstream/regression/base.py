"""Base of regression and classifier: targets, predictions, choice of the strength."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from array_api_compat import is_array_api_obj
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_consistent_length

from kernelstream import landmarks, trackers
from kernelstream.arrays import Array, to_float64, to_host
from kernelstream.estimators import KernelEstimator, at_one_moment, check_rows
from kernelstream.regression.normal_equations import (
    NormalEquations,
    Prediction,
)
from kernelstream.serialization import as_number
from kernelstream.stream import Rows, Stream

LIGHT = 0.1  # mean weight of a row below which weights are hardly meant as counts
# Errors of a prediction that rounding may cause, as a share of the deviation of the targets.
VISIBLE = 1e-4


class OnePassRidge(KernelEstimator):
    """Ridge regression on the coordinates of a stream, from moments that one pass accumulates.

    It holds a stream with the exact covariance: with the scatter of
    the coordinates it keeps their cross moments with the targets, which a change of basis carries
    along (``Σ w (Tz) yᵀ = T Σ w z yᵀ``) and which add when two models are merged.

    Centroids that are asked for by number or name stay where the first rows (in ``fit``: all rows)
    put them, unless old rows are forgotten: a weak ridge divides by variances so small that
    moments which were carried through a move of the points spoil them.
    """

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

    def _n_targets(self) -> int:
        """Columns of the targets that were learned or that wait."""
        stream = self.stream_
        learned = None if stream.state is None else stream.state.targets
        if learned is not None:
            return len(learned.origin)
        waiting = stream.waiting.blocks
        if not waiting or waiting[0].targets is None:
            raise ValueError("a regression without targets")
        return int(waiting[0].targets.shape[1])

    def _stays(self, basis: landmarks.LandmarkStrategy) -> bool:
        """Whether the library chooses how centroids behave, and keeps them where they are."""
        chosen_here = not isinstance(self.basis, landmarks.LandmarkStrategy)
        return chosen_here and isinstance(basis, landmarks.Centroids) and self.forgetting == 1.0

    def new_stream(self, X: Array) -> Stream:
        """A stream for rows like X with the parameters of this estimator, which are checked.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows that determine the number of columns, the data type and the device of the stream.

        Returns
        -------
        Stream
            A stream without rows.
        """
        if isinstance(self.gamma, str) and self.gamma == "auto":
            raise ValueError(
                "gamma='auto' reconstructs rows and knows no targets: for a regression compare "
                "widths with GridSearchCV, or take that of kernelstream.suggest(X, y)."
            )
        checked_alpha(self.alpha)
        basis = landmarks.resolve(self.basis)
        if self._stays(basis):
            basis = landmarks.resolve(clone(basis).set_params(follows=False))
        return self._stream_of(
            X,
            self._resolved_kernel(int(X.shape[1])),
            basis,
            trackers.resolve(trackers.Covariance(forgetting=self.forgetting)),
            center=checked_intercept(self.fit_intercept),  # then the mean is taken out
        )

    # -- learning

    def _learn(
        self,
        X: Any,
        targets: np.ndarray,
        sample_weight: Any,
        anew: bool,
        on_bad_rows: str = "error",
    ) -> Self:
        """Fold rows with their targets (n, t), or change nothing."""
        check_consistent_length(X, targets)
        # Rows of weight zero, and bad ones, are left out.
        rows, stream = self._rows_to_learn(X, sample_weight, on_bad_rows, targets, anew)
        if not len(rows):
            return self
        if stream is not None:
            require_same_columns(stream, targets.shape[1])
        if anew:
            self.set_stream(self._learn_from_all(rows))
        else:
            self.set_stream((stream or self.new_stream(rows.X)).learn(rows))
        return self

    def _learn_from_all(self, rows: Rows) -> Stream:
        """Points may follow the rows while they are chosen, and stay from then on."""
        begun = self.new_stream(rows.X)
        learned = with_moving_points(self, begun, True).learn_all(rows)
        return learned.with_chain(basis=begun.chain.basis)

    @abstractmethod
    def _columns(self, y: Any) -> np.ndarray:
        """Checked targets as a matrix, one row a row of X."""

    # -- queries

    def _predict(self, X: Any) -> Array:
        """Predictions (n, t) of rows, in their type."""
        return self._query(solution_of(self).predict, X)

    @property
    @at_one_moment
    def alpha_(self) -> float:
        """The strength in use: as given, or as it was chosen."""
        return solution_of(self).prediction.alpha

    @property
    @at_one_moment
    def target_coef_(self) -> Array:
        """Coefficients of the predictions over the basis points, (m, t).

        ``predict(X) == kernel_(X, basis_points_) @ target_coef_ + target_intercept_``; with
        ``scale="standard"``, of the standardised X.
        """
        return solution_of(self).over_points

    @property
    @at_one_moment
    def target_intercept_(self) -> Array:
        """The predictions where the kernel with every point is zero, (t,)."""
        return solution_of(self).prediction.intercept


@dataclass(frozen=True)
class Regression:
    """Predictions as functions on input space: ``k(X, D) F B + b``."""

    kernel: Any
    basis: landmarks.LandmarkStrategy
    basis_state: Any
    prediction: Prediction
    double: bool  # whether kernel values of single precision are too rough for the coefficients

    @cached_property
    def over_points(self) -> Array:
        """F B, the coefficients over the points, float64."""
        return self.basis_state.span.factor @ self.prediction.coefficients

    def predict(self, X: Array) -> Array:
        """Predictions of rows.

        The coefficients over the points of an ill-conditioned basis are large and alternate in
        sign: their products with kernel values are summed in float64, and the values themselves are
        in float64 where they have to be.
        """
        X = to_float64(X) if self.double else X
        K = self.kernel.block(X, self.basis_state.span.prepared(self.kernel, X))
        return to_float64(K) @ self.over_points + self.prediction.intercept


def on_host(values: Any) -> Any:
    """Targets or weights as scikit-learn can read them: those of a device are fetched."""
    return to_host(values) if is_array_api_obj(values) else values


def learn_block(
    estimator: OnePassRidge, X: Any, y: Any, sample_weight: Any, frozen: bool = False
) -> None:
    """Fold a block of a run over files, whose stream has begun; ``frozen`` keeps its basis."""
    stream = estimator.stream_
    rows = check_rows(stream, X, sample_weight, targets_of(estimator, y))
    if len(rows):
        estimator.set_stream(stream.learn(rows, frozen=frozen))


def mean_targets(estimator: OnePassRidge) -> np.ndarray:
    """The mean of all targets learned, (t,): what is predicted without a look at the rows."""
    state = estimator.stream_.caught_up.begun
    assert state.targets is not None
    return to_host(state.targets.origin + state.targets.total / state.moments.weight)


def with_moving_points(estimator: OnePassRidge, stream: Stream, moving: bool) -> Stream:
    """The stream for a pass that looks for points, which may move, or for one after it."""
    basis = stream.chain.basis
    if not estimator._stays(basis):
        return stream
    return stream.with_chain(basis=clone(basis).set_params(follows=moving))


def targets_of(estimator: OnePassRidge, y: Any) -> np.ndarray:
    """Checked targets as a matrix, one row a row of X."""
    return estimator._columns(y)


def solution_of(estimator: OnePassRidge) -> Regression:
    """The regression of all rows seen; computed once for a stream and a strength."""
    stream = estimator.stream_
    alpha = checked_alpha(estimator.alpha)
    wanted = (None if alpha == "gcv" else alpha, bool(estimator.fit_intercept))
    if alpha == "gcv" and wanted not in stream.solutions:
        warn_of_light_rows(stream)
    return stream.solved(wanted, lambda: solve(stream, *wanted))


def require_same_columns(stream: Stream, n_columns: int) -> None:
    """Raise in words unless targets have as many columns as those that were learned."""
    learned = None if stream.state is None else stream.state.targets
    known = stream.waiting.blocks[0].targets if learned is None else learned.total[None, :]
    assert known is not None
    if known.shape[1] != n_columns:
        raise ValueError(
            f"y has {n_columns} columns, and the rows learned so far had {known.shape[1]}: give "
            "targets of the same shape."
        )


def solve(stream: Stream, alpha: float | None, center: bool) -> Regression:
    """The regression that a stream has learned, those rows that wait included."""
    whole = stream.settled
    chain, state = whole.chain, whole.begun
    assert state.targets is not None
    equations = NormalEquations.of(state.moments, state.tracker.scatter, state.targets, center)
    prediction = Prediction.of(equations, alpha)
    found = Regression(chain.kernel, chain.basis, state.basis, prediction, double=True)
    return replace(found, double=is_rough(whole, found, equations))


def is_rough(stream: Stream, found: Regression, equations: NormalEquations) -> bool:
    """Whether the rounding of kernel values in single precision shows in the predictions."""
    moved = stream.moved_in_float32(found.over_points)
    return bool(np.any(moved > VISIBLE * np.sqrt(to_host(equations.target_variance))))


def with_targets(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """The rows that have a target; as they were given where all have one."""
    if y is None:
        return X, y, sample_weight
    check_consistent_length(X, y)
    given = np.asarray(y, dtype=object)
    missing = np.asarray([_is_missing(target) for target in given])
    if not missing.any():
        return X, y, sample_weight
    kept = np.flatnonzero(~missing)
    if not len(kept):
        raise ValueError("No row has a target: there is nothing to learn from.")
    weighted = sample_weight is not None and np.ndim(sample_weight) > 0
    weights = np.asarray(sample_weight)[kept] if weighted else sample_weight
    return _safe_indexing(X, kept), np.array(given[kept].tolist()), weights


def _is_missing(target: Any) -> bool:
    values = np.atleast_1d(target)
    return any(
        value is None or (isinstance(value, float | np.floating) and not np.isfinite(value))
        for value in values
    )


def warn_of_light_rows(stream: Stream) -> None:
    """Say so where generalised cross-validation takes normalised weights for few rows."""
    state = stream.caught_up.begun
    weight, n = state.moments.weight, state.n_rows
    if stream.chain.tracker.forgetting == 1.0 and weight < LIGHT * n:
        warnings.warn(
            f"alpha='gcv' counts weights as rows, and {n} rows weigh {weight:.3g} together: too "
            "strong a ridge may be chosen. Scale the weights to a mean of 1, or give alpha as a "
            "number.",
            stacklevel=5,
        )


def checked_intercept(fit_intercept: Any) -> bool:
    """Whether there is an intercept, or an error in words."""
    if not isinstance(fit_intercept, bool | np.bool_):
        raise ValueError(f"fit_intercept must be True or False; got {fit_intercept!r}.")
    return bool(fit_intercept)


def checked_alpha(alpha: Any) -> Any:
    """A strength as a number, or "gcv"; anything else raises an error."""
    if isinstance(alpha, str) and alpha == "gcv":
        return alpha
    if 0.0 <= as_number(alpha) < math.inf:
        return float(alpha)
    raise ValueError(
        "alpha must be a number that is not negative, or 'gcv' to choose it by generalised "
        f"cross-validation; got {alpha!r}."
    )
