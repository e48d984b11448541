"""Removal of learned rows (unlearning): subtraction of moments, rounding in the ledger.

Removal requires fixed landmarks and moments without forgetting: a row then adds the same numbers
whenever it comes, and the same can be subtracted. The difference of two sums is rounded like the
larger one. That is entered into the ledger: with E the energy before, E' that of the rows that go
and E'' what is left, the relative error of the sums grows by (E + E')/E'', and the certificate with
it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kernelstream.arrays.namespaces import all_finite, like, to_host
from kernelstream.certificates.observer import CertificateObserver, rounding
from kernelstream.landmarks import Clock
from kernelstream.landmarks.base import Measured
from kernelstream.stream.state import Rows, State
from kernelstream.stream.step import Chain
from kernelstream.stream.stream import Stream
from kernelstream.trackers import Moments

LEAST_LEFT = 1e-9  # fraction of the squared norms below which what is left is rounding


def remove(stream: Stream, rows: Rows) -> Stream:
    """The stream without some of its rows; buffered rows are learned first."""
    stream = stream.caught_up
    chain, state = stream.chain, stream.begun
    require_removable(chain, state)
    if stream.fills and not all_finite(rows.X):
        raise ValueError(
            "Rows with gaps cannot be removed: what they were filled with when they were learned "
            "is not kept. Remove rows without gaps."
        )
    weight = float(len(rows)) if rows.weights is None else float(rows.weights.sum())
    require_learned(
        len(rows) <= state.n_rows and weight <= (1.0 + LEAST_LEFT) * state.moments.weight
    )
    for start in range(0, len(rows), stream.batch_size):
        block = stream.block(rows[start : start + stream.batch_size])
        state = without(chain, state, block)
    return stream.with_state(state)


def require_removable(chain: Chain, state: State) -> None:
    """Raise unless each row can be subtracted again."""
    moved = state.observer is None or state.observer.ledger.stale_weight > 0.0
    if chain.basis.kind != "fixed" or moved:
        raise ValueError(
            "Rows can be removed from a model whose points stay where they are from the first row "
            f"on, such as landmarks.Landmarks, and those of {chain.basis} have moved, or may; the "
            "certificate keeps that account, so certify must not be False."
        )
    if chain.tracker.kind != "sums" or chain.tracker.forgetting != 1.0 or chain.robust:
        raise ValueError(
            "Rows can be removed from sums in which each has its own weight, those of "
            "trackers.Covariance() without forgetting and with robust=False; "
            f"got {chain.tracker}, robust={chain.robust}."
        )


def require_learned(fits: bool) -> None:
    """Raise if more is to be removed than was learned."""
    if not fits:
        raise ValueError(
            "More is to be removed than was learned: some of these rows never were, were removed "
            "before, or were learned with less weight. The model stays as it was."
        )


def without(chain: Chain, state: State, rows: Rows) -> State:
    """The state without a block of rows."""
    block = chain.basis.project(chain.kernel, state.basis, rows.X)
    clock = Clock(chain.seed, state.n_rows)
    gone = Measured.of(rows.X, rows.weights, rows.weights, clock, block, scatter=True)
    before, targets = state.moments, state.targets
    moments = Moments(
        before.weight - gone.weight, before.total - gone.total, before.squared_norm - gone.energy
    )
    require_learned(moments.squared_norm >= -LEAST_LEFT * gone.energy)
    rounding_only = moments.squared_norm <= LEAST_LEFT * before.squared_norm
    if len(gone) == state.n_rows or moments.weight <= 0.0 or rounding_only:
        raise ValueError(
            "No row would be left, or none that is more than rounding. The model stays as it was; "
            "begin a new one."
        )
    if targets is not None and rows.targets is not None:
        weights = None if rows.weights is None else like(rows.weights, block.Z)
        targets = targets.without(block.Z, rows.targets, weights)
    return replace(
        state,
        n_rows=state.n_rows - len(gone),
        tracker=replace(state.tracker, scatter=state.tracker.scatter - gone.scatter),
        moments=moments,
        observer=remaining(chain, state, gone, moments.squared_norm),
        targets=targets,
    )


def remaining(chain: Chain, state: State, gone: Measured, left: float) -> CertificateObserver:
    """The observer without some rows; their rounding stays, and grows by their own.

    Which rows of the sample are gone is unknown: none is left.
    """
    observer, span = state.observer, state.basis.span
    assert observer is not None  # `require_removable` saw it
    ledger = observer.ledger
    slack = rounding.slack(chain.kernel, ledger, span, to_host(state.tracker.scatter))
    fresh = max(ledger.fresh - gone.missed, 0.0)
    ledger = replace(
        ledger,
        energy=left,
        fresh=fresh,
        # what the pieces of a block miss together is not known any more: all of it, at most
        fresh_orders=np.minimum(ledger.fresh_orders, fresh),
        exact=0.0,
        blocks=ledger.blocks + 1,
        longest=max(ledger.longest, len(gone)),
        # twice this is in the slack, relative to what is left
        rounding=0.5 * slack * (ledger.energy + gone.energy) / left,
    )
    return replace(observer.without_sample(), ledger=ledger)
