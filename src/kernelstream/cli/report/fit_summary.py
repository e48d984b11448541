"""Text summary of a report: model fit, dominating scales, columns with a changed distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import ks_2samp

from kernelstream.arrays import evenly_spaced
from kernelstream.cli.report.observe import Observed
from kernelstream.estimators import StreamingKernelPCA
from kernelstream.stream import ColumnScales
from kernelstream.tables.schema import few

COMPARED = 1000  # rows that were learned, and rows of the report


@dataclass(frozen=True)
class ColumnComparison:
    """One column in the rows that were learned and in these.

    Attributes
    ----------
    name : str
        Name of the column.
    learned, these : array of shape (n,)
        Its values, without missing ones.
    distance : float
        Largest difference of the two distribution functions (Kolmogorov and Smirnov's).
    """

    name: str
    learned: np.ndarray
    these: np.ndarray
    distance: float

    @classmethod
    def of(cls, name: str, learned: np.ndarray, these: np.ndarray) -> ColumnComparison:
        """Compare two samples of a column."""
        a, b = known_values(learned), known_values(these)
        return cls(str(name), a, b, float(ks_2samp(a, b, method="asymp").statistic))


@dataclass(frozen=True)
class FitSummary:
    """What a page says first.

    Attributes
    ----------
    level : "good", "fair", "bad" or "unknown"
        How well the model fits the rows.
    headline : str
        The same in one sentence.
    remarks : tuple of str
        What is wrong, and what to do about it.
    limit : float or None
        Error that one in a hundred of the rows learned exceeds.
    columns : tuple of ColumnComparison
        All columns, those that differ most first; empty where there is nothing to compare.
    """

    level: str
    headline: str
    remarks: tuple[str, ...]
    limit: float | None = None
    columns: tuple[ColumnComparison, ...] = ()


def summarize_fit(
    model: StreamingKernelPCA, observed: Observed | None, names: Sequence[str]
) -> FitSummary:
    """Compare rows with those that were learned.

    Parameters
    ----------
    model : StreamingKernelPCA
        Without names of columns.
    observed : Observed or None
        The rows.
    names : sequence of str
        Of the columns.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA
    >>> from kernelstream.cli.report.observe import observe
    >>> X = np.random.default_rng(0).normal(size=(900, 3))
    >>> model = StreamingKernelPCA(5, gamma=0.1, basis=40, random_state=0).fit(X)
    >>> summarize_fit(model, observe(model, [(X, None)]), "abc").level
    'good'
    >>> summarize_fit(model, observe(model, [(X + 3.0, None)]), "abc").level
    'bad'
    """
    remarks, kept = about_variance(model), model.stream_.kept_rows()
    if kept is None or len(kept) < 2:
        headline = "Nothing to compare: the model has kept no rows of its own."
        return FitSummary("unknown", headline, remarks)
    learned = kept[evenly_spaced(len(kept), COMPARED)]
    limit = float(np.quantile(model.reconstruction_error(learned), 0.99))
    if model.stream_.scaling is None:
        remarks += about_scales(learned, names)
    if observed is None:
        headline = "Nothing to compare: no rows were given."
        return FitSummary("unknown", headline, remarks, limit)
    these = observed.rows[evenly_spaced(len(observed.rows), COMPARED)].astype(float)
    above = float(np.mean(observed.errors > limit))
    level, fits = "bad", "does not fit these rows"
    if above <= 0.03:  # three times the fraction of the rows learned
        level, fits = "good", "fits these rows"
    elif above <= 0.2:
        level, fits = "fair", "fits most of these rows"
    columns = [
        ColumnComparison.of(name, learned[:, i], these[:, i]) for i, name in enumerate(names)
    ]
    columns.sort(key=lambda column: -column.distance)
    return FitSummary(
        level,
        f"The model {fits}: {above:.1%} of them exceed the limit of the error, which 1.0% of the "
        "rows it learned exceed.",
        about_columns(columns, level) + remarks,
        limit,
        tuple(columns),
    )


def known_values(column: np.ndarray) -> np.ndarray:
    """A column without its missing values; where nothing else is there, zero."""
    known = column[~np.isnan(column)]
    return known if len(known) else np.zeros(1)


def about_variance(model: StreamingKernelPCA) -> tuple[str, ...]:
    """A remark where less than half of the variance is explained."""
    share = float(np.sum(np.asarray(model.explained_variance_ratio_, dtype=float)))
    if share >= 0.5:
        return ()
    return (
        f"The {model.n_components_} components explain {share:.0%} of the variance in feature "
        "space. More components explain more, and so does a wider kernel (a smaller gamma).",
    )


def about_scales(rows: np.ndarray, names: Sequence[str]) -> tuple[str, ...]:
    """A remark about columns that dominate the kernel."""
    largest = [str(names[j]) for j in ColumnScales.of(rows).dominating]
    if not largest:
        return ()
    return (
        f"Nine tenths of the squared distances come from {few(largest)}, which dominates the "
        "kernel. Standardize the columns (scale='standard', --standardize), or exclude it if it "
        "is a number of rows or an id.",
    )


def about_columns(columns: Sequence[ColumnComparison], level: str) -> tuple[str, ...]:
    """Remarks about columns whose distribution differs."""
    differ = [
        f"{c.name} (mean {c.these.mean():.4g}, learned {c.learned.mean():.4g})"
        for c in columns
        if c.distance >= 0.3
    ]
    if not differ and level == "good":
        return ()
    if not differ:
        return ("No single column differs much from the rows learned: their relations do.",)
    more = f", and {len(differ) - 3} more" if len(differ) > 3 else ""
    words = f"Columns that differ most from the rows learned: {'; '.join(differ[:3])}{more}."
    if level != "bad":
        return (words,)
    return (
        words,
        "If these rows are normal, learn them too (partial_fit, kernelstream update); if not, "
        "those with the largest error are below, with the columns that contribute.",
    )
