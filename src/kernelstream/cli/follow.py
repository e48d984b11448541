"""``monitor``: rows from a pipe are judged one by one, as they come."""

from __future__ import annotations

import codecs
import contextlib
import csv
import json
import math
import signal
import sys
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import numpy as np
import typer

import kernelstream
from kernelstream.cli import options as opt
from kernelstream.cli.failures import DATA, USAGE, CommandError, leave_closed_pipe, reported
from kernelstream.cli.judges import Judge, judge_for
from kernelstream.cli.modelfile import history, locked, require_apart
from kernelstream.cli.parameters import column_list, one_character, seconds
from kernelstream.cli.run import Rejects
from kernelstream.cli.terminal import Screen, facts_table, plain
from kernelstream.sources import Block, Source
from kernelstream.sources.source import standard_input
from kernelstream.sources.text import is_json_number, told_delimiter

MOST_BYTES = 2 << 30  # of rows that fit --monitor takes into memory


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
    with reported(as_json), contextlib.ExitStack() as stack:
        every, separator = seconds(save_every) or 0.0, one_character(delimiter)
        target = (model if output is None else output) if learn else None
        if target is not None:  # before the model is read: another process may be saving it
            stack.enter_context(locked(target))
        judge = judge_for(model, alpha, learn, top)
        rows = LiveRows(
            standard_input(),
            judge,
            format.value,
            separator,
            header,
            time_column,
            column_list(keep) or [],
        )
        with terminable():
            follow(rows, judge, alarms_only, on_bad_rows, target, every)


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """A polite request to end (SIGTERM) is an interruption like Ctrl-C."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
    closed = False
    try:
        for number, found in enumerate(rows, 1):
            line = found if isinstance(found, str) else judged(judge, *found)
            if isinstance(line, str):
                if on_bad_rows is OnBad.error:
                    raise CommandError(DATA, f"standard input, row {number}: {line}")
                line = {"error": line}
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


def judged(judge: Judge, x: np.ndarray, stamp: Any, kept: dict[str, Any]) -> dict[str, Any] | str:
    """What is known about a row; the reason in words where the model refuses it.

    A value that no kernel can take must not end the watch: the next row may be a good one.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return {"time": stamp, **kept, **judge.judge(x, stamp)}
    except ValueError as problem:
        return str(problem)


class LiveRows:
    """Rows of a pipe, each as soon as its line is complete; a bad one is its reason in words."""

    def __init__(
        self,
        stream: BinaryIO,
        judge: Judge,
        format: str,
        delimiter: str | None,
        header: bool | None,
        time_column: str | None,
        keep: list[str],
    ):
        self.stream, self.judge, self.format = stream, judge, format
        self.delimiter, self.header = delimiter, header
        self.time_column, self.keep = time_column, keep
        self.names = judge.names
        self.columns: list[str] | None = None  # of CSV
        self.n_good = 0

    def __iter__(self) -> Iterator[tuple[np.ndarray, Any, dict[str, Any]] | str]:
        # readline returns as soon as a line is there: nothing waits for a buffer to be full
        for place, line in enumerate(iter(self.stream.readline, b"")):
            line = line if place else line.removeprefix(codecs.BOM_UTF8)
            if not line.strip(b" \r\n"):
                continue
            if self.format == "auto":
                self.format = "ndjson" if line.lstrip()[:1] in (b"{", b"[") else "csv"
            cells = self._cells(line)
            if cells is None:
                continue
            found = cells if isinstance(cells, str) else self._row(cells)
            self.n_good += not isinstance(found, str)
            yield found

    def _cells(self, line: bytes) -> dict[str, Any] | str | None:
        """A line as named values; None for a header."""
        text = line.decode("utf-8", errors="replace").strip(" \r\n")
        if self.format == "ndjson":
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                return "not a JSON object"
            if isinstance(value, list):
                return dict(zip(self._positions(len(value)), value, strict=True))
            return value if isinstance(value, dict) else "not a JSON object"
        if self.delimiter is None:
            self.delimiter = told_delimiter(text)
        try:
            cells = next(csv.reader([text], delimiter=self.delimiter))
        except csv.Error as problem:
            return f"not a row of CSV: {problem}"
        if self.columns is None:
            is_header = self.header
            if is_header is None:
                is_header = not all(number(cell) is not None for cell in cells)
            self.columns = [c.strip() for c in cells] if is_header else self._positions(len(cells))
            if is_header:
                return None
        if len(cells) != len(self.columns):
            return f"{len(cells)} cells, but there are {len(self.columns)} columns"
        return dict(zip(self.columns, cells, strict=True))

    def _positions(self, n: int) -> list[str]:
        """Names for values that come without: the model's where the number fits."""
        if self.names is not None and len(self.names) == n:
            return list(self.names)
        return [f"x{i}" for i in range(n)]

    def _row(self, cells: dict[str, Any]) -> tuple[np.ndarray, Any, dict[str, Any]] | str:
        names = self.names
        if names is None:
            names = tuple(n for n in cells if n not in {self.time_column, *self.keep})
            if len(names) != self.judge.n_features:
                return (
                    f"{len(names)} values, but the model wants {self.judge.n_features}: name "
                    "the others with --time-column or --keep"
                )
        x = np.empty(len(names))
        for i, name in enumerate(names):
            if name not in cells:
                return f"there is no value for {name!r}"
            value = number(cells[name])
            if value is None:
                return f"column {name!r}: {cells[name]!r} is not a number"
            if math.isinf(value) or (math.isnan(value) and not self.judge.takes_missing):
                return f"column {name!r}: the value is missing or infinite"
            x[i] = value
        self.names = names  # of the first good row, where the model knows none
        kept = {name: cells.get(name) for name in self.keep}
        return x, cells.get(self.time_column) if self.time_column else None, kept


