"""PNG thumbnails of landmarks and rows that are images, as data URIs."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

from kernelstream.plot.drawing import is_ink


def grey_levels(rows: np.ndarray, ink: bool | None = None) -> np.ndarray:
    """Rows as bytes: one scale for all, so that they can be compared; ink is dark, light bright.

    Whether they are ink is found out, where it is not given.
    """
    if ink is None:
        ink = is_ink(rows)
    low, high = float(rows.min()), float(rows.max())
    levels = 255 * (rows - low) / max(high - low, 1e-300)
    return (255 - levels if ink else levels).astype(np.uint8)


def data_uri(image: np.ndarray) -> str:
    """A grey image of bytes as a PNG inside a URI.

    Examples
    --------
    >>> data_uri(np.zeros((2, 2), dtype=np.uint8))[:22]
    'data:image/png;base64,'
    """
    height, width = image.shape
    lines = np.zeros((height, width + 1), dtype=np.uint8)  # each line begins with its filter, 0
    lines[:, 1:] = image
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    png = (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
        + _chunk(b"IEND", b"")
    )
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
