"""Base of kernel estimators: builds the stream, checks its parts, ``batch_size="auto"``, seed.

:class:`~kernelstream.StreamingKernelPCA` and estimators that are not kernel PCA, such as detectors
and regressions, derive from :class:`KernelEstimator`. It checks rows and parameters and builds the
stream; what is computed from the stream is up to the subclass.
"""

from __future__ import annotations

import numbers
import sys
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from kernelstream import kernels, landmarks, trackers
from kernelstream.arrays.devices import checked_device, preferred_rows
from kernelstream.arrays.namespaces import Array, as_dense, dtype_name, is_foreign, like, to_host
from kernelstream.estimators.base import StreamEstimator, at_one_moment
from kernelstream.estimators.explain import RowExplanation, explain_rows
from kernelstream.kernels import Kernel
from kernelstream.serialization.part import as_number, check_choice, check_count
from kernelstream.stream import scaling
from kernelstream.stream.imputation import Imputation
from kernelstream.stream.step import Chain
from kernelstream.stream.stream import Stream

# Rows of a block on a host, and at most on a device, by the kind of the landmarks: blocks are long
# where nothing is decided at their end, and short where landmarks of a block are compared with each
# other.
BLOCK_ROWS = {
    "fixed": (2048, sys.maxsize),
    "adaptive": (1024, 16384),
    "growing": (256, 1024),
    "reduced": (256, 1024),
}
SHORT_BLOCK = 64  # rows of a block that is no longer than the memory, at least


