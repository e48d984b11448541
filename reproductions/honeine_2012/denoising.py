"""Denoising noisy digits with pre-images: figure 6, and what beats it."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from kernelstream import landmarks
from kernelstream.images import Denoiser
from kernelstream.images.noise import undo_clipping
from kernelstream.kernels import Kernel
from reproductions.frame import Data
from reproductions.honeine_2012 import pictures
from reproductions.honeine_2012.digits import ETA_INVERSION, STEP, VARIANCE, one_two_three, online

N_TRAIN, N_TEST, SHOWN = 21_000, 1_008, 8
PROJECT: dict[str, Any] = dict(method="project", width=8.5, n_components=90, random_state=0)


def psnr(found: np.ndarray, clean: np.ndarray) -> float:
    """Decibels, the mean over the images."""
    return float(np.mean(10 * np.log10(1 / np.mean((found - clean) ** 2, axis=1))))


def experiment(data: Data, out: Path) -> dict[str, Any]:
    """PSNR of every method on images it has not seen, as they are and with clipping undone."""
    digits = one_two_three(data)
    clean, noisy = noisy_pairs(digits)
    whole = len(clean) >= N_TRAIN + N_TEST
    n_train, m = (N_TRAIN, 1000) if whole else (len(clean) * 3 // 4, 20)
    train = noisy[:n_train]
    clean, noisy = (images[n_train : n_train + N_TEST] for images in (clean, noisy))

    raw: dict[str, np.ndarray] = {"noisy": noisy}
    for r in (50, 80):
        pca = PCA(min(r, m), svd_solver="covariance_eigh").fit(train)
        raw[f"linear_pca_{r}"] = pca.inverse_transform(pca.transform(noisy))
    raw |= paper(train, noisy)
    raw |= classical(train, noisy, min(400, m))

    seconds = {}
    begin = perf_counter()
    stein = Denoiser(VARIANCE, clipped=True, basis=m, width=4.5, random_state=0)
    for start in range(0, n_train, 1000):  # strictly one pass
        stein.partial_fit(train[start : start + 1000])
    seconds["learn"] = perf_counter() - begin
    begin = perf_counter()
    stein.transform(noisy)
    seconds["first_query"] = perf_counter() - begin  # solves the normal equations
    begin = perf_counter()
    found = stein.transform(noisy)
    seconds["query"] = perf_counter() - begin
    measured = Denoiser(clipped=True, basis=m, width=4.5, random_state=0).partial_fit(train)
    raw["stein"] = stein.set_params(clipped=False).transform(noisy)

    corrected = {name: undo_clipping(images, VARIANCE) for name, images in raw.items()}
    rows = {
        "clean": clean,
        "noisy": noisy,
        "matrix inversion (paper)": raw["paper_inversion"],
        "one gradient step (paper)": raw["paper_gradient"],
        "linear PCA, r = 80, corrected": corrected["linear_pca_80"],
        "400 centroids, fixed point, corrected": corrected["centroids_fixed_point"],
        "Denoiser (Stein ridge)": found,
    }
    pictures.denoised(rows, SHOWN, out / "figure_6.png")
    return {
        "n_train": n_train,
        "n_test": len(noisy),
        "raw": {name: psnr(images, clean) for name, images in raw.items()},
        "corrected": {name: psnr(images, clean) for name, images in corrected.items()},
        "other_draws": other_draws(digits, n_train, min(400, m), range(4, 9 if whole else 5)),
        "stein_measured_noise": psnr(measured.transform(noisy), clean),
        "measured_noise": measured.noise_variance_,
        "seconds": seconds,
    }


def classical(train: np.ndarray, noisy: np.ndarray, m: int) -> dict[str, np.ndarray]:
    """Projection on 90 components and back: points that capture most, and means of all images.

    A number of landmarks stands for means of all images.
    """
    found = {}
    optimized = landmarks.Centroids(m)
    for name, method, basis in (
        ("unrefined", "fixed_point", optimized),
        ("fixed_point", "fixed_point", m),
        ("ridge", "ridge", m),
    ):
        model = Denoiser(VARIANCE, basis=basis, preimage=method, **PROJECT).fit(train)
        found[f"centroids_{name}"] = model.transform(noisy)
    return found


def other_draws(
    images: np.ndarray, n_train: int, m: int, seeds: range
) -> dict[str, dict[str, float]]:
    """Corrected PSNR of the classical way on other draws of training images, test and noise."""
    every: dict[str, list[float]] = {}
    for seed in seeds:
        clean, noisy = noisy_pairs(images, seed)
        test = slice(n_train, n_train + N_TEST)
        for name, found in classical(noisy[:n_train], noisy[test], m).items():
            every.setdefault(name, []).append(psnr(undo_clipping(found, VARIANCE), clean[test]))
    return {
        name: {"mean": float(np.mean(values)), "least": min(values), "draws": len(values)}
        for name, values in every.items()
    }


def paper(train: np.ndarray, noisy: np.ndarray) -> dict[str, np.ndarray]:
    """Section 5.3 on the paper's dictionary: coefficients A y + β̄, then the two pre-images."""
    model = online(len(train)).partial_fit(train)
    coefficients = model.transform(noisy) @ model.dual_coef_.T + model.mean_coef_
    kernel, points = model.kernel_, model.basis_points_.astype(float)
    return {
        "paper_inversion": inversion(kernel, points, coefficients),
        "paper_gradient": gradient_step(kernel, points, coefficients, noisy.astype(float)),
    }


def inversion(kernel: Kernel, D: np.ndarray, G: np.ndarray) -> np.ndarray:
    """Honeine and Richard (2011): ``D x = (D Dᵀ − η K⁻¹) γ`` in the sense of least squares."""
    inverse = np.linalg.pinv(kernel.gram(D), rcond=1e-10, hermitian=True)
    return (G @ D @ D.T - ETA_INVERSION * G @ inverse) @ np.linalg.pinv(D).T


def gradient_step(kernel: Kernel, D: np.ndarray, G: np.ndarray, x: np.ndarray) -> np.ndarray:
    """One step ``x ← x ∘ (1 − η ∇J/2)`` on the squared distance J, cut at zero."""
    gradient = kernel.gradient_of_diagonal(x) - 2.0 * kernel.gradient_of_sum(x, D, G)
    return np.maximum(x - STEP / 2.0 * gradient * x, 0.0)


def noisy_pairs(images: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Images in random order, clean and with noise that was clipped to [0, 1]."""
    rng = np.random.default_rng(seed)
    clean = images[rng.permutation(len(images))].astype(np.float32) / 255
    noise = rng.normal(scale=np.sqrt(VARIANCE), size=clean.shape).astype(np.float32)
    return clean, np.clip(clean + noise, 0, 1)
