"""Curved processes, drift, causes and cost."""

from __future__ import annotations

import copy
from time import process_time
from typing import Any

import numpy as np

from kernelstream import KernelMonitor
from reproductions.tennessee_eastman.protocol import START, Rows, Runs, by_stream, faulty, rates

OFFSET = 0.25  # deviations that each variable has moved at the end of the drift
SCALE = 0.5  # by which every deviation has grown at the end of the drift
DRIFTS = ("none", "offset", "scale", "both")

# --- curved processes ----------------------------------------------------------------------------


def lee(n: int, rng: np.random.Generator, step: float = 0.0) -> Rows:
    """Lee et al. (2004): x = (t, t² − 3t, 3t² − t³) + noise of variance 0.01; x₂ stepped."""
    t = rng.uniform(0.01, 2.0, n)
    X = np.stack([t, t**2 - 3 * t, 3 * t**2 - t**3], axis=1)
    return X + rng.normal(scale=0.1, size=X.shape) + np.array([0.0, step, 0.0])


def ring(n: int, rng: np.random.Generator) -> Rows:
    """A circle of radius 3 with noise of deviation 0.3."""
    angle = rng.uniform(0, 2 * np.pi, n)
    return 3 * np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.3 * rng.normal(size=(n, 2))


def inside(n: int, rng: np.random.Generator) -> Rows:
    """Rows in the disc of radius 2, where the ring never is."""
    angle, radius = rng.uniform(0, 2 * np.pi, n), 2 * np.sqrt(rng.uniform(size=n))
    return radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def curved(n_seeds: int, tiny: bool) -> dict[str, Any]:
    """Detection at 1 % with everything chosen without faults, beside a linear Mahalanobis index."""
    n = 60 if tiny else 500
    found: dict[str, Any] = {}
    for name, normal, fault in (
        ("lee", lee, lambda n, rng: lee(n, rng, -0.4)),
        ("ring", ring, inside),
    ):
        results = []
        for seed in range(n_seeds):
            rng = np.random.default_rng(seed)
            train, calibration = normal(n, rng), normal(2 * n, rng)
            broken, new = fault(2 * n, rng), normal(2 * n, rng)
            monitor = KernelMonitor(smooth=None, random_state=seed)
            monitor.fit(train, calibration=calibration)
            linear = over(straight(train), calibration, broken)
            results.append(
                [
                    100 * np.mean(monitor.predict(broken) == -1),
                    100 * np.mean(monitor.predict(new) == -1),
                    100 * linear,
                ]
            )
        fdr, far, flat = np.mean(results, axis=0)
        worst = np.min(results, axis=0)[0]
        found[name] = {"fdr": fdr, "far": far, "linear": flat, "fdr_worst_seed": worst}
    return found


def straight(train: Rows) -> Any:
    """The squared Mahalanobis distance to the training rows."""
    mean, inverse = train.mean(axis=0), np.linalg.inv(np.cov(train.T))
    return lambda X: np.einsum("ij,jk,ik->i", X - mean, inverse, X - mean)


def over(score: Any, calibration: Rows, X: Rows) -> float:
    """Share of rows over the 99 % quantile of the calibration scores."""
    return float(np.mean(score(X) > np.quantile(score(calibration), 0.99)))


# --- drift ---------------------------------------------------------------------------------------


def drifting(runs: Runs, kind: str, seed: int) -> list[Rows]:
    """The normal rows of all test runs, one run after the other, with a drift from 0 to its full.

    Each variable moves up or down at random, against its correlations; frozen limits are all alarms
    before the drift is a third over.
    """
    pieces = [X[:START] for X in faulty(runs).values()]
    X = np.vstack(pieces)
    mean, deviation = runs["d00"].mean(axis=0), runs["d00"].std(axis=0)
    ramp = np.linspace(0, 1, len(X))[:, None]
    if kind in ("scale", "both"):
        X = mean + (X - mean) * (1 + SCALE * ramp)
    if kind in ("offset", "both"):
        X = X + OFFSET * ramp * deviation * np.random.default_rng(seed).choice([-1, 1], X.shape[1])
    return np.split(X, len(pieces))


def drift(runs: Runs, smooth: float | None, n_seeds: int) -> dict[str, Any]:
    """False alarms under drift, and detection without, by a monitor that adapts."""
    monitor = KernelMonitor(lags=2, smooth=smooth, random_state=0)
    monitor.fit(runs["d00"], calibration=runs["d00_te"])
    frozen = copy.copy(monitor).set_params(adapt="off")
    found: dict[str, Any] = {"undrifted": rates(by_stream(monitor), runs)}
    for kind in DRIFTS:
        seeds = range(n_seeds if kind in ("offset", "both") else 1)
        found[kind] = np.mean([stream_rate(monitor, runs, kind, seed) for seed in seeds])
        found[f"{kind}_frozen"] = stream_rate(frozen, runs, kind, 0)
    return found


def stream_rate(monitor: KernelMonitor, runs: Runs, kind: str, seed: int) -> float:
    """Alarms in percent along the drifting stream; the lags are cut where a run begins."""
    stream = copy.copy(monitor)
    alarms = [
        stream.interrupt().update_many(piece).column("alarm")
        for piece in drifting(runs, kind, seed)
    ]
    return 100 * float(np.mean(np.concatenate(alarms)))


# --- causes --------------------------------------------------------------------------------------


def causes(runs: Runs, stride: int) -> dict[str, Any]:
    """How often the stepped variable has the largest contribution, and is among three.

    Every variable is stepped in every ``stride``-th row (ten rows in a row), up and down in turn.
    """
    monitor = KernelMonitor(lags=0, adapt="off", random_state=0)  # single rows have no past
    monitor.fit(runs["d00"], calibration=runs["d00_te"])
    normal, deviation = runs["d00_te"], runs["d00"].std(axis=0)
    found: dict[str, Any] = {}
    for name, size, n_rows in (("2", 2, 1), ("3", 3, 1), ("5", 5, 1), ("2_ten_rows", 2, 10)):
        ranks = []
        for j in range(normal.shape[1]):
            starts = np.arange(0, len(normal) - n_rows + 1, max(stride, n_rows))
            for turn, start in enumerate(starts):
                rows = normal[start : start + n_rows].copy()
                rows[:, j] += (-1) ** turn * size * deviation[j]
                values = monitor.contributions(rows).values
                ranks.append(int(np.sum(values > values[j])))
        found[name] = {
            "top_1": 100 * float(np.mean(np.array(ranks) < 1)),
            "top_3": 100 * float(np.mean(np.array(ranks) < 3)),
            "trials": len(ranks),
        }
    return found


# --- cost ----------------------------------------------------------------------------------------


def cost(X: Rows, stream: Rows, n_single: int) -> dict[str, Any]:
    """Processor milliseconds a row of an adapting monitor with 2 lags and 200 points."""
    monitor = KernelMonitor(lags=2, width=50.0, ridge=0.1, whiten=True, random_state=0).fit(X)
    copy.copy(monitor).update_many(stream[:50])  # compiles
    times = []
    for _ in range(3):
        blocks = copy.copy(monitor)
        begin = process_time()
        blocks.update_many(stream)
        times.append((process_time() - begin) / len(stream))
    single = copy.copy(monitor)
    begin = process_time()
    for x in stream[:n_single]:
        single.update(x)
    return {
        "blocks_ms": 1e3 * min(times),
        "single_ms": 1e3 * (process_time() - begin) / min(n_single, len(stream)),
        "rows": len(stream),
    }
