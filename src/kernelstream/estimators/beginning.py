"""What a model of files begins with: columns, scale and width, by a uniform sample of all rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelstream.arrays.draws import generator
from kernelstream.kernels import Kernel
from kernelstream.stream.scaling import Filling, Standardisation
from kernelstream.stream.state import Rows
from kernelstream.stream.stream import Stream

if TYPE_CHECKING:  # it needs Arrow, which is not there for those who have no files
    from kernelstream.tables import Source

DIGITS = 3  # of numbers that the data decide: the same rows in another format give the same ones


def begin(estimator: Any, source: Source) -> None:
    """Let a model know its columns, and decide scale and width by a uniform sample of all rows.

    A pipe cannot be read twice: there the first rows decide, as in any stream.
    """
    X = source.sampled_rows
    assert X is not None and source.sample is not None
    if source.treatment is not None and source.treatment.fills:
        estimator.missing = "fill"
    tell_columns(estimator, source)
    if not source.sample.whole or not len(X):
        return
    rows = Rows(generator(0, "survey").permutation(X))
    stream = estimator.new_stream(rows.X)
    before = stream.chain.kernel
    if stream.scaling is not None:
        stream = stream.with_units(few_digits(stream.scaling.measure(rows)))
    kernel = before
    if not before.fixed:
        with np.errstate(over="ignore", invalid="ignore"):
            kernel = rounded(before, before.fix(stream.scaled(rows.X)))
    set_beginning(estimator, source, stream, kernel)


def set_beginning(estimator: Any, source: Source, stream: Stream, kernel: Kernel) -> None:
    """Let a model begin with a stream and a kernel, and know the columns of a source."""
    tell_columns(estimator, source)
    estimator.n_features_in_ = stream.n_features
    estimator.set_stream(stream.with_chain(kernel=kernel))


def tell_columns(estimator: Any, source: Source) -> None:
    """Let a model know its columns: what is done with them, and their names for its kernel."""
    kernel = estimator.kernel
    if isinstance(kernel, Kernel) and kernel.needs_names:
        estimator.kernel = kernel.named(source.names)
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
