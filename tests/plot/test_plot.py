"""Pictures: what is drawn is what the model says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from kernelstream import StreamingKernelPCA, plot


@pytest.fixture(autouse=True)
def no_open_figures(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing calls show, and nothing is left open."""
    monkeypatch.setattr(plt, "show", lambda *a, **k: pytest.fail("a picture called show"))
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(600, 2)) * [1.0, 0.4] + [5.0, -3.0]


@pytest.fixture(scope="module")
def model(X: np.ndarray) -> StreamingKernelPCA:
    return StreamingKernelPCA(4, basis=60, scale="standard", random_state=0).fit(X)


def drawn(ax: Any) -> Any:
    """The picture can really be drawn."""
    ax.figure.canvas.draw()
    return ax


def test_scree_shows_variances_and_certified_intervals(model: StreamingKernelPCA) -> None:
    ax = drawn(plot.scree(model))
    assert np.allclose([bar.get_height() for bar in ax.patches], model.explained_variance_)
    lines = ax.containers[1].lines[2][0].get_segments()
    intervals = model.certificate_.eigenvalue_intervals / model.n_samples_seen_
    assert np.allclose([segment[:, 1] for segment in lines], intervals)
    assert len(plot.scree(model, n_components=2).patches) == 2


def test_scree_says_when_nothing_is_certain(X: np.ndarray) -> None:
    model = StreamingKernelPCA(2, basis=20, certify=False, random_state=0).fit(X)
    assert [text.get_text() for text in plot.scree(model).texts] == ["no useful certificate"]


def test_embedding_shows_the_scores(model: StreamingKernelPCA, X: np.ndarray) -> None:
    ax = drawn(plot.embedding(model, X, components=(1, 2)))
    shown = np.asarray(ax.collections[0].get_offsets())
    scores = model.transform(X)[:, 1:3]
    assert np.allclose(np.sort(shown, axis=0), np.sort(scores, axis=0))
    assert ax.get_xlabel() == "component 2"


def test_embedding_in_colours(model: StreamingKernelPCA, X: np.ndarray) -> None:
    kinds = np.where(X[:, 0] > 5, "right", "left")
    ax = drawn(plot.embedding(model, X, color=kinds))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["left", "right"]
    offsets, colours = ax.collections[0].get_offsets(), ax.collections[0].get_facecolors()
    scores = model.transform(X)[:, :2]
    for i in (0, 17, 300):  # a row has the colour of its kind, wherever the shuffling put it
        place = int(np.argmin(np.square(np.asarray(offsets) - scores[i]).sum(axis=1)))
        expected = plt.get_cmap("tab10")(int(kinds[i] == "right"))[:3]
        assert np.allclose(colours[place][:3], expected)
    numbers = drawn(plot.embedding(model, X, color=X[:, 0]))
    assert len(numbers.figure.axes) == 2  # with a scale


def test_embedding_refuses_in_words(model: StreamingKernelPCA, X: np.ndarray) -> None:
    with pytest.raises(ValueError, match="the model has 4"):
        plot.embedding(model, X, components=(0, 4))
    with pytest.raises(ValueError, match="3 entries for 600 rows"):
        plot.embedding(model, X, color=[1, 2, 3])
    with pytest.raises(ValueError, match="at most 20"):
        plot.embedding(model, X, color=[f"kind {i}" for i in range(600)])
    with pytest.raises(ValueError, match="1 entries for 600 rows"):
        plot.embedding(model, X, color="red")


def test_rows_without_a_kind_are_a_kind(model: StreamingKernelPCA, X: np.ndarray) -> None:
    kinds = np.where(X[:, 0] > 5, None, "left")  # type: ignore[call-overload]
    ax = drawn(plot.embedding(model, X, color=kinds))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["None", "left"]


def test_contours(model: StreamingKernelPCA, X: np.ndarray) -> None:
    ax = drawn(plot.contours(model, X, component=2))
    left, right = ax.get_xlim()
    assert left < X[:, 0].min() and right > X[:, 0].max()
    drawn(plot.contours(model))  # in the units of the data, though the model standardises
    assert plt.gca().get_xlim()[0] > 0
    with pytest.raises(ValueError, match="two features"):
        plot.contours(StreamingKernelPCA(2, basis=20, random_state=0).fit(np.hstack([X, X])))
    with pytest.raises(ValueError, match="between 0 and 3"):
        plot.contours(model, component=4)


