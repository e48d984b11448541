"""Command registry: which arguments a command takes, and which function runs it.

Help needs the arguments only: a function is imported when its command runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

import kernelstream
from kernelstream.cli import arguments
from kernelstream.cli.commands import add_command
from kernelstream.cli.failures import drop_output, of_system
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


class Commands(typer.core.TyperGroup):
    """The commands; where one is missing, the message names the distribution that has it."""

    def get_command(self, ctx: Any, name: str) -> Any:
        """Look a command up."""
        command = super().get_command(ctx, name)
        if command is None and name == "plant":
            ctx.fail("No such command 'plant': pip install kernelstream-plant")
        return command


def application(words: Sequence[str] = ()) -> typer.Typer:
    """The application; of its commands only the one that is called, if the first word is one.

    ``words`` are those of the command line.
    """
    app = typer.Typer(
        cls=Commands,
        help="Kernel PCA for data that is too large or never ends.",
        epilog="Exit codes: 0 done; 1 unforeseen; 2 wrong usage; 3 bad data; 4 no readable model; "
        "5 cannot write; 6 another process writes this model; 7 the checkpoint does not fit, or a "
        "source changed; 130 interrupted.",
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
    """Add the commands of other distributions: their entry points return a typer application."""
    from importlib.metadata import entry_points  # slow, and most commands do without

    for entry in entry_points(group="kernelstream.commands"):
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


def main() -> None:
    """Run the command line."""
    open_standard_streams()
    try:
        try:
            application(sys.argv[1:])(prog_name="kernelstream")
        finally:
            sys.stdout.flush()
    except OSError as problem:  # of help and version; commands report their own
        drop_output()
        code, message = of_system(problem)
        sys.stderr.write(f"Error: {message}\n")
        sys.exit(code)


def open_standard_streams() -> None:
    """Put something in the place of standard streams that the process was started without (>&-).

    Otherwise the next file that is opened has their number, and what is printed goes into it. What
    stands in for the output cannot be written: whoever has to write there says so.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            if name != "stdin":  # which is None for those who ask
                setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115
