"""``make demo``: kernel PCA of a stream of digits, beside the exact one, and what it is good for.

1. 1,497 of scikit-learn's 1,797 digit images (8×8 pixels in [0, 1]) stream by once, in blocks.
2. Exact kernel PCA of the same rows, which needs them all at once, is computed beside it.
3. The other 300 digits get Gaussian noise and are cleaned in three ways, all learned from the
   clean streamed rows. Linear PCA: projection on its components and back, their number chosen on
   these very 300 (the best it can do). Linear Wiener filter: every principal direction shrunk by
   its signal-to-noise ratio, the noise variance given (the best linear map). kernelstream:
   ``inverse_transform(transform(x))``, with GAMMA and N_COMPONENTS chosen beforehand by the error
   on 300 of the streamed rows, for N_POINTS and NOISE as they stand below.

Kernel PCA beats linear PCA by a third here, and most of that is the shrinkage which linear PCA
lacks: it is a few per cent ahead of the Wiener filter at this noise, about 15 % at less (0.2, 0.3)
and behind it at more (0.5, 0.6).

It prints a table and writes demo.png.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import patheffects
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, KernelPCA
from threadpoolctl import threadpool_limits

from kernelstream import StreamingKernelPCA, metrics

N_STREAMED, BLOCK = 1497, 50
GAMMA, N_POINTS, N_COMPONENTS = 0.085, 100, 80
NOISE, SEED = 0.4, 1

INK, QUIET, ACCENT = "#222222", "#8a8f98", "#d1495b"


def main() -> None:
    console = Console()
    images, labels = load_digits(return_X_y=True)
    images = images / 16
    rng = np.random.default_rng(SEED)
    order = rng.permutation(len(images))
    streamed, held_out = images[order[:N_STREAMED]], images[order[N_STREAMED:]]
    labels, labels_held_out = labels[order[:N_STREAMED]], labels[order[N_STREAMED:]]
    noisy = held_out + NOISE * rng.normal(size=held_out.shape)

    exact = KernelPCA(N_COMPONENTS, kernel="rbf", gamma=GAMMA).fit(streamed)
    exact_variance = exact.eigenvalues_ / N_STREAMED
    model, seconds = stream(streamed, console)
    share = metrics.captured_variance(model, streamed)

    linear, n_linear = best_linear_pca(streamed, noisy, held_out)
    wiener = wiener_filter(streamed, noisy)
    ours = model.inverse_transform(model.transform(noisy))
    errors = [np.mean((cleaned - held_out) ** 2) for cleaned in (noisy, linear, wiener, ours)]

    table = Table(title="A stream of digits", title_style="bold", show_header=False)
    table.add_row("rows per second, one thread", f"{N_STREAMED / seconds:,.0f}")
    table.add_row("rows seen / basis points kept", f"{N_STREAMED:,} / {len(model.basis_points_)}")
    table.add_row(f"variance in {N_COMPONENTS} components, exact = 1", f"{share:.3f}")
    table.add_row("variance of the first components", numbers(model.explained_variance_[:4]))
    table.add_row("the same, exact kernel PCA", numbers(exact_variance[:4]))
    table.add_section()
    table.add_row(f"error (MSE) of {len(noisy)} unseen noisy digits", f"{errors[0]:.4f}")
    table.add_row(f"… after linear PCA, {n_linear} components (its best)", f"{errors[1]:.4f}")
    table.add_row("… after the Wiener filter, noise given", f"{errors[2]:.4f}")
    table.add_row("… after kernelstream", f"[bold]{errors[3]:.4f}[/bold]")
    console.print(table)

    figure = picture(
        digits=[held_out, noisy, linear, wiener, ours],
        examples=[int(np.flatnonzero(labels_held_out == digit)[0]) for digit in range(10)],
        errors=errors,
        n_linear=n_linear,
        scores=model.transform(streamed)[:, :2],
        labels=labels,
        variances=(model.explained_variance_, exact_variance, share),
    )
    path = Path("demo.png")
    figure.savefig(path, dpi=160, bbox_inches="tight", pad_inches=0.15)
    console.print(f"Picture: {path.resolve()}")


def stream(rows: np.ndarray, console: Console) -> tuple[StreamingKernelPCA, float]:
    """One pass in blocks; the seconds are those in the model, with the components at the end."""
    model = StreamingKernelPCA(
        n_components=N_COMPONENTS, kernel="rbf", gamma=GAMMA, basis=N_POINTS, random_state=0
    )
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    # Matrices this small gain nothing from a second thread, and lose much on a busy machine.
    with threadpool_limits(1), Progress(*columns, console=console) as progress:
        task = progress.add_task("rows seen once", total=len(rows))
        seconds = 0.0
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK]
            begin = perf_counter()
            model.partial_fit(block)
            seconds += perf_counter() - begin
            progress.advance(task, len(block))
        begin = perf_counter()
        model.transform(rows[:1])
        seconds += perf_counter() - begin
    return model, seconds


def best_linear_pca(
    rows: np.ndarray, noisy: np.ndarray, clean: np.ndarray
) -> tuple[np.ndarray, int]:
    """Noisy images projected on the number of principal components that is best for them."""
    pca = PCA().fit(rows)
    projections = []
    for r in range(1, rows.shape[1] + 1):
        W = pca.components_[:r]
        projections.append(pca.mean_ + (noisy - pca.mean_) @ W.T @ W)
    best = int(np.argmin([np.mean((p - clean) ** 2) for p in projections]))
    return projections[best], best + 1


def wiener_filter(rows: np.ndarray, noisy: np.ndarray) -> np.ndarray:
    """The linear map of least expected error, for noise of known variance."""
    mean = rows.mean(axis=0)
    lam, U = np.linalg.eigh(np.cov(rows.T))
    lam = np.maximum(lam, 0)
    return mean + (noisy - mean) @ (U * (lam / (lam + NOISE**2))) @ U.T


def numbers(values: np.ndarray) -> str:
    return "  ".join(f"{value:.4f}" for value in values)


# --- the picture -----------------------------------------------------------------------------


def picture(digits, examples, errors, n_linear, scores, labels, variances) -> plt.Figure:
    plt.rcParams.update(
        {
            "font.size": 10,
            "axes.titlesize": 11,
            "text.color": INK,
            "axes.labelcolor": INK,
            "axes.edgecolor": QUIET,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "xtick.color": QUIET,
            "ytick.color": QUIET,
        }
    )
    figure = plt.figure(figsize=(11, 10.6), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=[1.3, 1], hspace=0.04)
    figure.suptitle(
        f"Kernel PCA of {N_STREAMED:,} digits, each seen once, kept in {N_POINTS} points",
        fontsize=15,
        fontweight="bold",
        x=0.012,
        ha="left",
    )
    names = [
        "clean, never seen",
        f"with noise\nerror {errors[0]:.4f}",
        f"linear PCA, at its best\n{n_linear} components\nerror {errors[1]:.4f}",
        f"linear Wiener filter\nnoise variance given\nerror {errors[2]:.4f}",
        f"kernelstream\n{N_COMPONENTS} components\nerror {errors[3]:.4f}",
    ]
    draw_digits(top, digits, examples, names)
    left, right = bottom.subplots(1, 2, width_ratios=[1.15, 1])
    draw_scores(left, scores, labels)
    draw_variances(right, *variances)
    return figure


def draw_digits(figure, digits, examples, names) -> None:
    axes = figure.subplots(len(digits), 10, gridspec_kw={"wspace": 0.03, "hspace": 0.03})
    for row, images, name in zip(axes, digits, names, strict=True):
        ours = name.startswith("kernelstream")
        for axis, i in zip(row, examples, strict=True):
            axis.imshow(images[i].reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set(visible=True, color=ACCENT if ours else "#d5d8dc", lw=0.8)
        row[0].set_ylabel(
            name,
            rotation=0,
            ha="right",
            va="center",
            labelpad=12,
            color=ACCENT if ours else INK,
            fontweight="bold" if ours else "normal",
            linespacing=1.4,
        )


def draw_scores(axis, scores, labels) -> None:
    colours = plt.get_cmap("tab10")
    order = np.random.default_rng(0).permutation(len(scores))  # no class lies on top of another
    axis.scatter(*scores[order].T, s=9, c=colours(labels[order]), alpha=0.55, lw=0)
    for digit in range(10):
        axis.annotate(
            str(digit),
            np.median(scores[labels == digit], axis=0),
            ha="center",
            va="center",
            fontsize=19,
            fontweight="bold",
            color=colours(digit),
            path_effects=[patheffects.withStroke(linewidth=3.5, foreground="white")],
        )
    axis.set_title("The first two components (digits coloured afterwards)", loc="left")
    axis.set(xlabel="component 1", ylabel="component 2")


def draw_variances(axis, ours, exact, share) -> None:
    number = np.arange(1, len(ours) + 1)
    axis.plot(number, exact, color="#b9bec6", lw=6, solid_capstyle="round", label="exact, all rows")
    axis.plot(number, ours, "o", ms=3.2, color=ACCENT, label=f"kernelstream, {N_POINTS} points")
    axis.set_yscale("log")
    axis.set_title(f"Variance of the components: {share:.1%} of the exact sum", loc="left")
    axis.set(xlabel="component", xticks=[1, *range(20, len(ours) + 1, 20)])
    axis.legend(frameon=False, loc="upper right")


if __name__ == "__main__":
    main()
