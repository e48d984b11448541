"""One-pass regression against its naive twin and scikit-learn, and the laws of the stream."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import array_api_strict
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

from kernelstream import StreamingKernelClassifier, StreamingKernelRidge, kernels, landmarks, load
from kernelstream.arrays.namespaces import to_host
from kernelstream.regression.normal_equations import (
    NormalEquations,
    strongest_of_the_best,
    this_side_of_the_hill,
)
from tests import samples
from tests.conftest import HELD_STREAM, public_members, wrongly_checked
from tests.naive import regression as naive_regression


@samples.checks(
    [
        StreamingKernelRidge(),
        StreamingKernelRidge(alpha=0.1, basis="everything", fit_intercept=False),
        StreamingKernelRidge(basis=12, scale="standard"),
        StreamingKernelClassifier(),
        StreamingKernelClassifier(basis="everything", alpha=0.01),
    ],
    expected_failed_checks=wrongly_checked,
)
def test_manners_of_scikit_learn(estimator, check):
    check(estimator)


def data(n: int = 300, d: int = 2, t: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Y = np.stack([np.sin(2 * X[:, 0] + j) * X[:, -1] for j in range(t)], axis=1)
    return X, Y + 0.1 * rng.normal(size=(n, t))


def learned(model: Any) -> Any:
    """What a query looks at."""
    return model.stream_.settled.state


def coordinates(model: Any, X: np.ndarray) -> np.ndarray:
    whole: Any = model.stream_.settled
    return whole.chain.basis.coordinates(whole.chain.kernel, whole.state.basis, X)


# --- the regression itself


@pytest.mark.parametrize("weighted", [False, True])
def test_everything_is_kernel_ridge(weighted):
    X, Y = data(60)
    w = np.random.default_rng(1).uniform(0.2, 3.0, size=60) if weighted else None
    model = StreamingKernelRidge(0.3, gamma=0.5, basis="everything", fit_intercept=False)
    found = model.fit(X, Y, w).predict(X[:9] + 0.1)
    peer = KernelRidge(alpha=0.3, kernel="rbf", gamma=0.5).fit(X, Y, w).predict(X[:9] + 0.1)
    naive = naive_regression.kernel_ridge(
        lambda a, b: np.exp(-0.5 * np.sum((a - b) ** 2)), X, Y, X[:9] + 0.1, 0.3, w
    )
    np.testing.assert_allclose(naive, peer, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found, peer, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
def test_moments_are_the_regression_on_kept_rows(intercept, weighted):
    X, Y = data(400)
    Y = Y + np.array([100.0, 0.0])  # far from zero: the origin has to come out again
    w = np.random.default_rng(1).uniform(0.2, 3.0, size=400) if weighted else None
    model = StreamingKernelRidge(
        0.05, gamma=0.5, basis=landmarks.Landmarks(X[:12]), fit_intercept=intercept
    )
    found = model.partial_fit(X, Y, w).predict(X[:7])
    Z = coordinates(model, X)
    B, b = naive_regression.ridge(Z, Y, 0.05, w, intercept)
    np.testing.assert_allclose(found, Z[:7] @ B + b, rtol=1e-8)
    K = model.kernel_(X[:7], model.basis_points_)
    np.testing.assert_allclose(found, K @ model.target_coef_ + model.target_intercept_, rtol=1e-9)


@pytest.mark.parametrize("intercept", [True, False])
def test_generalised_cross_validation_is_that_of_the_hat_matrix(intercept):
    X, Y = data(80)
    model = StreamingKernelRidge(
        gamma=0.5, basis=landmarks.Landmarks(X[:20]), fit_intercept=intercept
    ).fit(X, Y)
    state = learned(model)
    equations = NormalEquations.of(state.moments, state.tracker.scatter, state.targets, intercept)
    Z = coordinates(model, X)
    alphas = np.array([1e-6, 1e-3, 0.1, 10.0])
    expected = [
        naive_regression.generalised_cross_validation(Z, Y, alpha, intercept) for alpha in alphas
    ]
    unit = np.mean(Y**2, axis=0) if not intercept else Y.var(axis=0)
    assert np.all(unit > 0)
    np.testing.assert_allclose(equations.generalised_cross_validation(alphas), expected, rtol=1e-6)
    # the strength that is taken is the best of all looked at
    best = equations.generalised_cross_validation(np.array([model.alpha_]))[0]
    others = equations.generalised_cross_validation(model.alpha_ * np.geomspace(0.1, 10, 9))
    assert best <= others.min() * (1 + 2e-3)


@pytest.mark.parametrize("basis", ["centroids", "everything"])
def test_gcv_does_not_fall_for_interpolation(basis):
    # 150 rows, some of them twice: the criterion has a second, lower minimum where as many degrees
    # of freedom as rows are in use, and what it chooses there predicts worse than a constant.
    X, y = load_iris(return_X_y=True)
    folds = KFold(5, shuffle=True, random_state=0)
    model = StreamingKernelRidge(basis=basis, random_state=0)
    gcv = cross_val_score(model, X, y.astype(float), cv=folds)
    assert gcv.mean() > 0.8
    assert gcv.min() > 0.4


@pytest.mark.parametrize(
    ("criterion", "place"),
    [
        ([1.0, 3.0, 2.0, 1.5, 4.0, 9.0], 3),  # the hill at 1 hides a lower minimum
        ([1.0, 1.52, 1.5, 2.0, 4.0, 9.0], 0),  # a hill of one per cent does not
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0),
        ([6.0, 5.0, 4.0, 3.0, 2.0, 1.0], 5),
        ([np.inf, np.inf, 4.0, 3.0, 4.0, 5.0], 3),
        ([np.inf, 1.0, 4.0, 3.0, 4.0, 5.0], 3),
        ([2.0, 2.001, 2.0, 2.0, 2.0, 2.5], 4),  # as good as the best: the strongest of them
        ([np.inf] * 6, 5),
    ],
)
def test_the_strength_is_looked_for_this_side_of_the_hill(criterion, place):
    grid = np.geomspace(1e-6, 1.0, 6)
    found = strongest_of_the_best(*this_side_of_the_hill(grid, np.array(criterion)))
    assert found == grid[place]


@pytest.mark.parametrize(
    ("rows", "targets"),
    [(1e80, 1.0), (1e140, 1.0), (1e-80, 1.0), (1e-140, 1.0), (1e-80, 1e80), (1e140, 1e140)],
)
def test_the_strength_follows_the_units_of_rows_and_targets(rows, targets):
    """Squares of eigenvalues and of coefficients overflow long before those of rows do."""
    X, Y = data(60)
    ridge = StreamingKernelRidge(kernel="linear", basis="everything", random_state=0)
    plain, scaled = clone(ridge).fit(X, Y), clone(ridge).fit(rows * X, targets * Y)
    assert scaled.alpha_ / rows / rows == pytest.approx(plain.alpha_)
    found = scaled.predict(rows * X) / targets
    np.testing.assert_allclose(found, plain.predict(X), rtol=1e-6, atol=1e-9)


def test_a_strength_without_a_criterion_is_not_chosen():
    grid, nan = np.array([1.0, 2.0, 3.0]), np.nan
    assert strongest_of_the_best(grid, np.array([2.0, 1.0, nan])) == 2.0
    assert strongest_of_the_best(grid, np.array([nan, np.inf, 1.0])) == 3.0
    assert strongest_of_the_best(grid, np.array([nan, np.inf, nan])) == 3.0


def test_gcv_says_when_weights_are_no_counts():
    X, Y = data(400)
    model = StreamingKernelRidge(gamma=0.5, basis=20, random_state=0)
    for weights in (np.full(400, 1 / 400), np.full(400, 0.01)):
        fitted = clone(model).fit(X, Y, weights)
        with pytest.warns(UserWarning, match="400 rows weigh .* Scale the weights"):
            fitted.predict(X)
        fitted.predict(X)  # once for each model is enough
        clone(model).set_params(alpha=0.1).fit(X, Y, weights).predict(X)
    clone(model).fit(X, Y, np.full(400, 0.5)).predict(X)
    clone(model).set_params(forgetting=0.9).fit(X, Y).predict(X)  # here it is the memory


def test_gcv_shrinks_noise_more_than_signal():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    signal, noise = np.sin(2 * X[:, 0]), rng.normal(size=200)
    model = StreamingKernelRidge(gamma=0.3, basis="everything")
    assert clone(model).fit(X, noise).alpha_ > 100 * clone(model).fit(X, signal).alpha_


def test_strength_can_be_changed_after_the_rows_have_gone():
    X, Y = data()
    model = StreamingKernelRidge("gcv", gamma=0.5, basis=20, random_state=0).partial_fit(X, Y)
    chosen = model.predict(X)
    other = model.set_params(alpha=3.0).predict(X)
    again = clone(model).partial_fit(X, Y).predict(X)
    np.testing.assert_array_equal(other, again)
    assert np.abs(other - chosen).max() > 1e-3


def test_constant_and_rescaled_targets():
    X, Y = data()
    flat = StreamingKernelRidge(gamma=0.5, basis=15, random_state=0).fit(X, np.full(300, 1e8 + 0.5))
    np.testing.assert_array_equal(flat.predict(X), 1e8 + 0.5)
    model = StreamingKernelRidge(gamma=0.5, basis=15, random_state=0)
    plain = clone(model).fit(X, Y)
    scaled = clone(model).fit(X, 1e3 * Y + 1e6)
    assert scaled.alpha_ == pytest.approx(plain.alpha_)
    np.testing.assert_allclose((scaled.predict(X) - 1e6) / 1e3, plain.predict(X), atol=1e-6)


def test_sparse_rows_and_other_namespaces():
    X, Y = data(200)
    model = StreamingKernelRidge(0.1, gamma=0.5, basis=landmarks.Landmarks(X[:20]))
    dense = clone(model).fit(X, Y).predict(X)
    sparse = clone(model).fit(scipy.sparse.csr_matrix(X), Y).predict(scipy.sparse.csr_matrix(X))
    np.testing.assert_allclose(sparse, dense, rtol=1e-8, atol=1e-10)
    foreign = array_api_strict.asarray(X)
    fitted = clone(model).partial_fit(foreign, array_api_strict.asarray(Y))
    found = fitted.predict(foreign)
    assert isinstance(found, type(foreign))
    np.testing.assert_allclose(np.asarray(found), dense, rtol=1e-8, atol=1e-10)


def test_scores_of_rows_on_a_device(monkeypatch):
    """Arrays of the standard's strictest library on a device that the host cannot read."""
    device = array_api_strict.Device("device1")

    def there(x):
        return array_api_strict.asarray(x, device=device)

    def fetched(x):
        is_there = getattr(x, "device", None) == device
        return to_host(x.to_device(array_api_strict.Device("CPU_DEVICE")) if is_there else x)

    for path, module in list(sys.modules.items()):
        if path.startswith("kernelstream.") and hasattr(module, "to_host"):
            monkeypatch.setattr(module, "to_host", fetched)
    X, Y = data(300)
    labels = (X[:, 0] > 0).astype(int)
    w = np.random.default_rng(1).uniform(0.2, 3.0, size=300)
    for model, y in (
        (StreamingKernelRidge(0.1, gamma=0.5, basis=20, random_state=0), Y),
        (StreamingKernelRidge(0.1, gamma=0.5, basis=20, random_state=0), Y[:, 0]),
        (StreamingKernelClassifier(0.1, gamma=0.5, basis=20, random_state=0), labels),
    ):
        expected = clone(model).fit(X, y)
        found = clone(model).fit(there(X), there(y))
        for weights in (None, w):
            score = expected.score(X, y, sample_weight=weights)
            assert found.score(there(X), there(y), weights) == pytest.approx(score, rel=1e-9)
            assert found.score(there(X), y, sample_weight=weights) == pytest.approx(score, rel=1e-9)


