"""Commands to a running monitor: accept, acknowledge, reset, pause, sensor, note, events."""

from __future__ import annotations

import getpass
import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from kernelstream.cli import BUSY, DATA, CommandError, Json, Screen, report_failures
from kernelstream_plant.commands.operation import history_folder
from kernelstream_plant.operation import ask
from kernelstream_plant.operation.history import existing

if TYPE_CHECKING:
    import sqlite3

Running = Annotated[
    Path, typer.Argument(help="The model that is being monitored, or its history folder.")
]


def accept(
    model: Running,
    instead: Annotated[
        bool,
        typer.Option(
            "--instead/--as-well",
            help="In the place of what was normal before (a machine that was rebuilt), or as well.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Declare the present event of a running monitor normal.

    Examples
    --------
      kernelstream plant accept model.safetensors --as-well
    """
    tell(model, "accept", {"instead": instead}, as_json)


def acknowledge(model: Running, as_json: Json = False) -> None:
    """Say that the present event of a running monitor was seen.

    Examples
    --------
      kernelstream plant acknowledge model.safetensors
    """
    tell(model, "acknowledge", {}, as_json)


def reset(model: Running, as_json: Json = False) -> None:
    """Begin a new sequence: the next row of a running monitor has no past.

    Examples
    --------
      kernelstream plant reset model.safetensors
    """
    tell(model, "interrupt", {}, as_json)


def pause(model: Running, as_json: Json = False) -> None:
    """Have a running monitor learn nothing until 'resume'; rows are judged as before.

    Examples
    --------
      kernelstream plant pause model.safetensors
    """
    tell(model, "pause", {}, as_json)


def resume(model: Running, as_json: Json = False) -> None:
    """Have a running monitor learn again, after 'pause'.

    Examples
    --------
      kernelstream plant resume model.safetensors
    """
    tell(model, "resume", {}, as_json)


def sensor(
    model: Running,
    variable: Annotated[str, typer.Argument(help="Name of the variable.")],
    out: Annotated[
        bool, typer.Option("--out/--back", help="Disable it, or enable it again.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Disable a sensor of a running monitor, or enable it: its values count as missing meanwhile.

    Examples
    --------
      kernelstream plant sensor model.safetensors XMEAS_9 --out
    """
    tell(model, "service", {"variable": variable, "out": out}, as_json)


def note(
    model: Running,
    event: Annotated[int, typer.Argument(help="Number of the event.")],
    kind: Annotated[str | None, typer.Option("--class", help="What kind of event it was.")] = None,
    comment: Annotated[str | None, typer.Option(help="Anything to remember.")] = None,
    as_json: Json = False,
) -> None:
    """Give an event of a running monitor a class and a comment.

    Examples
    --------
      kernelstream plant note model.safetensors 3 --class fault --comment 'valve stuck'
    """
    tell(model, "note", {"event": event, "kind": kind, "comment": comment}, as_json)


def tell(model: Path, verb: str, arguments: dict[str, Any], as_json: bool) -> None:
    """Have the running monitor execute a verb, and say what it answered."""
    with report_failures(as_json):
        try:
            answer = ask(history_folder(model), verb, {**arguments, "by": user()})
        except TimeoutError as problem:
            raise CommandError(BUSY, str(problem)) from problem
        except FileNotFoundError as problem:
            raise CommandError(DATA, str(problem)) from problem
        Screen(as_json).result({"done": verb, "answer": answer}, answer)


def user() -> str:
    """Who says so, as the system knows it."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "command line"


def events(
    model: Running,
    most: Annotated[int, typer.Option(min=1, help="How many, the newest first.")] = 20,
    log: Annotated[bool, typer.Option("--log", help="Everything that happened.")] = False,
    as_json: Json = False,
) -> None:
    """The events of a monitor, running or not, from its history.

    Examples
    --------
      kernelstream plant events model.safetensors

      kernelstream plant events model.safetensors --log --json | tail
    """
    import sqlite3  # not for help, which imports all commands

    with report_failures(as_json):
        try:
            with existing(history_folder(model)) as base:
                found = lines_of_log(base, most) if log else known_events(base, most)
        except FileNotFoundError as problem:
            raise CommandError(DATA, str(problem)) from problem
        except sqlite3.DatabaseError as problem:
            raise CommandError(DATA, f"The history cannot be read: {problem}.") from problem
        if as_json:
            for facts in found:
                typer.echo(json.dumps(facts))
            return
        Screen().result({}, log_table(found) if log else events_table(found))


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
