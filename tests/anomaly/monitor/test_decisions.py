"""Alarms, events and limits that move: the rule, and the rates that it reaches."""

from __future__ import annotations

import copy
import math
from dataclasses import astuple, replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from kernelstream import KernelMonitor
from kernelstream.anomaly.monitor import decisions
from kernelstream.anomaly.monitor.decisions import (
    AlarmRule,
    AlarmState,
    Decision,
    Thresholds,
    decide,
)
from kernelstream.anomaly.monitor.lasting import root_size
from kernelstream.anomaly.monitor.limits import CLIP, Limits
from kernelstream.anomaly.monitor.normal import Scores
from tests.anomaly.monitor.processes import plant, process


def residuals(rng: np.random.Generator, n: int, d: int = 2) -> np.ndarray:
    """Of d sensors that know nothing of each other: as a whole, and along each."""
    return np.tile(rng.normal(size=(n, d)), 2)


NO_RESIDUAL = np.zeros(2)


def limits_of(scores: Scores) -> Limits:
    """Limits of scores whose residuals, of one sensor, say nothing."""
    return Limits.of(scores, 0.2, residuals(np.random.default_rng(1), len(scores.index), 1))


def test_smoothing_clips_a_wild_row() -> None:
    scores = Scores(*(np.exp(np.random.default_rng(0).normal(size=500)),) * 3)
    limits = limits_of(scores)
    log_index = np.log(scores.index)
    rule = AlarmRule(limits, 0.01, True, True)
    _, verdict = decide(AlarmState.begin(limits, 1), 1e3, NO_RESIDUAL, rule, True)
    top = log_index.mean() + CLIP * log_index.std()
    assert verdict.level == pytest.approx(log_index.mean() + 0.2 * (top - log_index.mean()))


def test_one_wild_row_raises_the_smoothed_index_by_little() -> None:
    """Whatever its size: six deviations of the index are all that counts."""
    limits = limits_of(Scores(*(np.exp(np.random.default_rng(0).normal(size=999)),) * 3))
    rule = AlarmRule(limits, 0.01, True, True)
    levels = [
        decide(AlarmState.begin(limits, 1), x, NO_RESIDUAL, rule, True)[1].level for x in (9, 1e6)
    ]
    assert levels[0] == levels[1] < limits.index.mean + 1.5 * limits.index.deviation


def test_a_limit_is_not_raised_by_more_than_calibration_may_be_wrong() -> None:
    rng = np.random.default_rng(0)
    scores = Scores(*(np.exp(rng.normal(size=999)),) * 3)
    limits = Limits.of(scores, 0.2, residuals(rng, 999))
    rule = AlarmRule(limits, 0.05, True, True)
    watch, most = AlarmState.begin(limits, 2), 0.0
    for score in rng.normal(loc=0.6, size=3000):
        watch, _ = decide(watch, float(score), np.zeros(4), rule, True)
        most = max(most, watch.shift[1] / limits.joint.deviation)
    assert most == pytest.approx(0.5)


def climbing(rows: int, residual: float, adapts: bool = True) -> tuple[float, float]:
    """Shares of alarms and of events while scores climb by three deviations and stay there."""
    rng = np.random.default_rng(1)
    limits = Limits.of(Scores(*(np.exp(rng.normal(size=999)),) * 3), 0.1, residuals(rng, 999, 4))
    rule, watch = AlarmRule(limits, 0.01, True, adapts), AlarmState.begin(limits, 4)
    verdicts = []
    for height in np.minimum(np.arange(1000) / rows, 1.0):
        score, off = rng.normal() + 3.0 * height, residuals(rng, 1, 4)[0] + residual * height
        watch, verdict = decide(watch, float(score), off, rule, True)
        verdicts.append((verdict.alarm, verdict.event > 0))
    alarms, events = np.mean(verdicts, axis=0)
    return float(alarms), float(events)