@samples.grid(
    "basis, learned_in, sparse, alpha",
    [60, "everything"],
    [np.float32, np.float64],
    [False, True],
    ["gcv", 1e-9],
)
def test_large_coefficients_and_rows_of_single_precision(basis, learned_in, sparse, alpha):
    # A wide kernel: coefficients of 1e7 to 1e10 with alternating signs, which kernel values of
    # single precision would turn into noise far larger than the targets.
    X, Y = data(400)
    model = StreamingKernelRidge(alpha, gamma=0.01, basis=basis, random_state=0)
    model.fit(X.astype(learned_in), Y)
    single = X.astype(np.float32)
    expected = model.predict(single.astype(float))
    found = model.predict(scipy.sparse.csr_matrix(single) if sparse else single)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(Y).max())


def test_small_coefficients_need_no_double_precision(monkeypatch):
    X, Y = data(400)
    model = StreamingKernelRidge(0.1, gamma=0.5, basis=20, random_state=0)
    expected = clone(model).fit(X, Y).predict(X)
    model.fit(X.astype(np.float32), Y)
    seen: list[Any] = []
    block = kernels.RBF.block

    def watched(self: kernels.RBF, A: Any, B: Any) -> Any:
        seen.append(A.dtype)
        return block(self, A, B)

    monkeypatch.setattr(kernels.RBF, "block", watched)
    found = model.predict(X.astype(np.float32))
    assert seen == [np.float32]
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(Y).max())


