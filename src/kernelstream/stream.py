"""The whole method on one page: fold a block through kernel, basis, mean and tracker.

A row x is never stored. The basis turns it into coordinates ``z = Fᵀ k(D, x)``, the orthonormal
coordinates of the projection of φ(x) on the span of the points D; the tracker does PCA of the z;
the ledger keeps account of what the projection missed.

Every state is a value: ``fold`` returns a new one and leaves the old one as it was. So a block that
is rejected half-way changes nothing, and a query can fold the rows that still wait and then forget
that it did.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from kernelstream.accounting import after_change, blank_ledger, enter
from kernelstream.backends.arrays import (
    Array,
    cast,
    largest_entry,
    like,
    namespace_of,
    take_rows,
    to_float64,
    to_host,
    weighted_sum,
)
from kernelstream.backends.draws import generator
from kernelstream.bases import Clock, Projection
from kernelstream.bases.base import finite, residual_energy
from kernelstream.model import Model, Parts, Rows, Standard, State, Waiting
from kernelstream.trackers import Moments
from kernelstream.trackers.base import padded
from kernelstream.view import View, components, look


def advance(model: Model, X: Array, weights: np.ndarray | None) -> Model:
    """Learn rows: whole blocks are folded, the rest waits.

    Blocks are counted from the start of the stream, so the model is the same, bit for bit,
    however the rows are cut into calls.
    """
    if model.state is None:
        missing = start_rows(model) - len(model.waiting)
        if X.shape[0] < missing:
            return kept(model, Rows(X, weights))
        first = Rows(X, weights)[: max(missing, 0)]
        model = started(model, model.waiting.join(first.X, first.weights))
    size = model.batch_size
    fill = -len(model.waiting) % size if len(model.waiting) else 0
    new = Rows(X, weights)
    if len(new) < fill:
        return kept(model, new)
    if len(model.waiting):
        head = new[:fill]
        model = replace(folded(model, model.waiting.join(head.X, head.weights)), waiting=Waiting())
        new = new[fill:]
    whole = len(new) - len(new) % size
    return kept(folded(model, new[:whole]), new[whole:])


def kept(model: Model, rows: Rows) -> Model:
    """Let rows wait for their block.

    Energies are looked at now: a row that the kernel cannot take is refused while the caller knows
    it, and not together with the innocent rows that complete its block.
    """
    known = model.parts.kernel.fixed and (model.standard is not None or not model.standardise)
    if known and len(rows):
        finite(model.parts.kernel.diag(model.prepared(rows.X)), model.parts.kernel)
    return replace(model, waiting=model.waiting.append(rows.X, rows.weights))


def start_rows(model: Model) -> int:
    """Rows that kernel, basis and scaling want to see before the first decision."""
    return max(
        1,
        model.parts.basis.start_rows(),
        0 if model.parts.kernel.fixed else 500,
        500 if model.standardise else 0,
    )


def started(model: Model, first: Rows, all_rows: Rows | None = None) -> Model:
    """Decide what the first rows decide: scaling, the kernel's numbers, the basis.

    ``fit`` knows all rows and takes scaling and the kernel's numbers from them.
    """
    first = first.canonical()
    known = first if all_rows is None else all_rows
    if model.standardise:
        model = replace(model, standard=measure(known))
    kernel = model.parts.kernel
    require_visible(model.prepared(known.X))
    if not kernel.fixed:
        kernel = kernel.fix(model.prepared(known.X), known.weights)
    parts = replace(model.parts, kernel=kernel)
    return replace(model, parts=parts, state=begin(parts, model.prepared(first.X), first.weights))


def require_visible(X: Array) -> None:
    """Raise when rows that are not zero are so small that their squares are."""
    largest = largest_entry(X)
    if largest > 0 and largest * largest < np.finfo(str(X.dtype).rsplit(".", 1)[-1]).tiny:
        raise ValueError(
            f"The largest number in the first rows is {largest:.3g}, whose square underflows "
            f"{X.dtype}: scale the data (to unit variance, say)."
        )


def measure(rows: Rows) -> Standard:
    """Mean and deviation of each column; a constant column keeps its unit."""
    X = to_host(rows.X).astype(float, order="C")
    # From the first row, in units of the largest difference: a constant column is exactly zero,
    # and no square leaves the range of float64.
    first = X[0].copy()
    X -= first
    size = np.abs(X).max(axis=0)
    size[size == 0] = 1.0
    X /= size
    mean = np.average(X, axis=0, weights=rows.weights)
    deviation = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=rows.weights))
    return Standard(first + mean * size, np.where(deviation > 0, deviation * size, 1.0))


def folded(model: Model, rows: Rows, frozen: bool = False) -> Model:
    """Fold rows block by block; the last block may be short."""
    state = model.state
    assert state is not None
    for start in range(0, len(rows), model.batch_size):
        block = rows[start : start + model.batch_size].canonical()
        state = fold(model.parts, state, model.prepared(block.X), block.weights, frozen)
    return replace(model, state=state)


def caught_up(model: Model) -> Model:
    """The model with the waiting rows folded; the stream itself goes on without that."""
    if not model.waiting:
        return model
    if "caught_up" not in model.__dict__:
        rows = model.waiting.join()
        begun = started(model, rows) if model.state is None else model
        model.__dict__["caught_up"] = replace(folded(begun, rows), waiting=Waiting())
    return model.__dict__["caught_up"]


def settled(model: Model) -> Model:
    """The model with the waiting rows folded and the basis brought up to date: what queries see."""
    model = caught_up(model)
    assert model.state is not None
    change = model.parts.basis.settle(
        model.parts.kernel, model.state.basis, Clock(model.parts.seed, model.state.n_rows)
    )
    if change is None:
        return model
    return replace(model, state=rebase(model.parts, model.state, *change))


def view(model: Model) -> View:
    """What a query sees: all rows, those that wait included. Computed once for each model."""
    if "view" not in model.__dict__:
        model.__dict__["view"] = view_of_blocks(settled(model))
    return model.__dict__["view"]


def view_of_blocks(model: Model) -> View:
    """What the finished blocks say, without the rows that wait. Computed once for each state."""
    state = model.state
    assert state is not None
    if "view" not in state.__dict__:
        state.__dict__["view"] = look(model.parts, state)
    return state.__dict__["view"]


def learn_all(model: Model, X: Array, weights: np.ndarray | None) -> Model:
    """Learn rows that are all at hand: one pass for the basis, one for the statistics.

    The second pass sees every row in the final basis, so nothing is stale. Sequential rules and
    bases that lose nothing need one pass only.
    """
    rows = Rows(X, weights)
    n = len(rows)
    order = np.arange(n)
    if model.parts.basis.order_free:
        order = generator(model.parts.seed, "order").permutation(n)
    model = started(model, picked(rows, order[: start_rows(model)]), rows)
    if model.parts.tracker.sequential or not model.parts.basis.settles_late:
        return signed_anew(folded(model, rows))
    for start in range(0, n, model.batch_size):
        model = folded(model, picked(rows, order[start : start + model.batch_size]))
    model = settled(model)
    assert model.state is not None
    basis = model.parts.basis.refreshed(model.parts.kernel, model.state.basis)
    empty = blank(model.parts, basis, model.state.moments.total)
    return signed_anew(folded(replace(model, state=empty), rows, frozen=True))


def picked(rows: Rows, index: np.ndarray) -> Rows:
    """Some of the rows, in a given order."""
    weights = None if rows.weights is None else rows.weights[index]
    return Rows(take_rows(rows.X, index), weights)


def begin(parts: Parts, X: Array, weights: np.ndarray | None) -> State:
    """Start a stream: the basis looks at the first rows, which are folded afterwards."""
    basis = parts.basis.begin(parts.kernel, X, weights, parts.seed)
    return blank(parts, basis, like(np.zeros(0), X))


def blank(parts: Parts, basis: Any, reference: Array) -> State:
    """A state that has a basis and has seen no rows."""
    rank = parts.basis.rank(basis)
    r = parts.n_components if isinstance(parts.n_components, int) else None
    return State(
        n_rows=0,
        moments=Moments(0.0, like(np.zeros(rank), reference)),
        basis=basis,
        tracker=parts.tracker.begin(rank, r, reference),
        ledger=blank_ledger(parts),
        signs=None,
        next_signs=1,
    )


def fold(
    parts: Parts, state: State, X: Array, weights: np.ndarray | None, frozen: bool = False
) -> State:
    """Learn one block of rows. With ``frozen`` the basis neither learns nor changes."""
    tracker, before = parts.tracker, state.moments
    clock, faded = forget(tracker.forgetting, X.shape[0], weights, parts.seed, state.n_rows)
    state = decay(parts, state, clock.decay)

    # kernel → basis: coordinates z, energy k(x,x), and what the basis misses of it
    if frozen:
        block = express(parts, state.basis, X)
    else:
        basis, block = parts.basis.project(parts.kernel, state.basis, X, faded, clock)
        state = replace(state, basis=basis)
    if tracker.needs_points:
        points = parts.basis.own_coordinates(parts.kernel, state.basis)
        state = replace(state, tracker=tracker.told(state.tracker, points))
    state = replace(state, ledger=enter(parts, state, X, block, faded))

    # mean → tracker: rows as they are for moments, less the running mean for sequential rules
    rank = int(block.Z.shape[1])
    if tracker.sequential:
        w = None if weights is None else like(weights, block.Z)
        rows = (
            less_running_mean(block.Z, w, before, tracker.forgetting) if parts.center else block.Z
        )
        learned = tracker.update(state.tracker, rows, w, block.admitted)
    else:
        w = None if faded is None else like(faded, block.Z)
        learned = tracker.update(tracker.pad(state.tracker, rank), block.Z, w, block.admitted)
    state = replace(
        state,
        n_rows=state.n_rows + X.shape[0],
        tracker=learned,
        moments=Moments(
            state.moments.weight + (float(X.shape[0]) if faded is None else float(faded.sum())),
            padded(state.moments.total, (rank,))
            + weighted_sum(block.Z, None if faded is None else like(faded, block.Z)),
        ),
    )
    # Σ w k(x,x) is above every entry of every accumulator: while it is finite, they all are.
    if not (math.isfinite(state.ledger.energy) and math.isfinite(state.moments.weight)):
        raise ValueError(
            f"The sum of the kernel {parts.kernel} over the rows, with their weights, overflows: "
            "scale the data (for example with scale='standard') or the weights."
        )

    # the basis may change its points at the end of a block: z ← T z everywhere
    change = None if frozen else parts.basis.revise(parts.kernel, state.basis, clock)
    if change is not None:
        state = rebase(parts, state, *change)
    return keep_signs(parts, state)


def express(parts: Parts, basis: Any, X: Array) -> Projection:
    """A block in the coordinates of a basis that does not change."""
    Z = finite(parts.basis.coordinates(parts.kernel, basis, X), parts.kernel)
    energy = finite(parts.kernel.diag(cast(X, Z.dtype)), parts.kernel)
    return Projection(Z, energy, residual_energy(energy, Z))


def forget(
    beta: float, n: int, weights: np.ndarray | None, seed: int, row: int
) -> tuple[Clock, np.ndarray | None]:
    """The block's place in the stream, and the weights its rows have left at its end."""
    if beta == 1.0:
        return Clock(seed, row), weights
    # A weight that underflows to zero would look like a row that never was.
    faded = np.maximum(beta ** np.arange(n - 1.0, -1.0, -1.0), np.finfo(float).tiny)
    clock = Clock(seed, row, beta**n, math.log(beta))
    return clock, faded if weights is None else faded * weights


