"""Held-out rows: fraction, selection by row index, thinning, weights with forgetting.

Errors of the rows that a model has learned are too small: the model has followed them. So a small
share of them, and never more than a given number, is only looked at. Which ones is a function of
their index: the same rows in the same order hold back the same, however they are cut into calls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from kernelstream.arrays.draws import generator
from kernelstream.arrays.namespaces import to_host
from kernelstream.serialization import stored
from kernelstream.serialization.part import Value
from kernelstream.stream.state import Rows

if TYPE_CHECKING:
    from kernelstream.stream.stream import Stream

LARGEST_SHARE = 0.25  # of few rows no more are held back
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

    def of(self, n_rows: np.ndarray | float, memory: float = math.inf) -> np.ndarray:
        """The share of a stream of so many rows that is held back.

        ``memory`` is the number of rows that count where old ones are forgotten.
        """
        n = np.minimum(np.maximum(n_rows, 1.0), memory)
        return np.minimum(LARGEST_SHARE, np.clip(self.share * n, self.fewest, self.most) / n)


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

    def choose(
        self, n: int, seed: int, memory: float, at_once: bool = False, share: Share = ROWS
    ) -> np.ndarray:
        """Which of the next n rows are held back; the first row of a stream never is.

        A row of a stream has to be decided on when it comes. Where all rows are at hand
        (``at_once``) only those are held back that stay so to the end.

        Parameters
        ----------
        n : int
            Number of rows.
        seed : int
            Random seed.
        memory : float
            Effective number of rows under forgetting; infinite without forgetting.
        at_once : bool, default=False
            Whether these rows are all rows.
        share : Share, optional
            Fraction of the rows that is held out.

        Returns
        -------
        array of shape (n,), bool
            True for the rows that are held out.
        """
        u = self.draws(seed, self.n_seen, n)
        so_far = self.n_seen + 1.0 + np.arange(n)
        limit = share.of(float(self.n_seen + n) if at_once else so_far, memory)
        return (u < limit) & (so_far > 1)

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
        own = np.flatnonzero(chosen)
        n = len(chosen)
        w = np.ones(n) if weights is None else weights
        return HeldBack(
            np.concatenate([self.X, X[own]]),
            np.concatenate([self.weights, w[own]]),
            np.concatenate([self.index, self.n_seen + own]),
            np.concatenate([self.draw, self.draws(seed, self.n_seen, n)[own]]),
            self.n_seen + n,
        )

    def thin(self, log_forgetting: float, memory: float, share: Share = ROWS) -> HeldBack:
        """Those that a stream of its length holds back: fewer and fewer, all rows alike.

        Parameters
        ----------
        log_forgetting : float
            Logarithm of the forgetting factor.
        memory : float
            Effective number of rows under forgetting; infinite without forgetting.
        share : Share, optional
            Fraction of the rows that is held out.
        """
        limit = share.of(float(self.n_seen), memory)
        age = self.n_seen - 1 - self.index
        kept = np.flatnonzero((self.draw < limit) & (age * log_forgetting > math.log(SPENT)))
        if len(kept) == len(self):
            return self
        return HeldBack(
            self.X[kept], self.weights[kept], self.index[kept], self.draw[kept], self.n_seen
        )

    @classmethod
    def split(
        cls,
        stream: Stream,
        held: HeldBack | None,
        rows: Rows,
        at_once: bool = False,
        share: Share = ROWS,
    ) -> tuple[Rows, HeldBack]:
        """The next rows that are to be learned, and all that are held back (None: nothing yet).

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
        if held is None:
            held = cls.nothing(stream.n_features, stream.dtype)
        log_forgetting, memory = forgetting_of(stream)
        seed = stream.chain.seed
        chosen = held.choose(len(rows), seed, memory, at_once, share)
        held = held.add(to_host(rows.X), rows.weights, chosen, seed)
        held = held.thin(log_forgetting, memory, share)
        return (rows.take(np.flatnonzero(~chosen)) if chosen.any() else rows), held

    def thin_for(self, stream: Stream, share: Share = ROWS) -> HeldBack:
        """Those that a stream of its length holds back, with the forgetting of the stream.

        Parameters
        ----------
        stream : Stream
            The stream whose forgetting factor is used.
        share : Share, optional
            Fraction of the rows that is held out.
        """
        return self.thin(*forgetting_of(stream), share)

    def weights_in(self, stream: Stream) -> np.ndarray:
        """What each row counts now, with the forgetting of the stream.

        Parameters
        ----------
        stream : Stream
            The stream whose forgetting factor is used.
        """
        log_forgetting = forgetting_of(stream)[0]
        return self.weights * np.exp((self.n_seen - 1 - self.index) * log_forgetting)

    def join(self, other: HeldBack) -> HeldBack:
        """The rows of two streams, as if they had come side by side.

        Parameters
        ----------
        other : HeldBack
            Held-out rows of the other stream.
        """
        n = self.n_seen + other.n_seen
        pairs = [(each, each.index + (n - each.n_seen)) for each in (self, other)]
        return HeldBack(
            np.concatenate([each.X for each, _ in pairs]),
            np.concatenate([each.weights for each, _ in pairs]),
            np.concatenate([index for _, index in pairs]),
            np.concatenate([each.draw for each, _ in pairs]),
            n,
        )


def forgetting_of(stream: Stream) -> tuple[float, float]:
    """The logarithm of what is left of a row's weight after the next, and how many rows count."""
    forgetting = float(stream.chain.tracker.forgetting)
    if forgetting == 1.0:
        return 0.0, math.inf
    return math.log(forgetting), 1.0 / (1.0 - forgetting)
