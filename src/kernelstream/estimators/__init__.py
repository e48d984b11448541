"""Estimators with scikit-learn's conventions."""

from kernelstream.estimators.base import StoredEstimator, StreamEstimator, at_one_moment, load
from kernelstream.estimators.explain import ComponentExplanation, RowExplanation
from kernelstream.estimators.kernel_estimator import KernelEstimator
from kernelstream.estimators.kernel_pca import KernelPCA
from kernelstream.estimators.selection import Suggestion, suggest
from kernelstream.estimators.streaming_kernel_pca import StreamingKernelPCA

__all__ = [
    "ComponentExplanation",
    "KernelEstimator",
    "KernelPCA",
    "RowExplanation",
    "StoredEstimator",
    "StreamEstimator",
    "StreamingKernelPCA",
    "Suggestion",
    "at_one_moment",
    "load",
    "suggest",
]
