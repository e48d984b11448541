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
    cosines: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """Tanaka, Washizawa, Kuh: dictionary and coefficients A after all rows.

    The first r rows are Ψ[0] and are not learned from. Without ``cosines``, (7) is as printed.
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
        if cosines:
            admitted = np.max(np.abs(h) / norms) <= delta  # (7), with the norms of any kernel
        else:
            admitted = np.max(h) <= delta  # (7)
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
    center: bool | str,
) -> dict[str, Any]:
    """Honeine: Table 2 with many components, eq. (19), and the mean over the dictionary.

    The paper gives no start: α = 0 would stay 0. Component j starts at the j-th point, less its
    projection on the earlier ones, at unit length. The centre is Σ β̄_k κ(x_k, ·), β̄ the mean of the
    coefficients of all rows up to the present one.

    ``center="paper"`` is section 5.2: κ^c in the place of κ, and nothing else. Then A are
    coefficients over the centred points κ(x_k, ·) − μ. With True, which is ours, A are coefficients
    over the points, and the row is centred in the place of the functions.
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
        eta = eta0 / (1.0 + t / tau)  # (20)
        if center == "paper":
            kappa, one = kernel(points, x)[:, 0], np.ones(len(points))
            kappa_c = kappa - one * (mean @ kappa) - K @ mean + one * (mean @ K @ mean)
            y = A.T @ kappa_c
            A = A + eta * (np.outer(beta, y) - A @ np.triu(np.outer(y, y)))
            continue
        b = beta - mean
        y = A.T @ (K @ b)
        A = A + eta * (np.outer(b, y) - A @ np.triu(np.outer(y, y)))  # (19), transposed
    return {"points": points, "A": A, "mean": total / len(X) if center else 0.0 * total}


def kim(K: np.ndarray, A: np.ndarray, order: np.ndarray, eta: float, center: bool) -> np.ndarray:
    """Kim, Franz and Schölkopf, component by component as in (11), with (12) or (13).

    Mended: the second bracket of (13) has a minus.
    """
    A, l = A.copy(), len(K)
    k_mean = K.mean(axis=0)
    for j in order:
        y = np.zeros(len(A))
        for i in range(len(A)):
            if center:
                y[i] = A[i] @ (K[j] - k_mean) - A[i].mean() * np.sum(K[j] - k_mean)
            else:
                y[i] = A[i] @ K[j]
        old = A.copy()
        for i in range(len(A)):
            for k in range(l):
                A[i, k] = old[i, k] - eta * y[i] * sum(old[m, k] * y[m] for m in range(i + 1))
            A[i, j] += eta * y[i]
    return A


