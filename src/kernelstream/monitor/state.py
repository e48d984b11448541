"""The state of a monitor, and how it follows the stream: score first, then learn.

A row is standardised and lagged, filled where values are missing, scored by the model of before
it, judged, and then, outside events and unless it is wild, sent to the quarantine. Rows that have
waited there are learned in blocks of a fixed size, so that the model changes at the same rows
however the caller cuts the stream into calls. Every state is a value: a row that is refused changes
nothing.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from kernelstream.files import stored
from kernelstream.monitor.contributions import Contributions, contributions, slopes, stiffness
from kernelstream.monitor.decisions import Rule, Verdict, Watch, decide
from kernelstream.monitor.drift import Drift, measure_drift, no_drift
from kernelstream.monitor.limits import Limits, smooth_all
from kernelstream.monitor.normal import TINIEST, Normal, Scores, lag_rows
from kernelstream.monitor.records import Event, Record, Records, extend_event
from kernelstream.monitor.sensors import Sensors, fill_gaps, without_glitches
from kernelstream.stream.scaling import Standardisation

MOST_AT_ONCE = 256  # rows that are scored together
KEPT_EVENTS = 100


@dataclass(frozen=True)
class Plan:
    """How a stream is followed, as the parameters of the monitor now say."""

    rule: Rule
    memory: int
    names: tuple[str, ...]

    @property
    def block(self) -> int:
        """Rows that are learned together: a tenth of the memory."""
        return max(1, self.memory // 10)

    @property
    def forgetting(self) -> float:
        """Share of the weight of old rows that is left after each new row."""
        return 1.0 - 1.0 / self.memory


@stored
@dataclass(frozen=True, eq=False)
class MonitorState:
    """Everything that the next record depends on."""

    standard: Standardisation  # units of the reference
    lags: int
    reference: Annotated[Normal, "apart"]  # as fitted, frozen
    normal: Annotated[Normal, "apart"]  # as adapted
    curvature: Annotated[np.ndarray, "float64 (lagged, lagged)"]  # mean second derivative of M
    limits: Limits
    watch: Watch
    sensors: Sensors
    history: Annotated[np.ndarray, "float64 (?, columns)"]  # at most `lags`, in reference units
    quarantine: Annotated[np.ndarray, "float64 (?, lagged)"]  # rows that wait to be trusted
    pending: Annotated[np.ndarray, "float64 (?, lagged)"]  # trusted, they wait for their block
    suspects: Annotated[np.ndarray, "float64 (?, lagged)"]  # the latest of the present event
    drift: Drift
    present: Event | None
    events: tuple[Event, ...]  # the last ones that are over
    n_rows: int = 0
    n_learned: int = 0

    def check(self, sizes: dict[str, int]) -> None:
        """Raise unless lagged rows are as wide as the models, and the present event is watched."""
        lagged = self.n_features * (self.lags + 1)
        widths = {lagged, sizes["lagged"]}
        for model in (self.reference, self.normal):
            widths |= {len(model.scaling.mean), int(model.index.span.points.shape[1])}
        if widths != {lagged} or not self.n_features or len(self.history) > self.lags:
            raise ValueError(f"models of rows of {sorted(widths)} values")
        if self.watch.event != (0 if self.present is None else self.present.id):
            raise ValueError("an event goes on that nobody watches")

    @classmethod
    def begin(
        cls,
        standard: Standardisation,
        lags: int,
        normal: Normal,
        curvature: np.ndarray,
        limits: Limits,
        sensors: Sensors,
    ) -> MonitorState:
        """Before the first row of the stream."""
        d, nothing = len(standard.mean), np.empty((0, len(normal.scaling.mean)))
        return cls(
            standard=standard,
            lags=lags,
            reference=normal,
            normal=normal,
            curvature=curvature,
            limits=limits,
            watch=Watch.begin(limits),
            sensors=sensors,
            history=np.empty((0, d)),
            quarantine=nothing,
            pending=nothing,
            suspects=nothing,
            drift=no_drift(d),
            present=None,
            events=(),
        )

    @property
    def n_features(self) -> int:
        """Variables of a row."""
        return len(self.standard.mean)

    @property
    def excess(self) -> float:
        """What the number of rows learned adds to the log index, compared with calibration."""
        return self.limits.excess(self.normal.rows.n_effective)

    # -- following

    def follow(
        self,
        plan: Plan,
        X: np.ndarray,
        Z: np.ndarray,
        times: Sequence[Any],
        trusted: bool = False,
    ) -> tuple[MonitorState, Records]:
        """Judge rows one after the other and learn from them; ``Z`` are they, standardised.

        ``trusted`` rows are normal because the caller says so: they are learned without quarantine.
        """
        state, records, start = self, Records(), 0
        while start < len(X):
            # Until the next block of learned rows is complete the model stays as it is.
            room = max(plan.block - len(state.pending), 1)
            piece = slice(start, min(start + min(room, MOST_AT_ONCE), len(X)))
            state, made = state._judge(plan, X[piece], Z[piece], times[piece], trusted)
            state = state._learn(plan)
            records += made
            start = piece.stop
        return state, records

    def complete(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lagged rows with missing values filled, and the history after them."""
        Z = fill_gaps(self.normal, self.history, Z, self.lags)
        R = lag_rows(self.history, Z, self.lags)
        history = np.vstack([self.history, Z])[-self.lags :] if self.lags else self.history
        return R, history

    def _judge(
        self, plan: Plan, X: np.ndarray, Z: np.ndarray, times: Sequence[Any], trusted: bool
    ) -> tuple[MonitorState, Records]:
        """Rows that one model judges."""
        R, history = self.complete(Z)
        scores = self.normal.score(R)
        log_index = scores.log_index - self.excess
        missing = np.isnan(X)
        gaps = missing.any(axis=1)
        far_away = math.log(self.normal.index.far_away) - self.excess

        watch, sensors, rule = self.watch, self.sensors, plan.rule
        quarantine, suspects = deque(self.quarantine), deque(self.suspects, maxlen=plan.block)
        pending = list(self.pending)
        verdicts: list[Verdict] = []
        taken, dead = np.zeros(len(X), dtype=bool), np.zeros(X.shape, dtype=bool)
        for t in range(len(X)):
            sensors, dead[t] = sensors.see(X[t])
            # A row with a gap or a dead sensor would teach too little variance, or too low a limit.
            whole = not (gaps[t] or dead[t].any())
            watch, verdict = decide(watch, float(log_index[t]), self.limits, rule, whole, trusted)
            verdicts.append(verdict)
            if verdict.event:
                quarantine.clear()
                suspects.append(R[t])
                continue
            suspects.clear()
            limit = verdict.limits[0]
            wild = log_index[t] > self.limits.wild(limit, limit - rule.base[0], far_away)
            taken[t] = whole and (trusted or (rule.adapts and not wild))
            if taken[t] and trusted:
                pending.append(R[t])
            elif taken[t]:
                quarantine.append(R[t])
                if len(quarantine) > rule.patience:
                    pending.append(quarantine.popleft())

        present, events, records = self._record(
            plan, R, scores, verdicts, times, taken, missing, dead
        )
        judged = replace(
            self,
            watch=watch,
            sensors=sensors,
            history=history,
            quarantine=_stack(quarantine, R),
            pending=_stack(pending, R),
            suspects=_stack(suspects, R),
            present=present,
            events=events,
            n_rows=self.n_rows + len(X),
        )
        return judged, records

    def _record(
        self,
        plan: Plan,
        R: np.ndarray,
        scores: Scores,
        verdicts: list[Verdict],
        times: Sequence[Any],
        taken: np.ndarray,
        missing: np.ndarray,
        dead: np.ndarray,
    ) -> tuple[Event | None, tuple[Event, ...], Records]:
        """The event that goes on after these rows, those that are over, and the records."""
        rule, limits, excess = plan.rule, self.limits, self.excess
        t2_limit = float(np.exp(limits.t2.limit(rule.alpha)))
        spe_limit = float(max(np.exp(limits.spe.limit(rule.alpha)), TINIEST))
        reference = limits.smoothed if rule.smoothed else limits.index
        decides = 1 if rule.smoothed else 0  # which of the two limits raises the alarm
        flagged = np.flatnonzero([v.alarm or v.event > 0 for v in verdicts])
        slope_of: dict[int, np.ndarray] = {}
        h = np.ones(self.n_features)
        if len(flagged):
            of_flagged = slopes(self.normal, self.curvature, R[flagged], self.n_features)
            slope_of = dict(zip(flagged.tolist(), of_flagged, strict=True))
            h = stiffness(self.normal, self.curvature, self.n_features)
        present, events = self.present, list(self.events)
        log_indices, unit = scores.log_index - excess, self.standard.deviation
        records = Records()
        for t, verdict in enumerate(verdicts):
            row, time = self.n_rows + t, times[t]
            index, log_index = float(scores.index[t]), float(log_indices[t])
            if present is not None and verdict.event != present.id:
                events.append(self._conclude(present))
                present = None
            slope = slope_of.get(t)
            if verdict.event and slope is not None:
                present = extend_event(present, verdict.event, row, time, index, slope)
                slope = present.mean_slope
            limit = verdict.limits[decides]
            score = verdict.level if rule.smoothed else log_index
            records.append(
                Record(
                    row=row,
                    time=time,
                    index=index,
                    smoothed=float(np.exp(verdict.level + excess)),
                    t2=float(scores.t2[t]),
                    spe=float(scores.spe[t]),
                    t2_blind=bool(log_index > verdict.limits[0] and scores.t2[t] <= t2_limit),
                    limit=float(np.exp(limit + excess)),
                    index_limit=float(np.exp(verdict.limits[0] + excess)),
                    t2_limit=t2_limit,
                    spe_limit=spe_limit,
                    event_limit=float(np.exp(verdict.event_limit + excess)),
                    p_value=reference.p_value(score - (limit - rule.base[decides]), rule.alpha),
                    alarm=verdict.alarm,
                    event=verdict.event or None,
                    acknowledged=bool(verdict.event and present and present.acknowledged),
                    learned=bool(taken[t]),
                    drift=self.drift,
                    missing=_pick_names(plan.names, missing[t]),
                    dead=_pick_names(plan.names, dead[t]),
                    contributions=None
                    if slope is None
                    else contributions(slope, h, unit, plan.names),
                )
            )
        return present, tuple(events[-KEPT_EVENTS:]), records

    # -- learning

    def _learn(self, plan: Plan) -> MonitorState:
        """Learn the rows that wait, once they are a block."""
        if len(self.pending) < plan.block:
            return self
        normal = self.normal.adapt(self.pending, plan.forgetting)
        return replace(self._with_normal(normal, self.pending), pending=self.pending[:0])

    def accept(self, plan: Plan) -> MonitorState:
        """Normal operation moves to the rows of the present event, and the event is over.

        Glitches among them stay out. The centre moves at once; spread and correlations by as much
        as the rows weigh. The limits rise as far as these rows need, and come down again by their
        own steps.
        """
        assert self.present is not None
        limits, rule = self.limits, plan.rule
        R = without_glitches(self.normal, self.suspects)
        normal = self.normal.recentre(R).adapt(R, plan.forgetting)
        log_index = normal.score(R, np.matmul).log_index
        log_index -= limits.excess(normal.rows.n_effective)
        levels = smooth_all(float(log_index.mean()), log_index, limits.index, limits.smoothing)
        index_shift, smoothed_shift = (
            max(old, float(np.quantile(scores, 1.0 - rule.alpha)) - base)
            for old, scores, base in zip(
                self.watch.shift, (log_index, levels), rule.base, strict=True
            )
        )
        over = self._conclude(replace(self.present, accepted=True))
        return replace(
            self._with_normal(normal, R),
            watch=replace(
                self.watch.end_event(limits),
                shift=(index_shift, smoothed_shift),
                level=float(np.mean(levels)),
            ),
            quarantine=self.quarantine[:0],
            suspects=R[:0],
            present=None,
            events=(*self.events, over)[-KEPT_EVENTS:],
        )

    def _with_normal(self, normal: Normal, R: np.ndarray) -> MonitorState:
        """The state with another model of normal operation, which has learned the rows R."""
        n = self.n_learned + len(R)
        drift = measure_drift(self.reference, normal, self.limits, R, self.n_features, n)
        return replace(self, normal=normal, drift=drift, n_learned=n)

    # -- causes

    def explain(
        self, slope_rows: Sequence[np.ndarray], names: tuple[str, ...]
    ) -> list[Contributions]:
        """Contributions by the present model, for each slope."""
        h = stiffness(self.normal, self.curvature, self.n_features)
        unit = self.standard.deviation
        return [contributions(slope, h, unit, names) for slope in slope_rows]

    def _conclude(self, event: Event) -> Event:
        """An event that is over, with its causes as the model sees them now."""
        (causes,) = self.explain([event.mean_slope], ("",) * self.n_features)
        return replace(event, values=causes.values, sizes=causes.sizes)


def _stack(rows: Any, like: np.ndarray) -> np.ndarray:
    return np.array(rows) if len(rows) else np.empty((0, like.shape[1]))


def _pick_names(names: tuple[str, ...], which: np.ndarray) -> tuple[str, ...]:
    return tuple(names[j] for j in np.flatnonzero(which)) if which.any() else ()
