"""Commands ``kernelstream plant ...`` and their registry (entry point of kernelstream)."""

from __future__ import annotations

import typer

from kernelstream.cli import add_command
from kernelstream_plant.commands import arguments

# Arguments of the commands and the modules of their functions, in the order of the help.
COMMANDS: dict[str, tuple[type, str]] = {
    "serve": (arguments.ServeArguments, "serve"),
    "fit": (arguments.FitArguments, "fit"),
    "report": (arguments.ReportArguments, "report"),
    "events": (arguments.EventsArguments, "running"),
    "accept": (arguments.AcceptArguments, "running"),
    "acknowledge": (arguments.AcknowledgeArguments, "running"),
    "reset": (arguments.ResetArguments, "running"),
    "pause": (arguments.PauseArguments, "running"),
    "resume": (arguments.ResumeArguments, "running"),
    "sensor": (arguments.SensorArguments, "running"),
    "note": (arguments.NoteArguments, "running"),
}
RUNNING = "A monitor that is running"


def app() -> typer.Typer:
    """The application."""
    made = typer.Typer(
        help="Operate monitors: live page, history, brokers, metrics, fleets.",
        no_args_is_help=True,
    )
    for name, (kind, module) in COMMANDS.items():
        function = f"kernelstream_plant.commands.{module}:{name}"
        panel = RUNNING if module == "running" else None
        cls = arguments.OptionalValues if name == "serve" else None
        add_command(made, name, kind, function, rich_help_panel=panel, cls=cls)
    return made
