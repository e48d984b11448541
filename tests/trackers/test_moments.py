"""Weight, mean and cross moments of coordinates, against sums over single rows."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from kernelstream.trackers import Moments
from kernelstream.trackers.moments import CrossMoments
from tests import samples


def sums(
    Z: np.ndarray, Y: np.ndarray, w: np.ndarray, origin: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Σ w z (y − o)ᵀ, Σ w (y − o) and Σ w (y − o)², one row at a time."""
    cross = np.zeros((Z.shape[1], Y.shape[1]))
    total, square = np.zeros(Y.shape[1]), np.zeros(Y.shape[1])
    for z, y, weight in zip(Z, Y, w, strict=True):
        cross += weight * np.outer(z, y - origin)
        total += weight * (y - origin)
        square += weight * (y - origin) ** 2
    return cross, total, square


def assert_sums(
    found: CrossMoments, expected: tuple[np.ndarray, np.ndarray, np.ndarray], rtol: float = 1e-11
) -> None:
    for one, two in zip((found.cross, found.total, found.square), expected, strict=True):
        assert one.dtype == np.float64
        np.testing.assert_allclose(one, two, rtol=rtol, atol=rtol)


@samples.grid("dtype, weighted, sparse", [np.float64, np.float32], [False, True], [False, True])
def test_cross_moments_are_sums_over_rows(sparse: bool, weighted: bool, dtype: type) -> None:
    rng = np.random.default_rng(0)
    Z: np.ndarray = rng.normal(size=(30, 4)).astype(dtype)
    Y = rng.normal(size=(30, 3)) + 5.0
    w = rng.uniform(0.1, 3.0, size=30) if weighted else np.ones(30)
    targets = scipy.sparse.csr_matrix(Y) if sparse else Y
    origin = np.zeros(3) if sparse else Y[0]  # zeros of sparse rows stay zeros
    rtol = 1e-11 if dtype is np.float64 else 1e-5
    moments = CrossMoments.begin(2, targets[:5])
    np.testing.assert_array_equal(moments.origin, origin)
    assert moments.cross.shape == (2, 3) and not moments.cross.any()
    for start, stop, rank in ((0, 5, 2), (5, 30, 4)):  # coordinates are appended
        given = w[start:stop] if weighted else None
        moments = moments.update(Z[start:stop, :rank], targets[start:stop], given)
    flat = np.array(Z, dtype=float)
    flat[:5, 2:] = 0.0
    expected = sums(flat, Y, w, origin)
    assert_sums(moments, expected, rtol)
    faded = moments.decay(0.25)
    assert_sums(faded, tuple(0.25 * e for e in expected), rtol)  # type: ignore[arg-type]
    np.testing.assert_array_equal(faded.origin, origin)
    T = rng.normal(size=(2, 6))
    padded = np.pad(flat, ((0, 0), (0, 2)))
    assert_sums(moments.rebase(T), sums(padded @ T.T, Y, w, origin), 10 * rtol)
    elsewhere = np.array([1.0, -2.0, 7.0])
    about = moments.about(elsewhere, float(w.sum()), w @ flat)
    np.testing.assert_array_equal(about.origin, elsewhere)
    assert_sums(about, sums(flat, Y, w, elsewhere), 100 * rtol)
    both = moments.merge(faded)
    np.testing.assert_array_equal(both.origin, origin)
    assert_sums(both, tuple(1.25 * e for e in expected), rtol)  # type: ignore[arg-type]


def test_the_mean_of_no_rows_is_zero() -> None:
    np.testing.assert_array_equal(Moments(0.0, np.zeros(3)).mean, np.zeros(3))
    np.testing.assert_array_equal(Moments(4.0, np.array([8.0, 2.0])).mean, [2.0, 0.5])
