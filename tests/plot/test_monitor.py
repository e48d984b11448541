"""Pictures of the monitor, its example and its reproduction."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from kernelstream import KernelMonitor
from kernelstream.monitor import Contributions, Records
from kernelstream.plot import monitor as charts
from reproductions import frame
from reproductions.tennessee_eastman import protocol, run


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    plt.close("all")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def watched() -> tuple[KernelMonitor, Records]:
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(3, 4))
    X = rng.normal(size=(500, 3)) @ mix + 0.3 * rng.normal(size=(500, 4))
    X[380:400, 2] += 6.0
    X[450:470, 1] -= 6.0
    monitor = KernelMonitor(basis=40, width=30.0, ridge=0.1, whiten=True, memory=100)
    monitor.fit(X[:200])
    return monitor, monitor.update_many(X[200:])


def line(axis: Any, label: str) -> np.ndarray:
    """The heights of the line with this label."""
    return next(one for one in axis.lines if one.get_label() == label).get_ydata()


def test_control_charts(watched: tuple[KernelMonitor, Records]) -> None:
    monitor, records = watched
    axes = charts.control_charts(records, monitor, spans={"training": (-200, -1)})
    assert len(axes) == 3 and all(axis.get_yscale() == "log" for axis in axes)
    np.testing.assert_array_equal(line(axes[0], "smoothed"), records.column("smoothed"))
    # alpha is 1 %: that line is the limit of the records, and 95 % lies below it
    np.testing.assert_allclose(line(axes[0], "99%"), records.column("limit"))
    np.testing.assert_allclose(line(axes[2], "99%"), records.column("spe_limit"))
    assert np.all(line(axes[0], "95%") < line(axes[0], "99%"))
    assert len(line(axes[0], "alarm")) == records.column("alarm").sum() > 20
    blind = records.column("t2_blind")
    labels = [one.get_label() for one in axes[1].lines]
    assert ("blind" in labels) == blind.any()
    assert not blind.any() or len(line(axes[1], "blind")) == blind.sum()
    shaded = [patch.get_label() for patch in axes[0].patches]
    n_events = len({r.event for r in records if r.event})
    assert shaded.count("training") == 1 and len(shaded) == 1 + n_events
    figure, given = plt.subplots(3, 1)
    assert charts.control_charts(records, monitor, given)[0] is given[0]
    assert plt.get_fignums() == [axes[0].figure.number, figure.number]


def test_times_of_all_kinds(watched: tuple[KernelMonitor, Records]) -> None:
    monitor, _ = watched
    rows = np.random.default_rng(1).normal(size=(30, 4))
    days = pd.date_range("2026-01-01", periods=30)
    words = [f"batch {i}" for i in range(30)]
    for times, expected in ((days, days.to_numpy()), (words, np.arange(30))):
        stream = KernelMonitor(basis=20, width=100.0, ridge=0.1, whiten=True).fit(rows)
        axes = charts.control_charts(stream.update_many(rows, time=times), monitor)
        found = axes[0].lines[0].get_xdata()
        assert (np.asarray(found, dtype=expected.dtype) == expected).all()


def test_contribution_bars() -> None:
    found = Contributions(("a", "b", "c"), np.array([1.0, 9.0, 4.0]), np.array([0.2, -3.0, 1.0]))
    axis = charts.contribution_bars(found, most=2, unit=" bar")
    assert [bar.get_width() for bar in axis.patches] == [9.0, 4.0]
    assert [text.get_text() for text in axis.get_yticklabels()] == ["b", "c"]
    assert [text.get_text() for text in axis.texts] == ["-3 bar", "+1 bar"]
    colours = [bar.get_facecolor() for bar in axis.patches]
    assert colours[0] != colours[1]  # too low, too high
    assert axis.yaxis_inverted()


def test_contribution_map(watched: tuple[KernelMonitor, Records]) -> None:
    _, records = watched
    axis = charts.contribution_map(records, most=2)
    values = axis.collections[0].get_array()
    assert values.shape == (2, len(records))
    explained = np.array([r.contributions is not None for r in records])
    assert (~np.ma.getmaskarray(values).any(axis=0) == explained).all()
    shown = [text.get_text() for text in axis.get_yticklabels()]
    assert set(shown) == {"x1", "x2"}
    assert values[shown.index("x2"), 195] > 0 > values[shown.index("x1"), 265]
    with pytest.raises(ValueError, match="No record has contributions"):
        charts.contribution_map(Records(r for r in records if r.contributions is None))
    with pytest.raises(ValueError, match="no records"):
        charts.adaptation_chart(Records())


def test_score_plot(watched: tuple[KernelMonitor, Records]) -> None:
    monitor, _ = watched
    X = np.random.default_rng(1).normal(size=(60, 4))
    axis = charts.score_plot(monitor, {"normal": X, "event": X[:10] + 5}, components=(1, 0))
    scores = monitor.component_scores(X)
    np.testing.assert_array_equal(axis.lines[0].get_xdata(), scores[:, 1])
    np.testing.assert_array_equal(axis.lines[0].get_ydata(), scores[:, 0])
    assert [t.get_text() for t in axis.get_legend().get_texts()] == ["normal", "event"]


def test_components_of_normal_rows_are_centred_and_ordered() -> None:
    X = np.random.default_rng(0).normal(size=(400, 3))
    monitor = KernelMonitor(basis=40, width=10.0, ridge=0.01, whiten=True, random_state=0).fit(X)
    scores = monitor.component_scores(X)
    C = np.cov(scores.T, ddof=0)
    np.testing.assert_allclose(scores.mean(axis=0), 0, atol=1e-8)
    np.testing.assert_allclose(C, np.diag(np.diag(C)), atol=1e-8)
    assert np.all(np.diff(np.diag(C)) <= 1e-10)


def test_adaptation_chart(watched: tuple[KernelMonitor, Records]) -> None:
    _, records = watched
    axes = charts.adaptation_chart(records)
    above, below = axes
    np.testing.assert_array_equal(
        line(above, "largest shift of a mean [sd]"), records.column("drift.largest_shift")
    )
    np.testing.assert_array_equal(line(below, "overlap of axes"), records.column("drift.overlap"))
    assert line(below, "overlap of axes")[0] == 1.0
    flags = np.r_[False, ~records.column("learned")]
    assert len(above.patches) == np.sum(flags[1:] & ~flags[:-1])


def test_matplotlib_is_not_imported_with_the_package() -> None:
    code = "import sys, kernelstream.plot.monitor; print('matplotlib' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


# --- the reproduction


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
    assert sum(row["claim"].startswith("beside") for row in claims) >= 10
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


@pytest.mark.slow
def test_the_example_tells_its_story(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "examples" / "plot_monitor_reactor.py"
    done = subprocess.run(
        [sys.executable, str(script), "monitor_reactor"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(script.parents[1] / "src"),
            "MPLBACKEND": "Agg",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    for words in ("event 1 since 03-07", "is over", "accepted as the new normal", "jacket_temp"):
        assert words in done.stdout
    assert len(list((tmp_path / "monitor_reactor").glob("*.png"))) == 3
