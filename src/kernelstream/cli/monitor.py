"""Command ``monitor``: event loop over rows of a pipe, scores as NDJSON, saving; input options.

Commands of other distributions run the same loop with more around it, by judges of their own and
by a subclass of :class:`Following`.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from kernelstream import KernelMonitor, preimages
from kernelstream.anomaly import Record
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
from kernelstream.estimators import ConformalScores
from kernelstream.tables import Feed, LiveRow, LiveRows, is_address
from kernelstream.tables.feeds import FileFeed, PipeFeed
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
class RowOptions:
    """How lines, messages and files become rows, and what is done with the answers."""

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
    top: Annotated[int, typer.Option(min=0, help="How many variables to name.")] = 3
    alpha: Annotated[
        float | None, typer.Option(help="Share of normal rows that may raise an alarm.")
    ] = None
    alarms_only: Annotated[
        bool, typer.Option("--alarms-only", help="Write only rows with an alarm.")
    ] = False
    on_bad_rows: Annotated[
        OnBad, typer.Option("--on-bad-rows", help="Write a line with the error, or end with one.")
    ] = OnBad.report

    def parser(self, judge: Judge, keep: Sequence[str] = ()) -> LiveRows:
        """What makes rows for a judge; ``keep`` are further columns to repeat in the output."""
        return LiveRows(
            io.BytesIO(),
            judge.n_features,
            judge.names,
            takes_missing=judge.takes_missing,
            format=self.format.value,
            delimiter=opt.one_character(self.delimiter),
            header=self.header,
            time_column=self.time_column,
            keep=[*(opt.column_list(self.keep) or []), *keep],
        )

    def open(self, sources: list[str] | None, parse: LiveRows) -> Feed:
        """The feed of files, or of the standard input."""
        if sources in (None, [], ["-"]):
            parse.stream = standard_input()
            return PipeFeed(parse.stream, parse)
        assert sources is not None
        return FileFeed(sources, parse)


@dataclass(frozen=True)
class Learning:
    """Whether rows are learned, and where the model is saved."""

    learn: Annotated[
        bool, typer.Option("--learn", help="Learn rows that raise no alarm; saved at the end.")
    ] = False
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where --learn saves. Default: the model.")
    ] = None
    save_every: Annotated[str, typer.Option(help="With --learn, save so often.")] = "60s"

    def target(self, model: Path) -> Path | None:
        """Where a model is saved that learns."""
        return (model if self.output is None else self.output) if self.learn else None

    @property
    def every(self) -> float:
        """Seconds between two savings."""
        return opt.seconds(self.save_every) or 0.0


AS_THEY_COME, NO_LEARNING = RowOptions(), Learning()


def monitor(
    model: opt.Model,
    sources: Annotated[
        list[str] | None, typer.Argument(help="Files. Default: the standard input.")
    ] = None,
    rows: RowOptions = AS_THEY_COME,
    learning: Learning = NO_LEARNING,
    as_json: opt.Json = False,
) -> None:
    """Evaluate rows one by one, as they come from a pipe or files: a line of NDJSON each.

    The model is one of 'fit --monitor' (smoothed index, events, causes), or a plain one: then
    reconstruction error and t2, with limits from the sample of rows that the model keeps.
    'kernelstream plant serve', of the package kernelstream-plant, adds a live page, a history,
    metrics, and rows from brokers, servers and databases.

    Examples
    --------
      tail -f sensors.ndjson | kernelstream monitor model.safetensors --alarms-only

      nc -l 9000 | kernelstream monitor model.safetensors --learn --time-column t > judged.ndjson

      kernelstream monitor model.safetensors day.csv --time-column t
    """
    with report_failures(as_json), contextlib.ExitStack() as stack:
        for source in filter(is_address, sources or ()):
            raise CommandError(
                USAGE,
                f"monitor reads files and pipes, and {source} is an address: use 'kernelstream "
                "plant serve' (pip install kernelstream-plant).",
            )
        target = learning.target(model)
        if target is not None:  # before the model is read: another process may be saving it
            stack.enter_context(lock(target))
        judge, _ = open_judge(model, rows.alpha, learning.learn, rows.top)
        feed = rows.open(sources, rows.parser(judge))
        stack.callback(feed.close)
        Following(feed, judge, rows, target, learning.every).run()


class Judge:
    """Judges one row at a time, before it may be learned; does nothing else beside the rows."""

    names: tuple[str, ...] | None
    n_features: int
    takes_missing = False
    row = 0  # number of the last row, since the model was fitted

    def judge(self, x: np.ndarray, time: Any) -> Verdict:
        """What is known about a row, ready for JSON; learns it where that is asked for."""
        raise NotImplementedError

    def judge_row(self, row: LiveRow) -> Verdict:
        """The same for a row with the values that are repeated in the output."""
        return self.judge(row.x, row.time)

    def save(self, path: Path, position: dict[str, Any] | None) -> None:
        """Write the model as it now is, with the place in the feed that it has come to."""
        raise NotImplementedError

    def refuse(self, reason: str) -> None:
        """A row could not be judged."""

    def hear(self, text: str) -> None:
        """The feed has something to say."""
        sys.stderr.write(f"{text}\n")

    def look(self) -> None:
        """Between rows."""

    def end(self, saved: Path | None) -> None:
        """There are no more rows."""


class Following:
    """Judge until the input ends, the output is closed or somebody interrupts; then save.

    Parameters
    ----------
    feed : Feed
    judge : Judge
    options : RowOptions
    target : Path or None
        Where the model is saved.
    every : float
        Seconds between two savings.
    lines : bool
        Whether the answers are written.
    """

    def __init__(
        self,
        feed: Feed,
        judge: Judge,
        options: RowOptions,
        target: Path | None = None,
        every: float = math.inf,
        lines: bool = True,
    ):
        self.feed, self.judge, self.options, self.lines = feed, judge, options, lines
        self.target, self.every = target, every
        self.number = self.judged = 0
        self.problem = ""
        self.saved = time.monotonic()
        self.place = feed.position()  # of what the judge has seen
        feed.tell = judge.hear

    def run(self) -> None:
        """Row by row."""
        closed = False
        with terminable():
            try:
                for row in self.rows():
                    if row is not None:
                        self._take(row)
                    self.judge.look()
                    if self.target is not None and time.monotonic() - self.saved >= self.every:
                        self.save()
            except KeyboardInterrupt:
                pass  # the usual way to end it
            except BrokenPipeError:
                closed = True
            finally:
                if self.number:
                    self.save()
            self.judge.end(self.target)
        if closed:
            leave_closed_pipe()
        if self.problem and not self.judged:
            raise CommandError(DATA, f"No row could be judged. {self.problem}.")

    def rows(self) -> Iterator[LiveRow | str | None]:
        """Rows of the feed, reasons for what is none, None where nothing came for a moment."""
        return self.feed.rows()

    def _take(self, row: LiveRow | str) -> None:
        self.number += 1
        line = row if isinstance(row, str) else judge_row(self.judge, row)
        if isinstance(line, str):
            where = "standard input" if isinstance(self.feed, PipeFeed) else "the source"
            self.problem = f"{where}, row {self.number}: {line}"
            if self.options.on_bad_rows is OnBad.error:
                raise CommandError(DATA, self.problem)
            self.judge.refuse(line)
            line = {"error": line}
        else:
            self.judged += 1
        self.answer(finite(line))
        self.place = self.feed.position()

    def answer(self, line: dict[str, Any]) -> None:
        """Write what is known about the last row, or why it is none."""
        if self.lines and (not self.options.alarms_only or line.get("alarm", True)):
            sys.stdout.write(json.dumps({"row": self.number, **line}, default=plain) + "\n")
            sys.stdout.flush()

    def save(self) -> None:
        """Write model and position in one file: after a kill they agree."""
        if self.target is not None and self.judged:
            self.judge.save(self.target, self.place)
        if self.place is not None:
            self.feed.commit(self.place)
        self.saved = time.monotonic()


def judge_row(judge: Judge, row: LiveRow) -> Verdict | str:
    """What is known about a row; the reason in words where the model refuses it.

    A value that no kernel can take must not end the watch: the next row may be a good one.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return {"time": row.time, **row.kept, **judge.judge_row(row)}
    except ValueError as problem:
        return str(problem)


