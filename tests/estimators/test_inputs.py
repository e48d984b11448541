"""What users give, at the edge of what is taken: shapes, types, weights, numbers that are large."""

from __future__ import annotations

from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
import scipy.sparse

from kernelstream import StreamingKernelPCA, StreamingKernelRidge, landmarks
from kernelstream.estimators import inputs
from kernelstream.estimators.streaming_kernel_pca import block_of_one

X = np.random.default_rng(0).normal(size=(30, 3))


def model(rows: Any = X, **options: Any) -> StreamingKernelPCA:
    given: dict[str, Any] = dict(gamma=0.3, basis="everything", random_state=0)
    return StreamingKernelPCA(2, **(given | options)).partial_fit(rows)


def test_rows_of_another_namespace_have_a_shape() -> None:
    one = inputs.first_rows(StreamingKernelPCA(), strict.asarray(X[:1]))
    assert one.X.shape == (1, 3)
    thin = inputs.first_rows(StreamingKernelPCA(), strict.asarray(X[:, :1]))
    assert thin.X.shape == (30, 1)
    for bad in (X[0], X[:0], X[:, :0], X[None]):
        with pytest.raises(ValueError, match=r"Expected rows of shape \(n, d\), got an array of"):
            inputs.first_rows(StreamingKernelPCA(), strict.asarray(bad))
    with pytest.raises(ValueError, match="Complex data not supported"):
        inputs.first_rows(StreamingKernelPCA(), strict.asarray(X + 1j))
    integers = inputs.first_rows(StreamingKernelPCA(), strict.asarray([[1, 2], [3, 4]]))
    assert integers.X.dtype == strict.float64
    single = inputs.first_rows(
        StreamingKernelPCA(), strict.astype(strict.asarray(X), strict.float32)
    )
    assert single.X.dtype == strict.float32
    learned = model(strict.asarray(X))
    assert learned.n_features_in_ == 3
    spoiled = X.copy()
    spoiled[2, 1] = np.nan
    for act in (learned.partial_fit, learned.transform):
        with pytest.raises(ValueError, match=r"Input X contains NaN or infinity; give finite"):
            act(strict.asarray(spoiled))
    with pytest.raises(ValueError, match="rows of array_api_strict and was given an array of"):
        learned.transform(X)


def test_names_of_a_frame_are_forgotten_with_rows_that_have_none() -> None:
    pandas = pytest.importorskip("pandas")
    learned = StreamingKernelPCA(2, gamma=0.3, basis="everything")
    learned.fit(pandas.DataFrame(X, columns=["a", "b", "c"]))
    assert list(learned.feature_names_in_) == ["a", "b", "c"]
    learned.fit(strict.asarray(X))
    assert not hasattr(learned, "feature_names_in_")


def test_the_number_of_features_is_that_of_the_stream() -> None:
    stream = model().stream_
    for act in (inputs.query_rows, inputs.check_rows):
        with pytest.raises(ValueError, match="X has 2 features, but StreamingKernelPCA is expecti"):
            act(stream, X[:, :2])
    other = StreamingKernelRidge()
    with pytest.raises(ValueError, match="4 features, but StreamingKernelRidge is expecting 3"):
        inputs.query_rows(stream, np.zeros((2, 4)), other)
    spoiled = np.full((1, 3), np.nan)
    with pytest.raises(ValueError, match="NaN"):
        inputs.query_rows(stream, spoiled)
    assert inputs.query_rows(stream, spoiled, check_finite=False).shape == (1, 3)
    with pytest.raises(ValueError, match="NaN"):
        inputs.check_rows(stream, spoiled)
    assert inputs.check_rows(stream, X[:2].astype("f4")).X.dtype == np.float64
    csr = inputs.query_rows(stream, scipy.sparse.csc_matrix(X))
    assert csr.format == "csr"


def test_block_of_one_takes_one_row_of_any_kind() -> None:
    for row in ([1, 2, 3], X[0], X[:1], scipy.sparse.csr_matrix(X[:1]), strict.asarray(X[0])):
        assert block_of_one(row).shape == (1, 3)
    with pytest.raises(ValueError, match=r"Expected one row, got an array of shape \(2, 3\)"):
        block_of_one([[1.0, 2.0, 3.0]] * 2)
    single = model(X.astype(np.float32))
    for act in (single.learn_one, single.transform_one):
        with pytest.raises(ValueError, match="X has 2 features, but StreamingKernelPCA is expecti"):
            act([1.0, 2.0])
        for spoiled in (np.nan, np.inf):
            with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
                act([1.0, spoiled, 0.0])
        with pytest.raises(ValueError, match="Complex data"):
            act([1.0, 2.0, 1j])
    assert single.transform_one([1, 2, 3]).dtype == np.float32
    assert single.transform_one(scipy.sparse.csr_matrix(X[:1])).dtype == np.float32
    foreign = model(strict.asarray(X))
    assert foreign.transform_one(strict.asarray(X[0])).shape == (2,)


