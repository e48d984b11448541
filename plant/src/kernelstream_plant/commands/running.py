"""Commands to a running monitor: accept, acknowledge, reset, pause, sensor, note, events."""

from __future__ import annotations

import getpass
import json
import sqlite3
from datetime import datetime
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape
from rich.table import Table

from kernelstream.cli import BUSY, DATA, CommandError, Screen
from kernelstream_plant.commands.arguments import (
    AcceptArguments,
    AcknowledgeArguments,
    EventsArguments,
    NoteArguments,
    PauseArguments,
    ResetArguments,
    ResumeArguments,
    SensorArguments,
)
from kernelstream_plant.commands.operation import history_folder
from kernelstream_plant.operation import ask
from kernelstream_plant.operation.history import existing


def accept(given: AcceptArguments, screen: Screen) -> None:
    """Declare the present event normal."""
    send(given.model, "accept", {"instead": given.instead}, screen)


def acknowledge(given: AcknowledgeArguments, screen: Screen) -> None:
    """Acknowledge the present event."""
    send(given.model, "acknowledge", {}, screen)


def reset(given: ResetArguments, screen: Screen) -> None:
    """Begin a new sequence."""
    send(given.model, "interrupt", {}, screen)


def pause(given: PauseArguments, screen: Screen) -> None:
    """Stop learning."""
    send(given.model, "pause", {}, screen)


def resume(given: ResumeArguments, screen: Screen) -> None:
    """Learn again."""
    send(given.model, "resume", {}, screen)


def sensor(given: SensorArguments, screen: Screen) -> None:
    """Disable or enable a sensor."""
    send(given.model, "service", {"variable": given.variable, "out": given.out}, screen)


def note(given: NoteArguments, screen: Screen) -> None:
    """Give an event a class and a comment."""
    facts = {"event": given.event, "kind": given.kind, "comment": given.comment}
    send(given.model, "note", facts, screen)


def send(model: Path, command: str, arguments: dict[str, Any], screen: Screen) -> None:
    """Send a command to the running monitor, and print its answer."""
    try:
        answer = ask(history_folder(model), command, {**arguments, "by": user()})
    except TimeoutError as problem:
        raise CommandError(BUSY, str(problem)) from problem
    except FileNotFoundError as problem:
        raise CommandError(DATA, str(problem)) from problem
    screen.result({"done": command, "answer": answer}, answer)


def user() -> str:
    """Who says so, as the system knows it."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "command line"


def events(given: EventsArguments, screen: Screen) -> None:
    """List events, or the lines of the log."""
    try:
        with existing(history_folder(given.model)) as base:
            found = lines_of_log(base, given.most) if given.log else known_events(base, given.most)
    except FileNotFoundError as problem:
        raise CommandError(DATA, str(problem)) from problem
    except sqlite3.DatabaseError as problem:
        raise CommandError(DATA, f"The history cannot be read: {problem}.") from problem
    if screen.as_json:
        for facts in found:
            typer.echo(json.dumps(facts))
        return
    screen.result({}, log_table(found) if given.log else events_table(found))


def known_events(base: sqlite3.Connection, most: int) -> list[dict[str, Any]]:
    """Events with their facts, the newest first."""
    rows = base.execute("SELECT id, facts FROM events ORDER BY id DESC LIMIT ?", (most,))
    events = [{"id": id, **json.loads(facts)} for id, facts in rows]
    return [{k: v for k, v in event.items() if k != "direction"} for event in events]


def lines_of_log(base: sqlite3.Connection, most: int) -> list[dict[str, Any]]:
    """Lines of the log, the newest last."""
    query = "SELECT at, kind, event, text FROM log ORDER BY id DESC LIMIT ?"
    rows = base.execute(query, (most,)).fetchall()[::-1]
    return [dict(zip(("at", "kind", "event", "text"), row, strict=True)) for row in rows]


def moment(at: float | None) -> str:
    """A time for people."""
    return "" if at is None else f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M:%S}"


def events_table(found: list[dict[str, Any]]) -> Any:
    """Events for people."""
    if not found:
        return "There has been no event."
    table = Table(box=None, pad_edge=False)
    for name in ("event", "begin", "end", "rows", "off by", "seen", "class", "comment"):
        table.add_column(name, justify="right" if name in ("event", "rows") else "left")
    for e in found:
        top = ", ".join(f"{t['variable']} {t['text']}" for t in e.get("top", ())[:3])
        seen = ", ".join(word for word in ("acknowledged", "accepted") if e.get(word))
        cells = [str(e["id"]), moment(e.get("begin")), moment(e.get("end")) or "going on"]
        cells += [str(e.get("rows", "")), top, seen, e.get("class", ""), e.get("comment", "")]
        table.add_row(*map(escape, cells))
    return table


def log_table(found: list[dict[str, Any]]) -> Any:
    """Lines of the log for people."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for line in found:
        table.add_row(moment(line["at"]), line["kind"], escape(line["text"]))
    return table
