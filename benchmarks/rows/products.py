"""partial_fit beside the matrix products that it cannot avoid."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.measuring import Outcome, Side, interleaved, within
from benchmarks.run import Run
from benchmarks.systems import OUR_ROWS, Problem
from kernelstream import StreamingKernelPCA, landmarks


def beside_bare_products(run: Run) -> list[Outcome]:
    """A fixed basis, and the default one with its k-means, over the whole stream."""
    X = run.images.stream
    outcomes = []
    for m in run.sizes.product_points:
        points = X[np.random.default_rng(2).choice(len(X), m, replace=False)]
        makers: dict[str, Callable[[], Any]] = {
            "fixed": partial(landmarks.Landmarks, points),
            "centroids": partial(landmarks.Centroids, m),
        }
        problem = run.problem
        works: dict[str, Callable[[], Any]] = {
            name: partial(learned, X, problem, maker) for name, maker in makers.items()
        }
        # the blocks and the rank that the model really has, from the first rows
        held = learned(X[:OUR_ROWS], problem, makers["fixed"]).stream_
        assert held.state is not None
        block, rank = held.batch_size, int(held.state.moments.total.shape[0])
        works["products"] = partial(bare_products, X, points, block, rank)
        seconds, _ = interleaved(works, run.repeats)
        floor = Side(f"bare products, blocks of {block}", seconds["products"], size=m)
        for name, words in (("fixed", "given landmarks"), ("centroids", "default centroids")):
            title = f"partial_fit, m = {m:,}, {words}, {len(X):,} rows"
            ours = Side("kernelstream", seconds[name], size=m)
            outcomes.append(within("products", title, ours, floor, 1.3))
    return outcomes


def learned(X: np.ndarray, problem: Problem, basis: Callable[[], Any]) -> StreamingKernelPCA:
    """The whole stream, without a query."""
    model = StreamingKernelPCA(
        problem.components, gamma=problem.gamma, basis=basis(), random_state=0
    )
    for start in range(0, len(X), OUR_ROWS):
        model.partial_fit(X[start : start + OUR_ROWS])
    return model


def bare_products(X: np.ndarray, points: np.ndarray, block: int, rank: int) -> np.ndarray:
    """``x Dᵀ``, ``K F`` and ``Zᵀ Z`` of every block, in the type of the rows, and nothing else.

    NumPy sees that the last one is symmetric and computes half of it.
    """
    factor = np.full((len(points), rank), 1.0 / rank, dtype=X.dtype)
    moments = np.zeros((rank, rank), dtype=X.dtype)
    for start in range(0, len(X), block):
        K = X[start : start + block] @ points.T
        Z = K @ factor
        moments = Z.T @ Z
    return moments
