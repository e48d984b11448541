"""MQTT: topics as tags or messages as rows, TLS, persistent session.

``mqtt://host/plant/+/value?interval=1`` (``mqtts:`` with TLS). A message that is one number, or
``{"value": …, "time": …}``, is a value of the tag that the ``+`` of the topic stands for (or the
last part of it); tags are joined into rows. A message with an object or a line of several values is
a row itself. The connection is one session of quality 1: what comes while this side is away is kept
by the broker and delivered later.
"""

from __future__ import annotations

import hashlib
import json
import os
import ssl
import time
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import paho.mqtt.client as mqtt

from kernelstream.tables import LiveRow, LiveRows, SourceError, as_number
from kernelstream_plant.sources.tags import NAMELESS, TagFeed, join_of

ALIVE = 10  # seconds between two signs of life: a broker that is gone without a word is missed
SETTINGS = ("username", "password", "ca_file", "cert_file", "key_file")


class MqttFeed(TagFeed):
    """Messages of topics as rows.

    Parameters
    ----------
    address : str
        ``mqtt://host/topic``, with ``+`` and ``#`` as MQTT has them.
    parse : LiveRows
        What makes rows.
    settings : dict
        ``username``, ``password``, ``ca_file``, ``cert_file``, ``key_file``.
    """

    def __init__(self, address: str, parse: LiveRows, settings: dict[str, str] | None = None):
        parts = urlsplit(address.replace("#", "%23"))
        self.topic = unquote(parts.path.lstrip("/"))
        if not parts.hostname or not self.topic:
            raise SourceError(f"{address!r} is no address of topics: write mqtt://host/plant/+.")
        if "@" in parts.netloc:
            raise SourceError(
                "An address has no place for passwords, which others could read: write username "
                "and password into a file and name it with --settings."
            )
        options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        given = dict(settings or {})
        super().__init__(
            parse,
            join_of(options, parse.names, lambda text: self.tell(text)) if parse.names else None,
        )
        # The same name after a restart: the broker keeps the session under it.
        digest = hashlib.sha256(f"{address} {parse.names}".encode()).hexdigest()[:12]
        name = options.pop("client", f"kernelstream-{digest}")
        if options:
            raise SourceError(f"{address!r}: {', '.join(options)} is unknown.")
        self.plus = self.topic.split("/").index("+") if "+" in self.topic.split("/") else -1
        self.client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2, client_id=name, clean_session=False
        )
        self.client.reconnect_delay_set(1, 30)
        self._secure(parts.scheme == "mqtts", given)
        self.client.on_connect, self.client.on_message = self._connected, self._came
        self.client.on_disconnect = self._gone
        usual = 8883 if parts.scheme == "mqtts" else 1883
        try:
            self.client.connect(parts.hostname, parts.port or usual, keepalive=ALIVE)
        except (OSError, ValueError) as problem:
            raise SourceError(f"{address}: no broker answers ({problem}).") from problem
        self.client.loop_start()

    def _secure(self, tls: bool, given: dict[str, str]) -> None:
        unknown = set(given) - set(SETTINGS)
        if unknown:
            raise SourceError(f"Settings of MQTT are {', '.join(SETTINGS)}; got {sorted(unknown)}.")
        for name in ("ca_file", "cert_file", "key_file"):
            if name in given and not os.path.isfile(given[name]):
                raise SourceError(f"{name} = {given[name]}: there is no such file.")
        if tls:
            context = ssl.create_default_context(cafile=given.get("ca_file"))
            if "cert_file" in given:
                context.load_cert_chain(given["cert_file"], given.get("key_file"))
            self.client.tls_set_context(context)
        elif "password" in given:
            self.messages.put(f"{self.topic}: the password goes unencrypted; mqtts:// hides it")
        if "username" in given:
            self.client.username_pw_set(given["username"], given.get("password"))

    # -- called by the thread of the client

    def _connected(self, client: Any, data: Any, flags: Any, reason: Any, more: Any) -> None:
        if reason.is_failure:
            self.messages.put(SourceError(f"{self.topic}: the broker refuses ({reason})."))
            return
        client.subscribe(self.topic, qos=1)
        self.find(f"{self.topic}: the broker is back")

    def _gone(self, client: Any, data: Any, flags: Any, reason: Any, more: Any) -> None:
        if reason.is_failure:
            self.lose(f"{self.topic}: no connection to the broker ({reason})")

    def _came(self, client: Any, data: Any, message: Any) -> None:
        self.messages.put((message.topic, message.payload, time.time()))

    # -- the feed

    def take(self, topic: str, payload: bytes, arrived: float) -> LiveRow | str | None:
        """A message: a row, or the value of a tag.

        Parameters
        ----------
        topic : str
            Where it was published.
        payload : bytes
            What it says.
        arrived : float
            When it came, which counts where it says no time.
        """
        found = value_in(payload)
        if found is not None and self.join is None and self.parse.n_features != 1:
            return f"{topic}: a value of one tag. {NAMELESS}"
        if found is None or self.join is None:  # a row of its own
            row = self.parse.read(payload)
            return f"{topic}: {row}" if isinstance(row, str) else row
        value, at = found
        if isinstance(value, str):
            return f"{topic}: {value}"
        parts = topic.split("/")
        name = parts[self.plus] if -1 < self.plus < len(parts) else parts[-1]
        self.join.put(name, value, arrived if at is None else at)
        return None

    def close(self) -> None:
        """Let go of the broker, which keeps what comes meanwhile."""
        self.client.disconnect()
        self.client.loop_stop()


def value_in(payload: bytes) -> tuple[float | str, float | None] | None:
    """The value and its time in a message about one tag; None for a message that is a row.

    Examples
    --------
    >>> value_in(b"21.5"), value_in(b'{"value": 3, "time": 1700000000}'), value_in(b"1,2,3")
    ((21.5, None), (3.0, 1700000000.0), None)
    >>> value_in(b"warm")
    ("'warm' is not a number", None)
    """
    text = payload.decode("utf-8", "replace").strip()
    if text.startswith("{"):
        try:
            message = json.loads(text)
        except ValueError:
            return "not a JSON object", None
        if not isinstance(message, dict) or "value" not in message:
            return None
        number = as_number(message["value"])
        at = message.get("time", message.get("timestamp"))
        when = None if at is None else as_number(at)
        if when is not None and when > 1e11:
            when /= 1e3  # milliseconds
        return (f"{message['value']!r} is not a number" if number is None else number), when
    if any(mark in text for mark in ",;\t["):
        return None
    number = as_number(text)
    return (f"{text[:80]!r} is not a number" if number is None else number), None
