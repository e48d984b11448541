"""Bad input is a clear error or a right answer, and after an error the model is as it was."""

from __future__ import annotations

import contextlib
import inspect
import pickle
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from threadpoolctl import threadpool_limits

from kernelstream import (
    StreamingKernelPCA,
    StreamingKernelRidge,
    kernels,
    landmarks,
    papers,
    preimages,
    serialization,
    trackers,
)
from kernelstream.papers import schedules
from kernelstream.serialization.part import Part
from kernelstream.stream.step import Chain
from tests import samples

SLOW_STEP = papers.Hebbian(schedules.SearchThenConverge(0.05, 100.0))
BASES: dict[str, Any] = {
    "centroids": landmarks.Centroids(10),
    "everything": landmarks.Everything(),
    "landmarks": landmarks.Landmarks(10),
    "pivoted cholesky": landmarks.PivotedCholesky(10),
    "distance": landmarks.Distance(nu=0.05),
    "coherence": landmarks.Coherence(delta=0.9),
}
TRACKERS: dict[str, Any] = {"covariance": trackers.Covariance(), "hebbian": SLOW_STEP}


def model(n_components: Any = 2, **parameters: Any) -> StreamingKernelPCA:
    return StreamingKernelPCA(n_components, **{"random_state": 0, **parameters})


def fingerprint(estimator: StreamingKernelPCA) -> Any:
    """Everything an estimator knows, the model as the bytes that ``save`` would write."""
    held = dict(vars(estimator))
    for name in ("_stream", "_single_rows"):
        held.pop(name, None)
    value = estimator.stream_ if estimator.__sklearn_is_fitted__() else None
    names = held.pop("feature_names_in_", None)
    attributes = {name: id(v) for name, v in held.items() if name in estimator.get_params()}
    plain = {name: v for name, v in held.items() if name not in attributes}
    if value is None:
        return attributes, plain, names, None
    packed = value.for_file()
    content = {"state": packed.state, "waiting": packed.waiting, "scaler": packed.scaler}
    return (
        attributes,
        plain,
        None if names is None else tuple(names),
        serialization.to_bytes(content),
    )


@contextlib.contextmanager
def unchanged(estimator: StreamingKernelPCA) -> Iterator[None]:
    """The block may raise; the estimator must be the same afterwards."""
    before = fingerprint(estimator)
    yield
    assert fingerprint(estimator) == before


# --- rows


def changed(X: np.ndarray, value: float) -> np.ndarray:
    X = X.copy()
    X[len(X) // 2, 1] = value
    return X


BAD_ROWS: dict[str, tuple[Callable[[np.ndarray], Any], str]] = {
    "NaN": (lambda X: changed(X, np.nan), "NaN"),
    "infinity": (lambda X: changed(X, np.inf), "infinity|too large"),
    "minus infinity": (lambda X: changed(X, -np.inf), "infinity|too large"),
    "too large for its square": (lambda X: changed(X, 1e160), "overflows float64.*scale"),
    "NaN in float32": (lambda X: changed(X.astype(np.float32), np.nan), "NaN"),
    "NaN in CSR": (lambda X: scipy.sparse.csr_matrix(changed(X, np.nan)), "NaN"),
    "infinity in CSR": (lambda X: scipy.sparse.csr_array(changed(X, np.inf)), "infinity"),
    "empty": (lambda X: X[:0], "0 sample"),
    "empty CSR": (lambda X: scipy.sparse.csr_matrix(X[:0]), "0 sample"),
    "no columns": (lambda X: X[:, :0], "0 feature"),
    "letters": (lambda X: np.full(X.shape, "a"), "could not convert string"),
    "complex": (lambda X: X + 1j, "Complex data not supported"),
    "complex CSR": (lambda X: scipy.sparse.csr_matrix(X + 1j), "Complex data not supported"),
    "objects": (lambda X: np.full(X.shape, {}, dtype=object), "must be a string or a real number"),
    "None": (lambda X: np.full(X.shape, None), "NaN|NoneType"),
    "one dimension": (lambda X: X[0], "Expected 2D array.*[Rr]eshape"),
    "three dimensions": (lambda X: X[None], "dim 3|3 dim"),
    "a number": (lambda X: 3.0, "Expected 2D array"),
    "nothing": (lambda X: None, "Expected 2D array|NoneType"),
}
WRONG_WIDTH: dict[str, Callable[[np.ndarray], Any]] = {
    "narrow": lambda X: X[:, :3],
    "wide": lambda X: np.hstack([X, X]),
    "narrow CSR": lambda X: scipy.sparse.csr_matrix(X[:, :3]),
}


@samples.grid(
    "name, method, state", BAD_ROWS, ["fit", "partial_fit"], ["new", "waiting", "learning"]
)
def test_bad_rows_are_not_learned(name: str, method: str, state: str) -> None:
    bad, words = BAD_ROWS[name]
    estimator = model(gamma=0.1, basis="everything", batch_size=25)
    if state != "new":
        estimator.partial_fit(samples.rows(10 if state == "waiting" else 60))
    with unchanged(estimator), pytest.raises((ValueError, TypeError), match=f"(?s){words}"):
        getattr(estimator, method)(bad(samples.rows(60)))
    if state != "new" and method == "partial_fit":
        # and the stream goes on as if nothing had been
        calm = model(gamma=0.1, basis="everything", batch_size=25)
        calm.partial_fit(samples.rows(10 if state == "waiting" else 60)).partial_fit(
            samples.rows(60, seed=1)
        )
        estimator.partial_fit(samples.rows(60, seed=1))
        assert fingerprint(estimator)[3] == fingerprint(calm)[3]


@pytest.mark.parametrize("name", [name for name in BAD_ROWS if "square" not in name])
@pytest.mark.parametrize("method", ["transform", "reconstruction_error", "score"])
def test_bad_rows_are_not_answered(name: str, method: str) -> None:
    bad, words = BAD_ROWS[name]
    estimator = model(gamma=0.1).partial_fit(samples.rows(60))
    with unchanged(estimator), pytest.raises((ValueError, TypeError), match=f"(?s){words}"):
        getattr(estimator, method)(bad(samples.rows(60)))


@pytest.mark.parametrize("name", WRONG_WIDTH)
@pytest.mark.parametrize("method", ["partial_fit", "transform", "reconstruction_error", "score"])
def test_rows_of_another_width(name: str, method: str) -> None:
    estimator = model(gamma=0.1).partial_fit(samples.rows(60))
    with unchanged(estimator), pytest.raises(ValueError, match=r"features.*expecting 4"):
        getattr(estimator, method)(WRONG_WIDTH[name](samples.rows(60)))
    estimator.fit(WRONG_WIDTH[name](samples.rows(60)))  # fit begins anew
    assert estimator.n_features_in_ != 4


@pytest.mark.parametrize("method", ["learn_one", "transform_one"])
@pytest.mark.parametrize(
    ("x", "words"),
    [
        ([1.0, 2.0, 3.0], "3 features, but .* expecting 4"),
        ([[1.0, 2.0, 3.0, 4.0]] * 2, r"Expected one row.*\(2, 4\)"),
        (7.0, "Expected one row"),
        ([1.0, np.nan, 3.0, 4.0], "contains NaN"),
        ([1.0, np.inf, 3.0, 4.0], "contains infinity"),
        ([1.0, -np.inf, np.inf, 4.0], "contains infinity"),
        (["a", "b", "c", "d"], "could not convert string"),
        (np.arange(4) + 1j, "Complex data not supported"),
        ([1.0, 2.0, 3.0, 4j], "Complex data not supported"),
        ([], r"0 feature\(s\)"),
    ],
    ids=str,
)
def test_one_bad_row(method: str, x: Any, words: str) -> None:
    estimator = model(gamma=0.1).partial_fit(samples.rows(60))
    with unchanged(estimator), pytest.raises((ValueError, TypeError), match=words):
        getattr(estimator, method)(x)


@pytest.mark.parametrize("x", [[1.0, np.nan], [1j, 2j], ["a", "b"], 3.0, [[[1.0]]], []], ids=str)
def test_the_first_row_of_a_stream_is_bad(x: Any) -> None:
    estimator = model()
    with unchanged(estimator), pytest.raises((ValueError, TypeError)):
        estimator.learn_one(x)


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        (np.zeros((3, 5)), r"\(n, 2\).*\(3, 5\)"),
        (np.zeros(2), r"\(n, 2\).*\(2,\)"),
        (np.zeros((0, 2)), r"\(n, 2\).*\(0, 2\)"),
        (np.zeros((1, 3, 2)), r"\(n, 2\)"),
        (np.full((3, 2), np.nan), "NaN or infinity"),
        (np.full((3, 2), np.inf), "NaN or infinity"),
        (np.zeros((3, 2)) + 1j, "Complex data not supported"),
        (np.full((3, 2), "a"), "could not convert string"),
    ],
    ids=["wide", "1-D", "empty", "3-D", "NaN", "infinity", "complex", "letters"],
)
def test_bad_scores(scores: Any, words: str) -> None:
    estimator = model(gamma=0.1).fit(samples.rows(60))
    with unchanged(estimator), pytest.raises(ValueError, match=words):
        estimator.inverse_transform(scores)


