"""Every basis: orthonormal coordinates, true residuals, and hard input."""

from __future__ import annotations

import pickle
from dataclasses import fields, is_dataclass, replace
from typing import Any

import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelstream import StreamingKernelPCA, kernels, landmarks
from kernelstream.landmarks.base import Clock, Measured
from kernelstream.landmarks.nystroem import (
    VISIBLE,
    Span,
    coordinate_error_in_float32,
    factorise,
    from_eigenvectors,
    inverse_of_lower,
    onto,
    transition,
)
from kernelstream.serialization import STORED
from tests import samples
from tests.conftest import CHAINS, settled_state
from tests.naive import chain as naive

EXACT_TRACKERS = [c for c in CHAINS if not c.sequential]


def span_of(model):
    return settled_state(model).basis.span


# -- the law of every basis: Fᵀ K(D,D) F = I, and |z|² + ε = k(x,x)


@pytest.mark.parametrize("chain", EXACT_TRACKERS, ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_coordinates_are_orthonormal_and_residuals_are_true(chain, dtype):
    X = chain.rows().astype(dtype)
    model = chain.estimator().partial_fit(X)
    span, k = span_of(model), naive.rbf(0.4)
    assert span.points.dtype == dtype
    assert span.factor.dtype == np.float64
    D = span.points.astype(float)
    K = naive.gram(k, D, D)
    # F has entries up to 1/√(smallest eigenvalue kept), so the product rounds at 1e-16 · cond(K).
    # Everything keeps pivots down to 1e-8 of the energy.
    loose = isinstance(chain.basis(), landmarks.Everything)
    np.testing.assert_allclose(
        span.factor.T @ K @ span.factor, np.eye(span.rank), atol=0.05 if loose else 1e-6
    )
    rows = X[::17].astype(float)
    Z = span.coordinates(model.kernel_, rows)
    missed = naive.missed_energies(k, D, rows)
    # directions below 1e-10 (float32 rows: 1e-8) of the largest eigenvalue are dropped
    accuracy = 1e-7 if dtype is np.float64 else 1e-5
    np.testing.assert_allclose(1.0 - np.sum(Z**2, axis=1), missed, rtol=0, atol=accuracy)
    if not loose:
        assert missed.max() > 1e-4  # there is something to miss


@given(seed=st.integers(0, 10_000), m=st.integers(1, 8))
def test_a_change_of_basis_is_one_matrix(seed, m):
    """T = F'ᵀ K(D',D) F maps coordinates to the projection on the new span."""
    rng = np.random.default_rng(seed)
    kernel = kernels.Laplacian(gamma=0.5)  # its matrices are well-conditioned
    old, new = (factorise(kernel, rng.normal(size=(n, 3)) * 2) for n in (m, 9))
    T = transition(kernel, old, new)
    assert np.linalg.norm(T, 2) <= 1 + 1e-10  # a projection between orthonormal frames
    # onto a larger span that contains the old one nothing is lost, and the way back undoes it
    both = factorise(kernel, np.concatenate([old.points, new.points]))
    there, back = transition(kernel, old, both), transition(kernel, both, old)
    np.testing.assert_allclose(there.T @ there, np.eye(old.rank), atol=1e-10)
    np.testing.assert_allclose(back @ there, np.eye(old.rank), atol=1e-10)


def test_factorise_drops_what_is_dependent():
    kernel = kernels.RBF(gamma=0.5)
    D = np.random.default_rng(0).normal(size=(6, 2)) * 3
    twice = factorise(kernel, np.concatenate([D, D]))
    assert twice.rank == factorise(kernel, D).rank == 6
    assert factorise(kernels.Linear(), D).rank == 2
    assert factorise(kernels.Linear(), np.zeros((3, 2))).rank == 0


# -- hard input

HARD = {
    "duplicates": np.repeat([[1.0, 2.0], [3.0, -1.0]], 40, axis=0),
    "constant": np.full((60, 2), 0.7),
    "zeros": np.zeros((60, 2)),
    "one row": np.array([[1.0, -2.0]]),
    "one feature": np.linspace(-1.0, 1.0, 80)[:, None],
    "rank one": np.linspace(-1.0, 1.0, 80)[:, None] * [1.0, 2.0],
}


@samples.grid(
    "basis, kernel, name",
    ["centroids", "distance", "coherence", "everything", "landmarks"],
    ["rbf", "linear", "poly", "cosine"],
    HARD,
)
def test_hard_rows_give_the_exact_answer(name, kernel, basis):
    X = HARD[name]
    settings: dict[str, Any] = dict(gamma=0.3) if kernel in ("rbf", "poly") else {}
    if basis == "distance":
        basis = landmarks.Distance(nu=1e-6)
    if basis == "coherence":
        basis = landmarks.Coherence(delta=0.99999)
    model = StreamingKernelPCA(3, kernel=kernel, basis=basis, random_state=0, **settings)
    for learn in (model.partial_fit, model.fit):
        learn(X)
        exact = np.linalg.eigvalsh(naive_centred(model.kernel_(X)))[::-1][:3]
        expected = np.zeros(3)
        expected[: len(exact)] = np.maximum(exact, 0.0)
        scale = max(1.0, float(np.trace(model.kernel_(X))))
        # Coherence and Distance may leave out rows of energy 1e-5, the others 1e-8.
        np.testing.assert_allclose(model.eigenvalues_, expected, rtol=0, atol=3e-4 * scale)
        scores = model.transform(X)
        assert scores.shape == (len(X), 3)
        assert np.all(np.isfinite(scores))
        total = np.sum((scores - scores.mean(axis=0)) ** 2, axis=0)
        np.testing.assert_allclose(total, expected, rtol=0, atol=3e-4 * scale)


def naive_centred(K):
    H = np.eye(len(K)) - 1.0 / len(K)
    return H @ K @ H


@pytest.mark.parametrize(
    "basis", ["centroids", "everything", "landmarks", landmarks.Distance(nu=0.01)]
)
@pytest.mark.parametrize("scale", [1e-150, 1e-75, 1.0, 1e75, 1e150])
def test_the_scale_of_the_rows_does_not_matter_to_an_rbf_kernel_of_median_width(basis, scale):
    """1e-150² and 1e150² are still numbers, but hardly anything beyond them is."""
    X = np.random.default_rng(0).normal(size=(150, 3))
    settings = dict(n_components=3, basis=basis, random_state=0)
    plain = StreamingKernelPCA(**settings).partial_fit(X)
    model = StreamingKernelPCA(**settings).partial_fit(X * scale)
    np.testing.assert_allclose(model.explained_variance_, plain.explained_variance_, rtol=1e-8)
    np.testing.assert_allclose(model.transform(X * scale), plain.transform(X), rtol=0, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-70, 1e70])
