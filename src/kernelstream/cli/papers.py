"""Command ``paper``: the methods of the papers, with the parameters of their estimators."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import Annotated, Any

import typer

from kernelstream.cli.arguments import PaperArguments
from kernelstream.cli.commands import add_function, parameters_of, run_function
from kernelstream.cli.wording import option_of

# Estimators in ``kernelstream.papers``, and the papers.
PAPERS = {
    "online": (
        "OnlineKernelPCA",
        "Honeine 2012: online kernel PCA with a reduced-order model.",
    ),
    "adaptive": (
        "AdaptiveKernelPCA",
        "Tanaka, Washizawa and Kuh 2012: adaptive kernel PCA (--method rls, lms or subkha).",
    ),
    "incremental": (
        "IncrementalKernelPCA",
        "Chin and Suter 2006: incremental kernel PCA.",
    ),
}


class PaperCommands(typer.core.TyperGroup):
    """A command for each paper; its estimator is imported when the command is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called, with the parameters of its estimator as options."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and paper_command(str(name)), rest


def paper_commands() -> typer.Typer:
    """The application of the command ``paper``."""
    app = typer.Typer(cls=PaperCommands, help="Fit the method of a paper.", no_args_is_help=True)
    for name, (_, help) in PAPERS.items():
        app.command(name, help=help)(lambda: None)  # only for the list
    return app


def paper_command(name: str) -> Any:
    """The command of one paper."""
    from kernelstream import papers

    estimator, help = PAPERS[name]
    kind = getattr(papers, estimator)
    shared = {field.name for field in fields(PaperArguments)}

    def run(**given: Any) -> None:
        arguments = {key: given.pop(key) for key in shared}
        texts = {key: text for key, text in given.items() if text is not None}
        run_function("kernelstream.cli.fit:fit_paper", PaperArguments(**arguments), kind, texts)

    parameters = [*paper_options(kind), *parameters_of(PaperArguments)]
    app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)
    add_function(app, name, run, parameters, help=help)
    return typer.main.get_command(app)


def paper_options(kind: type) -> list[inspect.Parameter]:
    """The parameters of an estimator as options, whose texts are parsed when the command runs."""
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                str | None,
                typer.Option(
                    option_of(name),
                    metavar="VALUE",
                    help=f"{description(kind, name)} Default: {parameter.default}.".strip(),
                    rich_help_panel="Parameters of the method",
                ),
            ],
        )
        for name, parameter in inspect.signature(kind).parameters.items()
        if name not in ("random_state", "verbose")  # --seed and the progress bar
    ]


def description(kind: type, name: str) -> str:
    """What the docstring of an estimator says of a parameter, in one paragraph."""
    entry = re.search(
        rf"^(?:\w+, )*{name}(?:, \w+)* : .*\n((?: +.*\n|\n(?= ))+)",
        inspect.getdoc(kind) or "",
        re.M,
    )
    text = " ".join(entry[1].split()) if entry else ""
    return re.sub(r":\w+:|[`~]", "", text)