def test_a_row_that_the_streams_type_cannot_hold() -> None:
    stream = model(gamma=0.1).partial_fit(samples.rows(60).astype(np.float32))
    with unchanged(stream), pytest.raises(ValueError, match=r"overflows float32.*scale"):
        stream.partial_fit(changed(samples.rows(60), 1e30))
    with unchanged(stream), pytest.raises(ValueError, match=r"overflows float32|infinity"):
        stream.learn_one(changed(samples.rows(60), 1e30)[30])
    with unchanged(stream), pytest.raises(ValueError, match=r"overflows float32|infinity"):
        stream.learn_one(changed(samples.rows(60), 1e100)[30])


@pytest.mark.parametrize("method", ["partial_fit", "learn_one"])
def test_a_row_that_the_kernel_cannot_take_does_not_wait(method: str) -> None:
    # If it were kept until its block is complete, every later call would fail.
    kernel = kernels.Polynomial(degree=3, gamma=1.0)
    stream = model(kernel=kernel, basis="everything", batch_size=50).partial_fit(samples.rows(60))
    bad = changed(samples.rows(60), 1e120)[30:31]
    with unchanged(stream), pytest.raises(ValueError, match=r"not finite.*[Ss]cale"):
        getattr(stream, method)(bad if method == "partial_fit" else bad[0])
    stream.partial_fit(samples.rows(60, seed=1))
    assert np.all(np.isfinite(stream.transform(samples.rows(60))))
    with unchanged(stream), pytest.raises(ValueError, match=r"not finite.*[Ss]cale"):
        stream.transform(bad)
    with unchanged(stream), pytest.raises(ValueError, match=r"not finite.*[Ss]cale"):
        stream.transform_one(bad[0])


# --- weights


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (-np.ones(60), "negative"),
        (np.r_[np.ones(59), -1e-9], "negative"),
        (np.full(60, np.nan), "NaN"),
        (np.r_[np.ones(59), np.inf], "infinity"),
        (np.ones(59), r"\(59,\).*\(60,\)"),
        (np.ones(61), r"\(61,\).*\(60,\)"),
        (np.ones((60, 2)), r"\(60, 2\).*\(60,\)"),
        (np.full(60, "heavy"), "could not convert string"),
        (np.ones(60) + 1j, "[Cc]omplex"),
        ([], r"\(0,\).*\(60,\)"),
        (np.full(60, 1e308), "overflows.*weights"),
    ],
    ids=[
        "negative",
        "one negative",
        "NaN",
        "infinite",
        "short",
        "long",
        "2-D",
        "letters",
        "complex",
        "empty",
        "huge",
    ],
)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("new", [True, False])
def test_bad_weights(weights: Any, words: str, method: str, new: bool) -> None:
    estimator = model(gamma=0.1, basis="everything", batch_size=20)
    if not new:
        estimator.partial_fit(samples.rows(60))
    with unchanged(estimator), pytest.raises((ValueError, TypeError), match=words):
        getattr(estimator, method)(samples.rows(60), sample_weight=weights)


