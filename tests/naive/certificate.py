"""Slow twins of the certificate's statements, each as docs/proofs.md writes it down.

Everything is per unit of weight. ``s(k)`` and ``f(k)`` are the account's bounds, ``q(c, k)`` bounds
what is held of the stale rows about c, ``p`` is their share of the weight, ``slack`` allows for
rounding. Maxima and minima over several bounds are written as lists.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


def kappa(M: np.ndarray, k: int) -> float:
    """Sum of the k largest eigenvalues, zeros where there are fewer."""
    values = np.sort(np.linalg.eigvalsh(M))[::-1]
    return float(sum(max(v, 0.0) for v in values[:k]))


@dataclass
class Known:
    """What statements 6 to 12 are functions of."""

    s: Callable[[int | None], float]
    f: Callable[[int | None], float]
    q: Callable[[np.ndarray, int | None], float]
    p: float
    tau: float
    center: bool
    moment: np.ndarray
    mean: np.ndarray
    values: list[float]
    vectors: np.ndarray
    slack: float

    def value(self, i: int) -> float:
        """λ̂_i, counted from one."""
        return self.values[i - 1] if i <= len(self.values) else 0.0


def ends(x: float, s: float, q: float) -> tuple[float, float]:
    """Statement 6."""
    root = math.sqrt(x) - math.sqrt(s)
    crossed = 2 * math.sqrt(q * s) if s > 0 else 0.0
    low = [0.0, root**2 if root > 0 else 0.0, x - crossed]
    high = [(math.sqrt(x) + math.sqrt(s)) ** 2, x + crossed + s]
    return max(low), min(high)


def eigenvalues(known: Known, r: int) -> list[tuple[float, float]]:
    """Statement 7."""
    found = []
    s, f, q = known.s(1), known.f(1), known.q(known.mean, 1)
    for i in range(1, r + 1):
        x = known.value(i)
        low, high = ends(x, s, q)
        crossed = 2 * math.sqrt(q * s) if s > 0 else 0.0
        above = [
            (math.sqrt(x) + math.sqrt(s)) ** 2 + f,
            high + s + f,
            x + crossed + known.s(None) + known.f(None),
        ]
        found.append((max(0.0, low - known.slack), min(above) + known.slack))
    return found


def leading_sum(known: Known, r: int) -> tuple[float, float]:
    """Statement 7, for the sum of the first r."""
    x = sum(known.value(i) for i in range(1, r + 1))
    s, f = known.s(r), known.f(r)
    low, high = ends(x, s, known.q(known.mean, r))
    above = [(math.sqrt(x) + math.sqrt(s)) ** 2 + f, high + s + f]
    return max(0.0, low - known.slack), min(above) + known.slack


def total_variance(known: Known) -> tuple[float, float]:
    """Statement 8."""
    if not known.center:
        return max(0.0, known.tau - known.slack), known.tau + known.slack
    m = math.sqrt(known.mean @ known.mean)
    g = math.sqrt(known.p * known.s(1))
    most = m**2 + 2 * m * g + known.s(1) + known.f(1)
    least = (m - g) ** 2 if m > g else 0.0
    return max(0.0, known.tau - most - known.slack), known.tau - least + known.slack


def best_error(known: Known, r: int) -> float:
    """Statement 9."""
    k = r + 1 if known.center else r
    s, f = known.s(k), known.f(k)
    A = sum(known.value(i) for i in range(1, r + 1))
    m = math.sqrt(known.mean @ known.mean)
    g = math.sqrt(known.p * known.s(1)) if known.center else 0.0
    most = ends(A, known.s(r), known.q(known.mean, r))[1]
    rest = math.sqrt(sum(known.values[r:])) - math.sqrt(known.s(None))
    bounds = [
        known.tau - (math.sqrt(A + m**2) + math.sqrt(s)) ** 2 - f,
        known.tau - (m + g) ** 2 - most - s - f,
        rest**2 if rest > 0 else 0.0,
    ]
    return max(0.0, max(bounds) - known.slack)


def own_error(
    known: Known, V: np.ndarray, mu: np.ndarray, T: np.ndarray, error: float, same: bool
) -> float:
    """Statement 10."""
    r = V.shape[1]
    inside = T.T @ mu
    delta = outside = 0.0
    if not same:
        outside = math.sqrt(max(0.0, mu @ mu - inside @ inside) + error * known.tau)
        lost = np.linalg.eigvalsh(np.eye(r) - V.T @ T @ T.T @ V) if r else np.zeros(1)
        delta = math.sqrt(max(0.0, np.abs(lost).max()) + error)
    m = T @ known.mean
    about = T @ known.moment @ T.T - np.outer(m, mu) - np.outer(mu, m) + np.outer(mu, mu)
    captured = max(0.0, sum(v @ about @ v for v in V.T))  # |A|²
    q = min(captured, known.q(inside, r if same else None) + known.p * outside**2)
    k = max(r, 1)
    o = delta * math.sqrt(known.s(k) + known.f(k))
    root = math.sqrt(captured) - math.sqrt(known.s(k)) - o
    a_1 = captured - 2 * math.sqrt(q * known.s(k)) - 2 * math.sqrt(captured) * o
    a_2 = root**2 if root > 0 else 0.0
    h = math.sqrt(inside @ inside) * math.sqrt(known.p * known.s(1))
    h += outside * math.sqrt(known.s(1) + known.f(1))
    J = known.tau - 2 * (m @ mu) + mu @ mu + 2 * h - max(0.0, a_1, a_2)
    return max(0.0, J + known.slack + 4 * error * known.tau)


def sine(known: Known, V: np.ndarray, T: np.ndarray, error: float, r: int) -> float:
    """Statement 11: |sin Θ|, infinite where the gap is not certain."""
    q = known.q(known.mean, 1)
    low, high = [math.nan], [math.nan]  # counted from one
    for i in range(1, r + 2):
        one, two = ends(known.value(i), known.s(1), q)
        low.append(one - known.slack)
        high.append(two + known.slack)
    gap = low[r] - high[r + 1]
    if gap <= 0 or low[r] <= 0:
        return math.inf
    b = [0.0, *(known.s(k) + known.f(k) for k in range(1, r + 2))]
    first = sum(max(b[r + 1 - i] - b[r - i], 0.0) / low[i] for i in range(1, r + 1))
    first += high[r + 1] / low[r] * b[1] * b[r] / gap**2
    found = math.sqrt(min(first, b[r + 1] / gap))
    s_1, s_r = known.s(1), known.s(r)
    if s_1 > 0:
        second = [1.0]
        roots = math.sqrt(known.value(r)) - math.sqrt(known.value(r + 1)) - math.sqrt(s_1)
        if roots > 0:
            second.append(math.sqrt(s_r) / roots)
        apart = known.value(r) - high[r + 1]
        if apart > 0 and math.isfinite(q):
            second.append((2 * math.sqrt(q * s_r) + math.sqrt(s_1 * s_r)) / apart)
        found += min(second)
    cosines = V.T @ T @ known.vectors[:, :r]
    known_part = max(0.0, r - float(np.sum(cosines**2))) + r * error
    return found + known.slack / gap + math.sqrt(known_part)


def outside(
    known: Known, T: np.ndarray, error: float, same: bool, lows: list[float]
) -> list[float]:
    """Statement 12."""
    missed = math.sqrt(known.s(1) + known.f(1))
    if not same:
        lost = np.trace(known.moment) - np.trace(T @ known.moment @ T.T)
        missed += math.sqrt(max(lost, 0.0) + error * known.tau)
    return [min(1.0, missed**2 / low) if low > 0 else 1.0 for low in lows]


# -- rounding: the table of statement 13, and statement 14

U = 2.0**-53  # of float64


@dataclass
class Points:
    """Points D with their factor F, the Gram matrix K(D, D) as it is computed, and max k(d, d)."""

    F: np.ndarray
    K: np.ndarray

    @property
    def m(self) -> int:
        return len(self.K)

    @property
    def energy(self) -> float:
        return float(np.max(np.diag(self.K)))

    @property
    def norm(self) -> float:
        return float(np.sqrt(np.sum(self.F**2)))


@dataclass
class Sums:
    """What has been added up: energy, rows of the longest block, blocks."""

    energy: float
    longest: int
    blocks: int

    def error(self, m: int) -> float:
        """Of a scatter matrix, relative to its trace."""
        return (self.longest + self.blocks + 8 * m + 8) * U


def coordinate_error(points: Points, c: float) -> float:
    """ω: m wrong kernel values times F, and a product of length m."""
    return points.norm * math.sqrt(points.m * points.energy) * (c + points.m + 2) * U


def root_of(S: np.ndarray, sums: Sums) -> np.ndarray:
    """B with BBᵀ above S as it would be without rounding."""
    return np.linalg.cholesky(S + sums.error(len(S)) * np.trace(S) * np.eye(len(S)))


def length(M: np.ndarray) -> float:
    """Frobenius."""
    return float(np.linalg.norm(M))


def defect(points: Points, S: np.ndarray, c: float, sums: Sums) -> float:
    """θ: measured, and the errors of K, of its product with FB, of FB and of the last product."""
    m, B = points.m, root_of(S, sums)
    A = points.F @ B
    KA = points.K @ A
    error = [
        points.norm * m * points.energy * (c + m) * length(A),
        math.sqrt(m * points.energy) * m * points.norm * length(B),
        m * points.norm * length(KA),
    ]
    return (length(points.F.T @ KA - B) + sum(error) * U) / math.sqrt(sums.energy)


def change(
    old: Points,
    new: Points,
    between: np.ndarray,
    T: np.ndarray,
    S: np.ndarray,
    c: float,
    sums: Sums,
) -> tuple[float, float, float]:
    """ρ, the doubt about the energy lost, and θ before; ``between`` is K(D', D)."""
    before, after = defect(old, S, c, sums), defect(new, T @ S @ T.T, c, sums)
    B = root_of(S, sums)
    A = old.F @ B
    KA = between @ A
    error = [
        new.norm * math.sqrt(old.m * new.m * old.energy * new.energy) * (c + old.m) * length(A),
        math.sqrt(new.m * new.energy) * old.m * old.norm * length(B),
        new.m * new.norm * length(KA),
        2 * old.m * length(T) * length(B),
    ]
    carried = (length(T @ B - new.F.T @ KA) + sum(error) * U) / math.sqrt(sums.energy) + after
    return carried, before + after + 2 * carried, before
