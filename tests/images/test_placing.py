"""Directions of patches moved for regression: the error, its gradient, and when it is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from kernelstream import landmarks
from kernelstream.images import SuperResolver, placing
from kernelstream.images.features import PatchFeatures, PatchFeaturesState
from kernelstream.images.placing import RIDGE, RegressionError, placed
from tests.images.test_images import picture

BASIS = PatchFeatures(6)


def patches(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Patches, and a detail that hangs on two directions of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 25)) * rng.uniform(0.01, 0.3, size=(n, 1))
    hidden = np.random.default_rng(99).normal(size=(2, 25))
    _, U = BASIS.contrast_and_directions(X)
    Y = np.abs(X).sum(axis=1)[:, None] * np.sin(4.0 * U @ hidden.T)
    return X, Y


def naive_error(D: np.ndarray, X: np.ndarray, Y: np.ndarray, ridge: float) -> float:
    Z = BASIS.coordinates(None, PatchFeaturesState(D), X)
    B = np.linalg.solve(Z.T @ Z + ridge * np.eye(Z.shape[1]), Z.T @ Y)
    return float(np.sum((Y - Z @ B) ** 2) + ridge * np.sum(B**2))


def test_the_error_of_regression_and_its_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = patches(700)
    D = BASIS.begin(None, landmarks.Start(X)).directions
    Z = BASIS.coordinates(None, PatchFeaturesState(D), X)
    ridge = RIDGE * np.sum(Z**2) / Z.shape[1]
    error = RegressionError.of(BASIS, X, Y)
    value, gradient = error.at(D)
    assert value == pytest.approx(naive_error(D, X, Y, ridge), rel=1e-5)
    rng = np.random.default_rng(1)
    for _ in range(3):
        step = 1e-4 * rng.normal(size=D.shape)
        further, back = (naive_error(D + s, X, Y, ridge) for s in (step, -step))
        assert (further - back) / 2 == pytest.approx(np.sum(gradient * step), rel=1e-3)
    monkeypatch.setattr(placing, "STRIP", 64)  # the same in strips
    again, slope = error.at(D)
    assert again == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(slope, gradient, rtol=1e-3, atol=1e-4 * np.abs(gradient).max())


def test_moved_directions_predict_more_of_other_patches() -> None:
    X, Y = patches(4000)
    state = BASIS.begin(None, landmarks.Start(X))
    found = placed(BASIS, state, X, Y)
    other, truth = patches(1000, seed=2)
    errors = []
    for each in (state, found):
        B, _ = RegressionError.of(BASIS, X, Y).regression(each.directions)
        errors.append(np.sum((truth - BASIS.coordinates(None, each, other) @ B) ** 2))
    assert errors[1] < 0.95 * errors[0]


def test_directions_stay_where_they_cannot_be_judged() -> None:
    X, Y = patches(4000)
    state = BASIS.begin(None, landmarks.Start(X))
    assert placed(BASIS, state, X[:290], Y[:290]) is state  # 116 of much contrast for six
    assert placed(BASIS, state, X[:300], Y[:300]) is not state
    flat = np.zeros((400, 25))
    assert np.array_equal(placed(BASIS, state, flat, flat).directions, state.directions)


@pytest.mark.parametrize("images", [3, 4])
def test_directions_are_moved_for_four_images_or_more(
    images: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def spy(basis: PatchFeatures, state: PatchFeaturesState, X: Any, Y: Any) -> PatchFeaturesState:
        seen.append(X.shape + Y.shape)
        return PatchFeaturesState(state.directions + 1.0)

    monkeypatch.setattr("kernelstream.images.superresolution.placed", spy)
    model = SuperResolver(2, 5, random_state=0).fit([picture(i) for i in range(images)])
    plain = SuperResolver(2, 5, random_state=0)
    monkeypatch.setattr(SuperResolver, "_place", lambda self, stream, images: stream)
    plain.fit([picture(i) for i in range(images)])
    apart = model.stream_.begun.basis.directions - plain.stream_.begun.basis.directions
    assert seen == ([(600, 25, 600, 36)] if images == 4 else [])  # 120 a direction
    np.testing.assert_allclose(apart, 1.0 if images == 4 else 0.0, atol=1e-12)


def test_moved_directions_are_the_same_with_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(placing, "STRIP", 100)
    found = []
    for n in (1, 2):
        with threadpool_limits(n):
            model = SuperResolver(2, 20, random_state=0).fit([picture(i) for i in range(4)])
        found.append(model.stream_.begun.basis.directions)
    assert np.array_equal(*found)
