"""Arguments of the commands ``kernelstream plant ...``; nothing heavy is imported here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelstream.cli import LearningOptions, RowOptions
from kernelstream.cli import options as opt

PAGE, METRICS = "127.0.0.1:8765", "127.0.0.1:9109"
OPERATION = "In operation"
ADDRESS = re.compile(r"(?:(\[[0-9a-fA-F:]+\]|[^:\s/]*):)?(\d{1,5})")


class OptionalValues(typer.core.TyperCommand):
    """A command where some options may stand without their value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give ``--serve`` and ``--metrics`` their usual address where none follows."""
        given: list[str] = []
        for i, word in enumerate(args):
            given.append(word)
            usual = {"--serve": PAGE, "--metrics": METRICS}.get(word)
            follows = args[i + 1] if i + 1 < len(args) else ""
            if usual is not None and not ADDRESS.fullmatch(follows):
                given.append(usual)
        return super().parse_args(ctx, given)


@dataclass(frozen=True, kw_only=True)
class OperationOptions:
    """Services next to the rows: page, history, metrics, hooks."""

    serve: Annotated[
        str | None,
        typer.Option(
            help=f"Open the live page, at ADDRESS:PORT. Alone: {PAGE}.",
            metavar="[ADDRESS:PORT]",
            rich_help_panel=OPERATION,
        ),
    ] = None
    open_page: Annotated[
        bool, typer.Option("--open", help="Show the page in a browser.", rich_help_panel=OPERATION)
    ] = False
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the token of the page. Default: KERNELSTREAM_TOKEN, or a random one.",
            rich_help_panel=OPERATION,
        ),
    ] = None
    origin: Annotated[
        list[str] | None,
        typer.Option(
            help="Another name under which browsers reach the page (a reverse proxy's).",
            rich_help_panel=OPERATION,
        ),
    ] = None
    history: Annotated[
        Path | None,
        typer.Option(
            help="Folder that keeps the past. With --serve: MODEL.history by default.",
            rich_help_panel=OPERATION,
        ),
    ] = None
    metrics: Annotated[
        str | None,
        typer.Option(
            help=f"Metrics for Prometheus, at ADDRESS:PORT. Alone: {METRICS}.",
            metavar="[ADDRESS:PORT]",
            rich_help_panel=OPERATION,
        ),
    ] = None
    on_event: Annotated[
        list[str] | None,
        typer.Option(
            help="Command or https address that is told when events begin and end.",
            rich_help_panel=OPERATION,
        ),
    ] = None
    watch: Annotated[
        bool,
        typer.Option("--watch", help="A live table in the terminal.", rich_help_panel=OPERATION),
    ] = False
    units: Annotated[
        Path | None,
        typer.Option(
            help="JSON file with the units of variables, as {name: unit}.",
            rich_help_panel=OPERATION,
        ),
    ] = None
    title: Annotated[
        str | None, typer.Option(help="What is monitored.", rich_help_panel=OPERATION)
    ] = None

    @property
    def wanted(self) -> bool:
        """Whether anything of it was asked for that needs a monitor of 'fit --detector monitor'."""
        return bool(self.serve or self.history or self.metrics or self.on_event or self.watch)


@dataclass(frozen=True, kw_only=True)
class ServeArguments(RowOptions, LearningOptions, OperationOptions):
    """Monitor rows as they come, with a live page, a history, metrics and hooks.

    The model is one of 'kernelstream fit --detector monitor', or a fleet of 'kernelstream plant
    fit'. A terminal shows events instead of rows; --json writes the rows there too.

    Examples
    --------
      kernelstream plant serve model.safetensors kafka://broker/plant --learn --serve

      kernelstream plant serve model.safetensors day.csv --time-column t --speed 60x --serve --open

      tail -f fleet.ndjson | kernelstream plant serve fleet/ --by machine --alarms-only
    """

    model: opt.Model
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE",
            help="Files, or a kafka://, mqtt://, opcua:// or sql: address. Default: the standard "
            "input.",
        ),
    ] = None
    speed: Annotated[
        str | None,
        typer.Option(
            metavar="SPEED", help="Replay files at this speed: 60x by time stamps, or 200/s."
        ),
    ] = None
    settings: opt.Settings = None
    db: opt.Database = None
    alarms_to: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Send alarms to a topic, kafka://broker/topic, each at least once.",
        ),
    ] = None
    by: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Column with the machine of each row: a monitor for each of a fleet.",
        ),
    ] = None
    as_json: opt.Json = False


@dataclass(frozen=True, kw_only=True)
class FitArguments(opt.InputOptions, opt.ScreenOptions):
    """Learn normal operation of a fleet: a monitor for each machine, in a folder.

    Examples
    --------
      kernelstream plant fit good.csv -o fleet --by machine

      kernelstream plant fit good.csv -o fleet --by machine --shared --set lags=0
    """

    sources: opt.Sources
    output: opt.Output
    by: Annotated[str, typer.Option(metavar="NAME", help="Column with the machine of each row.")]
    shared: Annotated[
        bool, typer.Option("--shared", help="Learn once from all machines; new ones begin there.")
    ] = False
    columns: opt.Columns = None
    exclude: opt.Exclude = None
    alpha: Annotated[
        float,
        typer.Option(metavar="FRACTION", help="Fraction of normal rows that may be flagged."),
    ] = 0.01
    basis: Annotated[str, typer.Option(metavar="N", help="Number of landmarks.")] = "256"
    parameters: opt.ParameterSettings = None
    seed: opt.Seed = 0
    rejects: opt.RejectsFile = None


@dataclass(frozen=True, kw_only=True)
class ReportArguments(opt.ScreenOptions):
    """Write one self-contained HTML page about a monitor from its history.

    Examples
    --------
      kernelstream plant report model.safetensors

      kernelstream plant report model.safetensors --event 3 -o incident.html
    """

    model: opt.Model
    output: opt.Output = Path("report.html")
    event: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="One event, by its number.")
    ] = None
    history: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of the history. Default: MODEL.history."),
    ] = None
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="Title of the page.")] = None
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False


@dataclass(frozen=True, kw_only=True)
class RunningArguments:
    """What commands about a running monitor share."""

    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", help="The model that is being monitored, or its history folder."
        ),
    ]
    as_json: opt.Json = False


@dataclass(frozen=True, kw_only=True)
class EventsArguments(RunningArguments):
    """List the events of a monitor, running or not, from its history.

    Examples
    --------
      kernelstream plant events model.safetensors

      kernelstream plant events model.safetensors --log --json | tail
    """

    most: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of events, the newest first.")
    ] = 20
    log: Annotated[bool, typer.Option("--log", help="List everything that happened.")] = False


@dataclass(frozen=True, kw_only=True)
class AcceptArguments(RunningArguments):
    """Declare the present event of a running monitor normal.

    Examples
    --------
      kernelstream plant accept model.safetensors --as-well
    """

    instead: Annotated[
        bool,
        typer.Option(
            "--instead/--as-well",
            help="Replace what was normal before (a machine that was rebuilt), or add to it.",
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class AcknowledgeArguments(RunningArguments):
    """Acknowledge the present event of a running monitor.

    Examples
    --------
      kernelstream plant acknowledge model.safetensors
    """


@dataclass(frozen=True, kw_only=True)
class ResetArguments(RunningArguments):
    """Begin a new sequence: the next row of a running monitor has no past.

    Examples
    --------
      kernelstream plant reset model.safetensors
    """


@dataclass(frozen=True, kw_only=True)
class PauseArguments(RunningArguments):
    """Stop a running monitor from learning until 'resume'; rows are scored as before.

    Examples
    --------
      kernelstream plant pause model.safetensors
    """


@dataclass(frozen=True, kw_only=True)
class ResumeArguments(RunningArguments):
    """Let a running monitor learn again, after 'pause'.

    Examples
    --------
      kernelstream plant resume model.safetensors
    """


@dataclass(frozen=True, kw_only=True)
class SensorArguments(RunningArguments):
    """Disable a sensor of a running monitor, or enable it: its values count as missing meanwhile.

    Examples
    --------
      kernelstream plant sensor model.safetensors XMEAS_9 --out
    """

    variable: Annotated[str, typer.Argument(metavar="NAME", help="Name of the variable.")]
    out: Annotated[bool, typer.Option("--out/--back", help="Disable it, or enable it again.")] = (
        True
    )


@dataclass(frozen=True, kw_only=True)
class NoteArguments(RunningArguments):
    """Give an event of a running monitor a class and a comment.

    Examples
    --------
      kernelstream plant note model.safetensors 3 --class fault --comment 'valve stuck'
    """

    event: Annotated[int, typer.Argument(metavar="N", help="Number of the event.")]
    kind: Annotated[str | None, typer.Option("--class", metavar="TEXT", help="Kind of event.")] = (
        None
    )
    comment: Annotated[str | None, typer.Option(metavar="TEXT", help="Anything to remember.")] = (
        None
    )
