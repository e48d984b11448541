"""Every example runs, draws its pictures, and what it says it has learnt is what it found."""

from __future__ import annotations

import ast
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelstream import plot

plt = pytest.importorskip("matplotlib.pyplot")

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = {path.stem: path for path in sorted(EXAMPLES.glob("*.py"))}
ELSEWHERE = {
    "plot_denoise_digits": "test_examples.py",
    "plot_super_resolution": "test_examples.py",
    "plot_monitor_reactor": "plot/test_monitor.py",
    "cluster": "below, in a process of its own: it starts others",
}


def first_stream(found: dict[str, Any]) -> None:
    assert found["model"].n_samples_seen_ == 1797
    assert found["metrics"].captured_variance(found["model"], found["X"]) > 0.99
    assert np.mean(found["errors"][-10:]) < 0.75 * found["errors"][0]


def drift(found: dict[str, Any]) -> None:
    everything, thousand, hundred = map(np.array, found["captured"].values())
    assert everything[11] > hundred[11]  # before the change
    assert hundred[13] > thousand[13] > everything[13]  # 500 rows after it
    assert thousand[-1] > hundred[-1] > everything[-1]  # at the end
    moved = found["model"].basis_points_ - found["earlier"].basis_points_
    assert np.all(np.abs(moved).max(axis=1) > 0.3)  # a memory of 100 rows: all of them


def novelty(found: dict[str, Any]) -> None:
    learned, fresh = (np.mean(rates) for rates in found["rates"].values())
    assert abs(fresh - 0.05) < 0.01 < learned - 0.05
    assert np.mean(found["found"]) > 0.9
    assert 0.02 < found["alarm"][~found["novel"]].mean() < 0.08


def explain(found: dict[str, Any]) -> None:
    before, causes = found["table"].iloc[4], found["told"].causes
    assert [cause.name for cause in causes] == ["vibration", "current"]
    for cause in causes:
        low, high = np.percentile(found["table"][cause.name], [5, 95])
        assert low < cause.actual < high
        assert abs(cause.expected - before[cause.name]) < 0.1 * abs(cause.actual - cause.expected)
    first, second, third = (
        {c.name for c in component.columns if c.share > 0.3} for component in found["explained"][:3]
    )
    assert first == {"temperature", "current"} and second == {"vibration", "noise"}
    assert third == {"humidity"}


def pictures(found: dict[str, Any]) -> None:
    event = found["event"]
    assert 300 <= event.first_row < 310
    assert found["monitor"].event_contributions(event).ranking()[0][0] == "x1"


def basis_size(found: dict[str, Any]) -> None:
    assert np.all(found["bound"] >= found["truth"])
    assert np.all(np.diff(found["bound"]) < 0)
    assert found["bound"][found["sizes"].index(found["chosen"])] <= 0.01
    for model in found["models"].values():
        low, high = model.certificate_.details.eigenvalue_intervals.T
        assert np.all((low <= found["exact"].eigenvalues_) & (found["exact"].eigenvalues_ <= high))


def comparison(found: dict[str, Any]) -> None:
    captured = {key: [row[1] for row in rows] for key, rows in found["results"].items()}
    ours, stream, nystroem, exact = found["SYSTEMS"]
    groups, tails = found["streams"]
    assert captured[groups, ours][1] > captured[groups, nystroem][2]  # 100 points, 200 landmarks
    assert captured[groups, stream][1] > captured[groups, nystroem][2]
    assert captured[groups, ours][1] > captured[groups, exact][2] - 0.003  # 2,000 rows
    assert np.all(np.greater(captured[tails, ours][:2], captured[tails, nystroem][:2]))
    assert np.all(np.greater(captured[tails, stream], captured[tails, nystroem]))
    for rows in (groups, tails):  # a stream is nearly as good as all rows at once
        assert np.all(np.subtract(captured[rows, ours], captured[rows, stream]) < 0.008)
    assert max(map(max, captured.values())) <= 1


def merge(found: dict[str, Any]) -> None:
    truth = found["exact"].eigenvalues_
    for model in (found["both"], found["alone"]):
        low, high = model.certificate_.details.eigenvalue_intervals.T
        assert np.all((low <= truth) & (truth <= high))
    share = {
        name: found["metrics"].captured_variance(found[name], found["X"][::4])
        for name in ("upper", "both", "alone")
    }
    assert share["upper"] < 0.7
    assert share["both"] > share["alone"] - 0.001


