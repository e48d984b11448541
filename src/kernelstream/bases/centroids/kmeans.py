"""k-means steps on rows with weights."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kernelstream.backends.arrays import (
    Array,
    as_dense,
    cast,
    concatenate_rows,
    like,
    namespace_of,
    row_norms_squared,
    sum_by_label,
    take_rows,
    to_float64,
    to_host,
)
from kernelstream.backends.draws import pick
from kernelstream.bases.base import Span
from kernelstream.kernels import Kernel
from kernelstream.kernels.distances import squared_distances
from kernelstream.kernels.stationary import Euclidean

# A point is moved when it has less than this share of the rows of a mean cell, and the squared
# distances of all rows would grow by less than this share of a mean cell's if its rows went to the
# point next to it: rare cells far from the rest stay.
FEW = 0.1
STEP = 0.1  # how far from the mean of a divided cell, towards one of its rows, the new point is


def nearest(X: Array, points: Array) -> tuple[np.ndarray, np.ndarray]:
    """Index of the nearest point of each row, and the squared distance to it."""
    points = cast(points, X.dtype)
    smallest = float(np.finfo(float).tiny)  # all points in one place
    squared = squared_distances(X, points, 1.0 / max(spread(points), smallest))
    xp = namespace_of(squared)
    return to_host(xp.argmin(squared, axis=1)), to_host(xp.min(squared, axis=1))


def spread(points: Array) -> float:
    """Mean squared distance of points from their mean: those of interest are not much smaller."""
    xp = namespace_of(points)
    return float(xp.mean(row_norms_squared(points - xp.mean(points, axis=0)[None, :])))


def assign(kernel: Kernel, X: Array, span: Span) -> tuple[np.ndarray, Array]:
    """Nearest point of each row and the kernel block; one product where they share it."""
    X = span.rows(X)
    points = span.prepared(kernel, X)
    if isinstance(kernel, Euclidean):
        scaled = kernel.scaled_distances(X, points)
        labels = to_host(kernel.nearest(scaled))
        return labels, cast(kernel.of_scaled_distances(scaled), X.dtype)
    return nearest(X, span.points)[0], kernel.block(X, points)


def draw_far(
    X: Array, weights: np.ndarray, near: np.ndarray, count: int, rng: np.random.Generator
) -> Array:
    """Rows drawn at once, in proportion to weight times squared distance (``near``)."""
    largest = near.max(initial=0.0)
    share = near / largest if largest > 0 else near  # squared distances of 1e±300 stay in range
    return as_dense(take_rows(X, pick(rng, weights * share, count)))


def seed_points(X: Array, weights: np.ndarray, count: int, rng: np.random.Generator) -> Array:
    """Half of the points at random, half drawn far from those (k-means++ in two rounds)."""
    first = as_dense(take_rows(X, pick(rng, weights, count - count // 2)))
    _, near = nearest(X, first)
    return concatenate_rows([first, draw_far(X, weights, near, count // 2, rng)])


def lloyd(
    X: Array, weights: np.ndarray, points: Array, steps: int, rng: np.random.Generator
) -> Array:
    """Move points to the means of their cells; an empty cell takes a row far from all points."""
    for _ in range(steps):
        labels, near = nearest(X, points)
        mass = np.bincount(labels, weights, minlength=points.shape[0])
        sums = sum_by_label(X, labels, points.shape[0], weights)
        empty = np.flatnonzero(mass == 0)
        if len(empty):
            fresh = draw_far(X, weights, near, len(empty), rng)
            empty = empty[: fresh.shape[0]]
            for row, cell in enumerate(empty):
                sums[int(cell), :] = to_float64(fresh[row, :])
                mass[cell] = 1.0
        filled = np.flatnonzero(mass > 0)  # fewer different rows than points: drop the others
        means = take_rows(sums, filled) / like(mass[filled], sums)[:, None]
        points = cast(means, points.dtype)
    return points


def lloyd_pass(
    points: Array, blocks: Iterable[tuple[Array, np.ndarray | None]], divide: bool
) -> tuple[Array, np.ndarray]:
    """One Lloyd step over all rows; with ``divide`` useless points go to the largest cells.

    A cell that starts at a single noisy row may never win another one: the row is far from all
    others by its own noise, and means are nearer to everything. Lloyd steps leave such a point
    where it is. Here a point that hardly anything would miss divides the largest cell.

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
