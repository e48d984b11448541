"""Terminal output: messages, progress bar, tables of facts, JSON conversion of values."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Container, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from kernelstream.cli.failures import leave_closed_pipe
from kernelstream.estimators import KernelEstimator
from kernelstream.serialization import Replacement
from kernelstream.tables import Source

LOG_EVERY = 10.0  # seconds between two lines where there is no terminal


class Output(Console):
    """The standard output; rich itself would end with exit code 1 where its reader has gone."""

    def on_broken_pipe(self) -> None:
        """End, and no error."""
        leave_closed_pipe()


class Screen:
    """Messages and progress go to the standard error, results to the standard output."""

    def __init__(self, as_json: bool = False, quiet: bool = False):
        self.as_json = as_json
        self.quiet = quiet or as_json
        self.error = Console(stderr=True, highlight=False, soft_wrap=True)
        self.out = Output(highlight=False)

    def say(self, text: str) -> None:
        """A remark; nothing for machines."""
        if not self.quiet:
            self.error.print(text, markup=False)

    def result(self, facts: dict[str, Any], *shown: Any, output: Path | None = None) -> None:
        """The outcome: JSON for machines, tables or sentences for people.

        On the standard error where the standard output is the file ``output`` that was written.
        """
        taken = output is not None and Replacement.descriptor_of(output) == 1
        if self.as_json:
            stream = sys.stderr if taken else sys.stdout
            stream.write(json.dumps(finite(facts), default=plain) + "\n")
            stream.flush()  # here, where a failure is reported
        elif not self.quiet:
            for item in shown:
                (self.error if taken else self.out).print(item)


class RowProgress:
    """A progress bar with rows per second, landmarks, explained variance and time left.

    Without a terminal it is a line every ten seconds. The work may be one of two passes: it goes
    from a fraction of the whole, ``start``, to another, ``end``.
    """

    def __init__(
        self, screen: Screen, source: Source, title: str, start: float = 0.0, end: float = 1.0
    ):
        self.source, self.screen, self.title = source, screen, title
        self.start, self.end = start, end
        self.began = self.logged = time.monotonic()
        self.evaluate_at, self.model_text = 0.0, ""
        self.n_rows = 0
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[facts]}"),
            console=screen.error,
            disable=screen.quiet or not screen.error.is_terminal,
            transient=True,
        )
        self.task = self.bar.add_task(title, total=None if source.from_pipe else 1.0, facts="")

    def __enter__(self) -> RowProgress:
        self.bar.start()
        return self

    def __exit__(self, *problem: object) -> None:
        if not self.bar.disable:  # older rich ends a bar that was never shown with a new line
            self.bar.stop()

    def update(self, n: int, estimator: KernelEstimator | None = None) -> None:
        """Count more rows; with an estimator, show its explained variance now and then."""
        self.n_rows += n
        now = time.monotonic()
        if self.bar.disable and now - self.logged >= LOG_EVERY:
            self.logged = now
            self.screen.say(self.line(now - self.began))
        if self.bar.disable:
            return
        if estimator is not None and now >= self.evaluate_at:
            ratio = float(estimator.stream_.components.explained_variance_ratio.sum())
            points = len(getattr(estimator, "basis_points_", ()))
            self.model_text = f", {points} points, {ratio:.1%} variance"
            # It may cost much with many landmarks: never more than a few per cent of the time.
            cost = time.monotonic() - now
            self.evaluate_at = now + max(2.0, 20 * cost)
        rate = self.n_rows / max(now - self.began, 1e-9)
        facts = f"{self.n_rows:,} rows, {rate:,.0f}/s{self.model_text}"
        self.bar.update(self.task, completed=self.fraction(), facts=facts)

    def fraction(self) -> float:
        """How much of the whole is done."""
        return self.start + (self.end - self.start) * self.source.fraction()

    def line(self, seconds: float) -> str:
        """The same in a line, for a log."""
        done = ""
        fraction = self.start if self.source.from_pipe else self.fraction()
        if fraction > self.start:
            left = seconds * (1.0 - fraction) / (fraction - self.start)
            done = f"{fraction:.0%}, {timedelta(seconds=round(left))} left, "
        rate = self.n_rows / max(seconds, 1e-9)
        return f"{self.title}: {done}{self.n_rows:,} rows, {rate:,.0f} rows/s"


def facts_table(rows: list[tuple[str, str]], title: str | None = None) -> Table:
    """Names and values in two columns."""
    table = Table(
        title=title, title_style="bold", title_justify="left", show_header=False, box=None
    )
    for name, value in rows:
        table.add_row(f"[dim]{name}[/]", value)
    return table


def headed_table(title: str | None, names: Sequence[str], text: Container[str] = ()) -> Table:
    """A table with names of columns, which are of numbers but for those in ``text``."""
    table = Table(title=title, title_style="bold", title_justify="left", box=None)
    for name in names:
        table.add_column(name, justify="left" if name in text else "right", overflow="fold")
    return table


def plain(value: Any) -> Any:
    """What JSON does not know: numbers of NumPy, times, paths."""
    return finite(value.tolist()) if hasattr(value, "tolist") else str(value)


def finite(value: Any) -> Any:
    """The same with null for what JSON cannot say: infinity, not a number."""
    if isinstance(value, dict):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
