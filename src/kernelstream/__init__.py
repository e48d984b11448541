"""Kernel PCA for data that is too large or never ends: one pass, bounded memory, known error."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelstream import bases, images, kernels, metrics, plot, preimages, schedules, trackers
    from kernelstream.estimators import (
        AdaptiveKernelPCA,
        IncrementalKernelPCA,
        KernelPCA,
        OnlineKernelPCA,
        StreamingKernelPCA,
        Suggestion,
        load,
        suggest,
    )
    from kernelstream.kernel_hebbian import KernelHebbianPCA
    from kernelstream.monitor import KernelMonitor
    from kernelstream.novelty import KernelNovelty
    from kernelstream.regression import StreamingKernelClassifier, StreamingKernelRidge

    __version__: str

__all__ = [
    "AdaptiveKernelPCA",
    "IncrementalKernelPCA",
    "KernelHebbianPCA",
    "KernelMonitor",
    "KernelNovelty",
    "KernelPCA",
    "OnlineKernelPCA",
    "StreamingKernelClassifier",
    "StreamingKernelPCA",
    "StreamingKernelRidge",
    "Suggestion",
    "bases",
    "images",
    "kernels",
    "load",
    "metrics",
    "plot",
    "preimages",
    "schedules",
    "suggest",
    "trackers",
]

# Everything is imported when it is first used: scikit-learn alone takes a second, and pictures,
# pages and files need packages that the core does not.
_MODULES = (
    "bases",
    "images",
    "kernels",
    "metrics",
    "plot",
    "preimages",
    "report",
    "schedules",
    "sources",
    "trackers",
)
_NAMES = {
    "AdaptiveKernelPCA": "estimators",
    "IncrementalKernelPCA": "estimators",
    "KernelHebbianPCA": "kernel_hebbian",
    "KernelMonitor": "monitor",
    "KernelNovelty": "novelty",
    "KernelPCA": "estimators",
    "OnlineKernelPCA": "estimators",
    "StreamingKernelClassifier": "regression",
    "StreamingKernelPCA": "estimators",
    "StreamingKernelRidge": "regression",
    "Suggestion": "estimators",
    "load": "estimators",
    "suggest": "estimators",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"kernelstream.{name}")
    if name in _NAMES:
        value = getattr(import_module(f"kernelstream.{_NAMES[name]}"), name)
    elif name == "__version__":
        from importlib.metadata import version

        value = version("kernelstream")
    else:
        raise AttributeError(f"module 'kernelstream' has no attribute {name!r}")
    globals()[name] = value  # found there from now on, without this function
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
