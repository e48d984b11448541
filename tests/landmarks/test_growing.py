"""Bases that grow: they admit what the papers admit."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import scipy.stats

from kernelstream import StreamingKernelPCA, kernels, landmarks
from kernelstream.landmarks.base import Clock
from kernelstream.landmarks.growing import GrowingState, _strained
from kernelstream.landmarks.nystroem import factorise
from tests.conftest import ledger_of, settled_state
from tests.landmarks.test_base import span_of
from tests.naive import chain as naive


@pytest.mark.parametrize("seed", range(3))
def test_growing_bases_admit_what_the_naive_criteria_admit(seed):
    X = np.random.default_rng(seed).normal(size=(120, 2)) * [2.0, 1.0]
    rbf, poly = kernels.RBF(gamma=0.5), kernels.Polynomial(2, gamma=0.5, coef0=1.0)
    for kernel, k in ((rbf, naive.rbf(0.5)), (poly, naive.polynomial(2, 0.5, 1.0))):
        cases = [
            (landmarks.Distance(nu=0.3), naive.distance_criterion(0.3), None),
            (landmarks.Distance(nu=0.01, max_points=5), naive.distance_criterion(0.01), 5),
            (landmarks.Coherence(delta=0.7), naive.coherence_criterion(0.7), None),
            (landmarks.Coherence(delta=0.9, max_points=9), naive.coherence_criterion(0.9), 9),
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
    model = StreamingKernelPCA(2, gamma=0.5, basis=landmarks.Distance(nu=0.07)).partial_fit(X)
    missed = naive.missed_energies(naive.rbf(0.5), model.basis_points_, X)
    assert missed.max() <= 0.07
    K = model.kernel_(model.basis_points_)
    assert np.linalg.eigvalsh(K)[0] > 0  # pivots above ν make the dictionary independent


def test_coherence_keeps_points_apart():
    X = np.random.default_rng(1).normal(size=(400, 2))
    model = StreamingKernelPCA(2, gamma=0.5, basis=landmarks.Coherence(delta=0.6)).partial_fit(X)
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
    model = StreamingKernelPCA(4, gamma=gamma, basis=landmarks.Everything()).partial_fit(X)
    span, kernel = span_of(model), model.kernel_
    missed = 1.0 - np.sum(span.coordinates(kernel, X) ** 2, axis=1)
    assert missed.min() > -1e-8
    account = ledger_of(settled_state(model))
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
    model = StreamingKernelPCA(2, kernel=kernel, basis=landmarks.Everything()).partial_fit(X)
    state = settled_state(model)
    assert ledger_of(state).rounding > 0  # the order was changed
    span = state.basis.span
    energies = model.kernel_.diag(span.points)
    assert energies.max() > 100 * energies.min()
    np.testing.assert_allclose(state.basis.energies, energies, rtol=1e-12)
    gram = span.factor.T @ model.kernel_(span.points) @ span.factor
    np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-4)


@pytest.mark.parametrize(
    "basis",
    [landmarks.Everything(), landmarks.Distance(), landmarks.Coherence(), landmarks.ReducedSet(20)],
    ids=str,
)
def test_growing_bases_take_sparse_rows_with_the_laplacian_kernel(
    basis: landmarks.LandmarkStrategy,
):
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
        basis=landmarks.Coherence(0.95, first=3),
        center=False,
        batch_size=batch_size,
    )
    np.testing.assert_array_equal(model.partial_fit(X).basis_points_, X)


# -- thresholds, from both sides

LINEAR = kernels.Linear()


def project(basis, X, kernel=LINEAR, state=None):
    X = np.asarray(X, dtype=float)
    state = basis.begin(kernel, landmarks.Start(X)) if state is None else state
    return basis.admit(kernel, state, X, None, Clock(0, 0))


def admitted(basis, X):
    return project(basis, X)[1].admitted


def test_criteria_at_their_thresholds():
    """A squared distance of ν is not above it; a cosine of δ is not above it either."""
    assert admitted(landmarks.Distance(nu=1.0), [[1.0, 0.0]]) == ()
    assert admitted(landmarks.Distance(nu=0.999), [[1.0, 0.0], [5.0, 1.0]]) == (0, 1)
    assert admitted(landmarks.Distance(nu=1.0), [[2.0, 0.0], [5.0, 1.0]]) == (0,)
    assert admitted(landmarks.Coherence(0.6), [[1.0, 0.0], [3.0, 4.0]]) == (0, 1)
    assert admitted(landmarks.Coherence(0.59), [[1.0, 0.0], [3.0, 4.0]]) == (0,)
    assert admitted(landmarks.Coherence(0.9), [[0.0, 0.0], [3.0, 4.0]]) == (1,)


@pytest.mark.parametrize(
    "basis", [landmarks.Everything(), landmarks.Distance(1e-30), landmarks.Coherence(0.99999999999)]
)
def test_a_row_that_depends_on_the_points_is_none(basis):
    """1e-8 of its energy has to be outside their span."""
    for outside, new in ((0.99e-4, ()), (1.01e-4, (1,))):
        assert admitted(basis, [[1.0, 0.0], [1.0, outside]])[1:] == new


def test_the_first_rows_have_to_be_distinct():
    """1e-4 of their energy, where no criterion keeps them apart."""
    for outside, new in ((0.99e-2, ()), (1.01e-2, (1,))):
        assert admitted(landmarks.Coherence(0.5, first=2), [[1.0, 0.0], [1.0, outside]])[1:] == new
        assert admitted(landmarks.Coherence(0.5, first=1), [[1.0, 0.0], [1.0, outside]]) == (0,)


def test_there_is_room_for_so_many_points():
    for most in (1, 2, 3):
        assert admitted(landmarks.Distance(0.1, max_points=most), np.eye(3)) == (0, 1, 2)[:most]
    state, _ = project(landmarks.Distance(0.1, max_points=2), np.eye(3)[:2])
    full, block = project(landmarks.Distance(0.1, max_points=2), np.eye(3)[2:], state=state)
    assert full is state and block.admitted == ()
    np.testing.assert_allclose(block.residual, [1.0])


@pytest.mark.parametrize("kernel", [kernels.RBF(0.4), kernels.Polynomial(2, 0.5, 1.0)], ids=str)
@pytest.mark.parametrize("basis", [landmarks.Distance(0.2), landmarks.Coherence(0.8)], ids=str)
def test_every_number_of_a_block_is_that_of_single_rows(basis, kernel):
    """Coordinates of a row are zero along points that came later; residuals are of the end."""
    X = np.random.default_rng(3).normal(size=(40, 2))
    state, block = project(basis, X, kernel)
    points = list(block.admitted)
    assert 2 < len(points) < 30 and block.fresh_from == points[-1]
    np.testing.assert_array_equal(state.span.points, X[points])
    np.testing.assert_allclose(state.energies, kernel.diag(X[points]))
    K = kernel(X[points])
    np.testing.assert_allclose(state.span.factor, np.linalg.inv(np.linalg.cholesky(K)).T, atol=1e-6)
    np.testing.assert_allclose(block.energy, kernel.diag(X))
    for i in range(40):
        known = sum(p <= i for p in points)
        own = (
            kernel(X[i : i + 1], X[points[:known]])
            @ np.linalg.inv(np.linalg.cholesky(kernel(X[points[:known]]))).T
        )
        np.testing.assert_allclose(block.Z[i], np.pad(own[0], (0, len(points) - known)), atol=1e-7)
        missed = block.energy[i] - block.Z[i] @ block.Z[i]
        np.testing.assert_allclose(block.residual[i], max(missed, 0.0), atol=1e-7)
    # a second block goes on from it
    more = np.random.default_rng(4).normal(size=(10, 2)) * 2.0
    both, _ = project(basis, np.vstack([X, more]), kernel)
    grown, _ = project(basis, more, kernel, state)
    np.testing.assert_array_equal(grown.span.points, both.span.points)
    np.testing.assert_allclose(grown.span.factor, both.span.factor, atol=1e-6)


def test_a_factor_is_strained_from_a_million_on():
    for entry, strained in ((0.99e6, False), (1.01e6, True), (-1.01e6, True)):
        assert _strained(np.array([[entry / 2.0]]), np.array([4.0])) is strained
    assert not _strained(np.zeros((0, 0)), np.zeros(0))


def test_cosines_of_rows_without_energy_and_of_huge_ones():
    K = np.array([[3.0, 0.0], [-1e300, 1.0]])
    found = landmarks.Coherence().similarities(
        K, np.array([[9.0], [1e300]]), np.array([[4.0, 0.0]])
    )
    np.testing.assert_allclose(found, [[0.5, 1.0], [1e150 / 2.0, 1.0]])


def test_points_of_two_models_are_offered_by_the_same_criterion():
    basis = landmarks.Distance(0.5)
    one, _ = project(basis, [[1.0, 0.0, 0.0]])
    two, _ = project(basis, [[0.0, 2.0, 0.0], [1.0, 0.1, 0.0], [0.0, 0.0, 3.0]])
    assert len(two.energies) == 3
    joint, carry, onto = basis.merge(LINEAR, one, two, 0)
    assert onto is not None
    np.testing.assert_array_equal(joint.span.points, [[1, 0, 0], [0, 2, 0], [0, 0, 3]])
    np.testing.assert_array_equal(carry, np.eye(3, 1))
    Z = two.span.coordinates(LINEAR, np.eye(3))
    np.testing.assert_allclose(Z @ onto.T, joint.span.coordinates(LINEAR, np.eye(3)), atol=1e-12)
    same, nothing, none = basis.merge(LINEAR, one, project(basis, [[1.0, 0.0, 0.0]])[0], 0)
    assert same is one and nothing is None and none is None


def test_a_ball_of_points_before_any_row():
    assert landmarks.Everything().start_rows() == 1 and landmarks.Everything(3).start_rows() == 100
    X = np.random.default_rng(0).normal(size=(100, 3)) + 5.0
    centre = X.mean(axis=0)
    radius = np.linalg.norm(X - centre, axis=1).max()
    state = landmarks.Everything(400).begin(kernels.RBF(50.0), landmarks.Start(X))
    lengths = np.linalg.norm(state.span.points - centre, axis=1) / radius
    assert len(lengths) == 400 and lengths.max() <= 1.0
    # uniform in the ball: the cube of the length is uniform
    assert scipy.stats.kstest(lengths**3, "uniform").pvalue > 0.01
    assert len(landmarks.Everything().begin(kernels.RBF(1.0), landmarks.Start(X)).energies) == 0


def test_parameters_of_growing_bases():
    for basis, words in (
        (landmarks.Distance(0.0), "Distance: nu must be a number above 0, got 0.0"),
        (landmarks.Distance(-1.0), "Distance: nu must be a number above 0, got -1.0"),
        (
            landmarks.Distance(0.1, 0),
            "Distance: max_points must be an integer of at least 1 or None",
        ),
        (landmarks.Coherence(0.0), "Coherence: delta must be a number between 0 and 1, got 0.0"),
        (landmarks.Coherence(1.0), "Coherence: delta must be a number between 0 and 1, got 1.0"),
        (landmarks.Coherence(-0.5), "Coherence: delta must be a number between 0 and 1, got -0.5"),
        (
            landmarks.Coherence(0.5, 0),
            "Coherence: max_points must be an integer of at least 1 or None",
        ),
        (
            landmarks.Coherence(0.5, 5, 0),
            "Coherence: first must be an integer of at least 1, got 0",
        ),
        (
            landmarks.Coherence(0.5, 5, None),  # type: ignore[arg-type]
            "Coherence: first must be an integer of at least 1, got None",
        ),
        (
            landmarks.Everything(0),
            "Everything: start must be an integer of at least 1 or None, got 0",
        ),
        (landmarks.ReducedSet(0), "ReducedSet: n_points must be an integer of at least 1 or None"),
    ):
        with pytest.raises(ValueError, match=words):
            basis.check()
    for basis in (
        landmarks.Distance(1e-9, None),
        landmarks.Coherence(0.999, None, 1),
        landmarks.Everything(1),
        landmarks.Everything(),
        landmarks.ReducedSet(None),
    ):
        basis.check()


def test_a_block_tells_how_far_apart_its_candidates_lie():
    """The kernel was taken with them: dense rows are shifted to their mean first."""
    kernel, X = kernels.RBF(1.0), np.array([[50.0, 0.0], [52.0, 0.0], [54.0, 0.0]])
    dense = project(landmarks.Distance(0.5), X, kernel)[1]
    assert dense.extent == kernel.rounding.extent(X, True) == 4.0
    basis = landmarks.Distance(0.5)
    rows = scipy.sparse.csr_matrix(X)
    state = basis.begin(kernel, landmarks.Start(rows))
    sparse = basis.admit(kernel, state, rows, None, Clock(0, 0))[1]
    assert sparse.extent == kernel.rounding.extent(X, False) == 54.0**2


def test_a_basis_with_more_points_than_coordinates_grows():
    """Its factor is one of eigenvectors, as a file or a merge may have it."""
    points = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    span = factorise(LINEAR, points)
    assert span.rank == 2 and len(span.points) == 3
    state = GrowingState(span, LINEAR.diag(points))
    X = np.array([[1.0, 2.0, 0.0], [3.0, 0.0, 2.0], [0.0, 1.0, 5.0]])
    grown, block = project(landmarks.Distance(0.5), X, state=state)
    assert block.admitted == (1,) and grown.span.factor.shape == (4, 3)
    np.testing.assert_array_equal(grown.span.points, [*points, X[1]])
    np.testing.assert_allclose(grown.energies, [1.0, 1.0, 2.0, 13.0])
    gram = grown.span.factor.T @ LINEAR.gram(grown.span.points) @ grown.span.factor
    np.testing.assert_allclose(gram, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(block.Z @ block.Z.T, X @ X.T, atol=1e-12)
    np.testing.assert_allclose(block.residual, np.zeros(3), atol=1e-12)
