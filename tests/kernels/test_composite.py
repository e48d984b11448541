"""Sums, products and multiples of kernels, and functions as kernels."""

from __future__ import annotations

import math
from typing import Any

import array_api_strict
import numpy as np
import pytest
import scipy.sparse

from kernelstream.kernels import (
    RBF,
    Constant,
    Cosine,
    FromCallable,
    Linear,
    Polynomial,
    Product,
    Sum,
)
from tests import samples

# --- composition -----------------------------------------------------------------------------


def test_operators() -> None:
    a, b = RBF(0.1), Linear()
    assert repr(a + b) == "Sum(left=RBF(gamma=0.1), right=Linear())"
    assert repr(a * b) == "Product(left=RBF(gamma=0.1), right=Linear())"
    assert repr(a + 2) == "Sum(left=RBF(gamma=0.1), right=Constant(value=2))"
    assert repr(2 + a) == "Sum(left=Constant(value=2), right=RBF(gamma=0.1))"
    assert repr(a * 2.0) == "Product(left=RBF(gamma=0.1), right=Constant(value=2.0))"
    for factor in (np.float64(2.0), np.float32(2.0), 2):
        kernel = factor * a
        assert isinstance(kernel, Product)
        assert kernel(samples.rows(3, 7).astype(np.float32)).dtype == np.float32
    for operand in ("rbf", None, np.ones(3)):
        with pytest.raises(TypeError):
            a + operand
        with pytest.raises(TypeError):
            operand * a


def test_parameters_reach_the_inner_kernels() -> None:
    kernel = RBF() + 2.0 * Polynomial()
    kernel.set_params(left__gamma=0.5, right__right__degree=2)
    assert repr(kernel.get_params()["left"]) == "RBF(gamma=0.5)"
    assert kernel.get_params()["right__left__value"] == 2.0


# --- functions as kernels --------------------------------------------------------------------


def test_a_function_is_called_on_dense_rows_and_its_matrix_is_not_overwritten() -> None:
    X = samples.rows(150, 7)
    kept = X @ X.T
    before = kept.copy()
    kernel = FromCallable(lambda X, Y: kept if len(X) == len(Y) == 150 else X @ Y.T)
    doubled = (kernel + kernel).block(X, X)
    assert np.array_equal(kept, before)
    assert np.array_equal(doubled, 2 * before)

    calls: list[tuple[int, int]] = []

    def function(X: Any, Y: Any) -> Any:
        assert isinstance(X, np.ndarray)
        assert isinstance(Y, np.ndarray)
        calls.append((len(X), len(Y)))
        return X @ Y.T

    diagonal = FromCallable(function).diag(scipy.sparse.csr_array(X))
    np.testing.assert_allclose(diagonal, np.einsum("ij,ij->i", X, X))
    assert calls == [(64, 64), (64, 64), (22, 22)]


