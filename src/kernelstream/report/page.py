"""The page: what was learned from how many rows, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from bokeh.embed import components
from bokeh.resources import Resources

from kernelstream.backends.arrays import to_host
from kernelstream.estimators.pca import StreamingKernelPCA
from kernelstream.plot.drawing import in_data_units, short_numbers, without_names
from kernelstream.report.figures import colours_of_kinds, embedding, errors, scree
from kernelstream.report.observe import Observed, observe
from kernelstream.report.thumbnails import data_uri, grey_levels

BLOCK = 4096
MOST_THUMBNAILS = 120

STYLE = """
:root { --ink: #222; --quiet: #6b7280; --accent: #b3364a; --line: #e5e7eb; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); margin: 0; background: #fff; }
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
.legend i { display: inline-block; width: 10px; height: 10px; border-radius: 50%;
  margin-right: 5px; }
.thumbs img { width: 100%; image-rendering: pixelated; border: 1px solid var(--line); }
table { border-collapse: collapse; font-size: .92rem; width: 100%; }
th { text-align: left; font-weight: 500; color: var(--quiet); padding: 4px 16px 4px 0;
  vertical-align: top; width: 34%; }
td { padding: 4px 0; overflow-wrap: anywhere; }
tr + tr { border-top: 1px solid var(--line); }
@media (max-width: 480px) { main { padding: 16px 12px 40px; } h1 { font-size: 1.35rem; } }
"""


def html(
    model: StreamingKernelPCA,
    X: Any = None,
    *,
    labels: Sequence[Any] | None = None,
    observed: Observed | None = None,
    image_shape: tuple[int, int] | None = None,
    title: str = "Kernel PCA",
    history: Sequence[tuple[str, str]] = (),
) -> str:
    """A page about a fitted model, as text.

    Parameters
    ----------
    model : StreamingKernelPCA
        A fitted model.
    X : array of shape (n, d), optional
        Rows to show; without any, the page shows the points of the basis.
    labels : sequence of length n, optional
        What to colour the rows by: numbers, or up to twenty kinds.
    observed : Observed, optional
        Instead of X: what :func:`observe` saw of rows that do not fit into memory.
    image_shape : (int, int), optional
        Height and width, where rows are images.
    title : str
    history : sequence of (name, text)
        Where the rows came from.

    Returns
    -------
    str
        HTML with everything inside.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA, report
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = StreamingKernelPCA(2, basis=20, random_state=0).fit(X)
    >>> "Two hundred rows" in report.html(model, X, title="Two hundred rows")
    True
    """
    names = getattr(model, "feature_names_in_", None)
    model = without_names(model)
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
    figures = {"scree": scree(model)}
    rows_shown = embedding(model, observed, image_shape)
    if rows_shown is not None:
        figures["embedding"] = rows_shown
    if observed is not None:
        figures["errors"] = errors(observed)
    script, places = components(figures)
    thumbs = "" if image_shape is None else thumbnails(model, image_shape)
    resources = Resources(mode="inline", components=["bokeh"])
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style>{resources.render()}{script}</head>"
        f"<body><main>{head(model, title)}{body(model, places, thumbs, observed)}"
        f"{tables(model, names, history)}</main></body></html>\n"
    )


def head(model: StreamingKernelPCA, title: str) -> str:
    """Title, one sentence, and the numbers a person wants first."""
    share = float(model.explained_variance_ratio_.sum())
    points = len(getattr(model, "basis_points_", ()))
    (low, high), kind = model.certificate_.narrowest_ratio
    certain = f"{low:.1%} – {high:.1%}" if (low, high) != (0.0, 1.0) else "–"
    facts = [
        ("rows learned", f"{model.n_samples_seen_:,}"),
        ("features", f"{model.n_features_in_:,}"),
        ("basis points", f"{points:,}"),
        ("components", f"{model.n_components_:,}"),
        ("variance explained", f"{share:.1%}"),
        (f"best possible, {kind}", certain),
    ]
    cells = "".join(f"<div><b>{value}</b><span class=quiet>{n}</span></div>" for n, value in facts)
    return (
        f"<h1>{escape(title)}</h1>"
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
            f"<section><h2>Rows on the first components</h2><p class=quiet>{what}</p>"
            f"{places['embedding']}{legend(observed)}</section>"
        )
    page = f"<div class=pair>{''.join(parts)}</div>"
    if thumbs:
        page += f"<h2>Points of the basis</h2>{thumbs}"
    if "errors" in places:
        page += (
            "<h2>Reconstruction error over time</h2><p class=quiet>Squared distance in feature "
            "space between a row and its projection on the model: mean and largest of "
            f"{observed.bin_rows if observed else 1:,} rows at a time.</p>{places['errors']}"
        )
    return page


def legend(observed: Observed | None) -> str:
    """What the colours mean, where they stand for kinds."""
    labels = None if observed is None else observed.labels
    colours = None if labels is None else colours_of_kinds(labels)
    entries = "".join(
        f'<span><i style="background:{colour}"></i>{escape(kind)}</span>'
        for kind, colour in (colours or {}).items()
    )
    return f"<div class=legend>{entries}</div>" if entries else ""


def thumbnails(model: StreamingKernelPCA, shape: tuple[int, int]) -> str:
    """The points as small pictures."""
    points = in_data_units(model, to_host(model.basis_points_).astype(float))
    images = grey_levels(points)[:MOST_THUMBNAILS]
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
        ("kernel", str(model.kernel_)),
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
