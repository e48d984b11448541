"""Conformal p-values and limits from scores of rows that were not learned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ConformalScores:
    """Scores of reference rows, in ascending order, with which a new score is compared.

    A new row counts as one of the reference rows. If it is exchangeable with them, its p-value is
    at most p with a probability of at most p, for any distribution of the scores (Vovk, Gammerman
    and Shafer, "Algorithmic Learning in a Random World", 2005).

    Attributes
    ----------
    ordered : array of shape (n,)
        The scores, ascending.
    above : array of shape (n + 1,)
        Weight of each score and of all larger ones, in units of the mean weight; the last is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.estimators import ConformalScores
    >>> reference = ConformalScores.of(np.array([3.0, 1.0, 2.0]))
    >>> reference.p_values(np.array([3.0, 9.0])), reference.limit(0.5)
    (array([0.5 , 0.25]), 2.0)
    """

    ordered: np.ndarray
    above: np.ndarray

    @classmethod
    def of(cls, scores: np.ndarray, weights: np.ndarray | None = None) -> ConformalScores:
        """Sort the scores of reference rows.

        Parameters
        ----------
        scores : array of shape (n,)
            Scores of rows that were not learned.
        weights : array of shape (n,), optional
            Weights of the rows; a new row has their mean.
        """
        order = np.argsort(scores, kind="stable")
        w = np.ones(len(scores)) if weights is None else weights[order] / weights.mean()
        return cls(scores[order], np.append(np.cumsum(w[::-1])[::-1], 0.0))

    def p_values(self, scores: np.ndarray | float) -> np.ndarray:
        """Weight fraction of the rows with at least this score, the new row among them.

        Parameters
        ----------
        scores : array of shape (n,) or float
            Scores of new rows.
        """
        place = np.searchsorted(self.ordered, scores, side="left")
        return np.asarray((self.above[place] + 1.0) / (self.above[0] + 1.0))

    def limit(self, alpha: float) -> float:
        """The score that a new row exceeds with a probability of at most ``alpha``.

        Without weights this is the ⌈(n + 1)(1 − α)⌉-th smallest score. If ``alpha`` is below
        1/(n + 1), no score of n rows is rare enough, and the limit is the largest one.

        Parameters
        ----------
        alpha : float
            False-alarm rate.
        """
        rank = int(np.sum(self.p_values(self.ordered) > alpha))
        return float(self.ordered[max(rank - 1, 0)])
