"""Rows of a stream that are not learned: limits and p-values come from them.

Errors of the rows that a model has learned are too small: the model has followed them. So a row in
ten, and never more than about a thousand, is only looked at. Which ones is a function of their
index: the same rows in the same order hold back the same, however they are cut into calls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from kernelstream.backends.draws import generator
from kernelstream.files import stored
from kernelstream.part import Value

SHARE = 0.1  # of the rows are held back …
FEWEST, MOST = 100, 1000  # … and at least, and at most, so many …
LARGEST_SHARE = 0.25  # … but of few rows no more than that
GOLDEN = 0x9E3779B97F4A7C15  # 2⁶⁴ over the golden ratio: its multiples spread most evenly
ROUNDING = 1e-7  # of the largest error: the row that is the limit does not exceed itself
SPENT = 1e-4  # weight at which a row that is forgotten is dropped


def share_of(n_rows: np.ndarray | float, memory: float = math.inf) -> np.ndarray:
    """The share of a stream of so many rows that is held back.

    ``memory`` is the number of rows that count where old ones are forgotten.

    Examples
    --------
    >>> share_of(np.array([200.0, 1000.0, 10_000.0, 100_000.0]))
    array([0.25, 0.1 , 0.1 , 0.01])
    """
    n = np.minimum(np.maximum(n_rows, 1.0), memory)
    return np.minimum(LARGEST_SHARE, np.clip(SHARE * n, FEWEST, MOST) / n)


def draws(seed: int, first: int, count: int) -> np.ndarray:
    """Numbers in [0, 1) of the rows ``first`` …: evenly spread in every stretch of rows.

    Examples
    --------
    >>> int(np.sum(draws(0, 1000, 400) < 0.25))  # of 100
    99
    """
    start = generator(seed, "held back").integers(2**64, dtype=np.uint64)
    index = np.arange(first, first + count, dtype=np.uint64)
    return (start + index * np.uint64(GOLDEN)) / 2.0**64


@stored
@dataclass(frozen=True, eq=False)
class HeldBack(Value):
    """The rows that are held back, and of how many rows they are a sample."""

    X: Annotated[np.ndarray, "rows (.held, columns), or empty"]
    weights: Annotated[np.ndarray, "float64 (.held), positive, or empty"]
    index: Annotated[np.ndarray, "int64 (.held), or empty, of any size"]  # in the stream
    draw: Annotated[np.ndarray, "float64 (.held), not negative, or empty"]
    n_seen: int  # rows that came, held back or not

    def __len__(self) -> int:
        return len(self.draw)

    @classmethod
    def nothing(cls, n_features: int, dtype: str) -> HeldBack:
        """Before the first row."""
        none = np.zeros(0)
        return cls(np.zeros((0, n_features), dtype), none, none.astype(np.int64), none, 0)

    def choose(self, n: int, seed: int, memory: float, at_once: bool = False) -> np.ndarray:
        """Which of the next n rows are held back; the first row of a stream never is.

        A row of a stream has to be decided on when it comes. Where all rows are at hand
        (``at_once``) only those are held back that stay so to the end.
        """
        u = draws(seed, self.n_seen, n)
        so_far = self.n_seen + 1.0 + np.arange(n)
        share = share_of(float(self.n_seen + n) if at_once else so_far, memory)
        return (u < share) & (so_far > 1)

    def add(
        self, X: np.ndarray, weights: np.ndarray | None, chosen: np.ndarray, seed: int
    ) -> HeldBack:
        """With the chosen ones of the next rows."""
        own = np.flatnonzero(chosen)
        n = len(chosen)
        w = np.ones(n) if weights is None else weights
        return HeldBack(
            np.concatenate([self.X, X[own]]),
            np.concatenate([self.weights, w[own]]),
            np.concatenate([self.index, self.n_seen + own]),
            np.concatenate([self.draw, draws(seed, self.n_seen, n)[own]]),
            self.n_seen + n,
        )

    def thin(self, log_forgetting: float, memory: float) -> HeldBack:
        """Those that a stream of its length holds back: fewer and fewer, all rows alike."""
        share = share_of(float(self.n_seen), memory)
        age = self.n_seen - 1 - self.index
        kept = np.flatnonzero((self.draw < share) & (age * log_forgetting > math.log(SPENT)))
        if len(kept) == len(self):
            return self
        return HeldBack(
            self.X[kept], self.weights[kept], self.index[kept], self.draw[kept], self.n_seen
        )

    def join(self, other: HeldBack) -> HeldBack:
        """The rows of two streams, as if they had come side by side."""
        n = self.n_seen + other.n_seen
        pairs = [(each, each.index + (n - each.n_seen)) for each in (self, other)]
        return HeldBack(
            np.concatenate([each.X for each, _ in pairs]),
            np.concatenate([each.weights for each, _ in pairs]),
            np.concatenate([index for _, index in pairs]),
            np.concatenate([each.draw for each, _ in pairs]),
            n,
        )

    def current_weights(self, log_forgetting: float) -> np.ndarray:
        """What each row counts now."""
        return self.weights * np.exp((self.n_seen - 1 - self.index) * log_forgetting)


@dataclass(frozen=True)
class Reference:
    """Errors of rows that were not learned, ascending: what the next error is compared with."""

    errors: np.ndarray
    above: np.ndarray  # weight of this error and of all larger ones, as a share

    @classmethod
    def of(cls, errors: np.ndarray, weights: np.ndarray) -> Reference:
        """From errors and what they count; the row to be judged will count like their mean."""
        order = np.argsort(errors, kind="stable")
        w = weights[order] / weights.mean()
        return cls(errors[order], np.cumsum(w[::-1])[::-1] / (w.sum() + 1.0))

    @property
    def worth(self) -> float:
        """How many rows the errors are worth, that of the row to be judged included."""
        return 1.0 / (1.0 - float(self.above[0]))

    def p_values(self, errors: np.ndarray) -> np.ndarray:
        """Share of rows like those learned that have such an error or a larger one.

        The row itself counts among them, so that of such rows a share of at most p has a p-value
        of p or less, whatever their law (conformal prediction).

        Examples
        --------
        >>> Reference.of(np.array([1.0, 2.0, 3.0]), np.ones(3)).p_values(np.array([3.0, 9.0]))
        array([0.5 , 0.25])
        """
        place = np.searchsorted(self.errors, errors, side="left")
        shares = np.append(self.above, 0.0)
        return shares[place] + 1.0 / self.worth

    def limit(self, level: float) -> float:
        """The error that a share of ``level`` of rows like those learned exceeds.

        No error is rarer than one among those held back and itself: for a smaller level the limit
        is the largest of them.
        """
        over = self.p_values(self.errors) > level  # errors with no less weight above than that
        limit = float(self.errors[max(int(over.sum()) - 1, 0)])
        return limit + ROUNDING * float(self.errors[-1])
