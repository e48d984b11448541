"""Guaranteed bounds: eigenvalues, total variance, reconstruction error, angles (T2 to T7).

The rows are gone, but what the basis missed of each was entered in the ledger. From that alone
follow bounds on what batch kernel PCA would have found.

Notation, all per unit of weight: λ eigenvalues of batch kernel PCA, λ̂ those of the covariance Ĉ
that the model holds, λ̄ those of the covariance projected on the span of the basis, PCP. Stale
parts lie between Ĉ and PCP, fresh parts between PCP and C. s_k and f_k are the ledger's bounds on
κ_k, and q bounds what the model holds of the stale rows: stale parts meet nothing else.
Statements by number, each with its proof, are in docs/proofs.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kernelstream.certificates.ledger import Ledger


@dataclass(frozen=True)
class Evidence:
    """What is known about the rows seen."""

    ledger: Ledger
    weight: float
    center: bool
    moment: np.ndarray  # Σ w z zᵀ/W
    mean: np.ndarray  # zero where the model is not centred
    values: np.ndarray  # λ̂ in descending order
    vectors: np.ndarray
    slack: float  # allowance for rounding, in units of eigenvalues

    @property
    def energy(self) -> float:
        """τ, the mean of k(x,x)."""
        return self.ledger.energy / self.weight

    @property
    def stale_share(self) -> float:
        """Share of the weight that is stale."""
        return min(self.ledger.stale_weight / self.weight, 1.0)

    def held(self, k: int) -> np.ndarray:
        """λ̂_1 … λ̂_k, zero where there are fewer."""
        return np.concatenate([self.values, np.zeros(max(0, k - len(self.values)))])[:k]

    def missed(self, k: int | None = None) -> tuple[float, float]:
        """(s_k, f_k), or the traces; with what rounding may have hidden of them."""
        ledger = self.ledger
        s, f = (ledger.stale, ledger.fresh) if k is None else ledger.missed_by(k)
        # What rounding hid of a stale row is stale as well, and enters under the root.
        hidden = self.slack * min(ledger.loose / ledger.energy, 1.0) if ledger.energy > 0 else 0.0
        return s / self.weight + hidden, f / self.weight + self.slack

    def stale_held(self, centre: np.ndarray, k: int | None = None) -> float:
        """Bound on κ_k of Σ w (z − centre)(z − centre)ᵀ/W over the stale rows."""
        ledger, total, W = self.ledger, self.ledger.stale_sum, self.weight
        if not math.isfinite(ledger.stale_trace):
            return math.inf
        allowance = 4 * self.slack  # of a difference of large numbers
        if k is not None and ledger.stale_scatter.size:
            mixed = np.outer(total / W, centre)
            about = ledger.stale_scatter / W - mixed - mixed.T
            about += self.stale_share * np.outer(centre, centre)
            found = float(np.sum(np.maximum(np.linalg.eigvalsh(about)[::-1][:k], 0.0)))
            return found + allowance
        trace = ledger.stale_trace / W - 2 * float(total @ centre[: len(total)]) / W
        return max(0.0, trace + self.stale_share * float(centre @ centre)) + allowance


def below(x: float, s: float) -> float:
    """(√x − √s)², or 0."""
    return max(0.0, math.sqrt(max(x, 0.0)) - math.sqrt(s)) ** 2


def above(x: float, s: float) -> float:
    """(√x + √s)²."""
    return (math.sqrt(max(x, 0.0)) + math.sqrt(s)) ** 2


def projected(x: float, s: float, q: float) -> tuple[float, float]:
    """Bounds on λ̄ (or a sum of leading ones) from λ̂: (√λ̂ ∓ √s)², or λ̂ ∓ 2√(qs), + s above.

    Statement 6 of docs/proofs.md.
    """
    crossed = cross(q, s)
    return max(0.0, below(x, s), x - crossed), min(above(x, s), x + crossed + s)


def cross(q: float, s: float) -> float:
    """2√(qs): stale parts against what is held of the same rows."""
    return 2 * math.sqrt(q) * math.sqrt(s) if s > 0.0 else 0.0


def eigenvalues(known: Evidence, r: int) -> np.ndarray:
    """T2: an interval for each of λ_1 … λ_r (statement 7 of docs/proofs.md)."""
    (s, f), (s_all, f_all), slack = known.missed(1), known.missed(), known.slack
    q = known.stale_held(known.mean, 1)
    found = np.zeros((r, 2))
    for i, x in enumerate(known.held(r)):
        low, high = projected(x, s, q)
        high = min(above(x, s) + f, high + s + f, x + cross(q, s) + s_all + f_all)
        found[i] = max(0.0, low - slack), high + slack
    return found


def leading_sum(known: Evidence, r: int) -> tuple[float, float]:
    """T2 for λ_1 + … + λ_r, with κ_r in the place of κ_1 (statement 7 of docs/proofs.md)."""
    x = float(known.held(r).sum())
    s, f = known.missed(r)
    low, high = projected(x, s, known.stale_held(known.mean, r))
    return max(0.0, low - known.slack), min(above(x, s) + f, high + s + f) + known.slack


def total_variance(known: Evidence) -> tuple[float, float]:
    """T3: tr C = τ − |m|², where the mean of what was missed costs f₁ only (statement 8)."""
    tau, slack = known.energy, known.slack
    if not known.center:
        return max(0.0, tau - slack), tau + slack
    s, f = known.missed(1)
    length = float(np.linalg.norm(known.mean))
    g = math.sqrt(known.stale_share * s)
    most = length**2 + 2 * length * g + s + f
    return max(0.0, tau - most - slack), tau - max(0.0, length - g) ** 2 + slack


def best_error(known: Evidence, r: int) -> float:
    """T5 (b): no affine subspace of dimension r has a smaller mean squared error.

    The mean and the r components together are a frame of r + 1 directions: of what was missed they
    can hold (s + f)_{r+1}, of the rest the projected mean and λ̄_1 + … + λ̄_r. (Statement 9 of
    docs/proofs.md.)
    """
    k = r + 1 if known.center else r
    s, f = known.missed(k)
    x, square = float(known.held(r).sum()), float(known.mean @ known.mean)
    s1, sr = known.missed(1)[0], known.missed(r)[0]
    mean = (math.sqrt(square) + math.sqrt(known.stale_share * s1)) ** 2 if known.center else 0.0
    apart = mean + projected(x, sr, known.stale_held(known.mean, r))[1] + s + f
    first = known.energy - min(above(x + square, s) + f, apart)
    second = below(float(known.values[r:].sum()), known.missed()[0])
    return max(0.0, first - known.slack, second - known.slack)


@dataclass(frozen=True)
class Shown:
    """The subspace V and the mean μ that a query sees, in coordinates of their own span.

    T carries the coordinates of the evidence into that span; ``error`` allows for the rounding of
    squared lengths and cosines there.
    """

    V: np.ndarray
    mean: np.ndarray
    T: np.ndarray
    error: float
    same_span: bool


def own_error(known: Evidence, shown: Shown) -> float:
    """T5 (a) for what is shown: a bound on its mean squared error, sharp where nothing is stale.

    J = τ − 2⟨m, μ⟩ + |μ|² − |Vᵀ(Φ − μ1ᵀ)|²/W. In the span the moments are known up to the stale
    part; what of V and μ lies outside of it meets all that was missed. (Statement 10 of
    docs/proofs.md.)
    """
    V, mu, T = shown.V, shown.mean, shown.T
    r = V.shape[1]
    (s1, f1), (sr, fr) = known.missed(1), known.missed(max(r, 1))
    inside = T.T @ mu  # coordinates of Pμ
    outside = off = 0.0
    if not shown.same_span:
        outside = math.sqrt(max(0.0, float(mu @ mu - inside @ inside)) + shown.error * known.energy)
        lost = np.eye(r) - V.T @ T @ T.T @ V
        off = math.sqrt(max(0.0, float(np.linalg.norm(lost, 2)) if r else 0.0) + shown.error)
    m = T @ known.mean
    shifted = T @ known.moment @ T.T - np.outer(m, mu) - np.outer(mu, m) + np.outer(mu, mu)
    captured = max(0.0, float(np.trace(V.T @ shifted @ V)))
    # Stale parts meet what is captured of the stale rows, outside parts what is of all.
    stale = known.stale_held(inside, r if shown.same_span else None)
    stale = min(captured, stale + known.stale_share * outside**2)
    out = off * math.sqrt(sr + fr)
    apart = captured - cross(stale, sr) - 2 * math.sqrt(captured) * out
    least = max(0.0, apart, below(captured, (math.sqrt(sr) + out) ** 2))
    doubt = float(np.linalg.norm(inside)) * math.sqrt(known.stale_share * s1)
    doubt += outside * math.sqrt(s1 + f1)
    around = known.energy - 2 * float(m @ mu) + float(mu @ mu) + 2 * doubt
    return max(0.0, around - least + known.slack + 4 * shown.error * known.energy)


def angle(known: Evidence, shown: Shown, r: int) -> float | None:
    """T6: a bound on |sin Θ| between exact and shown components, as an angle; None without a gap.

    From C to PCP by the missed parts, from there to Ĉ by the stale ones, from there to what is
    shown, which is known. (Statement 11 of docs/proofs.md.)
    """
    if r > known.vectors.shape[1] or shown.V.shape[1] < r:
        return None
    (s1, _), (sr, _), slack = known.missed(1), known.missed(r), known.slack
    q = known.stale_held(known.mean, 1)
    held = known.held(r + 1)
    ends = np.array([projected(x, s1, q) for x in held])
    low, high = ends[:, 0] - slack, ends[:, 1] + slack
    gap = low[r - 1] - high[r]
    if gap <= 0 or low[r - 1] <= 0:
        return None
    b = np.array([0.0, *(sum(known.missed(k)) for k in range(1, r + 2))])  # b_0 … b_{r+1}
    steps = np.maximum(np.diff(b[: r + 1]), 0.0)  # d_1 … d_r
    outside = float(np.sum(steps[::-1] / low[:r]))
    turned = high[r] / low[r - 1] * b[1] * b[r] / gap**2
    sine = math.sqrt(min(outside + turned, b[r + 1] / gap))
    if s1 > 0.0:
        sine += stale_angle(held, s1, sr, q, high[r], r)
    sine += slack / gap  # the eigenvectors of Ĉ are computed, and so is Ĉ
    cosines = shown.V.T @ shown.T @ known.vectors[:, :r]
    sine += math.sqrt(max(0.0, r - float(np.sum(cosines**2))) + r * shown.error)
    return math.asin(sine) if sine < 1.0 else None


def stale_angle(held: np.ndarray, s1: float, sr: float, q: float, next_one: float, r: int) -> float:
    """|sin Θ| between the leading eigenvectors of Ĉ and of PCP: Wedin, or Davis and Kahan.

    The third and the fourth inequality of statement 11 of docs/proofs.md.
    """
    found = [1.0]
    roots = math.sqrt(held[r - 1]) - math.sqrt(held[r]) - math.sqrt(s1)
    if roots > 0:
        found.append(math.sqrt(sr) / roots)
    gap = held[r - 1] - next_one
    if gap > 0 and math.isfinite(q):
        found.append((cross(q, sr) + math.sqrt(s1 * sr)) / gap)
    return min(found)


def outside(known: Evidence, shown: Shown, intervals: np.ndarray) -> np.ndarray:
    """T7: |(I − P)v|² ≤ κ₁/λ for each exact component v, P the projection on the shown basis.

    Another basis than that of the evidence misses what was missed and what it lost itself.
    (Statement 12 of docs/proofs.md.)
    """
    missed = sum(known.missed(1))
    if not shown.same_span:
        lost = float(np.trace(known.moment)) - float(np.trace(shown.T @ known.moment @ shown.T.T))
        missed = above(missed, max(lost, 0.0) + shown.error * known.energy)
    return np.array([min(1.0, missed / low) if low > 0 else 1.0 for low in intervals[:, 0]])
