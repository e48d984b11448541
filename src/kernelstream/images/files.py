"""Images as files and in other sizes, through Pillow."""

from __future__ import annotations

import os
from typing import Any

import numpy as np


def pillow() -> Any:
    """The module ``PIL.Image``, or an error that says how to get it."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            "Resizing images and image files need Pillow: pip install 'kernelstream[images]'."
        ) from error
    return Image


def read(path: str | os.PathLike[str]) -> np.ndarray:
    """An image file as 8-bit pixels, (height, width) or (height, width, 3).

    Parameters
    ----------
    path : path-like
        The file, in any format that Pillow reads.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from kernelstream.images import files
    >>> path = os.path.join(tempfile.mkdtemp(), "grey.png")
    >>> files.write(path, np.full((2, 3), 0.5))
    >>> files.read(path)
    array([[128, 128, 128],
           [128, 128, 128]], dtype=uint8)
    """
    with pillow().open(path) as image:
        return np.asarray(image.convert("L" if image.mode in ("1", "L", "I", "F") else "RGB"))


def write(path: str | os.PathLike[str], image: np.ndarray) -> None:
    """Write pixels to a file whose name says the format; floats are taken as [0, 1].

    Parameters
    ----------
    path : path-like
        The file.
    image : array of shape (height, width) or (height, width, 3)
        Bytes, or floats.
    """
    pillow().fromarray(as_bytes(image)).save(path)


def as_bytes(image: np.ndarray) -> np.ndarray:
    """Pixels as 8-bit numbers; floats in [0, 1] are scaled, rounded and cut.

    Parameters
    ----------
    image : array
        Pixels.
    """
    if image.dtype == np.uint8:
        return image
    return np.clip(np.rint(np.asarray(image, dtype=float) * 255.0), 0, 255).astype(np.uint8)


def resized(image: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """A grey image of floats in another size: bicubic, with antialiasing when it shrinks.

    Parameters
    ----------
    image : array of shape (height, width)
        Floats.
    shape : tuple of int
        The new height and width.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.images import files
    >>> files.resized(np.ones((4, 6)), (2, 3)).round(6)
    array([[1., 1., 1.],
           [1., 1., 1.]])
    """
    Image = pillow()
    source = Image.fromarray(np.ascontiguousarray(image, dtype=np.float32))
    found = source.resize((shape[1], shape[0]), Image.Resampling.BICUBIC)
    return np.asarray(found, dtype=image.dtype if image.dtype.kind == "f" else np.float64)
