"""Exact kernel PCA: every linearly independent row becomes a landmark."""

from __future__ import annotations

import numpy as np

from kernelstream.arrays.draws import generator
from kernelstream.arrays.namespaces import Array, like, to_host
from kernelstream.kernels import Kernel
from kernelstream.landmarks.growing import Growing, GrowingState
from kernelstream.serialization import stored
from kernelstream.serialization.part import check_count


@stored
class Everything(Growing):
    """All rows, less those that lie in the span of the earlier ones.

    The model is then exact kernel PCA of all rows seen: the same as
    ``sklearn.decomposition.KernelPCA``, reached one row at a time. Memory grows with the square of
    the number of independent rows. With :class:`~kernelstream.papers.Hebbian` it is the growing
    expansion of Kim et al. (2003, appendix A).

    Parameters
    ----------
    start : int or None
        Number of points that are there before any row: drawn at random in the ball around the
        first 100 rows (their mean, and the largest distance from it). An iterative tracker starts
        from them, as Kim et al. propose (appendix A.1): ``n_components`` points for most kernels
        and, for Gaussians so narrow that rows hardly see each other, enough to cover the ball,
        together with ``papers.Hebbian(spread=True)``. None: components start at the first rows,
        which see the data by themselves.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA, landmarks
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> model = StreamingKernelPCA(2, kernel="linear", basis=landmarks.Everything()).partial_fit(X)
    >>> len(model.basis_points_)  # a linear kernel has three directions here
    3
    """

    def __init__(self, start: int | None = None):
        self.start = start

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""
        check_count("Everything", "start", self.start)

    def start_rows(self) -> int:
        """Enough rows to know where the data is, if points are drawn there."""
        return 1 if self.start is None else 100

    def begin(
        self, kernel: Kernel, X: Array, weights: np.ndarray | None, seed: int, wanted: int = 0
    ) -> GrowingState:
        """Start with no points, or with random ones from the ball around the rows."""
        nothing = super().begin(kernel, X, weights, seed)
        if self.start is None:
            return nothing
        rows = to_host(X).astype(float)
        centre = rows.mean(axis=0)
        radius = np.sqrt(((rows - centre) ** 2).sum(axis=1).max())
        rng = generator(seed, "start")
        # uniform in the ball: a direction, and a radius whose d-th power is uniform
        directions = rng.normal(size=(self.start, rows.shape[1]))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        lengths = radius * rng.random(self.start) ** (1.0 / rows.shape[1])
        points = like(centre + lengths[:, None] * directions, X, X.dtype)
        return self.offer(kernel, nothing, points, seed)[0]

    def admissible(
        self, residual: np.ndarray, energy: np.ndarray, coherence: np.ndarray | None
    ) -> np.ndarray:
        """Whether there is anything new at all; dependent rows are left out for all bases."""
        return residual > 0
