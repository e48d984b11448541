"""Slow twins of the image models: one pixel, one patch, one sum at a time."""

from __future__ import annotations

import numpy as np


def expected_clipped(c, variance):
    """E clip(c + n, 0, 1) by quadrature."""
    n = np.linspace(-12, 12, 200_001) * np.sqrt(variance)
    density = np.exp(-(n**2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
    return float(np.trapezoid(np.clip(c + n, 0, 1) * density, n))


def stein_ridge(X, queries, D, P, mean, v, gamma, alpha):
    """The regression of the clean image on k, from noisy images, as the formula has it.

    ``E[k cᵀ] = E[k xᵀ] − 2γv (diag(E k) D − E[k aᵀ]) Pᵀ``; ridge in the coordinates z = Fᵀk.
    """

    def features(rows):
        a = (rows - mean) @ P
        return a, np.array([[np.exp(-gamma * np.sum((x - d) ** 2)) for d in D] for x in a])

    a, k = features(X)
    n = len(X)
    gram = np.array([[np.exp(-gamma * np.sum((x - d) ** 2)) for d in D] for x in D])
    lam, V = np.linalg.eigh(gram)
    F = V / np.sqrt(lam)
    with_clean = k.T @ X / n - 2 * gamma * v * (np.diag(k.mean(axis=0)) @ D - k.T @ a / n) @ P.T
    z = k @ F
    covariance = z.T @ z / n - np.outer(z.mean(axis=0), z.mean(axis=0))
    cross = F.T @ with_clean - np.outer(z.mean(axis=0), X.mean(axis=0))
    strength = alpha * np.linalg.eigvalsh(z.T @ z / n)[-1]
    B = np.linalg.solve(covariance + strength * np.eye(len(D)), cross)
    return X.mean(axis=0) + (features(queries)[1] @ F - z.mean(axis=0)) @ B


def patch_features(x, directions, width, floor, window):
    """``c[exp(−|u−d|²/2σ²) − exp(−|u+d|²/2σ²)]`` for every direction, then x."""
    side = round(np.sqrt(len(x)))
    c = np.sqrt(x @ x + floor**2)
    u = np.empty(len(x))
    for i in range(side):
        for j in range(side):
            away = (i - (side - 1) / 2) ** 2 + (j - (side - 1) / 2) ** 2
            u[i * side + j] = x[i * side + j] / c * np.exp(-away / (2 * window**2))
    odd = [
        c
        * (
            np.exp(-np.sum((u - d) ** 2) / (2 * width**2))
            - np.exp(-np.sum((u + d) ** 2) / (2 * width**2))
        )
        for d in directions
    ]
    return np.array([*odd, *x])


def upright(x):
    """That of sixteen positions whose middle and gradient are as they ought to be, and back."""
    for sign in (1, -1):
        for quarters in range(4):
            for mirrored in (False, True):
                y = sign * np.rot90(x, quarters)
                y = y[:, ::-1] if mirrored else y
                m = len(y) // 2
                right, down = y[m, m + 1] - y[m, m - 1], y[m + 1, m] - y[m - 1, m]
                if y[m, m] >= 0 and right >= down >= 0:
                    return (
                        y,
                        lambda block, sign=sign, q=quarters, flip=mirrored: (
                            sign * np.rot90(block[:, ::-1] if flip else block, -q)
                        ),
                    )
    raise ValueError("no position")


def detail(low, scale, features, B):
    """Predicted blocks around every pixel, averaged one pixel at a time."""
    rows, columns = low.shape
    total = np.zeros((rows * scale, columns * scale))
    count = np.zeros_like(total)
    padded = np.pad(low, 2, mode="symmetric")
    for i in range(rows):
        for j in range(columns):
            x = padded[i : i + 5, j : j + 5]
            y, back = upright(x - x.mean())
            block = back((features(y.ravel()) @ B).reshape(3 * scale, 3 * scale))
            for a in range(3 * scale):
                for b in range(3 * scale):
                    y, z = (i - 1) * scale + a, (j - 1) * scale + b
                    if 0 <= y < total.shape[0] and 0 <= z < total.shape[1]:
                        total[y, z] += block[a, b]
                        count[y, z] += 1
    return total / count


def reconstructed(image, side, tops, lefts, project):
    """Windows replaced one by one, the mean where they overlap."""
    total, count = np.zeros(image.shape), np.zeros(image.shape)
    for top in tops:
        for left in lefts:
            patch = image[top : top + side, left : left + side]
            total[top : top + side, left : left + side] += project(patch.ravel()).reshape(side, -1)
            count[top : top + side, left : left + side] += 1
    return total / count
