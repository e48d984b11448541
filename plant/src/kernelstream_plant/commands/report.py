"""Command ``plant report``: HTML page of a monitor or of one event from its history."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernelstream.cli import (
    DATA,
    CommandError,
    Json,
    Model,
    Output,
    Quiet,
    Screen,
    read_monitor,
    report_failures,
    require_apart,
    require_writable,
    write_page,
)
from kernelstream_plant.commands.operation import history_folder
from kernelstream_plant.operation import History, LiveMonitor


def report(
    model: Model,
    output: Output = Path("report.html"),
    event: Annotated[int | None, typer.Option(min=1, help="One event, by its number.")] = None,
    history: Annotated[
        Path | None, typer.Option(help="Folder of the history. Default: MODEL.history.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    open_page: Annotated[
        bool, typer.Option("--open", help="Open the page in the browser.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """One self-contained HTML page about a monitor from its history, to open also offline.

    Examples
    --------
      kernelstream plant report model.safetensors

      kernelstream plant report model.safetensors --event 3 -o incident.html
    """
    screen = Screen(as_json, quiet)
    with report_failures(as_json):
        require_writable(output)
        require_apart([output], [model])
        monitor = read_monitor(model)
        try:
            kept = History.copy_of(history or history_folder(model))
        except FileNotFoundError as problem:
            raise CommandError(DATA, str(problem)) from problem
        from kernelstream_plant.page import monitor_html  # Bokeh takes a second

        live = LiveMonitor(monitor, history=kept, title=model.stem)
        write_page(output, monitor_html(live, event, title), screen, open_page)
