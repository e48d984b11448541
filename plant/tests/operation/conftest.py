"""A small plant, and a monitor of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from kernelstream import KernelMonitor

NAMES = ["flow [m³/h]", "heat (°C)", "load", "level"]


def rows(n: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(n, 2))
    mix = np.random.default_rng(9).normal(size=(2, 4))
    return factors @ mix + 0.3 * rng.normal(size=(n, 4))


def monitor(**parameters: Any) -> KernelMonitor:
    chosen: dict[str, Any] = dict(basis=20, width=30.0, ridge=0.01, whiten=True, lags=0)
    table = pd.DataFrame(rows(400, 0), columns=NAMES)
    fitted = KernelMonitor(**{**chosen, **parameters}, random_state=0).fit(table)
    return fitted


@pytest.fixture
def fault() -> np.ndarray:
    """Rows in which the heat is off for a while."""
    X = rows(140)
    X[40:70, 1] += 6.0
    return X
