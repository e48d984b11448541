"""KernelHebbianPCA: exact kernel PCA in the limit, scikit-learn's manners, the semi-online form."""

from __future__ import annotations

import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, KernelPCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from kernelstream import StreamingKernelPCA, kernels, landmarks, load, metrics, papers
from kernelstream.papers import KernelHebbianPCA, schedules
from kernelstream.papers.kim_2003 import epochs
from kernelstream.papers.kim_2003.gram import KernelMatrix
from tests import samples
from tests.naive import hebbian as naive


def toy(n: int, seed: int = 0) -> np.ndarray:
    """Kim et al., figure 1."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    return np.stack([x, -(x**2) + 0.2 * rng.normal(size=n)], axis=1)


@parametrize_with_checks(
    [KernelHebbianPCA(n_epochs=20)],
    expected_failed_checks=lambda _: {
        "check_sample_weight_equivalence_on_dense_data": "a weight of two is one step of twice "
        "the length, not two steps",
        "check_sample_weight_equivalence_on_sparse_data": "the same",
    },
)
def test_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


# -- fit: the finite set


@pytest.mark.parametrize(
    "kernel, name",
    [
        (kernels.Polynomial(degree=2, gamma=1.0, coef0=0.0), "poly"),
        (kernels.RBF(gamma=2.0), "rbf"),
        (kernels.Linear(), "linear"),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_fit_finds_kernel_pca(kernel: kernels.Kernel, name: str, dtype: Any) -> None:
    X = toy(300)
    r = 2 if isinstance(kernel, kernels.Linear) else 3
    model = KernelHebbianPCA(r, kernel=kernel, random_state=0).fit(X.astype(dtype))
    exact = KernelPCA(r, kernel=name, **kernel.get_params()).fit(X)
    assert metrics.direction_cosines(model, exact).min() > 0.999
    np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, rtol=1e-3)
    assert model.transform(X.astype(dtype)).dtype == dtype
    assert 1 < model.n_epochs_ <= 100


def test_uncentred_fit_finds_the_second_moments() -> None:
    X = toy(200)
    model = KernelHebbianPCA(2, gamma=2.0, center=False, random_state=0).fit(X)
    lam = np.linalg.eigvalsh(kernels.RBF(gamma=2.0)(X))[::-1]
    np.testing.assert_allclose(model.eigenvalues_, lam[:2], rtol=1e-3)
    np.testing.assert_array_equal(model.intercept_, 0.0)


@pytest.mark.parametrize("center", [True, False])
def test_attributes_hold_the_contract(center: bool) -> None:
    X = toy(150)
    model = KernelHebbianPCA(3, gamma=2.0, center=center, n_epochs=3, random_state=0).fit(X)
    np.testing.assert_array_equal(model.basis_points_, X)
    K = kernels.RBF(gamma=2.0)(X)
    scores = model.transform(X)
    np.testing.assert_allclose(K @ model.dual_coef_ - model.intercept_, scores, atol=1e-10)
    # unit components, though not yet orthogonal after three epochs
    np.testing.assert_allclose(
        np.einsum("ki,ki->i", model.dual_coef_, K @ model.dual_coef_), 1.0, atol=1e-9
    )
    spread = scores.var(axis=0) if center else (scores**2).mean(axis=0)
    np.testing.assert_allclose(model.explained_variance_, spread, rtol=1e-8)
    np.testing.assert_allclose(model.eigenvalues_, 150 * model.explained_variance_)
    if center:
        np.testing.assert_allclose(model.mean_coef_, 1 / 150, atol=1e-9)
    # the reconstruction error, by the definition
    A = model.dual_coef_
    centre = np.full((150, 1), 1 / 150) if center else np.zeros((150, 1))
    rows = np.eye(150) - centre
    fit = A @ np.linalg.solve(A.T @ K @ A, A.T @ K @ rows)
    missed = np.einsum("ki,ki->i", rows - fit, K @ (rows - fit))
    np.testing.assert_allclose(model.reconstruction_error(X), missed, atol=1e-8)
    total = np.einsum("ki,ki->i", rows, K @ rows).mean()
    np.testing.assert_allclose(
        model.explained_variance_ratio_, model.explained_variance_ / total, rtol=1e-8
    )
    assert model.n_samples_seen_ == 150
    assert list(model.get_feature_names_out()) == [f"kernelhebbianpca{i}" for i in range(3)]


def test_linear_kernel_is_sangers_rule_in_input_space() -> None:
    """The dual coefficients are never seen by the components: W = A X, for centred X."""
    X = np.random.default_rng(0).normal(size=(80, 4)) * [3, 2, 1, 0.5]
    X -= X.mean(axis=0)
    data = KernelMatrix(kernels.Linear(), X, batch_size=17)
    start, means = epochs.begin(data, 2, 0)
    order = np.random.default_rng(1).permutation(80)
    schedule = schedules.SearchThenConverge(0.05, tau=50)
    state, _ = epochs.sample_epoch(data, means, start, schedule, order)
    W = naive.gha(start.A @ X, X[order], naive.Steps(schedule, 2))
    np.testing.assert_allclose(state.A @ X, W, atol=1e-12)


def test_linear_kernel_finds_pca() -> None:
    X = np.random.default_rng(0).normal(size=(300, 4)) * [3, 2, 1, 0.5] + 5
    model = KernelHebbianPCA(2, kernel="linear", random_state=0).fit(X)
    exact = PCA(2).fit(X)
    np.testing.assert_allclose(np.abs(model.transform(X)), np.abs(exact.transform(X)), atol=0.05)
    back = model.inverse_transform(model.transform(X))
    np.testing.assert_allclose(back, exact.inverse_transform(exact.transform(X)), atol=0.05)


def test_fit_depends_on_the_seed_and_nothing_else() -> None:
    X = toy(100)
    one, same, other = (
        KernelHebbianPCA(2, gamma=2.0, n_epochs=2, random_state=seed).fit(X) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.dual_coef_, same.dual_coef_)
    assert np.abs(one.dual_coef_ - other.dual_coef_).max() > 1e-3


def test_sparse_rows_are_the_same_rows() -> None:
    X = np.maximum(toy(100), 0.0)
    dense = KernelHebbianPCA(2, gamma=2.0, n_epochs=3, random_state=0).fit(X)
    sparse = KernelHebbianPCA(2, gamma=2.0, n_epochs=3, random_state=0)
    sparse.fit(scipy.sparse.csr_matrix(X))
    np.testing.assert_allclose(sparse.transform(X), dense.transform(X), atol=1e-9)


def test_more_components_than_directions_are_zero() -> None:
    X = np.repeat([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]], 5, axis=0)
    model = KernelHebbianPCA(4, kernel="linear", random_state=0).fit(X)
    assert np.all(model.explained_variance_[:2] > 0)
    np.testing.assert_allclose(model.transform(X)[:, 2:], 0.0, atol=1e-12)


def test_fit_keeps_its_own_rows() -> None:
    X = toy(50)
    model = KernelHebbianPCA(1, gamma=2.0, n_epochs=2, random_state=0).fit(X)
    before = model.transform(toy(5, 1))
    X[:] = 0.0
    np.testing.assert_array_equal(model.transform(toy(5, 1)), before)


@pytest.mark.parametrize("stream", [False, True])
def test_save_and_load(stream: bool, tmp_path: Path) -> None:
    X = toy(120)
    model = KernelHebbianPCA(2, gamma=2.0, n_epochs=5, random_state=0)
    model = model.partial_fit(X) if stream else model.fit(X)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert isinstance(again, KernelHebbianPCA)
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    if not stream:
        assert again.n_epochs_ == model.n_epochs_
        assert again.converged_ == model.converged_
    more = toy(30, 1)
    np.testing.assert_array_equal(
        again.partial_fit(more).transform(X), model.partial_fit(more).transform(X)
    )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_epochs": 0}, "n_epochs"),
        ({"tol": -1.0}, "tol"),
        ({"init": "nowhere"}, "init"),
        ({"schedule": "fast"}, "schedule"),
        ({"cache_bytes": 1.5}, "cache_bytes"),
        ({"n_components": None}, "n_components"),
    ],
)
def test_parameters_that_make_no_sense(parameters: dict[str, Any], message: str) -> None:
    for learn in (KernelHebbianPCA.fit, KernelHebbianPCA.partial_fit):
        with pytest.raises(ValueError, match=message):
            learn(KernelHebbianPCA(**parameters), toy(20))


# -- partial_fit: the semi-online form of appendix A


@samples.grid(
    "center, schedule, batch_size",
    [True, False],
    [schedules.ConstantRate(0.1), schedules.AutomaticRate()],
    [1, 16],
)
def test_partial_fit_is_the_growing_expansion(
    center: bool, schedule: schedules.Schedule, batch_size: int
) -> None:
    """``Everything`` + ``Hebbian`` in coordinates is appendix A in coefficients."""
    X, r = toy(60), 2
    model = KernelHebbianPCA(
        r, gamma=20.0, schedule=schedule, center=center, batch_size=batch_size
    ).partial_fit(X)
    K = kernels.RBF(gamma=20.0)(X)
    # component i starts at the i-th row, less its projection on the earlier ones
    starts = np.zeros((r, 60))
    starts[0, 0] = 1.0
    starts[1, :2] = np.array([-K[0, 1], 1.0]) / np.sqrt(1 - K[0, 1] ** 2)
    A, mean = naive.semi_online_kha(K, starts, schedule, center)
    A /= np.sqrt(np.einsum("ik,ik->i", A @ K, A))[:, None]
    scores = (K - (K @ mean)[None, :]) @ A.T if center else K @ A.T
    found = model.transform(X)
    order = [int(np.argmax(np.abs(found.T @ column))) for column in scores.T]
    np.testing.assert_allclose(found[:, order], scores, atol=1e-7)


@pytest.mark.parametrize("gamma", [0.1, 1.0, 10.0])
def test_all_rows_become_points_whatever_their_order(gamma: float) -> None:
    """Sorted rows strain the factor; those after the strain were once left out, and w with them."""
    t = np.sort(np.random.default_rng(0).uniform(-3, 3, size=400))
    X = np.stack([t, np.sin(t)], axis=1)
    model = KernelHebbianPCA(3, gamma=gamma, n_epochs=5, random_state=0).fit(X)
    expected = model.transform(X)
    model._open()  # what partial_fit does before it learns
    np.testing.assert_allclose(model.transform(X), expected, atol=1e-7)


def test_partial_fit_goes_on_from_fit() -> None:
    X = toy(200)
    model = KernelHebbianPCA(2, gamma=2.0, random_state=0).fit(X)
    before = model.transform(X)
    model._open()  # only the basis changes
    np.testing.assert_allclose(model.transform(X), before, atol=1e-8)
    model.partial_fit(toy(100, 1))
    assert model.n_samples_seen_ == 300
    assert metrics.captured_variance(model, np.concatenate([X, toy(100, 1)])) > 0.99
    one = KernelHebbianPCA(2, gamma=2.0, random_state=0).fit(X).learn_one(X[0])
    assert one.n_samples_seen_ == 201


@pytest.mark.parametrize("gamma", [0.5, 10.0])
def test_rows_in_sorted_order_keep_their_components_when_a_stream_goes_on(gamma: float) -> None:
    """Each row continues those before it: a basis that grows has to be revised on the way."""
    X = np.linspace(-3, 3, 400)[:, None]
    model = KernelHebbianPCA(3, gamma=gamma, n_epochs=20, random_state=0).fit(X)
    before = model.transform(X)
    model._open()  # only the basis changes
    np.testing.assert_allclose(model.transform(X), before, atol=1e-6)


@pytest.mark.parametrize("init", ["rows", "points", 150])
def test_every_start_reaches_the_components(init: Any) -> None:
    X = toy(1000)
    model = KernelHebbianPCA(3, gamma=2.0, init=init, random_state=0).partial_fit(X)
    assert metrics.captured_variance(model, X) > 0.99


def test_ball_start_sees_rows_that_single_points_do_not() -> None:
    """Figures 6 and 7: with a very local kernel, φ(x_i(0)) is orthogonal to nearly all rows."""
    X = toy(150)
    kernel = kernels.RBF(gamma=400.0)
    seen = {}
    for name, basis, spread in (
        ("points", landmarks.Everything(start=1), False),
        ("ball", landmarks.Everything(start=600), True),
    ):
        state = basis.begin(kernel, landmarks.Start(X))
        V = papers.Hebbian(spread=spread).begin(state.span.rank, 1, X).V
        seen[name] = np.mean(np.abs(basis.coordinates(kernel, state, X) @ V) > 1e-6)
    assert seen["points"] < 0.3
    assert seen["ball"] == 1.0


def test_spread_start_is_orthonormal_and_leaves_nothing_out() -> None:
    for m in (1, 2, 7, 64):
        V = papers.Hebbian(spread=True).begin(m, min(m, 5), np.zeros(1)).V
        np.testing.assert_allclose(V.T @ V, np.eye(min(m, 5)), atol=1e-12)
        assert np.abs(V).min() > 0


def test_a_floor_follows_a_distribution_that_moves() -> None:
    """Appendix A.1: η(t) tends to a small constant, not to zero."""
    rng = np.random.default_rng(0)
    before = rng.normal(size=(3000, 3)) * [3, 1, 1]
    after = rng.normal(size=(1000, 3)) * [1, 3, 1]
    found = []
    for schedule in (schedules.AutomaticRate(floor=0.01), schedules.AutomaticRate()):
        model = KernelHebbianPCA(1, kernel="linear", schedule=schedule)
        model.partial_fit(before).partial_fit(after)
        found.append(metrics.captured_variance(model, after))
    assert found[0] > 0.98
    assert found[1] < 0.5


# -- the step that needs no tuning


def _streams() -> dict[str, tuple[np.ndarray, kernels.Kernel, int]]:
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, 500)
    banana = np.stack([x, x**2 + 0.2 * rng.normal(size=500)], axis=1)
    digits = rng.permutation(load_digits().data)
    squares = kernels.Polynomial(degree=2, gamma=1.0, coef0=1.0)
    return {
        "toy": (toy(500), squares, 3),
        "toy, kernel times 100": (toy(500), kernels.Constant(100.0) * squares, 3),
        "banana": (banana, kernels.RBF(gamma=2.0), 5),
        "digits": (digits, kernels.RBF(gamma="median").fix(digits), 10),
    }


@pytest.mark.parametrize("name", list(_streams()))
def test_automatic_steps_match_the_best_constant(name: str) -> None:
    """After one pass, whatever the kernel's scale (12 constants up to 2/energy)."""
    X, kernel, r = _streams()[name]
    data = KernelMatrix(kernel, X, n_components=r)
    start, means = epochs.begin(data, r, 0)
    order = np.random.default_rng(0).permutation(len(X))
    H = np.eye(len(X)) - 1 / len(X)
    K = H @ kernel(X) @ H
    best = np.linalg.eigvalsh(K)[::-1][:r].sum() / len(X)

    def captured(schedule: schedules.Schedule) -> float:
        A = epochs.sample_epoch(data, means, start, schedule, order)[0].A
        Y = A @ K
        return float(np.trace(np.linalg.pinv(Y @ A.T) @ (Y @ Y.T)) / len(X) / best)

    constants = np.logspace(-3, np.log10(2), 12) / (np.trace(K) / len(X))
    assert captured(schedules.AutomaticRate()) > max(
        map(captured, map(schedules.ConstantRate, constants))
    )


