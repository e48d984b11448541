"""
Two streams, one model
======================

Two machines have each seen a part of the world, and the rows cannot be brought together. The models
can: merging needs no row, only what the models have kept. What does the result know, and how much
of it is certain?
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.decomposition import KernelPCA

from kernelstream import StreamingKernelPCA, load, metrics, plot

RED, GREY, INK = "#b3364a", "#9aa1ac", "#222222"

# %%
# Two parts of the world
# ----------------------
# 4,000 points of two moons: one machine sees the upper moon, the other the lower one. The width of
# the kernel has to be the same number on both, so it is given; a width taken from the rows would
# differ from stream to stream, and ``merge`` would say so.

X, moon = make_moons(4000, noise=0.08, random_state=0)
settings = dict(n_components=6, gamma=2.0, basis=40, certify="tight")
upper = StreamingKernelPCA(**settings, random_state=0).fit(X[moon == 0])
lower = StreamingKernelPCA(**settings, random_state=1).fit(X[moon == 1])

# %%
# Merging files
# -------------
# Each machine sends a file. The files are loaded and merged; neither is changed. (On the command
# line: ``kernelstream merge upper.safetensors lower.safetensors -o both.safetensors``.)

folder = Path(tempfile.mkdtemp())
upper.save(folder / "upper.safetensors")
lower.save(folder / "lower.safetensors")
both = load(folder / "upper.safetensors").merge(load(folder / "lower.safetensors"))
size = sum(path.stat().st_size for path in folder.iterdir())
print(f"two files, {size / 1e6:.2f} MB; the merged model has seen {both.n_samples_seen_:,} rows")

# %%
# Lines of equal score of the first component. Each machine knows its own moon, and its component
# runs along it. The merged component tells the moons apart, which neither machine could know.

figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), sharex=True, sharey=True, layout="constrained")
for axis, model, title in zip(
    axes, (upper, lower, both), ("the upper moon", "the lower moon", "merged"), strict=True
):
    plot.contours(model, X[::8], ax=axis).set_title(title, loc="left")
plt.show()

# %%
# What was lost?
# --------------
# The merged basis has 40 points again, for both moons. The certificate accounts for what the two
# bases missed and for what the common one loses: it names an interval for every eigenvalue of exact
# kernel PCA of all 4,000 rows, rows that no machine has ever seen together. Here they are, so the
# truth can be drawn beside it, with a model that has seen all rows itself.

alone = StreamingKernelPCA(**settings, random_state=0).fit(X)
exact = KernelPCA(6, kernel="rbf", gamma=2.0, eigen_solver="randomized", random_state=0).fit(X)
print(both.certificate_)

figure, axis = plt.subplots(figsize=(8, 3.8), layout="constrained")
number = np.arange(1, 7)
for model, colour, shift, label in (
    (both, RED, -0.12, "merged"),
    (alone, GREY, 0.12, "one model of all rows"),
):
    low, high = 100 * (model.certificate_.details.eigenvalue_intervals.T / exact.eigenvalues_ - 1)
    axis.vlines(number + shift, low, high, color=colour, lw=7, label=label)
axis.axhline(0, color=INK, lw=1.2, label="the truth")
axis.set(xlabel="component", ylabel="variance, % from the exact one")
axis.spines[["top", "right"]].set_visible(False)
axis.legend(frameon=False, loc="upper left")
axis.set_title("Intervals that certainly hold the exact variance", loc="left")
plt.show()

for name, model in {"upper": upper, "lower": lower, "merged": both, "all rows": alone}.items():
    share = metrics.captured_variance(model, X[::2])
    print(f"{name:9} captures {share:.4f} of what exact kernel PCA captures")

# %%
# **Learnt:** models add up. The merged model captures almost as much as one that has seen all rows,
# from files of a fixed size, however long the streams were. Its certificate is wider, because it
# has to allow for what happened on the way, and it is still a certificate: the truth is inside.
