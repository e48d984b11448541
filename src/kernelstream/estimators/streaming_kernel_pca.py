"""Streaming kernel PCA estimator: constructor, fit, partial_fit, transform, fitted attributes.

Rows are checked in ``inputs.py``; what happens to them is in ``stream/stream.py``, and
``stream/step.py`` is the page with the method itself.
"""

# Half of this file is docstring: parameters and verbs stay together, where users look.

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from kernelstream import kernels, landmarks, preimages, trackers
from kernelstream.arrays import progress
from kernelstream.arrays.namespaces import (
    Array,
    as_dense,
    cast,
    is_foreign,
    is_sparse,
    like,
    namespace_of,
    to_float64,
    to_host,
)
from kernelstream.certificates.certificate import Certificate
from kernelstream.estimators import inputs
from kernelstream.estimators.base import at_one_moment
from kernelstream.estimators.explain import (
    ComponentExplanation,
    RowExplanation,
    explain_components,
    p_values,
    reference_errors,
)
from kernelstream.estimators.kernel_estimator import KernelEstimator, checked_n_components
from kernelstream.estimators.passes import Passes, is_chunked, learn_blocks
from kernelstream.estimators.until import Population, ProgressiveSampling
from kernelstream.serialization import stored
from kernelstream.serialization.part import check_count
from kernelstream.stream.compress import compress
from kernelstream.stream.remove import remove
from kernelstream.stream.scaling import ColumnScales
from kernelstream.stream.stream import Stream

FEWEST_TO_WARN = 50  # rows by which the scales of columns can be compared
FILES = "Give rows; files are read by kernelstream.tables: TableModel(estimator).fit(path)."


