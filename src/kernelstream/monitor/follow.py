"""The stream: score first, then learn. Every state is a value, and a rejected row changes nothing.

A row is standardised and lagged, filled where values are missing, scored by the model of before
it, judged, and then, outside events and unless it is wild, sent to the quarantine. Rows that have
waited there are learned in blocks of a fixed size, so that the model changes at the same rows
however the caller cuts the stream into calls.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernelstream.files import stored
from kernelstream.monitor.contributions import Contributions, contributions, slopes, stiffness
from kernelstream.monitor.drift import Drift, measured
from kernelstream.monitor.index import TINIEST, Scores
from kernelstream.monitor.limits import Limits, smooth
from kernelstream.monitor.normal import Normal
from kernelstream.monitor.products import row_dots
from kernelstream.monitor.records import Event, Record, Records, storable_time
from kernelstream.monitor.scaling import lagged
from kernelstream.monitor.sensors import Sensors, fill_missing
from kernelstream.monitor.watch import Rule, Verdict, Watch, decide
from kernelstream.stream.state import Standard

MOST_AT_ONCE = 256  # rows that are scored together
KEPT_EVENTS = 100
NEAR_POINTS = 16  # of the model, that may lend a row what it misses
GLITCH = 10.0  # times the median distance: a row of an event that far out is none of its kind


@stored
@dataclass(frozen=True, eq=False)
class MonitorState:
    """Everything that the next record depends on."""

    standard: Standard  # units of the reference
    lags: int
    reference: Normal  # as fitted, frozen
    normal: Normal  # as adapted
    curvature: np.ndarray  # (D, D) mean second derivative of M
    limits: Limits
    watch: Watch
    sensors: Sensors
    history: np.ndarray  # (≤ lags, d) the last rows, in reference units
    quarantine: np.ndarray  # (≤ quarantine, D) rows that wait to be trusted
    pending: np.ndarray  # (< block, D) trusted rows that wait for their block
    suspects: np.ndarray  # (≤ block, D) the latest rows of the present event
    drift: Drift
    present: Event | None
    events: tuple[Event, ...]  # the last ones that are over
    n_rows: int = 0
    n_learned: int = 0

    @property
    def n_features(self) -> int:
        """Variables of a row."""
        return len(self.standard.mean)

    @property
    def excess(self) -> float:
        """What the number of rows learned adds to the log index, compared with calibration."""
        return self.limits.excess(self.normal.rows.n_effective)


@dataclass(frozen=True)
class Plan:
    """What the user asked for, as numbers."""

    rule: Rule
    adapts: bool
    memory: int
    quarantine: int
    names: tuple[str, ...]

    @property
    def block(self) -> int:
        """Rows that are learned together: a tenth of the memory."""
        return max(1, self.memory // 10)

    @property
    def forgetting(self) -> float:
        """Share of the weight of old rows that is left after each new row."""
        return 1.0 - 1.0 / self.memory


def follow(
    state: MonitorState, plan: Plan, X: np.ndarray, times: Sequence[Any], trusted: bool = False
) -> tuple[MonitorState, Records]:
    """Judge rows one after the other and learn from them.

    ``trusted`` rows are normal because the caller says so: they are learned without quarantine.
    """
    Z = state.standard.apply(X)
    records = Records()
    start = 0
    while start < len(X):
        # Until the next block of learned rows is complete the model stays as it is.
        room = max(plan.block - len(state.pending), 1)
        stop = min(start + min(room, MOST_AT_ONCE), len(X))
        piece = slice(start, stop)
        state, made = _piece(state, plan, X[piece], Z[piece], times[piece], trusted)
        records += made
        start = stop
    return state, records


def complete_rows(state: MonitorState, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lagged rows with missing values filled, and the history after them.

    A filled row is part of the lags of the next one, so rows with gaps are filled in order.
    """
    gaps = np.flatnonzero(np.isnan(Z).any(axis=1))
    if len(gaps):
        Z = Z.copy()
        normal, d = state.normal, state.n_features
        covariance, points = normal.rows.covariance, normal.points
        for t in gaps:
            before = np.vstack([state.history, Z[max(t - state.lags, 0) : t]])[
                -max(state.lags, 1) :
            ]
            row = lagged(before, Z[t : t + 1], state.lags)[0]
            filled = fill_missing(row, normal.rows.mean, covariance, normal.setting.floor)
            Z[t] = most_normal(normal, points, row, filled)[:d]
    R = lagged(state.history, Z, state.lags)
    history = np.vstack([state.history, Z])[-state.lags :] if state.lags else state.history
    return R, history


