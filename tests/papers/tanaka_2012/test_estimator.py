"""LMS, RLS and SubKHA against Tanaka, Washizawa and Kuh's dual equations, and where they break."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import KernelPCA

from kernelstream import StreamingKernelPCA, kernels, landmarks, papers
from kernelstream.papers import AdaptiveKernelPCA, schedules
from kernelstream.papers.sequential import Sequential
from tests import samples
from tests.naive import papers as naive_papers

RULES = ("rls", "lms", "subkha")


def series(n: int, seed: int = 0, d: int = 6) -> np.ndarray:
    """The paper's nonlinear system with noise, as vectors of d consecutive values."""
    s = [0.1, 0.1]
    for _ in range(n + d):
        a, b = s[-1], s[-2]
        s.append(
            (0.8 - 0.5 * np.exp(-(a**2))) * a
            - (0.3 + 0.9 * np.exp(-(a**2))) * b
            + 0.1 * np.sin(a * np.pi)
        )
    noisy = np.array(s) + 0.1 * np.random.default_rng(seed).normal(size=len(s))
    return np.lib.stride_tricks.sliding_window_view(noisy, d)[:n].copy()


def state_of(model: StreamingKernelPCA) -> Any:
    return model.stream_.settled.state


def raw_coefficients(model: StreamingKernelPCA) -> np.ndarray:
    """The paper's A: raw components over the points, A = F V."""
    state = state_of(model)
    return state.basis.span.factor @ state.tracker.V


@samples.grid(
    "method, r, kernel",
    RULES,
    [1, 2, 5],
    [kernels.RBF(0.1), 3.0 * kernels.RBF(0.1), kernels.Matern(1.5, 2.0)],
)
def test_equals_the_dual_equations(method: str, r: int, kernel: kernels.Kernel) -> None:
    X = series(400, seed=r)
    eta = 0.02 / float(kernel.diag(X[:1])[0])  # a step too long would be shortened
    model = AdaptiveKernelPCA(r, kernel=kernel, delta=0.9, method=method, eta=eta).fit(X)
    points, A = naive_papers.tanaka(kernel, X, r, method, delta=0.9, eta=eta)
    np.testing.assert_array_equal(model.basis_points_, points)
    assert model.n_shortened_steps_ == 0
    H = kernel(X, points)
    np.testing.assert_allclose(H @ raw_coefficients(model), H @ A, rtol=0, atol=1e-10)


@pytest.mark.parametrize("method", RULES)
def test_given_weights_equal_the_dual_equations(method: str) -> None:
    X, D = series(200), np.array([3.0, 1.0, 0.2])
    kernel = kernels.RBF(0.1)
    options: dict[str, Any] = dict(delta=0.9, eta=0.01)
    model = AdaptiveKernelPCA(3, kernel=kernel, method=method, weights=list(D), **options).fit(X)
    points, A = naive_papers.tanaka(kernel, X, 3, method, D=D, **options)
    H = kernel(X, points)
    np.testing.assert_allclose(H @ raw_coefficients(model), H @ A, rtol=0, atol=1e-10)


def test_start_is_the_inverse_root_of_the_kernel_matrix() -> None:
    X = series(3, seed=4)
    model = AdaptiveKernelPCA(3, kernel=kernels.RBF(0.1)).fit(X)
    M = model.kernel_(X)
    root = np.linalg.inv(np.real(scipy.linalg.sqrtm(M)))  # A[0] = P^{1/2}
    np.testing.assert_allclose(raw_coefficients(model), root, rtol=1e-9)


def test_first_rows_are_points_whatever_their_coherence() -> None:
    X = np.vstack([[0.0, 0.0], [0.2, 0.0], [0.0, 0.2], [3.0, 3.0]])
    model = AdaptiveKernelPCA(3, gamma=0.1, delta=0.5).fit(X)
    np.testing.assert_array_equal(model.basis_points_, X)
    plain = StreamingKernelPCA(
        3, gamma=0.1, basis=landmarks.Coherence(0.5), tracker=papers.RLS()
    ).fit(X)
    np.testing.assert_array_equal(plain.basis_points_, X[[0, 3]])


