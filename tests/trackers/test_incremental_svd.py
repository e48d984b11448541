"""The incremental SVD in R^m against scatter matrices that are cut after each block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelstream import trackers
from kernelstream.trackers import Moments
from kernelstream.trackers.incremental_svd import IncrementalSVDState
from tests.naive.trackers import CutScatter, scatter_about
from tests.trackers.test_covariance import REFERENCE

TRACKER = trackers.IncrementalSVD()


def factored(state: IncrementalSVDState) -> np.ndarray:
    root = state.U * state.sigma
    return root @ root.T


def assert_same(state: IncrementalSVDState, twin: CutScatter) -> None:
    np.testing.assert_allclose(factored(state), twin.scatter, atol=1e-10)
    np.testing.assert_allclose(state.mean, twin.mean, atol=1e-13)
    assert state.weight == pytest.approx(twin.weight, rel=1e-14)
    assert state.truncated == twin.truncated
    np.testing.assert_allclose(state.U.T @ state.U, np.eye(len(state.sigma)), atol=1e-12)
    assert np.all(np.diff(state.sigma) <= 0)


def learned(
    Z: np.ndarray, kept: int | None, blocks: int = 4, weights: Any = None
) -> tuple[IncrementalSVDState, CutScatter]:
    m = Z.shape[1]
    state = TRACKER.begin(m, kept, REFERENCE)
    twin = CutScatter(np.zeros((m, m)), np.zeros(m), kept=kept)
    for block in np.array_split(np.arange(len(Z)), blocks):
        w = None if weights is None else weights[block]
        state = TRACKER.update(state, Z[block], w, ())
        twin.block(np.asarray(Z[block], dtype=float), w)
        assert_same(state, twin)
    return state, twin


def rows(seed: int, n: int = 60, m: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, m)) * np.linspace(2.0, 0.5, m) + 1.0, rng.uniform(0.2, 3.0, size=n)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kept", [None, 1, 3, 5, 9])
def test_blocks_are_those_of_the_twin(kept: int | None, weighted: bool) -> None:
    Z, w = rows(0)
    state, _ = learned(Z, kept, weights=w if weighted else None)
    assert state.n_components == (kept or 0)
    assert len(state.sigma) == min(kept or 5, 5)
    assert state.truncated == (kept in (1, 3))
    for single in (Z[:1], Z[:2]):
        learned(single, kept, blocks=len(single))


def test_float32_rows_are_summed_in_float64() -> None:
    Z, w = rows(1)
    state, _ = learned(Z.astype(np.float32), 3, weights=w)
    assert state.U.dtype == state.sigma.dtype == state.mean.dtype == np.float64


@pytest.mark.parametrize("kept", [None, 2])
@pytest.mark.parametrize("center", [True, False])
def test_components_are_those_of_what_is_kept(kept: int | None, center: bool) -> None:
    Z, w = rows(2)
    state, twin = learned(Z, kept, weights=w)
    moments = Moments(w.sum(), w @ Z)
    values, vectors, mean = TRACKER.components(state, moments, center)
    S = twin.scatter + (0.0 if center else w.sum()) * np.outer(twin.mean, twin.mean)
    expected = np.linalg.eigvalsh(S)[::-1][: len(values)] / w.sum()
    np.testing.assert_allclose(values, expected, atol=1e-12)
    assert len(values) == {None: 5, 2: 2 + (not center)}[kept]  # the mean is one more direction
    np.testing.assert_allclose(S @ vectors / w.sum(), vectors * values, atol=1e-10)
    np.testing.assert_allclose(mean, twin.mean if center else np.zeros(5), atol=1e-13)
    # what corrects the moments is heard where all of them are known
    shift = np.diag([0.3, 0.0, 0.1, 0.0, 0.0]) * w.sum(), 0.1 * w.sum() * np.ones(5)
    corrected = TRACKER.components(state, moments, center, shift)
    if kept == 2:
        np.testing.assert_array_equal(corrected[0], values)
    else:
        about = twin.mean + 0.1 if center else np.zeros(5)
        second = twin.scatter / w.sum() + np.outer(twin.mean, twin.mean)
        C = second + np.diag([0.3, 0.0, 0.1, 0.0, 0.0]) - np.outer(about, about)
        np.testing.assert_allclose(corrected[0], np.linalg.eigvalsh(C)[::-1].clip(0), atol=1e-12)
        np.testing.assert_allclose(C @ corrected[1], corrected[1] * np.linalg.eigvalsh(C)[::-1])
        np.testing.assert_allclose(corrected[2], about, atol=1e-13)


def test_before_the_first_row() -> None:
    state = TRACKER.begin(3, 2, REFERENCE)
    for center in (True, False):
        values, vectors, mean = TRACKER.components(state, Moments(0.0, np.zeros(3)), center)
        assert values.shape == (0,) and vectors.shape == (3, 0) and not mean.any()
    assert state.weight == 0.0 and not state.truncated and not state.scatter.any()


@pytest.mark.parametrize("kept", [None, 2])
def test_merged_states_are_the_twins_joined(kept: int | None) -> None:
    one, first = learned(rows(3)[0], kept)
    two, second = learned(rows(4, 25)[0] - 2.0, None)
    first.join(second.scatter, second.mean, second.weight)
    assert_same(TRACKER.merge(one, two), first)
    if kept is not None:  # what was cut from either is missing
        assert TRACKER.merge(two, one).truncated


def test_old_rows_lose_weight() -> None:
    state, twin = learned(rows(5)[0], None)
    faded = TRACKER.decay(state, 0.25)
    np.testing.assert_allclose(factored(faded), 0.25 * twin.scatter, atol=1e-11)
    assert faded.weight == 15.0
    np.testing.assert_array_equal(faded.mean, state.mean)


@pytest.mark.parametrize("kept", [None, 2])
def test_a_change_of_basis_moves_all_of_it(kept: int | None) -> None:
    state, twin = learned(rows(6)[0], kept)
    T = np.random.default_rng(0).normal(size=(4, 5))
    T /= np.linalg.norm(T, 2)
    moved, loss = TRACKER.rebase(state, T)
    np.testing.assert_allclose(factored(moved), T @ twin.scatter @ T.T, atol=1e-11)
    np.testing.assert_allclose(moved.mean, T @ twin.mean, atol=1e-13)
    assert moved.weight == state.weight and moved.truncated == (kept is not None)
    if kept is None:
        S = twin.scatter + twin.weight * np.outer(twin.mean, twin.mean)
        assert loss == pytest.approx(np.trace(S) - np.trace(T @ S @ T.T))
        assert TRACKER.rebase(state, np.eye(5))[1] == pytest.approx(0.0, abs=1e-9)
        assert TRACKER.rebase(state, 2.0 * np.eye(5))[1] == 0.0  # rounding only, never negative
    else:
        assert loss is None


def test_the_scatter_of_all_rows_is_known_until_something_is_cut() -> None:
    Z, w = rows(7)
    state, _ = learned(Z, None, weights=w)
    np.testing.assert_allclose(state.scatter, scatter_about(np.zeros(5), Z, w), atol=1e-10)
    cut, _ = learned(Z, 2)
    with pytest.raises(AttributeError, match="some of it was cut off"):
        cut.scatter  # noqa: B018
    # what is only rounding is nothing that could be cut
    flat, _ = learned(Z @ np.diag([1.0, 1.0, 0.0, 0.0, 0.0]), 2)
    assert not flat.truncated and len(flat.sigma) == 2


@pytest.mark.parametrize("first", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize(("share", "kept"), [(0.8e-14, 1), (1.2e-14, 2)])
def test_singular_values_that_are_rounding_are_left_out(
    share: float, kept: int, first: float
) -> None:
    sigma = first * np.array([1.0, share])
    state = IncrementalSVDState(np.eye(3)[:, :2], sigma, 2.0, np.zeros(3), 0)
    moved, _ = TRACKER.rebase(state, np.eye(3))
    assert len(moved.sigma) == kept and not moved.truncated


def test_rows_that_overflow_are_refused() -> None:
    with (
        np.errstate(all="ignore"),
        pytest.raises(ValueError, match="IncrementalSVD: the rows are so large that sums overflow"),
    ):
        TRACKER.update(TRACKER.begin(2, 1, REFERENCE), np.full((2, 2), 1e308), None, ())


def test_singular_vectors_of_a_file_have_at_most_unit_length() -> None:
    for entry, fine in ((1.0 + 0.9e-6, True), (1.0 + 1.1e-6, False), (-1.1, False)):
        state = IncrementalSVDState(np.array([[entry]]), np.ones(1), 1.0, np.zeros(1), 0)
        if fine:
            state.check({})
        else:
            with pytest.raises(ValueError, match="singular vectors that are too long"):
                state.check({})
