"""Missing values of rows as they enter a stream; computed by `preimages.imputation`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np

from kernelstream import preimages
from kernelstream.arrays.draws import evenly_spaced
from kernelstream.arrays.namespaces import Array, is_foreign, to_host
from kernelstream.kernels import Kernel
from kernelstream.preimages.imputation import column_units, impute, local_means
from kernelstream.serialization import stored
from kernelstream.stream.components import Components, n_shown
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

# Of .8, .9 and .95 of the variance, .9 is never far behind the best of the three on seven tables
# with a twentieth and a fifth of their cells taken out; all components give back what was put in.
EXPLAINED = 0.9
STEPS = 5  # later ones hardly move a value, and each costs as much as a few queries
EXAMPLES = 500  # rows of the start that are kept
IMPUTED_AT_ONCE = 4096  # rows: their distances to the examples take 16 MB


@stored
@dataclass(frozen=True, eq=False)
class MaskedPreimage:
    """The leading components of a model, as they were when it was last used for imputation.

    A row whose missing values were imputed in some way is projected on the components; the missing
    values become those of the pre-image, a few times (``preimages.imputation.impute``).
    """

    kernel: Kernel
    points: Annotated[np.ndarray, "float64 (.imputation_points, columns)"]
    dual_coef: Annotated[np.ndarray, "float64 (.imputation_points, .imputation_components)"]
    intercept: Annotated[np.ndarray, "float64 (.imputation_components)"]
    lifted: Annotated[np.ndarray, "float64 (.imputation_points, .imputation_components)"]
    mean_coef: Annotated[np.ndarray, "float64 (.imputation_points)"]
    n_rows: Annotated[int, "positive"]  # that had been learned

    @staticmethod
    def of(shown: Components, n_rows: int) -> MaskedPreimage:
        """The components of a model that spans landmarks."""
        r = n_shown(EXPLAINED, to_host(shown.variances), shown.total_variance)
        return MaskedPreimage(
            shown.kernel,
            to_host(shown.points).astype(float),
            to_host(shown.dual_coef[:, :r]).astype(float),
            to_host(shown.intercept[:r]).astype(float),
            to_host(shown.span.factor @ shown.lift[:, :r]).astype(float),
            to_host(shown.mean_coef).astype(float),
            n_rows,
        )

    @cached_property
    def unit(self) -> np.ndarray:
        """The spread of the landmarks in each column."""
        return column_units(self.points)

    def project(self, X: np.ndarray) -> np.ndarray:
        """Pre-images of the projections of rows; a value that is not finite stays as it was."""
        method = preimages.resolve("auto", self.kernel)
        scores = self.kernel.block(X, self.points) @ self.dual_coef - self.intercept
        projected = scores @ self.lifted.T + self.mean_coef
        start = X if method.searches else None
        reconstructed = method.report(self.kernel, self.points, projected, start).X
        return np.where(np.isfinite(reconstructed), reconstructed, X)

    def fill(self, X: np.ndarray, missing: np.ndarray) -> np.ndarray:
        """Rows with other values where some are missing; those that are there are the start."""
        return impute(X, ~missing, X, self.project, self.unit, max_iter=STEPS).X


@stored
@dataclass(frozen=True)
class ImputationState(Standardisation):
    """A standardization, and rows of the start of the stream from which values are imputed.

    A missing value becomes the mean of its column over examples near the row in its known columns,
    in units of each column's standard deviation. That is the first value; the components of what
    was learned since (``model``) move it to its expected value. They are taken anew when twice as
    many rows have come, and in ``fit`` between two passes.
    """

    unit: Annotated[np.ndarray, "float64 (columns), positive"]  # of distances, after scaling
    examples: Annotated[np.ndarray, "float64 (.examples, columns)"]  # scaled
    model: MaskedPreimage | None = None

    def apply(self, X: Array) -> Array:
        """Standardize rows, and impute their missing values."""
        scaled = self.scaled(X)
        missing = np.isnan(scaled)
        rows = np.flatnonzero(missing.any(axis=1))
        for start in range(0, len(rows), IMPUTED_AT_ONCE):
            some = rows[start : start + IMPUTED_AT_ONCE]
            known, gaps = scaled[some].astype(float), missing[some]
            first = local_means(known, ~gaps, self.examples, self.unit)
            values = np.where(gaps, first, known)
            if self.model is not None:
                values = self.model.fill(values, gaps)
            scaled[some] = np.where(gaps, values, scaled[some])
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
        X = np.array(to_host(rows.X), dtype=float)
        missing = np.isnan(X)
        moments = ColumnMoments.of(rows)
        X[missing] = np.broadcast_to(moments.mean, X.shape)[missing]
        scaling = resolve(self.scaling)
        if scaling is None:
            numbers = Standardisation(np.zeros(X.shape[1]), np.ones(X.shape[1]))
        else:
            numbers = scaling.measure(Rows(to_host(rows.X), rows.weights))
        # The rows with the fewest missing values, spread over all of them.
        order = np.argsort(missing.sum(axis=1), kind="stable")
        whole = order[: max(int((~missing.any(axis=1)).sum()), min(EXAMPLES, len(order)))]
        chosen = np.sort(whole[evenly_spaced(len(whole), EXAMPLES)])
        deviation = np.where(moments.deviation > 0, moments.deviation, 1.0)
        unit = deviation / numbers.deviation
        return ImputationState(numbers.mean, numbers.deviation, unit, numbers.apply(X[chosen]))
