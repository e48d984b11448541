"""Images rebuilt from overlapping windows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kernelstream.images.patches import windows


def rebuilt(
    given: np.ndarray, side: int, step: int, project: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """An image of windows that were projected; where they overlap, their mean."""
    tops, lefts = (starts(length, side, step) for length in given.shape)
    rows = windows(given, side)[np.ix_(tops, lefts)].reshape(-1, side**2)
    found = iter(project(rows).reshape(-1, side, side))
    total, count = np.zeros(given.shape), np.zeros(given.shape)
    for top in tops:
        for left in lefts:
            total[top : top + side, left : left + side] += next(found)
            count[top : top + side, left : left + side] += 1.0
    return total / count


def starts(length: int, side: int, step: int) -> np.ndarray:
    """Where windows begin so that they cover all of ``length``: every ``step``, and at the end."""
    return np.unique(np.append(np.arange(0, length - side + 1, step), length - side))
