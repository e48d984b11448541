"""What the papers' estimators have in common: the chain of the library with the parts fixed."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from kernelstream import bases, trackers
from kernelstream.estimators.pca import StreamingKernelPCA


class PaperMethod(StreamingKernelPCA):
    """A method of a paper: it chooses basis and tracker, and has only the paper's parameters.

    What the papers do not speak about stays at the library's defaults. ``fit`` passes over the rows
    once, in their order, like ``partial_fit``.
    """

    scale: Any = None
    preimage: Any = "auto"
    certify: Any = "auto"
    batch_size: Any = "auto"
    device: Any = None
    robust: Any = False
    verbose: bool = False

    @abstractmethod
    def _basis_and_tracker(self) -> tuple[bases.Basis, trackers.Tracker]:
        """The parts that make the method."""
