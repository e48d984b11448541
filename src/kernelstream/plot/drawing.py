"""Plot helpers: Axes, colors, labels, images."""

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np

from kernelstream.estimators import StreamingKernelPCA

ACCENT, QUIET, INK = "#b3364a", "#9aa1ac", "#222222"
MOST_KINDS = 20  # as many colors as people can tell apart


def axes(given: Any, rows: int = 1, size: tuple[float, float] | None = None) -> Any:
    """The given Axes, or fresh ones: as many as ``rows``, one below the other."""
    if given is not None:
        return given
    return pyplot().subplots(rows, sharex=True, figsize=size, layout="constrained")[1]


def pyplot() -> Any:
    """Matplotlib's functions, where it is installed."""
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as problem:
        raise ModuleNotFoundError(
            "kernelstream.plot needs matplotlib: pip install 'kernelstream[plot]'"
        ) from problem
    return plt


def set_labels(ax: Any, title: str | None = None, **labels: str) -> Any:
    """Set title and labels, and take away the frame at the top and on the right."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.set(**labels)
    if title is not None:
        ax.set_title(title, loc="left")
    return ax


def show_image(ax: Any, image: np.ndarray, title: str, **style: Any) -> Any:
    """Show an image without axes."""
    ax.imshow(image, interpolation="nearest", **style)
    ax.set_axis_off()
    ax.set_title(title, loc="left", fontsize="small")
    return ax


def short_numbers(text: str) -> str:
    """Numbers with many digits, rounded for reading.

    Examples
    --------
    >>> short_numbers("RBF(gamma=0.05282707387536111)")
    'RBF(gamma=0.05283)'
    """
    return re.sub(r"\d+\.\d{5,}(e[+-]?\d+)?", lambda number: f"{float(number[0]):.4g}", text)


def is_ink(images: np.ndarray) -> bool:
    """Whether images are ink on paper (most of each is empty), rather than photographs.

    Examples
    --------
    >>> is_ink(np.array([0.0, 0.0, 0.0, 1.0])), is_ink(np.array([0.1, 0.4, 0.5, 1.0]))
    (True, False)
    """
    low, high = float(np.min(images)), float(np.max(images))
    return bool(np.median(images) <= low + 0.1 * (high - low))


def without_names(model: StreamingKernelPCA) -> StreamingKernelPCA:
    """The same model without the names of its features, for rows that are plain arrays.

    scikit-learn would warn that these have no names, where the rows are ours.
    """
    bare = copy.copy(model)
    bare.__dict__.pop("feature_names_in_", None)
    return bare
