"""Rows into blocks: how calls of any size become the same stream, and what queries see of it.

Rows are folded in internal blocks of a fixed number of rows, counted from the start of the stream;
those of an unfinished block wait. So the model is the same, bit for bit, however the caller cuts
the rows. A query folds the waiting rows on the side and forgets that it did.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from kernelstream.backends.arrays import (
    Array,
    as_dense,
    dtype_name,
    largest_entry,
    namespace_of,
    on_accelerator,
    row_norms_squared,
    take_rows,
    to_float64,
    to_host,
)
from kernelstream.backends.devices import ahead, memory_explained, preferred_rows
from kernelstream.backends.draws import generator
from kernelstream.bases import Clock
from kernelstream.bases.base import finite
from kernelstream.stream.chain import begin, blank, fold, keep_signs, rebase
from kernelstream.stream.components import View, look
from kernelstream.stream.state import Model, Parts, Rows, Standard, Waiting

# Variance below this share of the energy is lost in the factor of the basis, whose rank ends at
# 1e-10 of its largest eigenvalue (1e-8 for float32 rows: there the answer is rough before).
HIDDEN_SHARE = 1e-9
MOST_COMPARED = 64  # rows that are compared to find that out


def advance(
    model: Model,
    X: Array,
    weights: np.ndarray | None,
    targets: Array | None = None,
    frozen: bool = False,
) -> Model:
    """Learn rows: whole blocks are folded, the rest waits. With ``frozen`` the basis stays.

    Blocks are counted from the start of the stream, so the model is the same, bit for bit,
    however the rows are cut into calls.
    """
    new = Rows(X, weights, targets)
    if model.state is None:
        missing = start_rows(model) - len(model.waiting)
        if len(new) < missing:
            return kept(model, new)
        model = started(model, model.waiting.join(new[: max(missing, 0)]))
    size = model.batch_size
    fill = -len(model.waiting) % size
    if len(new) < fill:
        return kept(model, new)
    if len(model.waiting):
        complete = model.waiting.join(new[:fill])
        model = replace(folded(model, complete, frozen), waiting=Waiting())
        new = new[fill:]
    whole = len(new) - len(new) % size
    return kept(folded(model, new[:whole], frozen), new[whole:])


def kept(model: Model, rows: Rows) -> Model:
    """Let rows wait for their block.

    Energies are looked at now: a row that the kernel cannot take is refused while the caller knows
    it, and not together with the innocent rows that complete its block.
    """
    kernel = model.parts.kernel
    # Rows on a device were not looked at yet: those that are folded show it, these would not.
    if len(rows) and model.prepares and (not kernel.unit_norm or on_accelerator(rows.X)):
        X = model.scaled(rows.X)
        finite(row_norms_squared(X), kernel)
        # A width that is still to be chosen does not matter for whether an energy overflows.
        kernel = kernel if kernel.fixed else kernel.fix(X, rows.weights)
        finite(kernel.diag(X), kernel)
    return replace(model, waiting=model.waiting.append(rows))


def start_rows(model: Model) -> int:
    """Rows that kernel, basis and scaling want to see before the first decision."""
    return max(
        1,
        model.parts.basis.start_rows(),
        0 if model.parts.kernel.fixed else 500,
        500 if model.standardise else 0,
        0 if model.reduction is None else model.reduction.start_rows(model.n_features),
    )


def rows_to_decision(model: Model) -> int:
    """How many more rows complete the start of the stream, or the present block."""
    if model.state is None:
        return start_rows(model) - len(model.waiting)
    return model.batch_size - len(model.waiting) % model.batch_size


def started(model: Model, first: Rows, all_rows: Rows | None = None) -> Model:
    """Decide what the first rows decide: scaling, the kernel's numbers, the basis.

    ``fit`` knows all rows and takes scaling and the kernel's numbers from them.
    """
    first = first.canonical()
    known = first if all_rows is None else all_rows
    if model.standardise:
        model = replace(model, standard=measure(known))
    elif model.reduction is not None:
        model = replace(model, standard=model.reduction.measure(to_host(known.X), known.weights))
    kernel = model.parts.kernel
    require_visible(model.scaled(known.X))
    if not kernel.fixed:
        kernel = kernel.fix(model.scaled(known.X), known.weights)
    parts = replace(model.parts, kernel=kernel)
    if all_rows is not None:
        hidden = hidden_variance(parts, model.scaled(known.X))
        if hidden is not None:
            raise ValueError(hidden)
    return begun(replace(model, parts=parts), first)


def begun(model: Model, first: Rows) -> Model:
    """The model whose basis has looked at the first rows, in the units of the kernel.

    Points that were given are in those of the data, as the rows are.
    """
    parts = replace(model.parts, basis=model.parts.basis.in_units(model.scaled))
    return replace(model, state=begin(parts, model.prepared(first.X), first.weights))


def require_visible(X: Array) -> None:
    """Raise when rows that are not zero are so small that their squares are."""
    largest = largest_entry(X)
    if largest > 0 and largest * largest < np.finfo(dtype_name(X)).tiny:
        raise ValueError(
            f"The largest number in the first rows is {largest:.3g}, whose square underflows "
            f"{X.dtype}: scale the data (to unit variance, say)."
        )


def hidden_variance(parts: Parts, X: Array) -> str | None:
    """Say so in words when rounding would hide all that makes the rows differ.

    Energies far above the variance (a linear kernel on rows far from the origin, a Gaussian much
    wider than the data) leave it below the rank floor of the basis: the answer would be zero.
    """
    if not parts.center:
        return None
    X = to_float64(as_dense(take_rows(X, evenly_spaced(int(X.shape[0]), MOST_COMPARED))))
    if not bool(namespace_of(X).any(X[:1, :] != X)):
        return None  # equal rows have no variance, and zero is the right answer
    K = to_host(finite(parts.kernel.gram(X), parts.kernel))
    energy = float(np.trace(K)) / len(K)
    share = 1.0 - float(K.mean()) / energy if energy > 0 else 1.0
    if share > HIDDEN_SHARE:
        return None
    return (
        f"With the kernel {parts.kernel} the variance of these rows is {max(share, 0.0):.1g} of "
        "their energy in feature space, so little that rounding would hide it. Subtract their mean "
        "and scale them (scale='standard' does both), or choose other kernel parameters."
    )


def evenly_spaced(n: int, most: int) -> np.ndarray:
    """At most ``most`` of the indices below n, spread over all of them."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.intp))


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
    if state.n_rows == 0 and len(rows) and not frozen:
        first = rows[: model.batch_size]
        hidden = hidden_variance(model.parts, model.scaled(first.X))
        if hidden is not None:
            # A stream may start at rest and move later: no reason to refuse it.
            warnings.warn(f"At the start of the stream: {hidden}", stacklevel=2)
    size = model.batch_size
    if frozen and model.parts.tracker.any_blocks:  # the basis decides nothing: as a device likes
        size = preferred_rows(rows.X, model.device, model.parts.basis.size, size)
    blocks = (rows[start : start + size].canonical() for start in range(0, len(rows), size))
    with memory_explained(size):
        for X, weights, targets in ahead(blocks, model.block, model.device):
            state = fold(model.parts, state, X, weights, frozen, targets)
    if frozen:
        return replace(model, state=state)
    return replace(model, state=replace(state, basis=model.parts.basis.detached(state.basis)))


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