@stored
class StreamingKernelPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, KernelEstimator):
    """Kernel PCA in one pass and bounded memory.

    ``fit`` chooses the points from all rows, then passes over them in the span of these points;
    ``partial_fit`` and ``learn_one`` learn from a stream, strictly one pass. The same rows in the
    same order give the same model, bit for bit, however they are cut into calls, and a query
    changes nothing.

    Parameters
    ----------
    n_components : int, float, "auto" or None
        Number of components; None for all with variance; a float in (0, 1) for as many as explain
        that share of the variance in feature space; ``"auto"`` for those above chance, by parallel
        analysis of the first rows. Where the data has fewer directions than an
        integer asks for, the remaining columns are zero.
    kernel : str, Kernel or callable
        ``"rbf"``, ``"laplacian"``, ``"exponential"``, ``"matern"``, ``"poly"``, ``"sigmoid"``,
        ``"linear"``, ``"cosine"``, an object of :mod:`kernelstream.kernels`, or a function
        ``k(X, Y)``.
    gamma : float, str or None
        Width of a kernel given by name; None is the kernel's own default (for RBF the median
        distance of the first rows), ``"auto"`` the one from whose scores inputs are reconstructed
        best. With a kernel object use ``kernel__gamma``.
    basis : str, int or LandmarkStrategy
        The points that span the model: ``"centroids"``, ``"distance"``, ``"coherence"``,
        ``"everything"``, ``"landmarks"``, ``"pivoted_cholesky"``, ``"reduced_set"``, a number of
        centroids, ``"auto"`` for as many as miss less than .01 of the variance of any component,
        or an object of :mod:`kernelstream.landmarks`.
    tracker : str or Tracker
        How components follow the rows: ``"covariance"`` (exact), ``"incremental_svd"``,
        ``"hebbian"``, ``"rls"``, ``"lms"``, ``"subset_hebbian"``, or an object of
        :mod:`kernelstream.trackers`.
    center : bool
        Whether the mapped data is centred.
    scale : None, "standard" or "auto"
        ``"standard"`` divides by the deviation of the first rows after subtracting their mean,
        both then frozen. ``"auto"`` does so where the scales of the columns differ much, and
        leaves columns of 0 and 1 as they are. None leaves all as it is; where a few columns make
        all distances, a warning names them.
    preimage : str or Preimage
        How ``inverse_transform`` goes back to input space: ``"auto"``, ``"fixed_point"``,
        ``"gradient"``, ``"neighbours"``, ``"linear"``, ``"ridge"`` (learned from the rows in the
        same pass), or an object of :mod:`kernelstream.preimages`.
    certify : "auto", "tight" or False
        How much work the error certificate may cost: ``"tight"`` makes it sharp at 2 to 4 times
        the time of ``partial_fit``, False gives none.
    batch_size : int or "auto"
        Rows in an internal block. Rows of an unfinished block wait; queries see them.
    device : None, str or torch.device
        Where to compute. None is where the data is: PyTorch and CuPy arrays stay on their device,
        with all that is learned from them. ``"cuda"`` sends NumPy rows to the GPU block by block
        (the copy of a block runs while the last one is worked on) and gives NumPy arrays back.
    robust : bool
        Whether rows that do not fit lose weight before they are learned, those at the start of a
        stream among them: by what ``n_components``, which has to be an integer then, miss of them,
        compared with what they miss of other rows (``docs/robust.md``).
    random_state : int, RandomState or None
        Seed of everything that is drawn.
    verbose : bool
        Report progress: through the logger ``kernelstream``, and on the standard error where no
        logging was set up.

    Attributes
    ----------
    n_samples_seen_ : int
        Rows learned (rows of weight zero are not counted).
    n_components_ : int
        Number of components shown, r.
    explained_variance_ : array of shape (r,)
        Variance of each output.
    explained_variance_ratio_ : array of shape (r,)
        The same as a share of the total variance in feature space. Iterative trackers estimate
        variances along the way; where these add up to more than there is in all, shares are those
        of their sum: the ratios never add up to more than 1.
    eigenvalues_ : array of shape (r,)
        Explained variance times total weight, as in ``sklearn.decomposition.KernelPCA``.
    basis_points_ : array of shape (m, d)
        The points; ``transform(X) == kernel_(X, basis_points_) @ dual_coef_ - intercept_`` (with
        ``scale="standard"``, of the standardised X).
    dual_coef_ : array of shape (m, r)
        Coefficients of the components over the points.
    intercept_ : array of shape (r,)
        Score of the mean.
    mean_coef_ : array of shape (m,)
        Coefficients of the mean over the points.
    kernel_ : Kernel
        The kernel with its numbers.
    stream_ : Stream
        All that was learned, with the rows that wait, as a read-only value.
    certificate_ : Certificate
        What is certain about batch kernel PCA of all rows seen.
    n_shortened_steps_ : int
        Steps of a Hebbian rule or LMS that were too long and shortened.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA
    >>> rng = np.random.default_rng(0)
    >>> model = StreamingKernelPCA(n_components=2, gamma=0.1, basis=50, random_state=0)
    >>> for _ in range(10):
    ...     model = model.partial_fit(rng.normal(size=(300, 5)))
    >>> model.transform(rng.normal(size=(4, 5))).shape
    (4, 2)
    """

    def __init__(
        self,
        n_components: int | float | str | None = None,
        *,
        kernel: Any = "rbf",
        gamma: float | str | None = None,
        basis: Any = "centroids",
        tracker: Any = "covariance",
        center: bool = True,
        scale: str | None = None,
        preimage: Any = "auto",
        certify: Any = "auto",
        batch_size: int | str = "auto",
        device: Any = None,
        robust: bool = False,
        random_state: Any = None,
        verbose: bool = False,
    ):
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.basis = basis
        self.tracker = tracker
        self.center = center
        self.scale = scale
        self.preimage = preimage
        self.certify = certify
        self.batch_size = batch_size
        self.device = device
        self.robust = robust
        self.random_state = random_state
        self.verbose = verbose

    # -- learning

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        until: float | None = None,
        confidence: float = 0.99,
    ) -> Self:
        """Learn all rows, forgetting what was learned before.

        Parameters
        ----------
        X : array of shape (n, d), dense or CSR, data frame, lazy frame or iterator
            The rows. Lazy frames of polars, datasets of Arrow, arrays of Dask and functions that
            return an iterator of blocks are read twice and never held in memory; an iterator of
            blocks is read once. Files, and frames with words, dates or missing values, are for
            :class:`kernelstream.tables.TableModel`.
        y : ignored
        sample_weight : array of shape (n,), optional
            Non-negative weights; a weight of two counts like the row twice.
        until : float, optional
            Draw rows at random, and stop when the share that the components explain is at most so
            much below the best possible; of all rows, also those that were not drawn, as
            ``certificate_.statistical`` then says. For arrays, memory maps, CSR, frames and Dask
            arrays.
        confidence : float
            With which that is to be true.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from kernelstream import StreamingKernelPCA
        >>> X = np.random.default_rng(0).normal(size=(200_000, 2))
        >>> model = StreamingKernelPCA(3, gamma=0.2, basis=40, random_state=0).fit(X, until=0.05)
        >>> model.n_samples_seen_
        8192
        >>> model.certificate_.statistical.kind
        '99% confidence, from 16,384 rows drawn from 200,000'
        """
        require_rows(X)
        if until is not None and self._fit_until(X, sample_weight, until, confidence):
            return self
        blocks = Passes.blocks_of(X)
        if blocks is not None:
            self._fit_blocks(blocks, sample_weight)
            return self
        with self.transaction() as draft:
            rows, _ = draft._rows_to_learn(X, sample_weight, anew=True)
            draft._warn_of_scales(rows.X)
            title = f"{type(self).__name__}.fit"
            with progress.shown(self.verbose, title, len(rows)):
                draft.set_stream(draft.new_stream(rows.X).learn_all(rows))
        self.report_progress()
        return self

    def _fit_until(self, X: Any, sample_weight: Any, until: float, confidence: float) -> bool:
        """``fit`` of as many rows as are needed; False: all of them are."""
        sampling = ProgressiveSampling(until, confidence)
        if Passes.blocks_of(X) is not None and not is_chunked(X):
            raise ValueError(
                "fit(until=...) draws rows by their number, and those of blocks and lazy frames "
                "come one after the other: use an array or a frame in memory, or "
                "np.load(path, mmap_mode='r')."
            )
        with self.transaction() as draft:
            found = sampling.fit(draft, Population.of(X, sample_weight))
            if found is not None:
                draft.__dict__.update(found.__dict__)
        self.report_progress()
        return found is not None

    def _fit_blocks(self, blocks: Any, sample_weight: Any) -> None:
        """``fit`` of rows that are read block by block."""
        if sample_weight is not None:
            raise ValueError("Weights of blocks come with them, as pairs of rows and weights.")
        with self.transaction() as draft:
            for name in ("_stream", "feature_names_in_"):
                draft.__dict__.pop(name, None)
            learn_blocks(draft, blocks)
        self.report_progress()

    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, on_bad_rows: str = "error"
    ) -> Self:
        """Go on learning from the next rows of a stream.

        A block that is rejected leaves the model as it was.

        Parameters
        ----------
        X : array of shape (n, d), dense or CSR, or data frame
            The next rows, any number of them.
        y : ignored
        sample_weight : array of shape (n,), optional
            Non-negative weights.
        on_bad_rows : "error" or "skip"
            A row with a number that is not finite is an error that names row and column, or is
            passed over. Gaps that are filled make no row a bad one.

        Returns
        -------
        self
        """
        with self.transaction() as draft:
            rows, stream = draft._rows_to_learn(X, sample_weight, on_bad_rows)
            if len(rows):
                if stream is None:
                    draft._warn_of_scales(rows.X)
                draft.set_stream((stream or draft.new_stream(rows.X)).learn(rows))
        self.report_progress()
        return self

    def remove(self, X: Any, sample_weight: Any = None) -> Self:
        """Take rows back that were learned before: their moments are subtracted.

        For points that stay (``Landmarks``, ``PivotedCholesky``, ``Centroids(follows=False)``) and
        the covariance tracker without forgetting. The model is then that of the remaining rows, up
        to rounding of the sums as they were before, which the certificate allows for. Rows that
        were never learned cannot be recognised: sums of others would be taken for theirs. Only
        where more would go than there is, an error is raised and the model stays as it was.

        Parameters
        ----------
        X : array of shape (n, d), dense or CSR
            The rows, in any order.
        sample_weight : array of shape (n,), optional
            The weights that they were learned with.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from kernelstream import StreamingKernelPCA, landmarks
        >>> X = np.random.default_rng(0).normal(size=(500, 3))
        >>> options = dict(gamma=0.2, basis=landmarks.Landmarks(X[:30]))
        >>> model = StreamingKernelPCA(2, **options).partial_fit(X).remove(X[:200])
        >>> rest = StreamingKernelPCA(2, **options).partial_fit(X[200:])
        >>> bool(np.allclose(model.explained_variance_, rest.explained_variance_))
        True
        """
        self._require_fitted()
        with self.transaction() as draft:
            rows, stream = draft._rows_to_learn(X, sample_weight)
            if stream is not None and len(rows):
                draft.set_stream(remove(stream, rows))
        return self

    def learn_one(self, x: Any) -> Self:
        """Learn one row: ``partial_fit`` without its overhead.

        Parameters
        ----------
        x : array of shape (d,)
            The row.

        Returns
        -------
        self
        """
        row = block_of_one(x)
        if self._stream is None:
            return self.partial_fit(row)
        with self._turn():
            stream = self.stream_
            self.set_stream(stream.learn(inputs.check_rows(stream, row, estimator=self)))
        return self

    # -- queries

    @at_one_moment
    def transform(self, X: Any) -> Array:
        """Scores of rows on the components.

        Parameters
        ----------
        X : array of shape (n, d), dense or CSR

        Returns
        -------
        array of shape (n, r)
            In the type of X.
        """
        return self._query(self.stream_.components.scores, X)

    @at_one_moment
    def transform_one(self, x: Any) -> Array:
        """Scores of one row, shape (r,).

        Trackers that learn row by row are up to date; the covariance tracker shows the components
        of the last finished block (``batch_size=1`` makes them current).

        Parameters
        ----------
        x : array of shape (d,)
            The row.
        """
        stream = self.stream_
        row = inputs.query_rows(stream, block_of_one(x))
        row = cast(row, getattr(namespace_of(row), stream.dtype))
        state = stream.state
        current = stream.chain.tracker.kind == "sequential" or state is None or not state.n_rows
        shown = stream.components if current else stream.learned.components
        return stream.query(shown.scores, row)[0, :]

    @at_one_moment
    def inverse_transform(self, X: Any, return_report: bool = False) -> Any:
        """Inputs whose images are near the given scores.

        Parameters
        ----------
        X : array of shape (n, r)
            Scores.
        return_report : bool
            Whether to return how each row was found in the place of the bare inputs.

        Returns
        -------
        array of shape (n, d), or preimages.Report
            The report has the inputs ``X``, the squared ``distance`` that remains in feature
            space, and for each row whether the search ``converged`` and its number of steps.
        """
        method = preimages.resolve(self.preimage, self.stream_.components.kernel)
        scores = inputs.given_scores(self.stream_, X)
        report = self.stream_.inverse_transform(scores, method)
        return report if return_report else report.X

    @at_one_moment
    def repair(
        self, X: Any, mask: Any = None, loss: str = "squared", return_report: bool = False
    ) -> Any:
        """Rows with their gaps filled by what the components make of the rest.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows; NaN is a gap.
        mask : array of shape (n, d) or (d,), bool, optional
            True where an entry is missing, or not to be looked at.
        loss : "squared" or "robust"
            ``"robust"`` also replaces entries that are far from what most others of their row
            say: up to about a third of them.
        return_report : bool
            Whether to return ``preimages.Repaired`` in the place of the bare rows: with what the
            model says of every entry, and how far each was trusted.

        Returns
        -------
        array of shape (n, d), or preimages.Repaired
            Known entries as they were given (with ``"robust"``, those that are trusted).

        Examples
        --------
        >>> import numpy as np
        >>> from kernelstream import StreamingKernelPCA
        >>> t = np.random.default_rng(0).uniform(0, 3, size=2000)
        >>> X = np.column_stack([np.sin(t), np.cos(t), t])
        >>> model = StreamingKernelPCA(20, basis=60, random_state=0).fit(X)
        >>> model.repair([[np.nan, np.cos(1.0), 1.0]]).round(2)  # sin(1) is 0.84
        array([[0.84, 0.54, 1.  ]])
        """
        method = preimages.resolve(self.preimage, self.stream_.components.kernel)
        rows = inputs.query_rows(self.stream_, X, self, check_finite=False)
        found = self.stream_.repair(as_dense(rows), method, mask, loss)
        return found if return_report else like(found.X, rows, rows.dtype)

    @at_one_moment
    def reconstruction_error(self, X: Any) -> Array:
        """Squared distance in feature space between each row and its projection on the model.

        Parameters
        ----------
        X : array of shape (n, d), dense or CSR

        Returns
        -------
        array of shape (n,)
        """
        return self._query(self.stream_.components.reconstruction_error, X)

    @at_one_moment
    def score(self, X: Any, y: Any = None) -> float:
        """Minus the mean squared error of ``inverse_transform(transform(X))`` in input space.

        Errors in feature space would always prefer the widest kernel; this one can choose between
        kernels in a grid search.

        Parameters
        ----------
        X : array of shape (n, d), dense or CSR
            The rows.
        y : ignored
        """
        shown, stream = self.stream_.components, self.stream_
        rows = as_dense(inputs.query_rows(stream, X, self))
        back = stream.project(rows, preimages.resolve(self.preimage, shown.kernel))
        difference = to_float64(back) - to_float64(rows)
        return -float(namespace_of(difference).mean(difference**2))

    @at_one_moment
    def explain_components(
        self, X: Any = None, n_columns: int = 3, feature_names: Sequence[str] | None = None
    ) -> list[ComponentExplanation]:
        """Which columns are behind each component, and with which shape.

        Parameters
        ----------
        X : array of shape (n, d), or None
            Rows over which effects are averaged; None: those that the model has kept (a sample of
            all rows, or its points).
        n_columns : int
            How many columns to name for each component.
        feature_names : sequence of str, or None
            Names of the columns; None: those of the frame that was learned, or x0, x1 and so on.

        Returns
        -------
        list of ComponentExplanation
            One for each component, with the share, the average slope and the curve of its columns.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelstream import StreamingKernelPCA
        >>> X = np.random.default_rng(0).normal(size=(800, 3)) * [0.4, 2.0, 0.4]
        >>> model = StreamingKernelPCA(1, gamma=0.02, basis=50, random_state=0).fit(X)
        >>> model.explain_components()[0].columns[0].name
        'x1'
        """
        check_count(type(self).__name__, "n_columns", n_columns, none_allowed=False)
        reference = self._reference(X)
        ratio = np.asarray(to_host(self.explained_variance_ratio_), dtype=float)
        score = self._of_host_rows(self.stream_.components.scores)
        names = self._names(feature_names)
        return explain_components(score, reference, names, ratio, n_columns)

    @at_one_moment
    def explain(
        self,
        X: Any,
        n_columns: int = 3,
        reference: Any = None,
        feature_names: Sequence[str] | None = None,
    ) -> list[RowExplanation]:
        """Why rows have large errors: the columns behind them, actual against expected values.

        A column is behind an error that falls when the column is changed to what the others let
        expect; further columns are looked for in what is left.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows; each takes some 10 d errors of changed rows for a column that is found.
        n_columns : int
            At most so many columns a row.
        reference : array of shape (k, d), or None
            Rows that show the usual values and errors; None: those that the model has kept.
        feature_names : sequence of str, or None
            Names of the columns; None: those of the frame that was learned, or x0, x1 and so on.

        Returns
        -------
        list of RowExplanation

        Examples
        --------
        >>> import numpy as np
        >>> from kernelstream import StreamingKernelPCA
        >>> t = np.random.default_rng(0).uniform(-2, 2, size=500)
        >>> X = np.column_stack([t, t**2, np.sin(t)])
        >>> model = StreamingKernelPCA(6, gamma=0.3, basis=60, random_state=0).fit(X)
        >>> row = X[:1].copy()
        >>> row[0, 1] += 2.0
        >>> model.explain(row)[0].causes[0].name
        'x1'
        """
        error = self.stream_.components.reconstruction_error
        return self._explain(error, X, n_columns, reference, feature_names)

    @at_one_moment
    def p_values(self, X: Any, reference: Any = None) -> np.ndarray:
        """Fraction of reference rows whose reconstruction error is at least as large.

        Each row counts among its reference rows, so no p-value is zero.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows.
        reference : array of shape (k, d), or None
            Rows with the usual errors; None: those that the model has kept.

        Returns
        -------
        array of shape (n,)

        Examples
        --------
        >>> import numpy as np
        >>> from kernelstream import StreamingKernelPCA
        >>> X = np.random.default_rng(0).normal(size=(500, 3))
        >>> model = StreamingKernelPCA(2, gamma=0.1, basis=40, random_state=0).fit(X)
        >>> model.p_values([[9.0, 9.0, 9.0]]).round(3)
        array([0.002])
        """
        error = self._of_host_rows(self.stream_.components.reconstruction_error)
        known = self._reference(reference).astype(self.stream_.dtype)
        return p_values(error(to_host(self.check_rows(X))), reference_errors(error, known))

    # -- what was learned; rows that wait are in it

    @property
    def n_components_(self) -> int:
        """Number of components shown, r."""
        return int(self.stream_.components.variances.shape[0])

    @property
    def explained_variance_(self) -> Array:
        """Variance of each output, (r,)."""
        return self.stream_.components.variances

    @property
    def explained_variance_ratio_(self) -> Array:
        """Share of each output in the total variance in feature space, (r,)."""
        return self.stream_.components.explained_variance_ratio

    @property
    def eigenvalues_(self) -> Array:
        """Explained variance times total weight, as in scikit-learn's ``KernelPCA``, (r,)."""
        shown = self.stream_.components
        return shown.variances * shown.weight

    @property
    def dual_coef_(self) -> Array:
        """Coefficients of the components over the points, (m, r)."""
        return self.stream_.components.dual_coef

    @property
    def mean_coef_(self) -> Array:
        """Coefficients of the mean over the points, (m,)."""
        return self.stream_.components.mean_coef

    @property
    def intercept_(self) -> Array:
        """Score of the mean, (r,)."""
        return self.stream_.components.intercept

    @property
    @at_one_moment
    def certificate_(self) -> Certificate:
        """What is certain about batch kernel PCA of all rows seen; computed when asked for."""
        return self.stream_.certificate

    @property
    def n_shortened_steps_(self) -> int:
        """Steps of a Hebbian rule or LMS that were too long and shortened; 0 for other trackers."""
        return int(getattr(self.stream_.settled.begun.tracker, "n_shortened", 0))

    # -- files and neighbours

    @at_one_moment
    def compress(self, n_points: int) -> Self:
        """A new model with fewer points: a smaller file, and scores in a fraction of the time.

        The points are those that keep most of the variance of the components, found by the steps
        that also place centroids, from what the model knows: no row is needed. Half of the points
        cost .003 of the captured variance or less on four data sets (``docs/compress.md``).

        Parameters
        ----------
        n_points : int
            Number of points, fewer than there are, and at least one for each component.

        Returns
        -------
        StreamingKernelPCA
            With the parameters of this one, which is not changed. Its certificate has the loss in
            it. It goes on learning in the span of its points, which stay where they are: the rows
            that were sampled to follow a stream are not in it, nor in its file.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelstream import StreamingKernelPCA
        >>> X = np.random.default_rng(0).normal(size=(900, 3))
        >>> model = StreamingKernelPCA(2, gamma=0.1, basis=60, random_state=0).fit(X)
        >>> small = model.compress(30)
        >>> small.basis_points_.shape
        (30, 3)
        >>> bool(np.abs(small.transform(X) - model.transform(X)).max() < 0.01)
        True
        """
        check_count("compress", "n_points", n_points, none_allowed=False)
        return self._with_stream(compress(self.stream_, int(n_points)))

    @at_one_moment
    def to_sklearn(self) -> Any:
        """A fitted ``sklearn.decomposition.KernelPCA`` with the same scores."""
        # Imported here: KernelPCA brings a tenth of a second of modules that few will need.
        from kernelstream.estimators.to_sklearn import to_sklearn

        return to_sklearn(self.stream_.components, self.stream_.units, self.n_features_in_)

    # -- inside

    def set_params(self, **params: Any) -> Self:
        """Set parameters.

        ``n_components`` also has an effect on what was learned: from then on so many components
        are shown, without a new fit. Trackers that learn row by row can show fewer than they have
        learned, the others any number. All other parameters are for the next ``fit``.

        Parameters
        ----------
        **params : dict
            Parameters of the estimator, or of its parts as in ``kernel__gamma``,
            also where the kernel is given by its name.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from kernelstream import StreamingKernelPCA
        >>> X = np.random.default_rng(0).normal(size=(300, 4))
        >>> model = StreamingKernelPCA(10, random_state=0).fit(X)
        >>> model.set_params(n_components=3).transform(X).shape
        (300, 3)
        >>> model.set_params(n_components=5).transform(X).shape
        (300, 5)
        """
        if (
            self._stream is None
            or not {"n_components"} <= params.keys() & self.get_params(False).keys()
        ):
            return super().set_params(**params)
        with self.transaction() as draft:
            shown = draft._showing(params["n_components"])
            super(StreamingKernelPCA, draft).set_params(**params)
            draft.set_stream(shown)
        return self

    def _showing(self, n_components: Any) -> Stream:
        """The stream that shows so many components."""
        stream = self.stream_
        return stream.showing(checked_n_components(n_components, stream.chain.tracker))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def _warn_of_scales(self, X: Array) -> None:
        """Say so where a few columns make all distances, and nothing is done about it."""
        can = "scale" in self.get_params(deep=False)  # the papers' methods take rows as they are
        wants = can and self.scale is None and isinstance(X, np.ndarray)
        if wants and len(X) >= FEWEST_TO_WARN:
            kernel = self._resolved_kernel(int(X.shape[1]))
            # The kernel itself: parts of a sum or a product may be of columns that were chosen.
            if isinstance(kernel, kernels.Euclidean | kernels.Laplacian):
                ColumnScales.of(X).warn(getattr(self, "feature_names_in_", None))

    def _basis_and_tracker(self) -> tuple[landmarks.LandmarkStrategy, trackers.Tracker]:
        """The two parts that make a method; the papers' estimators choose their own."""
        basis = landmarks.Centroids() if "points" in self._chosen_later() else self.basis
        return landmarks.resolve(basis), trackers.resolve(self.tracker)

    def _centred(self) -> bool:
        """Whether the mapped rows are centred; the papers' estimators may have their own way."""
        if not isinstance(self.center, bool | np.bool_):
            raise ValueError(f"center must be True or False; got {self.center!r}.")
        return bool(self.center)

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
        kernel = self._resolved_kernel(int(X.shape[1]))
        basis, tracker = self._basis_and_tracker()
        method = preimages.resolve(self.preimage, kernel)
        return self._stream_of(
            X,
            kernel,
            basis,
            tracker,
            center=self._centred(),
            certify=self.certify,
            device=self.device,
            regress_inputs=(
                preimages.learns_from_rows(method) and isinstance(tracker, trackers.Covariance)
            ),
            robust=checked_robust(self.robust, self._n_components_for(tracker), basis),
        )


