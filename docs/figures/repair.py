"""Draw ``docs/figures/repair.png``: gaps, wild pixels and covered faces, and what is made of them.

    python docs/figures/repair.py FOLDER

``FOLDER`` has ``frey.npz`` (1,965 faces of 28 by 20 pixels).
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from kernelstream import StreamingKernelPCA


def main(folder: Path) -> None:
    """Learn 1,800 faces, spoil others, repair them, draw both."""
    images = np.load(folder / "frey.npz")["images"] / 255.0
    images = images[np.random.default_rng(0).permutation(len(images))].reshape(len(images), -1)
    model = StreamingKernelPCA(150, basis=600, random_state=0).fit(images[:1800])
    rng = np.random.default_rng(1)
    clean = images[1800:1804]
    hole = np.zeros((28, 20), dtype=bool)
    hole[8:16, 5:14] = True
    wild = rng.random(clean.shape) < 0.3
    salted = np.where(wild, rng.integers(0, 2, clean.shape), clean)
    covered = np.where(np.roll(hole, 6, axis=0).ravel(), rng.random(clean.shape), clean)
    shown = {
        "missing": (np.where(hole.ravel(), np.nan, clean), "squared"),
        "30 % salt and pepper": (salted, "robust"),
        "covered": (covered, "robust"),
    }
    figure, axes = plt.subplots(3, 12, figsize=(9.6, 3.9))
    for block, (title, (given, loss)) in enumerate(shown.items()):
        rows = (given, model.repair(given, loss=loss), clean)
        for line, faces in enumerate(rows):
            for column, face in enumerate(faces):
                ax = axes[line, 4 * block + column]
                ax.imshow(np.ma.masked_invalid(face.reshape(28, 20)), cmap="gray", vmin=0, vmax=1)
                ax.set_facecolor("#b3364a")
                ax.set_xticks([])
                ax.set_yticks([])
        axes[0, 4 * block].set_title(title, loc="left", fontsize=9)
    for line, word in enumerate(("given", "repaired", "clean")):
        axes[line, 0].set_ylabel(word, fontsize=9)
    figure.tight_layout(pad=0.3)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
