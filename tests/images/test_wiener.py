"""The linear map that a stream of noisy rows starts with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelstream.images import Denoiser
from kernelstream.images.wiener import Wiener
from kernelstream.stream.state import Rows


def noisy_rows(n: int = 3000, seed: int = 0) -> np.ndarray:
    """Three strong directions of twelve, white noise of variance 0.04, a mean."""
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=(n, 3)) * [3.0, 2.0, 1.0] @ np.eye(12)[:3]
    return signal + 0.2 * rng.normal(size=(n, 12)) + np.arange(12)


@pytest.mark.parametrize("weighted", [False, True])
def test_map_is_that_of_the_definition(weighted):
    X = noisy_rows()
    w = np.random.default_rng(1).integers(1, 4, size=len(X)) if weighted else None
    repeated = X if w is None else np.repeat(X, w, axis=0)
    found = Wiener(5, 0.04).measure(Rows(X, None if w is None else w.astype(float)))
    omega, V = np.linalg.eigh(np.cov(repeated.T, ddof=0))
    for i in range(5):
        share = max(omega[-1 - i] - 0.04, 0.0) / omega[-1 - i]
        direction = found.matrix[:, i]
        assert np.linalg.norm(direction) == pytest.approx(share, abs=1e-9)
        if share > 0:
            assert abs(direction @ V[:, -1 - i]) == pytest.approx(share, abs=1e-9)
    np.testing.assert_allclose(found.mean, repeated.mean(axis=0))
    np.testing.assert_allclose(found.apply(X), (X - found.mean) @ found.matrix)


def test_noise_is_the_level_of_the_lower_half():
    assert Wiener(3).measure(Rows(noisy_rows())).noise_variance == pytest.approx(0.04, rel=0.05)


def rows_with_noise(n: int, d: int, n_directions: int, deviation: float = 0.2) -> np.ndarray:
    """Rows in a few strong directions, and white noise on every entry."""
    rng = np.random.default_rng(n + d)
    signal = 3.0 * rng.normal(size=(n, n_directions)) @ rng.normal(size=(n_directions, d))
    return signal + deviation * rng.normal(size=(n, d)) + 7.0


@pytest.mark.parametrize("n_directions", [0, 5])
@pytest.mark.parametrize("n", [60, 150, 300, 600, 1200, 6000])
def test_noise_is_measured_right_from_few_and_many_rows(n, n_directions):
    # The lower half of sampled eigenvalues is below the noise: 0.58 of it with four rows a feature,
    # nothing with half a row.
    found = Wiener(5).measure(Rows(rows_with_noise(n, 300, n_directions))).noise_variance
    assert found == pytest.approx(0.04, rel=0.03)


def test_entries_that_never_change_carry_no_noise():
    X = rows_with_noise(1000, 100, 3)
    framed = np.hstack([np.full((1000, 150), 0.1), X])
    alone, inside = (Wiener(5).measure(Rows(rows)).noise_variance for rows in (X, framed))
    assert inside == pytest.approx(alone, rel=1e-9)
    assert Wiener(5).measure(Rows(np.full((50, 9), 0.1))).noise_variance == 0.0


def test_weights_count_rows_that_say_the_same():
    X = rows_with_noise(800, 100, 3)
    w = np.r_[np.ones(400), np.full(400, 1e-9)]
    heavy, some = (
        Wiener(5).measure(Rows(rows, weights)).noise_variance
        for rows, weights in ((X, w), (X[:400], None))
    )
    assert heavy == pytest.approx(some, rel=0.02)


def test_one_row_shows_no_noise():
    with pytest.raises(ValueError, match="from one row: give noise_variance"):
        Wiener(5).measure(Rows(noisy_rows(1)))
    assert Wiener(5, 0.04).measure(Rows(noisy_rows(1))).noise_variance == 0.04


def test_more_directions_than_pixels_are_all_of_them():
    assert Wiener(80).measure(Rows(noisy_rows())).matrix.shape == (12, 12)


def test_streams_with_other_maps_are_not_merged():
    given: Any = {"basis": 10, "width": 4.0, "alpha": 1e-4, "random_state": 0}
    first, second = (Denoiser(0.04, **given).partial_fit(noisy_rows(seed=seed)) for seed in (0, 1))
    with pytest.raises(ValueError, match="map rows by what the start"):
        first.merge(second)
    same = first.merge(Denoiser(0.04, **given).partial_fit(noisy_rows()))
    assert same.stream_.n_rows == 6000
    rows = noisy_rows(20)
    np.testing.assert_allclose(same.transform(rows), first.transform(rows), atol=1e-9)
