"""What a sample says of a model, against what is true of all rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from benchmarks import statement as check
from kernelstream import KernelPCA, StreamingKernelPCA, landmarks, papers, trackers
from kernelstream.certificates import betting, confidence
from kernelstream.certificates import sample as audit
from kernelstream.certificates.confidence import bounds_of_sample, named_limits
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
        (said.explained_variance_ratio_interval, true.own),
        (said.best_explained_variance_ratio_interval, true.best),
    ):
        assert interval[0] <= number <= interval[1]
        assert interval[1] - interval[0] < 1e-5
    assert said.shortfall_bound == pytest.approx(true.best - true.own, abs=1e-5)
    assert said.kind == "computed from all 500 rows"


def test_a_model_of_other_rows_is_not_praised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points that lie elsewhere: the statement sees it, with any moments that the model holds."""
    monkeypatch.setattr(audit, "ROWS", 400)
    X = np.random.default_rng(0).normal(size=(1000, 2))
    far = landmarks.Landmarks(np.array([[6.0, 6.0], [7.0, 5.0], [5.0, 7.0]]))
    model = StreamingKernelPCA(2, gamma=0.5, basis=far, random_state=0).partial_fit(X)
    said = model.certificate_.statistical
    assert said.explained_variance_ratio_interval[1] < 0.1
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
    assert rows["kind"] == "99% confidence, from 500 rows"
    assert certificate.kind == "99% confidence" and certificate.bounds is certificate.statistical
    assert certificate.best_explained_variance_ratio_interval == (
        certificate.statistical.best_explained_variance_ratio_interval
    )
    tight = StreamingKernelPCA(2, gamma=0.1, basis="everything", random_state=0).partial_fit(X)
    assert tight.certificate_.kind == "guaranteed"
    whole = StreamingKernelPCA(2, gamma=0.3, basis=given, random_state=0).partial_fit(X[:400])
    assert whole.certificate_.bounds.kind == "computed from all 400 rows"
    assert whole.certificate_.kind == "guaranteed"


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("parts", [{}, {"kernel": "linear"}], ids=str)
def test_bounds_of_sample_not_compared_are_narrower(
    parts: dict[str, Any], center: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not by much: most of the width is that of the model's own ratio."""
    monkeypatch.setattr(audit, "ROWS", 300)
    X = np.random.default_rng(0).normal(size=(900, 3)) + 0.5
    given: dict[str, Any] = dict(gamma=0.1) if parts.get("kernel") is None else {}
    model = StreamingKernelPCA(2, center=center, random_state=0, **given, **parts).partial_fit(X)
    stream = model.stream_.caught_up
    evaluated = stream.evaluated(stream.components)
    widths = []
    for compare in (False, True):
        bounds = bounds_of_sample(evaluated, compare)
        assert bounds.reason is None and not bounds.complete
        low, high = bounds.best_explained_variance_ratio_interval
        widths.append(high - low)
    assert 0.3 * widths[1] < widths[0] <= widths[1] < 1.0


def test_no_rows_are_compared_where_the_proof_says_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Gram matrix of five thousand rows took a second of every fit from the shell."""
    monkeypatch.setattr(audit, "ROWS", 300)
    X = np.random.default_rng(0).normal(size=(900, 3))
    model = StreamingKernelPCA(2, gamma=0.1, basis="everything", random_state=0).partial_fit(X)
    with monkeypatch.context() as patch:
        patch.setattr(confidence, "gram_matrix", lambda *given: pytest.fail("rows were compared"))
        assert model.certificate_.bounds is model.certificate_.details
    bounds = model.certificate_.statistical
    low, high = model.certificate_.explained_variance_ratio_interval
    assert model.certificate_.kind == "guaranteed"
    assert high - low <= bounds.shortfall_bound


def test_with_many_components_fewer_draws_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "ROWS", 300)
    monkeypatch.setattr(confidence, "FEWER_DRAWS", 100)
    X = np.random.default_rng(0).normal(size=(3000, 3))
    few, many = (
        StreamingKernelPCA(r, gamma=0.3, basis=80, random_state=0).partial_fit(X) for r in (64, 65)
    )
    sizes: list[int] = []
    gram_matrix = confidence.gram_matrix

    def counted(block: Any, diagonal: np.ndarray, dtype: type) -> np.ndarray:
        sizes.append(len(diagonal))
        return gram_matrix(block, diagonal, dtype)

    monkeypatch.setattr(confidence, "gram_matrix", counted)
    assert few.certificate_.statistical.n_sampled == many.certificate_.statistical.n_sampled
    assert sizes == [300, 100]


def test_looking_at_every_doubling_is_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same sample says a little less after more doublings."""
    monkeypatch.setattr(audit, "ROWS", 200)
    X = np.random.default_rng(0).normal(size=(300, 2))
    model = StreamingKernelPCA(1, gamma=0.2, basis=5, random_state=0).partial_fit(X)
    stream = model.stream_.caught_up
    evaluated = stream.evaluated(stream.components)

    def width(n: int) -> float:
        bounds = bounds_of_sample(replace(evaluated, n_rows=n))
        low, high = bounds.reconstruction_error_interval
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
    assert reason is not None and "no sample of its rows to evaluate" in reason


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


# -- the level behind "99%"


def spent(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Probabilities with which the limits that are asked for may be wrong, as they are used."""
    probabilities: list[float] = []

    def watch(name: str, n_limits: int) -> None:
        function = getattr(betting, name)

        def watched(*given: Any) -> Any:
            probabilities.extend([float(np.exp(-given[-1]))] * n_limits)
            return function(*given)

        monkeypatch.setattr(confidence, name, watched)

    for name, n_limits in (
        ("mean_limits", 2),
        ("ratio_limits", 2),
        ("least_ratio", 1),
        ("deviation", 1),
    ):
        watch(name, n_limits)
    return probabilities


@pytest.mark.parametrize(("n", "look"), [(350, 1), (700, 2), (1300, 3)])
def test_bounds_of_sample_limits_used_add_up_to_one_percent(
    n: int, look: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The union bound over all limits, and over all doublings of the rows."""
    monkeypatch.setattr(audit, "ROWS", 300)
    X = np.random.default_rng(0).normal(size=(n, 3))
    model = StreamingKernelPCA(2, gamma=0.3, basis=8, random_state=0).partial_fit(X)
    probabilities = spent(monkeypatch)
    bounds = model.certificate_.statistical
    assert bounds.kind.startswith("99% confidence")
    assert len(probabilities) == len(named_limits(["all"])) == len(set(named_limits(["all"])))
    assert sum(probabilities) == pytest.approx(0.01 / (look * (look + 1)), rel=1e-9)


def test_bounds_of_draws_limits_used_add_up_to_the_confidence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kernelstream.estimators.until.FIRST", 256)
    monkeypatch.setattr("kernelstream.certificates.evaluation.STRIP", 16)
    X = np.random.default_rng(0).normal(size=(3000, 2))
    model = StreamingKernelPCA(2, gamma=0.3, basis=12, random_state=0)
    probabilities = spent(monkeypatch)
    model.fit(X, until=0.95, confidence=0.9)
    assert len(probabilities) == len(named_limits(["the span", "the rest"]))
    assert sum(probabilities) == pytest.approx(0.1 / 2, rel=1e-9)


@pytest.mark.parametrize(("level", "least", "most"), [(None, 0.0, 0.01), (0.5, 0.05, 1.0)])
def test_bounds_of_many_small_streams_are_wrong_as_often_as_the_level_says(
    level: float | None, least: float, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Coverage; with limits that may be wrong with exp(-1/2) each, many are."""
    monkeypatch.setattr(audit, "ROWS", 100)
    if level is not None:
        monkeypatch.setattr(confidence, "level_of", lambda *given: level)
    wrong, n = 0, 120
    for seed in range(n):
        X = np.random.default_rng(seed).normal(size=(800, 1))
        points = landmarks.Landmarks(np.array([[0.0], [1.0]]))
        model = StreamingKernelPCA(1, gamma=0.3, basis=points, random_state=seed).partial_fit(X)
        low, high = model.certificate_.statistical.reconstruction_error_interval
        wrong += not low <= float(np.mean(model.reconstruction_error(X))) <= high
    assert least * n <= wrong <= most * n
