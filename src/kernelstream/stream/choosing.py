"""Choices for "auto": bandwidth (gamma), number of components, landmarks; parallel analysis.

*Width.* The error in feature space would always prefer the widest kernel, and so would a linear map
from scores back to inputs: with it, nothing beats linear PCA. So inputs are reconstructed from the
scores by a ridge regression with a kernel of its own over the scores, and the error is that on rows
that were held back. Of the widths that are as good as the best, the narrowest is taken: the
others are on their way to linear PCA.

*Components.* Parallel analysis (Horn 1965): as many as have more variance than the same component
of rows whose columns were shuffled, each by itself. Shuffled rows have the same columns and nothing
that connects them.

*Points.* Doubled until they miss less than a stated share of the variance of any component: the
sum over all of them would hide that the last ones, which a linear model may need, are lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelstream.arrays.draws import evenly_spaced, generator
from kernelstream.arrays.namespaces import Array, as_dense, take_rows, to_float64, to_host
from kernelstream.kernels import Kernel
from kernelstream.landmarks.nystroem import factorise
from kernelstream.landmarks.optimized.kmeans import kmeans
from kernelstream.landmarks.optimized.polish import STEPS, Sampled, polish
from kernelstream.stream.components import NO_VARIANCE
from kernelstream.stream.gram import exact_components, exact_variances

if TYPE_CHECKING:
    from kernelstream.stream.step import Chain

LEARNED, HELD_BACK = 600, 300  # rows with which widths are compared
FACTORS = tuple(2.0**k for k in range(-6, 6))  # of the median's gamma: from wide to narrow
MOST_FACTORS = 24  # a grid is widened up to here: 2^24 of bandwidths is far beyond any data
AS_GOOD = 1.01  # errors up to this factor above the best are as good
STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1)  # of the ridge on the way back
SHUFFLES, SHUFFLED = 9, 400  # times that columns are shuffled, and rows
MOST_COMPONENTS, USUAL_COMPONENTS = 100, 20
MISSED = 0.01  # share of the variance of any component that points may miss
FEWEST_POINTS, MOST_POINTS, PLACED = 32, 512, 1500


def rows_for(X: Array, most: int) -> np.ndarray:
    """At most so many rows, spread over all of them, in float64 on the host."""
    chosen = evenly_spaced(int(X.shape[0]), most)
    return np.asarray(to_host(as_dense(take_rows(X, chosen))), dtype=np.float64)


@dataclass(frozen=True)
class Compared:
    """Widths that were compared, from wide to narrow, and the error of each."""

    gammas: np.ndarray
    errors: np.ndarray  # of the reconstruction of rows held back, as a share of their variance

    @property
    def gamma(self) -> float:
        """The narrowest that is as good as the best."""
        return float(self.gammas[good_errors(self.errors)[-1]])


def compare_widths(kernel: Kernel, X: Array, r: int, rng: np.random.Generator) -> Compared:
    """Reconstruct rows that were held back from r scores, for several widths of a kernel."""
    rows = rows_for(X, LEARNED + HELD_BACK)
    rows = rows[rng.permutation(len(rows))]
    n = max(2, len(rows) * LEARNED // (LEARNED + HELD_BACK))
    seen, back = rows[:n], rows[n:] if n < len(rows) else rows

    def error_of(gamma: float) -> float:
        scores = scores_of(kernel.copy().set_params(gamma=gamma), seen, back, r)
        return reconstruction_error(*scores, seen, back)

    given = float(kernel.get_params(deep=False)["gamma"])
    gammas, errors = on_widened_grid(given, error_of, lambda e: int(good_errors(e)[-1]))
    return Compared(gammas, errors)


def good_errors(errors: np.ndarray) -> np.ndarray:
    """Which errors are as good as the smallest."""
    return np.flatnonzero(errors <= AS_GOOD * errors.min())


def on_widened_grid(
    gamma: float, evaluate: Callable[[float], Any], best: Callable[[np.ndarray], int]
) -> tuple[np.ndarray, np.ndarray]:
    """Values of a function of the bandwidth on a grid, widened while the best is at its edge.

    Parameters
    ----------
    gamma : float
        The middle of the grid.
    evaluate : callable
        Function of a bandwidth.
    best : callable
        Function of all values that returns the index of the best.

    Returns
    -------
    tuple of two arrays
        The bandwidths in ascending order, and their values.
    """
    gammas = [gamma * factor for factor in FACTORS]
    values = [evaluate(each) for each in gammas]
    while len(gammas) < MOST_FACTORS:
        i = best(np.array(values))
        if 0 < i < len(gammas) - 1:
            break
        place, more = (0, gammas[0] / 2.0) if i == 0 else (len(gammas), gammas[-1] * 2.0)
        gammas.insert(place, more)
        values.insert(place, evaluate(more))
    return np.array(gammas), np.array(values)


def scores_of(
    kernel: Kernel, seen: np.ndarray, back: np.ndarray, r: int
) -> tuple[np.ndarray, np.ndarray]:
    """Scores on the first r components of exact kernel PCA of the rows seen."""
    K = kernel.gram(seen)
    A, offset = exact_components(K, np.ones(len(seen)), True, r)
    return K @ A - offset, kernel.block(back, seen) @ A - offset


def reconstruction_error(
    scores: np.ndarray, of_back: np.ndarray, seen: np.ndarray, back: np.ndarray
) -> float:
    """Of inputs from scores, by kernel ridge regression, as a share of the variance."""
    apart = squared_distances(scores, scores)
    unit = float(np.median(apart[np.triu_indices(len(scores), 1)])) or 1.0
    values, vectors = np.linalg.eigh(np.exp(-apart / unit))
    there = np.exp(-squared_distances(of_back, scores) / unit) @ vectors
    mean = seen.mean(axis=0)
    targets = vectors.T @ (seen - mean)
    found = [
        float(np.sum((mean + there @ (targets / (values + a)[:, None]) - back) ** 2))
        for a in STRENGTHS
    ]
    return min(found) / max(float(np.sum((back - mean) ** 2)), np.finfo(float).tiny)


def squared_distances(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """|a − b|² of all pairs of rows."""
    norms = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1)[None, :]
    return np.asarray(np.maximum(norms - 2.0 * (A @ B.T), 0.0))


def parallel_analysis(
    kernel: Kernel, X: Array, center: bool, rng: np.random.Generator
) -> tuple[int, np.ndarray, np.ndarray]:
    """The number of components above chance, the variances, and the largest of shuffled rows."""
    rows = rows_for(X, SHUFFLED)
    found = exact_variances(kernel.gram(rows), center)
    chance = np.zeros(len(found))
    for _ in range(SHUFFLES):
        shuffled = np.column_stack([rng.permutation(column) for column in rows.T])
        chance = np.maximum(chance, exact_variances(kernel.gram(shuffled), center))
    above = found > chance
    r = len(above) if above.all() else int(np.argmin(above))
    return max(1, min(r, MOST_COMPONENTS, len(rows) - 1)), found, chance


def enough_points(kernel: Kernel, X: Array, r: int, rng: np.random.Generator) -> int:
    """The number of points that miss little of each of the first r components.

    Where as many points as there are rows would do, so many are taken: nothing is missed then.
    """
    rows = rows_for(X, PLACED)
    exact = exact_variances(kernel.gram(rows), True)[:r]
    exact = exact[exact > NO_VARIANCE * exact[0]]
    m = max(FEWEST_POINTS, 2 ** math.ceil(math.log2(max(r, 1))))
    while m < len(rows):
        sampled = Sampled.of(kernel, rows, None, rng)
        points = kmeans(sampled.seen, m, STEPS, rng)
        points = polish(kernel, points, sampled, r)
        span = factorise(kernel, sampled.beside(points))
        Z = to_host(to_float64(span.coordinates(kernel, sampled.rows)))
        held = np.linalg.eigvalsh(np.atleast_2d(np.cov(Z.T, bias=True)))[::-1]
        held = np.pad(held, (0, len(exact)))[: len(exact)]
        if np.all(held >= (1.0 - MISSED) * exact) or 2 * m > MOST_POINTS:
            break
        m *= 2
    return m


def choose(chain: Chain, X: Array) -> Chain:
    """The chain with numbers for what is "auto", from rows in the units of the kernel."""
    rng = generator(chain.seed, "choice")
    kernel, basis, r = chain.kernel, chain.basis, chain.n_components
    usual = r if isinstance(r, int) else USUAL_COMPONENTS
    if "gamma" in chain.auto:
        kernel = kernel.copy().set_params(gamma=compare_widths(kernel, X, usual, rng).gamma)
    if "components" in chain.auto:
        r = usual = parallel_analysis(kernel, X, chain.center, rng)[0]
    if "points" in chain.auto:
        basis = basis.copy().set_params(n_points=enough_points(kernel, X, usual, rng))
    return replace(chain, kernel=kernel, basis=basis, n_components=r, auto=())