def require_rows(X: Any) -> None:
    """Raise for paths of files, and for a Source."""
    several = isinstance(X, list | tuple) and len(X) > 0
    paths = several and all(isinstance(path, str | os.PathLike) for path in X)
    if paths or isinstance(X, str | os.PathLike) or hasattr(X, "from_pipe"):
        raise TypeError(f"fit takes rows, and got files: {X!r}. {FILES}")


def block_of_one(x: Any) -> Any:
    """One row as a block of one."""
    X = x if is_foreign(x) or is_sparse(x) else np.asarray(x)
    X = X[None, :] if X.ndim == 1 else X
    if X.ndim != 2 or X.shape[0] != 1:
        raise ValueError(f"Expected one row, got an array of shape {np.shape(x)}.")
    return X


def checked_robust(
    robust: Any, n_components: int | float | None, basis: landmarks.LandmarkStrategy
) -> bool:
    """Whether rows that do not fit lose weight, or an error in words."""
    if not isinstance(robust, bool | np.bool_):
        raise ValueError(f"robust must be True or False; got {robust!r}.")
    if robust and not isinstance(n_components, int):
        raise ValueError(
            "robust=True judges a row by what the components miss of it: give n_components as an "
            f"integer, got {n_components!r}."
        )
    if robust and basis.kind in ("growing", "reduced"):
        raise ValueError(
            f"robust=True judges the first rows before points are chosen, and {basis} takes them "
            "one by one as they come: use landmarks.Centroids or Landmarks."
        )
    return bool(robust)
