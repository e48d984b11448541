"""Gaps that are filled and entries that are replaced: against the least squares they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from kernelstream import StreamingKernelPCA
from kernelstream.preimages.imputation import repair

RNG = np.random.default_rng(0)


def subspace(d=12, r=3, seed=1):
    """A projector on r directions, and points in its range."""
    rng = np.random.default_rng(seed)
    V, _ = np.linalg.qr(rng.normal(size=(d, r)))
    return V, rng.normal(size=(60, r)) @ V.T


def test_gaps_of_a_linear_model_are_filled_by_least_squares():
    V, points = subspace()
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(20, 3)) @ V.T + 0.05 * rng.normal(size=(20, 12))
    gaps = rng.random(rows.shape) < 0.3
    given = np.where(gaps, np.nan, rows)
    found = repair(given, lambda Z: Z @ V @ V.T, points, max_iter=3000, tol=1e-10)
    for row, gap, x, model in zip(rows, gaps, found.X, found.model, strict=True):
        scores = np.linalg.lstsq(V[~gap], row[~gap], rcond=None)[0]
        np.testing.assert_allclose(model, V @ scores, atol=1e-6)
        np.testing.assert_array_equal(x[~gap], row[~gap])
        np.testing.assert_allclose(x[gap], (V @ scores)[gap], atol=1e-6)
    assert found.converged.all()


def test_a_mask_says_the_same_as_nan():
    V, points = subspace()
    rows, gaps = points[:5] + 0.1, RNG.random((5, 12)) < 0.3
    by_mask = repair(rows, lambda Z: Z @ V @ V.T, points, gaps)
    by_nan = repair(np.where(gaps, np.nan, rows), lambda Z: Z @ V @ V.T, points)
    np.testing.assert_array_equal(by_mask.X, by_nan.X)
    one_for_all = repair(rows, lambda Z: Z @ V @ V.T, points, gaps[0])
    np.testing.assert_array_equal(one_for_all.X[0], by_mask.X[0])


def test_rows_without_gaps_are_projected_once_and_stay():
    V, points = subspace()
    rows = points[:4] + 0.1
    calls = []

    def project(Z):
        calls.append(len(Z))
        return Z @ V @ V.T

    found = repair(rows, project, points)
    assert calls == [4]
    np.testing.assert_array_equal(found.X, rows)
    np.testing.assert_allclose(found.model, rows @ V @ V.T)


def test_a_row_that_has_nothing_becomes_the_models_own():
    V, points = subspace()
    found = repair(np.full((1, 12), np.nan), lambda Z: Z @ V @ V.T, points)
    np.testing.assert_allclose(found.X[0], points.mean(axis=0), atol=1e-12)


def test_wild_entries_are_found_and_replaced():
    V, points = subspace(d=40)
    rng = np.random.default_rng(3)
    clean = rng.normal(size=(30, 3)) @ V.T
    wild = rng.random(clean.shape) < 0.2
    given = np.where(wild, clean + rng.choice([-3.0, 3.0], clean.shape), clean)
    given += 0.01 * rng.normal(size=clean.shape)
    found = repair(given, lambda Z: Z @ V @ V.T, points, loss="robust")
    assert found.trust[wild].max() < 0.01 and found.trust[~wild].mean() > 0.7
    plain = given @ V @ V.T
    error, of_plain = np.abs(found.X - clean).max(), np.abs(plain - clean).max()
    assert error < 0.1 < 0.5 < of_plain


def test_units_of_columns_decide_nothing():
    """A robust repair of rows in other units is the repair in these units."""
    V, points = subspace(d=30)
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(6, 3)) @ V.T
    rows[:, 4] += 2.0
    unit = np.ones(30)
    unit[7] = 1.0 + 1e-3  # a little: the floor of a unit is in common units
    P = V @ V.T
    plain = repair(rows, lambda Z: Z @ P, points, loss="robust")
    other = repair(rows * unit, lambda Z: (Z / unit) @ P * unit, points * unit, loss="robust")
    np.testing.assert_allclose(other.X / unit, plain.X, atol=1e-3)


@pytest.mark.parametrize(
    ("mask", "says"),
    [(np.zeros((2, 3)), "bool"), (np.zeros((3, 2), dtype=bool), r"shape \(2, 3\) or \(3,\)")],
)
def test_a_mask_of_another_kind_is_refused(mask, says):
    with pytest.raises(ValueError, match=says):
        repair(np.zeros((2, 3)), lambda Z: Z, np.ones((4, 3)), mask)


def test_a_loss_that_is_none():
    with pytest.raises(ValueError, match="loss must be one of"):
        repair(np.zeros((2, 3)), lambda Z: Z, np.ones((4, 3)), loss="huber")


@pytest.fixture(scope="module")
def digits():
    X = load_digits().data / 16.0
    model = StreamingKernelPCA(60, basis=150, random_state=0).fit(X[:1500])
    return model, X[1500:1600]


def test_blocks_of_digits_are_filled_in(digits):
    model, X = digits
    gaps = np.zeros((8, 8), dtype=bool)
    gaps[2:5, 3:6] = True
    hidden = gaps.ravel()
    filled = model.repair(np.where(hidden, np.nan, X))
    np.testing.assert_array_equal(filled[:, ~hidden], X[:, ~hidden])
    error = np.mean((filled - X)[:, hidden] ** 2)
    assert error < 0.5 * np.var(X[:, hidden], axis=0).mean()


def test_salt_and_pepper_on_digits(digits):
    model, X = digits
    rng = np.random.default_rng(5)
    wild = rng.random(X.shape) < 0.1
    given = np.where(wild, rng.integers(0, 2, X.shape), X)
    report = model.repair(given, loss="robust", return_report=True)
    error = np.mean((report.X - X) ** 2)
    assert error < 0.85 * np.mean((model.inverse_transform(model.transform(given)) - X) ** 2)
    assert error < 0.5 * np.mean((given - X) ** 2)


def test_scaled_models_single_precision_and_frames(digits):
    _, X = digits
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(1000.0 * X.astype(np.float32), columns=[f"p{i}" for i in range(64)])
    model = StreamingKernelPCA(30, basis=50, scale="standard", random_state=0).fit(frame)
    frame.iloc[:, 20] = np.nan
    filled = model.repair(frame)
    assert filled.dtype == np.float32 and np.isfinite(filled).all()
    assert np.corrcoef(filled[:, 20], X[:, 20])[0, 1] > 0.5


def test_infinity_is_refused(digits):
    model, X = digits
    with pytest.raises(ValueError, match="infinity"):
        model.repair(np.where(X > 0.9, np.inf, X))


def test_a_query_changes_nothing(digits):
    model, X = digits
    before = model.transform(X)
    model.repair(np.where(X > 0.9, np.nan, X), loss="robust")
    np.testing.assert_array_equal(model.transform(X), before)
