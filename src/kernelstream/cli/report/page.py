"""HTML page of the report: headline figures, plots, contributions, column comparison, style."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from bokeh.embed import components
from bokeh.resources import Resources

from kernelstream.arrays import to_host
from kernelstream.cli.report import colours, drawings, image_sections
from kernelstream.cli.report.figures import (
    MOST_CHOSEN,
    are_numbers,
    embedding,
    errors,
    kinds_of,
    scree,
)
from kernelstream.cli.report.observe import Observed, observe
from kernelstream.cli.report.thumbnails import data_uri, grey_levels
from kernelstream.cli.report.verdict import Verdict, judge
from kernelstream.estimators import StreamingKernelPCA
from kernelstream.plot.drawing import short_numbers, without_names
from kernelstream.tables import TableModel

BLOCK = 4096
MOST_THUMBNAILS = 120
TOLD = 5  # components whose columns are told
WORTH_TELLING = 0.01  # share of a component that a column has, but for its first
COMPARED = 20  # columns, those that differ most

# Choosers and legend are plain HTML; they reach the picture by its names.
SCRIPT = """
(function () {
  function model(name) {
    for (const doc of Bokeh.documents) {
      const found = doc.get_model_by_name(name);
      if (found) return found;
    }
  }
  function sizes(values) {
    const low = Math.min(...values), high = Math.max(...values), span = high - low || 1;
    return Array.from(values, (v) => 3 + 11 * (v - low) / span);
  }
  // What the choosers and the legend say, as it is now.
  function redraw() {
    const rows = model("embedding-rows"), plot = model("embedding"), data = {...rows.data};
    const buttons = [...document.querySelectorAll("button[data-kind]")];
    const hidden = buttons.filter((b) => b.getAttribute("aria-pressed") === "false")
      .map((b) => Number(b.dataset.kind));
    const seen = (value, i) => hidden.includes(data.kind[i]) ? NaN : value;
    for (const select of document.querySelectorAll("select[data-axis]")) {
      const axis = select.dataset.axis;
      if (axis === "size") {
        data.size = select.value ? sizes(data[select.value]) : Array.from(data.size, () => 6);
      } else {
        data[axis] = Array.from(data[select.value]);
        (axis === "x" ? plot.below : plot.left)[0].axis_label = select.value;
      }
    }
    data.x = Array.from(document.querySelector("select[data-axis=x]") ? data.x : data.pc1, seen);
    rows.data = data;
  }
  for (const select of document.querySelectorAll("select[data-axis]"))
    select.addEventListener("change", redraw);
  for (const button of document.querySelectorAll("button[data-kind]")) {
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") === "false");
      redraw();
    });
  }
})();
"""

STYLE = """
:root { --ink: #222; --quiet: #6b7280; --accent: #b3364a; --line: #e5e7eb; --paper: #fff;
  --good: #2f7d4f; --fair: #a06a00; --bad: #b3261e; color-scheme: light dark; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --quiet: #9aa0a6; --accent: #e4677c;
  --line: #33373d; --paper: #16181c; --good: #63c58b; --fair: #e0b04f; --bad: #ff8a80; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); margin: 0;
  background: var(--paper); }
main { max-width: 1160px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .4rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .3rem; }
p { margin: .2rem 0 .8rem; max-width: 46rem; }
.quiet { color: var(--quiet); font-size: .92rem; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(136px, 1fr)); gap: 12px;
  margin: 1.2rem 0; }
.facts div { border: 1px solid var(--line); border-radius: 8px; padding: 10px 14px; }
.facts b { display: block; font-size: 1.35rem; font-weight: 650; overflow-wrap: anywhere; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr));
  gap: 8px 28px; }
.pair > section { min-width: 0; }
.thumbs { display: grid; grid-template-columns: repeat(auto-fill, minmax(38px, 1fr)); gap: 4px; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 14px; font-size: .92rem; padding-left: 8px; }
.legend button { font: inherit; color: inherit; background: none; border: 0; cursor: pointer;
  padding: 2px 0; }
