"""Buffered rows: `learn_one` is `partial_fit` of one row, and copies stay as they are."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, kernels, landmarks, papers, serialization
from kernelstream.stream.state import MOST_OF_A_ROW, PIECE_ROWS, Buffer, Rows

D = 3


def rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, D))


def model(batch_size: int = 50, kernel: Any = None, **options: Any) -> StreamingKernelPCA:
    chain: dict[str, Any] = dict(
        kernel=kernel or kernels.RBF(0.1), basis=landmarks.Landmarks(rows(9, seed=1))
    )
    return StreamingKernelPCA(2, batch_size=batch_size, random_state=0, **{**chain, **options})


def to_bytes(estimator: StreamingKernelPCA) -> bytes:
    return serialization.to_bytes({"model": estimator.stream_.for_file()})


def one_by_one(estimator: StreamingKernelPCA, X: np.ndarray) -> StreamingKernelPCA:
    for x in X:
        estimator.learn_one(x)
    return estimator


@pytest.mark.parametrize("tracker", ["covariance", papers.Hebbian(), papers.RLS()], ids=str)
@pytest.mark.parametrize("batch_size", [1, 2, 50, 3072])
def test_any_number_of_single_rows_is_partial_fit(tracker: Any, batch_size: int) -> None:
    X = rows(2108)
    n = 260 if batch_size < 50 else len(X)
    single = model(batch_size, tracker=tracker)
    for seen in (1, 2, 49, 50, 51, 120, n):
        one_by_one(single, X[single.n_samples_seen_ if seen > 1 else 0 : seen])
        assert single.n_samples_seen_ == seen
        assert to_bytes(single) == to_bytes(
            model(batch_size, tracker=tracker).partial_fit(X[:seen])
        )


def test_a_model_that_was_handed_out_stays_as_it_is() -> None:
    X = rows(120)
    stream = one_by_one(model().partial_fit(X[:60]), X[60:75])
    value, content = stream.stream_, to_bytes(stream)
    assert stream.stream_ is value
    scores = stream.transform(X)
    one_by_one(stream, X[75:110])  # beyond the end of the block
    assert serialization.to_bytes({"model": value.for_file()}) == content
    assert value.n_rows == 75 and stream.n_samples_seen_ == 110
    assert np.abs(stream.transform(X) - scores).max() > 0


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_a_copy_goes_its_own_way(duplicate: Any) -> None:
    X = rows(90)
    stream = one_by_one(model().partial_fit(X[:60]), X[60:70])
    other = duplicate(stream)
    assert to_bytes(other) == to_bytes(stream)
    one_by_one(stream, X[70:80])
    one_by_one(other, X[80:90])
    assert to_bytes(stream) == to_bytes(model().partial_fit(X[:80]))
    assert to_bytes(other) == to_bytes(model().partial_fit(np.concatenate([X[:70], X[80:90]])))


def test_rows_in_other_forms() -> None:
    X = np.round(rows(40), 2).astype(np.float32).astype(float)  # exact in both types
    forms: list[Any] = [
        lambda x: x,
        list,
        tuple,
        lambda x: x[None, :],
        lambda x: x.astype(np.float32),
        lambda x: np.repeat(x, 2)[::2],
        lambda x: x.astype(">f8"),
        lambda x: x.view(np.matrix),
    ]
    stream = model().partial_fit(X[:8])
    for i, x in enumerate(X[8:]):
        stream.learn_one(forms[i % len(forms)](x))
    assert to_bytes(stream) == to_bytes(model().partial_fit(X))


BAD: dict[str, tuple[Any, str]] = {
    "NaN": (np.array([1.0, np.nan, 0.0]), "contains NaN"),
    "infinity": (np.array([1.0, np.inf, 0.0]), "contains infinity"),
    "large": (np.array([1e160, 0.0, 0.0]), "overflows float64"),
    "nearly too large": (np.array([8e153, 0.0, 0.0]), "overflows float64"),
    "narrow": (np.zeros(2), "2 features, but .* expecting 3 features"),
    "rows": (np.zeros((2, 3)), "Expected one row"),
    "complex": (np.zeros(3) + 1j, "Complex"),
    "words": (np.array(["a", "b", "c"]), "could not convert"),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("learned", [60, 70, 99], ids=["no row", "some rows", "last of a block"])
def test_a_bad_row_is_refused_at_once(bad: str, learned: int) -> None:
    X = rows(120)
    x, words = BAD[bad]
    stream = one_by_one(model().partial_fit(X[:60]), X[60:learned])
    before = to_bytes(stream)
    with pytest.raises(ValueError, match=words):
        stream.learn_one(x)
    assert to_bytes(stream) == before
    one_by_one(stream, X[learned:])
    assert to_bytes(stream) == to_bytes(model().partial_fit(X))


def test_a_single_precision_row_whose_square_overflows() -> None:
    X = rows(60).astype(np.float32)
    stream = one_by_one(model().partial_fit(X[:30]), X[30:40])
    before = to_bytes(stream)
    for size in (1.2e19, 1e30):  # |x|² fits float32, |x − y|² may not; neither does
        with pytest.raises(ValueError, match="overflows float32"):
            stream.learn_one(np.full(D, size / np.sqrt(D), np.float32))
    assert to_bytes(stream) == before


def test_a_block_that_fails_leaves_the_rows_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    X = rows(110)
    stream = one_by_one(model().partial_fit(X[:60]), X[60:99])
    before, held = to_bytes(stream), stream.stream_

    def refuse(kernel: Any, X: Any, Y: Any) -> Any:
        raise ValueError("not now")

    with monkeypatch.context() as patched:
        patched.setattr(kernels.RBF, "block", refuse)
        for _ in range(2):
            with pytest.raises(ValueError, match="not now"):
                stream.learn_one(X[99])
            assert stream.stream_ is held and to_bytes(stream) == before
    one_by_one(stream, X[99:])
    assert to_bytes(stream) == to_bytes(model().partial_fit(X))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_large_energies(dtype: Any) -> None:
    """A row may wait while sums over any number of such rows are finite, and no longer."""
    X = (rows(60) * 3.0).astype(dtype)
    kernel = kernels.Polynomial(degree=3, gamma=1.0)
    most = min(float(np.finfo(dtype).max), MOST_OF_A_ROW)
    largest = most ** (1 / 6) / np.sqrt(D)  # (γ|x|²)³ is about to be too large
    X[33] = 0.5 * largest
    options: dict[str, Any] = dict(kernel=kernel, center=False)
    stream = one_by_one(model(100, **options).partial_fit(X[:20]), X[20:])
    assert to_bytes(stream) == to_bytes(model(100, **options).partial_fit(X))
    before = to_bytes(stream)
    with pytest.raises(ValueError, match=r"not finite|overflows"):
        stream.learn_one(np.full(D, 2.0 * largest, dtype))
    assert to_bytes(stream) == before


def test_the_start_of_a_stream() -> None:
    """Rows that wait for the start, with scaling and width still to be decided."""
    X = rows(620)
    options: dict[str, Any] = dict(kernel=kernels.RBF(), basis=12, scale="standard")
    single = one_by_one(model(**options), X[:499])
    assert single.stream_.state is None
    one_by_one(single, X[499:])
    assert to_bytes(single) == to_bytes(model(**options).partial_fit(X))


def test_rows_that_wait_in_one_piece() -> None:
    X, w, Y = rows(6), np.arange(1.0, 7.0), rows(6, seed=2)[:, :1]
    empty = Buffer()
    assert len(empty) == 0 and empty.in_one_piece() is empty and empty.append(Rows(X[:0])) is empty
    buffer = empty.append(Rows(X[:2], None, Y[:2])).append(Rows(X[2:5], w[2:5], Y[2:5]))
    assert len(buffer) == 5 and len(buffer.blocks) == 2
    joined = buffer.join(Rows(X[5:], None, Y[5:]))
    np.testing.assert_array_equal(joined.X, X)
    np.testing.assert_array_equal(joined.weights, [1.0, 1.0, 3.0, 4.0, 5.0, 1.0])
    np.testing.assert_array_equal(joined.targets, Y)
    plain = empty.append(Rows(X[:2])).append(Rows(X[2:], np.ones(4)))
    assert plain.join().weights is not None and plain.join().targets is None
    assert plain.in_one_piece().blocks[0].weights is None
    assert Buffer((Rows(X[:2]), Rows(X[2:]))).join().weights is None
    # copies: what the caller does with its arrays does not matter
    kept = empty.append(Rows(X, w, Y)).blocks[0]
    for ours, theirs in ((kept.X, X), (kept.weights, w), (kept.targets, Y)):
        assert not np.shares_memory(ours, theirs)


def test_append_of_single_rows_joins_them_in_pieces() -> None:
    """Appending takes the same time for the thousandth row as for the second."""
    X = np.arange(2.0 * 100).reshape(100, 2)
    buffer = Buffer().append(Rows(X[:3]))
    for i in range(3, 100):
        buffer = buffer.append(Rows(X[i : i + 1], np.full(1, float(i))))
    assert len(buffer) == 100 and len(buffer.blocks) < 2 * PIECE_ROWS
    rows = buffer.join()
    np.testing.assert_array_equal(rows.X, X)
    assert rows.weights is not None
    np.testing.assert_array_equal(rows.weights, [1.0, 1.0, 1.0, *range(3, 100)])
