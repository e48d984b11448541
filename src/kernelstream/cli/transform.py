"""Commands ``transform``, ``score``, ``predict``: scores, T², p-values, predictions by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from kernelstream.anomaly import KernelNovelty
from kernelstream.cli.arguments import (
    PredictArguments,
    QueryArguments,
    ScoreArguments,
    TransformArguments,
)
from kernelstream.cli.failures import DATA, CommandError, terminable
from kernelstream.cli.modelfile import SCORES, Stored, read, require_apart
from kernelstream.cli.rejects import Rejects
from kernelstream.cli.tables import Writer, format_of
from kernelstream.cli.terminal import RowProgress, Screen

Columns = dict[str, Any]


def transform(given: TransformArguments, screen: Screen) -> None:
    """Write the scores of rows, or denoised rows."""
    apply(given, denoised if given.denoise else scores, screen, "kernel PCA")


def scores(stored: Stored, X: np.ndarray) -> Columns:
    """The scores of rows on the components."""
    return {f"pc{i}": column for i, column in enumerate(stored.estimator.transform(X).T, 1)}


def denoised(stored: Stored, X: np.ndarray) -> Columns:
    """Rows projected on the components, in the units of the columns."""
    clean = stored.estimator.inverse_transform(stored.estimator.transform(X))
    if stored.schema is not None:  # columns like those of the table, categories as levels
        return stored.schema.decode(clean)
    return dict(zip(stored.column_names, clean.T, strict=True))


def score(given: ScoreArguments, screen: Screen) -> None:
    """Write the anomaly scores of rows."""
    is_table = format_of(given.output, given.to) != "npy"

    def statistics(stored: Stored, X: np.ndarray) -> Columns:
        if not isinstance(stored.estimator, KernelNovelty):
            return errors_and_t2(stored, X)
        columns = p_values(stored, X)
        if is_table:  # a NumPy file holds numbers only
            columns["causes"] = contributing_columns(stored, X, columns["novel"] == 1)
        return columns

    apply(given, statistics, screen, *SCORES)


def errors_and_t2(stored: Stored, X: np.ndarray) -> Columns:
    """Reconstruction errors, and Hotelling's T² (squared scores in units of the variances)."""
    Z = stored.estimator.transform(X).astype(float)
    variances = np.asarray(stored.estimator.explained_variance_, dtype=float)
    real = variances > 0
    return {
        "reconstruction_error": stored.estimator.reconstruction_error(X),
        "t2": np.square(Z[:, real]) @ (1.0 / variances[real]),
    }


def p_values(stored: Stored, X: np.ndarray) -> Columns:
    """Errors and p-values of a detector, and which rows are novel."""
    detector = stored.estimator
    return {
        "error": -detector.score_samples(X),
        "p_value": detector.p_values(X),
        "novel": (detector.predict(X) == -1).astype(np.int64),
    }


def contributing_columns(stored: Stored, X: np.ndarray, novel: np.ndarray) -> np.ndarray:
    """The three columns that contribute most to each novel row, such as ``b 71 %, a 20 %``."""
    causes = np.full(len(X), "", dtype=object)
    if novel.any():
        causes[novel] = [
            ", ".join(f"{name} {100 * fraction:.0f} %" for name, fraction in largest)
            for largest in largest_contributions(stored, X[novel], 3)
        ]
    return causes


def largest_contributions(stored: Stored, X: np.ndarray, top: int) -> list[list[tuple[str, float]]]:
    """The columns that contribute most to the error of each row, with their fractions of it."""
    values = stored.estimator.contributions(X)
    fractions = values / np.maximum(values.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    order = np.argsort(-fractions, axis=1, kind="stable")[:, :top]
    names = stored.column_names
    return [
        [(names[j], float(row[j])) for j in columns]
        for row, columns in zip(fractions, order, strict=True)
    ]


def predict(given: PredictArguments, screen: Screen) -> None:
    """Write the predicted targets of rows."""
    apply(given, predictions, screen, "prediction")


def predictions(stored: Stored, X: np.ndarray) -> Columns:
    """The predictions, in columns named after the target."""
    predicted = np.asarray(stored.estimator.predict(X))
    name = "target" if stored.target is None else stored.target.name
    if predicted.ndim == 2:
        return {f"{name}{i}_predicted": column for i, column in enumerate(predicted.T, 1)}
    return {f"{name}_predicted": predicted}


def apply(
    given: QueryArguments,
    compute: Callable[[Stored, np.ndarray], Columns],
    screen: Screen,
    *kinds: str,
) -> None:
    """Read blocks, compute columns, write them with those that are kept; ``kinds`` of models."""
    output, format = given.output, format_of(given.output, given.to)
    read_options = given.source_options(given.columns, keep=given.keep)
    stored = read(given.model, *kinds)
    source = stored.open_source(given.sources, read_options)
    require_apart([output, given.rejects], [given.model, *(file.path for file in source.files)])
    listing = Rejects(given.rejects, 0)
    with terminable(), Writer(output, format) as writer, RowProgress(screen, source, "rows") as bar:
        for block in source.ahead():
            listing.add(block.bad)
            if len(block):
                writer.write(join_columns(block.carried, compute(stored, block.X)))
            bar.update(len(block))
        if writer.rows == 0:
            raise CommandError(DATA, "The source holds no good row.")
    listing.close()
    source.close()
    n_invalid = listing.n_rows
    facts = {"rows": writer.rows, "bad_rows": n_invalid, "output": str(output) if output else None}
    skipped = f", {n_invalid:,} bad rows passed over" if n_invalid else ""
    if output is not None:
        screen.result(facts, f"{writer.rows:,} rows{skipped} → {output}", output=output)
    elif n_invalid:
        screen.say(f"{n_invalid:,} bad rows passed over.")


def join_columns(carried: pa.RecordBatch, computed: Columns) -> pa.RecordBatch:
    """Kept columns first, then what was computed; a name that both have is marked."""
    columns: dict[str, Any] = {name: carried.column(name) for name in carried.schema.names}
    for name, values in computed.items():
        fresh = name if name not in columns else f"{name}_model"
        plain = isinstance(values, pa.Array)
        columns[fresh] = values if plain else pa.array(np.ascontiguousarray(values))
    return pa.RecordBatch.from_pydict(columns)
