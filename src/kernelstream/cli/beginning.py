"""What a model begins with: columns, scale and width, by a sample of all files or another model."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kernelstream import bases
from kernelstream.backends.draws import generator
from kernelstream.cli.failures import USAGE, CommandError
from kernelstream.cli.modelfile import Stored, read
from kernelstream.cli.terminal import Screen
from kernelstream.estimators.base import new_stream, set_stream
from kernelstream.estimators.pca import StreamingKernelPCA
from kernelstream.kernels import Kernel
from kernelstream.sources import Source
from kernelstream.sources.treatment import few
from kernelstream.stream.queries import scaler_of
from kernelstream.stream.scaling import Filling, Standardisation, dominating
from kernelstream.stream.state import Rows
from kernelstream.stream.stream import Stream

DIGITS = 3  # of numbers that the data decide: the same rows in another format give the same ones


@dataclass(frozen=True)
class Like:
    """Another model, after which a new one is made so that the two can be merged."""

    stored: Stored
    path: Path
    same_points: bool

    @classmethod
    def of(cls, path: Path | None, same_points: bool, given: dict[str, bool]) -> Like | None:
        """The model that ``--like`` names; options that it decides must not be given beside it."""
        if path is None:
            if same_points:
                raise CommandError(USAGE, "--same-points says: those of a model. Name it: --like.")
            return None
        wrong = [f"--{name}" for name, is_given in given.items() if is_given]
        if wrong:
            raise CommandError(
                USAGE, f"{', '.join(wrong)} cannot be given beside --like, which decides that."
            )
        return cls(read(path), path, same_points)

    def begin(self, estimator: StreamingKernelPCA, source: Source) -> None:
        """Let a new model have columns, scale and width of this one, and its points if wanted."""
        stream = self.stored.stream.caught_up
        if self.same_points:
            points = self.stored.estimator.basis_points_
            scaler = scaler_of(stream)
            estimator.basis = bases.Landmarks(points if scaler is None else scaler.undo(points))
        rows = np.empty((1, stream.n_features), source.dtype)
        _set(estimator, source, new_stream(estimator, rows), stream.chain.kernel)
        begun = replace(estimator.stream_, scaling=stream.scaling, scaler=stream.scaler)
        set_stream(estimator, begun)


def begin(estimator: StreamingKernelPCA, source: Source) -> None:
    """Let a model know its columns, and decide scale and width by a uniform sample of all rows.

    A pipe cannot be read twice: there the first rows decide, as in any stream.
    """
    X = source.sampled_rows
    assert X is not None and source.sample is not None
    if source.treatment is not None and source.treatment.fills:
        estimator.missing = "fill"
    kernel = estimator.kernel
    if isinstance(kernel, Kernel) and kernel.needs_names:
        estimator.kernel = kernel.named(source.names)
    if not source.sample.whole or not len(X):
        return _tell_columns(estimator, source)
    rows = Rows(generator(0, "survey").permutation(X))
    stream = new_stream(estimator, rows.X)
    before = stream.chain.kernel
    if stream.scaling is not None:
        stream = stream.with_units(few_digits(stream.scaling.measure(rows)))
    kernel = before
    if not before.fixed:
        with np.errstate(over="ignore", invalid="ignore"):
            kernel = rounded(before, before.fix(stream.scaled(rows.X)))
    _set(estimator, source, stream, kernel)
    return None


def _set(estimator: StreamingKernelPCA, source: Source, stream: Stream, kernel: Kernel) -> None:
    _tell_columns(estimator, source)
    estimator.n_features_in_ = stream.n_features
    set_stream(estimator, stream.with_chain(kernel=kernel))


def _tell_columns(estimator: StreamingKernelPCA, source: Source) -> None:
    treatment = source.treatment
    if treatment is not None and (source.sample is None or source.sample.matrix is None):
        estimator.columns_ = treatment


def significant(value: float) -> float:
    """A number to so many digits.

    Examples
    --------
    >>> significant(0.0528349), significant(1234.5)
    (0.0528, 1230.0)
    """
    if value == 0 or not math.isfinite(value):
        return value
    return float(f"{value:.{DIGITS - 1}e}")


def rounded(rule: Kernel, fixed: Kernel) -> Kernel:
    """A kernel whose numbers, where the data decided them, have few digits."""
    asked, found = rule.get_params(), fixed.get_params()
    decided = {
        name: significant(value)
        for name, value in found.items()
        if isinstance(value, float) and asked.get(name) != value
    }
    return fixed.copy().set_params(**decided) if decided else fixed


def few_digits(scaler: Any) -> Any:
    """A scaling whose numbers have few digits, in units of each column's deviation."""
    if not isinstance(scaler, Standardisation | Filling):
        return scaler
    deviation = np.array([significant(value) for value in scaler.deviation])
    steps = 10.0 ** np.floor(np.log10(deviation) - DIGITS + 1)
    mean = np.round(scaler.mean / steps) * steps
    if isinstance(scaler, Standardisation):
        return Standardisation(mean, deviation)
    examples = (scaler.undo(scaler.examples) - mean) / deviation
    unit = scaler.unit * scaler.deviation / deviation
    return Filling(mean, deviation, unit, examples)


def say_columns(source: Source, estimator: StreamingKernelPCA, screen: Screen) -> None:
    """The short form of what is done with columns, a line for each thing."""
    for line in source.remarks:
        screen.say(line)
    if source.treatment is not None:
        for line in source.treatment.lines():
            if line not in source.remarks:
                screen.say(line)
    line = scale_line(source, estimator)
    if line:
        screen.say(line)


def scale_line(source: Source, estimator: StreamingKernelPCA) -> str:
    """What is done about the scales of columns, in words; nothing where that is nothing."""
    X, stream = source.sampled_rows, getattr(estimator, "_stream", None)
    if X is None or stream is None or not isinstance(stream.scaler, Standardisation | Filling):
        return ""
    scaled = stream.scaler.deviation != 1.0
    largest = [source.names[j] for j in dominating(X)] if len(X) > 1 else []
    why = f" ({few(largest, 3)} would make nine tenths of all distances)" if largest else ""
    if estimator.scale == "auto" and scaled.any():
        return (
            f"Scales differ{why}: {int(scaled.sum())} columns are standardised by a sample of all "
            "files; --no-standardize leaves them as they are."
        )
    if estimator.scale is None and largest:
        return f"Scales differ{why}, and stay as they are."
    return ""
