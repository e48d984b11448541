"""KernelMonitor: scikit-learn's manners, records, bad rows, files, gaps and dead sensors."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import kernelstream
from kernelstream import KernelMonitor, StreamingKernelPCA, bases
from kernelstream.monitor import Records


def process(n: int, seed: int = 0, d: int = 4) -> np.ndarray:
    """Rows of two slow factors seen by d sensors, one of them bent."""
    rng = np.random.default_rng(seed)
    factors = np.zeros((n, 2))
    for t in range(1, n):
        factors[t] = 0.7 * factors[t - 1] + rng.normal(size=2)
    mix = np.random.default_rng(99).normal(size=(2, d))
    X = factors @ mix + 0.3 * rng.normal(size=(n, d))
    X[:, 0] += 0.3 * factors[:, 0] ** 2
    return X


def small(**parameters: Any) -> KernelMonitor:
    chosen: dict[str, Any] = dict(basis=20, width=30.0, ridge=0.01, whiten=True, random_state=0)
    return KernelMonitor(**{**chosen, **parameters})


@pytest.fixture(scope="module")
def fitted() -> KernelMonitor:
    """With lags, so that the past is part of the state. Tests take copies: the state is a value."""
    return small(lags=2, memory=200).fit(process(300))


def assert_same(one: Records, two: Records) -> None:
    assert len(one) == len(two)
    assert all(a.same_as(b) for a, b in zip(one, two, strict=True))


# --- scikit-learn


def of_learned_rows(estimator: KernelMonitor) -> dict[str, str]:
    """The checks want outliers among 300 learned rows; of limits for others, none need be there."""
    if estimator.alpha >= 0.05:
        return {}
    checks = "check_outliers_train", "check_outliers_fit_predict"
    return dict.fromkeys(checks, "limits are those of rows that were not learned")


@parametrize_with_checks(
    [KernelMonitor(basis=20, random_state=0), KernelMonitor(0.05, basis=20, random_state=0)],
    expected_failed_checks=of_learned_rows,
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


def test_stream_and_queries_have_the_same_index() -> None:
    monitor = small(adapt="off").fit(process(300))
    X = process(50, seed=1)
    streamed = copy.copy(monitor).update_many(X).column("index")
    np.testing.assert_allclose(-np.log(streamed), monitor.score_samples(X), rtol=1e-9)


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
        ({"alpha": 0.0}, "alpha must be a number between 0 and 0.5"),
        ({"lags": -1}, "lags must be an integer"),
        ({"width": "wide"}, "width must be a number above 0"),
        ({"ridge": -1.0}, "ridge must be a number above 0"),
        ({"smooth": 2.0}, "smooth must be a number between 0 and 1"),
        ({"adapt": "always"}, "adapt must be one of 'event', 'off'"),
        ({"whiten": "pca"}, "whiten must be one of"),
        ({"memory": 0}, "memory must be an integer"),
        ({"memory": 9}, "memory must be at least 10 rows"),
        ({"quarantine": 0}, "quarantine must be an integer"),
        ({"folds": 1.5}, "folds must be an integer"),
        ({"floor": 0.0}, "floor must be a number"),
        ({"basis": bases.Fourier(10)}, "has no points"),
    ],
    ids=str,
)
def test_parameters_are_checked(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small(**parameters).fit(process(50))


@pytest.mark.parametrize("seed", [-1, np.int64(-3), 2**32, 2**70])
def test_a_seed_that_is_none_is_told(seed: Any) -> None:
    for estimator in (KernelMonitor(random_state=seed), StreamingKernelPCA(random_state=seed)):
        with pytest.raises(ValueError, match=rf"random_state must be .*got {int(seed)}"):
            estimator.fit(process(50))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": 5}, "alpha must be a number between 0 and 0.5"),
        ({"adapt": "of"}, "adapt must be one of"),
        ({"memory": 3}, "memory must be at least 10"),
        ({"quarantine": 2.5}, "quarantine must be an integer"),
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


def test_limits_need_a_calibration_run_of_some_length() -> None:
    """Of a row or two they would be no limits at all, and of none there is nothing to say."""
    gaps = process(20, seed=1)
    gaps[:, 1] = np.nan
    for run in (process(1, seed=1), process(7, seed=1), gaps):
        with pytest.raises(ValueError, match=r"calibration run .* at least 8"):
            small().fit(process(100), calibration=run)
    wild = process(20, seed=1)
    wild[3, 1] = 1e300
    with pytest.raises(ValueError, match=r"calibration run .*so large"):
        small().fit(process(100), calibration=wild)
    assert np.isfinite(small().fit(process(100), calibration=process(8, seed=1)).offset_)


# --- the stream


@pytest.mark.parametrize("lags", [0, 2])
@pytest.mark.parametrize("smooth", [None, 0.2])
def test_cuts_do_not_matter(lags: int, smooth: float | None) -> None:
    monitor = small(lags=lags, memory=150, smooth=smooth).fit(process(200))
    X = process(260, seed=1)
    X[130:160, 1] += 4.0  # an event
    X[40, 2] = np.nan
    whole = copy.copy(monitor).update_many(X)
    assert any(r.event for r in whole)
    assert whole[-1].drift.rows > 0
    one_by_one = copy.copy(monitor)
    assert_same(whole, Records([one_by_one.update(x) for x in X]))
    pieces = copy.copy(monitor)
    cut = Records(r for part in np.array_split(X, 7) for r in pieces.update_many(part))
    assert_same(whole, cut)


def test_score_first_then_learn(fitted: KernelMonitor) -> None:
    """A row's record does not depend on the row being learned, nor on what comes after it."""
    X = process(200, seed=1)
    long, short = copy.copy(fitted), copy.copy(fitted)
    assert_same(long.update_many(X)[:120], short.update_many(X[:120]))


