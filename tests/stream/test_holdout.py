"""Which rows of a stream are held back."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, trackers
from kernelstream.stream.holdout import HeldBack, forgetting_of

X = np.random.default_rng(0).normal(size=(30_000, 2))


def stream(*cuts: int, memory: float = math.inf, forgetting: float = 1.0) -> HeldBack:
    held = HeldBack.nothing(2, "float64")
    for start, stop in itertools.pairwise(cuts):
        chosen = held.choose(stop - start, 7, memory)
        held = held.add(X[start:stop], None, chosen, 7).thin(math.log(forgetting), memory)
    return held


@pytest.mark.parametrize(
    ("n", "expected"), [(100, 25), (400, 100), (900, 100), (5000, 500), (10_000, 1000)]
)
def test_how_many_are_held_back(n, expected):
    assert abs(len(stream(0, n)) - expected) <= 3


def test_never_many_more_than_a_thousand():
    assert abs(len(stream(0, 30_000)) - 1000) <= 10


def test_the_same_rows_however_they_are_cut():
    whole, cut = stream(0, 20_000), stream(0, 1, 2, 9, 500, 501, 12_345, 20_000)
    for name in ("X", "weights", "index", "draw"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(cut, name))
    assert whole.n_seen == cut.n_seen == 20_000


def test_rows_of_the_whole_stream_are_alike():
    """Of each tenth of a stream about as many are kept: none is old, none is new."""
    counts = np.histogram(stream(0, 7, 30_000).index, bins=10, range=(0, 30_000))[0]
    assert counts.min() > 90 and counts.max() < 110


def test_where_old_rows_are_forgotten_the_latest_are_held_back():
    held = stream(0, 10_000, 30_000, memory=500.0, forgetting=1 - 1 / 500)
    assert held.index.min() > 30_000 - 500 * 10
    assert (HeldBack.ROWS.of(500.0) * 0.99 < np.mean(np.diff(np.sort(held.index))) ** -1).all()
    forgetting = trackers.Covariance(forgetting=1 - 1 / 500)
    model = StreamingKernelPCA(2, gamma=0.3, tracker=forgetting).partial_fit(X[:50])
    weights = held.weights_in(model.stream_)
    np.testing.assert_allclose(weights, (1 - 1 / 500) ** (29_999 - held.index))


def test_the_first_row_is_learned():
    for seed in range(20):
        assert not HeldBack.nothing(2, "float64").choose(1, seed, math.inf).any()


def test_all_at_once_holds_back_what_stays():
    held = HeldBack.nothing(2, "float64")
    chosen = held.choose(30_000, 7, math.inf, at_once=True)
    assert abs(chosen.sum() - 1000) <= 10
    assert len(held.add(X, None, chosen, 7).thin(0.0, math.inf)) == chosen.sum()


def test_two_streams_together():
    a, b = stream(0, 400), stream(0, 20_000)
    both = a.join(b)
    assert both.n_seen == 20_400 and len(both) == len(a) + len(b)
    thin = both.thin(0.0, math.inf)
    assert abs(len(thin) - 1000) <= 20
    assert both.index.max() == 20_400 - 1 or both.index.max() > 20_000


def test_draws_are_those_of_the_row():
    np.testing.assert_array_equal(HeldBack.draws(3, 0, 1000)[400:], HeldBack.draws(3, 400, 600))
    assert not np.array_equal(HeldBack.draws(3, 0, 10), HeldBack.draws(4, 0, 10))


@pytest.mark.parametrize(
    ("forgetting", "expected"), [(1.0, (0.0, math.inf)), (0.99, (math.log(0.99), 100.0))]
)
def test_how_many_rows_count_where_old_ones_are_forgotten(
    forgetting: float, expected: tuple[float, float]
) -> None:
    model = StreamingKernelPCA(2, gamma=0.3, tracker=trackers.Covariance(forgetting=forgetting))
    assert forgetting_of(model.partial_fit(X[:50]).stream_) == pytest.approx(expected)
