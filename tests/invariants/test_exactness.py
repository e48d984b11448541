"""Where nothing is approximated the model is exact kernel PCA; with landmarks it is Nyström's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.decomposition import PCA, KernelPCA
from sklearn.metrics.pairwise import laplacian_kernel

from kernelstream import StreamingKernelPCA, kernels, landmarks, papers, trackers
from tests import samples
from tests.naive import chain as naive

# Rows that lie in the span of the earlier ones but for 1e-8 of their energy are no points of
# `Everything`, which in random order changes an eigenvalue by far less than that; the other
# sources are rounding, 1e-16 times the condition 1e5 of the factor. Components compared here have
# more than 1 % of the energy each: 1e-8 relative. Scores change by the angle between the
# eigenvectors, √1e-10 at the very most and far less where rows miss nothing: 1e-6 as promised.
EIGENVALUES: dict[str, Any] = dict(rtol=1e-8)
SCORES: dict[str, Any] = dict(rtol=0, atol=1e-6)


def rows(n=120, d=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) * np.linspace(1.0, 0.5, d)


def dot_squared(X, Y):
    return (X @ Y.T + 0.5) ** 2


def of_two_vectors(x, y):
    return (x @ y + 0.5) ** 2


# name: (ours, scikit-learn's, number of components with a clear share of the variance)
PAIRS: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "rbf": (dict(kernel="rbf", gamma=0.2), dict(kernel="rbf", gamma=0.2), 6),
    "rbf-wide": (dict(kernel="rbf", gamma=0.01), dict(kernel="rbf", gamma=0.01), 4),
    "rbf-narrow": (dict(kernel="rbf", gamma=5.0), dict(kernel="rbf", gamma=5.0), 6),
    "poly": (
        dict(kernel=kernels.Polynomial(degree=3, gamma=0.3, coef0=1.0)),
        dict(kernel="poly", degree=3, gamma=0.3, coef0=1.0),
        6,
    ),
    "poly-defaults": (dict(kernel="poly"), dict(kernel="poly"), 6),
    "poly-2": (
        dict(kernel=kernels.Polynomial(degree=2, gamma=1.0, coef0=0.0)),
        dict(kernel="poly", degree=2, gamma=1.0, coef0=0.0),
        6,
    ),
    "linear": (dict(kernel="linear"), dict(kernel="linear"), 4),
    "cosine": (dict(kernel="cosine"), dict(kernel="cosine"), 4),
    # tanh(γ x·y) = γ x·y − (γ x·y)³/3 + … is never positive semidefinite: its cubic part is
    # negative. Exact kernel PCA of it exists only as far as that part is rounding, so γ|x|² is
    # 1e-5 here and the negative eigenvalues are 1e-11 of the largest.
    "sigmoid": (
        dict(kernel=kernels.Sigmoid(gamma=1e-6, coef0=0.0)),
        dict(kernel="sigmoid", gamma=1e-6, coef0=0.0),
        4,
    ),
    "laplacian": (
        dict(kernel="laplacian", gamma=0.1),
        dict(kernel="precomputed"),
        5,
    ),
    "callable": (dict(kernel=dot_squared), dict(kernel=of_two_vectors), 6),
}


def scikit_learn(name, X, r):
    """Eigenvalues and scores of scikit-learn's KernelPCA on its training rows."""
    options = PAIRS[name][1]
    seen = laplacian_kernel(X, gamma=0.1) if options["kernel"] == "precomputed" else X
    exact = KernelPCA(r, eigen_solver="dense", **options).fit(seen)
    return exact.eigenvalues_, exact.transform(seen), exact


def same_scores(ours, theirs, **tolerance):
    """Equal up to the sign of each column."""
    signs = np.sign(np.sum(ours * theirs, axis=0))
    np.testing.assert_allclose(ours * signs, theirs, **tolerance)


def fit(model, X, sample_weight=None):
    return model.fit(X, sample_weight=sample_weight)


