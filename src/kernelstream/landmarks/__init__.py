"""Landmark strategies by name: optimized, fixed, sampled, growing, exact, reduced set."""

from __future__ import annotations

import numbers
from typing import Any

from kernelstream.landmarks.base import (
    Clock,
    Kind,
    LandmarkState,
    LandmarkStrategy,
    Projection,
    Start,
)
from kernelstream.landmarks.criteria import Coherence, Distance, Everything
from kernelstream.landmarks.fixed import FixedLandmarks, Landmarks
from kernelstream.landmarks.nystroem import Span, finite, require_semidefinite
from kernelstream.landmarks.optimized.kmeans import kmeans
from kernelstream.landmarks.optimized.strategy import Centroids
from kernelstream.landmarks.pivoted_cholesky import PivotedCholesky
from kernelstream.landmarks.reduced_set import ReducedSet
from kernelstream.landmarks.sample import UniformSample as UniformSample

__all__ = [
    "NAMES",
    "Kind",
    "LandmarkState",
    "LandmarkStrategy",
    "Centroids",
    "Clock",
    "Coherence",
    "Distance",
    "Everything",
    "FixedLandmarks",
    "Landmarks",
    "PivotedCholesky",
    "Projection",
    "ReducedSet",
    "Span",
    "Start",
    "UniformSample",
    "finite",
    "kmeans",
    "require_semidefinite",
    "resolve",
]

#: The landmark strategies that can be given by name.
NAMES: dict[str, type[LandmarkStrategy]] = {
    "centroids": Centroids,
    "coherence": Coherence,
    "distance": Distance,
    "everything": Everything,
    "landmarks": Landmarks,
    "pivoted_cholesky": PivotedCholesky,
    "reduced_set": ReducedSet,
}


def resolve(spec: Any) -> LandmarkStrategy:
    """The basis that a name, a number of centroids or a basis object stands for.

    Parameters
    ----------
    spec : str, int or LandmarkStrategy
        What was given.

    Examples
    --------
    >>> resolve(300)
    Centroids(n_points=300)
    >>> resolve("distance")
    Distance()
    """
    if isinstance(spec, LandmarkStrategy):
        spec.check()
        return spec
    if isinstance(spec, numbers.Integral) and not isinstance(spec, bool):
        return resolve(Centroids(n_points=int(spec)))
    if isinstance(spec, str) and spec in NAMES:
        return NAMES[spec]()
    raise ValueError(
        f"basis must be one of {', '.join(map(repr, sorted(NAMES)))}, a number of centroids, or a "
        f"basis object such as landmarks.Distance(nu=0.1); got {spec!r}."
    )
