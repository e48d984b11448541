"""Streams as values: computed once, gone when they are; and what waits can always be folded."""

from __future__ import annotations

import contextlib
import copy
import gc
import pickle
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from kernelstream import StreamingKernelPCA, StreamingKernelRidge, bases, kernels
from kernelstream.estimators.base import set_stream
from kernelstream.stream.state import Rows
from kernelstream.stream.stream import Stream


@pytest.fixture
def no_search_for_circles() -> Iterator[None]:
    """Let only what nothing refers to be freed."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def rows(n: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, 3))


def model() -> StreamingKernelPCA:
    return StreamingKernelPCA(2, gamma=0.3, basis=12, batch_size=64, random_state=0)


def ask(fitted: StreamingKernelPCA) -> None:
    fitted.transform(rows(3))
    fitted.transform_one(rows(1)[0])
    assert fitted.certificate_.eigenvalue_intervals.shape == (2, 2)
    assert fitted.eigenvalues_.shape == (2,)


@pytest.mark.parametrize("n", [640, 700, 40], ids=["block's end", "rows wait", "before the start"])
@pytest.mark.parametrize("verb", ["fit", "partial_fit"])
def test_a_stream_goes_when_it_is_no_longer_held(
    n: int, verb: str, no_search_for_circles: None
) -> None:
    """Its matrices would otherwise wait for Python's search for circles."""
    fitted = getattr(model(), verb)(rows(n))
    ask(fitted)
    old = weakref.ref(fitted.stream_)
    fitted.partial_fit(rows(70))
    assert old() is None
    ask(fitted)
    last = weakref.ref(fitted.stream_)
    del fitted
    assert last() is None


def test_so_does_that_of_a_regression(no_search_for_circles: None) -> None:
    X = rows(700)
    fitted = StreamingKernelRidge(gamma=0.3, basis=12, random_state=0).fit(X, X[:, 0])
    fitted.predict(X[:3])
    last = weakref.ref(fitted.stream_)
    del fitted
    assert last() is None


def computed(stream: Stream) -> tuple[Stream, object]:
    return stream.caught_up, stream.components


@pytest.mark.parametrize("n", [640, 700, 40])
def test_what_queries_see_is_computed_once(n: int) -> None:
    stream = model().partial_fit(rows(n)).stream_
    assert all(a is b for a, b in zip(computed(stream), computed(stream), strict=True))
    assert stream.caught_up.n_rows == stream.settled.n_rows == n
    assert not stream.caught_up.waiting


def test_components_of_finished_blocks_outlive_rows_that_wait() -> None:
    fitted = model().partial_fit(rows(640))
    shown = fitted.stream_.learned.components
    fitted.partial_fit(rows(7)).learn_one(rows(1)[0])
    assert fitted.stream_.learned.components is shown
    fitted.partial_fit(rows(64))
    assert fitted.stream_.learned.components is not shown


@pytest.mark.parametrize("basis", ["everything", "centroids", "landmarks"])
def test_variance_of_a_hundred_millionth_of_the_energy_is_not_hidden(basis: str):
    """Above the rank floor of the factor the answer is right, and nobody is refused."""
    X = np.random.default_rng(0).normal(size=(300, 3)) * [3.0, 2.0, 1.0]
    exact = np.linalg.eigvalsh(np.cov(X.T, ddof=0))[::-1]
    far = X + 3e4 / np.sqrt(3.0)  # 14 of variance in 9e8 of energy
    model = StreamingKernelPCA(2, kernel="linear", basis=basis).fit(far)
    np.testing.assert_allclose(model.explained_variance_, exact[:2], rtol=1e-2)


# -- what waits can be folded

GOOD = np.random.default_rng(0).normal(size=(600, 3)) * 0.1
FAR = np.random.default_rng(1).normal(size=(5, 3)) * 30.0


