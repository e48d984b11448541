"""Where centroids go next: means of cells, new places for the least useful, two models joined."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kernelstream.backends.arrays import (
    Array,
    as_dense,
    cast,
    concatenate_rows,
    like,
    namespace_of,
    sum_by_label,
    take_rows,
    to_float64,
    to_host,
)
from kernelstream.bases.base import Span, distinct_rows
from kernelstream.bases.centroids.kmeans import draw_far, lloyd, nearest

RECENT_MASS = 0.10  # share of all rows that the recent ones count for when the stream has moved
MERGE_STEPS = 10  # weighted Lloyd steps on the points of two models
MOVED_STEPS = 3  # Lloyd steps when the stream has moved


@dataclass(frozen=True)
class Cells:
    """The points, and mass and sum Σ w x of the rows nearest to each."""

    span: Span
    mass: np.ndarray
    sums: Array  # float64

    @property
    def means(self) -> Array:
        """Present means of the cells; one that is empty, or as good as forgotten, keeps its point.

        A mass that forgetting has left below the normal numbers has lost its digits.
        """
        xp = namespace_of(self.sums)
        least = np.finfo(float).tiny
        counted = np.maximum(self.mass, least)
        means = xp.where(
            like(self.mass > least, self.sums)[:, None],
            self.sums / like(counted, self.sums)[:, None],
            to_float64(self.span.points),
        )
        return cast(means, self.span.points.dtype)


def sums_of(points: Array, mass: np.ndarray) -> Array:
    """Σ w x of cells with these means and masses, float64."""
    wide = to_float64(points)
    return wide * like(mass, wide)[:, None]


def new_points(
    cells: Cells, recent: Array, rng: np.random.Generator, m: int, share: float, moved: bool
) -> tuple[Array, np.ndarray]:
    """Move every point to the mean of its cell, and the least useful share to new places.

    When the stream has moved, Lloyd steps on means and recent rows follow. Returns the points and
    the masses of their cells.
    """
    means = cells.means
    # A cell's use is its mass times the squared distance of its point to the span of the
    # others, 1/(K⁻¹)_jj = 1/Σ_l F_jl²: rare cells far from the rest are kept.
    use = cells.mass / to_host(namespace_of(means).sum(cells.span.factor**2, axis=1))
    kept = np.sort(np.argsort(-use, kind="stable")[: m - math.ceil(share * m)])
    ones = np.ones(recent.shape[0])
    labels, near = np.zeros(recent.shape[0], dtype=np.intp), ones
    if len(kept):
        labels, near = nearest(recent, take_rows(means, kept))
    fresh = cast(draw_far(recent, ones, near, m - len(kept), rng), means.dtype)
    points = concatenate_rows([take_rows(means, kept), fresh])
    if not moved:
        if fresh.shape[0]:
            among, distance = nearest(recent, fresh)
            labels = np.where((distance < near) | (len(kept) == 0), len(kept) + among, labels)
        return relocate(recent, points, labels, cells.mass[kept])
    everything = concatenate_rows([means, as_dense(recent)])
    total = float(cells.mass.sum())
    heavy = max(1.0, RECENT_MASS * total / recent.shape[0])
    weights = np.concatenate([cells.mass, np.full(recent.shape[0], heavy)])
    present = np.flatnonzero(weights > 0)
    everything, weights = take_rows(everything, present), weights[present]
    points = lloyd(everything, weights, points, MOVED_STEPS, rng)
    labels, _ = nearest(everything, points)
    once = np.concatenate([cells.mass, ones])[present]
    return points, np.bincount(labels, once, minlength=points.shape[0])


def relocate(
    recent: Array, points: Array, labels: np.ndarray, mass: np.ndarray
) -> tuple[Array, np.ndarray]:
    """Give each new point the mean and the number of the recent rows nearest to it."""
    kept = len(mass)
    m = points.shape[0]
    count = np.bincount(labels, minlength=m).astype(float)
    sums = sum_by_label(recent, labels, m)
    filled = np.flatnonzero(count[kept:] > 0) + kept  # a row drawn twice leaves one cell empty
    moved = cast(take_rows(sums, filled) / like(count[filled], sums)[:, None], points.dtype)
    return concatenate_rows([points[:kept, :], moved]), np.concatenate([mass, count[filled]])


def joint_points(
    a: Cells, b: Cells, most: int, rng: np.random.Generator
) -> tuple[Array, np.ndarray]:
    """Points for two models: all means, and weighted k-means where there are more than ``most``."""
    means = concatenate_rows([a.means, cast(b.means, a.span.points.dtype)])
    mass = np.concatenate([a.mass, b.mass])
    few = distinct_rows(means, most)
    if few is not None:
        points = take_rows(means, few)
    else:
        heavy = np.sort(np.argsort(-mass, kind="stable")[:most])
        weights = np.maximum(mass, np.finfo(float).tiny)
        points = lloyd(means, weights, take_rows(means, heavy), MERGE_STEPS, rng)
    labels, _ = nearest(means, points)
    return points, np.bincount(labels, mass, minlength=points.shape[0])