def stream(model, X, sample_weight=None):
    """In uneven pieces."""
    for a, b in ((0, 1), (1, 30), (30, 31), (31, X.shape[0])):
        w = None if sample_weight is None else sample_weight[a:b]
        model.partial_fit(X[a:b], sample_weight=w)
    return model


LEARN = {"fit": fit, "partial_fit": stream}
EXACT = {"everything": lambda: landmarks.Everything(), "default": lambda: "centroids"}


@pytest.mark.parametrize("learn", LEARN.values(), ids=LEARN)
@pytest.mark.parametrize("basis", EXACT.values(), ids=EXACT)
@pytest.mark.parametrize("name", PAIRS)
def test_exact_bases_equal_scikit_learn(name, basis, learn):
    X = rows()
    ours, _, r = PAIRS[name]
    eigenvalues, scores, exact = scikit_learn(name, X, r)
    assert eigenvalues[-1] > 0.01 * eigenvalues.sum()  # the components that the bound is for
    model = learn(StreamingKernelPCA(r, basis=basis(), random_state=0, **ours), X)
    np.testing.assert_allclose(model.eigenvalues_, eigenvalues, **EIGENVALUES)
    np.testing.assert_allclose(model.explained_variance_ * len(X), eigenvalues, **EIGENVALUES)
    scale = np.sqrt(eigenvalues[0] / len(X))  # scores in units of the first deviation
    same_scores(model.transform(X) / scale, scores / scale, **SCORES)
    if name != "laplacian":
        new = rows(seed=1)
        same_scores(model.transform(new) / scale, exact.transform(new) / scale, **SCORES)


ORDERED = {
    "line": np.linspace(0.0, 3.0, 200)[:, None],
    "long line": np.linspace(0.0, 12.0, 200)[:, None],
    "curve": np.column_stack(
        [np.sin(np.linspace(0.0, 6.0, 200)), np.cos(np.linspace(0.0, 9.0, 200))]
    ),
    "walk": np.cumsum(0.05 * np.random.default_rng(0).normal(size=(200, 2)), axis=0),
    "one feature, sorted": np.sort(np.random.default_rng(1).normal(size=(200, 1)), axis=0),
}


@samples.grid("batch_size, gamma, name", [1, 100], [0.1, 1.0, 10.0], ORDERED)
def test_rows_in_order_under_a_smooth_kernel(name, gamma, batch_size):
    """Each row continues the one before: the points are nearly dependent in the order they come.

    A stream sees a row before its neighbours become points, and misses up to 1e-4 of its length in
    a direction that comes later (1e-8 of its energy). ``fit`` sees it again and is exact.
    """
    X = ORDERED[name]
    exact = KernelPCA(3, kernel="rbf", gamma=gamma, eigen_solver="dense").fit(X)
    model = StreamingKernelPCA(3, gamma=gamma, basis=landmarks.Everything(), batch_size=batch_size)
    streamed = model.partial_fit(X).eigenvalues_
    top = exact.eigenvalues_[0]
    np.testing.assert_allclose(streamed, exact.eigenvalues_, rtol=0, atol=5e-5 * top)
    low, high = model.certificate_.details.eigenvalue_intervals.T
    assert np.all((low <= exact.eigenvalues_) & (exact.eigenvalues_ <= high))
    model.fit(X)
    np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, rtol=0, atol=1e-8 * top)
    same_scores(model.transform(X)[:, :2], exact.transform(X)[:, :2], **SCORES)


@pytest.mark.parametrize("tracker", ["hebbian", "rls", "incremental-svd"])
def test_other_trackers_go_through_a_new_order_of_the_points(tracker):
    X = ORDERED["curve"]
    settings: dict[str, tuple[trackers.Tracker, int, int, float]] = {
        "hebbian": (papers.Hebbian(), 2, 5, 0.9),
        "rls": (papers.RLS(forgetting=1.0), 2, 5, 0.8),
        "incremental-svd": (trackers.IncrementalSVD(), 30, 1, 0.999999),
    }
    rule, r, passes, cosine = settings[tracker]
    model = StreamingKernelPCA(
        r, gamma=1.0, basis=landmarks.Everything(), tracker=rule, random_state=0
    )
    for _ in range(passes):
        model.partial_fit(X)
    exact = KernelPCA(2, kernel="rbf", gamma=1.0).fit(X).transform(X)
    assert naive_cosines(model.transform(X)[:, :2], exact).min() > cosine


