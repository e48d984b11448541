"""Command ``plant serve``: monitor loop over files, pipes, brokers, SQL; alarms to a topic."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelstream.cli import (
    USAGE,
    CommandError,
    Database,
    Following,
    Json,
    Judge,
    Learning,
    Model,
    MonitorJudge,
    RowOptions,
    Settings,
    lock,
    open_judge,
    report_failures,
)
from kernelstream.tables import LiveRow, is_address, open_address, read_settings
from kernelstream_plant.commands.fleet import FleetJudge, open_fleet, require_folder
from kernelstream_plant.commands.operation import (
    Deck,
    OperatedJudge,
    Operation,
    OptionalValues,
    paced,
    shows_lines,
)
from kernelstream_plant.operation.live import fingerprint


@dataclass(frozen=True)
class Connecting:
    """How rows come, and where alarms go."""

    speed: Annotated[
        str | None, typer.Option(help="Replay files so fast: 60x by time stamps, or 200/s.")
    ] = None
    settings: Settings = None
    db: Database = None
    alarms_to: Annotated[
        str | None,
        typer.Option(help="Send alarms to a topic, kafka://broker/topic, each at least once."),
    ] = None


ROWS, LEARNING, CONNECTING, ALONE = RowOptions(), Learning(), Connecting(), Operation()


def serve(
    model: Model,
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files, or a kafka://, mqtt://, opcua:// or sql: address. Default: the standard "
            "input."
        ),
    ] = None,
    rows: RowOptions = ROWS,
    learning: Learning = LEARNING,
    connecting: Connecting = CONNECTING,
    by: Annotated[
        str | None,
        typer.Option(help="Column with the machine of each row: a monitor for each of a fleet."),
    ] = None,
    operation: Operation = ALONE,
    as_json: Json = False,
) -> None:
    """Monitor rows as they come, with a live page, a history, metrics and hooks.

    The model is one of 'kernelstream fit --monitor', or a fleet of 'kernelstream plant fit'. In a
    terminal, events are told instead of rows; --json writes the rows there too.

    Examples
    --------
      kernelstream plant serve model.safetensors kafka://broker/plant --learn --serve

      kernelstream plant serve model.safetensors day.csv --time-column t --speed 60x --serve --open

      tail -f fleet.ndjson | kernelstream plant serve fleet/ --by machine --alarms-only
    """
    with report_failures(as_json), contextlib.ExitStack() as stack:
        target, address = learning.target(model), address_in(sources)
        if target is not None and by is not None:
            require_folder(target)
        if target is not None:  # before the model is read: another process may be saving it
            stack.enter_context(lock(target))
        # Rows of an address go on where the last run stopped: its model has the position.
        goes_on = address is not None and target is not None and target.exists()
        begin = target if goes_on and target is not None else model
        judge, position = judge_of(begin, rows, learning.learn, by)
        if isinstance(judge, MonitorJudge):
            judge = OperatedJudge(judge, Deck(judge.monitor, model, operation, stack))
        elif operation.wanted:
            raise CommandError(
                USAGE,
                "--serve, --history, --metrics, --on-event and --watch need a monitor: make one "
                "with 'kernelstream fit --monitor'.",
            )
        settings = read_settings(connecting.settings)
        parse = rows.parser(judge, [] if by is None else [by])
        if address is None:
            feed = rows.open(sources, parse)
        else:
            feed = open_address(address, parse, position, settings=settings, database=connecting.db)
        stack.callback(feed.close)
        alarms = open_alarms(connecting.alarms_to, settings, judge)
        serving = Serving(feed, judge, rows, target, learning.every, shows_lines(as_json))
        serving.lines |= not isinstance(judge, OperatedJudge | FleetJudge)
        serving.alarms, serving.speed = alarms, connecting.speed
        serving.run()


CLASS = OptionalValues  # of the command


class Serving(Following):
    """The loop of a monitor, with rows as fast as is wanted, and alarms to a topic."""

    alarms: Any = None
    speed: str | None = None

    def rows(self) -> Iterator[LiveRow | str | None]:
        """Rows of the feed, as fast as ``speed`` says."""
        return paced(super().rows(), self.speed)

    def answer(self, line: dict[str, Any]) -> None:
        """Send an alarm, and write the line."""
        if self.alarms is not None and line.get("alarm"):
            self.alarms.send({**line, "row": self.judge.row})
        super().answer(line)

    def save(self) -> None:
        """Save once the alarms have gone out: after a kill those since the last time come again."""
        if self.alarms is not None:
            self.alarms.flush()
        super().save()


def address_in(sources: list[str] | None) -> str | None:
    """The one address that is read; None for files and the standard input."""
    given = sources or []
    if not any(map(is_address, given)):
        return None
    if len(given) > 1:
        raise CommandError(USAGE, "An address stands alone: give one, and no files beside it.")
    return given[0]


def judge_of(
    path: Path, rows: RowOptions, learn: bool, by: str | None
) -> tuple[Judge, dict[str, Any] | None]:
    """The judge that a model file holds, or a folder of them, and the position saved with it."""
    if by is None:
        return open_judge(path, rows.alpha, learn, rows.top)
    if rows.alpha is not None:
        raise CommandError(USAGE, "Monitors have their own alpha: leave out --alpha.")
    return FleetJudge(open_fleet(path), by, lambda one: MonitorJudge(one, learn, rows.top)), None


def open_alarms(address: str | None, settings: dict[str, str], judge: Judge) -> Any:
    """Where alarms are sent; None for nowhere."""
    if address is None:
        return None
    if not address.startswith("kafka://"):
        raise CommandError(USAGE, f"--alarms-to wants kafka://broker/topic; got {address!r}.")
    try:
        from kernelstream_plant.sources.kafka import KafkaAlarms
    except ModuleNotFoundError as problem:
        raise CommandError(
            1, f"--alarms-to needs {problem.name}: pip install 'kernelstream-plant[kafka]'"
        ) from problem
    model = fingerprint(judge.monitor) if isinstance(judge, MonitorJudge) else ""
    return KafkaAlarms(address, settings, model)
