"""KernelMonitor: scikit-learn's conventions, parameters, rows that are refused, files."""

from __future__ import annotations

import copy
import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import kernelstream
from kernelstream import KernelMonitor, StreamingKernelPCA
from kernelstream.anomaly import Records
from kernelstream.anomaly.monitor.fitting import RIDGES, WIDTHS
from kernelstream.anomaly.monitor.parameters import settings_of
from tests import samples
from tests.anomaly.monitor.processes import assert_same, process, small


def of_runs(estimator: KernelMonitor) -> dict[str, str]:
    """The checks want outliers among 300 learned rows; of limits for others, none need be there.

    They also want a row to be judged as if it were alone, which it is where nothing is smoothed.
    """
    failures: dict[str, str] = {}
    if estimator.alpha < 0.05:
        checks = "check_outliers_train", "check_outliers_fit_predict"
        failures |= dict.fromkeys(checks, "limits are those of rows that were not learned")
    if estimator.smooth is not None:
        checks = "check_methods_sample_order_invariance", "check_methods_subset_invariance"
        failures |= dict.fromkeys(checks, "the rows of a query are a run, in the order of time")
    return failures


@samples.checks(
    [
        KernelMonitor(basis=20, random_state=0),
        KernelMonitor(0.05, basis=20, smooth=None, random_state=0),
    ],
    expected_failed_checks=of_runs,
)
def test_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def test_verbs_agree() -> None:
    monitor = small().fit(process(300))
    X = process(200, seed=1)
    X[::10] += 5.0
    scores = monitor.score_samples(X)
    np.testing.assert_array_equal(monitor.decision_function(X), scores - monitor.offset_)
    np.testing.assert_array_equal(monitor.predict(X), np.where(scores < monitor.offset_, -1, 1))
    assert np.all(monitor.predict(X[::10]) == -1)
    assert np.mean(monitor.predict(process(500, seed=2)) == -1) < 0.05


@pytest.mark.parametrize("smooth", [None, 0.1])
@pytest.mark.parametrize("lags", [0, 2])
def test_queries_and_the_stream_agree_on_what_an_alarm_is(lags: int, smooth: float | None) -> None:
    """Also on a fault that lasts and is small, of which single rows say little."""
    monitor = small(adapt="off", lags=lags, smooth=smooth).fit(process(500))
    X = process(400, seed=1)
    X[100:, 1] += 1.5
    X[50] = np.nan
    X[20, 2] += 9.0
    records = copy.copy(monitor).update_many(X)
    alarms = records.column("alarm")
    np.testing.assert_array_equal(monitor.predict(X) == -1, alarms)
    if smooth is None:
        index = records.column("index")
        np.testing.assert_allclose(-np.log(index), monitor.score_samples(X), rtol=1e-9)
    else:
        assert np.isnan(monitor.score_samples(X)).nonzero()[0].tolist() == [50]
        assert (
            np.mean(alarms[130:])
            > 0.9
            > 2 * np.mean(records.column("index")[130:] > records.column("index_limit")[130:])
        )
    # and the printed record shows why
    over = [
        records.column(name) > records.column(limit)
        for name, limit in (
            ("index", "index_limit"),
            ("smoothed", "limit"),
            ("lasting", "lasting_limit"),
        )
    ]
    over[0][50] = over[1][50] = over[2][50] = False  # a row without any value raises none
    np.testing.assert_array_equal(alarms, over[0] if smooth is None else np.any(over, axis=0))
    assert alarms[20] and not alarms[:20].any()


def test_without_smoothing_a_row_is_judged_by_itself() -> None:
    """Also where a value is the same in many rows, as on a grid: it is no dead sensor."""
    monitor = small(smooth=None, lags=0).fit(process(300))
    grid = np.zeros((200, 4))
    grid[:, 0] = np.linspace(-3, 3, 200)
    alone = np.concatenate([monitor.score_samples(row[None, :]) for row in grid])
    np.testing.assert_allclose(monitor.score_samples(grid), alone, rtol=1e-9)


@pytest.mark.parametrize("alpha", [1e-4, 1e-11])
def test_alarms_that_are_asked_for_ever_so_rarely(alpha: float) -> None:
    """There is a limit, and an event is never without an alarm."""
    with pytest.warns(UserWarning, match=r"too few for alarms .* Give at least \d+ rows"):
        monitor = small(alpha=alpha, width=300.0, adapt="off").fit(process(300))
    assert np.isfinite(monitor.offset_)
    limits = monitor.limits_
    assert limits["event"] >= limits["smoothed"][alpha]  # type: ignore[operator,index]
    X = process(60, seed=1)
    X[30:] += 300.0
    records = monitor.update_many(X)
    assert not records[29].alarm and records[-1].alarm
    assert all(r.alarm for r in records if r.event and not records[r.row - 1].event)


