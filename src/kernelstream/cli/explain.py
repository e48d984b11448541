"""Command ``explain``: columns of each component, contributions to rows with the largest error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table

from kernelstream.anomaly import KernelNovelty
from kernelstream.cli.arguments import ExplainArguments
from kernelstream.cli.failures import DATA, CommandError
from kernelstream.cli.modelfile import Stored, read, read_kernel_pca
from kernelstream.cli.rejects import Rejects
from kernelstream.cli.terminal import RowProgress, Screen
from kernelstream.estimators import RowExplanation
from kernelstream.tables import Source

SPARKS = "▁▂▃▄▅▆▇█"
OWN = ("rank", "file", "row", "error", "p_value", "causes")  # a kept column of that name is marked


def explain(given: ExplainArguments, screen: Screen) -> None:
    """Explain components, or the rows with the largest error."""
    if not given.sources:
        stored = read_kernel_pca(given.model)
        require_kept_rows(stored)
        facts = component_facts(stored, given.by)[: given.top]
        screen.result({"components": facts}, component_table(facts))
        return
    stored = read(given.model)
    read_options = given.source_options(given.columns, keep=given.keep)
    source = stored.open_source(given.sources, read_options)
    with RowProgress(screen, source, "rows") as bar:
        largest = rows_of_largest_error(stored, source, given.top, bar)
    facts = row_facts(largest, explained(stored, largest, given.by))
    screen.result({"rows": facts}, row_table(facts))


@dataclass(frozen=True)
class ErrorRow:
    """A row among those of largest error."""

    error: float
    file: str
    row: int
    x: np.ndarray
    carried: dict[str, Any]


def rows_of_largest_error(
    stored: Stored, source: Source, top: int, bar: RowProgress, rejects: Rejects | None = None
) -> list[ErrorRow]:
    """The rows of largest error, the largest first; of equals those that came first."""
    kept: list[ErrorRow] = []
    seen = 0
    for block in source:
        seen += len(block)
        if rejects is not None:
            rejects.add(block.bad)
        if len(block):
            errors = errors_of(stored.estimator, block.X)
            least = kept[-1].error if len(kept) == top else -np.inf
            for i in np.flatnonzero(errors > least):
                carried = block.carried.slice(int(i), 1).to_pylist()[0]
                row = ErrorRow(
                    float(errors[i]), block.file, int(block.rows[i]), block.X[i].copy(), carried
                )
                kept.append(row)
            kept = sorted(kept, key=lambda row: -row.error)[:top]
        bar.update(len(block))
    if not seen:
        raise CommandError(DATA, "The source holds no good row.")
    return kept


def errors_of(estimator: Any, X: np.ndarray) -> np.ndarray:
    """The anomaly scores of rows: of a detector, or the reconstruction error."""
    if isinstance(estimator, KernelNovelty):
        return -np.asarray(estimator.score_samples(X), dtype=float)
    return np.asarray(estimator.reconstruction_error(X), dtype=float)


def explained(stored: Stored, largest: list[ErrorRow], by: int) -> list[RowExplanation]:
    """The columns behind rows, at most so many for each."""
    require_kept_rows(stored)
    X = np.stack([row.x for row in largest])
    return stored.estimator.explain(X, n_columns=by, feature_names=stored.names)


def ranked(stored: Stored, largest: list[ErrorRow]) -> list[RowExplanation]:
    """The p-values of rows alone: against rows held back by a detector, or kept by a model."""
    if not isinstance(stored.estimator, KernelNovelty):
        require_kept_rows(stored)
    shares = stored.estimator.p_values(np.stack([row.x for row in largest]))
    return [RowExplanation(row.error, float(p), ()) for row, p in zip(largest, shares, strict=True)]


def require_kept_rows(stored: Stored) -> None:
    """Fail where the model has kept no rows: then it cannot say what is usual."""
    rows = stored.stream.kept_rows()
    if rows is None or len(rows) < 2:
        raise CommandError(
            DATA,
            "The model has kept no rows to compare with: fit one with a basis of points, such as "
            "--basis 256.",
        )


def row_facts(largest: list[ErrorRow], told: list[RowExplanation]) -> list[dict[str, Any]]:
    """Rank, place, what was kept, error, p-value and causes of each row."""
    return [
        {
            "rank": rank,
            "file": row.file,
            "row": row.row,
            **{f"{name}_kept" if name in OWN else name: v for name, v in row.carried.items()},
            "error": e.error,
            "p_value": e.p_value,
            "causes": [
                {**vars(cause), "actual": None if np.isnan(cause.actual) else cause.actual}
                for cause in e.causes  # a value that is missing has no number
            ],
        }
        for rank, (row, e) in enumerate(zip(largest, told, strict=True), 1)
    ]


def cause_words(causes: list[dict[str, Any]]) -> str:
    """The columns behind a row in words."""
    words = [
        f"{c['name']} is {'missing' if c['actual'] is None else format(c['actual'], '.4g')}, "
        f"expected {c['expected']:.4g} ({c['share']:.0%})"
        for c in causes
    ]
    return "; ".join(words) or "no single column"


def row_table(rows: list[dict[str, Any]], causes: bool = True) -> Table:
    """The same for people."""
    table = Table(
        title="Rows with the largest error", title_style="bold", title_justify="left", box=None
    )
    carried = [name for name in rows[0] if name not in OWN]
    for name in ("", "row", *carried, "error", "p"):
        table.add_column(name, justify="right")
    if causes:
        table.add_column("contributing columns")
    for row in rows:
        table.add_row(
            str(row["rank"]),
            f"{row['file']}:{row['row']}",
            *(str(row[name]) for name in carried),
            f"{row['error']:.4g}",
            f"{row['p_value']:.3g}",
            *([cause_words(row["causes"])] if causes else []),
        )
    return table


def component_table(components: list[dict[str, Any]]) -> Table:
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
    for component in components:
        first = True
        for column in component["columns"]:
            table.add_row(
                str(component["component"]) if first else "",
                f"{component['explained_variance_ratio']:.1%}" if first else "",
                column["name"],
                f"{column['share']:.0%}",
                column["shape"],
                f"{column['slope']:+.3g}",
                sparkline(np.array(column["scores"])),
            )
            first = False
    return table


def component_facts(stored: Stored, by: int) -> list[dict[str, Any]]:
    """The columns behind each component, at most so many."""
    told = stored.estimator.explain_components(n_columns=by, feature_names=stored.names)
    return [
        {
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
        for component in told
    ]


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
