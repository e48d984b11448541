"""The pictures of the report, in Bokeh."""

from __future__ import annotations

from typing import Any

import numpy as np
from bokeh.models import (
    ColumnDataSource,
    HoverTool,
    LinearColorMapper,
    NumeralTickFormatter,
)
from bokeh.models.annotations import ColorBar
from bokeh.palettes import Category10, Category20, Viridis256
from bokeh.plotting import figure

from kernelstream.backends.arrays import to_host
from kernelstream.estimators.pca import StreamingKernelPCA
from kernelstream.plot.drawing import ACCENT, INK, QUIET, certified_variances, in_data_units
from kernelstream.report.observe import Observed
from kernelstream.report.thumbnails import data_uri, grey_levels

MOST_COMPONENTS = 40
MOST_KINDS = 20
THUMBNAIL = 32  # pixels across in the hover of the embedding: the page stays small


def blank(**options: Any) -> Any:
    """A figure in the style of the page."""
    made = figure(
        sizing_mode="stretch_width",
        height=360,
        toolbar_location="above",
        active_drag=None,  # a finger on a phone scrolls the page, not the plot
        **options,
    )
    made.toolbar.logo = None
    made.outline_line_color = None
    made.grid.grid_line_color = "#eceef1"
    for axis in made.axis:
        axis.axis_line_color = QUIET
        axis.minor_tick_line_color = None
        axis.major_tick_line_color = QUIET
        axis.major_label_text_color = INK
        axis.axis_label_text_font_style = "normal"
    return made


def scree(model: StreamingKernelPCA) -> Any:
    """Share of the variance of each component, with what is certain about it."""
    shares = np.asarray(to_host(model.explained_variance_ratio_), dtype=float)[:MOST_COMPONENTS]
    number = np.arange(1, len(shares) + 1)
    intervals = certified_variances(model, shares=True)
    data: dict[str, Any] = {"number": number, "share": shares, "together": np.cumsum(shares)}
    plot = blank(
        tools="reset,save,pan,box_zoom",
        x_axis_label="component",
        y_axis_label="share of the variance",
        y_range=(0.0, 1.15 * float(max(shares.max(), 1e-12))),
    )
    plot.yaxis.formatter = NumeralTickFormatter(format="0.[0] %")
    tips = [("component", "@number"), ("share", "@share{0.00 %}"), ("together", "@together{0.0 %}")]
    if intervals is not None:
        data["low"], data["high"] = intervals[: len(shares)].T
        tips.append(("certainly between", "@low{0.00 %} and @high{0.00 %}"))
    source = ColumnDataSource(data)
    bars = plot.vbar("number", top="share", width=0.7, color=ACCENT, alpha=0.75, source=source)
    if intervals is not None:
        plot.segment("number", "low", "number", "high", color=INK, line_width=2, source=source)
        plot.y_range.end = 1.1 * float(max(shares.max(), data["high"].max()))
    plot.add_tools(HoverTool(renderers=[bars], tooltips=tips, mode="vline"))
    return plot


