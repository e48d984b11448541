"""Slow twins of the pre-image methods: one feature-space point at a time, one sum at a time.

``k(x, y)`` is a function of two vectors here, and ``gamma`` is one row of coefficients.
"""

from __future__ import annotations

import numpy as np


def distance(k, x, points, gamma):
    """``|φ(x) − Σ γ_k φ(d_k)|²``, term by term."""
    total = k(x, x)
    for i in range(len(points)):
        total -= 2 * gamma[i] * k(x, points[i])
        for j in range(len(points)):
            total += gamma[i] * gamma[j] * k(points[i], points[j])
    return total


def start(k, points, gamma):
    """The basis point with the largest ⟨P, φ(d_j)⟩."""
    overlaps = [
        sum(gamma[i] * k(points[i], points[j]) for i in range(len(points)))
        for j in range(len(points))
    ]
    return points[int(np.argmax(overlaps))]


def fixed_point(k, slope, points, gamma, max_iter, tol):
    """Mika's iteration with halved steps; ``slope(r)`` is −κ' at the distance r, 0 at r = 0."""
    spread = np.sqrt(np.mean(np.sum((points - points.mean(axis=0)) ** 2, axis=1)))
    x = start(k, points, gamma)
    f = sum(gamma[i] * k(x, points[i]) for i in range(len(points)))
    step = 1.0
    for _ in range(max_iter):
        w = []
        for i in range(len(points)):
            r = np.linalg.norm(x - points[i])
            w.append(gamma[i] * slope(r))
        if sum(w) <= 1e-12 * sum(abs(v) for v in w):
            return x
        target = sum(w[i] * points[i] for i in range(len(points))) / sum(w)
        move = step * (target - x)
        f_new = sum(gamma[i] * k(x + move, points[i]) for i in range(len(points)))
        if f_new > f:
            x, f, step = x + move, f_new, 1.0
        else:
            step /= 2
        if np.linalg.norm(move) <= tol * spread:
            return x
    return x


def ridge(features, points, gamma, alpha):
    """Ridge regression from explicit features ``φ`` to the points, solved in primal form.

    ``alpha`` in units of the mean variance of the features.
    """
    Phi = np.array([features(d) for d in points])
    centred = Phi - Phi.mean(axis=0)
    strength = alpha * np.mean([row @ row for row in centred])
    B = np.linalg.solve(
        centred.T @ centred + strength * np.eye(Phi.shape[1]),
        centred.T @ (points - points.mean(axis=0)),
    )
    P = sum(gamma[i] * Phi[i] for i in range(len(points)))
    return points.mean(axis=0) + B.T @ (P - Phi.mean(axis=0))


def neighbours(k, invert, points, gamma, count):
    """Kwok and Tsang, section III: distances to neighbours, then a singular value decomposition."""
    energy = sum(
        gamma[i] * gamma[j] * k(points[i], points[j])
        for i in range(len(points))
        for j in range(len(points))
    )
    overlaps = [sum(gamma[i] * k(points[i], p) for i in range(len(points))) for p in points]
    feature = np.array([energy - 2 * o + 1 for o in overlaps])
    squared = np.array([invert(1 - f / 2) for f in feature])
    near = np.argsort(squared, kind="stable")[:count]
    X = points[near].T  # columns are neighbours, as in the paper
    mean = X.mean(axis=1, keepdims=True)
    U, s, Vt = np.linalg.svd(X - mean, full_matrices=False)
    rank = int(np.sum(s > 3e-2 * s[0]))
    Z = (s[:, None] * Vt)[:rank]  # coordinates of the neighbours
    own = np.sum(Z**2, axis=0)
    # −2 Z z = d² − d₀² (centred): eq. (14)
    z = 0.5 * (Vt[:rank] @ (own - squared[near])) / s[:rank]
    return (U[:, :rank] @ z) + mean[:, 0]
