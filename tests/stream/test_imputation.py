"""Missing values of rows that a stream learns: closer to the truth than means, by the two laws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import array_api_strict
import numpy as np
import pytest
import scipy.sparse

from kernelstream import StreamingKernelPCA, landmarks, load
from kernelstream.kernels import RBF, Categorical, On
from kernelstream.stream.imputation import Imputation, ImputationState
from kernelstream.stream.scaling import Standard
from kernelstream.stream.state import Rows

RNG = np.random.default_rng(0)
WHOLE = RNG.normal(size=(1600, 3)) @ RNG.normal(size=(3, 10)) + 0.3 * RNG.normal(size=(1600, 10))
WHOLE *= [1.0, 20.0, 0.1, 1.0, 5.0, 1.0, 1.0, 300.0, 1.0, 1.0]
GAPS = RNG.random(WHOLE.shape) < 0.1
ROWS = np.where(GAPS, np.nan, WHOLE)


def model(**options: Any) -> StreamingKernelPCA:
    usual: dict[str, Any] = dict(basis=60, scale=Imputation("standard"), random_state=0)
    return StreamingKernelPCA(0.95, **(usual | options))


def filled(fitted: StreamingKernelPCA, X: np.ndarray = ROWS) -> np.ndarray:
    scaler = fitted.stream_.units
    return np.asarray(scaler.undo(scaler.apply(X)))


def error(found: np.ndarray, truth: np.ndarray = WHOLE, gaps: np.ndarray = GAPS) -> float:
    apart = (found - truth[: len(found)]) / truth.std(axis=0)
    return float(np.sqrt(np.mean(apart[gaps[: len(found)]] ** 2)))


@pytest.mark.parametrize("how", ["fit", "partial_fit"])
def test_local_means_are_better_than_means_and_the_model_repairs_better_than_both(how: str) -> None:
    fitted = getattr(model(), how)(ROWS)
    means = np.where(GAPS, np.nanmean(ROWS, axis=0), ROWS)
    found, repaired = error(filled(fitted)), error(fitted.repair(ROWS[:300]))
    assert found < 0.65 * error(means) and repaired < 0.8 * found
    assert np.allclose(filled(fitted)[~GAPS], WHOLE[~GAPS])


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("basis", [30, landmarks.Distance(max_points=30)])
def test_with_other_kernels_and_bases(kernel: str, basis: Any) -> None:
    fitted = model(kernel=kernel, basis=basis).fit(ROWS[:900])
    assert error(filled(fitted, ROWS[:900])) < 0.8


def test_queries_fill_as_learning_does() -> None:
    fitted = model().fit(ROWS)
    same = filled(fitted)
    assert np.allclose(fitted.transform(ROWS), fitted.transform(same), atol=1e-9)
    errors = fitted.reconstruction_error(ROWS)
    assert np.allclose(errors, fitted.reconstruction_error(same), atol=1e-9)
    assert np.isfinite(fitted.inverse_transform(fitted.transform(ROWS[:50]))).all()
    assert np.allclose(fitted.transform_one(ROWS[0]), fitted.transform(ROWS[:1])[0])
    assert fitted.certificate_.filled and "as they were imputed" in str(fitted.certificate_)


def test_what_is_learned_are_the_filled_rows() -> None:
    """The certificate is one of them: the same model comes from rows that were filled before."""
    fitted = model(basis=landmarks.Landmarks(WHOLE[:60]), kernel=RBF(gamma=0.05)).fit(ROWS)
    scaler = fitted.stream_.units
    again = StreamingKernelPCA(
        0.95, kernel=RBF(gamma=0.05), basis=landmarks.Landmarks(scaler.apply(WHOLE[:60]))
    ).fit(scaler.apply(ROWS))
    assert np.allclose(fitted.explained_variance_, again.explained_variance_, rtol=1e-9)


@pytest.mark.parametrize("scale", [None, "standard", "auto"])
@pytest.mark.parametrize("how", ["fit", "partial_fit"])
def test_without_gaps_nothing_changes_not_a_bit(how: str, scale: str | None) -> None:
    with_it, without = model(scale=Imputation(scale), basis=40), model(scale=scale, basis=40)
    (
        getattr(with_it, how)(WHOLE / WHOLE.std(axis=0)),
        getattr(without, how)(WHOLE / WHOLE.std(axis=0)),
    )
    assert np.array_equal(with_it.dual_coef_, without.dual_coef_)


def test_the_same_model_however_rows_are_cut_and_stored(tmp_path: Path) -> None:
    whole = model(basis=20).partial_fit(ROWS)
    cut = model(basis=20)
    for rows in np.split(ROWS, [3, 400, 700, 701, 1100, 1500]):
        cut.partial_fit(rows)
        cut.save(tmp_path / "m.safetensors")
        cut = load(tmp_path / "m.safetensors")
        cut.transform(ROWS[:5])  # a query changes nothing
    assert np.array_equal(whole.dual_coef_, cut.dual_coef_)


def test_a_filling_model_repairs() -> None:
    fitted = model().fit(ROWS)
    found = fitted.repair(ROWS[:300])
    assert np.isfinite(found).all() and error(found) < 0.5
    assert np.array_equal(found[~GAPS[:300]], ROWS[:300][~GAPS[:300]])


def test_rows_with_gaps_cannot_be_taken_back() -> None:
    fitted = model(basis=landmarks.Landmarks(WHOLE[:20])).partial_fit(ROWS)
    whole = ROWS[~GAPS.any(axis=1)][:5]
    with pytest.raises(ValueError, match="Rows with gaps cannot be removed"):
        fitted.remove(ROWS[:50])
    assert fitted.remove(whole).n_samples_seen_ == len(ROWS) - 5


def test_codes_are_not_averaged() -> None:
    codes = np.column_stack([ROWS[:800, 0], RNG.integers(0, 3, size=800)])
    kernel = On([0], RBF(gamma=1.0)) * On([1], Categorical())
    fitted = model(kernel=kernel, scale=Imputation()).fit(codes)
    assert np.isfinite(fitted.transform(codes)).all()


# -- local means

MEAN, DEVIATION = np.array([1.0, -2.0, 0.5]), np.array([2.0, 0.5, 3.0])


def filling(n: int = 40) -> ImputationState:
    examples = np.random.default_rng(3).normal(size=(n, 3))
    return ImputationState(MEAN, DEVIATION, np.array([1.0, 2.0, 0.5]), examples)


@pytest.mark.parametrize("n", [3, 40])
def test_gaps_are_filled_by_rows_like_theirs(n: int) -> None:
    """The mean is as wide as the fifth nearest is away, in units of the columns that are there."""
    known = filling(n)
    row = np.array([0.3, np.nan, -0.4])
    there = [0, 2]
    apart = (((known.examples - row) / known.unit)[:, there] ** 2).sum(axis=1)
    weights = np.exp(-apart / np.sort(apart)[min(5, n) - 1])
    given = np.array([row, [1.0, 2.0, 3.0], [np.nan] * 3]) * DEVIATION + MEAN
    filled = known.apply(given)
    np.testing.assert_allclose(known.undo(filled)[1], given[1])
    np.testing.assert_allclose(filled[0, there], row[there])
    assert filled[0, 1] == pytest.approx(weights @ known.examples[:, 1] / weights.sum())
    np.testing.assert_allclose(filled[1], [1.0, 2.0, 3.0])
    np.testing.assert_allclose(filled[2], known.examples.mean(axis=0))  # nothing is known


def test_numbers_of_rows_with_gaps() -> None:
    """Those of the values that are there; distances are in units of deviations, after scaling."""
    X = np.random.default_rng(10).normal(size=(300, 3)) * [0.2, 5.0, 0.0] + [1.0, 2.0, 3.0]
    X[::3, 0] = np.nan
    mean, deviation = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    deviation[2] = 1.0  # a constant column keeps its unit
    plain, scaled = Imputation().measure(Rows(X)), Imputation(Standard()).measure(Rows(X))
    np.testing.assert_array_equal([plain.mean, plain.deviation], [[0.0] * 3, [1.0] * 3])
    np.testing.assert_allclose(plain.unit, deviation)
    np.testing.assert_allclose([scaled.mean, scaled.deviation], [mean, deviation])
    np.testing.assert_allclose(scaled.unit, 1.0)
    np.testing.assert_allclose(scaled.examples, (plain.examples - mean) / deviation, atol=1e-12)


def test_gaps_are_filled_in_numpy_arrays_only() -> None:
    with pytest.raises(ValueError, match="NumPy arrays only"):
        filling().apply(array_api_strict.asarray(np.ones((2, 3))))
    with pytest.raises(ValueError, match="needs dense rows"):
        filling().apply(scipy.sparse.csr_matrix(np.eye(3)))


def test_a_row_that_is_an_example_is_filled_by_it() -> None:
    """Five of them are alike: their distance, zero, is no width to divide by."""
    examples = np.vstack([np.tile([1.0, 2.0, 3.0], (5, 1)), filling().examples])
    known = ImputationState(np.zeros(3), np.ones(3), np.ones(3), examples)
    np.testing.assert_allclose(known.apply(np.array([[1.0, np.nan, 3.0]]))[0, 1], 2.0)


def test_examples_are_the_rows_with_the_fewest_gaps_spread_over_all() -> None:
    X = np.random.default_rng(4).normal(size=(1200, 2))
    X[::2, 0] = np.nan
    whole = Imputation().measure(Rows(X)).examples
    assert 400 < len(whole) <= 500 and np.isin(whole[:, 1], X[1::2, 1]).all()
    places = np.flatnonzero(np.isin(X[:, 1], whole[:, 1]))
    assert places[0] < 10 and places[-1] > 1190
    few = Imputation().measure(Rows(X[:30])).examples  # with their gaps at the mean
    assert len(few) == 30 and np.isfinite(few).all()
    np.testing.assert_allclose(few[::2, 0], np.nanmean(X[:30, 0]))
