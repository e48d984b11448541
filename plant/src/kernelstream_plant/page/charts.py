"""Bokeh charts of a monitor: control charts over time, heat map, sensor trend, score path."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from bokeh.models import (
    ColumnDataSource,
    DataRange1d,
    FactorRange,
    HoverTool,
    LinearColorMapper,
    LogTicker,
    OpenURL,
    TapTool,
)
from bokeh.plotting import figure

from kernelstream.plot import ControlChart, monitor_charts
from kernelstream_plant.operation.history import (
    ALARM,
    COLUMNS,
    HOUR,
    MINUTE,
    SECOND,
    History,
)
from kernelstream_plant.page.frame import label

BLUE, ORANGE, GREEN, GREY, RED = "#3b82c4", "#d9661f", "#2f9e6e", "#8a919c", "#d64545"
MOST_POINTS = 5_000
SIGNED = ("#1d5f9f", "#5b93c9", "#a9c8e6", "#eceff3", "#f3c3a0", "#e58a4a", "#c2540a")


# T² and SPE are parts of the index.
CHARTS = monitor_charts(("smoothed", "lasting", "drift_largest_shift"))


@dataclass(frozen=True)
class Window:
    """A length of time, and the width of the stretches that it is shown by; 0 for rows."""

    seconds: float
    width: float


WINDOWS = {
    "latest rows": Window(np.inf, 0.0),
    "10 minutes": Window(600.0, SECOND),
    "1 hour": Window(HOUR, SECOND),
    "1 day": Window(24 * HOUR, MINUTE),
    "3 days": Window(72 * HOUR, MINUTE),
    "30 days": Window(720 * HOUR, HOUR),
    "2 years": Window(np.inf, HOUR),
}
LATEST_ROWS = 2_000
SHOWN = tuple(
    dict.fromkeys(c for chart in CHARTS for c in (chart.statistic, *chart.limits, chart.dots) if c)
)


def looked_up(
    history: History, window: Window, after: int, last: float | None
) -> tuple[dict[str, Any], int]:
    """What a chart is to show of entries after the first ``after`` of all; and how many there are.

    ``last`` is the time of the entry before: where there is a gap behind it, a break comes first.
    """
    with history.turn:
        ring = history.stretches[window.width] if window.width else history.raw
        most = MOST_POINTS if window.width else LATEST_ROWS
        new = ring.since(after, most)
        at = ring["at"][new].copy()
        where = [COLUMNS.index(name) for name in SHOWN]
        if window.width:
            low, high, mean = (
                ring[name][new][:, where].astype(np.float64) for name in ("low", "high", "mean")
            )
            alarm = ring["alarms"][new] > 0
        else:
            low = high = mean = ring["data"][new][:, where].astype(np.float64)
            alarm = (ring["flags"][new] & ALARM) > 0
        total = ring.total
        usual = max(history.usual_interval(), window.width)
    if len(at) and np.isfinite(window.seconds):
        recent = at > at[-1] - window.seconds
        at, low, high, mean, alarm = (v[recent] for v in (at, low, high, mean, alarm))
    columns: dict[str, np.ndarray] = {"at": local(at), "alarm": np.where(alarm, 1.0, 0.0)}
    for j, name in enumerate(SHOWN):
        columns[name], columns[f"{name}_low"], columns[f"{name}_high"] = (
            mean[:, j],
            low[:, j],
            high[:, j],
        )
    before = at[:1] if last is None or not len(at) else np.array([last])
    gaps = np.flatnonzero(np.abs(np.diff(np.concatenate([before, at]))) > max(5 * usual, 5.0))
    if len(gaps) and len(at):
        for name, values in columns.items():
            filler = columns["at"][gaps] - 1.0 if name == "at" else np.nan
            columns[name] = np.insert(values, gaps, filler)
    shown = columns["index_high"] if "index_high" in columns else columns["smoothed"]
    columns["alarm_at"] = np.where(columns.pop("alarm") > 0, shown, np.nan)
    return columns, total


def local(at: Any) -> Any:
    """Seconds as Bokeh's axes want them: milliseconds, on the clock of this machine's wall."""
    offset = datetime.now().astimezone().utcoffset() or timedelta()
    return (np.asarray(at, dtype=float) + offset.total_seconds()) * 1e3


def empty() -> dict[str, Any]:
    """The columns of a chart without an entry."""
    names = ["at", "alarm_at", *SHOWN, *(f"{n}_low" for n in SHOWN), *(f"{n}_high" for n in SHOWN)]
    return {name: np.empty(0) for name in names}


def blank(title: str, height: int, **options: Any) -> Any:
    """A figure that leaves its colours to the page."""
    made: Any = figure(
        title=title,
        sizing_mode="stretch_width",
        height=height,
        min_width=260,
        toolbar_location=None,
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_color=None,
        **options,
    )
    made.title.text_font_size, made.title.text_font_style = "13px", "normal"
    made.title.text_color = "#5d6675"
    made.grid.grid_line_color = "#8a919c"
    made.grid.grid_line_alpha = 0.35
    if options.get("x_axis_type") == "datetime":
        made.xaxis.ticker.desired_num_ticks = 5
    for axis in made.axis:
        axis.minor_tick_line_color = None
        axis.axis_line_color = axis.major_tick_line_color = "#8a919c"
        axis.major_label_text_color = axis.axis_label_text_color = "#5d6675"
        axis.axis_label_text_font_style = "normal"
    return made


def over_time(source: ColumnDataSource, events: ColumnDataSource, links: bool) -> list[Any]:
    """The charts, one below the other on one time axis; events are shaded, known ones hatched."""
    x_range = DataRange1d(range_padding=0.01)
    made = []
    for number, chart in enumerate(CHARTS):
        plot = blank(
            f"{chart.title}; dots: the {chart.dots} of rows" if chart.dots else chart.title,
            250 if number == 0 else 150,
            x_axis_type="datetime",
            y_axis_type="log" if chart.logarithmic else "linear",
            x_range=x_range,
            tools="xpan,xwheel_zoom,reset" if links else "xpan,xwheel_zoom,box_zoom,reset",
            active_drag=None,  # a finger on a phone scrolls the page, not the chart
            active_scroll=None,
        )
        if chart.logarithmic:
            plot.yaxis.ticker = LogTicker(desired_num_ticks=4)
        spans = shade(plot, events)
        if links:
            to_event = OpenURL(url="/event?id=@id", same_tab=True)
            plot.add_tools(TapTool(renderers=[spans], callback=to_event))
        draw(plot, chart, source)
        made.append(plot)
    return made


def shade(plot: Any, events: ColumnDataSource) -> Any:
    """The times of events."""
    return plot.vstrip(
        x0="begin",
        x1="end",
        source=events,
        fill_color=ORANGE,
        fill_alpha=0.16,
        hatch_pattern="pattern",
        hatch_color=ORANGE,
        hatch_alpha=0.5,
        line_color=None,
    )


def draw(plot: Any, chart: ControlChart, source: ColumnDataSource) -> None:
    """A statistic as a line with its range, single rows as dots, the limits, and all in words."""
    name = chart.statistic
    plot.varea("at", f"{name}_low", f"{name}_high", source=source, color=BLUE, alpha=0.25)
    if chart.dots is not None:
        dots: dict[str, Any] = dict(source=source, line_color=None)
        plot.scatter("at", f"{chart.dots}_high", size=2.5, color=GREY, alpha=0.7, **dots)
        plot.scatter("at", "alarm_at", size=4, color=ORANGE, **dots)
    line = plot.line("at", name, source=source, color=BLUE, line_width=1.8)
    for limit, style in zip(chart.limits, ("solid", "dashed"), strict=False):
        plot.line("at", limit, source=source, color=RED, line_width=1.2, line_dash=style)
    tips = [("time", "@at{%F %T}")]
    tips += [(shown, f"@{shown}{{0.000}}") for shown in (name, *chart.limits)]
    formats: Any = {"@at": "datetime"}
    plot.add_tools(
        HoverTool(renderers=[line], tooltips=tips, formatters=formats, mode="vline", limit=1)
    )


def heat_map(source: ColumnDataSource, mapper: LinearColorMapper, names: list[str]) -> Any:
    """Sensors × time: the root of each contribution, with the sign of the deviation."""
    plot = blank(
        "contributions",
        90 + 20 * max(len(names), 5),
        x_axis_type="datetime",
        y_range=FactorRange(factors=[label(name) for name in reversed(names)]),
        tools="",
    )
    cells = plot.rect(
        "at",
        "name",
        width="width",
        height=0.94,
        source=source,
        line_color=None,
        fill_color={"field": "value", "transform": mapper},
    )
    plot.grid.visible = False
    plot.xaxis.ticker.desired_num_ticks = 3  # names of sensors leave little room on a phone
    tips = [("time", "@at{%F %T}"), ("sensor", "@name"), ("off by", "@size{+0.000}")]
    plot.add_tools(
        HoverTool(renderers=[cells], tooltips=tips, formatters={"@at": "datetime"}, limit=1)
    )
    return plot


def trend(title: str, values: ColumnDataSource, expected: ColumnDataSource, x_range: Any) -> Any:
    """One sensor over an event, with what the others expect as a band."""
    options: dict[str, Any] = {} if x_range is None else {"x_range": x_range}
    plot = blank(label(title), 140, x_axis_type="datetime", tools="", **options)
    plot.varea("at", "low", "high", source=expected, color=GREEN, alpha=0.3)
    plot.line("at", "value", source=values, color=BLUE, line_width=1.5)
    return plot


def score_path(normal: ColumnDataSource, path: ColumnDataSource) -> Any:
    """Rows on the first two components of normal operation, with the way of the event."""
    plot = blank("scores: grey before, orange the event", 300, tools="")
    plot.scatter("x", "y", source=normal, size=4, color=GREY, alpha=0.6, line_color=None)
    plot.line("x", "y", source=path, color=ORANGE, alpha=0.5)
    plot.scatter("x", "y", source=path, size=5, color=ORANGE, line_color=None)
    plot.xaxis.axis_label, plot.yaxis.axis_label = "component 1", "component 2"
    return plot


def signed_mapper(values: np.ndarray) -> LinearColorMapper:
    """Colours from blue through white to orange, the same on both sides."""
    top = float(np.nanmax(np.abs(values))) if values.size and np.isfinite(values).any() else 1.0
    return LinearColorMapper(palette=SIGNED, low=-max(top, 1e-12), high=max(top, 1e-12))
