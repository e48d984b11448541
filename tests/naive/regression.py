"""Slow twins of the regression: rows are kept, matrices are formed and inverted."""

from __future__ import annotations

import numpy as np


def kernel_ridge(k, X, Y, queries, alpha, weights=None):
    """Weighted kernel ridge regression without intercept, by its dual form."""
    n = len(X)
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
    K = np.array([[k(a, b) for b in X] for a in X])
    # Σ w (y − Kc)² + α cᵀKc is least where (K + α W⁻¹) c = y
    c = np.linalg.solve(K + alpha * np.diag(1 / w), Y)
    return np.array([[k(q, b) for b in X] for q in queries]) @ c


def ridge(Z, Y, alpha, weights=None, intercept=True):
    """Coefficients and constant of least Σ w |y − b − Bᵀz|² + α |B|², one system for both."""
    w = np.ones(len(Z)) if weights is None else np.asarray(weights, dtype=float)
    design = np.column_stack([Z, np.ones(len(Z))]) if intercept else Z
    penalty = alpha * np.eye(design.shape[1])
    if intercept:
        penalty[-1, -1] = 0.0
    found = np.linalg.solve(design.T @ (w[:, None] * design) + penalty, design.T @ (w[:, None] * Y))
    return (found[:-1], found[-1]) if intercept else (found, np.zeros(Y.shape[1]))


def generalised_cross_validation(Z, Y, alpha, intercept=True):
    """``n RSS/(n − tr H)²`` with the hat matrix written out, each target over its variance."""
    n = len(Z)
    design = np.column_stack([Z, np.ones(n)]) if intercept else Z
    penalty = alpha * np.eye(design.shape[1])
    if intercept:
        penalty[-1, -1] = 0.0
    H = design @ np.linalg.solve(design.T @ design + penalty, design.T)
    left = Y - H @ Y
    variance = Y.var(axis=0) if intercept else np.mean(Y**2, axis=0)
    rss = np.sum(left**2, axis=0) / variance
    return n * np.sum(rss) / (n - np.trace(H)) ** 2
