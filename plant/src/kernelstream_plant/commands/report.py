"""Command ``plant report``: HTML page of a monitor or of one event from its history."""

from __future__ import annotations

from kernelstream.cli import (
    DATA,
    CommandError,
    Screen,
    read_monitor,
    require_apart,
    require_writable,
    write_page,
)
from kernelstream_plant.commands.arguments import ReportArguments
from kernelstream_plant.commands.operation import history_folder
from kernelstream_plant.operation import History, LiveMonitor
from kernelstream_plant.page import monitor_html


def report(given: ReportArguments, screen: Screen) -> None:
    """Write the page of a monitor."""
    model, output = given.model, given.output
    require_writable(output)
    require_apart([output], [model])
    monitor = read_monitor(model)
    try:
        kept = History.copy_of(given.history or history_folder(model))
    except FileNotFoundError as problem:
        raise CommandError(DATA, str(problem)) from problem
    live = LiveMonitor(monitor, history=kept, title=model.stem)
    write_page(output, monitor_html(live, given.event, given.title), screen, given.open_page)
