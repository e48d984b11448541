"""Coherence criterion: a row becomes a landmark if its similarity to all landmarks is low."""

from __future__ import annotations

import numpy as np

from kernelstream.landmarks.growing import Growing, check_exchange
from kernelstream.serialization import stored
from kernelstream.serialization.part import check_count, check_number


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
    exchange : int or None
        With a number of rows, a full dictionary moves with the stream: at the end of a block, a row
        that the criterion would admit takes the place of the point that the last so many rows
        needed least, if they needed it less than the row itself needs one (after Washizawa's adding
        and exchanging). None keeps points for ever.
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

    uses_coherence = True

    def __init__(
        self,
        delta: float = 0.95,
        max_points: int | None = 2000,
        first: int = 1,
        exchange: int | None = None,
        cosines: bool = True,
    ):
        self.delta = delta
        self.max_points = max_points
        self.first = first
        self.exchange = exchange
        self.cosines = cosines

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""
        if not isinstance(self.cosines, bool | np.bool_):
            raise ValueError(f"Coherence: cosines must be True or False, got {self.cosines!r}.")
        if self.cosines:
            check_number("Coherence", "delta", self.delta, above=0, below=1)
        else:
            check_number("Coherence", "delta", self.delta)
        check_count("Coherence", "max_points", self.max_points)
        check_count("Coherence", "first", self.first, none_allowed=False)
        check_exchange("Coherence", self.exchange, self.max_points)

    def admissible(
        self, residual: np.ndarray, energy: np.ndarray, coherence: np.ndarray | None
    ) -> np.ndarray:
        """Whether the largest cosine (or kernel value) to a point is at most δ."""
        assert coherence is not None  # uses_coherence
        return (coherence <= self.delta) & (energy > 0)

    def resemblance(
        self, K: np.ndarray, energy: np.ndarray, energies: np.ndarray | float
    ) -> np.ndarray:
        """The cosine of a row and a point, or the bare kernel value of eq. (7)."""
        return super().resemblance(K, energy, energies) if self.cosines else K
