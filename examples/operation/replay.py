"""Replay a CSV file into a Kafka topic, row by row as JSON.

python examples/operation/replay.py day.csv plant --rate 50 --broker host:9092

Without --broker a small broker is started in this process (librdkafka's mock cluster: for trying
things out, it keeps nothing) and its address written into broker.txt. With --background all of it
goes on in a process of its own, and this one returns when the broker is there.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import subprocess
import sys
import time
from pathlib import Path

from confluent_kafka import Producer


def message(row: dict[str, str]) -> bytes:
    cells = {name: value for name, value in row.items() if name != "t"}
    now = time.time()  # as if it happened now
    return json.dumps({"t": now, **{k: float(v) if v else None for k, v in cells.items()}}).encode()


def go_on_in_background(broker: str | None) -> None:
    address = Path("broker.txt")
    address.unlink(missing_ok=True)
    again = [sys.executable, *(word for word in sys.argv if word != "--background")]
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(again, stdout=nothing, stderr=nothing, start_new_session=True)
    while not (broker or (address.exists() and address.read_text())):
        if process.poll() is not None:
            sys.exit("No broker: run the command without --background to see why.")
        time.sleep(0.1)
    print(f"Broker at {broker or address.read_text()}; kill {process.pid} ends the replay.")


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("file", type=Path)
    words.add_argument("topic")
    words.add_argument("--rate", type=float, default=50.0, help="rows a second")
    words.add_argument("--broker")
    words.add_argument("--wait", type=float, default=0.0, help="seconds before the first row")
    words.add_argument("--loop", action="store_true", help="begin anew at the end")
    words.add_argument("--background", action="store_true", help="return when the broker is there")
    given = words.parse_args()
    if given.background:
        return go_on_in_background(given.broker)
    mock = {"test.mock.num.brokers": 1, "log_level": 0}
    own = {"bootstrap.servers": given.broker} if given.broker else mock
    producer = Producer({"linger.ms": 5, **own})
    if not given.broker:
        broker = next(iter(producer.list_topics(timeout=10).brokers.values()))
        Path("broker.txt").write_text(f"{broker.host}:{broker.port}")
    address = given.broker or Path("broker.txt").read_text()
    producer.list_topics(given.topic, timeout=10)  # the topic comes into being
    print(f"kafka://{address}/{given.topic}", flush=True)
    time.sleep(given.wait)
    began, n = time.monotonic(), 0
    while True:
        with given.file.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                producer.produce(given.topic, message(row), partition=0)
                producer.poll(0)
                n += 1
                time.sleep(max(0.0, began + n / given.rate - time.monotonic()))
        if not given.loop:
            break
    producer.flush(20)
    print(f"{n} rows were sent; Ctrl-C ends the broker.", flush=True)
    while not given.broker:
        time.sleep(1.0)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
