"""Pixel types: uint8, uint16 and float conversion, white level, rounding and clipping."""

from __future__ import annotations

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