def test_single_precision_in_single_precision_out():
    X, Y = data(500)
    model = StreamingKernelRidge(gamma=2.0, basis=landmarks.Landmarks(X[:12]), random_state=0)
    double = clone(model).fit(X, Y).predict(X)
    single = clone(model).fit(X.astype(np.float32), Y).predict(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, atol=5e-3)


# --- the laws of the stream

BASES: dict[str, Any] = {
    "centroids": landmarks.Centroids(6),
    "kept": landmarks.Centroids(6, follows=False),
    "distance": landmarks.Distance(nu=0.2),
    "landmarks": landmarks.Landmarks(8),
}


def moving(n: int = 1500) -> tuple[np.ndarray, np.ndarray]:
    X, Y = data(n)
    X[900:] += [3.0, -2.0]
    return X, Y


def same(a: Any, b: Any) -> bool:
    return pickle.dumps(a.stream_.state) == pickle.dumps(b.stream_.state)


@pytest.mark.parametrize("basis", BASES, ids=str)
@pytest.mark.parametrize("forgetting", [1.0, 0.995])
@given(cuts=st.lists(st.integers(1, 1499), max_size=5))
@settings(max_examples=4, deadline=None)
def test_cutting_makes_no_difference(basis, forgetting, cuts):
    X, Y = moving()
    model = StreamingKernelRidge(
        0.1, gamma=0.4, basis=BASES[basis], forgetting=forgetting, batch_size=64, random_state=3
    )
    whole = clone(model).partial_fit(X, Y)
    parts = clone(model)
    for rows in np.split(np.arange(1500), sorted(set(cuts))):
        parts.partial_fit(X[rows], Y[rows])
        parts.predict(X[:2])  # a query changes nothing
    np.testing.assert_array_equal(parts.predict(X[:50]), whole.predict(X[:50]))


