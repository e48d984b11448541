"""Time against the number of rows: what each system's exponent is."""

from __future__ import annotations

from functools import partial

from benchmarks.measuring import Outcome, brief_or_once, exponent
from benchmarks.rows.batch import AgainstKernelPCA
from benchmarks.run import Run
from benchmarks.search import Search
from benchmarks.systems import (
    NYSTROEM_IN_MEMORY,
    NYSTROEM_INCREMENTAL,
    OURS,
    Problem,
    System,
    kernel_pca,
)


def time_against_rows(run: Run) -> list[Outcome]:
    """Curves for the second picture; no line of the table.

    Streaming systems get the size at which they capture the target of KernelPCA's variance on the
    largest set that KernelPCA can take; then every number of rows is timed with that size, twice
    where it is short, once elsewhere.
    """
    sizes = run.sizes
    X = run.images.stream
    problem = Problem(run.images.gamma, sizes.batch_components)
    exact = X[: sizes.batch_rows]
    judge = AgainstKernelPCA(exact, kernel_pca("arpack").learn(exact, len(exact), problem))

    def smallest(system: System, grid: tuple[int, ...], step: int) -> int:
        search = Search(system, exact, problem, judge, sizes.batch_target, run.say)
        return search.smallest(grid, step)

    centroids = smallest(OURS, sizes.batch_centroids, sizes.batch_centroids_step)
    landmarks = smallest(NYSTROEM_IN_MEMORY, sizes.batch_landmarks, sizes.landmarks_step)
    plan: list[tuple[System, int, tuple[int, ...]]] = [
        (kernel_pca("dense"), 0, sizes.growth_dense),
        (kernel_pca("arpack"), 0, sizes.growth_iterative),
        (kernel_pca("randomized"), 0, sizes.growth_iterative),
        (NYSTROEM_INCREMENTAL, landmarks, sizes.growth_stream),
        (OURS, centroids, sizes.growth_stream),
    ]
    curves = {}
    for system, size, numbers in plan:
        seconds = []
        for n in numbers:
            spent, _ = brief_or_once(partial(system.learn, X[:n], size, problem))
            seconds.append(spent)
        found = exponent(numbers, seconds)
        run.say(f"{system.name}: time grows like n^{found:.2f}, {seconds[-1]:.2f} s at {n:,} rows")
        curves[system.name] = {
            "size": size or None, "rows": numbers, "seconds": seconds, "exponent": found
        }  # fmt: skip
    run.raw["growth"] = curves
    return []
