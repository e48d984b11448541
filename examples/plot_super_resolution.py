"""
Super-resolution learned from one photograph
============================================

``images.SuperResolver`` learns from scikit-learn's photograph of a temple (china.jpg) how detail
looks that bicubic interpolation misses, in one pass over its patches. Then a flower, shrunk to half
its size, is enlarged again.

``python examples/plot_super_resolution.py picture.png`` also writes the picture to that file.
"""

import sys
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_images

from kernelstream.images import SuperResolver
from kernelstream.images.files import as_bytes, resized

SCALE, WINDOW = 2, (slice(70, 230), slice(220, 420))  # the part of the flower that is shown


def shrunk(image: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Each colour in another size, bicubic."""
    planes = [resized(image[:, :, colour].astype(float) / 255, shape) for colour in range(3)]
    return as_bytes(np.stack(planes, axis=2))


def psnr(found: np.ndarray, truth: np.ndarray) -> float:
    error = np.mean((found.astype(float) - truth.astype(float)) ** 2)
    return float(10 * np.log10(255**2 / error))


# %%
# Learn from the temple, enlarge the flower
# -----------------------------------------
# ``partial_fit`` takes one image at a time; 40,000 of its patches are looked at.

china, flower = load_sample_images().images
truth = flower[:426, :640]
small = shrunk(truth, (213, 320))

begin = perf_counter()
resolver = SuperResolver(SCALE, basis=200, patches_per_image=40_000, random_state=0)
resolver.partial_fit(china)
learned = perf_counter()
found = resolver.predict(small)
print(f"learned in {learned - begin:.1f} s, enlarged in {perf_counter() - learned:.1f} s")

# %%
# Side by side
# ------------

pictures = {
    "pixels repeated": np.kron(small, np.ones((SCALE, SCALE, 1), dtype=np.uint8)),
    "bicubic": shrunk(small, truth.shape[:2]),
    "SuperResolver": found,
    "original": truth,
}
figure, axes = plt.subplots(2, 2, figsize=(8.4, 7.0), layout="constrained")
for axis, (name, image) in zip(axes.flat, pictures.items(), strict=True):
    quality = "" if name == "original" else f", {psnr(image, truth):.2f} dB"
    if quality:
        print(f"{name:16} {psnr(image, truth):6.2f} dB")
    axis.imshow(image[WINDOW], interpolation="nearest")
    axis.set_title(name + quality, loc="left", fontsize=10)
    axis.set_axis_off()
if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=110)
plt.show()