def test_the_scale_of_the_rows_scales_a_linear_kernel(scale):
    X = np.random.default_rng(0).normal(size=(150, 3))
    for basis in ("centroids", "everything", "landmarks"):
        model = StreamingKernelPCA(3, kernel="linear", basis=basis, random_state=0)
        plain = model.partial_fit(X).explained_variance_
        scaled = StreamingKernelPCA(3, kernel="linear", basis=basis, random_state=0)
        scaled.partial_fit(X * scale)
        np.testing.assert_allclose(scaled.explained_variance_, plain * scale * scale, rtol=1e-8)


@pytest.mark.parametrize("apart, weak", [(1.0, False), (1e-2, False), (3e-6, True), (0.0, True)])
def test_both_factors_span_the_same(apart: float, weak: bool):
    """By Cholesky where no direction is weak; else by eigenvectors, which drop it."""
    rng = np.random.default_rng(0)
    kernel = kernels.RBF(gamma=0.5)
    points = 3.0 * rng.normal(size=(12, 3))
    points[1] = points[0] + apart * np.array([1.0, 0.0, 0.0])
    gram = kernel.gram(points)
    span = factorise(kernel, points)
    before = Span.of(kernel, points, from_eigenvectors(kernel, points, gram), gram)
    assert span.rank == before.rank == (11 if weak else 12)
    assert np.array_equal(span.factor, np.triu(span.factor)) != weak
    np.testing.assert_allclose(span.factor.T @ gram @ span.factor, np.eye(span.rank), atol=1e-5)
    # the same projection on the span, in other coordinates
    X = rng.normal(size=(50, 3))
    np.testing.assert_allclose(
        np.sum(span.coordinates(kernel, X) ** 2, axis=1),
        np.sum(before.coordinates(kernel, X) ** 2, axis=1),
        rtol=1e-9,
    )


