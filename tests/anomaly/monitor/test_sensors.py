"""Missing values, dead sensors, columns that do not move."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest

from kernelstream import KernelMonitor
from kernelstream.anomaly import Records
from kernelstream.anomaly.monitor.sensors import ConditionalLaw
from tests.anomaly.monitor.processes import assert_same, correlated, process, same, small


def test_missing_values_at_their_conditional_mean() -> None:
    mean, C = np.array([10.0, -5.0, 2.0]), np.cov(correlated(100, d=3).T)
    row = np.array([np.nan, -4.0, 3.0])
    filled = ConditionalLaw(np.isnan(row), mean, C).expect(row)
    expected = float(
        10.0 + C[0, 1:] @ np.linalg.solve(C[1:, 1:] + np.diag(1e-3 * np.diag(C)[1:]), [1.0, 1.0])
    )
    np.testing.assert_allclose(filled, [expected, -4.0, 3.0])
    nothing = ConditionalLaw(np.full(3, True), mean, C)
    np.testing.assert_array_equal(nothing.expect(np.full(3, np.nan)), mean)


def test_missing_values_are_filled_and_marked(fitted: KernelMonitor) -> None:
    X = process(60, seed=1)
    holes = X.copy()
    holes[20, 1] = np.nan
    holes[21, [0, 2]] = np.nan
    holes[30] = np.nan
    monitor = copy.copy(fitted)
    records = monitor.update_many(holes)
    assert records[20].missing == ("x1",)
    assert records[21].missing == ("x0", "x2")
    assert records[30].missing == ("x0", "x1", "x2", "x3")
    assert all(np.isfinite(r.index) for r in records)
    assert not any(records[t].learned or records[t].alarm for t in (20, 21, 30))
    assert same(records[19], copy.copy(fitted).update_many(X)[19])


def test_the_conditional_mean_is_the_most_normal_value() -> None:
    monitor = small(adapt="off").fit(process(300))
    x = process(1, seed=5)[0]
    gap = x.copy()
    gap[1] = np.nan
    filled = monitor.score_samples([gap])[0]
    others = np.tile(x, (41, 1))
    others[:, 1] += np.linspace(-4, 4, 41)
    assert filled > monitor.score_samples(others).max() - 0.3


def ring(n: int, seed: int) -> np.ndarray:
    """Four sensors near a ring; of the second the others know only up to its sign."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(0, 2 * np.pi, size=n)
    X = np.column_stack([np.cos(t), np.sin(t), np.cos(2 * t), np.cos(t)])
    return X + 0.1 * rng.normal(size=X.shape)


@pytest.mark.parametrize("lags", [0, 1])
@pytest.mark.parametrize("gone", [[1], [2], [1, 2], [0, 1, 2, 3]], ids=str)
def test_a_gap_raises_no_alarm_where_normal_rows_are_curved(lags: int, gone: list[int]) -> None:
    """There the mean of a missing value, given the others, lies where normal rows never are."""
    monitor = small(basis=60, width=3.0, lags=lags).fit(ring(600, 0))
    X = ring(300, 1)
    X[100:, gone] = np.nan
    records = copy.copy(monitor).update_many(X)
    assert np.mean(records.column("alarm")[100:]) < 0.05
    assert_same(records, Records([monitor.update(x) for x in X]))
    if len(gone) < 4:
        X[200:, 3] += 1.5
        broken = small(basis=60, width=3.0, lags=lags).fit(ring(600, 0)).update_many(X)
        assert np.mean(broken.column("alarm")[210:]) > 0.9


def test_a_gap_does_not_hide_a_fault_elsewhere(fitted: KernelMonitor) -> None:
    X = process(30, seed=1)
    X[:, 3] = np.nan
    X[10:, 1] += 8.0
    assert all(r.alarm for r in copy.copy(fitted).update_many(X)[15:])


