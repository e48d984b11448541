"""Commands ``kernelstream plant ...`` and their registry (entry point of kernelstream)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import typer

from kernelstream.cli import flat

# Modules of the commands, in the order of the help: that of another command is not imported.
COMMANDS = {
    "serve": "serve",
    "fit": "fit",
    "report": "report",
    "events": "running",
    "accept": "running",
    "acknowledge": "running",
    "reset": "running",
    "pause": "running",
    "resume": "running",
    "sensor": "running",
    "note": "running",
}
RUNNING = "A monitor that is running"


def app(words: Sequence[str] = ()) -> typer.Typer:
    """The application; of its commands only the one that is called, if the first word is one."""
    made = typer.Typer(
        help="Monitors in operation: live page, history, brokers, metrics, fleets.",
        no_args_is_help=True,
    )
    called = words[0] if words and words[0] in COMMANDS else None
    for name, module in COMMANDS.items():
        if called in (None, name):
            within = import_module(f"kernelstream_plant.commands.{module}")
            panel = RUNNING if module == "running" else None
            command = made.command(name, cls=getattr(within, "CLASS", None), rich_help_panel=panel)
            command(flat(getattr(within, name)))
    return made
