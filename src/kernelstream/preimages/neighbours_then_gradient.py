"""Pre-images from nearest landmarks, refined by gradient descent (Kim et al.)."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelstream.arrays.namespaces import Array, take_rows, to_host
from kernelstream.preimages.base import Preimage, Report
from kernelstream.preimages.gradient import Gradient, objective
from kernelstream.preimages.neighbours import Neighbours
from kernelstream.serialization import stored


@stored
class NeighboursThenGradient(Preimage):
    """Steepest descent that starts where distances to neighbours point (Kim et al., section 4.2).

    Kim, Franz and Schölkopf minimise ``|P − φ(x)|²`` by gradient descent from the pre-image of Kwok
    and Tsang; the two methods are :class:`Neighbours` and :class:`Gradient`. Where distances say
    nothing, since P is far from every point (a narrow kernel, a row unlike all that was learned),
    they may point anywhere, and descent ends at a place that is worse than a point of the basis;
    then the point nearest to P is the start. The answer is never farther from P than that point.

    Parameters
    ----------
    n_neighbours : int, default=10
        Number of basis points that place the start.
    max_iter : int, default=200
        Most steps for a row.
    tol : float, default=1e-6
        A row is finished when it moves by less than ``tol`` times the spread of the basis points.

    Notes
    -----
    Works with the kernels that both methods know: RBF, Exponential, Matern, Linear, and Polynomial
    of odd degree.

    References
    ----------
    Kim, Franz, Schölkopf, "Kernel Hebbian algorithm for iterative kernel principal component
    analysis", Max Planck Institute for Biological Cybernetics, 2003.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import kernels, preimages
    >>> points = np.random.default_rng(0).normal(size=(30, 2))
    >>> P = np.full((1, 30), 1 / 30)  # the mean of the points, in feature space
    >>> kernel = kernels.RBF(gamma=0.2)
    >>> start = preimages.Neighbours().solve(kernel, points, P)[1]
    >>> end = preimages.NeighboursThenGradient().solve(kernel, points, P)[1]
    >>> bool(end[0] < start[0])
    True
    """

    searches = True

    def __init__(self, n_neighbours: int = 10, max_iter: int = 200, tol: float = 1e-6):
        self.n_neighbours = n_neighbours
        self.max_iter = max_iter
        self.tol = tol

    @property
    def _parts(self) -> tuple[Neighbours, Gradient]:
        return Neighbours(self.n_neighbours), Gradient(self.max_iter, self.tol)

    def check(self) -> None:
        """What both methods ask for."""
        for part in self._parts:
            part.check()

    def check_kernel(self, kernel: Any) -> None:
        """Only kernels that both methods know."""
        for part in self._parts:
            part.check_kernel(kernel)

    def _solve(self, kernel: Any, D: Array, G: Array, start: Array | None) -> Report:
        first, then = self._parts
        if start is not None:
            return then.report(kernel, D, G, start)
        found = then.report(kernel, D, G, first.solve(kernel, D, G)[0])
        values = to_host(kernel.diag(D)[None, :] - 2 * (G @ kernel.gram(D)))
        astray = np.flatnonzero(values.min(axis=1) < to_host(objective(kernel, D, G, found.X)))
        if len(astray) == 0:
            return found
        points = take_rows(D, values[astray].argmin(axis=1))
        return found.improve(astray, then.report(kernel, D, take_rows(G, astray), points))
