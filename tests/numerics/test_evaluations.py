"""Kernel evaluations a row, counted: the part of the speed that no machine can hide.

Every bound is the number that the algorithm needs, plus what is stated beside it. A change that
evaluates a row twice, refreshes a basis more often, or builds a view for every query fails here,
on any machine and at any load. (``numerics/test_memory.py`` looks at the fold of one block and at
bytes; here are whole streams, queries, single rows and epochs.)
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, kernels, landmarks, papers
from kernelstream.landmarks.optimized import kmeans as lloyd
from kernelstream.landmarks.optimized.polish import EVALUATIONS
from kernelstream.landmarks.optimized.state import HELD_BACK, UPDATE_FACTOR
from kernelstream.papers import KernelHebbianPCA, schedules
from kernelstream.papers.kim_2003 import epochs
from kernelstream.papers.kim_2003.gram import KernelMatrix
from tests import samples


class Counting(kernels.RBF):
    """An RBF kernel that counts the pairs (row, point) it is evaluated on.

    Kernel blocks and the distances that k-means shares with the kernel count once, whether
    ``block`` is built on ``scaled_distances`` or not.
    """

    pairs = 0
    inside = threading.local()  # blocks may be evaluated by several threads
    lock = threading.Lock()

    def block(self, X: Any, Y: Any) -> Any:
        return self._counted(super().block, X, Y)

    def scaled_distances(self, X: Any, Y: Any) -> Any:
        return self._counted(super().scaled_distances, X, Y)

    @classmethod
    def _counted(cls, evaluate: Callable[[Any, Any], Any], X: Any, Y: Any) -> Any:
        depth = getattr(cls.inside, "depth", 0)
        if not depth:
            with cls.lock:
                cls.pairs += X.shape[0] * Y.shape[0]
        cls.inside.depth = depth + 1
        try:
            return evaluate(X, Y)
        finally:
            cls.inside.depth = depth


def evaluations(work: Callable[[], Any]) -> int:
    """How many pairs a piece of work evaluates."""
    before = Counting.pairs
    work()
    return Counting.pairs - before


def model(basis: Any, **options: Any) -> StreamingKernelPCA:
    return StreamingKernelPCA(3, kernel=Counting(0.1), basis=basis, random_state=0, **options)


M = 40
# Before the first row: is the variance hidden by rounding (a Gram matrix of 64 rows, in words
# where it is), K(D,D), and references for signs whenever the rows have doubled.
START = 64 * 64 + 2 * M * M


def doublings(n: int) -> int:
    return int(np.ceil(np.log2(n))) + 1


def test_a_stream_over_given_points_evaluates_every_row_once():
    X = samples.rows(20 * 1024)  # whole blocks: no row waits
    spent = evaluations(lambda: model(landmarks.Landmarks(X[:M])).partial_fit(X))
    assert M * len(X) <= spent <= M * len(X) + START + doublings(len(X)) * M * M
    assert spent < 1.15 * M * len(X)


SAMPLED = 30 * M  # rows of the sample
HELD_OUT = SAMPLED // HELD_BACK
# Kernel evaluations of one landmark update, beside those of its optimization. Two sets of landmarks
# are compared on the other sampled rows, and again with the held-out rows; the held-out rows give
# the new reference; the rest are Gram matrices of the sets and of the change of landmarks.
UPDATE = (2 * (SAMPLED - HELD_OUT) + 2 * SAMPLED + HELD_OUT) * M + 12 * M * M


def optimization(rows: int, evaluations: int) -> int:
    """Most kernel evaluations: SciPy finishes the line search in which the limit is reached."""
    return 2 * evaluations * (rows + M) * M


def updates(n: int) -> int:
    """Most landmark updates in n rows: each needs a multiple of the rows of the one before."""
    return int(np.log(n / 500) / np.log(UPDATE_FACTOR))


def test_landmark_updates_cost_a_fraction_of_the_rows_that_falls_with_their_number():
    """One evaluation for each row and landmark, and a bounded number for each update.

    At the start the first 10 m rows (at least 500) are projected once more, for the first residual.
    """
    extra = []
    each = UPDATE + optimization(SAMPLED - HELD_OUT, EVALUATIONS)
    for n in (20 * 1024, 160 * 1024):
        spent = evaluations(lambda n=n: model(M).partial_fit(samples.rows(n)))  # type: ignore[misc]
        policy = 500 * M + updates(n) * each
        assert M * n <= spent <= M * n + START + policy + doublings(n) * M * M
        extra.append(spent / (M * n) - 1.0)
    # Two updates within 20 blocks, each with some eight passes over the sample, and none later.
    assert extra[0] < 1.0
    assert extra[1] < 0.15


def test_fit_evaluates_every_row_once_beside_the_sample():
    X = samples.rows(100000)
    spent = evaluations(lambda: model(M).fit(X))
    placing = SAMPLED * M + optimization(SAMPLED, EVALUATIONS)
    assert M * len(X) <= spent <= M * len(X) + START + placing + SAMPLED * M
    assert spent < 1.2 * M * len(X)


def test_k_means_costs_four_rounds_of_the_start_and_little_later(monkeypatch):
    """One round to draw points far from the others, three of Lloyd: distances, no kernel values."""
    pairs = 0
    original = lloyd.squared_distances

    def counted(X: Any, Y: Any, *arguments: Any) -> Any:
        nonlocal pairs
        pairs += X.shape[0] * Y.shape[0]
        return original(X, Y, *arguments)

    monkeypatch.setattr(lloyd, "squared_distances", counted)
    model(M).partial_fit(samples.rows(20000))
    assert pairs <= 4 * 500 * M + updates(20_000) * 4 * SAMPLED * M


@pytest.mark.parametrize("basis", [M, "landmarks"])
def test_a_query_evaluates_its_rows_once_and_the_view_is_built_once(basis):
    X = samples.rows(20000)
    learned = model(landmarks.Landmarks(X[:M]) if basis == "landmarks" else basis).partial_fit(X)
    first = evaluations(lambda: learned.transform(X[:5000]))
    # Buffered rows (fewer than a block of 1,024) are processed on a copy; its landmarks may be
    # updated, and the sample corrects the moments.
    update = UPDATE + optimization(SAMPLED - HELD_OUT, EVALUATIONS)
    assert first <= 5000 * M + 1024 * M + update + SAMPLED * M
    assert evaluations(lambda: learned.transform(X[:5000])) == 5000 * M
    assert evaluations(lambda: learned.reconstruction_error(X[:50])) == 50 * M


@pytest.mark.parametrize("tracker", ["covariance", papers.Hebbian(), papers.RLS()])
def test_single_rows_evaluate_each_point_once(tracker):
    """Rows wait for their block: a row costs m in the end, however it was handed over."""
    X = samples.rows(6000)
    learned = model(landmarks.Landmarks(X[:M]), tracker=tracker).partial_fit(X[:1024])

    def one_by_one() -> None:
        for x in X[1024 : 1024 + 2048]:
            learned.learn_one(x)

    # references for signs, as the rows double; a row must not look at its own energy by a block;
    # once a stream, its first 128 rows with each other and the points, for the signs it begins with
    beside = 4 * M * M + (0 if tracker != "covariance" else 128 * (128 + M))
    assert 2048 * M <= evaluations(one_by_one) <= 2048 * M + beside


def test_a_repeated_single_query_evaluates_its_row_only():
    X = samples.rows(3000)
    learned = model(landmarks.Landmarks(X[:M])).partial_fit(X)
    learned.transform_one(X[0])
    assert evaluations(lambda: [learned.transform_one(x) for x in X[:20]]) == 20 * M


@pytest.mark.parametrize("kept", [True, False], ids=["matrix-kept", "computed-anew"])
def test_a_hebbian_epoch_evaluates_each_pair_at_most_once(kept):
    X = samples.rows(300)
    data = KernelMatrix(
        Counting(0.1), X, n_components=3, cache_bytes=8 * len(X) ** 2 if kept else 0
    )
    start, means = epochs.begin(data, 3, seed=0)
    step, order = schedules.ConstantRate(0.01), np.arange(len(X))
    spent = evaluations(lambda: epochs.sample_epoch(data, means, start, step, order))
    assert spent == (0 if kept else len(X) ** 2)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("ritz", "after"), [(True, 4), (False, 2)])
@pytest.mark.parametrize("epochs", [1, 7])
def test_a_hebbian_fit_passes_before_and_after_its_epochs(epochs, ritz, after):
    """Once before: lengths of the start and the means. After: exact variances and residuals, and
    two more for the best components in the span. Kept: half a pass in all.

    (The matrix is symmetric: blocks of 128 rows are evaluated up to their own end.)
    """
    X = samples.rows(300)
    settings: dict[str, Any] = dict(n_epochs=epochs, tol=0.0, ritz=ritz, random_state=0)
    kept = KernelHebbianPCA(3, kernel=Counting(0.1), **settings)
    assert evaluations(lambda: kept.fit(X)) == 128 * 128 + 128 * 256 + 44 * 300
    anew = KernelHebbianPCA(3, kernel=Counting(0.1), cache_bytes=0, **settings)
    assert evaluations(lambda: anew.fit(X)) == (1 + epochs + after) * len(X) ** 2
