"""Kernel ridge regression estimator for one or more numeric targets."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_array

from kernelstream.arrays import Array
from kernelstream.estimators import KernelEstimator, at_one_moment
from kernelstream.regression.base import OnePassRidge, on_host, with_targets
from kernelstream.serialization import stored


@stored
class StreamingKernelRidge(MultiOutputMixin, RegressorMixin, OnePassRidge):
    """Kernel ridge regression in one pass and bounded memory.

    The regression is linear in the coordinates ``z(x) = Fᵀ k(D, x)`` of a basis of m points; its
    moments are accumulated in one pass, and the strength may be chosen, or changed, after the rows
    have gone. The same rows in the same order give the same model, bit
    for bit, however they are cut into calls.

    Parameters
    ----------
    alpha : float or "gcv"
        Strength: ``Σ w |y − f(x)|² + alpha |f|²`` is minimised, as in
        ``sklearn.kernel_ridge.KernelRidge``. ``"gcv"`` takes the strength of least generalised
        cross-validation, computed from the moments; with fewer than about two rows a point it may
        choose too weak a ridge.
    kernel : str, Kernel or callable
        As in :class:`StreamingKernelPCA`.
    gamma : float, str or None
        Width of a kernel given by name.
    basis : str, int or LandmarkStrategy
        The points that span the regression; an integer is a number of centroids. Centroids given
        by number stay where the first rows (in ``fit``: all rows) put them, because a weak ridge
        is spoiled by moments that were carried through a move; with ``forgetting`` below 1 they
        follow the rows. ``landmarks.Centroids(m)`` as an object does what it says.
    fit_intercept : bool
        Whether the prediction has a constant of its own that is not shrunk.
    forgetting : float
        Share of the weight of old rows left after each new row; 1 forgets nothing.
    scale : None or "standard"
        ``"standard"`` standardises rows with the start of the stream.
    batch_size : int or "auto"
        Rows in an internal block.
    random_state : int, RandomState or None
        Seed of everything that is drawn.
    verbose : bool
        Report progress through the logger ``kernelstream``.

    Attributes
    ----------
    alpha_ : float
        The strength in use.
    target_coef_ : array of shape (m, t)
        ``predict(X) == kernel_(X, basis_points_) @ target_coef_ + target_intercept_``.
    target_intercept_ : array of shape (t,)
        The constant.

    Notes
    -----
    With ``basis="everything"``, ``fit_intercept=False`` and a number as ``alpha`` this is
    ``sklearn.kernel_ridge.KernelRidge``, but for rows that add next to nothing to the span of the
    others and are left out: a very weak ridge notices that. Weights count rows: for ``"gcv"`` the
    number of rows is the sum of the weights (which should not be normalised to one, therefore).
    ``fit`` chooses the basis from all rows, then passes over them for the moments;
    ``partial_fit`` is strictly one pass.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(2000, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=2000)
    >>> model = StreamingKernelRidge(gamma=1.0, basis=30, random_state=0)
    >>> for block in range(0, 2000, 250):
    ...     model = model.partial_fit(X[block : block + 250], y[block : block + 250])
    >>> round(model.score(X, np.sin(2 * X[:, 0])), 2)
    1.0
    """

    _also_saved = ("_flat",)

    def _check_restored(self) -> None:
        if type(getattr(self, "_flat", None)) is not bool:
            raise ValueError("a regression that does not know the shape of its targets")
        if self._flat and self._n_targets() != 1:
            raise ValueError(f"{self._n_targets()} targets in the place of one")

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from rows and targets that are all at hand.

        Parameters
        ----------
        X : array of shape (n, d), dense or CSR
            The rows.
        y : array of shape (n,) or (n, t)
            The targets.
        sample_weight : array of shape (n,), optional
            Non-negative weights; a weight of two counts like the row twice.

        Returns
        -------
        self
        """
        with self.transaction() as draft:
            targets, draft._flat = columns(draft, y)
            draft._learn(X, targets, sample_weight, anew=True)
        self.report_progress()
        return self

    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, on_bad_rows: str = "error"
    ) -> Self:
        """Go on learning from the next rows of a stream; what is rejected changes nothing.

        Parameters
        ----------
        X : array of shape (n, d), dense or CSR
            The next rows, any number of them.
        y : array of shape (n,) or (n, t)
            Their targets.
        sample_weight : array of shape (n,), optional
            Non-negative weights.
        on_bad_rows : "error" or "skip"
            A row with a number that is not finite is an error that names row and column, one
            without a target an error too; or both are passed over.

        Returns
        -------
        self
        """
        with self.transaction() as draft:
            if on_bad_rows == "skip":
                X, y, sample_weight = with_targets(X, y, sample_weight)
            targets, flat = columns(draft, y)
            note_shape(draft, flat)
            draft._learn(X, targets, sample_weight, False, on_bad_rows)
        self.report_progress()
        return self

    def learn_one(self, x: Any, y: Any = None) -> Self:
        """Learn one row and its target.

        Parameters
        ----------
        x : array of shape (d,)
            The row.
        y : float, or array of shape (t,)
            Its target.

        Returns
        -------
        self
        """
        target = None if y is None else np.asarray(y)[None]
        return self.partial_fit(np.asarray(x)[None, :], target)

    def _columns(self, y: Any) -> np.ndarray:
        return columns(self, y)[0]

    @at_one_moment
    def predict(self, X: Any) -> Array:
        """Predictions of rows.

        Parameters
        ----------
        X : array of shape (n, d), dense or CSR

        Returns
        -------
        array of shape (n,) or (n, t)
            In the type of X; flat where the targets were.
        """
        return in_shape(self, self._predict(X))

    @at_one_moment
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions, the mean over the targets, as scikit-learn defines it.

        Parameters
        ----------
        X : array of shape (n, d), dense or CSR
            The rows.
        y : array of shape (n,) or (n, t)
            Their targets.
        sample_weight : array of shape (n,), optional
            Non-negative weights.
        """
        from sklearn.metrics import r2_score  # late, as scikit-learn does: it brings many modules

        found, due, weights = map(on_host, (self.predict(X), y, sample_weight))
        return float(r2_score(due, found, sample_weight=weights))

    @at_one_moment
    def merge(self, other: KernelEstimator) -> Self:
        """A new model of the rows that both have seen, with the parameters of this one.

        Parameters
        ----------
        other : the same kind of estimator
            Neither of the two is changed.
        """
        model = super().merge(other)
        model._flat = self._flat
        return model


def note_shape(estimator: StreamingKernelRidge, is_flat: bool) -> None:
    """Predictions are flat as long as all targets were."""
    estimator._flat = is_flat and getattr(estimator, "_flat", True)


def in_shape(estimator: StreamingKernelRidge, predictions: Any) -> Any:
    """Predictions (n, t) as the targets were given."""
    return predictions[:, 0] if estimator._flat else predictions


def columns(estimator: Any, y: Any) -> tuple[np.ndarray, bool]:
    """Targets as a matrix of finite numbers, and whether they were given flat."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None."
        )
    y = on_host(y)
    targets = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y", estimator=estimator)
    return (targets[:, None], True) if targets.ndim == 1 else (targets, False)
