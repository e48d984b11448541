"""HTML page of the report: what the templates are filled with.

The templates are in the folder ``templates``: ``page.html`` has the headline figures and the plots,
``columns.html`` and ``images.html`` have the sections about columns or images.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
import numpy as np
from bokeh.embed import components
from bokeh.resources import Resources
from markupsafe import Markup

from kernelstream.arrays import to_host
from kernelstream.cli.report import image_sections
from kernelstream.cli.report.drawings import curve, histograms
from kernelstream.cli.report.figures import (
    MOST_CHOSEN,
    are_numbers,
    embedding,
    errors,
    kinds_of,
    scree,
)
from kernelstream.cli.report.fit_summary import summarize_fit
from kernelstream.cli.report.observe import Observed, observe
from kernelstream.estimators import StreamingKernelPCA
from kernelstream.plot.drawing import short_numbers, without_names
from kernelstream.tables import TableModel

EXPLAINED = 5  # components whose columns are explained


@cache
def environment() -> jinja2.Environment:
    """The templates; text that is put into them is escaped."""
    loader = jinja2.PackageLoader("kernelstream.cli.report")
    made = jinja2.Environment(
        loader=loader,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["percent"] = percent
    return made


def bokeh_colors() -> str:
    """JavaScript that gives the plots of a saved page the colors of its light or dark style."""
    return files("kernelstream.cli.report").joinpath("templates/bokeh_colors.js").read_text()


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
    model, rows, names = plain_rows(model, X, feature_names)
    called = [f"x{i}" for i in range(model.n_features_in_)] if names is None else list(names)
    if rows is not None:
        observed = observe(model, [(rows, None if labels is None else list(labels))])
    if image_shape is not None and np.prod(image_shape) != model.n_features_in_:
        raise ValueError(
            f"image_shape {image_shape} has {np.prod(image_shape)} pixels, and a row has "
            f"{model.n_features_in_} values."
        )
    fit = summarize_fit(model, observed, called)
    ink = image_shape is not None and image_sections.are_ink(model, observed)
    if image_shape is None:
        sections = column_sections(model, observed, called)
    else:
        sections = image_sections.sections(
            model, observed, fit.columns, called, image_shape, ink, EXPLAINED
        )
    return (
        environment()
        .get_template("page.html")
        .render(
            title=title,
            model=model,
            observed=observed,
            fit=fit,
            **plots(model, observed, fit.limit, image_shape, ink),
            choices=range(1, min(model.n_components_, MOST_CHOSEN) + 1),
            kinds=legend(observed),
            parameters=parameters(model, names, history),
            **headline(model),
            **sections,
        )
    )


def plots(
    model: StreamingKernelPCA,
    observed: Observed | None,
    limit: float | None,
    image_shape: tuple[int, int] | None,
    ink: bool,
) -> dict[str, Any]:
    """Bokeh itself, the script that draws the plots, and the places of those that there are."""
    figures = {
        "scree": scree(model),
        "embedding": embedding(model, observed, image_shape, ink),
        "errors": None if observed is None else errors(observed, limit),
    }
    script, places = components({name: plot for name, plot in figures.items() if plot is not None})
    return {
        "bokeh": Markup(Resources(mode="inline", components=["bokeh"]).render()),
        "script": Markup(script),
        "plots": {name: Markup(places.get(name, "")) for name in figures},
    }


def plain_rows(
    model: StreamingKernelPCA | TableModel, X: Any, names: Sequence[str] | None
) -> tuple[StreamingKernelPCA, np.ndarray | None, Sequence[str] | None]:
    """A model of plain arrays, rows as it takes them, and the names of their columns."""
    if isinstance(model, TableModel):
        names = names or model.encoder_.schema_.features
        X = None if X is None else model.encode(X)
        model = model.estimator_
    names = names or getattr(model, "feature_names_in_", None)
    rows = None if X is None else np.asarray(to_host(model.check_rows(X)))
    return without_names(model), rows, names


def headline(model: StreamingKernelPCA) -> dict[str, Any]:
    """The numbers that a person wants first."""
    share = float(model.explained_variance_ratio_.sum())
    n_points = f"{len(getattr(model, 'basis_points_', ())):,}"
    low, high = model.certificate_.best_explained_variance_ratio_interval
    kind = model.certificate_.bounds.kind
    certain = " – ".join(dict.fromkeys((f"{low:.1%}", f"{high:.1%}")))
    facts = [
        ("rows learned", f"{model.n_samples_seen_:,}"),
        ("features", f"{model.n_features_in_:,}"),
        ("basis points", n_points),
        ("components", f"{model.n_components_:,}"),
        ("variance explained", f"{share:.1%}"),
        (f"best possible, {kind}", "–" if (low, high) == (0.0, 1.0) else certain),
    ]
    kernel = short_numbers(str(model.kernel_))
    return {"facts": facts, "n_points": n_points, "explained": f"{share:.1%}", "kernel": kernel}


def legend(observed: Observed | None) -> dict[str, str]:
    """The colors of labels that are kinds: the page has a button for each, which hides its rows."""
    labels = None if observed is None else observed.labels
    return {} if labels is None or are_numbers(labels) else kinds_of(labels)


def column_sections(
    model: StreamingKernelPCA, observed: Observed | None, names: Sequence[str]
) -> dict[str, Any]:
    """Columns of the first components, and of the rows of largest error."""
    sections: dict[str, Any] = {
        **dict(sections="columns.html", curve=curve, histograms=histograms),
        **dict(components=None, rows=[], landmarks=None),
    }
    if model.stream_.kept_rows() is None:
        return sections
    sections["components"] = model.explain_components(feature_names=names)[:EXPLAINED]
    if observed is not None and observed.strangest:
        numbers, rows = zip(*observed.strangest, strict=True)
        found = model.explain(np.stack(rows).astype(float), feature_names=names)
        sections["rows"] = list(zip(numbers, found, strict=True))
    return sections


def parameters(
    model: StreamingKernelPCA, names: Sequence[str] | None, history: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Parameters and where the rows came from, as text."""
    stream, chain = model.stream_, model.stream_.chain
    rows = [
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
        rows.append(("features", ", ".join(map(str, names[:30])) + more))
    return rows


def percent(share: float) -> str:
    """A fraction as a percentage; one that is not zero is not shown as 0%."""
    return f"{share:.0%}" if share >= 0.005 or share == 0.0 else "under 1%"
