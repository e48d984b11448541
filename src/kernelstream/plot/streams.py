"""Pictures of a stream: how it was learned, and how it was watched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelstream.backends.arrays import to_host
from kernelstream.estimators.pca import StreamingKernelPCA
from kernelstream.plot.drawing import ACCENT, INK, QUIET, axes, plainly


@dataclass(frozen=True)
class LearningCurve:
    """How a stream was learned: errors of rows that the model had not seen yet.

    Attributes
    ----------
    rows : array of shape (b,)
        Rows learned before each block.
    error : array of shape (b,)
        Mean reconstruction error of the block, before it was learned.
    n_points : array of shape (b,)
        Points of the basis at that time.
    """

    rows: np.ndarray
    error: np.ndarray
    n_points: np.ndarray


def follow(model: StreamingKernelPCA, blocks: Iterable[Any]) -> LearningCurve:
    """Learn blocks of rows, judging each before it is learned.

    Parameters
    ----------
    model : StreamingKernelPCA
        It is changed: it learns. The first block of a fresh model is only learned.
    blocks : iterable of arrays of shape (n, d)

    Returns
    -------
    LearningCurve

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA
    >>> rng = np.random.default_rng(0)
    >>> model = StreamingKernelPCA(3, basis=40, random_state=0)
    >>> curve = follow(model, (rng.normal(size=(200, 3)) for _ in range(6)))
    >>> curve.rows
    array([ 200,  400,  600,  800, 1000])
    """
    rows, errors, points = [], [], []
    for X in blocks:
        if model.__sklearn_is_fitted__():
            rows.append(model.n_samples_seen_)
            errors.append(float(to_host(model.reconstruction_error(X)).mean()))
            points.append(len(getattr(model, "basis_points_", ())))
        model.partial_fit(X)
    return LearningCurve(np.array(rows), np.array(errors), np.array(points))


def learning_curve(curve: LearningCurve, *, ax: Any = None, label: str | None = None) -> Any:
    """Error of rows not seen yet, over the rows of a stream.

    Parameters
    ----------
    curve : LearningCurve
        From :func:`follow`.
    ax : matplotlib Axes, optional
        Those of another curve, to compare.
    label : str, optional
        Name in the legend.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> curve = LearningCurve(np.array([100, 200]), np.array([0.3, 0.2]), np.array([40, 40]))
    >>> learning_curve(curve).get_xlabel()
    'rows learned'
    """
    ax = axes(ax)
    ax.plot(curve.rows, curve.error, "o-", ms=3, lw=1.2, label=label)
    ax.set_ylim(bottom=0)
    if label is not None:
        ax.legend(frameon=False)
    title = "Reconstruction error of rows before they are learned"
    return plainly(ax, title, xlabel="rows learned", ylabel="mean error")


def control_chart(records: Sequence[Any], *, ax: Any = None) -> Any:
    """The index of a monitored stream with its limit; alarms are marked, events shaded.

    Parameters
    ----------
    records : sequence of records
        Of a ``KernelMonitor``, or lines of ``kernelstream monitor`` as dictionaries.
    ax : matplotlib Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> lines = [{"t2": 2.0, "reconstruction_error": e, "limit": 0.5, "alarm": e > 0.5}
    ...          for e in (0.1, 0.2, 0.9)]
    >>> control_chart(lines).get_ylabel()
    'reconstruction error'
    """
    ax = axes(ax)
    of = _field
    lines = [r for r in records if of(r, "error") is None]
    if not lines:
        raise ValueError("There are no records to show.")
    name, words = next(
        (n, w)
        for n, w in (
            ("smoothed", "smoothed index"),
            ("index", "index"),
            ("reconstruction_error", "reconstruction error"),
        )
        if of(lines[0], n) is not None
    )
    number = np.arange(1, len(lines) + 1)
    values = np.array([float(of(r, name)) for r in lines])
    limits = np.array([float(of(r, "limit")) for r in lines])
    alarm = np.array([bool(of(r, "alarm")) for r in lines])
    event = np.array([of(r, "event") is not None for r in lines])
    if event.any():
        ax.fill_between(
            number,
            0,
            1,
            where=event,
            transform=ax.get_xaxis_transform(),
            color=ACCENT,
            alpha=0.12,
            lw=0,
            label="event",
        )
    ax.plot(number, values, color=INK, lw=0.9, label=words)
    ax.plot(number, limits, color=QUIET, lw=1.4, ls="--", label="limit")
    ax.plot(number[alarm], values[alarm], "o", ms=3.5, color=ACCENT, label="alarm")
    positive = values[values > 0]
    if len(positive) == len(values) and values.max() > 20 * np.median(values):
        ax.set_yscale("log")
    ax.legend(frameon=False, ncols=4, fontsize="small", loc="upper left", bbox_to_anchor=(0, 1.12))
    return plainly(ax, xlabel="row", ylabel=words)


def _field(record: Any, name: str) -> Any:
    return record.get(name) if isinstance(record, dict) else getattr(record, name, None)
