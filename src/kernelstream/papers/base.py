"""Base of the paper estimators: fixed landmarks and tracker, centering as in the paper."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any, ClassVar, Self

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

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        until: float | None = None,
        confidence: float = 0.99,
    ) -> Self:
        """Learn from all rows, in one pass and in their order.

        Parameters
        ----------
        X : array of shape (n, d), dense or CSR
            The rows.
        y : ignored
        sample_weight : array of shape (n,), optional
            Non-negative weights.
        until : float, optional
            Not in the papers: rows drawn at random, as many as are needed, as in
            :meth:`kernelstream.StreamingKernelPCA.fit`.
        confidence : float
            With which that is to be true.

        Returns
        -------
        self
        """
        super().fit(X, y, sample_weight, until=until, confidence=confidence)
        self._tell_if_full(False)
        return self

    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, on_bad_rows: str = "error"
    ) -> Self:
        """Go on learning from the next rows of a stream.

        A block that is rejected leaves the model as it was.

        Parameters
        ----------
        X : array of shape (n, d), dense or CSR
            The next rows, any number of them.
        y : ignored
        sample_weight : array of shape (n,), optional
            Non-negative weights.
        on_bad_rows : "error" or "skip"
            A row with a number that is not finite is an error that names row and column, or is
            passed over.

        Returns
        -------
        self
        """
        before = self._is_full()
        super().partial_fit(X, y, sample_weight, on_bad_rows)
        self._tell_if_full(before)
        return self

    def _learn_unusual(self, x: Any) -> None:
        before = self._is_full()
        super()._learn_unusual(x)
        self._tell_if_full(before)

    def _is_full(self) -> bool:
        """Whether the finished blocks have filled the dictionary, where it has a limit."""
        state = None if self._stream is None else self._stream.state
        most = getattr(self, "max_points", None)
        return state is not None and most is not None and len(state.basis.span.points) >= most

    def _tell_if_full(self, before: bool) -> None:
        if self._is_full() and not before:
            warnings.warn(
                f"{type(self).__name__}: the dictionary has max_points={self.max_points} points "
                "now and takes no more: rows far from all of them are missed. Give more max_points "
                "or a threshold that admits fewer rows.",
                RuntimeWarning,
                stacklevel=3,
            )

    def _centred(self) -> bool:
        """``center="paper"``, where a paper has a way of its own, centres too."""
        return True if self._centres_as_the_paper() else super()._centred()

    def _centres_as_the_paper(self) -> bool:
        own_way = isinstance(self.center, str) and self.center == "paper"
        return own_way and self._paper_centres

    @abstractmethod
    def _basis_and_tracker(self) -> tuple[landmarks.LandmarkStrategy, trackers.Tracker]:
        """The parts that make the method."""
