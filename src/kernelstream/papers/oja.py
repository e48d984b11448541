"""Hebbian rules of a linear neuron (Oja 1982): plain, normalized, Oja's rule, limits, mean flow.

"The notes" are the lecture notes on the Hebbian maximum eigenfilter whose argument
``reproductions/lecture_oja`` checks step by step; the labels are theirs.

A neuron with the output ``y = wᵀx`` strengthens what excites it, ``w ← w + η y x``. Each rule is a
function of the weights, one input and a step; :func:`learn` runs one over a stream. They are here
to be read and compared; for data, ``KernelHebbianPCA(1, kernel="linear")`` is the same as Oja's
rule at matrix-product speed.

With small steps the rules follow an ordinary differential equation (the notes' equation C), whose
solution is known in closed form: :func:`flow`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kernelstream.papers.schedules import Schedule

Rule = Callable[[np.ndarray, np.ndarray, float], np.ndarray]


def hebb(w: np.ndarray, x: np.ndarray, eta: float) -> np.ndarray:
    """Plain Hebb: ``w + η y x``. The weights grow like ``exp(λ₁ t)``, without bound.

    Parameters
    ----------
    w : array of shape (d,)
        The weights.
    x : array of shape (d,)
        The input.
    eta : float
        The step.

    Examples
    --------
    >>> hebb(np.array([1.0, 0.0]), np.array([2.0, 1.0]), 0.1)
    array([1.4, 0.2])
    """
    return w + eta * (w @ x) * x


def normalised(w: np.ndarray, x: np.ndarray, eta: float) -> np.ndarray:
    """Hebb's rule, then back to unit length (Oja 1982): the direction only.

    Parameters
    ----------
    w : array of shape (d,)
        The weights.
    x : array of shape (d,)
        The input.
    eta : float
        The step.

    Examples
    --------
    >>> normalised(np.array([1.0, 0.0]), np.array([2.0, 1.0]), 0.1).round(3)
    array([0.99 , 0.141])
    """
    moved = hebb(w, x, eta)
    return moved / np.linalg.norm(moved)


def oja(w: np.ndarray, x: np.ndarray, eta: float) -> np.ndarray:
    """Oja's rule, ``w + η y (x − y w)``: the normalised rule to first order in η.

    For ``|w| = 1`` the norm in the denominator is ``1 + η y² + O(η²)``. The feedback ``−y w`` takes
    the place of the division, and drives any length to 1.

    Parameters
    ----------
    w : array of shape (d,)
        The weights.
    x : array of shape (d,)
        The input.
    eta : float
        The step.

    Examples
    --------
    >>> oja(np.array([1.0, 0.0]), np.array([2.0, 1.0]), 0.1)
    array([1. , 0.2])
    """
    y = w @ x
    return w + eta * y * (x - y * w)


def limited(rule: Rule, bound: float) -> Rule:
    """A rule whose weights are cut to ``max_j |w_j| ≤ bound`` after each step.

    The hard limit with which the notes meet condition 2 of the stability theorem: the weights stay
    in a compact set. With a bound above 1 it does not move the solution, ``|q₁| = 1``. It keeps
    plain Hebb finite as well, but that then ends in a corner of the box instead of at q₁.

    Parameters
    ----------
    rule : callable
        One of the rules above.
    bound : float
        Largest absolute weight.

    Examples
    --------
    >>> limited(hebb, 1.2)(np.array([1.0, 0.0]), np.array([2.0, 1.0]), 0.1)
    array([1.2, 0.2])
    """

    def bounded(w: np.ndarray, x: np.ndarray, eta: float) -> np.ndarray:
        return np.clip(rule(w, x, eta), -bound, bound)

    return bounded


def learn(rule: Rule, X: np.ndarray, w: np.ndarray, schedule: Schedule) -> np.ndarray:
    """Weights before the first row and after each, shape (n + 1, d).

    Parameters
    ----------
    rule : callable
        ``hebb``, ``normalised``, ``oja``, or one of them ``limited``.
    X : array of shape (n, d)
        Inputs of mean zero, one after the other.
    w : array of shape (d,)
        The start.
    schedule : Schedule
        One step for all components (no :class:`~kernelstream.papers.schedules.AutomaticRate`,
        which has one for each).

    Examples
    --------
    >>> from kernelstream.papers.schedules import InverseTime
    >>> X = np.random.default_rng(0).normal(size=(2000, 2)) * [3.0, 1.0]
    >>> w = learn(oja, X, np.array([0.6, 0.8]), InverseTime(0.1))[-1]
    >>> bool(abs(w[0]) > 0.99)
    True
    """
    if schedule.relative:
        raise ValueError(
            f"{schedule} has a step for each component of a model; a single neuron takes a common "
            "one such as schedules.InverseTime(0.1)."
        )
    path = np.empty((len(X) + 1, len(w)))
    path[0] = w
    for t, (x, eta) in enumerate(zip(X, schedule.steps(1, len(X)), strict=True)):
        path[t + 1] = rule(path[t], x, float(eta))
    return path


def flow(R: np.ndarray, w: np.ndarray, t: float) -> np.ndarray:
    """Solution at time t of ``dw/dt = R w − (wᵀ R w) w``, the mean of Oja's rule.

    Hebb's linear flow ``u = exp(Rt) w`` has the direction; since ``d|u|²/dt = 2 uᵀRu``, dividing by
    ``√(1 + |u|² − |w|²)`` gives the length. In eigenvectors, ``θ_k/θ_1 ∝ exp(−(λ₁ − λ_k) t)``: all
    modes but the first die. (The notes' Case 1; time is Ση.)

    Parameters
    ----------
    R : array of shape (d, d)
        Correlation matrix ``E[x xᵀ]``.
    w : array of shape (d,)
        The start.
    t : float
        Time, the sum of the steps.

    Examples
    --------
    >>> flow(np.diag([2.0, 1.0]), np.array([0.6, 0.8]), 5.0).round(3)
    array([1.   , 0.009])
    """
    lam, Q = np.linalg.eigh(R)
    theta = Q.T @ w
    # divided by exp(λ₁ t) above and below, so that nothing overflows
    u = np.exp((lam - lam[-1]) * t) * theta
    return Q @ (u / np.sqrt(np.exp(-2.0 * lam[-1] * t) * (1.0 - theta @ theta) + u @ u))