def learn_all(
    model: Model, X: Array, weights: np.ndarray | None, targets: Array | None = None
) -> Model:
    """Learn rows that are all at hand: one pass for the basis, one for the statistics.

    The second pass sees every row in the final basis, so nothing is stale. Sequential rules and
    bases that lose nothing need one pass only.
    """
    rows = Rows(X, weights, targets)
    n = len(rows)
    order = np.arange(n)
    if model.parts.basis.order_free:
        order = generator(model.parts.seed, "order").permutation(n)
    model = unsigned(started(model, picked(rows, order[: start_rows(model)]), rows))
    if not wants_second_pass(model):
        return signed_anew(folded(model, rows))
    if model.parts.tracker.forgetting != 1.0:
        order = np.arange(n)  # the last rows are those that count
    # The first pass only looks for points: it learns no targets.
    scout = replace(model, parts=replace(model.parts, regress_inputs=False))
    for start in range(0, n, model.batch_size):
        found = picked(Rows(X, weights), order[start : start + model.batch_size])
        scout = folded(scout, found)
    scout = second_pass(replace(scout, parts=model.parts), reader(scout, Rows(X, weights)))
    return signed_anew(folded(scout, rows, frozen=True))


def reader(model: Model, rows: Rows) -> Callable[[], Iterator[tuple[Array, np.ndarray | None]]]:
    """What goes through rows that are all at hand, block by block, each time it is called."""
    size = model.batch_size

    def read() -> Iterator[tuple[Array, np.ndarray | None]]:
        pieces = (rows[start : start + size].canonical() for start in range(0, len(rows), size))
        return ((X, weights) for X, weights, _ in ahead(pieces, model.block, model.device))

    return read


def wants_second_pass(model: Model) -> bool:
    """Whether statistics gathered in the finished basis would differ from those of one pass."""
    return model.parts.basis.settles_late and not model.parts.tracker.sequential


def second_pass(
    model: Model,
    read: Callable[[], Iterator[tuple[Array, np.ndarray | None]]] | None = None,
) -> Model:
    """The finished basis, with no statistics yet: what a second pass over the rows begins with."""
    model = with_finished_basis(caught_up(model), read)
    assert model.state is not None
    empty = blank(model.parts, model.state.basis, model.state.moments.total)
    return unsigned(replace(model, state=empty))


def with_finished_basis(
    model: Model,
    read: Callable[[], Iterator[tuple[Array, np.ndarray | None]]] | None = None,
) -> Model:
    """The model with the basis for a second pass, in which its statistics are not."""
    state = model.state
    assert state is not None
    clock = Clock(model.parts.seed, state.n_rows)
    basis = model.parts.basis.finish(model.parts.kernel, state.basis, clock, read)
    return replace(model, state=replace(state, basis=basis))


def end_second_pass(model: Model) -> Model:
    """The model after the last row of a second pass, as ``learn_all`` leaves it."""
    rows = model.waiting
    if len(rows):
        model = replace(folded(model, rows.join(), frozen=True), waiting=Waiting())
    return signed_anew(model)


def picked(rows: Rows, index: np.ndarray) -> Rows:
    """Some of the rows, in a given order."""
    weights = None if rows.weights is None else rows.weights[index]
    targets = None if rows.targets is None else take_rows(rows.targets, index)
    return Rows(take_rows(rows.X, index), weights, targets)


def unsigned(model: Model) -> Model:
    """The model that takes no references for signs: they will come from all rows at once."""
    assert model.state is not None
    return replace(model, state=replace(model.state, next_signs=sys.maxsize))


def signed_anew(model: Model) -> Model:
    """Take the signs from the finished model: which rows came first no longer matters."""
    assert model.state is not None
    state = replace(model.state, signs=None, next_signs=0)
    return replace(model, state=keep_signs(model.parts, state))