def test_no_weight_at_all() -> None:
    nothing = np.zeros(60)
    estimator = model(verbose=True)
    with unchanged(estimator), pytest.raises(ValueError, match=r"weight zero.*nothing to learn"):
        estimator.fit(samples.rows(60), sample_weight=nothing)
    # in a stream such rows were never there, wherever they come
    assert not estimator.partial_fit(
        samples.rows(60), sample_weight=nothing
    ).__sklearn_is_fitted__()
    estimator.partial_fit(samples.rows(60, 3))
    assert fingerprint(estimator)[3] == fingerprint(model().partial_fit(samples.rows(60, 3)))[3]
    with unchanged(estimator), pytest.raises(ValueError, match="weight zero"):
        estimator.fit(samples.rows(60), sample_weight=nothing)
    with unchanged(estimator):
        estimator.partial_fit(samples.rows(60, 3), sample_weight=nothing)


def test_no_weight_at_all_in_a_regression() -> None:
    y, nothing = np.arange(60.0), np.zeros(60)
    estimator = StreamingKernelRidge(gamma=0.1, basis="everything")
    with pytest.raises(ValueError, match=r"weight zero.*nothing to learn"):
        estimator.fit(samples.rows(60), y, sample_weight=nothing)
    estimator.partial_fit(samples.rows(60), y, sample_weight=nothing).partial_fit(
        samples.rows(60), y
    )
    plain = StreamingKernelRidge(gamma=0.1, basis="everything").partial_fit(samples.rows(60), y)
    np.testing.assert_array_equal(
        estimator.predict(samples.rows(60)), plain.predict(samples.rows(60))
    )


@pytest.mark.parametrize("tracker", TRACKERS)
@pytest.mark.parametrize("basis", BASES)
def test_rows_of_weight_zero_were_never_there(basis: str, tracker: str) -> None:
    X = samples.rows(600)
    weights = np.random.default_rng(0).integers(0, 3, 600) / 2
    parts = {"gamma": 0.1, "basis": BASES[basis], "tracker": TRACKERS[tracker], "batch_size": 30}
    weighted = model(**parts).partial_fit(X, sample_weight=weights)
    kept = weights > 0
    without = model(**parts).partial_fit(X[kept], sample_weight=weights[kept])
    assert fingerprint(weighted)[3] == fingerprint(without)[3]
    assert weighted.n_samples_seen_ == kept.sum()


# --- few, equal and constant rows


def assert_sound(estimator: StreamingKernelPCA, X: np.ndarray) -> None:
    assert np.all(np.isfinite(estimator.transform(X)))
    assert np.all(np.isfinite(estimator.reconstruction_error(X)))
    assert np.all(np.isfinite(estimator.explained_variance_))
    assert np.all(np.isfinite(estimator.explained_variance_ratio_))
    assert np.isfinite(estimator.score(X))


KERNELS = ["rbf", "laplacian", "exponential", "matern", "poly", "linear", "cosine"]


@samples.grid(
    "method, tracker, basis, kernel, kind",
    ["fit", "partial_fit"],
    TRACKERS,
    BASES,
    KERNELS,
    ["one row", "duplicates", "zeros"],
)
def test_rows_without_variance(
    kind: str, kernel: str, basis: str, tracker: str, method: str
) -> None:
    X = {
        "one row": samples.rows(1) / 2,
        "duplicates": np.repeat(samples.rows(1) / 2, 40, axis=0),
        "zeros": np.zeros((30, 4)),
    }[kind]
    for center in (True, False):
        estimator = model(
            kernel=kernel, basis=BASES[basis], tracker=TRACKERS[tracker], center=center
        )
        getattr(estimator, method)(X)
        assert_sound(estimator, X)
        assert_sound(estimator, samples.rows(5, seed=3))
        single = model(kernel=kernel, basis=BASES[basis], tracker=TRACKERS[tracker], center=center)
        getattr(single, method)(X.astype(np.float32))
        assert np.all(np.isfinite(single.transform(X.astype(np.float32))))
        if center and tracker == "covariance":
            # equal rows differ by 1e-8 for a kernel with a kink: the root of 1e-16
            rounding = 1e-7 if kernel in ("exponential", "matern") else 1e-14
            assert np.allclose(estimator.transform(X), 0.0, atol=1e-4 if rounding > 1e-14 else 1e-7)
            assert np.allclose(estimator.explained_variance_, 0.0, atol=rounding)


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_one_column(basis: str, kernel: str) -> None:
    X = samples.rows(50, 1)
    estimator = model(kernel=kernel, basis=BASES[basis]).fit(X)
    assert_sound(estimator, X)
    assert estimator.inverse_transform(estimator.transform(X)).shape == (50, 1)


@samples.grid(
    "kernel, value, scale",
    ["rbf", "laplacian", "exponential", "matern", "linear"],
    [0.0, 0.1, -7e5],
    [None, "standard"],
)
def test_a_constant_column_adds_nothing(kernel: str, value: float, scale: str | None) -> None:
    if kernel == "linear" and value < -1 and scale is None:
        return  # energies of 5e11 hide a variance of 1: the next test
    X = samples.rows(80, 3)
    wider = np.hstack([X, np.full((80, 1), value)])
    plain = model(3, kernel=kernel, basis="everything", scale=scale).fit(X)
    with_it = model(3, kernel=kernel, basis="everything", scale=scale).fit(wider)
    # A value of 7e5 costs its square in the digits of a distance: 5e11 · 1e-16, under a root for
    # the kernels with a kink.
    kink = kernel in ("laplacian", "exponential", "matern")
    tolerance = (1e-7 if kink else 1e-9) if abs(value) < 1 else 2e-2
    np.testing.assert_allclose(with_it.transform(wider), plain.transform(X), atol=tolerance)
    assert_sound(with_it, wider)