def finite(value: Any) -> Any:
    """The same with null for what JSON cannot say: infinity, not a number."""
    if isinstance(value, dict):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def open_judge(
    path: Path, alpha: float | None, learn: bool, top: int
) -> tuple[MonitorJudge | ChartJudge, dict[str, Any] | None]:
    """The judge that a model file holds, and the position saved with it."""
    file = open_file(path)
    if holds_monitor(file):
        if alpha is not None:
            raise CommandError(
                USAGE, "A monitor has its own alpha, given at fit --monitor: leave out --alpha."
            )
        return MonitorJudge(monitor_in(file, path), learn, top), position_in(file, path)
    return ChartJudge(stored_in(file, path), 0.01 if alpha is None else alpha, learn, top), None


class MonitorJudge(Judge):
    """A KernelMonitor: smoothed index, events, adaptation, causes."""

    takes_missing = True

    def __init__(self, monitor: KernelMonitor, learn: bool, top: int):
        self.monitor, self.learn = monitor, learn
        if not learn:
            self.monitor.set_params(adapt="off")
        self.top = top
        names = getattr(self.monitor, "feature_names_in_", None)
        self.names = None if names is None else tuple(map(str, names))
        self.n_features = int(self.monitor.n_features_in_)
        self.update: Callable[..., Record] = self.monitor.update

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

    def save(self, path: Path, position: dict[str, Any] | None) -> None:
        """Write the monitor with its adaptive state."""
        save_monitor(self.monitor, path, position)


