"""State of the monitor: score, then learn; quarantine and blocks of learned rows.

A row is standardized and lagged, its missing values are imputed, it is scored by the models of
before it, decided about, and then, outside events and unless it is a gross error, put into
quarantine. Rows that stay there long enough are learned in blocks of a fixed size, so that the
model changes at the same rows however the caller cuts the stream into calls. Every state is a
value: a row that is rejected changes nothing.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from kernelstream.anomaly.monitor.decisions import PATIENCE, AlarmRule, AlarmState, Decision, decide
from kernelstream.anomaly.monitor.limits import smooth_all
from kernelstream.anomaly.monitor.models import ModelScores, NormalModels
from kernelstream.anomaly.monitor.normal import lag_rows
from kernelstream.anomaly.monitor.records import EventLog, Records, ScoredRows
from kernelstream.anomaly.monitor.sensors import (
    Sensors,
    draw_disabled,
    fill_gaps,
    without_glitches,
)
from kernelstream.serialization import stored


@dataclass(frozen=True)
class Plan:
    """How a stream is monitored, as the parameters of the monitor now say."""

    rule: AlarmRule
    memory: int
    names: tuple[str, ...]

    @property
    def block(self) -> int:
        """Rows that are learned together: a tenth of the memory."""
        return max(1, self.memory // 10)

    @property
    def forgetting(self) -> float:
        """Fraction of the weight of old rows that is left after each new row."""
        return 1.0 - 1.0 / self.memory


@stored
@dataclass(frozen=True, eq=False)
class LearningBuffer:
    """Lagged rows on their way into the present model."""

    quarantine: Annotated[np.ndarray, "float64 (?, lagged)"]  # until no event can begin with them
    pending: Annotated[np.ndarray, "float64 (?, lagged)"]  # until they are a block
    event: Annotated[np.ndarray, "float64 (?, lagged)"]  # the latest of the present event

    @classmethod
    def empty(cls, width: int) -> LearningBuffer:
        """Without rows of this width."""
        nothing = np.empty((0, width))
        return cls(nothing, nothing, nothing)

    def extend(
        self,
        rows: Iterable[tuple[np.ndarray, bool, bool]],
        plan: Plan,
        trusted: bool,
    ) -> LearningBuffer:
        """Add rows, each with whether it is in an event and whether it may be learned.

        An event drops the rows in quarantine; trusted rows need none.
        """
        quarantine, pending = deque(self.quarantine), list(self.pending)
        event = deque(self.event, maxlen=plan.block)
        for row, in_event, learned in rows:
            if in_event:
                quarantine.clear()
                event.append(row)
                continue
            event.clear()
            if learned and trusted:
                pending.append(row)
            elif learned:
                quarantine.append(row)
                if len(quarantine) > PATIENCE:
                    pending.append(quarantine.popleft())
        width = self.event.shape[1]
        return LearningBuffer(
            *(np.array(rows).reshape(-1, width) for rows in (quarantine, pending, event))
        )


@stored
@dataclass(frozen=True, eq=False)
class MonitorState:
    """Everything that the next record depends on."""

    models: NormalModels
    alarms: AlarmState
    sensors: Sensors
    history: Annotated[np.ndarray, "float64 (?, columns)"]  # at most `lags`, in reference units
    buffer: LearningBuffer
    log: EventLog
    n_rows: int = 0
    began_at: int = 0  # the row with which the present sequence began

    def check(self, sizes: dict[str, int]) -> None:
        """Raise unless the history is as long as the lags, and the present event is counted."""
        if len(self.history) > self.lags:
            raise ValueError(f"{len(self.history)} rows before the next one, for {self.lags} lags")
        average = self.alarms.average
        if len(average) != 2 * self.n_features:
            raise ValueError(f"an average of {len(average)} values for {self.n_features} sensors")
        if self.alarms.event != (0 if self.log.present is None else self.log.present.id):
            raise ValueError("an event that no decision knows")

    @classmethod
    def begin(cls, models: NormalModels, sensors: Sensors) -> MonitorState:
        """Before the first row of the stream."""
        d, width = models.reference.n_features, len(models.reference.rows.mean)
        alarms, history = AlarmState.begin(models.limits, d), np.empty((0, d))
        return cls(models, alarms, sensors, history, LearningBuffer.empty(width), EventLog())

    @property
    def n_features(self) -> int:
        """Variables of a row."""
        return self.models.reference.n_features

    @property
    def lags(self) -> int:
        """Earlier rows that are joined to each row."""
        return self.models.reference.setting.lags

    def interrupt(self) -> MonitorState:
        """Begin a new sequence of rows: the next row has no past."""
        return replace(self, history=self.history[:0], began_at=self.n_rows)

    # -- the stream

    def update(
        self,
        plan: Plan,
        X: np.ndarray,
        Z: np.ndarray,
        times: Sequence[object],
        trusted: bool = False,
    ) -> tuple[MonitorState, Records]:
        """Score rows one after the other and learn from them; ``Z`` are the standardized rows.

        ``trusted`` rows are normal because the caller says so: they are learned without quarantine.
        """
        state, records, start = self, Records(), 0
        while start < len(X):
            # Until the next block of learned rows is complete the model stays as it is.
            room = max(plan.block - len(state.buffer.pending), 1)
            piece = slice(start, min(start + room, len(X)))
            state, made = state._update_piece(plan, X[piece], Z[piece], times[piece], trusted)
            state = state._learn(plan)
            records += made
            start += len(made)
        return state, records

    def _update_piece(
        self, plan: Plan, X: np.ndarray, Z: np.ndarray, times: Sequence[object], trusted: bool
    ) -> tuple[MonitorState, Records]:
        """Rows up to the first after which adaptation continues from another model."""
        missing = np.isnan(X)
        sensors, dead, silent = self.sensors.see_all(X)
        disabled = dead | silent
        Z = np.where(disabled, np.nan, Z)
        R = self.complete(Z)[0]
        found = self.models.score(R)
        alarms, decisions, learned, next_model = self._decide(
            plan.rule, found, missing, dead, disabled, trusted
        )
        n = len(decisions)
        log, records = ScoredRows(
            self, plan, times, missing, dead, silent, R, found, decisions, learned
        ).record()
        R = draw_disabled(self.models.present, R, disabled, learned, self.n_rows)
        to_learn = [
            (R[t], bool(decisions[t].event), bool(learned[t]))
            for t in range(n)
            if not missing[t].all()
        ]
        state = replace(
            self,
            models=replace(self.models, ewma=float(found.ewma[n - 1])),
            alarms=alarms,
            sensors=sensors[n - 1],
            history=self.complete(Z[:n])[1],
            buffer=self.buffer.extend(to_learn, plan, trusted),
            log=log,
            n_rows=self.n_rows + n,
        )
        return (state._switch(next_model) if next_model else state), records

    def _decide(
        self,
        rule: AlarmRule,
        found: ModelScores,
        missing: np.ndarray,
        dead: np.ndarray,
        disabled: np.ndarray,
        trusted: bool,
    ) -> tuple[AlarmState, list[Decision], np.ndarray, int]:
        """Decisions about rows, which rows may be learned, and the model to continue from.

        That is 0, the present model, unless another one is that of the latest rows: no row after
        them is decided about.
        """
        saturation = math.log(self.models.present.index.far_away) - self.models.excess
        limits, alarms, decisions = self.models.limits, self.alarms, list[Decision]()
        learned = np.zeros(len(missing), dtype=bool)
        for t, silent in enumerate(np.all(missing, axis=1).tolist()):
            alarms, decision = decide(
                alarms,
                float(found.log_index[t]),
                found.residuals[t],
                rule,
                # Imputed values would lower the limits.
                counts=not (missing[t].any() or dead[t].any()),
                trusted=trusted,
                silent=bool(silent),
            )
            decisions.append(decision)
            if silent or decision.event:
                continue
            most = limits.learning_threshold(rule.base[0], alarms.shift[0], saturation)
            usual = trusted or (rule.adapts and found.present[t] <= most)
            # An imputed value would lower the variance; that of a disabled sensor is drawn.
            learned[t] = usual and not (missing[t] & ~disabled[t]).any()
            elsewhere = limits.elsewhere(float(found.ewma[t]), decision.level)
            if found.number[t] and elsewhere and not decision.alarm:
                return alarms, decisions, learned, int(found.number[t])
        return alarms, decisions, learned, 0

    def _switch(self, number: int) -> MonitorState:
        """Adaptation continues from another model, which does not lag behind a drift."""
        buffer = self.buffer
        return replace(
            self,
            models=self.models.switch(number),
            alarms=replace(self.alarms, usual=self.models.limits.index.mean),
            buffer=replace(buffer, quarantine=buffer.quarantine[:0], pending=buffer.pending[:0]),
        )

    def complete(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lagged rows with missing values imputed, and the history after them."""
        Z = fill_gaps(self.models.present, self.history, Z)
        R = lag_rows(self.history, Z, self.lags)
        history = np.vstack([self.history, Z])[-self.lags :] if self.lags else self.history
        return R, history

    def score(self, plan: Plan, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """The scores that raise alarms, of rows as a new sequence from which nothing is learned.

        NaN for a row without any value, where scores are smoothed.
        """
        limits = self.models.limits
        models = replace(self.models, ewma=limits.index.mean)
        if plan.rule.smoothed:
            _, dead, silent = self.sensors.restarted.see_all(X)
            Z = np.where(dead | silent, np.nan, Z)
        found = models.score(self.interrupt().complete(Z)[0], np.matmul)
        if not plan.rule.smoothed:
            return found.log_index
        alarms = replace(AlarmState.begin(limits, self.n_features), shift=self.alarms.shift)
        scores = np.empty(len(X))
        for t, missing in enumerate(np.isnan(X).all(axis=1)):
            alarms, decision = decide(
                alarms,
                float(found.log_index[t]),
                found.residuals[t],
                plan.rule,
                counts=False,
                silent=bool(missing),
            )
            scores[t] = decision.score
        return scores

    # -- learning

    def _learn(self, plan: Plan) -> MonitorState:
        """Learn the pending rows, once they are a block."""
        R = self.buffer.pending
        if len(R) < plan.block:
            return self
        models = self.models.learn(R, plan.forgetting)
        return replace(self, models=models, buffer=replace(self.buffer, pending=R[:0]))

    def accept(self, plan: Plan, instead: bool) -> MonitorState:
        """Normal operation moves to the rows of the present event, and the event is over.

        What was normal before stays so, unless the event takes its place ``instead``.
        Glitches among the rows are left out. The center moves at once; spread and correlations by
        as much as the rows weigh. The limits rise as far as these rows need, and come down again by
        their own steps.
        """
        assert self.log.present is not None
        limits, rule, present = self.models.limits, plan.rule, self.models.present
        R = without_glitches(present, self.buffer.event)
        normal = present.recentre(R).adapt(R, plan.forgetting)
        log_index = normal.score(R, np.matmul).log_index
        log_index -= limits.excess(normal.rows.n_effective)
        levels = smooth_all(float(log_index.mean()), log_index, limits.index, limits.smoothing)
        index_shift, smoothed_shift = (
            max(old, float(np.quantile(scores, 1.0 - rule.alpha)) - base)
            for old, scores, base in zip(
                self.alarms.shift, (log_index, levels), rule.base, strict=True
            )
        )
        event = replace(self.log.present, accepted=True)
        found = self.models.explain(event.mean_slope, plan.names)
        return replace(
            self,
            models=self.models.accept(normal, R, instead),
            alarms=replace(
                self.alarms.end_event(limits),
                shift=(index_shift, smoothed_shift),
                level=float(np.mean(levels)),
            ),
            buffer=LearningBuffer(R[:0], self.buffer.pending, R[:0]),
            log=self.log.close(event, found),
        )
