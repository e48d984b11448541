"""Command ``plant serve``: monitor loop over files, pipes, brokers, SQL; alarms to a topic."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernelstream.cli import (
    USAGE,
    CommandError,
    MonitorLoop,
    MonitorScorer,
    RowScorer,
    Screen,
    lock,
    open_feed,
    open_scorer,
    row_parser,
)
from kernelstream.tables import LiveRow, is_address, open_address, read_settings
from kernelstream_plant.commands.arguments import ServeArguments
from kernelstream_plant.commands.fleet import FleetScorer, open_fleet, require_folder
from kernelstream_plant.commands.operation import Deck, OperatedScorer, paced, shows_lines
from kernelstream_plant.operation.live import fingerprint


def serve(given: ServeArguments, screen: Screen) -> None:
    """Score rows as they come, with the services of the options."""
    with contextlib.ExitStack() as stack:
        target, address = given.saved_at(given.model), address_in(given.sources)
        if target is not None and given.by is not None:
            require_folder(target)
        if target is not None:  # before the model is read: another process may be saving it
            stack.enter_context(lock(target))
        # Rows of an address go on where the last run stopped: its model has the position.
        goes_on = address is not None and target is not None and target.exists()
        begin = target if goes_on and target is not None else given.model
        scorer, position = scorer_of(begin, given)
        if isinstance(scorer, MonitorScorer):
            scorer = OperatedScorer(scorer, Deck(scorer.monitor, given.model, given, stack))
        elif given.wanted:
            raise CommandError(
                USAGE,
                "--serve, --history, --metrics, --on-event and --watch need a monitor: fit one "
                "with 'kernelstream fit --detector monitor'.",
            )
        settings = read_settings(given.settings)
        parser = row_parser(given, scorer, [] if given.by is None else [given.by])
        if address is None:
            feed = open_feed(given.sources, parser)
        else:
            feed = open_address(address, parser, position, settings=settings, database=given.db)
        stack.callback(feed.close)
        alarms = open_alarms(given.alarms_to, settings, scorer)
        lines = shows_lines(given.as_json) or not isinstance(scorer, OperatedScorer | FleetScorer)
        loop = ServiceLoop(feed, scorer, given, target, given.save_every, lines)
        loop.alarms, loop.speed = alarms, given.speed
        loop.run()


class ServiceLoop(MonitorLoop):
    """The loop of a monitor, with rows as fast as is wanted, and alarms to a topic."""

    alarms: Any = None
    speed: str | None = None

    def rows(self) -> Iterator[LiveRow | str | None]:
        """Rows of the feed, as fast as ``speed`` says."""
        return paced(super().rows(), self.speed)

    def answer(self, line: dict[str, Any]) -> None:
        """Send an alarm, and write the line."""
        if self.alarms is not None and line.get("alarm"):
            self.alarms.send({**line, "row": self.scorer.row})
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


def scorer_of(path: Path, given: ServeArguments) -> tuple[RowScorer, dict[str, Any] | None]:
    """The scorer of a model file, or of a folder of them, and the position saved with it."""
    if given.by is None:
        return open_scorer(path, given.learn, given.top)
    fleet = open_fleet(path)
    return FleetScorer(fleet, given.by, lambda m: MonitorScorer(m, given.learn, given.top)), None


def open_alarms(address: str | None, settings: dict[str, str], scorer: RowScorer) -> Any:
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
    model = fingerprint(scorer.monitor) if isinstance(scorer, MonitorScorer) else ""
    return KafkaAlarms(address, settings, model)
