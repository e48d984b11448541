"""Two pictures: time against captured variance, and time against the number of rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt

OURS = "kernelstream"
# the same colour for a system in both pictures, whatever else was run
COLOURS = {
    OURS: "crimson",
    "Nystroem + IncrementalPCA": "C0",
    "Nystroem + PCA": "C1",
    "RBFSampler + IncrementalPCA": "C2",
    "IncrementalPCA, linear": "0.5",
    "KernelPCA, dense": "C4",
    "KernelPCA, arpack": "C5",
    "KernelPCA, randomized": "C6",
}


def draw(facts: dict[str, Any], folder: Path) -> list[Path]:
    """Draw what was measured; the files that were written."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    if facts["curves"]:
        written.append(folder / "time-captured.png")
        time_against_captured(facts, written[-1])
    if "growth" in facts["raw"]:
        written.append(folder / "time-rows.png")
        time_against_rows(facts["raw"]["growth"], written[-1])
    return written


def _line(name: str) -> dict[str, Any]:
    ours = name == OURS
    return {"color": COLOURS[name], "lw": 2.5 if ours else 1.2, "ms": 4, "zorder": 5 if ours else 2}


def time_against_captured(facts: dict[str, Any], path: Path) -> None:
    """One curve a system, by both measures; the numbers beside the points are sizes.

    Only systems that work in the kernel's feature space capture variance there; what scores explain
    by regression is a milder measure, and it judges all.
    """
    figure, axes = plt.subplots(1, 2, figsize=(11, 5), sharey=True, layout="constrained")
    for axis, measure in zip(axes, ("captured", "explained"), strict=True):
        for name, curve in facts["curves"].items():
            if measure == "captured" and not curve["in_feature_space"]:
                continue
            trials = curve["trials"]
            # Distance to exact kernel PCA: the axis stretches the end where the systems differ.
            missed = [max(1.0 - t[measure], 1e-4) for t in trials]
            axis.plot(missed, [t["seconds"] for t in trials], "o-", label=name, **_line(name))
            for trial in spaced(trials):
                place = (max(1.0 - trial[measure], 1e-4), trial["seconds"])
                offset = dict(textcoords="offset points", xytext=(4, -9), fontsize=6)
                axis.annotate(str(trial["size"]), place, **offset)
        axis.set(xscale="log", yscale="log")
        axis.set_xlabel(f"variance {measure}, relative to exact kernel PCA")
        shares(axis, facts["target"] if measure == "captured" else None)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("seconds for the stream")
    figure.legend(
        *axes[1].get_legend_handles_labels(), fontsize=8, ncols=5, loc="outside lower center"
    )
    figure.suptitle(facts["workload"])
    figure.savefig(path, dpi=110)
    plt.close(figure)


def spaced(trials: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Trials whose labels do not cover each other: sizes a quarter apart."""
    last = 0.0
    for trial in trials:
        if trial["size"] >= 1.25 * last:
            last = trial["size"]
            yield trial


def shares(axis: Any, target: float | None) -> None:
    """Label an axis of what is missing by what is there, and mark the target."""
    low, high = sorted(axis.get_xlim())
    ticks = [0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999]
    shown = [s for s in ticks if low <= 1.0 - s <= high]
    axis.set_xticks([1.0 - s for s in shown], [f"{s:g}" for s in shown])
    axis.minorticks_off()
    axis.invert_xaxis()
    if target is not None:
        axis.axvline(1.0 - target, color="0.6", lw=0.8, ls="--")
        top = axis.get_ylim()[1]
        axis.annotate(f"{target:g} ", (1.0 - target, top), ha="right", va="top", fontsize=8)


def time_against_rows(growth: dict[str, Any], path: Path) -> None:
    """Log–log, with the fitted exponent of each system in the legend."""
    figure, axis = plt.subplots(figsize=(8, 5), layout="constrained")
    for name, curve in growth.items():
        size = "" if curve["size"] is None else f"({curve['size']})"
        label = f"{name}{size}: $n^{{{curve['exponent']:.2f}}}$"
        axis.plot(curve["rows"], curve["seconds"], "o-", label=label, **_line(name))
    axis.set(xscale="log", yscale="log", xlabel="rows", ylabel="seconds")
    axis.set_title("time against the number of rows, and the exponent of the last three points")
    axis.grid(alpha=0.3, which="both")
    axis.legend(fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)
