"""Records of monitored rows and events: score, p-value, alarm, start, end, data frame."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from kernelstream.anomaly.monitor.contributions import Contributions, contributions
from kernelstream.anomaly.monitor.decisions import Decision
from kernelstream.anomaly.monitor.models import Drift, ModelScores
from kernelstream.anomaly.monitor.normal import TINIEST
from kernelstream.anomaly.monitor.sensors import (
    KEPT_EVENTS,
    SensorEvent,
    log_sensors,
    storable_time,
)
from kernelstream.arrays import prints_short
from kernelstream.serialization import stored

if TYPE_CHECKING:
    from kernelstream.anomaly.monitor.state import MonitorState, Plan

FIRST_ROWS = 10  # of a sequence: what begins there is not an event, the process is another one


@prints_short
@dataclass(frozen=True, eq=False)
class Record:
    """One row of a stream, scored before it was learned.

    Attributes
    ----------
    row : int
        Number of the row since ``fit``, from 0.
    time : object
        The time stamp that came with the row, as it is; else the row number.
    index, smoothed : float
        The index M, and its moving average (of the clipped logarithm, shown as an index).
    t2, spe : float
        The two terms, ``index = t2 + spe/ε``; for display.
    limit, index_limit : float
        The limits of the smoothed index and of the index; the same where nothing is smoothed.
    lasting, lasting_limit : float
        The squared length of the moving average of what was unexpected in the rows, or one that is
        as rare as its part along one sensor; it sees small faults that last. And its limit,
        infinite where it raises no alarm.
    t2_limit, spe_limit, event_limit : float
        The other limits; of the smoothed index for an event, which is a change: what rows of
        before were over the ordinary, while the model lags behind a drift, does not count.
    p_value : float
        Share of normal rows that are at least as far out as this one; NaN where all is missing.
    alarm : bool
        Whether ``index`` is over ``index_limit``, ``smoothed`` over ``limit`` or ``lasting`` over
        ``lasting_limit``, which are set together; where nothing is smoothed, whether ``index`` is
        over ``index_limit``. ``predict`` says the same.
    event : int or None
        Number of the event that the row belongs to.
    acknowledged : bool
        Whether somebody has acknowledged that event.
    learned : bool
        Whether the row was taken for learning. It waits in quarantine first, and an event that
        begins meanwhile drops it.
    drift : Drift
        Where normal operation is, seen from the reference.
    foreign : bool
        Whether the stream has differed from what was learned since its first rows: then it is
        another process, or the same one elsewhere, and no event is counted.
    missing, dead, silent : tuple of str
        Variables without a value in this row, those that no longer move, and those that have sent
        no value for long. Dead and silent ones are out of service: the others are scored and
        learned without them.
    contributions : Contributions or None
        For alarms and events: the variables behind them, averaged over the event so far.
    """

    row: int
    time: Any
    index: float
    smoothed: float
    t2: float
    spe: float
    limit: float
    index_limit: float
    t2_limit: float
    spe_limit: float
    event_limit: float
    lasting: float
    lasting_limit: float
    p_value: float
    alarm: bool
    event: int | None
    acknowledged: bool
    learned: bool
    drift: Drift
    foreign: bool
    missing: tuple[str, ...]
    dead: tuple[str, ...]
    silent: tuple[str, ...]
    contributions: Contributions | None


class Records(list[Record]):
    """Records in the order of their rows: a list, with columns.

    ``pandas.DataFrame(records).set_index("time")`` is a table of them.

    Parameters
    ----------
    iterable : iterable of Record
        As for a list.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import KernelMonitor
    >>> X = np.random.default_rng(0).normal(size=(210, 3))
    >>> records = KernelMonitor(basis=30, random_state=0).fit(X[:200]).update_many(X[200:])
    >>> records[:4].column("row")
    array([0, 1, 2, 3])
    """

    def __getitem__(self, which: Any, /) -> Any:
        chosen = super().__getitem__(which)
        return Records(chosen) if isinstance(which, slice) else chosen

    def __repr__(self) -> str:
        alarms = sum(bool(record.alarm) for record in self)
        rows = f", rows {self[0].row:,} to {self[-1].row:,}" if self else ""
        return f"<{len(self):,} records{rows}, {alarms:,} alarms>"

    def column(self, name: str) -> np.ndarray:
        """One field of all records.

        Fields of the drift are reached as ``"drift.overlap"``.

        Parameters
        ----------
        name : str
            The field, for example ``"index"``.
        """
        values: list[Any] = list(self)
        for part in name.split("."):
            values = [getattr(value, part) for value in values]
        return np.array(values)


@prints_short
@stored
@dataclass(frozen=True, eq=False)
class Event:
    """A stretch of rows that is not normal operation.

    Attributes
    ----------
    id : int
        Number of the event, from 1.
    first_row, last_row : int
        Where it began, and its last row so far.
    first_time, last_time : int, float or str
        The time stamps there (those that are no numbers, as text).
    peak : float
        The largest index.
    slope_sum : array of shape (d,)
        Slopes of the index, summed over its rows.
    values, sizes : array of shape (d,) or None
        The contributions, once the event is over.
    acknowledged, accepted : bool
        Whether somebody has seen it; whether it was declared the new normal.
    foreign : bool
        Whether it is none, but a stream that was not what was learned from its first rows on.
    """

    id: int
    first_row: int
    last_row: int
    first_time: Any
    last_time: Any
    peak: float
    slope_sum: Annotated[np.ndarray, "float64 (columns)"]
    values: Annotated[np.ndarray | None, "float64 (columns)"] = None
    sizes: Annotated[np.ndarray | None, "float64 (columns)"] = None
    acknowledged: bool = False
    accepted: bool = False
    foreign: bool = False

    def check(self, sizes: dict[str, int]) -> None:
        """Raise unless the event has rows.

        Parameters
        ----------
        sizes : dict
            The lengths that the file has named so far.
        """
        if not self.id or self.last_row < self.first_row:
            raise ValueError(f"event {self.id} from row {self.first_row} to {self.last_row}")

    @property
    def n_rows(self) -> int:
        """Rows of the event."""
        return self.last_row - self.first_row + 1

    @property
    def mean_slope(self) -> np.ndarray:
        """The slope of the index, averaged over the event."""
        return self.slope_sum / self.n_rows


@stored
@dataclass(frozen=True, eq=False)
class EventLog:
    """The present event, the latest ones that are over, and those of sensors."""

    present: Event | None = None
    past: tuple[Event, ...] = ()
    sensors: tuple[SensorEvent, ...] = ()

    def close(self, event: Event, found: Contributions) -> EventLog:
        """The log with the present event, which is over, and its contributions."""
        over = replace(event, values=found.values, sizes=found.sizes)
        return replace(self, present=None, past=(*self.past, over)[-KEPT_EVENTS:])


@dataclass(frozen=True)
class ScoredRows:
    """Consecutive rows that one state of the models has scored, and what was decided about them.

    There are as many records as decisions: rows after the last decision are scored again.
    """

    state: MonitorState
    plan: Plan
    times: Sequence[Any]
    missing: np.ndarray
    dead: np.ndarray
    silent: np.ndarray
    lagged: np.ndarray
    found: ModelScores
    decisions: list[Decision]
    learned: np.ndarray

    def record(self) -> tuple[EventLog, Records]:
        """The log with the rows of events, and a record for each row."""
        log, models, names = self.state.log, self.state.models, self.plan.names
        flagged = [t for t, made in enumerate(self.decisions) if made.alarm or made.event]
        slopes = models.slopes(self.lagged, self.found.number, np.array(flagged, dtype=int))
        records, unit = Records(), models.standard.deviation
        for t, decision in enumerate(self.decisions):
            present = log.present
            if present is not None and decision.event != present.id:
                log = log.close(present, models.explain(present.mean_slope, names))
            explained = None
            if t in slopes:
                slope, h = slopes[t]
                if decision.event:
                    event = self._extend(log.present, t, slope)
                    log, slope = replace(log, present=event), event.mean_slope
                explained = contributions(slope, h, unit, names)
            records.append(self._record(log, t, explained))
        return replace(log, sensors=log_sensors(log.sensors, records)), records

    def _extend(self, event: Event | None, t: int, slope: np.ndarray) -> Event:
        """The present event with one more row, or a new event."""
        row, index = self.state.n_rows + t, float(self.found.scores.index[t])
        time = storable_time(self.times[t])
        if event is None:
            number, foreign = self.decisions[t].event, row - self.state.began_at < FIRST_ROWS
            return Event(number, row, row, time, time, index, slope, foreign=foreign)
        peak, total = max(event.peak, index), event.slope_sum + slope
        return replace(event, last_row=row, last_time=time, peak=peak, slope_sum=total)

    def _record(self, log: EventLog, t: int, explained: Contributions | None) -> Record:
        models, decision, scores = self.state.models, self.decisions[t], self.found.scores
        excess, limits = models.excess, decision.limits
        event = log.present if decision.event else None
        foreign = event is not None and event.foreign
        return Record(
            row=self.state.n_rows + t,
            time=self.times[t],
            index=float(scores.index[t]),
            smoothed=float(np.exp(decision.level + excess)),
            t2=float(scores.t2[t]),
            spe=float(scores.spe[t]),
            limit=float(np.exp(decision.limit + excess)),
            index_limit=float(np.exp(limits.index + excess)),
            t2_limit=self._limits_to_show[0],
            spe_limit=self._limits_to_show[1],
            lasting=decision.lasting**3,
            lasting_limit=limits.lasting**3,
            event_limit=float(np.exp(limits.event + excess)),
            p_value=self.plan.rule.p_value(decision),
            alarm=decision.alarm,
            event=None if event is None or foreign else event.id,
            acknowledged=event is not None and event.acknowledged,
            learned=bool(self.learned[t]),
            drift=models.drift,
            foreign=foreign,
            missing=self._pick_names(self.missing[t]),
            dead=self._pick_names(self.dead[t]),
            silent=self._pick_names(self.silent[t]),
            contributions=explained,
        )

    @cached_property
    def _limits_to_show(self) -> tuple[float, float]:
        """The limits of T² and SPE."""
        limits, alpha = self.state.models.limits, self.plan.rule.alpha
        t2, spe = (max(math.exp(one.limit(alpha)), TINIEST) for one in (limits.t2, limits.spe))
        return t2, spe

    def _pick_names(self, which: np.ndarray) -> tuple[str, ...]:
        return tuple(self.plan.names[j] for j in np.flatnonzero(which))
