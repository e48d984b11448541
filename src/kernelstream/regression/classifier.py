"""Classifier: least squares on one indicator column per class, labels, decision function."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from array_api_compat import array_namespace
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from kernelstream.arrays import Array, to_host
from kernelstream.estimators import KernelEstimator, at_one_moment
from kernelstream.regression.base import OnePassRidge, on_host, with_targets
from kernelstream.serialization import stored


@stored
class StreamingKernelClassifier(ClassifierMixin, OnePassRidge):
    """Least-squares classification on kernel features, in one pass and bounded memory.

    Each class is a column of zeros and ones, and ridge regression to all columns is accumulated as
    in :class:`StreamingKernelRidge`; the class with the largest prediction is the answer.

    Parameters
    ----------
    alpha : float or "gcv"
        Strength of the ridge; ``"gcv"`` chooses it by generalised cross-validation of the squared
        error of the columns.
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
        Whether each column has a constant of its own that is not shrunk.
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
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    alpha_ : float
        The strength in use.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kernelstream import StreamingKernelClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = StreamingKernelClassifier(gamma=5e-4, basis=200, random_state=0)
    >>> for block in range(0, 1500, 100):
    ...     rows = slice(block, block + 100)
    ...     model = model.partial_fit(X[rows], y[rows], classes=range(10))
    >>> bool(model.score(X[1500:], y[1500:]) > 0.9)
    True
    """

    _also_saved = ("classes_",)

    def _check_restored(self) -> None:
        labels = getattr(self, "classes_", np.zeros(0))
        in_order = (
            labels.ndim == 1 and len(labels) > 1 and np.array_equal(np.unique(labels), labels)
        )
        if not in_order or len(labels) != self._n_targets():
            raise ValueError(f"the labels {labels!r} of {self._n_targets()} classes")

    def _learned_content(self) -> dict[str, Any]:
        content = super()._learned_content()
        if self.classes_.dtype == object:  # names from a data frame: a file holds them as a tuple
            attributes = {**dict(content["attributes"]), "classes_": tuple(self.classes_.tolist())}
            content["attributes"] = tuple(attributes.items())
        return content

    @property
    def classes_(self) -> np.ndarray:
        """The labels, sorted."""
        if "_labels" not in self.__dict__:
            raise AttributeError(f"This {type(self).__name__} has not seen any labels yet.")
        return self._labels

    @classes_.setter
    def classes_(self, labels: Any) -> None:
        self._labels = np.asarray(labels)  # names come out of a file as a tuple

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from rows and labels that are all at hand.

        Parameters
        ----------
        X : array of shape (n, d), dense or CSR
            The rows.
        y : array of shape (n,)
            Their labels, of at least two kinds.
        sample_weight : array of shape (n,), optional
            Non-negative weights.

        Returns
        -------
        self
        """
        with self.transaction() as draft:
            set_classes(draft, np.unique(checked_labels(draft, y)))
            draft._learn(X, draft._columns(y), sample_weight, anew=True)
        self.report_progress()
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        classes: Any = None,
        sample_weight: Any = None,
        on_bad_rows: str = "error",
    ) -> Self:
        """Go on learning from the next rows of a stream; what is rejected changes nothing.

        Parameters
        ----------
        X : array of shape (n, d), dense or CSR
            The next rows, any number of them.
        y : array of shape (n,)
            Their labels.
        classes : array of shape (n_classes,), optional
            All labels that may come; needed in the first call.
        sample_weight : array of shape (n,), optional
            Non-negative weights.
        on_bad_rows : "error" or "skip"
            A row with a number that is not finite is an error that names row and column, one
            without a label an error too; or both are passed over.

        Returns
        -------
        self
        """
        with self.transaction() as draft:
            if on_bad_rows == "skip":
                X, y, sample_weight = with_targets(X, y, sample_weight)
            checked_labels(draft, y)
            announce_classes(draft, classes)
            draft._learn(X, draft._columns(y), sample_weight, False, on_bad_rows)
        self.report_progress()
        return self

    def _columns(self, y: Any) -> np.ndarray:
        return indicators(checked_labels(self, y), self.classes_)

    def learn_one(self, x: Any, y: Any = None) -> Self:
        """Learn one row and its label (after a first ``partial_fit`` that names the classes).

        Parameters
        ----------
        x : array of shape (d,)
            The row.
        y : label
            Its class.

        Returns
        -------
        self
        """
        return self.partial_fit(np.asarray(x)[None, :], None if y is None else np.asarray([y]))

    @at_one_moment
    def decision_function(self, X: Any) -> Array:
        """Predicted columns, (n, n_classes); for two classes the second less the first, (n,).

        Parameters
        ----------
        X : array of shape (n, d), dense or CSR
            The rows.
        """
        found = self._predict(X)
        return found[:, 1] - found[:, 0] if len(self.classes_) == 2 else found

    @at_one_moment
    def predict(self, X: Any) -> np.ndarray:
        """The most likely class of each row.

        Parameters
        ----------
        X : array of shape (n, d), dense or CSR

        Returns
        -------
        array of shape (n,)
        """
        found = self._predict(X)
        return self.classes_[to_host(array_namespace(found).argmax(found, axis=1))]

    @at_one_moment
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose class is predicted right.

        Parameters
        ----------
        X : array of shape (n, d), dense or CSR
            The rows.
        y : array of shape (n,)
            Their labels.
        sample_weight : array of shape (n,), optional
            Non-negative weights.
        """
        from sklearn.metrics import accuracy_score  # late, as scikit-learn does

        due, weights = on_host(y), on_host(sample_weight)
        return float(accuracy_score(due, self.predict(X), sample_weight=weights))

    @at_one_moment
    def merge(self, other: KernelEstimator) -> Self:
        """A new model of the rows that both have seen; both have to know the same classes.

        Parameters
        ----------
        other : the same kind of estimator
            Neither of the two is changed.
        """
        theirs = getattr(other, "classes_", ())
        if not np.array_equal(self.classes_, theirs):
            raise ValueError(
                f"Cannot merge classifiers of the classes {self.classes_} and {theirs}: give the "
                "same classes to both."
            )
        model = super().merge(other)
        model.classes_ = self.classes_
        return model


def set_classes(estimator: StreamingKernelClassifier, classes: np.ndarray) -> None:
    """Take the labels that all rows have."""
    estimator.classes_ = classes
    if len(classes) < 2:
        raise ValueError(f"y has {len(classes)} class, {classes}: a classifier needs at least two.")


def announce_classes(estimator: StreamingKernelClassifier, classes: Any) -> None:
    """Take the labels that a stream announces in its first call."""
    if not estimator.__sklearn_is_fitted__():
        if classes is None:
            raise ValueError(
                "classes must be passed on the first call to partial_fit: a stream cannot "
                "know which labels will come."
            )
        estimator.classes_ = np.unique(np.asarray(classes))
    elif classes is not None and not np.array_equal(np.unique(classes), estimator.classes_):
        raise ValueError(
            f"classes={np.unique(classes)} differ from those of the first call, "
            f"{estimator.classes_}."
        )


def checked_labels(estimator: Any, y: Any) -> np.ndarray:
    """Labels as a flat array."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None."
        )
    labels = column_or_1d(on_host(y), warn=True)
    check_classification_targets(labels)
    return labels


def indicators(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """One column a class: 1 where the row has that label."""
    columns = labels[:, None] == classes[None, :]
    unknown = ~columns.any(axis=1)
    if np.any(unknown):
        raise ValueError(
            f"y has labels that were not announced: {np.unique(labels[unknown])}; the classes are "
            f"{classes}. Name all classes in the first call to partial_fit."
        )
    return columns.astype(float)