@pytest.mark.parametrize("basis", ["everything", "centroids", "distance", "landmarks"])
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_variance_that_rounding_hides_is_never_lost_in_silence(kernel: str, basis: str) -> None:
    X = samples.rows(80, 3)
    X = X * 1e-6 if kernel == "rbf" else X + 7e5
    settings = dict(kernel=kernel, basis=BASES[basis], gamma=None if kernel == "linear" else 0.1)
    with pytest.raises(ValueError, match="rounding would hide it"):
        model(3, **settings).fit(X)
    # a stream may start at rest and move later: it is told, and goes on
    stream = model(3, **settings)
    with pytest.warns(UserWarning, match="rounding would hide it"):
        stream.partial_fit(X).transform(X)
    assert stream.n_samples_seen_ == 80
    # the way out that the message names, and rows that do not differ at all
    assert np.all(model(3, scale="standard", **settings).fit(X).explained_variance_ > 1e-6)
    model(3, **settings).fit(np.tile(X[:1], (20, 1)))
    # what is not centred is dominated by the mean, and says so itself
    model(3, center=False, **settings).fit(X)


@pytest.mark.parametrize(
    "kernel", [kernels.Polynomial(), kernels.RBF("median") * kernels.Polynomial()], ids=str
)
def test_a_row_that_overflows_is_refused_before_the_stream_has_begun(kernel: Any) -> None:
    """The kernel's width is not chosen yet; the row must not block the rows that come with it."""
    stream = StreamingKernelPCA(2, kernel=kernel).partial_fit(samples.rows(10, 3))
    before = pickle.dumps(stream)
    bad = samples.rows(5, 3, 1)
    bad[2] = 1e140
    with pytest.raises(ValueError, match="not finite"):
        stream.partial_fit(bad)
    assert pickle.dumps(stream) == before
    assert stream.partial_fit(samples.rows(600, 3, 2)).n_samples_seen_ == 610


@samples.grid("learn, basis, forgetting", ["fit", "partial_fit"], BASES, [1.0, 0.9])
def test_shares_of_no_variance_are_shares(learn: str, basis: str, forgetting: float) -> None:
    """Rounding over rounding was more than one."""
    for seed in range(5):
        X = np.repeat(samples.rows(1, seed=seed), 20, axis=0)
        for kernel in ("linear", "poly", "rbf"):
            tracker = trackers.Covariance(forgetting)
            estimator = model(2, kernel=kernel, basis=BASES[basis], tracker=tracker)
            getattr(estimator, learn)(X)
            share = estimator.explained_variance_ratio_
            assert 0.0 <= share.sum() <= 1.0 + 1e-12


def test_only_constant_columns() -> None:
    X = np.tile([1.0, -2.0, 0.1], (50, 1))
    for scale in (None, "standard"):
        estimator = model(scale=scale).fit(X)
        assert_sound(estimator, X)
        assert np.all(np.abs(estimator.transform(X)) < 1e-7)


@pytest.mark.parametrize("basis", BASES)
def test_two_different_rows_many_times(basis: str) -> None:
    X = np.repeat([[0.0, 0.0], [1.0, 2.0]], [300, 700], axis=0)
    for method in ("fit", "partial_fit"):
        estimator = model(3, gamma=0.1, basis=BASES[basis])
        getattr(estimator, method)(X)
        assert_sound(estimator, X)
        # two points at the squared distance 2 − 2k, with weights 0.3 and 0.7
        expected = 0.3 * 0.7 * (2 - 2 * np.exp(-0.5))
        np.testing.assert_allclose(estimator.explained_variance_, [expected, 0, 0], atol=1e-12)


@samples.grid("r, tracker, basis", [1, 7, 50], TRACKERS, BASES)
def test_more_components_than_the_data_has(basis: str, tracker: str, r: int) -> None:
    X = samples.rows(5, 2)
    estimator = model(r, gamma=0.2, basis=BASES[basis], tracker=TRACKERS[tracker]).fit(X)
    assert estimator.transform(X).shape == (5, r)
    assert estimator.n_components_ == r
    assert len(estimator.explained_variance_) == r
    assert_sound(estimator, X)


# --- kernels of the user


class Counting:
    """A linear kernel as a function, which does something else at the k-th call."""

    def __init__(self, at: int, what: Callable[[np.ndarray], Any]) -> None:
        self.at, self.what, self.calls = at, what, 0

    def __call__(self, X: np.ndarray, Y: np.ndarray) -> Any:
        self.calls += 1
        K = X @ Y.T
        return self.what(K) if self.calls == self.at else K


def raising(error: BaseException) -> Callable[[np.ndarray], Any]:
    def fail(K: np.ndarray) -> Any:
        raise error

    return fail


def with_nan(K: np.ndarray) -> np.ndarray:
    K = K.copy()
    K.flat[-1:] = np.nan
    return K


