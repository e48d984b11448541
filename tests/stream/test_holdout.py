"""Which rows of a stream are held back."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, trackers
from kernelstream.stream import HeldBack, Rows, Stream

X = np.random.default_rng(0).normal(size=(30_000, 2))


def learning(forgetting: float = 1.0) -> Stream:
    tracker = trackers.Covariance(forgetting=forgetting)
    model = StreamingKernelPCA(2, gamma=0.3, tracker=tracker, random_state=7)
    return model.partial_fit(X[:50]).stream_


def stream(*cuts: int, forgetting: float = 1.0) -> HeldBack:
    held, learns = HeldBack.nothing(2, "float64"), learning(forgetting)
    for start, stop in itertools.pairwise(cuts):
        rest, held = HeldBack.split(learns, held, Rows(X[start:stop]))
        assert len(rest) < stop - start or stop - start < 10
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
    held = stream(0, 10_000, 30_000, forgetting=1 - 1 / 500)
    assert held.index.min() > 30_000 - 500 * 10
    assert (HeldBack.ROWS.of(500.0) * 0.99 < np.mean(np.diff(np.sort(held.index))) ** -1).all()
    weights = held.weights_in(learning(1 - 1 / 500))
    np.testing.assert_allclose(weights, (1 - 1 / 500) ** (29_999 - held.index))


def test_the_first_row_is_learned():
    for start in range(20):
        rest, held = HeldBack.split(learning(), None, Rows(X[start : start + 1]))
        assert len(rest) == 1 and len(held) == 0 and held.n_seen == 1


def test_all_at_once_holds_back_what_stays():
    rest, held = HeldBack.split(learning(), None, Rows(X), at_once=True)
    assert abs(len(held) - 1000) <= 10
    assert len(held.thin()) == len(held) == len(X) - len(rest)


def test_two_streams_together():
    a, b = stream(0, 400), stream(0, 20_000)
    both = a.join(b)
    assert both.n_seen == 20_400 and len(both) == len(a) + len(b)
    thin = both.thin()
    assert abs(len(thin) - 1000) <= 20
    assert both.index.max() == 20_400 - 1 or both.index.max() > 20_000


def test_draws_are_those_of_the_row():
    np.testing.assert_array_equal(HeldBack.draws(3, 0, 1000)[400:], HeldBack.draws(3, 400, 600))
    assert not np.array_equal(HeldBack.draws(3, 0, 10), HeldBack.draws(4, 0, 10))
