"""Confidence intervals from the audit sample: error of the model and the best possible error.

The proof in ``certificate.py`` is true of every stream, and often says little. The statement here
is about the same numbers, and true with a probability: it is drawn from rows of which nothing was
learned (``audit.py``). For these the error of the model is the error of a fixed function on
independent draws, whose mean is known by ``betting.py``; and no subspace can be better on all rows
without being better on the draws. Statements 15 to 18 of docs/proofs.md.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kernelstream.arrays.namespaces import Array, as_dense, take_rows, to_float64, to_host
from kernelstream.arrays.printing import prints_short
from kernelstream.certificates.betting import (
    PILOT,
    deviation,
    least_ratio,
    mean_limits,
    ratio_limits,
)
from kernelstream.certificates.sample import AuditSample, with_replacement
from kernelstream.certificates.symmetric import FEW, MANY, Symmetric, leading_values
from kernelstream.kernels import Kernel
from kernelstream.serialization import stored

CONFIDENCE = 0.99
LIMITS = 9  # that may each be wrong: two ends of three means, the best share, what the mean needs
ROUNDING = 1e-7  # relative to the largest energy: what float64 may lose on the way
STRIP = 512  # rows whose coordinates are computed together
FEWER_ROWS = 2048  # that are compared where there are many components, for the time that they take


@stored
@prints_short
@dataclass(frozen=True)
class ConfidenceBounds:
    """What is known about a model with a stated confidence, from a sample of the rows seen.

    Attributes
    ----------
    confidence : float
        With this probability all that is said is true, at every doubling of the rows together.
    n_sampled : int
        Rows that were looked at.
    complete : bool
        Whether these are all rows: then the numbers are computed, and certain up to rounding.
    reconstruction_error_interval : tuple of two floats
        Mean squared reconstruction error of this model over all rows seen.
    own_ratio_interval : tuple of two floats
        Share of the variance that the components of this model explain.
    explained_variance_ratio_interval : tuple of two floats
        Share of the variance that the best r components explain.
    shortfall_bound : float
        The share that this model explains is at most this much below the best.
    excess_bound : float
        The error of this model is at most this much above the best possible.
    reason : str or None
        Why nothing is said; None when something is.
    n_rows : int
        Rows that it speaks of where most of them were not read (``fit(until=…)``); 0: those seen.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA
    >>> X = np.random.default_rng(0).normal(size=(9000, 3))
    >>> model = StreamingKernelPCA(5, gamma=0.1, basis=40, random_state=0).partial_fit(X)
    >>> said = model.certificate_.statistical
    >>> low, high = said.own_ratio_interval
    >>> bool(high - low < 0.05 and said.shortfall_bound < 0.05)
    True
    """

    confidence: float
    n_sampled: int
    complete: bool
    reconstruction_error_interval: tuple[float, float]
    own_ratio_interval: tuple[float, float]
    explained_variance_ratio_interval: tuple[float, float]
    shortfall_bound: float
    excess_bound: float
    reason: str | None = None
    n_rows: int = 0

    @property
    def kind(self) -> str:
        """How the numbers are known, in words."""
        if self.complete:
            return f"computed from all {self.n_sampled:,} rows"
        drawn = f" drawn from {self.n_rows:,}" if self.n_rows else ""
        return f"{100 * self.confidence:.4g}% confidence, from {self.n_sampled:,} rows{drawn}"

    def rows(self) -> list[tuple[str, str]]:
        """The statements in words, as pairs."""
        if self.reason is not None:
            return [("statement", f"no statement: {self.reason}")]
        error, own, best = (
            self.reconstruction_error_interval,
            self.own_ratio_interval,
            self.explained_variance_ratio_interval,
        )
        return [
            ("reconstruction error", f"between {error[0]:.6g} and {error[1]:.6g}"),
            ("explained by this model", f"between {own[0]:.4f} and {own[1]:.4f}"),
            ("explained variance ratio", f"between {best[0]:.4f} and {best[1]:.4f}"),
            ("below the best possible share", f"at most {self.shortfall_bound:.4f}"),
            ("above the best possible error", f"at most {self.excess_bound:.6g}"),
            ("kind", self.kind),
        ]

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.rows())
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self.rows())


def no_statement(reason: str) -> ConfidenceBounds:
    """A statement that says nothing but why."""
    nothing = (0.0, 1.0)
    return ConfidenceBounds(
        CONFIDENCE, 0, False, (0.0, math.inf), nothing, nothing, 1.0, math.inf, reason
    )


@dataclass(frozen=True)
class EvaluatedModel:
    """A model as the sample sees it: an affine subspace of the feature space, and its rows."""

    kernel: Kernel
    center: bool
    certify: str | bool
    sample: AuditSample | None
    weight: float  # of all rows
    n_rows: int
    log_forgetting: float
    seed: int
    coordinates: Callable[[Array], Array]  # of rows, less the mean
    vectors: Array  # the components in coordinates
    mean: Array

    def statement(self) -> ConfidenceBounds:
        """What the sample says."""
        problem = self.obstacle()
        if problem is not None:
            return no_statement(problem)
        with np.errstate(all="ignore"):
            found = self.judge()
        numbers = (
            *found.reconstruction_error_interval,
            *found.own_ratio_interval,
            *found.explained_variance_ratio_interval,
        )
        if not np.all(np.isfinite(numbers)):
            return no_statement("the numbers leave the range of float64")
        return found

    def obstacle(self) -> str | None:
        """Why nothing can be said, if so."""
        if not self.certify:
            return "certify=False was given"
        if not self.kernel.psd:
            return f"the kernel {self.kernel} is not known to be positive semidefinite"
        if self.sample is None:
            return (
                "no sample of its rows judges this model: rows have left it (a window, remove), it "
                "was compressed, or passed over its rows several times"
            )
        if not len(self.sample) or not self.weight > 0:
            return "no rows were seen"
        return None

    def judge(self) -> ConfidenceBounds:
        """Evaluate the model on the sample, and say what follows."""
        if not self.is_complete:
            return self.draws.statement()
        weights = self.in_order[1]
        return computed(self.seen, weights / weights.sum(), self.center, self.bound)

    def least_width(self) -> float:
        """The width that the interval for the best share has at least, whatever the best may be.

        That of the model's own share, for which no rows have to be compared with each other.
        """
        if self.obstacle() is not None:
            return math.inf
        if self.is_complete:
            return 0.0
        with np.errstate(all="ignore"):
            low, high = self.draws.own().explained_variance_ratio_interval
        return high - low

    @property
    def rows(self) -> AuditSample:
        """The sample, which is there where something can be said."""
        assert self.sample is not None
        return self.sample

    @property
    def bound(self) -> float:
        """A number that the energy of no row exceeds."""
        return self.rows.bound(self.kernel)

    @cached_property
    def in_order(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the rows are, in the order in which they were drawn, and their present weights."""
        return self.rows.in_order(self.log_forgetting)

    @property
    def is_complete(self) -> bool:
        """Whether the sample is all rows."""
        held = float(self.in_order[1].sum())
        return len(self.rows) == self.n_rows or held >= self.weight * (1 - ROUNDING)

    @cached_property
    def seen(self) -> Seen:
        """The rows of the sample, and what the model says of each."""
        return Seen.of(self, take_rows(self.rows.held()[0], self.in_order[0]))

    @cached_property
    def draws(self) -> IndependentSample:
        """Independent draws from the sample."""
        sample, length = self.rows, float(np.linalg.norm(to_host(self.mean)))
        purpose = f"audit repeats {sample.key} {self.n_rows}"
        drawn = with_replacement(self.in_order[1], self.weight, self.seed, purpose)
        doublings = 1 + max(0, int(math.log2(self.n_rows / sample.size)))
        level = math.log(LIMITS * doublings * (doublings + 1) / (1.0 - CONFIDENCE))
        farthest = (math.sqrt(self.bound) + length) ** 2
        return IndependentSample(self.seen, drawn, self.center, self.bound, farthest, level)


