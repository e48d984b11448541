"""Criteria by which rows become landmarks: distance, coherence, and any independent row."""

from __future__ import annotations

import numpy as np

from kernelstream.arrays.draws import generator
from kernelstream.arrays.namespaces import Array, like, to_host
from kernelstream.kernels import Kernel
from kernelstream.landmarks.base import Start
from kernelstream.landmarks.growing import Growing, GrowingState
from kernelstream.serialization import stored
from kernelstream.serialization.part import check_count, check_number


@stored
class Distance(Growing):
    """Points that are far from the span of the others (Honeine 2012, eqs. 10–11).

    A row is admitted when ``ε(x) = min_β |φ(x) − Σ β_k φ(d_k)|² > ν``. The criterion is also known
    as approximate linear dependence. In the paper ε in (10)–(11) is the squared distance and is
    called ε² in Table 2; ν is compared with the squared distance. While there is room for points,
    every missed energy is at most ν; the order stays finite on bounded data (Lemma 2).

    Parameters
    ----------
    nu : float
        Threshold on the squared distance, a number of the size of k(x, x): below 1 for an RBF
        kernel.
    max_points : int or None
        No point is admitted once there are this many.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA, landmarks
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = StreamingKernelPCA(2, gamma=0.5, basis=landmarks.Distance(nu=0.1)).partial_fit(X)
    >>> len(model.basis_points_) < 60
    True
    """

    def __init__(self, nu: float = 0.1, max_points: int | None = 2000):
        self.nu = nu
        self.max_points = max_points

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""
        check_number("Distance", "nu", self.nu)
        super().check()

    def admissible(
        self, residual: np.ndarray, energy: np.ndarray, similarity: np.ndarray | None
    ) -> np.ndarray:
        """Whether the squared distance exceeds ν."""
        return residual > self.nu


@stored
class Coherence(Growing):
    """Points that do not resemble each other (Tanaka, Washizawa, Kuh; Richard, Bermudez, Honeine).

    A row is admitted when ``max_k |k(x, d_k)| / √(k(x,x) k(d_k,d_k)) ≤ δ``. The normalisation makes
    the criterion one of angles for kernels of any norm; for unit-norm kernels it is the papers'
    ``max_k |k(x, d_k)| ≤ δ``. A row that lies in the span of the points is never admitted, however
    small its coherence: it would add no direction.

    Parameters
    ----------
    delta : float
        Largest cosine allowed between two points, in (0, 1).
    max_points : int or None
        No point is admitted once there are this many.
    first : int
        The first so many independent rows become points whatever their coherence: Ψ[0] of Tanaka,
        Washizawa and Kuh, who take as many as there are components.
    cosines : bool
        False compares ``max_k k(x, d_k) ≤ δ`` as eq. (7) of Tanaka, Washizawa and Kuh is printed:
        without absolute values and without norms. For positive kernels of unit norm both are the
        same.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA, landmarks
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = StreamingKernelPCA(2, gamma=0.5, basis=landmarks.Coherence(0.5)).partial_fit(X)
    >>> D = model.basis_points_
    >>> bool(np.max(model.kernel_(D) - np.eye(len(D))) <= 0.5)
    True
    """

    def __init__(
        self,
        delta: float = 0.95,
        max_points: int | None = 2000,
        first: int = 1,
        cosines: bool = True,
    ):
        self.delta = delta
        self.max_points = max_points
        self.first = first
        self.cosines = cosines

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""
        if not isinstance(self.cosines, bool | np.bool_):
            raise ValueError(f"Coherence: cosines must be True or False, got {self.cosines!r}.")
        if self.cosines:
            check_number("Coherence", "delta", self.delta, above=0, below=1)
        else:
            check_number("Coherence", "delta", self.delta)
        check_count("Coherence", "first", self.first, none_allowed=False)
        super().check()

    def admissible(
        self, residual: np.ndarray, energy: np.ndarray, similarity: np.ndarray | None
    ) -> np.ndarray:
        """Whether the largest cosine (or kernel value) to a point is at most δ."""
        assert similarity is not None
        return (similarity <= self.delta) & (energy > 0)

    def similarities(
        self, K: Array, energy: np.ndarray, energies: np.ndarray | float
    ) -> np.ndarray:
        """Cosines ``|k(x,d)| / √(k(x,x) k(d,d))`` of rows and landmarks, or the values of eq. (7).

        Rows of zero norm are similar to everything.
        """
        values = to_host(K)
        if not self.cosines:
            return values
        # the root of each factor: the product of two energies may leave the range of float64
        norms = np.sqrt(energy) * np.sqrt(energies)
        return np.divide(np.abs(values), norms, out=np.ones_like(values), where=norms > 0)


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

    def start_rows(self, of_all: bool = False) -> int:
        """Enough rows to know where the data is, if landmarks are drawn there."""
        return 1 if self.start is None else 100

    def begin(self, kernel: Kernel, start: Start) -> GrowingState:
        """Start with no landmarks, or with random ones from the ball around the rows."""
        nothing = super().begin(kernel, start)
        if self.start is None:
            return nothing
        rows = to_host(start.X).astype(float)
        center = rows.mean(axis=0)
        radius = np.sqrt(((rows - center) ** 2).sum(axis=1).max())
        rng = generator(start.seed, "start")
        # uniform in the ball: a direction, and a radius whose d-th power is uniform
        directions = rng.normal(size=(self.start, rows.shape[1]))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        lengths = radius * rng.random(self.start) ** (1.0 / rows.shape[1])
        points = like(center + lengths[:, None] * directions, start.X, start.X.dtype)
        return self.offer(kernel, nothing, points, start.seed)[0]

    def admissible(
        self, residual: np.ndarray, energy: np.ndarray, similarity: np.ndarray | None
    ) -> np.ndarray:
        """Whether there is anything new at all; dependent rows are left out for all bases."""
        return residual > 0
