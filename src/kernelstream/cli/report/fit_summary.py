"""Text summary of a report: model fit, dominating scales, columns with a changed distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernelstream.arrays import evenly_spaced
from kernelstream.cli.report.observe import Observed
from kernelstream.estimators import StreamingKernelPCA

COMPARED = 1000  # rows of either side
LIMIT = 0.99  # share of the rows learned whose errors are below the limit
FITS, MOSTLY = 0.03, 0.2  # shares of these rows above the limit
DIFFERS = 0.3  # distance of two distributions that is told (Kolmogorov and Smirnov's)
DOMINATES = 0.9  # share of the squared distances that one column has
LITTLE = 0.5  # share of the variance that is explained


@dataclass(frozen=True)
class ColumnComparison:
    """One column in the rows that were learned and in these."""

    name: str
    learned: np.ndarray
    these: np.ndarray

    @cached_property
    def distance(self) -> float:
        """Largest difference of the two distribution functions."""
        both = np.sort(np.concatenate([self.learned, self.these]))
        shares = [
            np.searchsorted(np.sort(x), both, side="right") / len(x)
            for x in (self.learned, self.these)
        ]
        return float(np.abs(shares[0] - shares[1]).max())


@dataclass(frozen=True)
class FitSummary:
    """What a page says first.

    Attributes
    ----------
    level : "good", "fair", "bad" or "unknown"
    headline : str
        One sentence.
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
    limit: float | None
    columns: tuple[ColumnComparison, ...]


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
    known = model.stream_.kept_rows()
    learned = (
        None if known is None or len(known) < 2 else known[evenly_spaced(len(known), COMPARED)]
    )
    limit = None if learned is None else float(np.quantile(errors_of(model, learned), LIMIT))
    remarks = about_the_model(model)
    if learned is not None and model.stream_.scaling is None:
        remarks += about_scales(learned, names)
    if observed is None or learned is None or limit is None:
        why = "no rows were given" if observed is None else "the model has kept no rows of its own"
        return FitSummary("unknown", f"Nothing to compare: {why}.", tuple(remarks), limit, ())
    these = observed.rows.astype(float)
    these = these[evenly_spaced(len(these), COMPARED)]
    above = float(np.mean(errors_of(model, these) > limit))
    columns = sorted(
        (
            ColumnComparison(str(n), known_values(learned[:, i]), known_values(these[:, i]))
            for i, n in enumerate(names)
        ),
        key=lambda column: -column.distance,
    )
    level, fits = (
        ("good", "fits these rows")
        if above <= FITS
        else ("fair", "fits most of these rows")
        if above <= MOSTLY
        else ("bad", "does not fit these rows")
    )
    headline = (
        f"The model {fits}: {above:.1%} of them exceed the limit of the error, which 1.0% of the "
        "rows it learned exceed."
    )
    return FitSummary(
        level, headline, (*about_columns(columns, level), *remarks), limit, tuple(columns)
    )


def known_values(column: np.ndarray) -> np.ndarray:
    """A column without its gaps; where nothing else is there, zero."""
    known = column[~np.isnan(column)]
    return known if len(known) else np.zeros(1)


def errors_of(model: StreamingKernelPCA, rows: np.ndarray) -> np.ndarray:
    """Reconstruction errors on the host."""
    return np.asarray(model.reconstruction_error(rows), dtype=float)


def about_the_model(model: StreamingKernelPCA) -> list[str]:
    """How much is explained, and how sure that is."""
    share = float(np.sum(np.asarray(model.explained_variance_ratio_, dtype=float)))
    if share >= LITTLE:
        return []
    return [
        f"The {model.n_components_} components explain {share:.0%} of the variance in feature "
        "space. More components explain more, and so does a wider kernel (a smaller gamma)."
    ]


def about_scales(rows: np.ndarray, names: Sequence[str]) -> list[str]:
    """A column beside which the others hardly count."""
    variances = rows.var(axis=0)
    total = float(variances.sum())
    if len(variances) < 2 or not total > 0.0:
        return []
    first = int(np.argmax(variances))
    share = float(variances[first]) / total
    if share < DOMINATES:
        return []
    return [
        f"The column {names[first]} has {share:.1%} of the squared distances: the kernel sees "
        "little else. Standardise the columns (scale='standard', --standardize), or leave it out "
        "if it is a number of rows or an id."
    ]


def about_columns(columns: Sequence[ColumnComparison], level: str) -> list[str]:
    """Columns that are not as they were."""
    differ = [column for column in columns if column.distance >= DIFFERS]
    if not differ:
        return (
            []
            if level == "good"
            else ["No single column differs much from the rows learned: their relations do."]
        )
    told = "; ".join(
        f"{c.name} (mean {c.these.mean():.4g}, learned {c.learned.mean():.4g})" for c in differ[:3]
    )
    more = f", and {len(differ) - 3} more" if len(differ) > 3 else ""
    words = [f"Columns that differ most from the rows learned: {told}{more}."]
    if level == "bad":
        words.append(
            "If these rows are normal, learn them too (partial_fit, kernelstream update); if not, "
            "the strangest of them are below, with the columns behind them."
        )
    return words