def test_a_query_changes_nothing(fitted: KernelMonitor, tmp_path: Path) -> None:
    monitor = copy.copy(fitted)
    monitor.update_many(process(120, seed=1))
    monitor.save(tmp_path / "before")
    X = process(30, seed=2)
    for query in (monitor.predict, monitor.contributions, monitor.component_scores):
        query(X)
    assert monitor.limits_ and monitor.drift_ is not None
    monitor.save(tmp_path / "after")
    assert (tmp_path / "before").read_bytes() == (tmp_path / "after").read_bytes()


def test_unfitted() -> None:
    for verb in ("update", "update_many", "predict", "contributions"):
        with pytest.raises(NotFittedError, match="call fit first"):
            getattr(small(), verb)(process(3))
    with pytest.raises(NotFittedError):
        small().save("nowhere")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": 0.0}, "alpha must be a number between 1e-12 and 0.5"),
        ({"alpha": 1e-17}, "alpha must be a number between 1e-12 and 0.5"),
        ({"lags": -1}, "lags must be an integer"),
        ({"width": "wide"}, "width must be a number above 0"),
        ({"ridge": -1.0}, "ridge must be a number above 0"),
        ({"smooth": 2.0}, "smooth must be a number between 0 and 1"),
        ({"adapt": "always"}, "adapt must be one of 'event', 'off'"),
        ({"whiten": "pca"}, "whiten must be one of"),
        ({"memory": 0}, "memory must be an integer"),
    ],
    ids=str,
)
def test_parameters_are_checked(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small(**parameters).fit(process(50))


def test_settings_are_all_combinations_of_what_is_left_open() -> None:
    def triples(**parameters: Any) -> list[tuple[bool, float, float]]:
        settings = settings_of(KernelMonitor(random_state=0, **parameters))
        return [(s.whiten, s.width, s.ridge) for s in settings]

    assert triples(whiten=False, width=2.0, ridge=0.5) == [(False, 2.0, 0.5)]
    assert triples() == list(itertools.product((True, False), WIDTHS, RIDGES))


@pytest.mark.parametrize("seed", [-1, np.int64(-3), 2**32, 2**70])
def test_a_seed_that_is_none_is_told(seed: Any) -> None:
    for estimator in (KernelMonitor(random_state=seed), StreamingKernelPCA(random_state=seed)):
        with pytest.raises(ValueError, match=rf"random_state must be .*got {int(seed)}"):
            estimator.fit(process(50))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": 5}, "alpha must be a number between 1e-12 and 0.5"),
        ({"adapt": "of"}, "adapt must be one of"),
        ({"memory": 0}, "memory must be an integer"),
    ],
)
def test_parameters_that_change_along_the_stream_are_checked(
    fitted: KernelMonitor, parameters: dict[str, Any], message: str
) -> None:
    monitor = copy.copy(fitted).set_params(**parameters)
    before = monitor._state
    for verb in (monitor.update_many, monitor.partial_fit):
        with pytest.raises(ValueError, match=message):
            verb(process(5, seed=1))
    assert monitor._state is before


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": 50000.0}, "alpha must be a number between 1e-12 and 0.5"),
        ({"alpha": 0}, "alpha must be a number between 1e-12 and 0.5"),
        ({"alpha": None}, "alpha must be a number between 1e-12 and 0.5"),
        ({"interval": 1.0}, "belong together"),
        ({"false_events_per_day": "few", "interval": 1.0}, "must be a number above 0"),
        ({"false_events_per_day": 1.0, "interval": 0}, "interval must be a number above 0"),
        ({"false_events_per_day": 1.0, "interval": 10**400}, "interval must be a number above 0"),
    ],
    ids=str,
)
def test_parameters_that_change_are_checked_by_queries(
    fitted: KernelMonitor, parameters: dict[str, Any], message: str
) -> None:
    monitor = copy.copy(fitted).set_params(**parameters)
    for query in (
        lambda: monitor.alpha_,
        lambda: monitor.offset_,
        lambda: monitor.limits_,
        lambda: monitor.predict(process(5, seed=1)),
    ):
        with pytest.raises(ValueError, match=message):
            query()


