"""Whole images: the components are those of KHA, and the way back is that of the paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import kernelstream
from kernelstream import images
from kernelstream.papers import KernelHebbianPCA


def digits(n: int) -> np.ndarray:
    return load_digits().images[:n] / 16.0


def test_it_is_kha_of_the_pixels_and_back(tmp_path: Path) -> None:
    X = digits(120)
    model = images.ImageReconstructor(8, gamma=0.02, random_state=0).fit(X)
    rows = X.reshape(120, -1)
    plain = KernelHebbianPCA(
        8, gamma=0.02, preimage="neighbours_then_gradient", random_state=0
    ).fit(rows)
    expected = plain.inverse_transform(plain.transform(rows[:6])).reshape(6, 8, 8)
    np.testing.assert_allclose(model.transform(X[:6]), expected, atol=1e-10)
    assert model.n_epochs_ == plain.n_epochs_ and model.converged_ == plain.converged_
    model.save(tmp_path / "model")
    again = kernelstream.load(tmp_path / "model")
    assert isinstance(again, images.ImageReconstructor)
    np.testing.assert_array_equal(again.transform(X[:6]), model.transform(X[:6]))


def test_bytes_are_pixels_in_the_unit_interval() -> None:
    X = (255 * digits(80)).astype(np.uint8)
    model = images.ImageReconstructor(5, gamma=0.02, random_state=0).fit(X)
    assert 0 < model.transform(X[:3]).max() < 1.5


def test_images_of_another_size_are_refused() -> None:
    model = images.ImageReconstructor(3, gamma=0.02, random_state=0).fit(digits(40))
    with pytest.raises(ValueError, match="images of 64 pixels, these have 49"):
        model.transform(np.zeros((2, 7, 7)))
    with pytest.raises(ValueError, match=r"shape \(n, height, width\)"):
        images.ImageReconstructor(3).fit(np.zeros(5))
