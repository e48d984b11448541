"""A monitor in operation: the same records, and everything that happened in the log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kernelstream import load
from kernelstream_plant.operation import LiveMonitor, Notice, ask
from kernelstream_plant.operation import live as module
from plant.tests.operation.conftest import NAMES, monitor, rows
from tests.anomaly.monitor.processes import same


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def told(live: LiveMonitor) -> list[Notice]:
    notices: list[Notice] = []
    live.listeners.append(notices.append)
    return notices


def test_records_are_those_of_the_monitor(fault: np.ndarray) -> None:
    live, plain = LiveMonitor(monitor()), monitor()
    both = zip(live.update_many(fault), (plain.update(x) for x in fault), strict=True)
    assert all(same(a, b) for a, b in both)


def test_an_event_is_told_with_causes_in_units(fault: np.ndarray) -> None:
    live = LiveMonitor(monitor())
    notices = told(live)
    live.update_many(fault)
    kinds = [n.kind for n in notices if n.kind in ("begin", "end")]
    assert kinds[:2] == ["begin", "end"]
    begin = next(n for n in notices if n.kind == "begin")
    assert begin.event == 1 and begin.text.startswith("event 1: heat +") and "°C" in begin.text
    assert begin.facts["top"][0]["variable"] == "heat (°C)"
    known = live.history.event(1)
    assert known is not None and known["end"] >= known["begin"] and known["rows"] >= 25


def test_verbs_are_in_the_log_and_are_the_monitors(fault: np.ndarray) -> None:
    live = LiveMonitor(monitor())
    live.update_many(fault[:60])
    assert live.status().word == "event" and not live.status().event.acknowledged  # type: ignore[union-attr]
    live.acknowledge(by="anna")
    assert live.monitor.event_ is not None and live.monitor.event_.acknowledged
    assert "acknowledged" in live.status().text
    live.accept(instead=True, by="anna")
    assert live.monitor.event_ is None and live.status().event is None
    known = live.history.event(1)
    assert known is not None and known["acknowledged"] and known["accepted"] and "end" in known
    commands = [line.text for line in live.history.log() if line.kind == "command"]
    assert commands == [
        "event 1 accepted instead of what was normal (by anna)",
        "event 1 acknowledged (by anna)",
    ]
    with pytest.raises(ValueError, match="no event going on"):
        live.execute("accept", {}, "anna")
    with pytest.raises(ValueError, match="no command 'save'"):
        live.execute("save", {"path": "/etc/passwd"}, "anna")
    with pytest.raises(ValueError, match="unexpected"):
        live.execute("pause", {"path": "x"}, "anna")


def test_pause_learns_nothing_and_stays_out_of_the_file(tmp_path: Path) -> None:
    live = LiveMonitor(monitor(), folder=tmp_path / "h")
    live.pause()
    assert not any(r.learned for r in live.update_many(rows(60)))
    live.save(tmp_path / "m.safetensors")
    assert load(tmp_path / "m.safetensors").adapt == "event"
    live.close()
    again = LiveMonitor(load(tmp_path / "m.safetensors"), folder=tmp_path / "h")
    assert again.status().paused and again.monitor.adapt == "off"
    again.resume()
    assert any(r.learned for r in again.update_many(rows(60, 3)))


def test_out_of_service_is_missing_and_says_so() -> None:
    live = LiveMonitor(monitor())
    live.service("load")
    X = rows(20)
    X[:, 2] = 1e6
    records = live.update_many(X)
    assert all(r.missing == ("load",) for r in records) and not any(r.event for r in records)
    status = live.status()
    assert status.missing == () and status.out_of_service == ("load",)
    assert "load out of service" in status.learning
    live.service("load", out=False)
    assert live.update(rows(1)[0]).missing == ()
    with pytest.raises(ValueError, match="no variable 'lod'"):
        live.service("lod")


def test_silence_is_told_once_and_its_end(fault: np.ndarray) -> None:
    clock = Clock()
    live = LiveMonitor(monitor(), clock=clock)
    notices = told(live)
    for x in rows(20):
        live.update(x)
        clock.now += 2.0
    clock.now += 9.0
    for _ in range(3):
        live._looked = -np.inf
        live.look()
    assert [n.kind for n in notices] == ["silence"]
    assert live.status().word == "no data" and live.status().text.startswith("no data since ")
    live.update(rows(1)[0])
    assert [n.kind for n in notices] == ["silence", "data"] and live.status().word == "normal"


def test_times_of_rows_are_the_times_of_the_history() -> None:
    clock = Clock()
    live = LiveMonitor(monitor(), clock=clock)
    live.update(rows(1)[0], "2023-11-14T22:13:00+00:00")
    assert live.history.raw["at"].tolist() == [1_700_000_000.0 - 20.0]
    assert live.status().lag == pytest.approx(20.0)
    live.update(rows(1)[0], 17)
    assert live.history.raw["at"][-1] == clock.now


def test_commands_of_other_processes(fault: np.ndarray, tmp_path: Path) -> None:
    import threading

    live = LiveMonitor(monitor(), folder=tmp_path)
    live.update_many(fault[:60])
    answers: list[str] = []

    def say() -> None:
        answers.append(ask(tmp_path, "acknowledge", {"by": "shell"}))
        try:
            ask(tmp_path, "service", {"variable": "x"})
        except ValueError as problem:
            answers.append(str(problem))

    thread = threading.Thread(target=say)
    thread.start()
    while thread.is_alive():
        live.look()
    assert answers[0] == "event 1 acknowledged" and "There is no variable 'x'" in answers[1]


def test_bad_rows_are_counted_and_do_not_flood_the_log() -> None:
    live = LiveMonitor(monitor())
    for i in range(100):
        live.refuse(f"reason {i}")
    lines = [line for line in live.history.log() if line.kind == "bad"]
    assert live.status().bad == 100 and len(lines) == 7


def test_notes_are_bounded_and_kept() -> None:
    live = LiveMonitor(monitor())
    live.update_many(np.vstack([rows(40), rows(10, 4) + 9.0]))
    live.note(1, kind="fault", comment="x" * 10_000)
    known = live.history.event(1)
    assert known is not None and known["class"] == "fault"
    assert len(known["comment"]) == module.LONGEST_NOTE
    with pytest.raises(ValueError, match="no event 7"):
        live.note(7, comment="?")


def test_a_restart_within_an_event_goes_on_with_it(fault: np.ndarray, tmp_path: Path) -> None:
    live = LiveMonitor(monitor(), folder=tmp_path)
    live.update_many(fault[:55])
    live.close()
    again = LiveMonitor(live.monitor, folder=tmp_path)
    notices = told(again)
    again.update_many(fault[55:])
    assert [n.kind for n in notices][-1] == "end" and "begin" not in [n.kind for n in notices]
    assert [e["id"] for e in again.history.events()] == [1]


def test_names_without_any_are_numbers() -> None:
    from kernelstream import KernelMonitor

    live = LiveMonitor(KernelMonitor(basis=10, width=9.0, lags=0, random_state=0).fit(rows(200)))
    assert live.names == ("x0", "x1", "x2", "x3") and NAMES[2] not in live.units
