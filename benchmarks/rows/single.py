"""learn_one beside the same update written in NumPy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from benchmarks import naive
from benchmarks.measuring import Outcome, Side
from benchmarks.run import Run
from kernelstream import StreamingKernelPCA, landmarks, papers, trackers

GAMMA = 1 / 32  # rows of sixteen standard normal numbers: distances of about √32


def row_by_row(run: Run) -> list[Outcome]:
    """Three trackers over a fixed basis.

    The ratio is that of the mean times, with all the work that a block of waiting rows causes when
    it is complete; the median is what a call usually takes.
    """
    sizes = run.sizes
    rng = np.random.default_rng(0)
    d = sizes.single_features
    points = rng.normal(size=(sizes.single_points, d))
    rows = list(rng.normal(size=(sizes.single_calls, d)))
    few = rows[: sizes.single_naive_calls]
    parts: dict[str, tuple[Any, type[naive.PerSample]]] = {
        "Hebbian": (papers.Hebbian(), naive.Hebbian),
        "RLS": (papers.RLS(), naive.RLS),
        "Covariance": (trackers.Covariance(), naive.Covariance),
    }
    size = f"m = {len(points)}, d = {d}, r = {sizes.single_components}"
    outcomes = []
    for name, (tracker, slow) in parts.items():
        ours, theirs = Side("kernelstream", size=len(points)), Side("naive NumPy update")
        medians: dict[str, list[float]] = {"ours": [], "theirs": []}
        for _ in range(run.repeats):
            model = StreamingKernelPCA(
                sizes.single_components,
                gamma=GAMMA / d * 16,
                basis=landmarks.Landmarks(points),
                tracker=tracker,
                random_state=0,
            )
            model.partial_fit(np.array(few))  # compiled, and past the first rows
            twin = slow(points, GAMMA / d * 16, sizes.single_components)
            for side, key, learn, given in (
                (ours, "ours", model.learn_one, rows),
                (theirs, "theirs", twin.learn, few),
            ):
                mean, median = call_times(learn, given)
                side.seconds.append(mean)
                medians[key].append(median)
        title = f"learn_one, {name}, {size}"
        ratio = theirs.best / ours.best
        note = "mean time a row, blocks included"
        outcomes.append(Outcome("single", title, ours, theirs, ratio, 5.0, note=note))
        usual = Side("kernelstream", medians["ours"], size=len(points))
        limit = Side("naive NumPy update", medians["theirs"])
        outcomes.append(
            Outcome(
                "single", f"{title}, median", usual, limit, 1e6 * usual.best, 25.0, "below", "µs"
            )
        )
    return outcomes


def call_times(learn: Callable[[Any], Any], rows: Iterable[Any]) -> tuple[float, float]:
    """Mean and median seconds of a call."""
    clock = time.perf_counter_ns
    times = []
    for row in rows:
        start = clock()
        learn(row)
        times.append(clock() - start)
    return float(np.mean(times)) / 1e9, float(np.median(times)) / 1e9
