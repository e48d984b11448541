"""Sums, products and multiples of kernels, and functions as kernels."""

from __future__ import annotations

from typing import Any

import array_api_strict
import numpy as np
import pytest
import scipy.sparse

from kernelstream.kernels import (
    RBF,
    FromCallable,
    Linear,
    Polynomial,
    Product,
)
from tests.kernels.test_kernels import rows

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
        assert kernel(rows(3).astype(np.float32)).dtype == np.float32
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
    X = rows(150)
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
        FromCallable(function).block(rows(5), rows(3))


def test_a_function_that_is_not_symmetric_is_refused() -> None:
    with pytest.raises(ValueError, match="not symmetric"):
        FromCallable(lambda X, Y: X[:, :1] - Y[:, 0])(rows(5))