class ChartJudge(Judge):
    """Reconstruction error and T² of a plain model; limits from the sample of rows it keeps.

    The basis of centroids keeps a uniform sample of all rows. The limits are the upper
    α/2 quantiles of the two statistics over that sample, so that about a share α of rows like
    those learned raises an alarm.
    """

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
        sample = stream.begun.basis.row_sample
        if sample is None or len(sample) < LEAST_REFERENCE:
            raise CommandError(
                MODEL,
                "A monitor needs a reference, and this model keeps no sample of at least "
                f"{LEAST_REFERENCE} rows ({stream.chain.basis}). Make a monitor from "
                "rows of normal operation: kernelstream fit --monitor.",
            )
        components, rows = self.stored.components, sample.held()[0]
        errors = to_host(components.reconstruction_error(rows)).astype(float)
        self.errors = ConformalScores.of(errors)
        self.variances = np.asarray(components.variances, dtype=float)
        self.t2s = ConformalScores.of(t_squared(to_host(components.scores(rows)), self.variances))
        scaler = stream.scaler
        units = to_host(rows) if scaler is None else scaler.undo(to_host(rows))
        self.deviation = np.maximum(np.std(units.astype(float), axis=0), 1e-300)
        level = 1.0 - self.alpha / 2
        self.limits = {
            "reconstruction_error": float(np.quantile(self.errors.ordered, level, method="higher")),
            "t2": float(np.quantile(self.t2s.ordered, level, method="higher")),
        }

    def judge(self, x: np.ndarray, time: Any) -> Verdict:
        """Both statistics, their limits, and the variables that differ from what is expected."""
        estimator = self.stored.estimator
        stream, components = self.stored.stream, self.stored.components
        row = estimator.check_rows(x[None, :].astype(stream.dtype))
        scores = stream.query(components.scores, row)
        error = float(stream.query(components.reconstruction_error, row)[0])
        t2 = float(t_squared(scores, self.variances)[0])
        p_value = 2 * min(float(self.errors.p_values(error)), float(self.t2s.p_values(t2)))
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

    def save(self, path: Path, position: dict[str, Any] | None) -> None:
        """Write the model with what it learned."""
        self.stored.save(path)
