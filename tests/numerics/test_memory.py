"""The cost: bytes and kernel evaluations, counted."""

from __future__ import annotations

import sys
import tracemalloc
from collections import Counter

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, kernels, landmarks, papers, trackers
from kernelstream.certificates import sample as audit_module
from tests import samples
from tests.conftest import state_of


class Counted(kernels.RBF):
    """An RBF kernel that counts the pairs it is evaluated on, by the number of rows at a time."""

    pairs: Counter[int] = Counter()

    def scaled_distances(self, X, Y):
        Counted.pairs[X.shape[0]] += X.shape[0] * Y.shape[0]
        return super().scaled_distances(X, Y)


@pytest.fixture
def counted():
    Counted.pairs.clear()
    return Counted(gamma=0.05)


def blocks(n_blocks, rows, d, seed=0):
    for i in range(n_blocks):
        yield np.random.default_rng([seed, i]).normal(size=(rows, d))


CHAINS = {
    "centroids": lambda m: dict(basis=landmarks.Centroids(m)),
    "centroids-forgetting": lambda m: dict(
        basis=landmarks.Centroids(m), tracker=trackers.Covariance(forgetting=0.999)
    ),
    "centroids-hebbian": lambda m: dict(basis=landmarks.Centroids(m), tracker=papers.Hebbian(0.01)),
    "landmarks": lambda m: dict(basis=landmarks.Landmarks(m)),
    "distance": lambda m: dict(basis=landmarks.Distance(nu=0.01, max_points=m)),
    "coherence": lambda m: dict(basis=landmarks.Coherence(delta=0.9, max_points=m)),
}


def peak_bytes(options, m, d, B, n_blocks):
    """The most that partial_fit held beyond the caller's block, over a whole stream."""
    model = StreamingKernelPCA(5, gamma=0.5 / d, batch_size=B, random_state=0, **options(m))
    warm = StreamingKernelPCA(5, gamma=0.5 / d, batch_size=B, random_state=0, **options(m))
    warm.partial_fit(next(blocks(1, 16 * m, d)))  # imports and caches are not the model's
    del warm
    tracemalloc.start()
    try:
        base, most = tracemalloc.get_traced_memory()[0], 0
        for X in blocks(n_blocks, B + 17, d):
            tracemalloc.reset_peak()
            model.partial_fit(X)
            most = max(most, tracemalloc.get_traced_memory()[1] - base - X.nbytes)
        return most
    finally:
        tracemalloc.stop()


SIZES = {"64-20-128": (64, 20, 128), "32-200-64": (32, 200, 64), "100-5-512": (100, 5, 512)}


