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
from kernelstream.arrays import evenly_spaced
from kernelstream.cli.report.fit_summary import ColumnComparison
from kernelstream.cli.report.observe import Observed
from kernelstream.estimators import StreamingKernelPCA
from kernelstream.plot.drawing import ACCENT, MOST_KINDS, QUIET, set_labels, show_image
from kernelstream.plot.explanations import draw_curves

ALONG = 12  # images along a component


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


def embedding(model: StreamingKernelPCA, observed: Observed | None) -> list[Markup]:
    """Rows on components 1 and 2, and on 1 and 3; without rows, the landmarks."""
    if model.n_components_ < 2:
        return []
    if observed is None:
        return [picture(lambda ax: plot.basis(model, ax=ax), "Points of the basis")]
    color = None if observed.labels is None else colors_of(observed.labels)

    def rows_on(second: int) -> Markup:
        return picture(
            lambda ax: plot.embedding(
                model, observed.rows, color=color, components=(0, second), ax=ax
            ),
            f"Rows on components 1 and {second + 1}",
        )

    return [rows_on(second) for second in range(1, min(model.n_components_, 3))]


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
    """Mean and largest error of consecutive rows, and the limit for single rows."""

    def draw(ax: Any) -> None:
        n_bins = len(observed.mean_error)
        last = np.minimum(np.arange(1, n_bins + 1) * observed.bin_rows, observed.n_rows)
        ax.plot(last, observed.largest_error, color=QUIET, lw=0.8, label="largest")
        ax.plot(last, observed.mean_error, color=ACCENT, lw=1.4, label="mean")
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


def histograms(columns: Sequence[ColumnComparison]) -> Markup:
    """The distributions of columns in the rows learned (lines) and in these rows (areas)."""
    n_rows = -(-len(columns) // 4)

    def draw(axes: Any) -> None:
        for ax in axes.flat[len(columns) :]:
            ax.set_axis_off()
        for ax, column in zip(axes.flat, columns, strict=False):
            edges = np.histogram_bin_edges(np.concatenate([column.learned, column.these]), 24)
            ax.hist(column.these, edges, density=True, color=ACCENT, alpha=0.5)
            ax.hist(column.learned, edges, density=True, color="black", histtype="step")
            ax.set_yticks([])
            set_labels(ax, column.name)

    return picture(draw, "Distributions of columns", (11.0, 2.0 * n_rows), (n_rows, 4))


# -- pictures of images


def landmarks(model: StreamingKernelPCA, shape: tuple[int, int], cmap: str) -> Markup:
    """The first landmarks side by side."""

    def draw(ax: Any) -> None:
        plot.basis(model, image_shape=shape, n_points=120, ax=ax).images[0].set_cmap(cmap)

    return picture(draw, "Points of the basis", (8.0, 5.0))


def along_components(
    model: StreamingKernelPCA, count: int, shape: tuple[int, int], cmap: str
) -> Markup | None:
    """For each component its pixels, and images from its lowest score to its highest."""
    rows = model.stream_.kept_rows()
    if rows is None:
        return None
    scores = np.asarray(model.transform(rows), dtype=float)
    names = [str(i) for i in range(model.n_features_in_)]
    explained = model.explain_components(n_columns=len(names), feature_names=names)[:count]

    def draw(axes: Any) -> None:
        for line, component, own in zip(axes, explained, scores.T, strict=False):
            weights = np.zeros(len(names))
            for column in component.columns:
                weights[int(column.name)] = column.share
            title = f"pc{component.number}, {component.variance_ratio:.0%}"
            show_image(line[0], weights.reshape(shape), title, cmap="gray")
            order = np.argsort(own, kind="stable")[evenly_spaced(len(own), ALONG)]
            draw_images(line[1:], rows[order], [f"{own[i]:.2g}" for i in order], shape, cmap)

    grid = len(explained), 1 + min(ALONG, len(rows))
    return picture(draw, "Pixels and images along components", (11.0, 1.2 * grid[0]), grid)


def images(
    rows: np.ndarray, titles: Sequence[str], shape: tuple[int, int], cmap: str, alt: str
) -> Markup:
    """Images side by side."""

    def draw(axes: Any) -> None:
        draw_images(axes[0], rows, titles, shape, cmap)

    return picture(draw, alt, (1.1 * len(rows), 1.5), (1, len(rows)))


def draw_images(
    axes: Sequence[Any],
    rows: np.ndarray,
    titles: Sequence[str],
    shape: tuple[int, int],
    cmap: str,
) -> None:
    """Draw an image on each of the Axes, all on one scale so that they can be compared."""
    for ax, row, title in zip(axes, rows, titles, strict=True):
        show_image(ax, row.reshape(shape), title, vmin=rows.min(), vmax=rows.max(), cmap=cmap)


def means(columns: Sequence[ColumnComparison], names: Sequence[str]) -> np.ndarray:
    """The mean image that was learned, that of these rows, and how far they are apart."""
    pairs = {column.name: (column.learned.mean(), column.these.mean()) for column in columns}
    learned, these = np.array([pairs[str(name)] for name in names]).T
    return np.stack([learned, these, np.abs(these - learned)])
