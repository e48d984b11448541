"""Step-size schedules (learning rates): constant, inverse time, search-then-converge, automatic."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np

from kernelstream.serialization import Part, as_number, check_count, check_number, stored

__all__ = [
    "AutomaticRate",
    "ConstantRate",
    "InverseTime",
    "Schedule",
    "SearchThenConverge",
    "resolve",
]


class Schedule(Part):
    """A sequence of steps η_t for the rows t = 1, 2, 3 and so on.

    ``floor`` keeps the steps from vanishing, so that a component can follow a distribution that
    moves.
    """

    _family = "schedules"
    #: Least step.
    floor: float = 0.0
    #: Whether component i takes the step divided by its estimated eigenvalue λ_i (then no number
    #: depends on the kernel's scale).
    relative = False

    @abstractmethod
    def _steps(self, t: np.ndarray) -> np.ndarray:
        """Steps at the times ``t`` (counted from 1), before the floor."""

    def steps(self, first: int, count: int) -> np.ndarray:
        """Steps of the rows ``first`` … ``first + count − 1`` (counted from 1)."""
        t = np.arange(first, first + count, dtype=np.float64)
        return np.maximum(self._steps(t), self.floor)

    def repeated(self, period: int) -> Schedule:
        """The schedule to use when the same ``period`` rows come again and again."""
        return self

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""
        for name, value in self.get_params(deep=False).items():
            if name != "floor" or value != 0:
                check_number(type(self).__name__, name, value)


@stored
class ConstantRate(Schedule):
    """The same step always: η.

    Parameters
    ----------
    eta : float
        The step.

    Examples
    --------
    >>> ConstantRate(0.1).steps(1, 3)
    array([0.1, 0.1, 0.1])
    """

    def __init__(self, eta: float = 0.05):
        self.eta = eta

    def _steps(self, t: np.ndarray) -> np.ndarray:
        return np.full(len(t), float(self.eta))


@stored
class InverseTime(Schedule):
    """η₀ / t: the classical choice, exact for a mean, slow once t is large.

    Parameters
    ----------
    eta0 : float
        The first step, η₀.
    floor : float
        Least step: with one above 0 the components go on following the rows.

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


@stored
class SearchThenConverge(Schedule):
    """η₀ / (1 + t/τ): nearly constant while t ≪ τ, then falling like τ/t (Honeine, section 5.1).

    Parameters
    ----------
    eta0 : float
        The first step, η₀.
    tau : float
        Rows after which the step is half the first, τ.
    floor : float
        Least step: with one above 0 the components go on following the rows.

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


@stored
class AutomaticRate(Schedule):
    """Steps that need no tuning: ``η_i = 3 / ((t + 2) λ_i)``, λ_i estimated along the stream.

    With a step of c/(tλ_i) Sanger's rule averages ``z y_i / λ_i`` over the rows, one power
    iteration whose matrix is the covariance of all rows so far: the noise falls like that of the
    batch estimate. A share ``(1 − λ_k/λ_i) c / t`` of what is wrong in direction k is mended at
    row t, so c = 1 would keep the start for ever. c = 3 forgets it, like the "amnesic mean" of
    candid covariance-free PCA (Weng et al. 2003); it was chosen from 1.5, 2, 2.5, 3
    and 4 on toy, banana and digit data. No row moves a component by more than
    ``η = 1 / max(k(x,x), |y|²)``, the longest step that cannot overshoot; early steps of small
    components end there. Every quantity scales with the kernel, so a kernel times 100 learns the
    same components.

    It does less well where few rows have most of the energy: with a cubic kernel on standardised
    data (breast cancer, largest energy 110 times the mean) it captured 0.71 of the variance after
    one pass, the best constant 0.87. Other gains and limits did not mend that. Scale such data, use
    ``kernels.Cosine`` or an RBF kernel, make more passes, or use ``trackers.Covariance``.

    Parameters
    ----------
    floor : float
        Least multiple of 1/λ_i; 1/floor is the number of rows that are remembered, so that the
        components follow a distribution that moves. 0: all rows count alike.
    period : int or None
        For a finite set of rows that is passed over again and again, their number
        (``KernelHebbianPCA`` sets it). After the first pass time then runs five times slower: the
        rows bring nothing new, the noise of a pass in random order is small, and what is left to
        do is iteration.

    Examples
    --------
    >>> AutomaticRate().steps(1, 3)
    array([1.  , 0.75, 0.6 ])
    >>> AutomaticRate(floor=0.01).steps(10**6, 1)
    array([0.01])
    """

    relative = True

    def __init__(self, floor: float = 0.0, period: int | None = None):
        self.floor = floor
        self.period = period

    def _steps(self, t: np.ndarray) -> np.ndarray:
        if self.period is not None:
            t = np.minimum(t, self.period) + np.maximum(t - self.period, 0.0) / 5.0
        return 3.0 / (t + 2.0)

    def repeated(self, period: int) -> Schedule:
        """Slow down after the first pass."""
        return AutomaticRate(self.floor, period) if self.period is None else self

    def check(self) -> None:
        """Raise ``ValueError`` in words when a parameter makes no sense."""
        check_count("AutomaticRate", "period", self.period)
        if not 0 <= as_number(self.floor) < 1:
            raise ValueError(f"AutomaticRate: floor must be in [0, 1), got {self.floor!r}.")


def resolve(spec: Any) -> Schedule:
    """The schedule that ``"auto"``, a number (a constant step) or an object stands for.

    Parameters
    ----------
    spec : "auto", float or Schedule
        What was given.

    Examples
    --------
    >>> resolve("auto")
    AutomaticRate()
    >>> resolve(0.1)
    ConstantRate(eta=0.1)
    """
    if isinstance(spec, str) and spec == "auto":
        return AutomaticRate()
    if not math.isnan(number := as_number(spec)):
        spec = ConstantRate(number)
    if isinstance(spec, Schedule):
        spec.check()
        return spec
    raise ValueError(
        "schedule must be 'auto', a number (a constant step) or a schedule such as "
        f"schedules.SearchThenConverge(0.5, 1000); got {spec!r}."
    )
