"""The pictures of the front page and of the recipes: ``python docs/figures/draw.py``.

Those of the benchmarks and of the certificate are drawn by ``benchmarks``.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from kernelstream import StreamingKernelPCA

FIGURES = Path(__file__).parent
N_ROWS, N_POINTS, GAMMA = 200_000, 60, 1.5


def spiral(rng: np.random.Generator, n: int) -> np.ndarray:
    t = np.sqrt(rng.uniform(2.2, 110, size=n))
    curve = 0.3 * t[:, None] * np.column_stack([np.cos(t), np.sin(t)])
    return curve + 0.1 * rng.normal(size=(n, 2))


def front(dark: bool) -> None:
    """A stream of points on a spiral, the points that are kept, and three components."""
    rng = np.random.default_rng(0)
    model = StreamingKernelPCA(8, gamma=GAMMA, basis=N_POINTS, random_state=0)
    for _ in range(N_ROWS // 1000):
        model.partial_fit(spiral(rng, 1000))
    ink, accent = ("#e8e8ea", "#ff8a93") if dark else ("#222222", "#d1495b")
    rows = spiral(rng, 4000)
    x = np.linspace(-3.4, 3.4, 240)
    plane = np.column_stack([a.ravel() for a in np.meshgrid(x, x)])
    scores = model.transform(plane).T.reshape(-1, len(x), len(x))

    figure, axes = plt.subplots(1, 4, figsize=(11.2, 3.15), layout="constrained")
    axes[0].plot(*rows.T, ".", markersize=1.2, color=ink, alpha=0.35)
    axes[0].plot(*model.basis_points_.T, "o", markersize=4, color=accent)
    axes[0].set_title(f"{N_ROWS:,} rows, {N_POINTS} points kept", color=ink, fontsize=11)
    for i, ax in enumerate(axes[1:]):
        most = np.abs(scores[i]).max()
        colours = "PuOr_r" if not dark else "berlin"
        ax.contourf(x, x, scores[i], np.linspace(-most, most, 21), cmap=colours)
        ax.plot(*rows[:1500].T, ".", markersize=0.8, color=ink, alpha=0.4)
        ax.set_title(f"component {i + 1}", color=ink, fontsize=11)
    for ax in axes:
        ax.set(xlim=(-3.4, 3.4), ylim=(-3.4, 3.4), aspect="equal")
        ax.set_axis_off()
    name = "front-dark.png" if dark else "front-light.png"
    figure.savefig(FIGURES / name, dpi=150, transparent=True)
    plt.close(figure)


def of_page(page: str, picture: str) -> None:
    """Run the code of a page and keep a picture that it writes."""
    text = (FIGURES.parent / page).read_text()
    names: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        here = Path.cwd()
        os.chdir(folder)
        for code in re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
            exec(compile(code, page, "exec"), names)
        shutil.copy(picture, FIGURES / picture)
        os.chdir(here)


if __name__ == "__main__":
    front(dark=False)
    front(dark=True)
    of_page("recipes/eigenfaces.md", "walk.png")
