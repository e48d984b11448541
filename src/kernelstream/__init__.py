"""Kernel PCA for data that is too large or never ends: one pass, bounded memory, known error."""

from importlib import import_module
from importlib.metadata import version
from typing import Any

from kernelstream import bases, images, kernels, metrics, preimages, schedules, trackers
from kernelstream.estimator import StreamingKernelPCA, load
from kernelstream.methods import (
    AdaptiveKernelPCA,
    IncrementalKernelPCA,
    KernelHebbianPCA,
    OnlineKernelPCA,
)
from kernelstream.monitor import KernelMonitor
from kernelstream.regression import StreamingKernelClassifier, StreamingKernelRidge

__all__ = [
    "AdaptiveKernelPCA",
    "IncrementalKernelPCA",
    "KernelHebbianPCA",
    "KernelMonitor",
    "OnlineKernelPCA",
    "StreamingKernelClassifier",
    "StreamingKernelPCA",
    "StreamingKernelRidge",
    "bases",
    "images",
    "kernels",
    "load",
    "metrics",
    "plot",
    "preimages",
    "schedules",
    "trackers",
]

__version__ = version("kernelstream")


def __getattr__(name: str) -> Any:
    # Pictures, pages and files need packages that the core does not: only when they are used.
    if name in ("plot", "report", "sources"):
        return import_module(f"kernelstream.{name}")
    raise AttributeError(f"module 'kernelstream' has no attribute {name!r}")
