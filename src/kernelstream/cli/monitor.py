"""Command ``monitor``: event loop over rows of a pipe, scores as NDJSON, saving.

Commands of other distributions run the same loop with scorers and subclasses of their own.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kernelstream import KernelMonitor, KernelNovelty
from kernelstream.anomaly import Record
from kernelstream.cli import options as opt
from kernelstream.cli.arguments import MonitorArguments, RowOptions
from kernelstream.cli.failures import (
    DATA,
    USAGE,
    CommandError,
    leave_closed_pipe,
    terminable,
)
from kernelstream.cli.modelfile import Stored, lock, read, write
from kernelstream.cli.terminal import Screen, finite, plain
from kernelstream.cli.transform import largest_contributions
from kernelstream.tables import Feed, LiveRow, LiveRows, is_address
from kernelstream.tables.feeds import FileFeed, PipeFeed
from kernelstream.tables.files import standard_input
from kernelstream.tables.schema import few


def monitor(given: MonitorArguments, screen: Screen) -> None:
    """Score rows one by one."""
    with contextlib.ExitStack() as stack:
        for source in filter(is_address, given.sources or ()):
            raise CommandError(
                USAGE,
                f"monitor reads files and pipes, and {source} is an address: use 'kernelstream "
                "plant serve' (pip install kernelstream-plant).",
            )
        target = given.saved_at(given.model)
        if target is not None:  # before the model is read: another process may be saving it
            stack.enter_context(lock(target))
        scorer, _ = open_scorer(given.model, given.learn, given.top)
        feed = open_feed(given.sources, row_parser(given, scorer))
        stack.callback(feed.close)
        MonitorLoop(feed, scorer, given, target, given.save_every).run()


def row_parser(options: RowOptions, scorer: RowScorer, keep: Sequence[str] = ()) -> LiveRows:
    """What parses rows for a scorer; ``keep`` are further columns to repeat in the output."""
    settings = opt.text_settings(options.read)
    return LiveRows(
        scorer.n_features,
        scorer.names,
        takes_missing=scorer.takes_missing,
        delimiter=settings.get("delimiter"),
        header=settings.get("header"),
        time_column=options.time_column,
        keep=[*(opt.column_list(options.keep) or []), *keep],
    )


def open_feed(sources: list[str] | None, parser: LiveRows) -> Feed:
    """The rows of files, or of the standard input."""
    if sources in (None, [], ["-"]):
        return PipeFeed(standard_input(), parser)
    assert sources is not None
    return FileFeed(sources, parser)


# -- scorers


class RowScorer:
    """Scores one row at a time, before it may be learned; does nothing else besides."""

    names: tuple[str, ...] | None
    n_features: int
    takes_missing = False
    row = 0  # number of the last row, since the model was fitted

    def score(self, row: LiveRow) -> dict[str, Any]:
        """The score of a row, ready for JSON; learns the row if that is asked for."""
        raise NotImplementedError

    def save(self, path: Path, position: dict[str, Any] | None) -> None:
        """Write the model, with the position in the feed."""
        raise NotImplementedError

    def refuse(self, reason: str) -> None:
        """A row could not be scored."""

    def note(self, text: str) -> None:
        """The feed has a message."""
        sys.stderr.write(f"{text}\n")

    def between_rows(self) -> None:
        """Called between rows."""

    def end(self, saved: Path | None) -> None:
        """There are no more rows."""


def open_scorer(
    path: Path, learn: bool, top: int
) -> tuple[MonitorScorer | DetectorScorer, dict[str, Any] | None]:
    """The scorer of a model file, and the position saved with it."""
    stored = read(path, "monitor", "detector")
    if stored.kind == "monitor":
        return MonitorScorer(stored.estimator, learn, top), stored.position
    return DetectorScorer(stored, learn, top), None


class MonitorScorer(RowScorer):
    """A KernelMonitor: smoothed anomaly score, events, adaptation, contributions."""

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

    def score(self, row: LiveRow) -> dict[str, Any]:
        """The monitor's record as plain values."""
        record = self.update(row.x, time=row.time)
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
        extra = {} if position is None else {"position": json.dumps(position, sort_keys=True)}
        write(self.monitor, path, extra)


