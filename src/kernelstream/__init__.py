"""Kernel PCA for data that is too large or never ends: one pass, bounded memory, known error."""

from importlib.metadata import version

from kernelstream import bases, images, kernels, metrics, preimages, schedules, trackers
from kernelstream.estimator import StreamingKernelPCA, load
from kernelstream.methods import (
    AdaptiveKernelPCA,
    IncrementalKernelPCA,
    KernelHebbianPCA,
    OnlineKernelPCA,
)
from kernelstream.regression import StreamingKernelClassifier, StreamingKernelRidge

__all__ = [
    "AdaptiveKernelPCA",
    "IncrementalKernelPCA",
    "KernelHebbianPCA",
    "OnlineKernelPCA",
    "StreamingKernelClassifier",
    "StreamingKernelPCA",
    "StreamingKernelRidge",
    "bases",
    "images",
    "kernels",
    "load",
    "metrics",
    "preimages",
    "schedules",
    "trackers",
]

__version__ = version("kernelstream")
