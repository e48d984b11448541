"""
Chin and Suter 2006: incremental kernel PCA, compressed
=======================================================

The sums over rows that write the components down are compressed after each block. The paper's way,
pre-images of every component, beside the library's, inputs that hold the scatter of the rows.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelstream import kernels
from kernelstream.papers import IncrementalKernelPCA

rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, 600)
X = np.stack([x, x**2 + 0.1 * rng.normal(size=600)], axis=1)
kernel = kernels.RBF(gamma=2.0)
centring = np.eye(600) - 1 / 600
best = np.linalg.eigvalsh(centring @ kernel(X) @ centring)[-3:].sum()

# %%
# Where the points are
# --------------------
# Sixteen inputs each: (3 + 1) vectors with four pre-images, and a budget of sixteen points.

figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharey=True)
models = {
    "the paper's: pre-images of the components": IncrementalKernelPCA(
        3, kernel=kernel, n_preimages=4
    ),
    "ours: inputs that hold the scatter": IncrementalKernelPCA(3, kernel=kernel, n_points=16),
}
for axis, (name, model) in zip(axes, models.items(), strict=True):
    share = model.fit_transform(X).var(axis=0).sum() * len(X) / best
    axis.plot(*X.T, ".", color="#dddddd", ms=3)
    axis.plot(*model.basis_points_.T, "o", color="#b3364a")
    axis.set_title(f"{name}\n{share:.3f} of the variance of batch", fontsize=9)
plt.show()

# %%
# Separate, shared, second pass
# -----------------------------
# Figure 1 of the paper as numbers: each use of the pre-images, for growing numbers of them.

counts = (1, 2, 4, 8)
figure, axis = plt.subplots(figsize=(7, 3.5), layout="constrained")
for sharing in ("separate", "shared", "second pass"):
    shares = [
        IncrementalKernelPCA(3, kernel=kernel, n_preimages=n, sharing=sharing)
        .fit_transform(X)
        .var(axis=0)
        .sum()
        * len(X)
        / best
        for n in counts
    ]
    axis.plot(np.array(counts) * 4, shares, "o-", label=sharing)
axis.set(xlabel="points", ylabel="variance in 3 components, batch = 1")
axis.legend()
plt.show()

# %%
# **Learnt:** few pre-images hold most of the variance, and a second pass over them is the best
# use of a budget.
