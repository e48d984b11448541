"""Base of sequential trackers: running mean, raw components, step guard, divergence check."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, TypeVar

import numpy as np
from array_api_compat import array_namespace

from kernelstream import trackers
from kernelstream.arrays import Array, compiled, like, to_float64, to_host
from kernelstream.papers.schedules import Schedule
from kernelstream.serialization import check_choice, stored

# Rows in one compiled pass: its cost per row is r(r + 64), that of the products around it r·m.
PASS_ROWS = 64
DEAD = 1e-8  # a component that keeps less of its unit length in a change of landmarks starts anew

S = TypeVar("S")  # the state of a tracker


@stored
@dataclass(frozen=True)
class SequentialState:
    """Raw components as columns, the time, and running variances of the raw outputs."""

    ON_HOST: ClassVar[frozenset[str]] = frozenset({"variances"})

    V: Annotated[Array, "float64 (rank, components)"]
    time: int  # rows learned; Tanaka's rules do not count those that started a component
    variances: Annotated[np.ndarray, "float64 (components), not negative"]
    n_shortened: int = 0  # steps that were shortened
    reseeded: int = 0  # components that died and started again, or wait for a new start


class Sequential(trackers.Tracker[S]):
    """A tracker that learns row by row and holds a fixed number of vectors.

    Subclasses implement ``begin`` and ``update``, which learns rows that are centered. S is the
    type of the state, as a rule a :class:`SequentialState`.
    """

    kind = "sequential"
    #: Whether ``update`` needs the landmarks in their own coordinates.
    needs_points = False

    def learn(
        self,
        state: S,
        block: trackers.CoordinateBlock,
        weights: Array | None,
        before: trackers.Moments | None,
        landmarks: Callable[[], Array],
    ) -> S:
        """Center the rows of a block, unless ``before`` is None, and learn them."""
        rows = block.Z if before is None else self.centered(block.Z, weights, before)
        points = landmarks() if self.needs_points else None
        return self.update(state, rows, weights, block.admitted, points)

    def centered(self, Z: Array, weights: Array | None, before: trackers.Moments) -> Array:
        """Each row less the mean of all rows up to it."""
        return less_running_mean(Z, weights, before, self.forgetting)

    @abstractmethod
    def update(
        self,
        state: S,
        Z: Array,
        weights: Array | None,
        admitted: tuple[int, ...],
        points: Array | None = None,
    ) -> S:
        """Learn rows one after the other; ``points`` are there where the rule needs them."""

    def pad(self, state: Any, rank: int) -> Any:
        """Components have no part in the new coordinates yet."""
        return replace(state, V=extended(state.V, rank))

    def components(
        self, state: Any, moments: trackers.Moments, center: bool, correction: Any = None
    ) -> tuple[Array, Array, Array]:
        """Columns of V at unit length, ordered by the running variance of their outputs."""
        mean = moments.mean if center else 0.0 * moments.total
        unit, scale = unit_columns(self.raw(state, mean))
        variances = self.variances_at(state, scale)
        order = np.argsort(-variances, kind="stable")
        vectors = array_namespace(unit).take(unit, like(order, unit), axis=1)
        return like(variances[order], unit), vectors, mean

    def variances_at(self, state: Any, scale: np.ndarray) -> np.ndarray:
        """The running variances of the components, which ``scale`` brings to unit length."""
        return np.asarray(state.variances)


def check_steps(name: str, schedule: Schedule, guard: Any) -> None:
    """Raise unless ``guard`` is True or False, and the schedule has steps without it if False."""
    check_choice(f"{name}: guard", guard, (True, False))
    if schedule.relative and not guard:
        raise ValueError(
            f"guard=False runs the bare rule, and the steps of {schedule} end at the limit that "
            "the guard sets. Give the steps of the paper: a number, or a schedule such as "
            "schedules.SearchThenConverge(0.5, 1000)."
        )


def require_bounded(name: str, V: Array) -> None:
    """Raise where a rule has diverged."""
    xp = array_namespace(V)
    if not bool(xp.all(xp.isfinite(V))):
        raise ValueError(
            f"{name}: the components have diverged on these rows. Use a smaller step, scale the "
            "data, or leave guard=True."
        )


def warn_of_shortened(name: str, before: int, after: int) -> None:
    """Warn when the first steps of a stream were shortened."""
    if after and not before:
        warnings.warn(
            f"{name}: the step was too long for these rows (the rule might diverge) and was "
            "shortened. Use a smaller step, or scale the data.",
            RuntimeWarning,
            stacklevel=4,
        )


def passes(Z: Array, weights: np.ndarray) -> Iterator[tuple[Array, np.ndarray]]:
    """Rows and their weights in pieces for a compiled pass."""
    n = int(Z.shape[0])
    for start in range(0, n, PASS_ROWS):
        stop = min(start + PASS_ROWS, n)
        yield Z[start:stop, :], weights[start:stop]


def extended(x: Array, n: int) -> Array:
    """``x`` with zeros appended along its first axis up to the length n."""
    if int(x.shape[0]) == n:
        return x
    whole = like(np.zeros((n, *x.shape[1:])), x)
    whole[: int(x.shape[0]), ...] = x
    return whole


def column_norms(V: Array) -> np.ndarray:
    """Lengths of the columns, on the host."""
    xp = array_namespace(V)
    return to_host(xp.sqrt(xp.sum(V * V, axis=0)))


def unit_columns(V: Array) -> tuple[Array, np.ndarray]:
    """The columns at unit length, and the factors that make them so; zeros stay zeros."""
    norms = column_norms(V)
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    return V * like(scale, V)[None, :], scale


def products(V: Array, Z: Array) -> tuple[np.ndarray, np.ndarray]:
    """Outputs G = Vᵀ Zᵀ of a few rows and their inner products K = Z Zᵀ, for a compiled pass."""
    xp = array_namespace(V)
    G = to_host(xp.matrix_transpose(V) @ xp.matrix_transpose(Z))
    return np.ascontiguousarray(G), np.ascontiguousarray(to_host(Z @ xp.matrix_transpose(Z)))


def combined(V: Array, Z: Array, T: np.ndarray, S: np.ndarray) -> Array:
    """``V Tᵀ + Zᵀ Sᵀ``: the components after the rows of a compiled pass."""
    return V @ like(T.T.copy(), V) + array_namespace(V).matrix_transpose(Z) @ like(S.T.copy(), V)


def less_running_mean(
    Z: Array, weights: Array | None, before: trackers.Moments, beta: float
) -> Array:
    """Each row less the mean of all rows up to and including it, in a compiled pass on the host."""
    rows = np.ascontiguousarray(to_host(to_float64(Z)))
    w = np.ones(len(rows)) if weights is None else to_host(weights)
    mean = np.array(extended(to_host(before.mean), rows.shape[1]))
    return like(running_mean_pass(rows, w, mean, before.weight, float(beta)), Z)


@compiled
def running_mean_pass(Z: Any, weights: Any, mean: Any, weight: float, beta: float) -> Any:
    """Sequential part: z_t − μ_t, where μ_t = μ_{t−1} + (z_t − μ_{t−1}) w_t/W_t.

    Equal rows give exact zeros from the first row on: noise in their place would start a component.
    """
    n, q = Z.shape
    rows = np.empty((n, q))
    for t in range(n):
        old = weight * beta
        weight = old + weights[t]
        if old == 0.0:  # the mean is this row: not a rounding error away from it
            for j in range(q):
                rows[t, j] = 0.0
                mean[j] = Z[t, j]
            continue
        left, moved = old / weight, weights[t] / weight
        for j in range(q):
            difference = Z[t, j] - mean[j]
            rows[t, j] = difference * left
            mean[j] += difference * moved
    return rows
