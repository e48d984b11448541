"""Natural images of low resolution: figure 5, and a regression on patches that gains decibels."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

from kernelstream import StreamingKernelPCA, landmarks
from kernelstream.images import SuperResolver
from kernelstream.images.files import resized
from kernelstream.images.patches import windows
from reproductions import drawing
from reproductions.kim_2003 import rebuilding

SCALE, SIDE, SIGMA, R = 4, 14, 0.5, 300
OVERLAP = 10  # pixels from one window to the next where they overlap
WINDOW = (slice(100, 260), slice(150, 390))  # what figure 5 shows of the image
POINTS, PATCHES = 1000, 200_000  # of the super-resolver


def experiment(
    arrays: dict[str, np.ndarray], out: Path, full: bool, tiny: bool = False
) -> dict[str, Any]:
    train, test = arrays["bsds_train"], arrays["bsds_test"]
    if tiny:
        train, test = train[:2], test[:1, :56, :84]
    n = 100 if tiny else 7000 if full else 2000
    resolvers = {
        scale: learned(train, scale, 20 if tiny else POINTS, 600 if tiny else PATCHES)
        for scale in (2, 3, 4)
    }
    return {
        "figure_5": figure_5(train, test[0], n, resolvers[SCALE][0], out, tiny),
        "super_resolution": {
            f"scale_{scale}": {"seconds_to_learn": seconds, **gains(model, test, scale)}
            for scale, (model, seconds) in resolvers.items()
        },
    }


def learned(
    train: np.ndarray, scale: int, points: int, patches: int
) -> tuple[SuperResolver, float]:
    begin = perf_counter()
    count = patches // len(train)
    model = SuperResolver(scale, points, patches_per_image=count, random_state=0).fit(train)
    return model, perf_counter() - begin


def psnr(found: np.ndarray, truth: np.ndarray) -> float:
    return float(10 * np.log10(1 / np.mean((np.clip(found, 0, 1) - truth) ** 2)))


def in_levels(image: np.ndarray) -> np.ndarray:
    """An image as a file holds it: 256 grey levels."""
    return np.rint(np.clip(image, 0, 1) * 255) / 255


def gains(model: SuperResolver, images: np.ndarray, scale: int) -> dict[str, float]:
    """Decibels over bicubic interpolation, all images in 256 grey levels, borders included."""
    found = []
    for image in images:
        rows, columns = (length // scale for length in image.shape)
        high = image[: rows * scale, : columns * scale] / 255.0
        low = in_levels(resized(high, (rows, columns)))
        bicubic = in_levels(resized(low, high.shape))
        found.append(psnr(in_levels(model.predict(low)), high) - psnr(bicubic, high))
    return {"gain": float(np.mean(found)), "least": float(np.min(found))}


def quartered(image: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """An image, a quarter of its side, that with pixels repeated, and that interpolated."""
    rows, columns = (length // SCALE for length in image.shape)
    truth = image[: rows * SCALE, : columns * SCALE] / 255.0
    low = truth.reshape(rows, SCALE, columns, SCALE).mean(axis=(1, 3))
    bilinear = Image.fromarray(low.astype(np.float32)).resize(
        (truth.shape[1], truth.shape[0]), Image.Resampling.BILINEAR
    )
    return truth, low, np.kron(low, np.ones((SCALE, SCALE))), np.asarray(bilinear, dtype=float)


def figure_5(
    train: np.ndarray, image: np.ndarray, n: int, resolver: SuperResolver, out: Path, tiny: bool
) -> dict[str, Any]:
    """The paper's arrangement on one image, enlarged four times; PSNR of every way."""
    truth, low, given, bilinear = quartered(image)
    rows, columns = low.shape
    kernel: dict[str, Any] = dict(
        basis=landmarks.Landmarks(n), patches_per_image=-(-n // len(train))
    )
    narrow = dict(kernel, gamma=0.5 / SIGMA**2, n_components=20 if tiny else R)
    linear: dict[str, Any] = dict(kernel="linear", basis=400, patches_per_image=n // len(train))
    ways = {
        "repeated": given,
        "bilinear": bilinear,
        "bicubic": resized(low, truth.shape),
        "pca_40": rebuilt(train, given, n_components=min(40, n), **linear),
        "pca_150": rebuilt(train, given, n_components=min(150, n), **linear),
        "blocks": rebuilt(train, given, **narrow),
        "overlap": rebuilt(train, given, step=OVERLAP, **narrow),
        "overlap_mean": rebuilt(train, given, step=OVERLAP, keep_mean=True, **narrow),
        "resolver": resolver.predict(low),
    }
    names = {
        "original": truth,
        f"{rows}×{columns}, pixels repeated": given,
        "linear PCA, r = 40": ways["pca_40"],
        "bilinear": ways["bilinear"],
        "kernel PCA, windows overlap": ways["overlap"],
        "kernel PCA, block by block": ways["blocks"],
        "bicubic": ways["bicubic"],
        "SuperResolver": ways["resolver"],
    }
    draw(names, truth, out / "figure_5.png")
    return {"n": n, "psnr": {name: psnr(found, truth) for name, found in ways.items()}}


def rebuilt(
    train: np.ndarray,
    given: np.ndarray,
    patches_per_image: int,
    step: int = SIDE,
    keep_mean: bool = False,
    **settings: Any,
) -> np.ndarray:
    """The image from the pre-images of its windows, averaged where they overlap."""

    def means(rows: np.ndarray) -> Any:
        return rows.mean(axis=1, keepdims=True) if keep_mean else 0.0

    drawn = [patches(image, patches_per_image, seed) for seed, image in enumerate(train)]
    rows = np.concatenate(drawn)
    model = StreamingKernelPCA(random_state=0, **settings).fit(rows - means(rows))

    def project(rows: np.ndarray) -> np.ndarray:
        return model.inverse_transform(model.transform(rows - means(rows))) + means(rows)

    return rebuilding.rebuilt(given, SIDE, step, project)


def patches(image: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Windows of an image of 8 bits at random places, as rows."""
    every = windows(image / 255.0, SIDE)
    chosen = np.random.default_rng(seed).choice(every.shape[0] * every.shape[1], count, False)
    return every[np.unravel_index(chosen, every.shape[:2])].reshape(count, -1)


@drawing.styled()
def draw(
    pictures: dict[str, np.ndarray],
    truth: np.ndarray,
    path: Path,
    window: tuple[slice, slice] = WINDOW,
) -> None:
    """Two columns of pictures with their PSNR."""
    figure, axes = plt.subplots(4, 2, figsize=(7.0, 9.9))
    for axis, (name, image) in zip(axes.flat, pictures.items(), strict=True):
        quality = "" if image is truth else f", {psnr(image, truth):.2f} dB"
        part = image[window] if image.shape[0] > window[0].stop else image
        axis.imshow(part, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axis.set_title(name + quality, loc="left", fontsize=9)
        axis.set_axis_off()
    drawing.save(figure, path, dpi=90)
