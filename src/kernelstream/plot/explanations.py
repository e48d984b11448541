"""Plots of explanations: component curves along columns, contributions to the error of a row."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelstream.arrays import to_host
from kernelstream.estimators import RowExplanation, StreamingKernelPCA
from kernelstream.plot.drawing import ACCENT, INK, QUIET, axes, pyplot, set_labels


def component_curves(
    model: StreamingKernelPCA,
    X: Any = None,
    *,
    component: int = 0,
    n_columns: int = 3,
    ax: Any = None,
) -> Any:
    """One component along its main columns, each with its share of the component.

    Parameters
    ----------
    model : StreamingKernelPCA
        A fitted model.
    X : array of shape (n, d), optional
        Rows over which effects are averaged; without any, those that the model has kept.
    component : int
        Which, from 0.
    n_columns : int
        How many columns at most.
    ax : sequence of matplotlib Axes, optional
        One for each column.

    Returns
    -------
    array of Axes
        As many as columns were found.

    See Also
    --------
    kernelstream.StreamingKernelPCA.explain_components : The numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA
    >>> X = np.random.default_rng(0).normal(size=(800, 3)) * [0.4, 2.0, 0.4]
    >>> model = StreamingKernelPCA(1, gamma=0.02, basis=50, random_state=0).fit(X)
    >>> component_curves(model)[0].get_xlabel()
    'x1'
    """
    if not 0 <= component < model.n_components_:
        raise ValueError(f"component must be between 0 and {model.n_components_ - 1}.")
    told = model.explain_components(X, n_columns)[component]
    n = len(told.columns)
    if ax is None:
        style = {"figsize": (min(2.2 + 2.4 * n, 12.0), 2.9), "layout": "constrained"}
        ax = pyplot().subplots(1, n, sharey=True, **style)[1]
    places = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
    if len(places) < n:
        raise ValueError(
            f"{len(places)} Axes were given for {n} columns; ask for n_columns={len(places)}."
        )
    return draw_curves(places[:n], told)


def draw_curves(places: np.ndarray, component: Any) -> np.ndarray:
    """Draw one component along its columns, each on Axes of its own."""
    for place, column in zip(places, component.columns, strict=False):
        place.axhline(0.0, color=QUIET, lw=0.8, ls=":")
        place.plot(column.values, column.scores, "o-", color=ACCENT, ms=3.5, lw=1.6)
        set_labels(place, f"{column.share:.0%}, {column.shape}", xlabel=column.name)
    places[0].set_ylabel(f"mean score of component {component.number}")
    return places


def row_causes(
    model: StreamingKernelPCA,
    x: Any,
    *,
    n_columns: int = 3,
    reference: Any = None,
    ax: Any = None,
) -> Any:
    """The columns behind the error of one row: actual against expected values.

    Values stand where they are among those of other rows, in standard deviations from the mean;
    the grey bars are where nine of ten rows are.

    Parameters
    ----------
    model : StreamingKernelPCA
        A fitted model.
    x : array of shape (d,) or (1, d), or a data frame of one row
        The row.
    n_columns : int
        How many columns at most.
    reference : array of shape (k, d), optional
        Rows that show the usual values and errors; without any, those that the model has kept.
    ax : matplotlib Axes, optional

    Returns
    -------
    Axes

    See Also
    --------
    kernelstream.StreamingKernelPCA.explain : The numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA
    >>> t = np.random.default_rng(0).uniform(-2, 2, size=500)
    >>> X = np.column_stack([t, t**2, np.sin(t)])
    >>> model = StreamingKernelPCA(6, gamma=0.3, basis=60, random_state=0).fit(X)
    >>> row = X[0] + [0.0, 2.0, 0.0]
    >>> [label.get_text() for label in row_causes(model, row).get_yticklabels()]
    ['x1']
    """
    row = x if np.ndim(x) == 2 else np.asarray(x)[None]
    if np.ndim(row) != 2 or len(row) != 1:
        raise ValueError(f"x is one row; got an array of shape {np.shape(x)}.")
    explanation = model.explain(row, n_columns, reference)[0]
    usual = model.stream_.kept_rows() if reference is None else to_host(reference).astype(float)
    assert usual is not None  # explain has used them already
    found = explanation.causes
    if ax is None:
        ax = axes(None, size=(7.5, 1.6 + 0.55 * max(len(found), 1)))
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    names = names or [f"x{i}" for i in range(usual.shape[1])]
    for place, cause in enumerate(found):
        _draw_cause(ax, explanation, place, usual[:, names.index(cause.name)])
    ax.set_yticks(range(len(found)), [cause.name for cause in found])
    if found:
        ax.set_ylim(len(found) - 0.4, -0.6)  # the first column on top
        left, right = ax.get_xlim()
        width = right - left
        ax.set_xlim(left - 0.05 * width, right + 0.9 * width)  # room for the text
        above = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "borderpad": 0.0}
        ax.legend(frameon=False, fontsize="small", ncols=3, **above)
    else:
        ax.text(0.5, 0.5, "no single column is behind it", transform=ax.transAxes, ha="center")
        ax.set_xticks([])
    title = f"error {explanation.error:.3g}, p = {explanation.p_value:.2g}"
    return set_labels(ax, title, xlabel="deviations from the mean of the rows learned")


def _draw_cause(ax: Any, explanation: RowExplanation, place: int, column: np.ndarray) -> None:
    """One column: its usual values as a bar, the expected and the actual one as marks."""
    cause = explanation.causes[place]
    unit, middle = float(np.nanstd(column)) or 1.0, float(np.nanmean(column))
    low, high = (np.nanpercentile(column, (5.0, 95.0)) - middle) / unit
    actual, expected = (cause.actual - middle) / unit, (cause.expected - middle) / unit
    # One entry of the legend each.
    labels = ("nine of ten rows", "expected", "actual") if place == 0 else (None, None, None)
    ax.barh(place, high - low, 0.5, low, color=QUIET, alpha=0.35, label=labels[0])
    ax.plot([expected, actual], [place, place], color=INK, lw=1.0)
    ax.plot(expected, place, "o", mfc="white", mec=INK, ms=8, label=labels[1])
    ax.plot(actual, place, "o", color=ACCENT, ms=8, label=labels[2])
    ax.annotate(
        f"{cause.actual:.4g}, expected {cause.expected:.4g}: {cause.share:.0%} of the error",
        (max(actual, expected, high), place),
        (12, 0),
        textcoords="offset points",
        va="center",
        fontsize="small",
    )