def most_normal(
    normal: Normal, points: np.ndarray, row: np.ndarray, filled: np.ndarray
) -> np.ndarray:
    """A row with gaps as normal as its present values allow: by the least index.

    The gaps hold their mean given the present values, as ``filled`` has them, or what a point of
    the model has there that is near in the present values: where normal rows are curved, the mean
    of a value lies between them, where no row ever is.
    """
    missing = np.isnan(row)
    with np.errstate(over="ignore", invalid="ignore"):
        apart = ((points - row) / normal.scaling.deviation)[:, ~missing]
        nearest = np.argsort(row_dots(apart, apart), kind="stable")[:NEAR_POINTS]
        candidates = np.repeat(filled[None, :], 1 + len(nearest), axis=0)
        candidates[1:, missing] = points[nearest][:, missing]
        return candidates[np.argmin(normal.score(candidates).index)]


def _piece(
    state: MonitorState,
    plan: Plan,
    X: np.ndarray,
    Z: np.ndarray,
    times: Sequence[Any],
    trusted: bool,
) -> tuple[MonitorState, Records]:
    """Rows that one model judges."""
    R, history = complete_rows(state, Z)
    scores = state.normal.score(R)
    log_index = scores.log_index - state.excess
    missing = np.isnan(X)
    gaps = missing.any(axis=1)
    far_away = math.log(state.normal.index.far_away) - state.excess

    watch, sensors = state.watch, state.sensors
    quarantine, suspects = deque(state.quarantine), deque(state.suspects, maxlen=plan.block)
    pending = list(state.pending)
    verdicts: list[Verdict] = []
    taken, dead = np.zeros(len(X), dtype=bool), np.zeros(X.shape, dtype=bool)
    for t in range(len(X)):
        sensors, dead[t] = sensors.see(X[t])
        # A row with a gap or a dead sensor would teach too little variance, or too low a limit.
        whole = not (gaps[t] or dead[t].any())
        watch, verdict = decide(watch, float(log_index[t]), state.limits, plan.rule, whole, trusted)
        verdicts.append(verdict)
        if verdict.event:
            quarantine.clear()
            suspects.append(R[t])
            continue
        suspects.clear()
        limit, base = verdict.limits[0], plan.rule.base[0]
        wild = log_index[t] > state.limits.wild(limit, limit - base, far_away)
        taken[t] = whole and (trusted or (plan.adapts and not wild))
        if taken[t] and trusted:
            pending.append(R[t])
        elif taken[t]:
            quarantine.append(R[t])
            if len(quarantine) > plan.quarantine:
                pending.append(quarantine.popleft())

    judged = replace(
        state,
        watch=watch,
        sensors=sensors,
        history=history,
        quarantine=_stacked(quarantine, R),
        pending=_stacked(pending, R),
        suspects=_stacked(suspects, R),
        n_rows=state.n_rows + len(X),
    )
    judged, records = _recorded(
        judged, plan, state.n_rows, R, scores, verdicts, times, taken, missing, dead
    )
    return learned(judged, plan), records


def _recorded(
    state: MonitorState,
    plan: Plan,
    first: int,
    R: np.ndarray,
    scores: Scores,
    verdicts: list[Verdict],
    times: Sequence[Any],
    taken: np.ndarray,
    missing: np.ndarray,
    dead: np.ndarray,
) -> tuple[MonitorState, Records]:
    """Write the records, and keep account of events and of the slopes in them."""
    limits, rule = state.limits, plan.rule
    display = limits_of_terms(limits, rule.alpha)
    flagged = np.flatnonzero([v.alarm or v.event > 0 for v in verdicts])
    slope_of: dict[int, np.ndarray] = {}
    h = np.ones(state.n_features)
    if len(flagged):
        found = slopes(state.normal, state.curvature, R[flagged], state.n_features)
        slope_of = dict(zip(flagged.tolist(), found, strict=True))
        h = stiffness(state.normal, state.curvature, state.n_features)
    present, events = state.present, list(state.events)
    judge = limits.smoothed if rule.smoothed else limits.index
    excess, unit = state.excess, state.standard.deviation
    scores_as_logs = scores.log_index - excess
    records = Records()
    for t, verdict in enumerate(verdicts):
        index, log_index, time = float(scores.index[t]), float(scores_as_logs[t]), times[t]
        if present is not None and verdict.event != present.id:
            events.append(concluded(state, present))
            present = None
        slope = slope_of.get(t)
        if verdict.event and slope is not None:
            present = _prolonged(present, verdict.event, first + t, time, index, slope)
            slope = present.mean_slope
        shown = verdict.limits[1 if rule.smoothed else 0]
        score = verdict.level if rule.smoothed else log_index
        shift = shown - rule.base[1 if rule.smoothed else 0]
        records.append(
            Record(
                row=first + t,
                time=time,
                index=index,
                smoothed=float(np.exp(verdict.level + excess)),
                t2=float(scores.t2[t]),
                spe=float(scores.spe[t]),
                t2_blind=bool(log_index > verdict.limits[0] and scores.t2[t] <= display["t2"]),
                limit=float(np.exp(shown + excess)),
                index_limit=float(np.exp(verdict.limits[0] + excess)),
                t2_limit=display["t2"],
                spe_limit=display["spe"],
                event_limit=float(np.exp(verdict.event_limit + excess)),
                p_value=judge.p_value(score - shift, rule.alpha),
                alarm=verdict.alarm,
                event=verdict.event or None,
                acknowledged=bool(verdict.event and present and present.acknowledged),
                learned=bool(taken[t]),
                drift=state.drift,
                missing=_named(plan.names, missing[t]),
                dead=_named(plan.names, dead[t]),
                contributions=None if slope is None else contributions(slope, h, unit, plan.names),
            )
        )
    return replace(state, present=present, events=tuple(events[-KEPT_EVENTS:])), records


