"""One figure for each step of the argument in the notes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.lines import Line2D

from reproductions.drawing import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    save,
    styled,
    subplots,
)

COLOURS = (BLUE, ORANGE, GREEN, PURPLE)


@styled()
def growth(t: np.ndarray, norms: dict[str, np.ndarray], lam: float, path: Path) -> None:
    """Length of the weights under the three rules."""
    figure, axis = subplots(figsize=(7.2, 3.8))
    names = {"hebb": "plain Hebb", "oja": "Oja", "normalised": "normalised at each step"}
    for (rule, name), colour in zip(names.items(), (ORANGE, BLUE, SKY), strict=True):
        low, middle, high = np.percentile(norms[rule], [5, 50, 95], axis=1)
        axis.fill_between(t, low, high, color=colour, alpha=0.2, lw=0)
        axis.plot(t, middle, "--" if rule == "normalised" else "-", color=colour, label=name, lw=2)
    half = t > t[-1] / 3
    anchor = np.median(norms["hebb"][-1])
    line = anchor * np.exp(lam * (t[half] - t[-1]))
    axis.plot(t[half], 2.5 * line, color=INK, lw=1, ls=":", label="slope λ₁")
    axis.set(yscale="log", xlim=(0, t[-1]), xlabel="time ηn", ylabel="|w|")
    axis.set_title("Hebb grows like exp(λ₁t), Oja stays at 1", loc="left")
    axis.legend(loc="upper left")
    save(figure, path)


@styled()
def modes(t: np.ndarray, path_of_modes: np.ndarray, exact: np.ndarray, path: Path) -> None:
    """The modes θ_k of the rule and of the differential equation."""
    figure, axis = subplots(figsize=(7.2, 4))
    for k, colour in enumerate(COLOURS):
        low, high = np.percentile(path_of_modes[:, :, k], [5, 95], axis=1)
        axis.fill_between(t, low, high, color=colour, alpha=0.18, lw=0)
        axis.plot(t, path_of_modes[:, 0, k], color=colour, lw=0.8)
        axis.plot(t, exact[:, k], color=INK, lw=1.3, ls=(0, (4, 2)))
        label = f"θ$_{k + 1}$"
        axis.annotate(
            label,
            (t[-1], exact[-1, k] + (0.05 * (2.5 - k) if k else 0)),
            xytext=(5, 0),
            textcoords="offset points",
            color=colour,
            va="center",
            annotation_clip=False,
        )
    axis.set(xlim=(0, t[-1]), xlabel="time ηn", ylabel="θ$_k$ = q$_k$·w")
    axis.set_title("Oja's rule follows the differential equation", loc="left")
    axis.legend(
        handles=[
            Line2D([], [], color=GREY, lw=0.8, label="one run"),
            Line2D([], [], color=GREY, lw=7, alpha=0.3, label="nine of ten runs"),
            Line2D([], [], color=INK, lw=1.3, ls=(0, (4, 2)), label="differential equation"),
        ],
        loc="center right",
    )
    save(figure, path)


@styled()
def rates(
    t: np.ndarray,
    alpha: np.ndarray,
    exact: np.ndarray,
    steps: tuple[float, ...],
    deviations: list[float],
    path: Path,
) -> None:
    """The other modes die at the predicted rates; smaller steps are nearer to the flow."""
    figure, (left, right) = subplots(1, 2, figsize=(10, 3.9))
    for k, colour in enumerate(COLOURS[1:], 1):
        left.plot(t, alpha[:, k - 1], color=colour, lw=1.2, label=f"|α$_{k + 1}$|")
        left.plot(t, exact[:, k] / exact[:, 0], color=INK, lw=1.1, ls=(0, (4, 2)))
    left.set(yscale="log", xlim=(0, t[-1]), xlabel="time ηn", ylim=(1e-4, 5))
    left.set_title("α$_k$ = θ$_k$/θ$_1$ dies like exp(−(λ$_1$ − λ$_k$)t)", loc="left")
    left.legend(loc="upper right")
    right.plot(steps, deviations, "o", color=BLUE, ms=6)
    middle = len(steps) // 2
    line = deviations[middle] * np.sqrt(np.array(steps) / steps[middle])
    right.plot(steps, line, color=INK, lw=1, ls=":", label="√η")
    right.set(xscale="log", yscale="log", xlabel="step η", ylabel="largest distance to the flow")
    right.set_title("Distance of the rule to the differential equation", loc="left")
    right.legend(loc="upper left")
    save(figure, path)


@styled()
def eigenvector(
    n: np.ndarray, cosines: np.ndarray, powers: np.ndarray, lam: float, path: Path
) -> None:
    """η = 1/n: w goes to q_1 or to −q_1, the variance of the output to λ_1."""
    figure, (left, right) = subplots(1, 2, figsize=(10, 3.9))
    for i in range(min(60, cosines.shape[1])):
        colour = BLUE if cosines[-1, i] > 0 else ORANGE
        left.plot(n, cosines[:, i], color=colour, lw=0.5, alpha=0.6)
    left.set(xscale="log", xlim=(n[0], n[-1]), ylim=(-1.05, 1.05), xlabel="rows seen n")
    left.set(ylabel="cosine of w and q$_1$")
    left.set_title("w → q$_1$ or w → −q$_1$", loc="left")
    low, middle, high = np.percentile(powers, [5, 50, 95], axis=1)
    right.fill_between(n, low, high, color=BLUE, alpha=0.2, lw=0, label="nine of ten runs")
    right.plot(n, middle, color=BLUE, label="median")
    right.axhline(lam, color=INK, lw=1, ls=":", label="λ$_1$")
    right.set(xscale="log", xlim=(n[0], n[-1]), ylim=(0, None), xlabel="rows seen n")
    right.set_title("Running variance of the output y", loc="left")
    right.legend(loc="upper right")
    save(figure, path)