@given(cuts=st.lists(st.integers(0, 120), max_size=5), batch=st.integers(1, 80))
@pytest.mark.parametrize("method", RULES)
@pytest.mark.parametrize("center", [False, True])
def test_blocks_and_cuts_change_nothing(
    method: str, center: bool, cuts: list[int], batch: int
) -> None:
    X = series(120, seed=1)
    rule = {"rls": papers.RLS(), "lms": papers.LMS(), "subkha": papers.SubsetHebbian()}

    def model(batch_size: int) -> StreamingKernelPCA:
        return StreamingKernelPCA(
            3,
            gamma=0.1,
            basis=landmarks.Coherence(0.8, first=3),
            tracker=rule[method],
            center=center,
            batch_size=batch_size,
        )

    whole, pieces, one = model(batch).partial_fit(X), model(batch), model(1).partial_fit(X)
    edges = [0, *sorted(cuts), len(X)]
    for start, stop in itertools.pairwise(edges):
        if stop > start:
            pieces.partial_fit(X[start:stop])
    np.testing.assert_array_equal(pieces.transform(X), whole.transform(X))
    np.testing.assert_allclose(whole.transform(X), one.transform(X), rtol=0, atol=1e-9)


def test_rls_keeps_its_components_orthonormal() -> None:
    model = AdaptiveKernelPCA(4, gamma=0.1, delta=0.9).fit(series(3000))
    V = state_of(model).tracker.V
    np.testing.assert_allclose(V.T @ V, np.eye(4), atol=1e-13)


def test_columns_of_the_gradient_rules_tend_to_the_roots_of_the_weights() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20000, 3)) * [1.0, 0.7, 0.4]
    step = schedules.SearchThenConverge(0.05, 2000)
    rule = papers.SubsetHebbian(step, weights=[1.0, 0.64])
    model = StreamingKernelPCA(
        2, kernel="linear", basis=landmarks.Everything(), tracker=rule, center=False
    ).fit(X)
    lengths = np.linalg.norm(state_of(model).tracker.V, axis=0)
    np.testing.assert_allclose(lengths, [1.0, 0.8], atol=0.02)
    shown = model.transform(np.eye(3))
    np.testing.assert_allclose(np.abs(shown), np.eye(3)[:, :2], atol=0.1)
    np.testing.assert_allclose(model.explained_variance_, [1.0, 0.49], rtol=0.05)


def test_rls_comes_close_to_batch_on_the_papers_data() -> None:
    X = series(1500)
    model = AdaptiveKernelPCA(2, gamma=0.1, random_state=0).fit(X)
    K = model.kernel_(X)
    values = np.linalg.eigvalsh(K)[::-1]  # uncentred, as in the paper
    captured = float(np.sum(model.transform(X) ** 2))
    mse, best = np.trace(K) - captured, np.trace(K) - values[:2].sum()
    assert len(model.basis_points_) < 40
    assert mse < 1.02 * best


# -- where the rules could break


@pytest.mark.parametrize("method", ["lms", "subkha"])
def test_a_step_too_long_is_shortened_and_reported(method: str) -> None:
    X = series(300)
    with pytest.warns(RuntimeWarning, match="shortened") as caught:
        model = AdaptiveKernelPCA(2, gamma=0.1, method=method, eta=50.0).fit(X)
    assert len(caught) == 1
    assert model.n_shortened_steps_ > 100
    assert np.all(np.isfinite(model.transform(X)))


NORMAL = np.random.default_rng(0).normal(size=(400, 3))
HARD_ROWS = {
    "zero": np.zeros((400, 3)),
    "constant": np.ones((400, 3)),
    "line": np.outer(np.linspace(-1, 1, 400), [1.0, 2.0, 3.0]),
    "silence": np.vstack([np.eye(3)] * 5 + [np.zeros((400, 3))]),
    # (with more than this, polynomials of degree 3 lose their digits in the growing basis)
    "louder": NORMAL * np.geomspace(1e-1, 1e1, 400)[:, None],
    "softer": NORMAL * np.geomspace(1e1, 1e-3, 400)[:, None],
}


