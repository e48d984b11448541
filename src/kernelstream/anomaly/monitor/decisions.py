"""Alarm and event decisions for each row: control limits, start and end of events, slow shifts.

An alarm is one score over its limit. An *event* is more: three of the last five rows were alarms,
or the smoothed index is over the event limit. Learning is gated by events and not by alarms: a
gate at every alarm lets only small scores in, so limits shrink and alarms breed alarms. And an
event is a *change*. A model follows drift from behind, so that the index of all rows is higher
while it does. Were that an event, nothing more would be learned, the drift go on, and the event
last for ever. So for events the index counts less its *lag*, by which that of the rows before,
outside events, was above the mean of calibration. ``lasting`` has no such allowance: it is what
tells a lasting fault, which is small in the index of each row, from a model that lags. Outside
events each limit moves by adaptive conformal steps, up by 0.05 sd (1 − α) at an alarm and down by
0.05 sd α else, so that the long-run share of alarms is α whatever the law of the scores
(Gibbs and Candès 2021). During an event it is held, and no step raises it by more than half a
deviation above where calibration put it: a fault that raises alarms now and then, for ever, would
else become what alarms are measured by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated

import numpy as np

from kernelstream.anomaly.monitor.lasting import advance, root_size
from kernelstream.anomaly.monitor.limits import ALARMS, EVENT_SHARE, WINDOW, Limits, smooth
from kernelstream.serialization import stored

PATIENCE = 20  # rows in quarantine before they are learned; a shorter event was a false alarm
STEP = 0.05  # of an adaptive conformal step, in deviations of the score
MOST_SHIFT = 0.5  # deviations by which steps may raise a limit: calibration is not wrong by more


@stored
@dataclass(frozen=True)
class AlarmState:
    """What the next decision depends on, besides the models.

    ``owed`` are the conformal steps of the rows of the present event, for the index and for its
    smoothed version: an event that ends within the quarantine was a false alarm, and its alarms
    count after all. Otherwise alarms that come in bursts would be counted too rarely, and the
    false alarm rate would settle above α.
    """

    level: float  # the smoothed log index
    recent: tuple[bool, ...]  # alarms of the last rows
    shift: tuple[float, float]  # of the limits of the index and of the smoothed index
    owed: tuple[float, float]
    event: int  # id of the present event; 0: none
    n_events: int
    event_rows: int  # rows of the present event so far
    # of the residuals, as a whole and along each sensor
    average: Annotated[np.ndarray, "float64 (residuals)"]
    usual: float  # the log index of rows outside events, smoothed over many of them

    def check(self, sizes: dict[str, int]) -> None:
        """Raise unless the present event is one of those that were counted."""
        if self.event > self.n_events or bool(self.event) != bool(self.event_rows):
            raise ValueError(f"event {self.event} of {self.n_events}, {self.event_rows} rows long")
        if len(self.recent) > WINDOW:
            raise ValueError(f"the alarms of {len(self.recent)} rows")

    @classmethod
    def begin(cls, limits: Limits, n_features: int) -> AlarmState:
        """Before the first row: no alarm."""
        mean, average = limits.index.mean, np.zeros(2 * n_features)
        return cls(mean, (), (0.0, 0.0), (0.0, 0.0), 0, 0, 0, average, mean)

    def end_event(self, limits: Limits) -> AlarmState:
        """The same limits, with no event and no memory of alarms."""
        begun = AlarmState.begin(limits, len(self.average) // 2)
        return replace(begun, shift=self.shift, n_events=self.n_events)

    def lag(self, limits: Limits) -> float:
        """By how much the log index of rows outside events was above the mean of calibration."""
        return max(self.usual - limits.index.mean, 0.0)


@dataclass(frozen=True)
class AlarmRule:
    """What a decision depends on, besides the row and the alarms before it."""

    limits: Limits
    alpha: float
    smoothed: bool  # whether the smoothed index raises the alarm
    adapts: bool

    @cached_property
    def base(self) -> tuple[float, float]:
        """Limits of the index and of the joint score, before their shift."""
        return self.limits.index.limit(self.alpha), self.limits.joint.limit(self.alpha)

    @cached_property
    def event(self) -> float:
        """The joint score that makes an event at once, before its shift."""
        return self.limits.joint.limit(EVENT_SHARE * self.alpha)

    @property
    def deviations(self) -> tuple[float, float]:
        """Standard deviations of the index and of the joint score."""
        return self.limits.index.deviation, self.limits.joint.deviation

    def thresholds(self, shift: tuple[float, float]) -> Thresholds:
        """The limits with their shift."""
        limits, own, joint = self.limits, self.base[0] + shift[0], self.base[1] + shift[1]
        event = self.event + max(shift[1], 0.0)
        if not self.smoothed:
            return Thresholds(own, joint, math.inf, event)
        return Thresholds(limits.index_limit(joint), joint, limits.lasting_limit(joint), event)

    def p_value(self, decision: Decision) -> float:
        """Fraction of normal rows at least as far out; NaN for a row without any value."""
        if math.isnan(decision.score):
            return math.nan
        reference = self.limits.joint if self.smoothed else self.limits.index
        shift = decision.limit - self.base[int(self.smoothed)]
        return reference.p_value(decision.score - shift, self.alpha)


@dataclass(frozen=True)
class Thresholds:
    """The limits in force, as logarithms; infinite where a score raises no alarm.

    Those of index, smoothed index and lasting are one limit on three scales where the index is
    smoothed: any score over its own raises the alarm.
    """

    index: float
    smoothed: float
    lasting: float
    event: float


@dataclass(frozen=True)
class Decision:
    """What was decided about one row, with the limits it was decided by (as logarithms).

    ``score`` and ``limit`` are those that decide about the alarm: of the highest of index,
    smoothed index and ``lasting``, or of the index alone where nothing is smoothed.
    """

    level: float
    lasting: float
    score: float
    limit: float
    limits: Thresholds
    alarm: bool
    event: int


def decide(
    state: AlarmState,
    log_index: float,
    residual: np.ndarray,
    rule: AlarmRule,
    counts: bool,
    trusted: bool = False,
    silent: bool = False,
) -> tuple[AlarmState, Decision]:
    """Decide about one row by limits of before it, then let the limits learn from it.

    A row that does not count (values are missing) moves no limit; a row that the caller trusts is
    in no event; a silent row, without any value, changes nothing: the event continues, if there is
    one.
    """
    limits, in_force = rule.limits, rule.thresholds(state.shift)
    limit = in_force.smoothed if rule.smoothed else in_force.index
    if silent:
        lasting = float(root_size(state.average, limits.smoothing))
        return state, Decision(
            state.level, lasting, math.nan, limit, in_force, alarm=False, event=state.event
        )
    level = smooth(state.level, log_index, limits.index, limits.smoothing)
    average = advance(state.average, residual, limits.smoothing)
    lasting = float(root_size(average, limits.smoothing))
    joint = float(limits.join(log_index, level, lasting))
    over = (log_index > rule.base[0] + state.shift[0], joint > in_force.smoothed)
    score, alarm = (joint, over[1]) if rule.smoothed else (log_index, over[0])
    lag = state.lag(limits)
    change = float(limits.join(log_index - lag, level - lag, lasting))
    changed = change > in_force.smoothed if rule.smoothed else log_index - lag > in_force.index
    recent = (*state.recent, changed)[-WINDOW:]
    in_event = not trusted and (sum(recent) >= ALARMS or change > in_force.event)

    learns = rule.adapts and counts
    shift, owed = moved_limits(state, over if learns else None, in_event, rule)
    usual = state.usual
    if learns and not in_event:
        # over five quarantines: a new fault hardly moves it
        usual = smooth(usual, log_index, limits.index, 1.0 / (5 * PATIENCE))
    n_events, event, event_rows = state.n_events, 0, 0
    if in_event:
        n_events += state.event == 0
        event, event_rows = state.event or n_events, state.event_rows + 1
    after = AlarmState(level, recent, shift, owed, event, n_events, event_rows, average, usual)
    return after, Decision(level, lasting, score, limit, in_force, bool(alarm), event)


def moved_limits(
    state: AlarmState,
    over: tuple[bool, bool] | None,
    in_event: bool,
    rule: AlarmRule,
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Shifts of both limits after a conformal step, and the steps that are owed.

    ``over`` says which scores were over their limits; None where no limit learns from the row.
    Steps of an event are made at its end, where it was a false alarm.
    """
    steps = (0.0, 0.0)
    if over is not None:
        own, joint = (
            STEP * deviation * (high - rule.alpha)
            for deviation, high in zip(rule.deviations, over, strict=True)
        )
        steps = (own, joint)
    owed = (state.owed[0] + steps[0], state.owed[1] + steps[1])
    if in_event:
        return state.shift, owed
    if state.event and state.event_rows < PATIENCE:
        steps = owed
    own, joint = (
        min(shift + step, max(shift, MOST_SHIFT * deviation))
        for shift, step, deviation in zip(state.shift, steps, rule.deviations, strict=True)
    )
    return (own, joint), (0.0, 0.0)
