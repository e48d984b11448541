"""The figures of the paper, in its arrangement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.lines import Line2D

from reproductions.drawing import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    bare,
    save,
    styled,
    subplots,
)

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY)
VALUES = LinearSegmentedColormap.from_list("values", [BLUE, "#FFFFFF", ORANGE])

Functions = list[tuple[str, Callable[[np.ndarray], np.ndarray], np.ndarray]]


@styled()
def functions(X: np.ndarray, rows: Functions, path: Path) -> None:
    """Figure 1: a row for each algorithm, a column for each function.

    The uncentred version has one function more, the first, which stands in a column of its own, so
    that functions which should look alike stand below each other.
    """
    r = rows[0][1](X).shape[1]
    low, high = X.min(axis=0) - 0.25, X.max(axis=0) + 0.25
    grid = np.meshgrid(*(np.linspace(a, b, 120) for a, b in zip(low, high, strict=True)))
    G = np.column_stack([g.ravel() for g in grid])
    figure, axes = subplots(
        len(rows), r + 1, figsize=(10, 1.42 * len(rows) + 0.55), sharex=True, sharey=True
    )
    figure.get_layout_engine().set(h_pad=0.02, w_pad=0.02, hspace=0.02, wspace=0.01)
    reference = rows[0][1](X)
    for i, (name, transform, points) in enumerate(rows):
        Y, values = transform(X), transform(G)
        extra = Y.shape[1] - r
        for j, axis in enumerate(axes[i]):
            bare(axis)
            axis.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
            k = j - 1 + extra  # which function stands here
            if k < 0:
                dots(axis, X, points)
                continue
            # Functions have no sign of their own: that of batch kernel PCA, else a positive sum.
            like = reference[:, j - 1] if j else np.ones(len(X))
            sign = 1.0 if Y[:, k] @ like >= 0 else -1.0
            contours(axis, grid, sign * values[:, k].reshape(grid[0].shape))
            if i == 0:
                axis.plot(*X.T, ".", color=INK, ms=1.2, alpha=0.35)
            if points is not X:
                axis.plot(*points.T, "o", mfc="none", mec="#B00020", mew=1.0, ms=4)
            title = f"ψ$_{k + 1}$" if i == 0 or extra else None
            if title:
                axis.set_title(title, pad=3)
        axes[i, 0].set_ylabel(name, rotation=0, ha="right", va="center", labelpad=8, fontsize=9.5)
    save(figure, path, dpi=110)


def dots(axis: Any, X: np.ndarray, points: np.ndarray) -> None:
    """The data, and the points of the model where it has fewer."""
    axis.plot(*X.T, ".", color=BLUE, ms=1.6, alpha=0.6)
    if points is not X:
        axis.plot(*points.T, "o", mfc="none", mec="#B00020", mew=1.1, ms=4.5)


def contours(axis: Any, grid: tuple[np.ndarray, ...], values: np.ndarray) -> None:
    top = float(np.abs(values).max())
    levels = np.linspace(-top, top, 16)
    axis.contourf(*grid, values, levels=levels, cmap=VALUES, alpha=0.55)
    axis.contour(*grid, values, levels=levels, colors=INK, linewidths=0.45, linestyles="solid")


@styled()
def evolution(curve: Any, lam: np.ndarray, path: Path) -> None:
    """Figure 2: variance explained by each function, and by all; model increments are stars."""
    figure, axis = subplots(figsize=(8.6, 4.4))
    variance_curves(axis, curve, lam)
    axis.plot(curve.admissions, np.full(len(curve.admissions), -0.025), "*", color=INK, ms=6.5)
    axis.set(xlabel="rows seen", ylabel="variance over all rows (eq. 23)")
    axis.set(xlim=(-0.01 * curve.times[-1], curve.times[-1]), ylim=(-0.045, None))
    axis.set_title("Variance explained by each function, and by all of them", loc="left")
    label_functions(axis, curve, lam)
    star = Line2D([], [], color=INK, marker="*", ms=6.5, ls="", label="a point joins the model")
    axis.legend(
        handles=[*line_kinds(), star],
        loc="center",
        bbox_to_anchor=(0.55, 0.58),
        ncols=2,
    )
    save(figure, path)


def line_kinds() -> list[Line2D]:
    return [
        Line2D([], [], color=INK, label="all functions, sum"),
        Line2D([], [], color=INK, ls=":", label="all functions, in their span"),
        Line2D([], [], color=GREY, ls="--", label="batch kernel PCA"),
    ]


def variance_curves(axis: Any, curve: Any, lam: np.ndarray) -> None:
    for level in (*lam, lam.sum()):
        axis.axhline(level, color=GREY, ls="--", lw=0.8)
    for j, colour in zip(range(curve.variances.shape[1]), COLOURS, strict=True):
        axis.plot(curve.times, curve.variances[:, j], color=colour, lw=1.1)
    axis.plot(curve.times, curve.variances.sum(axis=1), color=INK, lw=1.3)
    axis.plot(curve.times, curve.span, color=INK, lw=1.1, ls=":")


def label_functions(axis: Any, curve: Any, lam: np.ndarray) -> None:
    """Names at the right, at the height of batch kernel PCA or as near as they have room."""
    heights = lam.copy()
    for j in reversed(range(len(lam) - 1)):
        heights[j] = max(heights[j], heights[j + 1] + 0.035)
    for j, (height, colour) in enumerate(zip(heights, COLOURS, strict=True), 1):
        axis.annotate(
            f"ψ$_{j}$",
            (curve.times[-1], height),
            xytext=(5, 0),
            textcoords="offset points",
            color=colour,
            va="center",
            annotation_clip=False,
        )


@styled()
def several_taus(curves: dict[float, Any], lam: np.ndarray, path: Path) -> None:
    """Figure 3: the same for several convergence parameters τ."""
    figure, axes = subplots(2, 2, figsize=(10, 6.4), sharex=True, sharey=True)
    for axis, (tau, curve) in zip(axes.flat, curves.items(), strict=True):
        variance_curves(axis, curve, lam)
        label_functions(axis, curve, lam)
        power = round(np.log10(tau))
        axis.set_title(f"τ = {f'10$^{power}$' if power > 1 else 10}", loc="left")
        axis.set(xlim=(-0.01 * curve.times[-1], curve.times[-1]), ylim=(0, None))
    for axis in axes[-1]:
        axis.set_xlabel("rows seen")
    for axis in axes[:, 0]:
        axis.set_ylabel("variance over all rows (eq. 23)")
    figure.legend(handles=line_kinds(), loc="outside upper center", ncols=3)
    save(figure, path)


@styled()
def digits_variance(curve: Any, best: np.ndarray, path: Path) -> None:
    """Figure 4: variance of the functions on digits, and of all together."""
    figure, (left, right) = subplots(1, 2, figsize=(11, 4.4), width_ratios=[1, 1.25])
    left.plot(curve.times, curve.variances.sum(axis=1), color=INK, label="sum (eq. 23)")
    left.plot(curve.times, curve.span, color=INK, ls=":", label="in their span")
    label = "exact PCA in the same dictionary"
    left.axhline(best.sum(), color=GREY, ls="--", lw=1.2, label=label)
    left.set(xlabel="images seen", ylabel="variance over all images", ylim=(0, None))
    left.set_title(f"All {len(best)} functions", loc="left")
    left.legend(loc="lower right")
    for j, colour in shaded(curve.variances.shape[1]):
        right.plot(curve.times, curve.variances[:, j], color=colour, lw=0.9)
    floor = np.full(len(curve.admissions), 2.2e-4)
    right.plot(curve.admissions, floor, "|", color=INK, ms=7, mew=0.7)
    right.set(xlabel="images seen", yscale="log", ylim=(1.9e-4, 0.03))
    right.set_title(
        f"Each function; below, the {curve.orders[-1]} images that joined the model", loc="left"
    )
    for axis in (left, right):
        axis.set_xlim(-0.01 * curve.times[-1], curve.times[-1])
    save(figure, path)


@styled()
def digits_mean(curve: Any, path: Path) -> None:
    """Figure 5: the mean of each function over all images."""
    figure, axis = subplots(figsize=(8.6, 3.8))
    for j, colour in shaded(curve.means.shape[1]):
        axis.plot(curve.times, curve.means[:, j], color=colour, lw=0.9)
    axis.axhline(0, color=INK, lw=0.8)
    top = 1.05 * np.abs(curve.means[len(curve.times) // 50 :]).max()
    axis.set(xlabel="images seen", ylabel="mean over all images", ylim=(-top, top))
    axis.set_xlim(-0.01 * curve.times[-1], curve.times[-1])
    title = f"Mean of each of the {curve.means.shape[1]} functions, the first ones dark"
    axis.set_title(title, loc="left")
    save(figure, path)


@styled()
def denoised(rows: dict[str, np.ndarray], count: int, path: Path) -> None:
    """Figure 6: the same images in every row, cleaned in another way."""
    figure, axes = subplots(len(rows), 1, figsize=(6.4, 0.98 * len(rows)))
    for axis, (name, images) in zip(axes, rows.items(), strict=True):
        strip = np.hstack(list(images[:count].reshape(count, 28, 28)))
        axis.imshow(strip, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axis.set_title(name, loc="left", fontsize=8)
        axis.set_axis_off()
    save(figure, path)


def shaded(r: int) -> Iterator[tuple[int, Any]]:
    """The functions from the last to the first, and a blue that darkens towards the first."""
    shades = LinearSegmentedColormap.from_list("order", ["#003A5D", BLUE, "#BFD9EA"])
    for j in reversed(range(r)):
        yield j, shades(j / max(1, r - 1))
