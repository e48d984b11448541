"""Bounds on rounding errors against the errors themselves, seen in extended precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelstream import kernels
from kernelstream.certificates import bounds, rounding
from kernelstream.certificates.ledger import Ledger
from kernelstream.landmarks.nystroem import (
    VISIBLE,
    Span,
    coordinate_error_in_float32,
    factorise,
    transition,
)
from tests.naive import certificate as naive

Long = np.longdouble


def exact_rbf(kernel: kernels.RBF, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """The kernel in extended precision, from differences."""
    difference = X.astype(Long)[:, None, :] - Y.astype(Long)[None, :, :]
    return np.exp(-Long(kernel.gamma) * (difference**2).sum(axis=2))


def errors(
    kernel: kernels.RBF, old: Span, new: Span, T: np.ndarray, root: np.ndarray
) -> tuple[float, float, float]:
    """|ΔS^½| of both factors and |(T − F'ᵀK(D',D)F) S^½|, from the numbers as they are stored."""
    B, F, F_new = (M.astype(Long) for M in (root, old.factor, new.factor))
    before = F.T @ exact_rbf(kernel, old.points, old.points) @ (F @ B) - B
    moved = T.astype(Long) @ B
    after = F_new.T @ exact_rbf(kernel, new.points, new.points) @ (F_new @ moved) - moved
    carried = moved - F_new.T @ exact_rbf(kernel, new.points, old.points) @ (F @ B)
    norms = (float(np.sqrt((M**2).sum())) for M in (before, after, carried))
    return tuple(norms)  # type: ignore[return-value]


@given(
    seed=st.integers(0, 10_000),
    offset=st.sampled_from([0.0, 3.0, 300.0]),
    gamma=st.sampled_from([1e-3, 0.1, 3.0]),
)
def test_a_change_of_basis_is_no_worse_than_its_bound(seed: int, offset: float, gamma: float):
    rng = np.random.default_rng(seed)
    kernel = kernels.RBF(gamma=gamma)
    D, D_new = (offset + rng.normal(size=(m, 3)) for m in rng.integers(2, 30, size=2))
    old, new = factorise(kernel, D), factorise(kernel, D_new)
    T = transition(kernel, old, new)
    rows = offset + rng.normal(size=(50, 3))
    root = np.linalg.cholesky((Z := old.coordinates(kernel, rows)).T @ Z + 1e-12 * np.eye(old.rank))
    S = root @ root.T
    ledger = Ledger(energy=50.0, blocks=1, longest=50, extent=old.extent(kernel))
    carried, lost, off = rounding.change(kernel, ledger, old, new, T, S, T @ S @ T.T)
    assert off is not None
    before, after, moved = (e / 50.0**0.5 for e in errors(kernel, old, new, T, root))
    assert before <= off
    assert moved + after <= carried
    assert before + after + 2 * moved <= lost


@given(seed=st.integers(0, 10_000), far=st.sampled_from([0.0, 1.0, 10.0, 1e3, 1e8]))
@pytest.mark.parametrize(
    "kernel",
    [
        kernels.RBF(gamma=0.5),
        kernels.Exponential(gamma=0.7),
        kernels.Matern(nu=2.5, length_scale=1),
    ],
)
def test_values_are_off_by_no_more_than_the_points_say(
    kernel: kernels.Kernel, seed: int, far: float
):
    """However far the row: only the points' extent is known."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(5, 4)) * rng.choice([0.01, 1.0, 30.0])
    rows = np.concatenate([points + far * rng.normal(size=(5, 4)), points])
    difference = rows.astype(Long)[:, None, :] - points.astype(Long)[None, :, :]
    t = (difference**2).sum(axis=2)
    if isinstance(kernel, kernels.RBF):
        exact = np.exp(-Long(kernel.gamma) * t)
    elif isinstance(kernel, kernels.Exponential):
        exact = np.exp(-Long(kernel.gamma) * np.sqrt(t))
    else:
        s = np.sqrt(Long(5) * t)
        exact = (1 + s + s**2 / 3) * np.exp(-s)
    error = float(np.abs(kernel.block(rows, points) - exact).max())
    assert error <= kernel.rounding.worst(kernel.rounding.extent(points), 4) * rounding.U64


