"""The decisions of centroids as numbers: sizes, costs, when to look, what a look leaves behind."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.linalg

from kernelstream import kernels, landmarks
from kernelstream.landmarks.base import Clock, Measured
from kernelstream.landmarks.optimized import polish as placing
from kernelstream.landmarks.optimized.polish import (
    Sampled,
    leading,
    main_directions,
    n_directions,
    polish,
)
from kernelstream.landmarks.optimized.state import CentroidsState, Reservoir
from kernelstream.landmarks.optimized.strategy import means_of_rows
from kernelstream.landmarks.sample import UniformSample

KERNEL = kernels.RBF(gamma=0.3)
X = np.random.default_rng(0).normal(size=(2000, 3))


def begun(basis: landmarks.Centroids, rows: np.ndarray = X[:600]) -> CentroidsState:
    return basis.begin(KERNEL, landmarks.Start(rows, wanted=2))


def measured(basis: landmarks.Centroids, state: Any, rows: np.ndarray, row: int) -> Measured:
    block = basis.project(KERNEL, state, rows)
    return Measured.of(rows, None, None, Clock(0, row), block, scatter=False)


@pytest.mark.parametrize(
    ("m", "rows"), [(5, 500), (33, 990), (50, 1500), (166, 4980), (200, 5000), (800, 8000)]
)
def test_rows_of_the_sample(m: int, rows: int) -> None:
    assert begun(landmarks.Centroids(m)).sample.size == rows


@pytest.mark.parametrize(("m", "rows"), [(10, 500), (50, 500), (51, 510)])
def test_rows_of_the_start(m: int, rows: int) -> None:
    assert landmarks.Centroids(m).start_rows() == rows


@pytest.mark.parametrize(("d", "directions"), [(3, None), (149, None), (150, 100), (784, 100)])
def test_directions(d: int, directions: int | None) -> None:
    assert n_directions(d) == directions


def test_main_directions_are_those_of_the_singular_vectors() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(400, 120)) * np.geomspace(100, 1e-3, 120)
    weights = rng.uniform(0.5, 2.0, size=400)
    V = main_directions(rows, weights, 5, rng)
    assert V.shape == (120, 15)
    np.testing.assert_allclose(V.T @ V, np.eye(15), atol=1e-12)
    top = np.linalg.svd(rows * np.sqrt(weights)[:, None])[2][:5]
    np.testing.assert_allclose(np.linalg.norm(top @ V, axis=1), 1.0, atol=1e-3)


@pytest.mark.parametrize(
    ("kernel", "columns", "unit", "looked_at"),
    [
        (kernels.RBF(gamma=0.01), 200, 1.0, "float32"),
        (kernels.RBF(gamma=0.01), 50, 1.0, "float64"),  # no directions: few columns
        (kernels.Polynomial(2, 0.01, 1.0), 200, 1.0, "float64"),  # values without a bound
        (kernels.RBF(gamma=1e-42), 200, 1e20, "float64"),  # squares that float32 does not have
        (kernels.RBF(gamma=1e38), 200, 1e-20, "float64"),
    ],
)
def test_points_of_wide_rows_are_looked_for_in_single_precision(
    kernel: kernels.Kernel, columns: int, unit: float, looked_at: str
) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(700, columns)) * np.geomspace(3.0, 0.1, columns) * unit + 5.0 * unit
    sampled = Sampled.of(kernel, rows, None, np.random.default_rng(1))
    narrow = sampled.to_look_at()
    assert sampled.rows.dtype == np.float64 and narrow.rows.dtype == looked_at
    assert sampled.inside(rows[:30]).dtype == np.float64
    points = narrow.inside(rows[:30])
    moved = [
        polish(kernel, start, each, 8)
        for start, each in ((points, narrow), (sampled.inside(rows[:30]), sampled))
    ]
    assert moved[0].dtype == looked_at and narrow.lift(moved[0]).dtype == np.float64
    found = [placing.captured(kernel, np.asarray(p, float), sampled, 8, sampled) for p in moved]
    assert found[0] == pytest.approx(found[1], rel=1e-3)
    before = placing.captured(kernel, sampled.inside(rows[:30]), sampled, 8, sampled)
    assert min(found) > 1.01 * before
    basis = landmarks.Centroids(30)
    assert basis.begin(kernel, landmarks.Start(rows, wanted=8)).span.points.dtype == np.float64


def test_begin_first_rows_expects_their_mean_residual() -> None:
    basis = landmarks.Centroids(8)
    state = begun(basis)
    Z = state.span.coordinates(KERNEL, X[:600])
    missed = 1.0 - np.sum(Z**2, axis=1)
    variance = missed.mean() + Z.var(axis=0).sum()
    assert state.unit == pytest.approx(variance)
    assert state.reference == pytest.approx(missed.mean() / variance)
    assert (state.n, state.updated_at, state.optimized, state.carried) == (0, 600, False, False)
    assert state.next_update == 1800


def test_the_residual_is_watched_and_rows_are_sampled() -> None:
    basis = landmarks.Centroids(8)
    state = begun(basis)
    one, two = (measured(basis, state, X[a : a + 100], a) for a in (0, 100))
    found, count = basis.update(KERNEL, state, [one, two])
    assert count == 2 and found.n == 200 and len(found.sample) == 200
    assert found.missed == pytest.approx((one.missed + two.missed) / state.unit)
    assert found.weight == 200.0
    once, _ = basis.update(KERNEL, state, [one])
    again, _ = basis.update(KERNEL, once, [two])
    np.testing.assert_array_equal(again.sample.held()[0], found.sample.held()[0])
    assert again.missed == found.missed and again.weight == found.weight


def test_update_blocks_ends_with_one_after_which_landmarks_change() -> None:
    basis = landmarks.Centroids(8)
    state = replace(begun(basis), n=1750)  # three times the first rows come with the next block
    blocks = [measured(basis, state, X[a : a + 100], a) for a in (0, 100, 200)]
    found, count = basis.update(KERNEL, state, blocks)
    assert count == 1 and found.n == 1850
    changed = basis.revise(KERNEL, found, Clock(0, 100))
    assert changed is not None and changed[0].optimized and changed[0].updated_at == 1850
    stale = replace(state, optimized=True, reference=1e-3)
    assert basis.update(KERNEL, stale, blocks)[1] == 1
    for other in (
        replace(state, n=0),
        replace(state, optimized=True, reference=1.0),
        replace(stale, updated_at=1750),
    ):
        found, count = basis.update(KERNEL, other, blocks)
        assert count == 3 and basis.revise(KERNEL, found, Clock(0, 300)) is None
    still = landmarks.Centroids(8, follows=False)
    assert still.update(KERNEL, state, blocks)[1] == 3
    assert still.revise(KERNEL, replace(state, n=10**7), Clock(0, 0)) is None


def test_revise_rows_that_landmarks_hold_changes_nothing() -> None:
    basis = landmarks.Centroids(8)
    state = replace(begun(basis), reference=0.0, n=10**4, weight=1.0)
    assert basis.revise(KERNEL, replace(state, missed=0.9e-3), Clock(0, 10**4)) is None
    assert replace(state, missed=1.1e-3).can_gain


def test_what_a_look_leaves_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    basis = landmarks.Centroids(8)
    first = begun(basis, X[:600] * 0.3)  # points that are too near to each other
    state, _ = basis.update(KERNEL, first, [measured(basis, first, X, 0)])
    found, T = basis._update_landmarks(KERNEL, state, Clock(0, 2000))
    assert T is not None and found.carried and found.optimized
    assert found.updated_at == 2000 and found.missed == found.weight == 0.0
    assert found.reference < state.missed / state.weight
    assert found.reference == found.sample.residual(KERNEL, found.span, state.unit)
    correction = found.correction(KERNEL)
    assert correction is not None and state.correction(KERNEL) is None
    np.testing.assert_allclose(correction.folded, state.sample.held()[1] @ T.T, atol=1e-12)
    monkeypatch.setattr("kernelstream.landmarks.optimized.strategy.GAIN", 10.0)
    again, T = basis._update_landmarks(KERNEL, found, Clock(0, 2000))
    assert T is None and again.span is found.span  # nothing is gained that counts


def test_a_query_looks_where_rows_are_missed_more_than_is_normal() -> None:
    basis = landmarks.Centroids(8)
    first = begun(basis, X[:600] * 0.3)
    state, _ = basis.update(KERNEL, first, [measured(basis, first, X, 0)])
    mean = state.missed / state.weight
    normal = replace(state, reference=mean / 1.09)
    query = Clock(0, 2000, query=True)
    assert basis.revise(KERNEL, normal, query) is None
    risen = replace(state, reference=mean / 1.11)
    assert basis.revise(KERNEL, risen, query) is not None
    assert basis.revise(KERNEL, replace(risen, updated_at=1819), query) is None
    assert basis.revise(KERNEL, replace(risen, updated_at=1817), query) is not None


def test_fit_knows_all_rows() -> None:
    basis = landmarks.Centroids(8)
    sample = UniformSample(basis.start_rows(of_all=True)).offer_all((X,), None, Clock(0, 0))
    assert len(sample) == 500
    placed = basis.begin(KERNEL, landmarks.Start(sample.rows[0], None, 0, 2, sample, 2000))
    assert (placed.n, placed.updated_at, placed.carried) == (2000, 2000, False)
    assert placed.optimized and placed.next_update == np.inf
    np.testing.assert_allclose(
        placed.sample.held()[1], placed.span.coordinates(KERNEL, sample.held()[0])
    )


def test_components_of_a_sample() -> None:
    rng = np.random.default_rng(2)
    weights = rng.uniform(0.5, 2.0, size=500)
    weights /= weights.mean()
    for kernel in (KERNEL, kernels.Polynomial(2, 1e3, 0.0)):
        found = leading(kernel, X[:6], Sampled(X[:500], weights), 3)
        K, gram = kernel(X[:500], X[:6]), kernel(X[:6])
        mean = weights @ K / 500
        C = (K * weights[:, None]).T @ K / 500 - np.outer(mean, mean)
        little = 1e-10 * np.trace(gram) * np.eye(6)  # points that depend on others do not count
        exact = scipy.linalg.eigvalsh(C, gram + little)[::-1][:3]
        np.testing.assert_allclose(found.values, exact, rtol=1e-8)
        scores = kernel(X[:500], X[:6]) @ found.components
        scores -= weights @ scores / 500
        shown = np.concatenate(found.along) @ found.turn - found.centre
        np.testing.assert_allclose(shown, scores, atol=1e-8 * exact[0])
        np.testing.assert_allclose(weights @ scores**2 / 500, exact, rtol=1e-8)


def test_samples_that_meet() -> None:
    """Thresholds and places in the count go along; the highest that is left out is remembered."""
    rows = np.arange(60.0)[:, None]

    def offered(size: int, seed: int, beta: float) -> Reservoir:
        clock = Clock(seed, 0, beta**60, float(np.log(beta)))
        return Reservoir(size).offer([(rows, rows, None)], clock)

    whole = offered(60, 1, 0.9)
    some = offered(20, 1, 0.9)
    left_out = np.sort(whole.priority)[:40]
    assert some.threshold == left_out.max() and whole.threshold == -np.inf
    assert some.position.dtype == np.intp
    shifted = some.later(2.5)
    assert shifted.threshold == some.threshold + 2.5 and shifted.now == some.now + 2.5
    np.testing.assert_array_equal(shifted.priority, some.priority + 2.5)
    assert some.later(0.0) is some
    joint = whole.merge(offered(60, 2, 0.9))
    both = np.concatenate([whole.priority, offered(60, 2, 0.9).priority]) + whole.now
    assert joint.threshold == pytest.approx(np.sort(both)[::-1][60])
    assert joint.now == pytest.approx(2 * whole.now)


def test_the_span_of_points_that_joined() -> None:
    """Where the start had few different rows, others become points: span, sample, coordinates."""
    basis = landmarks.Centroids(8)
    first = begun(basis, np.repeat(X[:3], 200, axis=0))
    assert len(first.span.points) == 3 and basis.admits(first)
    state, block = basis.admit(KERNEL, first, X[:20], None, Clock(0, 0))
    assert len(state.span.points) == 8 and state.carried and not basis.admits(state)
    np.testing.assert_allclose(block.Z, state.span.coordinates(KERNEL, X[:20]), atol=1e-9)
    np.testing.assert_allclose(block.residual, 1.0 - np.sum(block.Z**2, axis=1), atol=1e-9)


def test_merged_points_and_what_is_remembered_of_them() -> None:
    basis = landmarks.Centroids(8)
    states = []
    for scale, n in ((0.3, 700), (1.0, 900)):
        state = begun(basis, X[:600] * scale)
        states.append(basis.update(KERNEL, state, [measured(basis, state, scale * X[:n], 0)])[0])
    a, b = states
    joined, to_a, to_b = basis.merge(KERNEL, a, b, 0)
    assert to_a is not None and to_b is not None and joined.carried
    assert (joined.n, joined.updated_at, joined.optimized) == (1600, 1600, True)
    assert joined.missed == joined.weight == 0.0
    assert joined.reference == joined.sample.residual(KERNEL, joined.span, a.unit)
    again, to_a, to_b = basis.merge(KERNEL, a, replace(b, span=a.span), 0)
    assert to_a is None and to_b is None and again.span is a.span and not again.carried


def test_landmarks_of_a_kernel_that_is_not_smooth_are_not_optimized() -> None:
    sample = Sampled(X, None)
    points = X[:8] * 0.3
    assert polish(kernels.Laplacian(gamma=0.3), points, sample, 2) is points


def test_points_of_a_kernel_with_a_cusp_are_looked_for_among_the_columns_themselves() -> None:
    wide = np.random.default_rng(0).normal(size=(300, 200))
    rng = np.random.default_rng(0)
    assert Sampled.of(KERNEL, wide, None, rng).directions is not None
    assert Sampled.of(kernels.Laplacian(gamma=0.3), wide, None, rng).directions is None


@pytest.mark.parametrize("follows", [True, False])
def test_before_a_second_pass_the_sample_counts_as_folded_in_the_points_found(
    follows: bool,
) -> None:
    basis = landmarks.Centroids(8, follows=follows)
    state = begun(basis)
    state, _ = basis.update(KERNEL, state, [measured(basis, state, X[:900], 0)])
    rows, Z = state.sample.held()
    spoiled = replace(state, sample=Reservoir.of(state.sample, 0.5 * Z), carried=True)
    ready = spoiled.reprojected(KERNEL)
    assert not ready.carried
    np.testing.assert_allclose(
        ready.sample.held()[1], ready.span.coordinates(KERNEL, rows), atol=1e-12
    )


def test_rows_without_variance_leave_points_where_they_are() -> None:
    points = X[:3].copy()
    nothing = Sampled(np.zeros((50, X.shape[1])), None)
    assert polish(kernels.Linear(), points, nothing, 2) is points


def test_merged_streams_of_few_different_rows_have_room_for_those_of_both() -> None:
    basis = landmarks.Centroids(8)
    states = []
    for some in (X[:3], X[3:6]):
        rows = np.repeat(some, 200, axis=0)
        state = begun(basis, rows)
        state, _ = basis.update(KERNEL, state, [measured(basis, state, rows, 0)])
        states.append(state)
    joined, _, _ = basis.merge(KERNEL, states[0], states[1], 0)
    assert len(joined.span.points) > 3
    block = basis.project(KERNEL, joined, X[:6])
    np.testing.assert_allclose(block.residual, 0.0, atol=1e-9)


def test_a_cell_without_rows_keeps_its_point() -> None:
    rows = np.array([[0.0, 1.0], [2.0, 1.0], [9.0, 9.0]])
    points = np.array([[1.0, 1.0], [100.0, 100.0], [8.0, 8.0]])
    found = means_of_rows(rows, np.array([1.0, 3.0, 2.0]), Sampled(rows, None), points)
    np.testing.assert_allclose(found, [[1.5, 1.0], [100.0, 100.0], [9.0, 9.0]])


def test_kernel_values_of_one_look_are_gone_at_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[weakref.ref[object]] = []
    alive: list[int] = []
    slope = placing.slope

    def watched(*given: Any) -> Any:
        alive.append(sum(look() is not None for look in looks))
        found = slope(*given)
        looks.append(weakref.ref(found.shown))
        return found

    monkeypatch.setattr(placing, "slope", watched)
    polish(KERNEL, X[:20], Sampled(X, None), 5)
    assert len(looks) > 3 and max(alive) == 0
