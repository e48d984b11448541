"""Step sizes of the Hebbian rules: how fast to learn at row t."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from kernelstream.part import Part

__all__ = ["Constant", "EigenvalueAnnealed", "InverseTime", "Schedule", "SearchThenConverge"]


class Schedule(Part):
    """A sequence of steps η_t for the rows t = 1, 2, 3 and so on.

    ``floor`` keeps the steps from vanishing, so that a component can follow a distribution that
    moves.
    """

    #: Whether each component has a step of its own, scaled by its estimated eigenvalue.
    per_component = False

    @abstractmethod
    def _steps(self, t: np.ndarray) -> np.ndarray:
        """Steps at the times ``t`` (counted from 1), before the floor."""

    def steps(self, first: int, count: int) -> np.ndarray:
        """Steps of the rows ``first`` … ``first + count − 1`` (counted from 1)."""
        t = np.arange(first, first + count, dtype=np.float64)
        return np.maximum(self._steps(t), self.floor)

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""
        for name, value in self.get_params(deep=False).items():
            zero_is_fine = name == "floor"
            if not (
                isinstance(value, int | float)
                and math.isfinite(value)
                and (value > 0 or (zero_is_fine and value == 0))
            ):
                raise ValueError(
                    f"{type(self).__name__}: {name} must be a "
                    f"{'non-negative' if zero_is_fine else 'positive'} number, got {value!r}."
                )


class Constant(Schedule):
    """The same step always: η.

    Examples
    --------
    >>> Constant(0.1).steps(1, 3)
    array([0.1, 0.1, 0.1])
    """

    floor = 0.0

    def __init__(self, eta: float = 0.05):
        self.eta = eta

    def _steps(self, t: np.ndarray) -> np.ndarray:
        return np.full(len(t), float(self.eta))


class InverseTime(Schedule):
    """η₀ / t: the classical choice, exact for a mean, slow once t is large.

    Examples
    --------
    >>> InverseTime(1.0).steps(1, 4)
    array([1.        , 0.5       , 0.33333333, 0.25      ])
    """

    def __init__(self, eta0: float = 1.0, floor: float = 0.0):
        self.eta0 = eta0
        self.floor = floor

    def _steps(self, t: np.ndarray) -> np.ndarray:
        return self.eta0 / t


class SearchThenConverge(Schedule):
    """η₀ / (1 + t/τ): constant while t < τ, then falling like 1/t (Honeine, section 5.1).

    Examples
    --------
    >>> SearchThenConverge(0.5, tau=2).steps(2, 2)
    array([0.25, 0.2 ])
    """

    def __init__(self, eta0: float = 0.5, tau: float = 1000.0, floor: float = 0.0):
        self.eta0 = eta0
        self.tau = tau
        self.floor = floor

    def _steps(self, t: np.ndarray) -> np.ndarray:
        return self.eta0 / (1.0 + t / self.tau)


class EigenvalueAnnealed(Schedule):
    """Search-then-converge with a step per component, ``η_t |λ| / λ_i``.

    KHA/et of Günter, Schraudolph and Vishwanathan (2007): a component of small variance needs a
    larger step to move as fast as the first. λ is estimated along the stream.

    Examples
    --------
    >>> EigenvalueAnnealed(0.5, tau=2).per_component
    True
    """

    per_component = True

    def __init__(self, eta0: float = 0.5, tau: float = 1000.0, floor: float = 0.0):
        self.eta0 = eta0
        self.tau = tau
        self.floor = floor

    def _steps(self, t: np.ndarray) -> np.ndarray:
        return self.eta0 * self.tau / (t + self.tau)
