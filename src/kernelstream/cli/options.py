"""Options that several commands share, and the values that their texts mean.

The arguments of a command are a frozen dataclass: a field is an argument or an option, and its type
says which one to typer. Groups of options are base classes. Nothing heavy is imported here, so that
``--help`` answers at once.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelstream.cli import completion
from kernelstream.cli.failures import USAGE, CommandError

if TYPE_CHECKING:
    from kernelstream.tables import SchemaOptions

# Panels of the help. Options of the expert panels are shown by --help, but not by -h.
MODEL = "Model"
INPUT = "Input"
EXPERT = "Expert"
EXPERT_PANELS = (INPUT, EXPERT)
SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


class OnBadRows(StrEnum):
    """What happens to a row with a missing value, or with text for a number."""

    error = "error"
    skip = "skip"


class InputFormat(StrEnum):
    """Formats of sources."""

    parquet = "parquet"
    csv = "csv"
    arrow = "arrow"
    ndjson = "ndjson"
    npy = "npy"
    npz = "npz"


class Missing(StrEnum):
    """What happens to a missing value."""

    fill = "fill"
    bad = "bad"


Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE",
        help="Files, folders, patterns, - for the standard input, or a kafka://, mqtt://, opcua:// "
        "or sql: address (with kernelstream-plant).",
        show_default=False,
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file.", show_default=False)]
Output = Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Output file.")]
Json = Annotated[bool, typer.Option("--json", help="Write results and errors as JSON.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Show no progress and no remarks.")]
Columns = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Columns to use: names or patterns, 'a,b,sensor_*'.",
        autocompletion=completion.columns,
    ),
]
Exclude = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Columns to exclude: names or patterns.",
        autocompletion=completion.columns,
    ),
]
Keep = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Columns to copy to the output: names or patterns, or 'all'.",
        autocompletion=completion.columns,
    ),
]
WeightColumn = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Column with the weight of each row.",
        autocompletion=completion.column,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing model.")]
RejectsFile = Annotated[
    Path | None,
    typer.Option(
        "--rejects",
        metavar="FILE",
        help="List skipped rows in this file (NDJSON).",
        rich_help_panel=EXPERT,
    ),
]
ReadSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--read",
        metavar="NAME=VALUE",
        help="How text is read, if it is not recognized: delimiter, header (true or false), "
        "encoding, decimal, thousands; array of .npz files; dtype (float32, float64). Repeatable.",
        rich_help_panel=INPUT,
    ),
]
Settings = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="File with users, passwords and certificates of a broker or server.",
        rich_help_panel=INPUT,
    ),
]
Database = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Database of sql: sources: a PostgreSQL address or a file.",
        rich_help_panel=INPUT,
    ),
]
Seed = Annotated[int, typer.Option(metavar="N", help="Random seed.", rich_help_panel=EXPERT)]
ParameterSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Another parameter of the estimator, such as certify=tight. Repeatable.",
        rich_help_panel=EXPERT,
    ),
]


@dataclass(frozen=True, kw_only=True)
class ScreenOptions:
    """What a command prints."""

    quiet: Quiet = False
    as_json: Json = False


@dataclass(frozen=True, kw_only=True)
class InputOptions:
    """How sources are read."""

    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Stop after N valid rows.")
    ] = None
    on_bad_rows: Annotated[
        OnBadRows,
        typer.Option("--on-bad-rows", help="Stop at an invalid row, or skip it."),
    ] = OnBadRows.error
    format: Annotated[
        InputFormat | None,
        typer.Option(
            help="Input format, if it cannot be inferred from the file name.",
            rich_help_panel=INPUT,
        ),
    ] = None
    read: ReadSettings = None
    settings: Settings = None
    db: Database = None

    def source_options(
        self,
        columns: str | None = None,
        exclude: str | None = None,
        weight_column: str | None = None,
        keep: str | None = None,
    ) -> dict[str, Any]:
        """These options, and those about columns, as those of a Source."""
        from kernelstream.tables import Connection, read_settings

        settings = text_settings(self.read)
        return dict(
            connection=Connection(read_settings(self.settings), self.db, tell=print_remark),
            columns=column_list(columns),
            exclude=column_list(exclude) or [],
            weight_column=weight_column,
            keep=kept_columns(keep),
            on_bad_rows=self.on_bad_rows.value,
            limit=self.limit,
            format=None if self.format is None else self.format.value,
            array=settings.get("array"),
            delimiter=settings.get("delimiter"),
            header=settings.get("header"),
            encoding=settings.get("encoding"),
        )


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """Which columns are learned, and as what."""

    columns: Columns = None
    exclude: Exclude = None
    treat: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=TYPE,...",
            help="Types of columns: 'zip=category,id=number,note=out'. Names or patterns; number, "
            "boolean, category, codes or out.",
            rich_help_panel=INPUT,
            autocompletion=completion.uses,
        ),
    ] = None
    missing: Annotated[
        Missing,
        typer.Option(
            help="Fill missing values, or treat their rows as invalid.", rich_help_panel=INPUT
        ),
    ] = Missing.fill

    def wishes(self, read: list[str] | None) -> SchemaOptions:
        """The same for a Source."""
        from kernelstream.cli.wording import of_shell
        from kernelstream.tables import SchemaOptions

        settings = text_settings(read)
        try:
            return SchemaOptions(
                treat=assignments(column_list(self.treat), "--treat", "zip=category"),
                decimal=settings.get("decimal"),
                thousands=settings.get("thousands"),
                missing=self.missing.value,
            )
        except ValueError as problem:
            own = {"decimal": "--read decimal", "missing": "--missing"}
            raise CommandError(USAGE, of_shell(str(problem), own)) from problem


@dataclass(frozen=True, kw_only=True)
class CheckpointOptions:
    """What a run that was stopped can be resumed from."""

    checkpoint_every: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Save a checkpoint beside the output at this interval: 60s, 5m or 1h.",
            rich_help_panel=EXPERT,
        ),
    ] = None
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue from the checkpoint, if there is one.",
            rich_help_panel=EXPERT,
        ),
    ] = False
    rejects: RejectsFile = None


def print_remark(text: str) -> None:
    """Print what a source has to say while it is read."""
    typer.echo(text, err=True)


READABLE = ("array", "decimal", "delimiter", "dtype", "encoding", "header", "thousands")


def text_settings(pairs: list[str] | None) -> dict[str, Any]:
    r"""The settings of ``--read``.

    Examples
    --------
    >>> text_settings(["delimiter=;", "header=false"])
    {'delimiter': ';', 'header': False}
    """
    settings: dict[str, Any] = dict(assignments(pairs, "--read", "delimiter=';'", strip=False))
    for name in settings:
        if name not in READABLE:
            raise CommandError(USAGE, f"--read knows {', '.join(READABLE)}; got {name!r}.")
    if "delimiter" in settings:
        settings["delimiter"] = one_character(settings["delimiter"])
    if "header" in settings:
        if settings["header"] not in ("true", "false"):
            raise CommandError(
                USAGE, f"--read header must be true or false; got {settings['header']!r}."
            )
        settings["header"] = settings["header"] == "true"
    if settings.get("dtype", "float32") not in ("float32", "float64"):
        raise CommandError(
            USAGE, f"--read dtype must be float32 or float64; got {settings['dtype']!r}."
        )
    return settings


def assignments(
    pairs: Sequence[str] | None, option: str, example: str, strip: bool = True
) -> dict[str, str]:
    """Texts ``name=value`` as a dictionary."""
    values = {}
    for pair in pairs or ():
        # A pattern of columns may have an equals sign, a value may as well.
        name, equals, value = pair.rpartition("=") if strip else pair.partition("=")
        if not equals:
            raise CommandError(USAGE, f"{option} {pair!r}: write NAME=VALUE, such as {example}.")
        values[name.strip()] = value.strip() if strip else value
    return values


def parameter_settings(pairs: Sequence[str] | None) -> dict[str, Any]:
    """The parameters of ``--set``, whose texts are numbers, truth values, lists or words.

    Examples
    --------
    >>> parameter_settings(["certify=tight", "center=false"])
    {'certify': 'tight', 'center': False}
    """
    texts = assignments(pairs, "--set", "certify=tight", strip=False)
    return {name: literal(text) for name, text in texts.items()}


def literal(text: str) -> Any:
    """The number, truth value or list that a text writes; other texts are words.

    Examples
    --------
    >>> literal("0.5"), literal("true"), literal("none"), literal("tight")
    (0.5, True, None, 'tight')
    """
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return text


def one_character(delimiter: str) -> str:
    r"""The character between cells; ``\t``, as a shell passes it on, is a tab."""
    character = "\t" if delimiter == "\\t" else delimiter
    if len(character) != 1:
        raise CommandError(
            USAGE, f"--read delimiter must be one character, or \\t; got {delimiter!r}."
        )
    return character


def seconds(text: str | None) -> float | None:
    """A duration such as ``60s``, ``5m`` or ``1h``.

    Examples
    --------
    >>> seconds("5m")
    300.0
    """
    if text is None:
        return None
    words = re.fullmatch(r"\s*([0-9.]+)\s*(s|m|min|h|)\s*", text)
    try:
        value = float(words[1]) * SECONDS[words[2]] if words else math.nan
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise CommandError(USAGE, f"{text!r} is no duration: write 60s, 5m or 1h.")
    return value


def whole_number(digits: str, name: str) -> int:
    """The number that digits write; Python refuses to read thousands of them."""
    try:
        return int(digits)
    except ValueError as problem:
        raise CommandError(
            USAGE, f"{name} has a number of {len(digits)} digits: write a smaller one."
        ) from problem


def components(text: str | None) -> int | float | str | None:
    """A number of components, a fraction of the variance below 1, ``all``, or ``auto``."""
    if text is None or text == "all":
        return None
    if text == "auto":
        return text
    try:
        return whole_number(text, "--components") if text.isdecimal() else float(text)
    except ValueError as problem:
        raise CommandError(
            USAGE, f"--components {text!r}: write a number, a fraction such as 0.95, all, or auto."
        ) from problem


def column_list(text: str | None) -> list[str] | None:
    """Names separated by commas."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def kept_columns(text: str | None) -> list[str] | None:
    """Columns to copy: names, or ``all`` (None) for those that are not learned."""
    return None if text == "all" else column_list(text) or []
