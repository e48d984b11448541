"""Rows from Kafka: positions, broken messages, a broker that goes away."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelstream.tables import SourceError
from kernelstream.tables.live import LiveRow, LiveRows

pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
from confluent_kafka import Producer

from kernelstream.tables.feeds import open_address, read_settings
from kernelstream_plant.sources.kafka import KafkaAlarms, KafkaFeed, split

numbers = count()


class Broker:
    """A mock cluster in another process."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("mock_broker.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.communicate()

    def topic(self) -> str:
        return f"topic{next(numbers)}"

    def send(self, topic: str, values: list[bytes], partition: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 1})
        for value in values:
            producer.produce(topic, value, partition=partition)
        assert producer.flush(20) == 0


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    broker = Broker()
    yield broker
    broker.end()


def rows_as_json(n: int, begin: int = 0) -> list[bytes]:
    return [json.dumps({"a": i, "b": -i}).encode() for i in range(begin, begin + n)]


def parse(**options: Any) -> LiveRows:
    return LiveRows(2, ["a", "b"], takes_missing=True, **options)


def feed(broker: Broker, topic: str, position: Any = None, more: str = "?stop=end") -> KafkaFeed:
    made = open_address(f"kafka://{broker.address}/{topic}{more}", parse(), position)
    assert isinstance(made, KafkaFeed)
    return made


def values(rows: list[Any]) -> list[float]:
    return [row.x[0] for row in rows if isinstance(row, LiveRow)]


def test_rows_in_order_and_the_position_after_each(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, rows_as_json(30))
    first = feed(broker, topic)
    seen = []
    for row in first.rows():
        if row is not None:
            seen.append(row)
        if len(seen) == 12:
            break
    place = json.loads(json.dumps(first.position()))
    assert place == {"topic": topic, "offsets": {"0": 12, "1": 0, "2": 0, "3": 0}}
    first.commit(place)
    first.close()
    again = feed(broker, topic, place)
    rest = [row for row in again.rows() if row is not None]
    again.close()
    assert values(seen) + values(rest) == list(range(30))
    assert isinstance(seen[0], LiveRow) and seen[0].time > 1e12  # the message's own


