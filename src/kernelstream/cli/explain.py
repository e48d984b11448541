"""Command ``explain``: columns of each component, contributions to rows with the largest error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table

from kernelstream.anomaly import KernelNovelty
from kernelstream.cli.arguments import ExplainArguments
from kernelstream.cli.failures import DATA, CommandError
from kernelstream.cli.modelfile import SCORES, Stored, read
from kernelstream.cli.terminal import RowProgress, Screen, headed_table
from kernelstream.estimators import RowExplanation
from kernelstream.tables import Source


def explain(given: ExplainArguments, screen: Screen) -> None:
    """Explain components, or the rows with the largest error."""
    if not given.sources:
        stored = read(given.model, "kernel PCA")
        require_kept_rows(stored)
        components = stored.estimator.explain_components(
            n_columns=given.by, feature_names=stored.names
        )[: given.top]
        facts = [component_facts(component) for component in components]
        screen.result({"components": facts}, component_table(components))
        return
    stored = read(given.model, *SCORES)
    read_options = given.source_options(given.columns, keep=given.keep)
    source = stored.open_source(given.sources, read_options)
    with RowProgress(screen, source, "rows") as bar:
        largest = rows_of_largest_error(stored, source, given.top, bar)
    require_kept_rows(stored)
    X = np.stack([row.x for row in largest])
    explanations = stored.estimator.explain(X, n_columns=given.by, feature_names=stored.names)
    facts = [row_facts(*entry) for entry in enumerate(zip(largest, explanations, strict=True), 1)]
    screen.result({"rows": facts}, row_table(largest, explanations))


# -- rows


@dataclass(frozen=True)
class ErrorRow:
    """A row among those with the largest error."""

    error: float
    file: str
    row: int
    x: np.ndarray
    kept: dict[str, Any]  # values of the columns of ``--keep``


def rows_of_largest_error(
    stored: Stored, source: Source, top: int, bar: RowProgress
) -> list[ErrorRow]:
    """The rows with the largest error, the largest first; of equals those that came first."""
    largest: list[ErrorRow] = []
    for block in source:
        if len(block):
            errors = errors_of(stored.estimator, block.X)
            least = largest[-1].error if len(largest) == top else -np.inf
            for i in np.flatnonzero(errors > least).tolist():
                kept = block.carried.slice(i, 1).to_pylist()[0]
                place = block.file, int(block.rows[i])
                largest.append(ErrorRow(float(errors[i]), *place, block.X[i].copy(), kept))
            largest = sorted(largest, key=lambda row: -row.error)[:top]
        bar.update(len(block))
    if not largest:
        raise CommandError(DATA, "The source holds no good row.")
    return largest


def errors_of(estimator: Any, X: np.ndarray) -> np.ndarray:
    """The anomaly scores of rows: of a detector, or the reconstruction error."""
    if isinstance(estimator, KernelNovelty):
        return -np.asarray(estimator.score_samples(X), dtype=float)
    return np.asarray(estimator.reconstruction_error(X), dtype=float)


def require_kept_rows(stored: Stored) -> None:
    """Fail where the model has kept no rows: then it cannot say what is usual."""
    rows = stored.stream.kept_rows()
    if rows is None or len(rows) < 2:
        raise CommandError(
            DATA,
            "The model has kept no rows to compare with: fit one with a basis of points, such as "
            "--basis 256.",
        )


def row_facts(rank: int, entry: tuple[ErrorRow, RowExplanation]) -> dict[str, Any]:
    """A row and its explanation, for machines; a kept column whose name is taken is marked."""
    row, explanation = entry
    facts = {
        "rank": rank,
        "file": row.file,
        "row": row.row,
        "error": explanation.error,
        "p_value": explanation.p_value,
        "causes": [
            {**vars(cause), "actual": None if np.isnan(cause.actual) else cause.actual}
            for cause in explanation.causes  # JSON has no number for a missing value
        ],
    }
    return facts | {
        f"{name}_kept" if name in facts else name: value for name, value in row.kept.items()
    }


def row_table(rows: Sequence[ErrorRow], explanations: Sequence[RowExplanation]) -> Table:
    """The same for people."""
    names = ["", "row", *rows[0].kept, "error", "p", "contributing columns"]
    table = headed_table("Rows with the largest error", names, text=names[-1:])
    for rank, (row, explanation) in enumerate(zip(rows, explanations, strict=True), 1):
        causes = [
            f"{c.name} is {'missing' if np.isnan(c.actual) else format(c.actual, '.4g')}, "
            f"expected {c.expected:.4g} ({c.share:.0%})"
            for c in explanation.causes
        ]
        table.add_row(
            str(rank),
            f"{row.file}:{row.row}",
            *map(str, row.kept.values()),
            f"{explanation.error:.4g}",
            f"{explanation.p_value:.3g}",
            "; ".join(causes) or "no single column",
        )
    return table


# -- components


def component_facts(component: Any) -> dict[str, Any]:
    """The columns of a component, for machines."""
    return {
        "component": component.number,
        "explained_variance_ratio": component.variance_ratio,
        "columns": [{**vars(column), "shape": column.shape} for column in component.columns],
    }


def component_table(components: Sequence[Any]) -> Table:
    """A line for each column: its share, shape, slope and curve."""
    names = ["", "share", "column", "weight", "shape", "a unit", "curve"]
    table = headed_table("Components", names, text=("column", "shape", "curve"))
    for component in components:
        first = str(component.number), f"{component.variance_ratio:.1%}"
        for column in component.columns:
            cells = column.name, f"{column.share:.0%}", column.shape, f"{column.slope:+.3g}"
            table.add_row(*first, *cells, sparkline(column.scores))
            first = "", ""
    return table


def sparkline(values: np.ndarray) -> str:
    """A curve in one line of text.

    Examples
    --------
    >>> import numpy as np
    >>> sparkline(np.array([0.0, 1.0, 2.0, 1.0]))
    '▁▅█▅'
    """
    sparks = "▁▂▃▄▅▆▇█"
    height = float(np.ptp(values)) or 1.0
    levels = np.round((values - values.min()) / height * (len(sparks) - 1)).astype(int)
    return "".join(sparks[level] for level in levels)