@pytest.mark.parametrize("m", [1, 2, 127, 128, 257, 300])
def test_the_inverse_of_a_triangle_is_that_of_lapack(m: int):
    L = np.tril(np.random.default_rng(m).normal(size=(m, m)) / m) + np.eye(m)
    inverse = inverse_of_lower(L)
    np.testing.assert_allclose(inverse, np.linalg.inv(L), atol=1e-13)
    assert np.array_equal(inverse, np.tril(inverse))


# -- what is computed of points, and where arrays live


def test_what_is_computed_of_a_span_is_computed_once_and_not_pickled():
    kernel, other = kernels.RBF(gamma=0.5), kernels.RBF(gamma=0.1)
    span = factorise(kernel, np.random.default_rng(0).normal(size=(6, 2)))
    assert span.gram(kernel) is span.gram(kernel)
    np.testing.assert_array_equal(span.gram(other), other.gram(span.points))
    restored = pickle.loads(pickle.dumps(span))
    assert set(vars(restored)) == {"points", "factor", "projector"}
    np.testing.assert_array_equal(restored.gram(kernel), span.gram(kernel))
    np.testing.assert_allclose(
        span.own_coordinates(kernel), span.coordinates(kernel, span.points), atol=1e-12
    )


def test_points_on_a_device_are_prepared_once():
    kernel: Any = 2.0 * kernels.RBF(gamma=0.5) + kernels.Exponential(gamma=0.2)
    X = np.random.default_rng(0).normal(size=(9, 2)) + 20.0  # distances need a shift
    span, rows = factorise(kernel, array_api_strict.asarray(X[:5])), array_api_strict.asarray(X)
    prepared = span.prepared(kernel, rows)
    assert span.prepared(kernel, rows) is prepared
    single = array_api_strict.astype(rows, array_api_strict.float32)
    assert span.prepared(kernel, single) is not prepared
    expected = kernel.block(X, X[:5])
    np.testing.assert_allclose(np.asarray(kernel.block(rows, prepared)), expected, rtol=1e-12)
    np.testing.assert_allclose(
        np.asarray(kernel.block(rows, prepared[:3, :])), expected[:, :3], rtol=1e-12
    )


@pytest.mark.parametrize("state", [s for s in STORED.values() if is_dataclass(s)], ids=str)
def test_a_state_says_which_of_its_arrays_live_on_the_host(state):
    if state.__module__.split(".")[1] not in ("bases", "trackers"):
        pytest.skip("a state of another room")
    on_host = {f.name for f in fields(state) if "np.ndarray" in str(f.type)}
    assert getattr(state, "ON_HOST", frozenset()) == on_host


def test_rows_are_computed_with_in_the_type_of_the_projector() -> None:
    kernel, X = kernels.RBF(gamma=0.3), np.random.default_rng(0).normal(size=(6, 3))
    single = X.astype(np.float32)
    narrow, wide = factorise(kernel, single), factorise(kernel, X)
    assert narrow.projector.dtype == np.float32 and narrow.rows(single) is single
    assert wide.rows(single).dtype == np.float64
    assert wide.coordinates(kernel, single).dtype == np.float64


