"""Records and events of rows, from what was computed and decided about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from kernelstream.anomaly.monitor.contributions import Contributions, contributions
from kernelstream.anomaly.monitor.decisions import AlarmRule, Decision
from kernelstream.anomaly.monitor.models import ModelScores, NormalModels
from kernelstream.anomaly.monitor.normal import TINIEST
from kernelstream.anomaly.monitor.records import EventLog, Record, Records, extend_event
from kernelstream.anomaly.monitor.sensors import SensorStatus

FIRST_ROWS = 10  # of a sequence: what begins there is not an event, the process is another one


@dataclass(frozen=True)
class EvaluatedRows:
    """Consecutive rows with everything that was computed about them.

    There are as many records as decisions: rows after the last decision are evaluated again.
    """

    first: int  # number of the first row
    times: Sequence[Any]
    missing: np.ndarray
    lagged: np.ndarray
    found: ModelScores
    decisions: list[Decision]
    learned: np.ndarray
    statuses: list[SensorStatus]


@dataclass(frozen=True)
class Recorder:
    """Makes records and events of rows that one state of the models has scored."""

    rule: AlarmRule
    names: tuple[str, ...]
    models: NormalModels
    began_at: int

    def record(self, log: EventLog, rows: EvaluatedRows) -> tuple[EventLog, Records]:
        """The log with the rows of events, and a record for each row."""
        flagged = [t for t, made in enumerate(rows.decisions) if made.alarm or made.event]
        slopes = self.models.slopes(rows.lagged, rows.found.number, np.array(flagged, dtype=int))
        records, unit = Records(), self.models.standard.deviation
        for t, decision in enumerate(rows.decisions):
            present = log.present
            if present is not None and decision.event != present.id:
                found = self.models.explain(present.mean_slope, self.names)
                log, present = log.close(present, found), None
            slope, h = slopes.get(t, (None, None))
            if decision.event and slope is not None:
                row, index = rows.first + t, float(rows.found.scores.index[t])
                foreign = row - self.began_at < FIRST_ROWS
                present = extend_event(
                    present, decision.event, row, rows.times[t], index, slope, foreign
                )
                log, slope = replace(log, present=present), present.mean_slope
            explained = None
            if slope is not None and h is not None:
                explained = contributions(slope, h, unit, self.names)
            records.append(self._record(log, rows, t, explained))
        return log, records

    def _record(
        self, log: EventLog, rows: EvaluatedRows, t: int, explained: Contributions | None
    ) -> Record:
        decision, scores, excess = rows.decisions[t], rows.found.scores, self.models.excess
        limits, status = decision.limits, rows.statuses[t]
        event = log.present if decision.event else None
        foreign = event is not None and event.foreign
        over_index = rows.found.log_index[t] > limits.index
        return Record(
            row=rows.first + t,
            time=rows.times[t],
            index=float(scores.index[t]),
            smoothed=float(np.exp(decision.level + excess)),
            t2=float(scores.t2[t]),
            spe=float(scores.spe[t]),
            t2_blind=bool(over_index and scores.t2[t] <= self._t2_limit),
            limit=float(np.exp(decision.limit + excess)),
            index_limit=float(np.exp(limits.index + excess)),
            t2_limit=self._t2_limit,
            spe_limit=self._spe_limit,
            lasting=decision.lasting**3,
            lasting_limit=limits.lasting**3,
            event_limit=float(np.exp(limits.event + excess)),
            p_value=self.rule.p_value(decision, self.models.limits),
            alarm=decision.alarm,
            event=None if event is None or foreign else event.id,
            acknowledged=event is not None and event.acknowledged,
            learned=bool(rows.learned[t]),
            drift=self.models.drift,
            foreign=foreign,
            missing=self._pick_names(rows.missing[t]),
            dead=self._pick_names(status.dead),
            silent=self._pick_names(status.silent),
            contributions=explained,
        )

    @cached_property
    def _t2_limit(self) -> float:
        return float(np.exp(self.models.limits.t2.limit(self.rule.alpha)))

    @cached_property
    def _spe_limit(self) -> float:
        return float(max(np.exp(self.models.limits.spe.limit(self.rule.alpha)), TINIEST))

    def _pick_names(self, which: np.ndarray) -> tuple[str, ...]:
        return tuple(self.names[j] for j in np.flatnonzero(which)) if which.any() else ()
