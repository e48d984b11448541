"""Slow twin of randomly pivoted Cholesky: the whole residual matrix, one pivot after the other."""

from __future__ import annotations

import numpy as np


def pivots(K: np.ndarray, count: int, draws: np.ndarray, weights: np.ndarray) -> list[int]:
    """Algorithm 1 of Chen, Epperly, Tropp and Webber (2024) on the kernel matrix K of all rows.

    ``A ← A − a_s a_sᵀ/A_ss`` for each pivot s. ``draws`` are uniform in [0, 1): the pivot is the
    first row at which the sum of the probabilities exceeds the draw.
    """
    A = K.copy()
    chosen: list[int] = []
    for u in draws[:count]:
        left = np.where(np.diag(A) > 1e-9 * np.diag(K), weights * np.diag(A), 0.0)
        left[chosen] = 0.0
        if not left.sum() > 0.0:
            break
        s = next(i for i in range(len(A)) if left[: i + 1].sum() > u * left.sum())
        A = A - np.outer(A[:, s], A[s]) / A[s, s]
        chosen.append(s)
    return chosen
