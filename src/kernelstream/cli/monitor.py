"""``monitor``: rows from a pipe, files or a broker are judged one by one, as they come."""

from __future__ import annotations

import contextlib
import io
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np
import typer

from kernelstream import KernelMonitor, preimages
from kernelstream.anomaly import Record
from kernelstream.anomaly.monitor.limits import conformal_p_value
from kernelstream.anomaly.monitor.operation.live import fingerprint
from kernelstream.arrays import to_host
from kernelstream.cli import completion
from kernelstream.cli import options as opt
from kernelstream.cli.failures import (
    DATA,
    MODEL,
    USAGE,
    CommandError,
    leave_closed_pipe,
    report_failures,
    terminable,
)
from kernelstream.cli.fleet import FleetJudge, open_fleet, require_folder
from kernelstream.cli.judges import Quiet
from kernelstream.cli.live import Deck, Operation, paced, shows_lines
from kernelstream.cli.modelfile import (
    Stored,
    holds_monitor,
    lock,
    monitor_in,
    open_file,
    position_in,
    save_monitor,
    stored_in,
)
from kernelstream.cli.terminal import plain
from kernelstream.cli.transform import t_squared
from kernelstream.tables.feeds import (
    Feed,
    FileFeed,
    PipeFeed,
    Position,
    open_address,
    read_settings,
)
from kernelstream.tables.files import is_address
from kernelstream.tables.live import LiveRow, LiveRows
from kernelstream.tables.source import standard_input
from kernelstream.tables.treatment import few

LEAST_REFERENCE = 100  # rows without which a limit would be a guess
Verdict = dict[str, Any]


class RowFormat(StrEnum):
    """How rows come in."""

    auto = "auto"
    ndjson = "ndjson"
    csv = "csv"


class OnBad(StrEnum):
    """What a bad row does to a monitor: a line with the error, or the end."""

    report = "report"
    error = "error"


@dataclass(frozen=True)
class Coming:
    """How rows come."""

    sources: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files, or kafka://, mqtt://, opcua:// and sql: addresses. Default: the standard "
            "input."
        ),
    ] = None
    speed: Annotated[
        str | None, typer.Option(help="Replay files so fast: 60x by time stamps, or 200/s.")
    ] = None
    settings: opt.Settings = None
    db: opt.Database = None
    time_column: Annotated[
        str | None,
        typer.Option(help="Column with the time stamp.", autocompletion=completion.column),
    ] = None
    keep: Annotated[
        str | None,
        typer.Option(
            help="Columns to repeat in the output: 'id,place'.", autocompletion=completion.columns
        ),
    ] = None
    format: Annotated[RowFormat, typer.Option(help="How rows come in.")] = RowFormat.auto
    delimiter: opt.Delimiter = None
    header: opt.Header = None

    def open(self, judge: Judge, position: Position | None, by: str | None = None) -> Feed:
        """The feed of the rows."""
        parse = LiveRows(
            standard_input() if not self.sources else io.BytesIO(),
            judge.n_features,
            judge.names,
            takes_missing=judge.takes_missing,
            format=self.format.value,
            delimiter=opt.one_character(self.delimiter),
            header=self.header,
            time_column=self.time_column,
            keep=[*(opt.column_list(self.keep) or []), *([] if by is None else [by])],
        )
        sources = self.sources or ["-"]
        if sources == ["-"]:
            parse.stream = standard_input()
            return PipeFeed(parse.stream, parse)
        if not any(map(is_address, sources)):
            return FileFeed(sources, parse)
        if len(sources) > 1:
            raise CommandError(USAGE, "An address stands alone: give one, and no files beside it.")
        return open_address(
            sources[0], parse, position, settings=read_settings(self.settings), database=self.db
        )


AS_THEY_COME, ALONE = Coming(), Operation()


