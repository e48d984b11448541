"""Pictures of a monitored stream, and its example."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from kernelstream import KernelMonitor, plot
from kernelstream.anomaly import Contributions, Records
from kernelstream.plot import monitor as charts


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
    axes = charts.control_charts(records, monitor)
    assert len(axes) == 4 and all(axis.get_yscale() == "log" for axis in axes)
    np.testing.assert_array_equal(line(axes[0], "smoothed"), records.column("smoothed"))
    # alpha is 1 %: that line is the limit of the records, and 95 % lies below it
    np.testing.assert_allclose(line(axes[0], "99%"), records.column("limit"))
    np.testing.assert_allclose(line(axes[1], "99%"), records.column("lasting_limit"))
    np.testing.assert_allclose(line(axes[3], "99%"), records.column("spe_limit"))
    np.testing.assert_array_equal(line(axes[0], "single row"), records.column("index_limit"))
    assert np.all(line(axes[0], "95%") < line(axes[0], "99%"))
    assert len(line(axes[0], "alarm")) == records.column("alarm").sum() > 20
    shaded = [patch.get_label() for patch in axes[0].patches]
    assert len(shaded) == len({r.event for r in records if r.event})
    figure, given = plt.subplots(4, 1)
    drawn = charts.control_charts(records, monitor, given)
    assert drawn[0] is given[0] and drawn[2].get_ylabel() == "T²"
    assert plt.get_fignums() == [axes[0].figure.number, figure.number]


def test_control_charts_of_a_monitor_with_events_a_day(
    watched: tuple[KernelMonitor, Records],
) -> None:
    """Limits follow the share that this leads to, and without smoothing nothing lasts."""
    rows = np.random.default_rng(1).normal(size=(300, 3))
    asked: dict[str, Any] = dict(false_events_per_day=20.0, interval=60.0)
    chosen: dict[str, Any] = dict(basis=20, width=30.0, ridge=0.1, whiten=True, **asked)
    for smooth, n in ((0.1, 4), (None, 3)):
        monitor = KernelMonitor(smooth=smooth, **chosen).fit(rows[:200])
        axes = charts.control_charts(monitor.update_many(rows[200:]), monitor)
        assert len(axes) == n and np.all(np.isfinite(line(axes[0], "99%")))
        plt.close(axes[0].figure)


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


def test_monitor_charts_without_smoothing_leaves_out_persistent_shifts() -> None:
    found = plot.monitor_charts(("smoothed", "t2", "drift_largest_shift"))
    assert [chart.statistic for chart in found] == ["smoothed", "t2", "drift_largest_shift"]
    assert found[0].dots == "index" and found[0].limits == ("limit", "event_limit")
    assert [chart.logarithmic for chart in found] == [True, True, False]


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
        charts.control_charts(Records(), watched[0])


def test_components_of_normal_rows_are_centred_and_ordered() -> None:
    X = np.random.default_rng(0).normal(size=(400, 3))
    monitor = KernelMonitor(basis=40, width=10.0, ridge=0.01, whiten=True, random_state=0).fit(X)
    scores = monitor.component_scores(X)
    C = np.cov(scores.T, ddof=0)
    np.testing.assert_allclose(scores.mean(axis=0), 0, atol=1e-8)
    np.testing.assert_allclose(C, np.diag(np.diag(C)), atol=1e-8)
    assert np.all(np.diff(np.diag(C)) <= 1e-10)


def test_the_charts_of_a_monitor_are_here_too() -> None:
    charts = pytest.importorskip("kernelstream.plot.monitor")
    for name in ("control_charts", "contribution_bars", "contribution_map"):
        assert getattr(plot, name) is getattr(charts, name)
    with pytest.raises(AttributeError, match="no attribute 'pie'"):
        plot.pie  # type: ignore[attr-defined]  # noqa: B018


def test_matplotlib_is_not_imported_with_the_package() -> None:
    code = "import sys, kernelstream.plot.monitor; print('matplotlib' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


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