def test_broken_messages_are_named_and_counted(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(
        topic, [b'{"a": 1, "b": 2}', b"{broken", b'{"a": "x", "b": 1}', b"\xff\xfe", b"3,4"]
    )
    made = feed(broker, topic)
    rows = [row for row in made.rows() if row is not None]
    made.close()
    assert values(rows) == [1.0, 3.0]
    wrong = [row for row in rows if isinstance(row, str)]
    assert len(wrong) == 3 and all(w.startswith(f"{topic}[0] at ") for w in wrong)
    assert "'x' is not a number" in wrong[1]
    assert made.position()["offsets"]["0"] == 5


def test_numbers_as_bytes(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, [np.array([1.5, 2.0]).astype("<f4").tobytes(), b"abc"])
    made = feed(broker, topic, more="?stop=end&format=float32")
    rows = [row for row in made.rows() if row is not None]
    made.close()
    assert values(rows) == [1.5] and "3 bytes are no row" in str(rows[1])


def test_partitions_each_in_their_order(broker: Broker) -> None:
    topic = broker.topic()
    for partition in range(3):
        broker.send(topic, rows_as_json(20, 100 * partition), partition)
    made = feed(broker, topic)
    seen = values(list(made.rows()))
    made.close()
    for partition in range(3):
        own = [v for v in seen if v // 100 == partition]
        assert own == sorted(own) and len(own) == 20
    assert made.position()["offsets"] == {"0": 20, "1": 20, "2": 20, "3": 0}


def test_a_start_at_the_end(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, rows_as_json(5))
    made = feed(broker, topic, more="?start=latest")
    broker.send(topic, rows_as_json(1, 77))
    assert next(row for row in made.rows() if row is not None).x[0] == 77  # type: ignore[union-attr]
    made.close()


def test_what_cannot_be_is_told(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, rows_as_json(3))
    with pytest.raises(SourceError, match="goes on at offset 9, and the broker has 0 to 3"):
        feed(broker, topic, {"topic": topic, "offsets": {"0": 9}})
    with pytest.raises(SourceError, match="a place in the topic 'other'"):
        feed(broker, topic, {"topic": "other", "offsets": {"0": 1}})
    for wrong, why in (
        ("kafka://broker", "no address of a topic"),
        ("kafka://me:secret@broker/t", "--settings"),
        ("kafka://broker/t?stop=never", "stop=never is unknown"),
    ):
        with pytest.raises(SourceError, match=why):
            split(wrong)


def test_an_interruption_inside_a_callback_is_heard(broker: Broker) -> None:
    """confluent-kafka loses the exception of a signal there, and says that something is wrong."""

    class Losing:
        def consume(self, most: int, seconds: float) -> list[Any]:
            raise SystemError("<method 'consume'> returned NULL without setting an exception")

    topic = broker.topic()
    broker.send(topic, rows_as_json(1))
    made = feed(broker, topic, more="")
    consumer, made.consumer = made.consumer, Losing()
    with pytest.raises(KeyboardInterrupt):
        next(made.rows())
    consumer.close()


def test_settings_reach_the_client(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users and certificates are those of the file; what is wrong with them is told."""
    file = tmp_path / "settings"
    monkeypatch.setenv("KERNELSTREAM_SETTINGS", str(file))
    for text, why in (
        ("security.protocol = sasl_plaintext\nsasl.mechanism = PLAIN", "sasl.username"),
        ("security.protocol = ssl\nssl.ca.location = no.pem", "ssl.ca.location failed"),
        ("colour = red", "colour"),
        ("no equals sign", "line 1: write name = value"),
    ):
        file.write_text(text)
        with pytest.raises(SourceError, match=why):
            open_address(f"kafka://{broker.address}/t", parse(), settings=read_settings(None))
    with pytest.raises(SourceError, match="The settings of Kafka"):
        KafkaAlarms(f"kafka://{broker.address}/t", {"colour": "red"}, "model")


def test_alarms_have_an_id_by_which_repeats_are_dropped(broker: Broker) -> None:
    topic = broker.topic()
    alarms = KafkaAlarms(f"kafka://{broker.address}/{topic}", {}, "model")
    for row in (3, 4, 3):
        alarms.send({"row": row, "alarm": True, "index": 5.0})
    alarms.flush()
    made = feed(broker, topic)
    made.parse = LiveRows(1, ["index"], keep=["id"])
    ids = [row.kept["id"] for row in made.rows() if isinstance(row, LiveRow)]
    made.close()
    assert sorted(ids) == ["model-3", "model-3", "model-4"]


@pytest.mark.slow
def test_a_broker_that_is_gone_is_not_waited_for_at_the_end() -> None:
    """A process that has told it what was saved ends in a few seconds."""
    own = Broker()
    topic = own.topic()
    own.send(topic, rows_as_json(3))
    script = (
        "from kernelstream.tables.live import LiveRows;"
        "from kernelstream_plant.sources.kafka import KafkaFeed;"
        f"feed = KafkaFeed('kafka://{own.address}/{topic}',"
        "LiveRows(2, ['a', 'b']));"
        "next(feed.rows()); print('read', flush=True); input();"
        "feed.commit(feed.position()); feed.close()"
    )
    reader = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert reader.stdout is not None
    assert reader.stdout.readline() == "read\n"
    own.end()
    reader.communicate("\n", timeout=20)
    assert reader.returncode == 0


@pytest.mark.slow
def test_a_broker_that_vanishes_for_ten_seconds(broker: Broker) -> None:
    """It stops in the middle, is missed in words, and nothing is lost or read twice."""
    own = Broker()
    try:
        topic = own.topic()
        own.send(topic, rows_as_json(10))
        made = KafkaFeed(
            f"kafka://{own.address}/{topic}",
            parse(),
            None,
            {"socket.timeout.ms": "3000", "session.timeout.ms": "6000"},
        )
        told: list[str] = []
        made.tell = told.append
        seen: list[float] = []
        began, stopped = time.monotonic(), False
        for row in made.rows():
            if isinstance(row, LiveRow):
                seen.append(float(row.x[0]))
            if len(seen) == 10 and not stopped:
                own.process.send_signal(signal.SIGSTOP)
                stopped, began = True, time.monotonic()
            if stopped and time.monotonic() - began > 10 and len(seen) == 10:
                own.process.send_signal(signal.SIGCONT)
                own.send(topic, rows_as_json(10, 10))
                began = time.monotonic() + 1e9
            if len(seen) == 20:
                break
        made.close()
        assert seen == list(range(20))
        assert any("no connection to the broker" in text for text in told), told
        assert any("is back" in text for text in told), told
    finally:
        own.end()
