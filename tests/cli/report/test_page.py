"""The report: self-contained, true to the model, and readable in a browser."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from kernelstream import StreamingKernelPCA, load
from kernelstream.certificates.certificate import GuaranteedBounds, certify
from kernelstream.cli.app import app
from kernelstream.cli.report import html
from kernelstream.cli.report.page import percent
from kernelstream.cli.report.pictures import colors_of
from kernelstream.tables import TableModel


def pictures(page: str) -> list[str]:
    """The texts of the pictures of a page, each of which is inside of it."""
    found = re.findall(r'<img class=picture alt="([^"]*)" src="data:image/png;base64,', page)
    assert len(found) == page.count("<img ")
    return found


def test_the_page_says_what_was_learned(model: StreamingKernelPCA, X: np.ndarray) -> None:
    page = html(model, X, title="A <b>title</b>")
    text = unescape(re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL))
    share = float(model.explained_variance_ratio_.sum())
    for fact in ("3,000</b><span class=quiet>rows", "16</b><span class=quiet>features"):
        assert fact in text
    assert "40</b><span class=quiet>basis points" in text
    assert f"{share:.1%}</b><span class=quiet>variance explained" in text
    assert "RBF(gamma=0.03)" in text and "Centroids(n_points=40)" in text
    assert "<b>title</b>" not in page and "A <b>title</b>" in text
    assert pictures(page) == [
        "Variance of the components",
        "Rows on components 1 and 2",
        "Reconstruction error over time",
        "Components along their columns",
    ]


def test_nothing_is_loaded_from_elsewhere(model: StreamingKernelPCA, X: np.ndarray) -> None:
    page = html(model, X)
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=[\"']?(https?:)?//", page)
    assert len(page) > 100_000  # the pictures are inside
    assert "<script" not in page


def test_models_of_data_frames(X: np.ndarray) -> None:
    table = pd.DataFrame(X, columns=[f"sensor {i}" for i in range(16)])
    model = StreamingKernelPCA(2, basis=20, gamma=0.03, random_state=0).fit(table)
    assert "sensor 7" in html(model, table) and "sensor 7" in html(model)


def test_pages_without_rows(model: StreamingKernelPCA) -> None:
    page = html(model)
    assert "The points of the basis; no rows were given." in page
    assert "Reconstruction error over time" not in page


@pytest.mark.parametrize("n_components", [1, 2])
@pytest.mark.parametrize("shape", [(50, 3), (60, 1)])
def test_a_page_about_constant_rows(shape: tuple[int, int], n_components: int) -> None:
    for rows in (np.zeros(shape), np.eye(*shape)):
        model = StreamingKernelPCA(n_components, gamma=1.0, basis=20, random_state=0).fit(rows)
        assert "Reconstruction error over time" in pictures(html(model, rows))


def test_pictures_of_images_have_their_shape(model: StreamingKernelPCA) -> None:
    with pytest.raises(ValueError, match="has 6 pixels, and a row has 16"):
        html(model, image_shape=(2, 3))


def test_sections_of_images(model: StreamingKernelPCA, X: np.ndarray) -> None:
    page = html(model, X[:500] + 1.0, image_shape=(4, 4))
    assert pictures(page)[-2:] == ["Points of the basis", "Images with the largest error"]
    assert "Rows with the largest error" not in page and "column by column" not in page
    assert pictures(html(model, image_shape=(4, 4)))[-1] == "Points of the basis"


@pytest.mark.filterwarnings("ignore:Nine tenths of the squared distances:UserWarning")
def test_weights_of_columns_in_words() -> None:
    """What is next to nothing is not told, but for the first column of a component."""
    rows = np.random.default_rng(0).normal(size=(400, 4)) * [9.0, 0.01, 0.01, 0.01]
    page = html(StreamingKernelPCA(1, gamma=0.01, basis=30, random_state=0).fit(rows), rows)
    assert "<td>100%</td>" in page and "<td class=name>x1</td><td>0%" not in page
    assert percent(0.0004) == "under 1%" and percent(0.0) == "0%" and percent(0.017) == "2%"


def test_the_best_possible_is_one_number_where_it_is_known(X: np.ndarray) -> None:
    exact = StreamingKernelPCA(3, gamma=0.03, basis="everything").fit(X[:200])
    low, high = exact.certificate_.best_explained_variance_ratio_interval
    assert f"{low:.1%}" == f"{high:.1%}" and f"<b>{low:.1%}</b>" in html(exact)


def test_labels_become_numbers_or_kinds() -> None:
    labels = ["b"] * 3 + ["a"] * 2 + [None, float("nan"), ""]
    assert colors_of(labels).tolist() == ["b"] * 3 + ["a"] * 2 + ["missing"] * 3
    many = [f"k{i}" for i in range(25) for _ in range(i + 1)]
    shown = set(colors_of(many).tolist())
    assert len(shown) == 20 and "other" in shown and "k0" not in shown
    assert colors_of([1, 2, 3]).tolist() == ["1", "2", "3"]
    numbers = colors_of([*map(str, range(30)), ""])
    assert numbers[:30].tolist() == list(range(30)) and np.isnan(numbers[30])


def test_labels_of_every_kind_are_drawn(model: StreamingKernelPCA, X: np.ndarray) -> None:
    for labels in (list(X[:, 0]), [f"k{i % 30}" if i % 7 else None for i in range(3000)]):
        assert "Rows on components 1 and 2" in pictures(html(model, X, labels=labels))


def test_the_verdict_is_about_these_rows(model: StreamingKernelPCA, X: np.ndarray) -> None:
    names = [f"p{i}" for i in range(16)]
    good = html(model, X, feature_names=names)
    assert '<div class="verdict good"><b>The model fits these rows' in good
    foreign = X.copy()
    foreign[:, 3] += 12.0
    bad = html(model, foreign, feature_names=names)
    assert '<div class="verdict bad"><b>The model does not fit these rows' in bad
    assert "Columns that differ most from the rows learned: p3 (mean" in bad
    assert "Rows with the largest error" in bad and "p3 is " in bad and ", expected " in bad
    assert "Nothing to compare: no rows were given." in html(model)


@pytest.mark.filterwarnings("ignore:Nine tenths of the squared distances:UserWarning")
def test_a_column_that_dominates_is_named(X: np.ndarray) -> None:
    rows = X[:600].copy()
    rows[:, 0] = np.arange(600) * 100.0
    model = StreamingKernelPCA(2, gamma=1e-8, basis=30, random_state=0).fit(rows)
    page = html(model, rows, feature_names=["id", *(f"p{i}" for i in range(1, 16))])
    assert "Nine tenths of the squared distances come from id, which dominates" in page
    told = html(StreamingKernelPCA(2, scale="standard", basis=30, random_state=0).fit(rows), rows)
    assert "squared distances" not in told


def test_a_frame_with_kinds_and_gaps(X: np.ndarray) -> None:
    frame = pd.DataFrame(X[:300, :3], columns=["a", "b", "c"])
    frame = frame.assign(kind=["low", "high"] * 150, gap=[np.nan, 1.0, 2.0] * 100)
    model = TableModel(StreamingKernelPCA(3, scale="auto", basis=30, random_state=0)).fit(frame)
    page = html(model, frame)
    assert ">kind=low</td>" in page and ">gap</td>" in page and ">nan" not in page


def test_the_command(tmp_path: Path, X: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    rows, path, page = tmp_path / "x.csv", tmp_path / "m.safetensors", tmp_path / "r.html"
    table = pd.DataFrame(X, columns=[f"p{i}" for i in range(16)])
    table.assign(kind=["low", "middle", "high"] * 1000).to_csv(rows, index=False)
    words = ["fit", rows, "-o", path, "--basis", "40", "--components", "3", "-q"]
    words += ["--exclude", "kind"]
    assert CliRunner().invoke(app, list(map(str, words))).exit_code == 0
    words = ["report", path, rows, "-o", page, "--color", "kind", "--image-shape", "4x4", "--json"]
    words.append("--open")
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["bytes"] == page.stat().st_size
    assert opened == [page.as_uri()]
    assert f"3,000 rows of {rows}" in page.read_text()
    assert load(path).estimator_.n_samples_seen_ == 3000
    bad = ["report", path, rows, "-o", page, "--image-shape", "big"]
    assert CliRunner().invoke(app, list(map(str, bad))).exit_code == 2


def test_the_certificate_of_a_page_is_computed_once(
    X: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = []

    def counted(*arguments: Any) -> GuaranteedBounds:
        computed.append(1)
        return certify(*arguments)

    monkeypatch.setattr("kernelstream.stream.stream.certify", counted)
    model = StreamingKernelPCA(3, basis=20, gamma=0.03, random_state=0).fit(X)
    html(model, X[:100])
    assert len(computed) == 1
    model.partial_fit(X[:10])
    assert model.certificate_ is model.certificate_ and len(computed) == 2
