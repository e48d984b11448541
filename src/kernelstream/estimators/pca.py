"""StreamingKernelPCA: its parameters, its verbs, scikit-learn's manners. No maths: see stream.py.

What it is given is checked in ``intake.py``, and what it has learned is shown by ``fitted.py``.
"""

# Nearly half of this file is docstring: parameters and verbs stay together, where users look.

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone

from kernelstream import bases, kernels, preimages, trackers
from kernelstream.backends.arrays import (
    Array,
    all_finite,
    as_dense,
    cast,
    concatenate_rows,
    dtype_name,
    is_foreign,
    is_sparse,
    namespace_of,
    to_float64,
    to_host,
)
from kernelstream.backends.devices import checked_device, placed, preferred_rows
from kernelstream.estimators.fitted import FittedAttributes
from kernelstream.estimators.inputs import Intake
from kernelstream.estimators.validation import (
    NO_WEIGHT,
    checked_batch_size,
    checked_choice,
    checked_n_components,
    checked_seed,
    explained,
)
from kernelstream.stream.buffer import opened
from kernelstream.stream.merge import merged
from kernelstream.stream.state import Model, Parts, moved
from kernelstream.stream.stream import advance, learn_all, view, view_of_blocks
from kernelstream.stream.way_back import WayBack

QUERY_ROWS = 4096  # rows of a query that are worked on at a time, so that memory stays bounded

logger = logging.getLogger("kernelstream")


class StreamingKernelPCA(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, Intake, FittedAttributes
):
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
        ``"rbf"``, ``"laplacian"``, ``"exponential"``, ``"matern"``, ``"poly"``, ``"sigmoid"``,
        ``"linear"``, ``"cosine"``, an object of :mod:`kernelstream.kernels`, or a function
        ``k(X, Y)``.
    gamma : float, str or None
        Width of a kernel given by name; None is the kernel's own default (for RBF the median
        distance of the first rows). With a kernel object use ``kernel__gamma``.
    basis : str, int or Basis
        The points that span the model: ``"centroids"``, ``"distance"``, ``"coherence"``,
        ``"everything"``, ``"landmarks"``, ``"reduced_set"``, ``"fourier"``, a number of centroids,
        or an object of :mod:`kernelstream.bases`.
    tracker : str or Tracker
        How components follow the rows: ``"covariance"`` (exact), ``"incremental_svd"``,
        ``"hebbian"``, ``"rls"``, ``"lms"``, ``"subkha"``, or an object of
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
        How much work the error certificate may cost: ``"tight"`` makes it sharp at 2 to 4 times
        the time of ``partial_fit``, False gives none.
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
    n_components_ : int
        Number of components shown, r.
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
    certificate_ : Certificate
        What is certain about batch kernel PCA of all rows seen.
    n_tamed_steps_ : int
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
                raise ValueError(NO_WEIGHT)
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
                raise ValueError(NO_WEIGHT)
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
            row = x if is_foreign(x) or is_sparse(x) else np.asarray(x)
            self.partial_fit(row[None, :] if row.ndim == 1 else row)
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
        pieces = self._pieces(scores, QUERY_ROWS)
        found = preimages.Report.joined([back.report(piece) for piece in pieces])
        if self._was_sent(scores):
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
        seen, standard = self._view(), self._standard()
        rows = as_dense(self._queryable(X, prepared=False))
        scores = self._in_pieces(seen.scores, rows if standard is None else standard.apply(rows))
        difference = to_float64(self.inverse_transform(scores)) - to_float64(rows)
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
        if not isinstance(other, StreamingKernelPCA):
            raise TypeError(f"Only models of this library merge; got {type(other).__name__}.")
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
        from kernelstream.estimators.to_sklearn import to_sklearn

        return to_sklearn(self._view(), self._standard(), self.n_features_in_)

    # -- inside

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.scale is None  # centring would fill the matrix
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def _queryable(self, X: Any, prepared: bool = True) -> Array:
        self._view_exists()
        X = self._validated(X, reset=False)
        standard = self._standard() if prepared else None
        return X if standard is None else standard.apply(X)

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
        basis.suits(kernel, int(X.shape[1]))
        if not isinstance(self.center, bool | np.bool_):
            raise ValueError(f"center must be True or False; got {self.center!r}.")
        checked_choice("scale", self.scale, (None, "standard"))
        checked_choice("certify", self.certify, ("auto", "tight", False))
        device = None if is_foreign(X) else checked_device(self.device)
        batch_size = checked_batch_size(self.batch_size)
        if batch_size is None:
            batch_size = suitable_batch_size(basis, tracker, X, device)
        parts = Parts(
            kernel=kernel.copied(),
            basis=basis.copied(),
            tracker=tracker.copied(),
            center=bool(self.center),
            n_components=n_components,
            seed=checked_seed(self.random_state),
            certify=self.certify,
            regress_inputs=(
                preimages.learns_from_rows(method) and isinstance(tracker, trackers.Covariance)
            ),
        )
        return Model(
            parts=parts,
            batch_size=batch_size,
            n_features=int(X.shape[1]),
            dtype=dtype_name(X),
            standardise=self.scale == "standard",
            device=device,
        )

    def _in_pieces(self, function: Any, X: Array) -> Array:
        """Apply a function of rows to pieces of X: memory stays bounded whatever its length."""
        size = preferred_rows(X, self._model.device, 1, QUERY_ROWS)
        with np.errstate(over="ignore", invalid="ignore"):
            found = [function(piece) for piece in self._pieces(X, size)]
            if self._was_sent(X):
                found = [to_host(piece) for piece in found]
        result = cast(concatenate_rows(found), X.dtype)
        if not all_finite(result):
            raise ValueError(
                f"The kernel {self.kernel_} gave values that are not finite on these rows. "
                "Scale the data or choose other kernel parameters."
            )
        return result

    def _pieces(self, X: Array, size: int) -> Iterator[Array]:
        """Rows in pieces, each on the device of the model when its turn comes."""
        n = int(X.shape[0])
        for start in range(0, n, size):
            yield placed(X[start : min(start + size, n), :], self._model.device)

    def _was_sent(self, X: Array) -> bool:
        """Whether rows of the host went to a device: the answer then comes back."""
        return self._model.device is not None and not is_foreign(X)

    def _report(self) -> None:
        if self.verbose:
            logger.info("%s: %d rows seen", type(self).__name__, self._model.n_rows)


def suitable_batch_size(
    basis: bases.Basis, tracker: trackers.Tracker, X: Array, device: str | None
) -> int:
    """Rows in a block that suit the parts, and fill a GPU where the result allows any blocks."""
    on_host = min(basis.preferred_batch, 256) if tracker.sequential else basis.preferred_batch
    if not tracker.any_blocks:
        return on_host
    most = basis.preferred_on_device
    return min(
        preferred_rows(X, device, basis.size, on_host),
        sys.maxsize if most is None else max(most, on_host),
    )
