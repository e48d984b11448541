"""Learning curve of a stream: error of rows before they are learned."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelstream.arrays import prints_short, to_host
from kernelstream.estimators import StreamingKernelPCA
from kernelstream.plot.drawing import axes, set_labels


@prints_short
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
    return set_labels(ax, title, xlabel="rows learned", ylabel="mean error")