FAULTS: dict[str, tuple[Callable[[np.ndarray], Any], Any, str]] = {
    "wrong shape": (
        lambda K: K[:, :-1] if K.shape[1] else K[:-1],
        ValueError,
        "shape.*must return",
    ),
    "transposed twice": (lambda K: K[None], ValueError, "shape.*must return"),
    "a number": (lambda K: 1.0, ValueError, "shape.*must return"),
    "NaN": (lambda K: with_nan(K) if K.size else raising(ValueError("NaN"))(K), ValueError, "NaN"),
    "complex": (lambda K: K + 0j, ValueError, "complex.*real"),
    "letters": (lambda K: K.astype(str), ValueError, "real"),
    "an exception": (raising(ZeroDivisionError("by the user")), ZeroDivisionError, "by the user"),
    "an interrupt": (raising(KeyboardInterrupt()), KeyboardInterrupt, ""),
    "memory": (raising(MemoryError("full")), MemoryError, "full"),
}


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_kernel_function_that_is_wrong_at_once(fault: str, basis: str) -> None:
    what, error, words = FAULTS[fault]
    for method in ("fit", "partial_fit"):
        estimator = model(kernel=Counting(1, what), basis=BASES[basis])
        with unchanged(estimator), pytest.raises(error, match=f"(?s){words}"):
            getattr(estimator, method)(samples.rows(600))


@samples.grid(
    "tracker, basis, fault", TRACKERS, BASES, ["NaN", "wrong shape", "an exception", "an interrupt"]
)
@threadpool_limits.wrap(1)  # calls are counted
def test_a_kernel_function_that_fails_in_the_middle(fault: str, basis: str, tracker: str) -> None:
    """At every call of a partial_fit that spans several blocks, and in a query and a fit."""
    what, error, _ = FAULTS[fault]
    first, second = samples.rows(530) / 3, samples.rows(95, seed=1) / 3

    def started(kernel: Counting) -> StreamingKernelPCA:
        parts = {"basis": BASES[basis], "tracker": TRACKERS[tracker], "batch_size": 20}
        stream = model(kernel=kernel, **parts).partial_fit(first)
        kernel.calls = 0
        return stream

    sound = Counting(-1, what)
    expected = started(sound).partial_fit(second)
    calls = sound.calls
    assert calls > 5
    counts = range(1, calls + 1) if calls < 40 else np.linspace(1, calls, 12).astype(int)
    for k in counts:
        kernel = Counting(10**9, what)
        stream = started(kernel)
        kernel.at = int(k)
        with unchanged(stream), pytest.raises(error):
            stream.partial_fit(second)
        assert kernel.calls == k
        with unchanged(stream):
            kernel.at = kernel.calls + 2
            with contextlib.suppress(error):
                stream.transform(second)
        with unchanged(stream):
            kernel.at = kernel.calls + 2
            with pytest.raises(error):
                stream.fit(second)
        kernel.at = -1
        stream.partial_fit(second)
    assert fingerprint(stream)[3] == fingerprint(expected)[3]


def test_an_interrupt_between_two_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    estimator = model(gamma=0.1, basis="everything", batch_size=10).partial_fit(samples.rows(33))
    step, calls = Chain.step, 0

    def interrupted(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return step(*arguments, **named)

    monkeypatch.setattr(Chain, "step", interrupted)
    for method in ("partial_fit", "fit"):
        calls = 0
        with unchanged(estimator), pytest.raises(KeyboardInterrupt):
            getattr(estimator, method)(samples.rows(100))


def test_the_function_may_keep_what_it_returns() -> None:
    kept = []

    def linear(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        kept.append((X @ Y.T, X @ Y.T))
        return kept[-1][0]

    model(kernel=linear, basis="everything").fit(samples.rows(60))
    assert all(np.array_equal(a, b) for a, b in kept)


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize(
    "kernel",
    [
        lambda X, Y: -(X @ Y.T),
        lambda X, Y: np.sum((X[:, None] - Y[None]) ** 2, axis=2),
        lambda X, Y: np.sin(9.0 * (X @ Y.T)),
        kernels.Sigmoid(gamma=1.0, coef0=-3.0),
        kernels.Polynomial(degree=1, gamma=1.0, coef0=-50.0),
    ],
    ids=["negative", "distances", "sine", "sigmoid", "polynomial"],
)
def test_a_kernel_that_is_not_positive_semidefinite(kernel: Any, basis: str) -> None:
    for method in ("fit", "partial_fit"):
        estimator = model(kernel=kernel, basis=BASES[basis])
        with (
            unchanged(estimator),
            pytest.raises(ValueError, match=r"positive semidefinite.*choose"),
        ):
            getattr(estimator, method)(samples.rows(600))


def test_a_kernel_function_that_is_not_symmetric() -> None:
    with pytest.raises(ValueError, match=r"not symmetric.*transpose"):
        model(kernel=lambda X, Y: X @ np.triu(np.ones((4, 4))) @ Y.T, basis=10).fit(
            samples.rows(60)
        )


# --- scales

SCALED = {
    # a kernel, and the power of the scale that its scores follow
    "rbf": (kernels.RBF(), 0),
    "rbf scale": (kernels.RBF(gamma="scale"), 0),
    "laplacian": (kernels.Laplacian(), 0),
    "exponential": (kernels.Exponential(), 0),
    "matern": (kernels.Matern(), 0),
    "matern 2.5": (kernels.Matern(nu=2.5), 0),
    "linear": (kernels.Linear(), 1),
    "cosine": (kernels.Cosine(), 0),
    "polynomial scale": (kernels.Polynomial(degree=2, gamma="scale"), 0),
    "homogeneous": (kernels.Polynomial(degree=2, gamma=1.0, coef0=0.0), 2),
    "product": (kernels.RBF() * kernels.Cosine(), 0),
    "sum": (kernels.RBF() + kernels.Laplacian(), 0),
}


@samples.grid(
    "tracker, basis, kernel, scale", TRACKERS, BASES, SCALED, [1e-200, 1e-150, 1e150, 1e200]
)
def test_huge_and_tiny_rows(scale: float, kernel: str, basis: str, tracker: str) -> None:
    check_scale(scale, kernel, basis, TRACKERS[tracker], "fit", 130)


@samples.grid(
    "forgetting, basis, kernel, scale",
    [1.0, 0.99],
    BASES,
    ["rbf", "laplacian", "linear"],
    [1e-150, 1e-75, 1e75, 1e150],
)
def test_huge_and_tiny_streams(scale: float, kernel: str, basis: str, forgetting: float) -> None:
    n = 300 if basis == "everything" else 550  # rows that are points, or past every start
    check_scale(scale, kernel, basis, trackers.Covariance(forgetting), "partial_fit", n)


def check_scale(scale: float, kernel: str, basis: str, tracker: Any, method: str, n: int) -> None:
    """The answer for rows of order 1, in the units of the scale; or an error that says to scale."""
    k, power = SCALED[kernel]
    if power and (tracker.kind == "sequential" or basis == "distance"):
        pytest.skip("a step, and the threshold nu, are in units of k(x, x)")
    X, unseen = samples.rows(n) / 2, samples.rows(20, seed=1) / 2
    parts = {"kernel": k, "basis": BASES[basis], "tracker": tracker, "batch_size": 128}
    # a scale that is a power of two changes no digit: choices that are made stay made
    exact = 2.0 ** np.round(np.log2(scale))
    estimator = model(3, **parts)
    try:
        getattr(estimator, method)(X * exact)
        scores, error = estimator.transform(unseen * exact), estimator.reconstruction_error(unseen)
    except ValueError as refused:
        assert re.search("[Ss]cale", str(refused)), refused
        assert abs(np.log10(scale)) > 140 or power == 2
        if not hasattr(estimator, "stream_"):
            assert "n_features_in_" not in vars(estimator)
        return
    usual = model(3, **parts)
    expected = getattr(usual, method)(X).transform(unseen)
    assert np.all(np.isfinite(error))
    assert np.all(np.isfinite(estimator.explained_variance_))
    if power == 2 and scale < 1e-100:
        assert np.all(np.abs(scores) < 1e-300)  # k(x, x) = |x|⁴ itself is 0 in float64
        return
    np.testing.assert_allclose(scores / exact**power, expected, atol=1e-6 * np.abs(expected).max())
    np.testing.assert_allclose(
        estimator.explained_variance_ratio_, usual.explained_variance_ratio_, rtol=1e-6, atol=1e-9
    )
    back = estimator.inverse_transform(scores) / exact
    assert np.all(np.isfinite(back))
    np.testing.assert_allclose(back, usual.inverse_transform(expected), atol=1e-3)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_huge_and_tiny_rows_standardised(scale: float) -> None:
    X = samples.rows(100)
    expected = model(3, basis="everything", scale="standard").fit(X)
    estimator = model(3, basis="everything", scale="standard").fit(X * scale)
    np.testing.assert_allclose(estimator.transform(X * scale), expected.transform(X), atol=1e-9)
    back = estimator.inverse_transform(estimator.transform(X * scale)) / scale
    np.testing.assert_allclose(back, expected.inverse_transform(expected.transform(X)), atol=1e-4)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "matern", "linear", "cosine", "poly"])