def decay(parts: Parts, state: State, factor: float) -> State:
    """Old rows lose weight (the basis does it where it adds the new ones)."""
    if factor == 1.0:
        return state
    return replace(
        state,
        moments=Moments(state.moments.weight * factor, state.moments.total * factor),
        tracker=parts.tracker.decay(state.tracker, factor),
        ledger=state.ledger.decay(factor),
    )


def less_running_mean(Z: Array, weights: Array | None, before: Moments, beta: float) -> Array:
    """Each row less the mean of all rows up to and including it.

    Over a piece of k rows, μ_t = (β^k s + Σ_{i≤t} v_i z_i) / (β^k W + Σ_{i≤t} v_i) with the weights
    v_i = w_i β^{k−1−i}; pieces are short enough for β^k to stay far from underflow.
    """
    xp = namespace_of(Z)
    Z = to_float64(Z)
    piece = max(1, Z.shape[0] if beta == 1.0 else int(50.0 / -math.log(beta)))
    weight, total = before.weight, padded(before.total, (int(Z.shape[1]),))
    rows = []
    for start in range(0, Z.shape[0], piece):
        z = Z[start : start + piece, :]
        k = int(z.shape[0])
        v = like(beta ** np.arange(k - 1.0, -1.0, -1.0), Z)
        v = v if weights is None else v * to_float64(weights[start : start + k])
        sums = xp.cumulative_sum(z * v[:, None], axis=0) + (total * beta**k)[None, :]
        so_far = xp.cumulative_sum(v) + weight * beta**k
        # written so that the first row of all is exactly zero: noise would start a component
        rows.append((z * so_far[:, None] - sums) / so_far[:, None])
        weight, total = float(so_far[-1]), sums[-1, :]
    return rows[0] if len(rows) == 1 else xp.concat(rows, axis=0)


