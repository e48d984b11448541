"""The papers' rules as one would write them in NumPy: one row after the other, nothing clever.

They are what the library is measured against; for what it is checked against, see ``tests/``.
"""

from __future__ import annotations

import numpy as np


def kernel_hebbian_rows(
    A: np.ndarray, X: np.ndarray, gamma: float, eta: float, rows: np.ndarray, mean: np.ndarray
) -> np.ndarray:
    """Kim, Franz, Schölkopf, eqs. (10)–(13), for some rows of an epoch: O(r l) memory traffic each.

    ``mean`` are the k̄ of eq. (13), which an epoch has at hand. The kernel row is computed when it
    is needed; that is the smaller part of the work.
    """
    A = A.copy()
    squares = (X**2).sum(axis=1)
    for j in rows:
        column = np.exp(-gamma * (squares + squares[j] - 2.0 * X @ X[j])) - mean
        y = A @ column - A.sum(axis=1) * column.mean()
        A -= eta * (np.tril(np.outer(y, y)) @ A)
        A[:, j] += eta * y
    return A


class PerSample:
    """Coordinates of a row in the span of given points, less the running mean."""

    def __init__(self, points: np.ndarray, gamma: float, components: int):
        self.points, self.gamma = points, gamma
        differences = ((points[:, None, :] - points[None, :, :]) ** 2).sum(axis=2)
        lam, U = np.linalg.eigh(np.exp(-gamma * differences))
        kept = lam > 1e-10 * lam[-1]
        self.F = U[:, kept] / np.sqrt(lam[kept])
        self.V = np.eye(self.F.shape[1], components)
        self.total, self.n = np.zeros(self.F.shape[1]), 0

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """``Fᵀ k(D, x)``."""
        k = np.exp(-self.gamma * ((self.points - x) ** 2).sum(axis=1))
        return k @ self.F

    def learn(self, x: np.ndarray) -> None:
        """Update with one row."""
        raise NotImplementedError


class Hebbian(PerSample):
    """Sanger's rule (Honeine, eq. 19) with a decreasing step."""

    def learn(self, x: np.ndarray) -> None:
        z = self.coordinates(x)
        self.n += 1
        self.total += z
        z -= self.total / self.n
        y = self.V.T @ z
        eta = 0.5 / (1.0 + self.n / 1000.0)
        self.V += eta * (np.outer(z, y) - self.V @ np.triu(np.outer(y, y)))


class RLS(PerSample):
    """Tanaka, Washizawa, Kuh, algorithm 2; Gram–Schmidt by LAPACK's QR, the fastest form here."""

    def __init__(self, points: np.ndarray, gamma: float, components: int):
        super().__init__(points, gamma, components)
        self.Q, self.omega, self.beta = np.eye(components), np.linspace(1.0, 0.5, components), 0.98

    def learn(self, x: np.ndarray) -> None:
        z = self.coordinates(x)
        self.n += 1
        self.total += z
        z -= self.total / self.n
        c = self.V.T @ z
        g = self.Q @ c / (self.beta + c @ self.Q @ c)
        self.Q = (self.Q - np.outer(g, c @ self.Q)) / self.beta
        d = self.Q @ (self.omega * c)
        self.V += np.outer(z, d) - np.outer(self.V @ c, g)
        self.V, R = np.linalg.qr(self.V)
        self.V *= np.sign(np.diag(R))


class Covariance(PerSample):
    """First and second moments."""

    def __init__(self, points: np.ndarray, gamma: float, components: int):
        super().__init__(points, gamma, components)
        self.S = np.zeros((len(self.total), len(self.total)))

    def learn(self, x: np.ndarray) -> None:
        z = self.coordinates(x)
        self.n += 1
        self.total += z
        self.S += np.outer(z, z)
