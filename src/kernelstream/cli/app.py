"""The commands, in one application."""

from __future__ import annotations

from typing import Annotated

import typer

import kernelstream
from kernelstream.cli.check import check, plan
from kernelstream.cli.compress import compress
from kernelstream.cli.demo import demo
from kernelstream.cli.explain import explain
from kernelstream.cli.failures import EXIT_CODES
from kernelstream.cli.fit import fit
from kernelstream.cli.info import info
from kernelstream.cli.live import OptionalValues
from kernelstream.cli.merge import merge
from kernelstream.cli.monitor import monitor
from kernelstream.cli.operation import (
    accept,
    acknowledge,
    events,
    interrupt,
    note,
    pause,
    resume,
    service,
)
from kernelstream.cli.options import flat
from kernelstream.cli.report import report
from kernelstream.cli.transform import denoise, predict, score, transform
from kernelstream.cli.tune import tune
from kernelstream.cli.update import update
from kernelstream.cli.upgrade import upgrade

app = typer.Typer(
    help="Kernel PCA for data that is too large or never ends.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kernelstream {kernelstream.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Kernel PCA for data that is too large or never ends."""


for command in (
    check,
    plan,
    tune,
    fit,
    update,
    transform,
    denoise,
    score,
    predict,
    explain,
    info,
    merge,
    compress,
    report,
    upgrade,
    demo,
):
    app.command()(flat(command))
# Options that may stand without a value.
app.command(cls=OptionalValues)(flat(monitor))
for verb in (accept, acknowledge, interrupt, pause, resume, service, note, events):
    app.command(rich_help_panel="A monitor that is running")(verb)
