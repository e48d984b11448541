"""The commands, in one application."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
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
    "report": "report.command",
    "demo": "demo",
    "monitor": "monitor",
}
RUNNING = (
    "accept",
    "acknowledge",
    "interrupt",
    "pause",
    "resume",
    "service",
    "note",
    "events",
)


def application(words: Sequence[str] = ()) -> typer.Typer:
    """The application; of its commands only the one that is called, if the first word is one."""
    app = typer.Typer(
        help="Kernel PCA for data that is too large or never ends.",
        epilog=EXIT_CODES,
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(root)
    called = words[0] if words and words[0] in (*COMMANDS, *RUNNING) else None
    for name, module in COMMANDS.items():
        if called in (None, name):
            command = getattr(import_module(f"kernelstream.cli.{module}"), name)
            app.command(cls=_kind(name))(flat(command))
    for name in RUNNING:
        if called in (None, name):
            command = getattr(import_module("kernelstream.cli.operation"), name)
            app.command(rich_help_panel="A monitor that is running")(command)
    return app


def _kind(name: str) -> Any:
    """Options of a monitor may stand without a value."""
    if name != "monitor":
        return None
    from kernelstream.cli.live import OptionalValues

    return OptionalValues


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
