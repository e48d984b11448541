"""What fit chooses, leaves out and reports."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kernelstream import KernelMonitor
from kernelstream.anomaly.monitor import fitting
from kernelstream.anomaly.monitor.fitting import RIDGES, WIDTHS, choose, pseudo_faults, saturates
from kernelstream.anomaly.monitor.normal import lag_rows
from tests.anomaly.monitor.processes import SETTING, correlated, curved, process, small


def test_pseudo_faults_keep_each_variable_normal() -> None:
    R = lag_rows(np.empty((0, 5)), correlated(50), 1)[1:]
    exchanged, between, small, large = pseudo_faults(R, 1, 0)
    np.testing.assert_array_equal(np.sort(exchanged, axis=0), np.sort(R, axis=0))
    assert np.abs(np.cov(exchanged.T) - np.cov(R.T)).max() > 0.5
    pairs = {tuple(p) for p in R[:, [1, 6]]}
    assert {tuple(p) for p in exchanged[:, [1, 6]]} == pairs  # a variable keeps its own past
    halves = 2 * between - R
    np.testing.assert_allclose(np.sort(halves, axis=0), np.sort(R, axis=0))
    for faults, size in ((small, 1.0), (large, 2.0)):
        moved = np.abs(faults - R)
        assert np.all((moved > 0).sum(axis=1) == 2) and np.allclose(moved[moved > 0], size)


def test_the_choice_bends_where_the_data_do() -> None:
    lee = KernelMonitor(basis=100, smooth=None, random_state=0).fit(curved(400))
    new, broken = curved(1000, 1), curved(1000, 2) + np.array([0.0, -0.4, 0.0])
    found = np.mean(lee.predict(broken) == -1)
    plain: dict[str, Any] = dict(basis=100, smooth=None, random_state=0)
    straight = KernelMonitor(width=100.0, ridge=0.1, whiten=True, **plain)
    assert found > 0.35 > 5 * np.mean(straight.fit(curved(400)).predict(broken) == -1)
    assert np.mean(lee.predict(new) == -1) < 0.025
    assert lee.width_ <= 3.0


def test_a_narrow_width_is_reported_or_widened() -> None:
    X = correlated(200, d=8)
    with pytest.warns(UserWarning, match="less than five times its limit"):
        KernelMonitor(width=0.2, ridge=0.1, basis=50, random_state=0).fit(X)
    monitor = KernelMonitor(basis=50, random_state=0).fit(X)
    limit = monitor._state.models.limits.index.limit(0.01)
    assert not saturates(monitor._state.models.present, limit)


def test_one_choice_is_no_choice() -> None:
    R = correlated(60)
    only = replace(SETTING, whiten=False, width=2.0, ridge=0.5)
    assert choose(R, [only]) == only
    settings = [replace(SETTING, width=w, ridge=r) for w, r in product(WIDTHS, RIDGES)]
    chosen = choose(R, settings)
    assert chosen.width in WIDTHS and chosen.ridge in RIDGES


def test_a_setting_that_saturates_once_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = {0.1: iter([0.9, 0.9, 0.0]), 0.01: iter([0.5, 0.5, 0.5])}
    monkeypatch.setattr(
        fitting, "detection_rate", lambda normal, *_: next(rates[normal.setting.ridge])
    )
    settings = [replace(SETTING, width=100.0, ridge=ridge) for ridge in (0.1, 0.01)]
    assert choose(correlated(60), settings).ridge == 0.01


@pytest.mark.parametrize("lags", [150, 10**9, 2**62])
def test_more_lags_than_rows(lags: int) -> None:
    """Told before a row with its past is laid out, which may take more than all memory."""
    X = np.random.default_rng(0).normal(size=(150, 2))
    with pytest.raises(ValueError, match=rf"lags={lags} only 0 of 150 .* fewer lags"):
        KernelMonitor(lags=lags, basis=10).fit(X)


@pytest.mark.parametrize("options", [{}, dict(width=100.0, ridge=1.0, whiten=True)])
def test_lags_that_leave_nothing_to_learn(options: dict[str, Any]) -> None:
    X = np.random.default_rng(0).normal(size=(150, 2))
    with pytest.raises(ValueError, match=r"lags=100 only 50 of 150 .*fewer lags"):
        KernelMonitor(lags=100, basis=10, **options).fit(X)


@pytest.mark.parametrize(
    ("order", "n", "expected"), [(0, 400, 0), (1, 400, 1), (3, 4000, 3), (3, 30, 1)], ids=str
)
def test_lags_are_as_many_as_tell_something(order: int, n: int, expected: int) -> None:
    """None for independent rows; never so many that there are not three rows a column."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n + 100, 5))
    for t in range(order, len(X)):
        X[t] += 0.9 * X[t - order] if order else 0.0
    monitor = KernelMonitor(basis=30, width=100.0, ridge=1.0, whiten=True, random_state=0)
    if n == 30:
        X = X.cumsum(axis=0)
    assert monitor.fit(X[100:]).lags_ == expected


def test_made_up_faults_between_rows_choose_what_sees_a_hole() -> None:
    """Two modes; rows between them are no steps of one variable, and no exchanged ones."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5)) + np.where(np.arange(3000) // 250 % 2, 4.0, -4.0)[:, None]
    monitor = KernelMonitor(basis=60, adapt="off", random_state=0).fit(X)
    assert np.mean(monitor.predict(0.5 * rng.normal(size=(200, 5)))[5:] == -1) > 0.9


def test_fit_leaves_out_rows_with_gaps() -> None:
    X = process(300)
    holes = X.copy()
    holes[::7, 2] = np.nan
    monitor = small(lags=1).fit(holes, calibration=holes)
    assert np.isfinite(monitor.offset_)
    with pytest.raises(ValueError, match="no missing values"):
        small().fit(np.where(np.arange(4) == 1, np.nan, X))


@pytest.mark.parametrize("size", [1e3, -1e12, 1e200])
def test_glitches_in_normal_operation_are_reported(size: float) -> None:
    """Two rows of 600 in other units than the rest: faults of that sensor would stay unseen."""
    X = pd.DataFrame(process(600), columns=list("abcd"))
    X.iloc[[100, 400], 1] = size
    with pytest.warns(UserWarning, match=r"of b comes from 2 of 600 rows"):
        KernelMonitor(basis=20, random_state=0).fit(X)
    # neither heavy tails, nor what moves rarely, nor what does not move are glitches
    rng = np.random.default_rng(0)
    rare = rng.random(600) < 0.008
    small().fit(np.column_stack([process(600), rng.standard_t(3, size=600), rare, np.ones(600)]))


@pytest.mark.parametrize(("n", "lags"), [(100, 80), (100, 30), (40, 20), (30, 9), (24, 8)])
def test_lags_that_leave_too_few_rows_beside_a_fold(n: int, lags: int) -> None:
    X = np.random.default_rng(0).normal(size=(n, 2))
    with pytest.raises(ValueError, match=rf"lags={lags}.*more rows.*fewer lags"):
        KernelMonitor(lags=lags, basis=10, random_state=0).fit(X)
