"""Rounding of combinations of kernel values."""

import numpy as np

from kernelstream import kernels
from kernelstream.kernels.rounding import moved_in_float32


def test_how_far_single_precision_moves_combinations() -> None:
    kernel = kernels.Polynomial(degree=2, gamma=0.5, coef0=1.0)
    points, C = np.array([[1.0, 0.0], [2.0, 1.0]]), np.array([[3.0, 1.0], [4.0, 0.0]])
    off = kernel.rounding.in_float32(kernel.rounding.extent(points))
    largest = (0.5 * 5 + 1) ** 2
    np.testing.assert_allclose(
        moved_in_float32(kernel, points, C), off * largest * np.array([5.0, 1.0])
    )
