"""OPC UA: subscribed nodes as tags, bad quality as missing, reconnection with back-off.

``opcua://host:4840?interval=1`` subscribes to the variables that have the names of the model's
columns, found by their browse name under the Objects folder, or by node id where the names are node
ids (``ns=2;s=Line.Flow``). A value of bad quality is missing.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import queue
import threading
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

from asyncua import Client, ua

from kernelstream.tables import LiveRows, SourceError
from kernelstream_plant.sources.tags import TagFeed, TagJoin, join_of

SETTINGS = ("username", "password", "security")
DEEPEST, MOST_NODES = 6, 20_000
ALIVE = 2.0  # seconds between two looks whether the server is there
ANSWER = 30.0


class OpcUaFeed(TagFeed):
    """Variables of a server as rows.

    Parameters
    ----------
    address : str
        ``opcua://host:4840/path``.
    parse : LiveRows
        What makes rows; its names are those of the tags.
    settings : dict
        ``username``, ``password``, ``security`` (``Policy,Mode,certificate,key``).
    """

    join: TagJoin

    def __init__(self, address: str, parse: LiveRows, settings: dict[str, str] | None = None):
        parts = urlsplit(address)
        if not parts.hostname or "@" in parts.netloc:
            raise SourceError(
                f"{address!r} is no address of a server: write opcua://host:4840; users and "
                "passwords go into the file of --settings."
            )
        options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        self.url = f"opc.tcp://{parts.hostname}:{parts.port or 4840}{parts.path}"
        self.settings = dict(settings or {})
        unknown = set(self.settings) - set(SETTINGS)
        if unknown:
            raise SourceError(
                f"Settings of OPC UA are {', '.join(SETTINGS)}; got {sorted(unknown)}."
            )
        super().__init__(parse, join_of(options, parse.names, lambda text: self.tell(text)))
        if options:
            raise SourceError(f"{address!r}: {', '.join(options)} is unknown.")
        self.ended, self._began = threading.Event(), False
        self._first: queue.Queue[Exception | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="opcua", daemon=True)
        self._thread.start()
        problem = self._first.get(timeout=2 * ANSWER)
        if problem is not None:
            raise SourceError(f"{address}: {problem}") from problem

    # -- the thread of the client

    def _run(self) -> None:
        asyncio.run(self._stay())

    async def _stay(self) -> None:
        """Until the end; what goes wrong at first is an error, later it is tried again."""
        backoff = Backoff()
        while not self.ended.is_set():
            try:
                await self._follow(backoff)
            except Exception as problem:  # of the network, of OPC UA, of files with certificates
                if not self._began:
                    self._first.put(problem)
                    return
                why = str(problem) or type(problem).__name__
                self.lose(f"no connection to {self.url} ({why})")
                await asyncio.sleep(backoff.next())

    async def _follow(self, backoff: Backoff) -> None:
        client = Client(self.url, timeout=ANSWER / 3)
        if "security" in self.settings:
            await client.set_security_string(self.settings["security"])
        if "username" in self.settings:
            client.set_user(self.settings["username"])
            client.set_password(self.settings.get("password", ""))
        async with client:
            nodes = await self._nodes(client)
            subscription = await client.create_subscription(
                1000 * min(self.join.interval / 2, 1.0), Handler(self, nodes)
            )
            await self._subscribe(subscription, nodes)
            backoff.reset()
            self.find(f"{self.url} is back")
            if not self._began:
                self._began = True
                self._first.put(None)
            looked = time.monotonic()
            while not self.ended.is_set():
                await asyncio.sleep(0.2)
                if time.monotonic() - looked > ALIVE:
                    looked = time.monotonic()
                    await asyncio.wait_for(client.check_connection(), ANSWER / 3)
                    await asyncio.wait_for(client.nodes.server_state.read_value(), ANSWER / 3)
            with contextlib.suppress(Exception):
                await subscription.delete()

    async def _subscribe(self, subscription: Any, nodes: dict[Any, str]) -> None:
        """Be told of every value, also of one that is like the last: its sensor is alive."""
        wanted = []
        for handle, node in enumerate(nodes, 1):
            item = ua.MonitoredItemCreateRequest()
            item.ItemToMonitor.NodeId = node
            item.ItemToMonitor.AttributeId = ua.AttributeIds.Value
            item.MonitoringMode = ua.MonitoringMode.Reporting
            item.RequestedParameters.ClientHandle = handle
            item.RequestedParameters.SamplingInterval = 1000 * min(self.join.interval / 2, 1.0)
            item.RequestedParameters.QueueSize = 1
            change = ua.DataChangeFilter()
            change.Trigger = ua.DataChangeTrigger.StatusValueTimestamp
            item.RequestedParameters.Filter = change
            wanted.append(item)
        answers = await subscription.create_monitored_items(wanted)
        refused = [
            name
            for name, answer in zip(nodes.values(), answers, strict=True)
            if isinstance(answer, ua.StatusCode)
        ]
        if refused:
            raise SourceError(f"{self.url} does not let {', '.join(refused[:10])} be followed.")

    async def _nodes(self, client: Client) -> dict[Any, str]:
        """Node ids of the tags."""
        wanted = set(self.parse.names or ())
        found: dict[Any, str] = {}
        for name in [n for n in wanted if "=" in n]:
            with contextlib.suppress(ua.UaError, ValueError):
                node = client.get_node(name)
                await node.read_value()
                found[node.nodeid] = name
        edge, seen = [client.nodes.objects], 0
        for _ in range(DEEPEST):
            below: list[Any] = []
            for node in edge:
                for child in await node.get_children_descriptions():
                    seen += 1
                    name = child.BrowseName.Name
                    if child.NodeClass == ua.NodeClass.Variable and name in wanted:
                        found[child.NodeId] = name
                    elif child.NodeClass == ua.NodeClass.Object and name != "Server":
                        below.append(client.get_node(child.NodeId))
                    if seen > MOST_NODES:
                        break
            edge = below
        missing = sorted(wanted - set(found.values()))
        if missing:
            raise SourceError(f"{self.url} has no variable {', '.join(missing[:10])}.")
        return found

    # -- the feed

    def take(self, name: str, value: float | str, at: float) -> str | None:
        """A value of a tag; the reason in words where it is none.

        Parameters
        ----------
        name : str
            The tag.
        value : float or str
            The value.
        at : float
            When the server had it.
        """
        if isinstance(value, str):
            return f"{name}: {value}"
        self.join.put(name, value, at)
        return None

    def close(self) -> None:
        """Let go of the server."""
        self.ended.set()
        self._thread.join(5.0)


class Handler:
    """What the subscription calls with every change."""

    def __init__(self, feed: OpcUaFeed, names: dict[Any, str]):
        self.feed, self.names = feed, names

    def datachange_notification(self, node: Any, value: Any, data: Any) -> None:
        """A tag has another value."""
        name = self.names[node.nodeid]
        known = data.monitored_item.Value
        stamp = known.SourceTimestamp or known.ServerTimestamp
        at = time.time() if stamp is None else seconds(stamp)
        if known.StatusCode is not None and not known.StatusCode.is_good():
            value = math.nan
        elif isinstance(value, bool) or not isinstance(value, int | float):
            self.feed.messages.put((name, f"{value!r} is not a number", at))
            return
        self.feed.messages.put((name, float(value), at))


def seconds(stamp: Any) -> float:
    """A time of the server, which is UTC whether it says so or not."""
    from datetime import UTC

    return float((stamp if stamp.tzinfo is not None else stamp.replace(tzinfo=UTC)).timestamp())


class Backoff:
    """Seconds to wait before the next attempt: twice as long each time, up to a bound.

    Examples
    --------
    >>> backoff = Backoff(1.0, 5.0)
    >>> [backoff.next() for _ in range(4)]
    [1.0, 2.0, 4.0, 5.0]
    """

    def __init__(self, first: float = 0.5, most: float = 30.0):
        self.first, self.most, self.wait = first, most, first

    def next(self) -> float:
        """The next wait."""
        wait = self.wait
        self.wait = min(2 * self.wait, self.most)
        return wait

    def reset(self) -> None:
        """It worked: begin anew."""
        self.wait = self.first
