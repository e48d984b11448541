"""Slow twins of the trackers: rows in R^m, one after the other, with plain matrices."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kernelstream.papers.schedules import Schedule


@dataclass
class Tanaka:
    """SubKHA, LMS and RLS (Tanaka, Washizawa and Kuh) with the library's start and limits.

    A row with a part outside the span of the components starts the next one, as long as there are
    fewer than dimensions. Those that start before the first row is learned become the polar factor
    of their rows, a later one is the outside part at unit length.
    """

    method: str
    omega: np.ndarray
    schedule: Schedule | None = None
    forgetting: float = 1.0
    V: np.ndarray = field(init=False)
    variances: np.ndarray = field(init=False)
    Q: np.ndarray = field(init=False)
    ceiling: float = 0.0
    time: int = 0
    n_shortened: int = 0

    def __post_init__(self) -> None:
        r = len(self.omega)
        self.V, self.variances, self.Q = np.zeros((0, r)), np.zeros(r), np.zeros((r, r))

    def row(self, z: np.ndarray, weight: float = 1.0, points: np.ndarray | None = None) -> None:
        """Learn one row; LMS is given the points that are known by then."""
        self.V = np.pad(self.V, ((0, len(z) - len(self.V)), (0, 0)))
        started = np.linalg.norm(self.V, axis=0) > 0
        outside = z - _projected(self.V[:, started], z)
        waits = started.sum() < min(self.V.shape)
        if waits and outside @ outside > 1e-10 * (z @ z):
            column = int(np.flatnonzero(~started)[0])
            self.V[:, column] = outside / np.linalg.norm(outside) if self.time else z
            self.Q[column, :] = self.Q[:, column] = 0.0
            self.Q[column, column] = 1.0 / (z @ z)
            self.ceiling = max(self.ceiling, 1e8 * self.Q[column, column])
            started[column] = True
            if np.all(started):
                self._orient(started)
        elif np.any(started):
            self._orient(started)
            if self.method == "rls":
                self._least_squares(z, weight)
            else:
                N = np.eye(len(z)) if points is None else points.T @ points
                self._gradient(z, weight, N)
            self.time += 1

    def _orient(self, started: np.ndarray) -> None:
        if self.time == 0:
            left, _, right = np.linalg.svd(self.V[:, started], full_matrices=False)
            self.V[:, started] = left @ right

    def _outputs(self, z: np.ndarray) -> np.ndarray:
        c = self.V.T @ z
        rate = max(2.0 / (self.time + 2.0), 1.0 - self.forgetting)
        self.variances = (1.0 - rate) * self.variances + rate * c**2
        return c

    def _gradient(self, z: np.ndarray, weight: float, N: np.ndarray) -> None:
        c = self._outputs(z)
        back = self.V @ c
        assert self.schedule is not None
        eta = weight * float(self.schedule.steps(self.time + 1, 1)[0])
        limit = self.omega[0] * (z @ N @ z)
        if np.any(back):
            limit = max(limit, (c @ c) * np.linalg.norm(N @ back) / np.linalg.norm(back))
        elif self.method == "subset_hebbian":
            limit = max(limit, c @ c)
        if eta * limit > 1.0:
            eta, self.n_shortened = 1.0 / limit, self.n_shortened + 1
        self.V = self.V + eta * N @ (np.outer(z, self.omega * c) - np.outer(back, c))

    def _least_squares(self, z: np.ndarray, weight: float) -> None:
        self._outputs(z)
        z = np.sqrt(weight) * z
        c, beta = self.V.T @ z, self.forgetting
        gain = self.Q @ c / (beta + c @ self.Q @ c)
        self.Q = self.Q - np.outer(gain, c @ self.Q)
        if self.Q.diagonal().max() < self.ceiling:
            self.Q = self.Q / beta
        self.V = self.V + np.outer(z, self.Q @ (self.omega * c)) - np.outer(self.V @ c, gain)
        for j in range(self.V.shape[1]):
            self.V[:, j] -= self.V[:, :j] @ (self.V[:, :j].T @ self.V[:, j])
            length = np.linalg.norm(self.V[:, j])
            self.V[:, j] /= length if length > 0 else 1.0


def _projected(V: np.ndarray, z: np.ndarray) -> np.ndarray:
    """What the columns of V span of z."""
    Q = np.linalg.qr(V)[0]
    return Q @ (Q.T @ z)


@dataclass
class CutScatter:
    """Weight, mean and scatter about it, of which ``kept`` components are left after each block."""

    scatter: np.ndarray
    mean: np.ndarray
    weight: float = 0.0
    kept: int | None = None
    truncated: bool = False

    def block(self, Z: np.ndarray, weights: np.ndarray | None = None) -> None:
        """Add rows, by the definition of the scatter of both parts about the common mean."""
        w = np.ones(len(Z)) if weights is None else weights
        self.join(scatter_about(np.average(Z, axis=0, weights=w), Z, w), w @ Z / w.sum(), w.sum())

    def join(self, scatter: np.ndarray, mean: np.ndarray, weight: float) -> None:
        """Add a part with a mean of its own; then cut."""
        W = self.weight + weight
        centre = (self.weight * self.mean + weight * mean) / W
        for mass, at in ((self.weight, self.mean), (weight, mean)):
            scatter = scatter + mass * np.outer(at - centre, at - centre)
        self.scatter, self.mean, self.weight = self.scatter + scatter, centre, W
        values, vectors = np.linalg.eigh(self.scatter)
        if self.kept is not None and np.sum(values > 1e-12 * values[-1]) > self.kept:
            values[: -self.kept], self.truncated = 0.0, True
            self.scatter = (vectors * values) @ vectors.T


def scatter_about(centre: np.ndarray, Z: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Σ w (z − c)(z − c)ᵀ, one row at a time."""
    S = np.zeros((Z.shape[1], Z.shape[1]))
    for z, weight in zip(Z, w, strict=True):
        S += weight * np.outer(z - centre, z - centre)
    return S
