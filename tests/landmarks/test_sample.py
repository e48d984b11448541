"""The sample of all rows, and what its rows stand for."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from kernelstream import StreamingKernelPCA, kernels, trackers
from kernelstream.arrays.draws import pick, uniforms
from kernelstream.landmarks import sample as sampling
from kernelstream.landmarks.base import Clock, Correction
from kernelstream.landmarks.nystroem import factorise
from kernelstream.landmarks.optimized.state import Reservoir
from tests import samples
from tests.naive import chain as naive


def filled(size, n, seed, weights=None, cuts=(), beta=1.0):
    """Rows 0 … n−1 offered in the given pieces; their indices come back."""
    held = Reservoir(size)
    X = np.arange(n, dtype=float)[:, None]
    edges = [0, *cuts, n]
    for a, b in itertools.pairwise(edges):
        clock = Clock(seed, a, beta ** (b - a), np.log(beta))
        w = None if weights is None else weights[a:b]
        held = held.offer([(X[a:b], X[a:b], w)], clock)
    return np.sort(held.held()[0][:, 0]).astype(int)


def test_the_reservoir_is_uniform():
    counts = np.zeros(200)
    for seed in range(400):
        counts[filled(20, 200, seed)] += 1
    # 400 samples of 20 of 200: 40 of each. Drawn without replacement the counts vary by 0.9 of
    # the multinomial variance, so the test is on the safe side; fixed seeds, no flakes.
    assert counts.sum() == 400 * 20
    assert scipy.stats.chisquare(counts).pvalue > 0.01
    thirds = counts.reshape(4, 50).sum(axis=1)  # no part of the stream is favoured
    assert scipy.stats.chisquare(thirds).pvalue > 0.01


def test_the_reservoir_follows_the_weights():
    weights = np.repeat([1.0, 3.0], 300)
    heavy = sum(np.sum(filled(10, 600, seed, weights) >= 300) for seed in range(300))
    # 10 of 600 is nearly with replacement: three quarters of 3,000 draws, deviation 24.
    assert abs(heavy - 2250) < 4 * 24


def weighted_sample(size, n, seed, weights):
    """The rows drawn and the weight that each stands for, of all the weight."""
    held = Reservoir(size)
    X = np.arange(n, dtype=float)[:, None]
    for a, b in itertools.pairwise([0, n // 3, n]):
        held = held.offer([(X[a:b], X[a:b], weights[a:b])], Clock(seed, a))
    stands_for = held.stands_for()
    assert stands_for is not None
    assert stands_for.mean() == pytest.approx(1.0)
    return held.held()[0][:, 0].astype(int), stands_for / len(held) * weights.sum()


def test_heavy_rows_of_the_reservoir_stand_for_their_weight():
    """Drawn once, a row of a million once counted like any other."""
    weights = np.ones(400)
    weights[[7, 300]] = 1e6, 50.0
    totals = np.zeros(400)
    for seed in range(300):
        rows, stand_for = weighted_sample(40, 400, seed, weights)
        totals[rows] += stand_for / 300
    assert totals[7] == pytest.approx(1e6, rel=1e-3)
    assert totals[300] == pytest.approx(50.0, rel=0.1)
    light = np.delete(totals, [7, 300])
    assert light.mean() == pytest.approx(1.0, rel=0.02)
    # a reservoir with room for all rows has their weights exactly
    rows, stand_for = weighted_sample(500, 400, 0, weights)
    np.testing.assert_allclose(stand_for, weights[rows], rtol=1e-9)


def test_merged_reservoirs_stand_for_all_rows():
    weights = np.random.default_rng(0).gamma(0.3, size=600) + 0.01
    X = np.arange(600.0)[:, None]
    totals = np.zeros(600)
    for seed in range(400):
        ours, theirs = (
            Reservoir(30).offer([(X[part], X[part], weights[part])], Clock(seed + offset, 0))
            for part, offset in ((slice(0, 200), 0), (slice(200, 600), 10_000))
        )
        both = ours.merge(theirs)
        stands_for = both.stands_for()
        assert stands_for is not None
        rows = both.held()[0][:, 0].astype(int)
        totals[rows] += stands_for / 30 * weights.sum() / 400
    for part in (slice(0, 200), slice(200, 600)):
        assert totals[part].sum() == pytest.approx(weights[part].sum(), rel=0.03)


@pytest.mark.parametrize(("ratio", "count"), [(20.0, 900), (1e4, 3), (1e6, 1)])
def test_weights_of_any_ratio_give_the_variances_of_the_weighted_rows(ratio: float, count: int):
    """Points that moved are corrected by a sample, which has to know what its rows weigh."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 3))
    weights = np.ones(2000)
    weights[rng.choice(2000, count, replace=False) if count < 10 else X[:, 0] > 0.5] = ratio
    model = StreamingKernelPCA(4, gamma=0.2, basis=40, random_state=0, batch_size=256)
    model.partial_fit(X, sample_weight=weights)
    exact, _ = naive.kernel_pca(kernels.RBF(gamma=0.2)(X), 4, weights)
    np.testing.assert_allclose(model.eigenvalues_, exact, rtol=0.01)


