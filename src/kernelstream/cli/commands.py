"""Commands from dataclasses: their fields are the parameters, and a function is imported to run."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Annotated, Any, get_type_hints

import typer
from typer.models import ArgumentInfo

from kernelstream.cli.failures import report_failures


def add_command(app: typer.Typer, name: str, kind: type, function: str, **settings: Any) -> None:
    """Add a command to an application.

    Parameters
    ----------
    app : Typer
        The application.
    name : str
        What the command is called.
    kind : type
        The dataclass of its arguments; the docstring is its help.
    function : str
        ``"package.module:function"``: a function of the arguments and a screen.
    **settings : dict
        Further arguments of ``Typer.command``.
    """

    def run(**given: Any) -> None:
        run_function(function, kind(**given))

    help = inspect.getdoc(kind)
    add_function(app, name, run, parameters_of(kind), help=help, **settings)


def add_function(
    app: typer.Typer,
    name: str,
    run: Callable[..., None],
    parameters: Iterable[inspect.Parameter],
    **settings: Any,
) -> None:
    """Add a command that calls a function with parameters that its signature does not show."""

    def command(short_help: bool, **given: Any) -> None:
        run(**given)

    command.__signature__ = inspect.Signature([*parameters, SHORT_HELP])  # type: ignore[attr-defined]
    # -h is an option of each command.
    app.command(name, context_settings={"help_option_names": ["--help"]}, **settings)(command)


def parameters_of(kind: type) -> list[inspect.Parameter]:
    """The fields of a dataclass as parameters.

    Arguments are in their order, options of the class itself before those of its groups.
    """
    types = get_type_hints(kind, include_extras=True)
    signature = inspect.signature(kind).parameters
    arguments = [n for n in signature if isinstance(types[n].__metadata__[0], ArgumentInfo)]
    own_first = [name for group in kind.__mro__ for name in inspect.get_annotations(group)]
    names = dict.fromkeys([*arguments, *own_first])
    return [signature[name].replace(annotation=types[name]) for name in names]


def run_function(function: str, *given: Any) -> None:
    """Import the function of a command, and run it; failures become messages and exit codes."""
    module, _, name = function.partition(":")
    as_json = getattr(given[0], "as_json", False)
    with report_failures(as_json):
        gc.disable()  # what is imported is no garbage: collecting it takes a tenth of the start
        try:
            run = getattr(import_module(module), name)
            from kernelstream.cli.terminal import Screen
        finally:
            gc.freeze()
            gc.enable()
        run(*given, Screen(as_json, getattr(given[0], "quiet", False)))


def show_common_options(ctx: typer.Context, wanted: bool) -> None:
    """``-h``: the help without the options of the expert panels."""
    if not wanted:
        return
    for parameter in ctx.command.params:
        if getattr(parameter, "rich_help_panel", None) in ("Input", "Expert"):
            parameter.hidden = True  # type: ignore[attr-defined]
    ctx.get_help()  # prints it
    raise typer.Exit


SHORT_HELP = inspect.Parameter(
    "short_help",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool,
        typer.Option(
            "-h",
            callback=show_common_options,
            is_eager=True,
            help="Show the common options; --help shows all.",
        ),
    ],
)