@samples.grid(
    "center, kernel, name, method", [False, True], ["linear", "rbf", "poly"], HARD_ROWS, RULES
)
def test_never_nan(method: str, name: str, kernel: str, center: bool) -> None:
    rows = HARD_ROWS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # steps may be shortened
        model = AdaptiveKernelPCA(
            5,
            kernel=kernel,
            gamma=None if kernel == "linear" else 0.5,
            method=method,
            center=center,
            beta=0.8,
        ).fit(rows)
        scores = model.transform(rows)
    assert np.all(np.isfinite(scores)) and np.all(np.isfinite(model.explained_variance_))


def test_rls_survives_a_component_that_sleeps() -> None:
    rng = np.random.default_rng(0)
    quiet = rng.normal(size=(5000, 2)) * [1.0, 0.0]
    loud = rng.normal(size=(500, 2))
    model = StreamingKernelPCA(
        2,
        kernel="linear",
        basis=landmarks.Landmarks(np.eye(2)),
        tracker=papers.RLS(0.95),
        center=False,
    )
    model.partial_fit(np.vstack([loud, quiet, loud]))
    np.testing.assert_allclose(np.abs(np.linalg.det(model.transform(np.eye(2)))), 1.0, atol=1e-9)


def test_components_wait_for_directions_that_come_late() -> None:
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(300, 3)) * [1.0, 0.5, 0.0]
    late = rng.normal(size=(2000, 3)) * [1.0, 0.5, 0.3]
    for rule in (papers.RLS(0.99), papers.SubsetHebbian(0.02)):
        model = StreamingKernelPCA(3, kernel="linear", basis="everything", tracker=rule)
        model.partial_fit(flat)
        assert np.count_nonzero(np.any(model.transform(flat) != 0, axis=0)) == 2
        model.partial_fit(late)
        directions = model.transform(np.eye(3)) - model.transform(np.zeros((3, 3)))
        assert abs(np.linalg.det(directions)) > 0.9


@pytest.mark.parametrize("rule", [papers.RLS(), papers.LMS(0.01), papers.SubsetHebbian()])
def test_rebase_carries_the_components_along(rule: Sequential[Any]) -> None:
    rng = np.random.default_rng(0)
    state: Any = rule.begin(5, 2, np.zeros(0))
    state = rule.update(state, rng.normal(size=(50, 5)), None, (), np.eye(5))
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    moved, loss = rule.rebase(state, turn)
    assert loss is None and moved.reseeded == 0
    np.testing.assert_allclose(moved.V, turn @ state.V, atol=1e-12)
    # Nothing is left of what a projection on the others' complement takes away.
    gone = np.eye(5) - np.outer(state.V[:, 0], state.V[:, 0]) / np.sum(state.V[:, 0] ** 2)
    moved, _ = rule.rebase(state, gone)
    assert moved.reseeded == 1 and not np.any(moved.V[:, 0])
    again = rule.update(moved, rng.normal(size=(1, 5)), None, (), np.eye(5))
    assert np.linalg.norm(again.V[:, 0]) == pytest.approx(1.0)


def test_states_are_values() -> None:
    """An update leaves the arrays of the old state as they were."""
    rng = np.random.default_rng(0)
    for rule in (papers.RLS(), papers.LMS(0.01), papers.SubsetHebbian()):
        state: Any = rule.begin(4, 2, np.zeros(0))
        for _ in range(3):
            before = {k: np.copy(v) for k, v in vars(state).items() if isinstance(v, np.ndarray)}
            after = rule.update(state, rng.normal(size=(20, 4)), None, (), np.eye(4))
            rule.rebase(state, np.eye(4)[:3])
            for name, value in before.items():
                np.testing.assert_array_equal(getattr(state, name), value)
            state = after


def test_weights_of_rows_scale_the_step() -> None:
    X = series(200)
    half = AdaptiveKernelPCA(2, gamma=0.1, method="subkha", eta=0.02)
    half.partial_fit(X, sample_weight=np.full(200, 0.5))
    whole = AdaptiveKernelPCA(2, gamma=0.1, method="subkha", eta=0.01).partial_fit(X)
    np.testing.assert_allclose(half.transform(X), whole.transform(X), atol=1e-12)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(method="sgd"), "method must be one of rls, lms, subkha"),
        (dict(weights=[1.0, 2.0]), "the first component's the largest"),
        (dict(weights=[1.0]), "1 weights were given for 2 components"),
        (dict(weights=[1.0, -1.0]), "must be positive"),
        (dict(beta=1.5), "forgetting must be a number between 0 and 1"),
        (dict(n_components=None), "n_components must be an integer"),
        (dict(method="lms", eta=schedules.AutomaticRate()), "a step for each component"),
        (dict(delta=1.5), "delta must be a number between 0 and 1"),
    ],
)
def test_errors_are_sentences(options: dict[str, Any], words: str) -> None:
    model = AdaptiveKernelPCA(**{"gamma": 0.1, **options})
    with pytest.raises(ValueError, match=words):
        model.fit(series(20))


