"""Commands ``transform``, ``denoise``, ``score``, ``predict``: T², p-values, carried columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from kernelstream.anomaly import KernelNovelty
from kernelstream.cli import options as opt
from kernelstream.cli.explain import cause_words, explained, ranked, row_facts, row_table, strangest
from kernelstream.cli.failures import DATA, MODEL, USAGE, CommandError, report_failures, terminable
from kernelstream.cli.modelfile import Stored, predicts, read, read_kernel_pca, require_apart
from kernelstream.cli.rejects import Rejects
from kernelstream.cli.tables import Writer, format_of
from kernelstream.cli.terminal import Screen, Watch

MOST_CAUSES = 3  # columns that are named behind a row
TOP = 20  # rows that are explained


class To(StrEnum):
    """Formats that can be written."""

    parquet = "parquet"
    csv = "csv"
    arrow = "arrow"
    ndjson = "ndjson"
    npy = "npy"


OutputFile = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="A file; its ending tells the format. Default: stdout."),
]
ToOption = Annotated[
    To | None, typer.Option("--to", help="Format, where the file name does not tell.")
]
Components = Annotated[
    str | None,
    typer.Option(
        help="Of the model's components: the first so many, or those with a share of the variance "
        "such as 0.8. Default: all that it shows."
    ),
]
Columns = dict[str, Any]


@dataclass(frozen=True)
class Query:
    """What these commands are given."""

    model: opt.Model
    sources: opt.Sources
    output: OutputFile = None
    to: ToOption = None
    keep: opt.Keep = None
    columns: opt.Columns = None
    components: Components = None
    rejects: opt.RejectsFile = None
    reading: opt.Reading = opt.AS_IT_COMES
    quiet: opt.Quiet = False
    as_json: opt.Json = False


def transform(query: Query) -> None:
    """Scores of rows on the components: columns pc1, pc2, and so on.

    Examples
    --------
      kernelstream transform model.safetensors data.parquet -o scores.parquet --keep id

      kernelstream transform model.safetensors data.csv --to csv | head
    """

    def scores(stored: Stored, X: np.ndarray) -> Columns:
        return {f"pc{i}": column for i, column in enumerate(stored.estimator.transform(X).T, 1)}

    apply(query, scores, read_kernel_pca)


def denoise(query: Query) -> None:
    """Rows as the model sees them: projected on the components and back (inverse transform).

    Examples
    --------
      kernelstream denoise model.safetensors noisy.parquet -o clean.parquet

      kernelstream denoise model.safetensors noisy.npy -o clean.npy
    """

    def clean_rows(stored: Stored, X: np.ndarray) -> Columns:
        clean = stored.estimator.inverse_transform(stored.estimator.transform(X))
        if stored.schema is not None:  # columns like those of the table, categories as levels
            return stored.schema.decode(clean)
        names = stored.names or [f"x{i}" for i in range(clean.shape[1])]
        return dict(zip(names, clean.T, strict=True))

    apply(query, clean_rows, read_kernel_pca)


def score(
    query: Query,
    top: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Only so many rows, the strangest first, with rank and p-value. "
            f"Default: all in their order, {TOP} with --explain.",
            show_default=False,
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Of these, the columns that make them strange.")
    ] = False,
) -> None:
    """How strange each row is: reconstruction_error (squared, in feature space) and t2.

    t2 is the sum of the squared scores, each divided by the variance of its component. Of a
    detector (fit --novelty): error, p_value (the share of rows like those learned that are as
    strange), novel (1 or 0) and, of novel rows, the columns behind it with their shares.

    Examples
    --------
      kernelstream score model.safetensors data.parquet -o errors.parquet --keep time

      kernelstream score model.safetensors data.parquet --top 20 --explain --keep id

      kernelstream score model.safetensors - < rows.ndjson

      kernelstream score model.safetensors kafka://broker/plant --keep t -o errors.parquet
    """
    if top is not None or explain:
        score_strangest(query, TOP if top is None else top, explain)
        return

    def statistics(stored: Stored, X: np.ndarray) -> Columns:
        estimator = stored.estimator
        if isinstance(estimator, KernelNovelty):
            found = novelty_of(estimator, X)
            if format_of(query.output, None if query.to is None else query.to.value) != "npy":
                names = stored.names or [f"x{i}" for i in range(X.shape[1])]
                found["causes"] = causes_of(estimator, X, found["novel"] == 1, names)
            return found
        variances = np.asarray(estimator.explained_variance_, dtype=float)
        return {
            "reconstruction_error": estimator.reconstruction_error(X),
            "t2": t_squared(estimator.transform(X), variances),
        }

    apply(query, statistics)


def score_strangest(query: Query, top: int, explain: bool) -> None:
    """The strangest rows alone: a table for people, or the file that was asked for."""
    screen, to = Screen(query.as_json, query.quiet), None if query.to is None else query.to.value
    with report_failures(screen.as_json):
        output, shown = query.output, query.output is None and to is None
        format = "ndjson" if shown else format_of(output, to)
        stored = read(query.model)
        read_options = query.reading.of_source(query.columns, keep=query.keep)
        source = stored.open_source(query.sources, {**read_options, "carried_as_text": True})
        require_apart([output, query.rejects], [query.model, *(file.path for file in source.files)])
        with terminable(), Watch(screen, source, "looking at rows") as watch:
            listing = Rejects(query.rejects, 0)
            strange = strangest(stored, source, top, watch, listing)
            listing.close()
        told = explained(stored, strange, MOST_CAUSES) if explain else ranked(stored, strange)
        rows = row_facts(strange, told)
        if not explain:
            rows = [{k: v for k, v in row.items() if k != "causes"} for row in rows]
        if shown:
            screen.result({"rows": rows}, row_table(rows, causes=explain))
            return
        with Writer(output, format) as writer:
            in_words = [
                {k: cause_words(v) if k == "causes" else v for k, v in row.items()} for row in rows
            ]
            writer.write(pa.RecordBatch.from_pylist(in_words))
        if output is not None:
            facts = {"rows": len(rows), "output": str(output)}
            screen.result(facts, f"The {len(rows):,} strangest rows → {output}", output=output)


def predict(query: Query) -> None:
    """What a model of 'fit --target' says of the target: a column with _predicted behind its name.

    Examples
    --------
      kernelstream fit houses.csv -o price.safetensors --target price

      kernelstream predict price.safetensors new.csv -o prices.csv --keep id
    """

    def predictions(stored: Stored, X: np.ndarray) -> Columns:
        found = np.asarray(stored.estimator.predict(X))
        target = stored.target
        name = "target" if target is None else target.name
        if found.ndim == 2:
            return {f"{name}{i}_predicted": column for i, column in enumerate(found.T, 1)}
        return {f"{name}_predicted": found}

    apply(query, predictions, read_predictor)


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


def causes_of(
    detector: KernelNovelty, X: np.ndarray, novel: np.ndarray, names: Sequence[str]
) -> np.ndarray:
    """Of each novel row the columns that are most off: ``b 71 %, a 20 %``; others have none."""
    causes = np.full(len(X), "", dtype=object)
    rows = np.flatnonzero(novel)
    if len(rows):
        values = detector.contributions(X[rows])
        shares = values / np.maximum(values.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        first = np.argsort(-shares, axis=1, kind="stable")[:, :MOST_CAUSES]
        for row, columns, share in zip(rows, first, shares, strict=True):
            causes[row] = ", ".join(f"{names[j]} {100 * share[j]:.0f} %" for j in columns)
    return causes


def t_squared(scores: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Hotelling's T² of rows: squared scores in units of the components' variances."""
    real = variances > 0
    return np.square(scores[:, real].astype(float)) @ (1.0 / variances[real])


