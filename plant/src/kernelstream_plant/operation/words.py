"""Formatting of events: units, signed sizes, time stamps, durations, leading variables."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from kernelstream.anomaly import Contributions

_UNIT = re.compile(r"^(.*\S)\s*[\[(]([^\[\]()]{1,12})[\])]$")
EARLIEST, LATEST = 1e8, 1e11  # seconds since 1970 between which a number is taken for a time
_THOUSANDS = (1.0, 1e3, 1e6, 1e9)  # seconds, milliseconds, microseconds, nanoseconds
WORTH_NAMING = 0.05  # of the largest contribution


def units_of(names: Sequence[str], given: Mapping[str, str] | None = None) -> dict[str, str]:
    """The unit of each variable that has one: as given, or as its name says.

    Examples
    --------
    >>> units_of(["flow [m³/h]", "heat (°C)", "load"], {"load": "%"})
    {'flow [m³/h]': 'm³/h', 'heat (°C)': '°C', 'load': '%'}
    """
    units = {name: found[2] for name in names if (found := _UNIT.match(name))}
    return units | dict(given or {})


def bare(name: str) -> str:
    """A name without the unit behind it.

    Examples
    --------
    >>> bare("flow [m³/h]")
    'flow'
    """
    found = _UNIT.match(name)
    return found[1] if found else name


def size(value: float, unit: str = "") -> str:
    """A difference with its sign and its unit.

    Examples
    --------
    >>> size(-0.0912, "°C"), size(1234567.0), size(3.8749, "%")
    ('−0.0912 °C', '+1.23e+06', '+3.87 %')
    """
    text = f"{value:+.3g}".replace("-", "−", 1) if value < 0 else f"{value:+.3g}"
    return f"{text} {unit}" if unit else text


def causes(
    found: Contributions | None, units: Mapping[str, str], most: int = 3
) -> list[tuple[str, float, float, str]]:
    """The variables that matter most: name, share of the largest, size, and the size in words."""
    if found is None:
        return []
    ranking = found.ranking()
    top = max((value for _, value, _ in ranking), default=0.0)
    if not top > 0:
        return []
    return [
        (name, value / top, off, size(off, units.get(name, "")))
        for name, value, off in ranking[:most]
        if value >= WORTH_NAMING * top
    ]


def in_words(found: Contributions | None, units: Mapping[str, str], most: int = 3) -> str:
    """The variables behind an event: ``XMV_10 +3.87 %, XMEAS_9 −0.09 °C``."""
    return ", ".join(f"{bare(name)} {off}" for name, _, _, off in causes(found, units, most))


def signed_roots(found: Contributions) -> list[float]:
    """Contributions as a direction, by which events are compared."""
    roots = np.sign(found.sizes) * np.sqrt(np.maximum(found.values, 0.0))
    return [float(v) for v in roots / max(float(np.linalg.norm(roots)), 1e-300)]


def seconds_of(time: Any) -> float | None:
    """A time stamp as seconds since 1970; None for one that is no time of the day.

    Examples
    --------
    >>> seconds_of("1970-01-01T00:01:00Z"), seconds_of(1_700_000_000_000), seconds_of(17)
    (60.0, 1700000000.0, None)
    """
    if isinstance(time, datetime):
        return time.timestamp()
    if isinstance(time, np.datetime64):
        return float(time.astype("datetime64[us]").astype(np.int64)) / 1e6
    if isinstance(time, str):
        try:
            return datetime.fromisoformat(time.strip()).timestamp()
        except ValueError:
            pass
    try:
        number = float(time)
    except (TypeError, ValueError, OverflowError):
        return None
    for factor in _THOUSANDS:
        if EARLIEST < number / factor < LATEST:
            return number / factor
    return None


def clock(at: float, now: float | None = None) -> str:
    """A time for people: hours and minutes, with the day where it is another one.

    Examples
    --------
    >>> len(clock(0.0, 60.0)), len(clock(0.0, 1e6))
    (5, 16)
    """
    when = datetime.fromtimestamp(at)
    same = now is None or datetime.fromtimestamp(now).date() == when.date()
    return f"{when:%H:%M}" if same else f"{when:%Y-%m-%d %H:%M}"


def duration(seconds: float) -> str:
    """A duration for people.

    Examples
    --------
    >>> duration(0.012), duration(4.0), duration(90.0), duration(7300.0), duration(200_000.0)
    ('0 s', '4 s', '2 min', '2 h', '2 d')
    """
    if not math.isfinite(seconds):
        return "–"
    for unit, width, most in (("s", 1, 90), ("min", 60, 5400), ("h", 3600, 172_800)):
        if abs(seconds) < most:
            return f"{seconds / width:.0f} {unit}".replace("-", "−")
    return f"{seconds / 86_400:.0f} d"