@pytest.mark.parametrize("beta", [0.99, 0.9])
@pytest.mark.parametrize("weighted", [False, True])
def test_forgetting_is_in_what_sampled_rows_stand_for(beta: float, weighted: bool):
    """With room for all rows that count, the sample has their weights, also after a merge."""
    w = np.random.default_rng(0).gamma(1.0, size=900) + 0.1 if weighted else np.ones(900)

    def held(first, last, seed):
        reservoir = Reservoir(800)
        X = np.arange(first, last, dtype=float)[:, None]
        for a, b in itertools.pairwise([0, 70, 200, last - first]):
            clock = Clock(seed, a, beta ** (b - a), np.log(beta))
            given = w[first + a : first + b] if weighted else None
            reservoir = reservoir.offer([(X[a:b], X[a:b], given)], clock)
        return reservoir

    def check(reservoir, expected):
        rows, stands_for = reservoir.held()[0][:, 0].astype(int), reservoir.stands_for()
        share = np.zeros(900)
        share[rows] = stands_for / stands_for.sum()
        np.testing.assert_allclose(share, expected / expected.sum(), atol=1e-3)

    # two streams of 300 and 600 rows: both end now
    ours, theirs = held(0, 300, 0), held(300, 900, 1)
    expected = w * np.concatenate(
        [naive.forgetting_weights(beta, 300), naive.forgetting_weights(beta, 600)]
    )
    check(ours, np.where(np.arange(900) < 300, expected, 0.0))
    both = ours.merge(theirs)
    check(both, expected)
    # and it goes on from there: 50 more rows, of which the first 50 play the part
    X = np.arange(50.0)[:, None]
    faded = beta ** np.arange(49.0, -1.0, -1.0)
    more = both.offer([(X, X, None)], Clock(2, 900, beta**50, np.log(beta)))
    expected = expected * beta**50
    expected[:50] += faded
    rows, stands_for = more.held()[0][:, 0].astype(int), more.stands_for()
    share = np.zeros(900)
    np.add.at(share, rows, stands_for / stands_for.sum())
    np.testing.assert_allclose(share, expected / expected.sum(), atol=1e-3)


@pytest.mark.parametrize("beta", [0.998, 0.99, 0.9])
def test_points_that_moved_are_corrected_under_forgetting_too(beta: float):
    """Rows in sorted order, of which the last count: up to half was lost without the sample."""
    X = np.random.default_rng(0).normal(size=(1500, 3))
    X = X[np.argsort(X[:, 0])]
    model = StreamingKernelPCA(
        3, gamma=0.2, basis=60, tracker=trackers.Covariance(beta), random_state=0, batch_size=256
    )
    model.partial_fit(X)
    exact, _ = naive.kernel_pca(kernels.RBF(gamma=0.2)(X), 3, naive.forgetting_weights(beta, 1500))
    np.testing.assert_allclose(model.eigenvalues_, exact, rtol=0.04)


def test_the_reservoir_forgets():
    """With β = 0.99 a row that is 100 rows older is drawn e^-1 times as often."""
    beta = 0.99
    counts = np.zeros(600)
    for seed in range(300):
        counts[filled(5, 600, seed, beta=beta, cuts=(100, 350))] += 1
    expected = naive.forgetting_weights(beta, 600)
    expected *= counts.sum() / expected.sum()
    groups = [slice(0, 400), slice(400, 500), slice(500, 550), slice(550, 600)]
    seen = np.array([counts[g].sum() for g in groups])
    share = np.array([expected[g].sum() for g in groups])
    # without replacement old rows get slightly more: 5 of an effective 100 rows, a few per cent
    np.testing.assert_allclose(seen, share, rtol=0.15)


@given(
    cuts=st.lists(st.integers(1, 299), unique=True, max_size=12).map(sorted),
    weighted=st.booleans(),
    beta=st.sampled_from([1.0, 0.97]),
)
def test_the_reservoir_does_not_depend_on_the_cuts(cuts, weighted, beta):
    weights = np.random.default_rng(0).uniform(0.1, 3.0, size=300) if weighted else None
    whole = filled(15, 300, 7, weights, beta=beta)
    np.testing.assert_array_equal(filled(15, 300, 7, weights, cuts, beta), whole)