def test_a_function_may_return_integers_lists_and_sparse_matrices() -> None:
    X = np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32)
    expected = X @ X.T
    for function in (
        lambda X, Y: (X @ Y.T).astype(int),
        lambda X, Y: (X @ Y.T).tolist(),
        lambda X, Y: scipy.sparse.csr_matrix(X @ Y.T),
        lambda X, Y: array_api_strict.asarray(X @ Y.T),
    ):
        K = FromCallable(function).block(X, X)
        assert K.dtype == np.float32
        assert np.array_equal(K, expected)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda X, Y: (X @ Y.T).T, r"returned shape \(3, 5\) for 5 rows and 3 points"),
        (lambda X, Y: 1.0, r"returned shape \(\) for 5 rows"),
        (lambda X, Y: np.full((len(X), len(Y)), np.nan), "returned NaN, infinity"),
        (lambda X, Y: np.full((len(X), len(Y)), np.inf), "returned NaN, infinity"),
        (lambda X, Y: (X @ Y.T) * 1j, "type complex128: it must return real numbers"),
        (lambda X, Y: np.full((len(X), len(Y)), "a"), "it must return real numbers"),
    ],
)
def test_what_a_function_returns_is_checked(function: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FromCallable(function).block(samples.rows(5, 7), samples.rows(3, 7))


def test_a_function_that_is_not_symmetric_is_refused() -> None:
    with pytest.raises(ValueError, match="not symmetric"):
        FromCallable(lambda X, Y: X[:, :1] - Y[:, 0])(samples.rows(5, 7))


# --- what is known of sums and products ------------------------------------------------------


def test_numbers_of_sums_and_products() -> None:
    left, right, extent, d = RBF(0.3), Polynomial(2, 0.5, 1.0), 7.0, 4
    X = samples.rows(9, 7)
    both, times = left + right, left * right
    np.testing.assert_allclose(both.block(X, X), left.block(X, X) + right.block(X, X))
    np.testing.assert_allclose(times.block(X, X), left.block(X, X) * right.block(X, X))
    np.testing.assert_allclose(both.diag(X), left.diag(X) + right.diag(X))
    np.testing.assert_allclose(times.diag(X), left.diag(X) * right.diag(X))
    one, two = left.rounding.worst(extent, d), right.rounding.worst(extent, d)
    assert one != two
    assert both.rounding.worst(extent, d) == max(one, two) + 1.0
    assert times.rounding.worst(extent, d) == one + two + 1.0
    one, two = (k.rounding.in_float32(extent) for k in (left, right))
    assert both.rounding.in_float32(extent) == max(one, two)
    assert times.rounding.in_float32(extent) == one + two
    cosine = Cosine()
    assert (left + 3.0 * cosine).max_squared_norm == 4.0
    assert (left * cosine * 2.0).max_squared_norm == 2.0
    assert both.max_squared_norm == times.max_squared_norm == math.inf
    points = samples.rows(5, 7) + 100.0
    for pair in (both, right * left):
        assert pair.rounding.extent(points) == left.rounding.extent(points) > 0
        assert pair.rounding.extent(points, shifted=False) == left.rounding.extent(points, False)
    assert (left * RBF(1.0)).unit_norm and not times.unit_norm and not both.unit_norm
    assert both.psd and not (left + Polynomial(2, 0.5, -1.0)).psd
    assert not (Polynomial(2, 0.5, -1.0) * left).psd


def test_a_constant_is_one_number() -> None:
    two = Constant(2.0)
    np.testing.assert_array_equal(
        two.block(samples.rows(3, 7), samples.rows(4, 7)), np.full((3, 4), 2.0)
    )
    np.testing.assert_array_equal(two.diag(samples.rows(3, 7)), np.full(3, 2.0))
    assert two.rounding.worst(9.0, 9) == 1.0 and two.max_squared_norm == 2.0
    for bad in (0.0, -1.0, np.inf):
        with pytest.raises(ValueError, match="value must be a positive number"):
            Constant(bad).check()
    wrong: Any = "rbf"
    for pair in (Sum(wrong, RBF(1.0)), Sum(RBF(1.0), wrong)):
        with pytest.raises(ValueError, match="must be a kernel object such as RBF"):
            pair.check()
    with pytest.raises(ValueError, match="gamma must be"):
        Sum(RBF(1.0), RBF(-1.0)).check()


@pytest.mark.parametrize(("off", "fine"), [(0.9e-5, True), (1.1e-5, False)])
def test_a_function_may_be_as_asymmetric_as_single_precision(off: float, fine: bool) -> None:
    K = 100.0 * np.array([[1.0, 0.5], [0.5 + off, 1.0]])
    kernel = FromCallable(lambda X, Y: K)
    if fine:
        np.testing.assert_array_equal(kernel.gram(samples.rows(2, 7))[0, 1], K[1, 0])
    else:
        with pytest.raises(ValueError, match="The kernel function is not symmetric"):
            kernel.gram(samples.rows(2, 7))
    assert kernel.rounding.worst(1.0, 2) == math.inf and not kernel.psd and kernel.fixed
    with pytest.raises(ValueError, match="function must be a function of two blocks"):
        FromCallable(3).check()  # type: ignore[arg-type]
