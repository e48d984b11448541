"""Signs of components along a stream: a reference that each component follows by cosine.

A component is known up to its sign. Without a reference, the largest score of a landmark becomes
positive, as in scikit-learn's KernelPCA: the scores of the landmarks do not depend on their order.
Along a stream each component has the sign of the reference component that it is near to, so a plot
does not flip. The reference is replaced at the end of a block when the number of rows has doubled,
and with forgetting once a memory length. It starts with PCA of the first 8, 10, 12, … rows, which
does not depend on the landmarks: they change with every row until the stream has begun.

Sequential rules move their components continuously and need no reference.
"""

from __future__ import annotations

import sys
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
)
from kernelstream.landmarks.base import Measured
from kernelstream.stream.components import oriented
from kernelstream.stream.gram import exact_components
from kernelstream.stream.state import State
from kernelstream.trackers.covariance import covariance

if TYPE_CHECKING:
    from kernelstream.stream.step import Chain

# Components of a few rows turn with every further one: a quarter more rows each time, up to where
# components hardly turn.
FIRST_ROWS = (8, 10, 12, 15, 18, 22, 27, 33, 41, 51, 63, 78, 97, 128)
SUBSPACE_STEPS = 3  # of the iteration from the last reference: only signs are read off


def follow(chain: Chain, before: State, after: State, block: Measured) -> State:
    """The state after a block, with a new reference."""
    if before.n_rows:
        return with_reference(chain, after, next_reference(chain, after, before.signs))
    return with_reference(chain, after, first_reference(chain, after, block))


def first_reference(chain: Chain, state: State, block: Measured) -> Array:
    """Components after the first block, with the signs that its very first rows gave them."""
    n, kept = min(FIRST_ROWS[-1], len(block)), n_followed(chain)
    K = to_host(to_float64(chain.kernel.gram(as_dense(block.X[:n, :]))))
    Z = to_host(to_float64(block.block.Z[:n, :]))
    weights = np.ones(n) if block.left is None else block.left[:n]
    _, vectors, _ = chain.tracker.components(state.tracker, state.moments, chain.center)
    vectors = vectors[:, : min(kept, int(vectors.shape[1]))]
    coefficients = first_components(K, weights, chain.center, kept)
    return vectors * like(canonical_signs(coefficients.T @ Z @ to_host(vectors)), vectors)[None, :]


def first_components(K: np.ndarray, weights: np.ndarray, center: bool, kept: int) -> np.ndarray:
    """Unit components of rows with the Gram matrix K, as coefficients over the rows, (n, r).

    The sign of each is followed from the first 8 rows on, by kernel PCA of more and more of them.
    """
    n, found = len(K), np.zeros((0, 0))
    for size in (*(few for few in FIRST_ROWS if few < n), n):
        before, found = found, exact_components(K[:size, :size], weights[:size], center, kept)[0]
        if len(before):
            cosines = before.T @ K[: len(before), :size] @ found
            found = found * canonical_signs(cosines)[None, :]
    return found


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