def rebase(parts: Parts, state: State, basis: Any, T: Array) -> State:
    """Change the basis: one matrix carries mean, tracker, ledger and signs along."""
    tracker, loss = parts.tracker.rebase(state.tracker, T)
    signs = state.signs
    return replace(
        state,
        basis=basis,
        tracker=tracker,
        moments=Moments(state.moments.weight, T @ state.moments.total),
        ledger=after_change(parts, state, parts.basis.span(basis), T, loss),
        signs=None if signs is None else T @ padded(signs, (int(T.shape[1]), signs.shape[1])),
    )


def signed_anew(model: Model) -> Model:
    """Take the signs from the finished model: which rows came first no longer matters."""
    assert model.state is not None
    state = replace(model.state, signs=None, next_signs=0)
    return replace(model, state=keep_signs(model.parts, state))


def keep_signs(parts: Parts, state: State) -> State:
    """Take the components as a reference for signs when the rows have doubled since the last.

    Under forgetting the components never come to rest, so the reference is taken once a memory
    length. Sequential rules move their components continuously and need no reference.
    """
    if parts.tracker.sequential or state.n_rows < state.next_signs:
        return state
    beta = parts.tracker.forgetting
    memory = math.inf if beta == 1.0 else math.ceil(1.0 / (1.0 - beta))
    _, vectors, _ = components(parts, state)
    return replace(state, signs=vectors, next_signs=state.n_rows + int(min(state.n_rows, memory)))
