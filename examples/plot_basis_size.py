"""
How many points?
================

The size of the basis has to be chosen: more points, less error, more work. The certificate says
what the choice costs without computing exact kernel PCA, and a basis with a tolerance makes the
choice by itself.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_swiss_roll
from sklearn.decomposition import KernelPCA
from sklearn.metrics.pairwise import rbf_kernel

from kernelstream import StreamingKernelPCA, landmarks

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
    low, high = (models[m].certificate_.eigenvalue_intervals / len(X)).T
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
        models[m].certificate_.excess_bound
        / models[m].certificate_.reconstruction_error_lower_bound
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
# Choosing by itself
# ------------------
# On a stream nobody can try six sizes. ``landmarks.Centroids(n_points, tolerance=…)`` starts with
# 32 points and adds some while the estimated share of the variance that all points together miss is
# above the tolerance, up to ``n_points``. The stream: 20,000 rows of the same roll that come from
# its inside to its outside, so that there is always something new.

stream, along = make_swiss_roll(20_000, noise=0.3, random_state=1)
stream = stream[np.argsort(along)] / 10
total = 1 - rbf_kernel(stream[::10], gamma=GAMMA).mean()
figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
print("tolerance  points  missed")
for tolerance, shade in ((0.05, 0.4), (0.02, 0.6), (0.005, 0.85)):
    model = StreamingKernelPCA(
        gamma=GAMMA, basis=landmarks.Centroids(500, tolerance=tolerance), random_state=0
    )
    seen, points = [], []
    for block in np.array_split(stream, 40):
        model.partial_fit(block)
        seen.append(model.n_samples_seen_)
        points.append(len(model.basis_points_))
    missed = model.reconstruction_error(stream[::10]).mean() / total
    print(f"{tolerance:9.1%}  {points[-1]:6}  {missed:6.2%}")
    label = f"tolerance {tolerance:.1%}"
    axis.step(seen, points, where="post", color=plt.get_cmap("Reds")(shade), lw=2, label=label)
axis.set(xlabel="rows seen", ylabel="points", ylim=(0, None))
axis.spines[["top", "right"]].set_visible(False)
axis.legend(frameon=False)
axis.set_title("The basis grows with what it has to describe", loc="left")
plt.show()

# %%
# **Learnt:** with rows at hand, double the size until ``certificate_`` grants the wish; it is
# proved, not estimated. On a stream, give a tolerance: the basis grows where the rows are not yet
# described, and stops. There, growth is decided by an estimate, and the certificate says what is
# certain.