@pytest.mark.parametrize("name", ["toy", "toy, kernel times 100", "banana"])
def test_automatic_steps_of_the_tracker_match_the_best_constant(name: str) -> None:
    X, kernel, r = _streams()[name]

    def captured(schedule: Any) -> float:
        tracker = papers.Hebbian(schedule)
        model = StreamingKernelPCA(r, kernel=kernel, basis=100, tracker=tracker, random_state=0)
        return metrics.captured_variance(model.partial_fit(X), X)

    energy = np.trace(kernel(X)) / len(X) - kernel(X).mean()
    constants = np.logspace(-3, np.log10(2), 12) / energy
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the longest ones have to be shortened
        best = max(map(captured, constants))
    assert captured("auto") > best - 0.01


# -- whether it converged


def angles(model: KernelHebbianPCA, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Degrees to the exact components, and the share by which their eigenvalues stand apart."""
    H = np.eye(len(X)) - 1 / len(X)
    K = H @ model.kernel_(X) @ H
    lam, U = (a[..., ::-1] for a in np.linalg.eigh(K))
    r = model.n_components_
    exact = U[:, :r] / np.sqrt(lam[:r])
    cosines = np.abs(np.einsum("ki,ki->i", exact, K @ (H @ model.dual_coef_)))
    apart = [np.abs(np.delete(lam, i) - lam[i]).min() / lam[i] for i in range(r)]
    return np.degrees(np.arccos(np.minimum(cosines, 1.0))), np.array(apart)


@pytest.mark.parametrize(("n", "r"), [(200, 3), (300, 8), (400, 12)])
@pytest.mark.parametrize("gamma", [0.02, 0.1, 0.5])
def test_converged_is_never_said_of_a_component_that_is_a_degree_off(
    n: int, r: int, gamma: float
) -> None:
    """Once it was said at 27 degrees; components whose eigenvalues nearly agree are left out."""
    X = load_digits().data[:n] / 16
    for n_epochs in (5, 40, 100):
        model = KernelHebbianPCA(r, gamma=gamma, n_epochs=n_epochs, tol=1e-3, random_state=0)
        off, apart = angles(model.fit(X), X)
        if model.converged_:
            assert off[apart > 0.05].max(initial=0.0) < 1.0
            bound = np.array(model.residuals_) / apart
            assert np.all(np.sin(np.radians(off)) < bound + 1e-6)


def test_the_finish_turns_components_that_the_rule_has_not_told_apart() -> None:
    X = load_digits().data[:400] / 16
    with_finish, without = (
        KernelHebbianPCA(12, gamma=0.05, n_epochs=30, ritz=ritz, random_state=0).fit(X)
        for ritz in (True, False)
    )
    assert np.median(angles(with_finish, X)[0]) < 0.1 * np.median(angles(without, X)[0])


def test_a_warning_where_it_did_not_converge() -> None:
    X = load_digits().data[:200] / 16
    with pytest.warns(ConvergenceWarning, match=r"did not converge in 2 epochs: the largest resid"):
        model = KernelHebbianPCA(5, gamma=0.05, n_epochs=2, random_state=0).fit(X)
    assert not model.converged_ and max(model.residuals_) > epochs.TOLERATED
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert KernelHebbianPCA(3, gamma=0.05, random_state=0).fit(X).converged_


# -- appendix A in linear memory


def test_a_stream_takes_linear_memory_and_one_kernel_value_for_each_pair() -> None:
    X = np.random.default_rng(0).normal(size=(2000, 5))
    KernelHebbianPCA(3, gamma=0.1, random_state=0).partial_fit(X[:600])  # compiles
    tracemalloc.start()
    model = KernelHebbianPCA(3, gamma=0.1, random_state=0).partial_fit(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # a block of 256 rows against all others twice, the rows, and 4 coefficients for each
    assert peak < 3 * 256 * 2000 * 8
    held = model.stream_.settled.begun.basis.span
    assert held.factor.shape == (2000, 4)


@pytest.mark.parametrize("center", [True, False, "paper"])
def test_the_expansion_is_the_growing_basis(center: Any) -> None:
    """The same functions as ``Everything`` with ``Hebbian``, which keeps a factor of all rows."""
    X = toy(150)
    settings: dict[str, Any] = {"kernel": kernels.RBF(gamma=20.0)}
    model = KernelHebbianPCA(3, center=center, batch_size=40, **settings).partial_fit(X)
    assert model.basis_points_.shape == X.shape
    other = StreamingKernelPCA(
        3, center=bool(center), basis="everything", tracker=papers.Hebbian(), **settings
    ).partial_fit(X)
    gap = np.abs(np.abs(model.transform(X)) - np.abs(other.transform(X))).max()
    assert gap > 1e-4 if center == "paper" else gap < 1e-5


def test_given_coefficients_are_where_fit_starts() -> None:
    X = toy(60)
    start = np.random.default_rng(0).normal(size=(2, 60))
    settings: dict[str, Any] = {"gamma": 2.0, "n_epochs": 1, "random_state": 0}
    one, two = (KernelHebbianPCA(2, init=A, **settings).fit(X) for A in (start, 0.5 * start))
    assert np.abs(one.dual_coef_ - two.dual_coef_).max() > 1e-6
    with pytest.raises(ValueError, match=r"init has shape \(2, 60\).*each of the 50 rows"):
        KernelHebbianPCA(2, init=start, **settings).fit(X[:50])
    with pytest.raises(ValueError, match="a stream does not know them yet"):
        KernelHebbianPCA(2, init=start, **settings).partial_fit(X)


def test_the_bare_rule_needs_steps_of_its_own() -> None:
    with pytest.raises(ValueError, match="Give the steps of the paper"):
        KernelHebbianPCA(guard=False).fit(toy(20))
    with pytest.raises(ValueError, match=r"diverged.*smaller step"):
        KernelHebbianPCA(guard=False, gamma=2.0, schedule=1e3, n_epochs=9).fit(toy(50))
