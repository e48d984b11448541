"""Pictures of the report: what :mod:`kernelstream.plot` draws, as images inside the page."""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure

from kernelstream import plot
from kernelstream.cli.report.observe import Observed
from kernelstream.estimators import StreamingKernelPCA
from kernelstream.plot.drawing import ACCENT, MOST_KINDS, QUIET, is_ink, set_labels, show_image
from kernelstream.plot.explanations import draw_curves


def picture(
    draw: Callable[[Any], Any],
    alt: str,
    size: tuple[float, float] = (5.6, 3.8),
    shape: tuple[int, int] | None = None,
) -> Markup:
    """An image element with what a function draws.

    Parameters
    ----------
    draw : function
        It gets the Axes: an array of them if there is a shape.
    alt : str
        Text for those who cannot see the picture.
    size : (float, float)
        Width and height in inches.
    shape : (int, int), optional
        Rows and columns of Axes; without it there is one.
    """
    figure = Figure(figsize=size, layout="constrained")
    draw(figure.subplots() if shape is None else figure.subplots(*shape, squeeze=False))
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=150)
    data = base64.b64encode(content.getvalue()).decode()
    return Markup('<img class=picture alt="{}" src="data:image/png;base64,{}">').format(alt, data)


# -- pictures of every report


def scree(model: StreamingKernelPCA) -> Markup:
    """The variance of each component, with certified intervals."""
    return picture(lambda ax: plot.scree(model, ax=ax), "Variance of the components")


def embedding(model: StreamingKernelPCA, observed: Observed | None) -> Markup | None:
    """Rows on components 1 and 2; without rows, the landmarks."""
    if model.n_components_ < 2:
        return None
    if observed is None:
        return picture(lambda ax: plot.basis(model, ax=ax), "Points of the basis")
    color = None if observed.labels is None else colors_of(observed.labels)
    return picture(
        lambda ax: plot.embedding(model, observed.rows, color=color, ax=ax),
        "Rows on components 1 and 2",
    )


def colors_of(labels: Sequence[Any]) -> np.ndarray:
    """Labels as numbers if they are many, or else as the most frequent kinds."""
    words = ["missing" if str(label) in ("", "nan", "None") else str(label) for label in labels]
    count = Counter(words)
    if len(count) > MOST_KINDS:
        try:
            return np.array([np.nan if word == "missing" else float(word) for word in words])
        except ValueError:
            pass
    most = MOST_KINDS if len(count) <= MOST_KINDS else MOST_KINDS - 1
    frequent = {kind for kind, _ in count.most_common(most)}
    return np.array([word if word in frequent else "other" for word in words])


def errors(observed: Observed, limit: float | None) -> Markup:
    """The errors of the sample and the largest of all over time, and the limit for a row."""
    numbers, largest, _ = zip(*observed.largest, strict=True)

    def draw(ax: Any) -> None:
        ax.plot(observed.numbers, observed.errors, ".", color=QUIET, ms=2.5, label="row")
        ax.plot(numbers, largest, ".", color=ACCENT, ms=5, label="largest errors")
        if limit is not None:
            ax.axhline(limit, color=QUIET, ls="--", label="limit of a row")
        ax.set_ylim(bottom=0)
        ax.legend(
            frameon=False,
            fontsize="small",
            ncols=3,
            loc="lower right",
            borderpad=0,
            bbox_to_anchor=(1.0, 1.0),
        )
        set_labels(ax, xlabel="row", ylabel="reconstruction error")

    return picture(draw, "Reconstruction error over time", (11.0, 3.4))


# -- pictures of columns


def curves(components: Sequence[Any]) -> Markup | None:
    """A row of curves for each component, one for each of its columns."""
    components = [component for component in components if component.columns]
    if not components:
        return None
    n_columns = max(len(component.columns) for component in components)

    def draw(axes: Any) -> None:
        for row, component in zip(axes, components, strict=True):
            draw_curves(row, component)
            for ax in row[len(component.columns) :]:
                ax.set_axis_off()

    size = 2.4 * n_columns + 0.6, 2.2 * len(components)
    return picture(draw, "Components along their columns", size, (len(components), n_columns))


# -- pictures of images


def landmarks(model: StreamingKernelPCA, shape: tuple[int, int]) -> Markup:
    """The first landmarks side by side."""
    return picture(
        lambda ax: plot.basis(model, image_shape=shape, n_points=120, ax=ax),
        "Points of the basis",
        (8.0, 5.0),
    )


def largest_errors(observed: Observed, shape: tuple[int, int]) -> Markup:
    """The images with the largest error side by side, on one scale, with their numbers."""
    numbers, _, rows = zip(*observed.largest, strict=True)
    images = np.stack(rows)
    style = {"vmin": images.min(), "vmax": images.max()}
    style["cmap"] = "gray_r" if is_ink(images) else "gray"

    def draw(axes: Any) -> None:
        for ax, number, image in zip(axes[0], numbers, images, strict=True):
            show_image(ax, image.reshape(shape), f"{number:,}", **style)

    alt = "Images with the largest error"
    return picture(draw, alt, (1.1 * len(images), 1.5), (1, len(images)))
