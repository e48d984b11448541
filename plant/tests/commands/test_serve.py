"""``kernelstream plant serve``, and what reaches it: history, commands, hooks, metrics, reports."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kernelstream import KernelMonitor, load
from kernelstream.cli.failures import BUSY, DATA, MODEL
from kernelstream.tables.live import LiveRow
from kernelstream_plant.commands.operation import address_of, paced
from tests.cli.conftest import run

pytestmark = pytest.mark.usefixtures("ctrl_c_is_heard")
NAMES = ["flow [m³/h]", "heat", "load"]


def rows(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    t = rng.uniform(0, 2, size=n)
    return np.stack([t, t**2 - 3 * t, 3 * t**2 - t**3], axis=1) + 0.05 * rng.normal(size=(n, 3))


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("live") / "m.safetensors"
    table = pd.DataFrame(rows(500, 0), columns=NAMES)
    KernelMonitor(basis=30, width=10.0, lags=0, random_state=0).fit(table).save(path)
    return path.read_bytes()


@pytest.fixture
def plant(fitted: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model and a day in which the heat is off for a while."""
    (tmp_path / "m.safetensors").write_bytes(fitted)
    X = rows(160, 1)
    X[60:100, 1] += 1.5
    table = pd.DataFrame(X, columns=NAMES)
    table.insert(0, "t", pd.date_range("2026-01-01", periods=160, freq="s").astype(str))
    table.to_csv(tmp_path / "day.csv", index=False)
    table.to_parquet(tmp_path / "day.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "kernelstream", *map(str, words)]


def test_the_history_has_events_and_a_report(plant: Path) -> None:
    run("plant", "serve", "m.safetensors", "day.csv", "--time-column", "t", "--history", "h")
    events = lines(run("plant", "events", "h", "--json").stdout)
    assert [e["id"] for e in events][-1] == 1 and events[-1]["top"][0]["variable"] == "heat"
    assert "heat +" in run("plant", "events", "h").stdout
    log = lines(run("plant", "events", "h", "--log", "--json").stdout)
    assert {"start", "begin", "end", "stop"} <= {line["kind"] for line in log}
    begun = next(line for line in log if line["kind"] == "begin")
    assert begun["at"] == pytest.approx(datetime(2026, 1, 1, 0, 1).timestamp(), abs=10)
    pytest.importorskip("bokeh")
    run("plant", "report", "m.safetensors", "--history", "h", "--event", "1", "-o", "e.html", "-q")
    page = Path("e.html").read_text()
    assert (
        "Event 1" in page
        and "heat" in page
        and "http://" not in re.sub(r"<script.*?</script>", "", page, flags=re.S)
    )
    run("plant", "report", "m.safetensors", "--history", "h", "-o", "all.html", "-q")
    assert "width of the kernel" in Path("all.html").read_text()
    refused = run("report", "m.safetensors", code=MODEL)
    assert "kernelstream plant report" in " ".join(refused.stderr.split())
    wrong = run("plant", "report", "m.safetensors", "--history", "h", "--event", "9", code=DATA)
    assert "There is no event 9" in " ".join(wrong.stderr.split())


def test_event_lines_for_people(plant: Path) -> None:
    done = run("plant", "serve", "m.safetensors", "day.csv", "--time-column", "t", "--watch")
    said = done.stderr
    assert re.search(r"00:01 event 1: heat \+\d", said) and "event 1 is over" in said
    assert "rows" in said and "alarms" in said  # the summary


def test_a_plain_model_has_no_page(plant: Path) -> None:
    from kernelstream import StreamingKernelPCA

    StreamingKernelPCA(2, basis=30, random_state=0).fit(rows(500, 0)).save("plain.safetensors")
    wrong = run("plant", "serve", "plain.safetensors", "--serve", code=MODEL, stdin=b"1,2,3\n")
    assert "fit --detector monitor" in " ".join(wrong.stderr.split())


def test_addresses() -> None:
    assert address_of("[::1]:80", "--serve") == ("::1", 80)
    for wrong in ("here", "1.2.3.4", "a:99999", "a:b"):
        with pytest.raises(Exception, match="ADDRESS:PORT"):
            address_of(wrong, "--serve")


def test_speed() -> None:
    made = [LiveRow(np.zeros(1), f"2026-01-01 00:00:0{i}", {}) for i in range(4)]
    began = time.monotonic()
    assert len([r for r in paced(iter(made), "20x") if r is not None]) == 4
    assert 0.14 < time.monotonic() - began < 1.0
    began = time.monotonic()
    list(paced(iter(made), "30/s"))
    assert 0.09 < time.monotonic() - began < 1.0
    with pytest.raises(Exception, match="write 60x"):
        list(paced(iter(made), "fast"))
    with pytest.raises(Exception, match="needs time stamps"):
        list(paced(iter([LiveRow(np.zeros(1), 3, {})]), "2x"))


def test_commands_without_a_monitor(plant: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "There is no history" in run("plant", "accept", "m.safetensors", code=DATA).stderr
    run(
        "plant",
        "serve",
        "m.safetensors",
        "day.csv",
        "--time-column",
        "t",
        "--history",
        "m.safetensors.history",
    )
    from kernelstream_plant.operation import history

    monkeypatch.setattr(history.ask, "__defaults__", (0.2,))
    wrong = run("plant", "acknowledge", "m.safetensors", code=BUSY)
    assert "was withdrawn" in " ".join(wrong.stderr.split())


class Running:
    """``kernelstream monitor`` in a process, fed by its standard input."""

    def __init__(self, *words: object, **environment: str):
        self.process = subprocess.Popen(
            command("plant", "serve", *words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
        )

    def feed(self, X: np.ndarray) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        for x in X.tolist():
            self.process.stdin.write(json.dumps(dict(zip(NAMES, x, strict=True))).encode() + b"\n")
        self.process.stdin.flush()
        for _ in X:
            self.process.stdout.readline()

    def said(self, pattern: str) -> str:
        assert self.process.stderr is not None
        while line := self.process.stderr.readline().decode():
            if found := re.search(pattern, line):
                return found[1]
        raise AssertionError(f"nothing like {pattern}")

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(20)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code


@pytest.fixture
def running(plant: Path) -> Iterator[Running]:
    made = Running(
        "m.safetensors", "--learn", "--history", "m.safetensors.history", "--metrics", "127.0.0.1:0"
    )
    yield made
    if made.process.poll() is None:
        made.process.kill()
        made.process.communicate()


def test_commands_reach_a_running_monitor(running: Running) -> None:
    """And metrics tell of it."""
    pytest.importorskip("prometheus_client")
    address = running.said(r"Metrics at (http\S+)")
    running.feed(rows(40, 2))
    running.feed(rows(20, 3) + np.array([0.0, 1.5, 0.0]))
    assert "event 1 acknowledged" in run("plant", "acknowledge", "m.safetensors").stdout
    text = urllib.request.urlopen(address, timeout=10).read().decode()
    assert 'kernelstream_rows_total{monitor="m"} 60.0' in text
    assert 'kernelstream_event{monitor="m"} 1.0' in text
    assert 'kernelstream_event_contribution{monitor="m",variable="heat"} 1.0' in text
    done = json.loads(run("plant", "accept", "m.safetensors", "--instead", "--json").stdout)
    assert done["answer"] == "event 1 accepted instead of what was normal"
    assert "There is no event going on" in " ".join(
        run("plant", "accept", "m.safetensors", code=DATA).stderr.split()
    )
    assert (
        "no variable 'nothing'"
        in run("plant", "sensor", "m.safetensors", "nothing", code=DATA).stderr
    )
    run("plant", "note", "m.safetensors", "1", "--class", "fault", "--comment", "[bold]")
    assert "[bold]" in run("plant", "events", "m.safetensors").stdout
    for verb in ("reset", "pause", "resume"):
        run("plant", verb, "m.safetensors")
    assert running.end() == 0
    assert load("m.safetensors").events_[-1].accepted


def test_hooks(plant: Path) -> None:
    """A command and an address are told of the begin and the end of an event."""
    heard: list[dict[str, Any]] = []

    class Hear(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *words: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Hear)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    script = "import sys; open('told', 'ab').write(sys.stdin.buffer.read() + b'\\n')"
    run(
        *("plant", "serve", "m.safetensors", "day.csv", "--time-column", "t"),
        *("--on-event", f"http://127.0.0.1:{server.server_port}/x"),
        *("--on-event", f'{sys.executable} -c "{script}"'),
        *("--on-event", f"{sys.executable} -c 'import sys; sys.exit(3)'", "--history", "h"),
    )
    server.shutdown()
    server.server_close()
    kinds = [(m["kind"], m["event"]) for m in heard if m["event"] == 1]
    assert kinds == [("begin", 1), ("end", 1)]
    assert heard[0]["top"][0]["variable"] == "heat"
    assert lines(Path("told").read_text()) == heard
    problems = [
        n["text"]
        for n in lines(run("plant", "events", "h", "--log", "--json").stdout)
        if n["kind"] == "problem"
    ]
    assert any("exit code 3" in text for text in problems)


@pytest.mark.slow
def test_garbage_in_a_topic_is_named_counted_and_not_learned(plant: Path) -> None:
    pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
    from plant.tests.sources.test_kafka import Broker

    told = [json.dumps(dict(zip(NAMES, x, strict=True))).encode() for x in rows(60, 1).tolist()]
    garbage = [b"{broken", b"\xff\xfe\x00", b'{"heat": "warm", "load": 1}', b'{"other": 1}']
    models = []
    broker = Broker()
    try:
        for sent in (told, [*told[:30], *garbage, *told[30:]]):
            topic = broker.topic()
            broker.send(topic, sent)
            words = ("--learn", "-o", f"{topic}.safetensors", "--history", topic)
            address = f"kafka://{broker.address}/{topic}?stop=end"
            done = lines(run("plant", "serve", "m.safetensors", address, *words).stdout)
            models.append((load(f"{topic}.safetensors"), done))
    finally:
        broker.end()
    (clean, judged), (dirty, all_lines) = models
    errors = [line["error"] for line in all_lines if "error" in line]
    assert [e.split(":")[0] for e in errors] == [f"{topic}[0] at {30 + i}" for i in range(4)]
    assert [line["index"] for line in all_lines if "index" in line] == [
        line["index"] for line in judged
    ]
    assert clean.n_samples_seen_ == dirty.n_samples_seen_ == 60
    log = [line["text"] for line in lines(run("plant", "events", topic, "--log", "--json").stdout)]
    assert any(text.startswith(f"bad row 1: {topic}[0] at 30:") for text in log)
    assert any(text.startswith(f"bad row 4: {topic}[0] at 33:") for text in log)


@pytest.mark.slow
def test_silence_is_told(plant: Path) -> None:
    made = Running("m.safetensors", "--history", "h")
    made.feed(rows(10, 1))
    time.sleep(6.0)
    made.feed(rows(3, 2))
    made.end()
    kinds = [n["kind"] for n in lines(run("plant", "events", "h", "--log", "--json").stdout)]
    assert kinds == ["start", "silence", "data", "stop"]


@pytest.mark.slow
def test_twenty_kills_and_the_same_bytes(plant: Path) -> None:
    """Model and offsets are in one file: after any kill every row is learned exactly once."""
    pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
    from plant.tests.sources.test_kafka import Broker

    broker = Broker()
    try:
        topic = broker.topic()
        X = rows(6000, 4)
        X[2000:2100, 1] += 1.5
        told = [json.dumps(dict(zip(NAMES, x, strict=True))).encode() for x in X.tolist()]
        broker.send(topic, [*told[:3000], b"{broken", *told[3000:]])
        address = f"kafka://{broker.address}/{topic}?stop=end"
        run("plant", "serve", "m.safetensors", address, "--learn", "-o", "whole.safetensors")
        dice, kills = random.Random(7), 0
        words = ("plant", "serve", "m.safetensors", address, "--learn", "-o", "killed.safetensors")
        while kills < 20:
            process = subprocess.Popen(
                command(*words, "--save-every", "0.1s", "--speed", "250/s"),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(dice.uniform(0.0, 1.0))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
        run(*words)
        assert Path("killed.safetensors").read_bytes() == Path("whole.safetensors").read_bytes()
        assert load("killed.safetensors").n_samples_seen_ == 6000
    finally:
        broker.end()


@pytest.mark.slow
def test_an_update_that_is_killed_goes_on(plant: Path) -> None:
    """Checkpoints have the offsets: the same bytes as without a kill, garbage left out."""
    pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
    from plant.tests.sources.test_kafka import Broker

    broker = Broker()
    try:
        topic = broker.topic()
        X = rows(30_000, 4)  # the mock broker keeps 5 MB
        told = [json.dumps(dict(zip(NAMES, x, strict=True))).encode() for x in X.tolist()]
        broker.send(topic, [*told[:3000], b"{broken", *told[3000:]])
        address = f"kafka://{broker.address}/{topic}"
        run("fit", address, "-o", "m0.safetensors", "--basis", 60, "--limit", 2000)
        words = [
            *("update", "m0.safetensors", address, "--on-bad-rows", "skip"),
            *("--checkpoint-every", "0s", "--resume", "-o"),
        ]
        run(*words, "whole.safetensors")
        assert load("whole.safetensors").estimator_.n_samples_seen_ == 30_000
        dice, checkpoint = random.Random(5), Path("killed.safetensors.checkpoint")
        for kill in range(5):
            process = subprocess.Popen(
                command(*words, "killed.safetensors"), stderr=subprocess.DEVNULL
            )
            before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
            while process.poll() is None:
                if checkpoint.exists() and checkpoint.stat().st_mtime_ns != before:
                    break
                time.sleep(0.01)
            time.sleep(dice.uniform(0.0, 0.1))
            assert process.poll() is None, f"it was done before kill {kill}"
            process.kill()
            process.communicate()
        run(*words, "killed.safetensors")
        assert Path("killed.safetensors").read_bytes() == Path("whole.safetensors").read_bytes()
    finally:
        broker.end()
