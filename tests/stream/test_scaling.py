"""Units of columns: mean and deviation, which columns are scaled, how gaps are filled."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from kernelstream.stream.scaling import (
    Automatic,
    ColumnMoments,
    ColumnScales,
    Standard,
    Standardisation,
    is_mixed,
    measured_rows,
    require_dense,
    two_valued,
    unheard,
)
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
    mean, deviation = found.mean, found.deviation
    assert deviation[0] == 0.0 and mean[0] == 0.1
    assert mean[1] == pytest.approx(1e300 / 3)
    assert deviation[1] == pytest.approx(1e300 * np.sqrt(8) / 3)
    scale = Standardisation.of(Rows(X))
    np.testing.assert_array_equal(scale.deviation, [1.0, deviation[1]])
    np.testing.assert_array_equal(scale.mean, mean)


def test_types_and_sparse_rows() -> None:
    scale = Standardisation(np.array([1.0]), np.array([2.0]))
    single = np.array([[5.0]], dtype=np.float32)
    assert scale.apply(single).dtype == scale.undo(single).dtype == np.float32
    assert scale.apply(single)[0, 0] == 2.0 and scale.undo(single)[0, 0] == 11.0
    with pytest.raises(ValueError, match="scale='standard' needs dense rows"):
        require_dense(scipy.sparse.csr_matrix(single))
    with pytest.raises(ValueError, match="scale='standard' needs dense rows"):
        scale.apply(scipy.sparse.csr_matrix(single))


@pytest.mark.parametrize(("small", "mixed"), [(0.3, False), (0.1, True)])
def test_columns_too_small_to_be_heard(small: float, mixed: bool) -> None:
    X = np.random.default_rng(5).normal(size=(500, 8))
    X[:, :2] *= small
    assert unheard(X) is mixed and is_mixed(X) is mixed
    assert not unheard(np.delete(X, 1, axis=1))  # one of seven is less than a quarter
    X[:, :2] *= np.random.default_rng(6).random((500, 2)) < 0.1
    assert not unheard(X)  # mostly one value: small for a reason


def test_scales_of_many_rows_are_those_of_some_from_everywhere() -> None:
    rows = np.arange(100_000)[:, None]
    some = measured_rows(rows)
    assert some.dtype == float and 500 <= len(some) <= 5000
    assert some[0] == 0 and some[-1] == 99_999
    assert len(measured_rows(rows[:7])) == 7


def test_columns_that_have_most_of_the_distances() -> None:
    X = np.random.default_rng(7).normal(size=(500, 6))
    assert len(ColumnScales.of(X).dominating) == 0
    X[:, 4] *= 20.0
    np.testing.assert_array_equal(ColumnScales.of(X).dominating, [4])
    X[:, 1] *= 25.0
    np.testing.assert_array_equal(ColumnScales.of(X).dominating, [1, 4])
    X[:, 2] *= 24.0
    assert len(ColumnScales.of(X).dominating) == 0  # three of six are not few
    one_that_varies = np.c_[X[:, :1], np.ones(500)]
    assert len(ColumnScales.of(one_that_varies).dominating) == 0


def test_columns_of_zeros_and_ones_are_a_reason_to_scale_unless_they_are_rare() -> None:
    X = np.random.default_rng(8).normal(size=(1000, 3))
    seldom, often = X.copy(), X.copy()
    seldom[:, 0], often[:, 0] = np.arange(1000) < 5, np.arange(1000) < 50
    assert not is_mixed(X) and not is_mixed(seldom) and is_mixed(often)
    np.testing.assert_array_equal(two_valued(often), [True, False, False])
    numbers = Automatic().measure(Rows(often))
    assert numbers.mean[0] == 0.0 and numbers.deviation[0] == 1.0  # a category as it is
    np.testing.assert_allclose(numbers.mean[1:], often[:, 1:].mean(axis=0))
    assert Automatic().measure(Rows(seldom)).changes_nothing
    words = (np.random.default_rng(9).random((1000, 3)) < 0.5).astype(float)
    assert not is_mixed(words) and not is_mixed(often[:, :1])
    constant = np.c_[words, np.ones(1000)]
    np.testing.assert_array_equal(two_valued(constant), [True] * 3 + [False])
    assert not is_mixed(constant)
