"""The pictures of this folder."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from kernelstream import KernelMonitor
from kernelstream.plot import monitor as charts
from reproductions import drawing
from reproductions.tennessee_eastman.experiments import inside, lee, ring
from reproductions.tennessee_eastman.protocol import START, Runs


@drawing.styled()
def ring_picture(n: int, path: Path) -> None:
    """The index over the plane of the ring: high outside and inside."""
    rng = np.random.default_rng(0)
    X, broken = ring(n, rng), inside(100, rng)
    monitor = KernelMonitor(smooth=None, random_state=0).fit(X)
    side = np.linspace(-6, 6, 140)
    x, y = np.meshgrid(side, side)
    grid = np.stack([x.ravel(), y.ravel()], axis=1)
    height = -monitor.score_samples(grid).reshape(x.shape)
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.8))
    shown = axes[0].contourf(x, y, height, levels=20, cmap="Blues")
    axes[0].contour(x, y, height, levels=[-monitor.offset_], colors=drawing.ORANGE)
    axes[0].plot(*X.T, ".", ms=2.5, color=drawing.INK, alpha=0.6)
    axes[0].plot(*broken.T, "x", ms=3.5, color=drawing.ORANGE)
    axes[0].set(title="log M; the limit in orange; × faults inside the ring", aspect="equal")
    figure.colorbar(shown, ax=axes[0])
    train = lee(n, rng)
    curve = KernelMonitor(smooth=None, random_state=0).fit(train)
    new, stepped = lee(n, rng), lee(n, rng, -0.4)
    bins = np.linspace(0, float(-curve.score_samples(stepped).min()) + 0.5, 50)
    for rows, name, colour in (
        (new, "normal", drawing.GREY),
        (stepped, "x₂ − 0.4", drawing.ORANGE),
    ):
        axes[1].hist(-curve.score_samples(rows), bins, color=colour, alpha=0.6, label=name)
    axes[1].axvline(-curve.offset_, color=drawing.INK, lw=1, label="limit, 1 %")
    axes[1].set(title="Lee's process", xlabel="log M", ylabel="rows")
    axes[1].legend()
    drawing.save(figure, path, dpi=110)


@drawing.styled()
def detection_picture(results: dict[str, Any], path: Path) -> None:
    """Detection of every fault, all with the same lags and smoothing."""
    ours, peers = results["detection"]["lags_2"]["smoothed"], results["peers"]
    way = "2 lags, EWMA 0.1"
    shown = {
        "linear PCA, SPE": (peers["linear PCA, SPE"][way], drawing.GREY),
        "linear Mahalanobis": (peers["linear Mahalanobis, our whitened rows"][way], drawing.SKY),
        "KernelMonitor": (ours, drawing.BLUE),
    }
    figure, axis = plt.subplots(figsize=(9, 3))
    for place, (name, (rates, colour)) in enumerate(shown.items()):
        faults = [int(fault) for fault in rates["by_fault"]]
        values = list(rates["by_fault"].values())
        axis.bar(np.array(faults) + 0.27 * (place - 1), values, 0.27, color=colour, label=name)
    axis.set(xlabel="fault", ylabel="rows detected, %", xticks=faults)
    axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    drawing.save(figure, path, dpi=120)


@drawing.styled()
def stream_picture(runs: Runs, path: Path) -> None:
    """Fault 5 as an operator sees it: the charts, and what is behind the event."""
    monitor = KernelMonitor(lags=2, random_state=0).fit(runs["d00"], calibration=runs["d00_te"])
    name = "d05_te" if "d05_te" in runs else max(runs)
    records = copy.copy(monitor).update_many(runs[name])
    figure, axes = plt.subplots(4, 1, sharex=True, figsize=(9, 7.2))
    charts.control_charts(records, monitor, axes)
    for axis in axes:
        axis.axvspan(0, START, color=charts.PALE, lw=0)
    axes[0].set_title("Fault 5: the condenser's cooling water, from row 160 on", loc="left")
    drawing.save(figure, path, dpi=110)


@drawing.styled()
def causes_picture(runs: Runs, path: Path) -> None:
    """A stepped variable among 52: contributions of ten rows."""
    monitor = KernelMonitor(adapt="off", random_state=0).fit(
        runs["d00"], calibration=runs["d00_te"]
    )
    rows = runs["d00_te"][300:310].copy()
    rows[:, 8] += 3 * runs["d00"][:, 8].std()
    figure, axis = plt.subplots(figsize=(5.4, 3))
    charts.contribution_bars(monitor.contributions(rows), ax=axis, most=8)
    axis.set_title("x8 stepped by three deviations", loc="left")
    drawing.save(figure, path, dpi=110)
