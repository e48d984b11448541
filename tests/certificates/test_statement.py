"""What a sample says of a model, against what is true of all rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from benchmarks import statement as check
from kernelstream import KernelPCA, StreamingKernelPCA, kernels, landmarks, papers, trackers
from kernelstream.certificates import confidence as statement
from kernelstream.certificates import sample as audit
from kernelstream.certificates.confidence import Seen
from kernelstream.certificates.symmetric import FEW, Symmetric
from kernelstream.papers import IncrementalKernelPCA, KernelHebbianPCA, OnlineKernelPCA


@pytest.mark.parametrize("first", [0, 8, 16, 24])
def test_random_streams_are_told_what_is_true(first: int) -> None:
    """``python -m benchmarks.statement --streams 2000`` is the long version."""
    for seed in range(first, first + 4):
        found = check.outcome(seed)
        assert found.said.reason is None
        assert not found.wrong and not found.proof_wrong, (seed, found)


@pytest.mark.slow
def test_many_random_streams_are_told_what_is_true() -> None:
    wrong = [seed for seed in range(5000, 5200) if check.outcome(seed).wrong]
    assert len(wrong) <= 3


@pytest.mark.parametrize("center", [True, False])
def test_of_all_rows_the_numbers_are_computed(center: bool) -> None:
    X = np.random.default_rng(0).normal(size=(500, 4))
    model = StreamingKernelPCA(3, gamma=0.2, basis=20, center=center, random_state=0)
    said = model.partial_fit(X).certificate_.statistical
    true = check.truth(model, X, np.ones(500))
    assert said.complete and said.confidence == 1.0 and said.n_sampled == 500
    for interval, number in (
        (said.reconstruction_error_interval, true.error),
        (said.own_ratio_interval, true.own),
        (said.explained_variance_ratio_interval, true.best),
    ):
        assert interval[0] <= number <= interval[1]
        assert interval[1] - interval[0] < 1e-5
    assert said.shortfall_bound == pytest.approx(true.best - true.own, abs=1e-5)
    assert "computed from all 500 rows" in str(said)


def test_a_model_of_other_rows_is_not_praised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points that lie elsewhere: the statement sees it, with any moments that the model holds."""
    monkeypatch.setattr(audit, "ROWS", 400)
    X = np.random.default_rng(0).normal(size=(1000, 2))
    far = landmarks.Landmarks(np.array([[6.0, 6.0], [7.0, 5.0], [5.0, 7.0]]))
    model = StreamingKernelPCA(2, gamma=0.5, basis=far, random_state=0).partial_fit(X)
    said = model.certificate_.statistical
    assert said.own_ratio_interval[1] < 0.1
    assert said.shortfall_bound > 0.2
    assert said.reconstruction_error_interval[0] > 0.4


@pytest.mark.parametrize(
    "parts",
    [
        {"tracker": papers.Hebbian()},
        {"tracker": "incremental_svd", "basis": "everything"},
        {"basis": landmarks.Distance(nu=0.2)},
        {"kernel": "poly"},
        {"tracker": trackers.Covariance(0.99)},
    ],
    ids=str,
)
def test_every_model_has_a_statement(
    parts: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "ROWS", 200)
    X = np.random.default_rng(0).normal(size=(450, 3))
    given: dict[str, object] = dict(random_state=0) | parts
    model = StreamingKernelPCA(2, **given).partial_fit(X)  # type: ignore[arg-type]
    said = model.certificate_.statistical
    assert said.reason is None
    beta = getattr(parts.get("tracker"), "forgetting", 1.0)
    p = beta ** np.arange(449.0, -1.0, -1.0)
    error = float(p @ np.asarray(model.reconstruction_error(X)) / p.sum())
    low, high = said.reconstruction_error_interval
    assert low - 1e-9 <= error <= high + 1e-9


def test_no_statement_where_there_is_no_feature_space_or_rows_were_not_read() -> None:
    X = np.random.default_rng(0).normal(size=(300, 3))
    model = StreamingKernelPCA(2, kernel="sigmoid", basis=landmarks.Landmarks(5), random_state=0)
    said = model.partial_fit(X / 10).certificate_.statistical
    assert said.reason is not None and "not known to be positive semidefinite" in said.reason
    assert str(said).startswith("statement  no statement:")
    stream = StreamingKernelPCA(2, basis=5, random_state=0).partial_fit(np.tile(X, (9, 1))).stream_
    observer = stream.begun.observer
    assert observer is not None
    unsampled = stream.with_state(replace(stream.begun, observer=observer.without_sample()))
    reason = unsampled.certificate.statistical.reason
    assert reason is not None and "passed over its rows several times" in reason