def apply(
    query: Query,
    compute: Callable[[Stored, np.ndarray], Columns],
    open_model: Callable[[Path], Stored] = read,
) -> None:
    """Read blocks, compute columns, write them with those that are kept."""
    output, screen = query.output, Screen(query.as_json, query.quiet)
    with report_failures(screen.as_json):
        read_options = query.reading.of_source(query.columns, keep=query.keep)
        format = format_of(output, None if query.to is None else query.to.value)
        stored = open_model(query.model)
        if query.components is not None:
            show(stored, query.components)
        read_options = {**read_options, "carried_as_text": format == "csv"}
        source = stored.open_source(query.sources, read_options)
        require_apart([output, query.rejects], [query.model, *(file.path for file in source.files)])
        bad = 0
        listing = Rejects(query.rejects, 0)
        with terminable(), Writer(output, format) as writer, Watch(screen, source, "rows") as watch:
            for block in source.ahead():
                bad += len(block.bad)
                listing.add(block.bad)
                if len(block):
                    writer.write(join_columns(block.carried, compute(stored, block.X)))
                watch.update(len(block))
            if writer.rows == 0:
                raise CommandError(DATA, "The source holds no good row.")
        listing.close()
        source.close()
        facts = {"rows": writer.rows, "bad_rows": bad, "output": str(output) if output else None}
        if output is not None:
            skipped = f", {bad:,} bad rows passed over" if bad else ""
            words = f"{writer.rows:,} rows{skipped} → {output}"
            screen.result(facts, words, output=output)
        elif bad:
            screen.say(f"{bad:,} bad rows passed over.")


def show(stored: Stored, wanted: str) -> None:
    """Let a model show fewer components, or other ones, than it was fitted to show."""
    if isinstance(stored.estimator, KernelNovelty):
        raise CommandError(USAGE, "A detector judges with the components that it was fitted with.")
    number = opt.components(wanted)
    try:
        stored.estimator.set_params(n_components=number)
    except ValueError as problem:
        raise CommandError(USAGE, f"--components {wanted}: {problem}") from problem


def join_columns(carried: pa.RecordBatch, computed: Columns) -> pa.RecordBatch:
    """Kept columns first, then what was computed; a name that both have is marked."""
    columns: dict[str, Any] = {name: carried.column(name) for name in carried.schema.names}
    for name, values in computed.items():
        fresh = name if name not in columns else f"{name}_model"
        plain = isinstance(values, pa.Array)
        columns[fresh] = values if plain else pa.array(np.ascontiguousarray(values))
    return pa.RecordBatch.from_pydict(columns)