def monitor(
    model: opt.Model,
    coming: Coming = AS_THEY_COME,
    learn: Annotated[
        bool, typer.Option("--learn", help="Learn rows that raise no alarm; saved at the end.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where --learn saves. Default: the model.")
    ] = None,
    save_every: Annotated[str, typer.Option(help="With --learn, save so often.")] = "60s",
    alpha: Annotated[
        float | None, typer.Option(help="Share of normal rows that may raise an alarm.")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            help="Column with the machine of each row: a monitor for each of a fleet.",
            autocompletion=completion.column,
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="How many variables to name.")] = 3,
    alarms_only: Annotated[
        bool, typer.Option("--alarms-only", help="Write only rows with an alarm.")
    ] = False,
    alarms_to: Annotated[
        str | None,
        typer.Option(help="Send alarms to a topic, kafka://broker/topic, each at least once."),
    ] = None,
    on_bad_rows: Annotated[
        OnBad, typer.Option("--on-bad-rows", help="Write a line with the error, or end with one.")
    ] = OnBad.report,
    operation: Operation = ALONE,
    as_json: opt.Json = False,
) -> None:
    """Judge rows one by one, as they come from a pipe, a broker or files: a line of NDJSON each.

    The model is one of 'fit --monitor' (smoothed index, events, causes), or a plain one: then
    reconstruction error and t2, with limits from the sample of rows that the model keeps. In a
    terminal, events are told instead of rows; --json writes the rows there too.

    Examples
    --------
      tail -f sensors.ndjson | kernelstream monitor model.safetensors --alarms-only

      nc -l 9000 | kernelstream monitor model.safetensors --learn --time-column t > judged.ndjson

      kernelstream monitor model.safetensors kafka://broker/plant --learn --serve

      kernelstream monitor model.safetensors day.csv --time-column t --speed 60x --serve --open

      tail -f fleet.ndjson | kernelstream monitor fleet/ --by machine --alarms-only
    """
    with report_failures(as_json), contextlib.ExitStack() as stack:
        every = opt.seconds(save_every) or 0.0
        target = (model if output is None else output) if learn else None
        if target is not None and by is not None:
            require_folder(target)
        if target is not None:  # before the model is read: another process may be saving it
            stack.enter_context(lock(target))
        begin = target if target is not None and target.exists() and is_continued(coming) else model
        judge, position = open_judge(begin, alpha, learn, top, by)
        if isinstance(judge, MonitorJudge):
            judge.operate(Deck(judge.monitor, model, operation, stack))
        elif operation.wanted:
            raise CommandError(
                USAGE,
                "--serve, --history, --metrics, --on-event and --watch need a monitor: make one "
                "with 'kernelstream fit --monitor'.",
            )
        feed = coming.open(judge, position, by)
        stack.callback(feed.close)
        alarms = open_alarms(alarms_to, read_settings(coming.settings), judge)
        lines = isinstance(judge, ChartJudge) or shows_lines(as_json)
        with terminable():
            Following(feed, judge, alarms, alarms_only, on_bad_rows, target, every, lines).run(
                coming.speed
            )


def is_continued(coming: Coming) -> bool:
    """Whether a run goes on where the output of an earlier one stopped: it has a position."""
    return bool(coming.sources) and is_address((coming.sources or [""])[0])


def open_alarms(address: str | None, settings: dict[str, str], judge: Judge) -> Any:
    """Where alarms are sent; None for nowhere."""
    if address is None:
        return None
    if not address.startswith("kafka://"):
        raise CommandError(USAGE, f"--alarms-to wants kafka://broker/topic; got {address!r}.")
    try:
        from kernelstream.tables.kafka import KafkaAlarms
    except ModuleNotFoundError as problem:
        raise CommandError(
            1, f"--alarms-to needs {problem.name}: pip install 'kernelstream[kafka]'"
        ) from problem
    return KafkaAlarms(address, settings, judge.identity)