def naive_cosines(A, B):
    A, B = A - A.mean(axis=0), B - B.mean(axis=0)
    return np.abs(np.sum(A * B, axis=0)) / np.linalg.norm(A, axis=0) / np.linalg.norm(B, axis=0)


def test_merging_models_of_ordered_rows():
    X = ORDERED["curve"]
    make: dict[str, Any] = dict(gamma=1.0, basis=landmarks.Everything())
    one = StreamingKernelPCA(3, **make).partial_fit(X[:130])
    two = StreamingKernelPCA(3, **make).partial_fit(X[130:])
    exact = KernelPCA(3, kernel="rbf", gamma=1.0, eigen_solver="dense").fit(X).eigenvalues_
    merged = one.merge(two)
    np.testing.assert_allclose(merged.eigenvalues_, exact, rtol=0, atol=5e-5 * exact[0])
    low, high = merged.certificate_.details.eigenvalue_intervals.T
    assert np.all((low <= exact) & (exact <= high))


@pytest.mark.parametrize("basis", EXACT.values(), ids=EXACT)
def test_all_components_of_a_full_spectrum(basis):
    """A kernel of full rank, no row near the span of others: every eigenvalue to 1e-8."""
    X = rows(n=60) * 4.0
    exact = KernelPCA(59, kernel="rbf", gamma=0.2, eigen_solver="dense").fit(X)
    assert exact.eigenvalues_[-1] > 1e-3 * exact.eigenvalues_[0]
    model = StreamingKernelPCA(59, gamma=0.2, basis=basis()).partial_fit(X)
    np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, **EIGENVALUES)
    total = exact.eigenvalues_.sum()
    np.testing.assert_allclose(model.explained_variance_ratio_, exact.eigenvalues_ / total, 1e-8)
    same_scores(model.transform(X), exact.transform(X), **SCORES)


def test_linear_kernel_is_pca():
    X = rows() + 3.0
    model = StreamingKernelPCA(4, kernel="linear", basis=landmarks.Everything()).partial_fit(X)
    exact = PCA(4).fit(X)
    n = len(X)
    np.testing.assert_allclose(
        model.explained_variance_, exact.explained_variance_ * (n - 1) / n, rtol=1e-10
    )
    same_scores(model.transform(X), exact.transform(X), rtol=0, atol=1e-9)


