"""Scaling of columns: standardization; columns that dominate the distances."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

import numpy as np

from kernelstream.arrays.draws import evenly_spaced
from kernelstream.arrays.namespaces import Array, is_sparse, like, to_host
from kernelstream.serialization import stored
from kernelstream.serialization.part import Part
from kernelstream.stream.state import Rows

S = TypeVar("S")  # the numbers that a scaling measures
MEASURED_ROWS = 2000  # by which scales are compared
DOMINATING = 0.9  # share of the squared distances that a few columns may have
FAR_LARGER = 10  # times the usual range of a column
RARE = 0.01  # share of the rarer one of two values
START_ROWS = 500  # from which a column's mean and deviation can be relied on


class Scaling(Part, Generic[S]):
    """How rows are scaled: what it measures at the start of a stream is frozen.

    ``measure`` returns the numbers, of the type S: a value with ``apply``, and ``undo`` where there
    is a way back.
    """

    _family = "scalings"
    #: Whether rows come out as they went in, but for units (false: fewer dimensions).
    keeps_columns = True

    @abstractmethod
    def start_rows(self, n_features: int) -> int:
        """How many rows ``measure`` wants to see.

        Parameters
        ----------
        n_features : int
            Number of columns.
        """

    @abstractmethod
    def measure(self, rows: Rows) -> S:
        """The numbers, from rows.

        Parameters
        ----------
        rows : Rows
            The first rows of the stream.
        """


@stored
@dataclass(frozen=True)
class Standardisation:
    """Mean and deviation of the start of the stream, frozen: x ← (x − mean) / deviation.

    Attributes
    ----------
    mean : array of shape (d,)
        Mean of each column.
    deviation : array of shape (d,)
        Standard deviation of each column.
    """

    mean: Annotated[np.ndarray, "float64 (columns)"]
    deviation: Annotated[np.ndarray, "float64 (columns), positive"]

    @classmethod
    def of(cls, rows: Rows) -> Standardisation:
        """Mean and standard deviation of each column; a constant column keeps its unit.

        Parameters
        ----------
        rows : Rows
            The rows to measure.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelstream.stream import Rows, Standardisation
        >>> Standardisation.of(Rows(np.array([[0.0, 5.0], [2.0, 5.0]]))).deviation
        array([1., 1.])
        """
        return ColumnMoments.of(rows).standardisation()

    @property
    def changes_nothing(self) -> bool:
        """Whether rows come out as they went in."""
        return bool(np.all(self.mean == 0.0) and np.all(self.deviation == 1.0))

    def apply(self, X: Array) -> Array:
        """Standardise rows.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows in the units of the data.
        """
        require_dense(X)
        centred = X - like(self.mean, X, X.dtype)
        centred /= like(self.deviation, X, X.dtype)  # no second copy of the rows
        return centred

    def undo(self, X: Array) -> Array:
        """Return to the units of the data.

        Parameters
        ----------
        X : array of shape (n, d)
            Standardized rows.
        """
        return X * like(self.deviation, X, X.dtype) + like(self.mean, X, X.dtype)


@stored
class Standard(Scaling[Standardisation]):
    """Zero mean and unit variance in each column."""

    def start_rows(self, n_features: int) -> int:
        """How many rows ``measure`` wants to see."""
        return START_ROWS

    def measure(self, rows: Rows) -> Standardisation:
        """Mean and deviation of each column; a constant column keeps its unit."""
        return Standardisation.of(rows)


@stored
class Automatic(Scaling[Standardisation]):
    """Zero mean and unit variance where the scales of the columns differ; else as they are.

    Columns of 0 and 1 alone stay as they are: a category then counts as a column of unit variance.
    """

    def start_rows(self, n_features: int) -> int:
        """How many rows ``measure`` wants to see."""
        return START_ROWS

    def measure(self, rows: Rows) -> Standardisation:
        """Mean and deviation, or 0 and 1 for columns that stay as they are."""
        X = to_host(rows.X)
        numbers = Standardisation.of(rows)
        kept = two_valued(measured_rows(X)) if is_mixed(X) else np.ones(X.shape[1], dtype=bool)
        return Standardisation(
            np.where(kept, 0.0, numbers.mean), np.where(kept, 1.0, numbers.deviation)
        )


NAMES: dict[str, type[Scaling]] = {"standard": Standard, "auto": Automatic}


def resolve(scale: Any) -> Scaling | None:
    """The scaling that a name or an object stands for; None for rows as they are.

    Examples
    --------
    >>> resolve("auto")
    Automatic()
    """
    if scale is None:
        return None
    if isinstance(scale, Scaling):
        scale.check()
        return scale
    if isinstance(scale, str) and scale in NAMES:
        return NAMES[scale]()
    raise ValueError(f"scale must be one of None, 'standard', 'auto' or a Scaling; got {scale!r}.")


def is_mixed(X: np.ndarray) -> bool:
    """Whether a few columns make all distances, or many are too small to be heard.

    Columns of two values, 0 and 1, have no unit; beside others they are a reason to scale.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> is_mixed(rng.normal(size=(100, 4))), is_mixed(rng.normal(size=(100, 3)) * [1, 100, 1])
    (False, True)
    """
    X = measured_rows(X)
    words = two_valued(X)
    if np.all(words | (column_ranges(X) == 0)) or X.shape[1] < 2:
        return False
    # One that is hardly ever 1 is rather a number that is seldom above 0, a pixel at the edge.
    shares = np.nanmean(X[:, words], axis=0)
    if np.any(np.minimum(shares, 1.0 - shares) >= RARE):
        return True
    return len(dominating(X)) > 0 or unheard(X)


@dataclass(frozen=True, eq=False)
class ColumnScales:
    """The scales of columns: whether a few of them make nearly all distances.

    Attributes
    ----------
    n_columns : int
        Number of columns.
    dominating : array of int
        The columns that have nine tenths of the squared distances, the largest first; none where a
        third of the columns, or more, is needed for that.
    ratio : float
        Range of the largest of them, in units of the median range of the columns.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.stream import ColumnScales
    >>> X = np.random.default_rng(0).normal(size=(500, 4)) * [1, 100, 1, 1]
    >>> ColumnScales.of(X).dominating
    array([1])
    """

    n_columns: int
    dominating: np.ndarray
    ratio: float = 0.0

    @classmethod
    def of(cls, X: np.ndarray) -> ColumnScales:
        """Measure rows.

        Parameters
        ----------
        X : array of shape (n, d)
            The rows; missing values are NaN.
        """
        rows = measured_rows(X)
        largest = dominating(rows)
        if not len(largest):
            return cls(X.shape[1], largest)
        ranges = column_ranges(rows)
        usual = float(np.median(ranges[ranges > 0]))
        return cls(X.shape[1], largest, float(ranges[largest[0]]) / usual)

    def warn(self, names: Any = None) -> None:
        """Warn where a few columns, far larger than the others, make nearly all distances.

        Parameters
        ----------
        names : sequence of str, optional
            Names of the columns.
        """
        largest = self.dominating
        if not len(largest) or self.ratio < FAR_LARGER:
            return
        named = [str(j) if names is None else repr(str(names[j])) for j in largest[:5]]
        more = f" and {len(largest) - 5} more" if len(largest) > 5 else ""
        warnings.warn(
            f"Nine tenths of the squared distances come from {len(largest)} of {self.n_columns} "
            f"columns: {', '.join(named)}{more}. The kernel hardly hears the others. Bring all to "
            "one scale with scale='auto' (or 'standard'), or do so before.",
            stacklevel=5,
        )


def dominating(X: np.ndarray) -> np.ndarray:
    """The columns that have nine tenths of the squared distances, where these are few.

    The largest first; none where a third of the columns, or more, is needed for that.
    """
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of columns without any value
        variances = np.nan_to_num(np.nanvar(X, axis=0))
    varied = int((variances > 0).sum())
    if varied < 2:
        return np.arange(0)
    order = np.argsort(-variances, kind="stable")
    shares = np.cumsum(variances[order]) / variances.sum()
    needed = int(np.searchsorted(shares, DOMINATING)) + 1
    return order[:needed] if needed <= max(1, varied // 3) else np.arange(0)


def unheard(X: np.ndarray) -> bool:
    """Whether a quarter of the columns have less than a fifth of the largest deviation.

    Of those that vary: what is mostly one value, as pixels at the edge are, is small for a reason.
    """
    X = X[:, ~np.isnan(X).all(axis=0)]
    low, high = np.nanpercentile(X, [25, 75], axis=0)
    deviation = np.nanstd(X[:, high > low], axis=0)
    small = int((5.0 * deviation < deviation.max(initial=0.0)).sum())
    return small > 0 and 4 * small >= len(deviation)


def two_valued(X: np.ndarray) -> np.ndarray:
    """Which columns hold nothing but 0 and 1."""
    return np.all((X == 0) | (X == 1) | np.isnan(X), axis=0) & (column_ranges(X) > 0)


def column_ranges(X: np.ndarray) -> np.ndarray:
    """Largest less smallest value of each column; 0 where there is none."""
    there = ~np.isnan(X)
    low = np.min(X, axis=0, where=there, initial=np.inf)
    high = np.max(X, axis=0, where=there, initial=-np.inf)
    return np.where(there.any(axis=0), high - low, 0.0)


def measured_rows(X: np.ndarray) -> np.ndarray:
    """Evenly spaced rows in float64, from which scales are measured."""
    return X[evenly_spaced(len(X), MEASURED_ROWS)].astype(float)


def require_dense(X: Array) -> None:
    """Raise in words for rows that scaling would fill."""
    if is_sparse(X):
        raise ValueError(
            "scale='standard' needs dense rows: centring would fill a sparse matrix. Scale the "
            "data yourself (for example with sklearn's MaxAbsScaler) and use scale=None."
        )


@dataclass(frozen=True)
class ColumnMoments:
    """Weight of some rows, and mean and standard deviation of the known values of each column."""

    weight: float
    mean: np.ndarray
    deviation: np.ndarray

    @staticmethod
    def of(rows: Rows) -> ColumnMoments:
        """Measure rows.

        From the first known value, in units of the largest difference: a constant column is exactly
        zero, and no square leaves the range of float64.
        """
        X = to_host(rows.X).astype(float, order="C")
        w = np.ones(len(X)) if rows.weights is None else rows.weights
        known = ~np.isnan(X)
        weights = w[:, None] * known
        mass = weights.sum(axis=0)
        mass[mass == 0] = 1.0  # a column without any value has mean 0
        first = np.nan_to_num(X[known.argmax(axis=0), np.arange(X.shape[1])])
        X = np.where(known, X - first, 0.0)
        size = np.abs(X).max(axis=0)
        size[size == 0] = 1.0
        X /= size
        mean = np.einsum("ij,ij->j", weights, X) / mass
        variance = np.einsum("ij,ij->j", weights, (X - mean) ** 2) / mass
        return ColumnMoments(float(w.sum()), first + mean * size, np.sqrt(variance) * size)

    def pool(self, other: ColumnMoments) -> ColumnMoments:
        """Moments of the rows of both (Chan, Golub and LeVeque 1983)."""
        total = self.weight + other.weight
        ours, theirs = self.weight / total, other.weight / total
        step = other.mean - self.mean
        between = np.sqrt(ours * theirs) * np.abs(step)
        within = np.hypot(np.sqrt(ours) * self.deviation, np.sqrt(theirs) * other.deviation)
        return ColumnMoments(total, self.mean + step * theirs, np.hypot(within, between))

    def standardisation(self) -> Standardisation:
        """The numbers that standardize such rows; a constant column keeps its unit."""
        return Standardisation(self.mean, np.where(self.deviation > 0, self.deviation, 1.0))
