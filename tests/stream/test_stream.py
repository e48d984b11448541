"""Streams as values: computed once, gone when they are; and what waits can always be folded."""

from __future__ import annotations

import contextlib
import copy
import gc
import warnings
import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from kernelstream import StreamingKernelPCA, StreamingKernelRidge, kernels, landmarks
from kernelstream.stream.scaling import Standardisation
from kernelstream.stream.state import MOST_OF_A_ROW, Buffer, Rows
from kernelstream.stream.stream import Stream, hidden_variance


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
    assert fitted.certificate_.details.eigenvalue_intervals.shape == (2, 2)
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
        dict(kernel=kernels.Sigmoid(gamma=0.01, coef0=0.5), basis=landmarks.Distance(nu=1e-3)),
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
        dict(kernel="linear", basis=landmarks.Landmarks(GOOD[:9])),
        np.full((5, 3), 1e153),
        None,
        ValueError,
        "overflows.*scale",
    ),
    "a function that fails": (
        dict(kernel=function_that_fails, basis=landmarks.Landmarks(GOOD[:9])),
        GOOD[:5] + 10.0,
        None,
        RuntimeError,
        "cannot take",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("learned", [600, 3])
def test_partial_fit_of_rows_that_cannot_be_learned_changes_nothing(
    case: str, learned: int
) -> None:
    parts, bad, weights, error, words = REFUSED[case]
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
    model = StreamingKernelPCA(2, kernel="linear", basis=landmarks.Landmarks(4), random_state=0)
    model.partial_fit(GOOD[:300] * 1e-200)
    with pytest.warns(UserWarning, match="underflows"):
        assert np.all(model.transform(GOOD[:2]) == 0.0)
    with pytest.raises(ValueError, match="underflows"):
        model.fit(GOOD * 1e-200)


@pytest.mark.parametrize("learned", [600, 3])
def test_clear_buffer_after_rows_that_no_block_can_learn(learned: int) -> None:
    """No check on arrival has seen them: a kernel function may fail later than that."""
    options = dict(batch_size=64, random_state=0, **REFUSED["not semidefinite"][0])
    model = StreamingKernelPCA(2, **options).partial_fit(GOOD[:learned])
    stream = model.stream_
    model.set_stream(replace(stream, waiting=stream.waiting.append(Rows(FAR))))
    words = r"buffered rows cannot be learned.*not positive semidefinite.*clear_buffer"
    for call in (lambda: model.transform(GOOD[:1]), lambda: model.certificate_):
        with pytest.raises(ValueError, match=words):
            call()
    assert model.clear_buffer() is model
    completed = learned - learned % 64
    if completed:
        whole = StreamingKernelPCA(2, **options).partial_fit(GOOD[:completed])
        np.testing.assert_array_equal(model.transform(GOOD), whole.transform(GOOD))
    else:
        assert not model.__sklearn_is_fitted__()
    assert model.partial_fit(GOOD).n_samples_seen_ == completed + 600


@pytest.mark.parametrize(
    "basis",
    [
        *(landmarks.Everything(), landmarks.Distance(1e-3, 100), landmarks.Coherence(0.9, 100)),
        *(landmarks.ReducedSet(6), landmarks.Landmarks(20), landmarks.Centroids(20)),
    ],
    ids=str,
)
@pytest.mark.parametrize("far", [slice(0, 40), slice(0, 1), slice(40, 45)])
def test_buffered_rows_far_from_all_others_never_make_a_later_call_fail(
    basis: landmarks.LandmarkStrategy, far: slice
) -> None:
    """Distances between near rows are rounding in the units of far ones: that is a warning."""
    X = np.random.default_rng(0).normal(size=(340, 3))
    X[far] *= 1e8
    model = StreamingKernelPCA(2, gamma=0.5, basis=basis, batch_size=64, random_state=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "With the kernel .* rounding spoiled")
        for cut in (X[:40], X[40:50], X[50:]):
            model.partial_fit(cut)
            assert np.isfinite(model.transform(X[-3:])).all()
    assert model.n_samples_seen_ == 340


def test_rows_that_are_to_blame_themselves_are_not_blamed_on_those_that_wait() -> None:
    parts, bad, _, _, words = REFUSED["not semidefinite"]
    model = StreamingKernelPCA(2, batch_size=64, random_state=0, **parts).partial_fit(GOOD)
    with pytest.raises(ValueError, match=words) as refused:
        model.partial_fit(np.vstack([bad, GOOD]))
    assert "wait" not in str(refused.value)


@pytest.mark.parametrize("basis", ["everything", "distance"])
def test_buffered_rows_are_not_learned_before_their_block_is_complete(
    basis: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = StreamingKernelPCA(2, gamma=0.3, basis=basis, batch_size=64).partial_fit(GOOD[:70])
    folds = []
    monkeypatch.setattr(Stream, "fold", lambda *_: folds.append(1))
    for row in GOOD[70:90]:
        model.learn_one(row)
    model.partial_fit(GOOD[90:100])
    assert not folds


# -- numbers of a stream, one by one


def stream_of(n: int = 130, **options: Any) -> Any:
    X = np.random.default_rng(0).normal(size=(n, 3))
    given: dict[str, Any] = dict(gamma=0.3, basis=landmarks.Landmarks(X[:9]), batch_size=50)
    return StreamingKernelPCA(2, **{**given, **options}).partial_fit(X).stream_


def test_how_many_rows_are_awaited() -> None:
    assert stream_of().start_rows == 1
    assert stream_of(basis=landmarks.Landmarks(60)).start_rows == 600
    assert stream_of(gamma=None).start_rows == 500
    assert stream_of(scale="standard").start_rows == 500
    assert stream_of().n_rows == 130 and len(stream_of().waiting) == 30


def test_weights_that_overflow_sums_are_refused() -> None:
    stream = stream_of()
    rows = np.ones((1, 3))
    stream.require_summable(Rows(rows, np.array([0.99 * MOST_OF_A_ROW])))
    for X, weight in ((rows, 1.01 * MOST_OF_A_ROW), (100.0 * rows, 0.02 * MOST_OF_A_ROW)):
        with pytest.raises(ValueError, match="overflow"):
            stream.require_summable(Rows(X, np.array([1.0, weight])[1:]))
    linear = stream.with_chain(kernel=kernels.Linear())
    linear.require_summable(Rows(0.5 * rows * MOST_OF_A_ROW**0.5))
    with pytest.raises(ValueError, match="overflow"):
        linear.require_summable(Rows(2.0 * rows * MOST_OF_A_ROW**0.5))


def test_rows_as_the_chain_wants_them() -> None:
    plain, tight = stream_of(), stream_of(certify="tight")
    single = np.ones((2, 3), dtype=np.float32)
    assert plain.scaled(single) is single and tight.scaled(single).dtype == np.float64
    assert plain.block(Rows(single)).targets is None
    learns = stream_of(preimage="ridge")
    block = learns.block(Rows(single, np.full(2, 2.0)))
    assert block.targets is block.X and block.weights is not None
    assert plain.knows_units and not stream_of(scale="standard").knows_units
    given = plain.block(Rows(single, None, single[:, :1])).targets
    assert given is not None
    np.testing.assert_array_equal(given, single[:, :1])


def test_a_scaling_that_changes_nothing_is_none() -> None:
    """Then rows go by without a copy, and streams with and without it merge."""
    even = stream_of(600, scale="auto")
    assert even.scaling is None and even.scaler is None and even.knows_units
    X = np.random.default_rng(0).normal(size=(600, 3)) * [1.0, 100.0, 1.0]
    model = StreamingKernelPCA(2, gamma=0.3, scale="auto", basis=landmarks.Landmarks(X[:9]))
    mixed = model.partial_fit(X).stream_
    assert mixed.scaling is not None and mixed.scaler is not None


def test_a_stream_of_a_file_fits_together() -> None:
    """Every word that ``check`` has, and a stream that has nothing to hear."""
    plain, scaled = stream_of(), stream_of(600, scale="standard")
    plain.check({"features": 3})
    scaled.check({"features": 3})
    stream_of(scale="standard").check({})  # all rows wait: nothing was measured yet
    other = Rows(np.ones((1, 3), dtype=np.float32))
    for stream, sizes, words in (
        (replace(plain, dtype="int64"), {}, "rows of the type 'int64' on None"),
        (replace(plain, device="cuda"), {}, "rows of the type 'float64' on 'cuda'"),
        (replace(plain.with_state(None), waiting=Buffer()), {}, "a stream without rows"),
        (replace(plain, waiting=Buffer((other,))), {}, "rows that are no float64"),
        (replace(scaled, scaler=None), {}, "a scaling without its numbers, or numbers without"),
        (replace(plain, scaler=scaled.scaler), {}, "a scaling without its numbers, or numbers wit"),
        (replace(scaled, scaler=plain.begun), {}, "a State for Standard"),
        (plain, {"features": 2}, "2 features, and rows of 3"),
        (stream_of(preimage="ridge"), {"features": 3, "targets": 2}, "2 targets, and rows of 3"),
    ):
        with pytest.raises(ValueError, match=words):
            stream.check(sizes)
    plain.check({"features": 3, "targets": 2})  # of a regression
    stream_of(preimage="ridge").check({"features": 3, "targets": 3})
    # started without rows that wait, and the other way round
    replace(plain, waiting=Buffer()).check({})


def test_a_solution_is_kept_until_another_is_asked_for() -> None:
    stream, asked = stream_of(), []

    def solve() -> str:
        asked.append(1)
        return f"solution {len(asked)}"

    assert stream.solved("a", solve) == stream.solved("a", solve) == "solution 1"
    assert stream.solved("b", solve) == "solution 2"
    assert stream.solved("a", solve) == "solution 3"


def test_rows_that_hide_their_variance() -> None:
    """A billionth of the energy is the least that is seen."""
    chain = stream_of().with_chain(kernel=kernels.Linear()).chain
    for step, hidden in ((0.9e-4, False), (3e-5, True)):
        X = np.array([[1.0 + step, 0.0, 0.0], [1.0 - step, 0.0, 0.0]])  # a share of step²
        assert (hidden_variance(chain, X) is not None) == hidden
    assert hidden_variance(chain, np.ones((4, 3))) is None  # all alike: zero is right
    assert hidden_variance(replace(chain, center=False), X) is None
    assert hidden_variance(chain, np.array([[0.0, 0, 0], [1e-9, 0, 0]])) is None


def test_a_stream_that_begins_at_rest_says_so_once() -> None:
    """With the first block, and not again when others come."""
    rng = np.random.default_rng(0)
    X = 1.0 + 1e-6 * rng.normal(size=(60, 3))
    model = StreamingKernelPCA(2, kernel="linear", basis="everything", batch_size=20)
    with pytest.warns(UserWarning, match="At the start of the stream: With the kernel Linear"):
        model.partial_fit(X[:20])
    model.partial_fit(X[20:])  # warnings are errors here: none comes
    assert model.n_samples_seen_ == 60


def test_a_stream_that_has_begun_and_seen_nothing() -> None:
    X = rows(9)
    begun = stream_of().with_state(None).begin(Rows(X))
    shown = begun.learned.components
    assert shown.total_variance == 0.0 and not shown.variances.any() and not shown.mean.any()
    assert begun.begun.n_rows == 0


def test_rows_that_are_all_at_hand_are_scaled_once_to_decide(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []
    apply = Standardisation.apply

    def counted(self: Standardisation, X: Any) -> Any:
        seen.append(len(X))
        return apply(self, X)

    monkeypatch.setattr(Standardisation, "apply", counted)
    X = Rows(np.random.default_rng(0).normal(size=(90, 3)) * [1.0, 5.0, 9.0])
    blank = StreamingKernelPCA(basis=5, scale="standard").new_stream(X.X)
    decided = blank.decide(X[:40], X)
    assert decided.chain.kernel.fixed
    assert seen.count(90) == 1
