"""Merge of two streams into one model; compatibility check of their parts and parameters.

Each state is carried into one common basis by its matrix T, as at any change of basis; then counts,
sums and scatter matrices add. What the common basis loses is in the ledger of the observer, so the
certificate of the merged model is as true as those of its parts.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernelstream.serialization.part import Part
from kernelstream.stream.state import State
from kernelstream.stream.step import Chain
from kernelstream.trackers.moments import CrossMoments

if TYPE_CHECKING:
    from kernelstream.stream.stream import Stream


def merge(a: Stream, b: Stream) -> Stream:
    """The model of the rows of both, those that wait included. Neither is changed."""
    a, b = a.caught_up, b.caught_up
    require_mergeable(a, b)
    chain, one, two = a.chain, a.begun, b.begun
    basis, to_a, to_b = chain.basis.merge(chain.kernel, one.basis, two.basis, chain.seed)
    one = one if to_a is None else chain.rebase(one, basis, to_a)
    two = two if to_b is None else chain.rebase(two, basis, to_b)
    return a.with_state(add_states(chain, one, two, basis))


def add_states(chain: Chain, one: State, two: State, basis: object) -> State:
    """Two states in the same basis: everything adds."""
    n_rows, observer = one.n_rows + two.n_rows, None
    if one.observer is not None and two.observer is not None:
        observer = one.observer.merge(two.observer)
    return State(
        n_rows=n_rows,
        moments=one.moments.merge(two.moments),
        basis=basis,
        tracker=chain.tracker.merge(one.tracker, two.tracker),
        signs=one.signs,
        next_signs=n_rows,
        targets=of_both(one, two),
        observer=observer,
        judge=one.judge,
    )


def of_both(one: State, two: State) -> CrossMoments | None:
    """Moments with the targets of both, about the origin of the first."""
    if one.targets is None or two.targets is None:
        return one.targets or two.targets
    if one.targets.origin.shape != two.targets.origin.shape:
        raise ValueError(
            f"Cannot merge regressions on {one.targets.origin.shape[0]} and "
            f"{two.targets.origin.shape[0]} target columns."
        )
    moments = two.moments
    return one.targets.merge(two.targets.about(one.targets.origin, moments.weight, moments.total))


def require_mergeable(a: Stream, b: Stream) -> None:
    """Raise in words unless the two models speak of the same features, kernel and parts."""
    if a.n_features != b.n_features:
        raise ValueError(f"Cannot merge models of {a.n_features} and {b.n_features} features.")
    for tracker in (a.chain.tracker, b.chain.tracker):
        if tracker.kind == "sequential":
            raise ValueError(
                f"The tracker {tracker} keeps no moments and cannot be merged; use "
                "trackers.Covariance."
            )
    if not same(a.chain.kernel, b.chain.kernel):
        raise ValueError(
            f"Cannot merge models with different kernels, {a.chain.kernel} and {b.chain.kernel}. "
            "A width taken from the data differs from stream to stream: give the same number to "
            "both, or fit one like the other (fit --like MODEL)."
        )
    for what in ("tracker", "center", "n_components", "certify", "regress_inputs", "robust"):
        ours, theirs = getattr(a.chain, what), getattr(b.chain, what)
        if not same(ours, theirs):
            raise ValueError(f"Cannot merge models with different {what}: {ours} and {theirs}.")
    if type(a.chain.basis) is not type(b.chain.basis):
        raise ValueError(
            f"Cannot merge models with different bases: {a.chain.basis} and {b.chain.basis}."
        )
    if not same(a.scaler, b.scaler):
        raise ValueError(
            "Cannot merge models that prepare rows with different numbers: they standardise with "
            "different numbers, or map rows by what the start of their streams was like. Fit one "
            "like the other (fit --like MODEL), or scale the "
            "data before, with one scaler for both, and use scale=None."
        )


def same(x: object, y: object) -> bool:
    """Whether two parts, or their numbers, are equal in kind and in all numbers."""
    if type(x) is not type(y):
        return False
    if isinstance(x, Part) and isinstance(y, Part):
        x, y = x.get_params(deep=False), y.get_params(deep=False)
    elif is_dataclass(x):
        x, y = vars(x), vars(y)
    if isinstance(x, dict) and isinstance(y, dict):
        return x.keys() == y.keys() and all(same(x[name], y[name]) for name in x)
    if hasattr(x, "shape"):
        return bool(np.array_equal(np.asarray(x), np.asarray(y)))
    return x == y
