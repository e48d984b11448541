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

from kernelstream.arrays.namespaces import Array, all_finite, like, to_host
from kernelstream.certificates.observer import CertificateObserver, rounding
from kernelstream.landmarks import Clock
from kernelstream.landmarks.base import Measured
from kernelstream.stream.state import Rows, State
from kernelstream.stream.step import Chain
from kernelstream.stream.stream import Stream
from kernelstream.trackers import Moments

NEVER_LEARNED = (
    "More is to be removed than was learned: some of these rows never were, were removed before, "
    "or were learned with less weight. The model stays as it was."
)
NOTHING_LEFT = (
    "No row would be left, or none that is more than rounding. The model stays as it was; begin a "
    "new one."
)
LEAST_LEFT = 1e-9  # share of the energy below which what is left is rounding


def remove(stream: Stream, rows: Rows) -> Stream:
    """The stream without some of its rows; those that wait are folded first."""
    stream = stream.caught_up
    chain, state = stream.chain, stream.begun
    require_removable(chain, state)
    if stream.fills and not all_finite(rows.X):
        raise ValueError(
            "Rows with gaps cannot be removed: what they were filled with when they were learned "
            "is not kept. Remove rows without gaps."
        )
    weight = float(len(rows)) if rows.weights is None else float(rows.weights.sum())
    if len(rows) > state.n_rows or weight > (1.0 + LEAST_LEFT) * state.moments.weight:
        raise ValueError(NEVER_LEARNED)
    for start in range(0, len(rows), stream.batch_size):
        piece = rows[start : start + stream.batch_size].canonical()
        state = without(chain, state, *stream.block(piece))
    return stream.with_state(state)


def require_removable(chain: Chain, state: State) -> None:
    """Raise in words where a row cannot be taken back."""
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


def without(
    chain: Chain, state: State, X: Array, weights: np.ndarray | None, targets: Array | None
) -> State:
    """The state without a block of rows."""
    block = chain.basis.project(chain.kernel, state.basis, X)
    clock = Clock(chain.seed, state.n_rows)
    gone = Measured.of(X, weights, weights, clock, block, scatter=True)
    weight = state.moments.weight - gone.weight
    moments, observer = state.moments, state.observer
    assert observer is not None  # required above
    left = moments.squared_norm - gone.energy
    n_rows = state.n_rows - len(gone)
    if left < -LEAST_LEFT * gone.energy:
        raise ValueError(NEVER_LEARNED)
    if n_rows == 0 or not (weight > 0.0 and left > LEAST_LEFT * moments.squared_norm):
        raise ValueError(NOTHING_LEFT)
    scatter = state.tracker.scatter - gone.scatter
    kept = state.targets
    if kept is not None and targets is not None:
        kept = kept.without(block.Z, targets, None if weights is None else like(weights, block.Z))
    return replace(
        state,
        n_rows=n_rows,
        tracker=replace(state.tracker, scatter=scatter),
        moments=Moments(weight, moments.total - gone.total, left),
        observer=remaining(chain, state, observer, gone, left),
        targets=kept,
    )


def remaining(
    chain: Chain, state: State, observer: CertificateObserver, gone: Measured, left: float
) -> CertificateObserver:
    """The observer without some rows; their rounding stays, and grows by their own.

    Which rows of the sample are gone is unknown: none is left.
    """
    ledger, span = observer.ledger, state.basis.span
    slack = rounding.slack(chain.kernel, ledger, span, to_host(state.tracker.scatter))
    fraction = left / ledger.energy
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
        rounding=0.5 * slack * (1.0 + gone.energy / ledger.energy) / fraction,
    )
    return replace(observer.without_sample(), ledger=ledger)