def test_moments_follow_every_change_of_basis():
    # Σ w z yᵀ that was carried through the moves is, in the span, that of the rows: with a basis
    # that grows, rows before an admission have no part in the new coordinate.
    X, Y = data(300)
    model = StreamingKernelRidge(0.1, gamma=0.4, basis=landmarks.Distance(nu=0.1), batch_size=32)
    model.partial_fit(X, Y)
    state = learned(model)
    assert state.targets.cross.shape == (state.tracker.scatter.shape[0], 2)
    # carried moments and scatter belong together: residuals of the regression are those of rows
    # expressed as they were when folded, so the regression explains what it says it does
    Z = coordinates(model, X)
    gap = np.abs(Z.T @ (Y - state.targets.origin) - state.targets.cross).max()
    assert 0 < gap < 0.1 * np.abs(state.targets.cross).max()


@pytest.mark.parametrize("n_points", [40, 80])
def test_one_pass_is_nearly_as_good_as_two(n_points):
    # With 80 points that follow the rows, moments that were carried along cost half of the digits.
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order] / 16.0, y[order]
    model = StreamingKernelClassifier(gamma=0.1, basis=n_points, random_state=0)
    one = clone(model).partial_fit(X[:1400], y[:1400], classes=range(10))
    two = clone(model).fit(X[:1400], y[:1400])
    assert one.score(X[1400:], y[1400:]) > 0.93
    assert abs(one.score(X[1400:], y[1400:]) - two.score(X[1400:], y[1400:])) < 0.03
    assert two.alpha_ / 3 < one.alpha_ < 3 * two.alpha_


