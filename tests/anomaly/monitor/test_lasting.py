"""Small faults that last: the average of what was unexpected."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from scipy.stats import chi2, norm

from kernelstream.anomaly.monitor.lasting import (
    MOST_LENGTH,
    PACE,
    clip_residuals,
    residual_weights,
    root_size,
    root_sizes,
)
from kernelstream.anomaly.monitor.normal import lag_rows
from tests.anomaly.monitor.processes import correlated, process, small


@pytest.mark.parametrize("lags", [0, 1, 3])
def test_residuals_are_what_a_regression_on_the_past_leaves(lags: int) -> None:
    Z = process(600)
    R = lag_rows(Z[:0], Z, lags)[lags:]
    R = R - R.mean(axis=0)
    E = (R @ residual_weights(np.cov(R.T, bias=True), 4, 0.0))[:, :4]
    left = R[:, :4]
    if lags:
        left = left - R[:, 4:] @ np.linalg.lstsq(R[:, 4:], R[:, :4], rcond=None)[0]
    np.testing.assert_allclose(E.T @ E / len(E), np.eye(4), atol=1e-8)
    expected = np.sum(left * np.linalg.solve(left.T @ left / len(left), left.T).T, axis=1)
    np.testing.assert_allclose(np.sum(E**2, axis=1), expected)


@pytest.mark.parametrize("lags", [0, 2])
def test_a_step_of_a_sensor_is_wholly_along_its_own_residual(lags: int) -> None:
    Z = process(600)
    R = lag_rows(Z[:0], Z, lags)[lags:]
    V = residual_weights(np.cov(R.T, bias=True), 4, 0.0)
    E = (R - R.mean(axis=0)) @ V
    np.testing.assert_allclose(np.mean(E[:, 4:] ** 2, axis=0), 1.0, atol=1e-8)
    for sensor, step in enumerate(np.eye(4)):
        left = np.tile(step, lags + 1) @ V
        assert left[4 + sensor] == pytest.approx(np.linalg.norm(left[:4]))
    if not lags:  # what the other sensors do not explain of one
        slope = np.linalg.lstsq(R[:, 1:] - R[:, 1:].mean(0), R[:, 0] - R[:, 0].mean(), rcond=None)
        alone = (R[:, 0] - R[:, 0].mean()) - (R[:, 1:] - R[:, 1:].mean(0)) @ slope[0]
        np.testing.assert_allclose(E[:, 4], alone / alone.std(), atol=1e-8)


def test_the_larger_of_whole_and_sensor_is_the_size() -> None:
    """A sensor counts as the χ² that is as rare: with one sensor they are the same."""
    weight = PACE * 0.1
    unit = np.sqrt(weight / (2.0 - weight))
    several, rare = np.full(20, 2.0), chi2.isf(20 * 2 * norm.sf(5.0), 20)
    one = np.zeros(20)
    one[3] = 5.0
    whole, sensor = (root_size(unit * np.tile(w, 2), 0.1) ** 3 for w in (several, one))
    assert whole == pytest.approx(80.0) and sensor == pytest.approx(rare, rel=0.01)
    assert sensor > np.sum(one**2) and root_size(0.0 * one, 0.1) == 0.0
    alone = root_size(unit * np.array([3.0, 3.0]), 0.1) ** 3
    assert alone == pytest.approx(9.0, rel=0.03)


def test_one_wild_row_is_no_lasting_fault() -> None:
    E = np.random.default_rng(0).normal(size=(50, 8))
    E[7] *= 1e9
    short = clip_residuals(E)
    assert np.sqrt(np.sum(short[:, :4] ** 2, axis=1)).max() == pytest.approx(2.0 + MOST_LENGTH)
    assert np.all(np.abs(short[7, 4:]) == 1.0 + MOST_LENGTH)
    np.testing.assert_allclose(short[:7], E[:7])
    monitor = small(adapt="off").fit(correlated(600))
    X = correlated(60, seed=1)
    X[30, 2] += 1e6
    records = monitor.update_many(X)
    assert np.all(records.column("lasting")[30:] < 2.0 * records[30].lasting_limit)


def test_a_small_shift_is_found_soon() -> None:
    """A deviation of one of thirty correlated sensors, with a false alarm in a thousand rows."""
    mix = np.random.default_rng(7).normal(size=(5, 30))

    def rows(n: int, seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        return rng.normal(size=(n, 5)) @ mix + rng.normal(size=(n, 30))

    train = rows(3000, 0)
    monitor = small(alpha=0.001, basis=60).fit(train)
    assert monitor.lags_ == 0
    quiet = copy.copy(monitor).update_many(rows(4000, 1)).column("alarm")
    assert np.mean(quiet) < 0.004
    delays: list[int] = []
    for sensor in range(0, 30, 3):
        X = rows(150, 10 + sensor)
        X[50:, sensor] += train[:, sensor].std()
        alarms = copy.copy(monitor).update_many(X).column("alarm")[50:]
        delays.append(int(np.argmax(alarms)) + 1 if alarms.any() else 100)
    assert np.mean(delays) < 25


def test_one_of_many_independent_sensors_is_found_soon() -> None:
    """Before the chart of each sensor was looked at, this took 65 rows."""

    def rows(n: int, seed: int) -> np.ndarray:
        return np.random.default_rng(seed).normal(size=(n, 30))

    delays: list[int] = []
    for seed in (0, 1000):  # limits differ from fit to fit, and delays with them
        monitor = small(alpha=0.002, lags=0).fit(rows(1500, seed))
        assert np.mean(copy.copy(monitor).update_many(rows(3000, 1)).column("alarm")) < 0.004
        for sensor in range(0, 30, 3):
            X = rows(150, 10 + sensor)
            X[50:, sensor] += 1.0
            alarms = copy.copy(monitor).update_many(X).column("alarm")[50:]
            delays.append(int(np.argmax(alarms)) + 1 if alarms.any() else 100)
    assert np.mean(delays) < 32


def test_its_cube_root_is_nearly_normal() -> None:
    """Whatever the number of sensors: a limit far out may be taken from that law."""
    for d in (1, 3, 30):
        E = np.tile(np.random.default_rng(d).normal(size=(60_000, d)), 2)
        sizes = root_sizes(E, 0.5)[20:]
        far_out = sizes > sizes.mean() + 2.326 * sizes.std()
        assert 0.005 < np.mean(far_out) < 0.018


def test_each_of_three_statistics_raises_alarms() -> None:
    monitor = small(alpha=0.05, adapt="off").fit(process(400))
    X = process(300, seed=1)
    X[40, 0] += 6.0  # one row
    X[80:110, 2] += 1.5 * (-1.0) ** np.arange(30)  # up and down: nothing that lasts
    X[200:, 1] += 1.0
    records = monitor.update_many(X)
    index = records.column("index") > records.column("index_limit")
    smoothed = records.column("smoothed") > records.column("limit")
    lasting = records.column("lasting") > records.column("lasting_limit")
    np.testing.assert_array_equal(records.column("alarm"), index | smoothed | lasting)
    for one, others in ((index, smoothed | lasting), (smoothed, index | lasting)):
        assert np.any(one & ~others)
    assert np.any(lasting & ~(index | smoothed))
