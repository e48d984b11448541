"""Lecture notes on the Hebbian maximum eigenfilter: Oja's rule and its differential equation.

Inputs are Gaussian with the correlation matrix R = Q diag(λ) Qᵀ. The notes claim that plain Hebb
grows without bound, that Oja's first-order form of the normalised rule stays bounded and follows

    dw/dt = R w − (wᵀR w) w,

that α_k = θ_k/θ_1 dies like exp(−(λ_1 − λ_k) t), and that w → ±q_1 and Var(y) → λ_1. The rules and
the solution of the equation, which is not in the notes, are those of ``kernelstream.papers.oja``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kernelstream import StreamingKernelPCA, landmarks, papers
from kernelstream.papers import oja, schedules
from reproductions.frame import Data, claim
from reproductions.lecture_oja import pictures

LAM = np.array([1.0, 0.6, 0.3, 0.1])
THETA = np.array([0.2, 0.6, 0.6, 0.5]) / np.linalg.norm([0.2, 0.6, 0.6, 0.5])  # a start for modes
STEPS = (0.1, 0.03, 0.01, 0.003, 0.001)
SHOWN = 0.01  # the step of the pictures
DURATION = 12.0
LIMIT = 5.0  # hard limit on the weights

M = len(LAM)
Q = np.linalg.qr(np.random.default_rng(0).normal(size=(M, M)))[0]  # eigenvectors of R as columns
R = (Q * LAM) @ Q.T


def inputs(seed: int, n: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, M)) * np.sqrt(LAM) @ Q.T


def paths(rule: oja.Rule, w: np.ndarray, eta: float, duration: float, runs: int) -> np.ndarray:
    """Weights of all runs at the times 0, η, 2η …, shape (times, runs, m)."""
    n, schedule = round(duration / eta), schedules.ConstantRate(eta)
    return np.stack([oja.learn(rule, inputs(i, n), w, schedule) for i in range(runs)], axis=1)


def modes_of_flow(w: np.ndarray, times: np.ndarray) -> np.ndarray:
    return np.stack([oja.flow(R, w, float(t)) for t in times]) @ Q


def flow_error() -> float:
    """How far the closed solution is from a Runge–Kutta solution, from outside the sphere."""
    w, dt, n = 1.5 * Q @ THETA, 1e-3, 4000

    def slope(v: np.ndarray) -> np.ndarray:
        return R @ v - (v @ R @ v) * v

    v, worst = w.copy(), 0.0
    for i in range(1, n + 1):
        a = slope(v)
        b = slope(v + dt / 2 * a)
        c = slope(v + dt / 2 * b)
        v = v + dt / 6 * (a + 2 * b + 2 * c + slope(v + dt * c))
        if i % 100 == 0:
            worst = max(worst, float(np.abs(v - oja.flow(R, w, i * dt)).max()))
    return worst


def growth(runs: int, duration: float, out: Path) -> dict[str, Any]:
    """Plain Hebb against the two forms that are normalised."""
    rules = {"hebb": oja.hebb, "normalised": oja.normalised, "oja": oja.oja}
    norms = {
        name: np.linalg.norm(paths(rule, Q @ THETA, SHOWN, duration, runs), axis=2)
        for name, rule in rules.items()
    }
    t = SHOWN * np.arange(len(norms["hebb"]))
    pictures.growth(t, norms, LAM[0], out / "figure_1.png")
    late = t > duration / 2
    return {
        "hebb_rate": np.polyfit(t[late], np.log(norms["hebb"][late]).mean(axis=1), 1)[0],
        "hebb_last_norm": np.median(norms["hebb"][-1]),
        "oja_largest_norm": norms["oja"].max(),
        "oja_smallest_norm": norms["oja"].min(),
    }


def first_order(runs: int) -> dict[str, Any]:
    """How the difference between explicit normalisation and Oja's form falls with η, in a step."""
    starts = np.random.default_rng(1).normal(size=(runs, M))
    starts /= np.linalg.norm(starts, axis=1, keepdims=True)

    def gap(eta: float) -> float:
        pairs = zip(starts, inputs(2, runs), strict=True)
        differences = [oja.oja(w, x, eta) - oja.normalised(w, x, eta) for w, x in pairs]
        return float(np.linalg.norm(differences, axis=1).mean())

    small = STEPS[2:]
    return {"order": np.polyfit(np.log(small), np.log([gap(eta) for eta in small]), 1)[0]}


