"""Limits and p-values: of few scores and of many, out of sample, of models of few rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from kernelstream import KernelMonitor, landmarks
from kernelstream.anomaly.monitor.lasting import root_sizes
from kernelstream.anomaly.monitor.limits import (
    Limits,
    Reference,
    alarms_an_event,
    burden,
    calibrate,
    correlation_time,
    folds_of,
    held_out_scores,
    n_folds,
    rescale,
    smooth,
    smooth_all,
)
from kernelstream.anomaly.monitor.normal import Scores, learn_normal
from tests.anomaly.monitor.processes import SETTING, correlated, process, small


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
    assert n_folds(500, 52) == 20 and n_folds(521, 52) == 5
    assert n_folds(9, 4) == 4
    seen = []
    for others, held_out in folds_of(23, 2, 4):
        assert np.all(np.diff(held_out) == 1)
        assert np.abs(others[:, None] - held_out[None, :]).min() > 2
        seen += list(held_out)
    assert seen == list(range(23))


def test_limits_out_of_sample() -> None:
    """What limits from the learned rows would do, and what ours do."""
    X, new = correlated(120, d=12), correlated(4000, seed=1, d=12)
    chosen: dict[str, Any] = dict(width=10.0, ridge=0.1, whiten=True, smooth=None)
    monitor = KernelMonitor(basis=100, random_state=0, **chosen).fit(X)
    models = monitor._state.models
    inside = np.quantile(models.present.score(models.standard.apply(X)).index, 0.99)
    indices = np.exp(-monitor.score_samples(new))
    assert np.mean(indices > inside) > 0.05
    assert 0.002 < np.mean(monitor.predict(new) == -1) < 0.025


def test_more_rows_make_the_index_smaller_by_what_the_burden_says() -> None:
    setting = replace(SETTING, width=50.0, basis=landmarks.Centroids(60))
    new = correlated(3000, seed=1, d=20)
    means = {
        n: float(
            np.mean(np.log(learn_normal(correlated(n, seed=2, d=20), setting).score(new).index))
        )
        for n in (100, 150, 600)
    }
    b = burden(means[100] - means[150], 100, 150)
    assert 5 < b < 40  # of the order of the 20 directions
    limits = Limits.of(Scores(*(np.ones(10),) * 3), 0.2, np.zeros((10, 2)))
    limits = replace(limits, burden=b, learned=150.0)
    assert limits.excess(600) == pytest.approx(means[600] - means[150], abs=0.06)
    assert limits.excess(150) == 0.0
    assert burden(-0.1, 100, 150) == 0.0


def test_scores_are_compared_as_if_no_more_rows_were_learned() -> None:
    """With a smoothing weight of 1 the smoothed index is the index, whatever was learned since."""
    X = correlated(900, d=20)
    monitor = KernelMonitor(
        basis=60, width=50.0, ridge=0.1, whiten=True, smooth=1, random_state=0
    ).fit(X[:100])
    limit = monitor.update(X[100]).limit
    monitor.partial_fit(X[101:800])
    assert monitor._state.models.excess < -0.05  # 100 rows of 20 variables: the index was too large
    records = monitor.update_many(X[800:])
    small = records.column("index") < limit
    np.testing.assert_allclose(records.column("smoothed")[small], records.column("index")[small])
    drop = np.log(records[0].limit / limit) - monitor._state.alarms.shift[1]
    assert drop == pytest.approx(monitor._state.models.excess, abs=0.15)


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


# -- every number of it, on made-up scores

CENTRED = Reference(np.array([-1.0, 0.0, 2.0]), mean=0.5, deviation=2.0, n_independent=3.0)
WIDER = Reference(np.array([0.0, 4.0]), mean=1.0, deviation=4.0, n_independent=2.0)


def of_ten(**more: object) -> Limits:
    """Index and smoothed index of these references."""
    limits = Limits(CENTRED, WIDER, CENTRED, CENTRED, CENTRED, WIDER, smoothing=0.2)
    return replace(limits, **more)  # type: ignore[arg-type]


def test_a_reference_knows_mean_deviation_and_order() -> None:
    reference = Reference.of(np.array([3.0, 1.0, 2.0]))
    np.testing.assert_array_equal(reference.ordered, [1.0, 2.0, 3.0])
    assert reference.mean == 2.0 and reference.deviation == pytest.approx((2 / 3) ** 0.5)
    assert Reference.of(np.full(4, 7.0)).deviation == 1e-12  # scores all alike
    np.testing.assert_array_equal(CENTRED.is_high(np.array([2.4, 2.5, 2.6])), [False, False, True])
    reference.check({})
    Reference(np.zeros(1), 0.0, 1.0, 1.0).check({})
    Reference(np.array([1.0, 1.0, 1.5]), 0.0, 1.0, 3.0).check({})
    for bad in (np.zeros(0), np.array([1.0, 0.5])):
        with pytest.raises(ValueError, match="scores that are not in order"):
            Reference(bad, 0.0, 1.0, 2.0).check({})


@pytest.mark.parametrize(("n", "conformal"), [(399, False), (400, True), (401, True)])
def test_a_quantile_needs_four_over_alpha_scores(n: int, conformal: bool) -> None:
    scores = np.linspace(0.0, 1.0, n)  # a tail lighter than the normal law's
    reference = replace(Reference.of(scores), n_independent=float(n))
    law = reference.mean + reference.deviation * norm.isf(0.01)
    place = int(np.ceil((n + 1) * 0.99)) - 1
    assert reference.limit(0.01) == pytest.approx(scores[place] if conformal else law)
    at = scores[place]
    rank = (n - place + 1) / (n + 1)
    assumed = norm.sf((at - reference.mean) / reference.deviation)
    assert reference.p_value(at, 0.01) == pytest.approx(rank if conformal else max(rank, assumed))
    # the largest is compared with the scores, above it the law decides alone
    last = reference.p_value(1.0, 0.01)
    assert last == pytest.approx(
        2 / (n + 1) if conformal else max(2 / (n + 1), norm.sf(3**0.5)), 0.02
    )
    above = norm.sf((1.5 - reference.mean) / reference.deviation)
    assert reference.p_value(1.5, 0.01) == pytest.approx(1 / (n + 1) if conformal else above)


def test_few_scores_of_which_one_is_far_out() -> None:
    """The limit is never below the largest of them."""
    reference = Reference.of(np.array([0.0] * 30 + [50.0]))
    assert reference.limit(0.01) == 50.0
    assert reference.p_value(50.0, 0.01) == pytest.approx(2 / 32)
    assert Reference.of(np.arange(3.0)).limit(0.5) == pytest.approx(1.0)


def test_scores_on_the_scale_of_another() -> None:
    """By how far the limits of 1 % are from the means."""
    reach = [reference.limit(0.01) - reference.mean for reference in (CENTRED, WIDER)]
    assert CENTRED.reach == reach[0] and WIDER.reach == reach[1]
    at = 0.5 + 2 * reach[0]
    assert rescale(at, CENTRED, WIDER) == pytest.approx(1.0 + 2 * reach[1])
    third = Reference(np.array([0.0, 1.0, 9.0]), mean=2.0, deviation=3.0, n_independent=3.0)
    both = of_ten(lasting=third, joint=CENTRED)
    low, high = 1.0 + 0.1 * reach[1], 1.0 + 3 * reach[1]
    for scores in ((at, low, 2.0), (0.5, 1.0 + 2 * reach[1], 2.0), (0.5, low, 2 + 2 * third.reach)):
        assert both.join(*scores) == pytest.approx(1.0 + 2 * reach[1])
    assert both.join(at, high, 2.0) == high
    assert both.lasting_limit(1.0 + 2 * reach[1]) == pytest.approx(2 + 2 * third.reach)
    assert both.index_limit(1.0 + 2 * reach[1]) == pytest.approx(at)
    both.check({})


def test_scores_that_hang_together_are_worth_fewer() -> None:
    """A quantile of them needs as many more: until then the law counts too."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=30_000)
    path = smooth_all(0.0, noise, Reference.of(noise), 0.1)
    assert correlation_time(noise) == pytest.approx(1.0, abs=0.1)
    assert correlation_time(path) == pytest.approx(1.9 / 0.1, rel=0.15)
    assert correlation_time(np.ones(5)) == 1.0 and correlation_time(np.array([1.0, 2.0])) == 1.0
    reference = Reference.of(path[:2000])
    assert 50 < reference.n_independent < 200
    law = reference.mean + reference.deviation * norm.isf(0.01)
    conformal = np.sort(path[:2000])[int(np.ceil(2001 * 0.99)) - 1]
    assert reference.limit(0.01) == pytest.approx(max(law, conformal))
    independent = replace(reference, n_independent=2000.0)
    assert independent.limit(0.01) == conformal


