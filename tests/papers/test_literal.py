"""Literal mode: each paper's estimator is the paper's rule, to rounding, on three data sets each.

The twins in ``tests/naive/papers.py`` are written from the papers' equations.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from kernelstream import StreamingKernelPCA, kernels, landmarks, load, papers
from kernelstream.arrays.draws import generator
from kernelstream.papers import (
    AdaptiveKernelPCA,
    IncrementalKernelPCA,
    KernelHebbianPCA,
    OnlineKernelPCA,
    oja,
    schedules,
)
from tests.naive import papers as naive


def banana(n: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, n)
    return np.column_stack([x, x**2 + 0.1 * rng.normal(size=n)])


def digits(n: int) -> np.ndarray:
    return load_digits().data[:n] / 16.0


def drifting(n: int) -> np.ndarray:
    """Four sensors whose level wanders."""
    rng = np.random.default_rng(5)
    return 0.05 * np.cumsum(rng.normal(size=(n, 4)), axis=0) + rng.normal(size=(n, 4))


def by_definition(kernel: kernels.Kernel) -> Any:
    """k(X, Y) by the formula: a twin of a paper needs no fast product, but all digits."""

    def k(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        if isinstance(kernel, kernels.RBF):
            return np.exp(-kernel.gamma * cdist(X, Y, "sqeuclidean"))
        if isinstance(kernel, kernels.Exponential):
            return np.exp(-kernel.gamma * cdist(X, Y))
        if isinstance(kernel, kernels.Polynomial):
            return (kernel.gamma * X @ Y.T + kernel.coef0) ** kernel.degree
        assert isinstance(kernel, kernels.Cosine)
        return (X @ Y.T) / np.outer(np.linalg.norm(X, axis=1), np.linalg.norm(Y, axis=1))

    return k


CASES: dict[str, tuple[np.ndarray, kernels.Kernel]] = {
    "banana, rbf": (banana(220), kernels.RBF(gamma=2.0)),
    "digits, rbf": (digits(220), kernels.RBF(gamma=0.05)),
    "drifting, exponential": (drifting(220), kernels.Exponential(gamma=0.3)),
    "banana, quadratic": (banana(220), kernels.Polynomial(degree=2, gamma=1.0, coef0=1.0)),
    "digits, cosine": (digits(220), kernels.Cosine()),
    "banana, narrow": (banana(220), kernels.RBF(gamma=10.0)),
}


def tolerance(case: str) -> float:
    """Relative difference that rounding explains: that of the kernel's values, at least 1e-10.

    Squared distances come from a matrix product. Where the kernel has a kink at zero, as the
    exponential one, the rounding of a small distance enters by its root.
    """
    X, kernel = (CASES | COMPRESSED)[case]
    unit_roundoff = float(np.finfo(np.float64).eps) / 2
    return max(1e-10, kernel.rounding.worst(kernel.rounding.extent(X), X.shape[1]) * unit_roundoff)


def same_functions(
    model: Any, X: np.ndarray, points: np.ndarray, A: np.ndarray, relative: float
) -> None:
    """Raw components by the paper's index agree as functions, relative to the largest value."""
    kernel = by_definition(model.kernel_)
    ours = kernel(X, model.basis_points_) @ model.raw_dual_coef_
    theirs = kernel(X, points) @ A
    assert np.abs(ours - theirs).max() < relative * np.abs(theirs).max()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("center", ["paper", False])
def test_honeine(case: str, center: Any) -> None:
    X, kernel = CASES[case]
    nu = 0.05 * float(np.median(kernel.diag(X)))
    model = OnlineKernelPCA(
        2, kernel=kernel, nu=nu, eta0=0.1, tau=100, center=center, guard=False
    ).partial_fit(X)
    twin = naive.honeine(by_definition(kernel), X, 2, nu, 0.1, 100, center)
    A, mean = twin["A"], twin["mean"]
    if center:
        A = A - np.outer(mean, A.sum(axis=0))  # Σ a (κ(x_k) − μ) over the points
        np.testing.assert_allclose(model.mean_coef_, mean, atol=1e-9)
    assert len(twin["points"]) > 2
    np.testing.assert_array_equal(model.basis_points_, twin["points"])
    same_functions(model, X, twin["points"], A, tolerance(case))
    assert model.n_shortened_steps_ == 0


