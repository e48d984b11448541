"""Prometheus metrics of a monitor: gauges, counters, histograms, HTTP endpoint."""

from __future__ import annotations

import math
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from kernelstream.anomaly import Record
from kernelstream_plant.operation.history import COLUMNS, channel_values
from kernelstream_plant.operation.live import LiveMonitor, Notice
from kernelstream_plant.operation.words import causes

PREFIX = "kernelstream"
MOST_VARIABLES = 10  # of an event: bounded, however wide a row is
LAGS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
TIMES = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 1.0)
HELP = {
    "index": "The index of the last row.",
    "limit": "The limit that decides about the alarm.",
    "p_value": "Share of normal rows at least as far out as the last one.",
    "t2": "T squared of the last row.",
    "spe": "Squared prediction error of the last row.",
}


class Metrics:
    """The numbers of a LiveMonitor, kept up to date by its rows.

    Parameters
    ----------
    live : LiveMonitor
        What is measured.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import KernelMonitor
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> live = LiveMonitor(KernelMonitor(basis=30, random_state=0).fit(X[:200]), title="plant")
    >>> metrics = Metrics(live)
    >>> _ = live.update_many(X[200:])
    >>> metrics.registry.get_sample_value("kernelstream_rows_total", {"monitor": "plant"})
    100.0
    """

    def __init__(self, live: LiveMonitor):
        self.live, self.registry = live, CollectorRegistry()
        self.gauges = {name: self._gauge(name, HELP.get(name, name)) for name in COLUMNS}
        self.rows = self._counter("rows", "Rows that were judged.")
        self.bad = self._counter("bad_rows", "Rows that could not be judged.")
        self.missing = self._counter("missing_values", "Values that were missing.")
        self.alarms = self._counter("alarms", "Rows that raised an alarm.")
        self.events = self._counter("events", "Events that began.")
        self.silences = self._counter("silences", "Times that no data came.")
        self.event = self._gauge("event", "Number of the present event, 0 for none.")
        self.silent = self._gauge("silent", "1 while no data come.")
        self.lag = self._histogram(
            "lag_seconds", "From the time stamp of a row to its arrival.", LAGS
        )
        self.spent = self._histogram("processing_seconds", "Time spent on a row.", TIMES)
        self.contribution = Gauge(
            f"{PREFIX}_event_contribution",
            "Contributions to the present event, as shares of the largest: the leading variables.",
            ["monitor", "variable"],
            registry=self.registry,
        )
        self.size = Gauge(
            f"{PREFIX}_event_size",
            "How far the leading variables of the present event are off, in units of the data.",
            ["monitor", "variable"],
            registry=self.registry,
        )
        self._shown: set[str] = set()
        live.observers.append(self.observe)
        live.listeners.append(self.hear)

    def _gauge(self, name: str, text: str) -> Any:
        made = Gauge(f"{PREFIX}_{name}", text, ["monitor"], registry=self.registry)
        return made.labels(self.live.title)

    def _counter(self, name: str, text: str) -> Any:
        made = Counter(f"{PREFIX}_{name}", text, ["monitor"], registry=self.registry)
        return made.labels(self.live.title)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Any:
        made = Histogram(
            f"{PREFIX}_{name}", text, ["monitor"], registry=self.registry, buckets=buckets
        )
        return made.labels(self.live.title)

    def observe(self, record: Record, lag: float, seconds: float) -> None:
        """One more row."""
        for gauge, value in zip(self.gauges.values(), channel_values(record), strict=True):
            gauge.set(value)
        self.rows.inc()
        self.missing.inc(len(record.missing))
        self.alarms.inc(int(record.alarm))
        self.event.set(record.event or 0)
        self.spent.observe(seconds)
        if not math.isnan(lag):
            self.lag.observe(max(lag, 0.0))
        if record.event is None and self._shown:
            self._show({})
        elif record.event is not None and record.contributions is not None:
            found = causes(record.contributions, {}, MOST_VARIABLES)
            self._show({name: (share, off) for name, share, off, _ in found})

    def _show(self, leading: dict[str, tuple[float, float]]) -> None:
        for name in self._shown - set(leading):
            self.contribution.remove(self.live.title, name)
            self.size.remove(self.live.title, name)
        for name, (share, off) in leading.items():
            self.contribution.labels(self.live.title, name).set(share)
            self.size.labels(self.live.title, name).set(off)
        self._shown = set(leading)

    def hear(self, notice: Notice) -> None:
        """Something happened."""
        self.events.inc(notice.kind == "begin")
        self.silences.inc(notice.kind == "silence")
        if notice.kind in ("silence", "data"):
            self.silent.set(notice.kind == "silence")

    def count_bad(self) -> None:
        """A row that could not be judged."""
        self.bad.inc()

    def serve(self, address: str = "127.0.0.1", port: int = 9109) -> Any:
        """Answer scrapes at an address; returns the server, which has ``shutdown``.

        Parameters
        ----------
        address : str
            Where to listen.
        port : int
            0 for one that is free.
        """
        server, _ = start_http_server(port, address, self.registry)
        return server