def test_the_certificate_shows_what_says_more_and_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "ROWS", 500)
    X = np.random.default_rng(0).normal(size=(900, 3))
    given = landmarks.Landmarks(X[:3])  # the proof says little of them
    model = StreamingKernelPCA(2, gamma=0.3, basis=given, random_state=0).partial_fit(X)
    certificate = model.certificate_
    rows = dict(certificate.rows())
    assert rows["explained variance ratio"].endswith("(99% confidence, from 500 rows)")
    assert rows["explained by this model"].endswith("(99% confidence, from 500 rows)")
    assert certificate.narrowest_ratio[0] == (
        certificate.statistical.explained_variance_ratio_interval
    )
    tight = StreamingKernelPCA(2, gamma=0.1, basis="everything", random_state=0).partial_fit(X)
    assert tight.certificate_.narrowest_ratio[1] == "deterministic"


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("parts", [{}, {"kernel": "linear"}], ids=str)
def test_how_wide_an_interval_is_at_least_is_known_before(
    parts: dict[str, Any], center: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And tells something: most of the width is that of the model's own share."""
    monkeypatch.setattr(audit, "ROWS", 300)
    X = np.random.default_rng(0).normal(size=(900, 3)) + 0.5
    given: dict[str, Any] = dict(gamma=0.1) if parts.get("kernel") is None else {}
    model = StreamingKernelPCA(2, center=center, random_state=0, **given, **parts).partial_fit(X)
    judged, said = model.certificate_.judged, model.certificate_.statistical
    assert judged is not None and said.reason is None and not said.complete
    low, high = said.explained_variance_ratio_interval
    assert 0.3 * (high - low) < judged.least_width() <= high - low < 1.0


def test_where_nothing_or_everything_is_known_no_width_is() -> None:
    X = np.random.default_rng(0).normal(size=(200, 2))
    whole = StreamingKernelPCA(1, gamma=0.2, random_state=0).partial_fit(X).certificate_.judged
    assert whole is not None and whole.least_width() == 0.0
    assert replace(whole, sample=None).least_width() == np.inf


def test_no_rows_are_compared_where_the_proof_says_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Gram matrix of five thousand rows took a second of every fit from the shell."""
    monkeypatch.setattr(audit, "ROWS", 300)
    X = np.random.default_rng(0).normal(size=(900, 3))
    model = StreamingKernelPCA(2, gamma=0.1, basis="everything", random_state=0).partial_fit(X)
    with monkeypatch.context() as patch:
        patch.setattr(Seen, "gram", lambda *given: pytest.fail("rows were compared"))
        interval, kind = model.certificate_.narrowest_ratio
    certificate = model.certificate_
    assert (interval, kind) == (certificate.explained_variance_ratio_interval, "deterministic")
    low, high = certificate.statistical.explained_variance_ratio_interval
    assert interval[1] - interval[0] <= high - low


def test_without_memory_for_all_draws_fewer_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "ROWS", 300)
    monkeypatch.setattr(statement, "FEWER_ROWS", 100)
    X = np.random.default_rng(0).normal(size=(3000, 3))
    model = StreamingKernelPCA(2, gamma=0.3, basis=12, random_state=0).partial_fit(X)
    wide = model.certificate_.statistical
    gram = Seen.gram

    def scarce(seen: Seen, chosen: np.ndarray) -> Symmetric:
        if len(chosen) > 100:
            raise MemoryError
        return gram(seen, chosen)

    monkeypatch.setattr(Seen, "gram", scarce)
    again = StreamingKernelPCA(2, gamma=0.3, basis=12, random_state=0).partial_fit(X)
    said = again.certificate_.statistical
    assert said.reason is None and said.n_sampled == wide.n_sampled
    assert said.reconstruction_error_interval == wide.reconstruction_error_interval
    assert said.shortfall_bound > wide.shortfall_bound


def test_looking_at_every_doubling_is_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same sample says a little less after more doublings."""
    monkeypatch.setattr(audit, "ROWS", 200)
    X = np.random.default_rng(0).normal(size=(300, 2))
    model = StreamingKernelPCA(1, gamma=0.2, basis=5, random_state=0).partial_fit(X)
    judged = model.certificate_.judged
    assert judged is not None

    def width(n: int) -> float:
        low, high = replace(judged, n_rows=n).statement().reconstruction_error_interval
        return high - low

    assert width(300) < width(900) < width(100_000) < 2 * width(300)


def test_rows_that_are_all_alike() -> None:
    """Nothing is spread: an iteration for the largest eigenvalues had nowhere to begin."""
    model = StreamingKernelPCA(2, gamma=0.2, basis=5, random_state=0).partial_fit(
        np.ones((9000, 2))
    )
    said = model.certificate_.statistical
    assert said.reason is None and said.reconstruction_error_interval[0] == 0.0


PLAIN: dict[str, Any] = {"gamma": 0.1, "random_state": 0}


@pytest.mark.parametrize(
    "kind", ["merge", "fewer components", "weights", "online", "incremental", "drop-in"]
)
def test_what_is_said_is_true_of_the_rows_that_count(kind: str) -> None:
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(400, 3)), 5 * rng.normal(size=(300, 3))
    given = StreamingKernelPCA(2, basis=landmarks.Landmarks(np.vstack([A[:9], B[:9]])), **PLAIN)
    weights = rng.integers(0, 3, size=400).astype(float)
    model, rows = {
        "merge": lambda: (clone(given).fit(A).merge(clone(given).fit(B)), np.vstack([A, B])),
        "fewer components": lambda: (
            StreamingKernelPCA(5, basis=20, **PLAIN).fit(A).set_params(n_components=2),
            A,
        ),
        "weights": lambda: (
            clone(given).fit(A, sample_weight=weights),
            np.repeat(A, weights.astype(int), axis=0),
        ),
        "online": lambda: (OnlineKernelPCA(2, **PLAIN).fit(A), A),
        "incremental": lambda: (IncrementalKernelPCA(2, n_points=20, **PLAIN).fit(A), A),
        "drop-in": lambda: (KernelPCA(2, kernel="rbf", gamma=0.1, basis=40).fit(A), A),
    }[kind]()
    said = model.certificate_.statistical
    assert said.reason is None
    low, high = said.reconstruction_error_interval
    assert low - 1e-9 <= float(np.mean(model.reconstruction_error(rows))) <= high + 1e-9


