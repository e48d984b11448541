"""What a good engineer writes instead of using a library: points, a loop over blocks, one eigh.

Three scripts: points are centres of k-means on 20 rows a point, drawn at random, or rows drawn at
random; statistics are those of all rows, or of 10,000 drawn at random. k-means is that of faiss
where it is installed (``pip install faiss-cpu``), which is faster than scikit-learn's.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import scipy.linalg
from sklearn.cluster import KMeans

from benchmarks.measuring import Scores
from benchmarks.systems import Problem, System

BLOCK = 4_096
ROWS_A_POINT, LEAST_ROWS, STEPS = 20, 1_000, 3  # of k-means
SAMPLED_ROWS = 10_000
# Eigenvalues of K(D,D), as shares of the largest: below, directions are left out; and above, KᵀK in
# float32 is good enough, so that rows need not be projected. That is so if most are above.
LEAST, SOUND, MOST = 1e-7, 1e-5, 0.9


def squares(X: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", X, X)


def kernel_block(D: np.ndarray, gamma: float) -> Callable[[np.ndarray], np.ndarray]:
    """k(X, D) for many X: the squares are in the product, the exponential is taken in place."""
    ones = np.ones((len(D), 1), D.dtype)
    W = np.hstack([2 * gamma * D, -gamma * squares(D)[:, None], -gamma * ones])
    W = np.ascontiguousarray(W.astype(D.dtype).T)

    def block(X: np.ndarray) -> np.ndarray:
        wide = np.empty((len(X), X.shape[1] + 2), X.dtype)
        wide[:, :-2], wide[:, -2], wide[:, -1] = X, 1, squares(X)
        K = wide @ W
        return np.exp(np.minimum(K, 0, out=K), out=K)

    return block


def covariance(X: np.ndarray, D: np.ndarray, problem: Problem) -> Scores:
    """Components over the points D: the covariance of all rows, block by block, and one eigh."""
    block, wide = kernel_block(D, problem.gamma), D.astype(float)
    e, V = np.linalg.eigh(kernel_block(wide, problem.gamma)(wide))
    plain = np.mean(e > SOUND * e[-1]) >= MOST
    kept = e > (SOUND if plain else LEAST) * e[-1]
    F = V[:, kept] / np.sqrt(e[kept])
    F32 = F.astype(np.float32)
    size = len(D) if plain else F.shape[1]
    S, total, ones = np.zeros((size, size)), np.zeros(size), np.ones(BLOCK, np.float32)
    for i in range(0, len(X), BLOCK):
        K = block(X[i : i + BLOCK])
        Z = K if plain else K @ F32
        S += Z.T @ Z
        total += ones[: len(Z)] @ Z
    mean = total / len(X)
    C = S / len(X) - np.outer(mean, mean)
    if plain:
        C, mean = F.T @ C @ F, mean @ F
    q = len(C)
    _, U = scipy.linalg.eigh(C, subset_by_index=(max(q - problem.components, 0), q - 1))
    A, b = (F @ U[:, ::-1]).astype(np.float32), (mean @ U[:, ::-1]).astype(np.float32)
    return lambda rows: block(rows) @ A - b


def drawn(X: np.ndarray, count: int, seed: int) -> np.ndarray:
    return X[np.random.default_rng(seed).choice(len(X), min(count, len(X)), replace=False)]


def centres(X: np.ndarray, size: int, seed: int) -> np.ndarray:
    """k-means on some rows."""
    rows = drawn(X, max(ROWS_A_POINT * size, LEAST_ROWS), seed)
    if find_spec("faiss") is None:
        found = KMeans(size, init="random", n_init=1, max_iter=STEPS, random_state=seed).fit(rows)
        return found.cluster_centers_.astype(rows.dtype)
    found = import_module("faiss").Kmeans(
        rows.shape[1],
        size,
        niter=STEPS,
        seed=seed + 1,
        min_points_per_centroid=1,
        max_points_per_centroid=10**6,
    )
    found.train(np.ascontiguousarray(rows))
    return found.centroids


def _kmeans(X: np.ndarray, size: int, problem: Problem) -> Scores:
    return covariance(X, centres(X, size, problem.seed), problem)


def _uniform(X: np.ndarray, size: int, problem: Problem) -> Scores:
    return covariance(X, drawn(X, size, problem.seed), problem)


def _sampled(X: np.ndarray, size: int, problem: Problem) -> Scores:
    some = drawn(X, SAMPLED_ROWS, problem.seed + 99)
    return covariance(some, centres(X, size, problem.seed), problem)


KMEANS = System("script: k-means + covariance", _kmeans)
UNIFORM = System("script: uniform rows + covariance", _uniform)
SAMPLED = System(f"script: k-means + covariance of {SAMPLED_ROWS:,} rows", _sampled)