def test_pick_draws_without_replacement_in_proportion():
    rng = np.random.default_rng(0)
    weights = np.array([0.0, 1.0, 2.0, 4.0, 0.0])
    first = np.zeros(5)
    for _ in range(3000):
        drawn = pick(rng, weights, 1)
        first[drawn] += 1
    assert first[0] == first[4] == 0
    assert scipy.stats.chisquare(first[1:4], 3000 * weights[1:4] / 7).pvalue > 0.01
    np.testing.assert_array_equal(pick(rng, weights, 4), [1, 2, 3])  # no more than there are
    assert len(pick(rng, weights, 0)) == 0


def twin(n, seed, weights, beta, size):
    """All priorities by the formula of the page: who is in, their log weights, and τ."""
    own = -np.arange(n) * np.log(beta)
    if weights is not None:
        own = own + np.log(weights)
    priority = own - np.log(-np.log(uniforms(seed, "reservoir", 0, n)))
    order = np.argsort(-priority)
    kept = np.sort(order[:size])
    return kept, own[kept], float(priority[order[size:]].max(initial=-np.inf))


def test_rounding_of_the_lowest_priority_does_not_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of equal weight are compared by their numbers before a logarithm is taken of few."""
    X = np.arange(300.0)[:, None]
    held = Reservoir(15).offer([(X, X, None)], Clock(3, 0))
    lowest = held.priority.min()
    draws = np.exp(-np.exp(-lowest)) * (1.0 + np.array([1e-15, 1e-7, -1e-12, -1e-6, -0.1]))
    monkeypatch.setattr(Reservoir, "noise", lambda *_: draws)
    more = held.offer([(-X[1:6], X[1:6], None)], Clock(3, 300))
    priorities = np.concatenate([held.priority, -np.log(-np.log(draws))])
    kept = np.sort(np.argsort(-priorities)[:15])
    np.testing.assert_array_equal(more.priority, priorities[kept])
    assert more.threshold == pytest.approx(np.sort(priorities)[-16], rel=1e-12)


@samples.grid("beta, weighted, step", [1.0, 0.97], [False, True], [1, 7, 90, 300])
def test_the_reservoir_is_that_of_all_priorities(step, weighted, beta):
    """Rows, weights and threshold, whether one row enters at a time or more than there is room."""
    weights = np.random.default_rng(1).uniform(0.1, 3.0, size=300) if weighted else None
    X, held, size = np.arange(300.0)[:, None], Reservoir(15), 15
    for a in range(0, 300, step):
        b = min(a + step, 300)
        w, so_far = (None, None) if weights is None else (weights[a:b], weights[:b])
        held = held.offer([(X[a:b], -X[a:b], w)], Clock(3, a, beta ** (b - a), np.log(beta)))
        kept, log_weight, threshold = twin(b, 3, so_far, beta, size)
        rows, z = held.held()
        order = np.argsort(rows[:, 0])
        np.testing.assert_array_equal(rows[order, 0], kept)
        np.testing.assert_array_equal(z, -rows)
        assert held.threshold == pytest.approx(threshold, abs=1e-12)
        assert held.now == pytest.approx(-b * np.log(beta))
        assert held.position.dtype == np.intp
        if weighted or beta != 1.0:
            assert held.log_weight is not None
            np.testing.assert_allclose(held.log_weight[order], log_weight, atol=1e-12)
        else:
            assert held.log_weight is None
    stored = held.as_stored()
    np.testing.assert_array_equal(stored.rows[0], held.held()[0])
    np.testing.assert_array_equal(stored.position, np.arange(15))


@pytest.mark.parametrize("beta", [1.0, 0.97])
def test_merged_reservoirs_are_those_of_the_priorities_of_both(beta):
    X, held, log_beta = np.arange(500.0)[:, None], [], np.log(beta)
    for seed, (a, b) in enumerate([(0, 200), (200, 500)]):
        clock = Clock(seed, 0, beta ** (b - a), log_beta)
        held.append(Reservoir(15).offer([(X[a:b], X[a:b], None)], clock))
    ours, theirs = held
    # Both are counted on from the sum of both: 200 and 300 rows.
    priorities = [ours.priority - 300 * log_beta, theirs.priority - 200 * log_beta]
    both = np.concatenate(priorities)
    rows = np.concatenate([ours.held()[0], theirs.held()[0]])[:, 0]
    order = np.argsort(-both)
    merged = ours.merge(theirs)
    np.testing.assert_array_equal(np.sort(merged.held()[0][:, 0]), np.sort(rows[order[:15]]))
    before = max(ours.threshold - 300 * log_beta, theirs.threshold - 200 * log_beta)
    assert merged.threshold == pytest.approx(max(before, both[order[15]]))
    assert merged.now == pytest.approx(-500 * log_beta)
    assert ours.merge(Reservoir(15)) is ours and Reservoir(15).merge(ours) is ours


def test_a_reservoir_in_other_units_and_in_another_basis():
    X = np.random.default_rng(0).normal(size=(40, 3))
    held = Reservoir(15)
    for a in (0, 20):
        held = held.offer([(X[a : a + 20], 2.0 * X[a : a + 20], None)], Clock(0, a))
    rows, z = held.held()
    T = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0]])
    carried = held.rebase(T)
    np.testing.assert_array_equal(carried.held()[0], rows)
    np.testing.assert_allclose(carried.held()[1], z @ T.T)
    anew = Reservoir.of(held, -z)
    np.testing.assert_array_equal(anew.held()[0], rows)
    np.testing.assert_array_equal(anew.held()[1], -z)


def test_a_sample_of_nothing_corrects_nothing():
    span = factorise(kernels.RBF(gamma=0.3), np.eye(3))
    assert Reservoir(15).correction(kernels.RBF(gamma=0.3), span) is None
    assert len(Reservoir(15).rebase(np.eye(3))) == 0


@pytest.mark.parametrize(("n", "judges"), [(3, [0, 1, 2]), (4, [3]), (9, [3, 7])])
def test_the_residual_is_that_of_the_rows_held_back(n, judges):
    kernel, X = kernels.RBF(gamma=0.3), np.random.default_rng(0).normal(size=(n, 3))
    span = factorise(kernel, X[:1] + 1.0)
    held = Reservoir(15).offer([(X, X, None)], Clock(0, 0))
    missed = 1.0 - np.sum(span.coordinates(kernel, X[judges]) ** 2, axis=1)
    assert held.residual(kernel, span, 2.0) == pytest.approx(missed.mean() / 2.0)


def test_a_correction_is_the_difference_of_moments():
    rng = np.random.default_rng(0)
    X, C, Z, w = (rng.normal(size=(8, s)) for s in (3, 2, 2, 1))
    for stands_for in (None, np.abs(w[:, 0])):
        scatter, total = Correction(X, C, Z, stands_for).moments(16.0)
        W = np.diag(np.ones(8) if stands_for is None else stands_for)
        np.testing.assert_allclose(scatter, 2.0 * (Z.T @ W @ Z - C.T @ W @ C))
        np.testing.assert_allclose(total, 2.0 * W.diagonal() @ (Z - C))
        origin = np.array([1.0, 2.0, 3.0])
        cross = Correction(X, C, Z, stands_for).cross(origin, 16.0)
        np.testing.assert_allclose(cross, (Z - C).T @ W @ (X - origin) / 8)


def offered(size: int, X: np.ndarray, length: int, seed: int = 3) -> list[Reservoir]:
    """The sample after each of several offers of so many rows."""
    held = [Reservoir(size)]
    for start in range(0, len(X), length):
        block = X[start : start + length]
        held.append(held[-1].offer([(block, 10.0 * block, None)], Clock(seed, start)))
    return held[1:]


@pytest.mark.parametrize(("size", "length"), [(50, 1), (50, 7), (64, 400), (200, 13)])
def test_the_log_stays_short_and_says_the_same(size: int, length: int) -> None:
    """Never half as long again as the sample, never many pieces; and each row has its own."""
    X = np.arange(3000.0)[:, None]
    whole = Reservoir(size).offer([(X, 10.0 * X, None)], Clock(3, 0)).held()
    for held in offered(size, X, length):
        assert sum(map(len, held.rows)) <= 1.5 * size + length
        assert len(held.rows) <= sampling.MOST_PIECES + 1
        rows, coordinates = held.held()
        assert len(held) == len(rows) and np.array_equal(coordinates, 10.0 * rows)
        held.check({})
    assert all(map(np.array_equal, held.held(), whole))


def test_an_offer_leaves_earlier_samples_as_they_were() -> None:
    held = offered(40, np.arange(2000.0)[:, None], 50)
    before = [one.held()[0].copy() for one in held]
    held[-1].offer([(np.arange(900.0)[:, None],) * 2 + (None,)], Clock(3, 2000))
    assert all(np.array_equal(one.held()[0], rows) for one, rows in zip(held, before, strict=True))


@pytest.mark.parametrize("weighted", [False, True])
def test_all_rows_at_once_are_the_same_sample(
    weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many are drawn for at a time, and with forgetting."""
    X = np.arange(700.0)[:, None]
    weights = np.linspace(0.5, 2.0, 700) if weighted else None
    clock = Clock(5, 0, 0.99**700, np.log(0.99) if weighted else 0.0)
    whole = Reservoir(60).offer([(X, X, weights)], clock).compact()
    for at_once in (1, 64, 699, 700, 701):
        monkeypatch.setattr(sampling, "AT_ONCE", at_once)
        found = Reservoir(60).offer_all((X, X), weights, clock)
        assert np.array_equal(found.rows[0], whole.rows[0])
        assert np.array_equal(found.priority, whole.priority)
        assert (found.threshold, found.now) == (whole.threshold, whole.now)
