"""Event analysis: contributions over time, leading sensors, expected values, similar events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelstream.arrays import evenly_spaced
from kernelstream_plant.operation import LiveMonitor, words

LOOKS = 100  # moments of an event at which contributions are computed
BEFORE = 60  # moments before it, for comparison
LEADING, ROWS_OF_MAP = 5, 15
SIMILAR, LEAST_COSINE = 5, 0.5
BAND = 2.0  # deviations of what the others expect
LEAST_BEFORE, ROWS = 60, 20_000  # rows that are shown before an event, and of all


@dataclass(frozen=True)
class Incident:
    """What is to be shown of an event."""

    facts: dict[str, Any]
    at: np.ndarray  # of every row that is shown
    values: np.ndarray  # (rows, leading)
    looks: np.ndarray  # times within the event
    contributions: np.ndarray  # signed roots, (looks, mapped)
    sizes: np.ndarray  # (looks, mapped)
    moments: np.ndarray  # the same, and times before the event
    expected: np.ndarray  # (moments, leading)
    spread: np.ndarray  # (leading,)
    leading: list[str]
    mapped: list[str]
    normal_scores: np.ndarray
    event_scores: np.ndarray
    similar: list[tuple[dict[str, Any], float]]


def incident(live: LiveMonitor, id: int) -> Incident | None:
    """An event of the history; None where there is none of that number."""
    facts = live.history.event(id)
    if facts is None or "begin" not in facts:
        return None
    begin = float(facts["begin"])
    end = float(facts.get("end", facts.get("last", begin)))
    before_it = max(end - begin, LEAST_BEFORE * live.history.usual_interval())
    at, data = live.history.rows_between(begin - before_it, end, ROWS, must=begin)
    X = data[:, live.history.n_channels :]
    depth, d = live.monitor.lags_ + 1, len(live.names)
    inside = runs(np.flatnonzero(at >= begin), depth, LOOKS)
    calm = (at < begin) & ~in_other_events(live, id, at)
    outside = runs(np.flatnonzero(calm), depth, BEFORE)
    roots, sizes = explained(live, X, inside)
    _, usual = explained(live, X, outside)
    order = np.argsort(-np.abs(roots).mean(axis=0)) if len(roots) else np.arange(d)
    mapped, leading = order[:ROWS_OF_MAP], order[:LEADING]
    whole = usual[np.isfinite(usual).all(axis=1)]
    band = whole.std(axis=0) if len(whole) > 2 else 0.3 * live.monitor.scale_
    moments = np.concatenate([outside[:, -1], inside[:, -1]])
    shown = evenly_spaced(len(at), 1500)
    return Incident(
        facts=facts,
        at=at[shown],
        values=X[shown][:, leading],
        looks=at[inside[:, -1]],
        contributions=roots[:, mapped],
        sizes=sizes[:, mapped],
        moments=at[moments],
        expected=X[moments][:, leading] - np.concatenate([usual, sizes])[:, leading],
        spread=BAND * band[leading],
        leading=[live.names[j] for j in leading],
        mapped=[live.names[j] for j in mapped],
        normal_scores=scores(live, X, outside),
        event_scores=scores(live, X, inside),
        similar=similar(live, facts),
    )


def in_other_events(live: LiveMonitor, id: int, at: np.ndarray) -> np.ndarray:
    """Which times are in another event: they do not show what is usual."""
    spans = [
        (float(e["begin"]), float(e.get("end", e.get("last", e["begin"]))))
        for e in live.history.events()
        if e["id"] != id and "begin" in e
    ]
    inside = np.zeros(len(at), dtype=bool)
    for begin, end in spans:
        inside |= (at >= begin) & (at <= end)
    return inside


def explained(live: LiveMonitor, X: np.ndarray, found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Signed roots of contributions, and sizes, of the last row of each run."""
    d = len(live.names)
    if not len(found):
        return np.empty((0, d)), np.empty((0, d))
    depth = found.shape[1]
    causes = live.monitor.contributions(X[found.ravel()], average=False)[depth - 1 :: depth]
    roots = [np.sign(c.sizes) * np.sqrt(np.maximum(c.values, 0.0)) for c in causes]
    return np.array(roots), np.array([c.sizes for c in causes])


def runs(rows: np.ndarray, depth: int, most: int) -> np.ndarray:
    """Places of so many consecutive rows, spread over the rows given, (moments, depth).

    Examples
    --------
    >>> runs(np.arange(10, 20), 2, 3).tolist()
    [[10, 11], [14, 15], [18, 19]]
    """
    ends = rows[depth - 1 :]
    chosen = ends[evenly_spaced(len(ends), most)]
    return chosen[:, None] + np.arange(1 - depth, 1)


def scores(live: LiveMonitor, X: np.ndarray, found: np.ndarray) -> np.ndarray:
    """The first two scores of the last row of each run."""
    if not len(found):
        return np.empty((0, 2))
    depth = found.shape[1]
    all_scores = live.monitor.component_scores(X[found.ravel()])[depth - 1 :: depth]
    return np.asarray(
        all_scores[:, :2] if all_scores.shape[1] > 1 else np.repeat(all_scores, 2, axis=1)
    )


def similar(live: LiveMonitor, facts: dict[str, Any]) -> list[tuple[dict[str, Any], float]]:
    """Other events by the cosine of their contributions, the most similar first."""
    mine = np.array(facts.get("direction", ()))
    others = [e for e in live.history.events() if e["id"] != facts["id"]]
    close = [
        (e, float(mine @ np.array(e["direction"])))
        for e in others
        if len(e.get("direction", ())) == len(mine) and len(mine)
    ]
    return sorted((p for p in close if p[1] >= LEAST_COSINE), key=lambda p: -p[1])[:SIMILAR]


def title_of(live: LiveMonitor, facts: dict[str, Any]) -> str:
    """An event in one line."""
    top = ", ".join(f"{words.bare(t['variable'])} {t['text']}" for t in facts.get("top", ())[:3])
    return f"event {facts['id']}: {top}" if top else f"event {facts['id']}"
