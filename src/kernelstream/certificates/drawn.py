"""Confidence interval from many independent draws, without their Gram matrix (proof 19).

``statement.py`` serves the same purpose for fewer draws; the Gram matrix of these would be too
large. The feature space is divided in two: the span of the model and of some more rows, and the
rest. No subspace captures more than the best of its dimension in each of the two together. The
first is evaluated on all draws, whose moments are as small as those of a model; the second, where
little is left, on a few of them. Statement 19 of docs/proofs.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from kernelstream.arrays.namespaces import Array, as_dense, to_float64, to_host
from kernelstream.arrays.threads import in_threads, in_turn
from kernelstream.certificates.betting import (
    PILOT,
    deviation,
    least_ratio,
    mean_limits,
    ratio_limits,
)
from kernelstream.certificates.confidence import (
    ROUNDING,
    ConfidenceBounds,
    EvaluatedModel,
    Known,
    concluded,
)
from kernelstream.certificates.symmetric import Symmetric, leading_values

STRIP = 2048  # draws that are read and measured together
TOGETHER = 16  # strips in memory at a time, at most
REST = 4096  # draws whose Gram matrix is computed, of what is outside
BESIDE = 128  # directions that rows more add to a span, those of most energy
FLAT = 1e-6  # of the kernel's bound: rows more that add less than this to the span add nothing
LIMITS = 14  # that may each be wrong: ends of four means, four shares, two means of vectors

Read = Callable[[slice], Array]  # some of the draws, as the kernel sees them


@dataclass(frozen=True)
class Wider:
    """The span of a model, and what some rows add to it: orthonormal coordinates of both."""

    judged: EvaluatedModel
    rows: Array
    factor: np.ndarray  # of their Gram matrix outside of the span of the model
    held: np.ndarray  # what has to be taken away, of coordinates in the model

    @classmethod
    def of(cls, judged: EvaluatedModel, rows: Array) -> Wider:
        """The span of a model and of rows more."""
        rows = as_dense(to_float64(rows))
        held = located(judged, rows) + to_host(judged.mean)
        outside = to_host(judged.kernel.block(rows, rows)) - held @ held.T
        values, vectors = np.linalg.eigh(0.5 * (outside + outside.T))
        values, vectors = values[-BESIDE:], vectors[:, -BESIDE:]
        kept = values > FLAT * judged.kernel.max_squared_norm
        factor = vectors[:, kept] / np.sqrt(values[kept])
        return cls(judged, rows, factor, held.T @ factor)

    def coordinates(self, X: Array) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates of rows less the mean, in the span of the model and beside it."""
        Z = located(self.judged, X)
        if not self.factor.shape[1]:
            return Z, np.zeros((len(Z), 0))
        cross = to_host(self.judged.kernel.block(X, self.rows)).astype(float)
        return Z, cross @ self.factor - (Z + to_host(self.judged.mean)) @ self.held


def located(judged: EvaluatedModel, X: Array) -> np.ndarray:
    """Coordinates of rows in the model, less its mean."""
    return to_host(judged.coordinates(X)).astype(float)


@dataclass(frozen=True)
class Strip:
    """What some draws are to the model."""

    error: np.ndarray  # |φ − Pφ|²
    distance: np.ndarray  # |φ − μ|²
    rest: np.ndarray  # of it outside of the wider span
    scatter: np.ndarray  # Σ z zᵀ in the wider span
    total: np.ndarray  # Σ z


def measured(wider: Wider, U: np.ndarray, read: Read, at: slice) -> Strip:
    """Measure some draws."""
    X, judged = to_float64(read(at)), wider.judged
    Z, beside = wider.coordinates(X)
    held = ((Z + to_host(judged.mean)) ** 2).sum(axis=1)
    energy = to_host(judged.kernel.diag(X)).astype(float)
    missed = np.maximum(energy - held, 0.0)
    rest = np.maximum(missed - (beside**2).sum(axis=1), 0.0)
    distance = missed + (Z**2).sum(axis=1)
    error = np.clip(distance - ((Z @ U) ** 2).sum(axis=1), rest, distance)
    whole = np.concatenate([Z, beside], axis=1)
    return Strip(error, distance, rest, whole.T @ whole, whole.sum(axis=0))


def statement_of_draws(
    judged: EvaluatedModel,
    wider: Wider,
    read: Read,
    n: int,
    n_rows: int,
    failure: float,
    confidence: float,
) -> ConfidenceBounds:
    """What n independent draws of n_rows rows say; wrong with probability ``failure`` at most."""
    with np.errstate(all="ignore"):
        found = judge(judged, wider, read, n, math.log(LIMITS / failure))
    return replace(found, n_rows=n_rows, confidence=confidence)


