"""The papers by name: thin estimators composed of the library's parts."""

from kernelstream.methods.adaptive import AdaptiveKernelPCA
from kernelstream.methods.incremental import IncrementalKernelPCA
from kernelstream.methods.kernel_hebbian import KernelHebbianPCA
from kernelstream.methods.online import OnlineKernelPCA, ReducedOrderBounds

__all__ = [
    "AdaptiveKernelPCA",
    "IncrementalKernelPCA",
    "KernelHebbianPCA",
    "OnlineKernelPCA",
    "ReducedOrderBounds",
]