def test_scores_that_climb_slowly_are_no_event() -> None:
    """A model that lags behind a drift must go on learning, or the drift is never caught up."""
    alarms, events = climbing(800, 0.0)
    assert alarms > 0.4 and events < 0.05
    # within the quarantine it is a fault, and so is what the signs of the residuals show
    assert climbing(10, 0.0)[1] > 0.9
    assert climbing(800, 3.0)[1] > 0.4
    assert climbing(800, 0.0, adapts=False)[1] > 0.4  # who does not learn cannot catch up


def test_events_and_conformal_steps() -> None:
    """The rule against its description, on a made-up sequence of scores."""
    limits = limits_of(Scores(*(np.exp(np.random.default_rng(0).normal(size=999)),) * 3))
    rule = AlarmRule(limits, 0.01, False, True)
    watch = AlarmState.begin(limits, 1)
    high, low = limits.index.limit(0.01) + 0.5, -1.0
    step = 0.05 * limits.index.deviation
    for score in (high, low, high):
        watch, verdict = decide(watch, score, NO_RESIDUAL, rule, True)
    assert verdict.alarm and not verdict.event  # two of the last three
    assert watch.shift[0] == pytest.approx(step * (2 - 3 * 0.01))
    watch, verdict = decide(watch, high, NO_RESIDUAL, rule, True)
    assert verdict.event == 1  # three of the last five
    assert watch.shift[0] == pytest.approx(step * (2 - 3 * 0.01))  # held
    watch, verdict = decide(watch, low, NO_RESIDUAL, rule, True)
    assert verdict.event == 1  # still three of five
    watch, verdict = decide(watch, low, NO_RESIDUAL, rule, True)
    assert not verdict.event
    assert watch.shift[0] == pytest.approx(step * (3 - 6 * 0.01))  # it was short: counted
    watch, verdict = decide(watch, low, NO_RESIDUAL, rule, False)
    assert not verdict.event
    assert watch.shift[0] == pytest.approx(step * (3 - 6 * 0.01))  # does not count


