"""Streaming kernel PCA: one pass, bounded memory, measured error; lazily imported public names."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelstream import (
        distributed,
        images,
        kernels,
        landmarks,
        metrics,
        papers,
        plot,
        preimages,
        tables,
        trackers,
    )
    from kernelstream.anomaly import KernelMonitor, KernelNovelty
    from kernelstream.estimators import KernelPCA, StreamingKernelPCA, Suggestion, load, suggest
    from kernelstream.regression import StreamingKernelClassifier, StreamingKernelRidge

    __version__: str

__all__ = [
    "KernelMonitor",
    "KernelNovelty",
    "KernelPCA",
    "StreamingKernelClassifier",
    "StreamingKernelPCA",
    "StreamingKernelRidge",
    "Suggestion",
    "distributed",
    "images",
    "kernels",
    "landmarks",
    "load",
    "metrics",
    "papers",
    "plot",
    "preimages",
    "suggest",
    "tables",
    "trackers",
]

# Everything is imported when it is first used: scikit-learn alone takes a second, and pictures,
# pages and files need packages that the core does not.
_MODULES = (
    "distributed",
    "images",
    "kernels",
    "landmarks",
    "metrics",
    "papers",
    "plot",
    "preimages",
    "tables",
    "trackers",
)
# Applications with classes that model files may hold. Loading a file imports them, one after the
# other, until all classes that the file names are there.
STORED_IN = ("anomaly", "regression", "papers", "images", "tables")
_NAMES = {
    "KernelMonitor": "anomaly",
    "KernelNovelty": "anomaly",
    "KernelPCA": "estimators",
    "StreamingKernelClassifier": "regression",
    "StreamingKernelPCA": "estimators",
    "StreamingKernelRidge": "regression",
    "Suggestion": "estimators",
    "load": "estimators",
    "suggest": "estimators",
}


def __getattr__(name: str) -> Any:
    if name in (*_MODULES, *STORED_IN):
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
