"""Compression to fewer landmarks: maximizes the variance kept from a fitted model.

The model itself takes the place of a sample. It knows the covariance C of all rows in the
coordinates of its points D, so over these points the second moments of the rows are ``M = F C Fᵀ``,
and the variance that other points D' capture of what it holds is that of ``K(D',D) M K(D,D')``. The
same steps uphill as for centroids, at a price of points by points and not of rows by points; no row
is needed, and any basis of points will do.
"""

from __future__ import annotations

import numpy as np

from kernelstream.arrays.namespaces import (
    Array,
    as_dense,
    cast,
    like,
    namespace_of,
    row_norms_squared,
    take_rows,
    to_float64,
    to_host,
)
from kernelstream.kernels import Kernel
from kernelstream.landmarks.nystroem import Span
from kernelstream.landmarks.optimized.kmeans import kmeans
from kernelstream.landmarks.optimized.polish import (
    STEPS,
    Sampled,
    captured,
    polish,
)


def fewer_points(
    kernel: Kernel,
    span: Span,
    values: Array,
    vectors: Array,
    m: int,
    wanted: int,
    rng: np.random.Generator,
) -> Array:
    """The best m points for the components of a model, given their variances and vectors.

    ``wanted`` of them are asked for; a few more are kept, as for centroids.
    """
    xp = namespace_of(vectors)
    # rounding may leave variances a little below zero
    along = (span.factor @ vectors) * xp.sqrt(xp.clip(values, min=0.0))[None, :]
    points = to_float64(as_dense(span.points))
    second = along @ xp.matrix_transpose(along) * int(points.shape[0])
    held = Sampled(points, None, second=second)
    wanted = max(wanted, m // 4)
    use = to_host(row_norms_squared(along[:, :wanted]))
    starts = [
        kmeans(points, m, STEPS, rng),
        take_rows(points, np.sort(np.argsort(-use, kind="stable")[:m])),
    ]
    kept = [captured(kernel, start, held, wanted, held) for start in starts]
    best = polish(kernel, starts[int(np.argmax(kept))], held, wanted)
    return cast(like(best, points), span.points.dtype)