.legend button[aria-pressed=false] { opacity: .35; text-decoration: line-through; }
.legend i { display: inline-block; width: 10px; height: 10px; border-radius: 50%;
  margin-right: 5px; }
table.pictures img { width: 44px; height: auto; margin: 0 2px 2px 0; }
table.pictures td.strip { white-space: normal; min-width: 190px; }
.figures { display: flex; flex-wrap: wrap; gap: 12px; } .figures figure { margin: 0; width: 84px; }
.figures img { width: 84px; } .figures figcaption { color: var(--quiet); font-size: .86rem; }
.pictures img, .figures img { image-rendering: pixelated; border: 1px solid var(--line); }
.thumbs img { width: 100%; image-rendering: pixelated; border: 1px solid var(--line); }
.verdict { border-left: 5px solid var(--quiet); padding: 4px 0 4px 16px; margin: 1.2rem 0; }
.verdict b { font-size: 1.15rem; font-weight: 650; }
.good { border-color: var(--good); } .fair { border-color: var(--fair); }
.bad { border-color: var(--bad); }
.verdict ul { margin: .4rem 0 0; padding-left: 1.2rem; max-width: 46rem; }
.choose { display: flex; flex-wrap: wrap; gap: 4px 14px; font-size: .92rem; margin-bottom: 4px; }
.choose select { font: inherit; color: var(--ink); background: var(--paper);
  border: 1px solid var(--line); border-radius: 4px; }
.wide { overflow-x: auto; }
.wide table { width: auto; min-width: 100%; }
.wide th { width: auto; border-bottom: 1px solid var(--line); }
.wide td, .wide th { padding: 4px 16px 4px 0; white-space: nowrap; }
.wide td.words { white-space: normal; min-width: 14rem; }
.wide td.name { white-space: normal; overflow-wrap: anywhere; min-width: 6.5rem; }
svg.small { width: 140px; height: 32px; display: block; }
svg .curve { fill: none; stroke: var(--accent); stroke-width: 1.6; }
svg .learned { fill: none; stroke: var(--ink); stroke-width: 1.2; }
svg .bar { fill: var(--accent); opacity: .55; }
svg .zero { stroke: var(--quiet); stroke-width: .6; stroke-dasharray: 2 2; }
table { border-collapse: collapse; font-size: .92rem; width: 100%; }
th { text-align: left; font-weight: 500; color: var(--quiet); padding: 4px 16px 4px 0;
  vertical-align: top; width: 34%; }
td { padding: 4px 0; overflow-wrap: anywhere; }
tr + tr { border-top: 1px solid var(--line); }
@media (max-width: 480px) { main { padding: 16px 12px 40px; } h1 { font-size: 1.35rem; }
  .wide td, .wide th { padding-right: 10px; } .wide td.words { min-width: 10rem; } }
