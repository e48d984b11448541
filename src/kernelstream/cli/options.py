"""Shared options of commands: sources, formats, missing values, column types, durations.

A group is a dataclass. A command that takes one has its fields as options: ``flat`` shows typer the
command with the fields of its groups in their place.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from kernelstream.cli import completion, light
from kernelstream.cli.failures import USAGE, CommandError
from kernelstream.cli.wording import of_shell

if TYPE_CHECKING:
    from kernelstream.tables import SchemaOptions


class OnBadRows(StrEnum):
    """What to do with a row that has a missing value, or text for a number."""

    error = "error"
    skip = "skip"


class Format(StrEnum):
    """Formats of sources."""

    parquet = "parquet"
    csv = "csv"
    arrow = "arrow"
    ndjson = "ndjson"
    npy = "npy"
    npz = "npz"


class Number(StrEnum):
    """Types of the rows."""

    auto = "auto"
    float32 = "float32"
    float64 = "float64"


READING = "Reading"
COLUMNS = "Columns"
SAFETY = "Safety"
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}

Sources = Annotated[
    list[str],
    typer.Argument(
        help="Files, folders, globs, - for the standard input, or a kafka://, mqtt://, opcua:// or "
        "sql: address (of kernelstream-plant)."
    ),
]
Model = Annotated[Path, typer.Argument(help="A model file.")]
Output = Annotated[Path, typer.Option("-o", "--output", help="Where to write.")]
Json = Annotated[bool, typer.Option("--json", help="Result and errors as JSON, for machines.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No progress and no remarks.")]
Columns = Annotated[
    str | None,
    typer.Option(
        help="Columns to learn: names or patterns, 'a,b,sensor_*'. Default: see check.",
        autocompletion=completion.columns,
    ),
]
Exclude = Annotated[
    str | None,
    typer.Option(
        help="Columns to leave out: names or patterns.", autocompletion=completion.columns
    ),
]
WeightColumn = Annotated[
    str | None,
    typer.Option(help="Column with the weight of each row.", autocompletion=completion.column),
]
Limit = Annotated[int | None, typer.Option(min=1, help="End after so many good rows.")]
Keep = Annotated[
    str | None,
    typer.Option(
        help="Columns to carry through: names or patterns, or 'all'.",
        autocompletion=completion.columns,
    ),
]
BadRows = Annotated[
    OnBadRows,
    typer.Option("--on-bad-rows", help="A bad row is an error that names it, or is passed over."),
]
RejectsFile = Annotated[
    Path | None, typer.Option("--rejects", help="List rows that were passed over here (NDJSON).")
]
FormatOption = Annotated[
    Format | None,
    typer.Option("--format", help="Where names do not tell.", rich_help_panel=READING),
]
Array = Annotated[
    str | None, typer.Option(help="Which array of .npz archives.", rich_help_panel=READING)
]
Delimiter = Annotated[str | None, typer.Option(help="Of CSV files.", rich_help_panel=READING)]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether CSV files begin with names. Default: unless the first line is all numbers.",
        rich_help_panel=READING,
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        help="Of text: utf-8, utf-16, latin-1, … Default: as it looks.", rich_help_panel=READING
    ),
]
Settings = Annotated[
    Path | None,
    typer.Option(
        help="File with users, passwords and certificates of a broker or server.",
        rich_help_panel=READING,
    ),
]
Database = Annotated[
    str | None,
    typer.Option(
        help="Database of sql: sources; a PostgreSQL address or a file.", rich_help_panel=READING
    ),
]
CheckpointEvery = Annotated[
    str | None,
    typer.Option(
        help="Save model and position so often, '60s' or '5m', beside the output.",
        rich_help_panel=SAFETY,
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume", help="Go on from the checkpoint if there is one.", rich_help_panel=SAFETY
    ),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Replace a model that is there.", rich_help_panel=SAFETY),
]


@dataclass(frozen=True)
class Reading:
    """How sources are read."""

    limit: Limit = None
    on_bad_rows: BadRows = OnBadRows.error
    format: FormatOption = None
    array: Array = None
    delimiter: Delimiter = None
    header: Header = None
    encoding: Encoding = None
    settings: Settings = None
    db: Database = None

    def of_source(
        self,
        columns: str | None = None,
        exclude: str | None = None,
        weight_column: str | None = None,
        keep: str | None = None,
    ) -> dict[str, Any]:
        """These options, and those about columns, as those of a Source."""
        from kernelstream.tables import Connection
        from kernelstream.tables.feeds import read_settings

        return dict(
            connection=Connection(read_settings(self.settings), self.db, tell=remark),
            columns=column_list(columns),
            exclude=column_list(exclude) or [],
            weight_column=weight_column,
            keep=kept_columns(keep),
            on_bad_rows=self.on_bad_rows.value,
            limit=self.limit,
            format=None if self.format is None else self.format.value,
            array=self.array,
            delimiter=one_character(self.delimiter),
            header=self.header,
            encoding=self.encoding,
        )


def remark(text: str) -> None:
    """What a source says while it is read, for people."""
    typer.echo(text, err=True)


AS_IT_COMES = Reading()


class Missing(StrEnum):
    """What a missing value is."""

    fill = "fill"
    bad = "bad"


@dataclass(frozen=True)
class Understanding:
    """What columns are, where they are not understood as they should be."""

    treat: Annotated[
        str | None,
        typer.Option(
            help="What columns are: 'zip=category,when=calendar,id=number,note=out'. "
            "Names or patterns; number, boolean, category, codes, calendar or out.",
            rich_help_panel=COLUMNS,
            autocompletion=completion.uses,
        ),
    ] = None
    decimal: Annotated[
        str | None,
        typer.Option(
            help="Decimal sign of numbers in text, . or , Default: as it looks.",
            rich_help_panel=COLUMNS,
        ),
    ] = None
    thousands: Annotated[
        str | None,
        typer.Option(
            help="Sign between thousands in text. Default: as it looks.", rich_help_panel=COLUMNS
        ),
    ] = None
    missing: Annotated[
        Missing,
        typer.Option(
            help="Missing values are filled by the model, or make their row a bad one.",
            rich_help_panel=COLUMNS,
        ),
    ] = Missing.fill

    def wishes(self) -> SchemaOptions:
        """The same for a Source."""
        from kernelstream.tables import SchemaOptions

        treat = {}
        for item in column_list(self.treat) or []:
            name, equals, use = item.rpartition("=")
            if not equals:
                raise CommandError(USAGE, f"--treat {item!r}: write NAME=KIND, as zip=category.")
            treat[name.strip()] = use.strip()
        try:
            return SchemaOptions(
                treat=treat,
                decimal=self.decimal,
                thousands=self.thousands,
                missing=self.missing.value,
            )
        except ValueError as problem:
            own = {"decimal": "--decimal", "missing": "--missing"}
            raise CommandError(USAGE, of_shell(str(problem), own)) from problem


AS_IT_LOOKS = Understanding()


def one_character(delimiter: str | None) -> str | None:
    r"""What stands between cells; ``\t``, as a shell hands it on, is a tab."""
    character = "\t" if delimiter == "\\t" else delimiter
    if character is not None and len(character) != 1:
        raise CommandError(USAGE, f"--delimiter must be one character, or \\t; got {delimiter!r}.")
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
        value = float(words[1]) * _UNITS[words[2]] if words else math.nan
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise CommandError(USAGE, f"{text!r} is no duration: write 60s, 5m or 1h.")
    return value


def whole_number(digits: str, what: str) -> int:
    """The number that digits write; Python refuses to read thousands of them."""
    try:
        return int(digits)
    except ValueError as problem:
        raise CommandError(
            USAGE, f"{what} has a number of {len(digits)} digits: write a smaller one."
        ) from problem


def components(text: str | None) -> int | float | str | None:
    """A number of components, a share of the variance below 1, ``all``, or ``auto``."""
    if text is None or text == "all":
        return None
    if text == "auto":
        return text
    try:
        return whole_number(text, "--components") if text.isdecimal() else float(text)
    except ValueError as problem:
        raise CommandError(
            USAGE, f"--components {text!r}: write a number, a share such as 0.95, all, or auto."
        ) from problem


def column_list(text: str | None) -> list[str] | None:
    """Names separated by commas."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def kept_columns(text: str | None) -> list[str] | None:
    """Columns to carry through: names, or ``all`` (None) for those that are not learned."""
    return None if text == "all" else column_list(text) or []


def flat(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the fields of its groups as parameters of its own, for typer."""
    parameters = _parameters(command)

    def run(**given: Any) -> None:
        if light.standing_in:
            raise light.RunWanted
        _call(command, given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {name: p.annotation for name, p in parameters.items()}
    run.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    return run


def _parameters(taker: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Parameters of a command or a group, those of groups in the place of the groups."""
    hints = get_type_hints(taker, include_extras=True)
    parameters: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(taker).parameters.items():
        if is_dataclass(hints[name]):
            parameters |= _parameters(hints[name])
        else:
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters[name] = parameter.replace(annotation=hints[name], kind=kind)
    return parameters


def _call(taker: Callable[..., Any], given: dict[str, Any]) -> Any:
    hints = get_type_hints(taker, include_extras=True)
    return taker(
        **{
            name: _call(hints[name], given) if is_dataclass(hints[name]) else given[name]
            for name in inspect.signature(taker).parameters
        }
    )