@dataclass(frozen=True)
class Seen:
    """Rows of the sample, and what the model says of each."""

    judged: EvaluatedModel
    given: Array
    rows: Array  # the same in float64
    Z: np.ndarray  # coordinates less the mean
    U: np.ndarray  # orthonormal components in coordinates
    mean: np.ndarray
    energy: np.ndarray  # k(x,x)
    error: np.ndarray  # |φ − Pφ|², P the affine projection on the model
    distance: np.ndarray  # |φ − μ|²

    @classmethod
    def of(cls, judged: EvaluatedModel, given: Array) -> Seen:
        """Evaluate a model on rows, in float64."""
        rows = to_float64(given)
        mean, V = to_host(judged.mean), to_host(judged.vectors).astype(float)
        V = V[:, np.linalg.norm(V, axis=0) > 0.5]  # zero columns fill up missing rank
        U = np.linalg.svd(V, full_matrices=False)[0] if V.size else V
        n, rank = int(rows.shape[0]), len(mean)
        Z, energy, error, distance = np.empty((n, rank)), np.empty(n), np.empty(n), np.empty(n)
        for at in (slice(i, min(i + STRIP, n)) for i in range(0, n, STRIP)):
            piece = rows[at, :]
            z = Z[at] = to_host(judged.coordinates(piece)).astype(float)
            energy[at] = to_host(judged.kernel.diag(piece))
            missed = np.maximum(energy[at] - ((z + mean) ** 2).sum(axis=1), 0.0)
            distance[at] = missed + (z**2).sum(axis=1)
            error[at] = missed + ((z - (z @ U) @ U.T) ** 2).sum(axis=1)
        return cls(judged, given, rows, Z, U, mean, energy, error, distance)

    @property
    def r(self) -> int:
        """Components of the model, those without variance among them."""
        return int(self.judged.vectors.shape[1])

    def gram(self, chosen: np.ndarray, wide: bool = False) -> Symmetric:
        """⟨φ(x) − μ, φ(x') − μ⟩ of some rows; held in float32 where there are many, unless wide."""
        few = len(chosen) <= FEW
        Z = self.Z[chosen] + self.mean
        along = Z @ self.mean - 0.5 * float(self.mean @ self.mean)
        # many rows in the type in which they came: what that rounds is far below what is said
        rows = take_rows(self.rows if few else self.given, chosen)
        dense = as_dense(rows)

        def block(part: slice, after: slice) -> np.ndarray:
            values = to_host(self.judged.kernel.block(rows[part, :], dense[after, :]))
            return values - along[part, None] - along[None, after]

        dtype = np.float64 if few or wide else np.float32
        return Symmetric.of(block, self.distance[chosen], dtype)


