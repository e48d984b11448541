"""Alarms, events and limits that move: the rule, and the rates that it reaches."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from kernelstream import KernelMonitor
from kernelstream.monitor.decisions import Rule, Watch, decide
from kernelstream.monitor.limits import CLIP, Limits
from kernelstream.monitor.normal import (
    Scores,
)
from tests.monitor.processes import plant, process


def test_smoothing_clips_a_wild_row() -> None:
    scores = Scores(*(np.exp(np.random.default_rng(0).normal(size=500)),) * 3)
    limits = Limits.of(scores, 0.2)
    log_index = np.log(scores.index)
    rule = Rule.of(limits, 0.01, True, True, 20)
    _, verdict = decide(Watch.begin(limits, 1), 1e3, None, limits, rule, True)
    top = log_index.mean() + CLIP * log_index.std()
    assert verdict.level == pytest.approx(log_index.mean() + 0.2 * (top - log_index.mean()))
    level, path = log_index.mean(), []
    for value in log_index:
        level = 0.8 * level + 0.2 * min(value, top)
        path.append(level)
    assert limits.event == pytest.approx(max(max(path), np.mean(path) + 3.5 * np.std(path)))


def test_one_wild_row_raises_the_smoothed_index_by_little() -> None:
    """Whatever its size: six deviations of the index are all that counts."""
    limits = Limits.of(Scores(*(np.exp(np.random.default_rng(0).normal(size=999)),) * 3), 0.2)
    rule = Rule.of(limits, 0.01, True, True, 20)
    levels = [
        decide(Watch.begin(limits, 1), x, None, limits, rule, True)[1].level for x in (9, 1e6)
    ]
    assert levels[0] == levels[1] < limits.index.mean + 1.5 * limits.index.deviation


def test_a_limit_is_not_raised_by_more_than_calibration_may_be_wrong() -> None:
    rng = np.random.default_rng(0)
    scores = Scores(*(np.exp(rng.normal(size=999)),) * 3)
    limits = Limits.of(scores, 0.2, rng.normal(size=(999, 2)))
    rule = Rule.of(limits, 0.05, True, True, 20)
    watch, most = Watch.begin(limits, 2), 0.0
    for score in rng.normal(loc=0.6, size=3000):
        watch, _ = decide(watch, float(score), np.zeros(2), limits, rule, True)
        most = max(most, watch.shift[1] / limits.decisive.deviation)
    assert most == pytest.approx(0.5)


def test_events_and_conformal_steps() -> None:
    """The rule against its description, on a made-up sequence of scores."""
    limits = Limits.of(Scores(*(np.exp(np.random.default_rng(0).normal(size=999)),) * 3), 0.2)
    rule = Rule.of(limits, 0.01, False, True, 20)
    watch = Watch.begin(limits, 1)
    high, low = limits.index.limit(0.01) + 0.5, -1.0
    step = 0.05 * limits.index.deviation
    for score in (high, low, high):
        watch, verdict = decide(watch, score, None, limits, rule, True)
    assert verdict.alarm and not verdict.event  # two of the last three
    assert watch.shift[0] == pytest.approx(step * (2 - 3 * 0.01))
    watch, verdict = decide(watch, high, None, limits, rule, True)
    assert verdict.event == 1  # three of the last five
    assert watch.shift[0] == pytest.approx(step * (2 - 3 * 0.01))  # held
    watch, verdict = decide(watch, low, None, limits, rule, True)
    assert verdict.event == 1  # still three of five
    watch, verdict = decide(watch, low, None, limits, rule, True)
    assert not verdict.event
    assert watch.shift[0] == pytest.approx(step * (3 - 6 * 0.01))  # it was short: counted
    watch, verdict = decide(watch, low, None, limits, rule, False)
    assert not verdict.event
    assert watch.shift[0] == pytest.approx(step * (3 - 6 * 0.01))  # does not count


def test_adaptive_limits_reach_the_nominal_rate() -> None:
    """Whatever the law of the scores: here it has moved by one deviation after calibration."""
    rng = np.random.default_rng(0)
    limits = Limits.of(Scores(*(np.exp(rng.normal(size=999)),) * 3), 0.2)
    for smoothed in (True, False):
        rule = Rule.of(limits, 0.05, smoothed, True, 20)
        watch, alarms = Watch.begin(limits, 1), []
        for score in rng.normal(loc=1.0, size=12000):
            watch, verdict = decide(watch, float(score), None, limits, rule, True)
            alarms.append(verdict.alarm)
        assert 0.035 < np.mean(alarms[4000:]) < 0.065


def test_limits_are_held_in_events_and_false_alarms_are_paid(fitted: KernelMonitor) -> None:
    monitor = copy.copy(fitted)
    monitor.update_many(process(30, seed=1))
    before = monitor._state.watch.shift
    fault = process(60, seed=2) + np.array([0.0, 6.0, 0.0, 0.0])
    first = monitor.update_many(fault)
    in_event = [r.limit for r in first if r.event]
    assert len(in_event) > 50 and len(set(in_event)) == 1
    monitor.update_many(process(40, seed=3))  # the event ends after more than the quarantine
    assert (
        monitor._state.watch.shift[1]
        <= before[1] + 3 * 0.05 * fitted._state.limits.smoothed.deviation
    )

    paid = copy.copy(fitted)
    paid.update_many(process(30, seed=1))
    burst = paid.update_many(fault[:6])
    assert burst[-1].event
    during = paid._state.watch.shift[1]
    while paid.event_ is not None:
        paid.update_many(process(1, seed=paid.n_samples_seen_))
    assert paid._state.watch.shift[1] > during  # its alarms were counted when it ended


def false_alarm_rate(n: int, seed: int, drift: bool, settling: int, **parameters: Any) -> float:
    X = plant(1000 + n, seed, drift)
    monitor = KernelMonitor(random_state=0, **parameters).fit(X[:1000])
    alarms = [
        monitor.update_many(X[start : start + 5000]).column("alarm")
        for start in range(1000, len(X), 5000)
    ]
    return float(np.mean(np.concatenate(alarms)[settling:]))


@pytest.mark.parametrize("drift", [False, True], ids=["still", "drift"])
def test_false_alarms_short(drift: bool) -> None:
    quick: dict[str, Any] = dict(basis=20, width=100.0, ridge=0.1, whiten=True)
    rate = false_alarm_rate(9000, 0, drift, 1000, alpha=0.05, **quick)
    # A limit rises by half a deviation at most: a drift as fast as the memory shows for a while.
    assert 0.5 * 0.05 < rate < (1.7 if drift else 1.5) * 0.05


@pytest.mark.slow
@pytest.mark.parametrize("smooth", [0.2, None], ids=["smoothed", "plain"])
@pytest.mark.parametrize("drift", [False, True], ids=["still", "drift"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_false_alarms_of_100000_rows(seed: int, drift: bool, smooth: float | None) -> None:
    rate = false_alarm_rate(100_000, seed, drift, 5000, alpha=0.01, smooth=smooth)
    assert 0.005 < rate < 0.015


def test_drift_breaks_a_frozen_monitor() -> None:
    """The drift of these tests is no small matter: without adaptation it is all alarms."""
    quick: dict[str, Any] = dict(basis=20, width=100.0, ridge=0.1, whiten=True)
    assert false_alarm_rate(12000, 0, True, 9000, adapt="off", **quick) > 0.3
