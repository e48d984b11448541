"""Confidence intervals for means and ratios by betting (Waudby-Smith and Ramdas 2024).

A bet against the claim that a ratio is c: each draw multiplies the capital by 1 ± λ(f − c b), with
a stake λ that is fixed before the draw is seen. If the claim is true the capital is not expected to
grow, and it is above e^L at any time with a probability of at most e^{−L} (Ville). So every c at
which the capital gets there is excluded. (Waudby-Smith and Ramdas, "Estimating means of bounded
random variables by betting", 2024: about as narrow as the true variance allows.)

Statements 15 and 16 of docs/proofs.md.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

MOST_STAKED = 0.9  # of the stake at which one draw could take the whole capital
STEPS = 50  # of bisection: far below what the statement shows
PILOT = 16  # one draw of so many chooses the stake of the others


def ratio_limits(f: np.ndarray, b: np.ndarray, bound: float, level: float) -> tuple[float, float]:
    """Limits for E f/E b, each wrong with a probability of at most ``exp(-level)``.

    For independent draws with 0 ≤ f ≤ b ≤ ``bound``. The first few choose what is bet on: a ratio
    is looked for between half and twice theirs, where f − c b is less spread than anywhere, and
    limits that end there are true as well.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> low, high = ratio_limits(rng.random(4000), np.ones(4000), 1.0, 5.0)
    >>> bool(0.47 < low < 0.5 < high < 0.53)
    True
    """
    first = len(f) // PILOT
    if not bound > 0 or len(f) == first:
        return 0.0, 1.0
    guess = float(f[:first].sum()) / max(float(b[:first].sum()), np.finfo(float).tiny)
    least, most = 0.5 * guess, min(1.0, 2.0 * guess) or 1.0
    stakes = predictable_stakes(f, b, bound, level)[first:]
    f, b = f[first:], b[first:]
    # f − c b is at most (1 − c) f, and at least −c b
    above = np.minimum(stakes, MOST_STAKED / ((1.0 - least) * bound))
    below = np.minimum(stakes, MOST_STAKED / (most * bound))
    low = bisected(lambda c: _reaches(below * (f - c * b), level), 0.0, most)[0]
    high = bisected(lambda c: not _reaches(above * (c * b - f), level), least, 1.0)[1]
    return low, high


def mean_limits(x: np.ndarray, bound: float, level: float) -> tuple[float, float]:
    """Limits for the mean of draws between 0 and ``bound``."""
    if not bound > 0:
        return 0.0, 0.0
    low, high = ratio_limits(x / bound, np.ones(len(x)), 1.0, level)
    return bound * low, bound * high


def predictable_stakes(f: np.ndarray, b: np.ndarray, bound: float, level: float) -> np.ndarray:
    """The stake of each draw: √(2L/nσ²) with the deviation of f − ĉb in the draws before it."""
    n = len(f)

    def so_far(x: np.ndarray) -> np.ndarray:
        return np.concatenate([[0.0], np.cumsum(x)[:-1]])

    sf, sb = so_far(f), so_far(b)
    ratio = np.divide(sf, sb, out=np.zeros(n), where=sb > 0)
    squares = so_far(f * f) - 2 * ratio * so_far(f * b) + ratio**2 * so_far(b * b)
    variance = (bound**2 / 4 + np.maximum(squares, 0.0)) / (np.arange(n) + 1.0)
    return np.sqrt(2 * level / (n * variance))


def _reaches(returns: np.ndarray, level: float) -> bool:
    """Whether a capital of 1 reaches ``exp(level)`` on the way."""
    return bool(np.cumsum(np.log1p(returns)).max(initial=0.0) >= level)


def bisected(holds: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """The two sides of the place where something that holds at first no longer does."""
    if not holds(low):
        return low, low
    if holds(high):
        return high, high
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


def least_ratio(
    total: float, f: np.ndarray, b: np.ndarray, first: int, bound: float, level: float
) -> float:
    """A lower limit for E f*/E b, where f* is the residual of one unknown, fixed subspace.

    The draws of f* are not known, but their sum from the draw ``first`` on is at least ``total``,
    that of the best subspace for just these draws, and each lies between 0 and its b. A logarithm
    is above its chord: log(1 + λ(f − c b)) ≥ θf − max(−log(1 − λcb), θb − log(1 + λ(1 − c)b)) for
    any θ ≥ 0, so the capital is known to be large where ``total`` is. The stake comes from the
    draws in front, and from the residuals f of another subspace; no ratio above twice theirs is
    looked for, which would be larger than the one that is sought.
    """
    variance = float(np.mean(f[:first] * (b[:first] - f[:first]))) if first else bound**2 / 4
    energy = float(b[:first].sum())
    most = min(1.0, 2.0 * float(f[:first].sum()) / energy) if energy > 0 else 1.0
    n = len(f) - first
    if n == 0 or not most > 0 or not bound > 0:
        return 0.0
    stake = MOST_STAKED / (most * bound)
    if variance > 0:
        stake = min(stake, float(np.sqrt(2 * level / (n * variance))))
    b = b[first:]

    def certain(c: float) -> bool:
        lost, won = -np.log1p(-stake * c * b), np.log1p(stake * (1 - c) * b)

        def gain(theta: float) -> float:
            return theta * total - float(np.maximum(lost, theta * b - won).sum())

        # concave in θ, which is near the stake: golden section
        left, right = 0.0, 4.0 * stake
        inverse = (np.sqrt(5.0) - 1.0) / 2.0
        one, two = right - inverse * (right - left), left + inverse * (right - left)
        g_one, g_two = gain(one), gain(two)
        best = max(g_one, g_two)
        for _ in range(STEPS):
            if g_one > g_two:
                right, two, g_two = two, one, g_one
                one = right - inverse * (right - left)
                g_one = gain(one)
            else:
                left, one, g_one = one, two, g_two
                two = left + inverse * (right - left)
                g_two = gain(two)
            best = max(best, g_one, g_two)
            if best >= level:
                return True
        return False

    return bisected(certain, 0.0, most)[0]


def deviation(variance: float, bound: float, n: int, level: float) -> float:
    """How far the mean of n draws may be below its expectation (Bernstein).

    ``variance`` bounds theirs, ``bound`` how far one can be below.
    """
    return float(np.sqrt(2.0 * variance * level / n) + bound * level / (3.0 * n))
