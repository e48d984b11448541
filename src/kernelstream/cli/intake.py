"""Intake of tables: schema, scaling and kernel parameters from a random sample of all rows.

Every command that fits or examines a table opens it here, and prepares its estimator here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelstream import tables
from kernelstream.cli.arguments import CheckArguments, FitArguments, PaperArguments
from kernelstream.cli.failures import DATA, CommandError
from kernelstream.cli.modelfile import Stored
from kernelstream.cli.options import text_settings
from kernelstream.cli.terminal import Screen
from kernelstream.estimators import KernelEstimator
from kernelstream.stream import ColumnScales
from kernelstream.tables import Source, calibrate, prepare
from kernelstream.tables.schema import few


def open_table(
    given: CheckArguments | FitArguments | PaperArguments, target: str | None = None
) -> Source:
    """The table that options describe: its schema is inferred from a sample of all rows.

    Parameters
    ----------
    given : CheckArguments, FitArguments or PaperArguments
        The arguments of the command.
    target : str, optional
        Column that is predicted.
    """
    weight_column = getattr(given, "weight_column", None)
    return tables.open_table(
        given.sources,
        **given.source_options(given.columns, given.exclude, weight_column),
        dtype=text_settings(given.read).get("dtype", "auto"),
        schema=given.wishes(given.read),
        target=target,
    )


def prepare_estimator(estimator: KernelEstimator, source: Source, calibrated: bool = True) -> None:
    """Prepare a fresh estimator for the rows of a source.

    ``calibrated`` takes scaling and kernel parameters from a sample of all rows.
    """
    prepare(estimator, source.names, source.schema.fills)
    if calibrated:
        calibrate(estimator, source)


def prepare_like(estimator: KernelEstimator, template: Stored, source: Source) -> None:
    """Give a fresh estimator the columns, scaling and kernel of another model."""
    stream = template.stream.caught_up
    prepare(estimator, source.names, fills=False)
    rows = np.empty((1, stream.n_features), source.dtype)
    estimator.set_stream(estimator.new_stream(rows).calibrated_like(stream))
    estimator.n_features_in_ = stream.n_features


def require_sample(source: Source) -> np.ndarray:
    """The encoded rows of the sample; without any, an error."""
    X = source.sampled_rows
    if source.from_pipe:
        raise CommandError(DATA, "A random sample needs files: a pipe can be read only once.")
    if X is None or not len(X):
        raise CommandError(DATA, "There is no row to learn from.")
    return X


def say_columns(source: Source, estimator: Any, screen: Screen) -> None:
    """Print how columns are handled, a line for each kind."""
    for line in [*source.remarks, *source.schema.lines(), scale_line(source, estimator)]:
        if line:
            screen.say(line)


def scale_line(source: Source, estimator: Any) -> str:
    """How the scales of columns are handled, in words; nothing where they are left alone."""
    X, stream = source.sampled_rows, getattr(estimator, "_stream", None)
    deviation = None if stream is None else getattr(stream.scaler, "deviation", None)
    if X is None or deviation is None:
        return ""
    scaled = deviation != 1.0
    largest = [source.names[j] for j in ColumnScales.of(X).dominating] if len(X) > 1 else []
    why = f" ({few(largest, 3)} would make nine tenths of all distances)" if largest else ""
    rule = estimator.scale.scaling if estimator.fills else estimator.scale
    if rule == "auto" and scaled.any():
        n = int(scaled.sum())
        return (
            f"Scales differ{why}: {n} column{'s are' if n > 1 else ' is'} standardised by a sample "
            "of all files; --no-standardize leaves them as they are."
        )
    if rule is None and largest:
        return f"Scales differ{why}, and stay as they are."
    return ""
