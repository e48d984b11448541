"""Rounding error of kernel values: bounds that certificates add up, estimates for float32."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kernelstream.arrays.namespaces import Array

U32 = float(np.finfo(np.float32).eps) / 2  # unit roundoff of single precision


class Rounding:
    """Rounding error of the values ``k(x, y)``; this class stands for an unknown one.

    Errors are in units of u·√(k(x,x) k(y,y)), where u is the unit roundoff, x any row and y a
    landmark. docs/proofs.md has the bounds in one table, with their derivations.
    """

    def extent(self, points: Array, shifted: bool = True) -> float:
        """The size of the landmarks, as far as errors depend on it; 0 if they do not.

        ``shifted`` says whether distances to them may be taken from their mean, as those of dense
        rows are.
        """
        return 0.0

    def worst(self, extent: float, d: int) -> float:
        """Bound on the error, to first order, for d columns; infinite: there is no certificate.

        ``extent`` is the largest of all landmarks so far.
        """
        return math.inf

    def in_float32(self, extent: float) -> float:
        """Estimate of the error in single precision, in units of √(k(x,x) k(y,y)).

        The worst case would be useless: products are added up in many partial sums, so that an
        error does not grow with their number, and is an eighth of its bound.
        """
        worst = self.worst(extent, 0)
        return U32 * (2.0 + (worst / 8.0 if math.isfinite(worst) else 4.0))


@dataclass(frozen=True)
class LinearRounding(Rounding):
    """An error that grows with the number of columns, ``slope · d + constant``."""

    slope: float
    constant: float

    def worst(self, extent: float, d: int) -> float:
        """``slope · d + constant``."""
        return self.slope * d + self.constant


@dataclass(frozen=True)
class PairRounding(Rounding):
    """The error of two kernels together: the largest landmark is that of either."""

    left: Rounding
    right: Rounding

    def extent(self, points: Array, shifted: bool = True) -> float:
        """The larger of the two."""
        return max(self.left.extent(points, shifted), self.right.extent(points, shifted))


class SumRounding(PairRounding):
    """Errors add, and so do ``k(x, x)``: the larger factor serves both."""

    def worst(self, extent: float, d: int) -> float:
        """The larger of the two, and the addition."""
        return max(self.left.worst(extent, d), self.right.worst(extent, d)) + 1.0

    def in_float32(self, extent: float) -> float:
        """The larger of the two."""
        return max(self.left.in_float32(extent), self.right.in_float32(extent))


class ProductRounding(PairRounding):
    """Relative errors add."""

    def worst(self, extent: float, d: int) -> float:
        """The sum of both, and the multiplication."""
        return self.left.worst(extent, d) + self.right.worst(extent, d) + 1.0

    def in_float32(self, extent: float) -> float:
        """The sum of both."""
        return self.left.in_float32(extent) + self.right.in_float32(extent)


@dataclass(frozen=True)
class RatioRounding(Rounding):
    """The error of ``k(x, y) / √(k(x, x) k(y, y))``: of a value and of two square roots."""

    kernel: Rounding

    def extent(self, points: Array, shifted: bool = True) -> float:
        """That of the kernel."""
        return self.kernel.extent(points, shifted)

    def worst(self, extent: float, d: int) -> float:
        """Once for the value, half for each of the roots, and the divisions."""
        return 2.0 * self.kernel.worst(extent, d) + 6.0