@pytest.mark.parametrize("kind", ["window", "remove", "compress", "hebbian"])
def test_nothing_is_said_of_rows_that_left(kind: str) -> None:
    """The sample would judge with rows that do not count any more, or count otherwise."""
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(400, 3)), 5 * rng.normal(size=(300, 3))
    points = landmarks.Landmarks(np.vstack([A[:9], B[:9]]))
    both = np.vstack([B, A])
    plain = StreamingKernelPCA(2, basis=points, **PLAIN)
    model = {
        "window": lambda: clone(plain).set_params(tracker=trackers.Window(300)).partial_fit(both),
        "remove": lambda: clone(plain).fit(both).remove(B),
        "compress": lambda: clone(plain).fit(both).compress(9),
        "hebbian": lambda: KernelHebbianPCA(2, n_epochs=30, **PLAIN).fit(A),
    }[kind]()
    reason = model.certificate_.statistical.reason
    assert reason is not None and "no sample of its rows" in reason


def test_a_robust_statement_speaks_of_the_weights_that_were_left() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 8))
    X[::10] += 30.0
    points = landmarks.Landmarks(X[1:300:10])
    model = StreamingKernelPCA(2, basis=points, robust=True, kernel="linear", random_state=0)
    said = model.fit(X).certificate_.statistical
    clean = np.mean(model.reconstruction_error(np.delete(X, np.s_[::10], axis=0)))
    every = np.mean(model.reconstruction_error(X))
    assert every > 10 * clean
    assert said.reconstruction_error_interval[1] < 2 * clean


def test_inner_products_of_few_rows_are_exact_and_of_many_single() -> None:
    X = np.random.default_rng(0).normal(size=(FEW + 1, 3)).astype(np.float32)
    model = StreamingKernelPCA(2, gamma=0.3, basis=20, random_state=0).partial_fit(X)
    stream = model.stream_.caught_up
    seen = Seen.of(stream.evaluated(stream.components), X)
    few, all_rows = (seen.gram(np.arange(n)).dense(np.ones(n)) for n in (FEW, FEW + 1))
    assert few.dtype == np.float64 and all_rows.dtype == np.float32
    np.testing.assert_allclose(all_rows[:FEW, :FEW], few, atol=1e-5)
    feature, mean = seen.Z + seen.mean, seen.mean
    wide = X.astype(float)
    K = kernels.RBF(0.3)(wide)
    exact = K - (feature @ mean)[:, None] - (feature @ mean)[None, :] + mean @ mean
    np.testing.assert_allclose(few, exact[:FEW, :FEW], atol=1e-12)
