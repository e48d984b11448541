"""Exact kernel PCA of a few rows, from their Gram matrix."""

from __future__ import annotations

import numpy as np

from kernelstream.arrays.namespaces import canonical_signs, symmetric_eigen
from kernelstream.stream.components import NO_VARIANCE


def weighted_centering(weights: np.ndarray, center: bool) -> np.ndarray:
    """The matrix H for which the rows of H φ are √wᵢ (φ(xᵢ) − μ), for weights of sum 1."""
    mean = weights[None, :] if center else np.zeros((1, len(weights)))
    return np.sqrt(weights)[:, None] * (np.eye(len(weights)) - mean)


def exact_variances(K: np.ndarray, center: bool) -> np.ndarray:
    """Variances of all components of rows with the Gram matrix K, largest first.

    Examples
    --------
    >>> exact_variances(np.diag([4.0, 2.0]), center=False)
    array([2., 1.])
    """
    H = weighted_centering(np.full(len(K), 1.0 / len(K)), center)
    return np.asarray(np.linalg.eigvalsh(H @ K @ H.T)[::-1])


def exact_components(
    K: np.ndarray, weights: np.ndarray, center: bool, kept: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients A of the unit components over the rows, and the offset b of their scores.

    The scores of the rows are K A − b, the largest of each component is positive. Components
    without variance are left out.

    Parameters
    ----------
    K : array of shape (n, n)
        Gram matrix.
    weights : array of shape (n,)
        Weights of the rows, in any unit.
    center : bool
        Whether components are those of the centered rows.
    kept : int or None
        The largest number of components; None is all.

    Examples
    --------
    >>> A, b = exact_components(np.diag([4.0, 2.0]), np.ones(2), False, 1)
    >>> A.ravel(), b
    (array([0.5, 0. ]), array([0.]))
    """
    if not weights.any():
        return np.zeros((len(K), 0)), np.zeros(0)
    weights = weights / weights.max()  # faded ones may be subnormal
    weights = weights / weights.sum()
    H = weighted_centering(weights, center)
    values, vectors = symmetric_eigen(H @ K @ H.T)
    real = values > NO_VARIANCE * max(values[0], np.finfo(float).tiny)
    A = H.T @ (vectors[:, real][:, :kept] / np.sqrt(values[real][:kept])[None, :])
    scores = K @ A
    offset = weights @ scores if center else np.zeros(A.shape[1])
    signs = canonical_signs(scores - offset)
    return A * signs, offset * signs
