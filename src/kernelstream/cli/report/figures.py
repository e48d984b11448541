"""Bokeh figures of the report: scree plot, scatter plot of scores, error over time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from bokeh.models import (
    ColumnDataSource,
    HoverTool,
    LinearColorMapper,
    NumeralTickFormatter,
)
from bokeh.models.annotations import ColorBar, Span
from bokeh.palettes import Category10, Category20, Viridis256
from bokeh.plotting import figure

from kernelstream.arrays import to_host
from kernelstream.cli.report.observe import Observed
from kernelstream.cli.report.thumbnails import data_uri, grey_levels
from kernelstream.estimators import StreamingKernelPCA
from kernelstream.plot.drawing import ACCENT, QUIET, certified_variances
from kernelstream.plot.models import MOST_KINDS

MOST_COMPONENTS = 40
MOST_CHOSEN = 10  # components that can be chosen for the axes
MARK = 6.0  # size of the marks where no component makes it
OTHER, MISSING = "other", "missing"
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
    made.background_fill_color = made.border_fill_color = None  # that of the page, light or dark
    made.grid.grid_line_color = QUIET
    made.grid.grid_line_alpha = 0.18
    for axis in made.axis:
        axis.axis_line_color = QUIET
        axis.minor_tick_line_color = None
        axis.major_tick_line_color = QUIET
        axis.major_label_text_color = axis.axis_label_text_color = QUIET
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
        plot.segment("number", "low", "number", "high", color=QUIET, line_width=3, source=source)
        for end in ("low", "high"):  # a line without length is seen by its ends
            plot.scatter(
                "number", end, marker="dash", size=11, color=QUIET, line_width=3, source=source
            )
        plot.y_range.end = 1.1 * float(max(shares.max(), data["high"].max()))
    plot.add_tools(HoverTool(renderers=[bars], tooltips=tips, mode="vline", limit=1))
    return plot


def embedding(
    model: StreamingKernelPCA,
    observed: Observed | None,
    image_shape: tuple[int, int] | None,
    ink: bool = False,
) -> Any | None:
    """Rows (or the points of the basis) on two components, to hover over.

    The page chooses which two, and a third for the size of the marks: the numbers of all that can
    be chosen are in the source, under ``pc1``, ``pc2`` and so on.
    """
    points = getattr(model, "basis_points_", None)
    if points is None and observed is None:
        return None
    if observed is not None:
        rows, numbers = observed.rows, observed.numbers
    else:
        rows = model.stream_.in_data_units(to_host(points))
        numbers = np.arange(1, len(rows) + 1)
    scores = np.asarray(model.transform(rows), dtype=float)[:, :MOST_CHOSEN]
    data: dict[str, Any] = {f"pc{i}": column for i, column in enumerate(scores.T, 1)}
    data |= {
        "x": scores[:, 0],
        "y": scores[:, 1] if scores.shape[1] > 1 else np.zeros(len(scores)),
        "size": np.full(len(scores), MARK),
        "kind": np.zeros(len(scores), dtype=int),
        "number": numbers,
        "error": np.asarray(model.reconstruction_error(rows), dtype=float),
    }
    tips = [("row" if observed is not None else "point", "@number"), ("error", "@error{0.0000}")]
    tips += [(f"pc{i}", f"@pc{i}{{0.000}}") for i in range(1, min(scores.shape[1], 3) + 1)]
    plot = blank(
        name="embedding",
        tools="reset,save,pan,wheel_zoom,box_zoom",
        x_axis_label="pc1",
        y_axis_label="pc2",
    )
    labels = None if observed is None else observed.labels
    tooltips: Any = tips
    if labels is not None:
        data["label"] = [str(label) for label in labels]
        tips.insert(1, ("colour", "@label"))
    if image_shape is not None:
        step = -(-max(image_shape) // THUMBNAIL)
        images = grey_levels(rows.astype(float), ink).reshape(-1, *image_shape)[:, ::step, ::step]
        data["image"] = [data_uri(image) for image in images]
        lines = "".join(f"<div>{name}: {text}</div>" for name, text in tips)
        tooltips = f'<img src="@image{{safe}}" width="72" style="image-rendering:pixelated">{lines}'
    marks = draw(plot, data, labels)
    # one row at a time, and one set of marks: the limit counts for each set
    plot.add_tools(HoverTool(renderers=[marks], tooltips=tooltips, limit=1))
    return plot


def draw(plot: Any, data: dict[str, Any], labels: list[Any] | None) -> Any:
    """Marks in one colour, by number, or by kinds, which the page can hide."""
    if labels is not None and are_numbers(labels):
        return draw_by_number(plot, data, labels)
    if labels is None:
        return scatter(plot, data, ACCENT)
    shown = kinds_of(labels)
    group = [kind if kind in shown else OTHER for kind in map(kind_of, labels)]
    place = {kind: i for i, kind in enumerate(shown)}
    data["kind"] = [place[kind] for kind in group]
    data["colour"] = [shown[kind] for kind in group]
    return scatter(plot, data, "colour")


def scatter(plot: Any, data: dict[str, Any], color: Any) -> Any:
    """Marks of rows, which the page finds by the name of their source."""
    source = ColumnDataSource(data, name="embedding-rows")
    style: dict[str, Any] = {"alpha": 0.65, "line_color": None}
    return plot.scatter("x", "y", size="size", color=color, source=source, **style)


def kind_of(label: Any) -> str:
    """A label as the page shows it; what is missing has a name too."""
    missing = label is None or label == "" or (isinstance(label, float) and np.isnan(label))
    return MISSING if missing else str(label)


def are_numbers(labels: list[Any]) -> bool:
    """Whether labels are numbers of more kinds than there are colours."""
    told = {kind_of(label) for label in labels} - {MISSING}
    if len(told) <= MOST_KINDS:
        return False
    try:
        return bool(np.isfinite([float(kind) for kind in told]).any())
    except ValueError:
        return False


def kinds_of(labels: list[Any]) -> dict[str, str]:
    """A colour for each kind: the most frequent ones, one for all others, grey for missing."""
    count = Counter(kind_of(label) for label in labels)
    missing = count.pop(MISSING, 0)
    most = MOST_KINDS if len(count) <= MOST_KINDS else MOST_KINDS - 1
    frequent = sorted((kind for kind, _ in count.most_common(most)), key=by_number)
    palette = Category10[10] if len(frequent) <= 10 else Category20[20]
    colours = dict(zip(frequent, palette, strict=False))
    if len(count) > len(frequent):
        colours[OTHER] = "#b08968"
    if missing:
        colours[MISSING] = "#9aa0a6"
    return colours


def draw_by_number(plot: Any, data: dict[str, Any], labels: list[Any]) -> Any:
    """Marks on a scale of colours, grey where the number is missing."""
    values = np.array([np.nan if kind_of(x) == MISSING else float(x) for x in labels])
    data["value"] = values
    finite = values[np.isfinite(values)]
    mapper = LinearColorMapper(
        palette=Viridis256, low=finite.min(), high=finite.max(), nan_color="#9aa0a6"
    )
    marks = scatter(plot, data, {"field": "value", "transform": mapper})
    bar = ColorBar(color_mapper=mapper, width=10, background_fill_color=None)
    bar.major_label_text_color = QUIET
    plot.add_layout(bar, "right")
    return marks


def by_number(text: str) -> tuple[int, float, str]:
    """The key of an order: numbers in theirs, then words in theirs."""
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text


def errors(observed: Observed, limit: float | None = None) -> Any:
    """Mean and largest error of each stretch of rows, and the limit for single rows."""
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
    if limit is not None:
        plot.add_layout(
            Span(
                location=limit,
                dimension="width",
                line_color=QUIET,
                line_dash="dashed",
                name="limit",
            )
        )
    plot.add_layout(plot.legend[0], "above")  # beside the lines, not on them
    plot.legend.orientation = "horizontal"
    plot.legend.background_fill_alpha = plot.legend.border_line_alpha = 0.0
    plot.legend.padding = plot.legend.margin = 2
    plot.legend.label_text_color = QUIET
    plot.legend.click_policy = "hide"
    plot.y_range.start = 0
    tips = [("up to row", "@row{0,0}"), ("mean", "@mean{0.0000}"), ("largest", "@largest{0.0000}")]
    plot.add_tools(HoverTool(renderers=[line], tooltips=tips, mode="vline", limit=1))
    return plot
