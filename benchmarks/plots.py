"""Two pictures: time against captured variance, and time against the number of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt

OURS = "kernelstream"


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


def _style(name: str) -> dict[str, Any]:
    return {"lw": 2.5, "color": "C3", "zorder": 5} if name == OURS else {"lw": 1.2}


def time_against_captured(facts: dict[str, Any], path: Path) -> None:
    """One curve a system; the numbers beside the points are sizes.

    Systems that do not work in the kernel's feature space are dashed: theirs is the share that
    their scores explain, which flatters them beside the others.
    """
    figure, axis = plt.subplots(figsize=(8, 5), layout="constrained")
    for name, curve in facts["curves"].items():
        trials, strict = curve["trials"], curve["in_feature_space"]
        # The axis stretches the end where the systems differ: distance to exact kernel PCA.
        missed = [1.0 - t["captured"] for t in trials]
        seconds = [t["seconds"] for t in trials]
        line, label = ("o-", name) if strict else ("o--", f"{name} (explained)")
        axis.plot(missed, seconds, line, ms=4, label=label, **_style(name))
        for trial, x, y in zip(trials, missed, seconds, strict=True):
            axis.annotate(
                str(trial["size"]), (x, y), textcoords="offset points", xytext=(4, 4), fontsize=6
            )
    target = facts["target"]
    axis.axvline(1.0 - target, color="0.6", lw=0.8, ls="--")
    axis.set(xscale="log", yscale="log", ylabel="seconds for the stream")
    axis.set(xlabel="variance captured, relative to exact kernel PCA", title=facts["workload"])
    low, high = sorted(axis.get_xlim())
    shares = [0.3, 0.5, 0.7, 0.8, 0.9, 0.95, target, 0.98, 0.99, 0.995, 0.999]
    shown = [s for s in sorted(set(shares)) if low <= 1.0 - s <= high]
    axis.set_xticks([1.0 - s for s in shown], [f"{s:g}" for s in shown])
    axis.minorticks_off()
    axis.invert_xaxis()
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def time_against_rows(growth: dict[str, Any], path: Path) -> None:
    """Log–log, with the fitted exponent of each system in the legend."""
    figure, axis = plt.subplots(figsize=(8, 5), layout="constrained")
    for name, curve in growth.items():
        size = "" if curve["size"] is None else f"({curve['size']})"
        label = f"{name}{size}: n^{curve['exponent']:.2f}"
        axis.plot(curve["rows"], curve["seconds"], "o-", ms=4, label=label, **_style(name))
    axis.set(xscale="log", yscale="log", xlabel="rows", ylabel="seconds")
    axis.set_title("time against the number of rows, and the exponent of the last three points")
    axis.grid(alpha=0.3, which="both")
    axis.legend(fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)
