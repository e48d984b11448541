"""Kernel PCA for data that is too large or never ends: one pass, bounded memory, known error."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from kernelstream import bases, kernels, preimages, schedules, trackers
from kernelstream.estimator import StreamingKernelPCA
from kernelstream.methods import (
    AdaptiveKernelPCA,
    IncrementalKernelPCA,
    KernelHebbianPCA,
    OnlineKernelPCA,
)
from kernelstream.persistence import load

if TYPE_CHECKING:
    from kernelstream import images, metrics, plot
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


# What not everybody needs is imported when it is used: it would cost every start time and memory,
# and pictures, pages and files need packages that the core does not.
_MODULES = ("images", "metrics", "plot", "report", "sources")
_CLASSES = {
    "KernelMonitor": "monitor",
    "StreamingKernelClassifier": "regression",
    "StreamingKernelRidge": "regression",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"kernelstream.{name}")
    if name in _CLASSES:
        return getattr(import_module(f"kernelstream.{_CLASSES[name]}"), name)
    raise AttributeError(f"module 'kernelstream' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