def test_adaptation_learns_at_block_ends(fitted: KernelMonitor) -> None:
    monitor = copy.copy(fitted)
    records = monitor.update_many(process(100, seed=1))
    # 20 rows of quarantine, then blocks of memory // 10 = 20
    assert records[39].drift.rows == 0
    learned = {r.drift.rows for r in records}
    assert learned == {0, 20, 40, 60}
    off = small(lags=2, adapt="off").fit(process(300))
    assert {r.drift.rows for r in off.update_many(process(100, seed=1))} == {0}
    assert not any(r.learned for r in off.update_many(process(20, seed=2)))


def test_an_event_is_not_learned(fitted: KernelMonitor) -> None:
    monitor = copy.copy(fitted)
    monitor.update_many(process(60, seed=1))
    before = monitor._state
    fault = process(200, seed=2) + np.array([0.0, 6.0, 0.0, 0.0])
    records = monitor.update_many(fault)
    assert all(r.alarm and r.event == records[-1].event for r in records[5:])
    assert not any(r.learned for r in records[5:])
    # what was waiting for its block came from before the fault, with at most the first rows of it
    assert monitor._state.n_learned - before.n_learned <= len(before.quarantine) + len(
        before.pending
    )
    assert len(monitor._state.quarantine) == 0
    shifted = monitor.drift_.largest_shift
    assert shifted < 0.5
    assert monitor.event_ is not None and monitor.event_.n_rows >= 195
    name, _, size = monitor.event_contributions(monitor.event_).ranking()[0]
    assert name == "x1" and 4.5 < size < 7.5


