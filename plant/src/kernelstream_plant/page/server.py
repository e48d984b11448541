"""Bokeh server thread of the live page: allowed host names, restart detection, CSV downloads."""

from __future__ import annotations

import asyncio
import csv
import io
import os
import secrets
import socket
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Self

from bokeh.application import Application
from bokeh.server.server import BaseServer
from bokeh.server.util import bind_sockets
from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop, PeriodicCallback
from tornado.web import RequestHandler

from kernelstream.anomaly import Event, KernelMonitor, Record, Records
from kernelstream_plant.operation import LiveMonitor
from kernelstream_plant.page import pages
from kernelstream_plant.page.access import Access, Guarded, Visit, token_for

LARGEST_MESSAGE = 1 << 20  # bytes a browser may send
BUILDERS = {
    "/": pages.now,
    "/event": pages.event,
    "/sensors": pages.sensors,
    "/log": pages.log,
    "/model": pages.model,
}
LOCAL = ("127.0.0.1", "localhost", "::1")
FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Page:
    """The live page of a monitor; rows are given to it, and the verbs are those of the monitor.

    Made by :func:`serve`.

    Attributes
    ----------
    live : LiveMonitor
        The monitor in operation.
    address : str
        Where the page is, with the operator's token: keep it to yourself.
    view_address : str
        The same for those who may look and press nothing.
    """

    def __init__(
        self,
        live: LiveMonitor,
        address: str,
        port: int,
        access: Access,
        origins: Sequence[str],
        owned: bool,
    ):
        self.live, self._owned = live, owned
        self._started = threading.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(
            target=self._run, args=(address, port, access, origins), name="live page", daemon=True
        )
        self._thread.start()
        self._started.wait()
        if self._problem is not None:
            raise self._problem
        host = socket.gethostname() if address in ("0.0.0.0", "::", "") else address
        base = f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"
        self.address = f"{base}?token={access.token}"
        self.view_address = f"{base}?token={access.view_token}"

    def _run(self, address: str, port: int, access: Access, origins: Sequence[str]) -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        try:
            sockets, self.port = bind_sockets(address, port)
            cookie = f"kernelstream_{self.port}"
            boot = secrets.token_hex(8)

            def role_of(request: Any) -> str | None:
                return application.role_of(request)

            application = Guarded(
                {
                    path: Application(Visit(partial(built, build, self.live), role_of))
                    for path, build in BUILDERS.items()
                },
                access,
                cookie,
                extra_patterns=[
                    ("/alive", Alive, {"boot": boot}),
                    ("/events.csv", Table, {"live": self.live}),
                    ("/log.csv", Table, {"live": self.live}),
                ],
                extra_websocket_origins=allowed(address, self.port, origins),
                websocket_max_message_size_bytes=LARGEST_MESSAGE,
                keep_alive_milliseconds=10_000,
                use_index=False,
                redirect_root=False,
            )
            http = HTTPServer(application, max_buffer_size=LARGEST_MESSAGE)
            http.add_sockets(sockets)
            self._loop = IOLoop.current()
            self._server = BaseServer(self._loop, application, http)
            self._server.start()
            PeriodicCallback(self.live.look, 250).start()
        except BaseException as problem:
            self._problem = problem
            self._started.set()
            return
        self._started.set()
        self._loop.start()
        self._loop.close()

    def update(self, x: Any, time: Any = None) -> Record:
        """Judge the next row, then learn from it: as :meth:`~kernelstream.KernelMonitor.update`.

        Parameters
        ----------
        x : array of shape (d,)
            NaN where a value is missing.
        time : object, optional
            Its time stamp.
        """
        return self.live.update(x, time)

    def update_many(self, X: Any, time: Sequence[Any] | None = None) -> Records:
        """Judge and learn rows, one after the other.

        Parameters
        ----------
        X : array of shape (n, d)
            The next rows.
        time : sequence of length n, optional
            Their time stamps.
        """
        return self.live.update_many(X, time)

    def acknowledge(self) -> Event:
        """Say that the present event was seen."""
        return self.live.acknowledge()

    def accept(self, instead: bool = False) -> Event:
        """Declare the present event normal.

        Parameters
        ----------
        instead : bool
            In the place of what was normal before, or as well.
        """
        return self.live.accept(instead)

    def close(self) -> None:
        """End the page; the history is complete then."""
        if self._thread.is_alive():

            def end() -> None:
                self._server.stop()
                self._loop.stop()

            self._loop.add_callback(end)
            self._thread.join(10.0)
        if self._owned:
            self.live.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def _repr_html_(self) -> str:
        return f'<a href="{self.address}" target="_blank">the live page</a>'