def function_that_fails(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    if np.abs(X).max() > 5.0 and len(Y) != len(X):
        raise RuntimeError("cannot take this row")
    return np.exp(-((X[:, None] - Y[None]) ** 2).sum(-1))


REFUSED: dict[str, tuple[dict[str, Any], np.ndarray, Any, type[Exception], str]] = {
    # parts, rows, their weights, and what is said
    "not semidefinite": (
        dict(kernel=kernels.Sigmoid(gamma=0.01, coef0=0.5), basis=bases.Distance(nu=1e-3)),
        FAR,
        None,
        ValueError,
        "not positive semidefinite",
    ),
    "weights": (dict(gamma=1.0, basis=20), GOOD[:5], [1e308] * 5, ValueError, "overflows.*weights"),
    "weighted rows": (
        dict(gamma=1.0, basis=20),
        GOOD[:5] * 1e101,
        [1e200] * 5,
        ValueError,
        "overflows.*weights",
    ),
    "energies": (
        dict(kernel="linear", basis=bases.Landmarks(GOOD[:9])),
        np.full((5, 3), 1e153),
        None,
        ValueError,
        "overflows.*scale",
    ),
    "a function that fails": (
        dict(kernel=function_that_fails, basis=bases.Landmarks(GOOD[:9])),
        GOOD[:5] + 10.0,
        None,
        RuntimeError,
        "cannot take",
    ),
    "distances that are rounding": (
        dict(gamma=0.3, basis=bases.ReducedSet(6)),
        GOOD[:5] * 1e9,
        None,
        ValueError,
        "nearly dependent",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("learned", [600, 3])
def test_rows_that_a_fold_would_refuse_do_not_wait(case: str, learned: int) -> None:
    parts, bad, weights, error, words = REFUSED[case]
    if learned == 3 and case == "distances that are rounding":
        pytest.skip("so few rows are all kept: nothing is compressed, and nothing is refused")
    model = StreamingKernelPCA(2, batch_size=64, random_state=0, **parts)
    model.partial_fit(GOOD[:learned])
    before = model.stream_
    with pytest.raises(error, match=words):
        model.partial_fit(bad, sample_weight=weights)
    assert model.stream_ is before
    single = copy.copy(model)
    for row in bad if weights is None else ():  # one by one some of them may be right
        with contextlib.suppress(error):
            single.learn_one(row)
        assert np.isfinite(single.transform(GOOD[:3])).all()
    assert single.n_samples_seen_ < learned + len(bad)
    model.partial_fit(GOOD[:100])
    assert np.isfinite(model.transform(GOOD[:3])).all()


def test_sparse_rows_that_cannot_be_scaled_do_not_wait() -> None:
    model = StreamingKernelPCA(2, gamma=0.1, scale="standard")
    with pytest.raises(ValueError, match="dense rows"):
        model.partial_fit(scipy.sparse.csr_array(GOOD[:5]))
    assert not model.__sklearn_is_fitted__()


def test_a_stream_may_begin_with_rows_whose_squares_are_zero() -> None:
    """What the start would refuse could not be taken out again; ``fit`` refuses it."""
    model = StreamingKernelPCA(2, kernel="linear", basis=bases.Landmarks(4), random_state=0)
    model.partial_fit(GOOD[:300] * 1e-200)
    with pytest.warns(UserWarning, match="underflows"):
        model.partial_fit(GOOD[:300] * 1e-200)
    assert np.all(model.transform(GOOD[:2]) == 0.0)
    with pytest.raises(ValueError, match="underflows"):
        model.fit(GOOD * 1e-200)


def poisoned(learned: int) -> StreamingKernelPCA:
    """As version 0.1 could leave it, also in a file: it looked at energies only."""
    parts = REFUSED["not semidefinite"][0]
    model = StreamingKernelPCA(2, batch_size=64, random_state=0, **parts).partial_fit(
        GOOD[:learned]
    )
    stream = model.stream_
    set_stream(model, replace(stream, waiting=stream.waiting.append(Rows(FAR))))
    return model


@pytest.mark.parametrize("learned", [600, 3])
def test_a_file_with_rows_that_cannot_be_folded_says_how_to_go_on(
    learned: int, tmp_path: Path
) -> None:
    poisoned(learned).save(tmp_path / "model")
    model = StreamingKernelPCA.load(tmp_path / "model")
    words = r"rows that wait.*drop_waiting.*not positive semidefinite"
    for call in (
        lambda: model.transform(GOOD[:1]),
        lambda: model.partial_fit(GOOD[:100]),
        lambda: model.certificate_,
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert model.drop_waiting() is model
    finished = learned - learned % 64
    if finished:
        whole = StreamingKernelPCA(2, **REFUSED["not semidefinite"][0], batch_size=64)
        whole.set_params(random_state=0).partial_fit(GOOD[:finished])
        np.testing.assert_array_equal(model.transform(GOOD), whole.transform(GOOD))
    else:
        assert not model.__sklearn_is_fitted__()
    assert model.partial_fit(GOOD).n_samples_seen_ == finished + 600


@pytest.mark.parametrize(
    "basis", [bases.Everything(), bases.Distance(1e-3, 100), bases.Coherence(0.9, 100)], ids=str
)
def test_rows_that_spoil_the_next_ones_are_named(basis: bases.Basis) -> None:
    """Far rows may wait: they fold by themselves, and a block of them and of near ones does not."""
    rng = np.random.default_rng(0)
    far, near = 1e8 * rng.normal(size=(40, 3)), rng.normal(size=(300, 3))
    parts: dict[str, Any] = dict(gamma=0.5, basis=basis, batch_size=64, random_state=0)
    model = StreamingKernelPCA(2, **parts).partial_fit(far)
    before = pickle.dumps(model.stream_)
    with pytest.raises(ValueError, match=r"rounding spoiled .* 40 rows that wait .*drop_waiting"):
        model.partial_fit(near)
    assert pickle.dumps(model.stream_) == before
    assert model.drop_waiting().partial_fit(near).n_samples_seen_ == 300


def test_rows_learned_before_that_spoil_the_next_ones_are_named() -> None:
    rng = np.random.default_rng(0)
    first, near = rng.normal(size=(64, 3)), rng.normal(size=(300, 3))
    first[0] *= 1e8
    basis = bases.Distance(1e-3, 100)
    parts: dict[str, Any] = dict(gamma=0.5, basis=basis, batch_size=64, random_state=0)
    model = StreamingKernelPCA(2, **parts).partial_fit(first)
    with pytest.raises(ValueError, match=r"rounding spoiled .* learned before.* a new model"):
        model.partial_fit(near)
    assert StreamingKernelPCA(2, **parts).partial_fit(near).n_samples_seen_ == 300


def test_rows_that_are_to_blame_themselves_are_not_blamed_on_those_that_wait() -> None:
    parts, bad, _, _, words = REFUSED["not semidefinite"]
    model = StreamingKernelPCA(2, batch_size=64, random_state=0, **parts).partial_fit(GOOD)
    with pytest.raises(ValueError, match=words) as refused:
        model.partial_fit(np.vstack([bad, GOOD]))
    assert "wait" not in str(refused.value)


@pytest.mark.parametrize("basis", ["everything", "distance"])
def test_rows_of_the_usual_size_are_not_folded_twice(
    basis: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = StreamingKernelPCA(2, gamma=0.3, basis=basis, batch_size=64).partial_fit(GOOD[:70])
    folds = []
    monkeypatch.setattr(Stream, "fold", lambda *_: folds.append(1))
    for row in GOOD[70:90]:
        model.learn_one(row)
    model.partial_fit(GOOD[90:100])
    assert not folds


@pytest.mark.parametrize("basis", ["everything", "distance", "coherence"])
@pytest.mark.parametrize("far", [slice(0, 20), slice(0, 1), slice(None)])
def test_the_very_first_rows_are_looked_at_too(basis: str, far: slice) -> None:
    """They cannot be compared with rows before them: only a fold shows what it would refuse."""
    model = StreamingKernelPCA(2, gamma=0.5, basis=basis, batch_size=64, random_state=0)
    first = GOOD[:40].copy()
    first[far] *= 1e8
    with contextlib.suppress(ValueError):
        model.partial_fit(first)
    for rows in (GOOD[:300], GOOD[300:]):
        with contextlib.suppress(ValueError):
            model.partial_fit(rows)
        if model.__sklearn_is_fitted__():
            assert np.isfinite(model.transform(GOOD[:3])).all()
