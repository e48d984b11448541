"""Confidence bounds from rows that were not learned: model error, best possible error.

The guaranteed bounds hold for every stream, and are often wide. The bounds here are about the same
numbers and hold with a probability: they come from rows of which nothing was learned
(``sample.py``). For these, the error of the model is the error of a fixed function on independent
draws, whose mean is bounded by betting; and no subspace can be better on all rows without being
better on the draws. Statements 15 to 19 of docs/proofs.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from kernelstream.arrays.namespaces import Array, as_dense, take_rows, to_float64, to_host
from kernelstream.arrays.printing import prints_short
from kernelstream.arrays.threads import cores, in_threads, in_turn
from kernelstream.certificates.betting import (
    PILOT,
    deviation,
    least_ratio,
    mean_limits,
    ratio_limits,
)
from kernelstream.certificates.eigenvalues import gram_matrix, leading_sums, unit_of
from kernelstream.certificates.evaluation import (
    ROUNDING,
    AugmentedSpan,
    EvaluatedModel,
    RowResiduals,
    strips,
)
from kernelstream.certificates.sample import ROWS, with_replacement
from kernelstream.serialization import stored

CONFIDENCE = 0.99

# With many components fewer draws are compared: of 5,120 draws 150 components take 15 s.
MANY_COMPONENTS = 64
FEWER_DRAWS = 2048

Read = Callable[[slice], Array]  # some of the draws, as the kernel sees them


@stored
@prints_short
@dataclass(frozen=True)
class ConfidenceBounds:
    """What is known about a model from a sample of the rows seen.

    Attributes
    ----------
    confidence : float
        With this probability all bounds hold, at every doubling of the rows together.
    n_sampled : int
        Number of rows on which the model was evaluated.
    complete : bool
        Whether these are all rows: then the bounds are guaranteed, up to rounding.
    reconstruction_error_interval : tuple of two floats
        Mean squared reconstruction error of this model over all rows seen.
    explained_variance_ratio_interval : tuple of two floats
        Explained variance ratio of this model.
    best_explained_variance_ratio_interval : tuple of two floats
        Explained variance ratio of the best r components.
    shortfall_bound : float
        The explained variance ratio of this model is at most this much below the best.
    excess_bound : float
        The error of this model is at most this much above the best possible.
    reason : str or None
        Why there are no bounds; None when there are.
    n_rows : int
        Number of rows that the bounds are about, if most of them were not read
        (``fit(until=…)``); 0: the rows seen.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA
    >>> X = np.random.default_rng(0).normal(size=(9000, 3))
    >>> model = StreamingKernelPCA(5, gamma=0.1, basis=40, random_state=0).partial_fit(X)
    >>> bounds = model.certificate_.statistical
    >>> low, high = bounds.explained_variance_ratio_interval
    >>> bool(high - low < 0.05 and bounds.shortfall_bound < 0.05)
    True
    """

    # The defaults hold for every model.
    confidence: float = CONFIDENCE
    n_sampled: int = 0
    complete: bool = False
    reconstruction_error_interval: tuple[float, float] = (0.0, math.inf)
    explained_variance_ratio_interval: tuple[float, float] = (0.0, 1.0)
    best_explained_variance_ratio_interval: tuple[float, float] = (0.0, 1.0)
    shortfall_bound: float = 1.0
    excess_bound: float = math.inf
    reason: str | None = None
    n_rows: int = 0

    @property
    def kind(self) -> str:
        """How the bounds are known, in words."""
        if self.complete:
            return f"computed from all {self.n_sampled:,} rows"
        drawn = f" drawn from {self.n_rows:,}" if self.n_rows else ""
        return f"{100 * self.confidence:.4g}% confidence, from {self.n_sampled:,} rows{drawn}"


def named_limits(parts: Sequence[str]) -> list[str]:
    """All limits that may be wrong, each with the same probability.

    ``parts`` names the orthogonal subspaces into which the feature space is divided.
    """
    means = ["reconstruction error", "squared distance from the mean", "residual ratio"]
    if len(parts) > 1:
        means.append("fraction outside of the span")
    ends = [f"{end} end of the {mean}" for mean in means for end in ("lower", "upper")]
    of_parts = ("best subspace", "best direction", "mean")
    return ends + [f"{limit} of {part}" for part in parts for limit in of_parts]


def level_of(confidence: float, look: int, parts: Sequence[str]) -> float:
    """Each limit may be wrong with a probability of ``exp(-level)``.

    Over all limits, and over the looks 1, 2, …, that adds up to one minus the confidence.
    """
    return math.log(len(named_limits(parts)) * look * (look + 1) / (1.0 - confidence))


@dataclass(frozen=True)
class DrawsInSubspace:
    """Draws in one of the orthogonal subspaces into which the feature space is divided."""

    squared_norm: np.ndarray
    residual: np.ndarray  # of it, a guess at what the best subspace leaves
    first: int  # the draws before choose the stake
    leading: np.ndarray  # upper bounds on the sums of leading eigenvalues of the others
    mean: float  # length of the mean of all
    fraction: tuple[float, float] = (1.0, 1.0)  # of the squared distance, in this subspace

    def captured(self, k: int, bound: float, level: float) -> float:
        """Upper limit of the fraction that any k directions capture."""
        if not len(self.leading):
            return 1.0
        most = float(self.leading[min(k, len(self.leading)) - 1]) if k else 0.0
        left = max(0.0, float(self.squared_norm[self.first :].sum()) - most)
        return 1.0 - least_ratio(left, self.residual, self.squared_norm, self.first, bound, level)


def combine_limits(
    model: EvaluatedModel,
    error: np.ndarray,
    distance: np.ndarray,
    bound: float,
    level: float,
    parts: Sequence[DrawsInSubspace],
    confidence: float,
    n_rows: int = 0,
) -> ConfidenceBounds:
    """The bounds that follow from limits over independent draws (statement 18).

    Without ``parts`` the draws are not compared with the best subspace, and its bound is that of
    the model.
    """
    rounding, farthest = ROUNDING * bound, model.farthest(bound)
    of_error = mean_limits(error, farthest, level)
    around = mean_limits(distance, farthest, level)  # E|φ − μ|²
    residual = ratio_limits(error, distance, farthest, level)
    captured, moved = best_subspace(model, parts, bound, around[1], level) if parts else (0.0, 0.0)
    least = max(0.0, around[0] - moved - rounding)
    own, best = (0.0, 1.0), 1.0
    if least > 0:  # else the variance of the rows is lost in their squared norms
        doubt, off = moved / least, rounding / least
        own = (
            max(0.0, 1.0 - residual[1] * (1.0 + doubt) - off),
            min(1.0, (1.0 - residual[0]) * (1.0 + doubt) + off),
        )
        best = max(min(1.0, captured * (1.0 + doubt) + off), own[1])
    shortfall = best - own[0]
    excess = min(of_error[1] - least * (1.0 - best), shortfall * around[1] + moved)
    return ConfidenceBounds(
        confidence=confidence,
        n_sampled=len(error),
        reconstruction_error_interval=(max(0.0, of_error[0] - rounding), of_error[1] + rounding),
        explained_variance_ratio_interval=own,
        best_explained_variance_ratio_interval=(own[0], best),
        shortfall_bound=shortfall,
        excess_bound=max(0.0, excess) + rounding,
        n_rows=n_rows,
    )


def best_subspace(
    model: EvaluatedModel,
    parts: Sequence[DrawsInSubspace],
    bound: float,
    around: float,
    level: float,
) -> tuple[float, float]:
    """Upper limits of the fraction of E|φ − μ|² ≤ ``around`` in any subspace, and of |m − μ|².

    m is the mean of the rows, and μ that of the model.
    """
    farthest = model.farthest(bound)
    of_parts = [(part.captured(model.r, farthest, level), part.fraction) for part in parts]
    # fractions add up to one: the worst is at an end of the last one
    (first, _), (last, ends) = of_parts[0], of_parts[-1]
    best = max(first * (1.0 - end) + last * end for end in ends)
    moved = 0.0
    for part in parts if model.center else ():
        variance = part.captured(1, farthest, level) * part.fraction[1] * around
        n, most = len(part.squared_norm), 2.0 * math.sqrt(bound)
        moved += (part.mean + deviation(variance, most, n, level)) ** 2
    return best, moved


# -- of the audit sample


def obstacle(model: EvaluatedModel) -> str | None:
    """Why there are no bounds, if so."""
    if not model.certify:
        return "certify=False was given"
    if not model.kernel.psd:
        return f"the kernel {model.kernel} is not known to be positive semidefinite"
    if model.sample is None:
        return (
            "there is no sample of its rows to evaluate the model on: rows have left it (a window, "
            "remove), it was compressed, or passed over its rows several times"
        )
    if not len(model.sample) or not model.weight > 0:
        return "no rows were seen"
    return None


def bounds_of_sample(model: EvaluatedModel, compare: bool = True) -> ConfidenceBounds:
    """The bounds from the audit sample of a model.

    Without ``compare`` they are about the model alone: in no time, but what is known of the best
    subspace can only widen them.
    """
    problem = obstacle(model)
    if problem is not None:
        return ConfidenceBounds(reason=problem)
    with cores(), np.errstate(all="ignore"):
        bounds = evaluated_on_sample(model, compare)
    numbers = (
        *bounds.reconstruction_error_interval,
        *bounds.explained_variance_ratio_interval,
        *bounds.best_explained_variance_ratio_interval,
    )
    if not np.all(np.isfinite(numbers)):
        return ConfidenceBounds(reason="the numbers leave the range of float64")
    return bounds


def evaluated_on_sample(model: EvaluatedModel, compare: bool) -> ConfidenceBounds:
    """Evaluate the model on its sample, and bound what follows for all rows."""
    sample = model.sample
    assert sample is not None  # no obstacle
    order, weights = sample.in_order(model.log_forgetting)
    rows, bound = to_float64(take_rows(sample.held()[0], order)), sample.bound(model.kernel)
    scores = model.evaluate(rows)
    if not np.isfinite(scores.distance.sum()):
        return ConfidenceBounds(reason="the numbers leave the range of float64")
    if model.complete:
        return computed(model, rows, scores, weights / weights.sum(), bound)
    purpose = f"audit repeats {sample.key} {model.n_rows}"
    drawn = with_replacement(weights, model.weight, model.seed, purpose)
    look = 1 + max(0, int(math.log2(model.n_rows / sample.size)))
    level = level_of(CONFIDENCE, look, ["the feature space"])
    error, distance, parts = scores.error[drawn], scores.distance[drawn], []
    if compare:
        some = drawn if model.r <= MANY_COMPONENTS else drawn[:FEWER_DRAWS]
        G = centered_gram(model, take_rows(rows, some), scores.Z[some], scores.distance[some])
        parts = [part_of_gram(G, scores.distance[some], scores.error[some], model.r)]
    return combine_limits(model, error, distance, bound, level, parts, CONFIDENCE)


def centered_gram(
    model: EvaluatedModel,
    rows: Array,
    Z: np.ndarray,
    distance: np.ndarray,
    dtype: type = np.float32,
) -> np.ndarray:
    """⟨φ(x) − μ, φ(x') − μ⟩ of rows, divided by the unit of the distances."""
    along = (Z + model.origin) @ model.origin - 0.5 * float(model.origin @ model.origin)
    dense = as_dense(rows)

    def block(some: slice, later: slice) -> np.ndarray:
        values = to_host(model.kernel.block(rows[some, :], dense[later, :]))
        return values - along[some, None] - along[None, later]

    return gram_matrix(block, distance, dtype)


def part_of_gram(
    G: np.ndarray, squared_norm: np.ndarray, residual: np.ndarray | None, r: int
) -> DrawsInSubspace:
    """Draws whose Gram matrix is known, divided by its unit.

    Without a guess at the residuals, the draws that choose the stake give one.
    """
    n, unit = len(G), unit_of(squared_norm)
    first = n // PILOT
    mean = math.sqrt(max(0.0, unit * float(G.sum(dtype=np.float64)))) / n
    if residual is None:
        in_front = float(squared_norm[:first].sum())
        captured = unit * float(leading_sums(G[:first, :first], r)[1][-1]) if r and first else 0.0
        residual = squared_norm * max(0.0, 1.0 - captured / max(in_front, np.finfo(float).tiny))
    leading = unit * leading_sums(G[first:, first:], max(r, 1))[1]
    return DrawsInSubspace(squared_norm, residual, first, leading, mean)


def computed(
    model: EvaluatedModel, rows: Array, scores: RowResiduals, p: np.ndarray, bound: float
) -> ConfidenceBounds:
    """All rows are in the sample: the numbers themselves, as bounds that are true."""
    G = centered_gram(model, rows, scores.Z, scores.distance, np.float64)
    unit = unit_of(scores.distance)
    error, total, offset = float(p @ scores.error), float(p @ scores.distance), 0.0
    if model.center:
        towards = G @ p
        square = float(p @ towards)
        inside = model.basis.T @ (p @ scores.Z)
        offset = max(0.0, unit * square - float(inside @ inside))
        total = max(0.0, total - unit * square)
        G += (0.5 * square - towards)[:, None]
        G += (0.5 * square - towards)[None, :]
    root = np.sqrt(p)
    G *= root[:, None]
    G *= root[None, :]
    own = max(0.0, total - (error - offset))
    least = most = 0.0
    if model.r:
        least, most = (min(total, unit * float(sums[-1])) for sums in leading_sums(G, model.r))
    off = ROUNDING * bound
    own_ratio = best_ratio = 0.0, 1.0
    if total > 0:
        own, share = min(own, most), off / total
        own_ratio = max(0.0, own / total - share), min(1.0, own / total + share)
        best_ratio = max(0.0, max(least, own) / total - share), min(1.0, most / total + share)
    return ConfidenceBounds(
        confidence=1.0,
        n_sampled=len(p),
        complete=True,
        reconstruction_error_interval=(max(0.0, error - off), error + off),
        explained_variance_ratio_interval=own_ratio,
        best_explained_variance_ratio_interval=best_ratio,
        shortfall_bound=max(0.0, best_ratio[1] - own_ratio[0]),
        excess_bound=max(0.0, error - (total - most)) + 2 * off,
    )


# -- of draws that are read for the purpose (statement 19)


@dataclass(frozen=True)
class Strip:
    """Some draws in an augmented span and outside of it."""

    error: np.ndarray
    distance: np.ndarray
    rest: np.ndarray  # of the squared distance, outside of the span
    scatter: np.ndarray  # Σ z zᵀ in the span
    total: np.ndarray  # Σ z

    @classmethod
    def of(cls, span: AugmentedSpan, read: Read, at: slice) -> Strip:
        """Evaluate some draws."""
        X = to_float64(read(at))
        scores = span.model.evaluate(X)
        further = span.directions(X, scores.Z)
        rest = np.maximum(scores.residual - (further**2).sum(axis=1), 0.0)
        whole = np.concatenate([scores.Z, further], axis=1)
        return cls(scores.error, scores.distance, rest, whole.T @ whole, whole.sum(axis=0))


def bounds_of_draws(
    span: AugmentedSpan, read: Read, n: int, n_rows: int, confidence: float, look: int
) -> ConfidenceBounds:
    """The bounds from n independent draws of n_rows rows, at one of several looks.

    The Gram matrix of so many draws would be too large. So the feature space is divided into a
    span, in which all draws are compared, and the rest, where little is left, and in which a few
    are. No subspace captures more than the best one in each of the two together.
    """
    with cores() as n_threads, np.errstate(all="ignore"):
        model, bound = span.model, span.model.kernel.max_squared_norm
        level = level_of(confidence, look, ["the span", "the rest"])
        inside, error, distance, rest = evaluated_in(span, read, n, n_threads)
        outside = ratio_limits(rest, distance, model.farthest(bound), level)
        inside = replace(inside, fraction=(1.0 - outside[1], 1.0 - outside[0]))
        few = min(n, ROWS)  # whose Gram matrix fits into memory
        beyond = part_outside(span, to_float64(read(slice(0, few))), rest[:few])
        parts = [inside, replace(beyond, fraction=outside)]
        return combine_limits(model, error, distance, bound, level, parts, confidence, n_rows)


def evaluated_in(
    span: AugmentedSpan, read: Read, n: int, n_threads: int = 1
) -> tuple[DrawsInSubspace, np.ndarray, np.ndarray, np.ndarray]:
    """All draws in a span; their errors, squared distances, and what is outside of the span."""
    pieces, kept = list(strips(n)), []
    first = next(at.stop for at in pieces if at.stop >= n // PILOT)  # they choose the stakes
    size = sum(span.held.shape)
    scatter, total, nothing = np.zeros((size, size)), np.zeros(size), np.zeros((0, 0))
    for i in range(0, len(pieces), n_threads):  # so many are in memory at a time
        group = in_threads(partial(Strip.of, span, read), pieces[i : i + n_threads])
        judged = [s for s, at in zip(group, pieces[i:], strict=False) if at.start >= first]
        scatter = in_turn(scatter, [s.scatter for s in judged])
        total = in_turn(total, [s.total for s in group])
        kept += [replace(s, scatter=nothing, total=nothing) for s in group]
    error, distance, rest = (
        np.concatenate([getattr(s, name) for s in kept]) for name in ("error", "distance", "rest")
    )
    leading = np.cumsum(np.maximum(np.linalg.eigvalsh(scatter)[::-1], 0.0))
    mean = float(np.linalg.norm(total)) / n
    return (
        DrawsInSubspace(distance - rest, error - rest, first, leading, mean),
        error,
        distance,
        rest,
    )


def part_outside(span: AugmentedSpan, X: Array, rest: np.ndarray) -> DrawsInSubspace:
    """A few draws outside of a span."""
    Z, kernel, dense = span.model.centered(X), span.model.kernel, as_dense(X)
    whole = np.concatenate([Z + span.model.origin, span.directions(X, Z)], axis=1)

    def block(some: slice, later: slice) -> np.ndarray:
        values = to_host(kernel.block(X[some, :], dense[later, :])).astype(float)
        return values - whole[some] @ whole[later].T

    return part_of_gram(gram_matrix(block, rest, np.float32), rest, None, span.model.r)
