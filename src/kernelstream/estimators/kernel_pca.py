"""Drop-in replacement for scikit-learn's ``KernelPCA``, same parameters, bounded memory."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

from kernelstream import kernels
from kernelstream.arrays.namespaces import (
    Array,
    as_dense,
    cast,
    like,
    namespace_of,
    to_float64,
    to_host,
)
from kernelstream.estimators import inputs
from kernelstream.estimators.streaming_kernel_pca import StreamingKernelPCA
from kernelstream.kernels import Kernel
from kernelstream.serialization import stored
from kernelstream.serialization.part import check_choice

NO_MATRIX = (
    "kernel='precomputed' needs the n × n matrix that this class is there to avoid, and says "
    "nothing of new rows but their kernel values: give the rows and the kernel instead (any "
    "function of two rows will do), or use sklearn.decomposition.KernelPCA for a given matrix."
)


@stored
class KernelPCA(StreamingKernelPCA):
    """scikit-learn's ``KernelPCA`` by name and parameters, in bounded memory.

    With at most ``basis`` different rows the components are those of scikit-learn; with more they
    are those of points that capture most of the rows, and ``certificate_`` says how far off they
    can be. ``partial_fit``, ``merge``, ``save`` and all else of :class:`StreamingKernelPCA` work.

    Parameters
    ----------
    n_components : int or None
        Number of components; None: all that are not zero.
    kernel : str or callable
        ``"linear"``, ``"poly"``, ``"rbf"``, ``"sigmoid"``, ``"cosine"``, any other name of
        ``sklearn.metrics.pairwise`` or of ``kernelstream.kernels``, or a function of two rows.
        ``"precomputed"`` is refused: it needs the n × n matrix.
    gamma : float or None
        For ``"poly"``, ``"rbf"``, ``"sigmoid"`` and others that have one; None: 1 / n_features.
    degree, coef0 : float
        Of ``"poly"``; coef0 of ``"sigmoid"``, too.
    kernel_params : dict or None
        Keywords of a function.
    alpha : float
        Ridge of the way back, if ``fit_inverse_transform``.
    fit_inverse_transform : bool
        Whether ``inverse_transform`` is wanted.
    eigen_solver : str
        As ``tol``, ``max_iter`` and ``iterated_power``: taken and checked, and without effect.
        There is one small eigenproblem, which is solved exactly.
    tol : float
        See ``eigen_solver``.
    max_iter : int or None
        See ``eigen_solver``.
    iterated_power : int or "auto"
        See ``eigen_solver``.
    remove_zero_eig : bool
        Whether components of no variance are left out when ``n_components`` is given.
    random_state : int, RandomState or None
        Of the choice of points.
    copy_X : bool
        Without effect: rows are never written to.
    n_jobs : int or None
        Without effect: threads follow those of the linear algebra (``OMP_NUM_THREADS``,
        ``threadpoolctl``), and never change the result.
    basis : int or LandmarkStrategy
        Points; not a parameter of scikit-learn's.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.decomposition import KernelPCA as Exact
    >>> from kernelstream import KernelPCA
    >>> X = load_digits().data[:400]
    >>> ours, theirs = (K(5, kernel="rbf", gamma=0.001).fit(X) for K in (KernelPCA, Exact))
    >>> bool(np.allclose(ours.eigenvalues_, theirs.eigenvalues_))
    True
    """

    scale: Any = None
    preimage: Any = "auto"
    certify: Any = "auto"
    batch_size: Any = "auto"
    device: Any = None
    verbose: bool = False
    center: Any = True
    tracker: Any = "covariance"
    robust: bool = False

    def __init__(
        self,
        n_components: int | None = None,
        *,
        kernel: Any = "linear",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        alpha: float = 1.0,
        fit_inverse_transform: bool = False,
        eigen_solver: str = "auto",
        tol: float = 0,
        max_iter: int | None = None,
        iterated_power: int | str = "auto",
        remove_zero_eig: bool = False,
        random_state: Any = None,
        copy_X: bool = True,
        n_jobs: int | None = None,
        basis: Any = 1000,
    ):
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.alpha = alpha
        self.fit_inverse_transform = fit_inverse_transform
        self.eigen_solver = eigen_solver
        self.tol = tol
        self.max_iter = max_iter
        self.iterated_power = iterated_power
        self.remove_zero_eig = remove_zero_eig
        self.random_state = random_state
        self.copy_X = copy_X
        self.n_jobs = n_jobs
        self.basis = basis

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        until: float | None = None,
        confidence: float = 0.99,
    ) -> Self:
        """Learn all rows at hand, anew.

        Parameters
        ----------
        X : array of shape (n, d), dense or CSR
        y : ignored
        sample_weight : array of shape (n,) or None
            Not in scikit-learn's: how much each row counts.
        until : float or None
            Not in scikit-learn's: rows are drawn at random, as many as are needed, as in
            :meth:`StreamingKernelPCA.fit`.
        confidence : float
            With which that is to be true.
        """
        check_choice("eigen_solver", self.eigen_solver, ("auto", "dense", "arpack", "randomized"))
        super().fit(X, y, sample_weight, until=until, confidence=confidence)
        if self.n_components is not None:
            shown = min(int(self.n_components), self.n_samples_seen_)
            if self.remove_zero_eig:
                positive = int(np.sum(to_host(self.explained_variance_) > 0.0))
                shown = max(1, min(shown, positive))
            if shown < int(self.n_components):
                self.set_stream(self._showing(shown))
        return self

    def inverse_transform(self, X: Any, return_report: bool = False) -> Any:
        """Inputs for scores, if ``fit_inverse_transform`` was set.

        As scikit-learn does it: a kernel ridge regression of the points on their scores, with the
        kernel of the model applied to scores.

        Parameters
        ----------
        X : array of shape (n, r)
        return_report : bool
            The report of ``preimage="auto"``, as in :class:`StreamingKernelPCA`.
        """
        if not self.fit_inverse_transform:
            raise NotFittedError(
                "The fit_inverse_transform parameter was not set to True when instantiating and "
                "hence the inverse transform is not available."
            )
        if return_report:
            return super().inverse_transform(X, return_report)
        return self._of_scores(inputs.given_scores(self.stream_, X))

    def _of_scores(self, scores: Array) -> Array:
        shown = self.stream_.components
        points = shown.points
        theirs = shown.scores(points)
        kernel, xp = shown.kernel, namespace_of(theirs)
        K = to_float64(kernel.block(theirs, theirs))
        K = K + self.alpha * like(np.eye(int(K.shape[0])), K)
        coefficients = xp.linalg.solve(K, to_float64(as_dense(points)))
        found = to_float64(kernel.block(cast(scores, theirs.dtype), theirs)) @ coefficients
        return cast(found, scores.dtype)

    @property
    def gamma_(self) -> float:
        """The gamma of the kernel, given or 1 / n_features."""
        return 1.0 / self.n_features_in_ if self.gamma is None else float(self.gamma)

    def _resolved_kernel(self, n_features: int) -> Kernel:
        name, gamma = self.kernel, 1.0 / n_features if self.gamma is None else self.gamma
        if isinstance(name, Kernel):
            return kernels.resolve(name, self.gamma)
        if not isinstance(name, str):
            return kernels.resolve(OfTwoRows(name, self.kernel_params or {}))
        if name == "precomputed":
            back = "Cannot fit_inverse_transform with a precomputed kernel. "
            raise ValueError((back if self.fit_inverse_transform else "") + NO_MATRIX)
        if name in ("poly", "polynomial") and float(self.degree).is_integer():
            return kernels.Polynomial(degree=int(self.degree), gamma=gamma, coef0=self.coef0)
        if name == "sigmoid":
            return kernels.Sigmoid(gamma=gamma, coef0=self.coef0)
        if name in PAIRWISE_KERNEL_FUNCTIONS and (name not in kernels.NAMES or name == "poly"):
            given = {"gamma": gamma, "degree": self.degree, "coef0": self.coef0}
            return kernels.resolve(OfTwoRows(name, given))
        has_gamma = name in kernels.NAMES and "gamma" in kernels.NAMES[name]().get_params()
        return kernels.resolve(name, gamma if has_gamma else None)


class OfTwoRows:
    """A kernel as scikit-learn knows it: a function of two rows, or a name and its parameters."""

    def __init__(self, metric: Any, parameters: dict[str, Any]):
        self.metric, self.parameters = metric, parameters

    def __call__(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """Kernel values of all pairs."""
        return np.asarray(
            pairwise_kernels(X, Y, metric=self.metric, filter_params=True, **self.parameters),
            dtype=float,
        )
