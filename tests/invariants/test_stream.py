"""The same rows give the same model, however they are cut, queried, stored or laid out in memory.

"The same" is meant to the bit: the bytes of the model file are compared.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from kernelstream import StreamingKernelPCA, kernels, landmarks, papers, serialization, trackers
from kernelstream.papers import schedules
from kernelstream.stream.state import Buffer, Rows
from tests import samples
from tests.conftest import BASES, CHAINS, GIVEN, TRACKERS, Chain, settled_state, state_of
from tests.naive import chain as naive

pytestmark = pytest.mark.usefixtures("restless_centroids")


def to_bytes(model):
    """The model file, less the parameters as the user wrote them."""
    return serialization.to_bytes({"model": model.stream_.for_file()})


# -- cutting


@st.composite
def cuttings(draw, n, marks=()):
    """Ways to bring n rows: pieces, each with how it is brought and what happens after it.

    ``marks`` are numbers of rows at which something is decided: pieces like to end near them.
    """
    size = st.one_of(st.just(1), st.integers(1, 9), st.integers(1, 130), st.integers(1, n))
    near = st.sampled_from([m + by for m in marks or (n,) for by in (-1, 0, 1, 7)])
    pieces: list[tuple[int, int, str, str]] = []
    start = 0
    while start < n:
        stop = start + draw(size)
        if marks and draw(st.booleans()):
            stop = max(start + 1, draw(near))
        stop = min(n, stop) if len(pieces) < 12 else n
        how = draw(st.sampled_from(["call", "call", "row by row", "fortran", "strided"]))
        then = draw(st.sampled_from(["", "", "query", "reload"]))
        pieces.append((start, stop, how, then))
        start = stop
    return pieces


def bring(model, X: Any, weights: Any, pieces):
    """Bring the rows as the cutting says."""
    probe = X[:3]
    for start, stop, how, then in pieces:
        rows = X[start:stop]
        w: Any = None if weights is None else weights[start:stop]
        dense = isinstance(X, np.ndarray)
        if how == "row by row" and w is None:
            for i in range(rows.shape[0]):
                model.learn_one(rows[i] if dense else rows[[i]])
        elif how == "row by row":
            for i in range(rows.shape[0]):
                model.partial_fit(rows[i : i + 1], sample_weight=w[i : i + 1])
        elif how == "fortran" and dense:
            model.partial_fit(np.asfortranarray(rows), sample_weight=w)
        elif how == "strided" and dense:
            model.partial_fit(np.repeat(rows, 2, axis=1)[:, ::2], sample_weight=w)
        else:
            model.partial_fit(rows, sample_weight=w)
        if then == "query":
            model.transform(probe)
            assert len(model.explained_variance_ratio_) == model.n_components_
        elif then == "reload":
            model.set_stream(serialization.from_bytes(to_bytes(model)).values()["model"])
    return model


NAMED = {repr(chain): chain for chain in CHAINS}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "float32": {},
    "csr": {},
    "weights": {},
    "forgetting": dict(forgetting=0.99),
    "forgetting, weights": dict(forgetting=0.95),
    "decided by the start": dict(gamma=None, scale="standard"),
    "uncentred, blocks of one": dict(center=False, batch_size=1),
    "blocks of 300": dict(batch_size=300, n_components=1),
}


@functools.cache
def given_rows(chain: Chain, variant: str):
    """Rows and weights of a variant. A few rows are repeated, a few are zero."""
    n = chain.n_rows
    if variant == "uncentred, blocks of one":  # slow: as far as the start and a little beyond
        n = min(n, 620)
    X = chain.rows(n_rows=n)
    X[5:8] = X[4]
    X[20] = 0.0
    rng = np.random.default_rng(5)
    weights = None
    if "weights" in variant:
        weights = rng.uniform(0.2, 3.0, size=n)
        weights[30:90] = 1.0
    if variant == "float32":
        X = X.astype(np.float32)
    if variant == "csr":
        X = scipy.sparse.csr_matrix(X * (rng.random(X.shape) < 0.7))
    return X, weights


def new_model(chain: Chain, variant: str) -> StreamingKernelPCA:
    return chain.estimator(**VARIANTS[variant])


@functools.cache
def in_one_call(chain: Chain, variant: str) -> bytes:
    X, weights = given_rows(chain, variant)
    return to_bytes(new_model(chain, variant).partial_fit(X, sample_weight=weights))


@pytest.mark.filterwarnings("ignore:Hebbian. the step was too long:RuntimeWarning")
@samples.grid("basis, tracker, variant", BASES, TRACKERS, VARIANTS)
@given(data=st.data())
def test_any_cutting_gives_the_same_bytes(basis, tracker, variant, data):
    chain = NAMED[f"{basis}-{tracker}"]
    if variant == "decided by the start" and isinstance(chain.basis(), landmarks.Everything):
        pytest.skip("500 rows before the start: the same code as for Distance, but slow")
    X, weights = given_rows(chain, variant)
    model = new_model(chain, variant)
    stream = model.new_stream(X)
    blocks = (stream.batch_size * i for i in (1, 2, stream.start_rows // stream.batch_size))
    pieces = data.draw(cuttings(X.shape[0], (stream.start_rows, *blocks)))
    assert to_bytes(bring(model, X, weights, pieces)) == in_one_call(chain, variant)


@samples.grid(
    "decided, batch_size",
    [dict(basis=landmarks.Landmarks(8)), dict(gamma=None)],
    [64, 300, 500, 501, 1000],
    together=1,
)
def test_a_call_that_completes_the_start_folds_what_one_call_folds(
    decided: dict[str, Any], batch_size: int
):
    """More than a block may wait for the start, and the call that completes it end within one."""
    options: dict[str, Any] = dict(gamma=0.4, basis=landmarks.Landmarks(GIVEN)) | decided
    X = np.random.default_rng(0).normal(size=(1030, 2))

    def model() -> StreamingKernelPCA:
        return StreamingKernelPCA(2, batch_size=batch_size, random_state=0, **options)

    start = model().new_stream(X).start_rows
    assert start == 500
    for n in (500, 501, 511, 513, 600, 999, 1000, 1030):
        whole = to_bytes(model().partial_fit(X[:n]))
        for first in (1, 447, 449, 499, n - 1):
            halves = model().partial_fit(X[:first]).partial_fit(X[first:n])
            assert to_bytes(halves) == whole
            np.testing.assert_array_equal(halves.transform_one(X[0]), asked(whole, X[0]))
            assert len(halves.stream_.waiting) == n % batch_size


def asked(file: bytes, x: np.ndarray) -> np.ndarray:
    """What a model file answers for one row."""
    model = StreamingKernelPCA()
    model.set_stream(serialization.from_bytes(file).values()["model"])
    return model.transform_one(x)


def test_a_file_in_which_more_than_a_block_waits_goes_on_like_any_other():
    """Version 0.1 left blocks unfolded that a call completed together with the start."""
    X = np.random.default_rng(0).normal(size=(700, 2))
    model = StreamingKernelPCA(2, gamma=0.4, basis=8, batch_size=64, random_state=0)
    begun = model.new_stream(X).start(Rows(X[:500]))
    left = replace(begun, waiting=Buffer((Rows(X[:510]),)))
    model.set_stream(
        serialization.from_bytes(serialization.to_bytes({"model": left})).values()["model"]
    )
    whole = StreamingKernelPCA(2, gamma=0.4, basis=8, batch_size=64, random_state=0)
    for stop in (511, 520, 700):
        model.partial_fit(X[model.n_samples_seen_ : stop])
        assert to_bytes(model) == to_bytes(clone(whole).partial_fit(X[:stop]))


# Pairs of parts outside the registry: fewer cuttings, but none of the parts is left out.
MORE_BASES = BASES | {
    "reduced-set": (lambda: landmarks.ReducedSet(12), 300, 150),
}
MORE_TRACKERS: dict[str, Any] = TRACKERS | {
    "incremental-svd": trackers.IncrementalSVD,
    "subset-hebbian": lambda **kw: papers.SubsetHebbian(0.02, **kw),
    "lms": lambda **kw: papers.LMS(0.005, **kw),
    "rls": lambda forgetting: papers.RLS(forgetting),
}
MORE_CHAINS = [
    Chain(f"{basis}-{tracker}", make_basis, make_tracker, n_rows, jump)
    for basis, (make_basis, n_rows, jump) in MORE_BASES.items()
    for tracker, make_tracker in MORE_TRACKERS.items()
    if not (basis in BASES and tracker in TRACKERS)
]


@pytest.mark.filterwarnings("ignore:.*the step was too long:RuntimeWarning")
@samples.grid("pair, forgetting", MORE_CHAINS, [1.0, 0.99], together=1)
def test_a_cutting_with_queries_gives_the_same_bytes_for_every_other_pair(
    pair: Chain, forgetting: float
):
    X, rng = pair.rows(), np.random.default_rng(1)
    cuts = [0, *np.sort(rng.choice(np.arange(1, len(X)), 12, replace=False)).tolist(), len(X)]
    pieces = [
        (
            start,
            stop,
            str(rng.choice(["call", "row by row"])),
            str(rng.choice(["", "query", "reload"])),
        )
        for start, stop in itertools.pairwise(cuts)
    ]
    whole = pair.estimator(forgetting).partial_fit(X)
    assert to_bytes(bring(pair.estimator(forgetting), X, None, pieces)) == to_bytes(whole)


@pytest.mark.filterwarnings("ignore:Hebbian. the step was too long:RuntimeWarning")
@given(data=st.data())
def test_any_cutting_after_fit_gives_the_same_bytes(chain, data):
    """``fit`` ends with a short block; the stream that follows is cut like any other."""
    first, rest = chain.rows(n_rows=140), chain.rows(seed=1, n_rows=160)
    whole = chain.estimator().fit(first).partial_fit(rest)
    model = bring(chain.estimator().fit(first), rest, None, data.draw(cuttings(len(rest))))
    assert to_bytes(model) == to_bytes(whole)


@pytest.mark.filterwarnings("ignore:Hebbian. the step was too long:RuntimeWarning")
def test_weights_of_one_and_of_zero(chain):
    """A weight of one is no weight, and a row of weight zero was never there, bit for bit."""
    X = chain.rows()
    n, half = len(X), len(X) // 2 + 5
    plain = to_bytes(chain.estimator().partial_fit(X))
    ones = chain.estimator().partial_fit(X, sample_weight=np.ones(n))
    assert to_bytes(ones) == plain
    mixed = chain.estimator().partial_fit(X[:half])
    mixed.partial_fit(X[half:], sample_weight=np.ones(n - half))
    assert to_bytes(mixed) == plain
    kept = np.arange(n) % 3 > 0
    without = chain.estimator().partial_fit(X[kept])
    zeros = chain.estimator().partial_fit(X, sample_weight=kept.astype(float))
    assert to_bytes(zeros) == to_bytes(without)
    assert zeros.n_samples_seen_ == kept.sum()


@pytest.mark.filterwarnings("ignore:Hebbian. the step was too long:RuntimeWarning")
def test_the_layout_in_memory_does_not_matter(chain):
    """Seven columns: with two, sums along rows round alike in every layout and nothing is seen."""
    n = min(chain.n_rows, 700)
    X = np.random.default_rng(4).normal(size=(n, 7))
    options: dict[str, Any] = dict(gamma=0.1)
    if chain.name.startswith("landmarks-given"):
        options["basis"] = landmarks.Landmarks(X[:9] * 1.5)
    plain = to_bytes(chain.estimator(**options).partial_fit(X))
    for other in (np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], X[::-1].copy()[::-1]):
        model = chain.estimator(**options)
        model.partial_fit(other[: n // 2 + 3]).partial_fit(other[n // 2 + 3 :])
        assert to_bytes(model) == plain
    fitted = to_bytes(chain.estimator(scale="standard", **options).fit(X))
    assert (
        to_bytes(chain.estimator(scale="standard", **options).fit(np.asfortranarray(X))) == fitted
    )


# -- queries


def ask_everything(model, chain, X):
    """Every public query that the chain has an answer to."""
    scores = model.transform(X[:5])
    model.transform_one(X[0])
    model.reconstruction_error(X[:5])
    model.get_feature_names_out()
    names = ["n_samples_seen_", "n_components_", "explained_variance_", "kernel_"]
    names += ["explained_variance_ratio_", "eigenvalues_", "n_shortened_steps_"]
    names += ["basis_points_", "dual_coef_", "intercept_", "mean_coef_"]
    model.inverse_transform(scores)
    model.score(X[:5])
    for name in names:
        getattr(model, name)
    return scores


@pytest.mark.filterwarnings("ignore:Hebbian. the step was too long:RuntimeWarning")
def test_a_query_changes_nothing(chain):
    """At the start, inside a block, at a block's end; asked again, the answer is the same."""
    X = chain.rows()
    asked, silent = chain.estimator(), chain.estimator()
    stops = [1, 40, 64, 100, len(X) - 7, len(X)]
    for start, stop in zip([0, *stops], stops, strict=False):
        asked.partial_fit(X[start:stop])
        silent.partial_fit(X[start:stop])
        before = to_bytes(asked)
        scores = ask_everything(asked, chain, X)
        np.testing.assert_array_equal(asked.transform(X[:5]), scores)
        assert to_bytes(asked) == before == to_bytes(silent)
    np.testing.assert_array_equal(silent.transform(X[:5]), scores)


