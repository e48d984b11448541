"""The monitor's mathematics against its definitions: index, whitening, limits, causes, events."""

from __future__ import annotations

import copy
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import norm
from sklearn.gaussian_process.kernels import RBF

from kernelstream import KernelMonitor, bases
from kernelstream.monitor import selection
from kernelstream.monitor.contributions import mean_curvature
from kernelstream.monitor.index import Scores
from kernelstream.monitor.limits import CLIP, Limits, Reference, burden, folds_of, n_folds
from kernelstream.monitor.normal import Normal, Setting, learn_normal
from kernelstream.monitor.products import row_dots, rows_times
from kernelstream.monitor.scaling import Gathered, Scaling, lagged
from kernelstream.monitor.selection import RIDGES, WIDTHS, choose, pseudo_faults, saturates
from kernelstream.monitor.sensors import fill_missing
from kernelstream.monitor.watch import Rule, Watch, decide

SETTING = Setting(True, 20.0, 0.05, 1e-3, bases.Centroids(25), 0)


def curved(n: int, seed: int = 0) -> np.ndarray:
    """Lee's process: three variables on a curve, with noise."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(0.01, 2, n)
    X = np.stack([t, t**2 - 3 * t, 3 * t**2 - t**3], axis=1)
    return X + rng.normal(scale=0.1, size=(n, 3))


def correlated(n: int, seed: int = 0, d: int = 5) -> np.ndarray:
    mix = np.random.default_rng(7).normal(size=(d, d)) + np.eye(d)
    return np.random.default_rng(seed).normal(size=(n, d)) @ mix


@pytest.fixture(scope="module")
def normal() -> Normal:
    return learn_normal(correlated(200), SETTING)


# --- products


@pytest.mark.parametrize("n", [1, 7, 8, 9, 40])
def test_products_do_not_know_of_other_rows(n: int) -> None:
    rng = np.random.default_rng(0)
    X, A, Y = rng.normal(size=(40, 13)), rng.normal(size=(13, 6)), rng.normal(size=(40, 13))
    np.testing.assert_allclose(rows_times(X, A), X @ A, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(row_dots(X, Y), (X * Y).sum(axis=1), rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(rows_times(X[-n:], A), rows_times(X, A)[-n:])
    np.testing.assert_array_equal(row_dots(X[-n:], Y[-n:]), row_dots(X, Y)[-n:])
    np.testing.assert_array_equal(rows_times(X, A.T.copy().T), rows_times(X, A))  # memory order


# --- the index


def test_index_is_its_definition(normal: Normal) -> None:
    """Σ y²/(λ+ε) + (k(x,x) − |z|²)/ε, from an eigenproblem and a least-squares projection."""
    R, X = correlated(200), correlated(40, seed=1) * 1.5
    C = np.cov(R.T, ddof=0)
    sd = np.sqrt(np.diag(C))
    values, vectors = np.linalg.eigh(C / np.outer(sd, sd))
    W = np.diag(1 / sd) @ vectors @ np.diag(np.maximum(values, 1e-3) ** -0.5) @ vectors.T
    U, V = (R - R.mean(axis=0)) @ W, (X - R.mean(axis=0)) @ W
    D = normal.index.span.points
    kernel = RBF(np.sqrt(20.0 * 5 / 2))  # exp(−|u − v|²/2l²)
    F = np.linalg.inv(np.linalg.cholesky(kernel(D))).T
    Z, z = kernel(U, D) @ F, kernel(V, D) @ F
    lam, axes = np.linalg.eigh(np.cov(Z.T, ddof=0))
    epsilon = 0.05 * lam.sum() / 5
    y = (z - Z.mean(axis=0)) @ axes
    t2, spe = (y**2 / (lam + epsilon)).sum(axis=1), 1 - (z**2).sum(axis=1)
    for product in (rows_times, np.matmul):
        found = normal.score(X, product)
        np.testing.assert_allclose(found.t2, t2, rtol=1e-7)
        np.testing.assert_allclose(found.spe, spe, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(found.index, t2 + spe / epsilon, rtol=1e-7)


def test_far_away_t2_is_blind_and_the_index_is_not() -> None:
    normal = learn_normal(correlated(400), replace(SETTING, width=1.0, basis=bases.Centroids(150)))
    inside = normal.score(correlated(500, seed=1))
    far = normal.score(np.full((1, 5), 1e6))
    assert far.t2[0] < np.quantile(inside.t2, 0.95)
    assert far.index[0] > np.quantile(inside.index, 0.99)
    assert far.index[0] == pytest.approx(normal.index.far_away, rel=1e-12)


def test_gradient_and_curvature_by_differences(normal: Normal) -> None:
    U = normal.scaling.apply(correlated(10, seed=1))
    G, stretch = normal.index.gradient(U)
    assert np.all(stretch[row_dots(U, U) < 10.0] == 1.0)
    U = U / stretch[:, None]
    h = 1e-4
    for j in range(5):
        step = h * np.eye(5)[j]
        up, down = (normal.index.score(U + s).index for s in (step, -step))
        np.testing.assert_allclose(G[:, j], (up - down) / (2 * h), rtol=1e-4, atol=1e-4)
    small = 0.5 * U
    H = np.array(
        [
            np.mean(
                normal.index.gradient(small + h * e)[0] - normal.index.gradient(small - h * e)[0],
                axis=0,
            )
            / (2 * h)
            for e in np.eye(5)
        ]
    )
    np.testing.assert_allclose(normal.index.curvature(small), H, rtol=1e-3, atol=1e-3)


# --- whitening


def test_whitened_rows_are_white_and_axes_stay() -> None:
    R = correlated(500)
    scaling = Scaling.of(Gathered.of(R), True, 1e-6)
    U = scaling.apply(R)
    np.testing.assert_allclose(np.cov(U.T, ddof=0), np.eye(5), atol=1e-8)
    # ZCA: each whitened variable is most like its own variable, and a small change of the data
    # is a small change of the rows
    nearly = Scaling.of(Gathered.of(R + 1e-6 * correlated(500, seed=3)), True, 1e-6)
    np.testing.assert_allclose(nearly.apply(R), U, atol=1e-3)


def test_a_change_of_units_changes_nothing() -> None:
    R, units = correlated(300), np.array([1.0, 10.0, 0.1, 3.0, 1e4])
    one, two = (Scaling.of(Gathered.of(rows), True, 1e-3) for rows in (R, R * units + 5.0))
    np.testing.assert_allclose(one.apply(R), two.apply(R * units + 5.0), atol=1e-8)


def test_moments_with_forgetting() -> None:
    R = correlated(60)
    gathered = Gathered.of(R[:20]).learn(R[20:35], 0.95).learn(R[35:], 0.95)
    w = 0.95 ** np.r_[np.full(20, 40), np.arange(39, -1, -1)]
    mean = np.average(R, axis=0, weights=w)
    np.testing.assert_allclose(gathered.mean, mean)
    np.testing.assert_allclose(gathered.covariance, np.cov(R.T, ddof=0, aweights=w), atol=1e-12)
    assert gathered.n_effective == pytest.approx(w.sum() ** 2 / (w**2).sum())
    moved = gathered.moved_to(mean + 3.0)
    np.testing.assert_allclose(moved.mean, mean + 3.0)
    np.testing.assert_allclose(moved.covariance, gathered.covariance, atol=1e-10)


def test_lags() -> None:
    Z = np.arange(8.0).reshape(4, 2)
    R = lagged(Z[:0], Z, 2)
    np.testing.assert_array_equal(R[0], [0, 1, 0, 1, 0, 1])
    np.testing.assert_array_equal(R[3], [6, 7, 4, 5, 2, 3])
    for cut in range(1, 4):
        np.testing.assert_array_equal(lagged(Z[:cut], Z[cut:], 2), R[cut:])


# --- limits


def test_conformal_quantile_and_p_value() -> None:
    scores = np.random.default_rng(0).permutation(np.arange(1.0, 1001.0))  # 1 … 1000
    reference = Reference.of(scores)
    assert reference.limit(0.01) == 991.0  # ⌈1001 · 0.99⌉
    assert reference.p_value(991.0, 0.01) == pytest.approx(11 / 1001)
    assert reference.p_value(991.5, 0.01) == pytest.approx(10 / 1001)
    assert reference.p_value(1e9, 0.01) == pytest.approx(1 / 1001)


def test_few_scores_are_taken_for_log_normal() -> None:
    scores = np.random.default_rng(0).uniform(1.4, 2.6, size=399)  # a tail lighter than that law's
    reference = Reference.of(scores)
    law = norm(scores.mean(), scores.std())
    assert reference.limit(0.01) == pytest.approx(law.isf(0.01))
    assert reference.p_value(3.0, 0.01) == pytest.approx(law.sf(3.0))
    assert reference.limit(0.05) in scores  # enough for this one


@pytest.mark.parametrize("n", [20, 50, 99, 100, 150, 300, 399])
@pytest.mark.parametrize("alpha", [0.01, 0.002])
def test_few_scores_of_a_heavy_tail(n: int, alpha: float) -> None:
    """The share of new scores over the limit: near α, or 1/(n+1) where that is more."""
    rng = np.random.default_rng(n)
    shares = []
    for _ in range(400):
        reference = Reference.of(rng.exponential(size=n) + 0.3 * rng.normal(size=n))
        limit = reference.limit(alpha)
        shares.append(np.mean(rng.exponential(size=500) + 0.3 * rng.normal(size=500) > limit))
        for score in (limit - 1e-9, limit + 1e-9, *rng.exponential(size=5)):
            assert (score > limit) == (reference.p_value(score, alpha) <= alpha)
    assert np.mean(shares) < 1.25 * max(alpha, 1 / (n + 1))


def test_folds_are_contiguous_and_keep_their_distance() -> None:
    assert n_folds("auto", 500, 52) == 20 and n_folds("auto", 521, 52) == 5
    assert n_folds(7, 500, 52) == 7 and n_folds("auto", 9, 4) == 4
    seen = []
    for others, held_out in folds_of(23, 2, 4):
        assert np.all(np.diff(held_out) == 1)
        assert np.abs(others[:, None] - held_out[None, :]).min() > 2
        seen += list(held_out)
    assert seen == list(range(23))


def test_limits_out_of_sample() -> None:
    """What limits from the learned rows would do, and what ours do."""
    X, new = correlated(120, d=12), correlated(4000, seed=1, d=12)
    monitor = KernelMonitor(basis=100, width=10.0, ridge=0.1, whiten=True, random_state=0).fit(X)
    inside = np.quantile(monitor._state.normal.score(monitor._state.standard.apply(X)).index, 0.99)
    indices = np.exp(-monitor.score_samples(new))
    assert np.mean(indices > inside) > 0.05
    assert 0.002 < np.mean(monitor.predict(new) == -1) < 0.025


def test_more_rows_make_the_index_smaller_by_what_the_burden_says() -> None:
    setting = replace(SETTING, width=50.0, basis=bases.Centroids(60))
    new = correlated(3000, seed=1, d=20)
    means = {
        n: float(
            np.mean(np.log(learn_normal(correlated(n, seed=2, d=20), setting).score(new).index))
        )
        for n in (100, 150, 600)
    }
    b = burden(means[100] - means[150], 100, 150)
    assert 5 < b < 40  # of the order of the 20 directions
    limits = replace(Limits.of(Scores(*(np.ones(10),) * 3), 0.2), burden=b, learned=150.0)
    assert limits.excess(600) == pytest.approx(means[600] - means[150], abs=0.06)
    assert limits.excess(150) == 0.0
    assert burden(-0.1, 100, 150) == 0.0


def test_smoothing_clips_a_wild_row() -> None:
    scores = Scores(*(np.exp(np.random.default_rng(0).normal(size=500)),) * 3)
    limits = Limits.of(scores, 0.2)
    log_index = np.log(scores.index)
    rule = Rule.of(limits, 0.01, True, True, 20)
    _, verdict = decide(Watch.begin(limits), 1e3, limits, rule, True)
    top = log_index.mean() + CLIP * log_index.std()
    assert verdict.level == pytest.approx(log_index.mean() + 0.2 * (top - log_index.mean()))
    level, path = log_index.mean(), []
    for value in log_index:
        level = 0.8 * level + 0.2 * min(value, top)
        path.append(level)
    assert limits.event == pytest.approx(max(max(path), np.mean(path) + 3.5 * np.std(path)))


# --- alarms and events


def test_events_and_conformal_steps() -> None:
    """The rule against its description, on a made-up sequence of scores."""
    limits = Limits.of(Scores(*(np.exp(np.random.default_rng(0).normal(size=999)),) * 3), 0.2)
    rule = Rule.of(limits, 0.01, False, True, 20)
    watch = Watch.begin(limits)
    high, low = limits.index.limit(0.01) + 0.5, -1.0
    step = 0.05 * limits.index.deviation
    for score in (high, low, high):
        watch, verdict = decide(watch, score, limits, rule, True)
    assert verdict.alarm and not verdict.event  # two of the last three
    assert watch.shift[0] == pytest.approx(step * (2 - 3 * 0.01))
    watch, verdict = decide(watch, high, limits, rule, True)
    assert verdict.event == 1  # three of the last five
    assert watch.shift[0] == pytest.approx(step * (2 - 3 * 0.01))  # held
    watch, verdict = decide(watch, low, limits, rule, True)
    assert verdict.event == 1  # still three of five
    watch, verdict = decide(watch, low, limits, rule, True)
    assert not verdict.event
    assert watch.shift[0] == pytest.approx(step * (3 - 6 * 0.01))  # it was short: counted
    watch, verdict = decide(watch, low, limits, rule, False)
    assert not verdict.event
    assert watch.shift[0] == pytest.approx(step * (3 - 6 * 0.01))  # does not count


def test_adaptive_limits_reach_the_nominal_rate() -> None:
    """Whatever the law of the scores: here it has moved by one deviation after calibration."""
    rng = np.random.default_rng(0)
    limits = Limits.of(Scores(*(np.exp(rng.normal(size=999)),) * 3), 0.2)
    for smoothed in (True, False):
        rule = Rule.of(limits, 0.05, smoothed, True, 20)
        watch, alarms = Watch.begin(limits), []
        for score in rng.normal(loc=1.0, size=12000):
            watch, verdict = decide(watch, float(score), limits, rule, True)
            alarms.append(verdict.alarm)
        assert 0.035 < np.mean(alarms[4000:]) < 0.065


# --- choices and causes


def test_pseudo_faults_keep_each_variable_normal() -> None:
    R = lagged(np.empty((0, 5)), correlated(50), 1)[1:]
    exchanged, small, large = pseudo_faults(R, 1, 0)
    np.testing.assert_array_equal(np.sort(exchanged, axis=0), np.sort(R, axis=0))
    assert np.abs(np.cov(exchanged.T) - np.cov(R.T)).max() > 0.5
    pairs = {tuple(p) for p in R[:, [1, 6]]}
    assert {tuple(p) for p in exchanged[:, [1, 6]]} == pairs  # a variable keeps its own past
    for faults, size in ((small, 1.0), (large, 2.0)):
        moved = np.abs(faults - R)
        assert np.all((moved > 0).sum(axis=1) == 2) and np.allclose(moved[moved > 0], size)


def test_the_choice_bends_where_the_data_do() -> None:
    lee = KernelMonitor(basis=100, random_state=0).fit(curved(400))
    new, broken = curved(1000, 1), curved(1000, 2) + np.array([0.0, -0.4, 0.0])
    found = np.mean(lee.predict(broken) == -1)
    straight = KernelMonitor(basis=100, width=100.0, ridge=0.1, whiten=True, random_state=0)
    assert found > 0.35 > 5 * np.mean(straight.fit(curved(400)).predict(broken) == -1)
    assert np.mean(lee.predict(new) == -1) < 0.025
    assert lee.width_ <= 3.0


def test_a_narrow_width_is_reported_or_widened() -> None:
    X = correlated(200, d=8)
    with pytest.warns(UserWarning, match="less than five times its limit"):
        KernelMonitor(width=0.2, ridge=0.1, basis=50, random_state=0).fit(X)
    monitor = KernelMonitor(basis=50, random_state=0).fit(X)
    limit = monitor._state.limits.index.limit(0.01)
    assert not saturates(monitor._state.normal, limit)


def test_one_choice_is_no_choice() -> None:
    R = correlated(60)
    assert choose(R, 0, SETTING, (False,), (2.0,), (0.5,)) == replace(
        SETTING, whiten=False, width=2.0, ridge=0.5
    )
    chosen = choose(R, 0, SETTING, (True,), WIDTHS, RIDGES)
    assert chosen.width in WIDTHS and chosen.ridge in RIDGES


def test_a_setting_that_saturates_once_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {0.1: iter([0.9, 0.9, 0.0]), 0.01: iter([0.5, 0.5, 0.5])}
    monkeypatch.setattr(selection, "detected", lambda normal, *_: next(found[normal.setting.ridge]))
    assert choose(correlated(60), 0, SETTING, (True,), (100.0,), (0.1, 0.01)).ridge == 0.01


def test_lags_auto() -> None:
    for n, expected in ((30, 1), (60, 3), (500, 9)):
        X = correlated(n)
        monitor = KernelMonitor(lags="auto", basis=30, width=100.0, ridge=1.0, whiten=True)
        assert monitor.fit(X).lags_ == expected


@pytest.mark.parametrize("lags", [0, 1])
@pytest.mark.parametrize("size", [3.0, 6.0, 1e4])
def test_contributions_find_variable_sign_and_size(lags: int, size: float) -> None:
    X = correlated(400, d=8)
    X[:, 0] += 3 * X[:, 1]
    monitor = KernelMonitor(lags=lags, basis=60, width=30.0, ridge=0.01, random_state=0).fit(X)
    rows = correlated(20, seed=3, d=8)
    rows[:, 0] += 3 * rows[:, 1]
    sd = X.std(axis=0)
    for j in range(8):
        for sign in (1.0, -1.0):
            broken = rows.copy()
            broken[:, j] += sign * size * sd[j]
            name, value, found = monitor.contributions(broken).ranking()[0]
            assert name == f"x{j}" and value > 0
            assert 0.7 < found / (sign * size * sd[j]) < 1.4
    each = monitor.contributions(broken, average=False)
    assert len(each) == 20


def test_curvature_is_that_of_normal_rows() -> None:
    R = correlated(300)
    normal = learn_normal(R, SETTING)
    np.testing.assert_allclose(
        mean_curvature(normal, R[:50]),
        normal.index.curvature(normal.scaling.apply(R[:50])),
        rtol=1e-9,
        atol=1e-9,
    )


# --- learning


def test_adaptation_learns_rows_as_they_were_scored(normal: Normal) -> None:
    R = correlated(40, seed=5) + 0.5
    Z = normal.index.coordinates(normal.scaling.apply(R))
    adapted = normal.adapted(R, 0.99)
    w = 0.99 ** np.r_[np.full(200, 40), np.arange(39, -1, -1)]
    for gathered, old, new in (
        (adapted.rows, correlated(200), R),
        (adapted.coordinates, normal.index.coordinates(normal.scaling.apply(correlated(200))), Z),
    ):
        mean = np.average(np.vstack([old, new]), axis=0, weights=w)
        np.testing.assert_allclose(gathered.mean, mean, atol=1e-9)
    np.testing.assert_array_equal(adapted.scaling.mean, adapted.rows.mean)
    np.testing.assert_array_equal(adapted.index.mean, adapted.coordinates.mean)


def test_scores_are_compared_as_if_no_more_rows_were_learned() -> None:
    """With a smoothing weight of 1 the smoothed index is the index, whatever was learned since."""
    X = correlated(900, d=20)
    monitor = KernelMonitor(
        basis=60, width=50.0, ridge=0.1, whiten=True, smooth=1, random_state=0
    ).fit(X[:100])
    limit = monitor.update(X[100]).limit
    monitor.partial_fit(X[101:800])
    assert monitor._state.excess < -0.05  # 100 rows of 20 variables: the index was too large
    records = monitor.update_many(X[800:])
    small = records.column("index") < limit
    np.testing.assert_allclose(records.column("smoothed")[small], records.column("index")[small])
    drop = np.log(records[0].limit / limit) - monitor._state.watch.shift[1]
    assert drop == pytest.approx(monitor._state.excess, abs=0.15)


def test_missing_values_at_their_conditional_mean() -> None:
    mean, C = np.array([10.0, -5.0, 2.0]), np.cov(correlated(100, d=3).T)
    filled = fill_missing(np.array([np.nan, -4.0, 3.0]), mean, C, 0.0)
    expected = float(10.0 + C[0, 1:] @ np.linalg.solve(C[1:, 1:], [1.0, 1.0]))
    np.testing.assert_allclose(filled, [expected, -4.0, 3.0])
    np.testing.assert_array_equal(fill_missing(np.full(3, np.nan), mean, C, 0.0), mean)


# --- drift


def test_drift_is_measured_against_the_reference() -> None:
    X = correlated(400)
    monitor = KernelMonitor(
        basis=40, width=30.0, ridge=0.1, whiten=True, memory=100, random_state=0
    ).fit(X)
    start = monitor.drift_
    assert (start.largest_shift, start.largest_scale, start.overlap) == (0.0, 1.0, 1.0)
    assert (start.novelty, start.rows) == (0.0, 0)
    # the second variable moves up by two deviations, the third doubles its spread
    moved = correlated(2000, seed=1)
    moved[:, 2] *= 2.0
    moved[:, 1] += 2.0 * X[:, 1].std()
    monitor.partial_fit(moved)
    drift = monitor.drift_
    assert drift.rows == 2000
    assert drift.centre[1] == pytest.approx(2.0, abs=0.3)
    assert np.abs(np.delete(drift.centre, 1)).max() < 0.5
    assert drift.scale[2] == pytest.approx(2.0, abs=0.4)
    assert np.abs(np.delete(drift.scale, 2) - 1).max() < 0.3
    assert drift.largest_shift == np.abs(drift.centre).max()
    assert drift.largest_scale == pytest.approx(drift.scale.max())
    assert drift.novelty > 1.0  # the frozen model finds these rows strange
    assert drift.overlap > 0.9  # correlations have not changed
    rotated = (
        np.random.default_rng(3).normal(size=(2000, 5))
        @ np.linalg.qr(np.random.default_rng(4).normal(size=(5, 5)))[0]
        * np.arange(1, 6)
    )
    monitor.partial_fit(rotated)
    assert monitor.drift_.overlap < 0.9


# --- long streams


def plant(n: int, seed: int, drift: bool) -> np.ndarray:
    """Three autocorrelated factors, eight bent sensors; drift moves offsets and scales slowly."""
    rng = np.random.default_rng(seed)
    mix, bend = rng.normal(size=(3, 8)), 0.3 * rng.normal(size=(3, 8))
    noise = rng.normal(size=(n + 200, 3))
    factors = lfilter([0.6], [1, -0.8], noise, axis=0)[200:]
    X = factors @ mix + (factors**2 - 1) @ bend + 0.3 * rng.normal(size=(n, 8))
    if drift:
        turn = 2 * np.pi * np.arange(n)[:, None] / 50_000
        phase = rng.uniform(0, 2 * np.pi, 8)
        offset = X.std(axis=0) * (np.sin(turn + phase) - np.sin(phase))
        X = X * (1 + 0.3 * np.sin(turn)) + offset
    return X


def false_alarm_rate(n: int, seed: int, drift: bool, settling: int, **parameters: Any) -> float:
    X = plant(1000 + n, seed, drift)
    monitor = KernelMonitor(random_state=0, **parameters).fit(X[:1000])
    alarms = [
        monitor.update_many(X[start : start + 5000]).column("alarm")
        for start in range(1000, len(X), 5000)
    ]
    return float(np.mean(np.concatenate(alarms)[settling:]))


@pytest.mark.parametrize("drift", [False, True], ids=["still", "drift"])
def test_false_alarms_short(drift: bool) -> None:
    quick: dict[str, Any] = dict(basis=20, width=100.0, ridge=0.1, whiten=True)
    rate = false_alarm_rate(9000, 0, drift, 1000, alpha=0.05, **quick)
    assert 0.5 * 0.05 < rate < 1.5 * 0.05


@pytest.mark.slow
@pytest.mark.parametrize("smooth", [0.2, None], ids=["smoothed", "plain"])
@pytest.mark.parametrize("drift", [False, True], ids=["still", "drift"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_false_alarms_of_100000_rows(seed: int, drift: bool, smooth: float | None) -> None:
    rate = false_alarm_rate(100_000, seed, drift, 5000, alpha=0.01, smooth=smooth)
    assert 0.005 < rate < 0.015


def test_drift_breaks_a_frozen_monitor() -> None:
    """The drift of these tests is no small matter: without adaptation it is all alarms."""
    quick: dict[str, Any] = dict(basis=20, width=100.0, ridge=0.1, whiten=True)
    assert false_alarm_rate(12000, 0, True, 9000, adapt="off", **quick) > 0.3


def test_memory_is_bounded() -> None:
    quick: dict[str, Any] = dict(basis=20, width=100.0, ridge=0.1, whiten=True, memory=100)
    X = plant(1900, 0, True)
    X[900:1200, 2] += 20.0  # an event that is longer than anything that is kept
    monitor = KernelMonitor(random_state=0, **quick).fit(X[:300])
    sizes = []
    for start in range(300, 1900, 100):
        monitor.update_many(X[start : start + 100])
        state = monitor._state
        held = (state.quarantine, state.pending, state.suspects, state.history)
        sizes.append(max(len(rows) for rows in held))
    assert max(sizes) <= 20
    assert monitor.events_[0].n_rows > 250 or len(monitor.events_) > 1
    tracemalloc.start()
    for _ in range(3):
        monitor.update_many(X[300:500])
        before = tracemalloc.get_traced_memory()[0]
    monitor.update_many(X[500:700])
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 100_000


def test_blocks_cost_one_pass_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """The expensive steps: one model a block of memory // 10 rows, one scoring a piece."""
    import kernelstream.monitor.normal as module

    X = plant(2000, 0, False)
    quick: dict[str, Any] = dict(basis=60, width=30.0, ridge=0.1, whiten=True, smooth=None)
    monitor = KernelMonitor(random_state=0, alpha=0.001, **quick).fit(X[:500])
    calls = {"scaling": 0, "score": 0}
    scaling_of, score = module.Scaling.of.__func__, module.Index.score  # type: ignore[attr-defined]

    def counted_of(cls: Any, *arguments: Any) -> Any:
        calls["scaling"] += 1
        return scaling_of(cls, *arguments)

    def counted_score(self: Any, *arguments: Any) -> Any:
        calls["score"] += 1
        return score(self, *arguments)

    monkeypatch.setattr(module.Scaling, "of", classmethod(counted_of))
    monkeypatch.setattr(module.Index, "score", counted_score)
    stream = copy.copy(monitor)
    stream.update_many(X[500:1520])
    blocks = stream.drift_.rows // 100
    assert blocks >= 8 and stream.drift_.rows % 100 == 0
    assert calls["scaling"] == blocks
    assert calls["score"] <= 2 * (blocks + 1) + 1020 // 256  # pieces; the frozen model for drift