@pytest.mark.parametrize("smooth", [None, 0.2])
@pytest.mark.parametrize("size", [30.0, 1e3, 1e12])
@pytest.mark.parametrize("width", [100.0, 10.0])
def test_a_single_wild_row_is_not_learned(smooth: float | None, size: float, width: float) -> None:
    """One glitch is no event, but it must not become a part of normal operation either."""
    monitor = small(memory=200, smooth=smooth, width=width, basis=60).fit(process(400))
    X = process(800, seed=1)
    X[100, 3] += size
    records = monitor.update_many(X)
    assert records[100].index > records[100].index_limit and not records[100].learned
    assert monitor.drift_.largest_scale < 1.5
    assert np.mean(records.column("alarm")[150:]) < 0.05
    fault = process(50, seed=2) + np.array([0.0, 0.0, 0.0, 6.0])
    assert np.mean(monitor.update_many(fault).column("alarm")[10:]) > 0.9


def test_learning_every_row_would_absorb_it(fitted: KernelMonitor) -> None:
    """What the gate is for: the same fault, vouched for, is normal after a while."""
    monitor = copy.copy(fitted)
    fault = process(1500, seed=2) + np.array([0.0, 6.0, 0.0, 0.0])
    monitor.partial_fit(fault[:1200])
    assert np.mean(monitor.interrupt().update_many(fault[1200:]).column("alarm")) < 0.2
    assert monitor.drift_.largest_shift > 1.0


def test_limits_are_held_in_events_and_false_alarms_are_paid(fitted: KernelMonitor) -> None:
    monitor = copy.copy(fitted)
    monitor.update_many(process(30, seed=1))
    before = monitor._state.watch.shift
    fault = process(60, seed=2) + np.array([0.0, 6.0, 0.0, 0.0])
    first = monitor.update_many(fault)
    in_event = [r.limit for r in first if r.event]
    assert len(in_event) > 50 and len(set(in_event)) == 1
    monitor.update_many(process(40, seed=3))  # the event ends after more than the quarantine
    assert (
        monitor._state.watch.shift[1]
        <= before[1] + 3 * 0.05 * fitted._state.limits.smoothed.deviation
    )

    paid = copy.copy(fitted)
    paid.update_many(process(30, seed=1))
    burst = paid.update_many(fault[:6])
    assert burst[-1].event
    during = paid._state.watch.shift[1]
    while paid.event_ is not None:
        paid.update_many(process(1, seed=paid.n_samples_seen_))
    assert paid._state.watch.shift[1] > during  # its alarms were counted when it ended


def test_acknowledge_and_accept(fitted: KernelMonitor) -> None:
    monitor = copy.copy(fitted)
    with pytest.raises(ValueError, match="no event"):
        monitor.accept()
    with pytest.raises(ValueError, match="no event"):
        monitor.acknowledge()
    new_normal = process(1000, seed=2) + np.array([0.0, 6.0, 0.0, -3.0])
    assert not any(r.acknowledged for r in monitor.update_many(new_normal[:40]))
    assert monitor.acknowledge().acknowledged
    assert all(r.acknowledged for r in monitor.update_many(new_normal[40:60]))
    accepted = monitor.accept()
    assert accepted.accepted and monitor.event_ is None
    assert monitor.events_[-1].accepted and monitor.events_[-1].acknowledged
    # the centre has moved at once, and the spread was not blown up to cover both
    unit = fitted._state.standard.deviation
    assert monitor.drift_.centre[1] == pytest.approx(6.0 / unit[1], rel=0.5)
    assert monitor.drift_.largest_scale < 1.3
    assert np.mean(monitor.update_many(new_normal[60:]).column("alarm")) < 0.05
    assert monitor.drift_.centre[1] > 1.0  # against the frozen reference it stays visible


def test_a_glitch_in_an_event_is_not_accepted_with_it(fitted: KernelMonitor) -> None:
    shift = np.array([0.0, 6.0, 0.0, -3.0])
    event = process(60, seed=2) + shift
    event[50, 1] = 1e9
    monitor = copy.copy(fitted)
    monitor.update_many(event)
    monitor.accept()
    assert monitor.drift_.largest_scale < 1.3
    assert np.mean(monitor.update_many(process(400, seed=3) + shift).column("alarm")) < 0.05
    fault = process(60, seed=4) + shift + np.array([0.0, 6.0, 0.0, 0.0])
    assert np.mean(monitor.update_many(fault).column("alarm")[10:]) > 0.9


