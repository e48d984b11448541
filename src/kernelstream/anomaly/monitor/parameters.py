"""Parameter validation of the monitor: alpha, memory, lags; warning if there are too few rows."""

from __future__ import annotations

import math
import warnings
from itertools import product
from typing import TYPE_CHECKING

from kernelstream import landmarks
from kernelstream.anomaly.monitor.fitting import RIDGES, WIDTHS
from kernelstream.anomaly.monitor.limits import Limits
from kernelstream.anomaly.monitor.normal import Setting
from kernelstream.serialization import check_choice, check_count, check_number

if TYPE_CHECKING:
    from kernelstream.anomaly.monitor.estimator import KernelMonitor

LEAST_ALPHA, MOST_ALPHA = 1e-12, 0.5  # below, no score that a fault can reach is so rare
USUAL_ALPHA = 0.01  # a limit of this share is fair by a log-normal law of a few rows too


def settings_of(given: KernelMonitor, seed: int = 0) -> list[Setting]:
    """The settings that ``fit`` chooses from; parameters that make no sense raise in words."""
    name = type(given).__name__
    check_stream_parameters(given)
    if given.smooth is not None and given.smooth != 1:
        check_number(name, "smooth", given.smooth, 0, 1)
    widths = WIDTHS if given.width == "auto" else (given.width,)
    ridges = RIDGES if given.ridge == "auto" else (given.ridge,)
    check_number(name, "width", widths[0])
    check_number(name, "ridge", ridges[0])
    if given.lags not in ("auto", 0):
        check_count(name, "lags", given.lags, none_allowed=False)
    check_choice("whiten", given.whiten, ("auto", True, False))
    whitens = (True, False) if given.whiten == "auto" else (given.whiten,)
    basis = landmarks.resolve(given.basis)
    return [
        Setting(bool(whiten), float(width), float(ridge), basis, seed)
        for whiten, width, ridge in product(whitens, widths, ridges)
    ]


def check_stream_parameters(given: KernelMonitor) -> None:
    """Raise in words when a parameter that may change along the stream makes no sense."""
    name = type(given).__name__
    check_number(name, "alpha", given.alpha, LEAST_ALPHA, MOST_ALPHA)
    if (given.false_events_per_day is None) != (given.interval is None):
        raise ValueError(
            f"{name}: false_events_per_day and interval, the seconds between rows, belong "
            f"together, got {given.false_events_per_day!r} and {given.interval!r}."
        )
    for parameter in ("false_events_per_day", "interval"):
        if getattr(given, parameter) is not None:
            check_number(name, parameter, getattr(given, parameter))
    check_count(name, "memory", given.memory, none_allowed=False)
    check_choice("adapt", given.adapt, ("event", "off"))


def alarm_rate(given: KernelMonitor, limits: Limits) -> float:
    """Share of normal rows that may raise an alarm.

    A false event has several alarms, as many as normal rows have shown: one event in so many rows
    is as many times that share.
    """
    check_stream_parameters(given)  # they may have changed since the last row, or come from a file
    if given.false_events_per_day is None or given.interval is None:
        return float(given.alpha)
    rows_a_day = 24.0 * 3600.0 / float(given.interval)
    share = float(given.false_events_per_day) / rows_a_day * limits.burst
    return min(max(share, LEAST_ALPHA), MOST_ALPHA)


def warn_of_few_rows(given: KernelMonitor, limits: Limits) -> None:
    """Say when the rows are too few to know a limit that is exceeded so rarely."""
    n, alpha = len(limits.index.ordered), alarm_rate(given, limits)
    if n < 1.0 / alpha and alpha < USUAL_ALPHA:
        warnings.warn(
            f"The limits come from {n} rows, too few for alarms in a share of {alpha:.2g} of the "
            "rows: a score so rare is guessed from a log-normal law. Give at least "
            f"{math.ceil(1.0 / alpha)} rows of normal operation, or allow a larger share.",
            stacklevel=4,
        )
