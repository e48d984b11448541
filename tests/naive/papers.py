"""Slow, obvious twins of the papers' algorithms, in the papers' dual coefficients.

Every function follows the equations of its paper in the order of the paper, one row after the
other, with plain matrices. Corrections of the papers' mistakes are marked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

Kernel = Callable[[np.ndarray, np.ndarray], np.ndarray]


def tanaka(
    kernel: Kernel,
    X: np.ndarray,
    r: int,
    method: str,
    delta: float = 0.95,
    eta: float = 0.02,
    beta: float = 0.98,
    D: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Tanaka, Washizawa, Kuh: dictionary and coefficients A after all rows.

    The first r rows are Ψ[0] and are not learned from.
    """
    weights = np.diag(np.linspace(1.0, 0.5, r) if D is None else D)
    psi = X[:r]
    M = kernel(psi, psi)
    P = np.linalg.inv(M)
    A = np.real(scipy.linalg.sqrtm(P))[:, :r]  # A[0] = (P^{1/2}[0])_{1:r}
    Q = np.diag(1.0 / np.diag(M))  # not given; the identity for kernels of unit norm
    for u in X[r:]:
        u = u[None, :]
        h = kernel(psi, u)[:, 0]
        norms = np.sqrt(np.diag(M) * kernel(u, u)[0, 0])
        admitted = np.max(np.abs(h) / norms) <= delta  # (7), with the norms of any kernel
        # A row in the span adds no direction (and P would be singular): for kernels of finite rank
        own = kernel(u, u)[0, 0]
        admitted = admitted and own - h @ np.linalg.solve(M, h) > 1e-10 * own
        if admitted:
            # F4, for k(u, u) in the place of 1
            m = P @ h
            scale = 1.0 / (kernel(u, u)[0, 0] - h @ m)
            P = np.block([[P, np.zeros((len(P), 1))], [np.zeros((1, len(P) + 1))]])
            P += scale * np.outer(np.append(m, -1.0), np.append(m, -1.0))
            psi = np.vstack([psi, u])  # F1
            A = np.vstack([A, np.zeros((1, r))])  # F2
            M = kernel(psi, psi)  # F3
            h = kernel(psi, u)[:, 0]
        c = A.T @ h
        g = A @ c
        if method == "lms":  # algorithm 1
            A = A + eta * (np.outer(h, c) @ weights - np.outer(M @ g, c))
        elif method == "subkha":
            A = A + eta * (np.outer(P @ h, c) @ weights - np.outer(g, c))
        else:  # algorithm 2; step 2 with c[k] in the numerator, step 6 with ĉ = Ã c
            gain = Q @ c / (beta + c @ Q @ c)
            Q = (Q - np.outer(gain, c) @ Q) / beta
            d = Q @ weights @ c
            A = A + np.outer(P @ h, d) - np.outer(A @ c, gain)
            A = orthonormalised(A, M)  # in the metric M, not R
    return psi, A


def orthonormalised(A: np.ndarray, M: np.ndarray) -> np.ndarray:
    """Gram–Schmidt of the columns of A in the metric M."""
    A = A.copy()
    for j in range(A.shape[1]):
        for i in range(j):
            A[:, j] -= A[:, i] * (A[:, i] @ M @ A[:, j])
        A[:, j] /= np.sqrt(A[:, j] @ M @ A[:, j])
    return A


def honeine(
    kernel: Kernel,
    X: np.ndarray,
    r: int,
    nu: float,
    eta0: float,
    tau: float,
    center: bool,
) -> dict[str, Any]:
    """Honeine: Table 2 with many components, eq. (19), and the mean over the dictionary.

    The paper gives no start: α = 0 would stay 0. Component j starts at the j-th point, less its
    projection on the earlier ones, at unit length. The centre is Σ β̄_k κ(x_k, ·), β̄ the mean of the
    coefficients of all rows up to the present one.
    """
    points = X[:0]
    A = np.zeros((0, r))
    total = np.zeros(0)
    for t, x in enumerate(X, 1):
        x = x[None, :]
        own = kernel(x, x)[0, 0]
        h = kernel(points, x)[:, 0] if len(points) else np.zeros(0)
        K = kernel(points, points) if len(points) else np.zeros((0, 0))
        beta = np.linalg.solve(K, h)  # (9)
        epsilon = own - h @ beta  # (10), the squared distance
        if epsilon > nu:  # (11)
            points = np.vstack([points, x])
            A = np.vstack([A, np.zeros((1, r))])
            total = np.append(total, 0.0)
            if len(points) <= r:
                A[:, len(points) - 1] = np.append(-beta, 1.0) / np.sqrt(epsilon)
            K = kernel(points, points)
            beta = np.append(np.zeros(len(points) - 1), 1.0)  # (14)
        total = total + beta
        mean = total / t if center else 0.0 * total
        b = beta - mean
        y = A.T @ (K @ b)
        eta = eta0 / (1.0 + t / tau)  # (20)
        A = A + eta * (np.outer(b, y) - A @ np.triu(np.outer(y, y)))  # (19), transposed
    return {"points": points, "A": A, "mean": total / len(X) if center else 0.0 * total}


def chin_suter(
    kernel: Kernel, X: np.ndarray, r: int | None, block: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Chin and Suter, section 4, without compression: α over all rows, Σ² and v.

    ``r`` components are kept at every update; None keeps all.
    """
    a = X[:block]
    n = len(a)
    v = np.full(n, 1.0 / n)
    centred = np.eye(n) - np.outer(v, np.ones(n))  # (2)
    M = centred.T @ kernel(a, a) @ centred
    values, Q = spectrum(M, r)
    alpha = centred @ Q / np.sqrt(values)  # (4)
    sigma = np.sqrt(values)
    for start in range(block, len(X), block):
        b = X[start : start + block]
        c = len(b)
        both = np.vstack([a, b])
        G = kernel(both, both)
        omega = np.full(c, 1.0 / c)  # (7)
        shift = np.sqrt(n * c / (n + c))
        gamma = np.block(  # (10)
            [
                [np.zeros((n, c)), shift * v[:, None]],
                [np.eye(c) - np.outer(omega, np.ones(c)), -shift * omega[:, None]],
            ]
        )
        v = np.concatenate([n * v, c * omega]) / (n + c)  # (8)
        L = alpha.T @ G[:n] @ gamma  # (14)
        H = gamma - np.vstack([alpha @ L, np.zeros((c, c + 1))])  # (15)
        delta, Q = spectrum(H.T @ G @ H, None)  # (16)
        basis = H @ Q / np.sqrt(delta)  # (17)
        K = np.sqrt(delta)[:, None] * Q.T
        F = np.block([[np.diag(sigma), L], [np.zeros((len(K), len(sigma))), K]])  # (12)
        left, sigma, _ = np.linalg.svd(F, full_matrices=False)
        old = np.vstack([alpha, np.zeros((c, alpha.shape[1]))])
        alpha = np.hstack([old, basis]) @ left  # (18)
        keep = sigma > 1e-7 * sigma[0]
        keep[len(sigma) if r is None else r :] = False
        alpha, sigma = alpha[:, keep], sigma[keep]
        a, n = both, n + c
    return alpha, sigma**2, v


def spectrum(M: np.ndarray, r: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The r largest eigenvalues that are more than rounding, and their vectors."""
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    values, vectors = values[::-1], vectors[:, ::-1]
    keep = values > 1e-12 * values[0]
    keep[len(values) if r is None else r :] = False
    return values[keep], vectors[:, keep]