def test_the_index_under_a_model_of_other_rows() -> None:
    limits = of_ten(burden=19.0, learned=100.0)
    assert limits.excess(100.0) == 0.0
    assert limits.excess(50.0) == pytest.approx(np.log(0.81 / (1 - 19 / 50)))
    assert limits.excess(1e9) == pytest.approx(np.log(0.81))
    assert limits.excess(1.0) == limits.excess(20.0) == pytest.approx(np.log(0.81 / 0.05))
    for bad in (dict(burden=100.0, learned=100.0), dict(smoothing=-0.1), dict(smoothing=1.1)):
        with pytest.raises(ValueError, match="a burden of"):
            of_ten(**bad).check({})
    for fine in (dict(burden=99.0, learned=100.0), dict(smoothing=0.0), dict(smoothing=1.0)):
        of_ten(**fine).check({})


def test_another_model_takes_over_from_two_deviations_on() -> None:
    limits = of_ten()  # smoothed: mean 1, deviation 4
    assert limits.elsewhere(9.1, 5.0) and not limits.elsewhere(9.0, 4.0)
    assert not limits.elsewhere(9.1, 5.2) and not limits.elsewhere(20.0, 16.0)


def test_from_where_on_a_row_is_not_learned() -> None:
    limits = of_ten()  # index: largest 2, mean 0.5, deviation 2
    far = 100.0
    assert limits.learning_threshold(0.0, 0.0, far) == 0.5 + 3.5 * 2.0
    assert limits.learning_threshold(0.0, 1.5, far) == 9.0
    assert (
        limits.learning_threshold(0.0, -1.5, far) == 7.5
    )  # a limit that fell does not let it fall
    assert limits.learning_threshold(8.0, 0.0, far) == 8.0
    assert limits.learning_threshold(0.0, 0.0, 2.0) == pytest.approx(2.0 + np.log(0.5))
    spread = replace(CENTRED, ordered=np.array([0.0, 30.0]))
    assert of_ten(index=spread).learning_threshold(0.0, 0.0, far) == 30.0


