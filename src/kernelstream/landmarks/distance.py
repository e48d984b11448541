"""Distance criterion (Honeine): a row becomes a landmark if its squared residual exceeds nu."""

from __future__ import annotations

import numpy as np

from kernelstream.landmarks.growing import Growing, check_exchange
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
    exchange : int or None
        With a number of rows, a full dictionary moves with the stream: at the end of a block, a row
        that the criterion would admit takes the place of the point that the last so many rows
        needed least, if they needed it less than the row itself needs one (after Washizawa's adding
        and exchanging). None keeps points for ever.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA, landmarks
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = StreamingKernelPCA(2, gamma=0.5, basis=landmarks.Distance(nu=0.1)).partial_fit(X)
    >>> len(model.basis_points_) < 60
    True
    """

    def __init__(self, nu: float = 0.1, max_points: int | None = 2000, exchange: int | None = None):
        self.nu = nu
        self.max_points = max_points
        self.exchange = exchange

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""
        check_number("Distance", "nu", self.nu)
        check_count("Distance", "max_points", self.max_points)
        check_exchange("Distance", self.exchange, self.max_points)

    def admissible(
        self, residual: np.ndarray, energy: np.ndarray, coherence: np.ndarray | None
    ) -> np.ndarray:
        """Whether the squared distance exceeds ν."""
        return residual > self.nu
