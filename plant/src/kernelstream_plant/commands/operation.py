"""Services of ``serve``: page, metrics, hooks, history; replay speed, terminal status."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kernelstream import KernelMonitor
from kernelstream.cli import USAGE, WRITE, CommandError, MonitorScorer, facts_table
from kernelstream.serialization import Replacement
from kernelstream.tables import LiveRow
from kernelstream_plant.commands.arguments import ADDRESS, OperationOptions
from kernelstream_plant.operation import LiveMonitor, Notice, words
from kernelstream_plant.operation.hooks import Hook

REDRAW = 0.5  # seconds
TOLD = ("begin", "change", "end", "silence", "data", "problem", "command", "bad")
LINES = 8
_SPEED = re.compile(r"([0-9.]+)\s*(x|/s)")


def address_of(text: str, option: str) -> tuple[str, int]:
    """Address and port; a port alone is one of this machine.

    Examples
    --------
    >>> address_of("0.0.0.0:8765", "--serve"), address_of("8765", "--serve")
    (('0.0.0.0', 8765), ('127.0.0.1', 8765))
    """
    found = ADDRESS.fullmatch(text)
    if not found or int(found[2]) > 65535:
        raise CommandError(
            USAGE, f"{option} wants ADDRESS:PORT, such as 127.0.0.1:8765; got {text!r}."
        )
    return (found[1] or "127.0.0.1").strip("[]"), int(found[2])


def history_folder(path: Path) -> Path:
    """Where the history of a model is, given the model or the folder itself."""
    return path if path.is_dir() else Replacement.companion(path, ".history")


def read_units(path: Path | None) -> dict[str, str]:
    """Units by name."""
    if path is None:
        return {}
    try:
        units = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise CommandError(USAGE, f"{path} is no JSON: {problem}.") from problem
    if not isinstance(units, dict) or not all(isinstance(v, str) for v in units.values()):
        raise CommandError(USAGE, f'{path} must be like {{"flow": "m³/h"}}.')
    return units


class Deck:
    """All that runs beside the rows of one command, and what people see of it.

    Parameters
    ----------
    monitor : KernelMonitor
    model : Path
        Its file, which the history lies beside.
    chosen : OperationOptions
    stack : ExitStack
        Closes everything, in the right order.
    """

    def __init__(
        self,
        monitor: KernelMonitor,
        model: Path,
        chosen: OperationOptions,
        stack: contextlib.ExitStack,
    ):
        folder = chosen.history or (history_folder(model) if chosen.serve else None)
        self.error = Console(stderr=True, highlight=False, soft_wrap=True)
        self.live = LiveMonitor(
            monitor, folder=folder, units=read_units(chosen.units), title=chosen.title or model.stem
        )
        stack.callback(self.live.close)
        self.began, self.alarms, self.events, self.learned = time.monotonic(), 0, 0, 0
        self.live.observers.append(self._count)
        self.metrics: Any = None
        self._drawn = 0.0
        self._table: Live | None = None
        if chosen.watch:
            self._table = stack.enter_context(
                Live(console=self.error, auto_refresh=False, transient=True)
            )
        self.speaks = self.error.is_terminal or chosen.watch
        self.live.listeners.append(self._say)
        for target in chosen.on_event or ():
            hook = Hook(target, lambda text: self.live.tell("problem", text))
            stack.callback(hook.close)
            self.live.listeners.append(hook)
        if chosen.metrics is not None:
            self._open_metrics(chosen.metrics, stack)
        if chosen.serve is not None:
            self._open_page(chosen, stack)

    def _open_metrics(self, text: str, stack: contextlib.ExitStack) -> None:
        try:
            from kernelstream_plant.operation.metrics import Metrics
        except ModuleNotFoundError as problem:
            raise CommandError(
                1, f"--metrics needs {problem.name}: pip install 'kernelstream-plant[metrics]'"
            ) from problem
        address, port = address_of(text, "--metrics")
        self.metrics = Metrics(self.live)
        try:
            server = self.metrics.serve(address, port)
        except OSError as problem:
            raise CommandError(WRITE, f"--metrics {text}: {problem.strerror}.") from problem
        stack.callback(server.shutdown)
        self.error.print(f"Metrics at http://{address}:{server.server_port}/metrics", markup=False)

    def _open_page(self, chosen: OperationOptions, stack: contextlib.ExitStack) -> None:
        from kernelstream_plant.page import serve  # Bokeh takes a second

        # A browser that goes away is no news.
        logging.getLogger("bokeh").setLevel(logging.CRITICAL)
        logging.getLogger("tornado").setLevel(logging.CRITICAL)
        assert chosen.serve is not None
        address, port = address_of(chosen.serve, "--serve")
        try:
            page = serve(
                self.live,
                address=address,
                port=port,
                token_file=chosen.token_file,
                origins=chosen.origin or (),
            )
        except OSError as problem:
            raise CommandError(WRITE, f"--serve {chosen.serve}: {problem.strerror}.") from problem
        except ValueError as problem:
            raise CommandError(USAGE, str(problem)) from problem
        stack.callback(page.close)
        self.error.print(f"Live page: {page.address}", markup=False)
        self.error.print(f"To look only: {page.view_address}", markup=False)
        if chosen.open_page:
            import webbrowser  # not for help, which imports all commands

            webbrowser.open(page.address)

    def _count(self, record: Any, lag: float, seconds: float) -> None:
        self.alarms += bool(record.alarm)
        self.learned += bool(record.learned)

    def _say(self, notice: Notice) -> None:
        self.events += notice.kind == "begin"
        if self.speaks and notice.kind in TOLD:
            console = self.error if self._table is None else self._table.console
            console.print(f"{words.clock(notice.at)} {notice.text}", markup=False)

    def refuse(self, reason: str) -> None:
        """A row that could not be judged."""
        self.live.refuse(reason)
        if self.metrics is not None:
            self.metrics.count_bad()

    def look(self) -> None:
        """Between rows: commands of other processes, silence, the table."""
        self.live.look()
        if self._table is not None and time.monotonic() - self._drawn > REDRAW:
            self._drawn = time.monotonic()
            self._table.update(watch_table(self.live), refresh=True)

    def summary(self, saved: Path | None) -> None:
        """What there was, for people."""
        if not self.speaks:
            return
        status, took = self.live.status(), time.monotonic() - self.began
        shown = [
            ("rows", f"{status.rows:,} in {words.duration(took)}"),
            ("alarms", f"{self.alarms:,}"),
            ("events", f"{self.events:,}"),
            ("learned", f"{self.learned:,}"),
        ]
        if status.bad:
            shown.insert(1, ("bad rows", f"{status.bad:,}"))
        if saved is not None:
            shown.append(("model", str(saved)))
        self.error.print(facts_table(shown))


class OperatedScorer(MonitorScorer):
    """A monitor with a history, and all that goes on beside the rows."""

    def __init__(self, scorer: MonitorScorer, deck: Deck):
        super().__init__(scorer.monitor, scorer.learn, scorer.top)
        self.deck, self.update = deck, deck.live.update

    def save(self, path: Path, position: dict[str, Any] | None) -> None:
        """Write the monitor, and tell it in the log."""
        write = super().save
        self.deck.live.save(path, lambda path: write(path, position))

    def refuse(self, reason: str) -> None:
        """Count it, and tell it in the log."""
        self.deck.refuse(reason)

    def note(self, text: str) -> None:
        """Write it into the log."""
        self.deck.live.tell("problem", text)

    def between_rows(self) -> None:
        """Commands, silence, the table."""
        self.deck.look()

    def end(self, saved: Path | None) -> None:
        """Write the last line of the log, and a summary."""
        self.deck.live.end()
        self.deck.summary(saved)


def watch_table(live: LiveMonitor) -> Group:
    """State, causes and the last lines of the log."""
    status = live.status()
    colour = {"normal": "green", "alarm": "yellow", "event": "red"}.get(status.word, "dim")
    head = Text.assemble(
        (status.text, f"bold {colour}"),
        f"  {status.rows:,} rows, {status.rate:,.1f}/s  {status.learning}",
    )
    table = Table(box=None, show_header=False, pad_edge=False)
    for what, names in (("dead", status.dead), ("missing", status.missing)):
        for name in names:
            table.add_row(Text(name), Text(what, style="red"))
    for name, share, _, size in words.causes(status.causes, live.units, LINES):
        table.add_row(
            Text(words.bare(name)),
            Text(size, justify="right"),
            Text("█" * max(1, round(20 * share))),
        )
    lines = [Text(f"{words.clock(n.at)} {n.text}", style="dim") for n in live.history.log(5)[::-1]]
    return Group(head, table, *lines)


def paced(
    rows: Iterator[LiveRow | str | None], speed: str | None
) -> Iterator[LiveRow | str | None]:
    """Rows as fast as a speed says: ``60x`` by their time stamps, ``200/s`` by their number."""
    if speed is None:
        yield from rows
        return
    found = _SPEED.fullmatch(speed.strip())
    if not found or not float(found[1]) > 0:
        raise CommandError(USAGE, f"--speed {speed!r}: write 60x (by time stamps) or 200/s (rows).")
    factor, by_time = float(found[1]), found[2] == "x"
    begin: float | None = None
    started, n = time.monotonic(), 0
    for row in rows:
        if isinstance(row, LiveRow):
            n += 1
            due = (n - 1) / factor
            if by_time:
                at = words.seconds_of(row.time)
                if at is None:
                    raise CommandError(
                        USAGE,
                        f"--speed {speed} needs time stamps, and {row.time!r} is none: name their "
                        "column with --time-column, or write --speed 200/s.",
                    )
                begin = at if begin is None else begin
                due = (at - begin) / factor
            while (wait := started + due - time.monotonic()) > 0:
                time.sleep(min(wait, 0.2))
                if wait > 0.2:
                    yield None
        yield row


def shows_lines(as_json: bool) -> bool:
    """Whether lines of NDJSON are wanted: a person at a terminal reads events instead."""
    return as_json or not sys.stdout.isatty()
