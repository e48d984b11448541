"""Command registry: which arguments a command takes, and which function runs it.

Help needs the arguments only: a function is imported when its command runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

import kernelstream
from kernelstream.cli import arguments
from kernelstream.cli.commands import add_command
from kernelstream.cli.failures import EXIT_CODES
from kernelstream.cli.papers import paper_commands

# Arguments of the commands and the modules of their functions, in the order of the help.
COMMANDS: dict[str, tuple[type, str]] = {
    "check": (arguments.CheckArguments, "check"),
    "fit": (arguments.FitArguments, "fit"),
    "update": (arguments.UpdateArguments, "update"),
    "transform": (arguments.TransformArguments, "transform"),
    "score": (arguments.ScoreArguments, "transform"),
    "explain": (arguments.ExplainArguments, "explain"),
    "predict": (arguments.PredictArguments, "transform"),
    "info": (arguments.InfoArguments, "info"),
    "merge": (arguments.MergeArguments, "merge"),
    "compress": (arguments.CompressArguments, "compress"),
    "report": (arguments.ReportArguments, "reporting"),
    "monitor": (arguments.MonitorArguments, "monitor"),
    "demo": (arguments.DemoArguments, "demo"),
}
# Commands of other distributions: an entry point of this group is a function that returns a typer
# application.
OTHER_COMMANDS = "kernelstream.commands"
PLANT = "plant"  # the one that is known, so that its package can be named


class Commands(typer.core.TyperGroup):
    """The commands; where one is missing, the message names the distribution that has it."""

    def get_command(self, ctx: Any, name: str) -> Any:
        """Look a command up."""
        command = super().get_command(ctx, name)
        if command is None and name == PLANT:
            ctx.fail(f"No such command '{PLANT}': pip install kernelstream-{PLANT}")
        return command


def application(words: Sequence[str] = ()) -> typer.Typer:
    """The application; of its commands only the one that is called, if the first word is one.

    ``words`` are those of the command line.
    """
    app = typer.Typer(
        cls=Commands,
        help="Kernel PCA for data that is too large or never ends.",
        epilog=EXIT_CODES,
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(root)
    called = words[0] if words and words[0] in COMMANDS else None
    for name, (kind, module) in COMMANDS.items():
        if called in (None, name):
            add_command(app, name, kind, f"kernelstream.cli.{module}:{name}")
    if called is None:
        app.add_typer(paper_commands(), name="paper")
        add_other_commands(app)
    return app


def add_other_commands(app: typer.Typer) -> None:
    """Add the commands of other distributions."""
    from importlib.metadata import entry_points  # slow, and most commands do without

    for entry in entry_points(group=OTHER_COMMANDS):
        app.add_typer(entry.load()(), name=entry.name)


def show_version(wanted: bool) -> None:
    """``--version``."""
    if wanted:
        typer.echo(f"kernelstream {kernelstream.__version__}")
        raise typer.Exit


def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Kernel PCA for data that is too large or never ends."""


def __getattr__(name: str) -> typer.Typer:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault("app", application())