@pytest.mark.parametrize("learn", LEARN.values(), ids=LEARN)
@pytest.mark.parametrize("center", [True, False], ids=["centred", "uncentred"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("basis", EXACT.values(), ids=EXACT)
def test_everything_equals_the_naive_gram_matrix(basis, center, weighted, learn):
    X, new = rows(60) + 0.5, rows(20, seed=1)
    k = naive.rbf(0.2)
    w = np.random.default_rng(2).uniform(0.1, 5.0, size=len(X)) if weighted else None
    values, scores = naive.kernel_pca(
        naive.gram(k, X, X), 5, w, center, K_new=naive.gram(k, new, X)
    )
    model = learn(
        StreamingKernelPCA(5, gamma=0.2, basis=basis(), center=center), X, sample_weight=w
    )
    np.testing.assert_allclose(model.eigenvalues_, values, **EIGENVALUES)
    same_scores(model.transform(new), scores, **SCORES)


@pytest.mark.parametrize("learn", LEARN.values(), ids=LEARN)
@pytest.mark.parametrize(
    "basis",
    [
        landmarks.Everything(),
        landmarks.Landmarks(rows(15, seed=5)),
        landmarks.Landmarks(200),
        "centroids",
    ],
    ids=["everything", "landmarks", "landmarks-all", "default"],
)
def test_a_weight_of_two_is_the_row_twice(basis, learn):
    X = rows(80)
    w = np.random.default_rng(3).integers(0, 4, size=len(X)).astype(float)
    w[0] = 2.0  # the first call must not be empty
    model = StreamingKernelPCA(4, gamma=0.2, basis=basis, random_state=0)
    weighted = learn(model, X, sample_weight=w)
    variance, scores = weighted.explained_variance_, weighted.transform(X)
    np.testing.assert_allclose(weighted.eigenvalues_, variance * w.sum(), rtol=1e-12)
    assert weighted.n_samples_seen_ == np.count_nonzero(w)
    repeated = StreamingKernelPCA(4, gamma=0.2, basis=basis, random_state=0)
    repeated.fit(np.repeat(X, w.astype(int), axis=0))
    # The points are the same; the sums differ in the order of addition only.
    np.testing.assert_allclose(repeated.explained_variance_, variance, rtol=1e-9)
    same_scores(repeated.transform(X), scores, rtol=0, atol=1e-8)


@pytest.mark.parametrize("learn", LEARN.values(), ids=LEARN)
@pytest.mark.parametrize("name", ["rbf", "poly", "linear", "cosine", "sigmoid", "callable"])
def test_csr_rows_equal_dense_rows(name, learn):
    X = rows() * (np.random.default_rng(4).random((120, 4)) < 0.6)
    X[7] = 0.0
    ours, _, r = PAIRS[name]
    dense = learn(StreamingKernelPCA(r, basis=landmarks.Everything(), **ours), X)
    variance, scores = dense.explained_variance_, dense.transform(X)
    S = scipy.sparse.csr_matrix(X)
    sparse = learn(StreamingKernelPCA(r, basis=landmarks.Everything(), **ours), S)
    # Only the order of the additions in x·y differs.
    np.testing.assert_allclose(sparse.explained_variance_, variance, rtol=1e-9)
    scale = np.sqrt(variance[0])
    same_scores(sparse.transform(X) / scale, scores / scale, rtol=0, atol=1e-8)
    same_scores(sparse.transform(S) / scale, scores / scale, rtol=0, atol=1e-8)


@pytest.mark.parametrize("center", [True, False], ids=["centred", "uncentred"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("learn", LEARN.values(), ids=LEARN)
def test_landmarks_equal_nystroem_computed_directly(learn, weighted, center):
    X, points, new = rows(150), rows(12, seed=5) * 1.5, rows(20, seed=6)
    k = naive.rbf(0.3)
    w = np.random.default_rng(7).uniform(0.1, 5.0, size=len(X)) if weighted else None
    values, scores = naive.nystroem_pca(
        naive.gram(k, points, points),
        naive.gram(k, X, points),
        6,
        center,
        w,
        K_new=naive.gram(k, new, points),
    )
    model = StreamingKernelPCA(6, gamma=0.3, basis=landmarks.Landmarks(points), center=center)
    learn(model, X, sample_weight=w)
    # K(D,D) has condition below 1e3 here: the two ways to solve the problem differ by rounding.
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-11)
    same_scores(model.transform(new), scores, rtol=0, atol=1e-10)


def test_sampled_landmarks_equal_nystroem_on_the_sample():
    X = rows(700)
    model = StreamingKernelPCA(5, gamma=0.3, basis=landmarks.Landmarks(20), random_state=0)
    model.partial_fit(X[:600]).partial_fit(X[600:])
    points, k = model.basis_points_, naive.rbf(0.3)
    assert points.shape == (20, 4)
    assert all(np.any(np.all(p == X[:500], axis=1)) for p in points)  # rows of the start
    values, scores = naive.nystroem_pca(naive.gram(k, points, points), naive.gram(k, X, points), 5)
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-9)
    same_scores(model.transform(X), scores, rtol=0, atol=1e-8)


@samples.grid("center, beta, batch_size", [True, False], [0.99, 0.9, 0.5], [1, 7, 32, 500])
def test_forgetting_equals_explicit_weights(batch_size, beta, center):
    """Row t of n weighs β^(n−t), whatever the blocks and whether rows still wait."""
    X, new = rows(70) + 0.3, rows(20, seed=1)
    k = naive.rbf(0.2)
    w = naive.forgetting_weights(beta, len(X))
    given = np.random.default_rng(8).uniform(0.5, 2.0, size=len(X))
    r = 4
    for weights in (None, given):
        W = w if weights is None else w * weights
        values, scores = naive.kernel_pca(
            naive.gram(k, X, X), r, W, center, K_new=naive.gram(k, new, X)
        )
        model = StreamingKernelPCA(
            r,
            gamma=0.2,
            basis=landmarks.Everything(),
            tracker=trackers.Covariance(forgetting=beta),
            center=center,
            batch_size=batch_size,
        )
        stream(model, X, sample_weight=weights)
        np.testing.assert_allclose(model.eigenvalues_, values, **EIGENVALUES)
        np.testing.assert_allclose(model.explained_variance_, values / W.sum(), **EIGENVALUES)
        same_scores(model.transform(new), scores, **SCORES)
        whole = StreamingKernelPCA(
            r,
            gamma=0.2,
            basis=landmarks.Everything(),
            tracker=trackers.Covariance(forgetting=beta),
            center=center,
            batch_size=batch_size,
        ).fit(X, sample_weight=weights)
        np.testing.assert_allclose(whole.eigenvalues_, values, **EIGENVALUES)


def test_forgetting_with_landmarks_and_the_default_basis():
    X = rows(140)
    k, w = naive.rbf(0.2), naive.forgetting_weights(0.95, 140)
    tracker = trackers.Covariance(forgetting=0.95)
    points = rows(10, seed=5) * 1.5
    values, _ = naive.nystroem_pca(
        naive.gram(k, points, points), naive.gram(k, X, points), 4, weights=w
    )
    model = StreamingKernelPCA(
        4, gamma=0.2, basis=landmarks.Landmarks(points), tracker=tracker, batch_size=32
    )
    np.testing.assert_allclose(stream(model, X).eigenvalues_, values, rtol=1e-10)
    exact, _ = naive.kernel_pca(naive.gram(k, X, X), 4, w)
    default = StreamingKernelPCA(4, gamma=0.2, tracker=tracker, batch_size=32)
    np.testing.assert_allclose(stream(default, X).eigenvalues_, exact, **EIGENVALUES)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float32_rows_are_exact_to_their_own_rounding(dtype):
    X = rows().astype(dtype)
    exact = KernelPCA(5, kernel="rbf", gamma=0.2, eigen_solver="dense").fit(X.astype(float))
    for basis in (landmarks.Everything(), "centroids"):
        model = StreamingKernelPCA(5, gamma=0.2, basis=basis).partial_fit(X)
        # `Everything` computes in float64. Centroids keep coordinates in float32, and drop
        # directions below 1e-8 of the largest eigenvalue.
        accuracy = 1e-8 if dtype is np.float64 else 2e-6
        np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, rtol=accuracy)
        scores = model.transform(X)
        assert scores.dtype == dtype
        accuracy = 1e-6 if dtype is np.float64 else 1e-4
        same_scores(scores, exact.transform(X.astype(float)), rtol=0, atol=accuracy)


def test_duplicates_and_permutations_change_nothing():
    X = rows(50)
    base = StreamingKernelPCA(4, gamma=0.2, basis=landmarks.Everything()).partial_fit(X)
    twice = StreamingKernelPCA(4, gamma=0.2, basis=landmarks.Everything())
    twice.partial_fit(np.concatenate([X, X]))
    np.testing.assert_allclose(twice.explained_variance_, base.explained_variance_, rtol=1e-9)
    assert len(twice.basis_points_) == len(base.basis_points_)
    order = np.random.default_rng(0).permutation(50)
    turned = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))[0]
    for other in (X[order], X @ turned, X + 7.0):  # an RBF kernel sees distances only
        model = StreamingKernelPCA(4, gamma=0.2, basis=landmarks.Everything()).partial_fit(other)
        np.testing.assert_allclose(model.explained_variance_, base.explained_variance_, rtol=1e-8)
