"""Comparison of models in feature space, against features written out."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA, KernelPCA

from kernelstream import StreamingKernelPCA, kernels, metrics

SKLEARN_KERNELS = [
    dict(kernel="linear"),
    dict(kernel="rbf", gamma=0.3),
    dict(kernel="rbf"),  # gamma = 1 / number of features
    dict(kernel="poly", degree=2, gamma=0.5, coef0=1.0),
    dict(kernel="sigmoid", gamma=0.05, coef0=0.1),
    dict(kernel="cosine"),
    dict(kernel=lambda x, y, power: (x @ y + 1) ** power, kernel_params={"power": 2}),
]


def rows(seed=0, n=40, d=3):
    return np.random.default_rng(seed).normal(size=(n, d)) * np.arange(1, d + 1)


def fitted(kernel, points, components):
    """The least that a fitted model of ours has; any coefficients, not only orthonormal ones."""
    return SimpleNamespace(kernel_=kernel, basis_points_=points, dual_coef_=components)


def features(x):
    """(x·y + 1)² of two features, written out."""
    a, b = x
    r = np.sqrt(2)
    return np.array([a * a, b * b, r * a * b, r * a, r * b, 1.0])


SQUARE = kernels.Polynomial(degree=2, gamma=1.0, coef0=1.0)


def pair(seed, r_a=2, r_b=2):
    """Two models with random components over different points."""
    rng = np.random.default_rng(seed)
    a = fitted(SQUARE, rng.normal(size=(7, 2)), rng.normal(size=(7, r_a)))
    b = fitted(SQUARE, rng.normal(size=(5, 2)), rng.normal(size=(5, r_b)))
    return a, b


def written_out(model):
    """The components as explicit vectors, one in each column."""
    return sum(
        np.outer(features(point), coefficient)
        for point, coefficient in zip(model.basis_points_, model.dual_coef_, strict=True)
    )


seeds = st.integers(0, 10_000)


# --- direction cosines -----------------------------------------------------------------------


@given(seed=seeds)
@settings(max_examples=50, deadline=None)
def test_cosines_are_those_of_the_features_written_out(seed):
    a, b = pair(seed, 3, 3)
    A, B = written_out(a), written_out(b)
    expected = [
        abs(A[:, i] @ B[:, i]) / np.linalg.norm(A[:, i]) / np.linalg.norm(B[:, i]) for i in range(3)
    ]
    np.testing.assert_allclose(metrics.direction_cosines(a, b), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("parameters", SKLEARN_KERNELS, ids=lambda p: str(p["kernel"])[:9])
def test_a_model_with_itself(parameters):
    model = KernelPCA(3, **parameters).fit(rows())
    cosines = metrics.direction_cosines(model, model)
    np.testing.assert_allclose(cosines, 1.0, atol=1e-9)
    np.testing.assert_allclose(metrics.principal_angles(model, model), 0.0, atol=1e-9)


def test_linear_kernel_pca_is_pca():
    X = rows()
    exact = KernelPCA(3, kernel="linear").fit(X)
    directions = PCA(3).fit(X).components_
    # A direction w of PCA is the combination of the d unit vectors with coefficients w.
    ours = fitted(kernels.Linear(), np.eye(3), directions.T)
    np.testing.assert_allclose(metrics.direction_cosines(ours, exact), 1.0, atol=1e-10)
    crossed = fitted(kernels.Linear(), np.eye(3), directions[[1, 0, 2]].T)
    np.testing.assert_allclose(metrics.direction_cosines(crossed, exact), [0, 0, 1], atol=1e-7)


def test_sklearn_components_are_centred():
    # Without the centring of α the constant of this kernel would be in every component.
    X = rows() + 5
    parameters = dict(kernel="poly", degree=2, gamma=1.0, coef0=1.0)
    exact = KernelPCA(2, **parameters).fit(X)
    alpha = exact.eigenvectors_ / np.sqrt(exact.eigenvalues_)
    ours = fitted(SQUARE, X, alpha - alpha.mean(axis=0))
    np.testing.assert_allclose(metrics.direction_cosines(ours, exact), 1.0, atol=1e-9)


@given(seed=seeds)
@settings(max_examples=30, deadline=None)
def test_sign_scale_and_order_of_the_points_do_not_matter(seed):
    a, b = pair(seed)
    rng = np.random.default_rng(seed)
    order = rng.permutation(7)
    same = fitted(SQUARE, a.basis_points_[order], a.dual_coef_[order] * [-rng.uniform(0.1, 9), 3.0])
    np.testing.assert_allclose(
        metrics.direction_cosines(same, b), metrics.direction_cosines(a, b), atol=1e-10
    )
    np.testing.assert_allclose(
        metrics.principal_angles(same, b), metrics.principal_angles(a, b), atol=1e-7
    )


def test_zero_components_have_no_direction():
    a, b = pair(0, 3, 3)
    a.dual_coef_[:, 1:] = 0
    b.dual_coef_[:, 2] = 0
    cosines = metrics.direction_cosines(a, b)
    assert cosines[0] > 0
    assert cosines[1] == 0
    assert np.isnan(cosines[2])
    assert metrics.principal_angles(a, b).shape == (1,)
    a.dual_coef_[:] = 0
    assert metrics.principal_angles(a, b).shape == (0,)


def test_padding_of_scikit_learn_is_zero():
    # Three features, linear kernel: the fourth and fifth eigenvalue are zero.
    model = KernelPCA(5, kernel="linear").fit(rows())
    assert metrics.principal_angles(model, model).shape == (3,)


# --- principal angles ------------------------------------------------------------------------


@given(seed=seeds, r_a=st.integers(1, 4), r_b=st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_angles_are_those_of_the_features_written_out(seed, r_a, r_b):
    a, b = pair(seed, r_a, r_b)
    angles = metrics.principal_angles(a, b)
    expected = np.sort(scipy.linalg.subspace_angles(written_out(a), written_out(b)))
    assert angles.shape == (min(r_a, r_b),)
    assert np.all(np.diff(angles) >= -1e-7)
    np.testing.assert_allclose(angles, expected, atol=1e-5)


@given(seed=seeds, r_a=st.integers(1, 4), r_b=st.integers(1, 4))
@settings(max_examples=50, deadline=None)
def test_angles_are_symmetric(seed, r_a, r_b):
    a, b = pair(seed, r_a, r_b)
    np.testing.assert_allclose(
        metrics.principal_angles(a, b), metrics.principal_angles(b, a), atol=1e-6
    )


@given(seed=seeds)
@settings(max_examples=30, deadline=None)
def test_angles_see_the_span_only(seed):
    a, b = pair(seed)
    mixed = fitted(SQUARE, a.basis_points_, a.dual_coef_ @ np.array([[1.0, 2.0], [-1.0, 0.5]]))
    np.testing.assert_allclose(metrics.principal_angles(mixed, a), 0.0, atol=1e-6)
    np.testing.assert_allclose(
        metrics.principal_angles(mixed, b), metrics.principal_angles(a, b), atol=1e-6
    )


@pytest.mark.parametrize("angle", [1e-13, 1e-10, 1e-6, 1e-3, 0.5, 1.0, np.pi / 2])
def test_small_angles_are_not_lost(angle):
    # arccos alone would return 0 or 1e-8 for the first two.
    plane = np.eye(4)
    a = fitted(kernels.Linear(), plane, np.array([[1.0, 0, 0, 0]]).T)
    b = fitted(kernels.Linear(), plane, np.array([[np.cos(angle), np.sin(angle), 0, 0]]).T)
    np.testing.assert_allclose(metrics.principal_angles(a, b), [angle], rtol=1e-6)


def test_a_span_inside_another():
    a, b = pair(1, 3, 1)
    inside = fitted(SQUARE, a.basis_points_, a.dual_coef_[:, :2])
    np.testing.assert_allclose(metrics.principal_angles(a, inside), [0, 0], atol=1e-7)
    assert metrics.principal_angles(a, b).shape == (1,)


def test_rotated_data_give_the_same_angles():
    X, Y = rows(0), rows(1)
    turn, _ = np.linalg.qr(np.random.default_rng(5).normal(size=(3, 3)))
    models = [KernelPCA(3, kernel="rbf", gamma=0.2).fit(Z) for Z in (X, Y, X @ turn, Y @ turn)]
    np.testing.assert_allclose(
        metrics.principal_angles(*models[:2]), metrics.principal_angles(*models[2:]), atol=1e-7
    )


# --- captured variance -----------------------------------------------------------------------


def naive_share(model, X, K, r):
    """Variance of the scores over the first eigenvalues of the centred Gram matrix / n."""
    scores = model.transform(X)
    variance = 0.0
    for i in range(scores.shape[1]):
        mean = sum(scores[:, i]) / len(X)
        variance += sum((s - mean) ** 2 for s in scores[:, i]) / len(X)
    H = np.eye(len(X)) - 1 / len(X)
    return variance / np.linalg.eigvalsh(H @ K @ H / len(X))[::-1][:r].sum()


@pytest.mark.parametrize("parameters", SKLEARN_KERNELS[:6], ids=lambda p: str(p["kernel"]))
@pytest.mark.parametrize("r", [2, 3])
def test_exact_kernel_pca_captures_all_of_its_own_rows(parameters, r):
    X = rows()
    model = KernelPCA(r, **parameters).fit(X)
    assert metrics.captured_variance(model, X) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("r", [2, 12])  # few components (Lanczos) and many (dense)
def test_captured_variance_of_other_rows(r):
    X, Y = rows(0), rows(1, n=50)
    model = KernelPCA(r, kernel="rbf", gamma=0.2).fit(X)
    share = metrics.captured_variance(model, Y)
    expected = naive_share(model, Y, kernels.RBF(gamma=0.2).gram(Y), r)
    assert share == pytest.approx(expected, rel=1e-9)
    assert 0 < share < 1


@given(seed=seeds, r=st.integers(1, 30))
@settings(max_examples=30, deadline=None)
def test_nothing_captures_more_than_all(seed, r):
    X, Y = rows(seed), rows(seed + 1, n=30)
    model = KernelPCA(r, kernel="rbf", gamma=0.1).fit(X)
    assert 0 < metrics.captured_variance(model, Y) <= 1 + 1e-9


def test_components_that_are_not_orthogonal_count_by_their_span():
    X = rows()
    exact = KernelPCA(2, kernel="rbf", gamma=0.2).fit(X)
    mix = np.array([[1.0, 0.8], [0.0, 0.6]])  # unit columns, cosine 0.8

    class Skewed(SimpleNamespace):
        def transform(self, X):
            return exact.transform(X) @ mix

    alpha = exact.eigenvectors_ / np.sqrt(exact.eigenvalues_)
    skewed = Skewed(kernel_=kernels.RBF(gamma=0.2), basis_points_=X, dual_coef_=alpha @ mix)
    assert metrics.captured_variance(skewed, X) == pytest.approx(1.0, abs=1e-9)


def test_more_components_than_rows():
    X = rows(n=40)
    model = KernelPCA(20, kernel="rbf", gamma=0.2).fit(X)
    assert 0 < metrics.captured_variance(model, X[:10]) <= 1 + 1e-9


def test_rows_that_are_all_equal_have_nothing_to_capture():
    model = KernelPCA(2, kernel="rbf", gamma=0.2).fit(rows())
    with pytest.raises(ValueError, match="no variance in feature space"):
        metrics.captured_variance(model, np.ones((5, 3)))


# --- our models ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ours_and_exact():
    X = rows(n=120)
    ours = StreamingKernelPCA(3, kernel="rbf", gamma=0.05, basis=60, random_state=0).fit(X)
    return X, ours, KernelPCA(3, kernel="rbf", gamma=0.05).fit(X)


def test_our_model_against_scikit_learn(ours_and_exact):
    X, ours, exact = ours_and_exact
    assert metrics.direction_cosines(ours, exact).min() > 0.99
    assert metrics.principal_angles(exact, ours).max() < 0.1
    assert 0.99 < metrics.captured_variance(ours, X) <= 1 + 1e-9


def test_our_components_are_unit_vectors(ours_and_exact):
    # The metrics normalise; the scores of our model must not need it.
    X, ours, _ = ours_and_exact
    expected = naive_share(ours, X, kernels.RBF(gamma=0.05).gram(X), 3)
    assert metrics.captured_variance(ours, X) == pytest.approx(expected, rel=1e-9)


def test_reconstruction_error_is_what_the_scores_leave(ours_and_exact):
    X, ours, _ = ours_and_exact
    # Pythagoras: the energy around the mean of the model is captured or missed.
    error = np.mean(ours.reconstruction_error(X))
    K = kernels.RBF(gamma=0.05)
    points, mean = ours.basis_points_, ours.mean_coef_
    energy = 1 - 2 * K.block(X, points) @ mean + mean @ K.gram(points) @ mean
    captured = np.sum(ours.transform(X) ** 2, axis=1)
    assert error == pytest.approx(np.mean(energy - captured), rel=1e-8)


def test_standardised_models():
    X = rows(n=120)
    ours = StreamingKernelPCA(3, gamma=0.3, basis=60, scale="standard", random_state=0).fit(X)
    standardised = (X - X.mean(axis=0)) / X.std(axis=0)
    same = StreamingKernelPCA(3, gamma=0.3, basis=60, random_state=0).fit(standardised)
    np.testing.assert_allclose(metrics.direction_cosines(ours, ours), 1.0)
    assert metrics.captured_variance(ours, X) == pytest.approx(
        metrics.captured_variance(same, standardised), rel=1e-6
    )
    with pytest.raises(ValueError, match="of standardised rows"):
        metrics.principal_angles(ours, same)  # their rows have different units


# --- in words --------------------------------------------------------------------------------


def test_different_kernels_are_refused():
    X = rows()
    wide, narrow = (KernelPCA(2, kernel="rbf", gamma=g).fit(X) for g in (0.1, 0.2))
    with pytest.raises(ValueError, match="different kernels"):
        metrics.principal_angles(wide, narrow)
    ours = fitted(kernels.Laplacian(gamma=0.1), X, np.ones((40, 2)))
    with pytest.raises(ValueError, match=r"different kernels \(Laplacian"):
        metrics.direction_cosines(ours, wide)


def test_different_numbers_of_components_are_refused():
    with pytest.raises(ValueError, match="3 components and the second 2"):
        metrics.direction_cosines(*pair(0, 3, 2))


def test_different_numbers_of_features_are_refused():
    a, b = (KernelPCA(2, kernel="rbf", gamma=0.1).fit(rows(d=d)) for d in (3, 4))
    with pytest.raises(ValueError, match="3 features and the second on 4"):
        metrics.direction_cosines(a, b)


def test_models_without_points_are_refused():
    X = rows()
    good = KernelPCA(2).fit(X)
    with pytest.raises(ValueError, match="precomputed"):
        metrics.direction_cosines(KernelPCA(2, kernel="precomputed").fit(X @ X.T), good)
    with pytest.raises(ValueError, match="not been fitted"):
        metrics.direction_cosines(good, KernelPCA(2))
    with pytest.raises(ValueError, match="PCA has no kernel_"):
        metrics.captured_variance(PCA(2).fit(X), X)
