"""Points that are given or sampled: parameters, units, the sample, coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelstream import kernels, landmarks
from kernelstream.landmarks.fixed import FixedState
from kernelstream.landmarks.nystroem import factorise

KERNEL = kernels.Polynomial(2, 0.5, 1.0)
X = np.random.default_rng(0).normal(size=(30, 2))


@pytest.mark.parametrize(
    ("points", "words"),
    [
        (0, "Landmarks: points must be an integer of at least 1, got 0"),
        (None, "Landmarks: points must be an integer of at least 1, got None"),
        (2.0, "Landmarks: points must be an integer of at least 1, got 2.0"),
        (np.zeros(3), r"array of shape \(n_points, n_features\), got an array with 1 dimension"),
        (np.zeros((1, 1, 1)), "got an array with 3 dimension"),
        (np.zeros((0, 2)), "Landmarks: points must have at least one row"),
        (np.zeros((1, 2), dtype=complex), "Landmarks: points must be real numbers, got an array"),
        (np.array([[1.0, np.nan]]), "Landmarks: points must be finite numbers, got NaN"),
    ],
)
def test_points_that_are_none(points: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        landmarks.Landmarks(points).check()


def test_points_that_are_some() -> None:
    for points in (1, np.int64(3), np.zeros((1, 2)), [[1, 2]], np.zeros((1, 2), dtype=bool)):
        landmarks.Landmarks(points).check()
    assert landmarks.Landmarks(7).size == 7 and landmarks.Landmarks(X).size == 30
    starts = {points: landmarks.Landmarks(points).start_rows() for points in (1, 50, 51, 300)}
    assert starts == {1: 500, 50: 500, 51: 510, 300: 3000}
    assert landmarks.Landmarks(X).start_rows() == 1
    landmarks.Landmarks(X).suits(KERNEL, 2)
    landmarks.Landmarks(5).suits(KERNEL, 99)
    with pytest.raises(ValueError, match="Landmarks: the points have 2 features, the rows have 3"):
        landmarks.Landmarks(X).suits(KERNEL, 3)


def test_given_points_are_scaled_as_the_rows_are() -> None:
    scaled = landmarks.Landmarks([[1, 2]]).in_units(lambda points: points / 2)
    np.testing.assert_array_equal(scaled.points, [[0.5, 1.0]])
    sampled = landmarks.Landmarks(5)
    assert sampled.in_units(lambda points: points / 2) is sampled


def test_the_sample_is_of_rows_by_their_weights() -> None:
    given = landmarks.Landmarks(X[:4]).begin(KERNEL, landmarks.Start(X.astype("f4"))).span
    np.testing.assert_array_equal(given.points, X[:4].astype("f4"))
    few = np.repeat(X[:3], 10, axis=0)  # room for all different rows: all of them
    for points in (3, 5):
        found = landmarks.Landmarks(points).begin(KERNEL, landmarks.Start(few)).span.points
        assert {tuple(p) for p in found} == {tuple(p) for p in X[:3]}
    w = np.zeros(30) + 1e-12
    w[[4, 7, 9]] = 1.0
    found = landmarks.Landmarks(3).begin(KERNEL, landmarks.Start(X, weights=w)).span.points
    assert {tuple(p) for p in found} == {tuple(p) for p in X[[4, 7, 9]]}
    one, two, other = (
        landmarks.Landmarks(3).begin(KERNEL, landmarks.Start(X, seed=s)).span.points
        for s in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)


def test_coordinates_are_those_of_the_projection() -> None:
    basis = landmarks.Landmarks(X[:4])
    state = basis.begin(KERNEL, landmarks.Start(X))
    block = basis.project(KERNEL, state, X)
    assert not basis.admits(state) and block.admitted == () and block.fresh_from == 0
    K = KERNEL(X[:4])
    reproduced = block.Z @ block.Z.T
    across = KERNEL(X, X[:4])
    np.testing.assert_allclose(reproduced, across @ np.linalg.solve(K, across.T), atol=1e-9)
    np.testing.assert_allclose(block.energy, KERNEL.diag(X))
    missed = KERNEL.diag(X) - np.diag(reproduced)
    np.testing.assert_allclose(block.residual, missed.clip(0), atol=1e-9)


def test_only_the_same_points_merge() -> None:
    basis = landmarks.Landmarks(4)
    one, other = (FixedState(factorise(KERNEL, X[i : i + 4])) for i in (0, 4))
    again = FixedState(factorise(KERNEL, X[:4].copy()))
    merged, carry, _ = basis.merge(KERNEL, one, again, 0)
    assert merged is one and carry is None
    with pytest.raises(ValueError, match="Models with different landmarks cannot be merged"):
        basis.merge(KERNEL, one, other, 0)
