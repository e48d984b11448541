"""The door of StreamingKernelPCA: what comes in is checked, and is of the stream's type.

Checks of single arguments, which need no estimator, are in ``validation.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import is_torch_array
from sklearn.utils.validation import validate_data

from kernelstream.backends.arrays import (
    Array,
    all_finite,
    as_csr,
    as_dense,
    cast,
    is_foreign,
    is_sparse,
    namespace_of,
    on_accelerator,
    take_rows,
    to_float64,
)
from kernelstream.estimators.base import OnStream
from kernelstream.estimators.validation import NOT_FINITE, checked_weights, real_numbers, summable
from kernelstream.stream.components import View


class Intake(OnStream):
    """Rows and scores that an estimator is given, checked against what it has learned."""

    def _learnable(self, X: Any, weights: Any, reset: bool) -> tuple[Array, np.ndarray | None]:
        """Rows to learn, in the type of the stream, and their weights; zero weights dropped."""
        X = self._validated(X, reset, check_finite=False)
        if not reset:
            X = cast(X, getattr(namespace_of(X), self._model.dtype))
        if not on_accelerator(X):  # there a look costs a pass, and the fold finds it out itself
            X = summable(X)  # of a number that is not finite, no square is: one look for both
        if weights is None:
            return X, None
        host = checked_weights(weights, int(X.shape[0]))
        kept = np.flatnonzero(host)
        if len(kept) < len(host):
            X, host = take_rows(X, kept), host[kept]
        return X, host

    def _validated(self, X: Any, reset: bool, check_finite: bool = True) -> Array:
        if is_foreign(X):
            X = self._validated_foreign(X, reset, check_finite)
        else:
            X = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                ensure_all_finite=check_finite,
            )
            X = as_csr(X) if is_sparse(X) else X
        return X if reset else self._of_our_kind(X)

    def _of_our_kind(self, X: Array) -> Array:
        """An array of the namespace that the model lives in, or an error."""
        model = getattr(self, "_model", None)
        if model is None or not model.n_rows:  # nothing is held yet (a cluster checks its chunks)
            return X
        held = model.waiting.rows[0] if model.state is None else model.state.moments.total
        ours, given = namespace_of(held), namespace_of(X)
        sent = model.device is not None and (not is_foreign(X) or is_torch_array(X))
        if ours is not given and not sent:
            raise ValueError(
                f"The model was learned from rows of {ours.__name__} and was given an array of "
                f"{given.__name__}: convert it first."
            )
        return X

    def _validated_foreign(self, X: Array, reset: bool, check_finite: bool) -> Array:
        """The checks of scikit-learn for arrays of other namespaces, which it would convert."""
        xp = namespace_of(X)
        if X.ndim != 2 or X.shape[0] < 1 or X.shape[1] < 1:
            raise ValueError(f"Expected rows of shape (n, d), got an array of shape {X.shape}.")
        if xp.isdtype(X.dtype, "complex floating"):
            raise ValueError("Complex data not supported: give real numbers.")
        if X.dtype not in (xp.float32, xp.float64):
            X = to_float64(X)
        if check_finite and not all_finite(X):
            raise ValueError(NOT_FINITE)
        if reset:
            self.n_features_in_ = int(X.shape[1])
            self.__dict__.pop("feature_names_in_", None)  # of the frame that was learned before
        elif X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        return X

    def _one(self, x: Any, learning: bool = False) -> Array:
        """One row as a block of one, in the type of the stream."""
        if is_sparse(x) or is_foreign(x):
            row = self._validated(x if x.ndim == 2 else x[None, :], reset=False)
            row = cast(row, getattr(namespace_of(row), self._model.dtype))
            return summable(row) if learning else row
        row = np.array(real_numbers(x), dtype=self._model.dtype, ndmin=2)  # a copy: it may wait
        if row.shape != (1, self.n_features_in_):
            raise ValueError(
                f"Expected one row of {self.n_features_in_} features, got an array of shape "
                f"{np.shape(x)}."
            )
        # one product instead of the passes that a block gets: rows come by the million
        if not row[0] @ row[0] < np.finfo(row.dtype).max / 4.0:
            if not all_finite(row):
                raise ValueError("The row contains NaN or infinity; give finite numbers.")
            row = summable(row) if learning else row
        return self._of_our_kind(row)

    def _scores(self, X: Any, seen: View) -> Array:
        """Scores given by the user, checked."""
        if not is_foreign(X):
            X = real_numbers(as_dense(X))
            X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
        r = int(seen.variances.shape[0])
        if X.ndim != 2 or X.shape[0] < 1 or X.shape[1] != r:
            raise ValueError(
                f"Expected scores of shape (n, {r}), one column for each component, got an array "
                f"of shape {tuple(X.shape)}."
            )
        if not all_finite(X):
            raise ValueError("The scores contain NaN or infinity; give finite numbers.")
        return self._of_our_kind(X)
