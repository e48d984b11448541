"""Lecture notes on the Hebbian maximum eigenfilter: Oja's rule and its differential equation.

Inputs are Gaussian with the correlation matrix R = Q diag(λ) Qᵀ. The notes claim that plain Hebb
grows without bound, that Oja's first-order form of the normalised rule stays bounded, follows

    dw/dt = R w − (wᵀR w) w,      w(t) = e^{Rt} w(0) / √(1 − |w(0)|² + |e^{Rt} w(0)|²)

(the solution is not in the notes; its norm and its direction are checked in ``flow_error``), that
α_k = θ_k/θ_1 dies like exp(−(λ_1 − λ_k) t), and that w → ±q_1 and Var(y) → λ_1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kernelstream import StreamingKernelPCA, bases, schedules, trackers
from reproductions.frame import Data, claim
from reproductions.lecture_oja import pictures

LAM = np.array([1.0, 0.6, 0.3, 0.1])
THETA = np.array([0.2, 0.6, 0.6, 0.5]) / np.linalg.norm([0.2, 0.6, 0.6, 0.5])  # a start for modes
STEPS = (0.1, 0.03, 0.01, 0.003, 0.001)
SHOWN = 0.01  # the step of the pictures
DURATION = 12.0
LIMIT = 5.0  # hard limit on the weights

Rule = str  # "hebb", "normalised" or "oja"


def mixing(seed: int = 0) -> np.ndarray:
    """The eigenvectors of R as columns."""
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(len(LAM), len(LAM))))[0]


Q = mixing()
R = (Q * LAM) @ Q.T


def inputs(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=(*shape, len(LAM))) * np.sqrt(LAM) @ Q.T


# --- the rules, many runs at once --------------------------------------------------------------


def step(rule: Rule, W: np.ndarray, x: np.ndarray, eta: float) -> np.ndarray:
    """One update of every run: W and x have a row for each."""
    y = np.sum(W * x, axis=1, keepdims=True)
    if rule == "oja":
        return W + eta * y * (x - y * W)
    W = W + eta * y * x
    return W / np.linalg.norm(W, axis=1, keepdims=True) if rule == "normalised" else W


def simulate(rule: Rule, W: np.ndarray, eta: float, n: int, seed: int) -> np.ndarray:
    """Weights of all runs at the times 0, η, 2η …, shape (n + 1, runs, m)."""
    rng = np.random.default_rng(seed)
    path = np.empty((n + 1, *W.shape))
    path[0] = W
    for i in range(n):
        path[i + 1] = step(rule, path[i], inputs(rng, len(W)), eta)
    return path


def flow(w: np.ndarray, t: np.ndarray) -> np.ndarray:
    """The solution of the differential equation at the times ``t``, in modes θ: (times, m)."""
    grown = np.exp(np.outer(t, LAM)) * (Q.T @ w)
    return grown / np.sqrt(1.0 - w @ w + np.sum(grown**2, axis=1))[:, None]


def flow_error() -> float:
    """How far ``flow`` is from a Runge–Kutta solution of the differential equation."""
    w, dt, n = 1.5 * Q @ THETA, 1e-3, 4000

    def slope(v: np.ndarray) -> np.ndarray:
        return R @ v - (v @ R @ v) * v

    v, worst = w.copy(), 0.0
    exact = flow(w, dt * np.arange(n + 1)) @ Q.T
    for i in range(n):
        a = slope(v)
        b = slope(v + dt / 2 * a)
        c = slope(v + dt / 2 * b)
        v = v + dt / 6 * (a + 2 * b + 2 * c + slope(v + dt * c))
        worst = max(worst, float(np.abs(v - exact[i + 1]).max()))
    return worst


# --- the claims --------------------------------------------------------------------------------


def growth(runs: int, duration: float, out: Path) -> dict[str, Any]:
    """Plain Hebb against the two forms that are normalised."""
    n = round(duration / SHOWN)
    W = np.tile(Q @ THETA, (runs, 1))
    t = SHOWN * np.arange(n + 1)
    norms = {
        rule: np.linalg.norm(simulate(rule, W, SHOWN, n, seed=1), axis=2)
        for rule in ("hebb", "normalised", "oja")
    }
    pictures.growth(t, norms, LAM[0], out / "figure_1.png")
    late = t > duration / 2
    slope = np.polyfit(t[late], np.log(norms["hebb"][late]).mean(axis=1), 1)[0]
    return {
        "hebb_rate": slope,
        "hebb_last_norm": np.median(norms["hebb"][-1]),
        "oja_largest_norm": norms["oja"].max(),
        "oja_smallest_norm": norms["oja"].min(),
    }


def first_order(runs: int) -> dict[str, Any]:
    """How the difference between explicit normalisation and Oja's form falls with η, in a step."""
    rng = np.random.default_rng(2)
    W = rng.normal(size=(runs, len(LAM)))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    x = inputs(rng, runs)
    gaps = [
        np.linalg.norm(step("oja", W, x, eta) - step("normalised", W, x, eta), axis=1).mean()
        for eta in STEPS[2:]
    ]
    return {"order": np.polyfit(np.log(STEPS[2:]), np.log(gaps), 1)[0]}