@samples.grid("name, size", CHAINS, SIZES, together=1)
def test_memory_is_bounded_and_does_not_grow_with_the_stream(name, size, monkeypatch):
    """O(m² + (B + m)(d + m)) as promised.

    The constant: the start buffer has 10 m rows (held twice while it is joined); a block lives in
    about eight temporaries of B (d + m) and a change of basis in about ten of m². The sample of
    centroids has 30 m rows with their coordinates, at least 1,000, and a look for points takes
    about six times as much on the way. The sample that judges has a fixed number of rows: few
    here, so that it is full before the stream is short; its log may be twice as long.
    """
    m, d, B = SIZES[size]
    monkeypatch.setattr(audit_module, "ROWS", 128)
    unit = 8 * (m * m + (B + m) * (d + m))
    start = -(-10 * m // B) + 2
    looked = 4 * start if "centroids" in name else start
    short = peak_bytes(CHAINS[name], m, d, B, looked + 10)
    long = peak_bytes(CHAINS[name], m, d, B, looked + 60)
    sample = 8 * max(1000, 30 * m) * (d + m) if "centroids" in name else 0
    judging = 8 * 128 * d
    assert long < 40 * unit + 8 * sample + 4 * judging
    # lists of blocks and small objects come and go, and so do dead rows of the sample that judges
    assert long < 1.1 * short + 100_000 + 3 * judging


def test_the_start_buffer_is_bounded_for_single_rows_too():
    model = StreamingKernelPCA(2, gamma=0.1, basis=20, random_state=0)
    X = np.random.default_rng(0).normal(size=(1500, 4))
    tracemalloc.start()
    try:
        for x in X:
            model.learn_one(x)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    # 1,024 waiting rows, each an array of its own with 150 bytes of Python around it
    assert held < 1024 * (4 * 8 + 400) + 40 * 8 * (20 * 20 + 1044 * 24)


@pytest.mark.parametrize("forgetting", [1.0, 0.9995])
def test_the_default_fold_evaluates_each_row_against_each_point_once(counted, forgetting):
    m, B = 20, 128
    n = 47 * B
    X = np.random.default_rng(0).normal(size=(n, 3))
    model = StreamingKernelPCA(
        3,
        kernel=counted,
        basis=m,
        tracker=trackers.Covariance(forgetting=forgetting),
        batch_size=B,
        random_state=0,
    )
    updated, signs = set(), set()
    for start in range(0, n, B):
        model.partial_fit(X[start : start + B])
        state = state_of(model)
        if state is not None:
            updated.add(state.basis.updated_at)
            signs.add(state.next_signs)
    updates = len(updated) - 1
    assert updates >= 1
    # once, the first 128 rows with each other: the signs a stream begins with
    assert Counted.pairs.pop(B) == n * m + 128 * 128
    # Beside the rows: the start (first residual and K(D,D)); for each update at most 8 evaluations
    # of the captured variance, 5 passes over the sample that compare two sets of landmarks and give
    # the new reference, and K(D',D'), K(D',D) of all these and of the change; K(D,D) each time a
    # reference for signs is taken (three times within the call that completes the start); 64 rows
    # that are compared with each other.
    start_rows, sampled = 500, 30 * m
    allowed = start_rows * m + m * m + updates * ((8 + 5) * sampled + 20 * m) * m
    allowed += (len(signs) + 3) * m * m + 64 * 64
    assert sum(Counted.pairs.values()) <= allowed


def test_fixed_and_full_bases_evaluate_each_row_against_each_point_once(counted):
    m, B = 15, 256
    X = np.random.default_rng(0).normal(size=(10 * B, 3))
    for basis in (landmarks.Landmarks(X[:m]), landmarks.Distance(nu=1e-3, max_points=m)):
        model = StreamingKernelPCA(3, kernel=counted, basis=basis, batch_size=B)
        assert len(model.partial_fit(X[: 2 * B]).basis_points_) == m
        Counted.pairs.clear()
        model.partial_fit(X)
        assert Counted.pairs.pop(B) == len(X) * m
        assert sum(Counted.pairs.values()) <= 5 * m * m  # references for signs, at doublings


def test_a_repeated_query_does_not_fold_the_waiting_rows_again(counted):
    X = np.random.default_rng(0).normal(size=(900, 3))
    model = StreamingKernelPCA(3, kernel=counted, basis=20, batch_size=500, random_state=0)
    model.partial_fit(X)
    model.transform(X[:10])
    Counted.pairs.clear()
    model.transform(X[:10])
    assert model.explained_variance_.shape == (3,)
    assert Counted.pairs == {10: 10 * 20}


def resident():
    """Peak resident memory in bytes (Linux counts in kilobytes, macOS in bytes)."""
    resource = pytest.importorskip("resource")  # Windows has none
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


@pytest.mark.slow
def test_two_million_rows_leave_resident_memory_flat():
    model = StreamingKernelPCA(10, gamma=0.05, basis=64, random_state=0)
    after_a_tenth = 0
    for i, X in enumerate(blocks(400, 5000, 10)):
        model.partial_fit(X)
        if i % 50 == 0:
            model.transform(X[:100])
        if i == 40:
            after_a_tenth = resident()
    assert model.n_samples_seen_ == 2_000_000
    # nine tenths of the stream (144 MB of rows) may move the peak by the noise of the allocator
    assert resident() - after_a_tenth < 10e6
