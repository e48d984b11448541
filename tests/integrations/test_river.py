"""Rows as dictionaries: by themselves, and inside river's pipelines where river is installed."""

from __future__ import annotations

import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import kernelstream
from kernelstream import (
    KernelMonitor,
    StreamingKernelClassifier,
    StreamingKernelPCA,
    StreamingKernelRidge,
    load,
    papers,
)
from kernelstream.integrations.river import KernelComponents, NoveltyDetector
from kernelstream.papers import (
    AdaptiveKernelPCA,
    IncrementalKernelPCA,
    KernelHebbianPCA,
    OnlineKernelPCA,
)

NAMES = ["heat", "load", "speed"]


def ring(n: int = 700, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    t = rng.uniform(0, 2 * np.pi, n)
    return np.column_stack([np.cos(t), np.sin(t), np.cos(2 * t)]) + 0.1 * rng.normal(size=(n, 3))


def dictionaries(X: np.ndarray) -> list[dict[str, float]]:
    return [dict(zip(NAMES, map(float, x), strict=True)) for x in X]


def pattern(n_components: Any = 2, **options: Any) -> StreamingKernelPCA:
    return StreamingKernelPCA(
        n_components, **{"gamma": 0.5, "basis": 20, "random_state": 0, **options}
    )


def learned(part: Any, X: np.ndarray) -> Any:
    for x in dictionaries(X):
        assert part.learn_one(x) is None
    return part


# --- dictionaries


def test_the_components_are_those_of_the_model() -> None:
    X = ring()
    part = learned(KernelComponents(pattern(), refresh=1), X)
    model = pattern()
    for x in X:
        model.learn_one(x)
    expected = model.transform(X[:9])
    for x, scores in zip(dictionaries(X[:9]), expected, strict=True):
        found = part.transform_one(x)
        assert list(found) == list(model.get_feature_names_out())
        assert all(type(value) is float for value in found.values())
        np.testing.assert_allclose(list(found.values()), scores, rtol=1e-12)


def test_the_score_is_the_reconstruction_error() -> None:
    X = ring()
    part = learned(NoveltyDetector(pattern(5), refresh=1), X)
    expected = pattern(5).partial_fit(X).reconstruction_error(X[:9])
    found = [part.score_one(x) for x in dictionaries(X[:9])]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert part.score_one(dict.fromkeys(NAMES, 0.0)) > 3 * np.median(found)  # inside the ring


def test_a_detector_scores_as_it_does_elsewhere_and_knows_p_values() -> None:
    X = ring(150)
    model = kernelstream.KernelNovelty(gamma=0.5, basis=30, scale=None, random_state=0)
    part = learned(NoveltyDetector(model, refresh=1), X)
    due = clone(model).partial_fit(X)
    rows = dictionaries(X[:9])
    found = [part.score_one(x) for x in rows]
    np.testing.assert_allclose(found, -due.score_samples(X[:9]), rtol=1e-12)
    new = ring(9, seed=5)
    p_values = [part.p_value_one(x) for x in dictionaries(new)]
    np.testing.assert_allclose(p_values, due.p_values(new))
    assert part.p_value_one(dict.fromkeys(NAMES, 0.0)) < 0.05  # inside the ring
    assert NoveltyDetector(model).p_value_one(rows[0]) == 1.0
    assert part.estimator.n_samples_seen_ == len(X)
    with pytest.raises(TypeError, match="holds no rows back"):
        NoveltyDetector(pattern()).p_value_one(rows[0])


def test_the_order_in_a_dictionary_does_not_matter() -> None:
    X = ring(300)
    part, other = KernelComponents(pattern()), KernelComponents(pattern())
    for x in dictionaries(X):
        part.learn_one(x)
        other.learn_one({name: x[name] for name in reversed(NAMES)})
    assert list(other.estimator.feature_names_in_) == NAMES
    x = dictionaries(X[:1])[0]
    assert other.transform_one({name: x[name] for name in reversed(NAMES)}) == part.transform_one(x)


def test_features_may_have_names_of_several_kinds() -> None:
    part = KernelComponents(pattern())
    for x in dictionaries(ring(60)):
        part.learn_one({1: x["load"], "heat": x["heat"], 0: x["speed"]})
    assert len(part.transform_one({"heat": 0.0, 0: 1.0, 1: 2.0})) == 2


@pytest.mark.parametrize("kind", [KernelComponents, NoveltyDetector])
def test_a_row_that_does_not_fit_is_named_and_changes_nothing(kind: Any) -> None:
    X = ring(60)
    part = learned(kind(pattern()), X)
    x = dictionaries(X[:1])[0]
    before = pickle.dumps(part.estimator)
    query = part.transform_one if kind is KernelComponents else part.score_one
    cases: list[tuple[Any, type[Exception], str]] = [
        ({"speed": 1.0, "load": 2.0}, ValueError, "no value for the feature 'heat'"),
        ({**x, "heat": None}, ValueError, "no value for the feature 'heat'"),
        ({**x, "heat": float("nan")}, ValueError, "missing=0.0"),
        ({**x, "heat": np.float64("nan")}, ValueError, "no value for the feature 'heat'"),
        ({**x, "load": float("inf")}, ValueError, "'load' is inf"),
        ({**x, "load": "3.5"}, ValueError, "'load' is '3.5'; a finite number"),
        ({**x, "load": 1j}, ValueError, "'load' is 1j"),
        ({**x, "load": [1.0]}, ValueError, r"'load' is \[1.0\]"),
        ({**x, "wind": 1.0}, ValueError, "did not have: 'wind'"),
        ({**x, **dict.fromkeys("abcdefg", 1.0)}, ValueError, "'e' and 2 more"),
        ({}, ValueError, "no value for the feature 'heat'"),
        ([1.0, 2.0, 3.0], TypeError, "must be a dictionary"),
    ]
    for row, error, words in cases:
        for call in (part.learn_one, query):
            with pytest.raises(error, match=words):
                call(row)
    assert pickle.dumps(part.estimator) == before


def test_a_first_row_that_fails_decides_nothing() -> None:
    part = KernelComponents(pattern())
    with pytest.raises(ValueError, match="no features"):
        part.learn_one({})
    with pytest.raises(ValueError, match="'b' is 'x'"):
        part.learn_one({"a": 1.0, "b": "x"})
    with pytest.raises(ValueError, match="'b' is 'x'"):
        part.transform_one({"a": 1.0, "b": "x"})
    part.transform_one({"q": 1.0})  # a query decides nothing either
    part.learn_one({"c": 1.0})
    assert list(part.estimator.feature_names_in_) == ["c"]


@pytest.mark.parametrize(
    "absent", [None, float("nan"), np.float32("nan"), np.float64("nan"), np.float16("nan"), pd.NA]
)
def test_a_missing_value_of_any_type(absent: Any) -> None:
    """A NaN of float32 is no Python float, and was no missing value once."""
    first, second = (KernelComponents(pattern(), missing=0.25) for _ in range(2))
    for value, part in ((absent, first), (0.25, second)):
        part.learn_one({"a": 1.0, "b": 2.0})
        part.learn_one({"a": value, "b": 3.0})
    assert first.transform_one({"a": 0.5, "b": 1.0}) == second.transform_one({"a": 0.5, "b": 1.0})
    with pytest.raises(ValueError, match="no value for the feature 'a'"):
        KernelComponents(pattern()).learn_one({"a": absent, "b": 3.0})


def test_missing_and_additional_features_can_be_allowed() -> None:
    X = ring(200)
    part = learned(KernelComponents(pattern(), missing=0.25, extra="ignore"), X)
    x = dictionaries(X[:1])[0]
    filled = part.transform_one({**x, "heat": 0.25})
    assert part.transform_one({"speed": x["speed"], "load": x["load"]}) == filled
    for nothing in (None, float("nan")):
        assert part.transform_one({**x, "heat": nothing, "wind": "strong"}) == filled
    first = KernelComponents(pattern(), missing=0.25)
    first.learn_one({"a": 1.0, "b": None})
    np.testing.assert_array_equal(first.estimator.basis_points_, [[1.0, 0.25]])


def test_all_kinds_of_real_numbers_are_taken() -> None:
    part = KernelComponents(pattern())
    part.learn_one(
        {"a": 1, "b": True, "c": np.float32(0.5), "d": Fraction(1, 4), 5: np.bool_(False)}
    )
    np.testing.assert_array_equal(
        part.estimator.basis_points_, [[0.0, 1.0, 1.0, 0.5, 0.25]]
    )  # 5 first
    assert not hasattr(part.estimator, "feature_names_in_")  # one name is no text


# --- looks


def test_before_the_first_row_all_is_zero() -> None:
    x = dict.fromkeys(NAMES, 1.0)
    expected = {"streamingkernelpca0": 0.0, "streamingkernelpca1": 0.0}
    assert KernelComponents(pattern()).transform_one(x) == expected
    assert KernelComponents(pattern(None)).transform_one(x) == {}
    assert KernelComponents(pattern(0.9)).transform_one(x) == {}
    assert NoveltyDetector(pattern()).score_one(x) == 0.0


def test_looks_are_rare_and_never_older_than_refresh() -> None:
    part = KernelComponents(pattern(), refresh=50)
    ages = []
    looks = set()
    for n, x in enumerate(dictionaries(ring(1200)), 1):
        part.learn_one(x)
        seen = part._looked.n_samples_seen_
        looks.add(seen)
        ages.append((n - seen) / n)
        assert n - seen < 50
    assert max(ages[20:]) <= 0.2
    assert len(looks) < 50


def test_a_row_that_is_rejected_half_way_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    X = ring(300)
    part = learned(KernelComponents(pattern()), X[:100])
    before = part.transform_one(dictionaries(X[:1])[0])

    def fails(self: Any) -> None:
        raise RuntimeError("no memory left")

    with monkeypatch.context() as patched:
        patched.setattr(KernelComponents, "_look", fails)
        part._next_look = 101
        with pytest.raises(RuntimeError, match="no memory"):
            part.learn_one(dictionaries(X[100:101])[0])
    assert part.estimator.n_samples_seen_ == 100
    assert part.transform_one(dictionaries(X[:1])[0]) == before


def test_a_query_changes_nothing() -> None:
    X = ring(400)
    quiet, asked = KernelComponents(pattern()), KernelComponents(pattern())
    for x in dictionaries(X):
        quiet.learn_one(x)
        asked.transform_one(x)
        asked.learn_one(x)
    for x in dictionaries(ring(5, seed=1)):
        assert quiet.transform_one(x) == asked.transform_one(x)
    assert pickle.dumps(quiet.estimator) == pickle.dumps(asked.estimator)


# --- models


@pytest.mark.parametrize(
    "model",
    [
        OnlineKernelPCA(2, gamma=0.5, random_state=0),
        AdaptiveKernelPCA(2, gamma=0.5, random_state=0),
        IncrementalKernelPCA(2, gamma=0.5, n_points=20, random_state=0),
        KernelHebbianPCA(2, gamma=0.5, random_state=0),
        pattern(2, tracker=papers.Hebbian()),
        pattern(2, scale="standard").set_output(transform="pandas"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_other_models(model: Any) -> None:
    X = ring(300)
    part = learned(KernelComponents(model, refresh=1), X)
    expected = clone(model).set_output(transform="default")
    for x in X:
        expected.learn_one(x)
    found = [list(part.transform_one(x).values()) for x in dictionaries(X[:4])]
    np.testing.assert_allclose(found, expected.transform(X[:4]), atol=1e-12)


def test_the_given_model_never_learns() -> None:
    model = pattern()
    part = learned(KernelComponents(model), ring(50))
    assert not model.__sklearn_is_fitted__()
    assert not part.model.__sklearn_is_fitted__()
    assert part.estimator.n_samples_seen_ == 50


def test_a_saved_model_goes_on(tmp_path: Any) -> None:
    X = ring(800)
    whole = learned(KernelComponents(pattern()), X)
    half = learned(KernelComponents(pattern()), X[:350])
    half.estimator.save(tmp_path / "half.safetensors")
    again = learned(KernelComponents(load(tmp_path / "half.safetensors")), X[350:])
    np.testing.assert_array_equal(again.estimator.dual_coef_, whole.estimator.dual_coef_)
    with pytest.raises(ValueError, match="no value for the feature"):
        again.transform_one({"a": 1.0})
    restored = pickle.loads(pickle.dumps(whole))
    assert restored.transform_one(dictionaries(X)[0]) == whole.transform_one(dictionaries(X)[0])


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"model": StreamingKernelRidge()}, TypeError, "convert_sklearn_to_river"),
        ({"model": StreamingKernelClassifier()}, TypeError, "convert_sklearn_to_river"),
        ({"model": KernelMonitor()}, TypeError, "got KernelMonitor"),
        ({"model": "rbf"}, TypeError, "got str"),
        ({"missing": "mean"}, ValueError, "missing must be a finite number"),
        ({"missing": float("nan")}, ValueError, "missing must be a finite number"),
        ({"extra": "drop"}, ValueError, "'raise', 'ignore'"),
        ({"refresh": 0}, ValueError, "refresh must be a positive integer"),
        ({"refresh": 2.5}, ValueError, "refresh must be a positive integer"),
        ({"refresh": True}, ValueError, "refresh must be a positive integer"),
    ],
)
def test_arguments_are_checked(arguments: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        KernelComponents(**arguments)


def test_a_model_of_rows_without_names_is_refused() -> None:
    with pytest.raises(ValueError, match="rows without names"):
        KernelComponents(pattern().fit(ring(50)))


# --- with river


@pytest.fixture
def river() -> Any:
    return pytest.importorskip("river")


def test_in_a_pipeline(river: Any) -> None:
    from river import compose, preprocessing

    X = ring(600) * [1.0, 30.0, 500.0]
    part = KernelComponents(pattern())
    pipeline = preprocessing.StandardScaler() | part
    assert isinstance(pipeline, compose.Pipeline)
    scaler, alone = preprocessing.StandardScaler(), KernelComponents(pattern())
    for x in dictionaries(X):
        pipeline.learn_one(x)
        scaler.learn_one(x)
        alone.learn_one(scaler.transform_one(x))
    for x in dictionaries(X[:5]):
        found = pipeline.transform_one(x)
        assert found == alone.transform_one(scaler.transform_one(x))
        assert list(found) == ["streamingkernelpca0", "streamingkernelpca1"]


def test_the_components_help_a_linear_model(river: Any) -> None:
    from river import evaluate, linear_model, metrics, preprocessing

    def accuracy(model: Any, seed: int) -> float:
        X = ring(1500, seed)
        y = [bool(x[0] * x[1] > 0) for x in X]  # opposite quarters of the ring: no line parts them
        rows = zip(dictionaries(X), y, strict=True)
        return evaluate.progressive_val_score(rows, model, metrics.Accuracy()).get()

    def plain() -> Any:
        return preprocessing.StandardScaler() | linear_model.LogisticRegression()

    # Components of nearly equal variance exchange while a stream is young: one ring is luck.
    found = [
        accuracy(preprocessing.StandardScaler() | KernelComponents(pattern(8)) | plain(), seed)
        for seed in range(4)
    ]
    assert np.mean(found) > 0.85 > 0.7 > accuracy(plain(), 0)


def test_unions_and_selections(river: Any) -> None:
    from river import compose, preprocessing

    model = (
        compose.Select("speed", "heat") | KernelComponents(pattern())
    ) + preprocessing.StandardScaler()
    for x in dictionaries(ring(100)):
        model.learn_one(x)
    found = model.transform_one(dictionaries(ring(1))[0])
    assert set(found) == {*NAMES, "streamingkernelpca0", "streamingkernelpca1"}


def test_a_quantile_of_the_scores_is_an_honest_limit(river: Any) -> None:
    from river import anomaly, compose

    detector = compose.Pipeline(
        anomaly.QuantileFilter(NoveltyDetector(pattern(5)), q=0.95),
    )
    filter_ = detector["QuantileFilter"]
    alarms = []
    for i, x in enumerate(dictionaries(ring(3000))):
        score = filter_.score_one(x)
        if i >= 1000:
            alarms.append(filter_.classify(score))
        filter_.learn_one(x)
    assert 0.03 < np.mean(alarms) < 0.07
    assert filter_.classify(filter_.score_one(dict.fromkeys(NAMES, 0.0)))


def test_novelty_is_measured_by_river(river: Any) -> None:
    from river import evaluate, metrics, preprocessing

    X, strange = ring(1500), np.arange(1500) % 40 == 39
    X[strange, 2] += 1.5
    rows = zip(dictionaries(X), map(bool, strange), strict=True)
    model = preprocessing.StandardScaler() | NoveltyDetector(pattern(4))
    found = evaluate.progressive_val_score(rows, model, metrics.ROCAUC())
    assert found.get() > 0.9


def test_clones_are_fresh(river: Any) -> None:
    from river import preprocessing

    pipeline = preprocessing.StandardScaler() | KernelComponents(pattern(), missing=0.5)
    for x in dictionaries(ring(50)):
        pipeline.learn_one(x)
    fresh = pipeline.clone()["KernelComponents"]
    assert fresh.missing == 0.5
    assert fresh.model.gamma == 0.5
    with pytest.raises(Exception, match="has not seen any rows"):
        _ = fresh.estimator.n_samples_seen_
    other = pipeline["KernelComponents"].clone({"model": pattern(4), "refresh": 7})
    assert (other.refresh, other.missing, other.model.n_components) == (7, 0.5, 4)
    assert "KernelComponents" in repr(pipeline)


COME_AND_GO = {
    "check_emerging_features",
    "check_disappearing_features",
    "check_radically_disappearing_features",
    "check_learn_many_matches_learn_one",
}


@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize("kind", [KernelComponents, NoveltyDetector])
def test_rivers_own_checks(
    river: Any, monkeypatch: pytest.MonkeyPatch, kind: Any, allowed: bool
) -> None:
    from river import checks, datasets

    class Cards:
        """In the place of credit card records, which river would fetch."""

        def take(self, n: int) -> Any:
            for i, x in enumerate(dictionaries(ring(n))):
                strange = i % 40 == 39
                more = {"wind": x["heat"] ** 2, "rain": x["load"] + 1.5 * strange, "sun": 0.0}
                yield {**x, **more}, int(strange)

    monkeypatch.setattr(datasets, "CreditCard", Cards)
    options = {"missing": 0.0, "extra": "ignore"} if allowed else {}
    part = kind(pattern(), **options)
    names = set()
    for check in checks.yield_checks(part):
        names.add(check.__name__)
        if allowed:
            check(part.clone())
        elif check.__name__ in COME_AND_GO:
            with pytest.raises(ValueError, match=r"no value for|did not have"):
                check(part.clone())
    assert "check_clone_is_idempotent" in names
    assert names & COME_AND_GO or kind is KernelComponents  # river < 0.26 has none for those


def test_the_regression_pair_by_rivers_own_adapter(river: Any) -> None:
    from river import compat, evaluate, metrics

    X = ring(300)
    y = X[:, 0] * X[:, 1]
    model = compat.convert_sklearn_to_river(StreamingKernelRidge(gamma=0.5, basis=20))
    rows = zip(dictionaries(X), map(float, y), strict=True)
    found = evaluate.progressive_val_score(rows, model, metrics.R2())
    assert found.get() > 0.7
