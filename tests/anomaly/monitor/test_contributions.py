"""Causes: variable, sign and size."""

from __future__ import annotations

import numpy as np
import pytest

from kernelstream import KernelMonitor
from kernelstream.anomaly.monitor.contributions import mean_curvature
from kernelstream.anomaly.monitor.normal import learn_normal
from tests.anomaly.monitor.processes import SETTING, correlated


@pytest.mark.parametrize("lags", [0, 1])
@pytest.mark.parametrize("size", [3.0, 6.0, 1e4])
def test_contributions_find_variable_sign_and_size(lags: int, size: float) -> None:
    X = correlated(400, d=8)
    X[:, 0] += 3 * X[:, 1]
    monitor = KernelMonitor(lags=lags, basis=60, width=30.0, ridge=0.01, random_state=0).fit(X)
    rows = correlated(20, seed=3, d=8)
    rows[:, 0] += 3 * rows[:, 1]
    sd = X.std(axis=0)
    for j in range(8):
        for sign in (1.0, -1.0):
            broken = rows.copy()
            broken[:, j] += sign * size * sd[j]
            name, value, found = monitor.contributions(broken).ranking()[0]
            assert name == f"x{j}" and value > 0
            assert 0.7 < found / (sign * size * sd[j]) < 1.4
    each = monitor.contributions(broken, average=False)
    assert len(each) == 20


def test_curvature_is_that_of_normal_rows() -> None:
    R = correlated(300)
    normal = learn_normal(R, SETTING)
    np.testing.assert_allclose(
        mean_curvature(normal, R[:50]),
        normal.index.curvature(normal.whitening.apply(R[:50])),
        rtol=1e-9,
        atol=1e-9,
    )
