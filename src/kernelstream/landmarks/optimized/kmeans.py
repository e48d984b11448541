"""Weighted k-means: k-means++ seeds, Lloyd iterations, nearest landmarks, empty clusters."""

from __future__ import annotations

import numpy as np

from kernelstream.arrays.draws import pick
from kernelstream.arrays.namespaces import (
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
from kernelstream.arrays.threads import cut, in_threads
from kernelstream.kernels.distances import squared_distances


def kmeans(
    X: Array,
    n_points: int,
    steps: int,
    rng: np.random.Generator,
    weights: np.ndarray | None = None,
) -> Array:
    """Cluster centers of rows: k-means++ in two rounds, then steps of Lloyd's algorithm.

    The result depends on the rows and the generator only, not on the number of threads.

    Parameters
    ----------
    X : array of shape (n, d)
        The rows.
    n_points : int
        Number of centers; fewer are returned if fewer rows differ.
    steps : int
        Steps of Lloyd's algorithm.
    rng : numpy.random.Generator
        What the first centers are drawn with.
    weights : array of shape (n,), optional
        Weights of the rows.

    Returns
    -------
    array of shape (n_points, d)

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import landmarks
    >>> X = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> np.sort(landmarks.kmeans(X, 2, 5, np.random.default_rng(0)), axis=0)
    array([[ 0.5],
           [10.5]])
    """
    given = np.ones(int(X.shape[0])) if weights is None else weights
    return lloyd(X, given, seed_points(X, given, n_points, rng), steps, rng)


def nearest(X: Array, points: Array) -> tuple[np.ndarray, np.ndarray]:
    """Index of the nearest point of each row, and the squared distance to it."""
    points = cast(points, X.dtype)
    smallest = float(np.finfo(float).tiny)  # all points in one place
    resolution = 1.0 / max(spread(points), smallest)

    def of_part(at: slice) -> tuple[np.ndarray, np.ndarray]:
        squared = squared_distances(X[at, :], points, resolution)
        xp = namespace_of(squared)
        return to_host(xp.argmin(squared, axis=1)), to_host(xp.min(squared, axis=1))

    found = in_threads(of_part, cut(X, int(points.shape[0])))
    labels, near = zip(*found, strict=True)
    return np.concatenate(labels), np.concatenate(near)


def spread(points: Array) -> float:
    """Mean squared distance of points from their mean: those of interest are not much smaller."""
    xp = namespace_of(points)
    return float(xp.mean(row_norms_squared(points - xp.mean(points, axis=0)[None, :])))


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
