"""Limits and p-values: of few scores and of many, out of sample, of models of few rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from kernelstream import KernelMonitor, bases
from kernelstream.monitor.limits import Limits, Reference, burden, folds_of, n_folds
from kernelstream.monitor.normal import (
    Scores,
    learn_normal,
)
from tests.monitor.processes import SETTING, correlated, process, small


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
