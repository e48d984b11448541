"""Processes that the tests of the monitor watch, and small monitors for them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from scipy.signal import lfilter

from kernelstream import KernelMonitor, landmarks
from kernelstream.anomaly import Contributions, Drift, Record, Records
from kernelstream.anomaly.monitor.normal import Setting

SETTING = Setting(True, 20.0, 0.05, landmarks.Centroids(25), 0)


def process(n: int, seed: int = 0, d: int = 4) -> np.ndarray:
    """Rows of two slow factors seen by d sensors, one of them bent."""
    rng = np.random.default_rng(seed)
    factors = np.zeros((n, 2))
    for t in range(1, n):
        factors[t] = 0.7 * factors[t - 1] + rng.normal(size=2)
    mix = np.random.default_rng(99).normal(size=(2, d))
    X = factors @ mix + 0.3 * rng.normal(size=(n, d))
    X[:, 0] += 0.3 * factors[:, 0] ** 2
    return X


def curved(n: int, seed: int = 0) -> np.ndarray:
    """Lee's process: three variables on a curve, with noise."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(0.01, 2, n)
    X = np.stack([t, t**2 - 3 * t, 3 * t**2 - t**3], axis=1)
    return X + rng.normal(scale=0.1, size=(n, 3))


def correlated(n: int, seed: int = 0, d: int = 5) -> np.ndarray:
    mix = np.random.default_rng(7).normal(size=(d, d)) + np.eye(d)
    return np.random.default_rng(seed).normal(size=(n, d)) @ mix


def small(**parameters: Any) -> KernelMonitor:
    chosen: dict[str, Any] = dict(basis=20, width=30.0, ridge=0.01, whiten=True, random_state=0)
    return KernelMonitor(**{**chosen, **parameters})


def same(a: Any, b: Any) -> bool:
    """Whether two records agree in everything, bit for bit."""
    if isinstance(a, Record | Drift | Contributions) and type(a) is type(b):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    if isinstance(a, float) and a != a:
        return bool(b != b)
    return bool(np.array_equal(a, b))


def assert_same(one: Records, two: Records) -> None:
    assert len(one) == len(two)
    assert all(same(a, b) for a, b in zip(one, two, strict=True))


def plant(n: int, seed: int, drift: bool) -> np.ndarray:
    """Three autocorrelated factors, eight bent sensors; drift moves offsets and scales slowly."""
    rng = np.random.default_rng(seed)
    mix, bend = rng.normal(size=(3, 8)), 0.3 * rng.normal(size=(3, 8))
    noise = rng.normal(size=(n + 200, 3))
    factors = lfilter([0.6], [1, -0.8], noise, axis=0)[200:]
    X = factors @ mix + (factors**2 - 1) @ bend + 0.3 * rng.normal(size=(n, 8))
    if drift:
        turn = 2 * np.pi * np.arange(n)[:, None] / 50_000
        phase = rng.uniform(0, 2 * np.pi, 8)
        offset = X.std(axis=0) * (np.sin(turn + phase) - np.sin(phase))
        X = X * (1 + 0.3 * np.sin(turn)) + offset
    return X