def kim_online(
    kernel: Kernel, X: np.ndarray, r: int, eta: Callable[[int], float], center: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Kim, Franz and Schölkopf, appendix A.2 and A.3: coefficients (n, r) and those of the mean.

    w_i are kept as functions of the raw φ: (16) says that they stay when the mean moves, and (17)
    (whose sums should run to i, and whose y_r is y_i) finds the coefficients that keep them. Each
    pattern is φ(x(t)) less the mean of the rows *before* it (14). The first has none before it and
    is taken as it is. Where (14) and (15) disagree on x(0), it has no part in the mean: with it, a
    start at φ(x(0)) would be zero once centred, and stay so.

    The paper starts at random points; here component i starts at the i-th row, less its projection
    on the earlier ones, before that row is learned.
    """
    n = len(X)
    K = kernel(X, X)
    A, mean = np.zeros((n, r)), np.zeros(n)
    starts = orthonormalised(np.eye(n)[:, :r], K)
    for t in range(n):
        if t < r:
            A[:, t] = starts[:, t]
        pattern = np.eye(n)[t] - (mean if center else 0.0)  # (14)
        y = A.T @ K @ pattern  # (15)
        A = A + eta(t + 1) * (np.outer(pattern, y) - A @ np.triu(np.outer(y, y)))
        mean = (t * mean + np.eye(n)[t]) / (t + 1)
    return A, mean


def lecture_kernel_pca(K: np.ndarray, r: int) -> tuple[np.ndarray, np.ndarray]:
    """The lecture notes' recipe: λ̃ = λ/N and the scores of the rows, Kα with αᵀα = 1/λ.

    Mended: no division of the scores by λ.
    """
    values, vectors = np.linalg.eigh(K)
    order = np.argsort(-values)[:r]
    values, vectors = values[order], vectors[:, order]
    return values / len(K), K @ (vectors / np.sqrt(values))


def lecture_neuron(
    X: np.ndarray, w: np.ndarray, eta: Callable[[int], float], rule: str, a: float = np.inf
) -> np.ndarray:
    """The lecture notes' neuron, weight by weight: those after each row, cut at ±a."""
    path = [w.astype(float)]
    for n, x in enumerate(X, 1):
        w, step, d = path[-1], eta(n), len(w)
        y = sum(w[j] * x[j] for j in range(d))
        if rule == "oja":
            new = [w[j] + step * y * (x[j] - y * w[j]) for j in range(d)]
        else:
            new = [w[j] + step * y * x[j] for j in range(d)]
        if rule == "normalised":
            length = sum(each**2 for each in new) ** 0.5
            new = [each / length for each in new]
        path.append(np.array([min(max(each, -a), a) for each in new]))
    return np.stack(path)


def chin_suter(
    kernel: Kernel,
    X: np.ndarray,
    r: int | None,
    block: int,
    n_preimages: int | None = None,
    sharing: str = "second pass",
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Chin and Suter: α over the library, Σ², v, and the library, all rows or pre-images.

    ``r`` components are kept at every update; None keeps all. With ``n_preimages`` the library is
    compressed after every update (section 5).
    """
    a = X[:block]
    n = m = len(a)  # rows seen, and inputs in the library
    v = np.full(n, 1.0 / n)
    centred = np.eye(n) - np.outer(v, np.ones(n))  # (2)
    M = centred.T @ kernel(a, a) @ centred
    values, Q = spectrum(M, r)
    alpha = centred @ Q / np.sqrt(values)  # (4)
    sigma = np.sqrt(values)
    if n_preimages is not None:
        a, alpha, sigma, v = compressed(kernel, a, alpha, sigma, v, n_preimages, sharing)
        m = len(a)
    for start in range(block, len(X), block):
        b = X[start : start + block]
        c = len(b)
        both = np.vstack([a, b])
        G = kernel(both, both)
        omega = np.full(c, 1.0 / c)  # (7)
        shift = np.sqrt(n * c / (n + c))
        gamma = np.block(  # (10)
            [
                [np.zeros((m, c)), shift * v[:, None]],
                [np.eye(c) - np.outer(omega, np.ones(c)), -shift * omega[:, None]],
            ]
        )
        v = np.concatenate([n * v, c * omega]) / (n + c)  # (8)
        L = alpha.T @ G[:m] @ gamma  # (14)
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
        a, n, m = both, n + c, m + c
        if n_preimages is not None:
            a, alpha, sigma, v = compressed(kernel, a, alpha, sigma, v, n_preimages, sharing)
            m = len(a)
    return alpha, sigma**2, v, a


def compressed(
    kernel: Kernel,
    a: np.ndarray,
    alpha: np.ndarray,
    sigma: np.ndarray,
    v: np.ndarray,
    n: int,
    sharing: str,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Section 5: the library, α, Σ and v after a compression to (r + 1) n pre-images.

    (24) is mended: as it is printed, π = α'QD^{-1/2}P = α'. The orthonormal vectors nearest to the
    approximated ones are A'α'QD^{-1/2}Qᵀ.
    """
    vectors = np.hstack([alpha, v[:, None]])
    if len(a) <= n * vectors.shape[1]:
        return a, alpha, sigma, v
    library = a[:0]
    blocks = []  # which inputs of the library a vector may use, as a slice
    for u in vectors.T:
        first = len(library) if sharing == "separate" else 0
        for _ in range(n):
            used = library[first:]
            beta = least_squares(kernel, used, a, u)
            y = mika(kernel, np.vstack([a, used]), np.concatenate([u, -beta]))
            if len(used) and not leaves_span(kernel, used, y):
                break
            library = np.vstack([library, y])
        blocks.append(slice(first, len(library)))
    new = np.zeros((len(library), vectors.shape[1]))
    for j, u in enumerate(vectors.T):
        which = slice(0, len(library)) if sharing == "second pass" else blocks[j]
        new[which, j] = least_squares(kernel, library[which], a, u)
    approximated, v = new[:, :-1], new[:, -1]
    D, Q = np.linalg.eigh(approximated.T @ kernel(library, library) @ approximated)  # (22)
    pi = approximated @ Q @ np.diag(D**-0.5) @ Q.T
    carried = pi.T @ kernel(library, a) @ alpha  # (25), S = πᵀA'ᵀAαΣ
    if sharing != "second pass":
        # the vectors of figure 1 (a), (b) are no projections; ours are carried as approximated
        carried = pi.T @ kernel(library, library) @ approximated
    return library, pi, np.diag(carried) * sigma, v


def least_squares(kernel: Kernel, used: np.ndarray, a: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Coefficients over some inputs for Σ_i u_i φ(a_i)."""
    if len(used) == 0:
        return np.zeros(0)
    return np.linalg.solve(kernel(used, used), kernel(used, a) @ u)


def leaves_span(kernel: Kernel, used: np.ndarray, y: np.ndarray) -> bool:
    k = kernel(used, y)
    own = kernel(y, y)[0, 0]
    return bool(own - (k.T @ np.linalg.solve(kernel(used, used), k))[0, 0] > 1e-6 * own)


def mika(kernel: Kernel, support: np.ndarray, gamma: np.ndarray) -> np.ndarray:
    """The pre-image of Σ_i γ_i φ(s_i): from the best input of the support while it gets better."""

    def value(y: np.ndarray) -> float:
        return float((gamma @ kernel(support, y))[0] ** 2 / kernel(y, y)[0, 0])

    y = max((support[i : i + 1] for i in range(len(support))), key=value)
    for _ in range(200):
        w = gamma * kernel(support, y)[:, 0]
        following = (w @ support)[None, :] / w.sum()
        if value(following) < value(y) * (1 - 1e-12):
            break
        y, way = following, np.abs(following - y).max()
        if way <= 1e-13 * np.abs(y).max():
            break
    return y


def spectrum(M: np.ndarray, r: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The r largest eigenvalues that are more than rounding, and their vectors."""
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    values, vectors = values[::-1], vectors[:, ::-1]
    keep = values > 1e-12 * values[0]
    keep[len(values) if r is None else r :] = False
    return values[keep], vectors[:, keep]
