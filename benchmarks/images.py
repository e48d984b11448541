"""What the models of images reach: strong noise, gaps, wild pixels, enlarging.

    python -m benchmarks.images --data FOLDER [--only WORD …]

PSNR in dB, the mean over unseen images. Faces are those of Yale B and Frey, digits those of MNIST,
photographs those of BSDS500, all from the folder. Biharmonic inpainting is asked where scikit-image
is installed.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.anchored import Anchored
from benchmarks.applications import Reached, Row
from kernelstream import StreamingKernelPCA
from kernelstream.images import Denoiser, SuperResolver
from kernelstream.images.files import resized
from kernelstream.images.superresolution import back_projected

NO_DATA = Reached("needs --data with the images", None)
STRENGTHS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 3e-2, 1e-1, 3e-1)
SURE_CASES = (
    ("yale_b", 0.5),
    ("yale_b", 0.1),
    ("mnist", 0.3),
    ("mnist", 0.6),
    ("frey", 0.2),
    ("frey", 0.05),
)


def psnr(found: np.ndarray, clean: np.ndarray) -> float:
    """The mean over images of that of each, white being 1."""
    error = np.mean((found - clean).reshape(len(clean), -1) ** 2, axis=1)
    return float(np.mean(-10.0 * np.log10(error)))


def faces(data: Path, name: str, small: bool = False) -> np.ndarray:
    """Images in [0, 1], in an order that is drawn."""
    file = np.load(data / f"{name}.npz")
    images = (file["x_train"][:8000] if name == "mnist" else file["images"]) / 255.0
    if name == "yale_b":
        side = 4 if small else 2
        shape = (len(images), 96 // side, side, 84 // side, side)
        images = images.reshape(shape).mean(axis=(2, 4))
    return images[np.random.default_rng(0).permutation(len(images))]


def there(data: Path | None, *names: str) -> bool:
    """Whether the folder has the files."""
    return data is not None and all((data / f"{name}.npz").exists() for name in names)


def strong_noise(data: Path | None) -> Reached:
    """Faces under noise of deviation 0.5, with the strength chosen and fixed, and by PCA."""
    if data is None or not there(data, "yale_b"):
        return NO_DATA
    clean = faces(data, "yale_b", small=True)
    noisy = clean + 0.5 * np.random.default_rng(1).normal(size=clean.shape)
    n = len(clean) * 4 // 5
    found = {
        name: psnr(
            Denoiser(0.25, alpha=alpha, random_state=0).fit(noisy[:n]).transform(noisy[n:]),
            clean[n:],
        )
        for name, alpha in (("sure", "sure"), ("fixed", 1e-4))
    }
    rows = noisy.reshape(len(noisy), -1)
    mean = rows[:n].mean(axis=0)
    V = np.linalg.svd(rows[:n] - mean, full_matrices=False)[2][:10]
    linear = psnr(mean + (rows[n:] - mean) @ V.T @ V, clean[n:].reshape(len(clean) - n, -1))
    words = (
        f"{found['sure']:.1f} dB (fixed ridge {found['fixed']:.1f}, ten components {linear:.1f})"
    )
    return Reached(words, found["sure"] >= 19.3)


def chosen_strengths(data: Path | None) -> Reached:
    """The strength that is chosen beside the best of eight, in six cases."""
    if data is None or not there(data, "yale_b", "mnist", "frey"):
        return NO_DATA
    losses = []
    for name, deviation in SURE_CASES:
        clean = faces(data, name, small=True)
        noisy = clean + deviation * np.random.default_rng(1).normal(size=clean.shape)
        n = len(clean) * 4 // 5
        model = Denoiser(deviation**2, basis=500, alpha=1e-4, random_state=0).fit(noisy[:n])
        best = max(
            psnr(model.set_params(alpha=alpha).transform(noisy[n:]), clean[n:])
            for alpha in STRENGTHS
        )
        chosen = Denoiser(deviation**2, basis=500, random_state=0).fit(noisy[:n])
        losses.append(best - psnr(chosen.transform(noisy[n:]), clean[n:]))
    near = sum(loss <= 0.1 for loss in losses)
    return Reached(f"{near} of 6 (largest loss {max(losses):.2f} dB)", near == 6)


def model_of(images: np.ndarray) -> StreamingKernelPCA:
    """Kernel PCA of images as rows."""
    rows = images.reshape(len(images), -1).astype(np.float32)
    return StreamingKernelPCA(150, basis=600, random_state=0).fit(rows)


def blocks(images: np.ndarray) -> np.ndarray:
    """A quarter of the side, somewhere in each image: True where it is missing."""
    rng = np.random.default_rng(2)
    height, width = images.shape[1:]
    side, gaps = height // 4, np.zeros(images.shape, dtype=bool)
    for gap in gaps:
        top, left = rng.integers(height - side), rng.integers(width - side)
        gap[top : top + side, left : left + side] = True
    return gaps


def inpainting(data: Path | None) -> Reached:
    """Faces with a block missing: filled by kernel PCA, by linear PCA, biharmonically."""
    if data is None or not there(data, "yale_b"):
        return NO_DATA
    images = faces(data, "yale_b")
    learned, test = images[:2000], images[2000:2100]
    gaps = blocks(test)
    flat = (len(test), -1)
    filled = model_of(learned).repair(np.where(gaps, np.nan, test).reshape(flat))
    found, words = psnr(filled, test.reshape(flat)), ""
    try:
        from skimage.restoration import inpaint_biharmonic  # type: ignore[import-not-found]
    except ModuleNotFoundError:
        words = "scikit-image is not installed"
        peer = 32.1
    else:
        pairs = zip(test, gaps, strict=True)
        peer = psnr(np.stack([inpaint_biharmonic(image, gap) for image, gap in pairs]), test)
        words = f"biharmonic {peer:.1f}"
    return Reached(f"{found:.1f} dB ({words})", found >= peer + 2.1)


def robust_pca(M: np.ndarray, steps: int = 60) -> np.ndarray:
    """The part of low rank, by principal component pursuit (Candès et al. 2011)."""
    weight, norm = 1.0 / float(np.sqrt(max(M.shape))), float(np.linalg.norm(M, 2))
    Y, S, mu = M / max(norm, np.abs(M).max() / weight), 0.0 * M, 1.25 / norm
    L = M
    for _ in range(steps):
        U, s, V = np.linalg.svd(M - S + Y / mu, full_matrices=False)
        L = (U * np.maximum(s - 1.0 / mu, 0.0)) @ V
        T = M - L + Y / mu
        S = np.sign(T) * np.maximum(np.abs(T) - weight / mu, 0.0)
        Y, mu = Y + mu * (M - L - S), min(1.5 * mu, 1e7)
    return L


def wild_pixels(data: Path | None) -> Reached:
    """Salt and pepper on a tenth and on 30 % of the pixels, and covered faces."""
    if data is None or not there(data, "yale_b", "frey"):
        return NO_DATA
    words, level = [], True
    for name in ("yale_b", "frey"):
        images = faces(data, name)
        learned, test = images[:1800], images[1800:1860]
        model, rng = model_of(learned), np.random.default_rng(3)
        cases = [np.where(blocks(test), rng.random(test.shape), test)]
        for share in (0.3, 0.1):
            wild = rng.random(test.shape) < share
            cases.insert(0, np.where(wild, rng.integers(0, 2, test.shape), test))
        for given in cases:
            rows = given.reshape(len(test), -1)
            ours = psnr(model.repair(rows, loss="robust"), test.reshape(len(test), -1))
            both = np.concatenate([learned[:600].reshape(600, -1), rows])
            theirs = psnr(robust_pca(both)[600:], test.reshape(len(test), -1))
            words.append(f"{ours:.1f} ({theirs:.1f})")
            level &= ours >= theirs
    return Reached(f"{', '.join(words)} dB (robust PCA)", bool(level))


class Enlarged(NamedTuple):
    """Mean gain over bicubic interpolation, that after back-projection, and seconds."""

    gain: float
    projected: float
    seconds: float


def enlarged(model: SuperResolver | Anchored | None, file: Any) -> Enlarged:
    """Photographs at twice their size by a model that learns first, or without learning."""
    began = time.process_time()
    if model is not None:
        model.fit([image / 255.0 for image in file["bsds_train"]])
    seconds = time.process_time() - began
    gains, inside = [], np.s_[None, 4:-4, 4:-4]
    for image in file["bsds_test"][:, :320, :480] / 255.0:
        low = resized(image, (160, 240))
        plain = resized(low, image.shape)
        began = time.process_time()
        found = plain if model is None else model.predict(low)
        seconds += time.process_time() - began
        each = (plain, found, back_projected(found, low, 2))
        gains.append([psnr(one[inside], image[inside]) for one in each])
    bicubic, gain, projected = np.mean(gains, axis=0)
    return Enlarged(gain - bicubic, projected - bicubic, seconds)


def enlarging(data: Path | None) -> Reached:
    """Photographs at twice their size: over bicubic, and what needs no learning."""
    if data is None or not there(data, "natural_images"):
        return NO_DATA
    file = np.load(data / "natural_images.npz")
    learned, alone = enlarged(SuperResolver(2, random_state=0), file), enlarged(None, file)
    words = f"+{learned.gain:.2f} dB (back-projection alone +{alone.projected:.2f})"
    return Reached(words, learned.gain >= 1.65)


def beside_anchored(data: Path | None) -> Reached:
    """The same photographs by A+, which takes minutes, compared with 2,000 points."""
    if data is None or not there(data, "natural_images"):
        return NO_DATA
    file = np.load(data / "natural_images.npz")
    peer = enlarged(Anchored(2), file)
    ours = enlarged(SuperResolver(2, 2000, random_state=0), file)
    words = (
        f"+{ours.gain - peer.gain:.2f} dB in 1/{peer.seconds / ours.seconds:.0f} of its time"
        f" (A+ +{peer.gain:.2f}, back-projected +{peer.projected:.2f}, {peer.seconds:.0f} s)"
    )
    return Reached(words, ours.gain >= peer.gain + 0.1 and 5 * ours.seconds <= peer.seconds)


APPLICATIONS = [
    Row("denoise: Yale-like strong noise (σ = .5)", "17.0 dB", "≥ 19.3", strong_noise),
    Row("denoise: within .1 dB of the best of eight ridges", "–", "6 of 6", chosen_strengths),
    Row("inpaint: blocks of faces, over biharmonic", "–", "+2.1 dB", inpainting),
    Row("repair: salt and pepper 10 %, 30 %, covered; two sets", "–", "robust PCA", wild_pixels),
    Row("enlarge ×2 over bicubic", "+1.58 dB", "+1.65", enlarging),
    Row("enlarge ×2 beside A+", "–", "+.1 dB, 1/5 of its time", beside_anchored),
]


def main(arguments: list[str] | None = None) -> None:
    """Print what was reached."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.images", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--data", type=Path, help="folder with yale_b.npz and so on")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="rows with one of these words")
    given = parser.parse_args(arguments)
    for row in APPLICATIONS:
        if not given.only or any(word in row.name for word in given.only):
            print(f"{row.name}: {row.measure(given.data).words}", flush=True)


if __name__ == "__main__":
    main()
