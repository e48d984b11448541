"""The strength of the ridge by Stein's unbiased risk; gaps and wild pixels of noisy images."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from kernelstream import load
from kernelstream.images import Denoiser
from kernelstream.images.denoise import estimated_errors
from kernelstream.regression.normal_equations import NormalEquations

CLEAN = load_digits().images / 16.0


def noisy(deviation: float) -> np.ndarray:
    return CLEAN + deviation * np.random.default_rng(0).normal(size=CLEAN.shape)


def psnr(found: np.ndarray) -> float:
    error = np.mean((found - CLEAN[1500:]) ** 2, axis=(1, 2))
    return float(np.mean(-10 * np.log10(error)))


@pytest.mark.parametrize("deviation", [0.1, 0.3, 0.8])
def test_as_good_as_the_best_of_eight(deviation):
    images = noisy(deviation)
    model = Denoiser(deviation**2, basis=150, random_state=0).fit(images[:1500])
    found = psnr(model.transform(images[1500:]))
    fixed = Denoiser(deviation**2, basis=150, alpha=1e-4, random_state=0).fit(images[:1500])
    strengths = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 3e-2, 1e-1, 3e-1)
    of_eight = [psnr(fixed.set_params(alpha=a).transform(images[1500:])) for a in strengths]
    assert found > max(of_eight) - 0.1
    if deviation == 0.8:  # where the strength that was fixed before loses
        assert found > of_eight[2] + 1.0


def test_the_estimate_is_the_error_that_clean_images_show():
    images = noisy(0.3).reshape(len(CLEAN), -1)
    model = Denoiser(0.09, basis=100, alpha=1e-3, random_state=0).fit(images[:1000])
    regression, linear_map = model._solution()
    stream = model.stream_.settled
    state = stream.begun
    assert state.targets is not None
    equations = NormalEquations.of(state.moments, state.tracker.scatter, state.targets, True)
    strength = np.array([regression.prediction.alpha])
    # The moments that the ridge was solved with, from its coefficients.
    B = regression.prediction.coefficients
    shrunk = equations.vectors.T @ B * (equations.values + strength[0] / equations.weight)[:, None]
    equations = equations.__class__(**{**vars(equations), "moments": shrunk})
    estimate = estimated_errors(stream, equations, linear_map, images[1000:], strength)[0]
    error = np.mean((model.transform(images[1000:]) - CLEAN[1000:].reshape(797, -1)) ** 2)
    assert estimate == pytest.approx(error, rel=0.06)


def test_images_are_held_back_for_it_and_only_then():
    images = noisy(0.3)
    chosen = Denoiser(0.09, basis=50, random_state=0).fit(images)
    given = Denoiser(0.09, basis=50, alpha=1e-4, random_state=0).fit(images)
    assert given.stream_.n_rows == len(images) and given.alpha_ == pytest.approx(1e-4)
    assert len(images) - chosen.stream_.n_rows == pytest.approx(90, abs=2)
    with pytest.raises(ValueError, match="alpha='sure' needs noisy images that were held back"):
        given.set_params(alpha="sure").transform(images)
    with pytest.raises(ValueError, match="alpha must be a number"):
        Denoiser(alpha="loo").fit(images)


def test_cut_saved_and_merged(tmp_path):
    images = noisy(0.3)
    whole = Denoiser(0.09, basis=30, random_state=0).partial_fit(images)
    cut = Denoiser(0.09, basis=30, random_state=0)
    for start, stop in ((0, 1), (1, 600), (600, 601), (601, len(images))):
        cut.partial_fit(images[start:stop])
        cut.save(tmp_path / "d.safetensors")
        cut = load(tmp_path / "d.safetensors")
    np.testing.assert_array_equal(whole.transform(images), cut.transform(images))
    assert whole.alpha_ == cut.alpha_
    both = whole.merge(whole)
    assert both._held_back is not None and both._held_back.n_seen == 2 * len(images)


def test_pixels_that_are_missing_are_filled_in():
    images = noisy(0.1)
    model = Denoiser(0.01, basis=150, random_state=0).fit(images[:1500])
    hole = np.zeros((8, 8), dtype=bool)
    hole[3:5, 2:5] = True
    test = images[1500:]
    filled = model.transform(test, mask=hole)
    again = model.transform(np.where(hole, np.nan, test))
    np.testing.assert_allclose(filled, again)
    clean = CLEAN[1500:]
    error = np.mean((filled - clean)[:, hole] ** 2)
    assert error < 0.6 * np.mean((clean.mean(axis=0) - clean)[:, hole] ** 2)
    assert psnr(filled) > psnr(model.transform(np.where(hole, 0.0, test))) + 2.0
    with pytest.raises(ValueError, match=r"mask must be of shape \(297, 8, 8\) or \(8, 8\)"):
        model.transform(test, mask=hole[:4])


def test_wild_pixels_are_replaced():
    images = noisy(0.05)
    model = Denoiser(0.0025, basis=150, random_state=0).fit(images[:1500])
    rng = np.random.default_rng(1)
    test = images[1500:].copy()
    wild = rng.random(test.shape) < 0.08
    test[wild] = rng.integers(0, 2, wild.sum())
    assert psnr(model.transform(test, loss="robust")) > psnr(model.transform(test)) + 1.0
    classical = Denoiser(basis=150, method="project", n_components=40, random_state=0)
    classical.fit(images[:1500])
    robust = classical.transform(test, loss="robust")
    assert psnr(robust) > psnr(classical.transform(test)) + 0.5
