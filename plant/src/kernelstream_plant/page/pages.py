"""The five pages of the live page: Now, Event, Sensors, Log, Model; operator buttons."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from typing import Any

import numpy as np
from bokeh.layouts import column, row
from bokeh.models import ColumnDataSource
from bokeh.models.widgets import Button, Select, Slider, TextInput

from kernelstream.arrays import evenly_spaced
from kernelstream_plant.operation import LiveMonitor, Status, words
from kernelstream_plant.operation.history import COLUMNS, HOUR, MINUTE, SECOND
from kernelstream_plant.page import charts, frame
from kernelstream_plant.page.access import OPERATOR
from kernelstream_plant.page.frame import part, part_css, text
from kernelstream_plant.page.incident import Incident, incident

EVERY = 500  # milliseconds between two looks: at most two updates a second
SLOWLY = 4  # looks between two updates of what is large
MOST_SENSORS, TREND_ROWS, TREND_POINTS = 200, 600, 80
CLASSES = [
    "",
    "fault",
    "sensor",
    "change of product",
    "start or stop",
    "maintenance",
    "false alarm",
]
NOW_CAUSES = 8
KEPT_LINES = 300
FEW_MINUTES, LEAST_P = 60, 1e-9


def select(title: str, options: Any, value: str, width: int) -> Any:
    """A choice."""
    return Select(title=title, options=options, value=value, stylesheets=[part_css()], width=width)


class Session:
    """What the pages share: the monitor, the role, and a look every half second."""

    def __init__(self, doc: Any, live: LiveMonitor, here: str):
        self.doc, self.live, self.here = doc, live, here
        payload = doc.session_context.token_payload if doc.session_context else {}
        self.may = payload.get("role") == OPERATOR
        self.ticks = 0

    def begin(
        self, roots: list[Any], figures: list[Any], refresh: Callable[[Status], None]
    ) -> None:
        """Show the parts and keep them up to date."""
        self.beat = frame.furnish(self.doc, self.here, self.live, figures)
        for root in roots:
            self.doc.add_root(root)
        self.doc.add_root(column(part(), visible=False, tags=[self.beat]))
        refresh(self.live.status())

        def tick() -> None:
            status = self.live.status()
            self.ticks += 1
            self.beat.data = {"text": [status.text], "name": [self.live.title]}
            refresh(status)

        self.doc.add_periodic_callback(tick, EVERY)

    def button(self, title: str, act: Callable[[], None], sure: bool = False) -> Button:
        """A button; one that has to be sure asks for a second press."""
        made = Button(label=title, stylesheets=[part_css()], width_policy="min")
        asked = [False]

        def pressed() -> None:
            if sure and not asked[0]:
                asked[0] = True
                made.label = f"{title}: press again to confirm"
                self.doc.add_timeout_callback(calm, 6000)
                return
            calm()
            act()

        def calm() -> None:
            asked[0] = False
            made.label = title

        made.on_click(pressed)
        return made


# -- Now


def now(doc: Any, live: LiveMonitor) -> None:
    """State, charts, causes, and the buttons of the present event."""
    session = Session(doc, live, "/")
    strip, causes, said = part(name="strip"), part(name="causes"), part(name="said")
    source, events = ColumnDataSource(charts.empty()), ColumnDataSource(event_spans(live))
    plots = charts.over_time(source, events, links=True)
    window = select("Show the last", list(charts.WINDOWS), "10 minutes", 170)
    sent: dict[str, Any] = {"total": 0, "last": None}

    def stream() -> None:
        chosen = charts.WINDOWS[window.value]
        new, total = charts.looked_up(live.history, chosen, sent["total"], sent["last"])
        sent["total"] = total
        if not len(new["at"]):
            return
        sent["last"] = float(
            live.history.stretches[chosen.width]["at"][-1]
            if chosen.width
            else live.history.raw["at"][-1]
        )
        rollover = charts.LATEST_ROWS
        if chosen.width:
            rollover = int(min(chosen.seconds / chosen.width, charts.MOST_POINTS))
        source.stream(new, rollover)

    def choose(attr: str, old: str, new: str) -> None:
        sent.update(total=0, last=None)
        source.data = charts.empty()
        stream()

    window.on_change("value", choose)
    buttons = Buttons(session, said)

    def refresh(status: Status) -> None:
        change(strip, strip_html(status, live))
        change(causes, causes_html(status, live))
        buttons.refresh(status)
        stream()
        if session.ticks % SLOWLY == 0:
            spans = event_spans(live)
            if spans != events.data:
                events.data = spans

    controls = row(
        [window, *buttons.all],
        sizing_mode="stretch_width",
        styles={"flex-wrap": "wrap", "gap": "6px", "align-items": "end"},
    )
    session.begin([strip, said, controls, causes, *plots], plots, refresh)


class Buttons:
    """The verbs about the present event and about learning; none for those who may only look."""

    def __init__(self, session: Session, said: Any):
        self.session, self.live, self.said = session, session.live, said
        self.event: int | None = None
        self.acknowledge = session.button("Acknowledge", self._of_event("acknowledge"))
        self.as_well = session.button(
            "Accept as well", self._of_event("accept", instead=False), sure=True
        )
        self.instead = session.button(
            "Accept instead", self._of_event("accept", instead=True), sure=True
        )
        self.pause = session.button("Pause learning", self._pause)
        known = [self.acknowledge, self.as_well, self.instead, self.pause]
        self.all = known if session.may else []

    def _of_event(self, verb: str, **arguments: Any) -> Callable[[], None]:
        def act() -> None:
            with self.live.turn:  # the event of the button, or none
                present = self.live.status().event
                if present is None or present.id != self.event:
                    change(self.said, "<p>That event is over.</p>")
                    return
                execute(self.live, self.said, verb, **arguments)

        return act

    def _pause(self) -> None:
        execute(self.live, self.said, "resume" if self.live.status().paused else "pause")

    def refresh(self, status: Status, of: int | None = None) -> None:
        """Enabled where they make sense; ``of``: for this event only."""
        present = status.event if of is None or (status.event and status.event.id == of) else None
        self.event = None if present is None else present.id
        self.acknowledge.disabled = present is None or present.acknowledged
        self.as_well.disabled = self.instead.disabled = present is None
        title = "Resume learning" if status.paused else "Pause learning"
        if self.pause.label != title:
            self.pause.label = title


def execute(live: LiveMonitor, said: Any, verb: str, **arguments: Any) -> None:
    """A verb, and what came of it in words."""
    try:
        answer = live.execute(verb, arguments, by="page")
    except ValueError as problem:
        answer = str(problem)
    change(said, f'<p role="status">{text(answer)}</p>')


def change(div: Any, html: str) -> None:
    """New text for a part; the same text is not sent again."""
    if div.text != html:
        div.text = html


def strip_html(status: Status, live: LiveMonitor) -> str:
    """The state in one word and colour, with the figures that matter."""
    lag = (
        ""
        if math.isnan(status.lag)
        else f"<span>{words.duration(status.lag)} behind the clock</span>"
    )
    saved = "" if status.saved is None else f"<span>saved {words.clock(status.saved)}</span>"
    bad = f'<span class="bad">{status.bad:,} bad rows</span>' if status.bad else ""
    return (
        f'<div class="strip {frame.class_of(status)}"><b>{text(status.text)}</b>'
        f"<span>{status.rows:,} rows, {status.rate:,.1f} a second</span>{lag}{bad}{saved}"
        f'<span class="long">{text(status.learning)}</span>'
        f'<span class="long">false alarms in 7 days: {status.alarms_seen:,}, expected '
        f"{status.alarms_expected:,.0f}</span></div>"
    )


def causes_html(status: Status, live: LiveMonitor) -> str:
    """What is wrong now: lost sensors first, then signed bars with sizes in units of the data."""
    rows = [
        (name, f'<span class="bad">{what}</span>', "")
        for what, names in (
            ("dead", status.dead),
            ("missing", status.missing),
            ("out of service", status.out_of_service),
        )
        for name in names
    ]
    for name, share, off, size in words.causes(status.causes, live.units, NOW_CAUSES):
        side = "up" if off > 0 else "down"
        bar = f'<div class="bar {side}" style="width:{100 * share:.0f}%" aria-hidden="true"></div>'
        rows.append((words.bare(name), text(size), bar))
    if not rows:
        return '<h2>Causes now</h2><p class="quiet">None: no alarm, and every sensor is there.</p>'
    body = "".join(
        f'<tr><th scope="row">{text(name)}</th><td class="number">{size}</td>'
        f'<td style="width:55%">{bar}</td></tr>'
        for name, size, bar in rows
    )
    return f'<h2>Causes now</h2><table aria-label="Causes now">{body}</table>'


def event_spans(live: LiveMonitor) -> dict[str, list[Any]]:
    """Where events are shaded; those that somebody acknowledged or accepted are hatched."""
    known = [e for e in live.history.events(200) if "begin" in e]
    with live.history.turn:
        latest = float(live.history.raw["at"][-1]) if len(live.history.raw) else 0.0
    present = None if live.monitor.event_ is None else live.monitor.event_.id
    seen = [bool(e.get("acknowledged") or e.get("accepted")) for e in known]
    return {
        "id": [e["id"] for e in known],
        "begin": charts.local([e["begin"] for e in known]).tolist(),
        "end": charts.local(
            [e.get("end", latest if e["id"] == present else e["begin"]) for e in known]
        ).tolist(),
        "pattern": ["/" if s else " " for s in seen],
    }


# -- Event


def event(doc: Any, live: LiveMonitor) -> None:
    """One event: the one asked for, or the latest."""
    session = Session(doc, live, "/event")
    id = asked_event(doc, live)
    found = None if id is None else incident(live, id)
    head, said = part(name="head"), part(name="said")
    if id is None or found is None:
        what = (
            "There has been no event." if id is None else f"There is no event {id} in the history."
        )
        session.begin([part(f"<p>{text(what)}</p>")], [], lambda status: None)
        return
    view = IncidentView(found, live)
    buttons = Buttons(session, said)
    comment = TextInput(title="Comment", stylesheets=[part_css()], width=320, max_length=500)
    given = str(found.facts.get("class", ""))
    kind = select("Class", CLASSES if given in CLASSES else [*CLASSES, given], given, 200)
    comment.value = str(found.facts.get("comment", ""))
    number = id

    def note() -> None:
        execute(live, said, "note", event=number, kind=kind.value, comment=comment.value)

    save = session.button("Save class and comment", note)

    def refresh(status: Status) -> None:
        facts = live.history.event(number) or found.facts
        change(head, incident_html(live, facts, found))
        buttons.refresh(status, of=number)
        if session.ticks % (5 * SLOWLY) == 1 and "end" not in facts:
            fresh = incident(live, number)
            if fresh is not None and fresh.mapped == found.mapped:
                view.fill(fresh)

    parts: list[Any] = [head, said]
    wrap = {"flex-wrap": "wrap", "gap": "6px", "align-items": "end"}
    if session.may:
        parts.append(row(buttons.all[:3], sizing_mode="stretch_width", styles=wrap))
        parts.append(row([kind, comment, save], sizing_mode="stretch_width", styles=wrap))
    session.begin([*parts, *view.figures], view.figures, refresh)


def asked_event(doc: Any, live: LiveMonitor) -> int | None:
    """The event that the address names; the latest where it names none."""
    arguments = doc.session_context.request.arguments if doc.session_context else {}
    try:
        return int(arguments["id"][0][:12])
    except (KeyError, IndexError, ValueError):
        latest = live.history.events(1)
        return int(latest[0]["id"]) if latest else None


class IncidentView:
    """The figures of an event, for the page and for the report."""

    def __init__(self, found: Incident, live: LiveMonitor):
        self.cells, self.normal, self.path = (ColumnDataSource() for _ in range(3))
        self.mapper = charts.signed_mapper(found.contributions)
        self.values = [ColumnDataSource() for _ in found.leading]
        self.expected = [ColumnDataSource() for _ in found.leading]
        self.fill(found)
        heat = charts.heat_map(self.cells, self.mapper, found.mapped)
        self.figures, x_range = [heat], None
        for name, values, expected in zip(found.leading, self.values, self.expected, strict=True):
            unit = live.units.get(name, "")
            shown = f"{words.bare(name)} [{unit}]" if unit else name
            plot = charts.trend(shown, values, expected, x_range)
            x_range = plot.x_range
            self.figures.append(plot)
        self.figures.append(charts.score_path(self.normal, self.path))

    def fill(self, found: Incident) -> None:
        """The data, as they are now."""
        n, k = found.contributions.shape
        left = charts.local(found.looks)
        step = float(np.median(np.diff(left))) if n > 1 else 1e3
        right = np.minimum(np.r_[left[1:], left[-1:] + step], left + 20 * step)  # gaps stay gaps
        self.cells.data = {
            "at": np.repeat((left + right) / 2, k),
            "name": [frame.label(name) for name in found.mapped] * n,
            "width": np.repeat(np.maximum(right - left, 1.0), k),
            "value": found.contributions.ravel(),
            "size": found.sizes.ravel(),
        }
        self.mapper.update(
            **{e: getattr(charts.signed_mapper(found.contributions), e) for e in ("low", "high")}
        )
        for j in range(len(self.values)):
            self.values[j].data = {"at": charts.local(found.at), "value": found.values[:, j]}
            middle = found.expected[:, j]
            self.expected[j].data = {
                "at": charts.local(found.moments),
                "low": middle - found.spread[j],
                "high": middle + found.spread[j],
            }
        self.normal.data = dict(zip("xy", found.normal_scores.T, strict=True))
        self.path.data = dict(zip("xy", found.event_scores.T, strict=True))


def incident_html(
    live: LiveMonitor, facts: dict[str, Any], found: Incident, links: bool = True
) -> str:
    """The facts of an event, and events like it."""
    begin = datetime.fromtimestamp(facts["begin"])
    end = facts.get("end")
    how_long = words.duration((end or facts.get("last", facts["begin"])) - facts["begin"])
    over = f"until {datetime.fromtimestamp(end):%Y-%m-%d %H:%M:%S}" if end else "going on"
    flags = [word for word in ("acknowledged", "accepted") if facts.get(word)]
    top = "".join(
        f"<li>{text(words.bare(t['variable']))} <b>{text(t['text'])}</b></li>"
        for t in facts.get("top", ())
    )
    like = "".join(
        f"<li>{event_link(e['id'], 'event ', links)}, {cosine:.2f}"
        f"{', ' + text(e['class']) if e.get('class') else ''}</li>"
        for e, cosine in found.similar
    )
    return (
        f"<h2>Event {facts['id']}{', ' + text(', '.join(flags)) if flags else ''}</h2>"
        f"<p>From {begin:%Y-%m-%d %H:%M:%S}, {over}: {facts.get('rows', 0):,} rows, {how_long}, "
        f"peak of the index {facts.get('peak', math.nan):.4g}.</p>"
        f"<p>Off by</p><ul>{top or '<li>unknown</li>'}</ul>"
        "<p>Events like it, by the cosine of their contributions</p>"
        f"<ul>{like or '<li>none</li>'}</ul>"
        '<p class="quiet">Contributions: orange is too high, blue too low. Green bands are what '
        "the other sensors let expect.</p>"
    )


# -- Sensors


def sensors(doc: Any, live: LiveMonitor) -> None:
    """All tags as small multiples, each with its band and how it is."""
    session = Session(doc, live, "/sensors")
    grid, said = part(name="grid"), part(name="said")
    find = TextInput(title="Find", stylesheets=[part_css()], width=200)
    which = select("Sensor", list(live.names), live.names[0], 220)

    def switch() -> None:
        out = which.value not in live.status().out_of_service
        execute(live, said, "service", variable=which.value, out=out)

    button = session.button("Out of service", switch)

    def refresh(status: Status) -> None:
        out = which.value in status.out_of_service
        title = "Back in service" if out else "Out of service"
        if not str(button.label).startswith(title):
            button.label = title
        if session.ticks % SLOWLY == 0:
            change(grid, sensors_html(live, status, find.value_input or find.value or ""))

    wrap = {"flex-wrap": "wrap", "gap": "6px", "align-items": "end"}
    controls = [find, which, button] if session.may else [find]
    session.begin(
        [row(controls, sizing_mode="stretch_width", styles=wrap), said, grid], [], refresh
    )


def sensors_html(live: LiveMonitor, status: Status, wanted: str) -> str:
    """Cards with a line, a band of three deviations around normal operation, and a word."""
    with live.history.turn:
        recent = live.history.raw["data"][-TREND_ROWS:, live.history.n_channels :].astype(float)
    names = [n for n in live.names if wanted.lower() in n.lower()]
    drift = live.monitor.drift_
    centre = live.monitor.mean_ + drift.centre * live.monitor.scale_
    width = 3.0 * live.monitor.scale_ * drift.scale
    shown = recent[evenly_spaced(len(recent), TREND_POINTS)]
    cards = "".join(
        card(live, status, name, shown[:, j], centre[j], width[j])
        for name in names[:MOST_SENSORS]
        for j in (live.names.index(name),)
    )
    more = len(names) - MOST_SENSORS
    rest = f"<p>… and {more} more: find them by name.</p>" if more > 0 else ""
    return f'<div class="grid">{cards}</div>{rest}'


def card(
    live: LiveMonitor, status: Status, name: str, values: np.ndarray, centre: float, width: float
) -> str:
    """One sensor."""
    states = (
        ("out of service", status.out_of_service),
        ("dead", status.dead),
        ("missing", status.missing),
    )
    state = next((word for word, known in states if name in known), "ok")
    known = values[np.isfinite(values)]
    low = min(centre - 1.3 * width, known.min(initial=np.inf))
    high = max(centre + 1.3 * width, known.max(initial=-np.inf))
    room = max(high - low, 1e-300)
    y = np.round(54.0 * (high - values) / room, 1)
    x = np.round(np.linspace(0, 160, max(len(values), 2)), 1)
    ok = np.isfinite(y)
    edges = np.flatnonzero(np.diff(np.r_[False, ok, False].astype(int)))
    lines = "".join(
        '<polyline points="'
        + " ".join(f"{a:g},{b:g}" for a, b in zip(x[i:j], y[i:j], strict=True))
        + '"/>'
        for i, j in zip(edges[::2], edges[1::2], strict=True)
    )
    top, tall = 54.0 * (high - centre - width) / room, 108.0 * width / room
    last = (
        f"{known[-1]:.5g}".replace("-", "−", 1) if len(known) and np.isfinite(values[-1]) else "–"
    )
    unit = live.units.get(name, "")
    mark = "" if state == "ok" else ' class="bad"'
    return (
        f'<div class="tag"><h3 title="{text(name)}">{text(words.bare(name))}</h3>'
        f'<svg viewBox="0 0 160 54" preserveAspectRatio="none" role="img" '
        f'aria-label="{text(name)}, {last} {text(unit)}, {state}">'
        f'<rect x="0" y="{top:.1f}" width="160" height="{max(tall, 0.5):.1f}"/>{lines}</svg>'
        f"<p><b>{last}</b> {text(unit)} <span{mark}>{state}</span></p></div>"
    )


# -- Log


def log(doc: Any, live: LiveMonitor) -> None:
    """Events and everything that happened, to be filtered and taken along."""
    session = Session(doc, live, "/log")
    shown = part(name="log")
    find = TextInput(title="Filter", stylesheets=[part_css()], width=240)

    def refresh(status: Status) -> None:
        if session.ticks % SLOWLY == 0 or find.value_input:
            change(shown, log_html(live, find.value_input or find.value or ""))

    session.begin([find, shown], [], refresh)


def log_html(live: LiveMonitor, wanted: str, links: bool = True) -> str:
    """Two tables: events, and lines."""
    events = [
        cells for e in live.history.events(KEPT_LINES) if (cells := event_cells(e, wanted, links))
    ]
    lines = [
        [moment(line.at), text(line.kind), text(line.text)]
        for line in live.history.log(KEPT_LINES)
        if wanted.lower() in f"{line.kind} {line.text}".lower()
    ]
    head = ["event", "begin", "end", "rows", "peak", "off by", "seen", "class", "comment"]
    as_csv = '<p><a href="/{}.csv" download>as CSV</a></p>' if links else ""
    return (
        f"<h2>Events</h2>{as_csv.format('events')}"
        f"{frame.table(head, events, 'Events')}"
        f"<h2>Log</h2>{as_csv.format('log')}"
        f"{frame.table(['time', 'kind', 'what'], lines, 'Log')}"
    )


def event_link(id: int, word: str, links: bool) -> str:
    """An event by its number, to be followed where there is something to follow."""
    return f'<a href="/event?id={int(id)}">{word}{int(id)}</a>' if links else f"{word}{int(id)}"


def moment(at: float) -> str:
    """Day and time, which a narrow page may put below each other."""
    return f'<span class="when">{datetime.fromtimestamp(at):%Y-%m-%d</span> %H:%M:%S}'


def event_cells(e: dict[str, Any], wanted: str, links: bool) -> list[str] | None:
    """One event as a line of the table; None where it does not match."""
    top = ", ".join(f"{words.bare(t['variable'])} {t['text']}" for t in e.get("top", ())[:3])
    seen = ", ".join(w for w in ("acknowledged", "accepted") if e.get(w))
    kind, comment = str(e.get("class", "")), str(e.get("comment", ""))
    if wanted.lower() not in f"event {e['id']} {top} {seen} {kind} {comment}".lower():
        return None
    begin = moment(e["begin"]) if "begin" in e else ""
    end = moment(e["end"]) if e.get("end") else "going on"
    link = event_link(e["id"], "", links)
    rest = [top, seen, kind, comment]
    return [link, begin, end, f"{e.get('rows', 0):,}", f"{e.get('peak', 0):.4g}", *map(text, rest)]


# -- Model


def model(doc: Any, live: LiveMonitor) -> None:
    """What the monitor is, and what another alpha would have meant."""
    session = Session(doc, live, "/model")
    facts, answer = part(name="facts"), part(name="what-if")
    alpha = Slider(
        title="what if alpha were 10 to the",
        start=-4.0,
        end=-0.5,
        step=0.1,
        stylesheets=[part_css()],
        value=round(math.log10(live.monitor.alpha_), 1),
        width=300,
    )
    source = ColumnDataSource({"at": [], "p": [], "alarm": []})
    limit = ColumnDataSource({"at": [], "alpha": []})
    plot = charts.blank("lowest p-values", 220, x_axis_type="datetime", y_axis_type="log", tools="")
    plot.scatter("at", "p", source=source, size=3, color=charts.GREY, line_color=None)
    plot.scatter("at", "alarm", source=source, size=4, color=charts.ORANGE, line_color=None)
    plot.line("at", "alpha", source=limit, color=charts.RED)

    def redraw() -> None:
        chosen = 10.0**alpha.value
        at, p, what = lowest_p_values(live)
        source.data = {"at": charts.local(at), "p": p, "alarm": np.where(p < chosen, p, np.nan)}
        ends = charts.local(at[[0, -1]]) if len(at) else np.empty(0)
        limit.data = {"at": ends, "alpha": np.full(len(ends), chosen)}
        n, now_ = int((p < chosen).sum()), int((p < live.monitor.alpha_).sum())
        change(
            answer,
            f"<p>With alpha = {chosen:.2g}, {n:,} of {len(at):,} {what} of the last 7 days would "
            f"have had an alarm; with {live.monitor.alpha_:.2g}, as it is, {now_:,}.</p>",
        )

    alpha.on_change("value_throttled", lambda attr, old, new: redraw())

    def refresh(status: Status) -> None:
        if session.ticks % (5 * SLOWLY) == 0:
            change(facts, model_html(live))
            redraw()

    session.begin([facts, part("<h2>What if</h2>"), alpha, answer, plot], [plot], refresh)


def lowest_p_values(live: LiveMonitor) -> tuple[np.ndarray, np.ndarray, str]:
    """Of each minute of seven days, or of each second at first; times in seconds."""
    with live.history.turn:
        early = len(live.history.stretches[MINUTE]) < FEW_MINUTES
        ring = live.history.stretches[SECOND if early else MINUTE]
        at, p = ring["at"].copy(), ring["low"][:, COLUMNS.index("p_value")].astype(float)
    wanted = np.isfinite(p) & (at >= at.max(initial=0.0) - 7 * 24 * HOUR)
    return at[wanted], np.maximum(p[wanted], LEAST_P), "seconds" if early else "minutes"


def model_html(live: LiveMonitor) -> str:
    """Parameters and limits in words."""
    m = live.monitor
    drift = m.drift_
    rows = [
        ["variables", f"{m.n_features_in_:,}"],
        ["rows judged", f"{m.n_samples_seen_:,}"],
        ["rows learned since fit", f"{drift.rows:,}"],
        ["alpha", f"{m.alpha_:.4g}"],
        ["lags", f"{m.lags_}"],
        ["width of the kernel", f"{m.width_:.4g}"],
        ["whitened", "yes" if m.whiten_ else "no"],
        ["memory", f"{m.memory:,} rows"],
        [
            "drift",
            f"largest shift {drift.largest_shift:.2f} sd, novelty {drift.novelty:.2f} sd, "
            f"overlap {drift.overlap:.2f}",
        ],
        ["constant variables", text(", ".join(m.constant_features_)) or "none"],
    ]
    for name, limit in m.limits_.items():
        if isinstance(limit, dict):
            shown = ", ".join(f"{value:.4g} at {level:.2g}" for level, value in limit.items())
        else:
            shown = f"{limit:.4g}"
        rows.append([f"limit of {text(name)}", shown])
    return "<h2>Model</h2>" + frame.table(["", ""], rows, "Model")
