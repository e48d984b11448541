"""Exact kernel PCA of a few rows is PCA in feature space."""

from __future__ import annotations

import numpy as np
import pytest

from kernelstream.stream.gram import exact_components, exact_variances
from kernelstream.stream.signs import first_components


@pytest.mark.parametrize("center", [True, False])
def test_variances_are_those_of_the_rows(center: bool) -> None:
    X = np.random.default_rng(0).normal(size=(50, 12)) + 1.0
    about = X - X.mean(axis=0) if center else X
    expected = np.linalg.svd(about, compute_uv=False) ** 2 / 50
    found = exact_variances(X @ X.T, center)
    assert found.shape == (50,)
    np.testing.assert_allclose(found[:12], expected, rtol=1e-9)
    np.testing.assert_allclose(found[12:], 0.0, atol=1e-9)


def test_a_component_of_a_billionth_of_the_variance_has_a_sign() -> None:
    """What is shown has one: 1e-9 of the first is, 1e-14 is rounding."""
    X = np.random.default_rng(0).normal(size=(50, 3)) * [1.0, 3e-5, 1e-7]
    assert exact_components(X @ X.T, np.ones(50), True, None)[0].shape == (50, 2)


def test_components_of_rows_whose_weights_are_next_to_nothing() -> None:
    """Only ratios of weights matter; none at all has no components."""
    X = np.random.default_rng(2).normal(size=(20, 3)) * [3.0, 2.0, 1.0]
    w = np.linspace(0.5, 1.5, 20)
    usual = exact_components(X @ X.T, w, True, 2)[0]
    assert usual.shape == (20, 2)
    for size in (1e-310, 1e-200, 1e200):
        np.testing.assert_allclose(
            exact_components(X @ X.T, size * w, True, 2)[0], usual, rtol=1e-4
        )
    faded = np.r_[w[:10], 1e-310 * w[10:]]  # these rows count for nothing
    for A in (
        exact_components(X @ X.T, faded, True, 2)[0],
        first_components(X @ X.T, faded, True, 2),
    ):
        half = exact_components(X[:10] @ X[:10].T, w[:10], True, 2)[0]
        np.testing.assert_allclose(np.abs(X.T @ A), np.abs(X[:10].T @ half), atol=1e-9)
    assert exact_components(X @ X.T, np.zeros(20), True, 2)[0].shape == (20, 0)
    assert exact_components(np.zeros((4, 4)), np.ones(4), True, None)[0].shape == (4, 0)
    # the largest score of each component is positive, about the mean where it is centred
    for center in (True, False):
        A = exact_components(X @ X.T, w, center, None)[0]
        mean = w @ X / w.sum() if center else np.zeros(3)
        scores = (X - mean) @ X.T @ A
        assert np.all(scores[np.argmax(np.abs(scores), axis=0), range(3)] > 0)


@pytest.mark.parametrize(("share", "kept"), [(0.5e-12, 1), (2e-12, 2)])
def test_a_component_is_rounding_below_1e_12_of_the_first(share: float, kept: int) -> None:
    K = np.diag([1.0, share])
    assert exact_components(K, np.ones(2), False, None)[0].shape == (2, kept)
