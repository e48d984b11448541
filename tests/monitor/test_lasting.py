"""Small faults that last: the average of what was unexpected."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from kernelstream.monitor.lasting import MOST_LENGTH, cut, residual_weights, root_sizes
from kernelstream.monitor.normal import lag_rows
from tests.monitor.processes import correlated, process, small


@pytest.mark.parametrize("lags", [0, 1, 3])
def test_residuals_are_what_a_regression_on_the_past_leaves(lags: int) -> None:
    Z = process(600)
    R = lag_rows(Z[:0], Z, lags)[lags:]
    R = R - R.mean(axis=0)
    E = R @ residual_weights(np.cov(R.T, bias=True), 4, 0.0)
    left = R[:, :4]
    if lags:
        left = left - R[:, 4:] @ np.linalg.lstsq(R[:, 4:], R[:, :4], rcond=None)[0]
    np.testing.assert_allclose(E.T @ E / len(E), np.eye(4), atol=1e-8)
    expected = np.sum(left * np.linalg.solve(left.T @ left / len(left), left.T).T, axis=1)
    np.testing.assert_allclose(np.sum(E**2, axis=1), expected)


def test_its_size_has_the_mean_of_a_single_residual() -> None:
    E = np.random.default_rng(0).normal(size=(20_000, 6))
    assert np.mean(root_sizes(E, 0.1)[100:] ** 3) == pytest.approx(6.0, rel=0.05)


def test_one_wild_row_is_no_lasting_fault() -> None:
    E = np.random.default_rng(0).normal(size=(50, 4))
    E[7] *= 1e9
    assert np.sqrt(np.sum(cut(E) ** 2, axis=1)).max() == pytest.approx(2.0 + MOST_LENGTH)
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


def test_its_cube_root_is_nearly_normal() -> None:
    """Whatever the number of sensors: a limit far out may be taken from that law."""
    for d in (1, 3, 30):
        E = np.random.default_rng(d).normal(size=(60_000, d))
        sizes = root_sizes(E, 0.5)[20:]
        far_out = sizes > sizes.mean() + 2.326 * sizes.std()
        assert 0.007 < np.mean(far_out) < 0.016


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
