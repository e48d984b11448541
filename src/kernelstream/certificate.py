"""The error certificate: how far the model is from batch kernel PCA of all rows seen.

The rows are gone, but what the basis missed of each was entered in the ledger. From that alone
follow intervals for the eigenvalues that batch kernel PCA would have found, a lower bound on the
error of *any* subspace of the same dimension, and, where the eigenvalues are certainly apart, a
bound on the angle between its components and ours. The statements are numbered as in the
documentation (T2 to T7); every one of them is deterministic.

Notation: W total weight, x_i = W λ̂_i with λ̂ the eigenvalues of the covariance that the model holds,
s_k and f_k the ledger's stale and fresh bounds on κ_k, b_k = f_k/W.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kernelstream.accounting import coordinate_rounding, unit_roundoff
from kernelstream.backends.arrays import to_host
from kernelstream.bases.base import Span, transition
from kernelstream.ledger import Ledger
from kernelstream.model import Parts, State
from kernelstream.view import View


@dataclass(frozen=True)
class Certificate:
    """What is certain about batch kernel PCA of the rows seen.

    Attributes
    ----------
    eigenvalue_intervals : array of shape (r, 2)
        Each eigenvalue of batch kernel PCA (in the units of ``eigenvalues_``) lies in its interval.
    explained_variance_ratio_interval : tuple of two floats
        Share of the variance that the best r components explain.
    reconstruction_error : float
        Mean squared reconstruction error of this model over the rows seen, or a bound on it.
    reconstruction_error_lower_bound : float
        No affine subspace of dimension r has a smaller error.
    excess_bound : float
        The model's error is at most this much above the best possible.
    angle_bound : float or None
        Largest angle, in radians, between the spans of our components and the exact ones; None
        where the eigenvalues are not certainly apart.
    component_bounds : array of shape (r,)
        Squared length of the part of each exact component that lies outside the span of the basis
        (Honeine's Theorem 5, with the actual residuals).
    slack : float
        Allowance for rounding, relative to the mean energy; it is inside all numbers above.
    proved : bool
        Whether the allowance for rounding was derived (float64) or measured (float32).
    probability : float
        1: all statements are deterministic.
    reason : str or None
        Why there is no certificate, or why it is of no use; None when all is well.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA
    >>> X = np.random.default_rng(0).normal(size=(1000, 3))
    >>> model = StreamingKernelPCA(2, gamma=0.1, certify="tight", random_state=0).fit(X)
    >>> bound = model.certificate_
    >>> bool(bound.excess_bound < 0.05 * bound.reconstruction_error)
    True
    """

    eigenvalue_intervals: np.ndarray
    explained_variance_ratio_interval: tuple[float, float]
    reconstruction_error: float
    reconstruction_error_lower_bound: float
    excess_bound: float
    angle_bound: float | None
    component_bounds: np.ndarray
    slack: float
    proved: bool
    probability: float
    reason: str | None

    @property
    def useful(self) -> bool:
        """Whether the statements say something."""
        return self.reason is None

    def rows(self) -> list[tuple[str, str]]:
        """The statements in words, as pairs."""
        if not np.all(np.isfinite(self.eigenvalue_intervals)):
            return [("certificate", f"no certificate: {self.reason}")]
        found = [
            (f"eigenvalue {i}", f"between {low:.6g} and {high:.6g}")
            for i, (low, high) in enumerate(self.eigenvalue_intervals[:10], 1)
        ]
        hidden = len(self.eigenvalue_intervals) - len(found)
        if hidden > 0:
            found.append(("", f"… and {hidden} more in eigenvalue_intervals"))
        low, high = self.explained_variance_ratio_interval
        angle = "no certificate (eigenvalues not certainly apart)"
        if self.angle_bound is not None:
            angle = f"at most {math.degrees(self.angle_bound):.3g} degrees"
        found += [
            ("explained variance ratio", f"between {low:.4f} and {high:.4f}"),
            ("reconstruction error", f"at most {self.reconstruction_error:.6g}"),
            ("best possible error", f"at least {self.reconstruction_error_lower_bound:.6g}"),
            ("above the best possible", f"at most {self.excess_bound:.6g}"),
            ("angle to the exact components", angle),
            (
                "kind",
                "deterministic" if self.proved else "deterministic, but rounding was measured",
            ),
        ]
        if self.reason is not None:
            found.append(("beware", self.reason))
        return found

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.rows())
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self.rows())

    def _repr_html_(self) -> str:
        cells = "".join(f"<tr><th>{name}</th><td>{text}</td></tr>" for name, text in self.rows())
        return f"<table>{cells}</table>"


def certify(parts: Parts, state: State, shown: View) -> Certificate:
    """The certificate of a state, for the components that a query is shown.

    ``state`` is the plain accumulated state; ``shown`` may stand in a refreshed basis with
    corrected moments, and the known difference between the two is added.
    """
    r = int(shown.variances.shape[0])
    problem = obstacle(parts, state)
    if problem is not None:
        return no_certificate(r, problem)
    span = parts.basis.span(state.basis)
    assert span is not None
    W, ledger = state.moments.weight, state.ledger
    mean = to_host(state.moments.mean) if parts.center else np.zeros(span.rank)
    S = to_host(state.tracker.scatter)
    values, vectors = np.linalg.eigh(S / W - np.outer(mean, mean))
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    held = np.concatenate([values, np.zeros(max(0, r + 1 - len(values)))])

    tau = ledger.energy / W
    slack, proved = rounding_slack(parts, ledger, span)
    if not slack < 1.0:
        return no_certificate(r, "rounding errors are as large as the data; see the documentation")
    missed = Missed(ledger, W, slack * tau)

    intervals = eigenvalues(held, missed, r)
    variance = total_variance(tau, mean, missed, parts.center)
    best = best_error(held, mean, tau, missed, r, parts.center)
    error = own_error(parts, span, S, mean, tau, missed, shown)
    sums = leading_sum(held, missed, r)
    ratio = (
        min(1.0, sums[0] / variance[1]) if variance[1] > 0 else 0.0,
        min(1.0, sums[1] / (sums[1] + best)) if sums[1] + best > 0 else 1.0,
    )
    outside = [min(1.0, sum(missed.by(1)) / low) if low > 0 else 1.0 for low in intervals[:, 0]]
    first = intervals[0, 1] - intervals[0, 0]
    vague = first > max(held[0], 0.0) and missed.stale_share > 0
    return Certificate(
        eigenvalue_intervals=intervals * W,
        explained_variance_ratio_interval=ratio,
        reconstruction_error=error,
        reconstruction_error_lower_bound=best,
        excess_bound=max(error - best, 0.0),
        angle_bound=angle(held, vectors, missed, r, parts, span, shown),
        component_bounds=np.array(outside),
        slack=slack,
        proved=proved,
        probability=1.0,
        reason=(
            "no useful certificate: many rows were folded before the basis last moved; call fit, "
            "or go on streaming"
            if vague
            else None
        ),
    )


def obstacle(parts: Parts, state: State) -> str | None:
    """Why there can be no certificate, if so."""
    if not parts.certify:
        return "certify=False was given"
    if not parts.kernel.psd:
        return f"the kernel {parts.kernel} is not known to be positive semidefinite"
    if parts.basis.span(state.basis) is None:
        return f"{parts.basis} has no points"
    if not hasattr(state.tracker, "scatter"):
        return f"the tracker {parts.tracker} keeps no moments; use trackers.Covariance"
    if not state.ledger.complete or state.moments.weight <= 0:
        return "the account of missed energy is not complete"
    return None


def no_certificate(r: int, reason: str) -> Certificate:
    """A certificate that states nothing but why."""
    return Certificate(
        eigenvalue_intervals=np.tile([0.0, math.inf], (r, 1)),
        explained_variance_ratio_interval=(0.0, 1.0),
        reconstruction_error=math.inf,
        reconstruction_error_lower_bound=0.0,
        excess_bound=math.inf,
        angle_bound=None,
        component_bounds=np.ones(r),
        slack=math.inf,
        proved=False,
        probability=1.0,
        reason=reason,
    )


def rounding_slack(parts: Parts, ledger: Ledger, span: Span) -> tuple[float, bool]:
    """Allowance for rounding relative to the mean energy τ, and whether it is derived.

    First-order worst-case constants; for float32 rows these are a thousand times too large to be
    of use, so there four times the largest error measured along the stream stands in.
    """
    m, d = (int(n) for n in span.points.shape)
    additions = (ledger.blocks + ledger.longest + 8) * 2.0**-53
    u = unit_roundoff(span)
    if ledger.deviation > 0.0 or u > 1e-10:
        return 4 * (4 * ledger.deviation + 4 * u) + (m + 8) * u + additions, False
    c = parts.kernel.rounding(ledger.extent, d)
    basis = coordinate_rounding(parts.kernel, span, ledger.extent) + ledger.rounding
    return basis + (c + m + 8) * u + additions, True


class Missed:
    """Stale and fresh bounds per unit of weight, rounding included.

    While nothing is stale, rounding is one more missed energy. As soon as something is, a rounding
    error enters under the root like everything else that lies inside the span.
    """

    def __init__(self, ledger: Ledger, weight: float, slack: float):
        self.ledger, self.weight, self.slack = ledger, weight, slack
        self.stale_share = min(ledger.stale_weight / weight, 1.0)

    def by(self, k: int) -> tuple[float, float]:
        """(s_k, f_k)/W."""
        stale, fresh = self.ledger.missed_by(k)
        s, f = stale / self.weight, fresh / self.weight
        return (s + self.slack if s > 0 else 0.0), f + self.slack

    def all(self) -> tuple[float, float]:
        """(s_∞, f_∞)/W."""
        s, f = self.ledger.stale / self.weight, self.ledger.fresh / self.weight
        return (s + self.slack if s > 0 else 0.0), f + self.slack


def below(x: float, s: float) -> float:
    """(√x − √s)², or 0."""
    return max(0.0, math.sqrt(max(x, 0.0)) - math.sqrt(s)) ** 2


def above(x: float, s: float) -> float:
    """(√x + √s)²."""
    return (math.sqrt(max(x, 0.0)) + math.sqrt(s)) ** 2


def eigenvalues(held: np.ndarray, missed: Missed, r: int) -> np.ndarray:
    """T2: (√λ̂ − √s₁)² ≤ λ ≤ (√λ̂ + √s₁)² + f₁, all over W."""
    s, f = missed.by(1)
    slack = missed.slack
    return np.array(
        [[max(0.0, below(x, s) - slack), above(x, s) + f + slack] for x in held[:r]]
    ).reshape(r, 2)


def leading_sum(held: np.ndarray, missed: Missed, r: int) -> tuple[float, float]:
    """T2 for λ_1 + … + λ_r, with κ_r in the place of κ_1."""
    total = float(held[:r].sum())
    s, f = missed.by(r)
    return max(0.0, below(total, s) - missed.slack), above(total, s) + f + missed.slack


def total_variance(
    tau: float, mean: np.ndarray, missed: Missed, center: bool
) -> tuple[float, float]:
    """T3: tr C = τ − |m|², where the mean of what was missed costs f₁ only."""
    if not center:
        return tau - missed.slack, tau + missed.slack
    s, f = missed.by(1)
    length = float(np.linalg.norm(mean))
    g = math.sqrt(missed.stale_share * s)
    least = max(0.0, length - g) ** 2
    most = length**2 + 2 * length * g + s + f
    return max(0.0, tau - most - missed.slack), tau - least + missed.slack


def best_error(
    held: np.ndarray, mean: np.ndarray, tau: float, missed: Missed, r: int, center: bool
) -> float:
    """T5 (b): no affine subspace of dimension r has a smaller mean squared error.

    The mean and the r components together are a frame of r + 1 directions, so they cost f_{r+1}.
    """
    s, f = missed.by(r + 1 if center else r)
    captured = float(held[:r].sum() + mean @ mean)
    first = tau - above(captured, s) - f
    second = below(float(held[r:].sum()), missed.all()[0])
    return max(0.0, first - missed.slack, second - missed.slack)


def own_error(
    parts: Parts,
    span: Span,
    S: np.ndarray,
    mean: np.ndarray,
    tau: float,
    missed: Missed,
    shown: View,
) -> float:
    """T5 (a) for the subspace V and the mean μ that are shown: an upper bound, exact if s = 0.

    J = τ − 2⟨m, μ⟩ + |μ|² − |Vᵀ(Φ − μ1ᵀ)|²/W. In the coordinates of ``span`` the moments are known
    up to the stale part; what of V and μ lies outside of it meets the missed energy.
    """
    assert shown.span is not None
    V, mu = orthonormal(to_host(shown.vectors)), to_host(shown.mean)
    if shown.span is span:
        T = np.eye(span.rank)
    else:
        T = to_host(transition(parts.kernel, span, shown.span))  # from the plain to the shown basis
    r = V.shape[1]
    s1, f1 = missed.by(1)
    sr, fr = missed.by(max(r, 1))
    inside = T.T @ mu  # coordinates of Pμ
    outside = math.sqrt(max(0.0, float(mu @ mu - inside @ inside)))
    off = math.sqrt(max(0.0, float(np.linalg.norm(np.eye(r) - V.T @ T @ T.T @ V, 2)) if r else 0.0))
    if shown.span is span:
        outside = off = 0.0
    moment = T @ (S / missed.weight) @ T.T
    m = T @ mean
    shifted = moment - np.outer(m, mu) - np.outer(mu, m) + np.outer(mu, mu)
    captured = float(np.trace(V.T @ shifted @ V)) if r else 0.0
    doubt = math.sqrt(sr) + off * math.sqrt(sr + fr)
    cross = float(np.linalg.norm(inside)) * math.sqrt(missed.stale_share * s1)
    cross += outside * math.sqrt(s1 + f1)
    around = tau - 2 * float(m @ mu) + float(mu @ mu) + 2 * cross
    return max(0.0, around - below(captured, doubt**2) + missed.slack)


def orthonormal(V: np.ndarray) -> np.ndarray:
    """The columns that are there (zero ones fill up missing rank)."""
    return V[:, np.linalg.norm(V, axis=0) > 0.5]


def angle(
    held: np.ndarray,
    vectors: np.ndarray,
    missed: Missed,
    r: int,
    parts: Parts,
    span: Span,
    shown: View,
) -> float | None:
    """T6, plus the known angle between the held components and those that are shown."""
    s1, _ = missed.by(1)
    slack = missed.slack
    low = np.array([below(x, s1) for x in held[: r + 1]]) - slack
    high = np.array([above(x, s1) for x in held[: r + 1]]) + slack
    if r > vectors.shape[1] or len(held) <= r or low[r - 1] <= 0:
        return None
    gap = low[r - 1] - high[r]
    if gap <= 0:
        return None
    b = np.array([0.0, *(sum(missed.by(k)) for k in range(1, r + 2))])  # b_0 … b_{r+1}
    steps = np.maximum(np.diff(b[: r + 1]), 0.0)  # d_1 … d_r
    outside = float(np.sum(steps[::-1] / low[:r]))
    turned = high[r] / low[r - 1] * b[1] * b[r] / gap**2
    squared = outside + turned
    if s1 == 0.0:
        squared = min(squared, b[r + 1] / gap)
    sine = math.sqrt(squared)
    if s1 > 0.0:  # Wedin, between what is held and the projection of the rows on the same span
        roots = math.sqrt(held[r - 1]) - math.sqrt(held[r]) - math.sqrt(s1)
        if roots <= 0:
            return None
        sine += math.sqrt(missed.by(r)[0]) / roots
    V = to_host(shown.vectors)
    T = np.eye(span.rank)
    if shown.span is not span:
        assert shown.span is not None
        T = to_host(transition(parts.kernel, span, shown.span))
    cosines = V.T @ T @ vectors[:, :r]
    sine += math.sqrt(max(0.0, r - float(np.sum(cosines**2))))
    return math.asin(sine) if sine < 1.0 else None
