"""Plots of a model: scree plot, scatter plot of scores, contours of a component, landmarks."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelstream.arrays import to_host
from kernelstream.estimators import StreamingKernelPCA
from kernelstream.plot.drawing import (
    ACCENT,
    INK,
    MOST_KINDS,
    QUIET,
    axes,
    is_ink,
    set_labels,
    show_image,
    without_names,
)


def scree(model: StreamingKernelPCA, *, ax: Any = None, n_components: int = 40) -> Any:
    """Variance of each component, and the interval that certainly holds the exact one.

    Parameters
    ----------
    model : StreamingKernelPCA
        A fitted model.
    ax : matplotlib Axes, optional
    n_components : int
        How many to show at most.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA
    >>> X = np.random.default_rng(0).normal(size=(800, 2))
    >>> len(scree(StreamingKernelPCA(4, basis=60, random_state=0).fit(X)).patches)
    4
    """
    ax = axes(ax)
    variances = to_host(model.explained_variance_)[:n_components]
    bounds = model.certificate_.details
    number = np.arange(1, len(variances) + 1)
    ax.bar(number, variances, color=ACCENT, alpha=0.75, width=0.7, label="model")
    if bounds.useful:
        intervals = bounds.eigenvalue_intervals[: len(variances)]
        low, high = intervals.T / model.stream_.components.weight
        style = {"fmt": "none", "ecolor": INK, "capsize": 3, "lw": 1.2}
        ax.errorbar(number, (low + high) / 2, (high - low) / 2, label="exact, certified", **style)
        ax.legend(frameon=False)
    else:
        place = {"transform": ax.transAxes, "ha": "right", "va": "top"}
        ax.text(0.98, 0.95, "no useful certificate", color=QUIET, **place)
    ax.xaxis.get_major_locator().set_params(integer=True)
    share = float(to_host(model.explained_variance_ratio_).sum())
    title = f"{model.n_components_} components, {share:.1%} of the variance"
    return set_labels(ax, title, xlabel="component", ylabel="variance")


def embedding(
    model: StreamingKernelPCA,
    X: Any,
    *,
    color: Any = None,
    components: tuple[int, int] = (0, 1),
    ax: Any = None,
    **style: Any,
) -> Any:
    """Rows on two components.

    Parameters
    ----------
    model : StreamingKernelPCA
    X : array of shape (n, d)
    color : sequence of length n, optional
        Numbers (a scale of colours) or up to twenty kinds (a legend).
    components : (int, int)
        Which two, from 0.
    ax : matplotlib Axes, optional
    **style
        For ``Axes.scatter``.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA
    >>> X = np.random.default_rng(0).normal(size=(300, 4))
    >>> model = StreamingKernelPCA(2, basis=40, random_state=0).fit(X)
    >>> embedding(model, X, color=["left" if x < 0 else "right" for x in X[:, 0]]).get_ylabel()
    'component 2'
    """
    ax = axes(ax)
    first, second = components
    if max(components) >= model.n_components_ or min(components) < 0:
        raise ValueError(
            f"components {components} were asked for, and the model has {model.n_components_}, "
            "counted from 0."
        )
    scores = to_host(model.transform(X))[:, [first, second]]
    style = {"s": 10, "alpha": 0.65, "linewidths": 0, **style}
    # In another order than the given one: no kind lies on top of all the others.
    order = np.random.default_rng(0).permutation(len(scores))
    if color is None:
        ax.scatter(*scores[order].T, color=ACCENT, **style)
    else:
        values = np.asarray(color)
        values = values.astype(str) if values.dtype == object else values  # None is a kind, too
        if values.shape != (len(scores),):
            raise ValueError(
                f"color has {values.size} entries for {len(scores)} rows; it is one number or "
                "name for each."
            )
        _scatter_by_value(ax, scores[order], values[order], style)
    return set_labels(ax, xlabel=f"component {first + 1}", ylabel=f"component {second + 1}")


def _scatter_by_value(
    ax: Any, scores: np.ndarray, values: np.ndarray, style: dict[str, Any]
) -> None:
    kinds = np.unique(values)
    if values.dtype.kind == "f" or (values.dtype.kind in "iu" and len(kinds) > MOST_KINDS):
        marks = ax.scatter(*scores.T, c=values, cmap="viridis", **style)
        ax.figure.colorbar(marks, ax=ax)
        return
    if len(kinds) > MOST_KINDS:
        raise ValueError(
            f"color has {len(kinds)} kinds; at most {MOST_KINDS} can be told apart. Give numbers, "
            "or fewer kinds."
        )
    palette = "tab10" if len(kinds) <= 10 else "tab20"
    n_colors = 10 if len(kinds) <= 10 else 20
    marks = ax.scatter(
        *scores.T, c=np.searchsorted(kinds, values), cmap=palette, vmin=0, vmax=n_colors, **style
    )
    handles, _ = marks.legend_elements(num=None)
    beside = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
    ax.legend(handles, map(str, kinds), frameon=False, fontsize="small", **beside)


def contours(
    model: StreamingKernelPCA,
    X: Any = None,
    *,
    component: int = 0,
    ax: Any = None,
) -> Any:
    """Lines of equal score of one component, for rows in the plane.

    Parameters
    ----------
    model : StreamingKernelPCA
        Of rows with two features.
    X : array of shape (n, 2), optional
        Rows to show, and to span the picture; without any, the points of the basis do.
    component : int
        Which, from 0.
    ax : matplotlib Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = StreamingKernelPCA(2, basis=40, random_state=0).fit(X)
    >>> contours(model, X, component=1).get_title(loc="left")
    'component 2'
    """
    if model.n_features_in_ != 2:
        raise ValueError(
            f"Contours need rows of two features; this model has {model.n_features_in_}. Use "
            "embedding."
        )
    if not 0 <= component < model.n_components_:
        raise ValueError(f"component must be between 0 and {model.n_components_ - 1}.")
    ax = axes(ax)
    rows = _points(model) if X is None else np.asarray(X)
    low, high = rows.min(axis=0), rows.max(axis=0)
    margin = 0.08 * np.where(high > low, high - low, 1.0)
    a, b = np.linspace(low - margin, high + margin, 120, axis=1)
    grid = np.stack(np.meshgrid(a, b), axis=-1).reshape(-1, 2).astype(rows.dtype)
    scores = to_host(without_names(model).transform(grid))[:, component].reshape(120, 120)
    largest = float(np.abs(scores).max()) or 1.0
    ax.contourf(a, b, scores, 12, cmap="RdBu_r", alpha=0.55, vmin=-largest, vmax=largest)
    ax.contour(a, b, scores, 12, colors=INK, linewidths=0.5)
    ax.scatter(*rows.T, s=6 if X is not None else 16, color=INK, alpha=0.5, linewidths=0)
    names = getattr(model, "feature_names_in_", ("first feature", "second feature"))
    return set_labels(ax, f"component {component + 1}", xlabel=str(names[0]), ylabel=str(names[1]))


def _points(model: StreamingKernelPCA) -> np.ndarray:
    """The points of the basis, in the units of the data."""
    return model.stream_.in_data_units(to_host(model.basis_points_))


def basis(
    model: StreamingKernelPCA,
    X: Any = None,
    *,
    image_shape: tuple[int, int] | None = None,
    ax: Any = None,
    n_points: int = 100,
) -> Any:
    """The points that span the model: as pictures, in the plane, or on the first components.

    Parameters
    ----------
    model : StreamingKernelPCA
    X : array of shape (n, d), optional
        Rows to show behind the points.
    image_shape : (int, int), optional
        Height and width, where rows are images: then the points are shown as pictures.
    ax : matplotlib Axes, optional
    n_points : int
        How many pictures at most.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA
    >>> X = np.random.default_rng(0).normal(size=(300, 16))
    >>> model = StreamingKernelPCA(2, basis=30, random_state=0).fit(X)
    >>> basis(model, image_shape=(4, 4)).get_title(loc="left")
    '30 basis points'
    """
    points = _points(model)
    ax = axes(ax)
    title = f"{len(points)} basis points"
    if image_shape is not None:
        if int(np.prod(image_shape)) != points.shape[1]:
            raise ValueError(
                f"image_shape {image_shape} does not fit rows of {points.shape[1]} values."
            )
        picture = _mosaic(points[:n_points], image_shape)
        return show_image(ax, picture, title, cmap="gray_r" if is_ink(points) else "gray")
    names: Any = ("component 1", "component 2")
    groups = [points] if X is None else [points, np.asarray(X)]
    if model.n_features_in_ == 2:
        names = getattr(model, "feature_names_in_", ("first feature", "second feature"))
    elif model.n_components_ < 2:
        raise ValueError("The model has one component: two are needed to place the points.")
    else:
        bare = without_names(model)
        groups = [to_host(bare.transform(rows))[:, :2] for rows in groups]
    for rows in groups[1:]:
        ax.scatter(*rows.T, s=5, color=QUIET, alpha=0.4, linewidths=0)
    ax.scatter(*groups[0].T, s=24, color=ACCENT, edgecolors="white", linewidths=0.6)
    return set_labels(ax, title, xlabel=str(names[0]), ylabel=str(names[1]))


def _mosaic(images: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Images side by side, a pixel apart, in a rectangle that is a little wide."""
    height, width = shape
    across = max(1, int(np.ceil(np.sqrt(1.6 * len(images) * height / width))))
    down = -(-len(images) // across)
    picture = np.full((down * (height + 1) - 1, across * (width + 1) - 1), np.nan)
    for i, image in enumerate(images):
        top, left = i // across * (height + 1), i % across * (width + 1)
        picture[top : top + height, left : left + width] = image.reshape(shape)
    return picture