def test_adaptive_limits_reach_the_nominal_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the law of the scores: here it has moved by one deviation after calibration."""
    monkeypatch.setattr(decisions, "MOST_SHIFT", math.inf)
    rng = np.random.default_rng(0)
    limits = limits_of(Scores(*(np.exp(rng.normal(size=999)),) * 3))
    for smoothed in (True, False):
        rule = AlarmRule(limits, 0.05, smoothed, True)
        watch, alarms = AlarmState.begin(limits, 1), []
        for score in rng.normal(loc=1.0, size=12000):
            watch, verdict = decide(watch, float(score), NO_RESIDUAL, rule, True)
            alarms.append(verdict.alarm)
        assert 0.035 < np.mean(alarms[4000:]) < 0.065


def test_limits_are_held_in_events_and_false_alarms_are_paid(fitted: KernelMonitor) -> None:
    monitor = copy.copy(fitted)
    monitor.update_many(process(30, seed=1))
    before = monitor._state.alarms.shift
    fault = process(60, seed=2) + np.array([0.0, 6.0, 0.0, 0.0])
    first = monitor.update_many(fault)
    in_event = [r.limit for r in first if r.event]
    assert len(in_event) > 50 and len(set(in_event)) == 1
    monitor.update_many(process(40, seed=3))  # the event ends after more than the quarantine
    assert (
        monitor._state.alarms.shift[1]
        <= before[1] + 3 * 0.05 * fitted._state.models.limits.smoothed.deviation
    )

    paid = copy.copy(fitted)
    paid.update_many(process(30, seed=1))
    burst = paid.update_many(fault[:6])
    assert burst[-1].event
    during = paid._state.alarms.shift[1]
    while paid.event_ is not None:
        paid.update_many(process(1, seed=paid.n_samples_seen_))
    assert paid._state.alarms.shift[1] > during  # its alarms were counted when it ended


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


# -- the rule once more, written as its description


def described(
    watch: AlarmState,
    score: float,
    residual: np.ndarray,
    limits: Limits,
    rule: AlarmRule,
    counts: bool,
    trusted: bool,
) -> tuple[AlarmState, Decision]:
    """One row, step by step."""
    smoothing, index = limits.smoothing, limits.index
    clipped = min(score, index.mean + 6 * index.deviation)
    level = (1 - smoothing) * watch.level + smoothing * clipped
    lag = max(0.0, watch.usual - index.mean)
    joint, change = level, level - lag
    limit = tuple(base + shift for base, shift in zip(rule.base, watch.shift, strict=True))
    event_limit = rule.event + (watch.shift[1] if watch.shift[1] > 0 else 0.0)
    shown = [limit[0], limit[1], math.inf]
    weight = 0.7 * smoothing
    average = (1 - weight) * watch.average + weight * residual
    scale, d = (2 - weight) / weight, len(average) // 2
    rarity = 2 * d * norm.sf(np.abs(average[d:]).max() * scale**0.5)
    alike = 1 - 2 / (9 * d) + norm.isf(min(rarity, 1.0)) * (2 / (9 * d)) ** 0.5
    whole = float(average[:d] @ average[:d] * scale) ** (1 / 3)
    lasting = max(whole, d ** (1 / 3) * alike)
    smoothed = limits.smoothed
    for place, value, reference in ((0, score, limits.index), (2, lasting, limits.lasting)):
        reach = reference.limit(0.01) - reference.mean
        scale = (smoothed.limit(0.01) - smoothed.mean) / reach
        joint = max(joint, smoothed.mean + (value - reference.mean) * scale)
        later = value - lag if reference is index else value
        change = max(change, smoothed.mean + (later - reference.mean) * scale)
        if rule.smoothed:
            share = (limit[1] - smoothed.mean) / (smoothed.limit(0.01) - smoothed.mean)
            shown[place] = reference.mean + share * reach
    over = score > limit[0], joint > limit[1]
    alarm = over[1] if rule.smoothed else over[0]
    changed = change > limit[1] if rule.smoothed else score - lag > limit[0]
    recent = (*watch.recent, changed)[-5:]
    in_event = (recent.count(True) >= 3 or change > event_limit) and not trusted
    n_events = watch.n_events + (1 if in_event and watch.event == 0 else 0)
    event = (watch.event or n_events) if in_event else 0
    deviations = index.deviation, limits.joint.deviation
    steps = [
        0.05 * d * ((1 - rule.alpha) if o else -rule.alpha) if rule.adapts and counts else 0.0
        for d, o in zip(deviations, over, strict=True)
    ]
    shift, owed = list(watch.shift), list(watch.owed)
    for i in (0, 1):
        if in_event:
            owed[i] += steps[i]
            continue
        if watch.event and watch.event_rows < decisions.PATIENCE:
            steps[i] += owed[i]
        higher = shift[i] + steps[i]
        shift[i] = min(higher, max(shift[i], 0.5 * deviations[i]))
        owed[i] = 0.0
    rows = watch.event_rows + 1 if in_event else 0
    usual = watch.usual
    if rule.adapts and counts and not in_event:
        usual += (clipped - usual) / (5 * decisions.PATIENCE)
    after = AlarmState(
        level,
        recent,
        (shift[0], shift[1]),
        (owed[0], owed[1]),
        event,
        n_events,
        rows,
        average,
        usual,
    )
    limits_shown = Thresholds(shown[0], shown[1], shown[2], event_limit)
    decides = (joint, limit[1]) if rule.smoothed else (score, limit[0])
    return after, Decision(level, lasting, *decides, limits_shown, alarm, event)


@pytest.mark.parametrize("smoothed", [False, True])
@pytest.mark.parametrize("adapts", [False, True])
def test_every_decision_is_the_described_one(
    adapts: bool, smoothed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "PATIENCE", 6)
    rng = np.random.default_rng(0)
    scores = Scores(*(np.exp(rng.normal(size=600)),) * 3)
    limits = Limits.of(scores, 0.2, residuals(rng, 600))
    rule = AlarmRule(limits, 0.05, smoothed, adapts)
    watch = twin = AlarmState.begin(limits, 2)
    # quiet, a short burst, a long fault, single wild rows, a slow drift of the residuals
    offset = np.r_[np.zeros(60), [4.0] * 4, np.zeros(60), [3.0] * 30, np.zeros(60), np.ones(86)]
    events = 0
    for t, base in enumerate(offset):
        score = float(base + rng.normal() + (8.0 if t % 50 == 49 else 0.0))
        residual = residuals(rng, 1)[0] + 0.8 * (t > 250)
        counts, trusted = t % 7 > 0, 140 <= t < 144
        watch, verdict = decide(watch, score, residual, rule, counts, trusted)
        twin, expected = described(twin, score, residual, limits, rule, counts, trusted)
        assert (verdict.alarm, verdict.event) == (expected.alarm, expected.event)
        ours, theirs = (
            [v.level, v.lasting, v.score, v.limit, *astuple(v.limits)] for v in (verdict, expected)
        )
        np.testing.assert_allclose(ours, theirs)
        assert watch.recent == twin.recent and watch.event_rows == twin.event_rows
        assert (watch.event, watch.n_events) == (twin.event, twin.n_events)
        np.testing.assert_allclose(watch.shift, twin.shift, atol=1e-12)
        np.testing.assert_allclose(watch.owed, twin.owed, atol=1e-12)
        assert watch.usual == pytest.approx(twin.usual)
        events = max(events, watch.n_events)
        watch.check({})
    assert events >= 2
    # a row without any value: what was so goes on
    same, verdict = decide(watch, 99.0, np.zeros(4), rule, True, silent=True)
    assert same is watch and not verdict.alarm and verdict.event == watch.event
    assert verdict.level == watch.level and math.isnan(verdict.score)
    assert verdict.limits == rule.thresholds(watch.shift)
    assert verdict.limits.event == rule.event + max(watch.shift[1], 0.0)
    assert verdict.lasting == root_size(watch.average, 0.2)


def test_the_numbers_of_a_rule() -> None:
    rng = np.random.default_rng(0)
    scores = Scores(*(np.exp(rng.normal(size=600)),) * 3)
    limits = Limits.of(scores, 0.2, residuals(rng, 600))
    rule = AlarmRule(limits, 0.05, True, False)
    assert (rule.alpha, rule.smoothed, rule.adapts) == (0.05, True, False)
    assert rule.base == (limits.index.limit(0.05), limits.joint.limit(0.05))
    assert rule.deviations == (limits.index.deviation, limits.joint.deviation)
    assert rule.event == limits.joint.limit(0.1 * 0.05)


def test_a_watch_before_the_first_row_and_after_an_event() -> None:
    rng = np.random.default_rng(0)
    scores = Scores(*(np.exp(rng.normal(size=600)),) * 3)
    both = Limits.of(scores, 0.2, residuals(rng, 600))
    begun = AlarmState.begin(both, 2)
    np.testing.assert_array_equal(begun.average, np.zeros(4))
    assert begun.level == begun.usual == both.index.mean and begun.recent == ()
    assert begun.shift == begun.owed == (0.0, 0.0)
    assert begun.event == begun.n_events == begun.event_rows == 0
    busy = AlarmState(9.0, (True,) * 5, (1.0, 2.0), (3.0, 4.0), 2, 3, 7, np.ones(4), 8.0)
    busy.check({})
    ended = busy.end_event(both)
    assert (ended.level, ended.recent, ended.owed) == (both.index.mean, (), (0.0, 0.0))
    assert (ended.event, ended.event_rows, ended.n_events) == (0, 0, 3)
    assert ended.shift == (1.0, 2.0)
    np.testing.assert_array_equal(ended.average, np.zeros(4))
    assert busy.lag(both) == 8.0 - both.index.mean and ended.usual == both.index.mean
    assert replace(busy, usual=both.index.mean - 1.0).lag(both) == 0.0
    replace(busy, event=3).check({})
    for bad in (dict(event=4), dict(event=0), dict(event_rows=0)):
        with pytest.raises(ValueError, match=r"event \d of 3, \d rows long"):
            replace(busy, **bad).check({})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the alarms of 6 rows"):
        replace(busy, recent=(False,) * 6).check({})
