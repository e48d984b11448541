"""Command registry: all commands, import of the one that runs, unknown commands, ``--version``."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer

import kernelstream
from kernelstream.cli.failures import EXIT_CODES
from kernelstream.cli.options import flat

# Modules of the commands, in the order of the help: that of another command is not imported.
COMMANDS = {
    "check": "check",
    "plan": "check",
    "tune": "tune",
    "fit": "fit",
    "update": "update",
    "transform": "transform",
    "denoise": "transform",
    "score": "transform",
    "predict": "transform",
    "explain": "explain",
    "info": "info",
    "merge": "merge",
    "compress": "compress",
    "report": "reporting",
    "demo": "demo",
    "monitor": "monitor",
}
# Commands of other distributions: an entry point of this group is a function that makes a typer
# application, given the words that follow its name.
OTHERS = "kernelstream.commands"
PLANT = "plant"  # the one that is known, so that its package can be named


class Commands(typer.core.TyperGroup):
    """The commands; of one that is missing, the distribution that has it is named."""

    def get_command(self, ctx: Any, name: str) -> Any:
        """Look a command up."""
        found = super().get_command(ctx, name)
        if found is None and name == PLANT:
            ctx.fail(f"No such command '{PLANT}': pip install kernelstream-{PLANT}")
        return found


def application(words: Sequence[str] = ()) -> typer.Typer:
    """The application; of its commands only the one that is called, if the first word is one."""
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
    for name, module in COMMANDS.items():
        if called in (None, name):
            command = getattr(import_module(f"kernelstream.cli.{module}"), name)
            app.command()(flat(command))
    if called is None:
        for entry in entry_points(group=OTHERS):
            inner = words[1:] if words[:1] == [entry.name] else ()
            app.add_typer(entry.load()(inner), name=entry.name)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kernelstream {kernelstream.__version__}")
        raise typer.Exit


def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Kernel PCA for data that is too large or never ends."""


def __getattr__(name: str) -> typer.Typer:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault("app", application())
