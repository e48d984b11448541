"""The history: bounded, thinned by age with its extremes, whole after a kill."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelstream.anomaly import Record
from kernelstream_plant.operation import history as module
from kernelstream_plant.operation.history import (
    MINUTE,
    SECOND,
    History,
    ask,
    existing,
)
from plant.tests.operation.conftest import NAMES, monitor, rows


@pytest.fixture(scope="module")
def record() -> Record:
    return [monitor().update(x) for x in rows(3, 5)][-1]


def fill(history: History, record: Record, n: int, step: float = 0.1, begin: float = 0.0) -> None:
    for i in range(n):
        row = replace(record, row=i, index=float(i), alarm=i % 10 == 0, event=None)
        history.add(begin + i * step, row, np.full(4, float(i)))


def test_seconds_and_minutes_keep_extremes(record: Record) -> None:
    history = History(NAMES)
    fill(history, record, 1300)
    seconds, minutes = history.stretches[SECOND], history.stretches[MINUTE]
    index = history.columns.index("index")
    assert len(seconds) == 129 and len(minutes) == 2
    assert seconds["low"][3, index] == 30 and seconds["high"][3, index] == 39
    assert minutes["low"][1, index] == 600 and minutes["high"][1, index] == 1199
    assert minutes["mean"][1, index] == pytest.approx(899.5)
    assert minutes["n"].tolist() == [600, 600] and minutes["alarms"].tolist() == [60, 60]
    assert history.totals(0.0) == (1300, 130, 130)


def test_missing_values_do_not_hide_the_others(record: Record) -> None:
    history = History(NAMES)
    for i in range(30):
        history.add(i * 0.1, record, np.array([np.nan if i % 2 else float(i), 0.0, 0.0, np.nan]))
    history.add(10.0, record, np.zeros(4))
    history.flush()
    _, data = history.rows_between(0.0, 3.0, 10)
    assert np.isfinite(data[:, -4]).any() and np.isnan(data[:, -1]).all()


def test_a_restart_has_the_past(record: Record, tmp_path: Path) -> None:
    before = History(NAMES, tmp_path, "m")
    fill(before, record, 700)
    before.keep_event(3, begin=1.0, comment="seen")
    before.keep_fact("paused", True)
    before.write("note", "hello", at=2.0)
    before.close()
    after = History(NAMES, tmp_path, "m")
    np.testing.assert_array_equal(after.raw["data"], before.raw["data"])
    for width in (SECOND, MINUTE):
        np.testing.assert_array_equal(
            after.stretches[width]["high"], before.stretches[width]["high"]
        )
    assert after.event(3) == {"id": 3, "begin": 1.0, "comment": "seen"}
    assert after.fact("paused") is True and after.log()[0].text == "hello"


def test_another_model_begins_anew_and_the_old_history_is_kept(tmp_path: Path) -> None:
    History(NAMES, tmp_path, "one").keep_event(1, begin=0.0)
    assert History(NAMES, tmp_path, "two").events() == []
    assert (tmp_path / module.BEFORE).exists()


def test_everything_has_a_bound(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RAW_ROWS", 100)
    monkeypatch.setattr(module, "KEPT", {SECOND: 20, MINUTE: 3, module.HOUR: 2})
    for name in ("LOG_LINES", "EVENTS"):
        monkeypatch.setattr(module, name, 5)
    history = History(NAMES, tmp_path)
    for start in range(0, 3000, 50):
        fill(history, record, 50, step=1.0, begin=float(start))
        history.flush()
    for id in range(1, 12):
        history.keep_event(id, begin=0.0)
        history.write("note", str(id), at=0.0)
    assert len(history.raw) == 100 and len(history.stretches[SECOND]) == 20
    with existing(tmp_path) as base:
        kept = base.execute("SELECT sum(n) FROM rows").fetchone()[0]
        widths = dict(base.execute("SELECT width, count(*) FROM stretches GROUP BY width"))
    assert 100 <= kept <= 200
    assert widths[SECOND] <= 20 and widths[MINUTE] <= 3
    assert len(history.events()) == 5 and len(history.log()) == 5


def test_old_rows_come_as_means(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RAW_ROWS", 50)
    history = History(NAMES)
    fill(history, record, 500)
    at, data = history.rows_between(10.0, 12.0, 100)
    assert at.tolist() == [10.0, 11.0, 12.0]
    assert data[0, -1] == pytest.approx(np.arange(100, 110).mean())
    at, data = history.rows_between(46.0, 49.0, 100)
    assert len(at) == 31 and data[0, -1] == 460


def test_a_command_is_answered_once_or_withdrawn(tmp_path: Path) -> None:
    history = History(NAMES, tmp_path)
    with pytest.raises(TimeoutError, match="withdrawn"):
        ask(tmp_path, "accept", {}, patience=0.1)
    assert history.waiting() == []
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(ask(tmp_path, "pause", {"by": "me"})))
    thread.start()
    while not (found := history.waiting()):
        pass
    (id, verb, arguments) = found[0]
    history.answer(id, "done", "paused")
    thread.join()
    assert (verb, arguments, answers) == ("pause", {"by": "me"}, ["paused"])
    assert history.waiting() == []


def test_no_history_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="--history"):
        ask(tmp_path / "nowhere", "accept", {})


def test_a_command_of_before_a_restart_is_not_executed(tmp_path: Path) -> None:
    History(NAMES, tmp_path).close()
    with existing(tmp_path) as base, base:
        base.execute(
            "INSERT INTO commands (at, verb, arguments, state) VALUES (0, 'pause', '{}', 'waiting')"
        )
    assert History(NAMES, tmp_path).waiting() == []
