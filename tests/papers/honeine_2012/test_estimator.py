"""Online kernel PCA against Honeine's equations, and the statements of his paper as tests."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelstream import StreamingKernelPCA, kernels, landmarks, papers, trackers
from kernelstream.papers import OnlineKernelPCA, schedules
from kernelstream.papers.honeine_2012.estimator import distance_at
from tests import samples
from tests.naive import papers as naive_papers


def banana(n: int, seed: int = 0) -> np.ndarray:
    """Rows along a parabola."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=n)
    return np.stack([x, x**2 + 0.1 * rng.normal(size=n)], axis=1)


def covariance_spectrum(K: np.ndarray, center: bool) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of the covariance of all rows, and α of the unit principal functions."""
    n = len(K)
    H = np.eye(n) - 1.0 / n if center else np.eye(n)
    values, vectors = np.linalg.eigh(H @ K @ H)
    values, vectors = values[::-1], vectors[:, ::-1]
    keep = values > 1e-8 * values[0]
    return values[keep] / n, (H @ vectors[:, keep]) / np.sqrt(values[keep])


@samples.grid(
    "center, r, kernel", [True, False], [1, 4], [kernels.RBF(2.0), kernels.Polynomial(2, 1.0, 1.0)]
)
def test_equals_the_dual_equations(kernel: kernels.Kernel, r: int, center: bool) -> None:
    X = banana(400, seed=r)
    options: dict[str, Any] = dict(nu=0.2, eta0=0.1, tau=150)
    model = OnlineKernelPCA(r, kernel=kernel, center=center, **options).fit(X)
    twin = naive_papers.honeine(kernel, X, r, center=center, **options)
    np.testing.assert_array_equal(model.basis_points_, twin["points"])
    state: Any = model.stream_.settled.state
    A = state.basis.span.factor @ state.tracker.V
    H = kernel(X, twin["points"])
    np.testing.assert_allclose(H @ A, H @ twin["A"], rtol=0, atol=1e-10)
    np.testing.assert_allclose(H @ model.mean_coef_, H @ twin["mean"], rtol=0, atol=1e-10)
    # The scores are those of the components at unit length, less the mean.
    K = kernel(twin["points"], twin["points"])
    unit = A / np.sqrt(np.einsum("ij,ik,kj->j", A, K, A))
    scores = (H - twin["mean"] @ K) @ unit
    order = np.argsort(-state.tracker.variances, kind="stable")
    np.testing.assert_allclose(model.transform(X), scores[:, order], rtol=0, atol=1e-9)


@given(batch=st.integers(1, 100))
def test_block_size_does_not_matter(batch: int) -> None:
    X = banana(300)
    parts: dict[str, Any] = dict(gamma=2.0, basis=landmarks.Distance(0.3), batch_size=batch)
    rule: trackers.Tracker = papers.Hebbian(schedules.SearchThenConverge(0.5, 1000))
    blocked = StreamingKernelPCA(3, tracker=rule, **parts).fit(X)
    named = OnlineKernelPCA(3, gamma=2.0, nu=0.3).fit(X)
    np.testing.assert_allclose(blocked.transform(X), named.transform(X), rtol=0, atol=1e-10)


# -- the statements of the paper


@samples.grid(
    "nu, seed, kernel",
    [0.05, 0.3, 0.7],
    range(3),
    [kernels.RBF(2.0), kernels.Exponential(1.0), kernels.Cosine(), 5.0 * kernels.RBF(2.0)],
)
def test_lemma_3_and_theorem_4(kernel: kernels.Kernel, seed: int, nu: float) -> None:
    X = np.random.default_rng(seed).normal(size=(400, 3))
    found = OnlineKernelPCA(1, kernel=kernel, nu=nu, eta0=0.05).fit(X).bounds()
    assert found.coherence <= found.coherence_bound_sharp <= found.coherence_bound
    for low, high in (found.eigenvalue_bounds, found.eigenvalue_bounds_sharp):
        assert low <= found.eigenvalues[-1] and found.eigenvalues[0] <= high
    assert found.eigenvalue_bounds[0] <= found.eigenvalue_bounds_sharp[0]
    assert found.missed <= nu
    if kernel.unit_norm:
        assert found.coherence_bound == pytest.approx(1 - nu / 2)
        assert found.coherence_bound_sharp == pytest.approx(np.sqrt(1 - nu))


def test_lemma_3_sharp_is_attained() -> None:
    """Two points: the squared distance to the line through the first is 1 − cos²."""
    nu = 0.5
    apart = np.sqrt(-np.log(np.sqrt(1 - nu)))  # k = √(1 − ν) with γ = 1
    X = np.array([[0.0], [1.0001 * apart]])
    found = OnlineKernelPCA(1, gamma=1.0, nu=nu).fit(X).bounds()
    assert found.order == 2
    assert found.coherence == pytest.approx(found.coherence_bound_sharp, rel=1e-3)
    assert OnlineKernelPCA(1, gamma=1.0, nu=nu).fit(0.9999 * X / 1.0001).bounds().order == 1


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("nu", [0.02, 0.2, 0.6])
def test_theorem_5(nu: float, center: bool) -> None:
    X = banana(300)
    model = OnlineKernelPCA(2, gamma=2.0, nu=nu, center=center).fit(X)
    K, D = model.kernel_(X), model.basis_points_
    lam, alpha = covariance_spectrum(K, center)
    cross = model.kernel_(D, X)
    inside = np.linalg.solve(model.kernel_(D), cross)
    residual = K - cross.T @ inside  # Gram matrix of (I − P) φ
    error = np.einsum("ir,ij,jr->r", alpha, residual, alpha)
    found = model.bounds(lam)
    assert np.all(error <= found.approximation_error_sharp * (1 + 1e-9))
    assert np.all(found.approximation_error_sharp <= found.approximation_error)
    np.testing.assert_allclose(found.approximation_error, nu / lam)
    assert model.bounds().approximation_error.shape == (2,)


def test_theorem_5_needs_a_dictionary_that_is_not_full() -> None:
    X = np.random.default_rng(0).normal(size=(2100, 40))
    with pytest.warns(RuntimeWarning, match="max_points=2000 points now"):
        found = OnlineKernelPCA(1, gamma=1.0, nu=0.5).fit(X).bounds(np.array([0.1]))
    assert found.order == 2000 and np.isinf(found.approximation_error[0])
    assert 0 < found.approximation_error_sharp[0] < np.inf


def test_lemma_2_the_order_is_finite_on_bounded_data() -> None:
    orders = [
        OnlineKernelPCA(1, gamma=2.0, nu=0.3).fit(banana(n)).bounds().order
        for n in (1000, 10000, 40000)
    ]
    assert orders[1] - orders[0] <= 4 and orders[2] - orders[1] <= 3
    # Covering argument: points are apart by √ν in feature space, so in input space by this much.
    model = OnlineKernelPCA(1, gamma=2.0, nu=0.3).fit(banana(10000))
    D = model.basis_points_
    apart = np.sqrt(((D[:, None] - D[None]) ** 2).sum(-1)) + 10 * np.eye(len(D))
    assert apart.min() > np.sqrt(-np.log(np.sqrt(1 - 0.3)) / 2.0)


@pytest.mark.parametrize("seed", range(5))
def test_eigenvalues_of_centred_and_uncentred_interlace(seed: int) -> None:
    X = banana(500, seed)
    parts: dict[str, Any] = dict(gamma=2.0, basis=landmarks.Distance(0.1))
    centred = StreamingKernelPCA(8, **parts, center=True).fit(X).explained_variance_
    plain = StreamingKernelPCA(8, **parts, center=False).fit(X).explained_variance_
    assert np.all(plain >= centred - 1e-12)
    assert np.all(centred[:-1] >= plain[1:] - 1e-12)
    # "very often the first uncentred eigenvector unites the origin and the centre"
    model = StreamingKernelPCA(1, **parts, center=False).fit(X)
    mean = StreamingKernelPCA(1, **parts, center=True).fit(X).mean_coef_
    K = model.kernel_(model.basis_points_)
    cosine = (model.dual_coef_[:, 0] @ K @ mean) / np.sqrt(mean @ K @ mean)
    assert abs(cosine) > 0.95


@pytest.mark.parametrize("center", [True, False])
def test_converges_to_batch(center: bool) -> None:
    X = banana(20000)
    model = OnlineKernelPCA(2, gamma=0.5, nu=0.01, tau=2000, center=center).fit(X)
    exact = StreamingKernelPCA(2, gamma=0.5, basis=100, center=center, random_state=0).fit(X)
    ours, best = model.transform(X).var(axis=0), exact.explained_variance_
    if not center:
        ours = np.mean(model.transform(X) ** 2, axis=0)
    np.testing.assert_allclose(ours, best, rtol=0.05)


def test_large_tau_follows_a_stream_that_moves() -> None:
    """Section 5.1 of the paper says that small values of τ do; they come to rest instead."""
    rng = np.random.default_rng(0)
    before, after = rng.normal(size=(20000, 2)) * [1, 0.2], rng.normal(size=(3000, 2)) * [0.2, 1]

    def along_new(tau: float) -> float:
        model = OnlineKernelPCA(1, kernel="linear", nu=1e-6, eta0=0.02, tau=tau, center=False)
        model.partial_fit(before).partial_fit(after)
        return float(abs(model.transform([[0.0, 1.0]])[0, 0]))

    assert along_new(1e6) > 0.95
    assert along_new(100) < 0.5


def test_an_empty_dictionary_is_told() -> None:
    """The paper: ν = 2 gives an orthonormal dictionary. For unit norm it admits nothing."""
    model = OnlineKernelPCA(1, gamma=2.0, nu=2.0).fit(banana(50))
    with pytest.raises(ValueError, match="the dictionary is empty"):
        model.bounds()


def test_bounds_of_two_points_in_input_space_and_of_the_babel_measure() -> None:
    """Section 3: two points are at least √(−2σ² ln(1 − ν/2)) apart, here with Lemma 3 sharpened."""
    for gamma, nu in ((2.0, 0.3), (0.5, 0.05)):
        model = OnlineKernelPCA(1, gamma=gamma, nu=nu).fit(banana(800))
        found = model.bounds()
        assert found.input_distance_bound is not None
        assert found.input_distance >= found.input_distance_bound
        assert found.input_distance_bound >= np.sqrt(-np.log(1 - nu / 2) / gamma)
        K = model.kernel_(model.basis_points_) - np.eye(found.order)
        assert found.babel == pytest.approx(np.abs(K).sum(axis=1).max())
        assert found.babel <= found.babel_bound
        low, high = found.eigenvalue_bounds_babel
        assert low <= found.eigenvalues[-1] and found.eigenvalues[0] <= high
        assert high < found.eigenvalue_bounds[1]
        assert found.missed <= found.missed_bound == pytest.approx(nu)
    quadratic = kernels.Polynomial(degree=2, gamma=1.0, coef0=1.0)
    other = OnlineKernelPCA(1, kernel=quadratic, nu=0.1, eta0=0.01).fit(banana(300)).bounds()
    assert other.input_distance_bound is None
    matern = OnlineKernelPCA(1, kernel=kernels.Matern(2.5, 1.0), nu=0.1).fit(banana(300)).bounds()
    assert matern.input_distance_bound is not None
    assert 0.0 < matern.input_distance_bound <= matern.input_distance


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
@pytest.mark.parametrize("value", [1e-6, 0.01, 0.5, 0.999])
def test_distance_at_of_matern_kernel_is_a_lower_bound(nu: float, value: float) -> None:
    kernel = kernels.Matern(nu, 1.3)
    distance = distance_at(kernel, value)
    assert distance is not None
    assert kernel([[0.0]], [[distance]])[0, 0] == pytest.approx(value, rel=1e-3)
    assert kernel([[0.0]], [[distance]])[0, 0] >= value


def test_a_full_dictionary_warns_once() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2)) * 0.5 + np.linspace(0, 12, 3000)[:, None]
    model = OnlineKernelPCA(2, gamma=1.0, nu=0.2, max_points=25)
    with pytest.warns(RuntimeWarning, match="max_points=25 points now"):
        model.partial_fit(X[:1500])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(X[1500:])
    assert len(model.basis_points_) == 25
    assert model.reconstruction_error(X[-300:]).mean() > 0.9
