"""Rows from MQTT, with a real broker: tags, rows, garbage, a broker that goes away."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelstream.tables import Source, SourceError
from kernelstream.tables.live import LiveRow, LiveRows

pytest.importorskip("paho.mqtt", reason="needs paho-mqtt")
pytest.importorskip("amqtt", reason="needs amqtt, a broker")
import paho.mqtt.client as mqtt
from amqtt.broker import Broker

from kernelstream.tables.addresses import Cells
from kernelstream.tables.feeds import open_address, read_settings
from kernelstream_plant.sources.mqtt import MqttFeed, value_in

pytestmark = pytest.mark.filterwarnings("ignore")


USER = {"username": "press", "password": "a secret"}


class Publisher:
    """What is sent to a broker at a port of this machine."""

    port: int

    def send(self, *messages: tuple[str, bytes]) -> None:
        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        client.username_pw_set(USER["username"], USER["password"])
        client.connect("127.0.0.1", self.port)
        client.loop_start()
        for topic, payload in messages:
            client.publish(topic, payload, qos=1).wait_for_publish(10)
        client.disconnect()
        client.loop_stop()


class Running(Publisher):
    """amqtt in a thread, which can be ended and begun again at the same port."""

    def __init__(
        self,
        users: Path | None = None,
        certificate: tuple[Path, Path] | None = None,
        anonymous: bool = True,
    ):
        self.port, auth = free_port(), "amqtt.plugins.authentication."
        listener: dict[str, Any] = {"type": "tcp", "bind": f"127.0.0.1:{self.port}"}
        if certificate is not None:
            listener |= {"ssl": True} | dict(
                zip(("certfile", "keyfile"), map(str, certificate), strict=True)
            )
        self.options = {
            "listeners": {"default": listener},
            "plugins": {auth + "AnonymousAuthPlugin": {"allow_anonymous": anonymous}}
            if users is None
            else {auth + "FileAuthPlugin": {"password_file": str(users)}},
        }
        self.begin()

    def begin(self) -> None:
        self.loop = asyncio.new_event_loop()
        started = threading.Event()

        def run() -> None:
            asyncio.set_event_loop(self.loop)

            async def start() -> None:
                self.broker = Broker(self.options)
                await self.broker.start()
                started.set()

            self.loop.run_until_complete(start())
            self.loop.run_forever()
            self.loop.close()

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        assert started.wait(20)

    def end(self) -> None:
        asyncio.run_coroutine_threadsafe(self.broker.shutdown(), self.loop).result(20)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)


class Mosquitto(Publisher):
    """The broker that most have, in a process."""

    def __init__(self, folder: Path):
        program = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
        if program is None:
            pytest.skip("needs mosquitto: apt-get install mosquitto")
        self.port = free_port()
        settings = folder / "mosquitto.conf"
        settings.write_text(f"listener {self.port} 127.0.0.1\nallow_anonymous true\n")
        self.process = subprocess.Popen(
            [program, "-c", str(settings)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + 10
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.05)

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(10)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def users_file(folder: Path) -> Path:
    """Whom amqtt lets in."""
    pwdlib = pytest.importorskip("pwdlib", reason="needs an amqtt that hashes with pwdlib")
    path = folder / "users"
    path.write_text(f"press:{pwdlib.PasswordHash.recommended().hash(USER['password'])}\n")
    return path


@pytest.fixture(scope="module")
def broker() -> Iterator[Running]:
    running = Running()
    yield running
    running.end()


def feed(broker: Running, topic: str, names: list[str] | None = None) -> MqttFeed:
    parse = LiveRows(2, names or ["a", "b"], takes_missing=True)
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


def test_tags_are_a_source_for_fit_and_score(broker: Running) -> None:
    """So many rows of them, with the time of each where it is asked for."""
    address = f"mqtt://127.0.0.1:{broker.port}/p6/+/value?interval=1&client=six&patience=0"
    at = 1_700_000_000.2

    def send() -> None:
        time.sleep(0.5)  # after the subscription
        broker.send(
            *(
                (f"p6/{name}/value", value(second, at + second))
                for second in range(6)
                for name in "ab"
            )
        )

    sender = threading.Thread(target=send)
    sender.start()
    source = Source(address, columns=["b", "a"], keep=["time"], limit=4)
    blocks = list(source)
    source.close()
    sender.join()
    assert np.concatenate([block.X for block in blocks]).tolist() == [[i, i] for i in range(4)]
    times = [t for block in blocks for t in block.carried.column("time").to_pylist()]
    assert times == [1_700_000_001.0 + i for i in range(4)]


def test_whole_rows_and_garbage(broker: Running) -> None:
    made = feed(broker, "p2?client=two")
    broker.send(("p2", b'{"a": 1, "b": 2}'), ("p2", b"3,4"), ("p2", b"{broken"), ("p2", b"warm"))
    rows = take(made, 4)
    made.close()
    assert [row.x.tolist() for row in rows if isinstance(row, LiveRow)] == [[1, 2], [3, 4]]
    wrong = [row for row in rows if isinstance(row, str)]
    assert len(wrong) == 2 and all(w.startswith("p2: ") for w in wrong)


def test_values_of_tags_without_names_are_no_rows(broker: Running) -> None:
    """A model would learn all tags as one column."""
    made = MqttFeed(f"mqtt://127.0.0.1:{broker.port}/p7/+?client=seven", Cells(None))
    time.sleep(0.5)
    broker.send(("p7/a", b"1.5"), ("p7/b", b'{"a": 1, "b": 2}'))
    rows = take(made, 2)
    made.close()
    assert "p7/a: a value of one tag" in rows[0] and "--columns" in rows[0]
    assert rows[1].kept == {"a": 1, "b": 2}


def test_values() -> None:
    assert value_in(b'{"value": 1, "time": 1700000000000}') == (1.0, 1_700_000_000.0)
    assert value_in(b'{"value": "x"}') == ("'x' is not a number", None)


def test_addresses(broker: Running) -> None:
    parse = LiveRows(2, ["a", "b"])
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
def test_users_and_certificates_come_from_a_file(
    tmp_path: Path, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With TLS and a password; without either, or with another, nothing is let through."""
    broker = Running(users_file(tmp_path), certificate)
    parse = LiveRows(2, ["a", "b"])
    address = f"mqtts://127.0.0.1:{broker.port}/p5?client=five"
    settings = tmp_path / "settings"
    settings.write_text(f"username = press\npassword = a secret\nca_file = {certificate[0]}\n")
    monkeypatch.setenv("KERNELSTREAM_SETTINGS", str(settings))
    given = read_settings(None)
    made = open_address(address, parse, settings=given)
    assert isinstance(made, MqttFeed)
    until = time.monotonic() + 10
    while not made.client.is_connected() and time.monotonic() < until:
        time.sleep(0.02)
    time.sleep(0.3)
    made.client.publish("p5", b"1,2", qos=1).wait_for_publish(10)
    assert [row.x.tolist() for row in take(made, 1)] == [[1.0, 2.0]]
    made.close()
    with pytest.raises(SourceError, match="certificate verify failed"):
        MqttFeed(address, parse, {name: given[name] for name in ("username", "password")})
    with pytest.raises(SourceError, match=r"other\.pem: there is no such file"):
        MqttFeed(address, parse, {**given, "ca_file": "other.pem"})
    stranger = MqttFeed(address, parse, {**given, "password": "guessed"})
    with pytest.raises(SourceError, match="the broker refuses"):
        take(stranger, 1)
    stranger.close()
    broker.end()


