"""How the pictures look: one palette, one style, one way to save."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from PIL import Image

# Okabe and Ito's colours: told apart by everyone, and on grey paper by their lightness.
BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
SKY, YELLOW, INK, GREY = "#56B4E9", "#E69F00", "#1A1A1A", "#8A8A8A"
Grid = tuple[np.ndarray, np.ndarray]
SIGNED = LinearSegmentedColormap.from_list("signed", [BLUE, "#FFFFFF", ORANGE])

STYLE: Any = {
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelcolor": INK,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
}


def styled() -> Any:
    """The style, for a ``with`` block or as the decorator of a function that draws."""
    return plt.rc_context(STYLE)


def subplots(rows: int = 1, columns: int = 1, **options: Any) -> tuple[Any, Any]:
    """``plt.subplots`` in the style of these reproductions."""
    with styled():
        return plt.subplots(rows, columns, **options)


def save(figure: Any, path: Path, dpi: int = 150) -> str:
    """Write a figure as PNG of 256 colours, close it, and return the name of the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = BytesIO()
    with styled():
        figure.savefig(whole, format="png", dpi=dpi)
    plt.close(figure)
    # A palette makes the file three times smaller, and leaves out the version of matplotlib.
    picture = Image.open(whole).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    picture.save(path, optimize=True)
    return path.name


def bare(axes: Any) -> None:
    """No ticks, no grid, a thin frame: for pictures and contour plots."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set(visible=True, color=GREY, linewidth=0.6)


def contours(axes: Any, X: np.ndarray, grid: Grid, values: np.ndarray, top: float) -> None:
    """Lines of constant value of a function of two inputs, over (some of) the points ``X``.

    Blue is negative, orange positive, ``top`` the largest value that has a line.
    """
    x, y = grid
    levels = np.linspace(-top, top, 18)
    axes.contourf(x, y, values, levels=levels, cmap=SIGNED, alpha=0.55, extend="both")
    axes.contour(x, y, values, levels=levels, colors=INK, linewidths=0.5, linestyles="solid")
    some = X[:: -(-len(X) // 600)]
    axes.plot(some[:, 0], some[:, 1], ".", color=INK, markersize=3.2, alpha=0.5, mew=0)
    axes.set(xlim=(x.min(), x.max()), ylim=(y.min(), y.max()))
    bare(axes)


@styled()
def contour_rows(X: np.ndarray, models: dict[str, Any], shown: int, path: Path) -> None:
    """One row a model, one column a component, the same lines in each column.

    Components have no sign of their own: those of later rows follow the first row.
    """
    height = 2.3 * len(models) + 0.2
    figure, axes = plt.subplots(len(models), shown, figsize=(2.4 * shown, height), squeeze=False)
    low, high = X.min(axis=0) - 0.12, X.max(axis=0) + 0.12
    grid = np.meshgrid(np.linspace(low[0], high[0], 120), np.linspace(low[1], high[1], 120))
    everywhere = np.column_stack([grid[0].ravel(), grid[1].ravel()])
    first = next(iter(models.values())).transform(X)[:, :shown]
    for row, (name, model) in zip(axes, models.items(), strict=True):
        signs = np.sign(np.sum(model.transform(X)[:, :shown] * first, axis=0))
        values = model.transform(everywhere)[:, :shown] * signs
        for i, panel in enumerate(row):
            top = float(np.abs(first[:, i]).max())
            contours(panel, X, (grid[0], grid[1]), values[:, i].reshape(grid[0].shape), top)
        row[0].set_ylabel(name, fontsize=11)
    for i, panel in enumerate(axes[0]):
        panel.set_title(f"component {i + 1}")
    save(figure, path)
