"""Imputation algorithm: local means, masked and robust pre-images; repair of gross errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from kernelstream.serialization.part import check_choice

# A residual of this many deviations has a quarter of the trust of a small one, and counts for less
# and less beyond: of 3, 4, 6 and 10 the one that did best on faces and digits with a tenth to a
# third of their pixels black or white, and with a third of their side covered.
BEND = 4.0
MEDIAN_OF_NORMAL = 0.6745  # of |x|, for a standard normal x
LEAST_UNIT = 0.1  # of the columns' common spread: a column that hardly varies has no tiny unit
NEAREST = 5  # points, whose distance is the bandwidth of a local mean
EXACT = 1e-3  # of a unit: rows that a model fits better have residuals of rounding, no outliers


@dataclass(frozen=True)
class Repaired:
    """Rows after repair, and how far each entry was trusted.

    Attributes
    ----------
    X : array of shape (n, d)
        The rows: entries as they were given where they are trusted, those of the model elsewhere.
    model : array of shape (n, d)
        What the model says of every entry: the pre-image of the projection of ``X``.
    trust : array of shape (n, d)
        From 0 (missing, or far off) to 1.
    converged : array of shape (n,), bool
        Whether the row came to rest.
    n_iter : array of shape (n,), int
        Projections that were made.
    """

    X: np.ndarray
    model: np.ndarray
    trust: np.ndarray
    converged: np.ndarray
    n_iter: np.ndarray


def repair(
    X: np.ndarray,
    project: Callable[[np.ndarray], np.ndarray],
    points: np.ndarray,
    mask: np.ndarray | None = None,
    loss: str = "squared",
    max_iter: int = 50,
    tol: float = 1e-3,
) -> Repaired:
    """Impute missing values of rows, and replace gross errors, by the pre-images of a model.

    A missing entry has weight 0 in ``Σ_j w_j (x_j − p_j)²``, where p is the pre-image of the
    projection of a row; :func:`impute` minimizes it. The search starts at the mean of the
    landmarks near the row in its known entries, with ``loss="robust"`` at the nearest landmark.

    With ``loss="robust"`` the weight of a known entry is that of Geman and McClure,
    ``1/(1 + (r/cs)²)²`` with the residual r in units of its column, s 1.48 times the median of
    ``|r|`` over the row, and c = 4. At most a third of the entries may be gross errors.

    Parameters
    ----------
    X : array of shape (n, d)
        Rows. NaN is a missing value.
    project : callable
        From rows without missing values (n, d) to their reconstructions (n, d).
    points : array of shape (m, d)
        Rows to start from, such as the landmarks; their spread is the unit of a column.
    mask : array of shape (n, d) or (d,), bool, optional
        True where an entry is missing or has to be ignored.
    loss : "squared" or "robust"
        Whether all known entries are trusted, or only those that agree with most others.
    max_iter : int
        Largest number of projections of a row.
    tol : float
        A row is finished when it moves by less than this, in units of its columns.

    Returns
    -------
    Repaired

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import preimages
    >>> line = np.ones((1, 4)) / 2.0  # the model: all entries are equal
    >>> points = np.arange(5.0)[:, None] * np.ones(4)
    >>> rows = np.array([[2.0, np.nan, 2.0, 2.0]])
    >>> preimages.repair(rows, lambda Z: (Z @ line.T) @ line, points).X.round(2)
    array([[2., 2., 2., 2.]])
    """
    check_choice("loss", loss, ("squared", "robust"))
    known = known_entries(X, mask)
    unit = column_units(points)
    given = np.where(known, X, 0.0)
    if loss == "squared":
        start = np.where(known, X, local_means(given, known, points, unit))
    else:
        start = nearest(given, known, points, unit)
    return impute(given, known, start, project, unit, loss, max_iter, tol)


def impute(
    X: np.ndarray,
    known: np.ndarray,
    start: np.ndarray,
    project: Callable[[np.ndarray], np.ndarray],
    unit: np.ndarray,
    loss: str = "squared",
    max_iter: int = 50,
    tol: float = 1e-3,
) -> Repaired:
    """Alternate projection and imputation, ``z ← w∘x + (1 − w)∘p(z)``, from a start.

    A step of expectation and maximization, or of iteratively reweighted least squares where the
    weights follow the residuals (``loss="robust"``).
    """
    z, model, trust = start.copy(), project(start), known.astype(float)
    # Where nothing is missing and all is trusted there is nothing to search for.
    converged = np.all(known, axis=1) & (loss == "squared")
    n_iter = np.ones(len(X), dtype=int)
    rows = np.flatnonzero(~converged)
    for step in range(2, max_iter + 1):
        if not len(rows):
            break
        w = weights_of(X[rows], model[rows], known[rows], unit, loss)
        filled = w * X[rows] + (1.0 - w) * model[rows]
        near = np.sqrt(np.mean(((filled - z[rows]) / unit) ** 2, axis=1)) <= tol
        z[rows], model[rows], trust[rows] = filled, project(filled), w
        converged[rows], n_iter[rows] = near, step
        rows = rows[~near]
    # Missing values come from the last reconstruction, that of the rows which are returned.
    return Repaired(trust * X + (1.0 - trust) * model, model, trust, converged, n_iter)


def known_entries(X: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    """Which entries are there, (n, d); raises in words for a mask of another shape."""
    there = ~np.isnan(X)
    if mask is None:
        return there
    mask = np.asarray(mask)
    if mask.dtype.kind != "b" or mask.shape not in (X.shape, X.shape[1:]):
        raise ValueError(
            f"mask must be of type bool and of shape {X.shape} or {X.shape[1:]}, True where an "
            f"entry is missing; got {mask.dtype} of shape {mask.shape}."
        )
    return there & ~mask


def column_units(points: np.ndarray) -> np.ndarray:
    """The standard deviation of each column, and a little of what all columns have in common.

    In these units columns can be compared, those that are constant included.

    Parameters
    ----------
    points : array of shape (n, d)
        Rows.

    Examples
    --------
    >>> column_units(np.array([[0.0, 1.0], [6.0, 1.0]])).round(3)
    array([3.007, 0.212])
    """
    variance = np.var(points, axis=0)
    common = float(variance.mean())
    return np.sqrt(variance + LEAST_UNIT**2 * common) if common > 0 else np.ones(len(variance))


def local_means(
    X: np.ndarray, known: np.ndarray, points: np.ndarray, unit: np.ndarray
) -> np.ndarray:
    """Means of the points near each row in its known entries; all columns, also known ones.

    Weights are those of an RBF kernel whose bandwidth is the distance to the nearest few points:
    with more points the mean gets more local.
    """
    rows, D = np.where(known, X, 0.0) / unit, points / unit
    squared = (rows**2).sum(axis=1)[:, None] - 2.0 * rows @ D.T + known.astype(float) @ (D**2).T
    squared = np.maximum(squared, 0.0)
    few = min(NEAREST, squared.shape[1]) - 1
    bandwidth = np.partition(squared, few, axis=1)[:, few][:, None]
    with np.errstate(over="ignore"):
        weights = np.exp(-squared / np.maximum(bandwidth, np.finfo(float).tiny))
    weights[~known.any(axis=1)] = 1.0
    return weights @ points / weights.sum(axis=1)[:, None]


def nearest(X: np.ndarray, known: np.ndarray, points: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """The nearest point of each row by absolute differences: one gross error does not decide."""
    D = points / unit
    distance = cdist(X / unit, D, "cityblock") - (~known).astype(float) @ np.abs(D).T
    return points[np.argmin(distance, axis=1)]


def weights_of(
    X: np.ndarray, model: np.ndarray, known: np.ndarray, unit: np.ndarray, loss: str
) -> np.ndarray:
    """How far each entry is trusted."""
    if loss == "squared":
        return known.astype(float)
    residual = np.where(known, np.abs(X - model) / unit, np.nan)
    some = np.flatnonzero(np.any(known, axis=1))
    scale = np.ones(len(X))
    scale[some] = np.nanmedian(residual[some], axis=1) / MEDIAN_OF_NORMAL
    ratio = residual / (BEND * np.maximum(scale, EXACT)[:, None])
    return np.where(known, (1.0 + np.nan_to_num(ratio) ** 2) ** -2.0, 0.0)
