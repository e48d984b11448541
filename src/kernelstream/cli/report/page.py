"""HTML page of the report: what the templates are filled with.

The templates are in the folder ``templates``: ``page.html`` has the headline figures and the plots,
``columns.html`` and ``images.html`` have the sections about columns or images.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jinja2
import numpy as np

from kernelstream.arrays import to_host
from kernelstream.cli.report import pictures
from kernelstream.cli.report.fit_summary import summarize_fit
from kernelstream.cli.report.observe import Observed, observe
from kernelstream.estimators import StreamingKernelPCA
from kernelstream.plot.drawing import short_numbers, without_names
from kernelstream.tables import TableModel
from kernelstream.tables.schema import few

EXPLAINED = 5  # components whose columns are explained


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
        Rows to show; without any, the page shows the landmarks.
    labels : sequence of length n, optional
        What to color the rows by: numbers, or kinds, of which the most frequent have a color.
    observed : Observed, optional
        Instead of X: what :func:`observe` collected from rows that do not fit into memory.
    image_shape : (int, int), optional
        Height and width, where rows are images.
    title : str
        Title of the page.
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
    >>> page = report.html(model, X, title="Two hundred rows")
    >>> page[page.index("<title>") :].splitlines()[0]
    '<title>Two hundred rows</title>'
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
    if image_shape is None:
        sections = column_sections(model, observed, called)
    else:
        sections = image_sections(model, observed, image_shape)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kernelstream.cli.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = percent
    return environment.get_template("page.html").render(
        title=title,
        model=model,
        observed=observed,
        fit=fit,
        scree=pictures.scree(model),
        embedding=pictures.embedding(model, observed),
        errors=None if observed is None else pictures.errors(observed, fit.limit),
        parameters=parameters(model, names, history),
        facts=headline(model),
        **sections,
    )


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


def headline(model: StreamingKernelPCA) -> list[tuple[str, str]]:
    """The numbers that a person wants first."""
    low, high = model.certificate_.best_explained_variance_ratio_interval
    best = " – ".join(dict.fromkeys((f"{low:.1%}", f"{high:.1%}")))
    return [
        ("rows learned", f"{model.n_samples_seen_:,}"),
        ("features", f"{model.n_features_in_:,}"),
        ("basis points", f"{len(getattr(model, 'basis_points_', ())):,}"),
        ("components", f"{model.n_components_:,}"),
        ("variance explained", f"{float(model.explained_variance_ratio_.sum()):.1%}"),
        (
            f"best possible, {model.certificate_.bounds.kind}",
            "–" if (low, high) == (0.0, 1.0) else best,
        ),
    ]


def column_sections(
    model: StreamingKernelPCA, observed: Observed | None, names: Sequence[str]
) -> dict[str, Any]:
    """Columns of the first components, and rows with the largest error."""
    components, rows = [], []
    if model.stream_.kept_rows() is not None:
        components = model.explain_components(feature_names=names)[:EXPLAINED]
        if observed is not None:
            numbers, _, strange = zip(*observed.largest, strict=True)
            explanations = model.explain(np.stack(strange).astype(float), feature_names=names)
            rows = list(zip(numbers, explanations, strict=True))
    return {
        "sections": "columns.html",
        "components": components,
        "curves": pictures.curves(components),
        "rows": rows,
    }


def image_sections(
    model: StreamingKernelPCA, observed: Observed | None, shape: tuple[int, int]
) -> dict[str, Any]:
    """Images of landmarks, and those with the largest error."""
    return {
        "sections": "images.html",
        "landmarks": pictures.landmarks(model, shape),
        "largest_errors": None if observed is None else pictures.largest_errors(observed, shape),
    }


def parameters(
    model: StreamingKernelPCA, names: Sequence[str] | None, history: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Parameters and where the rows came from, as text."""
    stream, chain = model.stream_, model.stream_.chain
    features = [] if names is None else [("features", few([str(name) for name in names], 30))]
    return [
        ("kernel", short_numbers(str(model.kernel_))),
        ("basis", str(chain.basis)),
        ("tracker", str(chain.tracker)),
        ("centered", "yes" if chain.center else "no"),
        ("standardized", "yes, by the first rows" if stream.scaling is not None else "no"),
        ("type of the rows", stream.dtype),
        ("seed", str(chain.seed)),
        *history,
        *features,
    ]


def percent(fraction: float) -> str:
    """A fraction as a percentage; one that is not zero is not shown as 0%."""
    return f"{fraction:.0%}" if fraction >= 0.005 or fraction == 0.0 else "under 1%"
