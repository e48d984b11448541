"""Held-out rows: fraction, selection by row index, thinning, weights with forgetting.

Errors of the rows that a model has learned are too small: the model has followed them. So a small
share of them, and never more than a given number, is only looked at. Which ones is a function of
their index: the same rows in the same order hold back the same, however they are cut into calls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from kernelstream.arrays.draws import generator
from kernelstream.arrays.namespaces import to_host
from kernelstream.serialization import stored
from kernelstream.serialization.part import Value
from kernelstream.stream.state import Rows

if TYPE_CHECKING:
    from kernelstream.stream.stream import Stream

GOLDEN = 0x9E3779B97F4A7C15  # 2⁶⁴ over the golden ratio: its multiples spread most evenly
SPENT = 1e-4  # weight at which a row that is forgotten is dropped


@dataclass(frozen=True)
class Share:
    """How many rows are held back: a share of them, but at least and at most so many.

    Examples
    --------
    >>> HeldBack.ROWS.of(np.array([200.0, 1000.0, 10_000.0, 100_000.0]))
    array([0.25, 0.1 , 0.1 , 0.01])
    """

    share: float
    fewest: int
    most: int
    largest: float = 0.25  # fraction of few rows

    def of(self, n_rows: np.ndarray | float, memory: float = math.inf) -> np.ndarray:
        """The share of a stream of so many rows that is held back.

        ``memory`` is the number of rows that count where old ones are forgotten.
        """
        n = np.minimum(np.maximum(n_rows, 1.0), memory)
        return np.minimum(self.largest, np.clip(self.share * n, self.fewest, self.most) / n)


@stored
@dataclass(frozen=True, eq=False)
class HeldBack(Value):
    """The rows that are held back, and of how many rows they are a sample.

    Attributes
    ----------
    X : array of shape (h, d)
        The held-out rows.
    weights : array of shape (h,)
        Weights of the rows, without forgetting.
    index : array of shape (h,)
        Indices of the rows in the stream.
    draw : array of shape (h,)
        Random numbers of the rows, which decide how long a row is kept.
    n_seen : int
        Number of rows in the stream, held out or not.
    """

    #: For quantiles of the errors of rows; for a mean over the pixels of images, which are many.
    ROWS: ClassVar[Share] = Share(0.1, 100, 1000)
    IMAGES: ClassVar[Share] = Share(0.05, 20, 100)

    X: Annotated[np.ndarray, "rows (.held, columns), or empty, or NaN"]
    weights: Annotated[np.ndarray, "float64 (.held), positive, or empty"]
    index: Annotated[np.ndarray, "int64 (.held), or empty, of any size"]  # in the stream
    draw: Annotated[np.ndarray, "float64 (.held), not negative, or empty"]
    n_seen: int  # rows that came, held back or not

    def __len__(self) -> int:
        return len(self.draw)

    @classmethod
    def nothing(cls, n_features: int, dtype: str) -> HeldBack:
        """Before the first row.

        Parameters
        ----------
        n_features : int
            Number of columns.
        dtype : str
            Data type of the rows.
        """
        none = np.zeros(0)
        return cls(np.zeros((0, n_features), dtype), none, none.astype(np.int64), none, 0)

    @staticmethod
    def draws(seed: int, first: int, count: int) -> np.ndarray:
        """Numbers in [0, 1) of the rows ``first`` …: evenly spread in every stretch of rows.

        Parameters
        ----------
        seed : int
            Random seed.
        first : int
            Index of the first row.
        count : int
            Number of rows.

        Examples
        --------
        >>> int(np.sum(HeldBack.draws(0, 1000, 400) < 0.25))  # of 100
        99
        """
        start = generator(seed, "held back").integers(2**64, dtype=np.uint64)
        index = np.arange(first, first + count, dtype=np.uint64)
        return (start + index * np.uint64(GOLDEN)) / 2.0**64

    @classmethod
    def joined(cls, parts: Sequence[HeldBack], n_seen: int) -> HeldBack:
        """The rows of several parts of a stream of ``n_seen`` rows.

        Parameters
        ----------
        parts : sequence of HeldBack
            The parts, with indices in the common stream.
        n_seen : int
            Number of rows in the stream, held out or not.
        """
        X, weights, index, draw = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("X", "weights", "index", "draw")
        )
        return cls(X, weights, index, draw, n_seen)

    def join(self, other: HeldBack) -> HeldBack:
        """The rows of two streams, as if they had come side by side.

        Parameters
        ----------
        other : HeldBack
            Held-out rows of the other stream.
        """
        n = self.n_seen + other.n_seen
        parts = [replace(each, index=each.index + (n - each.n_seen)) for each in (self, other)]
        return self.joined(parts, n)

    def add(
        self, X: np.ndarray, weights: np.ndarray | None, chosen: np.ndarray, seed: int
    ) -> HeldBack:
        """With the chosen ones of the next rows.

        Parameters
        ----------
        X : array of shape (n, d)
            The next rows.
        weights : array of shape (n,) or None
            Weights of the rows; None means that all are 1.
        chosen : array of shape (n,), bool
            True for the rows that are held out.
        seed : int
            Random seed.
        """
        own, n, seen = np.flatnonzero(chosen), len(chosen), self.n_seen
        w = np.ones(n) if weights is None else weights
        draw = self.draws(seed, seen, n)
        new = HeldBack(X[own], w[own], seen + own, draw[own], seen + n)
        return self.joined([self, new], seen + n)

    @classmethod
    def split(
        cls,
        stream: Stream,
        held: HeldBack | None,
        rows: Rows,
        at_once: bool = False,
        share: Share = ROWS,
    ) -> tuple[Rows, HeldBack]:
        """The next rows that are to be learned, and all that are held out.

        The first row of a stream is never held out. A row of a stream has to be decided on when it
        comes; if all rows are available, only those are held out that stay so to the end.

        Parameters
        ----------
        stream : Stream
            The stream that learns the rows.
        held : HeldBack or None
            Rows that are held out already.
        rows : Rows
            The next rows.
        at_once : bool, default=False
            Whether these rows are all rows.
        share : Share, optional
            Fraction of the rows that is held out.
        """
        held = cls.nothing(stream.n_features, stream.dtype) if held is None else held
        n, seen = len(rows), held.n_seen
        draw, so_far = cls.draws(stream.chain.seed, seen, n), seen + 1.0 + np.arange(n)
        limit = share.of(float(seen + n) if at_once else so_far, stream.chain.tracker.memory)
        chosen = (draw < limit) & (so_far > 1)
        held = held.add(to_host(rows.X), rows.weights, chosen, stream.chain.seed)
        left = rows.take(np.flatnonzero(~chosen)) if chosen.any() else rows
        return left, held.thin_for(stream, share)

    def thin(
        self, log_forgetting: float = 0.0, memory: float = math.inf, share: Share = ROWS
    ) -> HeldBack:
        """Those that a stream of its length holds out: fewer and fewer, all rows alike.

        Parameters
        ----------
        log_forgetting : float, default=0
            Logarithm of the forgetting factor.
        memory : float, default=inf
            Effective number of rows under forgetting; infinite without forgetting.
        share : Share, optional
            Fraction of the rows that is held out.
        """
        age = self.n_seen - 1 - self.index
        kept = self.draw < share.of(float(self.n_seen), memory)
        kept &= age * log_forgetting > math.log(SPENT)
        if kept.all():
            return self
        return HeldBack(
            self.X[kept], self.weights[kept], self.index[kept], self.draw[kept], self.n_seen
        )

    def thin_for(self, stream: Stream, share: Share = ROWS) -> HeldBack:
        """Those that a stream of its length holds out, with the forgetting of the stream.

        Parameters
        ----------
        stream : Stream
            The stream whose forgetting factor is used.
        share : Share, optional
            Fraction of the rows that is held out.
        """
        tracker = stream.chain.tracker
        return self.thin(math.log(tracker.forgetting), tracker.memory, share)

    def weights_in(self, stream: Stream) -> np.ndarray:
        """Present weights of the rows, with the forgetting of the stream.

        Parameters
        ----------
        stream : Stream
            The stream whose forgetting factor is used.
        """
        age = self.n_seen - 1 - self.index
        return self.weights * np.exp(age * math.log(stream.chain.tracker.forgetting))