def test_the_error_of_no_points_is_zero() -> None:
    kernel = kernels.RBF(gamma=0.3)
    nothing = np.zeros((0, 3))
    assert coordinate_error_in_float32(kernel, nothing, np.zeros((0, 0)), np.zeros((0, 0))) == 0.0
    X = np.random.default_rng(0).normal(size=(6, 3))
    span = factorise(kernel, X)
    lengths = np.sqrt(np.abs(span.gram(kernel)).sum(axis=1).max())
    stretched = np.sqrt((np.asarray(span.factor) ** 2).sum(axis=1).max())
    off = kernel.rounding.in_float32(kernel.rounding.extent(X))
    error = coordinate_error_in_float32(kernel, X, span.factor, span.gram(kernel))
    assert error == pytest.approx(off * lengths * stretched)


@pytest.mark.parametrize(
    ("error", "dtype"), [(0.9 * VISIBLE, "float32"), (1.1 * VISIBLE, "float64")]
)
def test_float32_rows_are_computed_with_in_float64_where_rounding_would_be_seen(
    error: float, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4e-3 of the length of φ(x) is what may be seen."""
    assert VISIBLE == 4e-3
    monkeypatch.setattr(
        "kernelstream.landmarks.nystroem.coordinate_error_in_float32", lambda *_: error
    )
    points = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    assert factorise(kernels.RBF(gamma=0.3), points).projector.dtype == dtype


def test_factors_that_differ_by_rounding_are_the_same() -> None:
    near_one = kernels.RBF(gamma=0.3)
    long = factorise(near_one, 1e3 * np.random.default_rng(0).normal(size=(6, 3)))
    far = factorise(kernels.Linear(), 1e-6 * np.random.default_rng(0).normal(size=(3, 3)))
    for kernel, span in ((near_one, long), (kernels.Linear(), far)):
        largest = np.abs(span.factor).max()
        near = replace(span, factor=span.factor + 0.9e-9 * largest)
        assert onto(kernel, near, span) is None
        other = replace(span, factor=span.factor + 1.1e-9 * largest)
        assert onto(kernel, other, span) is not None


def test_what_forgetting_leaves_is_never_zero() -> None:
    left = Clock(0, 0, 0.0, -500.0).fading(4)
    assert left[-1] == 1.0 and left[-2] == np.exp(-500.0)
    assert (left[:2] == np.finfo(float).tiny).all()


@pytest.mark.parametrize("weights", [None, np.linspace(0.1, 3.0, 40)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_a_block_misses_is_what_its_rows_miss(weights: np.ndarray | None, dtype: Any) -> None:
    """Whether it is added up row by row, or taken from the trace of the moments."""
    kernel, X = kernels.RBF(0.3), np.random.default_rng(5).normal(size=(40, 3)).astype(dtype)
    basis = landmarks.Landmarks(X[:9])
    block = basis.project(kernel, basis.begin(kernel, landmarks.Start(X)), X)
    by_rows, by_trace = (
        Measured.of(X, weights, weights, Clock(0, 0), block, scatter) for scatter in (False, True)
    )
    w = np.ones(40) if weights is None else weights
    assert by_rows.energy == by_trace.energy == pytest.approx(w.sum(), rel=1e-12)
    due = float(w @ block.residual.astype(float))
    tolerance = 1e-12 if dtype is np.float64 else 2e-6  # of sums of 40 numbers up to 3
    assert by_rows.missed == pytest.approx(due, rel=tolerance)
    assert by_trace.missed == pytest.approx(due, abs=tolerance * w.sum())


def test_of_points_nothing_is_missed_and_never_less() -> None:
    kernel, X = kernels.RBF(0.3), np.random.default_rng(6).normal(size=(30, 3)).astype(np.float32)
    basis = landmarks.Landmarks(X)
    block = basis.project(kernel, basis.begin(kernel, landmarks.Start(X)), X)
    missed = Measured.of(X, None, None, Clock(0, 0), block, scatter=True).missed
    assert 0.0 <= missed <= 1e-5
