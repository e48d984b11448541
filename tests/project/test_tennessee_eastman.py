"""The reproduction on the Tennessee Eastman process, with made-up runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from reproductions import frame
from reproductions.tennessee_eastman import protocol, run


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    plt.close("all")
    yield
    plt.close("all")


def made_up_runs() -> protocol.Runs:
    """Runs in the shape of Tennessee Eastman's, with twelve variables and three plain faults."""
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(5, 12))

    def normal(n: int) -> np.ndarray:
        return rng.normal(size=(n, 5)) @ mix + 0.3 * rng.normal(size=(n, 12))

    runs = {"d00": normal(240), "d00_te": normal(420)}
    for fault in (1, 3, 5):
        runs[f"d{fault:02d}_te"] = normal(420)
        runs[f"d{fault:02d}_te"][protocol.START :, fault] += 4.0
    return runs


def test_rates_count_what_they_say() -> None:
    runs = made_up_runs()
    steps = {1: 7, 3: 9, 5: 300}  # rows after the start of the fault
    alarms = {}
    for fault, first in steps.items():
        alarms[fault] = np.zeros(420, dtype=bool)
        alarms[fault][protocol.START + first :] = True
        alarms[fault][protocol.START : protocol.START + 2] = True  # two in a row are not three
    alarms[1][:16] = True
    by_run = {id(X): alarms[fault] for fault, X in protocol.faulty(runs).items()}
    found = protocol.rates(lambda X: by_run[id(X)], runs)
    assert found["far"] == pytest.approx(100 * 16 / 160 / 3)
    assert found["by_fault"]["1"] == pytest.approx(100 * 255 / 260)
    assert found["fdr"] == pytest.approx((100 * 255 / 260 + 100 * 2 / 260) / 2)  # not fault 3
    assert found["delay_mean"] == pytest.approx((7 + 260) / 2) and found["missed"] == 1


@pytest.mark.slow
def test_reproduction_on_made_up_runs(tmp_path: Path) -> None:
    runs = made_up_runs()
    results: dict[str, Any] = {"curved": run.curved(1, True)}
    results |= run.on_runs(runs, full=False, out=tmp_path, tiny=True)
    assert results["detection"]["lags_0"]["plain"]["fdr"] > 90
    for fault in run.SHOWN:
        results["detection"]["lags_2"]["plain"]["by_fault"].setdefault(str(fault), 0.0)
    claims = run.claims(frame.plain(results))
    # every peer has a line, in all of its ways, and our index alone
    beside = {f"beside: {name}" for name in (*results["peers"], "KernelMonitor, the index alone")}
    assert {row["claim"] for row in claims if row["claim"].startswith("beside")} == beside
    assert len(beside) == 8
    assert sum(row["same"] is not None for row in claims) == 16
    assert {p.name for p in tmp_path.glob("*.png")} == {
        "detection.png",
        "fault_5.png",
        "causes.png",
    }
    expected = frame.json.loads(
        (frame.HERE / "tennessee_eastman" / "expected.json").read_text(encoding="utf-8")
    )
    missing = [key for key in expected if frame.number(frame.plain(results), key) is None]
    assert not missing
