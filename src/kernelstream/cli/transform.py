"""Commands ``transform``, ``score``, ``predict``: scores, T², p-values, predictions by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kernelstream.anomaly import KernelNovelty
from kernelstream.cli import options as opt
from kernelstream.cli.arguments import (
    PredictArguments,
    QueryArguments,
    ScoreArguments,
    TransformArguments,
)
from kernelstream.cli.explain import (
    cause_words,
    explained,
    ranked,
    row_facts,
    row_table,
    rows_of_largest_error,
)
from kernelstream.cli.failures import DATA, MODEL, USAGE, CommandError, terminable
from kernelstream.cli.modelfile import Stored, predicts, read, read_kernel_pca, require_apart
from kernelstream.cli.rejects import Rejects
from kernelstream.cli.tables import Writer, format_of
from kernelstream.cli.terminal import RowProgress, Screen

MOST_NAMED = 3  # columns that are named for a row
TOP = 20  # rows that are explained


Columns = dict[str, Any]


def transform(given: TransformArguments, screen: Screen) -> None:
    """Write the scores of rows, or denoised rows."""
    apply(given, denoised if given.denoise else scores, screen, read_kernel_pca)


def scores(stored: Stored, X: np.ndarray) -> Columns:
    """The scores of rows on the components."""
    return {f"pc{i}": column for i, column in enumerate(stored.estimator.transform(X).T, 1)}


def denoised(stored: Stored, X: np.ndarray) -> Columns:
    """Rows projected on the components, in the units of the columns."""
    clean = stored.estimator.inverse_transform(stored.estimator.transform(X))
    if stored.schema is not None:  # columns like those of the table, categories as levels
        return stored.schema.decode(clean)
    names = stored.names or [f"x{i}" for i in range(clean.shape[1])]
    return dict(zip(names, clean.T, strict=True))


def score(given: ScoreArguments, screen: Screen) -> None:
    """Write the anomaly scores of rows, or show the rows with the largest ones."""
    if given.top is not None or given.explain:
        score_largest(given, screen)
        return
    is_table = format_of(given.output, given.to) != "npy"

    def statistics(stored: Stored, X: np.ndarray) -> Columns:
        estimator = stored.estimator
        if not isinstance(estimator, KernelNovelty):
            variances = np.asarray(estimator.explained_variance_, dtype=float)
            return {
                "reconstruction_error": estimator.reconstruction_error(X),
                "t2": t_squared(estimator.transform(X), variances),
            }
        columns = novelty_of(estimator, X)
        if is_table:
            names = stored.names or [f"x{i}" for i in range(X.shape[1])]
            columns["causes"] = contributions_of(estimator, X, columns["novel"] == 1, names)
        return columns

    apply(given, statistics, screen)


def score_largest(given: ScoreArguments, screen: Screen) -> None:
    """The rows with the largest error alone: a table for people, or an output file."""
    top, output = TOP if given.top is None else given.top, given.output
    is_shown = output is None and given.to is None
    format = "ndjson" if is_shown else format_of(output, given.to)
    stored = read(given.model)
    read_options = given.source_options(given.columns, keep=given.keep)
    source = stored.open_source(given.sources, read_options)
    require_apart([output, given.rejects], [given.model, *(file.path for file in source.files)])
    with terminable(), RowProgress(screen, source, "rows") as bar:
        listing = Rejects(given.rejects, 0)
        largest = rows_of_largest_error(stored, source, top, bar, listing)
        listing.close()
    explain = given.explain
    explanations = explained(stored, largest, MOST_NAMED) if explain else ranked(stored, largest)
    rows = row_facts(largest, explanations)
    if not explain:
        rows = [{k: v for k, v in row.items() if k != "causes"} for row in rows]
    if is_shown:
        screen.result({"rows": rows}, row_table(rows, causes=explain))
        return
    with Writer(output, format) as writer:
        in_words = [
            {k: cause_words(v) if k == "causes" else v for k, v in row.items()} for row in rows
        ]
        writer.write(pa.RecordBatch.from_pylist(in_words))
    if output is not None:
        facts = {"rows": len(rows), "output": str(output)}
        words = f"The {len(rows):,} rows with the largest error → {output}"
        screen.result(facts, words, output=output)


def predict(given: PredictArguments, screen: Screen) -> None:
    """Write the predicted targets of rows."""
    apply(given, predictions, screen, read_predictor)


def predictions(stored: Stored, X: np.ndarray) -> Columns:
    """The predictions, in columns named after the target."""
    predicted = np.asarray(stored.estimator.predict(X))
    name = "target" if stored.target is None else stored.target.name
    if predicted.ndim == 2:
        return {f"{name}{i}_predicted": column for i, column in enumerate(predicted.T, 1)}
    return {f"{name}_predicted": predicted}


def read_predictor(path: Path) -> Stored:
    """A model that predicts; another one fails, and says what to do."""
    stored = read(path, any_kind=True)
    if not predicts(stored.estimator):
        raise CommandError(
            MODEL,
            f"{path} has no target to predict: fit one with 'kernelstream fit --target COLUMN'.",
        )
    return stored


def novelty_of(detector: KernelNovelty, X: np.ndarray) -> Columns:
    """Errors, p-values and what is flagged."""
    return {
        "error": -detector.score_samples(X),
        "p_value": detector.p_values(X),
        "novel": (detector.predict(X) == -1).astype(np.int64),
    }


def contributions_of(
    detector: KernelNovelty, X: np.ndarray, novel: np.ndarray, names: Sequence[str]
) -> np.ndarray:
    """The columns that contribute most to each novel row: ``b 71 %, a 20 %``; others have none."""
    causes = np.full(len(X), "", dtype=object)
    rows = np.flatnonzero(novel)
    if len(rows):
        values = detector.contributions(X[rows])
        shares = values / np.maximum(values.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        first = np.argsort(-shares, axis=1, kind="stable")[:, :MOST_NAMED]
        for row, columns, share in zip(rows, first, shares, strict=True):
            causes[row] = ", ".join(f"{names[j]} {100 * share[j]:.0f} %" for j in columns)
    return causes


def t_squared(scores: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Hotelling's T² of rows: squared scores in units of the components' variances."""
    real = variances > 0
    return np.square(scores[:, real].astype(float)) @ (1.0 / variances[real])


