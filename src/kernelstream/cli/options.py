"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelstream.cli.parameters import column_list, kept_columns


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
SAFETY = "Safety"

Sources = Annotated[
    list[str], typer.Argument(help="Files, folders, globs, or - for the standard input.")
]
Model = Annotated[Path, typer.Argument(help="A model file.")]
Output = Annotated[Path, typer.Option("-o", "--output", help="Where to write.")]
Json = Annotated[bool, typer.Option("--json", help="Result and errors as JSON, for machines.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No progress and no remarks.")]
Columns = Annotated[
    str | None,
    typer.Option(help="Columns to learn: names or patterns, 'a,b,sensor_*'. Default: all numbers."),
]
Exclude = Annotated[str | None, typer.Option(help="Columns to leave out: names or patterns.")]
WeightColumn = Annotated[str | None, typer.Option(help="Column with the weight of each row.")]
Limit = Annotated[int | None, typer.Option(min=1, help="End after so many good rows.")]
Keep = Annotated[
    str | None, typer.Option(help="Columns to carry through: names or patterns, or 'all'.")
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


def reading(
    columns: str | None,
    exclude: str | None,
    limit: int | None,
    on_bad_rows: OnBadRows,
    format: Format | None,
    array: str | None,
    delimiter: str | None,
    header: bool | None,
    weight_column: str | None = None,
    keep: str | None = None,
) -> dict[str, Any]:
    """The options of a command as those of a Source."""
    return dict(
        columns=column_list(columns),
        exclude=column_list(exclude) or [],
        weight_column=weight_column,
        keep=kept_columns(keep),
        on_bad_rows=on_bad_rows.value,
        limit=limit,
        format=None if format is None else format.value,
        array=array,
        delimiter="\t" if delimiter == "\\t" else delimiter,
        header=header,
    )