@pytest.mark.parametrize("kind", ["array", "sparse", "fortran"])
def test_rows_too_large_for_their_squares_are_not_learned(kind: str) -> None:
    """Four times the squared norm has to be a number: distances of two such rows are."""
    containers: dict[str, Any] = {
        "array": np.asarray,
        "sparse": scipy.sparse.csr_matrix,
        "fortran": np.asfortranarray,
    }
    largest = np.sqrt(np.finfo(float).max / 4.0)
    small = np.zeros((2, 3))
    small[1, 2] = 0.999 * largest
    fine = inputs.require_summable(containers[kind](small))
    assert fine.shape == (2, 3)
    with pytest.raises(ValueError, match="X has rows so large that their squared norm overflows f"):
        inputs.require_summable(containers[kind](small * 1.002))
    # many rows, each small enough
    many = np.full((40, 1), 0.9 * largest)
    inputs.require_summable(containers[kind](many))
    with pytest.raises(ValueError, match="contains NaN"):
        inputs.require_summable(containers[kind](np.array([[1.0], [np.nan]])))


def test_a_large_single_row_may_be_asked_about_but_not_learned() -> None:
    large = [1e154, 0.0, 0.0]
    learner = model(kernel="linear", gamma=None)
    assert learner.transform_one(large).shape == (2,)
    with pytest.raises(ValueError, match="so large that their squared norm overflows"):
        learner.learn_one(large)
    with pytest.raises(ValueError, match="so large that their squared norm overflows"):
        learner.learn_one(scipy.sparse.csr_matrix([large]))
    assert learner.n_samples_seen_ == 30


def test_weights_are_numbers_of_rows() -> None:
    np.testing.assert_array_equal(inputs.checked_weights(2, 3), [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(inputs.checked_weights([0, 1, 2], 3), [0.0, 1.0, 2.0])
    np.testing.assert_array_equal(inputs.checked_weights(strict.asarray([1.0, 2.0]), 2), [1.0, 2.0])
    for bad, words in (
        ([1.0, 2.0], r"sample_weight has shape \(2,\): expected \(3,\)"),
        ([[1.0, 2.0, 3.0]], r"sample_weight has shape \(1, 3\)"),
        ([1.0, np.nan, 1.0], "sample_weight contains NaN or infinity"),
        ([1.0, -1e-300, 1.0], "sample_weight has negative numbers"),
        ([1.0, 1j, 1.0], "Complex data"),
    ):
        with pytest.raises(ValueError, match=words):
            inputs.checked_weights(bad, 3)
    kept = inputs.first_rows(StreamingKernelPCA(), X[:4], [1.0, 0.0, 2.0, 0.0])
    np.testing.assert_array_equal(kept.X, X[[0, 2]])
    np.testing.assert_array_equal(kept.weights, [1.0, 2.0])
    assert inputs.first_rows(StreamingKernelPCA(), X[:4]).weights is None


def test_scores_have_a_column_for_each_component() -> None:
    learned = model()
    stream = learned.stream_
    scores = learned.transform(X[:1])
    assert inputs.given_scores(stream, scores).shape == (1, 2)
    assert inputs.given_scores(stream, [[1, 2]]).dtype == np.float64
    assert inputs.given_scores(stream, scores.astype("f4")).dtype == np.float32
    for bad in (scores[0], scores[:, :1], np.zeros((1, 3)), np.zeros((0, 2))):
        with pytest.raises(ValueError, match=r"Expected scores of shape \(n, 2\), one column for"):
            inputs.given_scores(stream, bad)
    with pytest.raises(ValueError, match="The scores contain NaN or infinity"):
        inputs.given_scores(stream, [[np.inf, 0.0]])


def test_rows_stay_in_the_namespace_of_the_first() -> None:
    stream = model(basis=landmarks.Landmarks(X[:5])).stream_
    with pytest.raises(ValueError, match=r"numpy and was given an array of array_api_strict: conv"):
        inputs.query_rows(stream, strict.asarray(X))


def test_sparse_rows_name_each_entry_once() -> None:
    """Two entries in one place are their sum, wherever rows come from."""
    twice = scipy.sparse.csr_matrix(([1.0, 2.0, 5.0], [1, 1, 0], [0, 3]), shape=(1, 3))
    learned = model()
    for found in (
        inputs.first_rows(StreamingKernelPCA(), twice).X,
        inputs.check_rows(learned.stream_, twice, estimator=learned).X,
        inputs.query_rows(learned.stream_, twice, learned),
        inputs.query_rows(learned.stream_, twice),
    ):
        np.testing.assert_array_equal(found.data, [5.0, 3.0])
        np.testing.assert_array_equal(found.indices, [0, 1])