@pytest.mark.parametrize("scale", [1e-30, 1e-15, 1e15, 1e30])
def test_huge_and_tiny_rows_in_float32(kernel: str, scale: float) -> None:
    X = (samples.rows(100) * scale).astype(np.float32)
    estimator = model(2, kernel=kernel, basis=10)
    try:
        scores = estimator.fit(X).transform(X)
    except ValueError as refused:
        assert re.search("[Ss]cale", str(refused)), refused
        return
    assert np.all(np.isfinite(scores))
    if kernel in ("rbf", "laplacian", "matern", "cosine"):
        expected = model(2, kernel=kernel, basis=10).fit(samples.rows(100)).explained_variance_
        np.testing.assert_allclose(estimator.explained_variance_, expected, rtol=0.2)


@samples.grid(
    "gamma, kernel, basis", [1e-300, 1e-12, 1e12, 1e300], ["rbf", "laplacian", "exponential"], BASES
)
def test_kernels_that_see_nothing_or_everything(basis: str, kernel: str, gamma: float) -> None:
    X = samples.rows(100)
    estimator = model(kernel=kernel, gamma=gamma, basis=BASES[basis])
    try:
        estimator.fit(X)
    except ValueError as refused:
        assert re.search("[Ss]cale|kernel parameters", str(refused)), refused
        return
    assert_sound(estimator, X)


# --- parameters

