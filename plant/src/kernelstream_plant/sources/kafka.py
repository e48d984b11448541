"""Kafka: messages as rows, offsets and commit, reconnection; alarms to a topic.

``kafka://broker:9092/topic``, several brokers with commas between them. ``?start=latest`` begins
with what comes next (without a position), ``?stop=end`` ends with what is there now,
``?format=float64`` or ``float32`` takes messages of so many numbers, in the order of the model;
else a message is JSON or a line of CSV. Within a partition rows keep their order; between
partitions there is none, and two runs may interleave them differently.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from kernelstream.tables import Feed, LiveRow, LiveRows, SourceError

AT_ONCE = 500  # messages that are fetched together
ANSWER = 15.0  # seconds for a broker to say which partitions there are
CLOSING = 3.0  # seconds for a broker to answer the last commit
DELIVERY = 30.0  # seconds for alarms to arrive, before the model is saved
BINARY = {"float64": "<f8", "float32": "<f4"}
GROUP = "kernelstream"


def split(address: str) -> tuple[str, str, dict[str, str]]:
    """Brokers, topic and options of an address.

    Examples
    --------
    >>> split("kafka://one:9092,two:9092/plant?stop=end")
    ('one:9092,two:9092', 'plant', {'stop': 'end'})
    """
    parts = urlsplit(address)
    topic = parts.path.strip("/")
    if "@" in parts.netloc:
        raise SourceError(
            "An address has no place for passwords, which others could read: write sasl.username "
            "and sasl.password into a file and name it with --settings."
        )
    if not parts.netloc or not topic or "/" in topic:
        raise SourceError(f"{address!r} is no address of a topic: write kafka://broker:9092/topic.")
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    known = {"start": ("earliest", "latest"), "stop": ("end",), "format": (*BINARY, "text")}
    for name, value in options.items():
        if value not in known.get(name, ()):
            said = "; ".join(f"{n}={'|'.join(v)}" for n, v in known.items())
            raise SourceError(f"{address!r}: {name}={value} is unknown. There are {said}.")
    return parts.netloc, topic, options


def client_of(kind: Any, settings: dict[str, Any]) -> Any:
    """A consumer or a producer; settings that make no sense are told in librdkafka's words."""
    try:
        return kind(settings, logger=_Silent())
    except KafkaException as problem:
        raise SourceError(f"The settings of Kafka: {problem.args[0].str()}") from problem