def serve(
    monitor: KernelMonitor | LiveMonitor,
    *,
    address: str = "127.0.0.1",
    port: int = 0,
    folder: str | os.PathLike[str] | None = None,
    token: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    origins: Sequence[str] = (),
    units: Mapping[str, str] | None = None,
    title: str = "monitor",
) -> Page:
    """Open the live page of a monitor, in this process and beside what it does.

    Parameters
    ----------
    monitor : KernelMonitor or LiveMonitor
        A fitted one; a LiveMonitor where there is one already.
    address : str
        Where to listen. Every request needs the token, at any address.
    port : int
        0 for one that is free.
    folder : path-like, optional
        Where the history is kept: a later start shows the past.
    token : str, optional
        Of at least 16 characters. Without any: that of ``token_file``, of the environment variable
        ``KERNELSTREAM_TOKEN``, or a random one, which the folder remembers.
    token_file : path-like, optional
        That holds the token.
    origins : sequence of str
        Further names under which browsers reach the page, such as that of a reverse proxy:
        ``"plant.example.org"``.
    units : mapping of name to unit, optional
        Of the variables.
    title : str
        What is monitored.

    Returns
    -------
    Page
        With ``address``, ``update``, ``update_many`` and ``close``.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import KernelMonitor
    >>> from kernelstream_plant.page import serve
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> with serve(KernelMonitor(basis=30, random_state=0).fit(X[:200])) as page:
    ...     records = page.update_many(X[200:])
    ...     page.address.startswith("http://127.0.0.1:")
    True
    """
    owned = not isinstance(monitor, LiveMonitor)
    if isinstance(monitor, LiveMonitor):
        live = monitor
    else:
        live = LiveMonitor(monitor, folder=folder, units=units, title=title)
    kept = live.history.folder
    file = None if token_file is None else Path(token_file)
    try:
        access = Access(token_for(kept, file) if token is None else token)
        return Page(live, address, port, access, origins, owned)
    except BaseException:
        if owned:
            live.close()
        raise


def allowed(address: str, port: int, origins: Sequence[str]) -> list[str]:
    """Names under which a browser may have opened the page.

    Examples
    --------
    >>> allowed("10.0.0.7", 8765, ["plant.example.org"])
    ['10.0.0.7:8765', 'plant.example.org', 'plant.example.org:80', 'plant.example.org:443']
    """
    hosts = [address]
    if address in LOCAL:
        hosts = ["127.0.0.1", "localhost", "[::1]"]
    elif address in ("0.0.0.0", "::", ""):
        name = socket.gethostname()
        hosts = ["127.0.0.1", "localhost", name, socket.getfqdn(), *own_addresses(name)]
    known = [f"{host.lower()}:{port}" for host in dict.fromkeys(hosts)]
    for origin in origins:
        host = origin.lower().split("://")[-1].rstrip("/")
        known += [host] if ":" in host else [host, f"{host}:80", f"{host}:443"]
    return known


def own_addresses(name: str) -> list[str]:
    """The addresses that this machine's name leads to."""
    try:
        found = socket.getaddrinfo(name, None, socket.AF_INET)
    except OSError:
        return []
    return sorted({str(entry[4][0]) for entry in found})


def built(build: Any, live: LiveMonitor, doc: Any) -> None:
    """One page for one browser."""
    build(doc, live)


class Alive(RequestHandler):
    """Which start of the server this is, for a page that was left open."""

    def initialize(self, boot: str) -> None:
        """Keep what the pattern says."""
        self.boot = boot

    def get(self) -> None:
        """Say it."""
        self.finish(self.boot)


class Table(RequestHandler):
    """Events or the log as CSV."""

    def initialize(self, live: LiveMonitor) -> None:
        """Keep what the pattern says."""
        self.live = live

    def get(self) -> None:
        """Write the table."""
        of_events = self.request.path == "/events.csv"
        self.set_header("Content-Type", "text/csv; charset=utf-8")
        self.finish(events_csv(self.live) if of_events else log_csv(self.live))


def events_csv(live: LiveMonitor) -> str:
    """All events."""
    head = ["event", "begin", "end", "rows", "peak", "off_by", "acknowledged", "accepted"]
    lines = [
        [
            e["id"],
            iso(e.get("begin")),
            iso(e.get("end")),
            e.get("rows", ""),
            e.get("peak", ""),
            ", ".join(f"{t['variable']} {t['text']}" for t in e.get("top", ())),
            bool(e.get("acknowledged")),
            bool(e.get("accepted")),
            e.get("class", ""),
            e.get("comment", ""),
        ]
        for e in live.history.events(100_000)
    ]
    return as_csv([*head, "class", "comment"], lines)


def log_csv(live: LiveMonitor) -> str:
    """All lines of the log."""
    lines = [[iso(n.at), n.kind, n.event or "", n.text] for n in live.history.log(100_000)]
    return as_csv(["time", "kind", "event", "text"], lines)


def as_csv(head: list[str], lines: list[list[Any]]) -> str:
    """A table as text; a cell that a spreadsheet would take for a formula is quoted for it."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(head)
    for line in lines:
        writer.writerow(
            [f"'{v}" if isinstance(v, str) and v.startswith(FORMULA) else v for v in line]
        )
    return out.getvalue()


def iso(at: float | None) -> str:
    """A time for programs."""
    return (
        ""
        if at is None
        else datetime.fromtimestamp(at).astimezone().isoformat(timespec="milliseconds")
    )