Case = tuple[dict[str, Any], str]
# without their types, because the parameters are wrong on purpose
any_kernels: Any = kernels
any_bases: Any = landmarks
any_trackers: Any = trackers
any_papers: Any = papers
any_schedules: Any = schedules
any_preimages: Any = preimages
WRONG: dict[str, list[Case]] = {
    "names": [
        ({"kernel": "gauss"}, "'gauss'.*'rbf'"),
        ({"kernel": 3}, "kernel 3.*'rbf'"),
        ({"kernel": None}, "None.*'rbf'"),
        ({"kernel": any_kernels.RBF}, "class.*brackets"),
        ({"basis": "kmeans"}, "'centroids'.*'kmeans'"),
        ({"basis": None}, "'centroids'.*None"),
        ({"basis": 2.5}, "'centroids'.*2.5"),
        ({"basis": True}, "'centroids'.*True"),
        ({"tracker": "pca"}, "'covariance'.*'pca'"),
        ({"tracker": None}, "'covariance'.*None"),
        ({"tracker": any_trackers.Covariance}, "covariance"),
        ({"preimage": "newton"}, "'newton'.*'auto'"),
        ({"preimage": "linear"}, "linear kernel only"),
        ({"preimage": "fixed_point", "kernel": "poly"}, "FixedPoint.*Ridge"),
        ({"scale": "minmax"}, "'standard'.*'minmax'"),
        ({"certify": "loose"}, "'tight'.*'loose'"),
        ({"device": "tpu"}, "device.*'tpu'"),
        ({"center": "yes"}, "center.*'yes'"),
        ({"center": None}, "center.*None"),
    ],
    "numbers": [
        ({"n_components": 0}, "n_components.*0"),
        ({"n_components": -1}, "n_components.*-1"),
        ({"n_components": 1.0}, "n_components.*1.0"),
        ({"n_components": 1.5}, "n_components.*1.5"),
        ({"n_components": 0.0}, "n_components.*0.0"),
        ({"n_components": np.nan}, "n_components.*nan"),
        ({"n_components": "two"}, "n_components.*'two'"),
        ({"n_components": True}, "n_components.*True"),
        ({"n_components": None, "tracker": papers.Hebbian()}, "Hebbian.*integer.*None"),
        ({"n_components": 0.5, "tracker": papers.Hebbian()}, "Hebbian.*integer.*0.5"),
        ({"n_components": 0, "tracker": papers.Hebbian()}, "n_components.*0"),
        ({"batch_size": 0}, "batch_size.*0"),
        ({"batch_size": -3}, "batch_size.*-3"),
        ({"batch_size": 1.5}, "batch_size.*1.5"),
        ({"batch_size": "large"}, "batch_size.*'large'"),
        ({"batch_size": None}, "batch_size.*None"),
        ({"batch_size": True}, "batch_size.*True"),
        ({"random_state": "a"}, "'a'.*seed"),
        ({"random_state": -1}, "-1|Seed|seed"),
        ({"basis": 0}, "n_points.*at least 1.*0"),
        ({"basis": -5}, "n_points.*at least 1.*-5"),
    ],
    "kernels": [
        ({"gamma": -1.0}, r"RBF\(gamma=-1.0\).*positive"),
        ({"gamma": 0.0}, "positive number"),
        ({"gamma": np.inf}, "positive number"),
        ({"gamma": np.nan}, "positive number"),
        ({"gamma": "wide"}, "'wide'.*'median'"),
        ({"gamma": True}, "positive number"),
        ({"gamma": [1.0]}, "positive number"),
        ({"gamma": 1j}, "positive number"),
        ({"gamma": 0.1, "kernel": "linear"}, "'linear' has none"),
        ({"gamma": 0.1, "kernel": "matern"}, "length_scale"),
        ({"gamma": 0.1, "kernel": any_kernels.RBF()}, "kernel__gamma"),
        ({"gamma": "median", "kernel": "poly"}, "'scale'"),
        ({"kernel": any_kernels.Laplacian(gamma=-1)}, "Laplacian.*positive"),
        ({"kernel": any_kernels.Exponential(gamma=0)}, "Exponential.*positive"),
        ({"kernel": any_kernels.Polynomial(degree=0)}, "degree.*1 or larger"),
        ({"kernel": any_kernels.Polynomial(degree=1.5)}, "degree.*whole number"),
        ({"kernel": any_kernels.Polynomial(coef0=np.nan)}, "coef0.*finite"),
        ({"kernel": any_kernels.Polynomial(gamma=-1.0)}, "gamma.*positive"),
        ({"kernel": any_kernels.Sigmoid(coef0="x")}, "coef0.*finite"),
        ({"kernel": any_kernels.Matern(nu=0)}, "nu must be 0.5, 1.5 or 2.5"),
        ({"kernel": any_kernels.Matern(nu=-1.0)}, "nu must be 0.5, 1.5 or 2.5"),
        ({"kernel": any_kernels.Matern(length_scale=0)}, "length_scale.*positive"),
        ({"kernel": -1.0 * any_kernels.Linear()}, "positive number"),
        ({"kernel": any_kernels.Sum(any_kernels.RBF(), "linear")}, "kernel object"),
        ({"kernel": any_kernels.RBF(gamma=-1.0) + any_kernels.Linear()}, "RBF.*positive"),
        ({"kernel": any_kernels.Linear() * any_kernels.RBF(gamma=0.0)}, "RBF.*positive"),
    ],
    "bases": [
        ({"basis": any_bases.Centroids(0)}, "Centroids: n_points.*0"),
        ({"basis": any_bases.Centroids(2.5)}, "Centroids: n_points.*2.5"),
        ({"basis": any_bases.Centroids(None)}, "Centroids: n_points.*None"),
        ({"basis": any_bases.Centroids(True)}, "Centroids: n_points.*True"),
        ({"basis": any_bases.PivotedCholesky(0)}, "PivotedCholesky: n_landmarks.*0"),
        ({"basis": any_bases.PivotedCholesky(1.5)}, "PivotedCholesky: n_landmarks.*1.5"),
        ({"basis": any_bases.Landmarks(0)}, "Landmarks: points.*0"),
        ({"basis": any_bases.Landmarks(1.5)}, "Landmarks: points.*1.5"),
        ({"basis": any_bases.Landmarks(np.zeros(4))}, "Landmarks: points.*1 dimension"),
        ({"basis": any_bases.Landmarks(np.zeros((2, 2, 4)))}, "Landmarks: points.*3 dimension"),
        ({"basis": any_bases.Landmarks(np.zeros((0, 4)))}, "Landmarks: points.*at least one"),
        ({"basis": any_bases.Landmarks(np.full((2, 4), np.nan))}, "Landmarks: points.*finite"),
        ({"basis": any_bases.Landmarks(np.full((2, 4), 1j))}, "Landmarks: points.*real"),
        ({"basis": any_bases.Landmarks(np.full((2, 4), "a"))}, "Landmarks: points.*numbers"),
        ({"basis": any_bases.Landmarks(np.zeros((2, 3))), "gamma": 1.0}, "3 features.*4"),
        ({"basis": any_bases.Landmarks(np.zeros((2, 3)))}, "3 features.*4"),
        ({"basis": any_bases.Distance(nu=0)}, "Distance: nu.*above 0.*0"),
        ({"basis": any_bases.Distance(nu=-0.1)}, "Distance: nu.*-0.1"),
        ({"basis": any_bases.Distance(nu="small")}, "Distance: nu.*'small'"),
        ({"basis": any_bases.Distance(nu=np.nan)}, "Distance: nu.*nan"),
        ({"basis": any_bases.Distance(max_points=0)}, "Distance: max_points.*0"),
        ({"basis": any_bases.Coherence(delta=0)}, "Coherence: delta.*between 0 and 1"),
        ({"basis": any_bases.Coherence(delta=1.0)}, "Coherence: delta.*between 0 and 1"),
        ({"basis": any_bases.Coherence(max_points=-1)}, "Coherence: max_points.*-1"),
    ],
    "trackers": [
        ({"tracker": any_trackers.Covariance(forgetting=0)}, "Covariance: forgetting.*0"),
        ({"tracker": any_trackers.Covariance(forgetting=-0.5)}, "Covariance: forgetting.*-0.5"),
        ({"tracker": any_trackers.Covariance(forgetting=1.1)}, "Covariance: forgetting.*1.1"),
        ({"tracker": any_trackers.Covariance(forgetting=np.nan)}, "Covariance: forgetting.*nan"),
        ({"tracker": any_trackers.Covariance(forgetting="slow")}, "Covariance: forgetting.*'slow'"),
        ({"tracker": any_trackers.Covariance(forgetting=None)}, "Covariance: forgetting.*None"),
        ({"tracker": any_papers.Hebbian(forgetting=2.0)}, "Hebbian: forgetting.*2.0"),
        ({"tracker": any_papers.Hebbian(schedule="fast")}, "schedule.*'fast'"),
        (
            {"tracker": any_papers.Hebbian(any_schedules.ConstantRate(-0.1))},
            "Rate: eta.*-0.1",
        ),
        (
            {"tracker": any_papers.Hebbian(any_schedules.ConstantRate(np.inf))},
            "Rate: eta.*inf",
        ),
        (
            {"tracker": any_papers.Hebbian(any_schedules.ConstantRate("a"))},
            "Rate: eta.*'a'",
        ),
        ({"tracker": any_papers.Hebbian(any_schedules.InverseTime(0))}, "InverseTime: eta0.*0"),
        ({"tracker": any_papers.Hebbian(any_schedules.SearchThenConverge(0.5, 0))}, "tau.*0"),
        (
            {"tracker": any_papers.Hebbian(any_schedules.SearchThenConverge(floor=-1))},
            "floor.*-1",
        ),
        ({"tracker": any_papers.Hebbian(any_schedules.SearchThenConverge(np.nan))}, "eta0.*nan"),
    ],
    "preimages": [
        ({"preimage": any_preimages.Ridge(alpha=-1)}, "alpha=-1.*not negative"),
        ({"preimage": any_preimages.Ridge(alpha=np.nan)}, "alpha=nan.*not negative"),
        ({"preimage": any_preimages.Ridge(alpha="a")}, "alpha='a'.*not negative"),
        ({"preimage": any_preimages.FixedPoint(max_iter=-1)}, "max_iter=-1.*whole number"),
        ({"preimage": any_preimages.FixedPoint(max_iter=1.5)}, "max_iter=1.5.*whole number"),
        ({"preimage": any_preimages.FixedPoint(tol=-1)}, "tol=-1.*not negative"),
        ({"preimage": any_preimages.FixedPoint(tol=None)}, "tol=None.*not negative"),
    ],
}
CASES = [
    pytest.param(given, words, id=f"{kind}-{','.join(f'{k}={v!r}' for k, v in given.items())}"[:80])
    for kind, cases in WRONG.items()
    for given, words in cases
]


