"""Slow twins of the Hebbian rules: one row after the other, straight from the papers."""

from __future__ import annotations

import numpy as np

from kernelstream.papers.schedules import Schedule


class Steps:
    """The step of every component at every row, and the running variances it may depend on.

    The papers have one η(t) for all components. Our limit on a step (no longer than
    1/max(k̃(x,x), |y|²)) and the steps of each component are written out here once more.
    """

    def __init__(self, schedule: Schedule, r: int):
        self.schedule, self.time, self.variances = schedule, 0, np.zeros(r)

    def __call__(self, y: np.ndarray, energy: float, weight: float = 1.0) -> np.ndarray:
        self.time += 1
        step = float(self.schedule.steps(self.time, 1)[0]) * weight
        forget = min(step, 1.0) if self.schedule.relative else 2.0 / (self.time + 1.0)
        self.variances = (1 - forget) * self.variances + forget * y**2
        longest = max(energy, float(y @ y))
        if longest <= 0:
            return np.zeros(len(y))
        if self.schedule.relative:
            # a variance of zero means the longest step; so does a quotient that overflows
            with np.errstate(divide="ignore", over="ignore"):
                eta = step / self.variances
        else:
            eta = np.full(len(y), step)
        return np.minimum(eta, 1.0 / longest)


def gha(W: np.ndarray, X: np.ndarray, steps: Steps) -> np.ndarray:
    """Sanger's rule in input space, Kim et al. eq. (1)."""
    W = W.copy()
    for x in X:
        y = W @ x
        eta = steps(y, float(x @ x))
        W += eta[:, None] * (np.outer(y, x) - np.tril(np.outer(y, y)) @ W)
    return W


def kha(
    A: np.ndarray,
    K: np.ndarray,
    order: np.ndarray,
    steps: Steps,
    center: bool = True,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """The kernel Hebbian algorithm, eqs. (10)–(13), one row after the other.

    Erratum: in (13) the second bracket is k(x(t), x_k) *minus* k̄(x_k).
    """
    A = A.copy()
    l = len(K)
    w = np.ones(l) if weights is None else weights / weights.mean()
    k_mean = K @ w / l
    for j in order:
        if center:
            # Σ_k a_ik (k(x,x_k) − k̄(x_k)) − Σ_k a_ik · mean_m(k(x,x_m) − k̄(x_m))
            column = K[j] - k_mean
            y = A @ column - A.sum(axis=1) * (w @ column) / l
            energy = K[j, j] - 2 * k_mean[j] + w @ k_mean / l
        else:
            y, energy = A @ K[j], K[j, j]
        b = np.zeros(l)
        b[j] = 1.0
        eta = steps(y, float(energy), float(w[j]))
        A += eta[:, None] * (np.outer(y, b) - np.tril(np.outer(y, y)) @ A)
    return A


def semi_online_kha(
    K: np.ndarray, starts: np.ndarray, schedule: Schedule, center: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Appendix A: the expansion grows by every row. Coefficients (r, n) and those of the mean (n,).

    ``starts`` (r, n) are the components before the first row. Component i, if it starts at a row,
    must not act before that row has come: it enters the loop when its last coefficient does.

    w is kept as a function of the raw φ. Then (16) needs no solution such as (17), whose sums
    should run to i instead of r and whose y_r is y_i: the function does not change when the mean
    does. The mean includes the present row; (14) leaves it out, φ − φ̄_{t−1} = t/(t−1) (φ − φ̄_t), so
    the paper's step η is our step η ((t − 1)/t)².
    """
    r, n = starts.shape
    A = np.zeros((r, n))
    begins = [int(np.flatnonzero(row)[-1]) for row in starts]
    steps = Steps(schedule, r)
    mean = np.zeros(n)
    for t in range(n):
        for i in range(r):
            if begins[i] == t:
                A[i] += starts[i]
        b = np.zeros(n)
        b[t] = 1.0
        mean = (mean * t + b) / (t + 1)
        pattern = b - mean if center else b
        y = A @ K @ pattern
        eta = steps(y, float(pattern @ K @ pattern))
        A += eta[:, None] * (np.outer(y, pattern) - np.tril(np.outer(y, y)) @ A)
    return A, mean
