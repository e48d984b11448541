"""
How many points?
================

The size of the basis has to be chosen: more points, less error, more work. The certificate says
what the choice costs without computing exact kernel PCA.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_swiss_roll
from sklearn.decomposition import KernelPCA
from sklearn.metrics.pairwise import rbf_kernel

from kernelstream import StreamingKernelPCA

GAMMA, R = 1.0, 6
RED, GREY, INK = "#b3364a", "#9aa1ac", "#222222"

# %%
# The rows
# --------
# 3,000 points of a noisy swiss roll: few enough to compute exact kernel PCA, which serves as the
# judge at the end of each step and is not used for anything else.

X = make_swiss_roll(3000, noise=0.3, random_state=0)[0] / 10
exact = KernelPCA(R, kernel="rbf", gamma=GAMMA, eigen_solver="randomized", random_state=0).fit(X)

# %%
# What the certificate says
# -------------------------
# For each size ``fit`` passes over the rows twice, the second time with a basis that stands still.
# ``certify="tight"`` asks for the sharper account. The certificate then names, for every eigenvalue
# that exact kernel PCA would find, an interval that certainly holds it.

sizes = [15, 25, 40, 70, 120, 200]
models = {
    m: StreamingKernelPCA(R, gamma=GAMMA, basis=m, certify="tight", random_state=0).fit(X)
    for m in sizes
}
print(models[70].certificate_)

figure, axis = plt.subplots(figsize=(9, 4), layout="constrained")
for i, m in enumerate(sizes):
    low, high = (models[m].certificate_.details.eigenvalue_intervals / len(X)).T
    place = np.arange(1, R + 1) + (i - 2.5) * 0.12
    shade = plt.get_cmap("Reds")(0.35 + 0.13 * i)
    axis.vlines(place, low, high, color=shade, lw=5, label=f"{m} points")
exact_variance = exact.eigenvalues_ / len(X)
axis.hlines(exact_variance, np.arange(1, R + 1) - 0.4, np.arange(1, R + 1) + 0.4, color=INK, lw=1,
            label="exact")  # fmt: skip
axis.set(xlabel="component", ylabel="variance", ylim=(0, None))
axis.spines[["top", "right"]].set_visible(False)
axis.legend(frameon=False)
axis.set_title("Where the exact variance certainly is", loc="left")
plt.show()

# %%
# Choosing by a wish
# ------------------
# Say the wish is: *the reconstruction error shall be at most 1 % above that of the best possible
# subspace*. ``excess_bound`` beside ``reconstruction_error_lower_bound`` answers it. The truth,
# which a stream cannot know, is drawn beside it: the bound is never below.

bound = np.array(
    [
        models[m].certificate_.details.excess_bound
        / models[m].certificate_.details.reconstruction_error_lower_bound
        for m in sizes
    ]
)
total = 1 - rbf_kernel(X, gamma=GAMMA).mean()  # variance in feature space
best = total - exact_variance.sum()
truth = np.array([models[m].reconstruction_error(X).mean() / best - 1 for m in sizes])
chosen = sizes[int(np.argmax(bound <= 0.01))]
print(f"certainly within 1 % of the best possible error: {chosen} points")

figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
axis.loglog(sizes, bound, "o-", color=RED, label="certified bound")
axis.loglog(sizes, truth, "o-", color=GREY, label="truth")
axis.axhline(0.01, color=INK, lw=0.8, ls=":")
axis.annotate("the wish: 1 %", (sizes[0], 0.0105), fontsize=9, va="bottom")
axis.set(xlabel="points", ylabel="error above the best possible", xticks=sizes, xticklabels=sizes)
axis.minorticks_off()
axis.spines[["top", "right"]].set_visible(False)
axis.legend(frameon=False)
axis.set_title(f"Of these sizes, {chosen} points are certainly enough", loc="left")
plt.show()

# %%
# **Learnt:** if the rows are available, double the size until ``certificate_`` guarantees the
# accuracy that you need. ``basis="auto"`` chooses a size by an estimate instead, and
# :func:`kernelstream.suggest` shows the curve behind that choice.
