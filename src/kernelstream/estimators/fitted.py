"""What a learned stream shows: the fitted attributes of StreamingKernelPCA."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelstream.backends.arrays import Array
from kernelstream.certificate.certificate import Certificate, certify
from kernelstream.estimators.base import OnStream
from kernelstream.kernels import Kernel
from kernelstream.stream.components import View
from kernelstream.stream.stream import caught_up, settled, view


class FittedAttributes(OnStream):
    """The attributes of a fitted estimator, read from its stream; rows that wait are in them."""

    @property
    def n_samples_seen_(self) -> int:
        """Rows learned; rows of weight zero are not counted."""
        self._view_exists()
        return self._model.n_rows

    @property
    def n_components_(self) -> int:
        """Number of components shown, r."""
        return int(self._view().variances.shape[0])

    @property
    def explained_variance_(self) -> Array:
        """Variance of each output, (r,)."""
        return self._view().variances

    @property
    def explained_variance_ratio_(self) -> Array:
        """Share of each output in the total variance in feature space, (r,)."""
        seen = self._view()
        total = seen.total_variance
        return seen.variances / total if total > 0 else 0.0 * seen.variances

    @property
    def eigenvalues_(self) -> Array:
        """Explained variance times total weight, as in scikit-learn's ``KernelPCA``, (r,)."""
        seen = self._view()
        return seen.variances * seen.weight

    @property
    def basis_points_(self) -> Array:
        """The points that span the model, (m, d).

        ``transform(X) == kernel_(X, basis_points_) @ dual_coef_ - intercept_``; with
        ``scale="standard"`` they are points of the standardised X, as is X in that equation.
        """
        return self._view().points

    @property
    def dual_coef_(self) -> Array:
        """Coefficients of the components over the points, (m, r)."""
        return self._view().dual_coef

    @property
    def mean_coef_(self) -> Array:
        """Coefficients of the mean over the points, (m,)."""
        return self._view().mean_coef

    @property
    def intercept_(self) -> Array:
        """Score of the mean, (r,)."""
        return self._view().intercept

    @property
    def certificate_(self) -> Certificate:
        """What is certain about batch kernel PCA of all rows seen; computed when asked for."""
        shown = self._view()
        plain = caught_up(self._model)
        assert plain.state is not None
        return certify(plain.parts, plain.state, shown)

    @property
    def kernel_(self) -> Kernel:
        """The kernel with its numbers, those that the first rows decided among them."""
        return self._view().kernel

    @property
    def n_tamed_steps_(self) -> int:
        """Steps of a Hebbian rule or LMS that were too long and shortened; 0 for other trackers."""
        self._view_exists()
        state = settled(self._model).state
        return int(getattr(state and state.tracker, "tamed", 0))

    def _view(self) -> View:
        self._view_exists()
        with np.errstate(over="ignore", invalid="ignore"):  # as in learning: rows may wait
            return view(self._model)

    def _standard(self) -> Any:
        model = self._model
        known = model.standard is not None or not model.standardise
        return model.standard if known else settled(model).standard
