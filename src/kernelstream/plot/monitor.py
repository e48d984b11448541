"""Plots of a monitor: control charts, contribution bars and maps, score plot, adaptation chart.

Nothing is shown or saved: that is for the caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import cycle
from typing import Any

import numpy as np

from kernelstream.anomaly import Contributions, KernelMonitor, Records
from kernelstream.plot import drawing

# Okabe and Ito's colours: told apart by everyone, and on grey paper by their lightness.
BLUE, ORANGE, GREEN, YELLOW = "#0072B2", "#D55E00", "#009E73", "#E69F00"
BLACK, GREY, PALE = "#1A1A1A", "#8A8A8A", "#DDE6EE"
TITLES = {"index": "index M", "lasting": "lasting", "t2": "T²", "spe": "SPE"}
# What one chart shows: the first that a record has.
STATISTICS = {
    "smoothed": "smoothed index",
    "index": "index",
    "reconstruction_error": "reconstruction error",
}
DISPLAYED = (0.05, 0.01)


def control_charts(
    records: Records,
    monitor: KernelMonitor,
    axes: Any = None,
    spans: Mapping[str, tuple[Any, Any]] | None = None,
) -> Any:
    """The control charts, one below the other: index with its smoothed version, lasting, T², SPE.

    Logarithmic, with the limits of 95 and 99 %. The first two raise alarms: the index of a single
    row over the dotted line, the smoothed one or ``lasting`` over the others. Events are shaded;
    alarms are marked; where T² does not see what the index sees, it is marked as blind.

    Parameters
    ----------
    records : Records
        Of ``update_many``.
    monitor : KernelMonitor
        Whose limits are drawn.
    axes : sequence of four Axes, optional
        Of three, where ``lasting`` is left out.
    spans : mapping of name to (start, stop), optional
        Stretches of time to shade, such as training and calibration.

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
    names = list(TITLES)
    looks = bool(np.isfinite(records.column("lasting_limit")).all())
    if not looks or (axes is not None and len(axes) < len(names)):
        names.remove("lasting")
    axes = drawing.axes(axes, rows=len(names), size=(9, 2.15 * len(names)))
    times = _times(records)
    for axis, name in zip(axes, names, strict=True):
        _shade_spans(axis, spans or {})
        _shade_events(axis, records, times, color=ORANGE, alpha=0.13)
        values = np.maximum(records.column(name), np.finfo(float).tiny)
        axis.plot(times, values, ".", ms=2.5, color=GREY if name == "index" else BLUE, alpha=0.7)
        if name == "index":
            axis.plot(times, records.column("smoothed"), color=BLUE, lw=1.4, label="smoothed")
            alarms = records.column("alarm")
            axis.plot(times[alarms], values[alarms], ".", ms=4, color=ORANGE, label="alarm")
            if looks:
                single = records.column("index_limit")
                axis.plot(times, single, ":", color=BLACK, lw=0.9, label="single row")
        if name == "t2":
            blind = records.column("t2_blind")
            name_of_mark = "blind" if blind.any() else None
            axis.plot(times[blind], values[blind], "x", ms=4, color=ORANGE, label=name_of_mark)
        _draw_limits(axis, records, monitor, name, times)
        axis.set(yscale="log", ylabel=TITLES[name])
        axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8)
    axes[-1].set_xlabel("time")
    return np.asarray(axes)


def _draw_limits(
    axis: Any, records: Records, monitor: KernelMonitor, name: str, times: Any
) -> None:
    """95 and 99 %, moving as the limit at alpha moved; of the smoothed index where that alarms."""
    which = "smoothed" if name == "index" and monitor.smooth is not None else name
    moved = records.column("limit" if name == "index" else f"{name}_limit")
    known: Any = monitor.limits_[which]
    for alpha, style in zip(DISPLAYED, ("--", "-"), strict=True):
        path = moved * known[alpha] / known[monitor.alpha_]
        axis.plot(times, path, style, color=BLACK, lw=0.9, label=f"{1 - alpha:.0%}")


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
    lines = [r for r in records if _field(r, "error") is None]
    if not lines:
        raise ValueError("There are no records to show.")
    name = next(name for name in STATISTICS if _field(lines[0], name) is not None)
    number = np.arange(1, len(lines) + 1)
    values = np.array([float(_field(r, name)) for r in lines])
    limits = np.array([float(_field(r, "limit")) for r in lines])
    alarm = np.array([bool(_field(r, "alarm")) for r in lines])
    ax = drawing.axes(ax)
    _shade_events(ax, lines, number, color=drawing.ACCENT, alpha=0.12)
    ax.plot(number, values, color=drawing.INK, lw=0.9, label=STATISTICS[name])
    ax.plot(number, limits, color=drawing.QUIET, lw=1.4, ls="--", label="limit")
    ax.plot(number[alarm], values[alarm], "o", ms=3.5, color=drawing.ACCENT, label="alarm")
    if np.all(values > 0) and values.max() > 20 * np.median(values):
        ax.set_yscale("log")
    ax.legend(frameon=False, ncols=4, fontsize="small", loc="upper left", bbox_to_anchor=(0, 1.12))
    return drawing.set_labels(ax, xlabel="row", ylabel=STATISTICS[name])


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
    ax.set(yticks=places, xlabel="contribution to the index", xlim=(0, 1.2 * room))
    ax.set_yticklabels([name for name, _, _ in top])
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
    image = ax.pcolormesh(
        times,
        np.arange(len(order)),
        values[order],
        cmap=signed,
        vmin=-top,
        vmax=top,
        shading="nearest",
    )
    ax.set(yticks=np.arange(len(order)), xlabel="time")
    ax.set_yticklabels([names[j] for j in order])
    ax.invert_yaxis()
    ax.figure.colorbar(image, ax=ax, label="± root of the contribution", pad=0.01)
    return ax


