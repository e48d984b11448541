"""Few enough rows for KernelPCA: how much faster a little less variance is."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.measuring import Judge, Outcome, Scores, Side, faster, interleaved
from benchmarks.run import Run
from benchmarks.search import Search
from benchmarks.systems import OURS_FITTED, Problem, kernel_pca


class AgainstKernelPCA(Judge):
    """Variance relative to what KernelPCA captures of the same rows."""

    def __init__(self, rows: np.ndarray, scores: Scores):
        self.rows = rows
        self.exact = float(scores(rows).astype(float).var(axis=0).sum())

    def explained(self, scores: Scores) -> float:
        """Not needed for this comparison, and the kernel matrix is not kept."""
        return float("nan")


def beside_kernel_pca(run: Run) -> list[Outcome]:
    """All rows at once, the randomized solver."""
    sizes = run.sizes
    X = run.images.stream[: sizes.batch_rows]
    problem = Problem(run.images.gamma, sizes.batch_components)
    theirs = kernel_pca("randomized")
    judge = AgainstKernelPCA(X, theirs.learn(X, len(X), problem))
    search = Search(OURS_FITTED, X, problem, judge, sizes.batch_target, run.say)
    m = search.smallest(sizes.batch_centroids, sizes.batch_centroids_step)
    run.raw["batch"] = {"ours": [vars(t) for t in search.curve]}
    seconds, scores = interleaved(
        {
            OURS_FITTED.name: partial(OURS_FITTED.learn, X, m, problem),
            theirs.name: partial(theirs.learn, X, len(X), problem),
        },
        run.repeats,
    )
    share = f"≥ {sizes.batch_target} of its variance"
    return [
        faster(
            "batch",
            f"{len(X):,} rows, r = {sizes.batch_components}, {share}",
            Side(
                OURS_FITTED.name,
                seconds[OURS_FITTED.name],
                judge.captured(scores[OURS_FITTED.name]),
                m,
            ),
            Side(theirs.name, seconds[theirs.name], 1.0, len(X)),
            40.0,
        )
    ]