def to_the_flow(runs: int, duration: float, out: Path) -> dict[str, Any]:
    """Oja's rule against the differential equation, for smaller and smaller steps."""
    w = Q @ THETA
    deviations: list[float] = []
    for eta in STEPS:
        path = paths(oja.oja, w, eta, duration, runs) @ Q
        t = eta * np.arange(len(path))
        exact = modes_of_flow(w, t)
        deviations.append(float(np.median(np.abs(path - exact[:, None, :]).max(axis=(0, 2)))))
        if eta == SHOWN:
            pictures.modes(t, path, exact, out / "figure_2.png")
    # From the smallest step: the mean of α_k over the runs, until it drowns in its own noise.
    alpha = np.abs(np.mean(path[:, :, 1:] / path[:, :, :1], axis=1))
    early = t <= min(duration, 4.0)
    pictures.rates(t, alpha, exact, STEPS, deviations, out / "figure_3.png")
    return {
        "deviations": deviations,
        "order": np.polyfit(np.log(STEPS[1:]), np.log(deviations[1:]), 1)[0],
        "rates": -np.polyfit(t[early], np.log(alpha[early]), 1)[0],
        "expected_rates": LAM[0] - LAM[1:],
    }


def to_the_eigenvector(runs: int, n: int, out: Path) -> dict[str, Any]:
    """η = 1/n as in the notes, from anywhere: ends at q_1 or −q_1, with Var(y) = λ_1."""
    rule, schedule = oja.limited(oja.oja, LIMIT), schedules.InverseTime(1.0)
    kept = np.unique(np.geomspace(1, n, 200).astype(int))
    starts = np.random.default_rng(3).normal(size=(runs, M))
    cos, power, norms = np.empty((len(kept), runs)), np.empty((len(kept), runs)), np.empty(runs)
    for i, start in enumerate(starts):
        X = inputs(i, n)
        path = oja.learn(rule, X, start / np.linalg.norm(start), schedule)
        lengths = np.linalg.norm(path, axis=1)
        cos[:, i] = (path @ Q[:, 0] / lengths)[kept]
        # Weights 1, 2, 3 …: outputs of the time before convergence fade.
        weight = np.arange(1.0, n + 1)
        y = np.sum(X * path[:-1], axis=1)
        power[:, i] = (np.cumsum(weight * y**2) / np.cumsum(weight))[kept - 1]
        norms[i] = lengths[-1]
    pictures.eigenvector(kept, cos, power, LAM[0], out / "figure_4.png")
    sines = np.median(np.sqrt(1 - np.minimum(cos**2, 1.0)), axis=1)
    late = kept > n / 50
    return {
        "cosine": np.median(np.abs(cos[-1])),
        "cosine_worst": np.abs(cos[-1]).min(),
        "share_positive": np.mean(cos[-1] > 0),
        "norm": np.median(norms),
        "variance_over_eigenvalue": np.median(power[-1]) / LAM[0],
        "angle_exponent": -np.polyfit(np.log(kept[late]), np.log(sines[late]), 1)[0],
    }


def boundedness(runs: int, n: int) -> dict[str, Any]:
    """η = 1/n from weights far too large: the share of runs that end near length 1."""
    starts = 3.0 * np.random.default_rng(4).normal(size=(runs, M))

    def share(rule: oja.Rule) -> float:
        ends = [
            oja.learn(rule, inputs(i, n), w, schedules.InverseTime(1.0))[-1]
            for i, w in enumerate(starts)
        ]
        return float(np.mean(np.abs(np.linalg.norm(ends, axis=1) - 1.0) < 0.5))

    with np.errstate(over="ignore", invalid="ignore"):
        return {"free": share(oja.oja), "limited": share(oja.limited(oja.oja, LIMIT))}


def lyapunov() -> dict[str, Any]:
    """V = (θ_1² − 1)² along the exact solution: from the unit sphere, and from outside it."""
    t = np.linspace(0, DURATION, 2001)
    inside, outside = (
        (modes_of_flow(length * Q @ THETA, t)[:, 0] ** 2 - 1) ** 2 for length in (1.0, 2.0)
    )
    return {
        "falls_on_sphere": bool(np.all(np.diff(inside) <= 1e-14)),
        "start_outside": outside[0],
        "highest_outside": outside.max(),
        "last_outside": outside[-1],
    }


def library(n: int) -> dict[str, Any]:
    """The Hebbian tracker with a linear kernel is this rule: the largest difference of weights."""
    X, schedule = inputs(5, n), schedules.ConstantRate(SHOWN)
    model = StreamingKernelPCA(
        1,
        kernel="linear",
        basis=landmarks.Distance(1e-9),
        tracker=papers.Hebbian(schedule),
        center=False,
    ).partial_fit(X)
    # The tracker starts at the first row; what it shows is of unit length.
    w = oja.learn(oja.oja, X, X[0] / np.linalg.norm(X[0]), schedule)[-1]
    w, learned = w / np.linalg.norm(w), model.transform(np.eye(M))[:, 0]
    return {"difference": min(np.abs(learned - w).max(), np.abs(learned + w).max())}


def run(data: Data, full: bool, out: Path, tiny: bool = False) -> dict[str, Any]:
    runs = 4 if tiny else 300 if full else 100
    duration = 1.0 if tiny else DURATION
    n = 200 if tiny else 20_000 if full else 10_000
    return {
        "runs": runs,
        "rows": n,
        "flow_error": flow_error(),
        "growth": growth(runs, duration, out),
        "first_order": first_order(10 * runs),
        "flow": to_the_flow(runs, duration, out),
        "eigenvector": to_the_eigenvector(runs, n, out),
        "bounded": boundedness(runs, min(n, 1000)),
        "lyapunov": lyapunov(),
        "library": library(min(n, 2000)),
    }


