"""
Denoise a photograph with a mixture of PCAs
===========================================

One photograph, in color, and nothing to learn from but its own patches: overlapping windows of 8×8
pixels. A mixture of probabilistic PCAs is fitted to them by expectation and maximization; each
component is shrunk by its signal-to-noise ratio, and the patches are averaged where they overlap.
In the terms of this library it is kernel PCA with the kernel
``k(x, x') = Σ_j r_j(x) r_j(x') (1 + xᵀx')``, where ``r_j(x)`` is the probability that x belongs to
the mixture component j. The kernel depends on the data, so the method is not part of the library;
this page contains all of it. ``images.Denoiser`` is for many small images of one kind.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import convolve, gaussian_filter
from sklearn.cluster import KMeans
from sklearn.datasets import load_sample_image

from kernelstream import images

SIGMA = 25 / 255
clean = load_sample_image("china.jpg")[150:246, 240:368] / 255.0
rng = np.random.default_rng(0)
noisy = clean + SIGMA * rng.normal(size=clean.shape)


def psnr(found: np.ndarray) -> float:
    return float(-10 * np.log10(np.mean((found - clean) ** 2)))


def show(pictures: dict[str, np.ndarray]) -> None:
    axes = plt.subplots(1, len(pictures), figsize=(11, 3.2), layout="constrained")[1]
    for axis, (name, image) in zip(axes, pictures.items(), strict=True):
        quality = "" if image is clean else f", {psnr(np.nan_to_num(image)):.1f} dB"
        axis.imshow(np.clip(np.nan_to_num(image), 0, 1), interpolation="nearest")
        axis.set_title(name + quality, loc="left", fontsize=10)
        axis.set_axis_off()


# %%
# The mixture
# -----------
# A patch of a roof has other principal components than a patch of the sky. The M step computes the
# mean and the covariance of the patches of each mixture component, and removes the noise from the
# eigenvalues: n patches of q·n pixels spread the eigenvalues of noise of variance v up to
# ``v (1 + √q)²``, and move those of a signal (Baik and Silverstein 2006). The E step computes the
# probability of each mixture component given the patch.

SIDE = 8  # pixels of a patch
UNLIKELY = 0.01  # a component with a smaller probability is left out


def without_noise(eigenvalues: np.ndarray, variance: float, q: float) -> np.ndarray:
    half = eigenvalues - (1 + q) * variance
    signal = (half + np.sqrt(np.maximum(half**2 - 4 * q * variance**2, 0))) / 2
    return np.where(eigenvalues > variance * (1 + np.sqrt(q)) ** 2, signal, 0)


def m_step(patches: np.ndarray, r: np.ndarray, variance: float) -> list:
    mixture = []
    for share in r.T:
        here = share > UNLIKELY
        weight = share[here].sum()
        if weight >= 2:
            w, X = share[here, None], patches[here]
            mean = (w * X).sum(axis=0) / weight
            X = X - mean
            eigenvalues, V = np.linalg.eigh((w * X).T @ X / weight)
            signal = without_noise(eigenvalues, variance, len(V) / weight)
            kept = np.append(signal[:-1] > 0, True)
            mixture.append((weight / len(patches), mean, V[:, kept], signal[kept]))
    return mixture


def e_step(patches: np.ndarray, mixture: list, variance: float) -> np.ndarray:
    fit = np.empty((len(patches), len(mixture)))
    for j, (share, mean, V, signal) in enumerate(mixture):
        scores = (patches - mean) @ (V * np.sqrt(signal / (signal + variance) / variance))
        fit[:, j] = np.log(share) - np.log1p(signal / variance).sum() / 2
        fit[:, j] += (scores**2).sum(axis=1) / 2 - ((patches - mean) ** 2).sum(
            axis=1
        ) / 2 / variance
    r = np.exp(fit - fit.max(axis=1, keepdims=True))
    return r / r.sum(axis=1, keepdims=True)


def first_probabilities(patches: np.ndarray, variance: float, m: int, seed: int) -> np.ndarray:
    """k-means of the patches less their means, after a Wiener filter."""
    X = patches - patches.mean(axis=1, keepdims=True)
    eigenvalues, V = np.linalg.eigh(np.cov(X.T))
    gain = np.maximum(eigenvalues - variance, 0) / np.maximum(eigenvalues, 1e-300)
    return np.eye(m)[KMeans(m, n_init=1, random_state=seed).fit_predict(X @ (V * gain))]


# %%
# From patches back to the photograph
# -----------------------------------
# Colors are rotated to brightness and two differences, which leaves white noise white. The mixture
# is found in the brightness. Missing pixels start as the mean of what is around them, count for
# next to nothing in their patch, and are filled by the result; a second round starts from that.

OPPONENT = np.array([[1, 1, 1], [1, 0, -1], [1, -2, 1]]) / np.sqrt([[3], [2], [6]])


def denoise(photo: np.ndarray, variance: float, m: int = 12, seed: int = 0) -> np.ndarray:
    gaps = np.isnan(photo).reshape(*photo.shape[:2], -1).any(axis=2)
    there = (~gaps).astype(float)
    planes = photo[None] if photo.ndim == 2 else np.moveaxis(photo @ OPPONENT.T, 2, 0)
    planes = np.where(gaps, 0, planes)
    around = [gaussian_filter(p, 2) / np.maximum(gaussian_filter(there, 2), 1e-9) for p in planes]
    found = np.where(gaps, around, planes)
    for _ in range(2 if gaps.any() else 1):
        found = denoise_planes(np.where(gaps, found, planes), there, variance, m, seed)
    return found[0] if photo.ndim == 2 else np.moveaxis(found, 0, 2) @ OPPONENT


def denoise_planes(
    planes: np.ndarray, there: np.ndarray, variance: float, m: int, seed: int
) -> np.ndarray:
    every = np.stack([images.patches.windows(plane, SIDE) for plane in planes], axis=2)
    X = every.reshape(-1, len(planes) * SIDE**2)
    bright, seen = X[:, : SIDE**2], images.patches.windows(there, SIDE).reshape(-1, SIDE**2)
    whole = seen.sum(axis=1) >= np.median(seen.sum(axis=1))  # patches with few gaps
    r = first_probabilities(bright[whole], variance, m, seed)
    for _ in range(10):
        mixture = m_step(bright[whole], r, variance)
        r = e_step(bright[whole], mixture, variance)
    mixture = m_step(bright[whole], r, variance)
    in_color = m_step(X[whole], r, variance)
    r = e_step(bright, mixture, variance)
    r[r <= UNLIKELY] = 0
    r /= r.sum(axis=1, keepdims=True)
    weight, found = np.zeros(len(X)), np.zeros_like(X)
    for share, (_, mean, V, signal) in zip(r.T, in_color, strict=True):
        gain = signal / (signal + variance)
        here = np.flatnonzero(share)
        scores = scores_of(X[here] - mean, np.tile(seen[here], len(planes)), V, signal, variance)
        found[here] += share[here, None] * (mean + scores @ V.T)
        weight[here] += share[here] / (1 + gain.sum())  # a patch with few components counts more
    weight *= seen.mean(axis=1) + 0.01
    total, count = np.zeros(planes.shape), np.zeros(planes.shape[1:])
    rows, columns = every.shape[:2]
    found, weight = found.reshape(every.shape), weight.reshape(rows, columns)
    for i in range(SIDE):
        for j in range(SIDE):
            at = np.s_[..., i : i + rows, j : j + columns]
            total[at] += np.moveaxis(found[..., i, j] * weight[..., None], 2, 0)
            count[at] += weight
    return total / count


def scores_of(
    X: np.ndarray, seen: np.ndarray, V: np.ndarray, signal: np.ndarray, variance: float
) -> np.ndarray:
    """Expected scores of clean patches, of which some pixels were not seen."""
    scores = X @ V * (signal / (signal + variance))
    kept = signal > 0
    for i in np.flatnonzero((seen < 1).any(axis=1)):
        w, B = np.maximum(seen[i], 0.01), V[:, kept]
        system = (B.T * w) @ B + np.diag(variance / signal[kept])
        scores[i, kept] = np.linalg.solve(system, B.T @ (w * X[i]))
    return scores


found = denoise(noisy, SIGMA**2)
show({"noisy": noisy, "denoised": found, "clean": clean})
plt.show()

# %%
# Unknown noise
# -------------
# A high-pass filter leaves the variance of the noise, and more where there is detail. The noise is
# estimated in the flattest windows, by the same low quantile of noise of variance one. The three
# colors are better denoised together than each by itself: edges are where they agree.

HIGH_PASS = np.outer([1, -2, 1], [1, -2, 1]) / 6


def estimate_noise(photo: np.ndarray, side: int = 16) -> float:
    gray = photo.mean(axis=2)
    noise = np.random.default_rng(0).normal(size=gray.shape)
    low = []
    for image in (gray, noise):
        squares = images.patches.windows(convolve(image, HIGH_PASS) ** 2, side)
        low.append(np.quantile(squares.mean(axis=(2, 3)), 0.01))
    return float(low[0] / low[1] * photo.shape[2])  # the mean of the colors has less noise


apart = [denoise(noisy[:, :, k], SIGMA**2) for k in range(3)]
measured = denoise(noisy, estimate_noise(noisy))
show(
    {
        "each color by itself": np.stack(apart, axis=2),
        "together, noise estimated": measured,
        "clean": clean,
    }
)
plt.show()

# %%
# Missing pixels
# --------------
# NaN is a missing pixel: here lines, and a tenth of all pixels.

gaps = rng.random(clean.shape[:2]) < 0.1
gaps[20::32] = gaps[21::32] = True
given = np.where(gaps[:, :, None], np.nan, noisy)
filled = denoise(given, SIGMA**2)
show({"given": given, "denoised and filled": filled, "clean": clean})
plt.show()

# %%
# **Learnt:** the patches of one photograph are enough to denoise it and to fill it in, if each
# kind of patch has principal components of its own.