def test_limits_of_scores_in_time_order() -> None:
    rng = np.random.default_rng(0)
    scores = Scores(*(np.exp(rng.normal(size=(3, 200)) + np.arange(3.0)[:, None])))
    scores.t2[5] = 0.0
    residuals = np.tile(rng.normal(size=(200, 2)), 2)
    limits = Limits.of(scores, 0.3, residuals)
    index = np.log(scores.index)
    level, path = index.mean(), []
    for value in index:
        level = 0.7 * level + 0.3 * min(value, index.mean() + 6 * index.std())
        path.append(level)
    smoothed, lasting = np.array(path), root_sizes(residuals, 0.3)
    for found, values in (
        (limits.index, index),
        (limits.smoothed, smoothed),
        (limits.lasting, lasting),
        (limits.t2, np.log(np.maximum(scores.t2, 1e-300))),
        (limits.spe, np.log(scores.spe)),
    ):
        np.testing.assert_allclose(found.ordered, np.sort(values), rtol=1e-12)
        assert found.mean == pytest.approx(values.mean())
        assert found.deviation == pytest.approx(values.std())
    highest = smoothed
    for values, reference in ((index, limits.index), (lasting, limits.lasting)):
        apart = (values - values.mean()) / (reference.limit(0.01) - values.mean())
        reach = limits.smoothed.limit(0.01) - smoothed.mean()
        highest = np.maximum(highest, smoothed.mean() + reach * apart)
    np.testing.assert_allclose(limits.joint.ordered, np.sort(highest))
    # a limit is one of the scores, but for rounding
    at = [highest > limits.joint.limit(share) + 1e-9 for share in (0.05, 0.005)]
    assert limits.burst == alarms_an_event(*at)
    assert limits.smoothing == 0.3 and limits.burden == 0.0 and limits.learned == 1.0