def test_wide_kernel_is_linear_pca_for_every_rule() -> None:
    """A check against something that is no twin: batch kernel PCA of the same rows."""
    X = series(4000, seed=2)
    batch = KernelPCA(2, kernel="rbf", gamma=0.1).fit(X[::4])
    for rule in (
        papers.RLS(0.999),
        papers.SubsetHebbian(schedules.SearchThenConverge(0.2, 500)),
    ):
        model = StreamingKernelPCA(2, gamma=0.1, basis=landmarks.Coherence(0.9), tracker=rule).fit(
            X
        )
        ours, exact = model.transform(X[::4]), batch.transform(X[::4])
        assert abs(np.corrcoef(ours[:, 0], exact[:, 0])[0, 1]) > 0.99


@pytest.mark.parametrize("forgetting", [1.0, 0.97])
def test_the_first_centred_row_starts_nothing(forgetting: float) -> None:
    """It is zero; as rounding noise it once started a component, another one for each block."""
    X = np.random.default_rng(0).normal(size=(150, 2))
    points = np.random.default_rng(1).normal(size=(6, 2))
    scores = [
        StreamingKernelPCA(
            3,
            gamma=0.4,
            basis=landmarks.Landmarks(points),
            tracker=papers.RLS(forgetting),
            batch_size=batch_size,
        )
        .partial_fit(X)
        .transform(X)
        for batch_size in (1, 64)
    ]
    np.testing.assert_allclose(scores[0], scores[1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("rule", [papers.RLS(0.999), papers.SubsetHebbian(), papers.LMS(0.01)])
@pytest.mark.parametrize("weight", [0.25, 4.0])
def test_variances_are_those_of_the_outputs_whatever_the_weights(rule: Any, weight: float) -> None:
    """RLS multiplies rows by √w, and once showed w times the variance."""
    X = series(2000)
    model = StreamingKernelPCA(2, gamma=0.1, basis=landmarks.Landmarks(X[:30]), tracker=rule)
    model.fit(X, sample_weight=np.full(2000, weight))
    measured = model.transform(X).var(axis=0)
    np.testing.assert_allclose(model.explained_variance_, measured, rtol=0.25)


@pytest.mark.parametrize("delta", [0.3, 0.7, 0.95])
def test_bounds_of_the_coherence_criterion(delta: float) -> None:
    """Honeine 2015: a row that is no point misses at most k(x, x)(1 − δ²)."""
    X = np.random.default_rng(0).normal(size=(600, 3))
    model = AdaptiveKernelPCA(2, gamma=0.3, delta=delta).fit(X)
    lam = np.linalg.eigvalsh(model.kernel_(X))[::-1][:2] / len(X)
    found = model.bounds(lam)
    assert found.coherence <= found.coherence_bound
    k = model.kernel_(X, model.basis_points_)
    K = model.kernel_(model.basis_points_)
    missed = 1 - np.einsum("ij,ij->i", k, np.linalg.solve(K, k.T).T)
    assert missed.max() <= found.missed_bound == pytest.approx(1 - delta**2)
    np.testing.assert_allclose(found.approximation_error, (1 - delta**2) / lam)
    assert found.babel <= found.babel_bound
    bare = AdaptiveKernelPCA(2, gamma=0.3, coherence="paper").fit(X)
    with pytest.raises(ValueError, match="bounds are those of cosines"):
        bare.bounds()


def test_a_full_dictionary_warns() -> None:
    X = np.random.default_rng(0).normal(size=(900, 2)) + np.linspace(0, 20, 900)[:, None]
    with pytest.warns(RuntimeWarning, match="max_points=20 points now"):
        model = AdaptiveKernelPCA(2, gamma=1.0, delta=0.8, max_points=20).partial_fit(X)
    assert len(model.basis_points_) == 20
