"""``monitor``: rows from a pipe are judged one by one, as they come."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np
import typer

from kernelstream import KernelMonitor
from kernelstream.backends.arrays import to_host
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
    stored_in,
)
from kernelstream.cli.terminal import plain
from kernelstream.cli.transform import t_squared
from kernelstream.monitor.limits import conformal_p_value
from kernelstream.sources.live import LiveRow, LiveRows
from kernelstream.sources.source import standard_input
from kernelstream.sources.treatment import few

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


def monitor(
    model: opt.Model,
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
    time_column: Annotated[str | None, typer.Option(help="Column with the time stamp.")] = None,
    keep: Annotated[
        str | None, typer.Option(help="Columns to repeat in the output: 'id,place'.")
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="How many variables to name.")] = 3,
    alarms_only: Annotated[
        bool, typer.Option("--alarms-only", help="Write only rows with an alarm.")
    ] = False,
    on_bad_rows: Annotated[
        OnBad, typer.Option("--on-bad-rows", help="Write a line with the error, or end with one.")
    ] = OnBad.report,
    format: Annotated[RowFormat, typer.Option(help="How rows come in.")] = RowFormat.auto,
    delimiter: opt.Delimiter = None,
    header: opt.Header = None,
    as_json: opt.Json = False,
) -> None:
    """Judge rows from the standard input one by one, as they come: one line of NDJSON each.

    The model is one of 'fit --monitor' (smoothed index, events, causes), or a plain one: then
    reconstruction error and t2, with limits from the sample of rows that the model keeps.

    Examples
    --------
      tail -f sensors.ndjson | kernelstream monitor model.safetensors --alarms-only

      nc -l 9000 | kernelstream monitor model.safetensors --learn --time-column t > judged.ndjson
    """
    with report_failures(as_json), contextlib.ExitStack() as stack:
        every, separator = opt.seconds(save_every) or 0.0, opt.one_character(delimiter)
        target = (model if output is None else output) if learn else None
        if target is not None:  # before the model is read: another process may be saving it
            stack.enter_context(lock(target))
        judge = open_judge(model, alpha, learn, top)
        rows = LiveRows(
            standard_input(),
            judge.n_features,
            judge.names,
            takes_missing=judge.takes_missing,
            format=format.value,
            delimiter=separator,
            header=header,
            time_column=time_column,
            keep=opt.column_list(keep) or [],
        )
        with terminable():
            follow(rows, judge, alarms_only, on_bad_rows, target, every)


def follow(
    rows: LiveRows,
    judge: Judge,
    alarms_only: bool,
    on_bad_rows: OnBad,
    target: Path | None,
    every: float,
) -> None:
    """Judge until the input ends, the output is closed or somebody interrupts; then save."""
    saved = time.monotonic()
    closed, judged, problem = False, 0, ""
    try:
        for number, row in enumerate(rows, 1):
            line = row if isinstance(row, str) else judge_row(judge, row)
            if isinstance(line, str):
                problem = f"standard input, row {number}: {line}"
                if on_bad_rows is OnBad.error:
                    raise CommandError(DATA, problem)
                line = {"error": line}
            else:
                judged += 1
            if not alarms_only or line.get("alarm", True):
                answer = finite({"row": number, **line})
                sys.stdout.write(json.dumps(answer, default=plain) + "\n")
                sys.stdout.flush()
            if target is not None and time.monotonic() - saved >= every:
                judge.save(target)
                saved = time.monotonic()
    except KeyboardInterrupt:
        pass  # the usual way to end it
    except BrokenPipeError:
        closed = True
    finally:
        if target is not None and rows.n_good:
            judge.save(target)
    if closed:
        leave_closed_pipe()
    if problem and not judged:
        raise CommandError(DATA, f"No row could be judged. {problem}.")


def judge_row(judge: Judge, row: LiveRow) -> Verdict | str:
    """What is known about a row; the reason in words where the model refuses it.

    A value that no kernel can take must not end the watch: the next row may be a good one.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return {"time": row.time, **row.kept, **judge.judge(row.x, row.time)}
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

    def judge(self, x: np.ndarray, time: Any) -> Verdict:
        """What is known about a row, ready for JSON; learns it where that is asked for."""

    def save(self, path: Path) -> None:
        """Write the model as it now is."""


def open_judge(path: Path, alpha: float | None, learn: bool, top: int) -> Judge:
    """The judge that a model file holds."""
    file = open_file(path)
    if holds_monitor(file):
        if alpha is not None:
            raise CommandError(
                USAGE, "A monitor has its own alpha, given at fit --monitor: leave out --alpha."
            )
        return MonitorJudge(monitor_in(file, path), learn, top)
    return ChartJudge(stored_in(file, path), 0.01 if alpha is None else alpha, learn, top)


class MonitorJudge:
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

    def judge(self, x: np.ndarray, time: Any) -> Verdict:
        """The monitor's record as plain values."""
        record = self.monitor.update(x, time=time)
        causes = [] if record.contributions is None else record.contributions.ranking()
        fields = (
            *("index", "smoothed", "lasting", "t2", "spe"),
            *("index_limit", "limit", "lasting_limit", "t2_limit", "spe_limit", "p_value"),
        )
        return {
            **{name: float(getattr(record, name)) for name in fields},
            "alarm": bool(record.alarm),
            "event": record.event,
            "learned": bool(record.learned),
            "missing": list(record.missing),
            "dead": list(record.dead),
            "top": [
                {"variable": str(name), "contribution": float(value)}
                for name, value, *_ in causes[: self.top]
            ],
        }

    def save(self, path: Path) -> None:
        """Write the monitor with its adaptive state."""
        self.monitor.save(path)


class ChartJudge:
    """Reconstruction error and T² of a plain model; limits from the sample of rows it keeps.

    The basis of centroids keeps a uniform sample of all rows. The limits are the upper
    α/2 quantiles of the two statistics over that sample, so that about a share α of rows like
    those learned raises an alarm.
    """

    takes_missing = False

    def __init__(self, stored: Stored, alpha: float, learn: bool, top: int):
        if not 0 < alpha < 1:
            raise CommandError(USAGE, f"--alpha must be between 0 and 1; got {alpha}.")
        treatment = getattr(stored.estimator, "columns_", None)
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
        self.variances = np.asarray(self.stored.estimator.explained_variance_, dtype=float)
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
        row = x[None, :].astype(self.stored.stream.dtype)
        scores = estimator.transform(row)
        error = float(estimator.reconstruction_error(row)[0])
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
            "top": self._top(x, scores) if alarm else [],
        }

    def _top(self, x: np.ndarray, scores: np.ndarray) -> list[dict[str, Any]]:
        """Variables by the squared difference to the pre-image, in units of their deviation."""
        try:
            expected = self.stored.estimator.inverse_transform(scores)[0].astype(float)
        except ValueError:  # a basis without points has no pre-images, and no causes either
            return []
        apart = np.abs(x - expected) / self.deviation
        parts = np.square(apart / max(apart.max(), 1e-300))  # of any size, and no overflow
        parts = parts / max(parts.sum(), 1e-300)
        names = self.names or tuple(f"x{i}" for i in range(self.n_features))
        largest = np.argsort(parts)[::-1][: self.top]
        return [{"variable": names[i], "contribution": float(parts[i])} for i in largest]

    def save(self, path: Path) -> None:
        """Write the model with what it learned."""
        self.stored.save(path)
