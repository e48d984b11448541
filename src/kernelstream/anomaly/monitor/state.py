"""State of the monitor: score, then learn; quarantine, operating modes, inactive models.

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

from kernelstream.anomaly.monitor.contributions import (
    Contributions,
    contributions,
    slopes,
    stiffness,
)
from kernelstream.anomaly.monitor.decisions import Rule, Verdict, Watch, decide
from kernelstream.anomaly.monitor.drift import Drift, measure_drift, no_drift
from kernelstream.anomaly.monitor.limits import Limits, smooth_all
from kernelstream.anomaly.monitor.normal import (
    TINIEST,
    Normal,
    Product,
    Scores,
    lag_rows,
    rows_times,
)
from kernelstream.anomaly.monitor.records import Event, Record, Records, extend_event, storable_time
from kernelstream.anomaly.monitor.sensors import (
    Expectation,
    SensorEvent,
    Sensors,
    Service,
    fill_gaps,
    without_glitches,
)
from kernelstream.serialization import stored
from kernelstream.stream import Standardisation

MOST_AT_ONCE = 256  # rows that are scored together
KEPT_EVENTS = 100
FIRST_ROWS = 10  # of a run: what begins there is not an event, the stream itself is foreign
MOST_RESTING = 4  # adapted models that wait for a return, the latest; what they grew from stays


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


@dataclass(frozen=True)
class Assessment:
    """Rows as the model of normal operation sees them that finds each the most normal.

    ``log_index`` is comparable with the limits, ``own`` is that of the present model, ``home`` the
    number of the model: 0 is the present one, 1 the reference, the others rest.
    """

    scores: Scores
    log_index: np.ndarray
    away: np.ndarray  # the index by the present model alone, smoothed
    own: np.ndarray
    home: np.ndarray
    residuals: np.ndarray


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
    away: float = 0.0  # the smoothed log index by the present model alone
    # adapted models: normal operation has been there and may return
    resting: tuple[Annotated[Normal, "apart"], ...] = ()
    accepted: tuple[Annotated[Normal, "apart"], ...] = ()  # as events were accepted, frozen
    knows_reference: bool = True  # until an event is accepted in the place of all before
    began_at: int = 0  # the row with which the present run began
    sensor_events: tuple[SensorEvent, ...] = ()

    def check(self, sizes: dict[str, int]) -> None:
        """Raise unless lagged rows are as wide as the models, and the present event is watched."""
        lagged = self.n_features * (self.lags + 1)
        widths = {lagged, sizes["lagged"]}
        for model in (self.reference, self.normal, *self.accepted, *self.resting):
            widths |= {len(model.scaling.mean), int(model.index.span.points.shape[1])}
        if widths != {lagged} or not self.n_features or len(self.history) > self.lags:
            raise ValueError(f"models of rows of {sorted(widths)} values")
        average = self.watch.average
        if len(average) != 2 * self.n_features:
            raise ValueError(f"an average of {len(average)} values for {self.n_features} sensors")
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
            watch=Watch.begin(limits, d),
            sensors=sensors,
            history=np.empty((0, d)),
            quarantine=nothing,
            pending=nothing,
            suspects=nothing,
            drift=no_drift(d),
            present=None,
            events=(),
            away=limits.index.mean,
        )

    @property
    def n_features(self) -> int:
        """Variables of a row."""
        return len(self.standard.mean)

    @property
    def excess(self) -> float:
        """What the number of rows learned adds to the log index, compared with calibration."""
        return self.limits.excess(self.normal.rows.n_effective)

    @property
    def models(self) -> tuple[Normal, ...]:
        """All that is known of normal operation: the present model, and those that may return.

        Until something was learned the present model is the reference.
        """
        if not self.n_learned:
            return (self.normal,)
        fitted = (self.reference,) if self.knows_reference else ()
        return (self.normal, *fitted, *self.accepted, *self.resting)

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
            start += len(made)
        return state, records

    def assess(self, R: np.ndarray, product: Product = rows_times) -> Assessment:
        """Judge lagged rows by every model; the one that finds a row most normal counts.

        Others than the present one are asked only about rows that it does not find ordinary, or
        when it finds the last rows, taken together, less ordinary than it should.
        """
        scores = self.normal.score(R, product)
        own = scores.log_index - self.excess
        residuals = self.normal.residuals(R, self.n_features, product)
        best, home = own.copy(), np.zeros(len(R), dtype=np.int64)
        limits = self.limits
        away = smooth_all(self.away, own, limits.index, limits.smoothing)
        odd = np.flatnonzero(limits.index.is_high(own) | limits.smoothed.is_high(away))
        for number, model in enumerate(self.models[1:], 1):
            if not len(odd):
                break
            others = model.score(R[odd], product)
            log_index = others.log_index - self.limits.excess(model.rows.n_effective)
            better = log_index < best[odd]
            chosen = odd[better]
            best[chosen], home[chosen] = log_index[better], number
            scores.t2[chosen], scores.spe[chosen] = others.t2[better], others.spe[better]
            if len(chosen):
                residuals[chosen] = model.residuals(R[chosen], self.n_features, product)
        known = Scores(np.exp(best + self.excess), scores.t2, scores.spe)
        scores = replace(known, index=np.where(home == 0, scores.index, known.index))
        return Assessment(scores, best, away, own, home, residuals)

    def rehearse(self, plan: Plan, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """The scores that raise alarms, of rows as a run that has no past and that nobody follows.

        Not a number where a row has no value at all: nothing is known of it.
        """
        run = replace(self, history=self.history[:0], away=self.limits.index.mean)
        if plan.rule.smoothed:
            out = np.array([service.out for service in self.sensors.anew.see_all(X)[1]])
            Z = np.where(out, np.nan, Z)
        found = run.assess(run.complete(Z)[0], np.matmul)
        if not plan.rule.smoothed:
            return found.log_index
        watch = replace(Watch.begin(self.limits, self.n_features), shift=self.watch.shift)
        rule, scores = replace(plan.rule, adapts=False), np.empty(len(X))
        for t, silent in enumerate(np.isnan(X).all(axis=1)):
            watch, verdict = decide(
                watch,
                float(found.log_index[t]),
                found.residuals[t],
                self.limits,
                rule,
                counts=False,
                silent=bool(silent),
            )
            scores[t] = verdict.joint
        return scores

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
        rule, missing = plan.rule, np.isnan(X)
        sensors, services = self.sensors.see_all(X)
        out = np.array([service.out for service in services])
        R = self.complete(np.where(out, np.nan, Z))[0]
        found = self.assess(R)
        empty = missing.all(axis=1)
        far_away = math.log(self.normal.index.far_away) - self.excess

        watch, sensor_events = self.watch, self.sensor_events
        quarantine, suspects = deque(self.quarantine), deque(self.suspects, maxlen=plan.block)
        pending, moves_to = list(self.pending), 0
        verdicts: list[Verdict] = []
        taken = np.zeros(len(X), dtype=bool)
        expected: dict[bytes, Expectation] = {}
        for t, service in enumerate(services):
            sensor_events = service.log(
                sensor_events, plan.names, self.n_rows + t, storable_time(times[t])
            )
            # A row with a gap would teach too little variance, and any of these too low a limit.
            gap = bool((missing[t] & ~out[t]).any())
            counts = not (missing[t].any() or service.dead.any())
            watch, verdict = decide(
                watch,
                float(found.log_index[t]),
                found.residuals[t],
                self.limits,
                rule,
                counts=counts,
                trusted=trusted,
                silent=bool(empty[t]),
            )
            verdicts.append(verdict)
            if empty[t]:
                continue
            if verdict.event:
                quarantine.clear()
                suspects.append(R[t])
                continue
            suspects.clear()
            wild = found.own[t] > self.limits.wild(rule.base[0], watch.shift[0], far_away)
            taken[t] = not gap and (trusted or (rule.adapts and not wild))
            row = R[t]
            if taken[t] and out[t].any():
                pattern = np.tile(out[t], self.lags + 1)
                if (known := pattern.tobytes()) not in expected:
                    expected[known] = Expectation.of(self.normal, pattern)
                row = expected[known].draw(row, self.normal.setting.seed, self.n_rows + t)
            if taken[t] and trusted:
                pending.append(row)
            elif taken[t]:
                quarantine.append(row)
                if len(quarantine) > rule.patience:
                    pending.append(quarantine.popleft())
            elsewhere = self.limits.elsewhere(float(found.away[t]), verdict.level)
            if found.home[t] and not verdict.alarm and elsewhere:
                moves_to = int(found.home[t])
                break

        n = len(verdicts)
        present, events, records = self._record(
            plan, R[:n], found, verdicts, times, taken, missing, services
        )
        judged = replace(
            self,
            watch=watch,
            sensors=sensors[n - 1],
            sensor_events=sensor_events,
            history=self.complete(np.where(out, np.nan, Z)[:n])[1],
            quarantine=_stack(quarantine, R),
            pending=_stack(pending, R),
            suspects=_stack(suspects, R),
            present=present,
            events=events,
            n_rows=self.n_rows + n,
            away=float(found.away[n - 1]),
        )
        return judged._move(moves_to) if moves_to else judged, records

    def _move(self, number: int) -> MonitorState:
        """Normal operation is where another model is: that one goes on, the present one rests."""
        there = self.models[number]
        frozen = (self.reference, *self.accepted)
        resting = [model for model in self.resting if model is not there]
        if not any(same_place(self.normal, model) for model in frozen):
            resting.append(self.normal)
        return replace(
            self,
            normal=there,
            resting=tuple(resting[-MOST_RESTING:]),
            away=self.limits.index.mean,
            watch=self.watch.forget_lag(self.limits),
            quarantine=self.quarantine[:0],
            pending=self.pending[:0],
        )

    def _record(
        self,
        plan: Plan,
        R: np.ndarray,
        found: Assessment,
        verdicts: list[Verdict],
        times: Sequence[Any],
        taken: np.ndarray,
        missing: np.ndarray,
        services: list[Service],
    ) -> tuple[Event | None, tuple[Event, ...], Records]:
        """The event that goes on after these rows, those that are over, and the records."""
        rule, limits, excess = plan.rule, self.limits, self.excess
        t2_limit = float(np.exp(limits.t2.limit(rule.alpha)))
        spe_limit = float(max(np.exp(limits.spe.limit(rule.alpha)), TINIEST))
        reference = limits.joint if rule.smoothed else limits.index
        base = rule.base[1 if rule.smoothed else 0]
        flagged = np.array([v.alarm or v.event > 0 for v in verdicts], dtype=bool)
        slope_of: dict[int, np.ndarray] = {}
        h_of: dict[int, np.ndarray] = {}
        for number, model in enumerate(self.models):
            theirs = np.flatnonzero(flagged & (found.home[: len(R)] == number))
            if len(theirs):
                of_theirs = slopes(model, self.curvature, R[theirs], self.n_features)
                slope_of.update(zip(theirs.tolist(), of_theirs, strict=True))
                h = stiffness(model, self.curvature, self.n_features)
                h_of.update(dict.fromkeys(theirs.tolist(), h))
        present, events = self.present, list(self.events)
        scores, unit = found.scores, self.standard.deviation
        records = Records()
        for t, verdict in enumerate(verdicts):
            row, time = self.n_rows + t, times[t]
            index, log_index = float(scores.index[t]), float(found.log_index[t])
            if present is not None and verdict.event != present.id:
                events.append(self._conclude(present))
                present = None
            slope = slope_of.get(t)
            if verdict.event and slope is not None:
                foreign = row - self.began_at < FIRST_ROWS
                present = extend_event(present, verdict.event, row, time, index, slope, foreign)
                slope = present.mean_slope
            foreign = bool(verdict.event and present and present.foreign)
            in_force = verdict.limits
            limit = in_force.smoothed if rule.smoothed else in_force.index
            score = verdict.joint if rule.smoothed else log_index
            records.append(
                Record(
                    row=row,
                    time=time,
                    index=index,
                    smoothed=float(np.exp(verdict.level + excess)),
                    t2=float(scores.t2[t]),
                    spe=float(scores.spe[t]),
                    t2_blind=bool(log_index > in_force.index and scores.t2[t] <= t2_limit),
                    limit=float(np.exp(limit + excess)),
                    index_limit=float(np.exp(in_force.index + excess)),
                    t2_limit=t2_limit,
                    spe_limit=spe_limit,
                    lasting=verdict.lasting**3,
                    lasting_limit=in_force.lasting**3,
                    event_limit=float(np.exp(in_force.event + excess)),
                    p_value=math.nan
                    if missing[t].all()
                    else reference.p_value(score - (limit - base), rule.alpha),
                    alarm=verdict.alarm,
                    event=None if foreign else verdict.event or None,
                    acknowledged=bool(verdict.event and present and present.acknowledged),
                    learned=bool(taken[t]),
                    drift=self.drift,
                    foreign=foreign,
                    missing=_pick_names(plan.names, missing[t]),
                    dead=_pick_names(plan.names, services[t].dead),
                    silent=_pick_names(plan.names, services[t].silent),
                    contributions=None
                    if slope is None
                    else contributions(slope, h_of[t], unit, plan.names),
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

    def accept(self, plan: Plan, instead: bool) -> MonitorState:
        """Normal operation moves to the rows of the present event, and the event is over.

        What was normal before stays so, unless the event takes its place ``instead``.
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
        resting, accepted = self.resting, self.accepted
        if instead:
            resting, accepted = (), (normal,)
        else:
            accepted = (*accepted, normal)
            if self.n_learned:
                resting = (*resting, self.normal)[-MOST_RESTING:]
        return replace(
            self._with_normal(normal, R),
            resting=resting,
            accepted=accepted,
            knows_reference=self.knows_reference and not instead,
            away=limits.index.mean,
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


def same_place(one: Normal, other: Normal) -> bool:
    """Whether two models are the same, or copies of it that were read from a file."""
    return np.array_equal(one.scaling.mean, other.scaling.mean)


def _stack(rows: Any, like: np.ndarray) -> np.ndarray:
    return np.array(rows) if len(rows) else np.empty((0, like.shape[1]))


def _pick_names(names: tuple[str, ...], which: np.ndarray) -> tuple[str, ...]:
    return tuple(names[j] for j in np.flatnonzero(which)) if which.any() else ()