class Following:
    """Judge until the input ends, the output is closed or somebody interrupts; then save."""

    def __init__(
        self,
        feed: Feed,
        judge: Judge,
        alarms: Any,
        alarms_only: bool,
        on_bad_rows: OnBad,
        target: Path | None,
        every: float,
        lines: bool,
    ):
        self.feed, self.judge, self.alarms, self.lines = feed, judge, alarms, lines
        self.alarms_only, self.on_bad_rows = alarms_only, on_bad_rows
        self.target, self.every = target, every
        self.number = self.judged = 0
        self.problem = ""
        self.saved = time.monotonic()
        self.place = feed.position()  # of what the judge has seen
        feed.tell = judge.hear

    def run(self, speed: str | None) -> None:
        """Row by row."""
        closed = False
        try:
            for row in paced(self.feed.rows(), speed):
                if row is not None:
                    self._take(row)
                self.judge.look()
                if self.target is not None and time.monotonic() - self.saved >= self.every:
                    self._save()
        except KeyboardInterrupt:
            pass  # the usual way to end it
        except BrokenPipeError:
            closed = True
        finally:
            if self.number:
                self._save()
        self.judge.end(self.target)
        if closed:
            leave_closed_pipe()
        if self.problem and not self.judged:
            raise CommandError(DATA, f"No row could be judged. {self.problem}.")

    def _take(self, row: LiveRow | str) -> None:
        self.number += 1
        line = row if isinstance(row, str) else judge_row(self.judge, row)
        if isinstance(line, str):
            self.problem = f"{self.judge.place(self.feed)}, row {self.number}: {line}"
            if self.on_bad_rows is OnBad.error:
                raise CommandError(DATA, self.problem)
            self.judge.refuse(line)
            line = {"error": line}
        else:
            self.judged += 1
        if self.alarms is not None and line.get("alarm"):
            self.alarms.send({**finite(line), "row": self.judge.row})
        if self.lines and (not self.alarms_only or line.get("alarm", True)):
            answer = finite({"row": self.number, **line})
            sys.stdout.write(json.dumps(answer, default=plain) + "\n")
            sys.stdout.flush()
        self.place = self.feed.position()

    def _save(self) -> None:
        """Model and position in one file: after a kill they agree. Alarms have gone out before."""
        if self.alarms is not None:
            self.alarms.flush()
        if self.target is not None and self.judged:
            self.judge.save(self.target, self.place)
        if self.place is not None:
            self.feed.commit(self.place)
        self.saved = time.monotonic()


