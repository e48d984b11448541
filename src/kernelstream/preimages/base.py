"""Base of pre-image methods: solve, report of convergence and distance in feature space."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import array_api_compat
import numpy as np

from kernelstream.arrays.namespaces import Array, cast, namespace_of, take_rows, to_float64, to_host
from kernelstream.arrays.printing import prints_short
from kernelstream.serialization.part import Part


@prints_short
@dataclass(frozen=True)
class Report:
    """Pre-images, and how each of them was found.

    Attributes
    ----------
    X : array of shape (n, d)
        The pre-images.
    distance : array of shape (n,)
        ``|φ(x) − P|²``, what remains in feature space.
    converged : NumPy array of shape (n,), bool
        Whether the search came to rest; always true for methods that do not search.
    n_iter : NumPy array of shape (n,), int
        Steps of the search that gave the answer.
    """

    X: Array
    distance: Array
    converged: np.ndarray
    n_iter: np.ndarray

    @classmethod
    def without_search(cls, X: Array, distance: Array) -> Report:
        """The report of a method that computes its answer in one go."""
        n = int(X.shape[0])
        return cls(X, distance, np.ones(n, dtype=bool), np.zeros(n, dtype=np.intp))

    def improve(self, index: np.ndarray, other: Report) -> Report:
        """The same with the rows ``index`` replaced where the other report is nearer."""
        better = np.flatnonzero(to_host(other.distance < take_rows(self.distance, index)))
        place = np.arange(len(self.converged))
        place[index[better]] = len(place) + better
        both = Report.joined([self, other])
        return Report(
            take_rows(both.X, place),
            take_rows(both.distance, place),
            both.converged[place],
            both.n_iter[place],
        )

    @classmethod
    def joined(cls, parts: list[Report]) -> Report:
        """Reports of blocks of rows as one."""
        xp = namespace_of(parts[0].X)
        return cls(
            xp.concat([part.X for part in parts], axis=0),
            xp.concat([part.distance for part in parts], axis=0),
            np.concatenate([part.converged for part in parts]),
            np.concatenate([part.n_iter for part in parts]),
        )


class Preimage(Part):
    """From ``P = Σ_k γ_k φ(d_k)`` in feature space to an input ``x`` whose ``φ(x)`` is near ``P``.

    Few points of the feature space are the image of an input, so every method is an approximation
    (except for the linear kernel) and returns the squared distance that remains with its answer.

    To add a method, write ``check_kernel`` and ``_solve`` and give it a name in ``__init__.py``.
    """

    _family = "preimages"
    #: Whether the method searches, and can be told where to start.
    searches = False

    def check_kernel(self, kernel: Any) -> None:
        """Raise ``ValueError`` in words when this method cannot work with the kernel."""

    def solve(
        self, kernel: Any, points: Array, coefficients: Array, start: Array | None = None
    ) -> tuple[Array, Array]:
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
        start : array of shape (n, d), optional
            Where a search begins; by default at the basis point that is nearest in feature space.

        Returns
        -------
        X : array of shape (n, d)
            The pre-images, in the dtype of ``points``.
        distance : array of shape (n,)
            ``|φ(x) − Σ_k γ_k φ(d_k)|²``, what remains.
        """
        found = self.report(kernel, points, coefficients, start)
        return found.X, found.distance

    def report(
        self, kernel: Any, points: Array, coefficients: Array, start: Array | None = None
    ) -> Report:
        """The same as :meth:`solve`, with how the search for each row went.

        Parameters
        ----------
        kernel, points, coefficients, start : object
            As in :meth:`solve`.

        Returns
        -------
        Report
        """
        self.check()
        self.check_kernel(kernel)
        if coefficients.ndim != 2 or coefficients.shape[1] != points.shape[0]:
            raise ValueError(
                f"coefficients have shape {tuple(coefficients.shape)}; expected one row a "
                f"feature-space point and one column for each of the {points.shape[0]} points."
            )
        n, d = int(coefficients.shape[0]), int(points.shape[1])
        if start is not None:
            if not self.searches:
                raise ValueError(f"{self} computes its answer in one go: it takes no start.")
            if tuple(start.shape) != (n, d):
                raise ValueError(
                    f"start has shape {tuple(start.shape)}; expected ({n}, {d}), a place for each "
                    "row of coefficients."
                )
            start = to_float64(start)
        xp = namespace_of(points, coefficients)
        if points.shape[0] == 0:  # no row had any energy: what is held is the origin
            device = array_api_compat.device(points)
            zeros = xp.zeros((n, d), dtype=points.dtype, device=device)
            return Report.without_search(zeros, xp.sum(zeros, axis=1))
        dtype = points.dtype if xp.isdtype(points.dtype, "real floating") else xp.float64
        found = self._solve(kernel.fix(points), to_float64(points), to_float64(coefficients), start)
        return replace(found, X=cast(found.X, dtype), distance=cast(found.distance, dtype))

    @abstractmethod
    def _solve(self, kernel: Any, D: Array, G: Array, start: Array | None) -> Report:
        """``report`` after the checks: ``D`` (m, d) and the rows ``γ`` of ``G`` (n, m), float64."""


def remaining(kernel: Any, X: Array, D: Array, G: Array, energy: Array) -> Array:
    """``|φ(x) − P|² = k(x, x) − 2 Σ γ_k k(x, d_k) + |P|²``, not below zero."""
    xp = namespace_of(X)
    return non_negative(kernel.diag(X) - 2 * xp.sum(G * kernel.block(X, D), axis=1) + energy)


def non_negative(x: Array) -> Array:
    """The numbers, with 0 in the place of negative ones, which are rounding."""
    return namespace_of(x).where(x > 0, x, 0 * x)