"""


def html(
    model: StreamingKernelPCA | TableModel,
    X: Any = None,
    *,
    labels: Sequence[Any] | None = None,
    observed: Observed | None = None,
    image_shape: tuple[int, int] | None = None,
    title: str = "Kernel PCA",
    history: Sequence[tuple[str, str]] = (),
    feature_names: Sequence[str] | None = None,
) -> str:
    """A page about a fitted model, as text.

    Parameters
    ----------
    model : StreamingKernelPCA or TableModel
        A fitted model.
    X : array of shape (n, d) or table, optional
        Rows to show; without any, the page shows the points of the basis.
    labels : sequence of length n, optional
        What to colour the rows by: numbers, or kinds, of which the most frequent have a colour.
    observed : Observed, optional
        Instead of X: what :func:`observe` saw of rows that do not fit into memory.
    image_shape : (int, int), optional
        Height and width, where rows are images.
    title : str
    history : sequence of (name, text)
        Where the rows came from.
    feature_names : sequence of str, optional
        Names of the columns; None: those of the frame that was learned.

    Returns
    -------
    str
        HTML with everything inside.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA
    >>> from kernelstream.cli import report
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = StreamingKernelPCA(2, basis=20, random_state=0).fit(X)
    >>> "Two hundred rows" in report.html(model, X, title="Two hundred rows")
    True
    """
    if isinstance(model, TableModel):
        feature_names = feature_names or model.encoder_.schema_.features
        X = None if X is None else model.encode(X)
        model = model.estimator_
    names = feature_names or getattr(model, "feature_names_in_", None)
    if X is not None:
        X = to_host(model.check_rows(X))
    model = without_names(model)
    called = [f"x{i}" for i in range(model.n_features_in_)] if names is None else list(names)
    if X is not None:
        X = np.asarray(X)
        rows: np.ndarray = X
        pieces = (
            (rows[i : i + BLOCK], None if labels is None else list(labels[i : i + BLOCK]))
            for i in range(0, len(rows), BLOCK)
        )
        observed = observe(model, pieces)
    if image_shape is not None and np.prod(image_shape) != model.n_features_in_:
        raise ValueError(
            f"image_shape {image_shape} has {np.prod(image_shape)} pixels, and a row has "
            f"{model.n_features_in_} values."
        )
    verdict = judge(model, observed, called)
    figures = {"scree": scree(model)}
    ink = image_shape is not None and image_sections.are_ink(model, observed)
    rows_shown = embedding(model, observed, image_shape, ink)
    if rows_shown is not None:
        figures["embedding"] = rows_shown
    if observed is not None:
        figures["errors"] = errors(observed, verdict.limit)
    script, places = components(figures)
    thumbs = "" if image_shape is None else thumbnails(model, image_shape, ink)
    if image_shape is None:
        columns = behind_components(model, called) + behind_rows(model, observed, called)
        columns += comparison(verdict)
    else:
        columns = image_sections.behind_components(model, image_shape, ink, TOLD)
        columns += image_sections.strangest(observed, image_shape, ink)
        columns += image_sections.means(verdict.columns, called, image_shape, ink)
    resources = Resources(mode="inline", components=["bokeh"])
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style>{resources.render()}{script}</head>"
        f"<body><main>{head(model, title, verdict)}{body(model, places, thumbs, observed)}"
        f"{columns}{tables(model, names, history)}</main>"
        f"<script>{SCRIPT}{colours.BOKEH_COLORS}</script></body></html>\n"
    )


def head(model: StreamingKernelPCA, title: str, verdict: Verdict) -> str:
    """Title, the verdict, one sentence, and the numbers a person wants first."""
    share = float(model.explained_variance_ratio_.sum())
    points = len(getattr(model, "basis_points_", ()))
    (low, high), kind = model.certificate_.narrowest_ratio
    certain = " – ".join(dict.fromkeys((f"{low:.1%}", f"{high:.1%}")))
    if (low, high) == (0.0, 1.0):
        certain = "–"
    facts = [
        ("rows learned", f"{model.n_samples_seen_:,}"),
        ("features", f"{model.n_features_in_:,}"),
        ("basis points", f"{points:,}"),
        ("components", f"{model.n_components_:,}"),
        ("variance explained", f"{share:.1%}"),
        (f"best possible, {kind}", certain),
    ]
    cells = "".join(f"<div><b>{value}</b><span class=quiet>{n}</span></div>" for n, value in facts)
    remarks = "".join(f"<li>{escape(remark)}</li>" for remark in verdict.remarks)
    listed = f"<ul>{remarks}</ul>" if remarks else ""
    return (
        f"<h1>{escape(title)}</h1>"
        f'<div class="verdict {verdict.level}"><b>{escape(verdict.headline)}</b>{listed}</div>'
        f"<p>{model.n_components_} components, learned from {model.n_samples_seen_:,} rows of "
        f"{model.n_features_in_:,} features and kept in {points:,} points, explain {share:.1%} of "
        f"the variance in the feature space of {escape(short_numbers(str(model.kernel_)))}.</p>"
        f"<div class=facts>{cells}</div>"
    )


def body(
    model: StreamingKernelPCA, places: dict[str, str], thumbs: str, observed: Observed | None
) -> str:
    """The pictures, each with a sentence that says how to read it."""
    certain = model.certificate_.useful
    note = (
        "The lines are certain: each variance that batch kernel PCA of all rows would have found "
        "lies on its line."
        if certain
        else "There is no useful certificate for this model: "
        + escape(str(model.certificate_.reason))
    )
    parts = [
        f"<section><h2>Variance of the components</h2><p class=quiet>{note}</p>"
        f"{places['scree']}</section>"
    ]
    if "embedding" in places:
        what = (
            f"{len(observed.rows):,} of {observed.n_rows:,} rows; hover for details."
            if observed is not None
            else "The points of the basis; no rows were given."
        )
        parts.append(
            f"<section><h2>Rows on the components</h2><p class=quiet>{what}</p>"
            f"{choosers(model.n_components_)}{places['embedding']}{legend(observed)}</section>"
        )
    page = f"<div class=pair>{''.join(parts)}</div>"
    if thumbs:
        page += f"<h2>Points of the basis</h2>{thumbs}"
    if "errors" in places:
        n = observed.bin_rows if observed else 1
        together = f": mean and largest of {n:,} rows at a time" if n > 1 else ""
        page += (
            "<h2>Reconstruction error over time</h2><p class=quiet>Squared distance in feature "
            f"space between a row and its projection on the model{together}. One in a hundred of "
            f"the rows learned is above the dashed line.</p>{places['errors']}"
        )
    return page


def choosers(n_components: int) -> str:
    """Which components are shown."""
    n = min(n_components, MOST_CHOSEN)
    if n < 2:
        return ""

    def select(name: str, label: str, chosen: int, *more: str) -> str:
        options = "".join(
            f'<option value="pc{i}"{" selected" if i == chosen else ""}>pc{i}</option>'
            for i in range(1, n + 1)
        )
        return (
            f'<label>{label} <select data-axis="{name}">{"".join(more)}{options}</select></label>'
        )

    even = '<option value="" selected>–</option>'
    shown = select("x", "across", 1) + select("y", "up", 2) + select("size", "size", 0, even)
    return f"<div class=choose>{shown}</div>"


def legend(observed: Observed | None) -> str:
    """What the colours mean, where they stand for kinds: a button each, which hides its rows."""
    labels = None if observed is None else observed.labels
    if labels is None or are_numbers(labels):
        return ""
    entries = "".join(
        f'<button type=button data-kind="{i}" aria-pressed=true>'
        f'<i style="background:{colour}"></i>{escape(kind)}</button>'
        for i, (kind, colour) in enumerate(kinds_of(labels).items())
    )
    return f"<div class=legend>{entries}</div>"


def behind_components(model: StreamingKernelPCA, names: Sequence[str]) -> str:
    """Which columns make the first components."""
    if model.stream_.kept_rows() is None:
        return ""
    lines = ""
    for component in model.explain_components(feature_names=names)[:TOLD]:
        told = [c for i, c in enumerate(component.columns) if i == 0 or c.share >= WORTH_TELLING]
        for i, c in enumerate(told):
            first = f"pc{component.number}, {component.variance_ratio:.1%}" if i == 0 else ""
            lines += (
                f"<tr><td>{first}</td><td class=name>{escape(c.name)}</td>"
                f"<td>{percent(c.share)}</td><td>{c.shape}</td><td>{c.slope:+.3g}</td>"
                f"<td>{drawings.curve(c.values, c.scores)}</td></tr>"
            )
    return (
        "<h2>Columns behind the components</h2><p class=quiet>How much of a component's spread "
        "goes with a column, and the mean score of rows along that column.</p>"
        "<div class=wide><table><tr><th>component</th><th>column</th><th>weight</th><th>shape</th>"
        f"<th>a unit</th><th>curve</th></tr>{lines}</table></div>"
    )


def behind_rows(model: StreamingKernelPCA, observed: Observed | None, names: Sequence[str]) -> str:
    """The strangest rows, and which columns make them so."""
    if observed is None or not observed.strangest or model.stream_.kept_rows() is None:
        return ""
    X = np.stack([row for _, row in observed.strangest]).astype(float)
    lines = ""
    told = model.explain(X, feature_names=names)
    for (number, _), e in zip(observed.strangest, told, strict=True):
        causes = "; ".join(
            f"{escape(c.name)} is {c.actual:.4g}, expected {c.expected:.4g} ({c.share:.0%})"
            for c in e.causes
        )
        lines += (
            f"<tr><td>{number:,}</td><td>{e.error:.4g}</td><td>{e.p_value:.3g}</td>"
            f"<td class=words>{causes or 'no single column'}</td></tr>"
        )
    return (
        "<h2>Strangest rows</h2><p class=quiet>The rows of largest error, the share of rows "
        "learned with an error as large, and what the other columns let expect.</p>"
        "<div class=wide><table><tr><th>row</th><th>error</th><th>p</th>"
        f"<th>columns behind it</th></tr>{lines}</table></div>"
    )


def comparison(verdict: Verdict) -> str:
    """Columns of the rows learned against those of these rows."""
    if not verdict.columns:
        return ""
    lines = "".join(
        f"<tr><td class=name>{escape(c.name)}</td><td>{c.distance:.2f}</td>"
        f"<td>{c.learned.mean():.4g} ± {c.learned.std():.3g}</td>"
        f"<td>{c.these.mean():.4g} ± {c.these.std():.3g}</td>"
        f"<td>{drawings.histograms(c.learned, c.these)}</td></tr>"
        for c in verdict.columns[:COMPARED]
    )
    more = len(verdict.columns) - COMPARED
    rest = f"<p class=quiet>… and {more:,} more that differ less.</p>" if more > 0 else ""
    return (
        "<h2>Rows learned and these rows, column by column</h2><p class=quiet>Line: rows learned; "
        "bars: these rows. The distance is the largest difference of the two distribution "
        "functions, 0 to 1.</p><div class=wide><table><tr><th>column</th><th>distance</th>"
        f"<th>learned</th><th>these rows</th><th></th></tr>{lines}</table></div>{rest}"
    )


def thumbnails(model: StreamingKernelPCA, shape: tuple[int, int], ink: bool) -> str:
    """The points as small pictures."""
    points = model.stream_.in_data_units(to_host(model.basis_points_).astype(float))
    images = grey_levels(points, ink)[:MOST_THUMBNAILS]
    shown = "".join(
        f'<img alt="point {i}" title="point {i}" src="{data_uri(image.reshape(shape))}">'
        for i, image in enumerate(images, 1)
    )
    more = len(points) - len(images)
    rest = f"<p class=quiet>… and {more:,} more.</p>" if more > 0 else ""
    return f"<div class=thumbs>{shown}</div>{rest}"


def tables(
    model: StreamingKernelPCA, names: Sequence[str] | None, history: Sequence[tuple[str, str]]
) -> str:
    """Certificate and parameters in words."""
    stream, chain = model.stream_, model.stream_.chain
    parameters = [
        ("kernel", short_numbers(str(model.kernel_))),
        ("basis", str(chain.basis)),
        ("tracker", str(chain.tracker)),
        ("centred", "yes" if chain.center else "no"),
        ("standardized", "yes, by the first rows" if stream.scaling is not None else "no"),
        ("type of the rows", stream.dtype),
        ("seed", str(chain.seed)),
        *history,
    ]
    if names is not None:
        more = f" … and {len(names) - 30} more" if len(names) > 30 else ""
        parameters.append(("features", ", ".join(map(str, names[:30])) + more))
    return (
        "<div class=pair><section><h2>Certificate</h2>"
        f"{table(model.certificate_.rows())}</section>"
        f"<section><h2>Parameters</h2>{table(parameters)}</section></div>"
    )


def table(rows: Sequence[tuple[str, str]]) -> str:
    """Names and values."""
    lines = "".join(f"<tr><th>{escape(n)}</th><td>{escape(text)}</td></tr>" for n, text in rows)
    return f"<table>{lines}</table>"


def percent(share: float) -> str:
    """A share as people write it; what is not nothing is not shown as 0 %."""
    return f"{share:.0%}" if share >= 0.005 or share == 0.0 else "under 1%"