def test_interrupt_forgets_the_past_only() -> None:
    monitor = small(lags=2).fit(process(300))
    X = process(20, seed=1)
    whole = copy.copy(monitor).update_many(X)
    broken = copy.copy(monitor)
    broken.update_many(X[:10])
    after = broken.interrupt().update_many(X[10:])
    assert after[0].index != whole[10].index
    assert after[2].index == whole[12].index


# --- rows that are refused


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


# --- files


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


# --- data frames


def frame(n: int, seed: int) -> pd.DataFrame:
    minutes = np.random.default_rng(seed).integers(1, 9, size=n).cumsum()  # irregular
    index = pd.Timestamp("2026-03-01") + pd.to_timedelta(minutes, unit="min")
    return pd.DataFrame(process(n, seed), columns=["feed", "heat", "flow", "level"], index=index)


def test_names_and_times_are_kept(tmp_path: Path) -> None:
    monitor = small().fit(frame(200, 0))
    new = frame(40, 1)
    new["heat"] += 8.0
    records = monitor.update_many(new)
    assert list(records.column("time")) == list(new.index)
    assert records[-1].contributions is not None
    assert records[-1].contributions.ranking()[0][0] == "heat"
    table = records.to_frame()
    assert table.index.equals(pd.Index(new.index, name="time"))
    assert table["alarm"].iloc[-1] and "heat" in table["contributions"].iloc[-1]
    one = monitor.update(new.iloc[-1])
    assert one.time == new.index[-1]
    assert monitor.update(new.iloc[-1], time="noon").time == "noon"
    monitor.save(tmp_path / "m")
    loaded = KernelMonitor.load(tmp_path / "m")
    assert list(loaded.feature_names_in_) == list(new.columns)
    assert loaded.event_ is not None
    assert loaded.event_.first_time.startswith("2026-03-01")
    with pytest.raises(ValueError, match="order"):
        monitor.update_many(new[["heat", "feed", "flow", "level"]])
    with pytest.raises(ValueError, match="put them into the order of fit"):
        monitor.update(new.iloc[0].iloc[::-1])
    with pytest.raises(ValueError, match="2 time stamps for 3 rows"):
        monitor.update_many(new.iloc[:3], time=[1, 2])


def test_row_numbers_where_there_are_no_times(fitted: KernelMonitor) -> None:
    monitor = copy.copy(fitted)
    assert [r.time for r in monitor.update_many(process(3))] == [0, 1, 2]
    assert monitor.update(process(1)[0]).time == 3


# --- gaps and dead sensors


def test_missing_values_are_filled_and_marked(fitted: KernelMonitor) -> None:
    X = process(60, seed=1)
    holes = X.copy()
    holes[20, 1] = np.nan
    holes[21, [0, 2]] = np.nan
    holes[30] = np.nan
    monitor = copy.copy(fitted)
    records = monitor.update_many(holes)
    assert records[20].missing == ("x1",)
    assert records[21].missing == ("x0", "x2")
    assert records[30].missing == ("x0", "x1", "x2", "x3")
    assert all(np.isfinite(r.index) for r in records)
    assert not any(records[t].learned or records[t].alarm for t in (20, 21, 30))
    assert records[19].same_as(copy.copy(fitted).update_many(X)[19])


def test_the_conditional_mean_is_the_most_normal_value() -> None:
    monitor = small(adapt="off").fit(process(300))
    x = process(1, seed=5)[0]
    gap = x.copy()
    gap[1] = np.nan
    filled = monitor.score_samples([gap])[0]
    others = np.tile(x, (41, 1))
    others[:, 1] += np.linspace(-4, 4, 41)
    assert filled > monitor.score_samples(others).max() - 0.3


