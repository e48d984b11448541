"""Whether a second, narrower or wider, index beside that of the monitor would pay.

    python -m benchmarks.two_indexes

Single rows are judged at 1 %. For each width: what the monitor at its defaults finds, what an index
of that width finds, and what the two find together, an alarm being the smaller of two p-values with
one limit for both. Limits are quantiles of 20,000 normal rows that nothing was learned from: all
have the same false alarms. The mean of three draws.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from kernelstream import KernelMonitor

WIDTHS = (0.1, 0.3, 1.0, 3.0)
LEVEL = 0.01


def sheet(n: int, rng: np.random.Generator, off: float = 0.0) -> np.ndarray:
    """A rolled-up sheet, or rows ``off`` beside it."""
    turn, along = 1.5 * np.pi * (1 + 2 * rng.random(n)), 10 * rng.random(n)
    radius = turn + off
    X = np.column_stack([radius * np.cos(turn), along, radius * np.sin(turn)])
    return X + 0.3 * rng.normal(size=X.shape)


def lee(n: int, rng: np.random.Generator, off: float = 0.0) -> np.ndarray:
    """Lee's process: three functions of one variable; a step in the second."""
    t = rng.uniform(0.01, 2.0, n)
    X = np.column_stack([t, t**2 - 3 * t + off, -(t**3) + 3 * t**2])
    return X + 0.1 * rng.normal(size=X.shape)


def ellipsoid(n: int, rng: np.random.Generator, off: float = 0.0) -> np.ndarray:
    """Thirty sensors of a linear process; a step of the first."""
    mix = np.random.default_rng(77).normal(size=(5, 30))
    X = rng.normal(size=(n, 5)) @ mix + rng.normal(size=(n, 30))
    X[:, 0] += off
    return X


CASES: dict[str, tuple[Callable[..., np.ndarray], float]] = {
    "rolled-up sheet": (sheet, 1.6),
    "Lee's process": (lee, 0.4),
    "linear process": (ellipsoid, 4.0),
}


def found(usual: np.ndarray, faulty: np.ndarray) -> float:
    """Share of faulty rows above what a hundredth of the usual ones exceed."""
    return 100.0 * float(np.mean(faulty > np.quantile(usual, 1.0 - LEVEL)))


def strangeness(usual: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Minus the p-value of each number of X among the usual ones."""
    return np.searchsorted(np.sort(usual), X, side="left") / len(usual) - 1.0


def measure(make: Callable[..., np.ndarray], off: float, seed: int) -> np.ndarray:
    """Shares found: by the monitor, then for each width alone and together."""
    rng = np.random.default_rng(seed)
    learned, usual, faulty = make(2000, rng), make(20_000, rng), make(3000, rng, off)

    def scores(width: float | str = "auto") -> tuple[np.ndarray, np.ndarray]:
        monitor = KernelMonitor(smooth=None, width=width, random_state=0).fit(learned)
        return -monitor.score_samples(usual), -monitor.score_samples(faulty)

    own = scores()
    shares = [found(*own)]
    for width in WIDTHS:
        other = scores(width)
        both = (
            np.maximum(strangeness(own[0], own[k]), strangeness(other[0], other[k])) for k in (0, 1)
        )
        shares += [found(*other), found(*both)]
    return np.array(shares)


def main() -> None:
    """Print a table of Markdown."""
    print(
        f"| found at 1 % | defaults | {' | '.join(f'width {w:g}: alone, both' for w in WIDTHS)} |"
    )
    print("|---|--:|" + "--:|" * len(WIDTHS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that such a width saturates
        for name, (make, off) in CASES.items():
            own, *pairs = np.mean([measure(make, off, seed) for seed in range(3)], axis=0)
            cells = [f"{alone:.0f}, {both:.0f}" for alone, both in np.reshape(pairs, (-1, 2))]
            print(f"| {name} | {own:.0f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
