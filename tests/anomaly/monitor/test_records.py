"""Names and time stamps in the records."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kernelstream import KernelMonitor
from tests.anomaly.monitor.processes import process, small


def frame(n: int, seed: int) -> pd.DataFrame:
    minutes = np.random.default_rng(seed).integers(1, 9, size=n).cumsum()  # irregular
    index = pd.Timestamp("2026-03-01") + pd.to_timedelta(minutes, unit="min")
    return pd.DataFrame(process(n, seed), columns=["feed", "heat", "flow", "level"], index=index)


def test_names_and_times_are_kept(tmp_path: Path) -> None:
    monitor = small().fit(frame(200, 0))
    new = frame(40, 1)
    new["heat"] += 8.0
    records = monitor.update_many(new)
    assert list(records.column("time")) == list(new.index)
    assert records[-1].contributions is not None
    assert records[-1].contributions.ranking()[0][0] == "heat"
    table = pd.DataFrame(records).set_index("time")
    assert list(table.index) == list(new.index) and table["alarm"].iloc[-1]
    one = monitor.update(new.iloc[-1])
    assert one.time == new.index[-1]
    assert monitor.update(new.iloc[-1], time="noon").time == "noon"
    monitor.save(tmp_path / "m")
    loaded = KernelMonitor.load(tmp_path / "m")
    assert list(loaded.feature_names_in_) == list(new.columns)
    assert loaded.event_ is not None
    assert loaded.event_.first_time.startswith("2026-03-01")
    with pytest.raises(ValueError, match="order"):
        monitor.update_many(new[["heat", "feed", "flow", "level"]])
    with pytest.raises(ValueError, match="put them into the order of fit"):
        monitor.update(new.iloc[0].iloc[::-1])
    with pytest.raises(ValueError, match="2 time stamps for 3 rows"):
        monitor.update_many(new.iloc[:3], time=[1, 2])


def test_row_numbers_where_there_are_no_times(fitted: KernelMonitor) -> None:
    monitor = copy.copy(fitted)
    assert [r.time for r in monitor.update_many(process(3))] == [0, 1, 2]
    assert monitor.update(process(1)[0]).time == 3