# -- the centroids of these tests do look for points and do move


def test_the_stream_of_the_laws_takes_the_centroids_through_all_their_paths():
    chain = next(c for c in CHAINS if c.follows_rows and not c.sequential)
    X = chain.rows()
    model = chain.estimator()
    looked, changed = {0}, 0
    for start in range(0, len(X), 64):
        before = state_of(model) if start else None
        model.partial_fit(X[start : start + 64])
        state = state_of(model)
        if state is None:
            continue
        looked.add(state.basis.updated_at)
        changed += before is not None and state.basis.span is not before.basis.span
    assert len(looked) >= 3 and changed >= 2
    assert max(looked) > chain.jump
    assert model.stream_.waiting  # the last block is not complete


def test_a_query_looks_for_points_where_the_stream_cannot_afford_it(monkeypatch):
    """On its own copy, when many rows came that are missed more than is normal."""
    monkeypatch.setattr(landmarks.Centroids, "_update_due", lambda self, state: False)
    chain = next(c for c in CHAINS if c.follows_rows and not c.sequential)
    X = chain.rows()
    model = chain.estimator().partial_fit(X[: chain.jump])
    start = settled_state(model).basis.updated_at
    model.partial_fit(X[chain.jump :])
    asked = settled_state(model)
    assert asked.basis.updated_at > chain.jump
    assert state_of(model).basis.updated_at == start < chain.jump
    assert model.reconstruction_error(X[-50:]).mean() < 0.5 * np.mean(
        1.0
        - (state_of(model).basis.span.coordinates(model.stream_.chain.kernel, X[-50:]) ** 2).sum(
            axis=1
        )
    )