def judge_row(judge: Judge | FleetJudge, row: LiveRow) -> Verdict | str:
    """What is known about a row; the reason in words where the model refuses it.

    A value that no kernel can take must not end the watch: the next row may be a good one.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            found = (
                judge.judge_row(row)
                if isinstance(judge, FleetJudge)
                else judge.judge(row.x, row.time)
            )
            return {"time": row.time, **row.kept, **found}
    except ValueError as problem:
        return str(problem)


def finite(value: Any) -> Any:
    """The same with null for what JSON cannot say: infinity, not a number."""
    if isinstance(value, dict):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Judge(Protocol):
    """Judges one row at a time, before it may be learned."""

    names: tuple[str, ...] | None
    n_features: int
    takes_missing: bool
    row: int  # number of the last row, since the model was fitted

    @property
    def identity(self) -> str:
        """What tells the model from another."""

    def judge(self, x: np.ndarray, time: Any) -> Verdict:
        """What is known about a row, ready for JSON; learns it where that is asked for."""

    def save(self, path: Path, position: Position | None) -> None:
        """Write the model as it now is, with the place in the feed that it has come to."""

    def refuse(self, reason: str) -> None:
        """A row could not be judged."""

    def hear(self, text: str) -> None:
        """The feed has something to say."""

    def look(self) -> None:
        """Between rows."""

    def end(self, saved: Path | None) -> None:
        """There are no more rows."""

    def place(self, feed: Feed) -> str:
        """Where rows come from, in words."""


def open_judge(
    path: Path, alpha: float | None, learn: bool, top: int, by: str | None = None
) -> tuple[MonitorJudge | ChartJudge | FleetJudge, Position | None]:
    """The judge that a model file holds, or a folder of them, and the position saved with it."""
    if by is not None:
        if alpha is not None:
            raise CommandError(USAGE, "Monitors have their own alpha: leave out --alpha.")
        return FleetJudge(open_fleet(path), by, lambda one: MonitorJudge(one, learn, top)), None
    file = open_file(path)
    if holds_monitor(file):
        if alpha is not None:
            raise CommandError(
                USAGE, "A monitor has its own alpha, given at fit --monitor: leave out --alpha."
            )
        return MonitorJudge(monitor_in(file, path), learn, top), position_in(file, path)
    return ChartJudge(stored_in(file, path), 0.01 if alpha is None else alpha, learn, top), None


class MonitorJudge(Quiet):
    """A KernelMonitor: smoothed index, events, adaptation, causes."""

    takes_missing = True

    def __init__(self, monitor: KernelMonitor, learn: bool, top: int):
        self.monitor = monitor
        if not learn:
            self.monitor.set_params(adapt="off")
        self.top = top
        names = getattr(self.monitor, "feature_names_in_", None)
        self.names = None if names is None else tuple(map(str, names))
        self.n_features = int(self.monitor.n_features_in_)
        self.update: Callable[..., Record] = self.monitor.update
        self.deck: Deck | None = None

    def operate(self, deck: Deck) -> None:
        """Have rows judged with a history, and all that goes on beside them."""
        self.deck, self.update = deck, deck.live.update

    @property
    def identity(self) -> str:
        """What tells the model from another."""
        return fingerprint(self.monitor)

    def judge(self, x: np.ndarray, time: Any) -> Verdict:
        """The monitor's record as plain values."""
        record = self.update(x, time=time)
        self.row = record.row
        causes = [] if record.contributions is None else record.contributions.ranking()
        fields = (
            *("index", "smoothed", "lasting", "t2", "spe"),
            *("index_limit", "limit", "lasting_limit", "t2_limit", "spe_limit", "p_value"),
        )
        return {
            **{name: float(getattr(record, name)) for name in fields},
            "alarm": bool(record.alarm),
            "event": record.event,
            "foreign": bool(record.foreign),
            "learned": bool(record.learned),
            "missing": list(record.missing),
            "dead": list(record.dead),
            "silent": list(record.silent),
            "top": [
                {"variable": str(name), "contribution": float(value), "size": float(size)}
                for name, value, size in causes[: self.top]
            ],
        }

    def save(self, path: Path, position: Position | None) -> None:
        """Write the monitor with its adaptive state."""
        if self.deck is None:
            save_monitor(self.monitor, path, position)
            return
        self.deck.live.save(path, lambda path: save_monitor(self.monitor, path, position))

    def refuse(self, reason: str) -> None:
        """Count it, and tell it in the log."""
        if self.deck is not None:
            self.deck.refuse(reason)

    def hear(self, text: str) -> None:
        """Into the log."""
        if self.deck is not None:
            self.deck.live.tell("problem", text)

    def look(self) -> None:
        """Commands, silence, the table."""
        if self.deck is not None:
            self.deck.look()

    def end(self, saved: Path | None) -> None:
        """The last line of the log, and a summary."""
        if self.deck is not None:
            self.deck.live.end()
            self.deck.summary(saved)


