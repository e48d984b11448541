"""Directions of patches moved for regression: the error, its gradient, and when it is kept."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

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
    D = BASIS.begin(None, X, None, seed=0).directions
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
    B, _ = error.regression(D)
    assert error.missed(D, B) == pytest.approx(np.sum((Y - Z @ B) ** 2), rel=1e-5)
    monkeypatch.setattr(placing, "STRIP", 64)  # the same in strips
    again, slope = error.at(D)
    assert again == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(slope, gradient, rtol=1e-3, atol=1e-4 * np.abs(gradient).max())


def test_moved_directions_predict_more_of_other_patches() -> None:
    X, Y = patches(4000)
    state = BASIS.begin(None, X, None, seed=0)
    found = placed(BASIS, state, (X, Y), patches(1000, seed=1))
    other = patches(1000, seed=2)
    errors = []
    for each in (state, found):
        seen, unseen = (RegressionError.of(BASIS, *part) for part in ((X, Y), other))
        errors.append(unseen.missed(each.directions, seen.regression(each.directions)[0]))
    assert errors[1] < 0.95 * errors[0]


def test_directions_stay_where_moving_them_is_not_worth_it() -> None:
    X, Y = patches(4000)
    state = BASIS.begin(None, X, None, seed=0)
    few = (X[:200], Y[:200])  # 80 of much contrast for six directions
    assert placed(BASIS, state, few, (X, Y)) is state
    noise = np.random.default_rng(3).normal(size=Y.shape)  # what is held back says otherwise
    assert placed(BASIS, state, (X[:400], noise[:400]), (X[400:], noise[400:])) is state
    flat = np.zeros((400, 25))
    assert placed(BASIS, state, (flat, flat), (flat, flat)) is state


@pytest.mark.parametrize("images", [3, 4])
def test_directions_are_moved_where_an_image_can_be_held_back(
    images: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []

    def spy(basis: PatchFeatures, state: PatchFeaturesState, shown, held_back):
        seen.append((len(shown[0]), len(held_back[0])))
        return PatchFeaturesState(state.directions + 1.0)

    monkeypatch.setattr("kernelstream.images.superresolution.placed", spy)
    model = SuperResolver(2, 5, random_state=0).fit([picture(i) for i in range(images)])
    plain = SuperResolver(2, 5, random_state=0)
    monkeypatch.setattr(SuperResolver, "_place", lambda self, stream, images: stream)
    plain.fit([picture(i) for i in range(images)])
    apart = model.stream_.begun.basis.directions - plain.stream_.begun.basis.directions
    assert seen == ([(450, 150)] if images == 4 else [])  # 120 a direction, an image of four
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