def denoise_photo(found: dict[str, Any]) -> None:
    psnr = found["psnr"]
    assert psnr(found["found"]) > psnr(found["noisy"]) + 5
    assert psnr(found["found"]) > psnr(np.stack(found["apart"], axis=2)) + 0.8
    assert psnr(found["measured"]) > psnr(found["found"]) - 0.3
    assert psnr(found["filled"]) > psnr(found["found"]) - 2.5


def demo(found: dict[str, Any]) -> None:
    assert Path("demo.png").stat().st_size > 10_000


def paper(found: dict[str, Any]) -> None:
    assert any(hasattr(value, "transform") for value in found.values())  # a model was learned


# what is told, and in how many pictures
TOLD: dict[str, tuple[Any, int]] = {
    "demo": (demo, 1),
    "plot_basis_size": (basis_size, 2),
    "plot_comparison": (comparison, 1),
    "plot_denoise_photo": (denoise_photo, 3),
    "plot_drift": (drift, 2),
    "plot_explain": (explain, 3),
    "plot_first_stream": (first_stream, 2),
    "plot_merge": (merge, 2),
    "plot_novelty": (novelty, 2),
    "plot_pictures": (pictures, 9),
    "plot_paper_chin_suter": (paper, 2),
    "plot_paper_honeine": (paper, 2),
    "plot_paper_kim": (paper, 2),
    "plot_paper_oja": (paper, 1),
    "plot_paper_tanaka": (paper, 1),
}


QUICK = ("demo", "plot_first_stream", "plot_explain")  # the others are run by test-all and docs


def test_every_picture_is_drawn_in_the_gallery() -> None:
    """So that its page of the API shows it."""
    text = "".join(path.read_text() for name, path in SCRIPTS.items() if name.startswith("plot_"))
    # `monitor_charts` computes what the charts show.
    drawn = {name for name in plot.__all__ if name[0].islower()} - {"monitor_charts"}
    assert drawn <= set(re.findall(r"\bplot\.(\w+)\(", text))


def test_every_example_is_offered_as_a_notebook() -> None:
    page = (EXAMPLES.parent / "docs" / "notebooks.md").read_text()
    offered = re.findall(r"`(\w+)\.ipynb <gallery/(\w+)\.ipynb>`", page)
    assert {a for a, b in offered if a == b} == {n for n in SCRIPTS if n.startswith("plot_")}
    assert all(a == b for a, b in offered)


def test_every_example_is_run() -> None:
    assert set(SCRIPTS) == {*TOLD, *ELSEWHERE}


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in TOLD]
)
def test_example(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "demo":
        pytest.importorskip("rich")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name])
    plt.switch_backend("Agg")
    plt.close("all")
    monkeypatch.setattr(plt, "show", lambda: None)
    check, n_pictures = TOLD[name]
    with plt.rc_context():
        found = runpy.run_path(str(SCRIPTS[name]), run_name="__main__")
    check(found)
    assert len(plt.get_fignums()) == n_pictures
    for number in plt.get_fignums():
        plt.figure(number).savefig(tmp_path / "picture.png")  # draws, also what is drawn lazily
    plt.close("all")


@pytest.mark.slow
def test_cluster(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    done = subprocess.run(
        [sys.executable, str(SCRIPTS["cluster"])],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(EXAMPLES.parent / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "explained variance ratio" in done.stdout


@pytest.mark.parametrize("name", [name for name in SCRIPTS if name in TOLD and name != "demo"])
def test_form_of_the_gallery(name: str) -> None:
    text = SCRIPTS[name].read_text(encoding="utf-8")
    title, line, *_ = (ast.get_docstring(ast.parse(text)) or "").splitlines()
    assert re.fullmatch("=+", line), "sphinx-gallery takes the title from its underlining"
    assert len(line) == len(title)
    cells = text.split("\n# %%\n")
    assert len(cells) >= 3
    assert cells[-1].startswith("# **Learnt:**")
    assert text.count("plt.show()") == TOLD[name][1]
    for heading, under in re.findall(r"^# (.+)\n# (-+)$", text, flags=re.MULTILINE):
        assert len(heading) == len(under), heading
    modules = [
        node.module or ""
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kernelstream")
    ]
    assert set(modules) <= {"kernelstream", "kernelstream.papers"}, "examples use public names only"