def embedding(
    model: StreamingKernelPCA, observed: Observed | None, image_shape: tuple[int, int] | None
) -> Any | None:
    """Rows (or the points of the basis) on the first two components, to hover over."""
    points = getattr(model, "basis_points_", None)
    if points is None and observed is None:
        return None
    if observed is not None:
        rows, numbers = observed.rows, observed.numbers
    else:
        rows = in_data_units(model, to_host(points))
        numbers = np.arange(1, len(rows) + 1)
    scores = np.asarray(model.transform(rows), dtype=float)
    second = scores[:, 1] if scores.shape[1] > 1 else np.zeros(len(scores))
    data: dict[str, Any] = {
        "x": scores[:, 0],
        "y": second,
        "number": numbers,
        "error": np.asarray(model.reconstruction_error(rows), dtype=float),
    }
    tips = [("row" if observed is not None else "point", "@number"), ("error", "@error{0.0000}")]
    for i in range(min(scores.shape[1], 3)):
        data[f"pc{i + 1}"] = scores[:, i]
        tips.append((f"pc{i + 1}", f"@pc{i + 1}{{0.000}}"))
    plot = blank(tools="reset,save,pan,wheel_zoom,box_zoom", x_axis_label="pc1", y_axis_label="pc2")
    labels = None if observed is None else observed.labels
    tooltips: Any = tips
    if labels is not None:
        data["label"] = [str(label) for label in labels]
        tips.insert(1, ("colour", "@label"))
    if image_shape is not None:
        step = -(-max(image_shape) // THUMBNAIL)
        images = grey_levels(rows.astype(float)).reshape(-1, *image_shape)[:, ::step, ::step]
        data["image"] = [data_uri(image) for image in images]
        lines = "".join(f"<div>{name}: {text}</div>" for name, text in tips)
        tooltips = f'<img src="@image{{safe}}" width="72" style="image-rendering:pixelated">{lines}'
    marks = [draw(plot, data)] if labels is None else draw_by_label(plot, data, labels)
    plot.add_tools(HoverTool(renderers=marks, tooltips=tooltips))
    return plot


def draw(plot: Any, data: dict[str, Any]) -> Any:
    """All marks in one colour."""
    return plot.scatter(
        "x", "y", size=5, color=ACCENT, alpha=0.55, line_color=None, source=ColumnDataSource(data)
    )


def draw_by_label(plot: Any, data: dict[str, Any], labels: list[Any]) -> list[Any]:
    """Marks coloured by number or by kind; the legend is the page's, it must wrap on a phone."""
    colours = colours_of_kinds(labels)
    if colours is None:
        return [draw_by_number(plot, data, labels)]
    marks = []
    for kind, colour in colours.items():
        of_kind = np.array([str(label) == kind for label in labels])
        part = {name: np.asarray(values)[of_kind] for name, values in data.items()}
        marks.append(
            plot.scatter(
                "x",
                "y",
                size=5,
                color=colour,
                alpha=0.65,
                line_color=None,
                source=ColumnDataSource(part),
            )
        )
    return marks


def colours_of_kinds(labels: list[Any]) -> dict[str, str] | None:
    """A colour for each kind of label; None where there are too many kinds."""
    kinds = sorted({str(label) for label in labels}, key=by_number)
    if len(kinds) > MOST_KINDS:
        return None
    palette = Category10[10] if len(kinds) <= 10 else Category20[20]
    return dict(zip(kinds, palette, strict=False))


def draw_by_number(plot: Any, data: dict[str, Any], labels: list[Any]) -> Any:
    """Marks on a scale of colours; labels that are no numbers are refused."""
    try:
        values = np.array([float(label) for label in labels])
    except (TypeError, ValueError) as problem:
        raise ValueError(
            f"The labels have more than {MOST_KINDS} kinds and are no numbers: colour by a column "
            "with fewer kinds, or by numbers."
        ) from problem
    data["value"] = values
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 1.0)
    mapper = LinearColorMapper(palette=Viridis256, low=low, high=high)
    marks = plot.scatter(
        "x",
        "y",
        size=5,
        color={"field": "value", "transform": mapper},
        alpha=0.7,
        line_color=None,
        source=ColumnDataSource(data),
    )
    plot.add_layout(ColorBar(color_mapper=mapper, width=10), "right")
    return marks


def by_number(text: str) -> tuple[int, float, str]:
    """The key of an order: numbers in theirs, then words in theirs."""
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text


def errors(observed: Observed) -> Any:
    """Mean and largest error of each stretch of rows."""
    last = np.minimum(
        np.arange(1, len(observed.mean_error) + 1) * observed.bin_rows, observed.n_rows
    )
    source = ColumnDataSource(
        {"row": last, "mean": observed.mean_error, "largest": observed.largest_error}
    )
    plot = blank(tools="reset,save,pan,box_zoom", x_axis_label="row", y_axis_label="error")
    plot.xaxis.formatter = NumeralTickFormatter(format="0,0")
    plot.line("row", "largest", color=QUIET, source=source, legend_label="largest")
    line = plot.line("row", "mean", color=ACCENT, line_width=2, source=source, legend_label="mean")
    plot.legend.location = "top_left"
    plot.legend.orientation = "horizontal"
    plot.y_range.start = 0
    tips = [("up to row", "@row{0,0}"), ("mean", "@mean{0.0000}"), ("largest", "@largest{0.0000}")]
    plot.add_tools(HoverTool(renderers=[line], tooltips=tips, mode="vline"))
    return plot
