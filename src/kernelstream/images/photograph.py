"""Noise out of whole photographs: kernel PCA of their own patches, laid back where they overlap."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.ndimage import convolve, gaussian_filter

from kernelstream.arrays.draws import generator
from kernelstream.estimators.inputs import real_numbers
from kernelstream.images.patches import Canvas, windows
from kernelstream.images.pixels import WHITE, as_floats, as_integers, require_pixels
from kernelstream.landmarks.optimized.kmeans import lloyd, nearest, seed_points
from kernelstream.serialization.part import check_count, check_number, checked_seed

SIDE = 8  # pixels of a patch
FIRST, MOST = 20_000, 120_000  # patches that place the cells, and that give them their components
EARLY, LATE = 10, 4  # steps of expectation and maximisation on the first, and on all of these
LLOYD_STEPS = 5
STRIP = 16_384  # patches that are worked on at a time, so that memory stays bounded
UNLIKELY = 0.01  # a cell with less than this share of a patch is not asked
GAP = 0.01  # what a filled pixel says of its patch, a seen one says 1
ROUNDS = 2  # of filling gaps with what was found
LEAST = 1e-8  # the variance of noise below which single precision does not tell patches apart
HIGH_PASS = np.outer([1, -2, 1], [1, -2, 1]) / 6  # planes and edges along the axes leave nothing
FLAT_SIDE, FLAT = 16, 0.01  # windows where the noise is measured, and their share
# Brightness and two colour differences, orthonormal: white noise stays white, of one variance.
OPPONENT = np.array([[1, 1, 1], [1, 0, -1], [1, -2, 1]]) / np.sqrt([[3], [2], [6]])


@dataclass(frozen=True)
class Cell:
    """A kind of patches: how often it is met, its mean, its components and their variances."""

    share: float
    mean: np.ndarray
    components: np.ndarray  # (pixels, kept)
    variances: np.ndarray  # of the clean patches


def denoise_photo(
    photo: Any,
    noise_variance: float | None = None,
    *,
    mask: Any = None,
    cells: int = 40,
    random_state: Any = None,
) -> np.ndarray:
    """Remove the noise of one photograph, learned from nothing but this photograph.

    All windows of 8×8 pixels are patches x. Their kernel is ``k(x, x') = Σ_j r_j(x) r_j(x')
    (1 + xᵀx')`` with the shares ``r_j`` that m cells have in a patch, so that kernel PCA finds the
    principal components of each cell: those of sky, of grass, of edges in each direction. Cells and
    components are found together by expectation and maximisation. A component of variance λ above
    the noise of variance v is shrunk by ``λ/(λ + v)``, the others are left out, and patches are
    laid back over one another with weights that fall with the number of components kept.

    For many small images of one kind (digits, faces) there is :class:`Denoiser`, which learns from
    all of them.

    Parameters
    ----------
    photo : array of shape (height, width) or (height, width, 3)
        Of 8 or 16 bits, or floats in [0, 1]. NaN is a gap, which is filled.
    noise_variance : float or None
        Variance of the noise on each pixel, white being 1: ``(25 / 255) ** 2``, say. None measures
        it in the photograph.
    mask : array of shape (height, width), bool, optional
        True where a pixel is missing: scratches, text, dead pixels.
    cells : int
        Number of cells m.
    random_state : int, RandomState or None
        Seed of everything that is drawn.

    Returns
    -------
    array of the shape and type of the photo

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_sample_image
    >>> from kernelstream.images import denoise_photo
    >>> clean = load_sample_image("china.jpg")[100:164, 200:280].mean(axis=2) / 255.0
    >>> noisy = clean + 0.1 * np.random.default_rng(0).normal(size=clean.shape)
    >>> found = denoise_photo(noisy, 0.01, cells=4, random_state=0)
    >>> bool(np.mean((found - clean) ** 2) < 0.6 * np.mean((noisy - clean) ** 2))
    True
    """
    check_count("denoise_photo", "cells", cells, none_allowed=False)
    if noise_variance is not None:
        check_number("denoise_photo", "noise_variance", noise_variance)
    given = real_numbers(photo)
    gaps = gaps_of(given, mask)
    pixels = as_floats(given)
    variance = measured_noise(pixels, gaps) if noise_variance is None else float(noise_variance)
    variance = max(variance, LEAST)
    planes = to_planes(pixels, gaps)
    rng = generator(checked_seed(random_state), "photograph")
    found = planes
    for _ in range(ROUNDS if gaps.any() else 1):
        planes = np.where(gaps, found, planes).astype(np.float32)
        found = clean_planes(planes, gaps, variance, cells, rng)
    whole = found[0] if given.ndim == 2 else np.moveaxis(found, 0, 2) @ OPPONENT
    if given.dtype in WHITE:
        return as_integers(whole, given.dtype)
    return whole.astype(pixels.dtype)


def gaps_of(photo: np.ndarray, mask: Any) -> np.ndarray:
    """Where a pixel is missing, (height, width), of a photograph that can be denoised."""
    fits = photo.ndim == 2 or (photo.ndim == 3 and photo.shape[2] == 3)
    if not fits or min(photo.shape[:2]) < SIDE:
        raise ValueError(
            f"Expected one photograph of shape (height, width) or (height, width, 3), at least "
            f"{SIDE} pixels high and wide; got an array of shape {photo.shape}."
        )
    gaps = np.isnan(photo.astype(float)).reshape(*photo.shape[:2], -1).any(axis=2)
    if mask is not None:
        mask = np.asarray(mask)
        if mask.shape != gaps.shape or mask.dtype != bool:
            raise ValueError(
                f"mask must be of shape {gaps.shape} and type bool, True where a pixel is missing; "
                f"got an array of shape {mask.shape} and type {mask.dtype}."
            )
        gaps = gaps | mask
    if gaps.all():
        raise ValueError("Every pixel of the photograph is missing: there is nothing to go by.")
    require_pixels(photo[~gaps])
    return gaps


def to_planes(photo: np.ndarray, gaps: np.ndarray) -> np.ndarray:
    """Brightness, and where there is colour its two differences, (planes, height, width).

    Gaps have the mean of what stands around them.
    """
    seen = np.where(gaps if photo.ndim == 2 else gaps[:, :, None], 0.0, photo.astype(float))
    planes = seen[None] if photo.ndim == 2 else np.moveaxis(seen @ OPPONENT.T, 2, 0)
    reach, left = 1.0, gaps.copy()
    while left.any():
        near = gaussian_filter((~gaps).astype(float), reach)
        here = left & (near > 1e-3)
        for plane in planes:
            plane[here] = (gaussian_filter(np.where(gaps, 0.0, plane), reach)[here]) / near[here]
        reach, left = 2.0 * reach, left & ~here
    return planes.astype(np.float32)


def clean_planes(
    planes: np.ndarray, gaps: np.ndarray, variance: float, m: int, rng: np.random.Generator
) -> np.ndarray:
    """Planes without their noise, their gaps filled."""
    every = np.moveaxis(np.stack([windows(plane, SIDE) for plane in planes]), 0, 2)
    missing = windows(gaps, SIDE)
    rows, columns = every.shape[:2]
    # Half of the patches, those with few gaps, show what the photograph is like.
    n_missing = missing.sum(axis=(2, 3)).ravel()
    whole = np.flatnonzero(n_missing <= np.median(n_missing))
    chosen = rng.permutation(whole)[:MOST]
    sample = every[chosen // columns, chosen % columns].reshape(len(chosen), -1)
    by_brightness, cells = learn(sample, variance, m, rng)
    canvas = Canvas(planes.shape)
    height = max(1, STRIP // columns)
    for top in range(0, rows, height):
        X = every[top : top + height].reshape(-1, sample.shape[1])
        seen = np.where(missing[top : top + height].reshape(-1, SIDE**2), GAP, 1.0)
        found, weight = clean_patches(X, seen.astype(np.float32), by_brightness, cells, variance)
        shape = (-1, columns, len(planes), SIDE, SIDE)
        canvas.add_windows(top, found.reshape(shape), weight.reshape(-1, columns))
    return canvas.image()


def measured_noise(photo: np.ndarray, gaps: np.ndarray) -> float:
    """Variance of white noise on the pixels of a photograph, where it is flattest.

    What ``HIGH_PASS`` leaves has the variance of the noise, and more where there is detail: its
    means over windows have a low quantile, which is compared with that of noise of variance one.
    Gaps are left out, and so is what is black or white: noise is cut off there.
    """
    plane = photo if photo.ndim == 2 else photo.mean(axis=2)
    plain = 1.0 if photo.ndim == 2 else 1.0 / photo.shape[2]  # of noise that was averaged
    side = min(FLAT_SIDE, min(plane.shape) // 2)
    seen = np.where(gaps, 0.5 * (np.nanmin(photo) + np.nanmax(photo)), plane)
    cut = gaps | (photo <= np.nanmin(photo)).reshape(*gaps.shape, -1).any(axis=2)
    cut |= (photo >= np.nanmax(photo)).reshape(*gaps.shape, -1).any(axis=2)
    usable = mean_of_windows(convolve(cut.astype(float), np.ones((3, 3))), side) == 0.0
    if not usable.any():
        raise ValueError(
            "The noise of this photograph cannot be measured: gaps, black or white are in every "
            f"{side} by {side} pixels of it. Give noise_variance."
        )
    unit = np.random.default_rng(0).normal(size=plane.shape)
    found, expected = (
        float(np.quantile(mean_of_windows(convolve(image, HIGH_PASS) ** 2, side)[usable], FLAT))
        for image in (seen.astype(float), unit)
    )
    return found / expected / plain


def mean_of_windows(image: np.ndarray, side: int) -> np.ndarray:
    """The mean of each window that is inside."""
    total = np.pad(image.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    corners = total[side:, side:] - total[side:, :-side] - total[:-side, side:]
    return (corners + total[:-side, :-side]) / side**2


def learn(
    sample: np.ndarray, variance: float, m: int, rng: np.random.Generator
) -> tuple[list[Cell], list[Cell]]:
    """Cells by the brightness of patches, and with components of all planes."""
    bright = np.ascontiguousarray(sample[:, : SIDE**2])
    few = bright[:FIRST]
    shares = first_shares(few, variance, min(m, len(few)), rng)
    for _ in range(EARLY):
        shares = shares_of(few, cells_of(few, shares, variance), variance)
    cells = cells_of(few, shares, variance)
    for _ in range(LATE):
        shares = shares_of(bright, cells, variance)
        cells = cells_of(bright, shares, variance)
    if sample.shape[1] == bright.shape[1]:
        return cells, cells
    return cells, cells_of(sample, shares, variance)


def first_shares(
    patches: np.ndarray, variance: float, m: int, rng: np.random.Generator
) -> np.ndarray:
    """Cells of k-means, in patches less their means after a Wiener filter."""
    form = patches - patches.mean(axis=1, keepdims=True)
    omega, V = np.linalg.eigh(np.cov(form.T, dtype=np.float64))
    share = np.maximum(omega - variance, 0.0) / np.maximum(omega, np.finfo(float).tiny)
    form = form.astype(float) @ (V * share)
    weights = np.ones(len(form))
    points = lloyd(form, weights, seed_points(form, weights, m, rng), LLOYD_STEPS, rng)
    return np.eye(len(points), dtype=np.float32)[nearest(form, points)[0]]


def cells_of(patches: np.ndarray, shares: np.ndarray, variance: float) -> list[Cell]:
    """The mean, the components and the variances of each cell, given its share in each patch."""
    cells = []
    for share in shares.T:
        here = share > UNLIKELY
        weight = float(share[here].sum())
        if weight < 2.0:
            continue
        X, w = patches[here], share[here, None]
        mean = (w * X).sum(axis=0) / np.float32(weight)
        X = X - mean
        omega, V = np.linalg.eigh(((w * X).T @ X / np.float32(weight)).astype(np.float64))
        clean = without_noise(omega, variance, len(omega) / weight)
        kept = clean > 0.0
        kept[-1] = True
        parts = V[:, kept].astype(np.float32), clean[kept].astype(np.float32)
        cells.append(Cell(weight / len(patches), mean, *parts))
    return cells


def without_noise(omega: np.ndarray, variance: float, q: float) -> np.ndarray:
    """Variances of clean patches from those ω of noisy ones, zero where the noise explains ω.

    q pixels a patch of the sample make eigenvalues of noise as large as ``v (1 + √q)²``, and those
    of a signal λ on noise v as large as ``(λ + v)(1 + q v/λ)`` (Baik and Silverstein 2006), which
    is solved for λ.
    """
    half = omega - (1.0 + q) * variance
    found = 0.5 * (half + np.sqrt(np.maximum(half**2 - 4.0 * q * variance**2, 0.0)))
    return np.where(omega > variance * (1.0 + math.sqrt(q)) ** 2, found, 0.0)


def shares_of(patches: np.ndarray, cells: list[Cell], variance: float) -> np.ndarray:
    """The probability of each cell given the patch, (n, m): normal ones with white noise."""
    gains = [c.variances / (c.variances + variance) for c in cells]
    maps = [c.components * np.sqrt(g / variance) for c, g in zip(cells, gains, strict=True)]
    means = np.stack([c.mean for c in cells])
    offsets = np.concatenate([c.mean @ B for c, B in zip(cells, maps, strict=True)])
    starts = np.cumsum([0, *(len(g) for g in gains[:-1])])
    constant = np.array(
        [math.log(c.share) - 0.5 * float(np.sum(np.log1p(c.variances / variance))) for c in cells]
    )
    constant -= 0.5 * np.sum(means.astype(float) ** 2, axis=1) / variance
    shares = np.empty((len(patches), len(cells)), dtype=np.float32)
    every = np.concatenate(maps, axis=1)
    for begin in range(0, len(patches), STRIP):
        X = patches[begin : begin + STRIP]
        along = X @ every - offsets
        along *= along
        fit = X @ (means.T / np.float32(variance)) + 0.5 * np.add.reduceat(along, starts, axis=1)
        fit += constant.astype(np.float32)
        fit -= fit.max(axis=1, keepdims=True)
        np.exp(fit, out=fit)
        shares[begin : begin + STRIP] = fit / fit.sum(axis=1, keepdims=True)
    return shares


def clean_patches(
    X: np.ndarray, seen: np.ndarray, by_brightness: list[Cell], cells: list[Cell], variance: float
) -> tuple[np.ndarray, np.ndarray]:
    """The expected clean patches, given the pixels that were seen, and what each is worth."""
    shares = shares_of(np.ascontiguousarray(X[:, : SIDE**2]), by_brightness, variance)
    shares[shares <= UNLIKELY] = 0.0
    shares /= shares.sum(axis=1, keepdims=True)
    spoilt = seen.min(axis=1) < 1.0
    # A system of equations for each patch with gaps: only in the cell that is most likely.
    shares[spoilt] = shares[spoilt] == shares[spoilt].max(axis=1, keepdims=True)
    found, weight = np.zeros_like(X), np.zeros(len(X))
    for share, cell in zip(shares.T, cells, strict=True):
        gain = cell.variances / (cell.variances + variance)
        here = np.flatnonzero(share)
        scores = (X[here] - cell.mean) @ cell.components * gain
        gaps = spoilt[here]
        scores[gaps] = scores_with_gaps(X[here[gaps]], seen[here[gaps]], cell, variance)
        found[here] += share[here, None] * (cell.mean + scores @ cell.components.T)
        weight[here] += share[here] / (1.0 + float(gain.sum()))
    return found, weight * seen.mean(axis=1)


def scores_with_gaps(X: np.ndarray, seen: np.ndarray, cell: Cell, variance: float) -> np.ndarray:
    """Expected scores of clean patches whose pixels count as much as they were seen."""
    kept = cell.variances > 0.0
    V = cell.components[:, kept]
    scores = np.zeros((len(X), len(kept)), dtype=np.float32)
    by_plane = V.reshape(len(V) // SIDE**2, SIDE**2, V.shape[1])
    pairs = np.einsum("pdr,pds->drs", by_plane, by_plane).reshape(SIDE**2, -1)
    prior = np.diag(variance / cell.variances[kept])
    for begin in range(0, len(X), 512):
        at = slice(begin, begin + 512)
        w = seen[at]
        lhs = (w @ pairs).reshape(-1, V.shape[1], V.shape[1]) + prior
        rhs = (np.tile(w, len(by_plane)) * (X[at] - cell.mean)) @ V
        scores[at, kept] = np.linalg.solve(lhs, rhs[:, :, None])[:, :, 0]
    return scores
