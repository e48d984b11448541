"""Contributions of variables to an anomaly score: gradient, mean curvature, fault size, ranking.

Moving variable j by δ changes M by about g_j δ + h_j δ²/2, with g_j its slope and h_j its mean
curvature over normal rows. The best step is δ = −g_j/h_j and lowers M by g_j²/(2h_j): the
contribution is ``g_j²/h_j``, the size of the fault in the variable ``g_j/h_j``, with its sign. The
slope alone points at whatever variable the index is most sensitive to.

Slopes are averaged over the rows of an event before they are squared: the noise of single rows
cancels, the fault does not. With lags a variable is moved in the row and in its past alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelstream.anomaly.monitor.normal import TINIEST, Normal, Product, row_dots, rows_times
from kernelstream.arrays import evenly_spaced, prints_short

MOST_ROWS = 64  # over which the curvature is averaged


@prints_short
@dataclass(frozen=True, eq=False)
class Contributions:
    """What each variable adds to the index, and by how much it is off.

    Attributes
    ----------
    names : tuple of str
        The variables.
    values : array of shape (d,)
        g²/h: twice what the index would lose, to second order, if the variable were set right.
    sizes : array of shape (d,)
        About how far the variable is from where the others expect it, in the units of the data.

    Examples
    --------
    >>> import numpy as np
    >>> causes = Contributions(("a", "b"), np.array([1.0, 9.0]), np.array([0.2, -3.0]))
    >>> causes.ranking()
    [('b', 9.0, -3.0), ('a', 1.0, 0.2)]
    """

    names: tuple[str, ...]
    values: np.ndarray
    sizes: np.ndarray

    def ranking(self) -> list[tuple[str, float, float]]:
        """Variables with contribution and size, the largest contribution first."""
        order = np.argsort(-self.values, kind="stable")
        return [(self.names[j], float(self.values[j]), float(self.sizes[j])) for j in order]

    def __str__(self) -> str:
        top = ", ".join(f"{name} {size:+.3g}" for name, _, size in self.ranking()[:3])
        return f"off by: {top}"


def slopes(
    normal: Normal, curvature: np.ndarray, R: np.ndarray, product: Product = rows_times
) -> np.ndarray:
    """∂M of each row with respect to each variable in reference units, lags summed, (n, d).

    As if M were quadratic: rows far out are drawn back for the gradient, whose length is then
    stretched again; and where M rises faster than its curvature C over normal rows says, by
    a = uᵀg / uᵀCu > 1 along the ray from the centre, the gradient is divided by a. Neither changes
    which variable is first in a row; both keep sizes and averages in proportion.
    """
    U = normal.whitening.apply(R, product)
    G, stretch = normal.index.gradient(U, product)
    U = U / stretch[:, None]
    steepness = row_dots(U, G) / np.maximum(row_dots(U, product(U, curvature)), TINIEST)
    # as gradients with respect to lagged rows
    G = product(G, normal.whitening.whitener.T) * (stretch / np.maximum(steepness, 1.0))[:, None]
    return G.reshape(len(R), -1, normal.n_features).sum(axis=1)


def mean_curvature(normal: Normal, R: np.ndarray) -> np.ndarray:
    """∂²M/∂u∂uᵀ averaged over normal rows that are spread over those given."""
    chosen = R[evenly_spaced(len(R), MOST_ROWS, nearest=True)]
    return normal.index.curvature(normal.whitening.apply(chosen, np.matmul))


def stiffness(normal: Normal, curvature: np.ndarray) -> np.ndarray:
    """h_j: the mean curvature of M along each variable in reference units, lags moved alike.

    ``curvature`` belongs to whitened rows, whose law adaptation keeps: with the present whitening
    it is the present curvature.
    """
    W = normal.whitening.whitener
    W = W.reshape(-1, normal.n_features, W.shape[1]).sum(axis=0)
    h = np.sum((W @ curvature) * W, axis=1)
    # at least a millionth of the largest: a variable that hardly matters has no huge size
    return np.maximum(h, 1e-6 * max(float(h.max()), np.finfo(float).tiny))


def contributions(
    slope: np.ndarray, h: np.ndarray, unit: np.ndarray, names: tuple[str, ...]
) -> Contributions:
    """Contributions from the (mean) slope of a row or an event; sizes in the units of the data."""
    return Contributions(names, slope**2 / h, slope / h * unit)
