"""Early sign convention: signs of the components of the very first rows."""

from __future__ import annotations

import numpy as np

from kernelstream.arrays.namespaces import canonical_signs
from kernelstream.stream.gram import exact_components

FEWEST_ROWS = 8  # the components of fewer are not yet those of any stream
MOST_ROWS = 128  # from here on components hardly turn while rows are added to a block
STEPS_A_DOUBLING = 4  # components of a few rows turn with every further one


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
    found = exact_components(K[:size, :size], weights[:size], center, kept)[0]
    while size < n:
        before, size = found, min(n, size + max(1, size // STEPS_A_DOUBLING))
        found = exact_components(K[:size, :size], weights[:size], center, kept)[0]
        cosines = before.T @ K[: len(before), :size] @ found
        found = found * sign_of_nearest(cosines)[None, :]
    return found


def sign_of_nearest(cosines: np.ndarray) -> np.ndarray:
    """+1 or −1 for each column: that of its largest cosine, +1 where there are none."""
    return canonical_signs(cosines)
