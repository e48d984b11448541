"""A fleet: each machine is judged as if it were alone, and one log has all events."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kernelstream.anomaly import Record, Records
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


def update(fleet: MonitorFleet, X: np.ndarray, names: list[str]) -> list[Record]:
    return [fleet[name].update(x, t) for t, (x, name) in enumerate(zip(X, names, strict=True))]


@pytest.fixture(scope="module")
def separate() -> MonitorFleet:
    return MonitorFleet.fit(small(lags=1), *rows(900, 1))


def test_each_machine_as_if_it_were_alone(separate: MonitorFleet) -> None:
    fleet = copy.deepcopy(separate)
    assert list(fleet) == list(dict.fromkeys(rows(900, 1)[1]))
    X, names = rows(300, 2)
    found = update(fleet, X, names)
    for name in PLACE:
        own = [i for i, other in enumerate(names) if other == name]
        alone = copy.copy(separate[name]).update_many(X[own], own)
        assert_same(Records(found[i] for i in own), alone)


def test_one_log_of_events(separate: MonitorFleet, tmp_path: Path) -> None:
    fleet = copy.deepcopy(separate)
    X, names = rows(400, 3)
    for name, begins in (("mill", 150), ("press", 250)):
        X[[i for i in range(begins, 400) if names[i] == name], 1] += 9.0
    update(fleet, X, names)
    began = [(name, event.first_time) for name, event in fleet.events]
    assert [name for name, _ in began] == ["mill", "press"]
    assert 150 <= began[0][1] < 175 and 250 <= began[1][1] < 275
    fleet.save(tmp_path / "fleet")
    again = MonitorFleet.load(tmp_path / "fleet")
    assert sorted(again) == sorted(PLACE) and again.shared is None
    more = rows(60, 5)
    assert_same(Records(update(fleet, *more)), Records(update(again, *more)))
    assert [(name, e.id) for name, e in again.events] == [(n, e.id) for n, e in fleet.events]


def test_a_shared_model_knows_a_new_machine(tmp_path: Path) -> None:
    names = ["one", "two"] * 400
    frame = pd.DataFrame(process(800), columns=list("abcd"))
    fleet = MonitorFleet.fit(small(lags=1), frame, names, shared=True)
    assert fleet["one"].lags_ == 1
    fleet.save(tmp_path)
    fleet = MonitorFleet.load(tmp_path)
    new = pd.DataFrame(process(100, seed=3)[::2], columns=list("abcd"))
    found = fleet["three"].update_many(new)
    assert np.mean(found.column("alarm")) < 0.1
    assert sorted(fleet) == ["one", "three", "two"]
    assert fleet["three"].n_samples_seen_ == 50 and fleet["one"].n_samples_seen_ == 0
    # no row of one machine is in the past of another: their values would be those of fit, mixed
    apart = MonitorFleet.fit(small(lags=1), *rows(900, 1), shared=True)
    assert len(apart["mill"]._state.models.limits.index.ordered) == 900 - 3


def test_what_a_fleet_refuses(separate: MonitorFleet, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"no monitor of 'lathe'; known are .*'press'.*shared=True"
    ):
        separate["lathe"]
    X, names = rows(20, 6)
    with pytest.raises(ValueError, match="19 machines for 20 rows"):
        MonitorFleet.fit(small(), X, names[:-1])
    with pytest.raises(ValueError, match="The rows of 'few': "):
        MonitorFleet.fit(small(), X[:12], ["many"] * 11 + ["few"])
    with pytest.raises(ValueError, match="no fleet was saved there"):
        MonitorFleet.load(tmp_path)
    with pytest.raises(ValueError, match="known are none"):
        MonitorFleet()["x"]
