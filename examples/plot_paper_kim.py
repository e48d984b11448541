"""
Kim 2003: the kernel Hebbian algorithm
======================================

Kernel PCA without the kernel matrix: rows are presented again and again, and each nudges the
components by Sanger's rule. Figure 1 of the paper, and how many passes it takes.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import ConvergenceWarning

from kernelstream import kernels, metrics
from kernelstream.papers import KernelHebbianPCA

rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, 200)
X = np.column_stack([x, -(x**2) + 0.2 * rng.normal(size=200)])
exact = KernelPCA(3, kernel="poly", degree=2, gamma=1.0, coef0=0.0).fit(X)

# %%
# Figure 1
# --------
# Lines of equal score of the first three components: batch above, KHA below.

quadratic = kernels.Polynomial(degree=2, gamma=1.0, coef0=0.0)
model = KernelHebbianPCA(3, kernel=quadratic, random_state=0).fit(X)
print("passes:", model.n_epochs_, "converged:", model.converged_)
grid = np.stack(np.meshgrid(np.linspace(-1.2, 1.2, 60), np.linspace(-1.6, 0.7, 60)), axis=-1)
figure, axes = plt.subplots(2, 3, figsize=(9, 5), layout="constrained", sharex=True, sharey=True)
for row, (name, one) in zip(axes, {"batch": exact, "KHA": model}.items(), strict=True):
    scores = one.transform(grid.reshape(-1, 2)).reshape(60, 60, 3)
    for i, axis in enumerate(row):
        axis.contour(grid[..., 0], grid[..., 1], scores[..., i], 10, cmap="viridis")
        axis.plot(*X.T, ".", color="#9aa1ac", ms=2)
        axis.set_title(f"{name}, component {i + 1}", fontsize=9)
plt.show()

# %%
# Passes
# ------
# The bare rule approaches the components slowly where eigenvalues are close. A Rayleigh-Ritz step
# at the end, over outputs that are there anyway, turns what the rule has found into the components.

passes = [2, 5, 10, 20, 40, 80]
figure, axis = plt.subplots(figsize=(7, 3.5), layout="constrained")
for ritz, name in ((False, "Sanger's rule"), (True, "with a Rayleigh-Ritz step")):
    angles = []
    for n in passes:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = KernelHebbianPCA(
                3, kernel=quadratic, n_epochs=n, tol=0.0, ritz=ritz, random_state=0
            ).fit(X)
        cosines = np.minimum(metrics.direction_cosines(found, exact), 1.0)
        angles.append(np.degrees(np.arccos(cosines)).max())
    axis.loglog(passes, np.maximum(angles, 1e-4), "o-", label=name)
axis.set(xlabel="passes", ylabel="largest angle to batch, degrees")
axis.legend()
plt.show()

# %%
# **Learnt:** the functions are those of batch kernel PCA, without its matrix; the last step, over
# outputs that are there anyway, is worth many passes.
