"""``fit(X, until=...)``: random rows until the shortfall from exact kernel PCA is small enough.

Some draws are learned, others judge what was learned (``certificates/drawn.py``): these never touch
the model, so the statement is about all rows, drawn or not. If it does not say enough, twice as
many are drawn of both; and when that would be as many as there are, all rows are learned.

A row of an array is read by its number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from kernelstream.arrays.draws import uniforms
from kernelstream.arrays.namespaces import take_rows
from kernelstream.arrays.threads import cores
from kernelstream.certificates import ConfidenceBounds
from kernelstream.certificates.confidence import bounds_of_draws
from kernelstream.certificates.evaluation import AugmentedSpan
from kernelstream.certificates.observer import DrawnBounds
from kernelstream.estimators import inputs
from kernelstream.serialization.part import checked_seed
from kernelstream.stream.stream import Stream

FIRST = 16_384  # draws that judge at the first look; half as many are learned
MOST_LEARNED = 2**17  # draws: more of them make a model of a few hundred points no better
MOST_WIDER = 1024  # rows that widen the span in which subspaces are judged
Draw = Callable[[str, slice], Any]  # the draws of one purpose from one number to another


@dataclass(frozen=True)
class Population:
    """Rows in any order: how many there are, and those at some positions."""

    n: int
    take: Callable[[np.ndarray], Any]
    weights: np.ndarray | None = None  # cumulated

    @classmethod
    def of(cls, X: Any, weights: Any) -> Population:
        """Rows that can be had by their number."""
        X = inputs.collected(X if hasattr(X, "shape") or hasattr(X, "collect") else np.asarray(X))
        if hasattr(X, "compute"):  # of Dask
            take = partial(taken_in_order, X)
        else:
            is_frame = hasattr(X, "columns") or hasattr(X, "column_names")
            take = partial(_safe_indexing if is_frame else take_rows, X)
        n = X.shape[0]
        if isinstance(n, float) or n is None:  # chunks of unknown length
            raise ValueError(
                "fit(until=...) draws rows by their number, and this array does not know how many "
                "it has: call compute_chunk_sizes() first."
            )
        if weights is not None:
            weights = np.cumsum(inputs.checked_weights(weights, int(n)))
            if not weights[-1] > 0.0:
                raise ValueError(inputs.NO_WEIGHT)
        return cls(int(n), take, weights)

    def draw(self, seed: int, purpose: str, at: slice) -> Any:
        """The draws of one purpose from one number to another.

        Independent of each other, in proportion to weight, with replacement. As they were drawn:
        limits by betting hold for rows that nobody has sorted.
        """
        chance = uniforms(seed, f"until {purpose}", at.start, at.stop - at.start)
        if self.weights is None:
            index = (chance * self.n).astype(np.intp)
        else:
            index = np.searchsorted(self.weights, chance * self.weights[-1], side="right")
        return self.take(np.minimum(index, self.n - 1))


def taken_in_order(X: Any, index: np.ndarray) -> np.ndarray:
    """Rows of a Dask array: it is asked for them in its own order."""
    order = np.argsort(index, kind="stable")
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return np.asarray(X[index[order]].compute(scheduler="threads"))[back]


@dataclass(frozen=True)
class ProgressiveSampling:
    """Draw rows at random, in growing samples, until the error of the model is known well enough.

    Parameters
    ----------
    until : float
        How far the explained variance ratio may be below the best possible one.
    confidence : float, default=0.99
        Probability that this holds.

    Examples
    --------
    >>> from kernelstream.estimators import ProgressiveSampling
    >>> ProgressiveSampling(until=0.05)
    ProgressiveSampling(until=0.05, confidence=0.99)
    """

    until: float
    confidence: float = 0.99

    def __post_init__(self) -> None:
        for name, value in (("until", self.until), ("confidence", self.confidence)):
            if isinstance(value, bool) or not (isinstance(value, float) and 0.0 < value < 1.0):
                raise ValueError(
                    f"{name} is a share between 0 and 1, such as "
                    f"{0.01 if name == 'until' else 0.99}; got {value!r}."
                )

    def fit(self, estimator: Any, rows: Population) -> Any | None:
        """Return a fitted copy of an estimator, or None where all rows have to be learned.

        Parameters
        ----------
        estimator : StreamingKernelPCA
            The estimator, which stays as it is.
        rows : Population
            Rows that can be drawn at random.
        """
        until, seed = self.until, checked_seed(estimator.random_state)
        n, look = FIRST, 1
        while True:
            learned, wider = min(n // 2, MOST_LEARNED), min(MOST_WIDER, n // 16)
            if n + learned >= rows.n:
                return None
            draw = partial(rows.draw, seed)
            model = clone(estimator)
            model.fit(draw("learned", slice(0, learned)))
            span = self._span(model.stream_, partial(read_draws, model, draw, "wider"), wider)
            read = partial(read_draws, model, draw, "judging")
            bounds = bounds_of_draws(span, read, n, rows.n, self.confidence, look)
            if bounds.shortfall_bound <= until:
                return with_bounds(model, bounds)
            # At best the bound falls with the root of the draws: sizes below that are skipped.
            wanted = math.log2((bounds.shortfall_bound / until) ** 2)
            n, look = n * 2 ** max(1, round(wanted)), look + 1

    def _span(self, stream: Stream, read: Callable[[slice], Any], wider: int) -> AugmentedSpan:
        """The span in which the model is compared; rows widen it where the model misses much."""
        require_bounds(stream)
        model, state = stream.certificate.model, stream.begun
        assert model is not None and state.observer is not None
        missed = state.observer.ledger.missed / state.moments.weight
        more = wider if missed > 0.5 * self.until * stream.components.total_variance else 1
        with cores():
            return AugmentedSpan.of(model, read(slice(0, more)))


def with_bounds(model: Any, bounds: ConfidenceBounds) -> Any:
    """The model with the bounds that are about it."""
    stream = model.stream_
    drawn = DrawnBounds(bounds, stream.n_rows, model.n_components_)
    observer = replace(stream.begun.observer, drawn=drawn)
    model._stream = stream.with_state(replace(stream.begun, observer=observer))
    return model


def read_draws(model: Any, draw: Draw, purpose: str, at: slice) -> Any:
    """Draws as the kernel of a model sees them."""
    return model.stream_.prepared(inputs.query_rows(model.stream_, draw(purpose, at), model))


def require_bounds(stream: Stream) -> None:
    """Raise where nothing can be said about rows that are not read."""
    chain = stream.chain
    if not math.isfinite(chain.kernel.max_squared_norm):
        raise ValueError(
            f"fit(until=...) speaks of rows that are not read, for kernels with a bound: what "
            f"{chain.kernel} makes of a row may be of any size. Use a kernel such as 'rbf' or "
            "'cosine', or fit all rows."
        )
    if chain.tracker.forgetting != 1.0 or chain.tracker.kind == "window" or chain.robust:
        raise ValueError(
            "fit(until=...) draws rows in any order and counts each alike: without forgetting, "
            f"window and robust=True; got {chain.tracker}, robust={chain.robust}."
        )
    if not chain.certify or not chain.kernel.psd:
        raise ValueError(
            "fit(until=...) stops by a statement about the error, and there is none "
            f"(certify={chain.certify!r}, kernel {chain.kernel})."
        )