def test_alarms_for_each_event() -> None:
    def of(text: str) -> float:
        letters = np.array(list(text))
        return alarms_an_event(letters != ".", letters == "X")

    assert of("....") == 1.0 and of("x") == 1.0
    assert of("x....x....x") == 3.0  # no event, so at most one
    assert of("xxx.........xxxx") == 3.5
    assert of("xx.x.x..........") == 4.0  # the fourth belongs to the same
    assert of("x.x.x.....x.....") == 4.0
    assert of("xxxxx") == 5.0
    assert of("x....X....x....X") == 2.0  # high ones are events by themselves


def test_an_average_advances_by_clipped_scores() -> None:
    assert smooth(1.0, 3.0, CENTRED, 0.25) == 1.5
    assert smooth(1.0, 99.0, CENTRED, 0.25) == 1.0 + 0.25 * (12.5 - 1.0)
    np.testing.assert_allclose(
        smooth_all(1.0, np.array([3.0, 99.0]), CENTRED, 0.25), [1.5, 1.5 + 0.25 * 11.0]
    )


def test_how_many_folds() -> None:
    assert n_folds(100, 10) == 5 and n_folds(99, 10) == 20
    assert n_folds(5, 1) == 2
    pairs = folds_of(10, 1, 2)
    assert [list(o) for o, _ in pairs] == [[6, 7, 8, 9], [0, 1, 2, 3]]
    assert [list(h) for _, h in pairs] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert len(folds_of(6, 2, 2)) == 2


@pytest.mark.parametrize("apart", [False, True])
def test_limits_come_from_rows_that_were_not_learned(apart: bool) -> None:
    """From a run of its own, or from folds; the burden from models of two thirds of the rows."""
    R, run = correlated(90, d=4), correlated(60, seed=1, d=4) if apart else None
    normal = learn_normal(R, SETTING)
    found = calibrate(R, normal, run, 0.2)
    thirds = [np.r_[30:90], np.r_[0:30, 60:90], np.r_[0:60]]
    others = [learn_normal(R[rows], SETTING) for rows in thirds]
    if run is None:
        scores, residuals = held_out_scores(R, SETTING, 5)
        smaller = [
            one.score(np.delete(R, rows, axis=0)) for one, rows in zip(others, thirds, strict=True)
        ]
        for i, rows in enumerate(np.array_split(np.arange(90), 5)):
            one = learn_normal(np.delete(R, rows, axis=0), SETTING)
            np.testing.assert_allclose(scores.index[rows], one.score(R[rows]).index, rtol=1e-8)
            np.testing.assert_allclose(
                residuals[rows], one.residuals(R[rows], np.matmul), rtol=1e-8
            )
            assert i < 5
        more = 72.0
    else:
        scores, residuals = normal.score(run), normal.residuals(run, np.matmul)
        smaller, more = [one.score(run) for one in others], 90.0
    expected = Limits.of(scores, 0.2, residuals)
    assert found.joint.limit(0.001) == pytest.approx(expected.joint.limit(0.001))
    rise = np.mean(np.concatenate([s.log_index for s in smaller])) - scores.log_index.mean()
    assert found.burden == pytest.approx(burden(float(rise), 60.0, more), rel=1e-6)
    assert found.learned == 90.0


def test_a_burden_is_what_explains_the_rise() -> None:
    rise = float(np.log(1 - 30 / 400) - np.log(1 - 30 / 300))
    assert burden(rise, 300, 400) == pytest.approx(30.0)
    assert burden(rise, 400, 400) == burden(rise, 401, 400) == 0.0
    assert burden(0.0, 300, 400) == burden(-1.0, 300, 400) == 0.0
    assert burden(9.0, 300, 400) == 0.95 * 300  # more than any burden explains
