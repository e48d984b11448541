"""The slow twin of the reduced set: every vector is a list of coefficients over inputs."""

from __future__ import annotations

from typing import Any

import numpy as np


def compress(kernel: Any, D: np.ndarray, C: np.ndarray, n: int, steps: int = 3) -> np.ndarray:
    """Inputs found one by one for the scatter ``Σ C_ab φ(d_a) φ(d_b)ᵀ``, each from its best point.

    With P the projection on the inputs found and v = (I − P) φ(y), an input y adds ⟨v, S v⟩/|v|².
    The search follows Mika's iteration towards the pre-image of (I − P) S v while that grows.
    """
    trace = float(np.sum(C * kernel(D)))
    found = np.zeros((0, D.shape[1]))

    def look(y: np.ndarray) -> tuple[float, np.ndarray]:
        """What y adds, and where the iteration would go from it."""
        own = float(kernel(y[None, :])[0, 0])
        inner, on_found = kernel(D, y[None, :])[:, 0], np.zeros(0)
        rest, left = inner, own
        across = np.zeros((0, len(D)))
        if len(found):
            K = kernel(found)
            seen, across = kernel(found, y[None, :])[:, 0], kernel(found, D)
            beta = np.linalg.solve(K, seen)
            rest, left = inner - across.T @ beta, own - seen @ beta
        gain = rest @ C @ rest / left if left > 1e-6 * own else 0.0
        on_points = C @ rest
        if len(found):
            on_found = -np.linalg.solve(K, across @ on_points)
        support = np.vstack([D, found])
        w = np.concatenate([on_points, on_found]) * kernel(support, y[None, :])[:, 0]
        return float(gain), w @ support / w.sum() if w.sum() > 0 else y

    while len(found) < n:
        gains = [look(d)[0] for d in D]
        best = D[int(np.argmax(gains))]
        gain, following = look(best)
        if not gain > 1e-12 * trace:
            break
        for _ in range(steps):
            more, further = look(following)
            if not more > gain:
                break
            best, gain, following = following, more, further
        found = np.vstack([found, best])
    return found
