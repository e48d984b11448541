"""The index M: how far a row is from normal operation, in one number that never saturates early.

With ``z`` the coordinates of a row in the span of the points, μ and S mean and covariance of normal
rows there, and ε = ridge · tr S / D,

    M(x) = (z − μ)ᵀ (S + εI)⁻¹ (z − μ) + (k(x,x) − |z|²)/ε
         = Σ_i y_i²/(λ_i + ε) + (what the span misses)/ε.

There is no number of components to choose. The first term alone, T², can be blind to large faults:
far from the data all kernel values vanish, z tends to 0 and T² to the constant μᵀ(S+εI)⁻¹μ, which
for a narrow kernel is below its limit. The second term, SPE, grows there to k(x,x).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from kernelstream.bases import Span
from kernelstream.files import stored
from kernelstream.kernels import RBF
from kernelstream.monitor.products import row_dots, rows_times
from kernelstream.monitor.scaling import Gathered, Product

TINIEST = 1e-300  # scores may be exactly zero, and are judged as logarithms
LEAST_NOISE = 1e-12  # of k(x,x) = 1: rows without any spread still have an index
REACH = 2.0  # squared radius, in units of D, inside which gradients are taken as they are


@dataclass(frozen=True)
class Scores:
    """The index of rows and its two terms: ``index = t2 + spe/ε``."""

    index: np.ndarray
    t2: np.ndarray
    spe: np.ndarray

    @property
    def log_index(self) -> np.ndarray:
        """Logarithm of the index, which is what limits and averages are made of."""
        return np.log(np.maximum(self.index, TINIEST))


@stored
@dataclass(frozen=True)
class Index:
    """M of whitened rows: a kernel, a span, and the moments of normal rows in it."""

    kernel: RBF
    span: Span
    mean: np.ndarray  # (q,) μ
    root: np.ndarray  # (q, q) H with H Hᵀ = (S + εI)⁻¹
    epsilon: float

    @classmethod
    def of(cls, kernel: RBF, span: Span, coordinates: Gathered, ridge: float) -> Index:
        """The index from the moments of coordinates."""
        S = coordinates.covariance
        width = int(span.points.shape[1])
        epsilon = max(ridge * float(np.trace(S)) / width, LEAST_NOISE)
        L = np.linalg.cholesky(S + epsilon * np.eye(len(S)))
        root = solve_triangular(L, np.eye(len(S)), lower=True).T
        return cls(kernel, span, coordinates.mean, np.ascontiguousarray(root), epsilon)

    def kernel_rows(self, U: np.ndarray, product: Product = rows_times) -> np.ndarray:
        """``k(u, D)``, by a product of the given kind (the kernel's own block uses BLAS)."""
        P = self.span.points
        squared = -2.0 * product(U, P.T)
        squared += row_dots(U, U)[:, None]
        squared += row_dots(P, P)[None, :]
        return self.kernel.of_scaled_distances(
            self.kernel.distance_scale * np.maximum(squared, 0.0)
        )

    def coordinates(self, U: np.ndarray, product: Product = rows_times) -> np.ndarray:
        """``z = Fᵀ k(D, u)``."""
        return product(self.kernel_rows(U, product), self.span.factor)

    def score(self, U: np.ndarray, product: Product = rows_times) -> Scores:
        """M, T² and SPE of whitened rows."""
        Z = self.coordinates(U, product)
        Y = product(Z - self.mean, self.root)
        t2 = row_dots(Y, Y)
        spe = np.maximum(1.0 - row_dots(Z, Z), 0.0)  # k(x, x) = 1
        return Scores(t2 + spe / self.epsilon, t2, spe)

    @property
    def far_away(self) -> float:
        """M where every kernel value has vanished: the largest number the index can tell."""
        y = self.mean @ self.root
        return float(y @ y) + 1.0 / self.epsilon

    def gradient(
        self, U: np.ndarray, product: Product = rows_times
    ) -> tuple[np.ndarray, np.ndarray]:
        """∂M/∂u of each row, and by how much the row was drawn back before it was taken.

        ∂M/∂u = −2γ Σ_i b_i k_i (u − d_i) with b = F (2 (S+εI)⁻¹(z − μ) − 2 z/ε). Where all kernel
        values vanish so does the gradient, though the direction is plain: rows far outside the
        cloud of normal rows (whose squared radius is D) are first drawn back towards the centre,
        ``u/stretch``, to where M is still nearly quadratic.
        """
        reach = math.sqrt(REACH * U.shape[1])
        stretch = np.maximum(np.sqrt(row_dots(U, U)) / reach, 1.0)
        U = U / stretch[:, None]
        K = self.kernel_rows(U, product)
        Z = product(K, self.span.factor)
        slope = 2.0 * product(product(Z - self.mean, self.root), self.root.T)
        slope -= (2.0 / self.epsilon) * Z
        B = product(slope, self.span.factor.T)
        inward = product(B * K, self.span.points)
        return -2.0 * self.kernel.gamma * (row_dots(B, K)[:, None] * U - inward), stretch

    def curvature(self, U: np.ndarray) -> np.ndarray:
        """The mean of ∂²M/∂u∂uᵀ over rows, (D, D).

        With J = ∂z/∂u the first part is 2 Jᵀ((S+εI)⁻¹ − I/ε)J; the second comes from the bend of
        the kernel itself, Σ_i b_i ∂²k_i.
        """
        gamma, points, factor = self.kernel.gamma, self.span.points, self.span.factor
        width = U.shape[1]
        total = np.zeros((width, width))
        K = self.kernel_rows(U, np.matmul)
        Z = K @ factor
        slope = 2.0 * ((Z - self.mean) @ self.root) @ self.root.T - (2.0 / self.epsilon) * Z
        B = (slope @ factor.T) * K
        for u, k, b in zip(U, K, B, strict=True):
            apart = u - points
            J = factor.T @ (-2.0 * gamma * k[:, None] * apart)
            Y = self.root.T @ J
            total += 2.0 * (Y.T @ Y) - (2.0 / self.epsilon) * (J.T @ J)
            total += 4.0 * gamma**2 * (apart.T * b) @ apart
            total -= 2.0 * gamma * float(b.sum()) * np.eye(width)
        return total / len(U)
