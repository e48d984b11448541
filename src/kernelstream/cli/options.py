"""Options that several commands share, and the values that their texts mean.

The arguments of a command are a frozen dataclass: a field is an argument or an option, and its type
says which one to typer. Groups of options are base classes. Nothing heavy is imported here, so that
``--help`` answers at once.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from kernelstream.cli.failures import USAGE, CommandError

if TYPE_CHECKING:
    from kernelstream.tables import SchemaOptions

# Options in panels of the help; those for input and experts are shown by --help, but not by -h.
model_option = partial(typer.Option, rich_help_panel="Model")
input_option = partial(typer.Option, rich_help_panel="Input")
expert_option = partial(typer.Option, rich_help_panel="Expert")


def seconds(text: str) -> float:
    """A duration such as ``60s``, ``5m`` or ``1h``.

    Examples
    --------
    >>> seconds("5m")
    300.0
    """
    words = re.fullmatch(r"(\d+|\d*\.\d+)(s|m|h|)", text.strip())
    if words is None:
        raise typer.BadParameter("write 60s, 5m or 1h.")
    return float(words[1]) * {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}[words[2]]


Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE",
        help="Files, folders, patterns, - for the standard input, or a kafka://, mqtt://, opcua:// "
        "or sql: address (with kernelstream-plant).",
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file.")]
Output = Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Output file.")]
Json = Annotated[bool, typer.Option("--json", help="Write results and errors as JSON.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Show no progress and no remarks.")]
Columns = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="Columns to use: names or patterns, 'a,b,sensor_*'."),
]
Exclude = Annotated[
    str | None, typer.Option(metavar="NAMES", help="Columns to exclude: names or patterns.")
]
Keep = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES", help="Columns to copy to the output: names or patterns, or 'all'."
    ),
]
WeightColumn = Annotated[
    str | None, typer.Option(metavar="NAME", help="Column with the weight of each row.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing model.")]
RejectsFile = Annotated[
    Path | None, expert_option(metavar="FILE", help="List skipped rows in this file (NDJSON).")
]
ReadSettings = Annotated[
    list[str] | None,
    input_option(
        metavar="NAME=VALUE",
        help="How text is read, if it is not recognized: delimiter, header (true or false), "
        "encoding, decimal, thousands; dtype (float32, float64). Repeatable.",
    ),
]
Settings = Annotated[
    Path | None,
    input_option(
        metavar="FILE", help="File with users, passwords and certificates of a broker or server."
    ),
]
Database = Annotated[
    str | None,
    input_option(
        metavar="ADDRESS", help="Database of sql: sources: a PostgreSQL address or a file."
    ),
]
Standardize = Annotated[
    bool | None,
    model_option(
        "--standardize/--no-standardize",
        help="Standardize the columns. Default: if their scales differ much.",
    ),
]
Seed = Annotated[int, expert_option(metavar="N", help="Random seed.")]
ParameterSettings = Annotated[
    list[str] | None,
    expert_option(
        "--set",
        metavar="NAME=VALUE",
        help="Another parameter of the estimator, such as certify=tight. Repeatable.",
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
        Literal["error", "skip"], typer.Option(help="Stop at an invalid row, or skip it.")
    ] = "error"
    format: Annotated[
        Literal["parquet", "csv", "arrow", "ndjson", "npy"] | None,
        input_option(help="Input format, if it cannot be inferred from the file name."),
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
        remark = partial(typer.echo, err=True)
        return dict(
            connection=Connection(read_settings(self.settings), self.db, tell=remark),
            columns=column_list(columns),
            exclude=column_list(exclude) or [],
            weight_column=weight_column,
            keep=None if keep == "all" else column_list(keep) or [],
            on_bad_rows=self.on_bad_rows,
            limit=self.limit,
            format=self.format,
            **{name: settings.get(name) for name in ("delimiter", "header", "encoding")},
        )


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """Which columns are learned, and as what."""

    columns: Columns = None
    exclude: Exclude = None
    treat: Annotated[
        str | None,
        input_option(
            metavar="NAME=TYPE,...",
            help="Types of columns: 'zip=category,id=number,note=out'. Names or patterns; number, "
            "boolean, category, codes or out.",
        ),
    ] = None
    missing: Annotated[
        Literal["fill", "bad"],
        input_option(help="Fill missing values, or treat their rows as invalid."),
    ] = "fill"

    def wishes(self, read: list[str] | None) -> SchemaOptions:
        """The same for a Source."""
        from kernelstream.cli.wording import of_shell
        from kernelstream.tables import SchemaOptions

        settings = text_settings(read)
        try:
            return SchemaOptions(
                treat=assignments(column_list(self.treat), "--treat"),
                decimal=settings.get("decimal"),
                thousands=settings.get("thousands"),
                missing=self.missing,
            )
        except ValueError as problem:
            own = {"decimal": "--read decimal", "missing": "--missing"}
            raise CommandError(USAGE, of_shell(str(problem), own)) from problem


@dataclass(frozen=True, kw_only=True)
class CheckpointOptions:
    """What a run that was stopped can be resumed from."""

    checkpoint_every: Annotated[
        float | None,
        expert_option(
            parser=seconds,
            metavar="TIME",
            help="Save a checkpoint beside the output at this interval: 60s, 5m or 1h.",
        ),
    ] = None
    resume: Annotated[
        bool, expert_option("--resume", help="Continue from the checkpoint, if there is one.")
    ] = False
    rejects: RejectsFile = None


def text_settings(pairs: list[str] | None) -> dict[str, Any]:
    r"""The settings of ``--read``.

    Examples
    --------
    >>> text_settings(["delimiter=;", "header=false"])
    {'delimiter': ';', 'header': False}
    """
    settings = assignments(pairs, "--read")
    known = ("decimal", "delimiter", "dtype", "encoding", "header", "thousands")
    for name in settings:
        if name not in known:
            raise CommandError(USAGE, f"--read knows {', '.join(known)}; got {name!r}.")
    delimiter = settings.get("delimiter", ",").replace("\\t", "\t")
    header, dtype = settings.get("header", "true"), settings.get("dtype", "float64")
    is_header = header in ("true", "false")
    if len(delimiter) != 1 or not is_header or dtype not in ("float32", "float64"):
        raise CommandError(
            USAGE,
            f"--read {' '.join(pairs or ())}: a delimiter is one character, or \\t; header is true "
            "or false; dtype is float32 or float64.",
        )
    values = {"delimiter": delimiter, "header": header == "true"}
    return {name: values.get(name, text) for name, text in settings.items()}


def assignments(pairs: Sequence[str] | None, option: str) -> dict[str, str]:
    """Texts ``name=value`` as a dictionary."""
    values = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals:
            raise CommandError(USAGE, f"{option} {pair!r}: write NAME=VALUE.")
        values[name.strip()] = value
    return values


def parameter_settings(pairs: Sequence[str] | None) -> dict[str, Any]:
    """The parameters of ``--set``, whose texts are numbers, truth values, lists or words.

    Examples
    --------
    >>> parameter_settings(["certify=tight", "center=false"])
    {'certify': 'tight', 'center': False}
    """
    return {name: literal(text) for name, text in assignments(pairs, "--set").items()}


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


def components(text: str) -> int | float | str | None:
    """A number of components, a fraction of the variance below 1, ``all``, or ``auto``."""
    value = None if text == "all" else literal(text)
    if value is None or value == "auto" or isinstance(value, int | float):
        return value
    raise CommandError(
        USAGE, f"--components {text!r}: write a number, a fraction such as 0.95, all, or auto."
    )


def column_list(text: str | None) -> list[str] | None:
    """Names separated by commas."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]