def test_centroids_stay_unless_rows_are_forgotten():
    X, Y = moving()
    for forgetting, follows in ((1.0, False), (0.995, True)):
        model = StreamingKernelRidge(basis=8, forgetting=forgetting, random_state=0)
        assert clone(model).partial_fit(X, Y).stream_.chain.basis.follows is follows
        assert clone(model).fit(X, Y).stream_.chain.basis.follows is follows
    given = StreamingKernelRidge(basis=landmarks.Centroids(8), random_state=0).partial_fit(X, Y)
    assert given.stream_.chain.basis.follows is True


@pytest.mark.parametrize("basis", ["landmarks", "centroids"])
def test_merged_models_are_the_model_of_all_rows(basis):
    X, Y = data(1200)
    Y = Y + np.array([50.0, 0.0])
    parts: dict[str, Any] = {
        "landmarks": landmarks.Landmarks(X[5:40]),
        "centroids": landmarks.Centroids(30),
    }
    model = StreamingKernelRidge(0.1, gamma=0.4, basis=parts[basis], random_state=0)
    both = (
        clone(model).partial_fit(X[:500], Y[:500]).merge(clone(model).partial_fit(X[500:], Y[500:]))
    )
    whole = clone(model).partial_fit(X, Y)
    assert both.n_samples_seen_ == 1200
    if basis == "centroids":  # other points: as good, not the same
        assert both.score(X, Y) > whole.score(X, Y) - 0.03
    else:
        np.testing.assert_allclose(both.predict(X), whole.predict(X), atol=1e-7)


def test_a_rejected_block_changes_nothing():
    X, Y = data(700)
    model = StreamingKernelRidge(0.1, gamma=0.4, basis=10, random_state=0).partial_fit(X, Y)
    before, kept = dict(model.__dict__), pickle.dumps(model.stream_)
    bad = Y[:5].copy()
    bad[2, 0] = np.nan
    for rows, targets, words in [
        (X[:5], bad, "y contains NaN"),
        (X[:5], Y[:4], "inconsistent numbers of samples"),
        (X[:5], Y[:5, :1], "1 columns.*learned so far had 2"),
        (X[:5] * np.inf, Y[:5], "infinity"),
        (X[:5], None, "requires y to be passed"),
        (X[:5], np.zeros((5, 1, 1)), "dim 3"),
        (X[:5], Y[:5] * 1e200, "y has numbers so large"),
    ]:
        with pytest.raises(ValueError, match=words):
            model.partial_fit(rows, targets)
        assert model.__dict__ == before
        assert pickle.dumps(model.stream_) == kept


def test_files_go_on_bit_for_bit(tmp_path):
    X, Y = data(900)
    model = StreamingKernelRidge(gamma=0.4, basis=10, random_state=0).partial_fit(X[:530], Y[:530])
    model.save(tmp_path / "ridge")
    loaded = load(tmp_path / "ridge")
    assert isinstance(loaded, StreamingKernelRidge)
    for each in (model, loaded):
        each.partial_fit(X[530:], Y[530:])
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    waiting = StreamingKernelRidge(gamma=0.4, basis=10).partial_fit(X[:40], Y[:40, 0])
    waiting.save(tmp_path / "waiting")
    found = load(tmp_path / "waiting").predict(X[:3])
    assert found.shape == (3,)
    np.testing.assert_array_equal(found, waiting.predict(X[:3]))


def test_forgetting_follows_targets_that_change():
    X, Y = data(3000, t=1)
    Y[1500:] *= -1
    model = StreamingKernelRidge(0.1, gamma=0.5, basis=40, random_state=0)
    stubborn = clone(model).partial_fit(X, Y).score(X[2000:], Y[2000:])
    quick = model.set_params(forgetting=0.99).partial_fit(X, Y).score(X[2000:], Y[2000:])
    assert quick > 0.8 > 0.3 > stubborn