def test_the_papers_centring_is_not_ours() -> None:
    """Else the test above would compare the wrong thing."""
    X, kernel = CASES["digits, rbf"]
    paper, ours = (
        OnlineKernelPCA(2, kernel=kernel, nu=0.3, eta0=0.1, tau=100, center=center).partial_fit(X)
        for center in ("paper", True)
    )
    assert np.abs(paper.raw_dual_coef_ - ours.raw_dual_coef_).max() > 1e-3


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("method", ["lms", "rls", "subkha"])
def test_tanaka(case: str, method: str) -> None:
    X, kernel = CASES[case]
    eta = 0.02 / float(np.median(kernel.diag(X))) if method == "subkha" else 1e-3
    delta = 0.8 * float(np.median(kernel.diag(X)))
    options: dict[str, Any] = {"delta": delta, "eta": eta, "beta": 0.98}
    model = AdaptiveKernelPCA(
        2, kernel=kernel, method=method, coherence="paper", guard=False, **options
    ).partial_fit(X)
    psi, A = naive.tanaka(by_definition(kernel), X, 2, method, cosines=False, **options)
    assert len(psi) > 2
    np.testing.assert_array_equal(model.basis_points_, psi)
    same_functions(model, X, psi, A, tolerance(case))


@pytest.mark.parametrize("case", CASES)
def test_tanakas_eigenproblem(case: str) -> None:
    """(1)–(3): R a = λ M a over the points, R the mean of h(u) h(u)ᵀ."""
    X, kernel = CASES[case]
    basis = landmarks.Coherence(0.8)
    model = StreamingKernelPCA(2, kernel=kernel, basis=basis, center=False).fit(X)
    k, psi = by_definition(kernel), model.basis_points_
    H, M = k(X, psi), k(psi, psi)
    values, A = scipy.linalg.eigh(H.T @ H / len(X), M)
    np.testing.assert_allclose(model.explained_variance_, values[::-1][:2], rtol=tolerance(case))
    ours, theirs = np.abs(H @ model.dual_coef_), np.abs(H @ A[:, ::-1][:, :2])
    assert np.abs(ours - theirs).max() < tolerance(case) * theirs.max()


def test_components_keep_the_papers_index_and_length() -> None:
    """Shown ones are ordered by their variance and have unit length; raw ones neither."""
    X, kernel = CASES["digits, rbf"]
    model = AdaptiveKernelPCA(4, kernel=kernel, delta=0.8, method="lms", eta=1e-3, guard=False)
    model.partial_fit(X)
    K = kernel(model.basis_points_)
    raw = np.sqrt(np.einsum("ki,kl,li->i", model.raw_dual_coef_, K, model.raw_dual_coef_))
    unit = np.sqrt(np.einsum("ki,kl,li->i", model.dual_coef_, K, model.dual_coef_))
    assert np.abs(raw - 1).max() > 1e-2
    np.testing.assert_allclose(unit, 1.0, atol=1e-9)
    cosines = np.abs((model.raw_dual_coef_ / raw).T @ K @ model.dual_coef_)
    np.testing.assert_allclose(np.sort(cosines.max(axis=1)), 1.0, atol=1e-9)


def test_the_bare_rule_takes_steps_that_the_guard_would_shorten() -> None:
    """Tanaka's η = 0.02 with many points: the guard shortens, the bare rule stays finite."""
    X = np.random.default_rng(0).normal(size=(400, 6))
    settings: dict[str, Any] = {"gamma": 0.1, "delta": 0.95, "method": "lms", "eta": 0.02}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        guarded = AdaptiveKernelPCA(2, **settings).partial_fit(X)
    bare = AdaptiveKernelPCA(2, guard=False, **settings).partial_fit(X)
    assert guarded.n_shortened_steps_ > 50 and bare.n_shortened_steps_ == 0
    assert np.abs(bare.raw_dual_coef_ - guarded.raw_dual_coef_).max() > 1e-3


