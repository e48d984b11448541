"""Estimators with scikit-learn's conventions."""

from kernelstream.estimators.base import load
from kernelstream.estimators.kernel_pca import KernelPCA
from kernelstream.estimators.selection import Suggestion, suggest
from kernelstream.estimators.streaming_kernel_pca import StreamingKernelPCA

__all__ = [
    "KernelPCA",
    "StreamingKernelPCA",
    "Suggestion",
    "load",
    "suggest",
]