def test_rows_of_weight_zero_are_no_rows():
    X, Y = data(200)
    w = np.arange(200) % 3 > 0
    model = StreamingKernelRidge(0.1, gamma=0.4, basis=10, random_state=0)
    np.testing.assert_array_equal(
        clone(model).fit(X, Y, w).predict(X), clone(model).fit(X[w], Y[w]).predict(X)
    )


@pytest.mark.parametrize("alpha", [-1.0, np.nan, np.inf, "aic", None, True])
def test_strengths_that_make_no_sense_are_refused(alpha):
    X, Y = data(50)
    with pytest.raises(ValueError, match="alpha must be a number that is not negative, or 'gcv'"):
        StreamingKernelRidge(alpha).fit(X, Y)


def test_learn_one():
    X, Y = data(80)
    model = StreamingKernelRidge(0.1, gamma=0.4, basis="everything", batch_size=16)
    one = clone(model)
    for x, y in zip(X, Y, strict=True):
        one.learn_one(x, y)
    np.testing.assert_array_equal(one.predict(X), clone(model).partial_fit(X, Y).predict(X))


def test_grid_search():
    X, Y = data(200)
    search = GridSearchCV(
        StreamingKernelRidge(0.1, basis=20, random_state=0), {"gamma": [1e-4, 0.5]}, cv=3
    ).fit(X, Y)
    assert search.best_params_ == {"gamma": 0.5}


# --- the classifier


