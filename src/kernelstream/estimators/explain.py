"""Explanations: effect of columns on components, contributions to the error of a row, p-values.

Both are computed from the public queries of a model: one column of some rows is changed, and their
scores and errors are compared. So the method is the same for every kernel, landmarks and scaling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from kernelstream.arrays.draws import evenly_spaced, generator
from kernelstream.arrays.printing import prints_short
from kernelstream.estimators.conformal import ConformalScores

Score = Callable[[np.ndarray], np.ndarray]  # of rows

REFERENCE_ROWS = 256  # of which columns are changed
CHANGED_ROWS = 2**17  # of all columns together: of 2,000 columns, 65 rows of each are changed
RANKED_ROWS = 2000  # whose scores make curves, and among whose errors those of rows are ranked
CURVE = 15  # points of a curve, at most, each the mean of as many rows
GRID = 9  # values that are tried for a column of a strange row, at first
FINER = 5  # between the neighbours of the best, twice
LOOKED_AT = 32  # columns, those that promise most, for which finer values are tried
GAIN = 0.05  # of its error that the next column has to take away from a row
ONE_WAY = 0.8  # rank correlation from which a curve rises or falls
ROUNDING = 1e-7  # of the largest error, by which that of a row may differ from itself
NUMBERS = 2**22  # numbers of changed rows that are held at a time


@prints_short
@dataclass(frozen=True, eq=False)
class ColumnEffect:
    """What one column does to one component.

    Attributes
    ----------
    name : str
        The column.
    share : float
        Of the variance of the scores that goes with single columns: half the mean squared change of
        the score when a row gets the column of another row (the total index of Sobol', by Jansen's
        formula), over all columns.
    slope : float
        Of the score along the column, over rows as they are: change for one unit.
    values, scores : array of shape (g,)
        The curve: mean scores of rows in which the column is about as large.
    """

    name: str
    share: float
    slope: float
    values: np.ndarray
    scores: np.ndarray

    @property
    def shape(self) -> str:
        """The curve in a word: rises, falls, peaks, dips, waves or is flat."""
        first, last, height = self.scores[0], self.scores[-1], float(np.ptp(self.scores))
        if height == 0.0:
            return "flat"
        order = np.corrcoef(np.arange(len(self.scores)), rankdata(self.scores))[0, 1]
        if abs(order) >= ONE_WAY:
            return "rises" if order > 0 else "falls"
        above = self.scores.max() - max(first, last)
        below = min(first, last) - self.scores.min()
        if max(above, below) >= 0.4 * height and min(above, below) < 0.2 * height:
            return "peaks" if above > below else "dips"
        return "waves"


@dataclass(frozen=True, eq=False)
class ComponentExplanation:
    """The columns behind one component, those that matter most first.

    Attributes
    ----------
    number : int
        From 1.
    variance_ratio : float
        The component's share of the variance.
    columns : tuple of ColumnEffect
    """

    number: int
    variance_ratio: float
    columns: tuple[ColumnEffect, ...]

    def __str__(self) -> str:
        parts = [f"{c.name} {c.share:.0%} ({c.shape}, {c.slope:+.3g} a unit)" for c in self.columns]
        return f"component {self.number} ({self.variance_ratio:.1%}): {', '.join(parts)}"

    def __repr__(self) -> str:
        return f"<{self}>"


@prints_short
@dataclass(frozen=True)
class Cause:
    """A column of a strange row: what it is, and what the others let expect.

    Attributes
    ----------
    name : str
    actual, expected : float
        In the units of the data.
    share : float
        Of the row's error that goes when the column has the expected value, after those before it.
    """

    name: str
    actual: float
    expected: float
    share: float


@dataclass(frozen=True)
class RowExplanation:
    """Why a row has its error.

    Attributes
    ----------
    error : float
        ``reconstruction_error`` of the row.
    p_value : float
        Share of reference rows, this one counted among them, with an error at least as large.
    causes : tuple of Cause
        Columns that take most of the error away, the first first; none where no column alone does.
    """

    error: float
    p_value: float
    causes: tuple[Cause, ...]

    def __str__(self) -> str:
        parts = [
            f"{c.name} is {c.actual:.4g}, expected {c.expected:.4g} ({c.share:.0%} of the error)"
            for c in self.causes
        ]
        return f"error {self.error:.4g} (p = {self.p_value:.3g}): " + (
            "; ".join(parts) or "no single column is behind it"
        )

    def __repr__(self) -> str:
        return f"<{self}>"


def explain_components(
    score: Score,
    reference: np.ndarray,
    names: Sequence[str],
    variance_ratio: np.ndarray,
    n_columns: int,
) -> list[ComponentExplanation]:
    """The columns that move each component most.

    Parameters
    ----------
    score : callable
        Scores (n, r) of rows.
    reference : array of shape (n, d)
        Rows over which effects are averaged.
    names : sequence of str
        Of the columns.
    variance_ratio : array of shape (r,)
        Share of the variance of each component.
    n_columns : int
        How many columns a component is given.
    """
    d, r = reference.shape[1], len(variance_ratio)
    R = reference[evenly_spaced(len(reference), min(REFERENCE_ROWS, max(2, CHANGED_ROWS // d)))]
    n = len(R)
    before = score(R)
    other = generator(0, "explain").permutation(n)
    other[other] = np.roll(other, 1)  # one cycle: no row is its own partner, of two or more
    effect = np.zeros((d, r))
    varied = np.flatnonzero(np.ptp(R, axis=0) > 0.0)
    for some in chunks(varied, n * d):
        changed = np.repeat(R[None], len(some), axis=0)
        changed[np.arange(len(some)), :, some] = R[other][:, some].T
        step = score(changed.reshape(-1, d)).reshape(len(some), n, r) - before
        effect[some] = 0.5 * np.mean(step**2, axis=1)
    total = effect.sum(axis=0)
    share = effect / np.where(total > 0.0, total, 1.0)
    rows = reference[evenly_spaced(len(reference), RANKED_ROWS)]
    scores = score(rows)
    found = []
    for j in range(r):
        main = [c for c in np.argsort(-share[:, j], kind="stable")[:n_columns] if share[c, j] > 0]
        columns = [
            ColumnEffect(names[c], float(share[c, j]), *along(rows[:, c], scores[:, j]))
            for c in main
        ]
        found.append(ComponentExplanation(j + 1, float(variance_ratio[j]), tuple(columns)))
    return found


def along(column: np.ndarray, score: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Slope of scores along a column, and their means over rows of about the same value."""
    about = column - column.mean()
    slope = float(about @ score / (about @ about))
    edges = np.unique(np.quantile(column, np.linspace(0.0, 1.0, CURVE + 1)))
    if len(edges) <= CURVE:  # few different values: each for itself
        edges = np.append(edges, np.inf)
    group = np.clip(np.searchsorted(edges, column, side="right") - 1, 0, len(edges) - 2)
    count = np.bincount(group, minlength=len(edges) - 1)
    seen = count > 0
    means = [np.bincount(group, x, len(edges) - 1)[seen] / count[seen] for x in (column, score)]
    return slope, means[0], means[1]