def to_the_flow(runs: int, duration: float, out: Path) -> dict[str, Any]:
    """Oja's rule against the differential equation, for smaller and smaller steps."""
    w = Q @ THETA
    deviations, rates = [], np.zeros(len(LAM) - 1)
    for eta in STEPS:
        n = round(duration / eta)
        path = simulate("oja", np.tile(w, (runs, 1)), eta, n, seed=3) @ Q
        t = eta * np.arange(n + 1)
        exact = flow(w, t)
        deviations.append(np.median(np.abs(path - exact[:, None, :]).max(axis=(0, 2))))
        if eta == SHOWN:
            pictures.modes(t, path, exact, out / "figure_2.png")
        if eta == STEPS[-1]:
            alpha = np.abs(np.mean(path[:, :, 1:] / path[:, :, :1], axis=1))
            # Until the mean over the runs drowns in its own noise.
            early = t <= min(duration, 4.0)
            rates = -np.polyfit(t[early], np.log(alpha[early]), 1)[0]
            pictures.rates(t, alpha, exact, LAM, STEPS, deviations, out / "figure_3.png")
    return {
        "deviations": deviations,
        "order": np.polyfit(np.log(STEPS[1:]), np.log(deviations[1:]), 1)[0],
        "rates": rates,
        "expected_rates": LAM[0] - LAM[1:],
    }


def to_the_eigenvector(runs: int, n: int, out: Path) -> dict[str, Any]:
    """η = 1/n as in the notes, from anywhere: ends at q_1 or −q_1, with Var(y) = λ_1."""
    rng = np.random.default_rng(4)
    start = rng.normal(size=(runs, len(LAM)))
    W = start / np.linalg.norm(start, axis=1, keepdims=True)
    kept = np.unique(np.geomspace(1, n, 200).astype(int))
    cosines: list[np.ndarray] = []
    norms: list[np.ndarray] = []
    powers: list[np.ndarray] = []
    running = np.zeros(runs)
    for i in range(1, n + 1):
        x = inputs(rng, runs)
        y = np.sum(W * x, axis=1)
        # Weight 2/(i + 1): outputs of the time before convergence fade.
        running += (y**2 - running) * 2.0 / (i + 1)
        W = np.clip(step("oja", W, x, 1.0 / (i + 1)), -LIMIT, LIMIT)
        if i == kept[len(norms)]:
            length = np.linalg.norm(W, axis=1)
            cosines.append(W @ Q[:, 0] / length)
            norms.append(length)
            powers.append(running.copy())
    cos, power = np.array(cosines), np.array(powers)
    pictures.eigenvector(kept, cos, power, LAM[0], out / "figure_4.png")
    sines = np.median(np.sqrt(1 - np.minimum(cos**2, 1.0)), axis=1)
    late = kept > n / 50
    return {
        "cosine": np.median(np.abs(cos[-1])),
        "cosine_worst": np.abs(cos[-1]).min(),
        "share_positive": np.mean(cos[-1] > 0),
        "norm": np.median(norms[-1]),
        "variance_over_eigenvalue": np.median(power[-1]) / LAM[0],
        "angle_exponent": -np.polyfit(np.log(kept[late]), np.log(sines[late]), 1)[0],
    }


def boundedness(runs: int, n: int) -> dict[str, Any]:
    """η = 1/n from weights far too large, with and without the hard limit."""
    left = {}
    for name, limit in (("free", np.inf), ("limited", LIMIT)):
        rng = np.random.default_rng(5)
        W = 3.0 * rng.normal(size=(runs, len(LAM)))
        with np.errstate(over="ignore", invalid="ignore"):
            for i in range(1, n + 1):
                W = np.clip(step("oja", W, inputs(rng, runs), 1.0 / (i + 1)), -limit, limit)
        with np.errstate(over="ignore"):
            left[name] = np.mean(np.linalg.norm(np.nan_to_num(W, nan=1e300), axis=1) < 2.0)
    return left


def lyapunov() -> dict[str, Any]:
    """V = (θ_1² − 1)² along the exact solution: from the unit sphere, and from outside it."""
    t = np.linspace(0, DURATION, 4001)
    inside = (flow(Q @ THETA, t)[:, 0] ** 2 - 1) ** 2
    outside = (flow(2.0 * Q @ THETA, t)[:, 0] ** 2 - 1) ** 2
    return {
        "falls_on_sphere": bool(np.all(np.diff(inside) <= 1e-14)),
        "start_outside": outside[0],
        "highest_outside": outside.max(),
        "last_outside": outside[-1],
    }


def library(n: int) -> dict[str, Any]:
    """The Hebbian tracker with a linear kernel is this rule: the largest difference of weights."""
    X = inputs(np.random.default_rng(6), n)
    model = StreamingKernelPCA(
        1,
        kernel="linear",
        basis=bases.Distance(1e-9),
        tracker=trackers.Hebbian(schedules.Constant(SHOWN)),
        center=False,
    ).partial_fit(X)
    w = X[:1] / np.linalg.norm(X[0])  # where the tracker starts
    for x in X:
        w = step("oja", w, x[None], SHOWN)
    learned = model.transform(np.eye(len(LAM)))[:, 0]  # of unit length
    w = w[0] / np.linalg.norm(w)
    return {"difference": min(np.abs(learned - w).max(), np.abs(learned + w).max())}


def run(data: Data, full: bool, out: Path, tiny: bool = False) -> dict[str, Any]:
    runs = 4 if tiny else 500 if full else 200
    duration = 1.0 if tiny else DURATION
    n = 200 if tiny else 100_000 if full else 20_000
    return {
        "runs": runs,
        "rows": n,
        "flow_error": flow_error(),
        "growth": growth(runs, duration, out),
        "first_order": first_order(runs),
        "flow": to_the_flow(runs, duration, out),
        "eigenvector": to_the_eigenvector(runs, n, out),
        "bounded": boundedness(runs, min(n, 2000)),
        "lyapunov": lyapunov(),
        "library": library(n // 10),
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