def computed(seen: Seen, p: np.ndarray, center: bool, bound: float) -> ConfidenceBounds:
    """All rows are at hand: the numbers themselves."""
    G = seen.gram(np.arange(len(p)), wide=True)
    error = float(p @ seen.error)
    total, offset = float(p @ seen.distance), 0.0
    if center:
        towards = G @ p
        square = float(p @ towards)
        inside = seen.U.T @ (p @ seen.Z)
        offset = max(0.0, square - float(inside @ inside))
        total = max(0.0, total - square)
        G.shift(0.5 * square - towards)
    best = min(total, float(leading_values(G, np.sqrt(p), seen.r).sum()))
    own = min(max(0.0, total - (error - offset)), best)
    off = ROUNDING * bound
    share = off / total if total > 0 else 1.0
    own_share, best_share = (x / total if total > 0 else 0.0 for x in (own, best))
    return ConfidenceBounds(
        confidence=1.0,
        n_sampled=len(p),
        complete=True,
        reconstruction_error_interval=(max(0.0, error - off), error + off),
        own_ratio_interval=(max(0.0, own_share - share), min(1.0, own_share + share)),
        explained_variance_ratio_interval=(
            max(0.0, best_share - share),
            min(1.0, best_share + share),
        ),
        shortfall_bound=min(1.0, best_share - own_share + 2 * share),
        excess_bound=max(0.0, error - (total - best)) + 2 * off,
    )