def explain_rows(
    error: Score, rows: np.ndarray, reference: np.ndarray, names: Sequence[str], n_columns: int
) -> list[RowExplanation]:
    """The columns that make rows strange: those that make them least so when they are changed.

    Parameters
    ----------
    error : callable
        Reconstruction errors (n,) of rows.
    rows : array of shape (n, d)
    reference : array of shape (k, d)
        Rows that show the usual values and errors.
    names : sequence of str
        Of the columns.
    n_columns : int
        At most so many columns a row.
    """
    R = reference[evenly_spaced(len(reference), REFERENCE_ROWS)]
    usual = reference_errors(error, reference)
    median = usual.ordered[len(usual.ordered) // 2]
    # values that each column has in other rows
    tried = np.percentile(R, np.linspace(0.0, 100.0, GRID), axis=0)
    found = []
    errors = error(rows)
    for x, e, p in zip(rows, errors, p_values(errors, usual), strict=True):
        causes: list[Cause] = []
        row, left = x.copy(), float(e)
        while len(causes) < n_columns and left > median:
            c, value, rest = best_change(error, row, tried)
            if not left - rest > GAIN * e:
                break
            causes.append(Cause(names[c], float(x[c]), value, (left - rest) / float(e)))
            row[c], left = value, rest
        found.append(RowExplanation(float(e), float(p), tuple(causes)))
    return found


def reference_errors(error: Score, reference: np.ndarray) -> ConformalScores:
    """Errors of evenly spaced reference rows."""
    return ConformalScores.of(error(reference[evenly_spaced(len(reference), RANKED_ROWS)]))


def p_values(errors: np.ndarray, usual: ConformalScores) -> np.ndarray:
    """Conformal p-values of errors; a reference row does not exceed itself by rounding."""
    return usual.p_values(errors - ROUNDING * usual.ordered[-1])


def best_change(error: Score, x: np.ndarray, tried: np.ndarray) -> tuple[int, float, float]:
    """The column and the value with which a row has the least error, and that error."""
    d = len(x)
    values = tried.copy()  # (g, d)
    least, best, columns = np.full(d, np.inf), x.copy(), np.arange(d)
    for finer in (False, True, True):
        if finer:  # between the neighbours of the best value so far
            step = (values.max(axis=0) - values.min(axis=0)) / (len(values) - 1)
            values = best + np.linspace(-1.0, 1.0, FINER)[:, None] * step
            columns = np.sort(np.argsort(least, kind="stable")[:LOOKED_AT])
        for some in chunks(columns, len(values) * d):
            changed = np.repeat(x[None], len(some) * len(values), axis=0)
            changed[np.arange(len(changed)), np.repeat(some, len(values))] = values[
                :, some
            ].T.ravel()
            errors = error(changed).reshape(len(some), len(values))
            at = np.argmin(errors, axis=1)
            lower = errors[np.arange(len(some)), at] < least[some]
            best[some] = np.where(lower, values[at, some], best[some])
            least[some] = np.minimum(errors[np.arange(len(some)), at], least[some])
    c = int(np.argmin(least))
    return c, float(best[c]), float(least[c])


def chunks(columns: np.ndarray, numbers: int) -> list[np.ndarray]:
    """Columns in groups whose changed rows, of so many numbers a column, fit into memory."""
    if len(columns) == 0:
        return []
    return np.array_split(columns, -(-len(columns) * numbers // NUMBERS))
