"""The report: self-contained, true to the model, and readable in a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
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
from kernelstream.cli.report.drawings import curve, histograms
from kernelstream.cli.report.figures import are_numbers, kinds_of
from kernelstream.cli.report.page import percent
from kernelstream.tables import TableModel

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def embedded(page: str) -> list[dict[str, Any]]:
    """The columns that the plots of a page draw."""
    text = re.search(r"const docs_json = '(.*?)';\n", page)
    assert text is not None
    found: list[dict[str, Any]] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if value.get("name") == "ColumnDataSource":
                entries = value["attributes"]["data"]["entries"]
                found.append(dict(entries))
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(json.loads(text[1].encode().decode("unicode_escape")))
    return found


def test_the_page_says_what_was_learned(model: StreamingKernelPCA, X: np.ndarray) -> None:
    page = html(model, X, title="A <b>title</b>")
    text = unescape(re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL))
    share = float(model.explained_variance_ratio_.sum())
    assert "learned from 3,000 rows of 16 features and kept in 40 points" in text
    assert f"explain {share:.1%} of the variance" in text
    assert "RBF(gamma=0.03)" in text and "Centroids(n_points=40)" in text
    assert "<b>title</b>" not in page and "A <b>title</b>" in text
    names = {name for columns in embedded(page) for name in columns}
    assert {"share", "pc1", "largest", "mean"} <= names


def test_nothing_is_loaded_from_elsewhere(model: StreamingKernelPCA, X: np.ndarray) -> None:
    page = html(model, X)
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=[\"']?(https?:)?//", page)
    assert len(page) > 500_000  # Bokeh itself is inside


def test_models_of_data_frames(X: np.ndarray) -> None:
    table = pd.DataFrame(X, columns=[f"sensor {i}" for i in range(16)])
    model = StreamingKernelPCA(2, basis=20, gamma=0.03, random_state=0).fit(table)
    assert "sensor 7" in html(model, table) and "sensor 7" in html(model)


def test_pages_without_rows(model: StreamingKernelPCA) -> None:
    page = html(model)
    assert "The points of the basis; no rows were given." in page
    assert "Reconstruction error over time" not in page


def test_images_become_thumbnails(model: StreamingKernelPCA, X: np.ndarray) -> None:
    page = html(model, X[:500], labels=["a"] * 250 + ["b"] * 250, image_shape=(4, 4))
    assert page.count('<img alt="point') == 40
    assert sum("image" in columns for columns in embedded(page)) == 1  # for all kinds
    assert page.count("<button type=button data-kind=") == 2
    with pytest.raises(ValueError, match="has 6 pixels, and a row has 16"):
        html(model, image_shape=(2, 3))


def test_sections_of_images(model: StreamingKernelPCA, X: np.ndarray) -> None:
    page = html(model, X[:500] + 1.0, image_shape=(4, 4))
    assert page.count('<img alt="pixels behind pc') == 3
    assert len(re.findall(r'<img alt="pc1 = ', page)) == 12
    assert "Strangest images" in page and "difference, up to" in page
    assert "Strangest rows" not in page and "column by column" not in page


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


def test_labels_that_are_numbers_and_labels_that_are_too_many(
    model: StreamingKernelPCA, X: np.ndarray
) -> None:
    assert any("value" in columns for columns in embedded(html(model, X, labels=list(X[:, 0]))))
    page = html(model, X, labels=[f"k{i % 30}" if i % 7 else None for i in range(3000)])
    assert page.count("<button type=button data-kind=") == 21  # 19, other, missing
    assert "</i>other</button>" in page and "</i>missing</button>" in page


def test_kinds_and_their_colours() -> None:
    labels = ["b"] * 3 + ["a"] * 2 + [None, float("nan"), ""]
    assert list(kinds_of(labels)) == ["a", "b", "missing"]
    many = [f"k{i}" for i in range(25) for _ in range(i + 1)]
    shown = kinds_of(many)
    assert len(shown) == 20 and list(shown)[-1] == "other" and "k0" not in shown
    assert len(set(shown.values())) == 20
    assert not are_numbers(many) and not are_numbers([1, 2, 3]) and are_numbers(list(range(30)))


def test_the_verdict_is_about_these_rows(model: StreamingKernelPCA, X: np.ndarray) -> None:
    names = [f"p{i}" for i in range(16)]
    good = html(model, X, feature_names=names)
    assert '<div class="verdict good"><b>The model fits these rows' in good
    foreign = X.copy()
    foreign[:, 3] += 12.0
    bad = html(model, foreign, feature_names=names)
    assert '<div class="verdict bad"><b>The model does not fit these rows' in bad
    assert "Columns that differ most from the rows learned: p3 (mean" in bad
    assert "Strangest rows" in bad and "p3 is " in bad and ", expected " in bad
    assert "Nothing to compare: no rows were given." in html(model)


@pytest.mark.filterwarnings("ignore:Nine tenths of the squared distances:UserWarning")
def test_a_column_that_dominates_is_named(X: np.ndarray) -> None:
    rows = X[:600].copy()
    rows[:, 0] = np.arange(600) * 100.0
    model = StreamingKernelPCA(2, gamma=1e-8, basis=30, random_state=0).fit(rows)
    page = html(model, rows, feature_names=["id", *(f"p{i}" for i in range(1, 16))])
    assert "The column id has 100.0% of the squared distances" in page
    told = html(StreamingKernelPCA(2, scale="standard", basis=30, random_state=0).fit(rows), rows)
    assert "squared distances" not in told


def test_a_frame_with_kinds_and_gaps(X: np.ndarray) -> None:
    frame = pd.DataFrame(X[:300, :3], columns=["a", "b", "c"])
    frame = frame.assign(kind=["low", "high"] * 150, gap=[np.nan, 1.0, 2.0] * 100)
    model = TableModel(StreamingKernelPCA(3, scale="auto", basis=30, random_state=0)).fit(frame)
    page = html(model, frame)
    assert ">kind=low</td>" in page and ">gap</td>" in page and ">nan" not in page


def test_small_drawings() -> None:
    line = curve(np.array([0.0, 1.0, 2.0]), np.array([-1.0, 0.0, 1.0]))
    assert line.count(",") == 3 and "class=zero" in line
    assert "class=zero" not in curve(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    both = histograms(np.zeros(5), np.full(3, 0.0))  # constant columns
    assert both.count("<rect") == 1 and "class=learned" in both


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
    text = page.read_text()
    assert f"3,000 rows of {rows}" in text and "middle" in text
    assert load(path).estimator_.n_samples_seen_ == 3000
    bad = ["report", path, rows, "-o", page, "--image-shape", "big"]
    assert CliRunner().invoke(app, list(map(str, bad))).exit_code == 2


PROBE = """<script>
window.problems = [];
window.addEventListener('error', e => problems.push(String(e.message)));
for (const level of ['error', 'warn']) {
  const before = console[level];
  console[level] = (...words) => { problems.push(words.join(' ')); before(...words); };
}
function canvases(node) {
  let found = [];
  for (const child of node.querySelectorAll('*')) {
    if (child.tagName === 'CANVAS' && child.width > 50 && child.height > 50) found.push(child);
    if (child.shadowRoot) found = found.concat(canvases(child.shadowRoot));
  }
  return found;
}
window.addEventListener('load', () => setTimeout(() => {
  const of = name => Bokeh.documents[0].get_model_by_name(name);
  const up = document.querySelector('select[data-axis=y]');
  up.value = 'pc3';
  up.dispatchEvent(new Event('change'));
  const size = document.querySelector('select[data-axis=size]');
  size.value = 'pc1';
  size.dispatchEvent(new Event('change'));
  const button = document.querySelector('button[data-kind="1"]');
  button.click();
  const rows = of('embedding-rows').data;
  parent.postMessage(JSON.stringify({
    chosen: [...rows.y].every((v, i) => v === rows.pc3[i]) && of('embedding').left[0].axis_label,
    sizes: [Math.min(...rows.size), Math.max(...rows.size)],
    seen: [0, 1, 2].map(kind => rows.x.filter((x, i) => rows.kind[i] === kind && !isNaN(x)).length),
    pressed: button.getAttribute('aria-pressed'),
    problems, plots: Bokeh.documents[0].roots().length, canvases: canvases(document).length,
    wide: document.documentElement.scrollWidth, window: window.innerWidth,
    text: Math.min(...[...document.querySelectorAll('p, td, th')].map(
      e => parseFloat(getComputedStyle(e).fontSize))),
  }), '*');
}, 1500));
</script>"""


# Chromium's windows are at least 500 pixels wide: a frame can be as narrow as a phone.
FRAME = """<!doctype html><body style="margin:0"><script>
window.addEventListener('message', e => { document.body.dataset.probe = e.data; });
</script><iframe src="report.html" style="border:0;width:%dpx;height:2400px"></iframe>"""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium: apt install chromium")
@pytest.mark.parametrize("width", [1280, 400])
def test_in_a_browser(width: int, tmp_path: Path, model: StreamingKernelPCA, X: np.ndarray) -> None:
    page = html(model, X, labels=["a", "b", "c"] * 1000, image_shape=(4, 4))
    (tmp_path / "report.html").write_text(page.replace("<head>", "<head>" + PROBE, 1))
    (tmp_path / "frame.html").write_text(FRAME % width)
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--host-resolver-rules=MAP * ~NOTFOUND",  # offline
        f"--user-data-dir={tmp_path / 'profile'}",
        "--window-size=1400,2400",
        "--virtual-time-budget=10000",
        "--dump-dom",
        (tmp_path / "frame.html").as_uri(),
    ]
    dom = subprocess.run(list(map(str, command)), capture_output=True, timeout=120).stdout.decode()
    found = re.search(r'data-probe="(.*?)"', dom)
    assert found is not None, dom[:500]
    seen = json.loads(unescape(found[1]))
    assert seen["problems"] == []
    assert seen["plots"] == 3 and seen["canvases"] >= 3
    assert seen["chosen"] == "pc3" and seen["sizes"] == [3, 14]
    assert seen["seen"][1] == 0 and min(seen["seen"][0], seen["seen"][2]) > 500
    assert seen["pressed"] == "false"
    assert seen["window"] == width and seen["wide"] <= width  # no scrolling sideways
    assert seen["text"] >= 13


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