class Wire:
    """A way to the broker that can be cut, while the broker and others go on."""

    def __init__(self, to: int):
        self.to, self.ends = to, list[socket.socket]()
        self.port = free_port()
        self.lay()

    def lay(self) -> None:
        self.entrance = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self.entrance,), daemon=True).start()

    def _accept(self, entrance: socket.socket) -> None:
        while True:
            try:
                near = entrance.accept()[0]
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.to))
            self.ends += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65536):
                other.sendall(data)
        except OSError:
            pass

    def cut(self) -> None:
        self.entrance.shutdown(socket.SHUT_RDWR)
        self.entrance.close()
        for end in self.ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self.ends.clear()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["amqtt", "mosquitto"])
def test_a_broker_that_vanishes_for_ten_seconds(kind: str, tmp_path: Path) -> None:
    """What it is sent meanwhile comes later, in rows of its own time; garbage in it is named."""
    # amqtt keeps nothing for those who did not say who they are
    broker = Running(anonymous=False) if kind == "amqtt" else Mosquitto(tmp_path)
    wire = Wire(broker.port)
    parse = LiveRows(2, ["a", "b"], takes_missing=True)
    made = MqttFeed(
        f"mqtt://127.0.0.1:{wire.port}/p3/+/value?interval=0.5&tolerance=2&client=three",
        parse,
        USER,
    )
    told: list[str] = []
    made.tell = told.append
    until = time.monotonic() + 10
    while not made.client.is_connected() and time.monotonic() < until:
        time.sleep(0.02)
    time.sleep(0.5)
    rows: list[Any] = []
    first = (math.floor(time.time() * 2) + 0.5) / 2  # in the middle between two rows
    for step in range(30):  # fifteen seconds, ten of them without a way to the broker
        wait = first + 0.5 * step - time.time()
        rows += take(made, 10**6, seconds=max(wait, 0.01))
        if step == 5:
            wire.cut()
        if step == 25:
            wire.lay()
        at = first + 0.5 * step
        garbage = [("p3/a/value", b"warm")] if step == 15 else []
        broker.send(
            *garbage, ("p3/a/value", value(step, at)), ("p3/b/value", value(-step, at + 0.01))
        )
    rows += take(made, 10**6, seconds=10.0)
    made.close()
    wire.cut()
    broker.end()
    good = [row for row in rows if isinstance(row, LiveRow)]
    whole = [row.x.tolist() for row in good if row.time <= first + 0.5 * 29.5]
    assert whole == [[step, -step] for step in range(30)]
    assert [row for row in rows if isinstance(row, str)] == ["p3/a/value: 'warm' is not a number"]
    assert made.join is not None and made.join.late == 0
    assert [text.split(" (")[0] for text in told] == [
        "p3/+/value: the password goes unencrypted; mqtts:// hides it",
        "p3/+/value: no connection to the broker",
        "p3/+/value: the broker is back",
    ]


@pytest.mark.slow
def test_a_broker_that_begins_anew() -> None:
    """It has forgotten who listened, and is asked again."""
    broker = Running()
    wire = Wire(broker.port)
    parse = LiveRows(2, ["a", "b"], takes_missing=True)
    made = MqttFeed(f"mqtt://127.0.0.1:{wire.port}/p4?client=four", parse)
    time.sleep(1.0)
    broker.send(("p4", b"1,2"))
    assert [row.x.tolist() for row in take(made, 1)] == [[1.0, 2.0]]
    wire.cut()
    broker.end()
    broker.begin()
    wire.lay()
    until = time.monotonic() + 40
    while not made.client.is_connected() and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(0.5)
    broker.send(("p4", b"3,4"))
    assert [row.x.tolist() for row in take(made, 1)] == [[3.0, 4.0]]
    made.close()
    wire.cut()
    broker.end()