@pytest.mark.parametrize("lags", [0, 2])
@pytest.mark.parametrize("kind", ["dead", "silent"])
def test_a_sensor_out_of_service_is_an_event_of_its_own(kind: str, lags: int) -> None:
    """The others are judged without it, and learned; its own spread is not unlearned."""
    monitor = small(lags=lags, memory=200).fit(process(600))
    X = process(900, seed=1)
    X[30:700, 2] = X[30, 2] if kind == "dead" else np.nan
    records = monitor.update_many(X[:700])
    first = 50  # twenty rows later
    named = [getattr(record, kind) for record in records]
    assert named[first - 1] == () and all(names == ("x2",) for names in named[first:])
    after = records[first + 40 :]
    assert np.mean(after.column("alarm")) < 0.05 and not after[-1].event
    assert np.mean(after.column("learned")) > 0.7
    assert monitor.drift_.rows > 300 and monitor.drift_.largest_scale < 1.4
    (event,) = monitor.sensor_events_
    assert (event.sensor, event.kind, event.over) == ("x2", kind, False)
    assert (event.first_row, event.last_row, event.first_time) == (first, 699, first)
    # a fault of another sensor is seen meanwhile
    fault = X[640:700] + np.array([0.0, 6.0, 0.0, 0.0])
    assert np.mean(copy.copy(monitor).update_many(fault).column("alarm")[10:]) > 0.9
    # and it is normal again when it is back
    back = monitor.update_many(X[700:])
    assert not back[-1].dead and not back[-1].silent and np.mean(back.column("alarm")) < 0.05
    assert monitor.sensor_events_[0].over and monitor.sensor_events_[0].last_row == 699


def test_sensors_out_of_service_do_not_depend_on_cuts() -> None:
    monitor = small(lags=1, memory=150).fit(process(300))
    X = process(200, seed=1)
    X[20:120, 2], X[60:, 0] = X[20, 2], np.nan
    whole, cut = copy.copy(monitor), copy.copy(monitor)
    records = whole.update_many(X)
    assert any(r.dead and r.silent for r in records) and whole.drift_.rows > 0
    again = Records(r for part in np.array_split(X, 9) for r in cut.update_many(part))
    assert_same(records, again)
    assert whole.sensor_events_ == cut.sensor_events_
    assert [(e.sensor, e.kind, e.over) for e in whole.sensor_events_] == [
        ("x2", "dead", True),
        ("x0", "silent", False),
    ]
    frozen = copy.copy(monitor).set_params(adapt="off")
    alarms = copy.copy(frozen).update_many(X).column("alarm")
    np.testing.assert_array_equal(frozen.predict(X) == -1, alarms)


def test_a_sensor_that_often_says_nothing_has_three_times_as_long() -> None:
    X = process(400)
    X[100:130, 2] = np.nan
    monitor = small().fit(X)
    Y = process(160, seed=1)
    Y[20:, 2] = np.nan
    silent = [bool(record.silent) for record in monitor.update_many(Y)]
    assert silent.index(True) == 20 + 90
    for bad in (dict(last_row=3), dict(kind="tired")):
        with pytest.raises(ValueError, match="sensor from row"):
            replace(monitor.sensor_events_[0], **bad).check({})


def test_constant_columns_are_reported_and_harmless() -> None:
    X = process(300)
    X[:, 3] = 7.0
    monitor = small().fit(X)
    assert monitor.constant_features_ == ("x3",)
    Y = process(100, seed=1)
    Y[:, 3] = 7.0
    records = monitor.update_many(Y)
    assert np.mean(records.column("alarm")) < 0.1
    assert not any(r.dead for r in records)
    Y[:, 3] = 8.0
    assert monitor.interrupt().update_many(Y)[-1].alarm


def test_a_process_that_does_not_move_at_all() -> None:
    monitor = small().fit(np.full((50, 4), 3.0))
    assert len(monitor.constant_features_) == 4
    assert not any(monitor.update_many(np.full((30, 4), 3.0)).column("alarm"))
    assert all(monitor.update_many(np.full((5, 4), 4.0)).column("alarm")[3:])


def test_a_sensor_that_often_stands_still_has_three_times_as_long() -> None:
    """A valve that rests for 30 rows in normal operation is dead after 90, not after 31."""
    X = process(400)
    X[100:130, 2] = X[100, 2]
    monitor = small().fit(X)
    Y = process(160, seed=1)
    Y[20:, 2] = Y[20, 2]
    dead = [bool(record.dead) for record in monitor.update_many(Y)]
    assert dead.index(True) == 20 + 90


def test_of_a_row_without_values_nothing_is_known() -> None:
    monitor = small().fit(process(300))
    monitor.update_many(process(30, seed=1))
    record = monitor.update(np.full(4, np.nan))
    assert np.isnan(record.p_value) and not record.alarm and not record.learned
    fault = process(40, seed=2) + np.array([0.0, 6.0, 0.0, 0.0])
    event = monitor.update_many(fault)[-1].event
    assert event and monitor.update(np.full(4, np.nan)).event == event  # it goes on
