"""Signs of components: largest score of a landmark positive, followed along the stream by cosine.

A component is known up to its sign. Without a reference, the largest score of a landmark becomes
positive, as in scikit-learn's KernelPCA: the scores of the landmarks do not depend on their order.
Along a stream each component has the sign of the reference component that it is near to, so a plot
does not flip. The reference is taken at the end of a block when the rows have doubled since the
last one; under forgetting components never come to rest, and it is taken once a memory length. It
starts with kernel PCA of the first 8, 10, 12, … rows, which does not depend on the landmarks: they
are others with every row that is added before the stream has begun.

Sequential rules move their components continuously and need no reference.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kernelstream.arrays.namespaces import (
    Array,
    as_dense,
    canonical_signs,
    like,
    namespace_of,
    orthonormal,
    padded,
    symmetric_eigen,
    to_float64,
    to_host,
    weighted_sum,
)
from kernelstream.landmarks.base import Measured
from kernelstream.stream.gram import exact_components
from kernelstream.stream.state import State
from kernelstream.trackers import Moments
from kernelstream.trackers.covariance import covariance

if TYPE_CHECKING:
    from kernelstream.stream.step import Chain

KEEPS_SIGN = 0.7  # a component keeps its sign while its cosine to the reference is above this
SUBSPACE_STEPS = 3  # of the iteration from the last reference: only signs are read off
FEWEST_ROWS = 8  # the components of fewer are not yet those of any stream
MOST_ROWS = 128  # from here on components hardly turn while rows are added to a block
STEPS_A_DOUBLING = 4  # components of a few rows turn with every further one
MOST_PIECES = 4  # references within one block: more would take longer than its rows


def oriented(
    chain: Chain, state: State, vectors: Array, mean: Array, reference: Array | None
) -> Array:
    """Columns with the sign of the reference component that they are near to.

    Where none is near, the largest score of a landmark becomes positive. It is computed only if one
    of the first components needs it.
    """
    signs = agreement(vectors, reference)
    undecided = to_host(signs) == 0
    r = chain.n_components
    if not undecided[: r if isinstance(r, int) else None].any():
        return vectors * (signs + like(undecided, signs, signs.dtype))[None, :]
    span = state.basis.span
    scores = span.gram(chain.kernel) @ (span.factor @ vectors) - (mean @ vectors)[None, :]
    return vectors * namespace_of(signs).where(signs == 0, canonical_signs(scores), signs)[None, :]


def agreement(vectors: Array, reference: Array | None) -> Array:
    """+1 or −1 where a column is near a reference component or its opposite, else 0."""
    xp = namespace_of(vectors)
    undecided = like(np.zeros(int(vectors.shape[1])), vectors)
    if reference is None or reference.shape[1] == 0 or vectors.shape[1] == 0:
        return undecided
    reference = padded(reference, (int(vectors.shape[0]), int(reference.shape[1])))
    cosines = xp.matrix_transpose(reference) @ vectors
    ones = xp.ones_like(undecided)
    flip = xp.where(xp.max(cosines, axis=0) > KEEPS_SIGN, ones, undecided)
    return xp.where(xp.min(cosines, axis=0) < -KEEPS_SIGN, -ones, flip)


def follow(chain: Chain, before: State, after: State, block: Measured) -> State:
    """The state after a block, with a new reference if one is due."""
    if chain.tracker.kind == "sequential" or after.n_rows < after.next_signs:
        return after
    reference = before.signs
    for state in (*within(chain, before, block), after):
        if reference is None and before.n_rows == 0 and chain.early_signs:
            reference = first_reference(chain, state, block)
        reference = next_reference(chain, state, reference)
    return with_reference(chain, after, reference)


def final(chain: Chain, state: State) -> State:
    """The state with signs from all rows: which of them came first does not matter."""
    if chain.tracker.kind == "sequential":
        return replace(state, signs=None, next_signs=0)
    return with_reference(chain, state, next_reference(chain, state, None))


def with_reference(chain: Chain, state: State, reference: Array) -> State:
    """The state with a reference, and the number of rows at which the next one is due."""
    due = state.n_rows + int(min(state.n_rows, chain.tracker.memory))
    return replace(state, signs=reference, next_signs=due)


def next_reference(chain: Chain, state: State, last: Array | None) -> Array:
    """Present components with their signs, a few more than are asked for.

    From a last reference with as many, if the landmarks span much more, by a few steps of subspace
    iteration: a sign needs no more, and an eigenvalue problem costs as much as some blocks of rows.
    """
    n, rank = n_followed(chain), state.basis.span.rank
    scatter = None
    if last is not None and 2 * n <= rank and int(last.shape[1]) == n:
        scatter = getattr(state.tracker, "scatter", None)
    if scatter is None:
        _, vectors, mean = chain.tracker.components(state.tracker, state.moments, chain.center)
        vectors = vectors[:, : min(n, int(vectors.shape[1]))]
    else:
        C, mean = covariance(scatter, state.moments, chain.center)
        vectors = iterated(C, padded(last, (rank, n)))
    return oriented(chain, state, vectors, mean, last)


def n_followed(chain: Chain) -> int:
    """Components whose signs are kept: those next to the last may come to be among the first."""
    r = chain.n_components
    return r + r // 4 + 8 if isinstance(r, int) else sys.maxsize


def iterated(C: Array, start: Array) -> Array:
    """Subspace iteration from ``start`` and Rayleigh–Ritz: leading eigenvectors of C."""
    xp, V = namespace_of(start), start
    for _ in range(SUBSPACE_STEPS):
        V = orthonormal(C @ V)
    return V @ symmetric_eigen(xp.matrix_transpose(V) @ (C @ V))[1]


def within(chain: Chain, before: State, block: Measured) -> Iterator[State]:
    """States on the way through a block that is longer than the memory.

    Signs that were looked at only where it ends would flip in between.
    """
    n, beta = len(block), chain.tracker.forgetting
    if beta == 1.0 or block.left is None or n * (1.0 - beta) <= 1.0:
        return
    piece, state, Z = max(math.ceil(1.0 / (1.0 - beta)), n // MOST_PIECES), before, block.block.Z
    rank = int(Z.shape[1])
    for start in range(0, n - piece, piece):
        rows, left = Z[start : start + piece, :], block.left[start : start + piece]
        weights, moments = like(left, Z), state.moments
        total = padded(moments.total, (rank,)) + weighted_sum(rows, weights)
        tracker = chain.tracker.update(state.tracker, rows, weights, ())
        moments = Moments(moments.weight + float(left.sum()), total, moments.squared_norm)
        state = replace(state, tracker=tracker, moments=moments)
        yield state


def first_reference(chain: Chain, state: State, block: Measured) -> Array:
    """Components after the first rows, with the signs that the very first gave them."""
    n = min(MOST_ROWS, len(block))
    first, left = as_dense(block.X[:n, :]), None if block.weights is None else block.weights[:n]
    if chain.tracker.forgetting != 1.0:
        fading = replace(block.clock, row=0).fading(n)
        left = fading if left is None else fading * left
    K = to_host(to_float64(chain.kernel.gram(first)))
    coefficients = first_components(K, left, chain.center, n_followed(chain))
    _, vectors, _ = chain.tracker.components(state.tracker, state.moments, chain.center)
    Z = to_float64(chain.basis.coordinates(chain.kernel, state.basis, first))
    cosines = coefficients.T @ to_host(Z @ vectors)
    return vectors * like(canonical_signs(cosines), vectors)[None, :]


def first_components(
    K: np.ndarray, weights: np.ndarray | None, center: bool, kept: int | None
) -> np.ndarray:
    """Unit components of rows with the Gram matrix K, as coefficients over the rows, (n, r).

    The sign of each is followed from the first 8 rows on, by kernel PCA of more and more of them.
    """
    n = len(K)
    weights = np.ones(n) if weights is None else weights
    size = min(FEWEST_ROWS, n)
    found = exact_components(K[:size, :size], weights[:size], center, kept)[0]
    while size < n:
        before, size = found, min(n, size + max(1, size // STEPS_A_DOUBLING))
        found = exact_components(K[:size, :size], weights[:size], center, kept)[0]
        cosines = before.T @ K[: len(before), :size] @ found
        found = found * canonical_signs(cosines)[None, :]
    return found
