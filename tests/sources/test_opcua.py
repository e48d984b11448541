"""Rows from OPC UA, with asyncua's own server."""

from __future__ import annotations

import asyncio
import io
import socket
import threading
import time
from typing import Any

import pytest

from kernelstream.sources import SourceError
from kernelstream.sources.live import LiveRow, LiveRows

pytest.importorskip("asyncua", reason="needs asyncua")
from asyncua import Server, ua

from kernelstream.sources.opcua import OpcUaFeed

pytestmark = pytest.mark.filterwarnings("ignore")


class Plant:
    """A server with two variables that change five times a second."""

    def __init__(self, port: int | None = None) -> None:
        if port is None:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
        self.port, self.stopped, self.text = port, False, False
        self.quality = ua.StatusCodes.Good
        self.started = threading.Event()
        self.thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self.thread.start()
        assert self.started.wait(30)

    async def _run(self) -> None:
        server = Server()
        await server.init()
        server.set_endpoint(f"opc.tcp://127.0.0.1:{self.port}/")
        server.set_security_policy([ua.SecurityPolicyType.NoSecurity])
        place = await server.nodes.objects.add_object(2, "Line")
        a = await place.add_variable(2, "a", 0.0)
        b = await place.add_variable(2, "b", 0.0)
        async with server:
            self.started.set()
            n = 0.0
            while not self.stopped:
                n += 1.0
                await a.write_value(n)
                status = ua.StatusCode(ua.UInt32(self.quality))
                value = ua.Variant(-n, ua.VariantType.Double)
                await b.write_value(ua.DataValue(value, status))
                await asyncio.sleep(0.2)

    def end(self) -> None:
        self.stopped = True
        self.thread.join(20)


def feed(plant: Plant, *names: str, more: str = "?interval=0.5&tolerance=2") -> OpcUaFeed:
    parse = LiveRows(io.BytesIO(), len(names), list(names), takes_missing=True)
    return OpcUaFeed(f"opcua://127.0.0.1:{plant.port}/{more}", parse)


def take(made: OpcUaFeed, n: int, seconds: float = 20.0) -> list[Any]:
    found: list[Any] = []
    until = time.monotonic() + seconds
    for row in made.rows():
        if row is not None:
            found.append(row)
        if len(found) >= n or time.monotonic() > until:
            break
    return found


def test_variables_become_rows_and_bad_quality_is_missing() -> None:
    plant = Plant()
    try:
        made = feed(plant, "a", "b")
        rows = take(made, 3)
        assert len(rows) == 3 and all(isinstance(row, LiveRow) for row in rows)
        assert rows[-1].x[0] > rows[0].x[0] >= 1.0 and rows[-1].x[1] < 0.0
        assert rows[1].time - rows[0].time == pytest.approx(0.5)
        plant.quality = ua.StatusCodes.BadSensorFailure
        until = time.monotonic() + 20
        while time.monotonic() < until:
            (row,) = take(made, 1)
            if row.x[1] != row.x[1]:
                break
        assert row.x[1] != row.x[1] and row.x[0] > 0
        made.close()
        with pytest.raises(SourceError, match="has no variable zzz"):
            feed(plant, "a", "zzz")
    finally:
        plant.end()


def test_no_server() -> None:
    parse = LiveRows(io.BytesIO(), 1, ["a"])
    with pytest.raises(SourceError, match="opcua://127"):
        OpcUaFeed("opcua://127.0.0.1:1", parse)
    with pytest.raises(SourceError, match="Settings of OPC UA"):
        OpcUaFeed("opcua://127.0.0.1:1", parse, {"x": "y"})


@pytest.mark.slow
def test_a_server_that_goes_away_and_comes_back() -> None:
    plant = Plant()
    made = feed(plant, "a", "b")
    told: list[str] = []
    made.tell = told.append
    assert len(take(made, 2)) == 2
    plant.end()
    take(made, 10**6, seconds=10.0)
    plant = Plant(plant.port)
    rows = take(made, 10**6, seconds=25.0)
    made.close()
    plant.end()
    assert any("no connection" in text for text in told) and any("is back" in text for text in told)
    assert isinstance(rows[-1], LiveRow) and rows[-1].x[0] == rows[-1].x[0]
