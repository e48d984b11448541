"""Distances by one product: their accuracy, prepared points, and typical distances."""

from __future__ import annotations

import math
from typing import Any

import array_api_strict
import numpy as np
import pytest
import sklearn.metrics.pairwise as pairwise

from kernelstream.kernels import (
    RBF,
    Euclidean,
    Exponential,
    Kernel,
    Laplacian,
    Matern,
    squared_distances,
)
from tests import samples
from tests.kernels.test_kernels import STATIONARY, every_kernel, numbers, peak_bytes


def test_of_scaled_distances_shares_the_product() -> None:
    X, Y = samples.rows(9, 7).astype(np.float32), samples.rows(4, 7, seed=1)
    for kernel in STATIONARY:
        if isinstance(kernel, Euclidean):
            sq = kernel.scaled_distances(X, Y)
            exact = kernel.distance_scale * pairwise.euclidean_distances(X, Y) ** 2
            np.testing.assert_allclose(sq, exact, rtol=1e-4)
            assert sq.dtype == (np.float64 if kernel.in_float64 else np.float32)
            K = kernel.of_scaled_distances(sq).astype(np.float32)
            assert np.array_equal(K, kernel.block(X, Y))


# --- precision and range ---------------------------------------------------------------------


@every_kernel
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_prepared_points_are_the_points(kernel: Kernel, dtype: Any, offset: float) -> None:
    """Far from the origin too, where distances need the shift."""
    if offset and not isinstance(kernel, Euclidean):
        pytest.skip("no distances by a product")
    X, Y = (samples.rows(n, 7, seed=n).astype(dtype) + dtype(offset) for n in (9, 30))
    X[4] = Y[7]
    kernel = kernel.fix(X)
    prepared = kernel.prepared(Y)
    assert isinstance(kernel, Euclidean) == (prepared is not Y)
    expected = kernel.block(X.astype(float), Y.astype(float))
    tol = (2e-5 if dtype is np.float32 else 1e-12) * max(np.abs(expected).max(), 1.0)
    for cut in (slice(None), slice(0, 11)):
        K = kernel.block(X, prepared[cut, :])
        assert K.dtype == dtype
        # The kinks of the Matérn and exponential kernels take the root of the rounding.
        atol = max(tol, 1e-6) if isinstance(kernel, Exponential | Matern) else tol
        np.testing.assert_allclose(K, expected[:, cut], rtol=0, atol=atol)


def test_a_kernel_with_a_block_of_its_own_gets_plain_points() -> None:
    class Halved(RBF):
        def block(self, X: Any, Y: Any) -> Any:
            return super().block(X / 2, Y / 2)

    Y = samples.rows(5, 7)
    assert Halved(0.3).prepared(Y) is Y


@pytest.mark.parametrize("offset", [0.0, 3.0, 1e3, 1e6])
def test_an_offset_costs_no_accuracy(offset: float) -> None:
    X, Y = samples.rows(50, 7) + offset, samples.rows(20, 7, seed=1) + offset
    direct = ((X[:, None, :] - Y[None, :, :]) ** 2).sum(axis=2)
    errors = RBF(0.3).block(X, Y) - np.exp(-0.3 * direct)
    assert np.abs(errors).max() < (1e-9 if offset else 1e-14)
    # What the shift is for: without it the error at 1e6 is about 1e-4.
    if offset == 1e6:
        assert np.abs(squared_distances(X, Y) - direct).max() > 1e-5
    errors = RBF(0.3).gram(Y) - np.exp(-0.3 * ((Y[:, None, :] - Y[None, :, :]) ** 2).sum(axis=2))
    assert np.abs(errors).max() < (1e-9 if offset else 1e-14)


def test_just_below_the_shift_the_accuracy_is_that_of_the_dtype() -> None:
    offset = math.sqrt(15.9 / 0.3 / 7)
    X, Y = samples.rows(500, 7) / 10 + offset, samples.rows(300, 7, seed=1) / 10
    Y += offset - Y.mean(axis=0)
    for dtype in (np.float64, np.float32):
        X, Y = X.astype(dtype), Y.astype(dtype)
        direct = ((X[:, None, :] - Y[None, :, :]).astype(np.float64) ** 2).sum(axis=2)
        errors = RBF(0.3).block(X, Y) - np.exp(-0.3 * direct)
        assert np.abs(errors).max() < 64 * np.finfo(dtype).eps


def test_just_above_the_shift_it_is_as_well() -> None:
    """Without it, errors grow with the square of the offset: here they would be 30 times larger."""
    X, Y = samples.rows(500, 7) / 10, samples.rows(300, 7, seed=1) / 10
    offset = math.sqrt(2000.0 / 0.3 / 7)
    X, Y = (X + offset).astype(np.float32), (Y + offset).astype(np.float32)
    direct = ((X[:, None, :].astype(np.float64) - Y[None, :, :]) ** 2).sum(axis=2)
    errors = RBF(0.3).block(X, Y) - np.exp(-0.3 * direct)
    assert np.abs(errors).max() < 64 * np.finfo(np.float32).eps


def test_memory_of_the_laplacian_on_other_namespaces_is_bounded() -> None:
    X, Y = (array_api_strict.asarray(samples.rows(2000, 50, seed)) for seed in (0, 1))
    everything = 8 * 2000 * 2000 * 50
    assert peak_bytes(Laplacian(0.1).block, X, Y) < 0.15 * everything


# --- numbers decided by the data -------------------------------------------------------------


def test_median_is_the_median_of_the_distances() -> None:
    X = samples.rows(41, 7)
    distances = pairwise.euclidean_distances(X)[np.triu_indices(41, 1)]
    sigma = np.median(distances)
    fixed = RBF().fix(X)
    assert type(fixed.get_params()["gamma"]) is float
    assert fixed.get_params()["gamma"] == pytest.approx(0.5 / sigma**2, rel=1e-12)
    assert RBF(None).fix(X).get_params() == fixed.get_params()
    assert numbers(Exponential().fix(X)) == pytest.approx([1 / sigma], rel=1e-12)
    assert Matern(2.5).fix(X).get_params()["length_scale"] == pytest.approx(sigma, rel=1e-12)
    sigma = np.median(pairwise.manhattan_distances(X)[np.triu_indices(41, 1)])
    assert numbers(Laplacian(None).fix(X)) == pytest.approx([1 / sigma], rel=1e-12)


def test_median_looks_at_500_rows_spread_evenly() -> None:
    X = samples.rows(1234, 7)
    chosen = X[np.round(np.linspace(0, 1233, 500)).astype(int)]
    assert numbers(RBF().fix(X)) == numbers(RBF().fix(chosen))


def test_a_median_of_weights_of_any_ratio() -> None:
    X = np.array([[0.0], [1.0], [3.0], [7.0]])
    heavy = RBF().fix(X, np.array([1e300, 1e300, 1e-300, 1e-300])).get_params()["gamma"]
    assert heavy == pytest.approx(0.5)  # the distance 1 has all the weight
    lonely = RBF().fix(X, np.array([1e300, 1e-300, 1e-300, 1e-300])).get_params()["gamma"]
    assert 0.5 / 7.0**2 <= lonely <= 0.5