@dataclass(frozen=True)
class IndependentSample:
    """Independent draws, and what they say of the model and of the best that there could be."""

    seen: Seen
    drawn: np.ndarray  # their rows in the sample
    center: bool
    bound: float  # of energies
    farthest: float  # of squared distances to the mean of the model
    level: float  # each limit is wrong with a probability of exp(-level)

    @property
    def off(self) -> float:
        """What rounding may have done."""
        return ROUNDING * self.bound

    @cached_property
    def known(self) -> Known:
        """What every draw says by itself: nothing yet of the best subspace, and of the mean."""
        f, b = self.seen.error[self.drawn], self.seen.distance[self.drawn]
        return Known(
            error=mean_limits(f, self.farthest, self.level),
            around=mean_limits(b, self.farthest, self.level),  # E|φ − μ|²
            missed=ratio_limits(f, b, self.farthest, self.level),
            captured=0.0,
            moved=0.0,
        )

    def own(self) -> ConfidenceBounds:
        """A statement about the model alone: what is known of the best can only widen it."""
        return concluded(self.known, self.off, CONFIDENCE, len(self.drawn))

    def statement(self) -> ConfidenceBounds:
        """The statement; with fewer draws where there is no memory for a matrix of all."""
        if self.seen.r <= MANY:
            with contextlib.suppress(MemoryError):
                return self.compared(self.drawn)
        return self.compared(self.drawn[:FEWER_ROWS])

    def compared(self, few: np.ndarray) -> ConfidenceBounds:
        """Compare with the best subspace of the right dimension, a fixed one, by some draws."""
        seen, known = self.seen, self.known
        f, b = seen.error[few], seen.distance[few]
        rows = np.unique(few)
        G = seen.gram(rows)

        # one draw of PILOT in front chooses the stake, the others are judged
        first = len(few) // PILOT
        judged = counts_of(few[first:], rows)
        captured = np.cumsum(leading_values(G, np.sqrt(judged), seen.r))
        total = float(judged @ seen.distance[rows])

        def most_captured(r: int) -> float:
            left = max(0.0, total - float(captured[min(r, len(captured)) - 1]))
            return 1.0 - least_ratio(left, f, b, first, self.farthest, self.level)

        moved = 0.0
        if self.center:  # D = |m − μ|²: the mean of the model is not that of the rows
            p = counts_of(few, rows) / len(few)
            there = math.sqrt(max(0.0, float(p @ (G @ p))))
            along = most_captured(1) * known.around[1]
            far = 2.0 * math.sqrt(self.bound)
            moved = (there + deviation(along, far, len(few), self.level)) ** 2
        known = replace(known, captured=most_captured(seen.r), moved=moved)
        return concluded(known, self.off, CONFIDENCE, len(self.drawn))


@dataclass(frozen=True)
class Known:
    """Limits that hold together, from which the statement follows."""

    error: tuple[float, float]  # E f
    around: tuple[float, float]  # E|φ − μ|²
    missed: tuple[float, float]  # their ratio
    captured: float  # at most this share of E|φ − μ|² by any subspace
    moved: float  # |m − μ|², at most


def concluded(
    known: Known, off: float, confidence: float, n: int, n_rows: int = 0
) -> ConfidenceBounds:
    """The statement that follows from limits; ``off`` is rounding (statement 18)."""
    least = max(0.0, known.around[0] - known.moved - off)
    own, best = (0.0, 1.0), 1.0
    if least > 0:  # else the variance of the rows is lost in their energy
        doubt, share = known.moved / least, off / least
        own = (
            max(0.0, 1.0 - known.missed[1] * (1.0 + doubt) - share),
            min(1.0, (1.0 - known.missed[0]) * (1.0 + doubt) + share),
        )
        best = max(min(1.0, known.captured * (1.0 + doubt) + share), own[1])
    shortfall = best - own[0]
    excess = min(known.error[1] - least * (1.0 - best), shortfall * known.around[1] + known.moved)
    return ConfidenceBounds(
        confidence=confidence,
        n_sampled=n,
        complete=False,
        reconstruction_error_interval=(max(0.0, known.error[0] - off), known.error[1] + off),
        own_ratio_interval=own,
        explained_variance_ratio_interval=(own[0], best),
        shortfall_bound=shortfall,
        excess_bound=max(0.0, excess) + off,
        n_rows=n_rows,
    )


def counts_of(drawn: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """How often each of the rows was drawn."""
    return np.bincount(np.searchsorted(rows, drawn), minlength=len(rows)).astype(float)
