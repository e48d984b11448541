"""Pre-images of vectors: where the iteration ends."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelstream import kernels
from kernelstream.papers.chin_suter_2006.iterated_preimages import STEPS, is_new, preimage


def telling(asked: list[int]) -> kernels.RBF:
    """A kernel that tells of its blocks."""

    class Told(kernels.RBF):
        def block(self, X: Any, Y: Any) -> Any:
            asked.append(len(X))
            return super().block(X, Y)

    return Told(gamma=0.5)


def test_the_iteration_rests_when_it_moves_by_little_of_the_largest_entry() -> None:
    """Also where another entry is zero; a far column, the same in all rows, is no work."""
    steps = []
    for column in (0.0, 1e6):
        support = np.c_[[0.0, 0.5, 2.0], [column] * 3, [0.0] * 3]
        asked: list[int] = []
        y = preimage(telling(asked), support, np.array([1.0, 2.0, 1.0]))
        # at rest: the mean of the support, weighted by the kernel there
        w = np.array([1.0, 2.0, 1.0]) * kernels.RBF(gamma=0.5)(y, support)[0]
        np.testing.assert_allclose(y[0], w @ support / w.sum(), atol=1e-13 * max(1.0, column))
        steps.append(len(asked))
    assert steps[1] < 0.7 * steps[0] < STEPS / 2


def test_inputs_whose_image_is_nothing_are_no_pre_images() -> None:
    support = np.array([[0.0, 0.0], [1.0, 2.0]])
    y = preimage(kernels.Linear(), support, np.array([1.0, 1.0]))
    np.testing.assert_allclose(y, support[1:])


def test_weights_that_cancel_end_the_iteration() -> None:
    support = np.array([[-1.0, 0.0], [1.0, 0.0]])
    kernel = kernels.Polynomial(degree=2, gamma=1.0, coef0=0.0)  # the same image for both
    y = preimage(kernel, support, np.array([1.0, -1.0]))
    np.testing.assert_array_equal(y, support[:1])


def test_the_first_input_is_new_unless_its_image_is_nothing() -> None:
    nothing = np.zeros((0, 2))
    assert is_new(kernels.RBF(0.5), nothing, np.zeros((1, 2)))
    assert not is_new(kernels.Linear(), nothing, np.zeros((1, 2)))
    used = np.array([[1.0, 0.0]])
    assert not is_new(kernels.Linear(), used, 2.0 * used)
    assert is_new(kernels.Linear(), used, np.array([[1.0, 0.1]]))
