"""Inverse transform of a stream: inputs for scores, projected rows, repair of missing values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelstream.arrays.devices import place
from kernelstream.arrays.namespaces import Array, cast, like, namespace_of, to_float64, to_host
from kernelstream.preimages import imputation
from kernelstream.preimages.base import Preimage, Report, remaining
from kernelstream.preimages.ridge import Ridge
from kernelstream.stream.components import Components

if TYPE_CHECKING:
    from kernelstream.stream.stream import Stream


def inverse_transform(stream: Stream, scores: Array, method: Preimage) -> Report:
    """Inputs whose images are near the given scores, in the units of the data."""
    back = Reconstruction(stream.components, method, stream.units)
    _ = back.learned  # once, and not by every thread
    return Report.joined(
        stream.in_pieces(lambda piece: back.report(place(piece, stream.device)), scores)
    )


def project(stream: Stream, X: Array, method: Preimage) -> Array:
    """Rows after projection on the components, back in input space."""
    with np.errstate(over="ignore", invalid="ignore"):
        shown = stream.components
    return inverse_transform(stream, stream.query(shown.scores, X), method).X


def repair(
    stream: Stream,
    X: Array,
    method: Preimage,
    mask: np.ndarray | None = None,
    loss: str = "squared",
) -> imputation.Repaired:
    """Rows with missing values (NaN, or True in the mask) from the components, on the host.

    They are in the units of the data. With ``loss="robust"`` entries that are far off count as
    missing as well.
    """
    scaler, rows = stream.units, to_host(X).astype(float)
    if np.any(np.isinf(rows)):
        raise ValueError("The rows contain infinity: give finite numbers, and NaN for a gap.")
    with np.errstate(over="ignore", invalid="ignore"):
        points = to_host(stream.components.points).astype(float)

    def reconstruct(Z: np.ndarray) -> np.ndarray:
        given = Z if scaler is None else scaler.undo(Z)
        found = to_host(project(stream, like(given, X, X.dtype), method)).astype(float)
        return found if scaler is None else scaler.apply(found)

    # In the units of the kernel, in which columns can be compared.
    scaled = scaler.scaled(rows) if stream.fills else stream.in_units(rows)
    found = imputation.repair(scaled, reconstruct, points, mask, loss)
    if scaler is None:
        return found
    X_found = np.where(found.trust == 1.0, rows, scaler.undo(found.X))
    return replace(found, X=X_found, model=scaler.undo(found.model))


@dataclass(frozen=True)
class Reconstruction:
    """Scores → point of the span → input, in the units of the data."""

    shown: Components
    method: Preimage
    scaler: Any

    @cached_property
    def learned(self) -> Array | None:
        """The map from scores to inputs that was learned with the model, where there is one."""
        shown = self.shown
        if not isinstance(self.method, Ridge) or shown.inputs is None:
            return None
        return self.method.from_moments(
            shown.inputs.covariance, shown.variances, shown.total_variance, shown.weight
        )

    def report(self, scores: Array) -> Report:
        """Inputs for a block of scores, in their type."""
        shown, xp = self.shown, namespace_of(scores)
        held = to_float64(scores) @ xp.matrix_transpose(shown.lift) + shown.mean[None, :]
        coefficients = held @ xp.matrix_transpose(shown.span.factor)
        if self.learned is None or shown.inputs is None:
            report = self.method.report(shown.kernel, shown.points, coefficients)
        else:
            X = to_float64(scores) @ self.learned + shown.inputs.mean[None, :]
            squared_norms = xp.sum(held * held, axis=1)  # coordinates are orthonormal
            points = to_float64(shown.points)
            report = Report.without_search(
                X, remaining(shown.kernel, X, points, coefficients, squared_norms)
            )
        X = report.X if self.scaler is None else self.scaler.undo(report.X)
        distance = cast(report.distance, scores.dtype)
        return replace(report, X=cast(X, scores.dtype), distance=distance)
