"""Conformal p-values and threshold of the novelty detector, from errors of held-out rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

ROUNDING = 1e-7  # of the largest error: the row that is the limit does not exceed itself


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
