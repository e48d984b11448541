"""
Denoising digits without a clean image
======================================

1,497 of scikit-learn's 1,797 digits (8×8 pixels in [0, 1]) get normal noise and stream by in
blocks, once; nothing ever sees a clean one. The other 300, noisy too, are cleaned in three ways.

``python examples/plot_denoise_digits.py picture.png`` also writes the picture to that file.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from kernelstream.images import Denoiser

NOISE, N_STREAMED, BLOCK, SHOWN = 0.35, 1497, 100, 10

rng = np.random.default_rng(0)
clean = rng.permutation(load_digits().images / 16.0)
noisy = clean + NOISE * rng.normal(size=clean.shape)
streamed, test, truth = noisy[:N_STREAMED], noisy[N_STREAMED:], clean[N_STREAMED:]


def psnr(found: np.ndarray) -> float:
    """Peak signal-to-noise ratio of the 300 digits, in decibels."""
    return float(np.mean(10 * np.log10(1 / np.mean((found - truth) ** 2, axis=(1, 2)))))


# %%
# Two ways with a kernel
# ----------------------
# ``method="project"`` is the classical one: project on the components of kernel PCA, then look for
# a pre-image. The default regresses the clean image on kernel features of the noisy one: Stein's
# identity gives the moments with the clean image that nobody has seen.

stein = Denoiser(NOISE**2, basis=100, random_state=0)
classical = Denoiser(NOISE**2, basis=100, method="project", n_components=25, random_state=0)
for begin in range(0, N_STREAMED, BLOCK):
    stein.partial_fit(streamed[begin : begin + BLOCK])
    classical.partial_fit(streamed[begin : begin + BLOCK])

# %%
# And one without
# ---------------
# Linear PCA gets the number of components that is best on these very 300 digits.

linear = {}
for r in range(4, 40):
    pca = PCA(r).fit(streamed.reshape(-1, 64))
    scores = pca.transform(test.reshape(-1, 64))
    linear[r] = pca.inverse_transform(scores).reshape(test.shape)
best = max(linear, key=lambda r: psnr(linear[r]))

# %%
# Side by side
# ------------

rows = {
    "clean": truth,
    "noisy": test,
    f"linear PCA, best r = {best}": linear[best],
    "kernel PCA, pre-images": classical.transform(test),
    "Denoiser": stein.transform(test),
}
for name, images in rows.items():
    if name != "clean":
        print(f"{name:26} {psnr(images):6.2f} dB")

figure, axes = plt.subplots(len(rows), 1, figsize=(7.2, 4.6), layout="constrained")
for axis, (name, images) in zip(axes, rows.items(), strict=True):
    quality = "" if name == "clean" else f", {psnr(images):.1f} dB"
    axis.imshow(np.hstack(list(images[:SHOWN])), cmap="gray_r", vmin=0, vmax=1)
    axis.set_title(name + quality, loc="left", fontsize=9)
    axis.set_axis_off()
if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=110)
plt.show()
