"""Rows from MQTT, with a real broker: tags, rows, garbage, a broker that goes away."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kernelstream.sources import SourceError
from kernelstream.sources.live import LiveRow, LiveRows

pytest.importorskip("paho.mqtt", reason="needs paho-mqtt")
pytest.importorskip("amqtt", reason="needs amqtt, a broker")
import paho.mqtt.client as mqtt
from amqtt.broker import Broker

from kernelstream.sources.mqtt import MqttFeed, value_in

pytestmark = pytest.mark.filterwarnings("ignore")


class Running:
    """A broker in a thread, which can be ended and begun again at the same port."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.begin()

    def begin(self) -> None:
        self.loop = asyncio.new_event_loop()
        started = threading.Event()

        def run() -> None:
            asyncio.set_event_loop(self.loop)

            async def start() -> None:
                self.broker = Broker(
                    {
                        "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{self.port}"}},
                        "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {}},
                    }
                )
                await self.broker.start()
                started.set()

            self.loop.run_until_complete(start())
            self.loop.run_forever()

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        assert started.wait(20)

    def end(self) -> None:
        asyncio.run_coroutine_threadsafe(self.broker.shutdown(), self.loop).result(20)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)

    def send(self, *messages: tuple[str, bytes]) -> None:
        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        client.connect("127.0.0.1", self.port)
        client.loop_start()
        for topic, payload in messages:
            client.publish(topic, payload, qos=1).wait_for_publish(10)
        client.disconnect()
        client.loop_stop()


@pytest.fixture(scope="module")
def broker() -> Iterator[Running]:
    running = Running()
    yield running
    running.end()


def feed(broker: Running, topic: str, names: list[str] | None = None) -> MqttFeed:
    parse = LiveRows(io.BytesIO(), 2, names or ["a", "b"], takes_missing=True)
    made = MqttFeed(f"mqtt://127.0.0.1:{broker.port}/{topic}", parse)
    until = time.monotonic() + 10
    while not made.client.is_connected() and time.monotonic() < until:
        time.sleep(0.02)
    time.sleep(0.3)  # the subscription
    return made


def take(made: MqttFeed, n: int, seconds: float = 15.0) -> list[Any]:
    found: list[Any] = []
    until = time.monotonic() + seconds
    for row in made.rows():
        if row is not None:
            found.append(row)
        if len(found) >= n or time.monotonic() > until:
            break
    return found


def value(number: float, at: float) -> bytes:
    return json.dumps({"value": number, "time": at}).encode()


def test_tags_become_rows(broker: Running) -> None:
    made = feed(broker, "p1/+/value?interval=1&tolerance=5&client=one")
    messages = [("p1/other/value", value(9, 1_700_000_001.0))]
    for second in range(5):
        at = 1_700_000_000.2 + second
        messages += [("p1/a/value", value(second, at)), ("p1/b/value", value(-second, at + 0.1))]
    broker.send(*messages)
    rows = take(made, 4)
    made.close()
    assert [row.x.tolist() for row in rows[:4]] == [[0, 0], [1, -1], [2, -2], [3, -3]]
    assert [row.time for row in rows[:4]] == [1_700_000_001.0 + i for i in range(4)]
    assert made.join is not None and made.join.unknown == 1


def test_whole_rows_and_garbage(broker: Running) -> None:
    made = feed(broker, "p2?client=two")
    broker.send(("p2", b'{"a": 1, "b": 2}'), ("p2", b"3,4"), ("p2", b"{broken"), ("p2", b"warm"))
    rows = take(made, 4)
    made.close()
    assert [row.x.tolist() for row in rows if isinstance(row, LiveRow)] == [[1, 2], [3, 4]]
    wrong = [row for row in rows if isinstance(row, str)]
    assert len(wrong) == 2 and all(w.startswith("p2: ") for w in wrong)


def test_values() -> None:
    assert value_in(b'{"value": 1, "time": 1700000000000}') == (1.0, 1_700_000_000.0)
    assert value_in(b'{"value": "x"}') == ("'x' is not a number", None)


def test_addresses(broker: Running) -> None:
    parse = LiveRows(io.BytesIO(), 2, ["a", "b"])
    for wrong, why in (
        ("mqtt://host", "mqtt://host/plant"),
        ("mqtt://me:pw@host/x", "--settings"),
        (f"mqtt://127.0.0.1:{broker.port}/x?colour=red", "colour is unknown"),
        ("mqtt://127.0.0.1:1/x", "no broker answers"),
    ):
        with pytest.raises(SourceError, match=why):
            MqttFeed(wrong, parse)
    with pytest.raises(SourceError, match="Settings of MQTT"):
        MqttFeed(f"mqtt://127.0.0.1:{broker.port}/x", parse, {"pasword": "x"})


@pytest.mark.slow
def test_a_broker_that_goes_away_and_comes_back() -> None:
    own = Running()
    made = feed(own, "p3?client=three")
    told: list[str] = []
    made.tell = told.append
    own.send(("p3", b"1,2"))
    assert len(take(made, 1)) == 1
    own.end()
    assert take(made, 1, seconds=10.0) == []
    own.begin()
    until = time.monotonic() + 40
    while not made.client.is_connected() and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(0.5)
    own.send(("p3", b"3,4"))
    rows = take(made, 1, seconds=20.0)
    made.close()
    own.end()
    assert [row.x.tolist() for row in rows] == [[3.0, 4.0]]
    assert any("no connection" in text for text in told) and any("is back" in text for text in told)
