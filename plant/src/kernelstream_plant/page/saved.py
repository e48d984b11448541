"""Saved page: live page figures of a monitor or of one event in one HTML file."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from bokeh.embed import components
from bokeh.models import ColumnDataSource
from bokeh.resources import Resources

from kernelstream_plant.operation import LiveMonitor
from kernelstream_plant.page import charts, frame, pages
from kernelstream_plant.page.frame import text
from kernelstream_plant.page.incident import incident, title_of

SHORTEST = 100  # entries that make a chart worth showing; else a shorter time is shown


def monitor_html(live: LiveMonitor, event: int | None = None, title: str | None = None) -> str:
    """A page about a monitored stream, or about one event of it, as text.

    Parameters
    ----------
    live : LiveMonitor
        The monitor with its history; of one that is running, a copy:
        :meth:`~kernelstream_plant.History.copy_of`.
    event : int, optional
        The number of an event.
    title : str, optional
        Of the page.

    Returns
    -------
    str
        HTML with everything inside.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import KernelMonitor
    >>> from kernelstream_plant.operation import LiveMonitor
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> live = LiveMonitor(KernelMonitor(basis=30, random_state=0).fit(X[:200]))
    >>> _ = live.update_many(X[200:])
    >>> "width of the kernel" in monitor_html(live)
    True
    """
    if event is not None:
        return _page(title or f"{live.title}: event {event}", *_of_event(live, event))
    return _page(title or live.title, *_of_stream(live))


def _of_event(live: LiveMonitor, event: int) -> tuple[str, list[Any], str]:
    """What stands above the figures, these, and what stands below."""
    found = incident(live, event)
    if found is None:
        known = [str(e["id"]) for e in live.history.events(20)]
        raise ValueError(
            f"There is no event {event} in the history; there are {', '.join(known) or 'none'}."
        )
    head = f"<p class=quiet>{text(title_of(live, found.facts))}</p>"
    comment = found.facts.get("comment")
    said = f"<p>{text(found.facts.get('class', ''))} {text(comment or '')}</p>"
    body = head + pages.incident_html(live, found.facts, found, links=False) + said
    return body, pages.IncidentView(found, live).figures, ""


def _of_stream(live: LiveMonitor) -> tuple[str, list[Any], str]:
    for window in reversed(charts.WINDOWS.values()):
        seen, _ = charts.looked_up(live.history, window, 0, None)
        if len(seen["at"]) >= SHORTEST:
            break
    source = ColumnDataSource(seen)
    plots = charts.over_time(source, ColumnDataSource(pages.event_spans(live)), links=False)
    return verdict_html(live), plots, pages.log_html(live, "", links=False) + pages.model_html(live)


def verdict_html(live: LiveMonitor) -> str:
    """How the stream was when the page was saved, and what has happened to it, in words."""
    events = live.history.events(pages.KEPT_LINES)
    judged = f"{live.monitor.n_samples_seen_:,} rows were judged"
    if not events:
        return f'<div class="strip normal"><b>Normal</b><span>{judged}: no event.</span></div>'
    last = events[0]
    going_on = live.monitor.event_ is not None and live.monitor.event_.id == last["id"]
    level, state = ("event", f"Event {last['id']} goes on") if going_on else ("normal", "Normal")
    count = "one event," if len(events) == 1 else f"{len(events):,} events, the last"
    began = (
        f", from {datetime.fromtimestamp(last['begin']):%Y-%m-%d %H:%M}" if "begin" in last else ""
    )
    return (
        f'<div class="strip {level}"><b>{state}</b><span class="long">{judged}, with {count} '
        f"{text(title_of(live, last))}{began}.</span></div>"
    )


def _page(title: str, above: str, figures: list[Any], below: str) -> str:
    script, plots = components(figures)
    return frame.render(
        "saved.html",
        title=title,
        part_css=frame.part_css().replace(":host", ".page"),
        bokeh=Resources(mode="inline", components=["bokeh"]).render(),
        script=script,
        above=above,
        plots=plots,
        below=below,
    )
