"""Methods of the papers: one folder or file per paper, with estimators, trackers and step sizes.

=====================  ===================================================================
folder                 paper
=====================  ===================================================================
``kim_2003``           Kim, Franz and Schölkopf: the kernel Hebbian algorithm
``chin_suter_2006``    Chin and Suter: incremental kernel PCA
``honeine_2012``       Honeine: online kernel PCA with a reduced-order model
``tanaka_2012``        Tanaka, Washizawa and Kuh: SubKHA, LMS and RLS
``oja``                Oja: the linear neuron
=====================  ===================================================================

They share ``base`` (what the estimators have in common), ``sequential`` (what the trackers have in
common) and ``schedules`` (step sizes). The trackers also work in other models:

>>> from kernelstream import StreamingKernelPCA, papers
>>> StreamingKernelPCA(2, tracker=papers.RLS(forgetting=0.99))
StreamingKernelPCA(n_components=2, tracker=RLS(forgetting=0.99))
"""

from typing import Any

from kernelstream.papers import oja, schedules
from kernelstream.papers.chin_suter_2006.estimator import IncrementalKernelPCA
from kernelstream.papers.chin_suter_2006.iterated_preimages import IteratedPreimages
from kernelstream.papers.honeine_2012.estimator import OnlineKernelPCA, ReducedOrderBounds
from kernelstream.papers.honeine_2012.recentred_hebbian import RecentredHebbian
from kernelstream.papers.kim_2003.estimator import KernelHebbianPCA
from kernelstream.papers.kim_2003.hebbian import Hebbian
from kernelstream.papers.tanaka_2012.estimator import AdaptiveKernelPCA
from kernelstream.papers.tanaka_2012.lms import LMS
from kernelstream.papers.tanaka_2012.rls import RLS
from kernelstream.papers.tanaka_2012.subset_hebbian import SubsetHebbian

# Names for the command line, next to those of ``trackers`` and ``landmarks``.
TRACKERS: dict[str, Any] = {
    "hebbian": Hebbian,
    "lms": LMS,
    "recentred_hebbian": RecentredHebbian,
    "rls": RLS,
    "subset_hebbian": SubsetHebbian,
}
LANDMARKS: dict[str, Any] = {"iterated_preimages": IteratedPreimages}
SCHEDULES: dict[str, Any] = {
    "auto": schedules.AutomaticRate,
    "constant": schedules.ConstantRate,
    "inverse_time": schedules.InverseTime,
    "search_then_converge": schedules.SearchThenConverge,
}

__all__ = [
    "LMS",
    "RLS",
    "AdaptiveKernelPCA",
    "Hebbian",
    "IncrementalKernelPCA",
    "IteratedPreimages",
    "KernelHebbianPCA",
    "OnlineKernelPCA",
    "RecentredHebbian",
    "ReducedOrderBounds",
    "SubsetHebbian",
    "oja",
    "schedules",
]