def blobs(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    names = np.array(["ash", "birch", "cedar"])
    label = rng.integers(3, size=n)
    return rng.normal(size=(n, 2)) * 0.4 + np.array([[0, 0], [2, 0], [0, 2]])[label], names[label]


def test_classes_are_columns():
    X, y = blobs()
    model = StreamingKernelClassifier(0.1, gamma=0.5, basis=20, random_state=0).fit(X, y)
    ridge = StreamingKernelRidge(0.1, gamma=0.5, basis=20, random_state=0)
    columns = ridge.fit(X, (y[:, None] == model.classes_).astype(float)).predict(X)
    np.testing.assert_allclose(model.decision_function(X), columns, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.classes_[columns.argmax(axis=1)])
    assert model.score(X, y) > 0.97


def test_two_classes():
    X, y = blobs()
    X, y = X[y != "cedar"], y[y != "cedar"]
    model = StreamingKernelClassifier(gamma=0.5, basis=20, random_state=0).fit(X, y)
    found = model.decision_function(X)
    assert found.shape == (len(X),)
    np.testing.assert_array_equal(model.predict(X), np.where(found > 0, "birch", "ash"))


def test_classifier_files_and_merge(tmp_path):
    X, y = blobs()
    model = StreamingKernelClassifier(0.1, gamma=0.5, basis=landmarks.Landmarks(X[:20]))
    classes = ["cedar", "ash", "birch", "yew"]  # one that never comes
    first = clone(model).partial_fit(X[:100], y[:100], classes=classes)
    second = clone(model).partial_fit(X[100:], y[100:], classes=classes)
    both = first.merge(second)
    whole = clone(model).partial_fit(X, y, classes=classes)
    np.testing.assert_allclose(both.decision_function(X), whole.decision_function(X), atol=1e-8)
    both.save(tmp_path / "trees")
    loaded = load(tmp_path / "trees")
    np.testing.assert_array_equal(loaded.predict(X), both.predict(X))
    assert list(loaded.classes_) == sorted(classes)
    with pytest.raises(ValueError, match="Cannot merge classifiers of the classes"):
        first.merge(clone(model).partial_fit(X, y, classes=["ash", "birch", "cedar"]))


@pytest.mark.parametrize("kind", ["list", "object", "pandas", "category"])
def test_labels_of_data_frames_are_saved(kind, tmp_path):
    X, names = blobs()
    labels: Any = {
        "list": list(names),
        "object": names.astype(object),
        "pandas": pd.Series(names),
        "category": pd.Series(names, dtype="category"),
    }[kind]
    model = StreamingKernelClassifier(gamma=0.5, basis=20, random_state=0).fit(X, labels)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert list(loaded.classes_) == list(model.classes_)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(
        loaded.partial_fit(X, labels).decision_function(X),
        model.partial_fit(X, labels).decision_function(X),
    )


def test_labels_that_were_not_announced():
    X, y = blobs()
    model = StreamingKernelClassifier(gamma=0.5, basis=20)
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        model.partial_fit(X, y)
    model.partial_fit(X, np.where(y == "cedar", "ash", y), classes=["ash", "birch"])
    with pytest.raises(ValueError, match=r"not announced.*cedar"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="differ from those of the first call"):
        model.partial_fit(X, y, classes=["ash", "cedar"])
    with pytest.raises(ValueError, match=r"1 class.*needs at least two"):
        StreamingKernelClassifier().fit(X, np.zeros(len(X), dtype=int))


def test_kernels_besides_rbf():
    X, y = load_digits(return_X_y=True)
    X = X[:600] / 16.0
    for kernel in (kernels.Polynomial(degree=2), kernels.Laplacian(), kernels.Matern(nu=1.5)):
        model = StreamingKernelClassifier(kernel=kernel, basis=100, random_state=0)
        assert model.fit(X[:500], y[:500]).score(X[500:], y[500:600]) > 0.85


@pytest.mark.parametrize("batch_size", [1, 64, 500])
def test_targets_stay_with_their_rows_when_the_points_take_a_better_order(batch_size):
    """A growing basis on sorted rows reads a block in pieces: targets must be cut with the rows."""
    t = np.linspace(0.0, 6.0, 200)
    X, y = np.column_stack([np.sin(t), np.cos(1.5 * t)]), np.sin(3 * t)
    model = StreamingKernelRidge(
        gamma=1.0, basis=landmarks.Everything(), alpha=1e-8, batch_size=batch_size
    )
    assert model.partial_fit(X, y).score(X, y) > 0.9999


def test_targets_whose_sums_would_overflow_later_are_refused_now():
    """Each call by itself was finite, the sum over several was not, and predictions were gone."""
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = StreamingKernelRidge(gamma=0.5, basis=landmarks.Landmarks(X[:5])).partial_fit(
        X, X[:, 0]
    )
    before = model.predict(X)
    for target, weight in ((1e150, 1.0), (1e100, 1e100)):
        with pytest.raises(ValueError, match="squares overflows"):
            model.partial_fit(X[:1], [target], sample_weight=[weight])
    np.testing.assert_array_equal(model.predict(X), before)


def test_public_members() -> None:
    """What a regression offers, and nothing of kernel PCA that it would have to refuse."""
    both = [
        *("fit", "partial_fit", "learn_one", "predict", "score", "merge"),
        *("new_stream", "set_score_request", "n_samples_seen_", "kernel_", "basis_points_"),
        *("alpha_", "target_coef_", "target_intercept_"),
    ]
    assert public_members(StreamingKernelRidge) == sorted([*both, *HELD_STREAM])
    more = ["classes_", "decision_function"]
    assert public_members(StreamingKernelClassifier) == sorted([*both, *more, *HELD_STREAM])


def test_gaps_are_an_error() -> None:
    X, Y = data()
    X[7, 1] = np.nan
    model = StreamingKernelRidge(basis=20, random_state=0)
    with pytest.raises(ValueError, match="NaN: row 7, column 1"):
        model.fit(X, Y)
    model.partial_fit(X, Y, on_bad_rows="skip")
    assert model.n_samples_seen_ == 299


def test_an_intercept_is_there_or_not() -> None:
    X, Y = data()
    with pytest.raises(ValueError, match="fit_intercept must be True or False"):
        StreamingKernelRidge(fit_intercept="paper").fit(X, Y)  # type: ignore[arg-type]


def test_merging_with_another_kind_is_refused() -> None:
    X, Y = data()
    model = StreamingKernelRidge(basis=20, random_state=0).fit(X, Y)
    with pytest.raises(TypeError, match="Only models of this library merge"):
        model.merge(KernelRidge())