# -- batch size


@pytest.mark.filterwarnings("ignore:Hebbian. the step was too long:RuntimeWarning")
@samples.grid(
    "basis, tracker, batch_size, forgetting",
    [basis for basis in BASES if not NAMED[f"{basis}-covariance"].follows_rows],
    TRACKERS,
    [1, 5, 63, 1000],
    [1.0, 0.98],
)
def test_another_batch_size_gives_the_same_model_to_rounding(
    basis, tracker, batch_size, forgetting
):
    """Centroids decide at block ends, as documented; all other bases do not."""
    chain, options = NAMED[f"{basis}-{tracker}"], dict(forgetting=forgetting)
    X = chain.rows()
    w = np.random.default_rng(0).uniform(0.5, 2.0, size=len(X))
    a = chain.estimator(**options).partial_fit(X, sample_weight=w)
    b = chain.estimator(batch_size=batch_size, **options).partial_fit(X, sample_weight=w)
    np.testing.assert_array_equal(a.basis_points_, b.basis_points_)
    # Sums in another order: 1e-16 · rows, times the condition of the factor (1e4 for Everything).
    np.testing.assert_allclose(b.explained_variance_, a.explained_variance_, rtol=1e-8)
    A, B = a.transform(X), b.transform(X)
    signs = np.sign(np.sum(A * B, axis=0))  # references for signs are taken at block ends
    np.testing.assert_allclose(B * signs, A, rtol=0, atol=1e-7)


