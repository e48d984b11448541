"""KernelNovelty: scores, limits that hold on new rows, columns behind a row, files, streams."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score

from kernelstream import KernelNovelty, StreamingKernelPCA, kernels, landmarks, load
from tests import samples
from tests.conftest import HELD_STREAM, public_members


def ring(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    t = rng.uniform(0, 2 * np.pi, size=n)
    return np.column_stack([np.cos(t), np.sin(t), t * 0]) + 0.1 * rng.normal(size=(n, 3))


@pytest.fixture(scope="module")
def model() -> KernelNovelty:
    return KernelNovelty(0.05, basis=60, random_state=0).fit(ring(3000))


BY_PLACE = "rows are held back by their place: others are when a row is repeated, or shuffled"


@samples.checks(
    [KernelNovelty(random_state=0), KernelNovelty(basis="everything", gamma=0.1, scale=None)],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": BY_PLACE
    },
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_the_middle_of_a_ring_is_new(model):
    middle, far, on = np.zeros(3), np.array([9.0, 9.0, 9.0]), np.array([1.0, 0.0, 0.0])
    assert model.predict([middle, far, on]).tolist() == [-1, -1, 1]
    scores = model.score_samples([middle, far, on])
    assert scores[2] > scores[0] and scores[2] > scores[1]
    decision = model.decision_function([middle, far, on])
    np.testing.assert_allclose(decision, scores - model.offset_)
    assert model.threshold_ == -model.offset_
    assert model.n_samples_seen_ == 3000 and model.n_held_back_ == pytest.approx(300, abs=2)


def test_the_error_is_the_variance_of_a_gaussian_process():
    """With every row a point and no centring of a wide mean, the equation of the docstring."""
    X = ring(80)
    model = KernelNovelty(gamma=0.3, basis="everything", scale=None, random_state=0).fit(X)
    components = model.stream_.components
    Z = components.coordinates(X)
    scores, variances = model.stream_.query(components.scores, X), components.variances
    share = variances / (variances + 1.0 / components.weight)
    outside = 1.0 - np.sum((Z + components.mean) ** 2, axis=1)
    expected = np.clip(outside, 0, None) + np.sum(Z**2, axis=1) - scores**2 @ share
    np.testing.assert_allclose(-model.score_samples(X), expected, atol=1e-10)
    missed = model.stream_.query(components.reconstruction_error, X)
    assert (-model.score_samples(X) >= missed - 1e-12).all()


def test_limits_hold_on_new_rows_and_would_not_on_learned_ones(model):
    """The share of new rows flagged is what was asked for; of the rows learned it is smaller."""
    new = ring(20_000, seed=1)
    assert np.mean(model.predict(new) == -1) == pytest.approx(0.05, abs=0.025)
    p = model.p_values(new)
    for level in (0.01, 0.1, 0.5):
        assert np.mean(p <= level) == pytest.approx(level, rel=0.6)
    # A wide table of few rows: errors of learned rows say nothing about new ones.
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 30))
    wide = KernelNovelty(0.1, random_state=0).fit(rows)
    fresh = wide.score_samples(rng.normal(size=(2000, 30)))
    assert np.mean(fresh < wide.offset_) == pytest.approx(0.1, abs=0.06)
    learned = np.quantile(wide.score_samples(rows), 0.1)
    assert np.mean(fresh < learned) > 0.2


def test_p_values_and_predictions_agree(model):
    new = ring(2000, seed=2)
    np.testing.assert_array_equal(model.p_values(new) <= 0.05, model.predict(new) == -1)


def test_fit_predict_is_fit_and_predict():
    X = ring(300)
    model = KernelNovelty(0.1, basis=30, random_state=0)
    np.testing.assert_array_equal(model.fit_predict(X), model.predict(X))


def test_outliers_among_the_rows_do_not_excuse_themselves():
    """Scattered outliers are learned with the rest, each near a point of its own."""
    rng = np.random.default_rng(0)
    X = np.concatenate([ring(380), rng.uniform(-3, 3, size=(20, 3))])
    truth = np.r_[np.zeros(380), np.ones(20)]
    model = KernelNovelty(0.05, random_state=0).fit(X)
    assert roc_auc_score(truth, -model.score_samples(X)) > 0.9
    missed = model.stream_.query(model.stream_.components.reconstruction_error, X)
    assert roc_auc_score(truth, missed) < 0.9  # without the share of one row


def test_malignant_cells_and_foreign_digits():
    X, y = load_breast_cancer(return_X_y=True)
    benign = X[y == 1]
    model = KernelNovelty(random_state=0).fit(benign[:200])
    test, truth = np.concatenate([benign[200:], X[y == 0]]), np.r_[np.zeros(157), np.ones(212)]
    assert roc_auc_score(truth, -model.score_samples(test)) > 0.94
    X, y = load_digits(return_X_y=True)
    model = KernelNovelty(random_state=0, scale=None).fit(X[y == 3][:100])
    rest = np.concatenate([X[y == 3][100:], X[y != 3]])
    truth = np.r_[np.zeros(np.sum(y == 3) - 100), np.ones(np.sum(y != 3))]
    assert roc_auc_score(truth, -model.score_samples(rest)) > 0.95


def test_the_column_behind_a_row():
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(2300, 3))
    X = factors @ rng.normal(size=(3, 10)) * np.geomspace(1, 1000, 10) + 0.0
    X += 0.1 * X.std(axis=0) * rng.normal(size=X.shape)
    model = KernelNovelty(random_state=0).fit(X[:2000])
    wrong, column = X[2000:].copy(), rng.integers(10, size=300)
    wrong[np.arange(300), column] += 3 * X.std(axis=0)[column]
    found = np.argmax(model.contributions(wrong), axis=1)
    assert np.mean(found == column) > 0.98
    far_out = np.abs(wrong - X[:2000].mean(axis=0)) / X.std(axis=0)
    assert np.mean(np.argmax(far_out, axis=1) == column) < 0.9


def test_the_same_rows_however_they_are_cut():
    X = ring(2500)
    whole = KernelNovelty(basis=30, random_state=0).partial_fit(X)
    cut = KernelNovelty(basis=30, random_state=0)
    for start, stop in ((0, 1), (1, 3), (3, 700), (700, 701), (701, 2500)):
        cut.partial_fit(X[start:stop])
    np.testing.assert_array_equal(whole.score_samples(X), cut.score_samples(X))
    assert whole.offset_ == cut.offset_
    one = KernelNovelty(basis=30, random_state=0)
    for x in X[:600]:
        one.learn_one(x)
    some = KernelNovelty(basis=30, random_state=0).partial_fit(X[:600])
    np.testing.assert_array_equal(one.score_samples(X), some.score_samples(X))


def test_a_row_that_is_only_held_back_moves_the_limit():
    """The stream is the same value before and after, and what was kept of it must not be."""
    model = KernelNovelty(0.1, basis=10, gamma=0.5, scale=None, random_state=0)
    model.partial_fit(ring(101))
    for row in ring(40, seed=3):
        before, offset = model.stream_, model.offset_
        model.partial_fit(50.0 * row[None, :])
        if model.stream_ is before:
            assert model.offset_ != offset
            return
    raise AssertionError("no row was held back")


def test_drift_is_followed_by_limits_too():
    rng = np.random.default_rng(0)
    model = KernelNovelty(0.05, basis=40, forgetting=0.998, gamma=0.3, scale=None, random_state=0)
    for step in range(40):
        model.partial_fit(rng.normal(size=(500, 2)) + 0.3 * step)
    now = rng.normal(size=(4000, 2)) + 0.3 * 39
    assert np.mean(model.predict(now) == -1) == pytest.approx(0.05, abs=0.04)
    assert (model.predict(rng.normal(size=(200, 2))) == -1).all()


def test_files_hold_what_was_held_back(model, tmp_path):
    path = tmp_path / "novelty.safetensors"
    model.save(path)
    loaded = load(path)
    new = ring(500, seed=5)
    np.testing.assert_array_equal(loaded.p_values(new), model.p_values(new))
    assert loaded.offset_ == model.offset_ and loaded.n_samples_seen_ == 3000
    first, second = KernelNovelty(basis=20, random_state=0).partial_fit(ring(700)), ring(900, 6)
    first.save(path)
    np.testing.assert_array_equal(
        load(path).partial_fit(second).p_values(new), first.partial_fit(second).p_values(new)
    )


def test_merged_models_know_the_rows_of_both():
    parameters: Any = {"basis": 40, "gamma": 0.5, "scale": None, "random_state": 0}
    a = KernelNovelty(0.05, **parameters).partial_fit(ring(2000))
    b = KernelNovelty(0.05, **parameters).partial_fit(ring(2000, seed=1) + 6.0)
    both = a.merge(b)
    assert both.n_samples_seen_ == 4000 and both.n_held_back_ == pytest.approx(400, abs=3)
    new = np.concatenate([ring(1000, 2), ring(1000, 3) + 6.0])
    assert np.mean(both.predict(new) == -1) == pytest.approx(0.05, abs=0.03)
    assert both.predict([[3.0, 3.0, 3.0]])[0] == -1
    with pytest.raises(TypeError, match="one kind"):
        a.merge(StreamingKernelPCA(2).fit(ring(50)))


def test_weights_reach_limits_too():
    X = np.concatenate([ring(1000), ring(1000, 1) * 3.0])
    weights = np.r_[np.ones(1000), np.full(1000, 1e-6)]
    model = KernelNovelty(0.05, basis=60, gamma=1.0, scale=None, random_state=0)
    model.fit(X, sample_weight=weights)
    assert np.mean(model.predict(ring(1000, 2)) == -1) == pytest.approx(0.05, abs=0.05)
    assert np.mean(model.predict(ring(1000, 3) * 3.0) == -1) > 0.9


def test_single_precision_and_names(model):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ring(400).astype(np.float32), columns=list("abc"))
    found = KernelNovelty(basis=20, random_state=0).fit(frame)
    assert list(found.feature_names_in_) == ["a", "b", "c"]
    assert found.score_samples(frame).dtype == np.float32
    with pytest.raises(ValueError, match="feature names"):
        found.predict(frame.rename(columns={"a": "z"}))


def test_what_is_refused():
    with pytest.raises(ValueError, match="alpha must be a number between 0 and 1"):
        KernelNovelty(0.0).fit(ring(50))
    with pytest.raises(TypeError, match="Sparse input is not supported"):
        KernelNovelty().fit(scipy.sparse.csr_matrix(ring(50)))
    with pytest.raises(NotFittedError, match="fit, partial_fit"):
        KernelNovelty().predict(ring(5))
    with pytest.raises(ValueError, match="No row was held back of the 1 "):
        KernelNovelty(scale=None).partial_fit(ring(1)).predict(ring(1))
    model = KernelNovelty(0.1, random_state=0).fit(ring(100))
    with pytest.raises(ValueError, match="alpha must be a number"):
        _ = model.set_params(alpha=2.0).offset_


def test_other_kernels_and_bases():
    cases: list[Any] = [
        {"kernel": "laplacian"},
        {"kernel": kernels.RBF(0.5), "basis": landmarks.Distance(nu=0.2)},
        {"kernel": "linear", "n_components": 2},
    ]
    for parameters in cases:
        model = KernelNovelty(random_state=0, **parameters).fit(ring(500))
        assert model.predict(10.0 + ring(20)).sum() == -20


def test_gaps_are_an_error() -> None:
    X = ring(600)
    X[7, 1] = np.nan
    with pytest.raises(ValueError, match="NaN: row 7, column 1"):
        KernelNovelty(basis=20, random_state=0).fit(X)
    model = KernelNovelty(basis=20, random_state=0).partial_fit(X, on_bad_rows="skip")
    assert model.n_samples_seen_ == 599
    with pytest.raises(ValueError, match="NaN"):
        model.predict(X)


def test_public_members() -> None:
    """What a detector offers, and nothing of kernel PCA that it would have to refuse."""
    own = [
        *("fit", "partial_fit", "learn_one", "fit_predict", "merge", "new_stream"),
        *("score_samples", "decision_function", "predict", "p_values", "explain", "contributions"),
        *("offset_", "threshold_", "n_held_back_", "n_samples_seen_"),
        *("kernel_", "basis_points_"),
    ]
    assert public_members(KernelNovelty) == sorted([*own, *HELD_STREAM])