@given(seed=st.integers(0, 10_000), far=st.sampled_from([0.0, 1e-12, 1e-9, 1e-6, 1.0]))
@pytest.mark.parametrize("nu", [0.1, 0.25, 0.4, 0.5, 0.75])
def test_values_of_a_rough_kernel_are_off_by_no_more_than_the_points_say(
    nu: float, seed: int, far: float
):
    """Below nu = 1/2 the kernel is steeper at zero than any root: k ≈ 1 − c|x − y|^(2 nu)."""
    rng = np.random.default_rng(seed)
    kernel = kernels.Matern(nu=nu, length_scale=1.0)
    points = rng.normal(size=(5, 4)) * rng.choice([0.01, 1.0, 30.0])
    rows = points + far * rng.normal(size=(5, 4))
    difference = rows.astype(Long)[:, None, :] - points.astype(Long)[None, :, :]
    exact = kernel.of_scaled_distances((difference**2).sum(axis=2).astype(np.float64))
    error = float(np.abs(kernel.block(rows, points) - exact).max())
    assert error <= kernel.rounding.worst(kernel.rounding.extent(points), 4) * rounding.U64


# -- rows in float32


@pytest.mark.parametrize("kernel", [kernels.RBF(1.0), kernels.Matern(1.5, 1.0)], ids=str)
@pytest.mark.parametrize("distance", [1.0, 10.0, 100.0, 1000.0])
def test_coordinates_of_float32_rows_are_as_good_as_they_say(
    kernel: kernels.Kernel, distance: float
):
    """In float32 as long as rounding is not seen, and what is expected is not exceeded."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(300, 2)) * 10.0 ** rng.uniform(-4, 0)
        X = (X + distance * rng.integers(0, 2, size=(300, 1))).astype(np.float32)
        span = factorise(kernel, X[:20])
        Z = span.coordinates(kernel, X)
        exact = kernel.block(X.astype(float), X[:20].astype(float)) @ span.factor
        error = np.linalg.norm(Z - exact, axis=1).max()
        if Z.dtype == np.float32:
            gram = span.gram(kernel)
            likely = coordinate_error_in_float32(kernel, span.points, span.factor, gram)
            assert error <= likely <= VISIBLE
        else:
            assert error == 0.0
        missed = 1.0 - (Z.astype(float) ** 2).sum(axis=1)
        assert missed.min() > -4e-3


def test_far_clusters_of_float32_rows_are_seen_in_float64():
    kernel, rng = kernels.RBF(gamma=1.0), np.random.default_rng(0)
    for distance, dtype in ((1.0, np.float32), (300.0, np.float64)):
        X = rng.normal(size=(40, 2)) + distance * rng.integers(0, 2, size=(40, 1))
        span = factorise(kernel, X[:5].astype(np.float32))
        assert span.points.dtype == np.float32
        assert span.coordinates(kernel, X.astype(np.float32)).dtype == dtype


# -- angles


def test_an_angle_allows_for_the_rounding_of_the_covariance():
    """Statement 11 where nothing is missed or stale but what rounding may hide."""
    slack = 1e-6
    known = bounds.Evidence(
        ledger=Ledger(energy=2.0),
        weight=1.0,
        center=False,
        moment=np.diag([1.0, 0.5]),
        mean=np.zeros(2),
        values=np.array([1.0, 0.5]),
        vectors=np.eye(2),
        slack=slack,
    )
    shown = bounds.Shown(np.eye(2)[:, :1], np.zeros(2), np.eye(2), 0.0, True)
    found = bounds.angle(known, shown, 1)
    assert found is not None
    low, high = 1.0 - slack, 0.5 + slack
    gap = low - high
    outside, turned = slack / low, high / low * slack**2 / gap**2
    # from the exact to the projected covariance, and from there to the one that was computed
    assert np.sin(found) >= np.sqrt(min(outside + turned, slack / gap)) + slack / gap - 1e-12


# -- the constants of the page's table


def a_state(seed: int, kernel: Any, m: int = 6) -> tuple[Span, naive.Points, np.ndarray]:
    """Points, the same for the twin, and the scatter of rows in their span."""
    rng = np.random.default_rng(seed)
    span = factorise(kernel, rng.normal(size=(m, 4)) + 0.5)
    Z = span.coordinates(kernel, rng.normal(size=(50, 4)))
    return span, naive.Points(span.factor, kernel.gram(span.points)), Z.T @ Z


KERNELS = [kernels.RBF(gamma=0.3), kernels.Polynomial(degree=2, gamma=0.5, coef0=1.0)]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_the_allowance_is_that_of_the_table(kernel: Any):
    span, points, S = a_state(0, kernel)
    ledger = Ledger(energy=700.0, blocks=3, longest=40, extent=1.0, rounding=3e-15)
    sums = naive.Sums(700.0, 40, 3)
    c = kernel.rounding.worst(max(1.0, kernel.rounding.extent(span.points)), 4)
    assert rounding.value_error(kernel, ledger, span) == c
    assert rounding.value_error(kernel, Ledger(extent=1e9), span) == kernel.rounding.worst(1e9, 4)
    omega, theta = naive.coordinate_error(points, c), naive.defect(points, S, c, sums)
    assert rounding.coordinate_error(kernel, span, c) == pytest.approx(omega, rel=1e-12, abs=0)
    assert rounding.defect(kernel, span, S, c, ledger) == pytest.approx(theta, rel=1e-6, abs=0)
    added = (40 + 6 + 8) * naive.U + 2 * (3 + 4 * 6 + 8) * naive.U
    expected = 2 * omega + 3 * theta + 2 * 3e-15 + c * naive.U + added
    assert rounding.slack(kernel, ledger, span, S) == pytest.approx(expected, rel=1e-6, abs=0)
    known = expected + 3 * (1e-9 - theta)
    assert rounding.slack(kernel, ledger, span, S, off=1e-9) == pytest.approx(
        known, rel=1e-6, abs=0
    )
    rows = np.random.default_rng(1).normal(size=(9, 4))
    of_rows = kernel.rounding.worst(kernel.rounding.extent(rows), 4) * naive.U
    assert rounding.gram_error(kernel, rows) == pytest.approx(of_rows, rel=1e-12, abs=0)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_a_change_of_basis_is_that_of_the_page(kernel: Any):
    (old, points, S), (new, others, _) = a_state(0, kernel), a_state(1, kernel, m=4)
    T = transition(kernel, old, new)
    ledger = Ledger(energy=700.0, blocks=3, longest=40, extent=1.0)
    sums = naive.Sums(700.0, 40, 3)
    c = rounding.value_error(kernel, ledger, old, new)
    assert c == kernel.rounding.worst(
        max(1.0, *(kernel.rounding.extent(s.points) for s in (old, new))), 4
    )
    between = kernel.block(new.points, old.points)
    moved = T @ S @ T.T
    careful = rounding.change(kernel, ledger, old, new, T, S, moved)
    expected = naive.change(points, others, between, T, S, c, sums)
    np.testing.assert_allclose(np.array(careful, float), expected, rtol=1e-5)
    # nothing seen, nothing wrong
    assert rounding.relative(3.0, 0.0) == 0.0 and rounding.relative(3.0, 4.0) == 1.5
    assert rounding.defect(kernel, old, S, c, Ledger()) == 0.0


def test_a_root_lies_above_its_matrix():
    ledger = Ledger(blocks=2, longest=10)
    for S in (np.diag([4.0, 1.0]), np.zeros((2, 2)), np.diag([1.0, -1e-13]), np.diag([1.0, -1e-9])):
        B = rounding.root_above(S, ledger)
        assert np.linalg.eigvalsh(B @ B.T - S).min() >= -1e-16
        assert np.trace(B @ B.T - S) <= 2 * 10 * 2e-9 + 1e-15
    exact = np.diag([4.0, 1.0])
    up = (10 + 2 + 16 + 8) * 2.0**-53 * 5.0
    np.testing.assert_allclose(
        np.diag(rounding.root_above(exact, ledger)) ** 2 - [4.0, 1.0], up, rtol=0.2
    )
    assert np.isnan(rounding.root_above(np.full((2, 2), np.inf), ledger)).all()
