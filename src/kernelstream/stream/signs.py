"""Early sign convention: signs of the components of the very first rows."""

from __future__ import annotations

import numpy as np

from kernelstream.arrays.namespaces import canonical_signs, symmetric_eigen

FEWEST_ROWS = 8  # the components of fewer are not yet those of any stream
MOST_ROWS = 128  # from here on components hardly turn while rows are added to a block
STEPS_A_DOUBLING = 4  # components of a few rows turn with every further one
_NO_VARIANCE = 1e-12  # of a component, relative to the first: rounding only


def first_components(
    K: np.ndarray, weights: np.ndarray | None, center: bool, kept: int | None
) -> np.ndarray:
    """Unit components of rows with the Gram matrix K, as coefficients over the rows, (n, r).

    The sign of each was followed from the first 8 rows on, by kernel PCA of more and more of them.
    So it depends on the rows alone, and not on the points of a basis, which are others with every
    row that is added before the stream has begun.
    """
    n = len(K)
    weights = np.ones(n) if weights is None else weights
    size = min(FEWEST_ROWS, n)
    found = components_of(K[:size, :size], weights[:size], center, kept)
    while size < n:
        before, size = found, min(n, size + max(1, size // STEPS_A_DOUBLING))
        found = components_of(K[:size, :size], weights[:size], center, kept)
        cosines = before.T @ K[: len(before), :size] @ found
        found = found * sign_of_nearest(cosines)[None, :]
    return found


def components_of(K: np.ndarray, weights: np.ndarray, center: bool, kept: int | None) -> np.ndarray:
    """Coefficients of the components of some rows; the largest score is positive."""
    n = len(K)
    if not weights.any():
        return np.zeros((n, 0))
    weights = weights / weights.max()  # faded ones may be next to nothing
    weights = weights / weights.sum()
    mean = weights[None, :] if center else np.zeros((1, n))
    H = np.sqrt(weights)[:, None] * (np.eye(n) - mean)  # rows of H φ: √w (φ − mean)
    values, vectors = symmetric_eigen(H @ K @ H.T)
    real = values > _NO_VARIANCE * max(values[0], np.finfo(float).tiny)
    values, vectors = values[real][:kept], vectors[:, real][:, :kept]
    coefficients = H.T @ (vectors / np.sqrt(values)[None, :])
    scores = K @ coefficients
    return coefficients * canonical_signs(scores - mean @ scores)[None, :]


def sign_of_nearest(cosines: np.ndarray) -> np.ndarray:
    """+1 or −1 for each column: that of its largest cosine, +1 where there are none."""
    return canonical_signs(cosines)
