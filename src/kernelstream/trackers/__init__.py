"""Trackers by name: covariance, incremental SVD, sliding window."""

from __future__ import annotations

from typing import Any

from kernelstream.trackers.base import CoordinateBlock, Tracker
from kernelstream.trackers.covariance import Covariance, CovarianceState
from kernelstream.trackers.incremental_svd import IncrementalSVD
from kernelstream.trackers.moments import CrossMoments, Moments
from kernelstream.trackers.window import Window

__all__ = [
    "NAMES",
    "CoordinateBlock",
    "Covariance",
    "CovarianceState",
    "CrossMoments",
    "IncrementalSVD",
    "Moments",
    "Tracker",
    "Window",
    "resolve",
]

#: The trackers that can be given by name.
NAMES: dict[str, type[Tracker]] = {
    "covariance": Covariance,
    "incremental_svd": IncrementalSVD,
    "window": Window,
}


def resolve(spec: Any) -> Tracker:
    """The tracker that a name or a tracker object stands for.

    Parameters
    ----------
    spec : str or Tracker
        What was given.

    Examples
    --------
    >>> resolve("covariance")
    Covariance()
    """
    if isinstance(spec, Tracker):
        spec.check()
        return spec
    if isinstance(spec, str) and spec in NAMES:
        return NAMES[spec]()
    raise ValueError(
        f"tracker must be one of {', '.join(map(repr, sorted(NAMES)))}, or a tracker object such "
        f"as trackers.Covariance(forgetting=0.99); got {spec!r}."
    )