def test_events_too_rare_for_any_share_of_rows() -> None:
    with pytest.warns(UserWarning, match="Give at least"):
        monitor = small(false_events_per_day=5e-324, interval=1.0).fit(process(50))
    assert monitor.alpha_ == 1e-12


@pytest.mark.parametrize(
    "bad",
    [
        ["a", 1.0, 2.0, 3.0],
        [np.inf, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0],
        [[0.0, 0.0, 0.0, 0.0]],
        [1e200, 0.0, 0.0, 0.0],
        [1j, 0.0, 0.0, 0.0],
        None,
    ],
    ids=["text", "infinity", "narrow", "two-dimensional", "huge", "complex", "none"],
)
def test_a_bad_row_changes_nothing(fitted: KernelMonitor, bad: Any) -> None:
    monitor, untouched = copy.copy(fitted), copy.copy(fitted)
    X = process(60, seed=1)
    monitor.update_many(X[:30])
    untouched.update_many(X[:30])
    state = monitor._state
    with pytest.raises(ValueError):
        monitor.update(bad)
    with pytest.raises((TypeError, ValueError)):  # scikit-learn has the first for complex numbers
        monitor.update_many([*X[30:33].tolist(), bad])
    assert monitor._state is state
    assert_same(monitor.update_many(X[30:]), untouched.update_many(X[30:]))


def test_a_failed_fit_changes_nothing(fitted: KernelMonitor) -> None:
    monitor = copy.copy(fitted)
    with pytest.raises(ValueError, match="minimum of 8"):
        monitor.fit(process(3, d=2))
    assert monitor.n_features_in_ == 4
    assert len(monitor.update_many(process(3))) == 3


@pytest.mark.parametrize("lags", [0, 2])
def test_goes_on_bit_for_bit(lags: int, tmp_path: Path) -> None:
    X = process(400, seed=1)
    X[200:215, 1] += 5.0
    X[60, 3] = np.nan
    whole = small(lags=lags, memory=100).fit(process(200))
    parts = copy.copy(whole)
    expected = whole.update_many(X)
    records = Records()
    for part, stop in enumerate((7, 119, 207, 208, 400)):  # 207: in the middle of an event
        start = len(records)
        records += parts.update_many(X[start:stop])
        path = tmp_path / f"{part}.safetensors"
        parts.save(path)
        parts = KernelMonitor.load(path)
        again = tmp_path / "again"
        parts.save(again)
        assert again.read_bytes() == path.read_bytes()
    assert_same(expected, records)
    assert [e.first_row for e in parts.events_] == [e.first_row for e in whole.events_]


def test_files_know_what_they_hold(fitted: KernelMonitor, tmp_path: Path) -> None:
    path = tmp_path / "monitor.safetensors"
    fitted.save(path)
    loaded = kernelstream.load(path)
    assert isinstance(loaded, KernelMonitor)
    assert repr(loaded.get_params()) == repr(fitted.get_params())
    with pytest.raises(ValueError, match="not a StreamingKernelPCA"):
        StreamingKernelPCA.load(path)
    StreamingKernelPCA(2, random_state=0).fit(process(50)).save(path)
    with pytest.raises(ValueError, match="not a KernelMonitor"):
        KernelMonitor.load(path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(ValueError, match="checksum"):
        KernelMonitor.load(path)


def test_pickle_and_clone(fitted: KernelMonitor) -> None:
    again = pickle.loads(pickle.dumps(fitted))
    X = process(50, seed=1)
    assert_same(again.update_many(X), copy.copy(fitted).update_many(X))
    assert not clone(fitted).__sklearn_is_fitted__()


def test_limits_in_false_events_a_day() -> None:
    """One event in 500 rows: rows come every 172.8 s."""
    wanted: dict[str, Any] = dict(false_events_per_day=1.0, interval=86_400 / 500)
    monitor = small(**wanted).fit(process(2000))
    assert 1 / 500 < monitor.alpha_ < 0.03  # a false event has several alarms
    records = copy.copy(monitor).update_many(process(10_000, seed=1))
    begun = {r.event for r in records if r.event}
    assert 10 <= len(begun) <= 30  # 20 are asked for
    with pytest.warns(UserWarning, match="Give at least"):
        small(false_events_per_day=0.01, interval=1.0).fit(process(300))
    with pytest.raises(ValueError, match="belong together"):
        small(false_events_per_day=1.0).fit(process(100))
    assert small(alpha=0.02).fit(process(100)).alpha_ == 0.02
