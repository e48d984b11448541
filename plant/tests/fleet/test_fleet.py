"""A fleet: each machine is judged as if it were alone, and one log has all events."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kernelstream.anomaly import Records
from kernelstream_plant import MonitorFleet
from tests.anomaly.monitor.processes import assert_same, process, small

PLACE = {"press": 0.0, "mill": 20.0, "a/b 1": -20.0}


def rows(n: int, seed: int) -> tuple[np.ndarray, list[str]]:
    """Rows of three machines that come in no order, each elsewhere."""
    names = list(np.random.default_rng(seed).choice(list(PLACE), size=n))
    X = np.empty((n, 4))
    for k, name in enumerate(PLACE):
        own = [i for i, other in enumerate(names) if other == name]
        X[own] = process(len(own), seed=10 * seed + k) + PLACE[name]
    return X, names


@pytest.fixture(scope="module")
def separate() -> MonitorFleet:
    return MonitorFleet(small(lags=1)).fit(*rows(900, 1))


def test_each_machine_as_if_it_were_alone(separate: MonitorFleet) -> None:
    fleet = copy.deepcopy(separate)
    assert list(fleet.monitors_) == list(dict.fromkeys(rows(900, 1)[1]))
    X, names = rows(300, 2)
    time = [f"t{i:04d}" for i in range(300)]
    found = fleet.update_many(X, names, time)
    assert [one.machine for one in found] == names
    assert fleet.n_samples_seen_ == 300
    for name in PLACE:
        own = [i for i, other in enumerate(names) if other == name]
        alone = copy.copy(separate.monitors_[name]).update_many(X[own], [time[i] for i in own])
        assert_same(Records(found[i].what for i in own), alone)
    single = copy.deepcopy(separate)
    one_by_one = Records(
        single.update(x, n, t) for x, n, t in zip(X[:60], names, time, strict=False)
    )
    assert_same(one_by_one, Records(one.what for one in found[:60]))


def test_one_log_of_events(separate: MonitorFleet, tmp_path: Path) -> None:
    fleet = copy.deepcopy(separate)
    X, names = rows(400, 3)
    fault = np.arange(400) > 200
    for name, begins in (("mill", 150), ("press", 250)):
        X[[i for i in range(begins, 400) if names[i] == name], 1] += 9.0
    assert fault.any()
    fleet.update_many(X, names)
    began = [(name, event.first_time) for name, event in fleet.events_]
    assert [name for name, _ in began] == ["mill", "press"]
    assert 150 <= began[0][1] < 175 and 250 <= began[1][1] < 275
    X, names = rows(300, 4)
    X[[i for i in range(300) if names[i] == "press"], 2] = np.nan
    fleet.update_many(X, names)
    assert [(name, e.sensor, e.kind) for name, e in fleet.sensor_events_] == [
        ("press", "x2", "silent")
    ]
    fleet.save(tmp_path / "fleet")
    again = MonitorFleet.load(tmp_path / "fleet")
    assert sorted(again.monitors_) == sorted(PLACE) and again.shared_ is None
    more = rows(60, 5)
    ours, theirs = fleet.update_many(*more), again.update_many(*more)
    assert_same(Records(r.what for r in ours), Records(r.what for r in theirs))
    assert [(name, e.id) for name, e in again.events_] == [(n, e.id) for n, e in fleet.events_]


def test_a_shared_model_knows_a_new_machine(tmp_path: Path) -> None:
    names = ["one", "two"] * 400
    frame = pd.DataFrame(process(800), columns=list("abcd"))
    fleet = MonitorFleet(small(lags=1), shared=True).fit(frame, names)
    assert fleet.of("one").lags_ == 1
    fleet.save(tmp_path)
    fleet = MonitorFleet.load(tmp_path)
    new = pd.DataFrame(process(100, seed=3)[::2], columns=list("abcd"))
    found = fleet.update_many(new, ["three"] * 50)
    assert np.mean([one.what.alarm for one in found]) < 0.1
    assert sorted(fleet.monitors_) == ["one", "three", "two"]
    # no row of one machine is in the past of another: their values would be those of fit, mixed
    apart = MonitorFleet(small(lags=1), shared=True).fit(*rows(900, 1))
    assert len(apart.of("mill")._state.models.limits.index.ordered) == 900 - 3


def test_what_is_refused_changes_nothing(separate: MonitorFleet, tmp_path: Path) -> None:
    fleet = copy.deepcopy(separate)
    X, names = rows(20, 6)
    with pytest.raises(
        ValueError, match=r"no monitor of 'lathe'; known are .*'press'.*shared=True"
    ):
        fleet.update_many(X, [*names[:-1], "lathe"])
    with pytest.raises(ValueError, match="20 rows"):
        fleet.update_many(X, names[:-1])
    with pytest.raises(ValueError, match="1 time stamps for 20 rows"):
        fleet.update_many(X, names, [1])
    X[-1, 0] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        fleet.update_many(X, names)
    assert fleet.n_samples_seen_ == 0
    with pytest.raises(ValueError, match="The rows of 'few': "):
        MonitorFleet(small()).fit(X[:12], ["many"] * 11 + ["few"])
    with pytest.raises(ValueError, match="no fleet was saved there"):
        MonitorFleet.load(tmp_path)
    with pytest.raises(ValueError, match="known are none: call fit first"):
        MonitorFleet().of("x")
