"""Pixels: types and white level, image files and resizing with Pillow."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from sklearn.utils import check_array

WHITE = {np.dtype(np.uint8): 255, np.dtype(np.uint16): 65535}


def real_numbers(pixels: Any) -> np.ndarray:
    """Pixels as an array of any shape; complex numbers are an error."""
    return check_array(
        pixels,
        dtype=None,
        ensure_all_finite=False,
        ensure_2d=False,
        allow_nd=True,
        ensure_min_samples=0,
        ensure_min_features=0,
    )


def as_bytes(image: np.ndarray) -> np.ndarray:
    """Pixels as 8-bit numbers; floats in [0, 1] are scaled, rounded and cut.

    Parameters
    ----------
    image : array
        Pixels.
    """
    require_pixels(image)
    return image if image.dtype == np.uint8 else as_integers(as_floats(image), np.uint8)


def as_floats(pixels: np.ndarray) -> np.ndarray:
    """Pixels as floats: those of 8 and 16 bits in [0, 1], other numbers as they are."""
    if pixels.dtype in WHITE:
        return pixels.astype(np.float32) / np.float32(WHITE[pixels.dtype])
    if pixels.dtype in (np.float32, np.float64):
        return pixels
    return pixels.astype(np.float64)


def as_integers(image: np.ndarray, dtype: Any) -> np.ndarray:
    """Floats, of which 1 is white, as integers of a type that images have, rounded and cut."""
    white = WHITE[np.dtype(dtype)]
    return np.clip(np.rint(np.asarray(image, dtype=float) * white), 0, white).astype(dtype)


def require_pixels(image: np.ndarray) -> None:
    """Raise in words where numbers are not finite, or their type does not say what is white."""
    if image.dtype.kind in "iu" and image.dtype not in WHITE:
        raise ValueError(
            f"Pixels of type {image.dtype} do not say which number is white: give integers of type "
            "uint8 or uint16, or floats in [0, 1]."
        )
    if not np.all(np.isfinite(image)):
        raise ValueError("The image contains NaN or infinity; give finite numbers.")


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
        The file, in any format that Pillow reads; of several images the first. Images of 16 bits
        are rounded to 8, images that say how they were held are turned upright, and transparency is
        left out. Files of floats and of 32-bit integers do not say which number is white, and are
        refused.

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
    Image = pillow()
    from PIL import ImageOps

    with Image.open(path) as file:
        # Older versions of Pillow call a PNG of 16 bits "I".
        has_16_bits = file.mode.startswith("I;16") or (file.mode, file.format) == ("I", "PNG")
        image = ImageOps.exif_transpose(file)
        if has_16_bits:
            return as_bytes(np.asarray(image).astype(np.uint16))
        if image.mode in ("I", "F"):
            raise ValueError(
                f"{path} holds {'floats' if image.mode == 'F' else '32-bit integers'}, which do "
                "not say which number is white: read it with PIL.Image and scale it to [0, 1]."
            )
        return np.asarray(image.convert("L" if image.mode in ("1", "L", "LA", "La") else "RGB"))


def write(path: str | os.PathLike[str], image: np.ndarray) -> None:
    """Write pixels to a file whose name says the format, in 8 bits.

    Parameters
    ----------
    path : path-like
        The file.
    image : array of shape (height, width) or (height, width, 3)
        Unsigned integers of 8 or 16 bits, or floats, of which 1 is white.
    """
    pillow().fromarray(as_bytes(image)).save(path)


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