class KafkaFeed(Feed):
    """The messages of a topic as rows.

    Parameters
    ----------
    address : str
        ``kafka://broker/topic``.
    parse : LiveRows
        What makes rows of messages.
    position : dict, optional
        ``{"topic": …, "offsets": {partition: next offset}}``.
    settings : dict
        librdkafka's properties: ``security.protocol``, ``sasl.username``, and so on.
    """

    def __init__(
        self,
        address: str,
        parse: LiveRows,
        position: dict[str, Any] | None = None,
        settings: dict[str, str] | None = None,
    ):
        brokers, self.topic, options = split(address)
        self.parse, self.dtype = parse, BINARY.get(options.get("format", ""))
        self.ends_here = options.get("stop") == "end"
        self.troubled = False
        self._said: list[str] = []
        self.consumer = client_of(
            Consumer,
            {
                "bootstrap.servers": brokers,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",  # rows that were deleted are told, not passed over
                "reconnect.backoff.ms": 100,
                "reconnect.backoff.max.ms": 5000,
                "error_cb": self._trouble,
                **(settings or {}),
            },
        )
        self.offsets = self._begin(address, position, options.get("start", "earliest"))
        self.ends = self._ends() if self.ends_here else {}

    def _begin(self, address: str, position: dict[str, Any] | None, start: str) -> dict[int, int]:
        """Where each partition is read from."""
        try:
            found = self.consumer.list_topics(self.topic, timeout=ANSWER).topics[self.topic]
        except KafkaException as problem:
            why = [problem.args[0].str(), *self._said]  # it was told what is wrong, if anything
            raise SourceError(f"{address}: no broker answers ({'; '.join(why)}).") from problem
        if found.error is not None or not found.partitions:
            raise SourceError(f"{address}: there is no topic {self.topic!r} ({found.error}).")
        if position is not None and position.get("topic") != self.topic:
            raise SourceError(
                f"The model has come to a place in the topic {position.get('topic')!r}, and this "
                f"is {self.topic!r}: write another file with -o, or begin with a fresh model."
            )
        known = {int(p): int(o) for p, o in ((position or {}).get("offsets") or {}).items()}
        usual = OFFSET_END if start == "latest" else OFFSET_BEGINNING
        offsets = {p: known.get(p, usual) for p in sorted(found.partitions)}
        for partition, offset in offsets.items():
            low, high = self._watermarks(partition)
            if offset == OFFSET_BEGINNING:
                offsets[partition] = low
            elif offset == OFFSET_END:
                offsets[partition] = high
            elif not low <= offset <= high:
                raise SourceError(
                    f"{address}, partition {partition}: the model goes on at offset {offset}, and "
                    f"the broker has {low} to {high}. Rows in between are gone."
                )
        self.consumer.assign([TopicPartition(self.topic, p, o) for p, o in offsets.items()])
        return offsets

    def _watermarks(self, partition: int) -> tuple[int, int]:
        place = TopicPartition(self.topic, partition)
        low, high = self.consumer.get_watermark_offsets(place, timeout=ANSWER)
        return int(low), int(high)

    def _ends(self) -> dict[int, int]:
        return {partition: self._watermarks(partition)[1] for partition in self.offsets}

    def rows(self) -> Iterator[LiveRow | str | None]:
        """Rows in the order of each partition."""
        while not (self.ends_here and all(self.offsets[p] >= e for p, e in self.ends.items())):
            messages = self._next_messages()
            self._pass_on()
            came = False
            for message in messages:
                error = message.error()
                if error is not None:
                    self._handle(error)
                    continue
                came = True
                if self.troubled:
                    self.troubled = False
                    self.tell(f"{self.topic}: the broker is back")
                row = self._row(message)
                partition, offset = message.partition(), message.offset()
                assert partition is not None and offset is not None  # of a message that came
                self.offsets[partition] = offset + 1
                if row is not None:
                    yield row
            if not came:
                yield None

    def _next_messages(self) -> list[Any]:
        """What has come; Ctrl-C is heard also where the client was just telling of an error."""
        try:
            return list(self.consumer.consume(AT_ONCE, self.PATIENCE))
        except SystemError as problem:
            # What a signal raises inside a callback, confluent-kafka loses on the way out.
            if "without setting an exception" in str(problem):
                raise KeyboardInterrupt from problem
            raise

    def _row(self, message: Any) -> LiveRow | str | None:
        value = message.value()
        if value is None:
            return None  # a tombstone
        where = f"{self.topic}[{message.partition()}] at {message.offset()}"
        if self.dtype is not None:
            if len(value) % np.dtype(self.dtype).itemsize:
                return f"{where}: {len(value)} bytes are no row of numbers"
            numbers = np.frombuffer(value, self.dtype).astype(float).tolist()
            row: LiveRow | str | None = self.parse.row_of(self.parse.named(numbers))
        else:
            row = self.parse.read(value)
        if isinstance(row, str):
            return f"{where}: {row}"
        if row is not None and row.time is None:
            kind, milliseconds = message.timestamp()
            row = LiveRow(row.x, milliseconds if kind else None, row.kept)
        return row

    def _handle(self, error: KafkaError) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            return
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise SourceError(f"{self.topic}: rows are gone before they were read ({error.str()}).")
        if error.fatal() or not (error.retriable() or error.code() < 0):
            raise SourceError(f"{self.topic}: {error.str()}")
        self._trouble(error)

    def _trouble(self, error: KafkaError) -> None:
        """A broker is gone: librdkafka tries again by itself, later each time."""
        if not self.troubled:
            self.troubled = True
            self._said.append(f"{self.topic}: no connection to the broker ({error.str()})")

    def _pass_on(self) -> None:
        for text in self._said:
            self.tell(text)
        self._said.clear()

    def position(self) -> dict[str, Any]:
        """The next offset of each partition."""
        offsets = {str(p): offset for p, offset in self.offsets.items()}
        return {"topic": self.topic, "offsets": offsets}

    def commit(self, position: dict[str, Any]) -> None:
        """Tell the broker too, for those who look at the lag; nothing depends on it.

        Parameters
        ----------
        position : dict
            As :meth:`position` gave it.
        """
        places = [TopicPartition(self.topic, int(p), o) for p, o in position["offsets"].items()]
        self.consumer.commit(offsets=places, asynchronous=True)

    def close(self) -> None:
        """Let go of the brokers; one that is gone is not waited for, whatever it was told last."""
        # librdkafka would wait most of a minute for the answer to a commit on which nothing depends
        closing = threading.Thread(target=self.consumer.close, name="kafka closes", daemon=True)
        closing.start()
        closing.join(CLOSING)


class KafkaAlarms:
    """Alarms to a topic: each at least once, with an id by which a reader drops repeats.

    Parameters
    ----------
    address : str
        ``kafka://broker/topic``.
    settings : dict
        librdkafka's properties.
    model : str
        What tells the model from another: a part of the id.
    """

    def __init__(self, address: str, settings: dict[str, str], model: str):
        brokers, self.topic, _ = split(address)
        self.model, self.failed = model, 0
        self.producer = client_of(
            Producer, {"bootstrap.servers": brokers, "enable.idempotence": True, **settings}
        )

    def send(self, facts: dict[str, Any]) -> None:
        """Send one; it is there for certain after :meth:`flush`.

        Parameters
        ----------
        facts : dict
            The row, with its number since the model was fitted.
        """
        id = f"{self.model}-{facts['row']}"
        body = json.dumps({"id": id, **facts}, default=str).encode()
        while True:
            try:
                self.producer.produce(self.topic, body, key=id, on_delivery=self._delivered)
                break
            except BufferError:  # the queue is full: wait for the broker
                self.producer.poll(0.5)
        self.producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        self.failed += error is not None

    def flush(self) -> None:
        """Wait until all have arrived; else the model is not saved, and they come again."""
        left = self.producer.flush(DELIVERY)
        if left or self.failed:
            raise SourceError(
                f"{left + self.failed} alarms did not reach {self.topic}. The model was not saved "
                "since; after a restart they are sent again."
            )


class _Silent:
    """librdkafka's own log: what matters of it is told by the feed."""

    def log(self, *arguments: Any, **options: Any) -> None:
        """Say nothing."""
