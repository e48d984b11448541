"""Incremental kernel PCA (Chin and Suter 2006)."""

from __future__ import annotations

from typing import Any

from kernelstream import bases, trackers
from kernelstream.estimators.paper import PaperMethod


class IncrementalKernelPCA(PaperMethod):
    """Incremental SVD with an update of the mean, over all rows or over a reduced set of points.

    Parameters
    ----------
    n_components : int, float or None
        Components kept after each block; None (or a share of the variance) cuts nothing off.
    kernel : str, Kernel or callable
        As in :class:`StreamingKernelPCA`.
    gamma : float, str or None
        Width of a kernel given by name.
    n_points : int or None
        Points to which the expansions are compressed after each block; None keeps all rows, and
        the model (with ``n_components=None``) is batch kernel PCA of all rows seen.
    batch_size : int
        Rows in a block, the paper's c.
    center : bool
        Whether the mapped data is centred.
    random_state : int, RandomState or None
        Nothing is drawn; for uniformity with the other estimators.

    Notes
    -----
    The sizes in the paper's face experiment (n = 10 pre-images, r = 36) cannot hold with its
    ``(r + 1) n'`` pre-images; the number of points is a budget of its own here.

    References
    ----------
    Chin, Suter, "Incremental kernel PCA for efficient non-linear feature extraction", BMVC 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import KernelPCA
    >>> from kernelstream import IncrementalKernelPCA
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> model = IncrementalKernelPCA(gamma=0.5).fit(X)
    >>> exact = KernelPCA(kernel="rbf", gamma=0.5, remove_zero_eig=True).fit(X)
    >>> bool(np.allclose(model.eigenvalues_[:20], exact.eigenvalues_[:20], rtol=1e-8))
    True
    """

    def __init__(
        self,
        n_components: int | float | None = None,
        *,
        kernel: Any = "rbf",
        gamma: float | str | None = None,
        n_points: int | None = None,
        batch_size: int = 30,
        center: bool = True,
        random_state: Any = None,
    ):
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.n_points = n_points
        self.batch_size = batch_size
        self.center = center
        self.random_state = random_state

    def _basis_and_tracker(self) -> tuple[bases.Basis, trackers.Tracker]:
        basis = bases.ReducedSet(self.n_points)
        return bases.resolve(basis), trackers.resolve(trackers.IncrementalSVD())
