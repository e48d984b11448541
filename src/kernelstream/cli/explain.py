"""``explain``: which columns are behind components, and behind the strangest rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from kernelstream.cli import options as opt
from kernelstream.cli.failures import DATA, CommandError, report_failures
from kernelstream.cli.modelfile import Stored, read
from kernelstream.cli.terminal import Screen, Watch
from kernelstream.estimators.explain import ComponentExplanation, RowExplanation
from kernelstream.sources import Source

SPARKS = "▁▂▃▄▅▆▇█"


def explain(
    model: opt.Model,
    sources: Annotated[
        list[str] | None,
        typer.Argument(help="Rows, of which the strangest are explained; without any, components."),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Rows, or components, to explain.")] = 10,
    by: Annotated[int, typer.Option("--by", min=1, help="Columns to name for each.")] = 3,
    keep: opt.Keep = None,
    columns: opt.Columns = None,
    reading: opt.Reading = opt.AS_IT_COMES,
    quiet: opt.Quiet = False,
    as_json: opt.Json = False,
) -> None:
    """Which columns make a component; with rows, which columns make the strangest of them strange.

    Examples
    --------
      kernelstream explain model.safetensors

      kernelstream explain model.safetensors today.parquet --top 20 --keep id
    """
    screen = Screen(as_json, quiet)
    with report_failures(as_json):
        stored = read(model)
        if not sources:
            told = stored.estimator.explain_components(n_columns=by, feature_names=stored.names)[
                :top
            ]
            screen.result({"components": [component_facts(c) for c in told]}, component_table(told))
            return
        read_options = {**reading.of_source(columns, keep=keep), "carried_as_text": True}
        source = stored.open_source(sources, read_options)
        with Watch(screen, source, "looking at rows") as watch:
            strange = strangest(stored, source, top, watch)
        show_rows(stored, strange, by, screen)


@dataclass(frozen=True)
class Strange:
    """A row among those of largest error."""

    error: float
    file: str
    row: int
    x: np.ndarray
    carried: dict[str, Any]


def strangest(stored: Stored, source: Source, top: int, watch: Watch) -> list[Strange]:
    """The rows of largest error, the largest first; of equals those that came first."""
    kept: list[Strange] = []
    seen = 0
    for block in source:
        seen += len(block)
        if len(block):
            errors = np.asarray(stored.estimator.reconstruction_error(block.X))
            least = kept[-1].error if len(kept) == top else -np.inf
            for i in np.flatnonzero(errors > least):
                carried = block.carried.slice(int(i), 1).to_pylist()[0]
                row = Strange(
                    float(errors[i]), block.file, int(block.rows[i]), block.X[i].copy(), carried
                )
                kept.append(row)
            kept = sorted(kept, key=lambda row: -row.error)[:top]
        watch.update(len(block))
    if not seen:
        raise CommandError(DATA, "The source holds no good row.")
    return kept


def show_rows(stored: Stored, strange: list[Strange], by: int, screen: Screen) -> None:
    """Explain rows and print them."""
    X = np.stack([row.x for row in strange])
    told = stored.estimator.explain(X, n_columns=by, feature_names=stored.names)
    facts = [
        {
            "rank": rank,
            "file": row.file,
            "row": row.row,
            **row.carried,
            "error": e.error,
            "p_value": e.p_value,
            "causes": [vars(cause) for cause in e.causes],
        }
        for rank, (row, e) in enumerate(zip(strange, told, strict=True), 1)
    ]
    screen.result({"rows": facts}, row_table(strange, told))


def row_table(strange: list[Strange], told: list[RowExplanation]) -> Table:
    """Rank, place, error, p-value and causes of each row."""
    table = Table(title="Strangest rows", title_style="bold", title_justify="left", box=None)
    carried = list(strange[0].carried) if strange else []
    for name in ("", "row", *carried, "error", "p"):
        table.add_column(name, justify="right")
    table.add_column("columns behind it")
    for rank, (row, e) in enumerate(zip(strange, told, strict=True), 1):
        causes = "; ".join(
            f"{c.name} is {c.actual:.4g}, expected {c.expected:.4g} ({c.share:.0%})"
            for c in e.causes
        )
        table.add_row(
            str(rank),
            f"{row.file}:{row.row}",
            *(str(row.carried[name]) for name in carried),
            f"{e.error:.4g}",
            f"{e.p_value:.3g}",
            causes or "no single column",
        )
    return table


def component_table(told: list[ComponentExplanation]) -> Table:
    """A line a column: its share, shape, slope and curve."""
    table = Table(title="Components", title_style="bold", title_justify="left", box=None)
    for name, justify in (
        ("", "right"),
        ("share", "right"),
        ("column", "left"),
        ("weight", "right"),
        ("shape", "left"),
        ("a unit", "right"),
        ("curve", "left"),
    ):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for component in told:
        first = True
        for c in component.columns:
            table.add_row(
                str(component.number) if first else "",
                f"{component.variance_ratio:.1%}" if first else "",
                c.name,
                f"{c.share:.0%}",
                c.shape,
                f"{c.slope:+.3g}",
                sparkline(c.scores),
            )
            first = False
    return table


def component_facts(component: ComponentExplanation) -> dict[str, Any]:
    """The same for machines."""
    return {
        "component": component.number,
        "explained_variance_ratio": component.variance_ratio,
        "columns": [
            {
                "name": c.name,
                "share": c.share,
                "shape": c.shape,
                "slope": c.slope,
                "values": c.values.tolist(),
                "scores": c.scores.tolist(),
            }
            for c in component.columns
        ],
    }


def sparkline(values: np.ndarray) -> str:
    """A curve in one line of text.

    Examples
    --------
    >>> import numpy as np
    >>> sparkline(np.array([0.0, 1.0, 2.0, 1.0]))
    '▁▅█▅'
    """
    height = float(np.ptp(values)) or 1.0
    levels = np.round((values - values.min()) / height * (len(SPARKS) - 1)).astype(int)
    return "".join(SPARKS[level] for level in levels)