def score_plot(
    monitor: KernelMonitor,
    groups: Mapping[str, Any],
    ax: Any = None,
    components: Sequence[int] = (0, 1),
) -> Any:
    """Groups of rows on two principal components of normal operation.

    Parameters
    ----------
    monitor : KernelMonitor
    groups : mapping of name to rows
        For example ``{"normal": X, "event": faulty}``.
    ax : Axes, optional
    components : pair of int
        Which components, from 0.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import KernelMonitor
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> monitor = KernelMonitor(basis=30, random_state=0).fit(X[:200])
    >>> score_plot(monitor, {"normal": X[200:], "moved": X[200:] + 4.0}).get_xlabel()
    'component 1'
    """
    ax = drawing.axes(ax, size=(5, 4.2))
    first, second = components
    colours = (GREY, ORANGE, BLUE, GREEN, YELLOW)
    for which, (name, rows) in enumerate(groups.items()):
        scores = monitor.component_scores(rows)
        colour = colours[which % len(colours)]
        ax.plot(scores[:, first], scores[:, second], ".", ms=4, color=colour, alpha=0.6, label=name)
    ax.set(xlabel=f"component {first + 1}", ylabel=f"component {second + 1}")
    ax.legend(frameon=False, fontsize=8)
    return ax


def adaptation_chart(records: Records, axes: Any = None) -> Any:
    """What adaptation has followed, against the model that was fitted.

    Above: the largest shift of a mean (in deviations) and the novelty of the rows learned last,
    under the frozen model; below: the largest change of a deviation (a factor) and the overlap of
    the leading directions. Rows that were not learned are shaded.

    Parameters
    ----------
    records : Records
    axes : sequence of two Axes, optional

    Returns
    -------
    array of two Axes

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import KernelMonitor
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> monitor = KernelMonitor(basis=30, random_state=0).fit(X[:200])
    >>> len(adaptation_chart(monitor.update_many(X[200:])))
    2
    """
    axes = drawing.axes(axes, rows=2, size=(9, 4))
    times = _times(records)
    shown = (
        (("largest_shift", "largest shift of a mean [sd]"), ("novelty", "novelty [sd]")),
        (("largest_scale", "largest change of a deviation [×]"), ("overlap", "overlap of axes")),
    )
    for axis, pair in zip(axes, shown, strict=True):
        for start, stop in _stretches(~records.column("learned")):
            axis.axvspan(times[start], times[stop], color=PALE, lw=0)
        for (name, label), colour in zip(pair, (BLUE, ORANGE), strict=True):
            axis.plot(times, records.column(f"drift.{name}"), color=colour, label=label)
        axis.legend(loc="lower left", bbox_to_anchor=(0, 1), frameon=False, fontsize=8, ncols=2)
    axes[-1].set_xlabel("time")
    return np.asarray(axes)


def _times(records: Records) -> np.ndarray:
    if not records:
        raise ValueError("There are no records to draw: give those of update_many.")
    times = [record.time for record in records]
    if isinstance(times[0], datetime):
        return np.array(times, dtype="datetime64[us]")
    numbers = np.array(times)
    # Words are drawn in their order, by number.
    return numbers if numbers.dtype.kind in "iufM" else np.arange(len(times))


def _shade_spans(axis: Any, spans: Mapping[str, tuple[Any, Any]]) -> None:
    tints = cycle((PALE, "#E5F1E8", "#F3EEDC"))
    for (name, (start, stop)), colour in zip(spans.items(), tints, strict=False):
        axis.axvspan(start, stop, color=colour, lw=0, label=name)


def _shade_events(axis: Any, records: Sequence[Any], times: np.ndarray, **style: Any) -> None:
    in_event = np.array([_field(record, "event") is not None for record in records])
    for number, (start, stop) in enumerate(_stretches(in_event)):
        label = "event" if number == 0 else None
        axis.axvspan(times[start], times[stop], lw=0, label=label, **style)


def _stretches(flags: np.ndarray) -> list[tuple[int, int]]:
    """First and last row of each run of true flags."""
    edges = np.flatnonzero(np.diff(np.r_[False, flags, False].astype(int)))
    return [(int(a), int(b) - 1) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _field(record: Any, name: str) -> Any:
    return record.get(name) if isinstance(record, dict) else getattr(record, name, None)
