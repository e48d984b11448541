"""Addresses of brokers, servers and databases as feeds (entry point of kernelstream).

Each function opens the feed of an address. It imports the package that it needs, and
:func:`kernelstream.tables.open_address` names the one that is missing.

>>> from kernelstream.tables import Connection, Source
>>> def rows_from(place):
...     query = "sql:SELECT i AS a, i % 3 AS b FROM range(5) rows(i) ORDER BY i"
...     source = Source(query, limit=3, connection=Connection(position=place))
...     (block,) = source
...     return block.X[:, 0].tolist(), source.place(block.end)
>>> first, place = rows_from(None)
>>> first, rows_from(place)[0]
([0.0, 1.0, 2.0], [3.0, 4.0])
"""

from __future__ import annotations

from typing import Any

from kernelstream.tables import Feed, LiveRows, SourceError

Settings = dict[str, str]


def open_kafka(
    address: str, parse: LiveRows, position: Any, *, settings: Settings, ends: bool, **unused: Any
) -> Feed:
    """Rows of a topic; with ``ends``, up to the message that is now the last."""
    from kernelstream_plant.sources.kafka import KafkaFeed

    if ends and "stop=" not in address:
        address = f"{address}{'&' if '?' in address else '?'}stop=end"
    return KafkaFeed(address, parse, position, settings)


def open_mqtt(
    address: str, parse: LiveRows, position: Any, *, settings: Settings, ends: bool, **unused: Any
) -> Feed:
    """Rows of messages; they do not end."""
    from kernelstream_plant.sources.mqtt import MqttFeed

    refuse_endless(address, ends)
    return MqttFeed(address, parse, settings)


def open_opcua(
    address: str, parse: LiveRows, position: Any, *, settings: Settings, ends: bool, **unused: Any
) -> Feed:
    """Rows of the variables of a server; they do not end."""
    from kernelstream_plant.sources.opcua import OpcUaFeed

    refuse_endless(address, ends)
    return OpcUaFeed(address, parse, settings)


def open_sql(
    address: str, parse: LiveRows, position: Any, *, database: str | None, **unused: Any
) -> Feed:
    """Rows of a query."""
    from kernelstream_plant.sources.sql import SqlFeed

    return SqlFeed(address, parse, position, database)


def refuse_endless(address: str, ends: bool) -> None:
    """Raise if rows have to end, and those of an address do not."""
    if ends:
        raise SourceError(f"{address} has no end: say with --limit how many rows to take.")
