"""Rows for the benchmark: MNIST from a folder, or made-up images of the same shape.

Digits are shuffled with a fixed seed, scaled to [0, 1] and float32: the type that every peer takes
without a copy. The width of the kernel, σ = 8.5 for 784 pixels, is that of Honeine's experiment.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from benchmarks.sizes import Sizes

SIGMA, PIXELS = 8.5, 784
GAMMA = 1 / (2 * SIGMA**2)


@dataclass(frozen=True)
class Images:
    """A stream, further rows to query, and the same images at a quarter of the pixels."""

    source: str
    stream: np.ndarray
    queries: np.ndarray
    small: np.ndarray

    @property
    def gamma(self) -> float:
        """σ² in proportion to the number of pixels: the kernel values stay as they are."""
        return GAMMA * PIXELS / self.stream.shape[1]

    @property
    def small_gamma(self) -> float:
        """The same for the small images."""
        return GAMMA * PIXELS / self.small.shape[1]


def images(folder: Path | None, sizes: Sizes) -> Images:
    """MNIST where a folder is given and the full size is asked for, else made-up images."""
    if folder is None:
        rows = made_up(sizes.stream_rows + sizes.query_rows, sizes.features)
        stream, queries = rows[: sizes.stream_rows], rows[sizes.stream_rows :]
        small = made_up(sizes.hebbian_rows, sizes.hebbian_side**2)
        return Images("made up", stream, queries, small)
    path = folder / "mnist.npz"
    if not path.exists():
        raise SystemExit(
            f"{path} is missing: an archive with x_train of shape (60000, 28, 28) and x_test."
        )
    if sizes.features != PIXELS:
        raise SystemExit("--quick works on made-up rows: leave --data out.")
    archive = np.load(path)
    order = np.random.default_rng(0).permutation(len(archive["x_train"]))
    train = (archive["x_train"][order] / np.float32(255)).astype(np.float32)
    test = (archive["x_test"] / np.float32(255)).astype(np.float32)
    halves = train[: sizes.hebbian_rows].reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4))
    return Images(
        "MNIST",
        train.reshape(-1, PIXELS)[: sizes.stream_rows],
        test.reshape(-1, PIXELS)[: sizes.query_rows],
        halves.reshape(len(halves), -1),
    )


def digits(repeats: int) -> Images:
    """scikit-learn's digits, which everyone has: shuffled, and a little different each time.

    The queries are the digits as they are. Images of 8 × 8 pixels are small as they are, too.
    """
    given = (load_digits().data / 16.0).astype(np.float32)
    rng = np.random.default_rng(0)
    rows = np.vstack([given[rng.permutation(len(given))] for _ in range(repeats)])
    rows += rng.normal(scale=0.05, size=rows.shape).astype(np.float32)
    return Images("digits", rows, given, given)


def made_up(n: int, d: int) -> np.ndarray:
    """Ten curved clusters of twelve latent dimensions, with values in [0, 1] and a little noise."""
    rng = np.random.default_rng(0)
    centres = 2.0 * rng.normal(size=(10, 12))
    mixing = rng.normal(size=(12, d)).astype(np.float32) / 2
    latent = centres[rng.integers(10, size=n)] + rng.normal(size=(n, 12))
    rows = 1.0 / (1.0 + np.exp(-(latent.astype(np.float32) @ mixing)))
    rows += rng.normal(scale=0.05, size=rows.shape).astype(np.float32)
    return rows.astype(np.float32)
