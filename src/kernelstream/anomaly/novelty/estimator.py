"""Novelty detector estimator: anomaly score, p-values, held-out rows, contributions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import OutlierMixin

from kernelstream import kernels, landmarks, preimages, trackers
from kernelstream.arrays import Array, like, to_host
from kernelstream.estimators import ConformalScores, KernelEstimator, RowExplanation, at_one_moment
from kernelstream.serialization import check_number, stored
from kernelstream.stream import HeldBack, Stream

ROUNDING = 1e-7  # of the largest error: the row at the limit does not exceed it


@stored
class KernelNovelty(OutlierMixin, KernelEstimator):
    """Find rows that are unlike those that were learned, in one pass and bounded memory.

    The error of a row is what kernel PCA of the rows learned cannot explain of it, in feature
    space, where what a component explains counts by ``λ/(λ + 1/n)``: with its variance λ against
    that of one row among n. (It is the variance of a Gaussian process conditioned on the rows.)
    With a narrow RBF kernel the error is next to 0 where rows were and about 1 where none was,
    whatever the shape of the region, and a few outliers among the rows keep a large error.

    Limits come from rows that were not learned. A row in ten (of few rows a quarter, of many never
    more than about 1,000) is held back: which ones depends on their index alone, so that the same
    rows give the same model however they are cut into calls. Of new rows like those learned a
    share of ``alpha`` is flagged, and a share of p has a p-value of p or less.

    Parameters
    ----------
    alpha : float
        The share of rows like those learned that ``predict`` flags: a rate of false alarms. Where
        there are outliers among the rows learned, their share (PyOD's ``contamination``).
    n_components : int, float or None
        Components of kernel PCA; None for all that the points span.
    kernel : str, Kernel or callable
        As in :class:`StreamingKernelPCA`.
    gamma : float, str or None
        Width of a kernel given by name; None is ``"narrow"`` for RBF, a width of half the
        median distance of the first rows.
    basis : str, int or LandmarkStrategy
        The points that span the model; an integer is a number of centroids.
    forgetting : float
        Share of the weight of old rows left after each new row; 1 forgets nothing. Rows that are
        held back are forgotten the same way.
    scale : "standard" or None
        ``"standard"`` divides each column by its deviation in the first rows, which columns in
        different units need; None takes rows as they are (pixels, say).
    batch_size : int or "auto"
        Rows in an internal block.
    random_state : int, RandomState or None
        Seed of everything that is drawn.
    verbose : bool
        Report progress through the logger ``kernelstream``.

    Attributes
    ----------
    n_samples_seen_ : int
        Rows that came, those held back included.
    n_held_back_ : int
        Rows that are held back now.
    offset_ : float
        Scores below it are flagged: ``decision_function(X) == score_samples(X) - offset_``.
    threshold_ : float
        ``-offset_``, the limit of the error.

    Notes
    -----
    Signs are those of scikit-learn: ``predict`` gives −1 for a novelty and 1 for a row that fits,
    and a high ``score_samples`` is a row that fits. PyOD's ``decision_function`` is high for
    outliers.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import KernelNovelty
    >>> t = np.random.default_rng(0).uniform(0, 6.28, size=3000)
    >>> ring = np.column_stack([np.cos(t), np.sin(t)])
    >>> model = KernelNovelty(alpha=0.01, random_state=0).fit(ring)
    >>> model.predict([[1.0, 0.0], [0.0, 0.0]])
    array([ 1, -1])
    >>> model.p_values([[0.0, 0.0]]).round(3)  # one of 301
    array([0.003])
    """

    #: Rows that were not learned; None before the first row.
    _held_back: HeldBack | None = None

    def __init__(
        self,
        alpha: float = 0.05,
        *,
        n_components: int | float | None = None,
        kernel: Any = "rbf",
        gamma: float | str | None = None,
        basis: Any = "centroids",
        forgetting: float = 1.0,
        scale: str | None = "standard",
        batch_size: int | str = "auto",
        random_state: Any = None,
        verbose: bool = False,
    ):
        self.alpha = alpha
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.basis = basis
        self.forgetting = forgetting
        self.scale = scale
        self.batch_size = batch_size
        self.random_state = random_state
        self.verbose = verbose

    # -- learning

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from an array of all rows; what was learned before is forgotten.

        Parameters
        ----------
        X : array of shape (n, d)
            The rows.
        y : ignored
        sample_weight : array of shape (n,), optional
            Non-negative weights; a weight of two counts like the row twice.

        Returns
        -------
        self
        """
        with self.transaction() as draft:
            require_dense(X)
            rows, _ = draft._rows_to_learn(X, sample_weight, anew=True)
            stream = draft.new_stream(rows.X)
            to_learn, draft._held_back = HeldBack.split(stream, None, rows, at_once=True)
            draft.set_stream(stream.learn_all(to_learn))
        self.report_progress()
        return self

    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, on_bad_rows: str = "error"
    ) -> Self:
        """Go on learning from the next rows of a stream; what is rejected changes nothing.

        Parameters
        ----------
        X : array of shape (n, d)
            The next rows, any number of them.
        y : ignored
        sample_weight : array of shape (n,), optional
            Non-negative weights.
        on_bad_rows : "error" or "skip"
            A row with a number that is not finite is an error that names row and column, or is
            passed over.

        Returns
        -------
        self
        """
        with self.transaction() as draft:
            if draft._stream is None:
                require_dense(X)
            rows, stream = draft._rows_to_learn(X, sample_weight, on_bad_rows)
            if len(rows):
                stream = stream or draft.new_stream(rows.X)
                to_learn, draft._held_back = HeldBack.split(stream, draft._held_back, rows)
                draft.set_stream(stream)
                if len(to_learn):
                    draft.set_stream(stream.learn(to_learn))
        self.report_progress()
        return self

    def learn_one(self, x: Any) -> Self:
        """Learn one row, or hold it back.

        Parameters
        ----------
        x : array of shape (d,)
            The row.

        Returns
        -------
        self
        """
        return self.partial_fit(np.asarray(x)[None, :])

    # -- queries

    @at_one_moment
    def score_samples(self, X: Any) -> Array:
        """How well rows fit: minus their error; higher fits better.

        Parameters
        ----------
        X : array of shape (n, d)

        Returns
        -------
        array of shape (n,)
        """
        return -self._query(self.stream_.components.unexplained, X)

    @at_one_moment
    def decision_function(self, X: Any) -> Array:
        """``score_samples(X) - offset_``: negative for rows that are flagged.

        Parameters
        ----------
        X : array of shape (n, d)

        Returns
        -------
        array of shape (n,)
        """
        return self.score_samples(X) - self.offset_

    @at_one_moment
    def predict(self, X: Any) -> np.ndarray:
        """1 for rows that fit, −1 for novelties.

        Parameters
        ----------
        X : array of shape (n, d)

        Returns
        -------
        array of shape (n,), int
        """
        return np.where(to_host(self.decision_function(X)) < 0, -1, 1)

    @at_one_moment
    def explain(
        self,
        X: Any,
        n_columns: int = 3,
        reference: Any = None,
        feature_names: Sequence[str] | None = None,
    ) -> list[RowExplanation]:
        """Explain anomalous rows: contributions of columns to their errors, and expected values.

        As in :meth:`StreamingKernelPCA.explain`, with the errors and p-values of a detector.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows; each takes some 20 d errors of changed rows.
        n_columns : int
            Maximum number of columns for each row.
        reference : array of shape (k, d), or None
            Rows that show the usual values and errors; None: those that the model has kept, and for
            p-values those that it has held back.
        feature_names : sequence of str, or None
            Names of the columns; None: those of the frame that was learned, or x0, x1 and so on.

        Returns
        -------
        list of RowExplanation
        """
        error = self.stream_.components.unexplained
        explained = self._explain(error, X, n_columns, reference, feature_names)
        if reference is not None:
            return explained
        p_values = self.p_values(X).tolist()
        return [replace(each, p_value=p) for each, p in zip(explained, p_values, strict=True)]

    @at_one_moment
    def p_values(self, X: Any) -> np.ndarray:
        """Fraction of rows like those learned with an error at least as large.

        Parameters
        ----------
        X : array of shape (n, d)

        Returns
        -------
        array of shape (n,)
            The smallest that can be is one over the number of rows held back plus one.
        """
        return self._held_errors().p_values(-to_host(self.score_samples(X)).astype(float))

    @at_one_moment
    def contributions(self, X: Any) -> np.ndarray:
        """Which columns are behind a row: how far each is from what the model makes of it.

        Squared differences between a row and the pre-image of its projection, each in units of the
        variance of its column among the rows held back.

        Parameters
        ----------
        X : array of shape (n, d)

        Returns
        -------
        array of shape (n, d)
        """
        self._held_errors()  # raises in words where no row was held back
        stream = self.stream_
        rows = self.check_rows(X)
        found = stream.project(rows, preimages.resolve("auto", self.stream_.components.kernel))
        held = stream.in_units(held_back_of(self).X.astype(float))
        given, made = (stream.in_units(to_host(each).astype(float)) for each in (rows, found))
        return ((given - made) / preimages.column_units(held)) ** 2

    @property
    def offset_(self) -> float:
        """Scores below it are flagged."""
        return -self.threshold_

    @property
    @at_one_moment
    def threshold_(self) -> float:
        """The limit of the error."""
        check_number("KernelNovelty", "alpha", self.alpha, below=1.0)
        errors = self._held_errors()
        return errors.limit(float(self.alpha)) + ROUNDING * float(errors.ordered[-1])

    @property
    def n_held_back_(self) -> int:
        """Rows that are held back now."""
        return len(held_back_of(self))

    @property
    def n_samples_seen_(self) -> int:
        """Rows that came, those held back included."""
        return held_back_of(self).n_seen

    # -- files and neighbours

    @at_one_moment
    def merge(self, other: KernelEstimator) -> Self:
        """A new model of the rows that both have seen, with the parameters of this one.

        Parameters
        ----------
        other : KernelNovelty
            Neither of the two is changed.
        """
        if not isinstance(other, KernelNovelty):
            raise TypeError(
                f"Only models of one kind merge: this is a KernelNovelty, the other a "
                f"{type(other).__name__}."
            )
        model = super().merge(other)
        both = held_back_of(self).join(held_back_of(other))
        model._held_back = both.thin_for(model.stream_)
        return model

    # -- inside

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False  # rows are held back
        return tags

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
        check_number("KernelNovelty", "alpha", self.alpha, below=1.0)
        kernel = self._resolved_kernel(int(X.shape[1]))
        if self.gamma is None and isinstance(self.kernel, str) and self.kernel == "rbf":
            kernel = kernels.RBF(gamma="narrow")
        tracker = trackers.resolve(trackers.Covariance(forgetting=self.forgetting))
        return self._stream_of(X, kernel, landmarks.resolve(self.basis), tracker)

    def _held_errors(self) -> ConformalScores:
        """Errors of the rows held back, by the model as it is."""
        stream, held = self.stream_, held_back_of(self)
        if not len(held):
            raise ValueError(
                f"No row was held back of the {held.n_seen} that came, so there is no limit yet: "
                "a row in four is, of the first rows. Learn more rows first."
            )

        def measure() -> ConformalScores:
            rows = like(held.X, stream.held_array, held.X.dtype)
            errors = to_host(stream.query(stream.components.unexplained, rows)).astype(float)
            return ConformalScores.of(errors, held.weights_in(stream))

        return stream.solved(("limits", held.n_seen), measure)

    def _learned_content(self) -> dict[str, Any]:
        return super()._learned_content() | {"held_back": held_back_of(self)}

    def _restore(self, content: dict[str, Any], device: Any) -> None:
        self._held_back = content["held_back"]
        super()._restore(content, device)

    def _check_restored(self) -> None:
        held = self._held_back
        if not isinstance(held, HeldBack):
            raise ValueError("a detector without rows that were held back")
        if held.X.shape[1] != self.n_features_in_:
            raise ValueError(f"rows of {held.X.shape[1]} columns that were held back")
        if held.n_seen < self.stream_.n_rows + len(held):
            raise ValueError(f"{len(held)} rows held back, {held.n_seen} in all")


def require_dense(X: Any) -> None:
    """Raise in words for a sparse matrix."""
    if issparse(X):
        raise TypeError(
            "Sparse input is not supported: KernelNovelty keeps rows that it holds back. Give "
            "an array (X.toarray()), or reduce the columns before (TruncatedSVD)."
        )


def held_back_of(model: KernelNovelty) -> HeldBack:
    """The rows that a detector holds back."""
    model.stream_  # noqa: B018 - raises in words where nothing was learned
    held = model._held_back
    assert held is not None
    return held


def hold(model: KernelNovelty, stream: Stream, held: HeldBack) -> None:
    """Let a detector go on from another stream, and from other rows that were held back."""
    model.set_stream(stream)
    model._held_back = held.thin_for(stream)
