"""Noisy digits: figures 4 and 5."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kernelstream import StreamingKernelPCA, landmarks, metrics
from kernelstream.papers import OnlineKernelPCA
from reproductions.frame import Data
from reproductions.honeine_2012 import pictures
from reproductions.honeine_2012.evolution import follow, gamma

SIGMA, NU, ETA, R, N = 8.5, 0.55, 1.0, 50, 22_000
VARIANCE, STEP, ETA_INVERSION = 0.1, 100.0, 10.0


def noisy_digits(images: np.ndarray, seed: int, clipped: bool = True) -> np.ndarray:
    """Images in random order with noise of variance 0.1, and pixels back in [0, 1]."""
    rng = np.random.default_rng(seed)
    images = images[rng.permutation(len(images))].astype(np.float32) / 255
    images += rng.normal(scale=np.sqrt(VARIANCE), size=images.shape).astype(np.float32)
    return np.clip(images, 0, 1, out=images) if clipped else images


def online(n: int) -> OnlineKernelPCA:
    return OnlineKernelPCA(R, kernel="rbf", gamma=gamma(SIGMA), nu=NU, eta0=ETA, tau=0.05 * n)


def exact(basis: Any) -> StreamingKernelPCA:
    return StreamingKernelPCA(R, kernel="rbf", gamma=gamma(SIGMA), basis=basis, random_state=0)


def one_two_three(data: Data) -> np.ndarray:
    """All images of the digits 1, 2 and 3, as rows of pixels."""
    arrays = data.load("mnist")
    images = np.concatenate([arrays["x_train"], arrays["x_test"]]).reshape(-1, 784)
    return images[np.isin(np.concatenate([arrays["y_train"], arrays["y_test"]]), [1, 2, 3])]


def experiment(data: Data, seeds: range, out: Path) -> dict[str, Any]:
    images = one_two_three(data)
    n = min(N, len(images))
    sizes = [
        len(online(n).partial_fit(noisy_digits(images, seed)[:n]).basis_points_) for seed in seeds
    ]
    unclipped = noisy_digits(images, seeds[0], clipped=False)[:1000]

    X = noisy_digits(images, seeds[0])[:n]
    times = np.unique(np.concatenate([np.arange(20, 1000, 20), np.arange(1000, n, 100), [n]]))
    times = times[times <= n]
    learned = online(n)
    evolution = follow(learned, X, times)
    best = exact(landmarks.Distance(NU)).fit(X)  # the best in the same dictionary
    centroids = {m: exact(m).partial_fit(X) for m in (len(learned.basis_points_), 400)}
    pictures.digits_variance(evolution, best.explained_variance_, out / "figure_4.png")
    pictures.digits_mean(evolution, out / "figure_5.png")

    deviations = np.sqrt(evolution.variances)
    offsets = np.divide(
        np.abs(evolution.means), deviations, out=np.zeros_like(deviations), where=deviations > 0
    ).max(axis=1)
    cosines = metrics.direction_cosines(learned, best)
    total = best.explained_variance_[0] / best.explained_variance_ratio_[0]
    return {
        "available": len(images),
        "orders": sizes,
        "order": np.median(sizes),
        "unclipped_rows": len(unclipped),
        "unclipped_order": len(online(n).partial_fit(unclipped).basis_points_),
        "captured_in_dictionary": evolution.span[-1] / best.explained_variance_.sum(),
        "sum_over_span": evolution.variances[-1].sum() / evolution.span[-1],
        "cosines": cosines,
        "matured": np.argmin(cosines > 0.9),  # functions before the first that is not there yet
        "captured_of_total": evolution.span[-1] / total,
        "centroids_captured_of_total": {
            m: model.explained_variance_ratio_.sum() for m, model in centroids.items()
        },
        "largest_mean_over_deviation": {
            "row 1000": offsets[np.searchsorted(times, min(1000, n))],
            "end": offsets[-1],
        },
    }
