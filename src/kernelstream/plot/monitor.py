"""Plots of a monitor: control charts, contribution bars and maps.

Nothing is shown or saved: that is for the caller.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from kernelstream.anomaly import Contributions, KernelMonitor, Records
from kernelstream.plot import drawing
from kernelstream.plot.drawing import INK, QUIET

# Okabe and Ito's colors: told apart by everyone, and on grey paper by their lightness.
BLUE, ORANGE, PALE = "#0072B2", "#D55E00", "#DDE6EE"


@dataclass(frozen=True)
class ControlChart:
    """One control chart of a monitor: a statistic of its records, and the limits beside it.

    Attributes
    ----------
    statistic : str
        Drawn as a line.
    title : str
        What it is.
    limits : tuple of str
        Its limits, the one that decides first.
    dots : str or None
        A statistic that is drawn as dots on the same chart.
    logarithmic : bool
        Whether its axis is.
    """

    statistic: str
    title: str
    limits: tuple[str, ...] = ()
    dots: str | None = None
    logarithmic: bool = True


def monitor_charts(columns: Container[str]) -> list[ControlChart]:
    """The control charts of a monitor: index, persistent shifts, T², SPE and drift.

    Parameters
    ----------
    columns : container of str
        The fields that are known of each record: charts of other ones are left out.

    Returns
    -------
    list of ControlChart

    Examples
    --------
    >>> [chart.title for chart in monitor_charts({"smoothed", "lasting", "t2"})]
    ['index M', 'persistent shifts', 'T²']
    """
    charts = (
        ControlChart("smoothed", "index M", ("limit", "event_limit"), "index"),
        ControlChart("lasting", "persistent shifts", ("lasting_limit",)),
        ControlChart("t2", "T²", ("t2_limit",)),
        ControlChart("spe", "SPE", ("spe_limit",)),
        ControlChart("drift_largest_shift", "drift since fit [sd]", logarithmic=False),
    )
    return [chart for chart in charts if chart.statistic in columns]


def control_charts(
    records: Records,
    monitor: KernelMonitor,
    axes: Any = None,
) -> Any:
    """The control charts, one below the other: index with its smoothed version, lasting, T², SPE.

    Logarithmic, with the limits of 95% and 99%. The first two raise alarms: the index of a single
    row over the dotted line, the smoothed one or ``lasting`` over the others. Events are shaded
    and alarms are marked.

    Parameters
    ----------
    records : Records
        Of ``update_many``.
    monitor : KernelMonitor
        Whose limits are drawn.
    axes : sequence of Axes, optional
        Four; three if the monitor does not smooth.

    Returns
    -------
    array of Axes

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import KernelMonitor
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> monitor = KernelMonitor(basis=30, random_state=0).fit(X[:200])
    >>> axes = control_charts(monitor.update_many(X[200:]), monitor)
    >>> [axis.get_yscale() for axis in axes]
    ['log', 'log', 'log', 'log']
    """
    smooth = monitor.smooth is not None
    charts = monitor_charts(("smoothed", "t2", "spe", *(["lasting"] if smooth else [])))
    axes = drawing.axes(axes, rows=len(charts), size=(9, 2.15 * len(charts)))
    times = _times(records)
    for axis, chart in zip(axes, charts, strict=True):
        _shade_events(axis, records, times)
        _draw_statistics(axis, chart, records, times, smooth)
        _draw_limits(axis, chart, records, times, monitor)
        axis.set(yscale="log", ylabel=chart.title)
        axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8)
    axes[-1].set_xlabel("time")
    return np.asarray(axes)


def _draw_statistics(
    axis: Any, chart: ControlChart, records: Records, times: np.ndarray, smooth: bool
) -> None:
    """Values of single rows as dots, smoothed ones as a line; alarms are marked."""
    values = np.maximum(records.column(chart.dots or chart.statistic), np.finfo(float).tiny)
    axis.plot(times, values, ".", ms=2.5, color=QUIET if chart.dots else BLUE, alpha=0.7)
    if chart.dots:
        axis.plot(times, records.column(chart.statistic), color=BLUE, lw=1.4, label=chart.statistic)
        alarms = records.column("alarm")
        axis.plot(times[alarms], values[alarms], ".", ms=4, color=ORANGE, label="alarm")
        if smooth:
            single = records.column(f"{chart.dots}_limit")
            axis.plot(times, single, ":", color=INK, lw=0.9, label="single row")


def _draw_limits(
    axis: Any, chart: ControlChart, records: Records, times: np.ndarray, monitor: KernelMonitor
) -> None:
    """95% and 99%, moving as the limit at alpha moved; of the smoothed index where that alarms."""
    deciding = chart.statistic if monitor.smooth is not None or not chart.dots else chart.dots
    limits: Any = monitor.limits_[deciding]
    for alpha, style in ((0.05, "--"), (0.01, "-")):
        path = records.column(chart.limits[0]) * limits[alpha] / limits[monitor.alpha_]
        axis.plot(times, path, style, color=INK, lw=0.9, label=f"{1 - alpha:.0%}")


def contribution_bars(
    contributions: Contributions, ax: Any = None, most: int = 10, unit: str = ""
) -> Any:
    """The variables behind an event, the largest on top, with the size of the fault in each.

    Parameters
    ----------
    contributions : Contributions
    ax : Axes, optional
    most : int
        Variables shown.
    unit : str
        Written behind the sizes.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> causes = Contributions(("feed", "heat"), np.array([1.0, 9.0]), np.array([0.2, -3.0]))
    >>> [label.get_text() for label in contribution_bars(causes).get_yticklabels()]
    ['heat', 'feed']
    """
    ax = drawing.axes(ax, size=(5, 3.2))
    top = contributions.ranking()[:most]
    places = np.arange(len(top))
    values = [value for _, value, _ in top]
    colours = [ORANGE if size > 0 else BLUE for _, _, size in top]
    ax.barh(places, values, color=colours)
    room = max([*values, np.finfo(float).tiny])
    for place, (_, value, size) in enumerate(top):
        ax.text(value + 0.01 * room, place, f"{size:+.3g}{unit}", va="center", fontsize=8)
    ax.set(xlabel="contribution to the index", xlim=(0, 1.2 * room))
    ax.set_yticks(places, [name for name, _, _ in top])
    ax.locator_params(axis="x", nbins=4)
    ax.invert_yaxis()
    return ax


def contribution_map(records: Records, ax: Any = None, most: int = 15) -> Any:
    """Variable × time: the root of each variable's contribution, with the sign of its deviation.

    Only rows with alarms or events have contributions; the others are blank. Orange is too high,
    blue too low.

    Parameters
    ----------
    records : Records
    ax : Axes, optional
    most : int
        Variables shown, those with the largest shares of the records.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import KernelMonitor
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> monitor = KernelMonitor(basis=30, random_state=0).fit(X[:200])
    >>> records = monitor.update_many(X[200:] + [0.0, 5.0, 0.0])
    >>> contribution_map(records).get_yticklabels()[0].get_text()
    'x1'
    """
    known = [(t, r.contributions) for t, r in enumerate(records) if r.contributions is not None]
    if not known:
        raise ValueError("No record has contributions: there was no alarm and no event to explain.")
    from matplotlib.colors import LinearSegmentedColormap

    ax = drawing.axes(ax, size=(9, 4))
    names = known[0][1].names
    values = np.full((len(names), len(records)), np.nan)
    for t, parts in known:
        values[:, t] = np.sign(parts.sizes) * np.sqrt(parts.values)
    # every record counts alike: a large event does not hide the variable of a small one
    explained = np.abs(values[:, [t for t, _ in known]])
    share = explained / np.maximum(explained.max(axis=0), np.finfo(float).tiny)
    order = np.argsort(-share.mean(axis=1))[:most]
    top = np.nanmax(np.abs(values))
    signed = LinearSegmentedColormap.from_list("signed", [BLUE, "#FFFFFF", ORANGE])
    times = _times(records)
    places, style = np.arange(len(order)), {"cmap": signed, "vmin": -top, "vmax": top}
    image = ax.pcolormesh(times, places, values[order], shading="nearest", **style)
    ax.set_yticks(places, [names[j] for j in order])
    ax.set_xlabel("time")
    ax.invert_yaxis()
    ax.figure.colorbar(image, ax=ax, label="± root of the contribution", pad=0.01)
    return ax


def _times(records: Records) -> np.ndarray:
    if not records:
        raise ValueError("There are no records to draw: give those of update_many.")
    times = [record.time for record in records]
    if isinstance(times[0], datetime):
        return np.array(times, dtype="datetime64[us]")
    numbers = np.array(times)
    # Words are drawn in their order, by number.
    return numbers if numbers.dtype.kind in "iufM" else np.arange(len(times))


def _shade_events(axis: Any, records: Records, times: np.ndarray) -> None:
    in_event = np.array([record.event is not None for record in records])
    for number, (start, stop) in enumerate(_periods(in_event)):
        label = "event" if number == 0 else None
        axis.axvspan(times[start], times[stop], lw=0, label=label, color=ORANGE, alpha=0.13)


def _periods(flags: np.ndarray) -> list[tuple[int, int]]:
    """First and last row of each run of true flags."""
    edges = np.flatnonzero(np.diff(np.r_[False, flags, False].astype(int)))
    return [(int(a), int(b) - 1) for a, b in zip(edges[::2], edges[1::2], strict=True)]
