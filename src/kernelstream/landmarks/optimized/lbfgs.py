"""L-BFGS minimization: inverse Hessian approximation, line search, convergence.

Nearly always the steps of SciPy's L-BFGS-B, in NumPy's arithmetic alone: SciPy calls a
BLAS of its own, whose buffers are memory of their own, and which waits for ever where none is left.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

DECREASE, CURVATURE = 1e-3, 0.9  # of Wolfe's conditions on a step
FLAT = 1e-5  # the largest entry of a gradient that leads nowhere
TRIALS = 20  # of one step
LEAST, MOST = 1.1, 4.0  # how many times as far again a step is tried that goes down steeply
SHRINK = 1e-3  # of an interval: its ends are no trial
PROMISED = 0.1  # of the gain that a step has to bring: what its slope promises, at least
NARROW = 0.1  # an interval in which nothing better is looked for, as a share of the step

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]  # its value and its gradient


@dataclass(frozen=True)
class Trial:
    """A step along a line: where it leads, and the slope of the line there."""

    step: float
    x: np.ndarray
    value: float
    gradient: np.ndarray
    slope: float


def minimise(
    function: Function, x: np.ndarray, evaluations: int, least_gain: float, corrections: int
) -> tuple[np.ndarray, float]:
    """The last point, and the value there.

    Ends after the step in which there were more ``evaluations`` than these, or which gained less
    than this share, or where no step goes down. ``corrections`` pairs of steps are remembered.

    Examples
    --------
    >>> import numpy as np
    >>> x, value = minimise(lambda x: (x @ x, 2.0 * x), np.array([3.0, 4.0]), 20, 1e-9, 5)
    >>> bool(np.abs(x).max() < 1e-5)
    True
    """
    value, gradient = function(x)
    used, pairs = 1, deque[tuple[np.ndarray, np.ndarray]](maxlen=corrections)
    while np.abs(gradient).max(initial=0.0) > FLAT:
        direction = -newton(gradient, pairs)
        here = Trial(0.0, x, value, gradient, float(gradient @ direction))
        first = 1.0 if pairs else 1.0 / float(np.linalg.norm(direction))
        least = PROMISED * least_gain * max(abs(value), 1.0)
        found, trials = search(function, here, direction, first, least)
        used += trials
        if found is None:
            break
        change = found.gradient - gradient
        if (found.slope - here.slope) > np.finfo(float).eps * -here.slope:
            pairs.append((found.x - x, change))
        gained, scale = value - found.value, max(abs(value), abs(found.value), 1.0)
        x, value, gradient = found.x, found.value, found.gradient
        if gained <= least_gain * scale or used > evaluations:
            break
    return x, value


def newton(gradient: np.ndarray, pairs: deque[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """The inverse Hessian that steps and changes of the gradient show, times a gradient."""
    q, shares = gradient.copy(), []
    for step, change in reversed(pairs):
        shares.append(float(step @ q) / float(step @ change))
        q -= shares[-1] * change
    if pairs:
        step, change = pairs[-1]
        q *= float(step @ change) / float(change @ change)
    for (step, change), share in zip(pairs, reversed(shares), strict=True):
        q += (share - float(change @ q) / float(step @ change)) * step
    return q


def search(
    function: Function, start: Trial, direction: np.ndarray, step: float, least: float
) -> tuple[Trial | None, int]:
    """A step that goes down enough, to where the slope is less; and how many were tried.

    As Moré and Thuente (1994) choose them, but for steps so short that the slope promises less
    than ``least``: where nothing is to be gained, rounding would have them tried to the end.
    """
    best, other = start, None  # between the two there is such a step, once there is another
    for trials in range(1, TRIALS + 1):
        x = start.x + step * direction
        value, gradient = function(x)
        tried = Trial(step, x, value, gradient, float(gradient @ direction))
        enough = value <= start.value + DECREASE * step * start.slope
        if enough and abs(tried.slope) <= -CURVATURE * start.slope:
            return tried, trials
        if not enough or value > best.value:
            cubic, line = cubic_least(best, tried), quadratic_least(best, tried)
            closer = abs(cubic - best.step) <= abs(line - best.step)
            step, other = (cubic if closer else 0.5 * (cubic + line)), tried
        elif tried.slope * best.slope < 0.0:
            step = farther(tried, cubic_least(best, tried), secant(best, tried))
            best, other = tried, best
        elif other is None:
            apart = tried.step - best.step
            step = tried.step + MOST * apart
            if abs(tried.slope) < abs(best.slope):
                cubic = cubic_least(best, tried)
                cubic = cubic if cubic > tried.step else step
                step = min(step, farther(tried, cubic, secant(best, tried)))
            step, best = max(step, tried.step + LEAST * apart), tried
        else:
            step, best = cubic_least(tried, other), tried
        if other is not None:
            low, high = sorted((best.step, other.step))
            if high - low <= NARROW * high:
                break
            inside = SHRINK * (high - low)
            step = min(max(step, low + inside), high - inside)
            step = step if math.isfinite(step) else 0.5 * (low + high)
        if -step * start.slope < least:
            break
    return None if best is start else best, trials


def cubic_least(a: Trial, b: Trial) -> float:
    """Where the cubic has its minimum that has the values and slopes of two trials."""
    apart = b.step - a.step
    theta = 3.0 * (a.value - b.value) / apart + a.slope + b.slope
    gamma = math.copysign(math.sqrt(max(0.0, theta**2 - a.slope * b.slope)), apart)
    return a.step + share(gamma - a.slope + theta, 2.0 * gamma - a.slope + b.slope) * apart


def quadratic_least(a: Trial, b: Trial) -> float:
    """Where the parabola has its minimum that has two values, and the slope of the first."""
    apart = b.step - a.step
    return a.step + share(0.5 * a.slope, (a.value - b.value) / apart + a.slope) * apart


def secant(a: Trial, b: Trial) -> float:
    """Where the slope is zero, if it changes evenly."""
    return b.step + share(b.slope, b.slope - a.slope) * (a.step - b.step)


def share(a: float, b: float) -> float:
    """The quotient; no number where there is none."""
    return a / b if b else math.nan


def farther(trial: Trial, one: float, other: float) -> float:
    """Which of two steps is farther from a trial."""
    return one if abs(one - trial.step) > abs(other - trial.step) else other
