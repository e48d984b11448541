"""Noise out of whole photographs, grey and in colour, with gaps."""

import numpy as np
import pytest
from sklearn.datasets import load_sample_image

from kernelstream.images import Denoiser, denoise_photo
from kernelstream.images.patches import Canvas
from kernelstream.images.photograph import OPPONENT, measured_noise, without_noise

CHINA = load_sample_image("china.jpg")[150:246, 200:328] / 255.0


def error(found, clean):
    return float(np.mean((found - clean) ** 2))


def noisy(clean, deviation=0.1):
    return clean + deviation * np.random.default_rng(0).normal(size=clean.shape)


def best_principal_components(given, clean, side=8):
    """All overlapping patches on the best number of their principal components: the peer."""
    every = np.lib.stride_tricks.sliding_window_view(given, (side, side))
    X = every.reshape(-1, side**2)
    mean = X.mean(axis=0)
    V = np.linalg.svd(X - mean, full_matrices=False)[2]
    errors = []
    for count in (4, 8, 16, 32):
        canvas = Canvas((1, *given.shape))
        found = mean + (X - mean) @ V[:count].T @ V[:count]
        blocks = found.reshape(*every.shape[:2], 1, side, side)
        canvas.add_windows(0, blocks, np.ones(every.shape[:2]))
        errors.append(error(canvas.image()[0], clean))
    return min(errors)


def test_better_than_principal_components_of_patches():
    clean = CHINA.mean(axis=2)
    given = noisy(clean)
    found = denoise_photo(given, 0.01, cells=12, random_state=0)
    assert error(found, clean) < 0.75 * best_principal_components(given, clean)
    np.testing.assert_array_equal(found, denoise_photo(given, 0.01, cells=12, random_state=0))


def test_colours_help_one_another():
    clean = CHINA[:64, :80]
    given = noisy(clean)
    found = denoise_photo(given, 0.01, cells=8, random_state=0)
    apart = [denoise_photo(given[:, :, k], 0.01, cells=8, random_state=0) for k in range(3)]
    assert found.shape == clean.shape
    assert error(found, clean) < 0.8 * error(np.stack(apart, axis=2), clean)
    np.testing.assert_allclose(OPPONENT @ OPPONENT.T, np.eye(3), atol=1e-12)  # noise stays white


@pytest.mark.parametrize("colour", [False, True])
def test_gaps_are_filled(colour):
    clean = CHINA[:40, :48] if colour else CHINA[:40, :48].mean(axis=2)
    gaps = np.random.default_rng(1).random((40, 48)) < 0.1
    gaps[20:25, 20:25] = True
    given = noisy(clean, 0.05)
    masked = denoise_photo(given, 0.0025, mask=gaps, cells=6, random_state=0)
    given[gaps] = np.nan
    found = denoise_photo(given, 0.0025, cells=6, random_state=0)
    np.testing.assert_array_equal(found, masked)
    flat = np.broadcast_to(clean[~gaps].mean(axis=0), clean[gaps].shape)
    assert error(found[gaps], clean[gaps]) < 0.25 * error(flat, clean[gaps])
    assert error(found[~gaps], clean[~gaps]) < 0.0025 * 0.9


@pytest.mark.parametrize("deviation", [0.04, 0.1, 0.2])
def test_noise_is_measured_where_it_is_not_given(deviation):
    clean = load_sample_image("china.jpg")[:200, :200] / 255.0
    for image in (clean[:, :, 0], clean):
        gaps = np.zeros(image.shape[:2], dtype=bool)
        found = measured_noise(noisy(image, deviation), gaps)
        assert found == pytest.approx(deviation**2, rel=0.15)


def test_black_and_white_show_no_noise():
    given = np.clip(noisy(np.tile(np.repeat([0.0, 0.5, 1.0], 40), (120, 1)), 0.05), 0.0, 1.0)
    gaps = np.zeros(given.shape, dtype=bool)
    assert measured_noise(given, gaps) == pytest.approx(0.0025, rel=0.15)
    with pytest.raises(ValueError, match=r"cannot be measured.*Give noise_variance"):
        measured_noise(given, np.random.default_rng(0).random(given.shape) < 0.3)


def test_the_type_of_the_photograph_is_kept():
    clean = CHINA[:40, :48].mean(axis=2)
    given = np.clip(noisy(clean), 0.0, 1.0)
    plain = denoise_photo(given, 0.01, cells=4, random_state=0)
    for dtype, white in ((np.uint8, 255), (np.uint16, 65535)):
        found = denoise_photo((given * white).astype(dtype), 0.01, cells=4, random_state=0)
        assert found.dtype == dtype
        np.testing.assert_allclose(found / white, np.clip(plain, 0, 1), atol=0.02)
    assert denoise_photo(given.astype(np.float32), 0.01, cells=4).dtype == np.float32


@pytest.mark.parametrize("variance", [None, 1e-12])
def test_a_photograph_without_noise_stays(variance):
    clean = CHINA[:64, :64].mean(axis=2)
    clean[:32] = np.linspace(0.2, 0.8, 64)  # flat enough to show that there is no noise
    found = denoise_photo(clean, variance, cells=6, random_state=0)
    assert error(found, clean) < 2e-6
    np.testing.assert_allclose(denoise_photo(np.full((16, 16), 0.5), 0.01), 0.5, atol=1e-6)


def test_variances_of_clean_patches_are_those_that_were_drawn():
    rng = np.random.default_rng(0)
    true = np.r_[np.zeros(40), 0.5, 2.0, 8.0]
    X = rng.normal(size=(172, 43)) * np.sqrt(true + 1.0)
    omega = np.linalg.eigvalsh(X.T @ X / len(X))
    found = without_noise(omega, 1.0, 43 / 172)
    assert np.count_nonzero(found) in (2, 3)
    np.testing.assert_allclose(found[-2:], true[-2:], rtol=0.35)
    assert np.abs(found[-2:] - true[-2:]).sum() < np.abs(omega[-2:] - 1 - true[-2:]).sum()


@pytest.mark.parametrize(
    ("photo", "options", "words"),
    [
        (np.ones((3, 40, 40)), {}, r"\(height, width, 3\).*got an array of shape \(3, 40, 40\)"),
        (np.ones((7, 40)), {}, "at least 8 pixels"),
        (np.full((20, 20), np.nan), {}, "Every pixel"),
        (np.ones((20, 20)), {"mask": np.ones((20, 20))}, "type bool"),
        (np.ones((20, 20)), {"mask": np.ones(20, dtype=bool)}, r"shape \(20, 20\)"),
        (np.ones((20, 20), dtype=int), {}, "which number is white"),
        (np.full((20, 20), np.inf), {}, "infinity"),
        (np.ones((20, 20)), {"noise_variance": -1.0}, "noise_variance"),
        (np.ones((20, 20)), {"noise_variance": 0.01, "cells": 0}, "cells"),
    ],
    ids=["stack", "low", "empty", "numbers", "line", "int", "infinite", "negative", "no cells"],
)
def test_what_cannot_be_denoised_is_refused_in_words(photo, options, words):
    with pytest.raises(ValueError, match=words):
        denoise_photo(photo, **options)


def test_a_photograph_in_colour_is_no_stack_of_images():
    with pytest.raises(ValueError, match="denoise_photo"):
        Denoiser(0.01).fit(CHINA)