# -- the naive algorithm of the paper

STEPS = {
    "constant": (schedules.ConstantRate(0.1), lambda t: 0.1),
    "inverse-time": (schedules.InverseTime(0.8), lambda t: 0.8 / t),
    "inverse-time-floor": (
        schedules.InverseTime(0.8, floor=0.05),
        lambda t: max(0.8 / t, 0.05),
    ),
    "search-then-converge": (
        schedules.SearchThenConverge(0.5, 50),
        lambda t: 0.5 / (1 + t / 50),
    ),
    "shortened": (schedules.ConstantRate(3.0), lambda t: 3.0),
}
CRITERIA = {
    "distance": (landmarks.Distance(nu=0.15), naive.distance_criterion(0.15), None),
    "distance-full": (landmarks.Distance(nu=0.05, max_points=6), naive.distance_criterion(0.05), 6),
    "coherence": (landmarks.Coherence(delta=0.5), naive.coherence_criterion(0.5), None),
}
KERNELS = {
    "rbf": (kernels.RBF(gamma=0.5), naive.rbf(0.5)),
    "polynomial": (
        kernels.Polynomial(degree=2, gamma=0.3, coef0=1.0),
        naive.polynomial(2, 0.3, 1.0),
    ),
}


@pytest.mark.filterwarnings("ignore:Hebbian. the step was too long:RuntimeWarning")
@samples.grid(
    "kernel, criterion, steps, center, options",
    KERNELS,
    CRITERIA,
    STEPS,
    [True, False],
    ["plain", "weights", "forgetting"],
)
def test_growing_bases_with_hebbian_equal_the_naive_algorithm(
    kernel, criterion, steps, center, options
):
    """Honeine's algorithm row by row in dual coefficients, against blocks in coordinates."""
    rng = np.random.default_rng(11)
    X, new = rng.normal(size=(90, 2)) + np.array([0.5, 0.0]), rng.normal(size=(15, 2))
    ours, k = KERNELS[kernel]
    basis, admits, max_points = CRITERIA[criterion]
    schedule, eta = STEPS[steps]
    weights = rng.uniform(0.3, 2.0, size=len(X)) if options == "weights" else None
    beta = 0.97 if options == "forgetting" else 1.0
    expected = naive.honeine(
        k,
        X,
        3,
        eta,
        admits,
        max_points=max_points,
        center=center,
        weights=weights,
        forgetting=beta,
    )
    assert 3 < len(expected.points) < 60
    for batch_size in (1, 48):
        model = StreamingKernelPCA(
            3,
            kernel=ours,
            basis=basis,
            tracker=papers.Hebbian(schedule, forgetting=beta),
            center=center,
            batch_size=batch_size,
        )
        model.partial_fit(X[:57], sample_weight=None if weights is None else weights[:57])
        model.partial_fit(X[57:], sample_weight=None if weights is None else weights[57:])
        np.testing.assert_array_equal(model.basis_points_, expected.points)
        state = settled_state(model)
        raw = naive.gram(k, new, expected.points) @ (state.basis.span.factor @ state.tracker.V)
        # Rounding 1e-16, times the condition of K(D,D) (below 1e3) and 90 steps: 1e-10.
        np.testing.assert_allclose(raw, expected.components(k, new), rtol=0, atol=1e-10)
        np.testing.assert_allclose(model.transform(new), expected.scores(k, new), atol=1e-10)
        order = np.sort(expected.variances)[::-1]
        np.testing.assert_allclose(model.explained_variance_, order, rtol=1e-9, atol=1e-12)
        assert model.n_shortened_steps_ == expected.n_shortened
    if steps == "shortened":
        assert expected.n_shortened > 0


def test_everything_with_hebbian_equals_the_naive_algorithm():
    X = np.random.default_rng(12).normal(size=(50, 3)) * 2.0
    k = naive.rbf(0.5)
    expected = naive.honeine(k, X, 3, lambda t: 0.3, naive.everything_criterion)
    assert len(expected.points) == 50
    model = StreamingKernelPCA(
        3,
        gamma=0.5,
        basis=landmarks.Everything(),
        tracker=papers.Hebbian(schedules.ConstantRate(0.3)),
        batch_size=16,
    ).partial_fit(X)
    np.testing.assert_allclose(model.transform(X), expected.scores(k, X), rtol=0, atol=1e-10)