class DetectorScorer(RowScorer):
    """A KernelNovelty: the p-value of each row, and the columns that contribute to novel ones."""

    def __init__(self, stored: Stored, learn: bool, top: int):
        if stored.schema is not None and not stored.schema.is_plain:
            raise CommandError(
                USAGE,
                "monitor takes rows of numbers, and the detector learned other columns "
                f"({few(stored.schema.inputs)}): fit it with --columns, or use 'score'.",
            )
        self.stored, self.learn, self.top = stored, learn, top
        self.detector: KernelNovelty = stored.estimator
        self.n_features = int(self.detector.n_features_in_)
        self.names = stored.names

    def score(self, row: LiveRow) -> dict[str, Any]:
        """Anomaly score and p-value of a row; it is learned only if it is not novel."""
        X = row.x[None, :].astype(self.detector.stream_.dtype)
        anomaly_score = -float(self.detector.score_samples(X)[0])
        p_value = float(self.detector.p_values(X)[0])
        alarm = bool(self.detector.predict(X)[0] == -1)
        top = largest_contributions(self.stored, X, self.top)[0] if alarm else []
        if self.learn and not alarm:
            self.detector.partial_fit(X)
        return {
            "anomaly_score": anomaly_score,
            "p_value": p_value,
            "alarm": alarm,
            "learned": self.learn and not alarm,
            "top": [{"variable": name, "contribution": fraction} for name, fraction in top],
        }

    def save(self, path: Path, position: dict[str, Any] | None) -> None:
        """Write the detector with what it learned."""
        self.stored.save(path)


# -- the loop


class MonitorLoop:
    """Score rows until the input ends, the output is closed or the user interrupts; then save.

    Parameters
    ----------
    feed : Feed
        The rows.
    scorer : RowScorer
        What scores them.
    options : RowOptions
        What is written about them.
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
        scorer: RowScorer,
        options: RowOptions,
        target: Path | None = None,
        every: float = math.inf,
        lines: bool = True,
    ):
        self.feed, self.scorer, self.options, self.lines = feed, scorer, options, lines
        self.target, self.every = target, every
        self.number = self.n_scored = 0
        self.problem = ""
        self.saved = time.monotonic()
        self.place = feed.position()  # of what was scored
        feed.tell = scorer.note

    def run(self) -> None:
        """Row by row."""
        closed = False
        with terminable():
            try:
                for row in self.rows():
                    if row is not None:
                        self._take(row)
                    self.scorer.between_rows()
                    if self.target is not None and time.monotonic() - self.saved >= self.every:
                        self.save()
            except KeyboardInterrupt:
                pass  # the usual way to end it
            except BrokenPipeError:
                closed = True
            finally:
                if self.number:
                    self.save()
            self.scorer.end(self.target)
        if closed:
            leave_closed_pipe()
        if self.problem and not self.n_scored:
            raise CommandError(DATA, f"No row could be scored. {self.problem}.")

    def rows(self) -> Iterator[LiveRow | str | None]:
        """Rows of the feed, reasons for what is none, None where nothing came for a moment."""
        return self.feed.rows()

    def _take(self, row: LiveRow | str) -> None:
        self.number += 1
        line = row if isinstance(row, str) else self._score(row)
        if isinstance(line, str):
            where = "standard input" if isinstance(self.feed, PipeFeed) else "the source"
            self.problem = f"{where}, row {self.number}: {line}"
            self.scorer.refuse(line)
            line = {"error": line}
        else:
            self.n_scored += 1
        self.answer(finite(line))
        self.place = self.feed.position()

    def _score(self, row: LiveRow) -> dict[str, Any] | str:
        """The score of a row; the reason in words if the model refuses it.

        A value that no kernel can take must not end the loop: the next row may be a valid one.
        """
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                return {"time": row.time, **row.kept, **self.scorer.score(row)}
        except ValueError as problem:
            return str(problem)

    def answer(self, line: dict[str, Any]) -> None:
        """Write the score of the last row, or why it has none."""
        if self.lines and (not self.options.alarms_only or line.get("alarm", True)):
            sys.stdout.write(json.dumps({"row": self.number, **line}, default=plain) + "\n")
            sys.stdout.flush()

    def save(self) -> None:
        """Write model and position in one file: after a kill they agree."""
        if self.target is not None and self.n_scored:
            self.scorer.save(self.target, self.place)
        if self.place is not None:
            self.feed.commit(self.place)
        self.saved = time.monotonic()