def claims(results: dict[str, Any]) -> list[dict[str, Any]]:
    growth, flow, end = results["growth"], results["flow"], results["eigenvector"]
    bounded, V = results["bounded"], results["lyapunov"]
    runs = results["runs"]
    errors = [abs(a / b - 1) for a, b in zip(flow["rates"], flow["expected_rates"], strict=True)]
    gap = float(LAM[0] - LAM[1])
    return [
        claim(
            f"Plain Hebb is unbounded: rate of growth of log |w| (λ₁ = {LAM[0]:g})",
            "→ ∞",
            f"{growth['hebb_rate']:.3f}; |w| = {growth['hebb_last_norm']:,.0f} after "
            f"{DURATION / SHOWN:,.0f} rows",
            abs(growth["hebb_rate"] - LAM[0]) < 0.1,
        ),
        claim(
            "Oja's form is the normalised rule up to first order in η: order of the difference in "
            "one step",
            "O(η²)",
            f"η^{results['first_order']['order']:.2f}",
            abs(results["first_order"]["order"] - 2) < 0.1,
        ),
        claim(
            f"Oja's rule is stable: range of |w| over {runs} runs from |w| = 1, η = {SHOWN:g}",
            "bounded",
            f"{growth['oja_smallest_norm']:.3f} to {growth['oja_largest_norm']:.3f}",
            growth["oja_largest_norm"] < 1.1,
        ),
        claim(
            "Oja's rule follows dw/dt = R w − (wᵀR w) w: largest distance to the exact solution "
            f"up to time {DURATION:g}, η = {', '.join(f'{eta:g}' for eta in STEPS)}",
            "→ 0 with η",
            f"{' '.join(f'{d:.2f}' for d in flow['deviations'])}, like η^{flow['order']:.2f}",
            abs(flow["order"] - 0.5) < 0.1,
            "√η is what the theory of stochastic approximation predicts",
        ),
        claim(
            "The other modes die: rate of α_k = θ_k/θ₁ against λ₁ − λ_k = "
            + ", ".join(f"{rate:.1f}" for rate in flow["expected_rates"]),
            "λ₁ − λ_k",
            ", ".join(f"{rate:.3f}" for rate in flow["rates"]),
            max(errors) < 0.05,
            "the notes leave out the factor α_k(0)",
        ),
        claim(
            "V = (θ₁² − 1)² is a Lyapunov function: dV/dt < 0 for all t",
            "falls always",
            f"from |w| = 1 {'it does' if V['falls_on_sphere'] else 'it does not'}; from |w| = 2 it "
            f"goes {V['start_outside']:.2f} → {V['highest_outside']:.2f} → {V['last_outside']:.0e}",
            V["falls_on_sphere"] and V["highest_outside"] <= V["start_outside"],
            "the notes drop the terms with θ₂, θ₃ … before they differentiate. On the unit sphere "
            "Σ λ_l θ_l² ≤ λ₁ and the claim holds; outside it need not",
        ),
        claim(
            f"w → ±q₁ with η = 1/n: |cos| after {results['rows']:,} rows, median and worst of "
            f"{runs} random starts",
            "1",
            f"{end['cosine']:.4f}, {end['cosine_worst']:.2f}; {end['share_positive']:.0%} end at "
            f"+q₁; |w| = {end['norm']:.4f}",
            end["cosine"] > 0.99,
            "with η = 1/n the time of the differential equation is only log n: a start nearly "
            "orthogonal to q₁ is still on its way",
        ),
        claim(
            "“No idea how many iterations are needed”: exponent of n with which the angle falls",
            "–",
            f"n^−{end['angle_exponent']:.2f}",
            None,
            f"t = log n, so exp(−(λ₁ − λ₂)t) = n^−(λ₁ − λ₂) = n^−{gap:.1f} while λ₁ − λ₂ < ½",
        ),
        claim(
            "Var(y) → λ₁: running variance of the output over λ₁, same runs",
            "1",
            f"{end['variance_over_eigenvalue']:.3f}",
            abs(end["variance_over_eigenvalue"] - 1) < 0.05,
        ),
        claim(
            f"A hard limit on the weights (here {LIMIT:g}) keeps them in a compact set: share of "
            "runs that end near |w| = 1 from weights of deviation 3, η = 1/n",
            "all",
            f"{bounded['limited']:.0%} with the limit, {bounded['free']:.0%} without",
            bounded["limited"] > 0.99,
        ),
        claim(
            "Our Hebbian tracker with a linear kernel is this rule: largest difference of weights",
            "–",
            f"{results['library']['difference']:.0e}",
            None,
        ),
    ]