def finite(value: Any) -> Any:
    """The same with null for what JSON cannot say: infinity, not a number."""
    if isinstance(value, dict):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def number(value: Any) -> float | None:
    """A JSON value or a cell of CSV as a number; NaN where it is missing, None where it is text."""
    if value is None:
        return math.nan
    if is_json_number(value):
        try:
            return float(value)
        except OverflowError:  # an integer of hundreds of digits
            return math.inf
    if not isinstance(value, str):
        return None
    try:
        return float(value.strip() or "nan")
    except ValueError:
        return None


def with_gaps(block: Block) -> np.ndarray:
    """The rows of a block, with rows of missing values where bad ones were passed over.

    A monitor joins each row to those before it: the neighbours of a bad row must not become each
    other's.
    """
    X = np.vstack([block.X.astype(float), np.full((len(block.bad), block.X.shape[1]), np.nan)])
    return X[np.argsort(np.concatenate([block.rows, [bad.row for bad in block.bad]]))]


def fit_monitor(
    source: Source,
    output: Path,
    alpha: float,
    lags: int,
    basis: str,
    seed: int,
    rejects: Path | None,
    screen: Screen,
) -> None:
    """``fit --monitor``: learn normal operation from rows in the order of time."""
    require_apart([output, rejects], [file.path for file in source.files])
    if not basis.isdigit():
        raise CommandError(USAGE, f"--monitor takes a number of points as basis; got {basis!r}.")
    began, blocks, bad, size = time.perf_counter(), [], 0, 0
    listing = Rejects(rejects, 0)
    for block in source:
        listing.add(block.bad)
        blocks.append(with_gaps(block))
        bad, size = bad + len(block.bad), size + blocks[-1].nbytes
        if size > MOST_BYTES:
            raise CommandError(
                DATA,
                f"Normal operation must fit into memory ({MOST_BYTES >> 30} GiB): end earlier "
                "with --limit, or choose columns.",
            )
    listing.close()
    rows = np.concatenate(blocks) if blocks else np.empty((0, len(source.names)))
    made = kernelstream.KernelMonitor(alpha, lags=lags, basis=int(basis), random_state=seed)
    made.fit(rows)
    if source.named:
        made.feature_names_in_ = np.array(source.names, dtype=object)
    made.save(output)
    n_good = len(rows) - bad
    facts = history([f.path for f in source.files], n_good, bad)
    facts |= {"model": str(output), "seconds": time.perf_counter() - began}
    shown = [
        ("rows of normal operation", f"{n_good:,} in {facts['seconds']:.1f} s"),
        ("share of alarms in normal rows", f"{alpha:g}"),
        ("monitor", str(output)),
    ]
    screen.result(facts, facts_table(shown))
