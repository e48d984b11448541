"""
Noise out of a photograph
=========================

``images.denoise_photo`` takes the noise out of one photograph, in colour, with nothing to learn
from but its own patches: windows of 8×8 pixels that overlap. Gaps are filled on the way.
"""

import matplotlib.pyplot as plt
import numpy as np
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
# From its own patches
# --------------------
# A patch of a roof has other components than a patch of the sky. Cells of patches that are alike
# and the components of each are found together, and components are shrunk by how far their
# variance is above that of the noise.

found = images.denoise_photo(noisy, SIGMA**2, cells=12, random_state=0)
show({"given": noisy, "denoised": found, "clean": clean})
plt.show()

# %%
# Grey, and noise that nobody knows
# ---------------------------------
# Each colour by itself is a grey photograph. It is worse so, since edges are where the colours
# agree: the three are better denoised together. Without ``noise_variance`` the noise is measured
# where the photograph is flattest.

apart = [images.denoise_photo(noisy[:, :, k], SIGMA**2, cells=12, random_state=0) for k in range(3)]
measured = images.denoise_photo(noisy, cells=12, random_state=0)
show(
    {"colours apart": np.stack(apart, axis=2), "together, noise measured": measured, "clean": clean}
)
plt.show()

# %%
# Gaps
# ----
# NaN, or ``mask=``, is a pixel that is missing: here lines, and a tenth of all pixels.

gaps = rng.random(clean.shape[:2]) < 0.1
gaps[20::32] = gaps[21::32] = True
given = np.where(gaps[:, :, None], np.nan, noisy)
filled = images.denoise_photo(given, SIGMA**2, cells=12, random_state=0)
show({"given": given, "denoised and filled": filled, "clean": clean})
plt.show()

# %%
# **Learnt:** ``denoise_photo(photo, noise_variance)`` needs no other photograph and no training;
# give colours together, and gaps as NaN. For many small images of one kind, ``Denoiser`` learns
# from all of them.
