"""Mean and deviation of columns: of rows, of two sets of rows, of columns that are hard."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from kernelstream.stream.scaling import ColumnMoments, Standard, Standardisation, require_dense
from kernelstream.stream.state import Rows


def moments(X: np.ndarray, w: np.ndarray | None = None) -> tuple[float, np.ndarray, np.ndarray]:
    mean = np.average(X, axis=0, weights=w)
    return (
        len(X) if w is None else w.sum(),
        mean,
        np.sqrt(np.average((X - mean) ** 2, axis=0, weights=w)),
    )


def assert_moments(found: ColumnMoments, expected: tuple[float, np.ndarray, np.ndarray]) -> None:
    assert found.weight == pytest.approx(expected[0])
    np.testing.assert_allclose(found.mean, expected[1], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.deviation, expected[2], rtol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_moments_are_those_of_the_rows(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3)) * [1.0, 20.0, 0.01] + [5.0, -3.0, 0.0]
    w = rng.uniform(0.1, 3.0, size=50) if weighted else None
    parts = [(X[:20], None if w is None else w[:20]), (X[20:], None if w is None else w[20:])]
    assert_moments(ColumnMoments.of(Rows(X, w)), moments(X, w))
    one, two = (ColumnMoments.of(Rows(*part)) for part in parts)
    assert_moments(one.pool(two), moments(X, w))
    scale = Standard().measure(Rows(X, w))
    Z = scale.apply(X)
    _, mean, deviation = moments(Z, w)
    np.testing.assert_allclose(mean, 0.0, atol=1e-9)
    np.testing.assert_allclose(deviation, 1.0, rtol=1e-9)
    np.testing.assert_allclose(scale.undo(Z), X, atol=1e-12)
    assert Standard().start_rows(3) == Standard().start_rows(99) == 500


def test_columns_that_are_constant_or_huge() -> None:
    X = np.array([[0.1, 1e300], [0.1, -1e300], [0.1, 1e300]])
    found = ColumnMoments.of(Rows(X))
    assert found.deviation[0] == 0.0 and found.mean[0] == 0.1
    assert found.mean[1] == pytest.approx(1e300 / 3)
    assert found.deviation[1] == pytest.approx(1e300 * np.sqrt(8) / 3)
    scale = found.standardisation()
    np.testing.assert_array_equal(scale.deviation, [1.0, found.deviation[1]])
    np.testing.assert_array_equal(scale.mean, found.mean)


def test_types_and_sparse_rows() -> None:
    scale = Standardisation(np.array([1.0]), np.array([2.0]))
    single = np.array([[5.0]], dtype=np.float32)
    assert scale.apply(single).dtype == scale.undo(single).dtype == np.float32
    assert scale.apply(single)[0, 0] == 2.0 and scale.undo(single)[0, 0] == 11.0
    with pytest.raises(ValueError, match="scale='standard' needs dense rows"):
        require_dense(scipy.sparse.csr_matrix(single))
    with pytest.raises(ValueError, match="scale='standard' needs dense rows"):
        scale.apply(scipy.sparse.csr_matrix(single))
