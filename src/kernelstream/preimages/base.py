"""What every pre-image method does: from a point of the span back to an input."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import array_api_compat

from kernelstream.backends.arrays import Array, cast, namespace_of, to_float64
from kernelstream.part import Part


class Preimage(Part):
    """From ``P = Σ_k γ_k φ(d_k)`` in feature space to an input ``x`` whose ``φ(x)`` is near ``P``.

    Few points of the feature space are the image of an input, so every method is an approximation
    (except for the linear kernel) and returns the squared distance that remains with its answer.

    To add a method, write ``check_kernel`` and ``_solve`` and give it a name in ``__init__.py``.
    """

    def check_kernel(self, kernel: Any) -> None:
        """Raise ``ValueError`` in words when this method cannot work with the kernel."""

    def solve(self, kernel: Any, points: Array, coefficients: Array) -> tuple[Array, Array]:
        """Pre-images of many feature-space points at once.

        The work is done in double precision: the coefficients of an ill-conditioned basis are
        large and alternate in sign, and single precision would lose the sum.

        Parameters
        ----------
        kernel : Kernel
            The fixed kernel of a model; one with numbers still to decide takes them from the
            points.
        points : array of shape (m, d)
            The basis points ``d_k``.
        coefficients : array of shape (n, m)
            One row ``γ`` for each feature-space point ``Σ_k γ_k φ(d_k)``. A few more arrays of
            this shape are made on the way: hand over many rows in pieces.

        Returns
        -------
        X : array of shape (n, d)
            The pre-images, in the dtype of ``points``.
        distance : array of shape (n,)
            ``|φ(x) − Σ_k γ_k φ(d_k)|²``, what remains.
        """
        self.check()
        self.check_kernel(kernel)
        if coefficients.ndim != 2 or coefficients.shape[1] != points.shape[0]:
            raise ValueError(
                f"coefficients have shape {tuple(coefficients.shape)}; expected one row a "
                f"feature-space point and one column for each of the {points.shape[0]} points."
            )
        xp = namespace_of(points, coefficients)
        if points.shape[0] == 0:  # no row had any energy: what is held is the origin
            n, device = int(coefficients.shape[0]), array_api_compat.device(points)
            zeros = xp.zeros((n, points.shape[1]), dtype=points.dtype, device=device)
            return zeros, xp.sum(zeros, axis=1)
        dtype = points.dtype if xp.isdtype(points.dtype, "real floating") else xp.float64
        X, distance = self._solve(kernel.fix(points), to_float64(points), to_float64(coefficients))
        return cast(X, dtype), cast(distance, dtype)

    @abstractmethod
    def _solve(self, kernel: Any, D: Array, G: Array) -> tuple[Array, Array]:
        """``solve`` after the checks: ``D`` (m, d) and the rows ``γ`` of ``G`` (n, m), float64."""