def judge(
    judged: EvaluatedModel, wider: Wider, read: Read, n: int, level: float
) -> ConfidenceBounds:
    """The statement, each of its limits wrong with a probability of ``exp(-level)``."""
    V = to_host(judged.vectors).astype(float)
    r = V.shape[1]
    V = V[:, np.linalg.norm(V, axis=0) > 0.5]  # zero columns fill up missing rank
    U = np.linalg.svd(V, full_matrices=False)[0] if V.size else V
    # one draw of PILOT in front chooses the stakes, the others are judged
    first = STRIP * -(-n // (PILOT * STRIP))
    strips = [slice(i, min(i + STRIP, n)) for i in range(0, n, STRIP)]
    numbers: list[Strip] = []
    size = sum(wider.held.shape)
    scatter, total = np.zeros((size, size)), np.zeros(size)
    for i in range(0, len(strips), TOGETHER):
        group = in_threads(partial(measured, wider, U, read), strips[i : i + TOGETHER])
        late = [s for s, at in zip(group, strips[i:], strict=False) if at.start >= first]
        scatter = in_turn(scatter, [s.scatter for s in late])
        total = in_turn(total, [s.total for s in group])
        none = np.zeros((0, 0))
        numbers += [replace(s, scatter=none, total=none) for s in group]
    f = np.concatenate([s.error for s in numbers])
    b = np.concatenate([s.distance for s in numbers])
    rest = np.concatenate([s.rest for s in numbers])
    bound = judged.kernel.max_squared_norm
    farthest = (math.sqrt(bound) + float(np.linalg.norm(to_host(judged.mean)))) ** 2
    known = {
        "error": mean_limits(f, farthest, level),
        "around": mean_limits(b, farthest, level),
        "missed": ratio_limits(f, b, farthest, level),
    }
    outside = ratio_limits(rest, b, farthest, level)
    inside_b, inside_f = b - rest, f - rest
    values = np.cumsum(np.maximum(np.linalg.eigvalsh(scatter)[::-1], 0.0))
    judged_b = float(inside_b[first:].sum())
    few = Outside.of(wider, r, to_float64(read(slice(0, min(n, REST)))), rest, bound, level)

    def captured(k: int) -> tuple[float, float]:
        left = max(0.0, judged_b - float(values[min(k, len(values)) - 1])) if len(values) else 0.0
        return 1.0 - least_ratio(left, inside_f, inside_b, first, farthest, level), few.captured(k)

    moved = 0.0
    if judged.center:  # |m − μ|²: the mean of the model is not that of the rows
        most, (one, other) = known["around"][1], captured(1)
        there = float(np.linalg.norm(total)) / n
        moved = (there + deviation(one * most, 2.0 * math.sqrt(bound), n, level)) ** 2
        moved += few.mean(other * outside[1] * most) ** 2
    within, beyond = captured(r)
    best = max(within * (1.0 - q) + beyond * q for q in outside)
    return concluded(Known(**known, captured=best, moved=moved), ROUNDING * bound, 0.0, n)


@dataclass(frozen=True)
class Outside:
    """A few draws, outside of the wider span."""

    energy: np.ndarray
    first: int  # those in front choose the stake
    leading: tuple[np.ndarray, np.ndarray]  # sums of eigenvalues, of those in front and the others
    away: float  # length of their mean
    bound: float
    level: float

    @classmethod
    def of(
        cls, wider: Wider, r: int, X: Array, rest: np.ndarray, bound: float, level: float
    ) -> Outside:
        """What is left of draws, X, in the directions in which they have most of it."""
        n = int(X.shape[0])
        first, energy = n // PILOT, rest[:n]
        Z, beside = wider.coordinates(X)
        whole = np.concatenate([Z + to_host(wider.judged.mean), beside], axis=1)
        kernel, dense = wider.judged.kernel, as_dense(X)

        def block(rows: slice, after: slice) -> np.ndarray:
            values = to_host(kernel.block(X[rows, :], dense[after, :])).astype(float)
            return values - whole[rows] @ whole[after].T

        gram, in_front = Symmetric.of(block, energy), np.arange(n) < first
        pilot, others = (
            np.cumsum(leading_values(gram, some.astype(float), r)) for some in (in_front, ~in_front)
        )
        away = math.sqrt(max(0.0, float((gram @ np.ones(n)).sum()))) / n
        return cls(energy, first, (pilot, others), away, bound, level)

    def captured(self, k: int) -> float:
        """The share that k directions hold of what is outside, at most."""
        first = self.first
        in_front = float(self.energy[:first].sum())
        if not in_front > 0.0:
            return 1.0
        pilot, others = (float(sums[min(k, len(sums)) - 1]) for sums in self.leading)
        guess = self.energy * max(0.0, 1.0 - pilot / in_front)
        left = max(0.0, float(self.energy[first:].sum()) - others)
        return 1.0 - least_ratio(left, guess, self.energy, first, self.bound, self.level)

    def mean(self, variance: float) -> float:
        """The length of the mean of what is outside, at most."""
        n = len(self.energy)
        return self.away + deviation(variance, 2.0 * math.sqrt(self.bound), n, self.level)
