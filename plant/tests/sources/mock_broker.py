"""librdkafka's mock cluster in a process of its own, so that it can be stopped and go on.

Prints the address of its broker, and ends with its input. Topics come into being when something is
sent to them, with four partitions.
"""

from __future__ import annotations

import sys

from confluent_kafka import Producer


def main() -> None:
    client = Producer({"bootstrap.servers": "", "test.mock.num.brokers": 1, "log_level": 0})
    broker = next(iter(client.list_topics(timeout=10).brokers.values()))
    print(f"{broker.host}:{broker.port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
