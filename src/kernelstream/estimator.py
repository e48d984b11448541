"""StreamingKernelPCA: parameters, validation, scikit-learn's manners. No maths: see stream.py."""

from __future__ import annotations

import logging
import numbers
import sys
from typing import Any, Self

import numpy as np
from array_api_compat import is_torch_array
from sklearn.base import (
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
)
from sklearn.utils.validation import check_random_state, validate_data

from kernelstream import bases, kernels, preimages, trackers
from kernelstream.backends.arrays import (
    Array,
    all_finite,
    as_dense,
    cast,
    concatenate_rows,
    is_foreign,
    is_sparse,
    namespace_of,
    on_accelerator,
    take_rows,
    to_float64,
    to_host,
)
from kernelstream.backends.devices import checked_device, placed, preferred_rows
from kernelstream.blocks import advance, caught_up, learn_all, settled, view, view_of_blocks
from kernelstream.certificate import Certificate, certify
from kernelstream.inbox import opened
from kernelstream.merge import merged
from kernelstream.model import Model, Parts, moved
from kernelstream.persistence import OnStream
from kernelstream.preimages.back import WayBack
from kernelstream.validation import (
    NOT_FINITE,
    checked_choice,
    checked_n_components,
    checked_weights,
    explained,
    real_numbers,
    summable,
)
from kernelstream.view import View

QUERY_ROWS = 4096  # rows of a query that are worked on at a time, so that memory stays bounded

logger = logging.getLogger("kernelstream")


class StreamingKernelPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, OnStream):
    """Kernel PCA in one pass and bounded memory.

    ``fit`` passes twice over rows that are at hand; ``partial_fit`` and ``learn_one`` learn from a
    stream, strictly one pass. The same rows in the same order give the same model, bit for bit,
    however they are cut into calls, and a query changes nothing.

    Parameters
    ----------
    n_components : int, float or None
        Number of components; None for all with variance; a float in (0, 1) for as many as explain
        that share of the variance in feature space. Where the data has fewer directions than an
        integer asks for, the remaining columns are zero.
    kernel : str, Kernel or callable
        ``"rbf"``, ``"laplacian"``, ``"exponential"``, ``"poly"``, ``"sigmoid"``, ``"linear"``,
        ``"cosine"``, ``"matern"``, an object of :mod:`kernelstream.kernels`, or a function
        ``k(X, Y)``.
    gamma : float, str or None
        Width of a kernel given by name; None is the kernel's own default (for RBF the median
        distance of the first rows). With a kernel object use ``kernel__gamma``.
    basis : str, int or Basis
        The points that span the model: ``"centroids"``, a number of centroids, or an object of
        :mod:`kernelstream.bases`.
    tracker : str or Tracker
        How components follow the rows: ``"covariance"`` (exact), ``"hebbian"``, or an object of
        :mod:`kernelstream.trackers`.
    center : bool
        Whether the mapped data is centred.
    scale : None or "standard"
        ``"standard"`` divides by the deviation of the first rows after subtracting their mean,
        both then frozen.
    preimage : str or Preimage
        How ``inverse_transform`` goes back to input space: ``"auto"``, ``"fixed_point"``,
        ``"gradient"``, ``"neighbours"``, ``"conformal"``, ``"linear"``, ``"ridge"`` (learned from
        the rows in the same pass), or an object of :mod:`kernelstream.preimages`.
    certify : "auto", "tight" or False
        How much work the error certificate may cost.
    batch_size : int or "auto"
        Rows in an internal block. Rows of an unfinished block wait; queries see them.
    device : None, str or torch.device
        Where to compute. None is where the data is: PyTorch and CuPy arrays stay on their device,
        with all that is learned from them. ``"cuda"`` sends NumPy rows to the GPU block by block
        (the copy of a block runs while the last one is worked on) and gives NumPy arrays back.
    random_state : int, RandomState or None
        Seed of everything that is drawn.
    verbose : bool
        Report progress through the logger ``kernelstream``.

    Attributes
    ----------
    n_samples_seen_ : int
        Rows learned (rows of weight zero are not counted).
    explained_variance_ : array of shape (r,)
        Variance of each output.
    explained_variance_ratio_ : array of shape (r,)
        The same as a share of the total variance in feature space.
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
        n_components: int | float | None = None,
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
        self.random_state = random_state
        self.verbose = verbose

    # -- learning

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from rows that are all at hand, forgetting what was learned before.

        Parameters
        ----------
        X : array of shape (n, d), dense or CSR
            The rows.
        y : ignored
        sample_weight : array of shape (n,), optional
            Non-negative weights; a weight of two counts like the row twice.

        Returns
        -------
        self
        """
        with self._all_or_nothing():
            X, weights = self._learnable(X, sample_weight, reset=True)
            if X.shape[0] == 0:
                raise ValueError("All rows have weight zero: there is nothing to learn from.")
            with explained(X):
                self._model = learn_all(self._new_model(X), X, weights)
        self._report()
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Go on learning from the next rows of a stream.

        A block that is rejected leaves the model as it was.

        Parameters
        ----------
        X : array of shape (n, d), dense or CSR
            The next rows, any number of them.
        y : ignored
        sample_weight : array of shape (n,), optional
            Non-negative weights.

        Returns
        -------
        self
        """
        with self._all_or_nothing():
            first = not self._is_fitted()
            X, weights = self._learnable(X, sample_weight, reset=first)
            if X.shape[0]:
                with explained(X):
                    self._model = advance(self._new_model(X) if first else self._model, X, weights)
            elif first:
                raise ValueError("All rows have weight zero: there is nothing to learn from.")
        self._report()
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
        inbox = self._inbox
        if inbox is None or not inbox.put(x):
            self._learn_unusual(x)
        return self

    def _learn_unusual(self, x: Any) -> None:
        """Learn a row that begins a stream, ends a block, or is not a plain array of its type."""
        if not self._is_fitted():
            self.partial_fit(np.asarray(x)[None, :] if np.ndim(x) == 1 else x)
            return
        with self._all_or_nothing():
            row, inbox = self._one(x, learning=True), self._inbox
            if inbox is None or not isinstance(row, np.ndarray) or not inbox.put(row[0]):
                self._model = advance(self._model, row, None)
                self._inbox = opened(self._model, self.n_features_in_)

    # -- queries

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
        seen = self._view()
        return self._in_pieces(seen.scores, self._queryable(X))

    def transform_one(self, x: Any) -> Array:
        """Scores of one row, shape (r,).

        Trackers that learn row by row are up to date; the covariance tracker shows the components
        of the last finished block (``batch_size=1`` makes them current).

        Parameters
        ----------
        x : array of shape (d,)
            The row.
        """
        self._view_exists()
        row = self._one(x)
        model = self._model
        current = model.parts.tracker.sequential or model.state is None or not model.state.n_rows
        seen = view(model) if current else view_of_blocks(model)
        standard = self._standard()
        row = row if standard is None else standard.apply(row)
        return self._in_pieces(seen.scores, row)[0, :]

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
        seen = self._view()
        method = preimages.resolve(self.preimage, seen.kernel)
        scores = self._scores(X, seen)
        if seen.span is None:
            raise ValueError(
                f"{seen.basis} has explicit features instead of points, and inverse_transform "
                "needs points; use a basis of points, for example bases.Centroids."
            )
        back = WayBack(seen, method, self._standard())
        device, n = self._model.device, int(scores.shape[0])
        starts = range(0, n, QUERY_ROWS)
        pieces = (placed(scores[i : min(i + QUERY_ROWS, n), :], device) for i in starts)
        found = preimages.Report.joined([back.report(piece) for piece in pieces])
        if device is not None and not is_foreign(scores):
            found = moved(found, None)
        return found if return_report else found.X

    def reconstruction_error(self, X: Any) -> Array:
        """Squared distance in feature space between each row and its projection on the model.

        Parameters
        ----------
        X : array of shape (n, d), dense or CSR

        Returns
        -------
        array of shape (n,)
        """
        seen = self._view()
        return self._in_pieces(seen.reconstruction_error, self._queryable(X))

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
        rows = as_dense(self._queryable(X, prepared=False))
        difference = to_float64(self.inverse_transform(self.transform(rows))) - to_float64(rows)
        return -float(namespace_of(difference).mean(difference**2))

    # -- files and neighbours

    def merge(self, other: StreamingKernelPCA) -> Self:
        """A new model of the rows that both have seen.

        Parameters
        ----------
        other : StreamingKernelPCA
            A model of the same features, with the same kernel and the same numbers in it.

        Returns
        -------
        StreamingKernelPCA
            With the parameters of this one; neither of the two is changed.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelstream import StreamingKernelPCA
        >>> X = np.random.default_rng(0).normal(size=(900, 3))
        >>> first, second = (
        ...     StreamingKernelPCA(2, gamma=0.1, basis=40, random_state=i).partial_fit(half)
        ...     for i, half in enumerate((X[:400], X[400:]))
        ... )
        >>> first.merge(second).n_samples_seen_
        900
        """
        self._view_exists()
        other._view_exists()
        model = clone(self)
        model._model = merged(self._model, other._model)
        model.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            model.feature_names_in_ = self.feature_names_in_
        return model

    def to_sklearn(self) -> Any:
        """A fitted ``sklearn.decomposition.KernelPCA`` with the same scores."""
        # Imported here: KernelPCA brings a tenth of a second of modules that few will need.
        from kernelstream.export import to_sklearn

        return to_sklearn(self._view(), self._standard(), self.n_features_in_)

    # -- attributes of the contract

    @property
    def n_samples_seen_(self) -> int:
        """Rows learned."""
        self._view_exists()
        return self._model.n_rows

    @property
    def n_components_(self) -> int:
        """Number of components shown."""
        return int(self._view().variances.shape[0])

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    @property
    def explained_variance_(self) -> Array:
        """Variance of each output."""
        return self._view().variances

    @property
    def explained_variance_ratio_(self) -> Array:
        """Share of the total variance in feature space."""
        seen = self._view()
        total = seen.total_variance
        return seen.variances / total if total > 0 else 0.0 * seen.variances

    @property
    def eigenvalues_(self) -> Array:
        """Explained variance times total weight."""
        seen = self._view()
        return seen.variances * seen.weight

    @property
    def basis_points_(self) -> Array:
        """The points."""
        return self._view().points

    @property
    def dual_coef_(self) -> Array:
        """Coefficients of the components over the points."""
        return self._view().dual_coef

    @property
    def mean_coef_(self) -> Array:
        """Coefficients of the mean over the points."""
        return self._view().mean_coef

    @property
    def intercept_(self) -> Array:
        """Score of the mean."""
        return self._view().intercept

    @property
    def certificate_(self) -> Certificate:
        """What is certain about batch kernel PCA of all rows seen."""
        shown = self._view()
        plain = caught_up(self._model)
        assert plain.state is not None
        return certify(plain.parts, plain.state, shown)

    @property
    def kernel_(self) -> kernels.Kernel:
        """The kernel with its numbers."""
        return self._view().kernel

    @property
    def n_tamed_steps_(self) -> int:
        """Steps of a Hebbian rule that were shortened: :class:`~kernelstream.trackers.Hebbian`."""
        self._view_exists()
        state = settled(self._model).state
        return int(getattr(state and state.tracker, "tamed", 0))

    # -- inside

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.scale is None  # centring would fill the matrix
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _view(self) -> View:
        self._view_exists()
        with np.errstate(over="ignore", invalid="ignore"):  # as in learning: rows may wait
            return view(self._model)

    def _standard(self) -> Any:
        model = self._model
        known = model.standard is not None or not model.standardise
        return model.standard if known else settled(model).standard

    def _basis_and_tracker(self) -> tuple[bases.Basis, trackers.Tracker]:
        """The two parts that make a method; the papers' estimators choose their own."""
        return bases.resolve(self.basis), trackers.resolve(self.tracker)

    def _new_model(self, X: Array) -> Model:
        """Check the parameters and put the chain together."""
        kernel = kernels.resolve(self.kernel, self.gamma)
        basis, tracker = self._basis_and_tracker()
        method = preimages.resolve(self.preimage, kernel)
        n_components = checked_n_components(self.n_components, tracker)
        tracker.suits(basis, n_components)
        if not isinstance(self.center, bool | np.bool_):
            raise ValueError(f"center must be True or False; got {self.center!r}.")
        checked_choice("scale", self.scale, (None, "standard"))
        checked_choice("certify", self.certify, ("auto", "tight", False))
        device = None if is_foreign(X) else checked_device(self.device)
        batch_size = self.batch_size
        if batch_size == "auto":
            batch_size = min(basis.preferred_batch, 256 if tracker.sequential else 1024)
            if tracker.any_blocks:
                most = basis.preferred_on_device
                batch_size = min(
                    preferred_rows(X, device, basis.size, batch_size),
                    sys.maxsize if most is None else max(most, batch_size),
                )
        elif isinstance(batch_size, bool) or not (
            isinstance(batch_size, numbers.Integral) and int(batch_size) >= 1
        ):
            raise ValueError(
                f"batch_size must be a positive integer or 'auto', got {batch_size!r}."
            )
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if isinstance(self.random_state, numbers.Integral):
            seed = int(self.random_state)
        parts = Parts(
            kernel=kernel,
            basis=basis,
            tracker=tracker,
            center=bool(self.center),
            n_components=n_components,
            seed=seed,
            certify=self.certify,
            regress_inputs=(
                preimages.learns_from_rows(method) and isinstance(tracker, trackers.Covariance)
            ),
        )
        return Model(
            parts=parts,
            batch_size=int(batch_size),
            n_features=int(X.shape[1]),
            dtype=str(X.dtype).rsplit(".", 1)[-1],
            standardise=self.scale == "standard",
            device=device,
        )

    def _learnable(self, X: Any, weights: Any, reset: bool) -> tuple[Array, np.ndarray | None]:
        """Rows to learn, in the type of the stream, and their weights; zero weights dropped."""
        X = self._validated(X, reset, check_finite=False)
        if not reset:
            X = cast(X, getattr(namespace_of(X), self._model.dtype))
        if not on_accelerator(X):  # there a look costs a pass, and the fold finds it out itself
            X = summable(X)  # of a number that is not finite, no square is: one look for both
        if weights is None:
            return X, None
        host = checked_weights(weights, int(X.shape[0]))
        kept = np.flatnonzero(host)
        if len(kept) < len(host):
            X, host = take_rows(X, kept), host[kept]
        return X, host

    def _queryable(self, X: Any, prepared: bool = True) -> Array:
        self._view_exists()
        X = self._validated(X, reset=False)
        standard = self._standard() if prepared else None
        return X if standard is None else standard.apply(X)

    def _validated(self, X: Any, reset: bool, check_finite: bool = True) -> Array:
        if is_foreign(X):
            X = self._validated_foreign(X, reset, check_finite)
        else:
            X = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                ensure_all_finite=check_finite,
            )
        return X if reset else self._of_our_kind(X)

    def _of_our_kind(self, X: Array) -> Array:
        """An array of the namespace that the model lives in, or an error."""
        model = getattr(self, "_model", None)
        if model is None or not model.n_rows:  # nothing is held yet (a cluster checks its chunks)
            return X
        held = model.waiting.rows[0] if model.state is None else model.state.moments.total
        ours, given = namespace_of(held), namespace_of(X)
        sent = model.device is not None and (not is_foreign(X) or is_torch_array(X))
        if ours is not given and not sent:
            raise ValueError(
                f"The model was learned from rows of {ours.__name__} and was given an array of "
                f"{given.__name__}: convert it first."
            )
        return X

    def _validated_foreign(self, X: Array, reset: bool, check_finite: bool) -> Array:
        """The checks of scikit-learn for arrays of other namespaces, which it would convert."""
        xp = namespace_of(X)
        if X.ndim != 2 or X.shape[0] < 1 or X.shape[1] < 1:
            raise ValueError(f"Expected rows of shape (n, d), got an array of shape {X.shape}.")
        if xp.isdtype(X.dtype, "complex floating"):
            raise ValueError("Complex data not supported: give real numbers.")
        if X.dtype not in (xp.float32, xp.float64):
            X = to_float64(X)
        if check_finite and not all_finite(X):
            raise ValueError(NOT_FINITE)
        if reset:
            self.n_features_in_ = int(X.shape[1])
        elif X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        return X

    def _one(self, x: Any, learning: bool = False) -> Array:
        """One row as a block of one, in the type of the stream."""
        if is_sparse(x) or is_foreign(x):
            row = self._validated(x if x.ndim == 2 else x[None, :], reset=False)
            row = cast(row, getattr(namespace_of(row), self._model.dtype))
            return summable(row) if learning else row
        row = np.array(real_numbers(x), dtype=self._model.dtype, ndmin=2)  # a copy: it may wait
        if row.shape != (1, self.n_features_in_):
            raise ValueError(
                f"Expected one row of {self.n_features_in_} features, got an array of shape "
                f"{np.shape(x)}."
            )
        # one product instead of the passes that a block gets: rows come by the million
        if not row[0] @ row[0] < np.finfo(row.dtype).max / 4.0:
            if not all_finite(row):
                raise ValueError("The row contains NaN or infinity; give finite numbers.")
            row = summable(row) if learning else row
        return self._of_our_kind(row)

    def _scores(self, X: Any, seen: View) -> Array:
        """Scores given by the user, checked."""
        if not is_foreign(X):
            X = real_numbers(as_dense(X))
            X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
        r = int(seen.variances.shape[0])
        if X.ndim != 2 or X.shape[0] < 1 or X.shape[1] != r:
            raise ValueError(
                f"Expected scores of shape (n, {r}), one column for each component, got an array "
                f"of shape {tuple(X.shape)}."
            )
        if not all_finite(X):
            raise ValueError("The scores contain NaN or infinity; give finite numbers.")
        return self._of_our_kind(X)

    def _in_pieces(self, function: Any, X: Array) -> Array:
        """Apply a function of rows to pieces of X: memory stays bounded whatever its length."""
        device, n = self._model.device, int(X.shape[0])
        size = preferred_rows(X, device, 1, QUERY_ROWS)
        starts = range(0, n, size)
        with np.errstate(over="ignore", invalid="ignore"):
            pieces = [function(placed(X[i : min(i + size, n), :], device)) for i in starts]
            if device is not None and not is_foreign(X):
                pieces = [to_host(piece) for piece in pieces]
        result = cast(concatenate_rows(pieces), X.dtype)
        if not all_finite(result):
            raise ValueError(
                f"The kernel {self.kernel_} gave values that are not finite on these rows. "
                "Scale the data or choose other kernel parameters."
            )
        return result

    def _report(self) -> None:
        if self.verbose:
            logger.info("%s: %d rows seen", type(self).__name__, self._model.n_rows)