def test_models_of_data_frames(X: np.ndarray) -> None:
    table = pd.DataFrame(X, columns=["flow", "heat"])
    model = StreamingKernelPCA(2, basis=20, random_state=0).fit(table)
    assert drawn(plot.contours(model, table)).get_ylabel() == "heat"
    assert drawn(plot.basis(model, table)).get_xlabel() == "flow"
    assert list(model.feature_names_in_) == ["flow", "heat"]
    drawn(plot.embedding(model, table))
    three = table.assign(load=table["flow"] ** 2)
    drawn(plot.basis(StreamingKernelPCA(2, basis=20, random_state=0).fit(three), three))


def test_basis_in_the_plane_on_components_and_as_pictures(
    model: StreamingKernelPCA, X: np.ndarray
) -> None:
    ax = drawn(plot.basis(model, X))
    points = np.asarray(ax.collections[1].get_offsets())
    assert len(points) == 60 and abs(points[:, 0].mean() - 5) < 1
    images = np.random.default_rng(1).random(size=(300, 12))
    pictures = StreamingKernelPCA(2, basis=10, random_state=0).fit(images)
    assert len(drawn(plot.basis(pictures)).collections[0].get_offsets()) == 10
    mosaic = drawn(plot.basis(pictures, image_shape=(3, 4))).images[0].get_array()
    assert np.isfinite(mosaic).sum() == 10 * 12
    with pytest.raises(ValueError, match="does not fit rows of 12"):
        plot.basis(pictures, image_shape=(4, 4))


def test_learning_curve_judges_before_it_learns() -> None:
    rng = np.random.default_rng(0)
    blocks = [rng.normal(size=(200, 3)) for _ in range(8)]
    blocks += [block + 4.0 for block in blocks]  # a jump that the model has not seen
    model = StreamingKernelPCA(3, gamma=0.2, basis=40, random_state=0)
    curve = plot.follow(model, blocks)
    assert model.n_samples_seen_ == 3200 and len(curve.rows) == 15
    assert curve.error[7] > 2 * curve.error[6]
    ax = drawn(plot.learning_curve(curve, label="stream"))
    assert np.array_equal(ax.lines[0].get_ydata(), curve.error)
    assert plot.learning_curve(curve, ax=ax, label="again") is ax and len(ax.lines) == 2


def test_control_chart_of_records_and_of_lines() -> None:
    records = [
        SimpleNamespace(smoothed=float(i), limit=5.5, alarm=i > 5, event=1 if i > 6 else None)
        for i in range(1, 10)
    ]
    ax = drawn(plot.control_chart(records))
    assert ax.get_ylabel() == "smoothed index"
    assert ax.lines[2].get_xdata().tolist() == [6, 7, 8, 9]
    lines: list[dict[str, Any]] = [
        {"reconstruction_error": 0.1, "limit": 0.5, "alarm": False},
        {"error": "not a JSON object"},
    ]
    assert len(drawn(plot.control_chart(lines)).lines[0].get_xdata()) == 1
    with pytest.raises(ValueError, match="no records"):
        plot.control_chart([])


def test_the_charts_of_a_monitor_are_here_too() -> None:
    charts = pytest.importorskip("kernelstream.plot.monitor")
    for name in ("control_charts", "contribution_bars", "contribution_map", "score_plot"):
        assert getattr(plot, name) is getattr(charts, name)
    with pytest.raises(AttributeError, match="no attribute 'pie'"):
        plot.pie  # noqa: B018


def test_the_core_and_its_plot_import_without_extras() -> None:
    """No extra is imported before it is used; without matplotlib the message says what to do."""
    code = """
import sys
for name in ("matplotlib", "bokeh", "typer", "rich", "pyarrow.parquet"):
    sys.modules[name] = None
import kernelstream
from kernelstream import plot
try:
    plot.learning_curve(plot.LearningCurve([1], [1], [1]))
except ModuleNotFoundError as problem:
    sys.exit(0 if "kernelstream[plot]" in str(problem) else 2)
sys.exit(3)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_command_line_says_what_it_needs() -> None:
    code = "import sys; sys.modules['typer'] = None; from kernelstream.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and "pip install 'kernelstream[cli]'" in done.stderr
