"""The exact tracker in R^m: no kernel, no basis, only rows z."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelstream import trackers
from kernelstream.arrays.namespaces import orthonormal, symmetric_eigen
from kernelstream.trackers import Moments
from kernelstream.trackers.covariance import CovarianceState, lost_orders

REFERENCE = np.zeros(0)


shapes = st.tuples(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 25))


def rows(seed, m, n):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, m)), rng.uniform(0.1, 3.0, size=n), rng


def scatter_of(Z, w=None):
    """Σ w z zᵀ, one row at a time."""
    S = np.zeros((Z.shape[1], Z.shape[1]))
    for i, z in enumerate(Z):
        S += (1.0 if w is None else w[i]) * np.outer(z, z)
    return S


def covariance_of(Z, w=None):
    tracker = trackers.Covariance()
    return tracker, tracker.update(tracker.begin(Z.shape[1], None, REFERENCE), Z, w, ())


@pytest.mark.parametrize("columns", ["apart", "one nearly the sum of others", "one zero", "none"])
def test_orthonormal_columns_of_the_same_span(columns):
    V = np.random.default_rng(0).normal(size=(30, 5)) * [1e3, 1.0, 1.0, 1e-2, 1.0]
    if columns == "one nearly the sum of others":
        V[:, 4] = V[:, 1] + V[:, 2] + 1e-9 * V[:, 4]
    elif columns == "one zero":
        V[:, 4] = 0.0
    elif columns == "none":
        V = V[:, :0]
    Q = orthonormal(V)
    # (1e-5)⁻² of rounding at the most: above, reflections are used
    np.testing.assert_allclose(Q.T @ Q, np.eye(V.shape[1]), atol=1e-5)
    np.testing.assert_allclose(Q @ (Q.T @ V), V, atol=1e-9 * np.abs(V).max(initial=1.0))


@given(shapes)
def test_covariance_accumulates_the_scatter(shape):
    Z, w, _ = rows(*shape)
    for weights in (None, w):
        tracker, state = covariance_of(Z, weights)
        np.testing.assert_allclose(state.scatter, scatter_of(Z, weights), atol=1e-11)
        again = tracker.update(state, Z, weights, ())
        np.testing.assert_allclose(again.scatter, 2 * state.scatter, atol=1e-11)
        assert again is not state


@given(shapes, st.integers(1, 8))
def test_rebase_is_the_scatter_of_the_moved_rows(shape, new):
    Z, w, rng = rows(*shape)
    tracker, state = covariance_of(Z, w)
    T = rng.normal(size=(new, Z.shape[1]))
    T /= np.linalg.norm(T, 2)  # a projection loses, it never adds
    moved, loss = tracker.rebase(state, T)
    expected = scatter_of(Z @ T.T, w)
    np.testing.assert_allclose(moved.scatter, expected, atol=1e-11)
    np.testing.assert_array_equal(moved.scatter, moved.scatter.T)
    np.testing.assert_allclose(loss, np.trace(state.scatter) - np.trace(expected), atol=1e-10)
    assert loss >= 0
    # two changes are one
    U = rng.normal(size=(3, new))
    twice, _ = tracker.rebase(moved, U)
    once, _ = tracker.rebase(state, U @ T)
    np.testing.assert_allclose(twice.scatter, once.scatter, atol=1e-9)


def test_a_rotation_loses_nothing():
    Z, _, rng = rows(0, 5, 20)
    tracker, state = covariance_of(Z)
    turned, loss = tracker.rebase(state, np.linalg.qr(rng.normal(size=(5, 5)))[0])
    assert loss < 1e-12
    before = np.linalg.eigvalsh(state.scatter)
    np.testing.assert_allclose(np.linalg.eigvalsh(turned.scatter), before, rtol=1e-10)


@given(shapes, st.integers(0, 4))
def test_padding_is_rows_with_zeros_appended(shape, more):
    Z, w, _ = rows(*shape)
    tracker, state = covariance_of(Z, w)
    wide = tracker.update(state, np.zeros((1, Z.shape[1] + more)), None, ())
    _, expected = covariance_of(np.pad(Z, ((0, 0), (0, more))), w)
    np.testing.assert_allclose(wide.scatter, expected.scatter, atol=1e-12)


@given(shapes, st.floats(0.0, 1.0))
def test_decay_is_a_smaller_weight(shape, factor):
    Z, w, _ = rows(*shape)
    tracker, state = covariance_of(Z, w)
    _, expected = covariance_of(Z, factor * w)
    np.testing.assert_allclose(
        tracker.decay(state, factor).scatter, expected.scatter, rtol=1e-10, atol=1e-12
    )


@given(shapes)
def test_components_are_those_of_the_covariance_matrix(shape):
    Z, w, _ = rows(*shape)
    tracker, state = covariance_of(Z, w)
    moments = Moments(w.sum(), w @ Z)
    for center in (True, False):
        values, vectors, mean = tracker.components(state, moments, center)
        expected = w @ Z / w.sum() if center else np.zeros(Z.shape[1])
        np.testing.assert_allclose(mean, expected, atol=1e-12)
        C = scatter_of(Z - expected, w) / w.sum()
        np.testing.assert_allclose(values, np.linalg.eigvalsh(C)[::-1].clip(0), atol=1e-10)
        assert np.all(np.diff(values) <= 0)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(Z.shape[1]), atol=1e-10)
        np.testing.assert_allclose(C @ vectors, vectors * values, atol=1e-9)


def test_float32_blocks_have_float64_accumulators():
    Z = np.full((10, 2), 1.0, dtype=np.float32)
    tracker = trackers.Covariance()
    state = CovarianceState(np.full((2, 2), 1e9))
    for _ in range(100):
        state = tracker.update(state, Z, None, ())
    assert state.scatter.dtype == np.float64
    assert state.scatter[0, 0] == 1e9 + 1000  # float32 would have lost every block of 10


@pytest.mark.parametrize("new", [1, 3, 4])
@pytest.mark.parametrize("n", [2, 25])
def test_lost_orders_are_the_largest_sums_of_what_a_change_of_basis_loses(n, new):
    """Of the scatter that is left outside the new span: Σ w (z − Pz)(z − Pz)ᵀ."""
    Z, w, rng = rows(0, 5, n)
    m = Z.shape[1]
    _, state = covariance_of(Z, w)
    T = np.linalg.qr(rng.normal(size=(m, m)))[0][:new]
    values = np.linalg.eigvalsh(scatter_of(Z - Z @ T.T @ T, w))[::-1].clip(0)
    sums = np.cumsum(values)
    for orders in (1, 2, m, m + 3):
        found = lost_orders(state.scatter, T, orders)
        assert found is not None
        expected = [sums[min(k, m - 1)] for k in range(orders)]
        np.testing.assert_allclose(found, expected, atol=1e-10)
    assert lost_orders(state.scatter, T, 0) is None
    grown = lost_orders(state.scatter, 2.0 * np.eye(m), 2)  # nothing can be lost
    assert grown is not None
    np.testing.assert_array_equal(grown, [0.0, 0.0])


def test_a_correction_is_added_to_the_moments():
    Z, w, _ = rows(1, 4, 30)
    tracker, state = covariance_of(Z, w)
    moments, more = Moments(w.sum(), w @ Z), (np.diag([9.0, 0, 0, 0]), np.array([0, 5.0, 0, 0]))
    for center in (True, False):
        values, vectors, mean = tracker.components(state, moments, center, more)
        expected = (w @ Z + more[1]) / w.sum() if center else np.zeros(4)
        C = (scatter_of(Z, w) + more[0]) / w.sum() - np.outer(expected, expected)
        np.testing.assert_allclose(mean, expected, atol=1e-14)
        np.testing.assert_allclose(values, np.linalg.eigvalsh(C)[::-1], atol=1e-12)
        np.testing.assert_allclose(C @ vectors, vectors * values, atol=1e-12)


def test_two_states_add():
    Z, w, _ = rows(3, 4, 30)
    tracker, all_rows = covariance_of(Z, w)
    both = tracker.merge(covariance_of(Z[:10], w[:10])[1], covariance_of(Z[10:], w[10:])[1])
    np.testing.assert_allclose(both.scatter, all_rows.scatter, atol=1e-12)


def test_components_before_the_first_row():
    tracker = trackers.Covariance()
    state = tracker.begin(3, None, REFERENCE)
    assert state.scatter.shape == (3, 3)
    values, vectors, mean = tracker.components(state, Moments(0.0, np.zeros(3)), True)
    assert not values.any() and not mean.any()
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(3), atol=1e-14)


@pytest.mark.parametrize(("share", "sound"), [(0.9e-5, False), (1.1e-5, True)])
def test_a_cholesky_factor_is_used_while_it_is_sound(share, sound, monkeypatch):
    """Its shortest column has to keep more than 1e-5 of the longest."""
    reflected = []
    qr = np.linalg.qr

    def noted(V, **how):
        reflected.append(1)
        return qr(V, **how)

    monkeypatch.setattr(np.linalg, "qr", noted)
    orthonormal(np.diag([1.0, 0.5, share]))
    assert bool(reflected) != sound


def test_the_same_components_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        calls.append(C)
        return symmetric_eigen(C)

    monkeypatch.setattr("kernelstream.trackers.covariance.symmetric_eigen", counted)
    tracker, moments = trackers.Covariance(), Moments(4.0, np.ones(3))
    state = CovarianceState(np.diag([9.0, 4.0, 1.0]))
    first = tracker.components(state, moments, True)
    assert tracker.components(state, moments, True) is first and len(calls) == 1
    assert tracker.components(state, moments, False)[0][0] > first[0][0]
    assert tracker.components(state, Moments(2.0, np.ones(3)), True)[0][0] > first[0][0]
    shifted = tracker.components(state, moments, True, (np.eye(3), np.zeros(3)))
    assert shifted[0][0] > first[0][0] and len(calls) == 4
    assert pickle.loads(pickle.dumps(state)).solved == {}