class KernelEstimator(StreamEstimator):
    """An estimator on rows: it holds a stream with a kernel, landmarks and a tracker.

    A subclass defines ``fit`` and ``partial_fit`` (with ``_rows_to_learn``),
    :meth:`~kernelstream.estimators.StreamEstimator.new_stream` (with ``_stream_of``) and its
    queries (with ``_query``).
    """

    #: Whether the estimator can fill missing values.
    can_fill = True

    # Parameters that every subclass has.
    kernel: Any
    gamma: Any
    scale: Any
    batch_size: Any
    random_state: Any
    verbose: Any

    # -- learning

    def calibrate(self, X: np.ndarray) -> Self:
        """Fix scaling and kernel parameters by a sample of all rows, before any row is learned.

        Without it the first rows of a stream decide. What was learned before is forgotten.

        Parameters
        ----------
        X : array of shape (n, d)
            The sample; missing values are NaN where the estimator fills them.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from kernelstream import StreamingKernelPCA
        >>> X = np.random.default_rng(0).normal(size=(1000, 3))
        >>> model = StreamingKernelPCA(2, scale="standard").calibrate(100.0 * X)
        >>> model.partial_fit(X).kernel_.gamma  # that of the sample
        0.109
        """
        with self.transaction() as draft:
            stream = draft.new_stream(X).calibrated(X)
            draft.n_features_in_ = stream.n_features
            draft.set_stream(stream)
        return self

    @property
    def fills(self) -> bool:
        """Whether missing values are filled, instead of being an error."""
        return isinstance(self.scale, Imputation)

    def fill_missing(self) -> Self:
        """Fill missing values from the next ``fit`` on, with means over rows that are near.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from kernelstream import StreamingKernelPCA
        >>> X = np.random.default_rng(0).normal(size=(500, 3))
        >>> X[::7, 1] = np.nan
        >>> StreamingKernelPCA(2, random_state=0).fill_missing().fit(X).n_samples_seen_
        500
        """
        self.scale = Imputation(self.scale)
        return self

    # -- queries

    def _of_host_rows(self, function: Any) -> Callable[[np.ndarray], np.ndarray]:
        """A function of rows, as the kernel sees them, for rows of numbers on the host."""
        stream = self.stream_
        like_learned = stream.caught_up.begun.moments.total

        def asked(rows: np.ndarray) -> np.ndarray:
            return to_host(stream.query(function, like(rows, like_learned))).astype(float)

        return asked

    def _explain(
        self,
        error: Callable[[Array], Array],
        X: Any,
        n_columns: int,
        reference: Any,
        feature_names: Sequence[str] | None,
    ) -> list[RowExplanation]:
        """The columns behind an error of rows."""
        check_count(type(self).__name__, "n_columns", n_columns, none_allowed=False)
        rows = to_host(as_dense(self.check_rows(X))).astype(float)
        names = self._names(feature_names)
        known = self._reference(reference)
        return explain_rows(self._of_host_rows(error), rows, known, names, n_columns)

    def _reference(self, X: Any) -> np.ndarray:
        """Rows to compare with, as float64 on the host."""
        rows = self.stream_.kept_rows() if X is None else self.check_rows(X)
        if rows is None:
            raise ValueError(
                f"{type(self).__name__} has kept no rows in the units of the data to compare with; "
                "give some: explain_components(X), explain(rows, reference=X)."
            )
        rows = to_host(as_dense(rows)).astype(float)
        if len(rows) < 2:
            raise ValueError(f"At least two rows are needed to compare with; got {len(rows)}.")
        return rows

    def _names(self, given: Sequence[str] | None) -> list[str]:
        """Names of the columns: given, those of the frame that was learned, or x0 and so on."""
        names = getattr(self, "feature_names_in_", None) if given is None else given
        if names is None:
            return [f"x{i}" for i in range(self.n_features_in_)]
        if len(names) != self.n_features_in_:
            raise ValueError(
                f"{len(names)} feature_names were given for {self.n_features_in_} columns."
            )
        return [str(name) for name in names]

    # -- what was learned; buffered rows are in it

    @property
    def n_samples_seen_(self) -> int:
        """Rows learned; rows of weight zero are not counted."""
        return self.stream_.n_rows

    @property
    def kernel_(self) -> Kernel:
        """The kernel with its numbers, those that the first rows decided among them."""
        return self.stream_.components.kernel

    @property
    def basis_points_(self) -> Array:
        """The points that span the model, (m, d); with ``scale="standard"``, standardized."""
        return self.stream_.components.points

    # -- models

    @at_one_moment
    def merge(self, other: KernelEstimator) -> Self:
        """A new model of the rows that both have seen, with the parameters of this one.

        Parameters
        ----------
        other : the same kind of estimator
            A model of the same features, with the same kernel and the same numbers in it. Neither
            of the two is changed.

        Returns
        -------
        A new estimator.

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
        self._require_fitted()
        if not isinstance(other, KernelEstimator):
            raise TypeError(f"Only models of this library merge; got {type(other).__name__}.")
        return self._with_stream(self.stream_.merge(other.stream_))

    def _with_stream(self, stream: Stream) -> Self:
        """Another model with the parameters and names of this one."""
        model = clone(self)
        model.set_stream(stream)
        model.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            model.feature_names_in_ = self.feature_names_in_
        return model

    # -- parameters

    def set_params(self, **params: Any) -> Self:
        """Set parameters, which count from the next ``fit``.

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
        >>> from kernelstream import StreamingKernelRidge
        >>> StreamingKernelRidge(kernel="matern").set_params(kernel__nu=2.5).kernel
        Matern(nu=2.5)
        """
        kernel = params.get("kernel", getattr(self, "kernel", None))
        inside = any(name.startswith("kernel__") for name in params)
        if inside and isinstance(kernel, str) and kernel in kernels.NAMES:
            gamma = params.pop("gamma", self.gamma)
            params = {"kernel": kernels.resolve(kernel, gamma), "gamma": None} | {
                name: value for name, value in params.items() if name != "kernel"
            }
        return super().set_params(**params)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.fills
        tags.input_tags.sparse = self.scale is None
        return tags

    def _chosen_later(self) -> tuple[str, ...]:
        """What the start of the stream has to choose."""
        named = {"gamma": "gamma", "n_components": "components", "basis": "points"}
        given = {what: getattr(self, name, None) for name, what in named.items()}
        return tuple(
            what for what, value in given.items() if isinstance(value, str) and value == "auto"
        )

    def _resolved_kernel(self, n_features: int) -> Kernel:
        """The kernel that the parameters mean, for rows of so many features."""
        return kernels.resolve(self.kernel, None if "gamma" in self._chosen_later() else self.gamma)

    def _n_components_for(self, tracker: trackers.Tracker) -> int | float | None:
        """The number of components that the parameters mean, for a tracker."""
        wanted = getattr(self, "n_components", None)
        if "components" in self._chosen_later() and tracker.kind != "sequential":
            wanted = None
        return checked_n_components(wanted, tracker)

    def _stream_of(
        self,
        X: Array,
        kernel: Kernel,
        basis: landmarks.LandmarkStrategy,
        tracker: trackers.Tracker,
        center: bool = True,
        certify: str | bool = False,
        device: Any = None,
        **options: Any,
    ) -> Stream:
        """A stream of these parts for rows like X; ``options`` are further fields of the chain."""
        auto, d = self._chosen_later(), int(X.shape[1])
        if "gamma" in auto and not (kernel.stationary and hasattr(kernel, "gamma")):
            raise ValueError(
                "gamma='auto' compares widths of a kernel of the distance, given by its name: "
                f"'rbf', 'laplacian' or 'exponential'; got kernel={self.kernel!r}."
            )
        if X.shape[0]:
            kernel = kernels.with_numbers(kernel, getattr(self, "feature_names_in_", None))
        n_components = self._n_components_for(tracker)
        tracker.suits(basis, n_components, center)
        basis.suits(kernel, d, tracker, n_components)
        check_choice("certify", certify, ("auto", "tight", False))
        device = None if is_foreign(X) else checked_device(device)
        batch_size = self.batch_size
        if isinstance(batch_size, str) and batch_size == "auto":
            batch_size = suitable_batch_size(basis, tracker, X, device)
        elif not is_count(batch_size):
            raise ValueError(
                f"batch_size must be a positive integer or 'auto', got {batch_size!r}."
            )
        chain = Chain(
            kernel=kernel.copy(),
            basis=basis.copy(),
            tracker=tracker.copy(),
            center=center,
            n_components=n_components,
            seed=self._seed(),
            certify=certify,
            auto=auto,
            **options,
        )
        return Stream.of(
            chain, int(batch_size), d, dtype_name(X), scaling.resolve(self.scale), device
        )


def suitable_batch_size(
    basis: landmarks.LandmarkStrategy, tracker: trackers.Tracker, X: Array, device: str | None
) -> int:
    """Rows in a block that suit the parts, and fill a GPU where the result allows any blocks."""
    on_host, most = BLOCK_ROWS[basis.kind]
    if tracker.kind == "sums" and tracker.forgetting != 1.0:
        # signs are followed from block to block: components must not turn far within one
        on_host = int(min(on_host, max(SHORT_BLOCK, tracker.memory)))
    if tracker.kind == "sequential":
        on_host = min(on_host, 256)
    if tracker.kind not in ("sums", "window"):
        return on_host
    return min(preferred_rows(X, device, basis.size, on_host), max(most, on_host))


def is_count(value: Any) -> bool:
    """Whether a value is an integer of at least 1."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= 1


def checked_n_components(n_components: Any, tracker: trackers.Tracker) -> int | float | None:
    """The number of components as an int, a fraction as a float, or None; else an error."""
    if is_count(n_components):
        return int(n_components)
    is_whole = isinstance(n_components, numbers.Integral) and not isinstance(n_components, bool)
    if tracker.kind == "sequential" and not is_whole:
        raise ValueError(
            f"The tracker {tracker} learns a fixed number of components from the first row on: "
            f"give n_components as an integer, got {n_components!r}."
        )
    if n_components is None:
        return None
    if not is_whole and 0 < as_number(n_components) < 1:
        return float(n_components)
    raise ValueError(
        "n_components must be an integer of at least 1, a share of the variance between 0 and 1, "
        f"or None for all components; got {n_components!r}."
    )