def _prolonged(
    event: Event | None, number: int, row: int, time: Any, index: float, slope: np.ndarray
) -> Event:
    stamp = storable_time(time)
    if event is None:
        return Event(number, row, row, stamp, stamp, index, slope)
    return replace(
        event,
        last_row=row,
        last_time=stamp,
        peak=max(event.peak, index),
        slope_sum=event.slope_sum + slope,
    )


def explained(
    state: MonitorState, slopes_found: Sequence[np.ndarray], names: tuple[str, ...]
) -> list[Contributions]:
    """Contributions by the present model, for each slope."""
    h = stiffness(state.normal, state.curvature, state.n_features)
    unit = state.standard.deviation
    return [contributions(slope, h, unit, names) for slope in slopes_found]


def concluded(state: MonitorState, event: Event) -> Event:
    """An event that is over, with its causes as the model saw them then."""
    (found,) = explained(state, [event.mean_slope], ("",) * state.n_features)
    return replace(event, values=found.values, sizes=found.sizes)


def learned(state: MonitorState, plan: Plan) -> MonitorState:
    """Learn the rows that wait, once they are a block."""
    if len(state.pending) < plan.block:
        return state
    R = state.pending
    normal = state.normal.adapted(R, plan.forgetting)
    rows = state.n_learned + len(R)
    drift = measured(state.reference, normal, state.limits, R, state.n_features, rows)
    return replace(state, normal=normal, pending=R[:0], drift=drift, n_learned=rows)


def accepted(state: MonitorState, plan: Plan) -> MonitorState:
    """Normal operation moves to the rows of the present event, and the event is over.

    Glitches among them stay out. The centre moves at once; spread and correlations by as much as
    the rows weigh. The limits rise as far as these rows need, and come down again by their own
    steps.
    """
    assert state.present is not None
    R = without_glitches(state.normal, state.suspects)
    normal = state.normal.recentred(R).adapted(R, plan.forgetting)
    log_index = normal.score(R, np.matmul).log_index
    log_index -= state.limits.excess(normal.rows.n_effective)
    levels, level = [], float(log_index.mean())
    for value in log_index:
        level = smooth(level, float(value), state.limits.index, state.limits.smoothing)
        levels.append(level)
    tops = (np.quantile(scores, 1.0 - plan.rule.alpha) for scores in (log_index, levels))
    shift = tuple(
        max(old, float(top) - base)
        for old, top, base in zip(state.watch.shift, tops, plan.rule.base, strict=True)
    )
    watch = replace(state.watch.quiet(state.limits), shift=(shift[0], shift[1]))
    rows = state.n_learned + len(R)
    return replace(
        state,
        normal=normal,
        watch=replace(watch, level=float(np.mean(levels))),
        quarantine=state.quarantine[:0],
        suspects=R[:0],
        drift=measured(state.reference, normal, state.limits, R, state.n_features, rows),
        present=None,
        events=(*state.events, concluded(state, replace(state.present, accepted=True)))[
            -KEPT_EVENTS:
        ],
        n_learned=rows,
    )


def without_glitches(normal: Normal, R: np.ndarray) -> np.ndarray:
    """Rows that are not many times as far from the middle of the rows as half of them are."""
    U = (R - np.median(R, axis=0)) @ normal.scaling.whitener
    squared = np.sum(U**2, axis=1)
    return R[squared <= GLITCH**2 * np.median(squared)]


def limits_of_terms(limits: Limits, alpha: float) -> dict[str, float]:
    """Limits of T² and SPE, which are shown and raise no alarm."""
    return {
        "t2": float(np.exp(limits.t2.limit(alpha))),
        "spe": float(max(np.exp(limits.spe.limit(alpha)), TINIEST)),
    }


def _stacked(rows: Any, like: np.ndarray) -> np.ndarray:
    return np.array(rows) if len(rows) else np.empty((0, like.shape[1]))


def _named(names: tuple[str, ...], which: np.ndarray) -> tuple[str, ...]:
    return tuple(names[j] for j in np.flatnonzero(which)) if which.any() else ()
