"""Further passes for centroids where all rows are at hand: Lloyd steps, and better places.

A k-means cell that starts at a single noisy row may never win another one: the row is far from all
others by its own noise, and means are nearer to everything. Lloyd steps leave such a point where it
is. Here a point that hardly anything would miss goes to the largest cell and divides it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kernelstream.backends.arrays import (
    Array,
    as_dense,
    cast,
    like,
    namespace_of,
    sum_by_label,
    take_rows,
    to_float64,
    to_host,
)
from kernelstream.bases.centroids.kmeans import nearest
from kernelstream.kernels.distances import squared_distances

# A point is moved when it has less than this share of the rows of a mean cell, and the squared
# distances of all rows would grow by less than this share of a mean cell's if its rows went to the
# point next to it: rare cells far from the rest stay.
FEW = 0.1
STEP = 0.1  # how far from the mean of a divided cell, towards one of its rows, the new point is


def lloyd_pass(
    points: Array, blocks: Iterable[tuple[Array, np.ndarray | None]], divide: bool
) -> tuple[Array, np.ndarray]:
    """One Lloyd step over all rows; with ``divide`` useless points go to the largest cells.

    Returns the points and the masses of the cells that the rows chose.
    """
    m = int(points.shape[0])
    mass, spread = np.zeros(m), np.zeros(m)
    sums, examples = 0.0 * to_float64(points), to_float64(points) + 0.0
    for X, weights in blocks:
        labels, squared = nearest(X, points)
        first, where = np.unique(labels, return_index=True)
        new = mass[first] == 0.0  # the first row of a cell will do as its example
        rows = to_float64(as_dense(take_rows(X, where[new])))
        for i, cell in enumerate(first[new]):
            examples[int(cell), :] = rows[i, :]
        mass += np.bincount(labels, weights, minlength=m)
        w = 1.0 if weights is None else weights
        spread += np.bincount(labels, w * squared.astype(float), minlength=m)
        sums += sum_by_label(X, labels, m, weights)
    counted = like(np.where(mass > 0, mass, 1.0), sums)[:, None]
    filled = like(mass > 0, sums)[:, None]  # an empty cell keeps its point
    means = namespace_of(sums).where(filled, sums / counted, to_float64(points))
    if divide:
        for useless, large in pairs(to_host(means), mass, spread):
            step = STEP * (examples[large, :] - means[large, :])
            means[useless, :] = means[large, :] + step
            mass[useless] = mass[large] = mass[large] / 2
    return cast(means, points.dtype), mass


def pairs(means: np.ndarray, mass: np.ndarray, spread: np.ndarray) -> list[tuple[int, int]]:
    """Points that are hardly missed, each with a large cell to divide; the largest first."""
    m = len(means)
    if m < 2:
        return []
    between = squared_distances(means, means)
    np.fill_diagonal(between, np.inf)
    missed = mass * between.min(axis=1)
    useless = np.flatnonzero((mass < FEW * mass.mean()) & (missed < FEW * spread.mean()))
    large = np.setdiff1d(np.flatnonzero(spread > 0), useless)
    large = large[np.argsort(-spread[large], kind="stable")]
    return [(int(a), int(b)) for a, b in zip(useless, large, strict=False)]
