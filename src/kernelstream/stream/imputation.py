"""Missing values of rows as they enter a stream: local means over rows of its start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from kernelstream.arrays.draws import evenly_spaced
from kernelstream.arrays.namespaces import Array, is_foreign, to_host
from kernelstream.preimages.imputation import local_means
from kernelstream.serialization import stored
from kernelstream.stream.scaling import (
    START_ROWS,
    Automatic,
    ColumnMoments,
    Scaling,
    Standard,
    Standardisation,
    require_dense,
    resolve,
)
from kernelstream.stream.state import Rows

EXAMPLES = 500  # rows of the start that are kept
IMPUTED_AT_ONCE = 4096  # rows: their distances to the examples take 16 MB


@stored
@dataclass(frozen=True)
class ImputationState(Standardisation):
    """A standardization, and rows of the start of the stream from which values are imputed.

    A missing value becomes the mean of its column over examples near the row in its known columns,
    in units of each column's standard deviation. (``StreamingKernelPCA.repair`` starts from it and
    moves the value to the pre-image of the row's projection on the components.)
    """

    unit: Annotated[np.ndarray, "float64 (columns), positive"]  # of distances, after scaling
    examples: Annotated[np.ndarray, "float64 (.examples, columns)"]  # scaled

    def apply(self, X: Array) -> Array:
        """Standardize rows, and impute their missing values."""
        scaled = self.scaled(X)
        missing = np.isnan(scaled)
        rows = np.flatnonzero(missing.any(axis=1))
        for start in range(0, len(rows), IMPUTED_AT_ONCE):
            some = rows[start : start + IMPUTED_AT_ONCE]
            known, gaps = scaled[some].astype(float), missing[some]
            means = local_means(known, ~gaps, self.examples, self.unit)
            scaled[some] = np.where(gaps, means, scaled[some])
        return scaled

    def scaled(self, X: Array) -> np.ndarray:
        """Standardize rows; missing values stay NaN."""
        if is_foreign(X):
            raise ValueError("Missing values are imputed in NumPy arrays only: convert the rows.")
        return np.asarray(super().apply(X))


@stored
class Imputation(Scaling[ImputationState]):
    """Rows with missing values: another scaling, and values imputed from similar rows.

    Parameters
    ----------
    scaling : None, "standard", "auto" or Scaling
        The other scaling.
    """

    def __init__(self, scaling: str | Scaling | None = None):
        self.scaling = scaling

    def check(self) -> None:
        """Raise unless the other scaling is one that keeps the columns."""
        super().check()
        if not isinstance(resolve(self.scaling), Standard | Automatic | None):
            raise ValueError(f"Imputation takes None, 'standard' or 'auto'; got {self.scaling!r}.")

    def start_rows(self, n_features: int) -> int:
        """Number of rows for ``measure``."""
        return START_ROWS

    def measure(self, rows: Rows) -> ImputationState:
        """The numbers of the other scaling, of the known values, and some rows."""
        require_dense(rows.X)
        X = to_host(rows.X).astype(float)
        missing = np.isnan(X)
        moments = ColumnMoments.of(rows)
        X = np.where(missing, moments.mean, X)
        scaling = resolve(self.scaling)
        if scaling is None:
            numbers = Standardisation(np.zeros(X.shape[1]), np.ones(X.shape[1]))
        else:
            numbers = scaling.measure(Rows(to_host(rows.X), rows.weights))
        # The rows with the fewest missing values, spread over all of them.
        order = np.argsort(missing.sum(axis=1), kind="stable")
        whole = order[: max(int((~missing.any(axis=1)).sum()), min(EXAMPLES, len(order)))]
        chosen = np.sort(whole[evenly_spaced(len(whole), EXAMPLES)])
        unit = moments.standardisation().deviation / numbers.deviation
        return ImputationState(numbers.mean, numbers.deviation, unit, numbers.apply(X[chosen]))