@pytest.mark.parametrize(("given", "words"), CASES)
def test_bad_parameters(given: dict[str, Any], words: str) -> None:
    # Three rows: a stream has not begun to compute, and the parameter is refused all the same.
    for method, n in (("fit", 60), ("partial_fit", 3), ("partial_fit", 600)):
        estimator = model(**given)
        with unchanged(estimator), pytest.raises(ValueError, match=f"(?s){words}"):
            getattr(estimator, method)(samples.rows(n))
    # A change of parameters takes effect in fit, which then leaves the old model as it is.
    estimator = model().fit(samples.rows(60))
    if given.get("n_components") == 0 or set(given) == {"n_components"}:
        # A number of components takes effect at once, and is refused at once.
        with unchanged(estimator), pytest.raises(ValueError, match="n_components"):
            estimator.set_params(**given)
        return
    estimator.set_params(**given)
    with unchanged(estimator), pytest.raises(ValueError, match=f"(?s){words}"):
        estimator.fit(samples.rows(60))


PARTS = [part for part in serialization.STORED.values() if issubclass(part, Part)]


@pytest.mark.parametrize(
    ("part", "name"),
    [(part, name) for part in PARTS for name in inspect.signature(part).parameters],
    ids=lambda given: getattr(given, "__name__", given),
)
@pytest.mark.parametrize("number", [10**400, -(10**400)], ids=["above", "below"])
def test_numbers_beyond_all_floats(part: type[Part], name: str, number: int) -> None:
    """Refused in words before the first row, or of no harm: never an error of Python's own."""
    signature = inspect.signature(part).parameters.values()
    needed = {p.name: 1 for p in signature if p.default is p.empty}
    with contextlib.suppress(ValueError):
        part(**{**needed, name: number}).check()


@pytest.mark.parametrize(
    "given", [{"basis": 10**400}, {"schedule": 10**400}, {"n_components": 10**400}], ids=str
)
def test_estimators_with_numbers_beyond_all_floats(given: dict[str, Any]) -> None:
    tracker = papers.Hebbian(given.pop("schedule")) if "schedule" in given else "covariance"
    with contextlib.suppress(ValueError):
        model(tracker=tracker, **given).fit(samples.rows(60))


def test_an_unknown_parameter() -> None:
    with pytest.raises(ValueError, match="Invalid parameter 'forgeting'"):
        model(tracker=trackers.Covariance()).set_params(tracker__forgeting=0.9)
    with pytest.raises(TypeError, match="gama"):
        StreamingKernelPCA(gama=1.0)  # type: ignore[call-arg]
