"""Calibration: scaling and bandwidth from a sample of all rows before learning starts.

A stream that is read from files could take them from its first rows, as any stream does; a sample
of all rows is not misled by an order of the rows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelstream.arrays.draws import generator
from kernelstream.kernels import Kernel
from kernelstream.stream.imputation import ImputationState
from kernelstream.stream.scaling import Standardisation
from kernelstream.stream.state import Rows

if TYPE_CHECKING:
    from kernelstream.stream.stream import Stream

DIGITS = 3  # of the numbers: the same rows in another file format give the same ones


def calibrate(stream: Stream, X: np.ndarray) -> Stream:
    """The stream with scaling and kernel parameters fixed by a sample of all rows."""
    if not len(X):
        return stream
    rows = Rows(generator(0, "survey").permutation(X))
    if stream.scaling is not None:
        stream = stream.with_units(few_digits(stream.scaling.measure(rows)))
    kernel = stream.chain.kernel
    if kernel.fixed:
        return stream
    with np.errstate(over="ignore", invalid="ignore"):
        return stream.with_chain(kernel=rounded(kernel, kernel.fix(stream.scaled(rows.X))))


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
    if not isinstance(scaler, Standardisation):
        return scaler
    deviation = np.array([significant(value) for value in scaler.deviation])
    steps = 10.0 ** np.floor(np.log10(deviation) - DIGITS + 1)
    mean = np.round(scaler.mean / steps) * steps
    if not isinstance(scaler, ImputationState):
        return Standardisation(mean, deviation)
    examples = (scaler.undo(scaler.examples) - mean) / deviation
    unit = scaler.unit * scaler.deviation / deviation
    return ImputationState(mean, deviation, unit, examples)
