"""Bases that grow: they admit what the papers admit."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import scipy.stats

from kernelstream import StreamingKernelPCA, bases, kernels
from tests.bases.test_base import span_of
from tests.conftest import settled_state
from tests.naive import chain as naive


@pytest.mark.parametrize("seed", range(3))
def test_growing_bases_admit_what_the_naive_criteria_admit(seed):
    X = np.random.default_rng(seed).normal(size=(120, 2)) * [2.0, 1.0]
    rbf, poly = kernels.RBF(gamma=0.5), kernels.Polynomial(2, gamma=0.5, coef0=1.0)
    for kernel, k in ((rbf, naive.rbf(0.5)), (poly, naive.polynomial(2, 0.5, 1.0))):
        cases = [
            (bases.Distance(nu=0.3), naive.distance_criterion(0.3), None),
            (bases.Distance(nu=0.01, max_points=5), naive.distance_criterion(0.01), 5),
            (bases.Coherence(delta=0.7), naive.coherence_criterion(0.7), None),
            (bases.Coherence(delta=0.9, max_points=9), naive.coherence_criterion(0.9), 9),
        ]
        for basis, criterion, most in cases:
            expected = naive.dictionary_of(k, X, criterion, most)
            for batch_size in (1, 50, 500):
                model = StreamingKernelPCA(2, kernel=kernel, basis=basis, batch_size=batch_size)
                points = model.partial_fit(X).basis_points_
                np.testing.assert_array_equal(points, expected)
            if most is not None and kernel is rbf:  # this polynomial has six features only
                assert len(expected) == most


def test_distance_leaves_no_row_further_away_than_nu():
    X = np.random.default_rng(1).normal(size=(400, 2))
    model = StreamingKernelPCA(2, gamma=0.5, basis=bases.Distance(nu=0.07)).partial_fit(X)
    missed = naive.missed_energies(naive.rbf(0.5), model.basis_points_, X)
    assert missed.max() <= 0.07
    K = model.kernel_(model.basis_points_)
    assert np.linalg.eigvalsh(K)[0] > 0  # pivots above ν make the dictionary independent


def test_coherence_keeps_points_apart():
    X = np.random.default_rng(1).normal(size=(400, 2))
    model = StreamingKernelPCA(2, gamma=0.5, basis=bases.Coherence(delta=0.6)).partial_fit(X)
    D = model.basis_points_
    K = np.abs(model.kernel_(D) - np.eye(len(D)))
    assert K.max() <= 0.6
    assert np.all(model.kernel_(X, D).max(axis=1) > 0.6 - 1e-12)  # no row is left unlike all points


@pytest.mark.parametrize(
    "layout",
    ["plain", "on axes", "grid", "line", "clusters", "sorted"],
)
@pytest.mark.parametrize("gamma", [0.4, 0.1])
def test_everything_survives_the_smoothest_kernels(layout, gamma):
    """K(D,D) of an RBF kernel in the plane is singular to rounding after some fifty rows.

    Residuals must stay above −1e-8 (they are squared distances), or the error is taken for a
    kernel that is not positive semidefinite, and the model must stay as exact as the account says:
    singular values move by no more than the norm of what is missed, |√λ − √λ̂| ≤ √missed.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2)) * [1.0, 0.5]
    if layout == "on axes":
        X *= rng.random(X.shape) < 0.7
    elif layout == "grid":
        X = np.round(X, 1)
    elif layout == "line":
        X[:, 1] = 0.0
    elif layout == "sorted":
        X = np.linspace(-1.0, 1.0, 80)[:, None] * 2
    elif layout == "clusters":
        X = np.repeat(X[:25], 20, axis=0) + 1e-3 * rng.normal(size=X.shape)
    model = StreamingKernelPCA(4, gamma=gamma, basis=bases.Everything()).partial_fit(X)
    span, kernel = span_of(model), model.kernel_
    missed = 1.0 - np.sum(span.coordinates(kernel, X) ** 2, axis=1)
    assert missed.min() > -1e-8
    account = settled_state(model).ledger
    assert missed.max() < (1e-6 if account.rounding else 2e-8)
    values, _ = naive.kernel_pca(kernel(X), 4)
    # Taking the points in a better order costs the account an allowance for rounding.
    assert account.missed < (1e-3 if account.rounding else 1e-8) * account.energy
    moved = np.abs(np.sqrt(model.eigenvalues_) - np.sqrt(values))
    assert np.all(moved <= np.sqrt(account.missed))
    # Rows in random order miss in random directions: much better than the bound.
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=0, atol=1e-5 * values[0])


def test_points_in_a_better_order_keep_their_energies():
    """Points are given up and permuted; what is known of each must go with it."""
    X = np.linspace(0.2, 6.0, 200)[:, None]
    kernel = kernels.RBF(2.0) * kernels.Polynomial(degree=2, gamma=1.0)
    model = StreamingKernelPCA(2, kernel=kernel, basis=bases.Everything()).partial_fit(X)
    state = settled_state(model)
    assert state.ledger.rounding > 0  # the order was changed
    span = state.basis.span
    energies = model.kernel_.diag(span.points)
    assert energies.max() > 100 * energies.min()
    np.testing.assert_allclose(state.basis.energies, energies, rtol=1e-12)
    gram = span.factor.T @ model.kernel_(span.points) @ span.factor
    np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-4)


@pytest.mark.parametrize(
    "basis",
    [bases.Everything(), bases.Distance(), bases.Coherence(), bases.ReducedSet(20)],
    ids=str,
)
def test_growing_bases_take_sparse_rows_with_the_laplacian_kernel(basis: bases.Basis):
    """scikit-learn's distances refuse a basis that has no points yet."""
    X = np.round(np.random.default_rng(0).normal(size=(60, 4)))
    dense, sparse = (
        StreamingKernelPCA(3, kernel="laplacian", gamma=0.3, basis=basis).partial_fit(rows)
        for rows in (X, scipy.sparse.csr_array(X))
    )
    np.testing.assert_allclose(dense.transform(X), sparse.transform(X), atol=1e-10)


@pytest.mark.parametrize("batch_size", [1, 2, 3, 4])
def test_a_block_in_which_the_first_points_are_complete_equals_single_rows(batch_size):
    """The last row is too near the span to be one of the first, and apart enough to come later."""
    X = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [1, 1, 0.005, 0]])
    model = StreamingKernelPCA(
        2,
        kernel="linear",
        basis=bases.Coherence(0.95, first=3),
        center=False,
        batch_size=batch_size,
    )
    np.testing.assert_array_equal(model.partial_fit(X).basis_points_, X)
