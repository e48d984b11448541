"""Estimators with scikit-learn's manners: the general one, and the papers' by name."""

from kernelstream.estimators.adaptive import AdaptiveKernelPCA
from kernelstream.estimators.base import load
from kernelstream.estimators.incremental import IncrementalKernelPCA
from kernelstream.estimators.kernel_pca import KernelPCA
from kernelstream.estimators.online import OnlineKernelPCA, ReducedOrderBounds
from kernelstream.estimators.pca import StreamingKernelPCA
from kernelstream.estimators.suggestion import Suggestion, suggest

__all__ = [
    "AdaptiveKernelPCA",
    "IncrementalKernelPCA",
    "KernelPCA",
    "OnlineKernelPCA",
    "ReducedOrderBounds",
    "StreamingKernelPCA",
    "Suggestion",
    "load",
    "suggest",
]