class ChartJudge(Quiet):
    """Reconstruction error and T² of a plain model; limits from the sample of rows it keeps.

    The basis of centroids keeps a uniform sample of all rows. The limits are the upper
    α/2 quantiles of the two statistics over that sample, so that about a share α of rows like
    those learned raises an alarm.
    """

    takes_missing = False

    def __init__(self, stored: Stored, alpha: float, learn: bool, top: int):
        if not 0 < alpha < 1:
            raise CommandError(USAGE, f"--alpha must be between 0 and 1; got {alpha}.")
        treatment = stored.schema
        if treatment is not None and not treatment.is_plain:
            raise CommandError(
                USAGE,
                "monitor takes rows of numbers, and the model learned columns that are none: fit "
                f"it with --columns, or judge files with score ({few(treatment.inputs)}).",
            )
        self.stored, self.alpha, self.learn, self.top = stored, alpha, learn, top
        self.names = stored.names
        self.n_features = stored.estimator.n_features_in_
        self._take_limits()

    def _take_limits(self) -> None:
        """Limits and deviations, from the sample that the model keeps."""
        stream = self.stored.stream.settled
        rows = stream.chain.basis.sampled(stream.begun.basis)
        if rows is None or int(rows.shape[0]) < LEAST_REFERENCE:
            raise CommandError(
                MODEL,
                "A monitor needs a reference, and this model keeps no sample of at least "
                f"{LEAST_REFERENCE} rows ({stream.chain.basis}). Make a monitor from "
                "rows of normal operation: kernelstream fit --monitor.",
            )
        components = self.stored.components
        self.errors = np.sort(to_host(components.reconstruction_error(rows)).astype(float))
        self.variances = np.asarray(components.variances, dtype=float)
        self.t2s = np.sort(t_squared(to_host(components.scores(rows)), self.variances))
        scaler = stream.scaler
        units = to_host(rows) if scaler is None else scaler.undo(to_host(rows))
        self.deviation = np.maximum(np.std(units.astype(float), axis=0), 1e-300)
        level = 1.0 - self.alpha / 2
        self.limits = {
            "reconstruction_error": float(np.quantile(self.errors, level, method="higher")),
            "t2": float(np.quantile(self.t2s, level, method="higher")),
        }

    def judge(self, x: np.ndarray, time: Any) -> Verdict:
        """Both statistics, their limits, and the variables that differ from what is expected."""
        estimator = self.stored.estimator
        stream, components = self.stored.stream, self.stored.components
        row = estimator.check_rows(x[None, :].astype(stream.dtype))
        scores = stream.query(components.scores, row)
        error = float(stream.query(components.reconstruction_error, row)[0])
        t2 = float(t_squared(scores, self.variances)[0])
        p_value = 2 * min(conformal_p_value(self.errors, error), conformal_p_value(self.t2s, t2))
        alarm = error > self.limits["reconstruction_error"] or t2 > self.limits["t2"]
        if self.learn and not alarm:
            estimator.learn_one(row[0])
        return {
            "reconstruction_error": error,
            "t2": t2,
            "limit": self.limits["reconstruction_error"],
            "t2_limit": self.limits["t2"],
            "p_value": min(1.0, p_value),
            "alarm": alarm,
            "learned": self.learn and not alarm,
            "top": self._top(x, row) if alarm else [],
        }

    def _top(self, x: np.ndarray, row: np.ndarray) -> list[dict[str, Any]]:
        """Variables by the squared difference to the pre-image, in units of their deviation."""
        try:
            method = preimages.resolve(
                getattr(self.stored.estimator, "preimage", "auto"),
                self.stored.components.kernel,
            )
            expected = self.stored.stream.project(row, method)[0].astype(float)
        except ValueError:  # a basis without points has no pre-images, and no causes either
            return []
        apart = np.abs(x - expected) / self.deviation
        parts = np.square(apart / max(apart.max(), 1e-300))  # of any size, and no overflow
        parts = parts / max(parts.sum(), 1e-300)
        names = self.names or tuple(f"x{i}" for i in range(self.n_features))
        largest = np.argsort(parts)[::-1][: self.top]
        return [{"variable": names[i], "contribution": float(parts[i])} for i in largest]

    def save(self, path: Path, position: Position | None) -> None:
        """Write the model with what it learned."""
        self.stored.save(path)
