"""Base of the paper estimators: fixed landmarks and tracker, centering as in the paper."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from kernelstream import landmarks, trackers
from kernelstream.arrays import Array
from kernelstream.estimators import StreamingKernelPCA


class PaperMethod(StreamingKernelPCA):
    """A method of a paper: it chooses basis and tracker, and has only the paper's parameters.

    What the papers do not speak about stays at the library's defaults. ``fit`` passes over the rows
    once, in their order, like ``partial_fit``.
    """

    scale: Any = None
    certify: Any = "auto"
    batch_size: Any = "auto"
    device: Any = None
    robust: Any = False
    verbose: bool = False
    #: Whether the paper centres in a way of its own, which ``center="paper"`` asks for.
    _paper_centres = False

    #: The text that the method is from, and its equations: ``kernelstream info`` names them.
    paper: ClassVar[str]
    equations: ClassVar[str]

    @property
    def raw_dual_coef_(self) -> Array:
        """Coefficients over the points by the paper's index and at the rule's own length, (m, r).

        ``dual_coef_`` has the same functions ordered by their variance and at unit length.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # as in learning: rows may wait
            learned = self.stream_.settled
            shown = self.stream_.components
        raw = learned.chain.tracker.raw(learned.begun.tracker, shown.mean)
        return shown.span.factor @ raw

    def _centred(self) -> bool:
        """``center="paper"``, where a paper has a way of its own, centres too."""
        return True if self._centres_as_the_paper() else super()._centred()

    def _centres_as_the_paper(self) -> bool:
        own_way = isinstance(self.center, str) and self.center == "paper"
        return own_way and self._paper_centres

    @abstractmethod
    def _basis_and_tracker(self) -> tuple[landmarks.LandmarkStrategy, trackers.Tracker]:
        """The parts that make the method."""