def ring(n: int, seed: int) -> np.ndarray:
    """Four sensors near a ring; of the second the others know only up to its sign."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(0, 2 * np.pi, size=n)
    X = np.column_stack([np.cos(t), np.sin(t), np.cos(2 * t), np.cos(t)])
    return X + 0.1 * rng.normal(size=X.shape)


@pytest.mark.parametrize("lags", [0, 1])
@pytest.mark.parametrize("gone", [[1], [2], [1, 2], [0, 1, 2, 3]], ids=str)
def test_a_gap_raises_no_alarm_where_normal_rows_are_curved(lags: int, gone: list[int]) -> None:
    """There the mean of a missing value, given the others, lies where normal rows never are."""
    monitor = small(basis=60, width=3.0, lags=lags).fit(ring(600, 0))
    X = ring(300, 1)
    X[100:, gone] = np.nan
    records = copy.copy(monitor).update_many(X)
    assert np.mean(records.column("alarm")[100:]) < 0.05
    assert_same(records, Records([monitor.update(x) for x in X]))
    if len(gone) < 4:
        X[200:, 3] += 1.5
        broken = small(basis=60, width=3.0, lags=lags).fit(ring(600, 0)).update_many(X)
        assert np.mean(broken.column("alarm")[210:]) > 0.9


def test_a_gap_does_not_hide_a_fault_elsewhere(fitted: KernelMonitor) -> None:
    X = process(30, seed=1)
    X[:, 3] = np.nan
    X[10:, 1] += 8.0
    assert all(r.alarm for r in copy.copy(fitted).update_many(X)[15:])


def test_fit_leaves_out_rows_with_gaps() -> None:
    X = process(300)
    holes = X.copy()
    holes[::7, 2] = np.nan
    monitor = small(lags=1).fit(holes, calibration=holes)
    assert np.isfinite(monitor.offset_)
    with pytest.raises(ValueError, match="no missing values"):
        small().fit(np.where(np.arange(4) == 1, np.nan, X))


@pytest.mark.parametrize("size", [1e3, -1e12, 1e200])
def test_glitches_in_normal_operation_are_reported(size: float) -> None:
    """Two rows of 600 in other units than the rest: faults of that sensor would stay unseen."""
    X = pd.DataFrame(process(600), columns=list("abcd"))
    X.iloc[[100, 400], 1] = size
    with pytest.warns(UserWarning, match=r"of b comes from 2 of 600 rows"):
        KernelMonitor(basis=20, random_state=0).fit(X)
    # neither heavy tails, nor what moves rarely, nor what does not move are glitches
    rng = np.random.default_rng(0)
    rare = rng.random(600) < 0.008
    small().fit(np.column_stack([process(600), rng.standard_t(3, size=600), rare, np.ones(600)]))


def test_dead_sensors_are_reported(fitted: KernelMonitor) -> None:
    X = process(80, seed=1)
    X[30:, 2] = X[30, 2]
    records = copy.copy(fitted).update_many(X)
    first = next(t for t, r in enumerate(records) if r.dead)
    assert first == 50 and records[first].dead == ("x2",)
    assert not any(r.learned for r in records[first:])


def test_constant_columns_are_reported_and_harmless() -> None:
    X = process(300)
    X[:, 3] = 7.0
    monitor = small().fit(X)
    assert monitor.constant_features_ == ("x3",)
    Y = process(100, seed=1)
    Y[:, 3] = 7.0
    records = monitor.update_many(Y)
    assert np.mean(records.column("alarm")) < 0.1
    assert not any(r.dead for r in records)
    Y[:, 3] = 8.0
    assert monitor.interrupt().update_many(Y)[-1].alarm


def test_a_process_that_does_not_move_at_all() -> None:
    monitor = small().fit(np.full((50, 4), 3.0))
    assert len(monitor.constant_features_) == 4
    assert not any(monitor.update_many(np.full((30, 4), 3.0)).column("alarm"))
    assert all(monitor.update_many(np.full((5, 4), 4.0)).column("alarm")[3:])
