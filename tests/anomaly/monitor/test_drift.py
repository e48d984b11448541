"""Drift against the frozen reference."""

from __future__ import annotations

import numpy as np
import pytest

from kernelstream import KernelMonitor
from tests.anomaly.monitor.processes import correlated


def test_drift_is_measured_against_the_reference() -> None:
    X = correlated(400)
    monitor = KernelMonitor(
        basis=40, width=30.0, ridge=0.1, whiten=True, memory=100, random_state=0
    ).fit(X)
    start = monitor.drift_
    assert (start.largest_shift, start.largest_scale, start.overlap) == (0.0, 1.0, 1.0)
    assert (start.novelty, start.rows) == (0.0, 0)
    # the second variable moves up by two deviations, the third doubles its spread
    moved = correlated(2000, seed=1)
    moved[:, 2] *= 2.0
    moved[:, 1] += 2.0 * X[:, 1].std()
    monitor.partial_fit(moved)
    drift = monitor.drift_
    assert drift.rows == 2000
    assert drift.centre[1] == pytest.approx(2.0, abs=0.3)
    assert np.abs(np.delete(drift.centre, 1)).max() < 0.5
    assert drift.scale[2] == pytest.approx(2.0, abs=0.4)
    assert np.abs(np.delete(drift.scale, 2) - 1).max() < 0.3
    assert drift.largest_shift == np.abs(drift.centre).max()
    assert drift.largest_scale == pytest.approx(drift.scale.max())
    assert drift.novelty > 1.0  # the frozen model finds these rows strange
    assert drift.overlap > 0.9  # correlations have not changed
    rotated = (
        np.random.default_rng(3).normal(size=(2000, 5))
        @ np.linalg.qr(np.random.default_rng(4).normal(size=(5, 5)))[0]
        * np.arange(1, 6)
    )
    monitor.partial_fit(rotated)
    assert monitor.drift_.overlap < 0.9