@pytest.mark.parametrize(
    "model",
    [
        AdaptiveKernelPCA(2, gamma=0.1, method="lms", eta=50.0, guard=False),
        AdaptiveKernelPCA(2, gamma=0.1, method="subkha", eta=50.0, guard=False),
        OnlineKernelPCA(2, gamma=0.1, eta0=50.0, guard=False),
        OnlineKernelPCA(2, gamma=0.1, eta0=50.0, guard=False, center="paper"),
    ],
    ids=str,
)
def test_a_bare_rule_that_diverges_says_so_and_leaves_the_model(model: Any) -> None:
    X = np.random.default_rng(0).normal(size=(600, 6))
    with pytest.raises(ValueError, match=r"have diverged.*smaller step"):
        model.partial_fit(X)
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("center", ["paper", False])
def test_kim_on_a_stream(case: str, center: Any) -> None:
    X, kernel = CASES[case]
    steps = schedules.SearchThenConverge(0.1 / float(np.median(kernel.diag(X))), 100)
    model = KernelHebbianPCA(
        2, kernel=kernel, schedule=steps, center=center, guard=False, batch_size=50
    ).partial_fit(X)
    A, mean = naive.kim_online(
        by_definition(kernel), X, 2, lambda t: float(steps.steps(t, 1)[0]), center == "paper"
    )
    same_functions(model, X, X, A, tolerance(case))
    if center:
        k = by_definition(kernel)
        np.testing.assert_allclose(
            k(X, model.basis_points_) @ model.mean_coef_,
            k(X, X) @ mean,
            atol=tolerance(case) * k(X, X).max(),
        )


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("center", [True, False])
def test_kim_on_a_finite_set(case: str, center: bool) -> None:
    """Eqs. (10)–(13) from a given A(0), in the order that is drawn, without any finish."""
    X, kernel = CASES[case]
    X = X[:80]
    start = np.random.default_rng(1).normal(size=(2, 80)) / 80
    step = 0.05 / float(np.median(kernel.diag(X)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = KernelHebbianPCA(
            2,
            kernel=kernel,
            schedule=step,
            n_epochs=3,
            init=start,
            guard=False,
            ritz=False,
            center=center,
            random_state=7,
        ).fit(X)
    orders = [generator(7, "epoch", epoch).permutation(80) for epoch in range(3)]
    A = naive.kim(by_definition(kernel)(X, X), start, np.concatenate(orders), step, center)
    expected = A - A.mean(axis=1, keepdims=True) if center else A  # Σ a φ̃ over the raw φ
    same_functions(model, X, X, expected.T, tolerance(case))


def to_digits(case: str) -> float:
    """As above; less where a basis of all rows leaves some out, which others nearly span.

    A smooth kernel in two dimensions makes most rows dependent but for rounding, and so do
    cosines of 64 columns.
    """
    return 1e-7 if case in ("banana, rbf", "banana, narrow", "digits, cosine") else tolerance(case)


# The fixed point of a pre-image is written for these kernels
COMPRESSED = {
    **{name: CASES[name] for name in ("banana, narrow", "digits, rbf", "digits, cosine")},
    "drifting, rbf": (drifting(220), kernels.RBF(gamma=0.2)),
}


@pytest.mark.parametrize("case", COMPRESSED)
@pytest.mark.parametrize("sharing", ["separate", "shared", "second pass"])
def test_chin_and_suter(case: str, sharing: str) -> None:
    X, kernel = COMPRESSED[case]
    X = X[:150]
    model = IncrementalKernelPCA(3, kernel=kernel, n_preimages=2, sharing=sharing, batch_size=30)
    model.partial_fit(X)
    twin = naive.chin_suter(by_definition(kernel), X, 3, 30, 2, sharing)
    assert len(twin[-1]) <= 8
    np.testing.assert_allclose(model.basis_points_, twin[-1], atol=1e-8)
    same_decomposition(model, X, twin, tolerance(case))


@pytest.mark.parametrize("case", CASES)
def test_chin_and_suter_without_compression(case: str) -> None:
    X, kernel = CASES[case]
    model = IncrementalKernelPCA(3, kernel=kernel, batch_size=30).partial_fit(X)
    twin = naive.chin_suter(by_definition(kernel), X, 3, 30)
    same_decomposition(model, X, twin, to_digits(case))


def same_decomposition(
    model: Any, X: np.ndarray, twin: tuple[np.ndarray, ...], share: float
) -> None:
    """Singular values, components and mean, relative to the largest value."""
    alpha, values, v, library = twin
    kernel = by_definition(model.kernel_)
    np.testing.assert_allclose(model.eigenvalues_, np.sort(values)[::-1], rtol=share)
    ours = kernel(X, model.basis_points_) @ np.column_stack([model.dual_coef_, model.mean_coef_])
    theirs = kernel(X, library) @ np.column_stack([alpha[:, np.argsort(-values)], v])
    assert np.abs(np.abs(ours) - np.abs(theirs)).max() < share * np.abs(theirs).max()


@pytest.mark.parametrize("case", CASES)
def test_the_lecture_notes_recipe(case: str) -> None:
    X, kernel = CASES[case]
    model = StreamingKernelPCA(3, kernel=kernel, basis="everything", center=False).partial_fit(X)
    values, scores = naive.lecture_kernel_pca(by_definition(kernel)(X, X), 3)
    np.testing.assert_allclose(model.explained_variance_, values, rtol=to_digits(case))
    ours = model.transform(X)
    assert np.abs(np.abs(ours) - np.abs(scores)).max() < to_digits(case) * np.abs(scores).max()


@pytest.mark.parametrize("rule", ["hebb", "normalised", "oja", "limited"])
@pytest.mark.parametrize("rows", [banana, digits, drifting], ids=lambda make: make.__name__)
def test_the_lecture_notes_neuron(rows: Any, rule: str) -> None:
    X = rows(150)
    w, schedule = np.full(X.shape[1], 0.1), schedules.SearchThenConverge(0.05, 50)
    ours = {"hebb": oja.hebb, "normalised": oja.normalised, "limited": oja.limited(oja.hebb, 0.3)}
    path = oja.learn(ours.get(rule, oja.oja), X, w, schedule)
    bound = 0.3 if rule == "limited" else np.inf
    twin = naive.lecture_neuron(X, w, lambda n: float(schedule.steps(n, 1)[0]), rule, bound)
    assert np.abs(twin[-1] - w).max() > 1e-2
    np.testing.assert_allclose(path, twin, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_the_lecture_notes_rule_in_feature_space(case: str) -> None:
    """``tracker=Hebbian()``: one component of the bare rule, from the first row on."""
    X, kernel = CASES[case]
    steps = schedules.SearchThenConverge(0.1 / float(np.median(kernel.diag(X))), 100)
    rule = papers.Hebbian(steps, guard=False)
    model = StreamingKernelPCA(1, kernel=kernel, basis="everything", tracker=rule, center=False)
    eta = [float(step) for step in steps.steps(1, len(X))]
    A, _ = naive.kim_online(by_definition(kernel), X, 1, lambda t: eta[t - 1], center=False)
    scores = model.partial_fit(X).transform(X)[:, 0]
    K = by_definition(kernel)(X, X)
    unit = K @ A[:, 0] / np.sqrt(A[:, 0] @ K @ A[:, 0])
    assert np.abs(np.abs(scores) - np.abs(unit)).max() < to_digits(case) * np.abs(unit).max()


@pytest.mark.parametrize(
    "model",
    [
        OnlineKernelPCA(2, gamma=0.2, nu=0.3, center="paper"),
        OnlineKernelPCA(2, gamma=0.5, nu=0.2),
        AdaptiveKernelPCA(2, gamma=0.5, delta=0.7, coherence="paper"),
        IncrementalKernelPCA(2, gamma=0.2, n_preimages=2, batch_size=25),
        KernelHebbianPCA(2, gamma=0.2, batch_size=32, random_state=0),
        KernelHebbianPCA(2, gamma=0.2, batch_size=32, init="points", random_state=0),
        KernelHebbianPCA(2, gamma=0.2, batch_size=32, center="paper", random_state=0),
        KernelHebbianPCA(5, kernel="linear", batch_size=32, random_state=0),
    ],
    ids=str,
)
def test_both_laws_hold(model: Any, tmp_path: Path) -> None:
    """The same rows give the same model, bit for bit, however cut; a query changes nothing."""
    X = drifting(300)
    whole, cut = clone(model).partial_fit(X), clone(model)
    for start, stop in ((0, 1), (1, 40), (40, 43), (43, 190), (190, 300)):
        cut.partial_fit(X[start:stop])
        cut.transform(X[:3])
    np.testing.assert_array_equal(cut.dual_coef_, whole.dual_coef_)
    np.testing.assert_array_equal(cut.raw_dual_coef_, whole.raw_dual_coef_)
    cut.save(tmp_path / "model")
    more = load(tmp_path / "model").partial_fit(X[:70])
    np.testing.assert_array_equal(more.dual_coef_, whole.partial_fit(X[:70]).dual_coef_)


def test_what_cannot_go_together_is_said() -> None:
    X = drifting(60)
    wrong: Any = "yes"
    for model, message in (
        (OnlineKernelPCA(center="sometimes"), "center must be True or False"),
        (AdaptiveKernelPCA(center=wrong), "center must be True or False"),
        (AdaptiveKernelPCA(coherence="angle"), "coherence must be one of"),
        (IncrementalKernelPCA(2, n_points=5, n_preimages=2), "two ways to compress"),
        (IncrementalKernelPCA(n_preimages=2), "give n_components as an integer"),
        (IncrementalKernelPCA(2, n_preimages=2, sharing="no"), "sharing must be one of"),
        (OnlineKernelPCA(guard=wrong), "guard must be one of True, False"),
        (KernelHebbianPCA(ritz=wrong), "ritz must be one of True, False"),
    ):
        with pytest.raises(ValueError, match=message):
            model.partial_fit(X)
