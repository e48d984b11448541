"""The coherence criterion: admit a row that no point resembles."""

from __future__ import annotations

import numpy as np

from kernelstream.bases.growing import Growing
from kernelstream.files import stored
from kernelstream.part import check_count, check_number


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

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA, bases
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = StreamingKernelPCA(2, gamma=0.5, basis=bases.Coherence(0.5)).partial_fit(X)
    >>> D = model.basis_points_
    >>> bool(np.max(model.kernel_(D) - np.eye(len(D))) <= 0.5)
    True
    """

    uses_coherence = True

    def __init__(self, delta: float = 0.95, max_points: int | None = 2000, first: int = 1):
        self.delta = delta
        self.max_points = max_points
        self.first = first

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""
        check_number("Coherence", "delta", self.delta, above=0, below=1)
        check_count("Coherence", "max_points", self.max_points)
        check_count("Coherence", "first", self.first, none_allowed=False)

    def admissible(
        self, residual: np.ndarray, energy: np.ndarray, coherence: np.ndarray | None
    ) -> np.ndarray:
        """Whether the largest cosine to a point is at most δ."""
        assert coherence is not None  # uses_coherence
        return (coherence <= self.delta) & (energy > 0)
