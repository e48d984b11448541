"""Image patches: sliding windows, sums of overlapping blocks, rotations and reflections."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

EVEN = 1e-5  # of white: differences that rounding may have made decide about no orientation


def windows(image: np.ndarray, side: int, step: int = 1) -> np.ndarray:
    """All square windows of an image, (rows, columns, side, side): a view, nothing is copied.

    Parameters
    ----------
    image : array of shape (height, width)
    side : int
        Side of a window, in pixels.
    step : int
        Pixels from one window to the next.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.images import patches
    >>> image = np.arange(30.0).reshape(5, 6)
    >>> found = patches.windows(image, 3, step=2)
    >>> found.shape, np.shares_memory(found, image)
    ((2, 2, 3, 3), True)
    """
    if image.ndim != 2:
        raise ValueError(f"Expected an image of shape (height, width), got {image.shape}.")
    if not 1 <= side <= min(image.shape):
        raise ValueError(f"An image of shape {image.shape} has no windows of side {side}.")
    return sliding_window_view(image, (side, side))[::step, ::step]


def overlapped(blocks: np.ndarray, scale: int) -> np.ndarray:
    """Sum of blocks of 3s×3s pixels that stand around every pixel of a coarse grid.

    Parameters
    ----------
    blocks : array of shape (rows, columns, 3·scale, 3·scale)
        The block of a coarse pixel covers that pixel and its eight neighbours.
    scale : int
        Fine pixels a coarse one.

    Returns
    -------
    array of shape ((rows + 2)·scale, (columns + 2)·scale)
        Sums, with a frame of one coarse pixel.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.images import patches
    >>> patches.overlapped(np.ones((1, 2, 3, 3)), 1)
    array([[1., 2., 2., 1.],
           [1., 2., 2., 1.],
           [1., 2., 2., 1.]])
    """
    rows, columns = blocks.shape[:2]
    parts = blocks.reshape(rows, columns, 3, scale, 3, scale)
    total = np.zeros((rows + 2, scale, columns + 2, scale), dtype=blocks.dtype)
    for i in range(3):
        for j in range(3):
            total[i : i + rows, :, j : j + columns, :] += parts[:, :, i, :, j, :].transpose(
                0, 2, 1, 3
            )
    return total.reshape((rows + 2) * scale, (columns + 2) * scale)


class Orientation(NamedTuple):
    """The orientation of each patch, one of sixteen: turned, mirrored, negated.

    Upright patches have a middle that is not below their mean, and a gradient there that points to
    the right and down, more to the right than down.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.images import patches
    >>> X = np.random.default_rng(0).normal(size=(4, 5, 5))
    >>> X -= X.mean(axis=(1, 2), keepdims=True)
    >>> rotated = -np.rot90(X, axes=(1, 2))
    >>> orientation, other = patches.Orientation.of(X), patches.Orientation.of(rotated)
    >>> upright = orientation.upright(X)
    >>> bool(np.all(upright == other.upright(rotated)))
    True
    >>> bool(np.all(orientation.as_seen(upright) == X))
    True
    """

    sign: np.ndarray
    leftward: np.ndarray
    upward: np.ndarray
    steep: np.ndarray

    @classmethod
    def of(cls, blocks: np.ndarray) -> Self:
        """Orientations of square patches (n, side, side) of odd side and mean zero."""
        middle = blocks.shape[1] // 2
        sign = np.where(blocks[:, middle, middle] < -EVEN, -1.0, 1.0).astype(blocks.dtype)
        right = sign * (blocks[:, middle, middle + 1] - blocks[:, middle, middle - 1])
        down = sign * (blocks[:, middle + 1, middle] - blocks[:, middle - 1, middle])
        each = (np.s_[:], None, None)
        return cls(
            sign[each],
            (right < -EVEN)[each],
            (down < -EVEN)[each],
            (np.abs(down) > np.abs(right) + EVEN)[each],
        )

    def upright(self, blocks: np.ndarray) -> np.ndarray:
        """Blocks (n, side, side), turned, mirrored and negated as makes the patches upright."""
        blocks = np.where(self.leftward, blocks[:, :, ::-1], blocks)
        blocks = np.where(self.upward, blocks[:, ::-1], blocks)
        return self.sign * np.where(self.steep, blocks.transpose(0, 2, 1), blocks)

    def as_seen(self, blocks: np.ndarray) -> np.ndarray:
        """Blocks that go with upright patches as they go with the patches themselves."""
        blocks = np.where(self.steep, blocks.transpose(0, 2, 1), blocks)
        blocks = np.where(self.upward, blocks[:, ::-1], blocks)
        return self.sign * np.where(self.leftward, blocks[:, :, ::-1], blocks)
