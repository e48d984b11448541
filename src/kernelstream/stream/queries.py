"""Queries in bounded pieces, on a GPU too: scores, reconstruction error, inverse transform."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelstream.arrays.devices import move_to_device, place, preferred_rows
from kernelstream.arrays.namespaces import (
    Array,
    all_finite,
    as_dense,
    cast,
    concatenate_rows,
    is_foreign,
    like,
    namespace_of,
    to_float64,
    to_host,
)
from kernelstream.arrays.threads import cores, in_threads
from kernelstream.kernels import Kernel
from kernelstream.preimages.base import Preimage, Report, remaining
from kernelstream.preimages.imputation import Repaired, repair
from kernelstream.preimages.ridge import Ridge
from kernelstream.stream.components import Components

if TYPE_CHECKING:
    from kernelstream.stream.stream import Stream

QUERY_ROWS = 4096  # rows of a query that are worked on at a time, so that memory stays bounded
THREAD_ROWS = 1024  # by each thread


def scaler_of(stream: Stream) -> Any:
    """The numbers that scale rows, those that the rows that wait decide; None: as they are."""
    return stream.scaler if stream.knows_units else stream.caught_up.scaler


def in_units(stream: Stream, X: Array) -> Array:
    """Rows in the units of the kernel."""
    scaler = scaler_of(stream)
    return X if scaler is None else scaler.apply(X)


def kept_rows(stream: Stream) -> np.ndarray | None:
    """Rows that a model has kept, in the units of the data: a sample, or its points."""
    settled = stream.caught_up
    state = settled.begun
    sample = state.basis.row_sample
    rows = sample.held()[0] if sample is not None and len(sample) else state.basis.span.points
    scaling = settled.scaling
    if scaling is not None and not scaling.keeps_columns:
        return None
    rows = to_host(as_dense(rows)).astype(float)
    return np.asarray(stream.in_data_units(rows))


def in_pieces(stream: Stream, function: Callable[[Array], Array], X: Array) -> Array:
    """Apply a function of rows, in the units of the kernel, to pieces of rows of a query.

    Memory stays bounded whatever their number, and threads share the pieces.
    """
    scaler = scaler_of(stream)

    def answer(piece: Array) -> Array:
        return function(place(piece if scaler is None else scaler.apply(piece), stream.device))

    with np.errstate(over="ignore", invalid="ignore"):
        if stream.device is None and not is_foreign(X):
            with one_blas_thread_each(X):
                pieces = in_threads(answer, cut(X, THREAD_ROWS))
        else:
            size = preferred_rows(X, stream.device, 1, QUERY_ROWS)
            pieces = [answer(piece) for piece in cut(X, size)]
        if was_sent(stream, X):
            pieces = [to_host(piece) for piece in pieces]
    result = cast(concatenate_rows(pieces), X.dtype)
    if not all_finite(result):
        raise ValueError(not_finite(stream.components.kernel))
    return result


def not_finite(kernel: Kernel) -> str:
    """What is said of rows that a kernel cannot take."""
    return (
        f"The kernel {kernel} gave values that are not finite on these rows. "
        "Scale the data or choose other kernel parameters."
    )


def one_blas_thread_each(X: Array) -> contextlib.AbstractContextManager[Any]:
    """Threads for the pieces of a query; a few rows are faster without."""
    return cores() if int(X.shape[0]) > THREAD_ROWS else contextlib.nullcontext()


def cut(X: Array, size: int) -> list[Array]:
    """Rows in pieces."""
    n = int(X.shape[0])
    return [X[start : min(start + size, n), :] for start in range(0, n, size)]


def was_sent(stream: Stream, X: Array) -> bool:
    """Whether rows of the host went to a device: the answer then comes back."""
    return stream.device is not None and not is_foreign(X)


def inputs_of(stream: Stream, scores: Array, method: Preimage) -> Report:
    """Inputs whose images are near the given scores, in the units of the data."""
    shown = stream.components
    back = WayBack(shown, method, scaler_of(stream))
    if stream.device is None and not is_foreign(scores):
        _ = back.learned  # once, and not by every thread
        with one_blas_thread_each(scores):
            report = Report.joined(in_threads(back.report, cut(scores, THREAD_ROWS)))
    else:
        pieces = (place(piece, stream.device) for piece in cut(scores, QUERY_ROWS))
        report = Report.joined([back.report(piece) for piece in pieces])
    return move_to_device(report, None) if was_sent(stream, scores) else report


def project(stream: Stream, X: Array, method: Preimage) -> Array:
    """Rows after projection on the components, back in input space."""
    with np.errstate(over="ignore", invalid="ignore"):
        shown = stream.components
    scores = in_pieces(stream, shown.scores, X)
    return inputs_of(stream, scores, method).X


def fill(
    stream: Stream,
    X: Array,
    method: Preimage,
    mask: np.ndarray | None = None,
    loss: str = "squared",
) -> Repaired:
    """Rows whose gaps (NaN, or True in the mask) the components fill, in the units of the data.

    With ``loss="robust"`` entries that are far off count as gaps too. The answer is on the host.
    """
    scaler, rows = scaler_of(stream), to_host(X).astype(float)
    if np.any(np.isinf(rows)):
        raise ValueError("The rows contain infinity: give finite numbers, and NaN for a gap.")
    with np.errstate(over="ignore", invalid="ignore"):
        points = to_host(stream.components.points).astype(float)

    def reconstruct(Z: np.ndarray) -> np.ndarray:
        given = Z if scaler is None else scaler.undo(Z)
        found = to_host(project(stream, like(given, X, X.dtype), method)).astype(float)
        return found if scaler is None else scaler.apply(found)

    # In the units of the kernel, in which columns can be compared.
    gapped = scaler.scaled(rows) if stream.fills else in_units(stream, rows)
    found = repair(gapped, reconstruct, points, mask, loss)
    if scaler is None:
        return found
    X_found = np.where(found.trust == 1.0, rows, scaler.undo(found.X))
    return replace(found, X=X_found, model=scaler.undo(found.model))


@dataclass(frozen=True)
class WayBack:
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
            report = self.method.report(shown.kernel, shown.span.points, coefficients)
        else:
            X = to_float64(scores) @ self.learned + shown.inputs.mean[None, :]
            energy = xp.sum(held * held, axis=1)  # coordinates are orthonormal
            points = to_float64(shown.span.points)
            report = Report.without_search(
                X, remaining(shown.kernel, X, points, coefficients, energy)
            )
        X = report.X if self.scaler is None else self.scaler.undo(report.X)
        distance = cast(report.distance, scores.dtype)
        return replace(report, X=cast(X, scores.dtype), distance=distance)
