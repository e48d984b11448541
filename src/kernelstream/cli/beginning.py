"""Preparation of a new model: schema, scaling and bandwidth from a sample or from another model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kernelstream import landmarks
from kernelstream.cli.failures import USAGE, CommandError
from kernelstream.cli.modelfile import Stored, read
from kernelstream.cli.terminal import Screen
from kernelstream.estimators import KernelEstimator, StreamingKernelPCA
from kernelstream.stream import ColumnScales
from kernelstream.tables import Schema, Source, calibrate, prepare
from kernelstream.tables.schema import few


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
            points = stream.in_data_units(self.stored.components.points)
            estimator.basis = landmarks.Landmarks(points)
        prepare(estimator, source.names, fills=False)
        rows = np.empty((1, stream.n_features), source.dtype)
        estimator.set_stream(estimator.new_stream(rows).calibrated_like(stream))
        estimator.n_features_in_ = stream.n_features


def begin(estimator: KernelEstimator, source: Source, calibrated: bool = True) -> None:
    """Prepare a fresh estimator for the rows of a source.

    ``calibrated`` takes scaling and kernel parameters from a sample of all rows.
    """
    prepare(estimator, source.names, source.schema is not None and source.schema.fills)
    if calibrated:
        calibrate(estimator, source)


def kept_schema(source: Source) -> Schema | None:
    """The schema that a model of a source keeps; None for arrays, whose columns have no types."""
    is_array = source.sample is not None and source.sample.batch.matrix is not None
    return None if is_array else source.schema


def say_columns(source: Source, estimator: StreamingKernelPCA, screen: Screen) -> None:
    """The short form of what is done with columns, a line for each thing."""
    for line in source.remarks:
        screen.say(line)
    if source.schema is not None:
        for line in source.schema.lines():
            if line not in source.remarks:
                screen.say(line)
    line = scale_line(source, estimator)
    if line:
        screen.say(line)


def scale_line(source: Source, estimator: StreamingKernelPCA) -> str:
    """What is done about the scales of columns, in words; nothing where that is nothing."""
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
