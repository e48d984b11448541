"""PCA of the coordinates, block by block: the trackers."""

from __future__ import annotations

import warnings
from typing import Any

from kernelstream.trackers.averaged import Averaged
from kernelstream.trackers.base import Tracker
from kernelstream.trackers.covariance import Covariance
from kernelstream.trackers.hebbian import Hebbian
from kernelstream.trackers.incremental_svd import IncrementalSVD
from kernelstream.trackers.lms import LMS
from kernelstream.trackers.moments import Moments
from kernelstream.trackers.recentred import RecentredHebbian
from kernelstream.trackers.rls import RLS
from kernelstream.trackers.subset_hebbian import SubsetHebbian
from kernelstream.trackers.window import Window

__all__ = [
    "LMS",
    "RLS",
    "Averaged",
    "Covariance",
    "Hebbian",
    "IncrementalSVD",
    "Moments",
    "RecentredHebbian",
    "SubsetHebbian",
    "Tracker",
    "Window",
    "resolve",
]

NAMES: dict[str, type[Tracker]] = {
    "covariance": Covariance,
    "hebbian": Hebbian,
    "incremental_svd": IncrementalSVD,
    "lms": LMS,
    "recentred_hebbian": RecentredHebbian,
    "rls": RLS,
    "subset_hebbian": SubsetHebbian,
    "window": Window,
}
RENAMED = {"subkha": "subset_hebbian"}  # names of 0.1, for one release


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
    if isinstance(spec, str) and spec in RENAMED:
        warnings.warn(
            f"The tracker {spec!r} is called {RENAMED[spec]!r} now; the old name goes with the "
            "next release.",
            FutureWarning,
            stacklevel=2,
        )
        spec = RENAMED[spec]
    if isinstance(spec, str) and spec in NAMES:
        return NAMES[spec]()
    raise ValueError(
        f"tracker must be one of {', '.join(map(repr, sorted(NAMES)))}, or a tracker object such "
        f"as trackers.Covariance(forgetting=0.99); got {spec!r}."
    )
