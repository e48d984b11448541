"""The kernel Hebbian algorithm over a finite set of rows (Kim, Franz and Schölkopf)."""

from kernelstream.kernel_hebbian.estimator import KernelHebbianPCA

__all__ = ["KernelHebbianPCA"]