def apply(
    given: QueryArguments,
    compute: Callable[[Stored, np.ndarray], Columns],
    screen: Screen,
    open_model: Callable[[Path], Stored] = read,
) -> None:
    """Read blocks, compute columns, write them with those that are kept."""
    output, format = given.output, format_of(given.output, given.to)
    read_options = given.source_options(given.columns, keep=given.keep)
    stored = open_model(given.model)
    if given.components is not None:
        use_components(stored, given.components)
    source = stored.open_source(given.sources, read_options)
    require_apart([output, given.rejects], [given.model, *(file.path for file in source.files)])
    n_invalid = 0
    listing = Rejects(given.rejects, 0)
    with terminable(), Writer(output, format) as writer, RowProgress(screen, source, "rows") as bar:
        for block in source.ahead():
            n_invalid += len(block.bad)
            listing.add(block.bad)
            if len(block):
                writer.write(join_columns(block.carried, compute(stored, block.X)))
            bar.update(len(block))
        if writer.rows == 0:
            raise CommandError(DATA, "The source holds no good row.")
    listing.close()
    source.close()
    facts = {"rows": writer.rows, "bad_rows": n_invalid, "output": str(output) if output else None}
    skipped = f", {n_invalid:,} bad rows passed over" if n_invalid else ""
    if output is not None:
        screen.result(facts, f"{writer.rows:,} rows{skipped} → {output}", output=output)
    elif n_invalid:
        screen.say(f"{n_invalid:,} bad rows passed over.")


def use_components(stored: Stored, text: str) -> None:
    """Let a model use fewer components than it was fitted with, or more."""
    if isinstance(stored.estimator, KernelNovelty):
        raise CommandError(USAGE, "A detector scores with the components that it was fitted with.")
    try:
        stored.estimator.set_params(n_components=opt.components(text))
    except ValueError as problem:
        raise CommandError(USAGE, f"--components {text}: {problem}") from problem


def join_columns(carried: pa.RecordBatch, computed: Columns) -> pa.RecordBatch:
    """Kept columns first, then what was computed; a name that both have is marked."""
    columns: dict[str, Any] = {name: carried.column(name) for name in carried.schema.names}
    for name, values in computed.items():
        fresh = name if name not in columns else f"{name}_model"
        plain = isinstance(values, pa.Array)
        columns[fresh] = values if plain else pa.array(np.ascontiguousarray(values))
    return pa.RecordBatch.from_pydict(columns)
