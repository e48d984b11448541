"""Every row that adds a direction becomes a point: exact kernel PCA, sample by sample."""

from __future__ import annotations

import numpy as np

from kernelstream.bases.growing import Growing


class Everything(Growing):
    """All rows, less those that lie in the span of the earlier ones.

    The model is then exact kernel PCA of all rows seen: the same as
    ``sklearn.decomposition.KernelPCA``, reached one row at a time. Memory grows with the square of
    the number of independent rows.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA, bases
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> model = StreamingKernelPCA(2, kernel="linear", basis=bases.Everything()).partial_fit(X)
    >>> len(model.basis_points_)  # a linear kernel has three directions here
    3
    """

    # What a row misses is below `DEPENDENT` of its energy for ever: nothing for a second pass.
    settles_late = False

    def admissible(
        self, residual: np.ndarray, energy: np.ndarray, coherence: np.ndarray | None
    ) -> np.ndarray:
        """Return whether there is anything new; dependent rows are left out by all bases."""
        return residual > 0
