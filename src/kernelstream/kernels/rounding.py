"""Rounding errors of kernel values: of sums of products, and of two kernels together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernelstream.arrays.namespaces import Array, to_host
from kernelstream.kernels.base import Kernel, Rounding


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
    """The error of two kernels together: relative errors add in a product.

    In a sum errors and ``k(x, x)`` add, so that the larger of the two relative errors serves both.
    """

    left: Rounding
    right: Rounding
    together: Callable[[float, float], float]

    def extent(self, points: Array, shifted: bool = True) -> float:
        """The larger of the two."""
        return max(self.left.extent(points, shifted), self.right.extent(points, shifted))

    def worst(self, extent: float, d: int) -> float:
        """That of both, and the operation that joins them."""
        return self.together(self.left.worst(extent, d), self.right.worst(extent, d)) + 1.0

    def in_float32(self, extent: float) -> float:
        """That of both."""
        return self.together(self.left.in_float32(extent), self.right.in_float32(extent))


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


def moved_in_float32(kernel: Kernel, points: Array, coefficients: Array) -> np.ndarray:
    """How far the rounding of kernel values in single precision moves combinations of them.

    Each value moves by about ``ε k``, and a combination by ``ε k |c|`` with c its coefficients over
    the points.
    """
    largest = float(np.max(np.abs(to_host(kernel.diag(points))), initial=0.0))
    off = kernel.rounding.in_float32(kernel.rounding.extent(points))
    c = to_host(coefficients)
    # In units of the largest, whose square may be no number.
    unit = float(np.max(np.abs(c), initial=0.0)) or 1.0
    return off * (largest * unit) * np.sqrt(np.sum((c / unit) ** 2, axis=0))
